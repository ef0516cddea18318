"""The graphs of a dataset in flat arrays, as readers give them and as the cache keeps them (:class:`GraphTable`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pointset.arrays import Array, Floats
from pointset.datasets.splits.parts import PARTS, Split
from pointset.errors import FileFormatError

if TYPE_CHECKING:
    from pointset.points.graphs import GraphArrays


class Limits(NamedTuple):
    """Targets of which only a limit is known (``>3``, ``<10``); ``y`` has NaN there."""

    lower: Floats  # (G, k) the truth is above; NaN where there is no such limit
    upper: Floats  # (G, k) the truth is below

    def of(self, graphs: Array) -> Limits:
        """Those of some graphs (K,)."""
        return Limits(self.lower[graphs], self.upper[graphs])

    @property
    def number(self) -> int:
        """How many targets have one."""
        return int((~(np.isnan(self.lower) & np.isnan(self.upper))).sum())


@dataclass(frozen=True, eq=False)
class GraphTable:
    """G graphs, flat: N = Σ n nodes and M = Σ m listed edges. Readers fill it; nothing here needs torch.

    An edge may be listed once or in both directions; :meth:`arrays` brings edges and their features into order.
    """

    num_nodes: Array  # (G,)
    num_edges: Array  # (G,) listed edges
    edges: Array  # (2, M) node numbers, local to each graph
    y: Array | None = None  # (G,), (G, k), or for nodes (N,), (N, k)
    x: Array | None = None  # (N, c)
    edge_attr: Array | None = None  # (M, c)
    pos: Array | None = None  # (N, 3)
    y_of_nodes: bool = False
    split: Split = field(default_factory=dict)  # the official one, where the files have it
    split_of_nodes: bool = False  # whether it numbers the N nodes, as in one large graph, and not the graphs
    smiles: Sequence[str] | None = None  # (G,)
    lower: Array | None = None  # (G, k) limits of targets, as in :class:`Limits`; both or none
    upper: Array | None = None  # (G, k)
    weights: Array | None = None  # (G,) how much each graph counts in training

    def __post_init__(self) -> None:
        nodes, edges, graphs = int(self.num_nodes.sum()), int(self.num_edges.sum()), len(self.num_nodes)
        for name, got, expected in (
            ("num_edges", len(self.num_edges), graphs),
            ("edges", self.edges.shape[-1], edges),
            ("x", _rows(self.x, nodes), nodes),
            ("edge_attr", _rows(self.edge_attr, edges), edges),
            ("pos", _rows(self.pos, nodes), nodes),
            ("y", _rows(self.y, nodes if self.y_of_nodes else graphs), nodes if self.y_of_nodes else graphs),
            ("lower", _rows(self.lower, graphs), graphs),
            ("upper", _rows(self.upper, graphs), graphs),
            ("weights", _rows(self.weights, graphs), graphs),
            ("smiles", graphs if self.smiles is None else len(self.smiles), graphs),
        ):
            if got != expected:
                raise FileFormatError(f"{name} has {got} rows; expected {expected}. The file is damaged or incomplete")
        for row, text in enumerate(self.smiles or ()):
            if not (text.isascii() and text.isprintable()):
                raise FileFormatError(f"SMILES {row} is {text!r:.60}; expected printable ASCII")

    def __len__(self) -> int:
        return len(self.num_nodes)

    @property
    def split_count(self) -> int:
        """How many graphs, or nodes, the split is of."""
        return int(self.num_nodes.sum()) if self.split_of_nodes else len(self)

    @property
    def limits(self) -> Limits | None:
        """Of targets that are not known exactly; None where there are none."""
        return None if self.lower is None or self.upper is None else Limits(self.lower, self.upper)

    def arrays(self) -> GraphArrays:
        """The graphs as everything else in pointset takes them; whole numbers become int64, as PyG has them."""
        from pointset.points.graphs import FlatFeatures, GraphArrays

        num_nodes, num_edges = self.num_nodes.astype(np.int64), self.num_edges.astype(np.int64)
        features = FlatFeatures(
            num_nodes,
            num_edges,
            x=_tensor(self.x),
            edge_attr=_tensor(self.edge_attr),
            pos=_tensor(self.pos),
            y=_tensor(self.y),
            y_of_nodes=self.y_of_nodes,
        )
        return GraphArrays.from_flat(num_nodes, num_edges, self.edges, features=features)

    def chosen(self, graphs: Array) -> GraphTable:
        """Some of the graphs, by their numbers (K,), without the split; what is kept for each graph goes with it."""
        nodes = _ranges(self.num_nodes, graphs)
        edges = _ranges(self.num_edges, graphs)

        def of(name: str, value: Any) -> Any:
            if value is None or isinstance(value, bool):
                return value
            if name == "split":
                return {}
            if name == "smiles":
                return [value[graph] for graph in graphs.tolist()]
            if name == "edges":
                return value[:, edges]
            of_nodes = name in ("x", "pos") or (name == "y" and self.y_of_nodes)
            return value[nodes if of_nodes else edges if name == "edge_attr" else graphs]

        fields = [field.name for field in dataclasses.fields(self)]
        return GraphTable(**{name: of(name, getattr(self, name)) for name in fields})

    def in_order(self) -> GraphTable:
        """The same graphs with each edge once and sorted, so that :meth:`arrays` has nothing left to do."""
        arrays = self.arrays()
        edge_attr = getattr(arrays.features, "edge_attr", None)
        return dataclasses.replace(
            self,
            num_edges=arrays.num_edges,
            edges=arrays.edges,
            edge_attr=None if edge_attr is None else edge_attr.numpy(),
        )


def joined_parts(tables: Sequence[GraphTable]) -> GraphTable:
    """The graphs of train, val and test, one part after the other, with that split; all have the same features."""

    def together(name: str, axis: int = 0) -> Any:
        arrays = [getattr(table, name) for table in tables]
        return None if arrays[0] is None else np.concatenate(arrays, axis=axis)

    stops = np.cumsum([len(table) for table in tables]).tolist()
    return GraphTable(
        num_nodes=together("num_nodes"),
        num_edges=together("num_edges"),
        edges=together("edges", axis=1),
        y=together("y"),
        x=together("x"),
        edge_attr=together("edge_attr"),
        pos=together("pos"),
        y_of_nodes=tables[0].y_of_nodes,
        split={
            part: np.arange(stop - len(table), stop) for part, table, stop in zip(PARTS, tables, stops, strict=True)
        },
        smiles=None if tables[0].smiles is None else [line for table in tables for line in table.smiles or ()],
    )


def _ranges(counts: Array, graphs: Array) -> Array:
    """The rows of these graphs (K,) in an array that has ``counts`` (G,) rows of each graph, one after the other."""
    counts = counts.astype(np.int64)
    starts, chosen = (np.cumsum(counts) - counts)[graphs], counts[graphs]
    rows: Array = np.repeat(starts - (np.cumsum(chosen) - chosen), chosen) + np.arange(chosen.sum())
    return rows


def _rows(array: Array | None, absent: int) -> int:
    return absent if array is None else len(array)


def _tensor(array: Array | None) -> Any:
    import torch

    if array is None:
        return None
    if array.dtype.kind in "iub":
        return torch.from_numpy(array.astype(np.int64))
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))  # a copy where it is not to be written to
