"""Where rows come from: :class:`Source`, and which kind an INPUT on the command line is (:func:`kind_of`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pointset.datasets.catalogue import names
from pointset.datasets.own.kinds import holds_molecules
from pointset.errors import MissingDataError, did_you_mean


class Entry(NamedTuple):
    """One row of the input."""

    place: str  # for people: "line 7", "graph 3"
    cells: Sequence[str]  # what the output keeps of it
    item: Any = None  # a SMILES, or anything that a predictor takes
    problem: str | None = None  # why there is no item


class Source(Protocol):
    """Rows in a fixed order."""

    @property
    def unit(self) -> str:
        """What is counted: ``"row"`` or ``"graph"``."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the cells."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What tells this input from others, in plain values."""

    @property
    def has_smiles(self) -> bool:
        """Whether its items are SMILES."""

    def entries(self) -> Iterator[Entry]:
        """All rows from the beginning."""

    def count(self) -> int | None:
        """How many there are, about, where that is known quickly."""

    def check_unchanged(self) -> None:
        """Raise where the input is not what it was at the beginning."""


class Kind(Enum):
    """What an INPUT is; the value is how messages call it."""

    TABLE = "a table of SMILES"
    GRAPHS = "graph files"
    DATASET = "the name of a dataset"


def kind_of(given: str) -> Kind:
    """By name and header.

    Raises:
        MissingDataError: neither a file or folder nor a dataset.
        FileFormatError: a file of a kind that is not read.
    """
    if given in names():
        return Kind.DATASET
    path = Path(given)
    if not path.exists():
        raise MissingDataError(
            f"there is no file, folder or dataset {given!r}; expected a table of SMILES, graph files, or a name that "
            f"`pointset datasets` lists{did_you_mean(given, list(names()))}"
        )
    return Kind.TABLE if holds_molecules(path) else Kind.GRAPHS
