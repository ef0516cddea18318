"""Graphs with their features and weights → the colours that fingerprints start from (:func:`coloured_graphs`).

Features are compared exactly: whole numbers as they are, real ones bit by bit, with one NaN and one zero. Positions and
targets are left out.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.datasets.splits.fingerprints import ColouredGraphs, Hashes, rows_of, scrambled
from pointset.points.graphs import FlatFeatures, GraphArrays, Integers, WeightKind

_OF_EDGES = np.uint64(0x2545F4914F6CDD1D)  # keeps colours of edges apart from those of nodes


def coloured_graphs(graphs: GraphArrays) -> ColouredGraphs:
    """All graphs, with a colour for each node (its features), edge (features, weight) and graph (which features)."""
    of_graph, node_colour = _feature_colours(graphs, "x", graphs.num_nodes)
    edges_of_graph, edge_colour = _feature_colours(graphs, "edge_attr", graphs.num_edges)
    if graphs.weights is not None:
        edge_colour = scrambled(edge_colour + real_bits(weights_of(graphs)).view(np.uint64))
    node_start = np.cumsum(graphs.num_nodes) - graphs.num_nodes
    return ColouredGraphs(
        members=np.arange(len(graphs)),
        num_nodes=graphs.num_nodes,
        num_edges=graphs.num_edges,
        edges=graphs.edges + np.repeat(node_start, graphs.num_edges),
        graph_colour=scrambled(of_graph + scrambled(edges_of_graph)),
        node_colour=node_colour,
        edge_colour=scrambled(edge_colour ^ _OF_EDGES),
    )


def weights_of(graphs: GraphArrays) -> NDArray[np.float64]:
    """(M,) weights; 1 for the edges of graphs without."""
    if graphs.weights is None:
        return np.ones(graphs.edges.shape[1])
    return np.where(np.repeat(graphs.weight_kind == WeightKind.NONE, graphs.num_edges), 1.0, graphs.weights)


def real_bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers that are equal where the real ones are: one zero, and NaN equals NaN."""
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)


def feature_rows(tensor: Tensor, *, whole: bool) -> NDArray[np.int64]:
    """(rows, width) whole numbers for a tensor (rows, …), equal where the features are."""
    rows = tensor.detach().to_dense().cpu().to(torch.int64 if whole else torch.float64)
    table = rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).numpy()
    return table if whole else real_bits(table)


def _feature_colours(graphs: GraphArrays, name: Literal["x", "edge_attr"], counts: Integers) -> tuple[Hashes, Hashes]:
    """(G,) a colour for the kind of rows that a graph has, and (Σ counts,) one for each row of all graphs."""
    kinds = np.zeros(len(graphs), dtype=np.uint64)
    rows = np.zeros(int(counts.sum()), dtype=np.uint64)
    if isinstance(graphs.features, FlatFeatures):
        flat: Tensor | None = getattr(graphs.features, name)
        return kinds, rows if flat is None else _row_hashes([flat], is_whole(flat))
    by_shape: dict[tuple[int, ...], dict[int, Tensor]] = {}
    for index, given in enumerate(graphs.features or ()):
        tensor: Tensor | None = getattr(given, name)
        if tensor is not None:
            by_shape.setdefault(tuple(tensor.shape[1:]), {})[index] = tensor
    whole = all(is_whole(tensor) for tensors in by_shape.values() for tensor in tensors.values())
    for kind, tensors in enumerate(by_shape.values(), start=1):
        members = np.array(list(tensors))
        kinds[members] = kind
        rows[rows_of(counts, members)] = _row_hashes(list(tensors.values()), whole)
    return kinds, rows


def is_whole(tensor: Tensor) -> bool:
    """Whether the features are whole numbers or truth values."""
    return not tensor.is_floating_point()


def _row_hashes(tensors: list[Tensor], whole: bool) -> Hashes:
    rows = np.concatenate([feature_rows(tensor, whole=whole) for tensor in tensors])
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        hashes = scrambled(hashes + column.astype(np.uint64))
    return hashes
