"""Refuse work that would not fit into memory before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pointset.errors import MemoryForecastError
from pointset.points.graphs import Integers

Count = TypeVar("Count", int, Integers)

_NEVER_A_PROBLEM = 64 * 2**20  # bytes; asking the system takes longer than converting a small graph

# Numbers of four bytes that training keeps for each channel and layer, of each pair of points and of each coordinate.
# Tensors kept for the backward pass measure 5 to 6 for `pst` and `pst-released`, 4 for `psds`; the rest is room for
# what is alive beside them.
_KEPT_NUMBERS = 8


def training_bytes(num_nodes: Count, rank: Count, *, dim: int, layers: int) -> Count:
    """About how much memory the activations of a graph take in training, in float32: 32·layers·d·(n² + n·r) bytes.

    Args:
        num_nodes: n of one graph, or (G,) of many.
        rank: r, likewise.
        dim: d, the number of channels.
        layers: number of layers.
    """
    return num_nodes * (num_nodes + rank) * (4 * _KEPT_NUMBERS * dim * layers)


def check_fits(needed: float, what: str, remedy: str) -> None:
    """Raise where ``needed`` bytes exceed what the machine has free; ``what`` reads like "a graph of 5 nodes needs"."""
    if needed < _NEVER_A_PROBLEM:
        return
    available = _available_bytes()
    if available is not None and needed > available:
        raise MemoryForecastError(
            f"{what} about {needed / 2**30:.0f} GiB of memory, and {available / 2**30:.0f} GiB are free. {remedy}"
        )


def _available_bytes() -> int | None:
    """What Linux calls available; None elsewhere, where nothing is refused."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
