"""The random graphs of the counting benchmark: :func:`counting_graphs`."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from pointset.errors import GraphError

Integers = NDArray[np.int64]

NODES_AND_DEGREES = ((10, 6), (15, 6), (20, 5), (30, 5))


def counting_graphs(seed: SupportsIndex, count: SupportsIndex = 5000) -> tuple[Integers, Integers, Integers]:
    """``count`` graphs: random d-regular graphs on n nodes from which exactly n random edges were removed.

    (n, d) is (10, 6), (15, 6), (20, 5) or (30, 5), drawn anew for each graph with equal chances: the published 5,000
    graphs hold 1228, 1274, 1233 and 1265 of them in no order, which is what such draws give. Nothing makes the graphs
    connected; about one in ten is not (520 of the published). Expected are 18.75 nodes and 31.25 edges.

    Graph i depends on the seed and on i alone: more graphs begin with the same ones.

    Args:
        seed: a whole number ≥ 0.
        count: G ≥ 0.

    Returns:
        num_nodes (G,), num_edges (G,) and edges (2, M): one graph after the other, each with nodes from 0, each edge
        once as u < v, in ascending order.
    """
    start, number = _natural(seed, "seed"), _natural(count, "count")
    drawn = [_graph(np.random.SeedSequence(start, spawn_key=(index,))) for index in range(number)]
    num_nodes = np.array([nodes for nodes, _ in drawn], dtype=np.int64)
    num_edges = np.array([edges.shape[1] for _, edges in drawn], dtype=np.int64)
    none = np.zeros((2, 0), dtype=np.int64)
    return num_nodes, num_edges, np.concatenate([none, *(edges for _, edges in drawn)], axis=1)


def _graph(seed: np.random.SeedSequence) -> tuple[int, Integers]:
    """One graph: n and edges (2, nd/2 − n)."""
    import networkx as nx  # only here: commands that generate nothing should not wait for it

    generator = np.random.default_rng(seed)
    nodes, degree = NODES_AND_DEGREES[generator.integers(len(NODES_AND_DEGREES))]
    regular = nx.random_regular_graph(degree, nodes, seed=int(generator.integers(2**32)))
    edges = np.array(sorted(sorted(edge) for edge in regular.edges()), dtype=np.int64)
    kept = generator.choice(len(edges), len(edges) - nodes, replace=False)
    return nodes, edges[np.sort(kept)].T


def _natural(value: SupportsIndex, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise GraphError(f"got {name} {value!r}; expected a whole number ≥ 0")
    return number
