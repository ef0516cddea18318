"""The graphs that counting is tried on, with their true numbers of paths and cycles."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pointset.datasets.counting_formulas import cycle_counts, path_matrix
from pointset.errors import SpecError
from pointset.paper.theorems.constructions import Groups
from pointset.paper.theorems.statement import adjacency_of, small_adjacencies

# Paths counted one set of nodes after another, without any formula: the reference for all that counts paths.


Integers = NDArray[np.int64]
MOST_NODES = 10  # 2ⁿ sets of nodes


def enumerated_paths(adjacencies: NDArray[np.generic], longest: int) -> dict[int, Integers]:
    """{k: P_k (B, n, n)} for k = 1 … ``longest``, of B simple graphs (B, n, n).

    W[S][i, j] is the number of paths from i to j that visit just the nodes S, hence with |S| − 1 edges; one more node m
    outside S gives W[S ∪ m][i, m] = Σ_j W[S][i, j] A_jm.
    """
    A = np.asarray(adjacencies).astype(np.int64)
    number, n, _ = A.shape
    if n > MOST_NODES:
        raise SpecError(f"got graphs of {n} nodes; expected at most {MOST_NODES}. Use pointset.datasets.counting")
    counts = {k: np.zeros((number, n, n), dtype=np.int64) for k in range(1, longest + 1)}
    walks = {1 << i: np.zeros((number, n, n), dtype=np.int64) for i in range(n)}
    for i in range(n):
        walks[1 << i][:, i, i] = 1
    for k in range(1, min(longest, n - 1) + 1):
        longer: dict[int, Integers] = {}
        for nodes, found in walks.items():
            onward = found @ A
            for m in range(n):
                if not nodes >> m & 1:
                    more = longer.setdefault(nodes | 1 << m, np.zeros((number, n, n), dtype=np.int64))
                    more[:, :, m] += onward[:, :, m]
        walks = longer
        counts[k] = sum(walks.values(), start=np.zeros((number, n, n), dtype=np.int64))
    return counts


def enumerated_cycles(adjacencies: NDArray[np.generic], paths: dict[int, Integers]) -> dict[int, Integers]:
    """{k + 1: C_{k+1} (B, n)}: paths with k ≥ 2 edges to a neighbour, two for each cycle."""
    A = np.asarray(adjacencies).astype(np.int64)
    return {k + 1: (A * P).sum(-1) // 2 for k, P in paths.items() if k > 1}


Array = NDArray[np.int64]

_NODES, _DENSITY, _NUMBER = 20, 0.25, 6  # of the larger random graphs


@dataclass(frozen=True, eq=False)
class CountedGraphs:
    """All small graphs, counted by enumeration, then larger ones, counted by the formulas that those prove."""

    description: str
    adjacencies: tuple[Array, ...]
    coordinates: Groups
    paths: Mapping[int, list[Array]]  # P_k (n, n) for each graph, k = 1 … 6
    cycles: Mapping[int, list[Array]]  # C_k (n,), k = 3 … 7


@functools.cache
def counted_graphs(max_nodes: int) -> CountedGraphs:
    """All graphs with 1 … ``max_nodes`` nodes by size, and six random ones with 20 nodes."""
    matrices: list[Array] = []
    paths: dict[int, list[Array]] = {k: [] for k in range(1, 7)}
    cycles: dict[int, list[Array]] = {k: [] for k in range(3, 8)}
    for n in range(1, max_nodes + 1):
        stack = np.stack([A for A in small_adjacencies(max_nodes) if len(A) == n]).astype(np.int64)
        matrices += list(stack)
        found = enumerated_paths(stack, 6)
        for k, counts in found.items():
            paths[k] += list(counts)
        for k, counts in enumerated_cycles(stack, found).items():
            cycles[k] += list(counts)
    description = f"{len(matrices):,} graphs with 1 to {max_nodes} nodes and {_NUMBER} random ones with {_NODES}"
    for seed in range(_NUMBER):
        A = adjacency_of(nx.gnp_random_graph(_NODES, _DENSITY, seed=seed)).astype(np.int64)
        matrices.append(A)
        for k in paths:
            paths[k].append(A if k == 1 else path_matrix(A, k))
        for k in cycles:
            cycles[k].append(cycle_counts(A, k))
    return CountedGraphs(description, tuple(matrices), Groups.of(matrices), paths, cycles)
