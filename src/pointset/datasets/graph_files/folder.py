"""A folder: all graph files in it are read, in order of their names; one GraphML file for each graph is written."""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pointset.datasets.graph_files import graphml
from pointset.datasets.graph_files.formats import FORMATS, GraphRecord, load, shown_name
from pointset.errors import FileFormatError
from pointset.points.graphs import Graph

_SUFFIX = ".graphml"


def read(path: Path) -> Iterator[GraphRecord]:
    """The records of all files directly in the folder; a file that cannot be read is a record with a problem."""
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in FORMATS and not file.is_dir())
    files = [file for file in files if not file.name.startswith(".")]
    if not files:
        raise FileFormatError(f"the folder {path} holds no graph file; expected files ending in {', '.join(FORMATS)}")
    for file in files:
        name = shown_name(file)
        try:
            for record in load(FORMATS[file.suffix.lower()]).read(file):
                own = record.name if record.name.startswith(name) else f"{name}:{record.name}"
                yield dataclasses.replace(record, name=own)
        except (FileFormatError, OSError) as error:
            yield GraphRecord(name, problem=str(error))


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """Fill a new or empty folder; it appears with all files or not at all."""
    if path.exists() and any(path.iterdir()):
        raise FileFormatError(f"the folder {path} is not empty; expected a new or an empty one. Choose another name")
    outer = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        inner = outer / "graphs"
        inner.mkdir()
        for file, graph, name in zip(_file_names(names), graphs, names, strict=True):
            graphml.write(inner / file, [graph], [name])
        if path.exists():
            path.rmdir()
        inner.rename(path)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _file_names(names: Sequence[str]) -> list[str]:
    """File names from graph names, numbered where that is needed to keep them apart and in order."""
    plain = [re.sub(r"[^\w.-]+", "-", name.removesuffix(_SUFFIX), flags=re.ASCII).strip(".-")[:100] for name in names]
    files = [name + _SUFFIX for name in plain]
    folded = {name.lower() for name in plain}  # some file systems do not tell a from A
    if all(plain) and len(folded) == len(plain) and sorted(files) == files:
        return files
    digits = len(str(len(names)))
    return [f"{index:0{digits}d}_{name}".rstrip("_") + _SUFFIX for index, name in enumerate(plain)]
