"""A table of graphs and what was noted while it was made, kept on disk together (:func:`kept`).

The notes are JSON under a line with their SHA-256, written before the table: where there is a whole table there are
whole notes, and where either is damaged both are made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pointset.datasets.prepared import prepared
from pointset.datasets.table import GraphTable
from pointset.files import replacing

Notes = dict[str, Any]


def kept(path: Path, make: Callable[[], tuple[GraphTable, Notes]]) -> tuple[GraphTable, Notes]:
    """The table in this file with the notes beside it; where they are not there, or damaged, they are made and kept.

    Args:
        path: of the table, ending in ``.safetensors``.
        make: gives the table and notes of plain values with a key ``rows``, a list with an entry for each graph.
    """
    beside = path.with_suffix(".json")
    notes = _read(beside) if path.exists() else None
    if notes is None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    made: list[Notes] = []

    def make_both() -> GraphTable:
        table, new = make()
        made.append(new)
        with contextlib.suppress(OSError):  # where nothing can be kept, ``prepared`` says so
            beside.parent.mkdir(parents=True, exist_ok=True)
            _write(beside, new)
        return table

    table = prepared(path, make_both)
    if made:
        return table, made[0]
    if notes is None or len(notes["rows"]) != len(table):  # a folder that can only be read
        return make()
    return table, notes


def _write(path: Path, notes: Notes) -> None:
    text = json.dumps(notes, ensure_ascii=True, separators=(",", ":"))
    with replacing(path) as temporary:
        temporary.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}", encoding="ascii")


def _read(path: Path) -> Notes | None:
    try:
        digest, _, text = path.read_text(encoding="ascii").partition("\n")
        notes = json.loads(text) if hashlib.sha256(text.encode()).hexdigest() == digest else None
    except (OSError, ValueError):
        return None
    return notes if isinstance(notes, dict) else None
