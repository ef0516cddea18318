"""Edge lists (.csv): a header line and a row for each edge. Holds weights, self-loops and edge features.

Columns ``source,target`` and optionally ``weight``, ``graph`` (several graphs in one file) and ``edge_attr0, …``, in
any order. Labels are *names*, never indices, so that counting from 0 or from 1 cannot be confused: where all labels of
a graph are whole numbers the nodes come in numerical order, otherwise in order of first appearance. A row without
target names a node, perhaps an isolated one; a row with neither names a graph, perhaps one without nodes.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from pointset.arrays import Floats
from pointset.datasets.graph_files.formats import GraphRecord, shown_name
from pointset.datasets.graph_files.text_formats import (
    WHOLE_NUMBER,
    Number,
    graph_of_names,
    lost_names,
    numbered_columns,
    ordered_names,
    rows_of,
    tensor_of,
)
from pointset.errors import FileFormatError, GraphError
from pointset.files import csv_lines, open_text
from pointset.points.graphs import NO_FEATURES, Features, Graph

_LONGEST_LINE = 2**22  # characters, as of tables; a file without line ends cannot fill the memory


@dataclass(frozen=True)
class _Columns:
    """Where each column stands in a row."""

    count: int
    source: int
    target: int
    weight: int | None
    graph: int | None
    edge_attr: list[int]
    ignored: tuple[str, ...]


def read(path: Path) -> Iterator[GraphRecord]:
    """A record for each graph, in order of first appearance; a bad row makes its graph bad, and no other."""
    with _text_errors_named(shown_name(path)), open_text(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(_lines(file), strict=True)
        columns = _columns(path, next(rows, []))
        graphs: dict[str, _EdgeRows] = {} if columns.graph is not None else {"": _EdgeRows()}
        lost: list[GraphRecord] = []
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            problem = None
            if len(cells) != columns.count:
                problem = f"the row has {len(cells)} cells; expected {columns.count}, as in the header"
            label = "" if columns.graph is None else "".join(cells[columns.graph : columns.graph + 1])
            if columns.graph is not None and not label:
                lost.append(GraphRecord(f"{shown_name(path)}:{rows.line_num}", problem=problem or "no graph is named"))
                continue
            graph = graphs.setdefault(label, _EdgeRows())
            if problem is not None:
                graph.refuse(rows.line_num, problem)
                continue
            numbers = ["" if at is None else cells[at] for at in (columns.weight, *columns.edge_attr)]
            graph.add(rows.line_num, cells[columns.source], cells[columns.target], numbers)
    if not graphs and not lost:
        raise FileFormatError(f"{shown_name(path)} has a header, but no rows; expected a row for each edge")
    yield from lost
    for label, edges in graphs.items():
        yield edges.record(label or shown_name(path), columns.ignored)


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            raise csv.Error(f"a line has more than {_LONGEST_LINE:,} characters")
        yield line


@contextmanager
def _text_errors_named(name: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        byte = f"{error.object[error.start]:#04x}"
        raise FileFormatError(
            f"{name} is not UTF-8 text (it has the byte {byte}); expected CSV. Save it as CSV in UTF-8"
        ) from None
    except csv.Error as error:
        raise FileFormatError(f"{name} is not readable as CSV ({error}); expected a header and rows") from None


def _columns(path: Path, header: list[str]) -> _Columns:
    names = [cell.strip().lower() for cell in header]
    expected = "expected the columns source,target and optionally weight,graph,edge_attr0,…"
    got = f"{shown_name(path)} has the columns {', '.join(names)[:200]!r}"
    if not any(names):
        raise FileFormatError(f"{shown_name(path)} is empty; {expected}")
    if repeated := [name for name, count in Counter(names).items() if name and count > 1]:
        raise FileFormatError(f"{got}; {repeated[0]!r} stands there twice, expected once. Rename one of them")
    if not {"source", "target"} <= set(names):
        raise FileFormatError(f"{got}; {expected}.{_header_hint(header)}")
    try:
        features = numbered_columns(names, "edge_attr")
    except GraphError as error:
        raise FileFormatError(f"{got}: {error}") from None
    known = {"source", "target", "weight", "graph", *features}
    places = {name: at for at, name in enumerate(names)}
    return _Columns(
        count=len(names),
        source=places["source"],
        target=places["target"],
        weight=places.get("weight"),
        graph=places.get("graph"),
        edge_attr=[places[feature] for feature in features],
        ignored=tuple(name for name in names if name not in known),
    )


def _header_hint(header: list[str]) -> str:
    for separator, title in ((";", "semicolons"), ("\t", "tabs"), (" ", "spaces")):
        if len(header) == 1 and separator in header[0]:
            return f" The columns seem to be separated by {title}: save it with commas"
    if all(cell.strip().lstrip("-").isdigit() for cell in header):
        return " The first line seems to be an edge already: put a header line above it"
    return " Rename the columns, or put a header line above the first row"


class _EdgeRows:
    """Collects rows; :meth:`record` gives the graph, or the first problem with its line."""

    def __init__(self) -> None:
        self._labels: dict[str, None] = {}  # an ordered set
        self._edges: dict[tuple[str, str], tuple[int, list[str]]] = {}  # edge → its line, and weight and features there
        self._problem: str | None = None

    def refuse(self, line: int, problem: str) -> None:
        """The graph is bad; the first reason is kept."""
        self._problem = self._problem or f"line {line}: {problem}"

    def add(self, line: int, source: str, target: str, numbers: list[str]) -> None:
        """One row as it stands in the file; ``numbers`` are the weight and the edge features."""
        if not target or not source:
            if (target and not source) or any(numbers):
                self.refuse(line, f"an edge without {'target' if source else 'source'}; expected both ends")
            elif source:
                self._labels.setdefault(source)
            return
        self._labels.setdefault(source)
        self._labels.setdefault(target)
        ends = (source, target) if source <= target else (target, source)
        first, before = self._edges.setdefault(ends, (line, numbers))
        if before != numbers and not all(map(_same_number, before, numbers)):
            self.refuse(
                line,
                f"the edge {source} – {target} stands also in line {first} with another weight or other features; an "
                "undirected edge has one of each",
            )

    def record(self, name: str, ignored: tuple[str, ...]) -> GraphRecord:
        """The graph, or why there is none."""
        if self._problem is not None:
            return GraphRecord(name, problem=self._problem)
        try:
            labels = ordered_names(list(self._labels))
            graph = graph_of_names(labels, self._edges, self._weight_array(), self._features())
            return GraphRecord(name, graph, ignored=(*ignored, *lost_names(labels)))
        except GraphError as error:
            return GraphRecord(name, problem=str(error))

    def _weight_array(self) -> Floats | None:
        rows = self._edges.values()
        if not any(numbers[0] for _, numbers in rows):
            return None
        weights = [_number(numbers[0], line, "weight") for line, numbers in rows]
        for weight, (line, _) in zip(weights, rows, strict=True):
            if not math.isfinite(weight):
                raise GraphError(f"line {line}: the weight is {weight}; expected a finite number")
        return np.array(weights, dtype=np.float64)

    def _features(self) -> Features:
        rows = [(line, numbers[1:]) for line, numbers in self._edges.values()]
        width = max((at + 1 for _, cells in rows for at, cell in enumerate(cells) if cell), default=0)
        if not width:
            return NO_FEATURES
        table = [
            [_number(cell, line, f"edge_attr{at}") for at, cell in enumerate(cells[:width])] for line, cells in rows
        ]
        return Features(edge_attr=tensor_of(table, "edge_attr"))


def _same_number(one: str, other: str) -> bool:
    try:
        return one == other or float(one) == float(other)
    except ValueError:
        return False


def _number(cell: str, line: int, column: str) -> Number:
    if WHOLE_NUMBER.fullmatch(cell):
        return int(cell)
    try:
        return float(cell)
    except ValueError:
        what = f"is {cell!r}" if cell else "is empty, though other edges of the graph have one"
        raise GraphError(f"line {line}: {column} {what}; expected a number on every edge or on none") from None


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """Nodes are numbered from 0. The column ``graph`` is there unless there is exactly one graph."""
    weighted = any(graph.weights is not None for graph in graphs)
    features = [_edge_features(graph, name) for graph, name in zip(graphs, names, strict=True)]
    width = max((len(row) for rows in features for row in rows), default=0)
    labels = _unique_names(names)
    several = len(graphs) != 1
    header = ["graph"] * several + ["source", "target"] + ["weight"] * weighted
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(csv_lines([header + [f"edge_attr{column}" for column in range(width)]]))
        for label, graph, edge_attr in zip(labels, graphs, features, strict=True):
            rows = ([label] * several + cells for cells in _rows(graph, edge_attr, weighted))
            file.writelines(csv_lines(row + [""] * (len(header) + width - len(row)) for row in rows))


def _rows(graph: Graph, edge_attr: list[list[str]], weighted: bool) -> Iterator[list[str]]:
    touched = set(graph.edges.reshape(-1).tolist())
    weights = [""] * graph.edges.shape[1] if graph.weights is None else [repr(w) for w in graph.weights.tolist()]
    for (u, v), weight, attributes in zip(graph.edges.T.tolist(), weights, edge_attr, strict=True):
        yield [str(u), str(v), *([weight] if weighted else []), *attributes]
    yield from ([str(node), ""] for node in range(graph.num_nodes) if node not in touched)
    if not graph.num_nodes:
        yield ["", ""]


def _edge_features(graph: Graph, name: str) -> list[list[str]]:
    if graph.features.edge_attr is None:
        return [[] for _ in range(graph.edges.shape[1])]
    try:
        rows = rows_of(graph.features.edge_attr, "edge_attr")
    except GraphError as error:
        raise FileFormatError(f"{name}: {error}") from None
    return [[repr(int(value) if isinstance(value, bool) else value) for value in row] for row in rows]


def _unique_names(names: Sequence[str]) -> list[str]:
    """The names without blanks around them, none empty, and numbered where one occurs twice."""
    clean = [name.strip().encode("utf-8", "replace").decode() or str(index) for index, name in enumerate(names)]
    return clean if len(set(clean)) == len(clean) else [f"{index}:{name}" for index, name in enumerate(clean)]
