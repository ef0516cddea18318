"""The nine atom and three bond columns of the Open Graph Benchmark (OGB), as data.

Value i of a column means its i-th label; what no label names is the last one, ``misc``.
"""

from __future__ import annotations

from typing import NamedTuple


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
