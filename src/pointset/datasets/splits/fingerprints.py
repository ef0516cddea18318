"""Graphs that could be the same, found among hundreds of thousands by colour refinement (:func:`alike`).

Weisfeiler–Leman on all graphs at once, in flat arrays: a node's colour starts as a hash of its features, and in each
round becomes a hash of itself and of the multiset {(edge's colour, neighbour's colour)}. The multiset of a graph's
colours is the same for isomorphic graphs. A collision of 64-bit hashes could only make different graphs look alike,
which the exact comparison of :mod:`pointset.datasets.splits.leaks` sets right. Features are compared exactly: whole
numbers as they are, real ones bit by bit, with one NaN and one zero. Positions and targets are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Integers
from pointset.points.graphs import FlatFeatures, GraphArrays, WeightKind

Hashes = NDArray[np.uint64]
_MOST_ROUNDS = 64  # a change travels one edge in a round; the exact comparison distinguishes the rest
_OF_EDGES = np.uint64(0x2545F4914F6CDD1D)  # keeps colours of edges apart from those of nodes


def coloured_graphs(graphs: GraphArrays) -> ColouredGraphs:
    """All graphs, with a colour for each node (its features), edge (features, weight) and graph (which features)."""
    of_graph, node_colour = _feature_colours(graphs, "x", graphs.num_nodes)
    edges_of_graph, edge_colour = _feature_colours(graphs, "edge_attr", graphs.num_edges)
    if graphs.weights is not None:
        unweighted = np.repeat(graphs.weight_kind == WeightKind.NONE, graphs.num_edges)
        weights = np.where(unweighted, 1.0, graphs.weights)
        edge_colour = scrambled(edge_colour + real_bits(weights).view(np.uint64))
    node_start = np.cumsum(graphs.num_nodes) - graphs.num_nodes
    return ColouredGraphs(
        index=np.arange(len(graphs)),
        num_nodes=graphs.num_nodes,
        num_edges=graphs.num_edges,
        edges=graphs.edges + np.repeat(node_start, graphs.num_edges),
        graph_colour=scrambled(of_graph + scrambled(edges_of_graph)),
        node_colour=node_colour,
        edge_colour=scrambled(edge_colour ^ _OF_EDGES),
    )


def _feature_colours(graphs: GraphArrays, name: Literal["x", "edge_attr"], counts: Integers) -> tuple[Hashes, Hashes]:
    """(G,) a colour for the shape of the rows that a graph has, and (Σ counts,) one for each row of all graphs."""
    shapes = np.zeros(len(graphs), dtype=np.uint64)
    rows = np.zeros(int(counts.sum()), dtype=np.uint64)
    if isinstance(graphs.features, FlatFeatures):
        flat: Tensor | None = getattr(graphs.features, name)
        return shapes, rows if flat is None else _row_hashes([flat], is_whole(flat))
    by_shape: dict[tuple[int, ...], dict[int, Tensor]] = {}
    for index, given in enumerate(graphs.features or ()):
        tensor: Tensor | None = getattr(given, name)
        if tensor is not None:
            by_shape.setdefault(tuple(tensor.shape[1:]), {})[index] = tensor
    whole = all(is_whole(tensor) for tensors in by_shape.values() for tensor in tensors.values())
    for code, tensors in enumerate(by_shape.values(), start=1):
        graph = np.array(list(tensors))
        shapes[graph] = code
        rows[_rows_of(counts, graph)] = _row_hashes(list(tensors.values()), whole)
    return shapes, rows


def _row_hashes(tensors: list[Tensor], whole: bool) -> Hashes:
    rows = np.concatenate([feature_rows(tensor, whole=whole) for tensor in tensors])
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        hashes = scrambled(hashes + column.astype(np.uint64))
    return hashes


def feature_rows(tensor: Tensor, *, whole: bool) -> NDArray[np.int64]:
    """(rows, width) whole numbers for a tensor (rows, …), equal where the features are."""
    rows = tensor.detach().to_dense().cpu().to(torch.int64 if whole else torch.float64)
    table = rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).numpy()
    return table if whole else real_bits(table)


def is_whole(tensor: Tensor) -> bool:
    """Whether the features are whole numbers or truth values."""
    return not tensor.is_floating_point()


def real_bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers that are equal where the real ones are: one zero, and NaN equals NaN."""
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)


@dataclass(frozen=True, eq=False)
class ColouredGraphs:
    """Many graphs with colours; each edge once, node numbers counted through all graphs."""

    index: Integers  # (G,) the number by which the caller knows each graph
    num_nodes: Integers  # (G,)
    num_edges: Integers  # (G,)
    edges: Integers  # (2, M)
    graph_colour: Hashes  # (G,) of what is not in nodes and edges
    node_colour: Hashes  # (N,)
    edge_colour: Hashes  # (M,)

    def take(self, chosen: Integers) -> ColouredGraphs:
        """Some of the graphs."""
        nodes, edges = _rows_of(self.num_nodes, chosen), _rows_of(self.num_edges, chosen)
        shift = (np.cumsum(self.num_nodes) - self.num_nodes)[chosen]
        counts = self.num_nodes[chosen]
        moved = np.repeat(np.cumsum(counts) - counts - shift, self.num_edges[chosen])
        return ColouredGraphs(
            index=self.index[chosen],
            num_nodes=counts,
            num_edges=self.num_edges[chosen],
            edges=self.edges[:, edges] + moved,
            graph_colour=self.graph_colour[chosen],
            node_colour=self.node_colour[nodes],
            edge_colour=self.edge_colour[edges],
        )

    def refined(self) -> ColouredGraphs:
        """The same graphs after one round."""
        gathered = np.zeros_like(self.node_colour)
        for here, there in (self.edges, self.edges[::-1]):
            np.add.at(gathered, here, scrambled(self.node_colour[there] ^ self.edge_colour))
        colours = scrambled(self.node_colour + scrambled(gathered))
        return replace(self, node_colour=colours)

    def fingerprints(self) -> Hashes:
        """(G,) equal for graphs with equal multisets of colours."""
        result = self.graph_colour.copy()
        for counts, colours in ((self.num_nodes, self.node_colour), (self.num_edges, self.edge_colour)):
            added = np.zeros_like(result)
            np.add.at(added, np.repeat(np.arange(len(counts)), counts), scrambled(colours))
            result = scrambled(result + scrambled(added ^ scrambled(counts.astype(np.uint64))))
        return result


def alike(graphs: ColouredGraphs) -> list[Integers]:
    """Groups of two or more graphs that colour refinement cannot distinguish, by their ``index``, in order."""
    colours = -1
    for _ in range(_MOST_ROUNDS):
        _, group, size = np.unique(graphs.fingerprints(), return_inverse=True, return_counts=True)
        chosen = np.flatnonzero(size[group] > 1)
        if not len(chosen):
            return []
        if len(chosen) < len(graphs.index):
            graphs, colours = graphs.take(chosen), -1
        before, colours = colours, len(np.unique(graphs.node_colour))
        if colours <= before:  # stable: a further round would change nothing
            break
        graphs = graphs.refined()
    return _groups(graphs)


def _groups(graphs: ColouredGraphs) -> list[Integers]:
    _, group, size = np.unique(graphs.fingerprints(), return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    parts = np.split(graphs.index[order], np.cumsum(size)[:-1])
    return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))


def _rows_of(counts: Integers, chosen: Integers) -> Integers:
    """The rows of some graphs in a flat array that ``counts`` cuts."""
    start, length = (np.cumsum(counts) - counts)[chosen], counts[chosen]
    begin = np.cumsum(length) - length
    return np.repeat(start - begin, length) + np.arange(int(length.sum()))


def scrambled(codes: Hashes) -> Hashes:
    """Splitmix64: 64-bit numbers to well-mixed ones, one to one."""
    mixed = codes * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Hashes = mixed ^ (mixed >> np.uint64(31))
    return result
