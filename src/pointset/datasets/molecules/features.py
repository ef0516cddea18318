"""The nine atom and three bond columns of the Open Graph Benchmark (OGB): as data, on cards, and read from RDKit.

Value i of a column means its i-th label; what no label names is the last one, ``misc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pointset.arrays import Floats, Integers
from pointset.datasets.molecules.parsing import Molecule, Reading
from pointset.specs import Categories

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol


class Column(NamedTuple):
    """One categorical feature column."""

    name: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def size(self) -> int:
        """How many values there are: 0 … size − 1."""
        return len(self.labels)

    @property
    def values(self) -> str:
        """The labels in order on one line, a run of numbers by its ends: ``0 … 10, misc``."""
        numbers = [label for label in self.labels if label.lstrip("-").isdecimal()]
        run = [f"{numbers[0]} … {numbers[-1]}"] if numbers else []
        return ", ".join([*run, *(label for label in self.labels if label not in numbers)])


MISC = "misc"


def _numbers(first: int, last: int) -> tuple[str, ...]:
    return (*map(str, range(first, last + 1)), MISC)


_FLAG = ("False", "True")

ATOM_COLUMNS: tuple[Column, ...] = (
    Column("atomic_num", _numbers(1, 118), "atomic number of the element; the wildcard atom is misc"),
    Column(
        "chirality",
        ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER", MISC),
        "sense in which the neighbours turn, in the order in which the SMILES names them",
    ),
    Column("degree", _numbers(0, 10), "neighbours, hydrogens included"),
    Column("formal_charge", _numbers(-5, 5), "formal charge"),
    Column("numH", _numbers(0, 8), "hydrogens on the atom that are not nodes of the graph"),
    Column("number_radical_e", _numbers(0, 4), "unpaired electrons"),
    Column("hybridization", ("SP", "SP2", "SP3", "SP3D", "SP3D2", MISC), "hybridisation; S, SP2D and unknown are misc"),
    Column("is_aromatic", _FLAG, "in an aromatic system"),
    Column("is_in_ring", _FLAG, "in a ring"),
)

BOND_COLUMNS: tuple[Column, ...] = (
    Column("bond_type", ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", MISC), "bond order; dative and others are misc"),
    Column(
        "bond_stereo",
        ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY"),
        "arrangement about a double bond",
    ),
    Column("is_conjugated", _FLAG, "in a conjugated system"),
)

CHIRALITY, STEREO = 1, 1  # columns whose value 0 means that the SMILES says nothing

SYMBOLS = (
    "H", "He", "Li", "Be", "B", "C", "N", "O", "F", "Ne", "Na", "Mg", "Al", "Si", "P", "S", "Cl", "Ar", "K", "Ca", "Sc",
    "Ti", "V", "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Kr", "Rb", "Sr", "Y", "Zr",
    "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd", "In", "Sn", "Sb", "Te", "I", "Xe", "Cs", "Ba", "La", "Ce", "Pr",
    "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W", "Re", "Os", "Ir", "Pt",
    "Au", "Hg", "Tl", "Pb", "Bi", "Po", "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U", "Np", "Pu", "Am", "Cm", "Bk",
    "Cf", "Es", "Fm", "Md", "No", "Lr", "Rf", "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv",
    "Ts", "Og",
)  # fmt: skip
"""``SYMBOLS[z - 1]`` is the element of atomic number z = 1 … 118."""

NODE = Categories(*(column.size for column in ATOM_COLUMNS))
EDGE = Categories(*(column.size for column in BOND_COLUMNS))
NODE_LABELS = ((*SYMBOLS, MISC), *(column.labels for column in ATOM_COLUMNS[1:]))  # elements, not atomic numbers
EDGE_LABELS = (tuple(map(str.lower, BOND_COLUMNS[0].labels)), *(column.labels for column in BOND_COLUMNS[1:]))
OGB_FEATURES: dict[str, Any] = {
    "node": NODE,
    "edge": EDGE,
    "node_columns": tuple(f"{column.name}: {column.meaning}" for column in ATOM_COLUMNS),
    "edge_columns": tuple(f"{column.name}: {column.meaning}" for column in BOND_COLUMNS),
    "node_labels": NODE_LABELS,
    "edge_labels": EDGE_LABELS,
    "molecules": "ogb",
}
"""What every card of molecules with these features says of them."""


_Ask = Callable[[Any], int]  # what to ask RDKit of an atom or a bond


def featurise(reading: Reading, pos: Floats | None = None) -> Molecule:
    """Arrays in the order of the reading's SMILES; bonds stand in RDKit's order, or sorted where atoms were moved."""
    mol, smiles, order = reading
    atom_rows, bond_rows = _feature_rows()
    bonds = bonds_of(mol)
    # Only these characters set them; RDKit's answers in enumerations cost three times as much as those in numbers.
    chirality, stereo = "@" in smiles, "/" in smiles or "\\" in smiles
    x = atom_rows.of(atoms_of(mol), leave_out=None if chirality else CHIRALITY)
    edges, edge_attr = edges_of(bonds), bond_rows.of(bonds, leave_out=None if stereo else STEREO)
    if order is not None:
        x, place = x[order], np.argsort(order)
        edges = np.sort(place[edges], axis=0)
        by_atoms = np.lexsort(edges[::-1])
        edges, edge_attr = edges[:, by_atoms], edge_attr[by_atoms]
    return Molecule(x, edges, edge_attr, pos, smiles)


def atom_row(atom: Atom) -> Integers:
    """(9,) of one atom."""
    return _feature_rows()[0].of([atom], leave_out=None)[0]  # type: ignore[no-any-return]


def bond_row(bond: Bond) -> Integers:
    """(3,) of one bond."""
    return _feature_rows()[1].of([bond], leave_out=None)[0]  # type: ignore[no-any-return]


def atoms_of(mol: Mol) -> list[Atom]:
    """All atoms; twice as fast as RDKit's own iteration, which asks for the number of atoms at each step."""
    return list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))


def bonds_of(mol: Mol) -> list[Bond]:
    """All bonds, as :func:`atoms_of`."""
    return list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))


def edges_of(bonds: Sequence[Bond]) -> Integers:
    """(2, m) the atoms that each bond joins."""
    begin, end = [bond.GetBeginAtomIdx() for bond in bonds], [bond.GetEndAtomIdx() for bond in bonds]
    return np.array([begin, end], dtype=np.int64)


class _FeatureRows(dict[tuple[int, ...], bytes]):
    """RDKit's answers for an atom or a bond → its row of features, as bytes; found once for all that are alike."""

    def __init__(self, asks: Sequence[tuple[_Ask, Any]], columns: Sequence[Column]):
        self._asks = [ask for ask, _ in asks]
        self._lookups = [
            ({_answer(label, kind): i for i, label in enumerate(column.labels) if label != MISC}, column.size - 1)
            for (_, kind), column in zip(asks, columns, strict=True)
        ]

    def __missing__(self, answers: tuple[int, ...]) -> bytes:
        row = [lookup.get(answer, last) for answer, (lookup, last) in zip(answers, self._lookups, strict=True)]
        self[tuple(map(int, answers))] = found = np.array(row, dtype=np.int64).tobytes()
        return found

    def of(self, items: Sequence[Any], *, leave_out: int | None) -> Integers:
        """(len(items), columns); the column ``leave_out`` is known to be answered with 0 everywhere."""
        asked = [repeat(0) if i == leave_out else map(ask, items) for i, ask in enumerate(self._asks)]
        rows = bytearray().join([self[answers] for answers in zip(*asked, strict=False)])
        return np.frombuffer(rows, dtype=np.int64).reshape(len(items), len(self._asks))


@cache
def _feature_rows() -> tuple[_FeatureRows, _FeatureRows]:
    from rdkit import Chem

    atom: list[tuple[_Ask, Any]] = [
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
    bond: list[tuple[_Ask, Any]] = [
        (Chem.Bond.GetBondType, Chem.BondType),
        (Chem.Bond.GetStereo, Chem.BondStereo),
        (Chem.Bond.GetIsConjugated, bool),
    ]
    return _FeatureRows(atom, ATOM_COLUMNS), _FeatureRows(bond, BOND_COLUMNS)


def _answer(label: str, kind: Any) -> int:
    """The whole number that RDKit answers where the label holds."""
    if kind is int:
        return int(label)
    if kind is bool:
        return int(label == "True")
    return int(kind.names[label])
