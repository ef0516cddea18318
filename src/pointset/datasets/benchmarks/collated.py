"""What PyG's ``InMemoryDataset`` keeps in ``processed``: all graphs in flat tensors, and where each is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.benchmarks.plain_arrays import as_array, counts_of, kind_of
from pointset.datasets.table import Array
from pointset.errors import FileFormatError


@dataclass(frozen=True, eq=False)
class Collated:
    """G graphs, N nodes and M listed edges in flat arrays; node numbers are local to each graph."""

    num_nodes: Array  # (G,)
    num_edges: Array  # (G,)
    edges: Array  # (2, M)
    fields: dict[str, Array]  # (N, …), (M, …) or (G, …)
    texts: dict[str, list[str]]  # (G,)

    def __getitem__(self, name: str) -> Array:
        return self.fields[name]


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
    from pointset.datasets.unpickling import read_torch

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
    counts = {name: counts_of(f"{path}, slices of {name}", slices[name]) for name in wanted}
    num_nodes, num_edges = counts[nodes[0]], counts["edge_index"]
    ends = arrays.pop("edge_index")
    if ends.shape != (2, num_edges.sum()) or ends.dtype.kind not in "iu":
        raise FileFormatError(f"{path}: edge_index has shape {ends.shape} and type {ends.dtype}; expected whole (2, M)")
    for name, array in arrays.items():
        expected = num_nodes if name in nodes else num_edges if name in edges else np.ones_like(num_nodes)
        if not array.ndim or len(array) != expected.sum() or not np.array_equal(counts[name], expected):
            raise FileFormatError(
                f"{path}: {name} and its slices do not fit the others; remove the file and let PyG make it again"
            )
    return Collated(
        num_nodes, num_edges, ends, arrays, {name: _texts(path, name, held[name], len(num_nodes)) for name in texts}
    )


def _texts(path: Path, name: str, value: Any, count: int) -> list[str]:
    if not isinstance(value, list) or len(value) != count or not all(isinstance(text, str) for text in value):
        raise FileFormatError(f"{path}: {name} is {kind_of(value)}; expected a text for each of {count:,} graphs")
    return value
