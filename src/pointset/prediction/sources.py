"""Inputs of a prediction: tables of SMILES, graph files and datasets (:class:`Source`).

Light to import (no torch).
"""

from __future__ import annotations

import hashlib
import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pointset.arrays import Integers
from pointset.datasets.cache import file_digest
from pointset.datasets.card import Level
from pointset.datasets.graph_files import read_graph_file
from pointset.datasets.loading import names
from pointset.datasets.own.columns import Column, holds_molecules, shown, smiles_column
from pointset.datasets.own.csv_rows import Table
from pointset.datasets.own.table_files import open_table
from pointset.datasets.own.targets import is_missing
from pointset.errors import FileFormatError, GraphError, MissingDataError, PointsetError, SpecError, did_you_mean
from pointset.specs import Spec

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset
    from pointset.prediction.features import Needs

_MOST_HASHED = 2**30  # bytes; hashing a larger file would take seconds, so its size and time must do


class InputKind(Enum):
    """What an INPUT on the command line is; the value is what messages call it."""

    TABLE = "a table of SMILES"
    GRAPHS = "graph files"
    DATASET = "the name of a dataset"


def input_kind(given: str) -> InputKind:
    """By name and header."""
    if given in names():
        return InputKind.DATASET
    path = Path(given)
    if not path.exists():
        raise MissingDataError(
            f"there is no file, folder or dataset {given!r}; expected a table of SMILES, graph files, or a name that "
            f"`pointset datasets` lists{did_you_mean(given, list(names()))}"
        )
    return InputKind.TABLE if holds_molecules(path) else InputKind.GRAPHS


class InputRow(NamedTuple):
    """One row of the input."""

    place: str  # for people: "line 7", "graph 3"
    cells: Sequence[str]  # what the output repeats of it
    item: Any  # a SMILES, anything else that a predictor takes, or the error that says why there is none


class Source(ABC):
    """Rows in a fixed order, read from a file or folder ``path``, if any."""

    unit = "graph"  # what is counted; of tables "row"
    has_smiles = False  # whether its items are SMILES
    columns: Sequence[str] = ("graph",)  # names of the cells
    kinds: Sequence[str] = ("string",)  # of the cells, as Arrow calls it
    identity: Mapping[str, Any]  # what distinguishes this input from others, in plain values

    def __init__(self, path: Path | None = None):
        self.path = path
        if path is not None:
            self._stamps = _stamps(path)
            self.identity = _identity(path)

    @property
    def rows_of_file(self) -> RowsOfFile | None:
        """The same rows by their numbers, where reading a few in the middle costs little."""
        return None

    @abstractmethod
    def rows(self, start: int = 0) -> Iterator[InputRow]:
        """All rows from the one with this number, counted from 0."""

    def count(self) -> int | None:
        """How many there are, approximately, where that is known quickly."""
        return None

    def check_unchanged(self) -> None:
        """Raise if the file was written to since the beginning."""
        if self.path is not None and _stamps(self.path) != self._stamps:
            raise FileFormatError(f"{self.path} changed while it was read; begin again with --restart")


def _stamps(path: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of the file, or of each file in the folder."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _identity(path: Path) -> dict[str, Any]:
    """A file by its content, or by size and time if it is large; a folder by names, sizes and times."""
    if path.is_dir():
        return {"folder": hashlib.sha256(repr(_stamps(path)).encode()).hexdigest()}
    ((_, size, time),) = _stamps(path)
    return {"sha256": file_digest(path)} if size <= _MOST_HASHED else {"size and time": [size, time]}


class TableSource(Source):
    """A table of any format that :func:`~pointset.datasets.own.table_files.open_table` opens, one row after the other.

    Text, SDF and Parquet take constant memory. ``smiles`` is the column of SMILES, by name or number; by default it is
    recognised by its name. ``sheet`` is that of a workbook.
    """

    unit = "row"
    has_smiles = True

    def __init__(self, path: Path, smiles: str | None = None, *, header: bool = True, sheet: str | None = None):
        self.file = open_table(path, header=header, sheet=sheet)
        self.smiles = smiles_column(self.file, self._column(smiles))
        self.columns = self._names()
        self.kinds = self.file.kinds or ("string",) * self.file.width
        super().__init__(path)
        self.identity = {**self.identity, "smiles": self.smiles, "header": self.file.has_header}
        if sheet is not None:
            self.identity = {**self.identity, "sheet": sheet}

    def _column(self, chosen: str | None) -> Column | None:
        """A whole number that is not the name of a column is the number of a column."""
        by_number = chosen is not None and chosen not in self.file.header and re.fullmatch("[0-9]{1,9}", chosen)
        return int(chosen) if chosen is not None and by_number else chosen

    def _names(self) -> list[str]:
        names = [shown(self.file, column) for column in range(self.file.width)]
        if not self.file.header:
            names[self.smiles] = "smiles"
            if self.file.is_smi and self.file.width > 1:
                names[1] = "name"
        return names

    def rows(self, start: int = 0) -> Iterator[InputRow]:
        """All rows; one that cannot be read keeps its cells as far as they fit."""
        return _rows_of(self.file, self.smiles, start)

    @property
    def rows_of_file(self) -> RowsOfFile | None:
        """Of a Parquet file with row groups of moderate size."""
        count = self.file.count()
        if not self.file.starts_anywhere or count is None or self.path is None:
            return None
        ((_, size, _),) = self._stamps
        return RowsOfFile(self.path.resolve(), self.smiles, count, size)

    def count(self) -> int | None:
        """As the table counts them: of text the lines, None where it is compressed."""
        return self.file.count()


def _rows_of(table: Table, smiles: int, start: int) -> Iterator[InputRow]:
    for row in table.rows_from(start):
        width = len(row.cells)
        cells = row.cells if width == table.width else [*row.cells[: table.width], *[""] * (table.width - width)]
        problem = row.problem or _problem(row.cells[smiles])
        item = GraphError(problem) if problem else row.cells[smiles].strip()
        yield InputRow(f"{table.unit} {row.line}", cells, item)


def _problem(smiles: str) -> str | None:
    if is_missing(smiles):
        return "there is no SMILES"
    if len(smiles.splitlines()) > 1:
        return 'the SMILES runs over several lines; a quote (") before it is probably not closed'
    return None


@dataclass(frozen=True)
class RowsOfFile:
    """Rows of a table with a header by their numbers, for machines that see the same file: read where it lies."""

    path: Path
    smiles: int
    count: int
    size: int  # of the file in bytes
    _opened: list[Table] = field(default_factory=list, init=False, compare=False, repr=False)

    def __reduce__(self) -> Any:
        return RowsOfFile, (self.path, self.smiles, self.count, self.size)

    def is_here(self) -> bool:
        """Whether this machine sees the file, by its size and the number of its rows."""
        try:
            return self.path.stat().st_size == self.size and open_table(self.path).count() == self.count
        except (PointsetError, OSError):
            return False

    def __call__(self, numbers: Sequence[int]) -> list[InputRow]:
        """The rows with these numbers, which follow each other, counted from 0."""
        if not self._opened:
            if not self.is_here():
                raise FileFormatError(f"{self.path} is not, or not the same, on all workers; expected a shared folder")
            self._opened.append(open_table(self.path))
        return list(itertools.islice(_rows_of(self._opened[0], self.smiles, numbers[0]), len(numbers)))


class GraphFileSource(Source):
    """All graphs of a file or of a folder of files, of every format that ``pointset convert`` reads."""

    path: Path

    def rows(self, start: int = 0) -> Iterator[InputRow]:
        """All graphs with their names."""
        for record in itertools.islice(read_graph_file(self.path), start, None):
            item = record.graph if record.problem is None else GraphError(record.problem)
            yield InputRow(record.name, [record.name], item)


class DatasetSource(Source):
    """The graphs of a dataset, or of one part of its split; its features must be of the kind that the model needs."""

    def __init__(self, dataset: Dataset, part: str | None, needs: Needs):
        super().__init__()
        _check_specs(dataset, needs)
        self.dataset, self._graphs = dataset, _indices(dataset, part)
        if dataset.smiles is not None:
            self.columns, self.kinds = ("graph", "smiles"), ("string", "string")
        about = dataset.provenance
        self.identity = {
            "dataset": dataset.card.name,
            "part": part,
            "source": about.source,
            "sha256": list(about.sha256),
            "graphs": len(self._graphs),
        }

    def rows(self, start: int = 0) -> Iterator[InputRow]:
        """All graphs with their numbers in the dataset."""
        smiles = self.dataset.smiles
        for graph in self._graphs[start:].tolist():
            cells = [str(graph)] if smiles is None else [str(graph), smiles[graph]]
            yield InputRow(f"graph {graph}", cells, self.dataset.arrays[graph])

    def count(self) -> int | None:
        """The number of graphs."""
        return len(self._graphs)


def _indices(dataset: Dataset, part: str | None) -> Integers:
    if part is None:
        return np.arange(len(dataset))
    if part not in dataset.split:
        known = list(dataset.split)
        raise SpecError(
            f"{dataset.card.name} has no part {part!r} (--split); expected one of {', '.join(known)}"
            f"{did_you_mean(part, known)}"
        )
    if dataset.split_of is not Level.GRAPH:  # every part is of the same graphs
        return np.arange(len(dataset))
    return np.asarray(dataset.split[part])


def _check_specs(dataset: Dataset, needs: Needs) -> None:
    """Before any work: features of another kind would fail on every graph."""

    def kind(spec: Spec) -> tuple[type, int]:
        return type(spec), 0 if spec is None else spec.width

    card = dataset.card
    for name, has, wants in (("node", card.node, needs.node), ("edge", card.edge, needs.edge)):
        if wants is not None and kind(has) != kind(wants):
            raise SpecError(f"the model was made for {name} features {wants}, and {card.name} has {has}")
    if needs.positions and not card.positions:
        raise SpecError(f"the model needs positions in space, and {card.name} has none")
