"""All graphs in flat arrays, as PyG collates them (:class:`Collated`): from its processed files, or graph by graph."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from pointset.arrays import Array
from pointset.datasets.benchmarks.reading import LARGEST, Member, as_array, kind_of
from pointset.datasets.safe_pickle import read_pickle, read_torch
from pointset.errors import FileFormatError
from pointset.progress import Advance


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
    path: Path,
    *,
    nodes: Sequence[str] = (),
    edges: Sequence[str] = (),
    graphs: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> Collated:
    """The named tensors of a processed file, read without making a ``Data`` of each graph.

    Args:
        path: what ``InMemoryDataset.save`` wrote: (data, slices) and in newer versions the class.
        nodes: names of tensors with a row for each node; the first says how many nodes a graph has.
        edges: names of tensors with a row for each listed edge.
        graphs: names of tensors with a row for each graph.
        texts: names of lists with a text for each graph.

    Raises:
        FileFormatError: the file is damaged, lacks one of them, or its parts do not fit each other.
    """
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


# A list of graphs in a pickle, or in a file of ``torch.save``, also inside a zip (:func:`read_list`).


_BLOCK = 1 << 20


def read_list(member: Member, entries: str, *, largest: int = LARGEST, advance: Advance = lambda _: None) -> list[Any]:
    """What the file holds, a list with something in it; nothing is rebuilt but plain data.

    Args:
        member: the file; ``.pt`` is of ``torch.save``, all else a pickle.
        entries: what the list should hold, for messages.
        largest: bytes.
        advance: told of the bytes of a pickle as they are read.

    Raises:
        FileFormatError: it is damaged, names other things than plain data, or holds no such list.
    """
    with member.open(largest) as file:
        if (member.inside or member.path.name).endswith(".pt"):
            content = read_torch(file, place=member)
        else:
            content = _read_pickle(member, file, advance)
    if not isinstance(content, list) or not content:
        raise FileFormatError(f"{member} holds {kind_of(content)}; expected a list of {entries}")
    return content


def _read_pickle(member: Member, file: IO[bytes], advance: Advance) -> Any:
    with io.BufferedReader(_Counted(file, advance), _BLOCK) as counted:
        content = read_pickle(counted, place=member)
        try:
            while counted.read(_BLOCK):  # the zip's checksum is compared at the end of the file
                pass
        except Exception as error:  # whatever zipfile makes of a damaged member
            raise FileFormatError(f"{member} is damaged ({error}); get it again") from None
    return content


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
