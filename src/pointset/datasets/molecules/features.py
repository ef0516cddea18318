"""RDKit molecule → the feature arrays of OGB (:mod:`pointset.datasets.molecules.columns`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pointset.datasets.molecules.columns import ATOM_COLUMNS, BOND_COLUMNS, MISC, Column
from pointset.datasets.molecules.molecule import Molecule

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol

Integers = npt.NDArray[np.int64]


class _Reading(NamedTuple):
    """How a column is filled: ask RDKit, then look the answer up; what is not there has the last index."""

    ask: Callable[[Any], int]
    lookup: dict[int, int]
    last: int


def featurise(mol: Mol, smiles: str, pos: npt.NDArray[np.float64] | None = None) -> Molecule:
    """Arrays in RDKit's order of atoms and bonds."""
    atom_readings, bond_readings = _readings()
    atoms, bonds = atoms_of(mol), bonds_of(mol)
    return Molecule(
        x=_columns(atoms, atom_readings),
        edges=edges_of(bonds),
        edge_attr=_columns(bonds, bond_readings),
        pos=pos,
        smiles=smiles,
    )


def atoms_of(mol: Mol) -> list[Atom]:
    """All atoms; twice as fast as RDKit's own iteration, which asks for the number of atoms at each step."""
    return [mol.GetAtomWithIdx(index) for index in range(mol.GetNumAtoms())]


def bonds_of(mol: Mol) -> list[Bond]:
    """All bonds, as :func:`atoms_of`."""
    return [mol.GetBondWithIdx(index) for index in range(mol.GetNumBonds())]


def edges_of(bonds: Sequence[Bond]) -> Integers:
    """(2, m) the atoms that each bond joins."""
    begin, end = [bond.GetBeginAtomIdx() for bond in bonds], [bond.GetEndAtomIdx() for bond in bonds]
    return np.array([begin, end], dtype=np.int64)


def _columns(items: Sequence[Any], readings: tuple[_Reading, ...]) -> Integers:
    rows = [[lookup.get(ask(item), last) for item in items] for ask, lookup, last in readings]
    return np.ascontiguousarray(np.array(rows, dtype=np.int64).T)  # (len(items), len(readings))


@cache
def _readings() -> tuple[tuple[_Reading, ...], tuple[_Reading, ...]]:
    from rdkit import Chem

    atom: list[tuple[Callable[[Any], int], Any]] = [
        (Chem.Atom.GetAtomicNum, int),
        (Chem.Atom.GetChiralTag, Chem.ChiralType),
        (Chem.Atom.GetTotalDegree, int),
        (Chem.Atom.GetFormalCharge, int),
        (Chem.Atom.GetTotalNumHs, int),
        (Chem.Atom.GetNumRadicalElectrons, int),
        (Chem.Atom.GetHybridization, Chem.HybridizationType),
        (Chem.Atom.GetIsAromatic, bool),
        (Chem.Atom.IsInRing, bool),
    ]
    bond: list[tuple[Callable[[Any], int], Any]] = [
        (Chem.Bond.GetBondType, Chem.BondType),
        (Chem.Bond.GetStereo, Chem.BondStereo),
        (Chem.Bond.GetIsConjugated, bool),
    ]
    return _with_lookup(atom, ATOM_COLUMNS), _with_lookup(bond, BOND_COLUMNS)


def _with_lookup(asks: list[tuple[Callable[[Any], int], Any]], columns: tuple[Column, ...]) -> tuple[_Reading, ...]:
    return tuple(
        _Reading(
            ask, {_answer(label, kind): i for i, label in enumerate(column.labels) if label != MISC}, column.size - 1
        )
        for (ask, kind), column in zip(asks, columns, strict=True)
    )


def _answer(label: str, kind: Any) -> int:
    """The whole number that RDKit answers where the label holds."""
    if kind is int:
        return int(label)
    if kind is bool:
        return int(label == "True")
    return int(kind.names[label])
