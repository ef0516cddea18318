"""One writing for each molecule, so that its arrays do not depend on how it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.datasets.molecules.parsing import parse

if TYPE_CHECKING:
    from rdkit.Chem import Mol


def canonical(mol: Mol, *, lenient: bool = False) -> tuple[Mol, str]:
    """The molecule read again from its canonical SMILES, and that SMILES.

    Reordering the atoms would not do: the chirality tags CW and CCW refer to the order of the bonds, so only molecules
    read from one and the same text have equal tags. The writing is repeated until it no longer changes; should two or
    more alternate, the first of them in alphabetical order is taken.
    """
    from rdkit import Chem

    seen: list[str] = []
    while (smiles := Chem.MolToSmiles(mol)) not in seen:
        seen.append(smiles)
        mol = parse(smiles, lenient=lenient)
    smiles = min(seen[seen.index(smiles) :])
    return (mol if smiles == seen[-1] else parse(smiles, lenient=lenient)), smiles
