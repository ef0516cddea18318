"""The files that PyG's datasets are made of: lists of graphs, and all graphs in flat arrays (:class:`Collated`)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from pointset.arrays import Array
from pointset.datasets.benchmarks.reading import LARGEST, DataFile, as_array, kind_of
from pointset.errors import FileFormatError
from pointset.progress import Advance

_BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True, eq=False)
class Collated:
    """G graphs, N nodes and M listed edges in flat arrays."""

    num_nodes: Array  # (G,)
    num_edges: Array  # (G,)
    fields: Mapping[str, Array]  # (N, …), (M, …) or (G, …); edge_index (2, M) with node numbers local to each graph
    texts: Mapping[str, list[str]] = field(default_factory=dict)  # (G,)

    def __getitem__(self, name: str) -> Array:
        return self.fields[name]


def collate(graphs: Iterable[Mapping[str, Array]], nodes: str) -> Collated:
    """Graphs one after the other; ``nodes`` names the field that says how many nodes a graph has."""
    columns: dict[str, list[Array]] = {}
    for graph in graphs:
        for name, array in graph.items():
            columns.setdefault(name, []).append(array)
    num_nodes = np.array([len(rows) for rows in columns[nodes]])
    num_edges = np.array([ends.shape[1] for ends in columns["edge_index"]])
    fields = {name: np.concatenate(rows, axis=1 if name == "edge_index" else 0) for name, rows in columns.items()}
    return Collated(num_nodes, num_edges, fields)


def read_collated(
    path: Path, *, nodes: Sequence[str], edges: Sequence[str], graphs: Sequence[str], texts: Sequence[str] = ()
) -> Collated:
    """The named tensors of a processed file, read without making a ``Data`` of each graph.

    Args:
        path: what ``InMemoryDataset.save`` wrote: (data, slices) and in newer versions the class.
        nodes: names of tensors with a row for each node; the first says how many nodes a graph has.
        edges: names of tensors with a row for each listed edge.
        graphs: names of tensors with a row for each graph.
        texts: names of lists with a text for each graph.
    """
    from pointset.datasets.safe_pickle import read_torch  # imports torch

    content = read_torch(path)
    if not isinstance(content, tuple) or len(content) not in (2, 3) or not isinstance(content[1], dict):
        raise FileFormatError(f"{path} holds {kind_of(content)}; expected (data, slices) of a PyG InMemoryDataset")
    data, slices = content[:2]
    held = data if isinstance(data, dict) else getattr(data, "to_dict", dict)()
    wanted = (*nodes, "edge_index", *edges, *graphs)
    if lacking := [name for name in (*wanted, *texts) if name not in held or (name in wanted and name not in slices)]:
        raise FileFormatError(
            f"{path} has no {', '.join(lacking)}; expected {', '.join((*wanted, *texts))} with slices"
        )
    arrays = {name: as_array(f"{path}, {name}", held[name]) for name in wanted}
    counts = {name: _counts(f"{path}, slices of {name}", slices[name]) for name in wanted}
    num_nodes, num_edges = counts[nodes[0]], counts["edge_index"]
    ends = arrays["edge_index"]
    if ends.shape != (2, num_edges.sum()) or ends.dtype.kind not in "iu":
        raise FileFormatError(f"{path}: edge_index has shape {ends.shape} and type {ends.dtype}; expected whole (2, M)")
    for name in (*nodes, *edges, *graphs):
        expected = num_nodes if name in nodes else num_edges if name in edges else np.ones_like(num_nodes)
        if not arrays[name].ndim or len(arrays[name]) != expected.sum() or not np.array_equal(counts[name], expected):
            raise FileFormatError(
                f"{path}: {name} and its slices do not fit the others; remove the file and let PyG make it again"
            )
    return Collated(
        num_nodes, num_edges, arrays, {name: _texts(path, name, held[name], len(num_nodes)) for name in texts}
    )


def _counts(place: str, slices: Any) -> Array:
    """(G,) rows of each graph, from where they begin and end: PyG's slices (G + 1,)."""
    bounds = as_array(place, slices)
    whole = bounds.dtype.kind in "iu" and bounds.ndim == 1 and len(bounds) > 1
    if not whole or bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise FileFormatError(f"{place}: got {kind_of(slices)}; expected whole numbers that rise from 0")
    return np.diff(bounds)


def _texts(path: Path, name: str, value: Any, count: int) -> list[str]:
    if not isinstance(value, list) or len(value) != count or not all(isinstance(text, str) for text in value):
        raise FileFormatError(f"{path}: {name} is {kind_of(value)}; expected a text for each of {count:,} graphs")
    return value


def read_list(file: DataFile, entries: str, *, largest: int = LARGEST, advance: Advance = lambda _: None) -> list[Any]:
    """A list of graphs, from a file of ``torch.save`` (``.pt``) or a pickle (all else); only plain data is rebuilt.

    ``entries`` says what it should hold, for messages; ``advance`` is told of the bytes of a pickle as they are read.
    """
    from pointset.datasets.safe_pickle import read_pickle, read_torch  # imports torch

    with file.open(largest) as opened:
        if (file.inside or file.path.name).endswith(".pt"):
            content = read_torch(opened, place=file)
        else:
            with io.BufferedReader(_Counted(opened, advance), _BLOCK) as counted:
                content = read_pickle(counted, place=file)
                try:
                    while counted.read(_BLOCK):  # the zip's checksum is compared at the end of the file
                        pass
                except Exception as error:  # whatever zipfile makes of a damaged file
                    raise FileFormatError(f"{file} is damaged ({error}); get it again") from None
    if not isinstance(content, list) or not content:
        raise FileFormatError(f"{file} holds {kind_of(content)}; expected a list of {entries}")
    return content


def arrays_of(place: str, graph: Any, names: Sequence[str]) -> dict[str, Array]:
    """These entries of a dict as arrays."""
    if not isinstance(graph, dict) or any(name not in graph for name in names):
        raise FileFormatError(f"{place}: got {kind_of(graph)}; expected a dict with {', '.join(names)}")
    return {name: as_array(f"{place}, {name}", graph[name]) for name in names}


class _Counted(io.RawIOBase):
    """A file that tells a progress bar what was read of it."""

    def __init__(self, file: IO[bytes], advance: Advance):
        self._file, self._advance = file, advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(len(buffer))
        buffer[: len(block)] = block
        self._advance(len(block))
        return len(block)
