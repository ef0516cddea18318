"""Refuse work that would not fit into memory before it starts."""

from __future__ import annotations

from pathlib import Path

from pointset.errors import MemoryForecastError

_NEVER_A_PROBLEM = 64 * 2**20  # bytes; asking the system takes longer than converting a small graph


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
