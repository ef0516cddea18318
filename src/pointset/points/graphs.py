"""Graphs in the one form that everything reads: undirected, each edge once, in order.

:class:`Graph` is one graph, :class:`GraphArrays` many in flat arrays cut by counts. :func:`canonical_edges` brings edge
lists into this form and is the only place where the meaning of odd input is decided. Letters as everywhere: G graphs,
n nodes, m edges, M = Σ m.
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

from pointset import notebook
from pointset.arrays import Flags, Floats, Integers
from pointset.errors import GraphError

MAX_NODES = 2**31 - 1  # beyond it edge keys would overflow 64 bits, and no eigenvector would fit in memory
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-150, 1e150  # beyond, squares under- or overflow
_WEIGHT_AGREEMENT = 1e-12  # relative difference up to which w(u,v) and w(v,u) count as one weight (rounding)

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


def starts(counts: Integers) -> Integers:
    """Where each part of a flat array begins, from the parts' lengths."""
    return np.cumsum(counts) - counts


def consecutive(start: Integers, counts: Integers) -> Integers:
    """start[0], start[0] + 1, … (counts[0] numbers), then the same from start[1], and so on; (Σ counts,)."""
    return np.repeat(start - starts(counts), counts) + np.arange(counts.sum())


def name_in(counts: Integers, row: int) -> str:
    """How messages call the graph that a row of a flat array belongs to: nothing where it is the only one."""
    return "" if len(counts) == 1 else f"graph {np.searchsorted(np.cumsum(counts), row, side='right')}: "


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
    descriptors: Tensor | None = None  # (1, c) numbers of the graph as a whole
    fingerprint: Tensor | None = None  # (1, bits / 8) uint8: a molecule's fingerprint, packed

    def check(self, num_nodes: int, num_edges: int) -> None:
        """Refuse features that hold no plain numbers, or have no row for each node, or for each listed edge."""
        for name, value in self._asdict().items():
            if (
                value is not None
                and (value.is_nested or value.layout is torch.strided)
                and (fault := tensor_fault(value))
            ):
                raise GraphError(f"{name} is {fault}")
        _check_rows("x", self.x, num_nodes, "nodes")
        _check_rows("pos", self.pos, num_nodes, "nodes")
        _check_rows("edge_attr", self.edge_attr, num_edges, "listed edges")
        for name in WHOLE_GRAPH:
            _check_rows(name, getattr(self, name), 1, "graphs")


NO_FEATURES = Features()
WHOLE_GRAPH = ("descriptors", "fingerprint")  # features that have a row for each graph


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
    descriptors: Tensor | None = None  # (G, c)
    fingerprint: Tensor | None = None  # (G, bits / 8)

    def __post_init__(self) -> None:
        nodes = int(self.num_nodes.sum())
        _check_rows("x", self.x, nodes, "nodes")
        _check_rows("pos", self.pos, nodes, "nodes")
        _check_rows("edge_attr", self.edge_attr, int(self.num_edges.sum()), "edges")
        _check_rows("y", self.y, *((nodes, "nodes") if self.y_of_nodes else (len(self), "graphs")))
        for name in WHOLE_GRAPH:
            _check_rows(name, getattr(self, name), len(self), "graphs")

    @cached_property
    def node_start(self) -> Integers:
        """(G,) where each graph's nodes begin."""
        return starts(self.num_nodes)

    @cached_property
    def edge_start(self) -> Integers:
        """(G,) where each graph's edges begin."""
        return starts(self.num_edges)

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
            descriptors=None if self.descriptors is None else self.descriptors[position : position + 1],
            fingerprint=None if self.fingerprint is None else self.fingerprint[position : position + 1],
        )


def tensor_fault(value: Tensor) -> str:
    """What makes it unlike a plain array of numbers, and the remedy; empty where nothing does."""
    if value.is_nested:
        return "a nested tensor; expected a dense one. Call .to_padded_tensor(0) first"
    if value.layout is not torch.strided:
        return f"a {value.layout} tensor; expected a dense one. Call .to_dense() first"
    if value.is_meta:
        return "a tensor on the device 'meta', which holds no numbers; expected one on the CPU. Compute it there"
    if value.is_quantized:
        return f"a quantised tensor ({value.dtype}); expected plain numbers. Call .dequantize() first"
    if value.is_floating_point() and value.element_size() == 1:
        return f"a tensor of {value.dtype}; expected float16 or wider. Call .float() first"
    return ""


def _check_rows(name: str, value: Tensor | None, rows: int, what: str) -> None:
    if value is not None and (value.dim() == 0 or value.shape[0] != rows):
        raise GraphError(f"{name} has shape {tuple(value.shape)}; expected one row for each of the {rows} {what}")


@dataclass(frozen=True, eq=False)
class Graph:
    """One undirected graph: edges with u ≤ v, sorted, each once."""

    num_nodes: int
    edges: Integers  # (2, m)
    weights: Floats | None  # (m,), None where every edge weighs 1
    weight_kind: WeightKind
    features: Features = NO_FEATURES

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"nodes": f"{self.num_nodes:,}", "edges": f"{self.edges.shape[1]:,}"}
        if self.weights is not None:
            facts["weights"] = f"{self.weights.min():.4g} to {self.weights.max():.4g}" if len(self.weights) else "none"
        facts |= {name: notebook.shape(one) for name, one in self.features._asdict().items() if one is not None}
        return notebook.card("Graph", facts, picture=notebook.graph_drawing(self.num_nodes, self.edges))


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
        for name, given in (("num_nodes", num_nodes), ("num_edges", num_edges), ("edges", edges)):
            array = np.asarray(given)
            if array.dtype.kind not in "iu" and array.size:
                raise GraphError(f"{name} is of type {array.dtype}; expected whole numbers")
        nodes, counts = np.asarray(num_nodes, dtype=np.int64), np.asarray(num_edges, dtype=np.int64)
        pairs, real = np.asarray(edges), None if weights is None else np.asarray(weights, dtype=np.float64)
        _check_flat(nodes, counts, pairs, real)
        if features is not None:
            _check_features(features, nodes, counts)
        listing = EdgeListing(
            num_nodes=nodes,
            counts=counts,
            source=pairs[0].astype(np.int64),
            target=pairs[1].astype(np.int64),
            weights=real,
            weighted=np.full(len(counts), real is not None),
            mirrored=np.zeros(len(counts), dtype=bool),
        )
        return listing.canonical(features)

    def __len__(self) -> int:
        return len(self.num_nodes)

    @cached_property
    def edge_start(self) -> Integers:
        """(G,) where each graph's edges begin in the flat arrays."""
        return starts(self.num_edges)

    def item(self, position: int) -> Graph:
        """One graph; its arrays are views."""
        start = int(self.edge_start[position])
        stop = start + int(self.num_edges[position])
        kind = WeightKind(int(self.weight_kind[position]))
        return Graph(
            num_nodes=int(self.num_nodes[position]),
            edges=self.edges[:, start:stop],
            weights=None if self.weights is None or kind is WeightKind.NONE else self.weights[start:stop],
            weight_kind=kind,
            features=self.features_of(position),
        )

    def features_of(self, position: int) -> Features:
        """The features of one graph."""
        return NO_FEATURES if self.features is None else self.features[position]


def _check_flat(num_nodes: Integers, counts: Integers, edges: NDArray[Any], weights: Floats | None) -> None:
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"edges has shape {edges.shape}; expected (2, M). Transpose an (M, 2) array with edges.T")
    if (counts < 0).any():
        raise GraphError(f"num_edges holds {int(counts.min())}; expected 0 or more")
    if weights is not None and weights.shape != (edges.shape[1],):
        raise GraphError(f"weights has shape {weights.shape}; expected ({edges.shape[1]},), as many as edges")
    if int(counts.sum()) != edges.shape[1]:
        raise GraphError(f"num_edges adds up to {int(counts.sum())}, but edges holds {edges.shape[1]} edges")
    if len(num_nodes) != len(counts):
        raise GraphError(f"num_nodes names {len(num_nodes)} graphs and num_edges {len(counts)}; expected as many")


def _check_features(features: Sequence[Features], num_nodes: Integers, counts: Integers) -> None:
    if len(features) != len(counts):
        raise GraphError(f"features names {len(features)} graphs; expected {len(counts)}, one for each graph")
    if isinstance(features, FlatFeatures):
        if not (np.array_equal(features.num_nodes, num_nodes) and np.array_equal(features.num_edges, counts)):
            raise GraphError("the features are of graphs with other numbers of nodes or edges; expected the same")
        return
    for index, given in enumerate(features):
        try:
            given.check(int(num_nodes[index]), int(counts[index]))
        except GraphError as error:
            raise GraphError(f"graph {index}: {error}") from None


@dataclass(frozen=True, eq=False)
class EdgeListing:
    """Edge lists of G graphs as they were given, concatenated: E listed rows in all."""

    num_nodes: Integers  # (G,)
    counts: Integers  # (G,) listed rows of each graph
    source: Integers  # (E,)
    target: Integers  # (E,)
    weights: Floats | None  # (E,); 1 where a graph gives none
    weighted: Flags  # (G,) whether the graph gives weights
    mirrored: Flags  # (G,) whether the form promises both (u,v) and (v,u), as edge_index and matrices do

    def canonical(self, features: Sequence[Features] | None) -> GraphArrays:
        """The graphs, with the rows of ``edge_attr`` brought into the edges' order."""
        found = canonical_edges(self)
        if features is not None:
            features = _features_in_order(self, found, features)
        return GraphArrays(self.num_nodes, found.num_edges, found.edges, found.weights, found.weight_kind, features)

    def place(self, row: int) -> str:
        """How messages call the graph of a listed row."""
        return name_in(self.counts, row)


class CanonicalEdges(NamedTuple):
    """Sorted edges, and where each came from in the listing."""

    num_edges: Integers  # (G,)
    edges: Integers  # (2, M)
    weights: Floats | None  # (M,)
    weight_kind: NDArray[np.int8]  # (G,)
    first: Integers  # (M,) a listed row of each edge
    edge_of: Integers  # (E,) edge that each listed row belongs to, -1 where its weight is zero


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
    graphs = len(listing.counts)
    owner = np.repeat(np.arange(graphs), listing.counts)  # (E,) graph of each listed row
    check_node_numbers(listing, owner)
    check_weights(listing)
    rows = np.arange(len(owner)) if listing.weights is None else np.flatnonzero(listing.weights)
    owner, source, target = owner[rows], listing.source[rows], listing.target[rows]
    low, high = np.minimum(source, target), np.maximum(source, target)
    width = int(listing.num_nodes.max(initial=1))
    if int(listing.num_nodes.sum()) * width >= 2**63:
        raise GraphError(f"{graphs} graphs of up to {width} nodes are too many for one call; pass fewer")
    key = (starts(listing.num_nodes)[owner] + low) * width + high  # sorts by graph, then u, then v
    in_order = bool(np.all(key[1:] > key[:-1]))  # flat arrays from disk usually are
    if in_order and listing.weights is None and not listing.mirrored.any():  # each edge once: nothing to merge
        kinds = np.full(graphs, WeightKind.NONE, dtype=np.int8)
        return CanonicalEdges(listing.counts, np.stack([low, high]), None, kinds, rows, rows)
    order = np.arange(len(key)) if in_order else np.argsort(key, kind="stable")
    key, rows = key[order], rows[order]
    new = np.ones(len(key), dtype=bool)
    new[1:] = key[1:] != key[:-1]
    first = np.flatnonzero(new)  # (M,) in the sorted rows
    edge_of = np.full(len(listing.source), -1, dtype=np.int64)
    edge_of[rows] = np.cumsum(new) - 1
    _check_both_directions(listing, rows, first)
    weights = None if listing.weights is None else _merged_weights(listing, listing.weights[rows], rows, first)
    owner, low, high = (part[order[first]] for part in (owner, low, high))
    return CanonicalEdges(
        num_edges=np.bincount(owner, minlength=graphs),
        edges=np.stack([low, high]),
        weights=weights,
        weight_kind=_weight_kinds(listing, owner, weights),
        first=rows[first],
        edge_of=edge_of,
    )


def check_node_numbers(listing: EdgeListing, owner: Integers) -> None:
    """Refuse edges of nodes that are not there; ``owner`` is the graph of each listed row."""
    for index in np.flatnonzero((listing.num_nodes < 0) | (listing.num_nodes > MAX_NODES))[:1]:
        where = f"graph {index}: " if len(listing.counts) > 1 else ""
        raise GraphError(
            f"{where}the graph has {listing.num_nodes[index]} nodes; expected 0 to {MAX_NODES}. "
            "If the number was read off the largest node number, renumber the nodes 0…n−1"
        )
    limit = listing.num_nodes[owner]
    bad = (listing.source < 0) | (listing.target < 0) | (listing.source >= limit) | (listing.target >= limit)
    if not bad.any():
        return
    row = int(np.argmax(bad))
    nodes = int(limit[row])
    mine = owner == owner[row]
    numbers = np.stack([listing.source[mine], listing.target[mine]])
    lowest, highest = int(numbers.min()), int(numbers.max())
    hint = f"Pass num_nodes={highest + 1} if there are that many nodes"
    if lowest < 0:
        hint = "Node numbers start at 0"
    elif lowest == 1 and highest == nodes:
        hint = "The numbers look 1-based: subtract 1"
    raise GraphError(
        f"{listing.place(row)}edge ({listing.source[row]}, {listing.target[row]}) names a node outside the graph's "
        f"{nodes} nodes; expected node numbers 0 to {nodes - 1}. {hint}"
    )


def check_weights(listing: EdgeListing) -> None:
    """Refuse weights that are not finite, or so small or large that their squares under- or overflow."""
    if listing.weights is None:
        return
    size = np.abs(listing.weights)
    good = (size == 0) | ((size >= _SMALLEST_WEIGHT) & (size <= _LARGEST_WEIGHT))  # false for NaN
    if good.all():
        return
    row = int(np.argmin(good))
    remedy = "rescale the weights" if np.isfinite(size[row]) else "remove the edge or give it a weight"
    raise GraphError(
        f"{listing.place(row)}edge ({listing.source[row]}, {listing.target[row]}) has weight {listing.weights[row]}; "
        f"expected a finite number, 0 or of magnitude {_SMALLEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}: {remedy}"
    )


def _check_both_directions(listing: EdgeListing, rows: Integers, first: Integers) -> None:
    if not listing.mirrored.any() or not len(first):
        return
    source, target = listing.source[rows], listing.target[rows]
    forward = np.add.reduceat((source <= target).astype(np.int64), first)
    backward = np.add.reduceat((source >= target).astype(np.int64), first)
    mirrored = np.repeat(listing.mirrored, listing.counts)[rows[first]]
    one_way = ((forward == 0) | (backward == 0)) & mirrored
    if not one_way.any():
        return
    at = first[int(np.argmax(one_way))]
    raise GraphError(
        f"{listing.place(rows[at])}the graph is directed: edge ({source[at]}, {target[at]}) is there, ({target[at]}, "
        f"{source[at]}) is not; expected an undirected graph. If direction does not matter, make it symmetric: "
        "torch_geometric.transforms.ToUndirected(), graph.to_undirected() in networkx, A.maximum(A.T) for a matrix; "
        "or pass (num_nodes, edges), which lists each edge once. If it does matter, "
        "pointset.points.magnetic_points(graph) turns directed graphs into points"
    )


def _merged_weights(listing: EdgeListing, weights: Floats, rows: Integers, first: Integers) -> Floats:
    """One weight for each edge, (M,), from those of its rows."""
    if not len(first):
        return np.zeros(0)
    largest: Floats = np.maximum.reduceat(weights, first)
    smallest = np.minimum.reduceat(weights, first)
    clash = (largest - smallest) > _WEIGHT_AGREEMENT * np.maximum(np.abs(largest), np.abs(smallest))
    if clash.any():
        edge = int(np.argmax(clash))
        row = rows[first[edge]]
        raise GraphError(
            f"{listing.place(row)}the edge between nodes {listing.source[row]} and {listing.target[row]} is listed "
            f"with weights {float(smallest[edge])!r} and {float(largest[edge])!r}; an undirected edge has one weight. "
            "Combine them first, e.g. torch_geometric.utils.to_undirected(edge_index, edge_weight, reduce='add'), or "
            "(A + A.T) / 2 for a matrix"
        )
    return largest


def _weight_kinds(listing: EdgeListing, owner: Integers, weights: Floats | None) -> NDArray[np.int8]:
    kinds = np.where(listing.weighted, WeightKind.INTEGER, WeightKind.NONE).astype(np.int8)
    if weights is not None:
        fractional = np.bincount(owner, weights=weights != np.rint(weights), minlength=len(kinds)) > 0
        kinds[fractional & listing.weighted] = WeightKind.REAL
    return kinds


def _features_in_order(listing: EdgeListing, found: CanonicalEdges, features: Sequence[Features]) -> Sequence[Features]:
    """Features whose rows of ``edge_attr`` stand in the order of the edges."""
    if isinstance(features, FlatFeatures):
        edge_attr = _rows_in_order(listing, features.edge_attr, found.first, found.edge_of)
        return replace(features, num_edges=found.num_edges, edge_attr=edge_attr)
    if all(given.edge_attr is None for given in features):
        return features
    ordered: list[Features] = []
    for row, rows, edge, edges, given in zip(
        starts(listing.counts), listing.counts, starts(found.num_edges), found.num_edges, features, strict=True
    ):
        first, edge_of = found.first[edge : edge + edges] - row, found.edge_of[row : row + rows] - edge
        ordered.append(given._replace(edge_attr=_rows_in_order(listing, given.edge_attr, first, edge_of, int(row))))
    return ordered


def _rows_in_order(
    listing: EdgeListing, listed: Tensor | None, first: Integers, edge_of: Integers, offset: int = 0
) -> Tensor | None:
    """The listed rows at ``first``; rows of one edge must be equal. ``offset``: row of the listing where they begin."""
    if listed is None:
        return None
    chosen = listed[torch.from_numpy(first)]
    if len(chosen) == len(listed):
        return chosen
    kept = torch.from_numpy(np.flatnonzero(edge_of >= 0))  # negative: of weight zero, so no edge
    again, given = chosen[torch.from_numpy(edge_of)[kept]], listed[kept]
    differs = (again != given) & ~((again != again) & (given != given))  # NaN is the same as NaN
    clash = torch.nonzero(differs.flatten(1).any(1) if differs.dim() > 1 else differs).flatten()
    if len(clash):
        row = int(kept[clash[0]]) + offset
        raise GraphError(
            f"{listing.place(row)}the edge between nodes {listing.source[row]} and {listing.target[row]} is listed "
            "with different edge features; an undirected edge has one set of features. Average or combine them first, "
            "e.g. torch_geometric.utils.to_undirected(edge_index, edge_attr, reduce='mean')"
        )
    return chosen
