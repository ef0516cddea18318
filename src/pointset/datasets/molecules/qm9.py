"""QM9's own features, read from SMILES: hydrogens are nodes, atoms are elements, bonds 1, 2, 3 and 4 (aromatic)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pointset.datasets.molecules.features import Column, atoms_of, bonds_of, edges_of
from pointset.datasets.molecules.parsing import (
    Molecule,
    MoleculeError,
    canonical,
    parse,
    quiet_rdkit,
    require_rdkit,
    screen,
    shown,
)

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond

ELEMENTS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}  # atomic numbers; in this order the categories 0…4 of x
BOND_TYPES = {1.0: 1, 2.0: 2, 3.0: 3, 1.5: 4}  # RDKit's order of a bond → 1 single, 2 double, 3 triple, 4 aromatic
QM9_ATOM_COLUMNS = (Column("element", tuple(ELEMENTS), "element; hydrogens are atoms like all others"),)
QM9_BOND_COLUMNS = (Column("bond_type", ("none", "SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"), "0 never occurs"),)


def read_qm9_molecule(smiles: str, *, in_canonical_order: bool = True) -> Molecule:
    """The molecule with x (n, 1) of elements 0 … 4 and edge_attr (m, 1) of bond types 1 … 4; hydrogens stand last.

    Raises:
        MoleculeError: the SMILES cannot be read, or has an atom or a bond that QM9 does not have.
        MissingExtraError: RDKit is not installed.
    """
    require_rdkit()
    from rdkit import Chem

    text = screen(smiles)
    with quiet_rdkit(text):
        mol = parse(text)
        if in_canonical_order:
            mol, text = canonical(mol, text)
        mol = Chem.AddHs(mol)
        bonds = bonds_of(mol)
        return Molecule(
            x=np.array([[_element(atom, text)] for atom in atoms_of(mol)], dtype=np.int64),
            edges=edges_of(bonds),
            edge_attr=np.array([_bond_type(bond, text) for bond in bonds], dtype=np.int64).reshape(-1, 1),
            pos=None,
            smiles=text,
        )


def _element(atom: Atom, smiles: str) -> int:
    symbol = atom.GetSymbol()
    if symbol not in ELEMENTS:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has the element {symbol} (atom {atom.GetIdx()}), which QM9 does not have; "
            f"expected {', '.join(ELEMENTS)}. Train on data that has it, with the general molecule features"
        )
    return list(ELEMENTS).index(symbol)


def _bond_type(bond: Bond, smiles: str) -> int:
    kind = BOND_TYPES.get(bond.GetBondTypeAsDouble())
    if kind is None:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has a bond of type {bond.GetBondType().name}, which QM9 does not have; "
            "expected single, double, triple or aromatic bonds"
        )
    return kind
