"""Buckets: graphs of like size side by side, padded with zeros, where groups of equal (n, r) would be many and small.

Each group that an encoder runs on costs a fixed time for dispatch, whatever its size; each zero row and column costs
arithmetic. :func:`planned_buckets` weighs one against the other. Vectors of padded rows and columns are zero and stay
so through every linear map without bias; whatever is added up over points or eigenvalues is masked by
:class:`Padding`. So a graph's result does not depend on the graphs beside it, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pointset.arrays import Integers
from pointset.points.graphs import starts


class Run(NamedTuple):
    """Graphs of equal size, one after the other."""

    graphs: int  # B
    nodes: int  # n
    rank: int  # r
    edges: int  # in all of them together, both directions; 0 without edge features


class Padding(NamedTuple):
    """What is real in a bucket of B graphs, padded to n nodes and rank r; all in the floating-point type of the points.

    A module that gets along with padded rows says so by ``takes_padding = True`` in its class; see
    :func:`takes_padding`.
    """

    nodes: Tensor  # (B, 1) nodes of each graph
    ranks: Tensor  # (B, 1)
    rows: Tensor  # (B, n) 1 at nodes, 0 at padded rows
    columns: Tensor  # (B, r) 1 at eigenvalues, 0 at padded columns

    @classmethod
    def of(cls, num_nodes: Integers, ranks: Integers, like: Tensor) -> Padding:
        """For graphs of these sizes, both (B,), padded to the largest of each."""
        n, r = num_nodes[:, None], ranks[:, None]
        parts = (n, r, np.arange(n.max()) < n, np.arange(r.max()) < r)
        return cls(*(torch.from_numpy(part).to(like.device, like.dtype) for part in parts))

    def split(self, graphs: int) -> list[Padding]:
        """For pieces of so many graphs each."""
        return [Padding(*parts) for parts in zip(*(torch.split(part, graphs) for part in self), strict=True)]


def takes_padding(module: nn.Module | None) -> bool:
    """Whether the module, if there is one, masks padded rows where it has to.

    Its own class must say so: a subclass may override just what its base has masked.
    """
    return module is None or vars(type(module)).get("takes_padding", False) is True


# Of a layer, in multiply-adds: what it takes to start all its kernels once, and what an entry of a tensor costs in
# passes over memory. Measured with PST on one core (benchmarks/step_parts.py --buckets); on other devices, where a
# kernel starts as slowly and computes much faster, an estimate.
_START = {"cpu": 5e6}
_START_ELSEWHERE = 1e8
_PASSES = 50


def planned_buckets(runs: Sequence[Run], channels: int, device: str = "cpu") -> list[list[Run]]:
    """Consecutive runs (ascending in n, then r) to be padded to one size, so that a layer of h channels costs least.

    A graph in a bucket of n nodes and rank r costs n²·(2·r·h + 3·h²) + 6·n·r·h² multiply-adds and passes over
    n²·h + n·r·h numbers, and a bucket costs its start. The best of all contiguous partitions, by dynamic programming:
    O(K²) for K runs.
    """
    graphs, n, r = (np.array(column, dtype=np.float64) for column in list(zip(*runs, strict=True))[:3])
    start = _START.get(device, _START_ELSEWHERE)
    before = np.concatenate([[0.0], np.cumsum(graphs)])
    best, cut = np.zeros(len(runs) + 1), np.zeros(len(runs) + 1, dtype=np.int64)
    for end in range(1, len(runs) + 1):
        rank = np.maximum.accumulate(r[end - 1 :: -1])[::-1]  # of a bucket from each run on
        nodes = n[end - 1]
        pairs, entries = nodes**2, nodes * rank
        one = channels * (pairs * (2 * rank + 3 * channels + _PASSES) + entries * (6 * channels + _PASSES))
        total = best[:end] + (before[end] - before[:end]) * one + start
        cut[end] = total.argmin()
        best[end] = total[cut[end]]
    buckets: list[list[Run]] = []
    end = len(runs)
    while end:
        buckets.insert(0, list(runs[cut[end] : end]))
        end = int(cut[end])
    return buckets


def padded_points(values: Tensor, vectors: Tensor, runs: Sequence[Run]) -> tuple[Tensor, Tensor]:
    """Eigenpairs of consecutive graphs, (Σ r,) and (Σ n·r,), with zeros: (B, r), (B, n, r)."""
    graphs, nodes, rank = sum(run.graphs for run in runs), max(run.nodes for run in runs), max(run.rank for run in runs)
    all_values, all_vectors = values.new_zeros(graphs, rank), vectors.new_zeros(graphs, nodes, rank)
    parts = zip(
        torch.split(values, [run.graphs * run.rank for run in runs]),
        torch.split(vectors, [run.graphs * run.nodes * run.rank for run in runs]),
        runs,
        strict=True,
    )
    first = 0
    for own_values, own_vectors, (count, n, r, _) in parts:
        all_values[first : first + count, :r] = own_values.view(count, r)
        all_vectors[first : first + count, :n, :r] = own_vectors.view(count, n, r)
        first += count
    return all_values, all_vectors


def padded_rows(num_nodes: Integers) -> Integers:
    """(B·n,) which of the Σ n nodes stands in each row of a bucket; in padded rows, any of them.

    So padded rows hold features that a model knows.
    """
    last = np.maximum(num_nodes, 1) - 1
    rows: Integers = starts(num_nodes)[:, None] + np.minimum(np.arange(num_nodes.max()), last[:, None])
    return rows.ravel()
