"""Edge lists as they were given → the one form of :mod:`pointset.points.graphs`.

:func:`canonical_edges` works on any number of graphs at once and is the only place where the meaning of odd input is
decided (see its docstring).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.errors import GraphError
from pointset.points.graphs import MAX_NODES, Flags, Floats, Integers, WeightKind

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
