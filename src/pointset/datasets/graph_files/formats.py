"""Reading and writing graph files of every format: :func:`read_graph_file` and :func:`write_graph_file`.

A format is a module with ``read(path)`` and ``write(path, graphs, names)``; it is imported when it is used, so that
reading graph6 never waits for PyG.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from pointset.datasets.graph_files.content import losses, reduced
from pointset.datasets.graph_files.records import GraphRecord
from pointset.datasets.graph_formats import FOLDER, FORMATS, Content, GraphFormat, format_of
from pointset.errors import FileFormatError
from pointset.files import replacing
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graphs


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
