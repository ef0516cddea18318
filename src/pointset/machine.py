"""What this machine has: cores and memory, and what is true of its processes.

Also the version of the package, for parts that may not import all of it.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from pointset.errors import MemoryForecastError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = "0.1.0"
Count = TypeVar("Count", int, "NDArray[np.int64]")

_STATUS = Path("/proc/self/status")
_SYSTEM_TIMES = Path("/proc/stat")
_RESET = Path("/proc/self/clear_refs")
_PEAK_ONLY = "5"  # of what the kernel can forget
NEVER_A_PROBLEM = 64 * 2**20  # bytes; asking the system takes longer than converting a small graph
# Numbers of four bytes that training keeps for each channel and layer, of each pair of points and of each coordinate.
# Tensors kept for the backward pass measure 5 to 6 for `pst` and `pst-released`, 4 for `psds`; the rest is room for
# what is alive beside them.
_KEPT_NUMBERS = 8


def cores() -> int:
    """How many this process may use: fewer than there are where a scheduler or a container gave it some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def can_share_work() -> bool:
    """Whether processes can share work here: they need semaphores, which on Linux lie in ``/dev/shm``.

    Where they cannot, it is said once, as a warning: everything is then done by this process.
    """
    try:
        get_context("spawn").Lock()
    except (OSError, ImportError) as error:  # the latter where Python was built without them
        reason = getattr(error, "strerror", None) or error
        warnings.warn(
            f"other processes cannot help, so this one does all the work: the system gives no semaphores ({reason}). "
            "On Linux, make /dev/shm writable; in a container, for example with --tmpfs /dev/shm",
            stacklevel=2,
        )
        return False
    return True


@contextmanager
def main_left_alone() -> Iterator[None]:
    """Workers need nothing of the user's script. Spawning would run it again in each of them, which breaks scripts
    without ``if __name__ == "__main__":``.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def cores_used_by_others(seconds: float) -> float | None:
    """How many of our cores other processes use, on average over so many seconds, in which this process sleeps.

    Work of lower priority than ours does not count: it gives way. None where the system does not say (not Linux).
    """
    busy, own = _busy_seconds(), time.process_time()
    start = time.perf_counter()
    if busy is None:
        return None
    time.sleep(seconds)
    passed, later = time.perf_counter() - start, _busy_seconds()
    return None if later is None else max(0.0, (later - busy - (time.process_time() - own)) / passed)


def _busy_seconds() -> float | None:
    """Processor time of all processes on our cores since the system started."""
    try:
        lines = _SYSTEM_TIMES.read_text().splitlines()
    except OSError:
        return None
    gives_way = os.getpriority(os.PRIO_PROCESS, 0) <= 0  # then what is ``nice`` gives way to us
    ours, ticks = {f"cpu{number}" for number in os.sched_getaffinity(0)}, 0
    for name, *columns in (line.split() for line in lines if line.startswith("cpu")):
        if name in ours:
            user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen, *_ = map(int, columns)
            ticks += user + system + interrupts + soft_interrupts + stolen + (0 if gives_way else nice)
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes() -> int:
    """What is resident now; outside of Linux, the most that ever was."""
    return _from_kernel("VmRSS:")


def peak_bytes() -> int:
    """The most that was resident since :func:`forget_peak`; outside of Linux, since the process began.

    ``ru_maxrss`` alone would not do: it never falls, and a process starts with that of the one that started it.
    """
    return _from_kernel("VmHWM:")


def forget_peak() -> None:
    """Measure the peak from here on, where the kernel can."""
    with suppress(OSError):  # there is no such file, or it may not be written, as in some containers
        _RESET.write_text(_PEAK_ONLY)


def _from_kernel(field: str) -> int:
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), _peak_by_resource())


def _peak_by_resource() -> int:
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def training_bytes(num_nodes: Count, rank: Count, *, dim: int, layers: int) -> Count:
    """About how much memory the activations of a graph take in training, in float32: 32·layers·d·(n² + n·r) bytes.

    Args:
        num_nodes: n of one graph, or (G,) of many.
        rank: r, likewise.
        dim: d, the number of channels.
        layers: number of layers.
    """
    return num_nodes * (num_nodes + rank) * (4 * _KEPT_NUMBERS * dim * layers)


def fitting(needed: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of these numbers of bytes are free here, each for itself; all of them where the system does not say."""
    available = None if needed.max(initial=0) < NEVER_A_PROBLEM else _available_bytes()
    largest = max(NEVER_A_PROBLEM, available or 0)
    return needed <= (needed.max(initial=0) if available is None else largest)


def check_fits(needed: float, what: str, remedy: str) -> None:
    """Raise where ``needed`` bytes exceed what the machine has free; ``what`` reads like "a graph of 5 nodes needs"."""
    if needed < NEVER_A_PROBLEM:
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
