"""A reader of molecules that ends its process at one of them; light, as worker processes import it."""

from __future__ import annotations

import os

from pointset.datasets.molecules.parsing import Molecule
from pointset.datasets.molecules.reader import MoleculeReader


def read_or_die(smiles: str) -> Molecule:
    if smiles == "die":
        os._exit(9)
    return MoleculeReader()(smiles)
