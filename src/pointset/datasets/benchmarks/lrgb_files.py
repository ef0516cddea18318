"""The files of PyG's ``LRGBDataset``: as downloaded (``raw``) and as PyG keeps them (``processed``).

Both are pickles, and there is no other official form. Nothing is rebuilt of them but plain containers, arrays and
tensors (:mod:`pointset.datasets.unpickling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.benchmarks.checked_arrays import as_array, as_features, expect_shape, kind_of
from pointset.datasets.benchmarks.collated import Collated, collate, read_collated
from pointset.datasets.benchmarks.members import Member, members
from pointset.datasets.benchmarks.pickled_lists import read_list
from pointset.datasets.splits.parts import PARTS
from pointset.datasets.table import Array, GraphTable, joined_parts
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

    def _table(self, files: Sequence[Path], suffix: str, part: Callable[[Member], Collated]) -> GraphTable:
        parts = members(files, [f"{name}.{suffix}" for name in PARTS])
        return joined_parts([self._checked(member, part(member)) for member in parts])

    def _from_tuples(self, file: Member) -> Collated:
        graphs = read_list(file, f"({', '.join(_FIELDS)})", largest=_LARGEST)
        return collate((self._fields(f"{file}, graph {number}", graph) for number, graph in enumerate(graphs)), "x")

    def _fields(self, place: str, graph: Any) -> dict[str, Array]:
        if not isinstance(graph, tuple | list) or len(graph) != len(_FIELDS):
            raise FileFormatError(f"{place}: got {kind_of(graph)}; expected ({', '.join(_FIELDS)})")
        fields = {name: as_array(f"{place}, {name}", value) for name, value in zip(_FIELDS, graph, strict=True)}
        self._check_shapes(place, fields, graphs=1)
        return fields

    def _from_slices(self, file: Member) -> Collated:
        of_nodes, of_graphs = (("x", "y"), ()) if self.y_of_nodes else (("x",), ("y",))
        flat = read_collated(file.path, nodes=of_nodes, edges=("edge_attr",), graphs=of_graphs)
        self._check_shapes(file, flat.fields, graphs=len(flat.num_nodes))
        return flat

    def _check_shapes(self, place: object, fields: Mapping[str, Array], *, graphs: int) -> None:
        x, edges = fields["x"], fields["edge_index"]
        nodes, listed = (len(x) if x.ndim else 0), (edges.shape[-1] if edges.ndim else 0)
        expect_shape(place, "x", x, nodes, self.node.width)
        expect_shape(place, "edge_index", edges, 2, listed)
        expect_shape(place, "edge_attr", fields["edge_attr"], listed, self.edge.width)
        expect_shape(place, "y", fields["y"], *((nodes,) if self.y_of_nodes else (graphs, self.y.width)))

    def _checked(self, file: Member, flat: Collated) -> GraphTable:
        edges, num_nodes, y = flat["edge_index"], flat.num_nodes, flat["y"]
        if edges.dtype.kind not in "iu":
            raise FileFormatError(f"{file}: edge_index is of type {edges.dtype}; expected whole numbers")
        # An image of one superpixel has a loop for want of edges; the Laplacian would refuse it.
        kept = (edges[0] != 0) | (edges[1] != 0) | np.repeat(num_nodes != 1, flat.num_edges)
        owner = np.repeat(np.arange(len(num_nodes)), flat.num_edges)
        return GraphTable(
            num_nodes=num_nodes,
            num_edges=np.bincount(owner[kept], minlength=len(num_nodes)),
            edges=edges[:, kept],
            x=as_features(f"{file}, x", flat["x"], self.node),
            edge_attr=as_features(f"{file}, edge_attr", flat["edge_attr"], self.edge)[kept],
            y=as_features(f"{file}, y", y.reshape(len(y), self.y.width), self.y).reshape(y.shape),
            y_of_nodes=self.y_of_nodes,
        )
