"""What this machine has."""

from __future__ import annotations

import os


def cores() -> int:
    """How many this process may use: fewer than there are where a scheduler or a container gave it some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
