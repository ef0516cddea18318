"""Where rows come from: :class:`Source`, and which kind an INPUT on the command line is (:func:`kind_of`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from pointset.arrays import Integers
from pointset.datasets.cache import file_digest
from pointset.datasets.dataset import Dataset
from pointset.datasets.graph_files import read_graph_file
from pointset.datasets.loading import names
from pointset.datasets.own.columns import Column, holds_molecules, shown, smiles_column
from pointset.datasets.own.csv_rows import CsvFile, Row
from pointset.datasets.own.targets import is_missing
from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean
from pointset.prediction.features import Needs
from pointset.specs import Spec


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


# What tells one input file from another, so that a prediction goes on only with the same (:func:`identity_of`).


_MOST_READ = 2**30  # bytes; the digest of a larger file would take seconds, and size and time must do


def identity_of(path: Path) -> dict[str, Any]:
    """A file by its content, or by size and time where it is large; a folder by names, sizes and times."""
    if path.is_dir():
        listed = sorted((file.name, *_stamp(file)) for file in path.iterdir() if file.is_file())
        return {"folder": hashlib.sha256(repr(listed).encode()).hexdigest()}
    if path.stat().st_size <= _MOST_READ:
        return {"sha256": file_digest(path)}
    return {"size and time": list(_stamp(path))}


def stamp_of(path: Path) -> list[Any]:
    """Changes when somebody writes to the file or folder."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    return [(file.name, *_stamp(file)) for file in files]


def _stamp(file: Path) -> tuple[int, int]:
    about = file.stat()
    return about.st_size, about.st_mtime_ns


# Rows of a table of SMILES (:class:`TableSource`).


class TableSource:
    """A CSV, TSV or .smi file, also packed with gzip, one row after the other in constant memory.

    Args:
        path: the file.
        smiles: the column of SMILES, by name or number; by default the one that is named so.
        header: whether the first line names the columns.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: it is no table of text.
        SpecError: there is no such column.
    """

    unit = "row"
    has_smiles = True

    def __init__(self, path: Path, smiles: str | None = None, *, header: bool = True):
        self.file = CsvFile(path, header=header)
        self.smiles = smiles_column(self.file, self._column(smiles))
        self.columns = self._names()
        self._stamp = stamp_of(path)
        self.identity = identity_of(path) | {"smiles": self.smiles, "header": self.file.has_header}

    def _column(self, chosen: str | None) -> Column | None:
        """A whole number that is no column's name is the number of a column."""
        by_number = chosen is not None and chosen not in self.file.header and re.fullmatch("[0-9]{1,9}", chosen)
        return int(chosen) if chosen is not None and by_number else chosen

    def _names(self) -> list[str]:
        names = [shown(self.file, column) for column in range(self.file.width)]
        if not self.file.header:
            names[self.smiles] = "smiles"
            if self.file.is_smi and self.file.width > 1:
                names[1] = "name"
        return names

    def entries(self) -> Iterator[Entry]:
        """All rows; where one cannot be read its cells are kept as far as they fit."""
        for row in self.file.rows():
            problem = row.problem or self._problem(row)
            item = None if problem else row.cells[self.smiles].strip()
            yield Entry(f"line {row.line}", self._fitted(row.cells), item, problem)

    def _problem(self, row: Row) -> str | None:
        text = row.cells[self.smiles]
        if is_missing(text):
            return "there is no SMILES"
        if len(text.splitlines()) > 1:
            return 'the SMILES runs over several lines; a quote (") before it is probably not closed'
        return None

    def _fitted(self, cells: Sequence[str]) -> Sequence[str]:
        width = self.file.width
        return cells if len(cells) == width else [*cells[:width], *[""] * (width - len(cells))]

    def count(self) -> int | None:
        """Lines of a plain file, which cells of several lines make too many; None for a packed one."""
        lines = 0
        with self.file.path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                return None
            file.seek(0)
            while block := file.read(2**20):
                lines += block.count(b"\n")
        return max(lines - self.file.has_header, 1)

    def check_unchanged(self) -> None:
        """Raise where the file was written to."""
        if stamp_of(self.file.path) != self._stamp:
            raise FileFormatError(f"{self.file.path} changed while it was read; begin again with --restart")


# Graphs of files, and of datasets by name (:class:`FileSource`, :class:`DatasetSource`).


class FileSource:
    """All graphs of a file or of a folder of files, of every format that ``pointset convert`` reads."""

    unit = "graph"
    has_smiles = False
    columns = ("graph",)

    def __init__(self, path: Path):
        self.path = path
        self._stamp = stamp_of(path)
        self.identity = identity_of(path)

    def entries(self) -> Iterator[Entry]:
        """All graphs with their names."""
        for record in read_graph_file(self.path):
            yield Entry(record.name, [record.name], record.graph, record.problem)

    def count(self) -> int | None:
        """Not known before they are read."""
        return None

    def check_unchanged(self) -> None:
        """Raise where a file was written to."""
        if stamp_of(self.path) != self._stamp:
            raise FileFormatError(f"{self.path} changed while it was read; begin again with --restart")


class DatasetSource:
    """The graphs of a dataset, or of one part of its split.

    Args:
        dataset: the dataset.
        part: ``"train"``, ``"val"`` or ``"test"``; by default all graphs.
        needs: of the model, which must be for such features.

    Raises:
        SpecError: there is no such part, or the features are of another kind.
    """

    unit = "graph"
    has_smiles = False

    def __init__(self, dataset: Dataset, part: str | None, needs: Needs):
        _check_specs(dataset, needs)
        self.dataset, self._graphs = dataset, _indices(dataset, part)
        self.columns = ("graph",) if dataset.smiles is None else ("graph", "smiles")
        about = dataset.provenance
        self.identity: dict[str, Any] = {
            "dataset": dataset.card.name,
            "part": part,
            "source": about.source,
            "sha256": list(about.sha256),
            "graphs": len(self._graphs),
        }

    def entries(self) -> Iterator[Entry]:
        """All graphs with their numbers in the dataset."""
        smiles = self.dataset.smiles
        for graph in self._graphs.tolist():
            cells = [str(graph)] if smiles is None else [str(graph), smiles[graph]]
            yield Entry(f"graph {graph}", cells, self.dataset.arrays[graph])

    def count(self) -> int | None:
        """The number of graphs."""
        return len(self._graphs)

    def check_unchanged(self) -> None:
        """A dataset is in memory."""


def _indices(dataset: Dataset, part: str | None) -> Integers:
    if part is None:
        return np.arange(len(dataset))
    if part not in dataset.split:
        known = list(dataset.split)
        raise SpecError(
            f"{dataset.card.name} has no part {part!r} (--split); expected one of {', '.join(known)}"
            f"{did_you_mean(part, known)}"
        )
    return np.asarray(dataset.split[part])


def _check_specs(dataset: Dataset, needs: Needs) -> None:
    """Before any work: features of another kind would fail on every graph."""
    card = dataset.card
    for name, has, wants in (("node", card.node, needs.node), ("edge", card.edge, needs.edge)):
        if wants is not None and _kind(has) != _kind(wants):
            raise SpecError(f"the model was made for {name} features {wants}, and {card.name} has {has}")
    if needs.positions and not card.positions:
        raise SpecError(f"the model needs positions in space, and {card.name} has none")


def _kind(spec: Spec) -> tuple[type, int]:
    return type(spec), 0 if spec is None else spec.width
