"""The graphs that counting is tried on, with their true numbers of paths and cycles."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pointset.datasets.counting.formulas import cycle_counts, path_matrix
from pointset.studies.theorems.counting_constructions import Groups
from pointset.studies.theorems.path_enumeration import enumerated_cycles, enumerated_paths
from pointset.studies.theorems.small_graphs import adjacency_of, small_adjacencies

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
