"""Reading and writing graph files of every format: :func:`read_graph_file` and :func:`write_graph_file`.

A format is a module with ``read(path)`` and ``write(path, graphs, names)``; it is imported when it is used, so that
reading graph6 never waits for PyG.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pointset.errors import FileFormatError, did_you_mean
from pointset.files import replacing

if TYPE_CHECKING:
    from pointset.points.graphs import Graph

# Which graph files there are, known by their suffix alone, and what each can hold.
#
# Nothing heavy is imported here: the command line refuses an unknown suffix before it waits for torch.


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


# What a graph carries, and what would be lost where a format cannot hold it.


def content_of(graph: Graph) -> frozenset[Content]:
    """What this graph carries. Weights that are all 1 say nothing and do not count."""
    has = {
        Content.WEIGHTS: graph.weights is not None and bool((graph.weights != 1).any()),
        Content.LOOPS: bool((graph.edges[0] == graph.edges[1]).any()),
        Content.X: graph.features.x is not None,
        Content.EDGE_ATTR: graph.features.edge_attr is not None,
        Content.POS: graph.features.pos is not None,
        Content.Y: graph.features.y is not None,
    }
    return frozenset(content for content, there in has.items() if there)


def losses(graphs: Iterable[Graph], held: frozenset[Content]) -> Counter[Content]:
    """In how many graphs each content would be lost."""
    lost: Counter[Content] = Counter()
    for graph in graphs:
        lost.update(content_of(graph) - held)
    return lost


def reduced(graph: Graph, held: frozenset[Content]) -> Graph:
    """The graph with only what a format holds."""
    import numpy as np
    import torch

    from pointset.points.graphs import WeightKind

    features = graph.features
    kept = np.ones(graph.edges.shape[1], dtype=bool)
    if Content.LOOPS not in held:
        kept = graph.edges[0] != graph.edges[1]
    edge_attr = features.edge_attr if Content.EDGE_ATTR in held else None
    weighted = Content.WEIGHTS in held and graph.weights is not None
    return dataclasses.replace(
        graph,
        edges=graph.edges[:, kept],
        weights=graph.weights[kept] if weighted and graph.weights is not None else None,
        weight_kind=graph.weight_kind if weighted else WeightKind.NONE,
        features=features._replace(
            x=features.x if Content.X in held else None,
            edge_attr=None if edge_attr is None else edge_attr[torch.from_numpy(kept)],
            pos=features.pos if Content.POS in held else None,
            y=features.y if Content.Y in held else None,
        ),
    )


# What a reader gives: a graph, or the reason why there is none (:class:`GraphRecord`).


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


class _FormatModule(Protocol):
    def read(self, path: Path) -> Iterator[GraphRecord]: ...
    def write(self, path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None: ...


def load(format_: GraphFormat) -> _FormatModule:
    """The module that reads and writes a format."""
    return cast(_FormatModule, importlib.import_module(f"pointset.datasets.graph_files.{format_.module}"))


def read_graph_file(path: str | Path) -> Iterator[GraphRecord]:
    """The graphs of a file, or of all files in a folder, one after the other.

    Raises:
        FileFormatError: the file as a whole is not of the format that its suffix promises. A bad entry in a good file
            is a record with a ``problem``.
    """
    return load(format_of(path)).read(Path(path))


def write_graph_file(
    path: str | Path, graphs: Sequence[Any], names: Sequence[str] | None = None, *, lossy: bool = False
) -> None:
    """Write graphs into a file of the format that its suffix names; it appears whole or not at all.

    Args:
        path: where to write; a name without suffix becomes a folder with one GraphML file for each graph.
        graphs: any number of what :func:`pointset.to_points` takes.
        names: one for each, used where the format has a place for it. By default the position.
        lossy: write also what the format cannot hold in full (weights in graph6, node features in CSV, …).

    Raises:
        FileFormatError: something would be lost, and ``lossy`` is not set; or the suffix is not known.
    """
    from pointset.points.inputs import read_graphs

    target, format_ = Path(path), format_of(path)
    arrays = read_graphs(graphs)
    names = [str(index) for index in range(len(arrays))] if names is None else list(names)
    if len(names) != len(arrays):
        raise FileFormatError(f"got {len(names)} names for {len(arrays)} graphs; expected one for each")
    if not target.parent.is_dir():
        raise FileFormatError(f"cannot write {target}: there is no folder {target.parent}. Create it first")
    lost = losses(arrays, format_.holds)
    if lost and not lossy:
        raise FileFormatError(f"{target.name}: {_loss_message(format_, lost, len(arrays))}")
    content = [reduced(graph, format_.holds) for graph in arrays] if lost else arrays
    if format_ is FOLDER:
        load(format_).write(target, content, names)
        return
    with replacing(target) as temporary:
        load(format_).write(temporary, content, names)


def _loss_message(format_: GraphFormat, lost: dict[Content, int], graphs: int) -> str:
    what = ", ".join(f"{content.value} of {count} of {graphs} graphs" for content, count in lost.items())
    able = [other.label for other in (*FORMATS.values(), FOLDER) if not set(lost) - other.holds]
    return (
        f"{format_.title} cannot hold everything; lost would be: {what}. Formats that hold it: {', '.join(able)}. To "
        "write without it, set lossy=True (--lossy on the command line)"
    )
