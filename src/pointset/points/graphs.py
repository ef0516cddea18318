"""The one form in which every graph enters: undirected, each edge once, in order.

:class:`Graph` is one graph, :class:`GraphArrays` many in flat arrays cut by counts; :mod:`pointset.points.canonical`
brings edge lists into this form. Letters as everywhere: G graphs, n nodes, m edges, M = Σ m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pointset.errors import GraphError
from pointset.points.lazy import LazySequence

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_NODES = 2**31 - 1  # beyond it edge keys would overflow 64 bits, and no eigenvector would fit in memory


class WeightKind(IntEnum):
    """What is known of the weights, so that the inverse can round to the exact value where there is one."""

    NONE = 0  # every edge weighs 1
    INTEGER = 1
    REAL = 2


class Features(NamedTuple):
    """What a graph carries besides its edges. ``edge_attr`` has a row for each edge of :class:`Graph`, in its order."""

    x: Tensor | None = None  # (n, …) node features
    edge_attr: Tensor | None = None  # (m, …) edge features
    pos: Tensor | None = None  # (n, …) positions
    y: Tensor | None = None  # target, of any shape


NO_FEATURES = Features()


@dataclass(frozen=True, eq=False)
class FlatFeatures(LazySequence[Features]):
    """Features of G graphs in flat tensors; indexing gives the :class:`Features` of one graph, whose tensors are views.

    ``y`` has a row for each graph, or where ``y_of_nodes`` is set a row for each node.
    """

    num_nodes: Integers  # (G,)
    num_edges: Integers  # (G,)
    x: Tensor | None = None  # (N, …)
    edge_attr: Tensor | None = None  # (M, …)
    pos: Tensor | None = None  # (N, …)
    y: Tensor | None = None  # (G, …) or (N, …)
    y_of_nodes: bool = False

    def __post_init__(self) -> None:
        nodes, edges = int(self.num_nodes.sum()), int(self.num_edges.sum())
        targets, owners = (nodes, "nodes") if self.y_of_nodes else (len(self.num_nodes), "graphs")
        for name, tensor, rows, what in (
            ("x", self.x, nodes, "nodes"),
            ("edge_attr", self.edge_attr, edges, "edges"),
            ("pos", self.pos, nodes, "nodes"),
            ("y", self.y, targets, owners),
        ):
            if tensor is not None and (tensor.dim() == 0 or tensor.shape[0] != rows):
                raise GraphError(f"{name} has shape {tuple(tensor.shape)}; expected one row for each of {rows} {what}")

    @cached_property
    def node_start(self) -> Integers:
        """(G,) where each graph's nodes begin."""
        return np.cumsum(self.num_nodes) - self.num_nodes

    @cached_property
    def edge_start(self) -> Integers:
        """(G,) where each graph's edges begin."""
        return np.cumsum(self.num_edges) - self.num_edges

    @property
    def target_start(self) -> Integers:
        """(G,) where each graph's rows of ``y`` begin."""
        return self.node_start if self.y_of_nodes else np.arange(len(self))

    @property
    def target_counts(self) -> Integers:
        """(G,) rows of ``y`` of each graph."""
        return self.num_nodes if self.y_of_nodes else np.ones(len(self), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.num_nodes)

    def item(self, position: int) -> Features:
        """The features of one graph."""
        node, edge = int(self.node_start[position]), int(self.edge_start[position])
        nodes = slice(node, node + int(self.num_nodes[position]))
        edges = slice(edge, edge + int(self.num_edges[position]))
        targets = nodes if self.y_of_nodes else slice(position, position + 1)
        return Features(
            x=None if self.x is None else self.x[nodes],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            pos=None if self.pos is None else self.pos[nodes],
            y=None if self.y is None else self.y[targets],
        )


@dataclass(frozen=True, eq=False)
class Graph:
    """One undirected graph: edges with u ≤ v, sorted, each once."""

    num_nodes: int
    edges: Integers  # (2, m)
    weights: Floats | None  # (m,), None where every edge weighs 1
    weight_kind: WeightKind
    features: Features = NO_FEATURES


@dataclass(frozen=True, eq=False)
class GraphArrays(LazySequence[Graph]):
    """Many graphs in flat arrays. Indexing gives a :class:`Graph`; node numbers are local to each graph."""

    num_nodes: Integers  # (G,)
    num_edges: Integers  # (G,)
    edges: Integers  # (2, M)
    weights: Floats | None  # (M,), None where no graph is weighted
    weight_kind: NDArray[np.int8]  # (G,)
    features: Sequence[Features] | None = None  # a row for each graph; None where no graph has any

    @classmethod
    def from_flat(
        cls,
        num_nodes: NDArray[np.integer],
        num_edges: NDArray[np.integer],
        edges: NDArray[np.integer],
        weights: NDArray[np.number] | None = None,
        features: Sequence[Features] | None = None,
    ) -> GraphArrays:
        """Graphs from concatenated arrays in which each undirected edge stands once (in either direction).

        Args:
            num_nodes: (G,) nodes of each graph.
            num_edges: (G,) edges of each graph.
            edges: (2, M) node numbers, local to each graph.
            weights: (M,) optional weights.
            features: optional, one :class:`Features` for each graph, or :class:`FlatFeatures`; rows of ``edge_attr``
                in the order of ``edges``.
        """
        from pointset.points.assembly import graphs_from_flat  # it makes GraphArrays, so it comes after them

        return graphs_from_flat(num_nodes, num_edges, edges, weights, features)

    def __len__(self) -> int:
        return len(self.num_nodes)

    @cached_property
    def edge_start(self) -> Integers:
        """(G,) where each graph's edges begin in the flat arrays."""
        return np.cumsum(self.num_edges) - self.num_edges

    def item(self, position: int) -> Graph:
        """One graph; its arrays are views."""
        start = int(self.edge_start[position])
        stop = start + int(self.num_edges[position])
        kind = WeightKind(int(self.weight_kind[position]))
        weighted = self.weights is not None and kind is not WeightKind.NONE
        return Graph(
            num_nodes=int(self.num_nodes[position]),
            edges=self.edges[:, start:stop],
            weights=self.weights[start:stop] if weighted and self.weights is not None else None,
            weight_kind=kind,
            features=self.features_of(position),
        )

    def features_of(self, position: int) -> Features:
        """The features of one graph."""
        return NO_FEATURES if self.features is None else self.features[position]
