"""Graphs of one group, their features as numbers that are equal where the features are (:class:`LabelledGraph`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray
from torch import Tensor

from pointset.datasets.splits.fingerprints import scrambled
from pointset.datasets.splits.graph_colours import feature_rows, is_whole, real_bits
from pointset.points.graphs import Graph, Integers
from pointset.points.matching import Coloured

MOST_NODES = 1000  # of a graph to be compared: pairs of nodes take n² memory and n³ time
_ROUNDS = 6  # of refinement; each doubles the distance that pairs know of
_SALTS = (np.uint64(0), np.uint64(0x5851F42D4C957F2D))


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """One graph; equal numbers stand for equal features in all graphs of the group."""

    num_nodes: int
    edges: Integers  # (2, m)
    node_class: Integers  # (n,)
    edge_class: Integers  # (m,)

    def key(self) -> bytes:
        """The same for verbatim copies only."""
        return b"".join(array.tobytes() for array in (self.node_class, self.edges, self.edge_class))

    def edge_table(self) -> Integers:
        """(n, n) symmetric: 0 where there is no edge, otherwise 1 + the edge's class."""
        low, high = self.edges
        table = np.zeros((self.num_nodes, self.num_nodes), dtype=np.int64)
        table[low, high] = table[high, low] = 1 + self.edge_class
        return table

    def coloured(self) -> Coloured:
        """As :func:`~pointset.points.matching.match_by_components` takes it."""
        low, high = self.edges
        pairs = self.edge_table()
        adjacency = scipy.sparse.coo_array((np.ones(len(low)), (low, high)), shape=pairs.shape)
        component = np.zeros(0, dtype=np.int64)
        if self.num_nodes:
            component = scipy.sparse.csgraph.connected_components(adjacency, directed=False)[1].astype(np.int64)
        return Coloured(self.node_class, pairs, component)

    def fingerprint(self) -> int | None:
        """Invariant under relabelling, and different for nearly all different graphs; None for one that is too large.

        The two-dimensional Weisfeiler–Leman test in its "folklore" form: the colour c_ij of a pair of nodes becomes
        hash(c_ij, Σ_k g(c_ik)·h(c_kj)). g and h are hashes of 20 bits, so that the products of matrices are exact in
        float64 and do not depend on the order in which a machine adds. Cost n³ for each of 6 rounds.
        """
        if self.num_nodes > MOST_NODES:
            return None
        codes = self.edge_table().astype(np.uint64)
        codes[np.diag_indices(self.num_nodes)] += (1 + self.node_class).astype(np.uint64) << np.uint64(32)
        for _ in range(_ROUNDS):
            left, right = ((scrambled(codes ^ salt) >> np.uint64(44)).astype(np.float64) for salt in _SALTS)
            codes = scrambled(codes + scrambled((left @ right).astype(np.uint64)))
        return int(scrambled(codes).sum(dtype=np.uint64))


def labelled_graphs(graphs: Sequence[Graph]) -> list[LabelledGraph]:
    """Number the features of graphs whose features are of one kind and shape."""
    node_rows = _rows([graph.features.x for graph in graphs], [graph.num_nodes for graph in graphs])
    edge_rows = _rows([graph.features.edge_attr for graph in graphs], [graph.edges.shape[1] for graph in graphs])
    weights = [np.ones(graph.edges.shape[1]) if graph.weights is None else graph.weights for graph in graphs]
    weighted = [np.column_stack([rows, real_bits(some)]) for rows, some in zip(edge_rows, weights, strict=True)]
    return [
        LabelledGraph(graph.num_nodes, graph.edges, nodes, edges)
        for graph, nodes, edges in zip(graphs, _numbered(node_rows), _numbered(weighted), strict=True)
    ]


def _rows(tensors: list[Tensor | None], counts: list[int]) -> list[NDArray[np.int64]]:
    """(rows, width) for each graph; width 0 without features."""
    whole = all(is_whole(tensor) for tensor in tensors if tensor is not None)
    return [
        np.zeros((count, 0), dtype=np.int64) if tensor is None else feature_rows(tensor, whole=whole)
        for tensor, count in zip(tensors, counts, strict=True)
    ]


def _numbered(tables: list[NDArray[np.int64]]) -> list[Integers]:
    """A number for each row of each table, equal for equal rows."""
    together = np.concatenate(tables)
    numbers = np.zeros(len(together), dtype=np.int64)
    if together.size:
        numbers = np.unique(together, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])
