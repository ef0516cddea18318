"""The formats of graph files: which there are, what each can hold, and reading and writing any of them.

A format is a module with ``read(path)`` and ``write(path, graphs, names)``; it is imported when it is used, so that
reading graph6 never waits for PyG, and an unknown suffix is refused before anything heavy is imported.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pointset.errors import FileFormatError, did_you_mean
from pointset.files import naming, replacing

if TYPE_CHECKING:
    from pointset.arrays import Flags
    from pointset.points.graphs import Graph

_POINTS_SUFFIX = ".safetensors"
_FOLDER_SUFFIX = ".graphml"  # of the files that are written into a folder


class Content(Enum):
    """What a graph may carry besides nodes and edges; the value is how messages call it."""

    WEIGHTS = "edge weights"
    LOOPS = "self-loops"
    X = "node features (x)"
    EDGE_ATTR = "edge features (edge_attr)"
    POS = "positions (pos)"
    Y = "targets (y)"


_EVERYTHING = frozenset(Content)
_FEATURES = _EVERYTHING - {Content.WEIGHTS, Content.LOOPS}  # the fields of pointset.points.graphs.Features


@dataclass(frozen=True)
class GraphFormat:
    """A format of graph files."""

    title: str
    suffix: str
    module: str  # in pointset.datasets.graph_files; a folder has none
    holds: frozenset[Content]

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"{self.suffix} ({self.title})" if self.suffix else self.title


FOLDER = GraphFormat("a folder of GraphML files", "", "", _EVERYTHING)
FORMATS = {
    format_.suffix: format_
    for format_ in (
        GraphFormat("graph6", ".g6", "graph6", frozenset()),
        GraphFormat("sparse6", ".s6", "graph6", frozenset({Content.LOOPS})),
        GraphFormat("GraphML", ".graphml", "graphml", _EVERYTHING),
        GraphFormat("edge list", ".csv", "edge_list", frozenset({Content.WEIGHTS, Content.LOOPS, Content.EDGE_ATTR})),
        GraphFormat("PyG", ".pt", "pyg", _EVERYTHING),
        GraphFormat("numpy arrays of one graph", ".npz", "npz", _EVERYTHING),
    )
}


def format_of(path: str | Path) -> GraphFormat:
    """The format that a name promises: by suffix; a folder, or a name without suffix, is a folder."""
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


@dataclass(frozen=True, eq=False)
class GraphRecord:
    """One entry of a graph file. A bad entry has a ``problem`` instead of a ``graph`` and does not stop the rest."""

    name: str  # where it stands, such as "graphs.g6:12" for line 12
    graph: Any = None  # anything that pointset.to_points takes
    problem: str | None = None
    ignored: tuple[str, ...] = ()  # attributes that pointset has no use for
    masks: Mapping[str, Flags] | None = None  # part → (n, F): the nodes for train, val and test, in each of F splits


class _FormatModule(Protocol):
    def read(self, path: Path) -> Iterator[GraphRecord]: ...
    def write(self, path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None: ...


def _module_of(format_: GraphFormat) -> _FormatModule:
    return cast(_FormatModule, importlib.import_module(f"pointset.datasets.graph_files.{format_.module}"))


def read_graph_file(path: str | Path) -> Iterator[GraphRecord]:
    """The graphs of a file, or of all files in a folder, one after the other.

    Raises:
        FileFormatError: the file as a whole is not of the format that its suffix promises. A bad entry in a good file
            is a record with a ``problem``.
    """
    format_ = format_of(path)
    return _read_folder(Path(path)) if format_ is FOLDER else _module_of(format_).read(Path(path))


def files_in(folder: Path) -> list[Path]:
    """The graph files directly in a folder, by name, without hidden ones."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in FORMATS and not file.is_dir())
    return [file for file in files if not file.name.startswith(".")]


def _read_folder(path: Path) -> Iterator[GraphRecord]:
    """All files directly in the folder, by name; a file that cannot be read is a record with a problem."""
    files = files_in(path)
    if not files:
        raise FileFormatError(f"the folder {path} holds no graph file; expected files ending in {', '.join(FORMATS)}")
    for file in files:
        name = shown_name(file)
        try:
            for record in read_graph_file(file):
                own = record.name if record.name.startswith(name) else f"{name}:{record.name}"
                yield dataclasses.replace(record, name=own)
        except (FileFormatError, OSError) as error:
            yield GraphRecord(name, problem=str(error))


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
    arrays: Sequence[Graph] = read_graphs(graphs)
    names = [str(index) for index in range(len(arrays))] if names is None else list(names)
    if len(names) != len(arrays):
        raise FileFormatError(f"got {len(names)} names for {len(arrays)} graphs; expected one for each")
    if not target.parent.is_dir():
        raise FileFormatError(f"cannot write {target}: there is no folder {target.parent}. Create it first")
    lost: Counter[Content] = Counter()  # in how many graphs each would be lost
    for graph in arrays:
        lost.update(_content_of(graph) - format_.holds)
    if lost and not lossy:
        raise FileFormatError(f"{target.name}: {_loss_message(format_, lost, len(arrays))}")
    content = [_reduced(graph, format_.holds) for graph in arrays] if lost else arrays
    if format_ is FOLDER:
        _write_folder(target, content, names)
        return
    with replacing(target) as temporary:
        _module_of(format_).write(temporary, content, names)


def _content_of(graph: Graph) -> set[Content]:
    """What this graph carries. Weights that are all 1 say nothing and do not count."""
    content = {content for content in _FEATURES if getattr(graph.features, content.name.lower()) is not None}
    if graph.weights is not None and (graph.weights != 1).any():
        content.add(Content.WEIGHTS)
    if (graph.edges[0] == graph.edges[1]).any():
        content.add(Content.LOOPS)
    return content


def _loss_message(format_: GraphFormat, lost: Counter[Content], graphs: int) -> str:
    what = ", ".join(
        f"{content.value} of {count} of {graphs} graphs" for content in Content if (count := lost[content])
    )
    able = [other.label for other in (*FORMATS.values(), FOLDER) if not set(lost) - other.holds]
    return (
        f"{format_.title} cannot hold everything; it would lose {what}. Formats that hold it: {', '.join(able)}. To "
        "write without it, set lossy=True (--lossy on the command line)"
    )


def _reduced(graph: Graph, holds: frozenset[Content]) -> Graph:
    """The graph with only what a format holds."""
    import torch

    from pointset.points.graphs import Features, WeightKind

    edges = (graph.edges[0] != graph.edges[1]) | (Content.LOOPS in holds)
    weighted = Content.WEIGHTS in holds
    features = {content.name.lower(): getattr(graph.features, content.name.lower()) for content in _FEATURES & holds}
    if features.get("edge_attr") is not None:
        features["edge_attr"] = features["edge_attr"][torch.from_numpy(edges)]
    return dataclasses.replace(
        graph,
        edges=graph.edges[:, edges],
        weights=graph.weights[edges] if weighted and graph.weights is not None else None,
        weight_kind=graph.weight_kind if weighted else WeightKind.NONE,
        features=Features(**features),
    )


def _write_folder(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """One GraphML file for each graph, in a new or empty folder, which appears with all files or not at all."""
    if path.exists() and any(path.iterdir()):
        raise FileFormatError(f"the folder {path} is not empty; expected a new or an empty one. Choose another name")
    outer = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        inner = outer / "graphs"
        inner.mkdir()
        for file, graph, name in zip(_file_names(names), graphs, names, strict=True):
            with naming(path):
                _module_of(FORMATS[_FOLDER_SUFFIX]).write(inner / file, [graph], [name])
        if path.exists():
            path.rmdir()
        inner.rename(path)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _file_names(names: Sequence[str]) -> list[str]:
    """File names from graph names, numbered where that is needed to keep them apart and in order."""
    plain = [
        re.sub(r"[^\w.-]+", "-", name.removesuffix(_FOLDER_SUFFIX), flags=re.ASCII).strip(".-")[:100] for name in names
    ]
    files = [name + _FOLDER_SUFFIX for name in plain]
    folded = {name.lower() for name in plain}  # some file systems do not distinguish a from A
    if all(plain) and len(folded) == len(plain) and sorted(files) == files:
        return files
    digits = len(str(len(names)))
    return [f"{index:0{digits}d}_{name}".rstrip("_") + _FOLDER_SUFFIX for index, name in enumerate(plain)]


def shown_name(path: Path) -> str:
    """The file's name, fit for messages and for UTF-8 files even where the file system's is not valid Unicode."""
    return path.name.encode("utf-8", "replace").decode()
