"""ZINC's own features: 28 atom types and the Kekulé bond types 1, 2 and 3.

An atom's type is its symbol, the hydrogens that its bracket in the SMILES names, and its charge: ``[NH2+]`` is
``N H2 +``, ``O`` is ``O``. A hydrogen is named only on charged and on chiral atoms, so ``C H1`` is a stereocentre.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pointset.datasets.molecules.canonical import canonical
from pointset.datasets.molecules.columns import Column
from pointset.datasets.molecules.features import atoms_of, bonds_of, edges_of
from pointset.datasets.molecules.kekule import kekulise
from pointset.datasets.molecules.molecule import Molecule, MoleculeError
from pointset.datasets.molecules.parsing import parse, screen
from pointset.datasets.molecules.rdkit_guard import rdkit_at_work, require_rdkit, shown

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond

_ATOM_TYPES = (
    "C, O, N, F, C H1, S, Cl, O -, N H1 +, Br, N H3 +, N H2 +, N +, N -, S -, I, P, O H1 +, N H1 -, O +, S +, P H1, "
    "P H2, C H2 -, P +, S H1 +, C H1 -, P H1 +"
)
ZINC_ATOM_COLUMNS = (Column("atom_type", tuple(_ATOM_TYPES.split(", ")), "symbol, hydrogens named, charge"),)
ZINC_BOND_COLUMNS = (Column("bond_type", ("none", "SINGLE", "DOUBLE", "TRIPLE"), "Kekulé bond order; 0 never occurs"),)

_TYPE_INDEX = {label: index for index, label in enumerate(ZINC_ATOM_COLUMNS[0].labels)}
_BOND_INDEX = {label: index for index, label in enumerate(ZINC_BOND_COLUMNS[0].labels)}


def read_zinc_molecule(smiles: str) -> Molecule:
    """The molecule with x (n, 1) of atom types 0 … 27 and edge_attr (m, 1) of bond types 1 … 3, written canonically.

    Raises:
        MoleculeError: the SMILES cannot be read, or has an atom or a bond that ZINC has not.
        MissingExtraError: RDKit is not installed.
    """
    require_rdkit()
    text = screen(smiles)
    with rdkit_at_work(text):
        mol, text = canonical(parse(text))
        mol = kekulise(mol)
        bonds = bonds_of(mol)
        return Molecule(
            x=np.array([[_atom_type(atom, text)] for atom in atoms_of(mol)], dtype=np.int64),
            edges=edges_of(bonds),
            edge_attr=np.array([_bond_type(bond, text) for bond in bonds], dtype=np.int64).reshape(-1, 1),
            pos=None,
            smiles=text,
        )


def _atom_type(atom: Atom, smiles: str) -> int:
    hydrogens, charge = atom.GetNumExplicitHs(), atom.GetFormalCharge()
    label = atom.GetSymbol()
    if hydrogens:
        label += f" H{hydrogens}"
    if charge:
        label += " " + ("+" if charge > 0 else "-") + (str(abs(charge)) if abs(charge) > 1 else "")
    if label not in _TYPE_INDEX:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has an atom of type {label!r} (number {atom.GetIdx()}), which ZINC has not; "
            f"expected one of: {_ATOM_TYPES}. Train on data that has it, with pointset's general molecule features"
        )
    return _TYPE_INDEX[label]


def _bond_type(bond: Bond, smiles: str) -> int:
    label = bond.GetBondType().name
    if label not in _BOND_INDEX:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has a bond of type {label}, which ZINC has not; "
            "expected single, double, triple or aromatic bonds"
        )
    return _BOND_INDEX[label]
