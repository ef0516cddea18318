"""Three-dimensional coordinates for a molecule that was given without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pointset.datasets.molecules.molecule import MoleculeError
from pointset.datasets.molecules.rdkit_guard import shown

if TYPE_CHECKING:
    from rdkit.Chem import Mol

MAX_EMBEDDED_ATOMS = 400
"""Most atoms, hydrogens included, that are embedded: 283 take 12 s and the time grows with more than their cube."""


def embed(mol: Mol, smiles: str, seed: int) -> npt.NDArray[np.float64]:
    """Coordinates in Å of all atoms of ``mol``, whose hydrogens must be explicit: (n, 3), the same for the same seed.

    ETKDG version 3 gives the first positions (again from random coordinates where it fails), at most 200 steps of the
    MMFF94 force field then relax them, where that force field knows all atoms.
    """
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

    if mol.GetNumAtoms() > MAX_EMBEDDED_ATOMS:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has {mol.GetNumAtoms():,} atoms with hydrogens; positions are made for at "
            f"most {MAX_EMBEDDED_ATOMS}: leave conformer_seed away, or bring positions of your own"
        )
    parameters = rdDistGeom.ETKDGv3()
    # RDKit draws the same for 0 and 1. (Its stubs give every property the type of the class.)
    parameters.randomSeed = seed + 1  # type: ignore[assignment]
    for random_coordinates in (False, True):
        parameters.useRandomCoords = random_coordinates  # type: ignore[assignment]
        if rdDistGeom.EmbedMolecule(mol, parameters) >= 0:
            break
    else:
        raise MoleculeError(
            f"RDKit finds no positions in space for the SMILES {shown(smiles)} (conformer_seed={seed}); "
            "try another seed, or read it without positions"
        )
    if rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        rdForceFieldHelpers.MMFFOptimizeMolecule(mol)
    return np.array(mol.GetConformer().GetPositions(), dtype=np.float64)
