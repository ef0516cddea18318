"""Edges in canonical order, and features brought along, make :class:`~pointset.points.graphs.GraphArrays`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from pointset.errors import GraphError
from pointset.points.canonical import CanonicalEdges, EdgeListing, canonical_edges, graph_name
from pointset.points.graphs import Features, FlatFeatures, GraphArrays, Integers


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
