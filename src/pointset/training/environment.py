"""What a run was made with: versions, machine, commit (:func:`environment`)."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from pointset.machine import cores
from pointset.version import VERSION

_PUBLISHED = ("pointset", "python", "packages", "machine", "device", "threads")
_PACKAGES = ("torch", "lightning", "torchmetrics", "numpy", "scipy", "torch_geometric", "rdkit")


def environment(*, device: str, processes: int, threads: int) -> dict[str, Any]:
    """Plain values, for ``environment.json``."""
    return {
        "pointset": VERSION,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "machine": {
            "system": platform.system(),
            "processor": _processor(),
            "cores": cores(),
            "memory_bytes": _memory(),
        },
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "processes": processes,
        "threads": threads,
        "git_commit": _commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def machine_kind(*, device: str, threads: int) -> dict[str, Any]:
    """What a measurement depends on, without names of machines, commands or paths: to be published beside it."""
    about = environment(device=device, processes=1, threads=threads)
    return {key: about[key] for key in _PUBLISHED}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _commit() -> str | None:
    """Of the repository that the package lies in, with a mark where files were changed; None where there is none."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - git is where the user has it
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
