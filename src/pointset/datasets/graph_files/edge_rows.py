"""The rows of one graph in an edge list, collected into a graph (:class:`EdgeRows`)."""

from __future__ import annotations

import math
import re

import numpy as np

from pointset.datasets.graph_files.columns import Number, tensor_of
from pointset.datasets.graph_files.node_names import lost_names, ordered_names
from pointset.datasets.graph_files.records import GraphRecord
from pointset.errors import GraphError
from pointset.points.graphs import Features, Floats, GraphArrays

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


class EdgeRows:
    """Collects rows; :meth:`record` gives the graph, or the first problem with its line."""

    def __init__(self) -> None:
        self._labels: dict[str, None] = {}  # an ordered set
        self._edges: dict[tuple[str, str], int] = {}  # edge → position in the lists below
        self._lines: list[int] = []
        self._weights: list[str] = []
        self._edge_attr: list[list[str]] = []
        self._problem: str | None = None

    def refuse(self, line: int, problem: str) -> None:
        """The graph is bad; the first reason is kept."""
        self._problem = self._problem or f"line {line}: {problem}"

    def add(self, line: int, source: str, target: str, weight: str, edge_attr: list[str]) -> None:
        """One row as it stands in the file."""
        if not target or not source:
            if (target and not source) or weight or any(edge_attr):
                self.refuse(line, f"an edge without {'target' if source else 'source'}; expected both ends")
            elif source:
                self._labels.setdefault(source)
            return
        self._labels.setdefault(source)
        self._labels.setdefault(target)
        ends = (source, target) if source <= target else (target, source)
        if ends not in self._edges:
            self._edges[ends] = len(self._lines)
            self._lines.append(line)
            self._weights.append(weight)
            self._edge_attr.append(edge_attr)
            return
        at = self._edges[ends]
        before, again = [self._weights[at], *self._edge_attr[at]], [weight, *edge_attr]
        if before != again and not all(map(_same_number, before, again)):
            self.refuse(
                line,
                f"the edge {source} – {target} stands also in line {self._lines[at]} with another weight or other "
                "features; an undirected edge has one of each",
            )

    def record(self, name: str, ignored: tuple[str, ...]) -> GraphRecord:
        """The graph, or why there is none."""
        if self._problem is not None:
            return GraphRecord(name, problem=self._problem)
        try:
            labels = ordered_names(list(self._labels))
            return GraphRecord(name, self._arrays(labels)[0], ignored=(*ignored, *lost_names(labels)))
        except GraphError as error:
            return GraphRecord(name, problem=str(error))

    def _arrays(self, labels: list[str]) -> GraphArrays:
        number = {label: index for index, label in enumerate(labels)}
        edge_attr = self._features()
        return GraphArrays.from_flat(
            num_nodes=np.array([len(labels)]),
            num_edges=np.array([len(self._edges)]),
            edges=np.array([(number[u], number[v]) for u, v in self._edges], dtype=np.int64).reshape(-1, 2).T,
            weights=self._weight_array(),
            features=None if edge_attr is None else [edge_attr],
        )

    def _weight_array(self) -> Floats | None:
        if not any(self._weights):
            return None
        weights = [_number(cell, line, "weight") for cell, line in zip(self._weights, self._lines, strict=True)]
        for weight, line in zip(weights, self._lines, strict=True):
            if not math.isfinite(weight):
                raise GraphError(f"line {line}: the weight is {weight}; expected a finite number")
        return np.array(weights, dtype=np.float64)

    def _features(self) -> Features | None:
        width = max((at + 1 for cells in self._edge_attr for at, cell in enumerate(cells) if cell), default=0)
        if not width:
            return None
        rows = [
            [_number(cell, line, f"edge_attr{at}") for at, cell in enumerate(cells[:width])]
            for cells, line in zip(self._edge_attr, self._lines, strict=True)
        ]
        return Features(edge_attr=tensor_of(rows, "edge_attr"))


def _same_number(one: str, other: str) -> bool:
    try:
        return one == other or float(one) == float(other)
    except ValueError:
        return False


def _number(cell: str, line: int, column: str) -> Number:
    if _WHOLE_NUMBER.fullmatch(cell):
        return int(cell)
    try:
        return float(cell)
    except ValueError:
        what = f"is {cell!r}" if cell else "is empty, though other edges of the graph have one"
        raise GraphError(f"line {line}: {column} {what}; expected a number on every edge or on none") from None
