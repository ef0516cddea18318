"""What a graph transformer can tell apart at most: refinement over all pairs of nodes, which carry labels.

    h_i ← (h_i, {{(R_ij, h_j) : all j}})

A layer attends to all nodes, and what it knows of a pair is R_ij: the adjacency matrix (a vanilla graph transformer;
with return probabilities as features, GPS), shortest path distances (Graphormer), resistances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from pointset.encodings import resistance_distance
from pointset.errors import SpecError
from pointset.studies.refinement.colours import Colours, Refinement, like, num_classes, refine, split
from pointset.studies.theorems.small_graphs import adjacency_of

Array = NDArray[Any]

GAP = 1e-9  # real numbers nearer than this are one label; rounding is 1e-15, different ones here differ by over 1e-4


def refine_by_relation(
    relations: Sequence[Array], features: Sequence[Array] | None = None, rounds: int | None = None
) -> Refinement:
    """Colours (n,) of the nodes of each graph, refined together.

    Args:
        relations: R for each graph, (n, n), not negative; may be infinite.
        features: from which nodes start, (n, c) for each graph; None where all nodes are alike.
        rounds: how many; None for as many as split a class.
    """
    starts = [np.zeros((len(one), 0)) for one in relations] if features is None else [np.asarray(x) for x in features]
    if [one.shape for one in relations] != [(len(x), len(x)) for x in starts] or len({x.shape[1] for x in starts}) > 1:
        shapes = [(one.shape, x.shape) for one, x in zip(relations, starts, strict=False)]
        raise SpecError(f"got relations and features of shapes {shapes}; expected (n, n) and (n, c), c one number")
    labels = numbered(relations)
    colours: Colours = [np.zeros(len(x), dtype=np.int64) for x in starts]
    for column in range(starts[0].shape[1] if starts else 0):
        colours = split(colours, numbered([x[:, column] for x in starts]))

    def step(now: Colours) -> Colours:
        number: dict[bytes, int] = {}
        rows = [np.sort(R * num_classes(now) + h, axis=1) for R, h in zip(labels, now, strict=True)]
        return split(now, [np.array([number.setdefault(row.tobytes(), len(number)) for row in one]) for one in rows])

    return refine(colours, step, rounds)


def numbered(values: Sequence[Array]) -> Colours:
    """Numbers 0, 1, … in the order of the values of all arrays, one for values nearer than ``GAP``."""
    every = np.nan_to_num(np.concatenate([one.ravel() for one in values]).astype(np.float64), posinf=-1.0)
    ordered = np.sort(every)
    classes = np.concatenate([[0], np.cumsum(np.diff(ordered) > GAP)]).astype(np.int64)
    return like(classes[np.searchsorted(ordered, every)], list(values))


def adjacency(graph: nx.Graph[int]) -> Array:
    """A, (n, n), of whole numbers."""
    return adjacency_of(graph).astype(np.int64)


def distances(graph: nx.Graph[int]) -> Array:
    """Shortest path distances (n, n); infinite between components."""
    if not len(graph):
        return np.zeros((0, 0))
    return np.asarray(shortest_path(adjacency(graph), unweighted=True))


def degrees(graph: nx.Graph[int]) -> Array:
    """(n, 1)."""
    return np.asarray(adjacency(graph).sum(1, keepdims=True))


def return_probabilities(graph: nx.Graph[int]) -> Array:
    """RWSE: the diagonals of (D⁻¹A)^k for k = 1 … n, (n, n); longer walks depend on these (Cayley–Hamilton)."""
    step = adjacency(graph) / np.maximum(degrees(graph), 1)
    return np.stack([np.linalg.matrix_power(step, k).diagonal() for k in range(1, len(graph) + 1)], axis=1)


def graphormer_same(first: nx.Graph[int], second: nx.Graph[int]) -> bool:
    """Whether Graphormer takes two graphs for one at any depth: distances of pairs, degrees of nodes."""
    pair = (first, second)
    return refine_by_relation([distances(g) for g in pair], [degrees(g) for g in pair]).same(0, 1)


def gps_same(first: nx.Graph[int], second: nx.Graph[int]) -> bool:
    """Whether GPS with RWSE does: message passing along A beside attention to all nodes, from return probabilities."""
    if len(first) != len(second):
        return False
    pair = (first, second)
    return refine_by_relation([adjacency(g) for g in pair], [return_probabilities(g) for g in pair]).same(0, 1)


def resistance_same(first: nx.Graph[int], second: nx.Graph[int]) -> bool:
    """Whether refinement by resistances does."""
    return refine_by_relation([resistance_distance(g).numpy() for g in (first, second)]).same(0, 1)
