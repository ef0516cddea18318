"""Paths counted one set of nodes after another, without any formula: the reference for all that counts paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pointset.errors import SpecError

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
