"""Which graphs a model computes together: of like size, and within bounds of memory (:func:`batches_of`)."""

from __future__ import annotations

import numpy as np

from pointset.points.graphs import Integers
from pointset.points.memory import check_fits, training_bytes

_BATCH_BYTES = 256 * 2**20  # of a batch's activations; beyond, a larger batch is not faster


def batches_of(num_nodes: Integers, ranks: Integers, *, batch_size: int, dim: int) -> list[list[int]]:
    """Positions of graphs with these n and r, (G,), in batches.

    Sorted by size, as graphs of one size are computed side by side. What comes together depends on the sizes only.
    """
    needed = forward_bytes(num_nodes, ranks, dim)
    batches: list[list[int]] = []
    held = 0
    for graph in np.lexsort((ranks, num_nodes)).tolist():
        if not batches or len(batches[-1]) == batch_size or held + needed[graph] > _BATCH_BYTES:
            batches.append([])
            held = 0
        batches[-1].append(graph)
        held += int(needed[graph])
    return batches


def forward_bytes(num_nodes: Integers, ranks: Integers, dim: int) -> Integers:
    """(G,) about how much memory the activations of a graph take without training: those of one layer."""
    return training_bytes(num_nodes, ranks, dim=dim, layers=1)


def check_forward_fits(num_nodes: int, dim: int) -> None:
    """Refuse a graph whose pairs of points would not fit into memory, before it is decomposed.

    Raises:
        MemoryForecastError: it would not.
    """
    needed = training_bytes(num_nodes, num_nodes, dim=dim, layers=1)
    check_fits(needed, f"a graph of {num_nodes:,} nodes needs", "Predict it on a machine with more memory")
