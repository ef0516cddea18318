"""The 13 node targets of the counting benchmark, exact: :func:`count_substructures`, :func:`count_many`.

Subgraphs, not induced ones, each counted up to the automorphisms that fix its root r:

====================  =========================================================================
k-path, k = 2 … 6     paths with k edges that start at r
k-cycle, k = 3 … 7    cycles through r
tailed-triangle       r at the end of the tail: r–a, a–b, a–c, b–c
chordal-cycle         r at a corner with two edges: r–a, r–b, a–b, a–c, b–c
triangle-rectangle    r at the apex of the triangle: r–a, r–b, a–b, b–c, c–d, a–d
====================  =========================================================================
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import pairwise
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from pointset.datasets.counting.blocks import Integers, make_block
from pointset.datasets.counting.paths import SUBSTRUCTURES, count_by_paths
from pointset.errors import GraphError, MemoryForecastError
from pointset.progress import progress_bar

__all__ = ["SUBSTRUCTURES", "count_many", "count_substructures"]

MAX_NODES = 10_000  # of one graph: its tables of A, A² and A³ take 9 n² bytes, here 0.9 GB
_TABLE_ENTRIES = 2**17  # Σ n² of the graphs counted together: their tables stay in the processor's cache


def count_substructures(num_nodes: SupportsIndex, edges: ArrayLike) -> Integers:
    """(n, 13): for each node of one graph, how many of each of :data:`SUBSTRUCTURES` it is the root of.

    Args:
        num_nodes: n.
        edges: (2, m) whole numbers from 0 to n − 1. An edge listed twice, or both ways, is one edge.

    Raises:
        GraphError: the edges are no such array, there is a self-loop, or a count might not fit into 64 bits.
        MemoryForecastError: more than 10,000 nodes.
    """
    edges = _whole_numbers(edges, "edges", 2)
    try:
        nodes = operator.index(num_nodes)
    except TypeError:
        raise GraphError(f"got num_nodes of type {type(num_nodes).__name__}; expected a whole number") from None
    return count_many([nodes], [edges.shape[1]], edges, progress=False)


def count_many(
    num_nodes: ArrayLike, num_edges: ArrayLike, edges: ArrayLike, *, progress: bool | None = None
) -> Integers:
    """(N, 13): :func:`count_substructures` for many graphs, one below the other. Time: all paths with four edges.

    Args:
        num_nodes: (G,) nodes of each graph.
        num_edges: (G,) edges of each graph.
        edges: (2, M), one graph after the other; each graph's nodes are numbered from 0.
        progress: show a bar; by default where stderr is a terminal.
    """
    nodes, counts, pairs = _checked(num_nodes, num_edges, edges)
    graph = np.repeat(np.arange(len(nodes)), counts)
    edge_ends = np.cumsum(counts)
    result = np.zeros((int(nodes.sum()), len(SUBSTRUCTURES)), dtype=np.int64)
    done = 0
    with progress_bar("counting substructures", len(nodes), show=progress) as advance:
        for part in _parts(nodes):
            columns = slice(int(edge_ends[part.start] - counts[part.start]), int(edge_ends[part.stop - 1]))
            block = make_block(nodes[part], graph[columns] - part.start, pairs[:, columns])
            result[done : done + len(block.row)] = count_by_paths(block).T
            done += len(block.row)
            advance(part.stop - part.start)
    return result


def _parts(nodes: Integers) -> Iterator[slice]:
    """Consecutive graphs that are counted together."""
    group = np.cumsum(nodes**2) // _TABLE_ENTRIES
    starts = np.flatnonzero(np.diff(group, prepend=-1)).tolist()
    return (slice(start, stop) for start, stop in pairwise([*starts, len(nodes)]))


def _checked(num_nodes: ArrayLike, num_edges: ArrayLike, edges: ArrayLike) -> tuple[Integers, Integers, Integers]:
    nodes, counts = _whole_numbers(num_nodes, "num_nodes", 1), _whole_numbers(num_edges, "num_edges", 1)
    pairs = _whole_numbers(edges, "edges", 2)
    if len(nodes) != len(counts) or (nodes < 0).any() or (counts < 0).any():
        raise GraphError(
            f"got num_nodes and num_edges of {len(nodes)} and {len(counts)} graphs, the least {nodes.min(initial=0)} "
            f"and {counts.min(initial=0)}; expected one number for each graph, none negative"
        )
    if nodes.max(initial=0) > MAX_NODES:
        raise MemoryForecastError(
            f"got a graph with {nodes.max()} nodes; counting takes 9 n² bytes, expected at most {MAX_NODES} nodes. "
            "Count its parts or a subgraph"
        )
    if counts.sum() != pairs.shape[1]:
        raise GraphError(f"got {pairs.shape[1]} edges; expected {counts.sum()}, the sum of num_edges")
    graph = np.repeat(np.arange(len(nodes)), counts)
    outside = ((pairs < 0) | (pairs >= nodes[graph])).any(axis=0)
    for wrong, problem in ((outside, "names a node that is not there"), (pairs[0] == pairs[1], "is a self-loop")):
        if wrong.any():
            column = int(np.argmax(wrong))
            u, v = pairs[:, column].tolist()
            raise GraphError(
                f"graph {graph[column]}: edge {u}–{v} {problem}; expected two different nodes from 0 to "
                f"{nodes[graph[column]] - 1}. Number the nodes of each graph from 0 and drop its self-loops"
            )
    return nodes, counts, pairs


def _whole_numbers(values: ArrayLike, name: str, dimensions: int) -> Integers:
    """An int64 array, checked; an empty one may be of any type, as ``[[], []]`` is."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise GraphError(f"got {name} with rows of unequal length; expected an array of whole numbers") from None
    shape = "(2, m)" if dimensions == 2 else "(G,)"
    if array.ndim != dimensions or (dimensions == 2 and len(array) != 2):
        raise GraphError(f"got {name} of shape {array.shape}; expected {shape}. Transpose it if it is (m, 2)")
    if array.size and array.dtype.kind not in "iu":
        raise GraphError(f"got {name} of type {array.dtype}; expected whole numbers, of shape {shape}")
    return array.astype(np.int64)
