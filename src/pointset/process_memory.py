"""How much of this process is in memory, and the most since a moment: for measurements that stand alone.

``ru_maxrss`` will not do: it never falls, and a process starts with that of the one that started it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_PEAK_ONLY = "5"  # of what the kernel can forget


def resident_bytes() -> int:
    """What is resident now; outside of Linux, the most that ever was."""
    return _from_kernel("VmRSS:")


def peak_bytes() -> int:
    """The most that was resident since :func:`forget_peak`; outside of Linux, since the process began."""
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
