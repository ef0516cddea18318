"""Graphs of a batch in flat tensors: which stand side by side, and how they come out of arrays by index arithmetic.

:class:`PointArrays` holds many graphs and gathers some of them; :mod:`pointset.encoders.batch` cuts what comes out into
groups. Letters as everywhere: G graphs, n nodes, r rank, m edges, d channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.errors import GraphError
from pointset.points.graphs import FlatFeatures, GraphArrays, Integers
from pointset.points.point_sets import PointSets


class Layout(NamedTuple):
    """Graphs of equal (n, r) side by side, in ascending order of (n, r), and within a group as they came."""

    order: Integers  # (G,) position in the input of each graph
    sizes: list[tuple[int, int, int]]  # (B, n, r) of each group

    @classmethod
    def of(cls, num_nodes: Integers, ranks: Integers) -> Layout:
        """The layout of graphs with these n and r, both (G,)."""
        order = np.lexsort((ranks, num_nodes))  # stable
        n, r = num_nodes[order], ranks[order]
        first = np.flatnonzero(np.r_[True, (n[1:] != n[:-1]) | (r[1:] != r[:-1])])
        members = np.diff(np.r_[first, len(order)])
        return cls(order, list(zip(members.tolist(), n[first].tolist(), r[first].tolist(), strict=True)))


@dataclass(frozen=True, eq=False)
class FlatGraphs:
    """Graphs one after the other in the order of their layout; only the targets are in the order of the input."""

    layout: Layout
    num_nodes: Integers  # (G,) in the order of the input
    matrix: str
    eigenvalues: Tensor  # (Σ r,)
    eigenvectors: Tensor  # (Σ n·r,)
    x: Tensor | None  # (Σ n, …)
    pos: Tensor | None  # (Σ n, …)
    num_edges: Integers  # (G,)
    edges: Integers | None  # (2, Σ m) each edge once; None without edge features
    edge_attr: Tensor | None  # (Σ m, …)
    y: Tensor | None  # (G, …) or (Σ n, …)


def alike(values: Sequence[Tensor | None], counts: Sequence[int], name: str, graphs: Iterable[int]) -> list[Tensor]:
    """A feature of each graph, all of one type and width; an empty list where no graph has it.

    A graph without rows (no nodes, or no edges) may lack the feature or have it of any kind: it says nothing.

    Args:
        values: the feature of each graph, (rows, …).
        counts: how many rows each graph must have.
        name: of the feature, for messages.
        graphs: number of each graph, for messages.

    Raises:
        GraphError: the feature is on some graphs only, or its type, width or number of rows differs.
    """
    given = [value for value in values if value is not None]
    first = next((value for value, count in zip(values, counts, strict=True) if count and value is not None), None)
    if first is None:
        return [value[:0] for value in given[:1]] * len(values)
    kind, empty = (first.shape[1:], first.dtype), first[:0]
    rows = []
    for value, count, graph in zip(values, counts, graphs, strict=True):
        if not count:
            rows.append(empty)
            continue
        if value is None:
            raise GraphError(
                f"{name} is there on some graphs and missing on others, such as graph {graph}; expected all or none. "
                "Give it to every graph, or take it off all of them"
            )
        if value.dim() == 0 or value.shape[0] != count:
            raise GraphError(f"graph {graph}: {name} has shape {tuple(value.shape)}; expected {count} rows")
        if (value.shape[1:], value.dtype) != kind:
            raise GraphError(
                f"graph {graph}: {name} has shape {tuple(value.shape)} and type {value.dtype}, but others have "
                f"{('rows', *kind[0])} and {kind[1]}; expected the same type and width on all graphs. Convert them "
                "first"
            )
        rows.append(value)
    return rows


def alike_targets(values: Sequence[Tensor | None], num_nodes: Sequence[int], graphs: Sequence[int]) -> list[Tensor]:
    """Targets y of each graph, all for graphs (one row, or a scalar) or all for nodes (n rows); else as :func:`alike`.

    Raises:
        GraphError: as :func:`alike`; or some targets are neither, or graphs and nodes are mixed.
    """
    rows = [value if value is None or value.dim() else value.reshape(1) for value in values]
    known = [(value, n, graph) for value, n, graph in zip(rows, num_nodes, graphs, strict=True) if value is not None]
    if all(value.shape[0] == n for value, n, _ in known):
        return alike(rows, num_nodes, "y", graphs)
    for value, n, graph in known:
        if value.shape[0] != 1:
            raise GraphError(
                f"graph {graph}: y has shape {tuple(value.shape)} on {n} nodes; expected one row on every graph, or "
                "one for each node on every graph. Give k targets of a graph as y.reshape(1, k)"
            )
    return alike(rows, [1] * len(rows), "y", graphs)


def runs(start: Integers, counts: Integers) -> Integers:
    """start[0], start[0] + 1, … (counts[0] numbers), then the same from start[1], and so on; (Σ counts,)."""
    ends = np.cumsum(counts)
    return np.repeat(start - (ends - counts), counts) + np.arange(counts.sum())


class _Rows(NamedTuple):
    """A feature of all graphs, one after the other."""

    values: Tensor  # (Σ rows, …)
    start: Integers  # (G,)
    counts: Integers  # (G,)

    @classmethod
    def joined(cls, parts: list[Tensor], dtype: torch.dtype) -> _Rows | None:
        if not parts:
            return None
        counts = np.array([len(part) for part in parts])
        return cls.flat(torch.cat(parts), np.cumsum(counts) - counts, counts, dtype)

    @classmethod
    def flat(cls, values: Tensor | None, start: Integers, counts: Integers, dtype: torch.dtype) -> _Rows | None:
        if values is None:
            return None
        return cls(values.to(dtype) if values.is_floating_point() else values, start, counts)

    def of(self, graphs: Integers) -> Tensor:
        return self.values.index_select(0, torch.from_numpy(runs(self.start[graphs], self.counts[graphs])))


class PointArrays:
    """Some of the graphs of a :class:`PointSets`, ready to be gathered.

    Eigenpairs and edges stay where they are (in a memory-mapped store, on disk); features are joined once into flat
    tensors, unless they are :class:`FlatFeatures` already.

    Args:
        points: the point sets.
        graphs: (G,) which of them.
        dtype: floating-point type of eigenpairs, positions, real features and real targets.
    """

    def __init__(self, points: PointSets, graphs: Integers, dtype: torch.dtype):
        pairs, arrays = points.eigenpairs, points.graphs
        self.matrix, self.dtypes = points.matrix, (points.dtype, dtype)
        self.num_nodes, self.num_edges, self.ranks = (
            counts[graphs] for counts in (arrays.num_nodes, arrays.num_edges, pairs.ranks)
        )
        self._value_start, self._vector_start = pairs.value_start[graphs], pairs.vector_start[graphs]
        self._values, self._vectors = (np.ascontiguousarray(part) for part in (pairs.values, pairs.vectors))
        self._edges, self._edge_start = arrays.edges, arrays.edge_start[graphs]
        self._join_features(arrays, graphs, dtype)

    def _join_features(self, arrays: GraphArrays, graphs: Integers, dtype: torch.dtype) -> None:
        if isinstance(flat := arrays.features, FlatFeatures):
            nodes, edges = flat.node_start[graphs], flat.edge_start[graphs]
            self._x = _Rows.flat(flat.x, nodes, self.num_nodes, dtype)
            self._pos = _Rows.flat(flat.pos, nodes, self.num_nodes, dtype)
            self._edge_attr = _Rows.flat(flat.edge_attr, edges, self.num_edges, dtype)
            self._y = _Rows.flat(flat.y, flat.target_start[graphs], flat.target_counts[graphs], dtype)
            return
        names, nodes = graphs.tolist(), self.num_nodes.tolist()
        x, edge_attr, pos, y = zip(*map(arrays.features_of, names), strict=True)
        self._x = _Rows.joined(alike(x, nodes, "x", names), dtype)
        self._pos = _Rows.joined(alike(pos, nodes, "pos", names), dtype)
        self._edge_attr = _Rows.joined(alike(edge_attr, self.num_edges.tolist(), "edge_attr", names), dtype)
        self._y = _Rows.joined(alike_targets(y, nodes, names), dtype)

    def __len__(self) -> int:
        return len(self.num_nodes)

    def gather(self, positions: Integers) -> FlatGraphs:
        """The graphs at these positions, (B,), copied out of the arrays."""
        layout = Layout.of(self.num_nodes[positions], self.ranks[positions])
        chosen = positions[layout.order]
        m = self.num_edges[chosen]
        values = self._values[runs(self._value_start[chosen], self.ranks[chosen])]
        return FlatGraphs(
            layout=layout,
            num_nodes=self.num_nodes[positions],
            matrix=self.matrix,
            eigenvalues=self._cast(values),
            eigenvectors=self._blocks(layout, self._vector_start[chosen]),
            x=None if self._x is None else self._x.of(chosen),
            pos=None if self._pos is None else self._pos.of(chosen),
            num_edges=m,
            edges=None if self._edge_attr is None else self._edges[:, runs(self._edge_start[chosen], m)],
            edge_attr=None if self._edge_attr is None else self._edge_attr.of(chosen),
            y=None if self._y is None else self._y.of(positions),
        )

    def _blocks(self, layout: Layout, start: Integers) -> Tensor:
        """(Σ n·r,) eigenvectors, group by group.

        Row i of a window of width n·r is ``vectors[i : i + n·r]``, so one index for each graph takes out whole blocks:
        on graphs of 150 nodes twice as fast as an index for each number.
        """
        source = self._vectors
        # Eigenvectors have entries up to 1: they can be rounded on the way, without a second copy of the batch.
        once = self.dtypes[1] == torch.float32 and self.dtypes[0] in (torch.float32, torch.float64)
        total = sum(members * n * r for members, n, r in layout.sizes)
        blocks = np.empty(total, dtype=np.float32 if once else source.dtype)
        graph = written = 0
        for members, n, r in layout.sizes:
            width = n * r
            if width:
                shape, strides = (len(source) - width + 1, width), (source.itemsize, source.itemsize)
                windows: NDArray[np.floating] = np.ndarray(shape, source.dtype, source.data, 0, strides)
                target = blocks[written : written + members * width].reshape(members, width)
                target[...] = windows[start[graph : graph + members]]
            graph, written = graph + members, written + members * width
        return torch.from_numpy(blocks) if once else self._cast(blocks)

    def _cast(self, numbers: NDArray[np.floating]) -> Tensor:
        of_points, of_batch = self.dtypes
        return torch.from_numpy(numbers).to(of_points).to(of_batch)
