"""Which graph files there are, known by their suffix alone, and what each can hold.

Nothing heavy is imported here: the command line refuses an unknown suffix before it waits for torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pointset.errors import FileFormatError, did_you_mean

_POINTS_SUFFIX = ".safetensors"


class Content(Enum):
    """What a graph may carry besides nodes and edges; the value is how messages call it."""

    WEIGHTS = "edge weights"
    LOOPS = "self-loops"
    X = "node features (x)"
    EDGE_ATTR = "edge features (edge_attr)"
    POS = "positions (pos)"
    Y = "targets (y)"


_EVERYTHING = frozenset(Content)


@dataclass(frozen=True)
class GraphFormat:
    """One kind of graph file."""

    title: str
    suffix: str
    module: str  # in pointset.datasets.graph_files, with read(path) and write(path, graphs, names)
    holds: frozenset[Content]

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"{self.suffix} ({self.title})" if self.suffix else self.title


FOLDER = GraphFormat("a folder of GraphML files", "", "folder", _EVERYTHING)
FORMATS = {
    format_.suffix: format_
    for format_ in (
        GraphFormat("graph6", ".g6", "graph6", frozenset()),
        GraphFormat("sparse6", ".s6", "sparse6", frozenset({Content.LOOPS})),
        GraphFormat("GraphML", ".graphml", "graphml", _EVERYTHING),
        GraphFormat("edge list", ".csv", "edge_list", frozenset({Content.WEIGHTS, Content.LOOPS, Content.EDGE_ATTR})),
        GraphFormat("PyG", ".pt", "pyg", _EVERYTHING),
    )
}


def format_of(path: str | Path) -> GraphFormat:
    """The format that a name promises: by suffix; a folder, or a name without suffix, is a folder.

    Raises:
        FileFormatError: the suffix is not known.
    """
    name = Path(path)
    suffix = name.suffix.lower()
    if name.is_dir() or (not suffix and not name.exists()):
        return FOLDER
    if suffix in FORMATS:
        return FORMATS[suffix]
    known = ", ".join(format_.label for format_ in FORMATS.values())
    if suffix == _POINTS_SUFFIX:
        raise FileFormatError(f"{name.name!r} is a file of points; expected a graph file: {known}, or a folder")
    got = f"the unknown suffix {suffix!r}" if suffix else "no suffix"
    hint = did_you_mean(suffix, [*FORMATS, _POINTS_SUFFIX], cutoff=0.7) if suffix else ""
    raise FileFormatError(
        f"{name.name!r} has {got}; expected {known}, or a folder; {_POINTS_SUFFIX} is for points{hint}"
    )
