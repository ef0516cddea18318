"""What tells one input file from another, so that a prediction goes on only with the same (:func:`identity_of`)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pointset.datasets.prepared import file_digest

_MOST_READ = 2**30  # bytes; the digest of a larger file would take seconds, and size and time must do


def identity_of(path: Path) -> dict[str, Any]:
    """A file by its content, or by size and time where it is large; a folder by names, sizes and times."""
    if path.is_dir():
        listed = sorted((file.name, *_stamp(file)) for file in path.iterdir() if file.is_file())
        return {"folder": hashlib.sha256(repr(listed).encode()).hexdigest()}
    if path.stat().st_size <= _MOST_READ:
        return {"sha256": file_digest(path)}
    return {"size and time": list(_stamp(path))}


def stamp_of(path: Path) -> list[Any]:
    """Changes when somebody writes to the file or folder."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    return [(file.name, *_stamp(file)) for file in files]


def _stamp(file: Path) -> tuple[int, int]:
    about = file.stat()
    return about.st_size, about.st_mtime_ns
