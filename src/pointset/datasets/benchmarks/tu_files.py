"""The text format of the TU datasets (:class:`TuFiles`): ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pointset.datasets.benchmarks.checked_arrays import as_features
from pointset.datasets.benchmarks.members import Member, members
from pointset.datasets.benchmarks.number_rows import read_numbers
from pointset.datasets.table import Array, GraphTable
from pointset.errors import FileFormatError
from pointset.specs import Categories


@dataclass(frozen=True)
class TuFiles:
    """Reads one TU dataset: from its zip, or from the text files in it.

    Nodes are numbered from 1 through all graphs, graphs from 1; every edge stands in both directions. Labels of nodes
    and edges are kept as they are; the label of a graph becomes its position in ``classes``.

    Args:
        name: the stem of all file names.
        classes: the labels of graphs, in order.
        node: the labels of nodes; None where the dataset has none.
        edge: the labels of edges.
    """

    name: str
    classes: tuple[int, ...]
    node: Categories | None = None
    edge: Categories | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The files that are read."""
        parts = ["A", "graph_indicator", "graph_labels"]
        parts += ["node_labels"] if self.node is not None else []
        parts += ["edge_labels"] if self.edge is not None else []
        return tuple(f"{self.name}_{part}.txt" for part in parts)

    def __call__(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        """The graphs, in the order of the files; y (G,) is the class, 0, 1, ….

        Raises:
            FileFormatError: with the file, and the line where it can be said.
        """
        edge_file, owner_file, class_file, *label_files = members(files, self.names)
        y = self._classes(class_file)
        num_nodes = _nodes_of_graphs(owner_file, len(y))
        pairs = read_numbers(edge_file, 2)
        graph = _graphs_of_edges(edge_file, pairs, num_nodes)
        x = edge_attr = None
        if self.node is not None:
            x = _labels(label_files[0], self.node, int(num_nodes.sum()))
        if self.edge is not None:
            edge_attr = _labels(label_files[-1], self.edge, len(pairs))
        order = np.argsort(graph, kind="stable")
        start = np.cumsum(num_nodes) - num_nodes
        return GraphTable(
            num_nodes=num_nodes,
            num_edges=np.bincount(graph, minlength=len(y)),
            edges=(pairs - 1 - start[graph][:, None])[order].T,
            x=x,
            edge_attr=None if edge_attr is None else edge_attr[order],
            y=y,
        )

    def _classes(self, member: Member) -> Array:
        """(G,) positions in ``classes``."""
        labels = read_numbers(member, 1)[:, 0]
        known = np.isin(labels, self.classes)
        if not known.all():
            line = int(np.argmin(known))
            expected = " or ".join(map(str, self.classes))
            raise FileFormatError(f"{member}, line {line + 1}: got the class {labels[line]}; expected {expected}")
        return np.searchsorted(self.classes, labels)


def _labels(member: Member, spec: Categories, rows: int) -> Array:
    """(rows, 1) labels, checked."""
    return as_features(member, read_numbers(member, spec.width, rows=rows), spec)


def _nodes_of_graphs(member: Member, graphs: int) -> Array:
    """(G,) how many nodes each graph has, from the number of the graph of each node."""
    owner = read_numbers(member, 1)[:, 0]
    outside = (owner < 1) | (owner > graphs)
    falling = np.r_[False, owner[1:] < owner[:-1]]
    if (outside | falling).any():
        line = int(np.argmax(outside | falling))
        why = f"expected 1 to {graphs}, the graphs that have a label" if outside[line] else "expected rising numbers"
        raise FileFormatError(f"{member}, line {line + 1}: got graph {owner[line]}; {why}")
    num_nodes = np.bincount(owner - 1, minlength=graphs)
    if not num_nodes.all():
        raise FileFormatError(
            f"{member} names no node of graph {int(np.argmin(num_nodes)) + 1} of {graphs}; it is cut short, or the "
            "labels are of another dataset"
        )
    return num_nodes


def _graphs_of_edges(member: Member, pairs: Array, num_nodes: Array) -> Array:
    """(M,) the graph of each edge; refuses edges that leave their graph, or that stand in one direction only."""
    total = int(num_nodes.sum())
    owner = np.repeat(np.arange(len(num_nodes)), num_nodes)
    outside: Array = np.any((pairs < 1) | (pairs > total), axis=1)
    _refuse_line(member, pairs, outside, f"expected node numbers from 1 to {total}")
    graphs: Array = owner[pairs - 1]  # (M, 2)
    _refuse_line(member, pairs, graphs[:, 0] != graphs[:, 1], "expected both nodes in the same graph")
    forward, backward = pairs[:, 0] * (total + 1) + pairs[:, 1], pairs[:, 1] * (total + 1) + pairs[:, 0]
    one_way = ~np.isin(forward, backward)
    _refuse_line(member, pairs, one_way, "expected the other direction on another line; the file is cut short")
    of_edge: Array = graphs[:, 0]
    return of_edge


def _refuse_line(member: Member, pairs: Array, wrong: Array, expected: str) -> None:
    if wrong.any():
        line = int(np.argmax(wrong))
        raise FileFormatError(f"{member}, line {line + 1}: got the edge {pairs[line, 0]}, {pairs[line, 1]}; {expected}")
