"""What a reader gives: a graph, or the reason why there is none (:class:`GraphRecord`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, eq=False)
class GraphRecord:
    """One entry of a graph file. A bad entry has a ``problem`` instead of a ``graph`` and does not stop the rest."""

    name: str  # where it stands, such as "graphs.g6:12" for line 12
    graph: Any = None  # anything that pointset.to_points takes
    problem: str | None = None
    ignored: tuple[str, ...] = ()  # attributes that pointset has no use for


def shown_name(path: Path) -> str:
    """The file's name, fit for messages and for UTF-8 files even where the file system's is not valid Unicode."""
    return path.name.encode("utf-8", "replace").decode()
