"""The one form in which every graph enters: undirected, each edge once, in order.

:class:`Graph` is one graph, :class:`GraphArrays` many in flat arrays cut by counts; :mod:`pointset.points.graphs`
brings edge lists into this form. Letters as everywhere: G graphs, n nodes, m edges, M = Σ m.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.errors import GraphError

# Edge lists as they were given → the one form of :mod:`pointset.points.graphs`.
#
# :func:`canonical_edges` works on any number of graphs at once and is the only place where the meaning of odd input is
# decided (see its docstring).


SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-150, 1e150  # beyond, squares under- or overflow
_WEIGHT_AGREEMENT = 1e-12  # relative difference up to which w(u,v) and w(v,u) count as one weight (rounding)


@dataclass(frozen=True, eq=False)
class EdgeListing:
    """Edge lists of G graphs as they were given, concatenated."""

    num_nodes: Integers  # (G,)
    counts: Integers  # (G,) listed edges of each graph
    source: Integers  # (Σ counts,)
    target: Integers  # (Σ counts,)
    weights: Floats | None  # (Σ counts,); 1 where a graph gives none
    weighted: Flags  # (G,) whether the graph gives weights
    mirrored: Flags  # (G,) whether the form promises both (u,v) and (v,u), as edge_index and matrices do


class CanonicalEdges(NamedTuple):
    """Sorted edges, and where each came from in the listing."""

    num_edges: Integers  # (G,)
    edges: Integers  # (2, M)
    weights: Floats | None  # (M,)
    weight_kind: NDArray[np.int8]  # (G,)
    first: Integers  # (M,) listing position of an occurrence of each edge
    edge_of: Integers  # (Σ counts,) edge that each listed row belongs to, -1 where its weight is zero


def canonical_edges(listing: EdgeListing) -> CanonicalEdges:
    """Bring listed edges into the form u ≤ v, sorted by (u, v), each once.

    What odd input means, for all graphs and all ways in:

    * A row whose weight is exactly 0 is no edge.
    * E is a set (paper, Section 2): rows that repeat an edge with the same weight are that one edge. Repeats with
      *different* weights are refused.
    * Forms that list both directions (PyG's ``edge_index``, matrices) must list both, with equal weight: anything else
      is a directed graph and is refused. Forms that list an edge once (networkx, ``(num_nodes, edges)``) may list
      either direction or both.
    * Self-loops are kept here; the Laplacian refuses them (they cancel in D − A).
    * NaN and infinite weights, and node numbers outside 0…n−1, are refused. Negative weights are kept.
    """
    owner = np.repeat(np.arange(len(listing.counts)), listing.counts)  # (E,) graph of each listed row
    _check_node_numbers(listing, owner)
    _check_finite(listing, owner)
    rows = np.arange(len(owner)) if listing.weights is None else np.flatnonzero(listing.weights)
    owner, source, target = owner[rows], listing.source[rows], listing.target[rows]
    low, high = np.minimum(source, target), np.maximum(source, target)
    node_start = np.cumsum(listing.num_nodes) - listing.num_nodes
    width = int(listing.num_nodes.max(initial=1))
    if int(listing.num_nodes.sum()) * width >= 2**63:
        raise GraphError(f"{len(listing.counts)} graphs of up to {width} nodes are too many for one call; pass fewer")
    key = (node_start[owner] + low) * width + high  # sorts by graph, then u, then v
    in_order = bool(np.all(key[1:] > key[:-1]))  # flat arrays from disk usually are
    if in_order and listing.weights is None and not listing.mirrored.any():  # each edge once: nothing to merge
        kinds = np.full(len(listing.counts), WeightKind.NONE, dtype=np.int8)
        return CanonicalEdges(listing.counts, np.stack([low, high]), None, kinds, rows, rows)
    order = np.arange(len(key)) if in_order else np.argsort(key, kind="stable")
    sorted_key = key[order]
    starts = np.flatnonzero(np.r_[True, sorted_key[1:] != sorted_key[:-1]]) if len(key) else np.zeros(0, np.int64)
    group = np.zeros(len(key), dtype=np.int64)
    group[starts[1:]] = 1
    edge_of = np.full(len(listing.source), -1, dtype=np.int64)
    edge_of[rows[order]] = np.cumsum(group)
    first = order[starts]
    _check_both_directions(listing, owner, source, target, order, starts)
    weights = _merged_weights(listing, rows, owner, source, target, order, starts)
    return CanonicalEdges(
        num_edges=np.bincount(owner[first], minlength=len(listing.counts)),
        edges=np.stack([low[first], high[first]]),
        weights=weights,
        weight_kind=_weight_kinds(listing, owner[first], weights),
        first=rows[first],
        edge_of=edge_of,
    )


def graph_name(index: int, count: int) -> str:
    """How messages call a graph: nothing where it is the only one."""
    return f"graph {index}: " if count > 1 else ""


def _check_node_numbers(listing: EdgeListing, owner: Integers) -> None:
    total = len(listing.counts)
    for index in np.flatnonzero((listing.num_nodes < 0) | (listing.num_nodes > MAX_NODES))[:1]:
        raise GraphError(
            f"{graph_name(index, total)}the graph has {listing.num_nodes[index]} nodes; expected 0 to {MAX_NODES}. "
            "If the number was read off the largest node number, renumber the nodes 0…n−1"
        )
    limit = listing.num_nodes[owner]
    bad = (listing.source < 0) | (listing.target < 0) | (listing.source >= limit) | (listing.target >= limit)
    if not bad.any():
        return
    row = int(np.argmax(bad))
    index = int(owner[row])
    nodes = int(listing.num_nodes[index])
    mine = owner == index
    lowest = int(min(listing.source[mine].min(), listing.target[mine].min()))
    highest = int(max(listing.source[mine].max(), listing.target[mine].max()))
    hint = f"Pass num_nodes={highest + 1} if there are that many nodes"
    if lowest < 0:
        hint = "Node numbers start at 0"
    elif lowest == 1 and highest == nodes:
        hint = "The numbers look 1-based: subtract 1"
    raise GraphError(
        f"{graph_name(index, total)}edge ({listing.source[row]}, {listing.target[row]}) names a node outside the "
        f"graph's {nodes} nodes; expected node numbers 0 to {nodes - 1}. {hint}"
    )


def _check_finite(listing: EdgeListing, owner: Integers) -> None:
    if listing.weights is None:
        return
    size = np.abs(listing.weights)
    good = (size == 0) | ((size >= SMALLEST_WEIGHT) & (size <= LARGEST_WEIGHT))  # false for NaN
    if good.all():
        return
    row = int(np.argmin(good))
    remedy = "rescale the weights" if np.isfinite(size[row]) else "remove the edge or give it a weight"
    raise GraphError(
        f"{graph_name(int(owner[row]), len(listing.counts))}edge ({listing.source[row]}, {listing.target[row]}) has "
        f"weight {listing.weights[row]}; expected a finite number, 0 or of magnitude {SMALLEST_WEIGHT:g} to "
        f"{LARGEST_WEIGHT:g}: {remedy}"
    )


def _check_both_directions(
    listing: EdgeListing, owner: Integers, source: Integers, target: Integers, order: Integers, starts: Integers
) -> None:
    if not listing.mirrored.any() or not len(starts):
        return
    forward = np.add.reduceat((source <= target)[order].astype(np.int64), starts)
    backward = np.add.reduceat((source >= target)[order].astype(np.int64), starts)
    one_way = ((forward == 0) | (backward == 0)) & listing.mirrored[owner[order[starts]]]
    if not one_way.any():
        return
    row = order[starts[int(np.argmax(one_way))]]
    raise GraphError(
        f"{graph_name(int(owner[row]), len(listing.counts))}the graph is directed: edge ({source[row]}, "
        f"{target[row]}) is there, ({target[row]}, {source[row]}) is not; expected an undirected graph. If direction "
        "does not matter, make it symmetric: torch_geometric.transforms.ToUndirected(), graph.to_undirected() in "
        "networkx, A.maximum(A.T) for a matrix; or pass (num_nodes, edges), which lists each edge once"
    )


def _merged_weights(
    listing: EdgeListing,
    rows: Integers,
    owner: Integers,
    source: Integers,
    target: Integers,
    order: Integers,
    starts: Integers,
) -> Floats | None:
    if listing.weights is None:
        return None
    if not len(starts):
        return np.zeros(0)
    ordered = listing.weights[rows][order]
    largest, smallest = np.maximum.reduceat(ordered, starts), np.minimum.reduceat(ordered, starts)
    clash = (largest - smallest) > _WEIGHT_AGREEMENT * np.maximum(np.abs(largest), np.abs(smallest))
    if clash.any():
        at = int(np.argmax(clash))
        row = order[starts[at]]
        raise GraphError(
            f"{graph_name(int(owner[row]), len(listing.counts))}the edge between nodes {source[row]} and "
            f"{target[row]} is listed with weights {float(smallest[at])!r} and {float(largest[at])!r}; an undirected "
            "edge has one weight. Combine them first, e.g. torch_geometric.utils.to_undirected(edge_index, "
            "edge_weight, reduce='add'), or (A + A.T) / 2 for a matrix"
        )
    return largest


def _weight_kinds(listing: EdgeListing, owner: Integers, weights: Floats | None) -> NDArray[np.int8]:
    kinds = np.where(listing.weighted, WeightKind.INTEGER, WeightKind.NONE).astype(np.int8)
    if weights is not None:
        fractional = np.bincount(owner, weights=weights != np.rint(weights), minlength=len(kinds)) > 0
        kinds[fractional & listing.weighted] = WeightKind.REAL
    return kinds


# Edges in canonical order, and features brought along, make :class:`~pointset.points.graphs.GraphArrays`.


def arrays_from_listing(listing: EdgeListing, features: Sequence[Features] | None) -> GraphArrays:
    """Canonical graphs, with the rows of ``edge_attr`` brought into the edges' order."""
    canonical = canonical_edges(listing)
    if isinstance(features, FlatFeatures):
        features = _flat_in_order(listing, canonical, features)
    elif features is not None and any(given.edge_attr is not None for given in features):
        features = _features_in_order(listing, canonical, features)
    return GraphArrays(
        num_nodes=listing.num_nodes,
        num_edges=canonical.num_edges,
        edges=canonical.edges,
        weights=canonical.weights,
        weight_kind=canonical.weight_kind,
        features=features,
    )


def graphs_from_flat(
    num_nodes: NDArray[np.integer],
    num_edges: NDArray[np.integer],
    edges: NDArray[np.integer],
    weights: NDArray[np.number] | None,
    features: Sequence[Features] | None,
) -> GraphArrays:
    """What :meth:`GraphArrays.from_flat` says."""
    pairs = np.asarray(edges)
    for name, array in (("num_nodes", num_nodes), ("num_edges", num_edges), ("edges", pairs)):
        if np.asarray(array).dtype.kind not in "iu" and np.asarray(array).size:
            raise GraphError(f"{name} is of type {np.asarray(array).dtype}; expected whole numbers")
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise GraphError(f"edges has shape {pairs.shape}; expected (2, M). Transpose an (M, 2) array with edges.T")
    counts = np.asarray(num_edges, dtype=np.int64)
    if (counts < 0).any():
        raise GraphError(f"num_edges holds {int(counts.min())}; expected 0 or more")
    if weights is not None and np.asarray(weights).shape != (pairs.shape[1],):
        raise GraphError(
            f"weights has shape {np.asarray(weights).shape}; expected ({pairs.shape[1]},), as many as edges"
        )
    if int(counts.sum()) != pairs.shape[1]:
        raise GraphError(f"num_edges adds up to {int(counts.sum())}, but edges holds {pairs.shape[1]} edges")
    if len(num_nodes) != len(counts):
        raise GraphError(f"num_nodes names {len(num_nodes)} graphs and num_edges {len(counts)}; expected as many")
    if features is not None:
        _check_features(features, num_nodes, counts)
    listing = EdgeListing(
        num_nodes=np.asarray(num_nodes, dtype=np.int64),
        counts=counts,
        source=pairs[0].astype(np.int64),
        target=pairs[1].astype(np.int64),
        weights=None if weights is None else np.asarray(weights, dtype=np.float64),
        weighted=np.full(len(counts), weights is not None),
        mirrored=np.zeros(len(counts), dtype=bool),
    )
    return arrays_from_listing(listing, features)


def _flat_in_order(listing: EdgeListing, canonical: CanonicalEdges, features: FlatFeatures) -> FlatFeatures:
    """As :func:`_features_in_order`, on all graphs at once."""
    listed = features.edge_attr
    if listed is None:
        return replace(features, num_edges=canonical.num_edges)
    chosen = listed[torch.from_numpy(canonical.first)]
    if len(chosen) < len(listed):
        kept = torch.from_numpy(np.flatnonzero(canonical.edge_of >= 0))
        clash = _differing(chosen[torch.from_numpy(canonical.edge_of)[kept]], listed[kept])
        if len(clash):
            row = int(kept[clash[0]])
            graph = int(np.searchsorted(np.cumsum(listing.counts), row, side="right"))
            _refuse_clash(listing, graph, row)
    return replace(features, num_edges=canonical.num_edges, edge_attr=chosen)


def _features_in_order(
    listing: EdgeListing, canonical: CanonicalEdges, features: Sequence[Features]
) -> Sequence[Features]:
    row_start = np.cumsum(listing.counts) - listing.counts
    edge_start = np.cumsum(canonical.num_edges) - canonical.num_edges
    ordered: list[Features] = []
    for index, given in enumerate(features):
        if given.edge_attr is None:
            ordered.append(given)
            continue
        rows = slice(row_start[index], row_start[index] + listing.counts[index])
        edges = slice(edge_start[index], edge_start[index] + canonical.num_edges[index])
        chosen = given.edge_attr[torch.from_numpy(canonical.first[edges] - row_start[index])]
        edge_of = torch.from_numpy(canonical.edge_of[rows])
        kept = edge_of >= 0
        clash = _differing(chosen[edge_of[kept] - edge_start[index]], given.edge_attr[kept])
        if len(clash):
            _refuse_clash(listing, index, int(torch.nonzero(kept)[clash[0]]) + int(row_start[index]))
        ordered.append(given._replace(edge_attr=chosen))
    return ordered


def _differing(again: torch.Tensor, listed: torch.Tensor) -> torch.Tensor:
    """Rows in which the two differ; NaN is the same as NaN."""
    differs = (again != listed) & ~((again != again) & (listed != listed))
    return torch.nonzero(differs.flatten(1).any(1) if differs.dim() > 1 else differs).flatten()


def _refuse_clash(listing: EdgeListing, index: int, row: int) -> None:
    raise GraphError(
        f"{graph_name(index, len(listing.counts))}the edge between nodes {listing.source[row]} and "
        f"{listing.target[row]} is listed with different edge features; an undirected edge has one set of features. "
        "Average or combine them first, e.g. torch_geometric.utils.to_undirected(edge_index, edge_attr, reduce='mean')"
    )


def check_rows(features: Features, num_nodes: int, num_edges: int) -> None:
    """Refuse features that do not have a row for each node, or for each listed edge."""
    for name, value, rows, what in (
        ("x", features.x, num_nodes, "nodes"),
        ("pos", features.pos, num_nodes, "nodes"),
        ("edge_attr", features.edge_attr, num_edges, "listed edges"),
    ):
        if value is not None and (value.dim() == 0 or value.shape[0] != rows):
            raise GraphError(f"{name} has shape {tuple(value.shape)}; expected one row for each of the {rows} {what}")


def _check_features(features: Sequence[Features], num_nodes: NDArray[np.integer], counts: Integers) -> None:
    if len(features) != len(counts):
        raise GraphError(f"features names {len(features)} graphs; expected {len(counts)}, one for each graph")
    if isinstance(features, FlatFeatures):
        if not (np.array_equal(features.num_nodes, num_nodes) and np.array_equal(features.num_edges, counts)):
            raise GraphError("the features are of graphs with other numbers of nodes or edges; expected the same")
        return
    for index, given in enumerate(features):
        try:
            check_rows(given, int(num_nodes[index]), int(counts[index]))
        except GraphError as error:
            raise GraphError(f"graph {index}: {error}") from None


# A sequence whose items are made when they are asked for.


Item = TypeVar("Item")
Many = Sequence[int] | NDArray[Any] | Tensor  # positions, or a mask


class LazySequence(Sequence[Item]):
    """Indices, slices, lists of indices, masks and iteration from two methods: how many, and the item at a position."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def item(self, position: int) -> Item:
        """The item at 0 ≤ position < len(self)."""

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Item: ...
    @overload
    def __getitem__(self, index: slice | Many) -> list[Item]: ...
    def __getitem__(self, index: int | np.integer[Any] | slice | Many) -> Item | list[Item]:
        positions = range(len(self))
        if isinstance(index, slice):
            return [self.item(position) for position in positions[index]]
        if hasattr(index, "__index__") and not getattr(index, "ndim", 0):
            return self.item(positions[index])
        chosen = np.asarray(index)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise IndexError(f"got a mask of shape {chosen.shape}; expected ({len(self)},)")
            chosen = np.flatnonzero(chosen)
        return [self.item(positions[one]) for one in chosen.tolist()]

    def __iter__(self) -> Iterator[Item]:
        return map(self.item, range(len(self)))


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
        pass  # it makes GraphArrays, so it comes after them

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
