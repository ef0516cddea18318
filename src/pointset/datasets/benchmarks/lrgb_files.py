"""The files of PyG's ``LRGBDataset``: as downloaded (``raw``) and as PyG keeps them (``processed``).

Both are pickles, and there is no other official form. Nothing is rebuilt of them but plain containers, arrays and
tensors (:mod:`pointset.datasets.unpickling`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.benchmarks.collated import read_collated
from pointset.datasets.benchmarks.members import Member, members
from pointset.datasets.benchmarks.plain_arrays import as_array, as_features, kind_of, width_of
from pointset.datasets.splits.parts import PARTS as PARTS
from pointset.datasets.table import Array, GraphTable, joined, split_of_parts
from pointset.errors import FileFormatError
from pointset.specs import Categories, Reals

_LARGEST = 1 << 32  # bytes; PascalVOC-SP has 0.7 GB for training
_FIELDS = ("x", "edge_attr", "edge_index", "y")  # the order of a raw tuple


@dataclass(frozen=True)
class LrgbFiles:
    """Reads a dataset of the Long Range Graph Benchmark; graphs stand in the order train, val, test.

    Args:
        node: columns of x.
        edge: columns of edge_attr.
        y: columns of y: for each node its class, or for each graph real numbers.
        y_of_nodes: which of the two.
        suffix: how the raw files end.
    """

    node: Categories | Reals
    edge: Categories | Reals
    y: Categories | Reals
    y_of_nodes: bool = False
    suffix: str = "pt"

    def raw(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        """From a zip or its files: each part is a list of (x, edge_attr, edge_index, y), one for each graph.

        Raises:
            FileFormatError: a file is damaged, or is none of this dataset; with the graph where it can be said.
        """
        return self._table(files, self.suffix, self._from_tuples)

    def processed(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        """From what PyG made of it: each part is (data, slices), all graphs in flat tensors.

        Raises:
            FileFormatError: a file is damaged, or is none of this dataset.
        """
        return self._table(files, "pt", self._from_slices)

    def _table(self, files: Sequence[Path], suffix: str, part: Callable[[Member], GraphTable]) -> GraphTable:
        tables = [part(member) for member in members(files, [f"{name}.{suffix}" for name in PARTS])]
        return replace(joined(tables), split=split_of_parts([len(table) for table in tables], PARTS))

    def _from_tuples(self, file: Member) -> GraphTable:
        graphs = _content(file, self.suffix)
        if not isinstance(graphs, list) or not graphs:
            raise FileFormatError(f"{file} holds {kind_of(graphs)}; expected a list of (x, edge_attr, edge_index, y)")
        columns: list[list[Array]] = [[] for _ in _FIELDS]
        for number, graph in enumerate(graphs):
            place = f"{file}, graph {number}"
            if not isinstance(graph, tuple | list) or len(graph) != len(_FIELDS):
                raise FileFormatError(f"{place}: got {kind_of(graph)}; expected ({', '.join(_FIELDS)})")
            arrays = [as_array(f"{place}, {name}", value) for name, value in zip(_FIELDS, graph, strict=True)]
            self._check_shapes(place, *arrays, graphs=1)
            for column, array in zip(columns, arrays, strict=True):
                column.append(array)
        x, edge_attr, edges, y = columns
        num_nodes, num_edges = (np.array([len(rows) for rows in each]) for each in (x, edge_attr))
        flat = np.concatenate(x), np.concatenate(edge_attr), np.concatenate(edges, axis=1), np.concatenate(y)
        return self._checked(file, num_nodes, num_edges, *flat)

    def _from_slices(self, file: Member) -> GraphTable:
        of_nodes, of_graphs = (("x", "y"), ()) if self.y_of_nodes else (("x",), ("y",))
        flat = read_collated(file.path, nodes=of_nodes, edges=("edge_attr",), graphs=of_graphs)
        arrays = flat["x"], flat["edge_attr"], flat.edges, flat["y"]
        self._check_shapes(str(file), *arrays, graphs=len(flat.num_nodes))
        return self._checked(file, flat.num_nodes, flat.num_edges, *arrays)

    def _check_shapes(self, place: str, x: Array, edge_attr: Array, edges: Array, y: Array, *, graphs: int) -> None:
        nodes, listed = (len(x) if x.ndim else 0), (edges.shape[-1] if edges.ndim else 0)
        for name, array, expected in (
            ("x", x, (nodes, width_of(self.node))),
            ("edge_index", edges, (2, listed)),
            ("edge_attr", edge_attr, (listed, width_of(self.edge))),
            ("y", y, (nodes,) if self.y_of_nodes else (graphs, width_of(self.y))),
        ):
            if array.shape != expected:
                raise FileFormatError(f"{place}: {name} has shape {array.shape}; expected {expected}")

    def _checked(
        self, file: Member, num_nodes: Array, num_edges: Array, x: Array, edge_attr: Array, edges: Array, y: Array
    ) -> GraphTable:
        if edges.dtype.kind not in "iu":
            raise FileFormatError(f"{file}: edge_index is of type {edges.dtype}; expected whole numbers")
        targets = as_features(f"{file}, y", y.reshape(len(y), -1), self.y)
        # An image of one superpixel has a loop for want of edges; the Laplacian would refuse it.
        kept = (edges[0] != 0) | (edges[1] != 0) | np.repeat(num_nodes != 1, num_edges)
        owner = np.repeat(np.arange(len(num_edges)), num_edges)
        num_edges = np.bincount(owner[kept], minlength=len(num_edges))
        return GraphTable(
            num_nodes=num_nodes,
            num_edges=num_edges,
            edges=edges[:, kept],
            x=as_features(f"{file}, x", x, self.node),
            edge_attr=as_features(f"{file}, edge_attr", edge_attr, self.edge)[kept],
            y=targets.reshape(y.shape),
            y_of_nodes=self.y_of_nodes,
        )


def _content(member: Member, suffix: str) -> Any:
    from pointset.datasets.unpickling import read_pickle, read_torch

    try:
        with member.open(_LARGEST) as file:
            return read_torch(file) if suffix == "pt" else read_pickle(file)
    except FileFormatError as error:  # it names the file in the zip, not the zip
        known = str(member.path) in str(error)
        raise FileFormatError(str(error) if known else f"{member.path}: {error}") from None
