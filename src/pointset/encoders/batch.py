"""Point sets in a batch: graphs one after the other in flat tensors, from which what an encoder runs on is cut.

A :class:`PointBatch` holds its graphs in ascending order of (n, r), and knows the order of the input. Its ``groups``
are graphs of equal (n, r) side by side, without padding or masks; its ``buckets`` are fewer, padded with zeros. Either
is a :class:`PointGroup`. :func:`collate` makes a batch from point sets, :class:`PointArrays` from many graphs in flat
arrays by index arithmetic. Letters as everywhere: G graphs, N their nodes, n nodes, r rank, m edges, d channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Integers
from pointset.encoders.buckets import Padding, Run, padded_points, padded_rows, planned_buckets
from pointset.errors import GraphError, SpecError
from pointset.points.graphs import WHOLE_GRAPH, FlatFeatures, GraphArrays, consecutive, starts
from pointset.points.inverse import rebuild
from pointset.points.point_set import PointSet, PointSets, with_tensors


@dataclass(frozen=True, eq=False)
class PointGroup:
    """B graphs with the same n and r; or, with ``padding``, of like size and padded to the same n and r."""

    index: Tensor  # (B,) position of each graph in the batch
    eigenvalues: Tensor  # (B, r)
    eigenvectors: Tensor  # (B, n, r)
    x: Tensor | None = None  # (B, n, c) node features
    edges: Tensor | None = None  # (3, M) graph in the group, source, target; both directions
    edge_attr: Tensor | None = None  # (M, c) features of those edges
    edge_weight: Tensor | None = None  # (M,) their weights, where a graph's points are truncated and do not tell them
    pos: Tensor | None = None  # (B, n, 3) positions
    padding: Padding | None = None  # None: all rows and columns are real

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, n, r)."""
        graphs, nodes, rank = self.eigenvectors.shape
        return graphs, nodes, rank

    @property
    def edge_places(self) -> Tensor:
        """(M,) where each edge stands among all B·n·n pairs of nodes."""
        if self.edges is None:
            raise SpecError("the model was made for edge features, but the graphs carry none")
        graph, source, target = self.edges
        nodes = self.shape[1]
        places: Tensor = (graph * nodes + source) * nodes + target
        return places

    def of_pairs(self, of_edges: Tensor, elsewhere: Tensor) -> Tensor:
        """A column for each edge, (d, M), and one for all other pairs, (d, 1) → (d, B, n, n)."""
        graphs, nodes, _ = self.shape
        pairs = elsewhere.expand(len(of_edges), graphs * nodes * nodes)
        return pairs.index_copy(1, self.edge_places, of_edges).view(len(of_edges), graphs, nodes, nodes)

    def sums_over_edges(self, of_edges: Tensor, values: Tensor) -> Tensor:
        """Σ_j e_ij ⊙ values_j over the edges, which need no pairs: (d, M), (d, B, n, k) → (d, B, n, k)."""
        if self.edges is None:
            raise SpecError("the model was made for edge features, but the graphs carry none")
        graph, source, target = self.edges
        nodes = self.shape[1]
        rows, columns = graph * nodes + source, graph * nodes + target
        flat = values.flatten(1, 2)  # (d, B·n, k)
        messages = flat.index_select(1, columns) * of_edges.unsqueeze(-1)
        return torch.zeros_like(flat).index_add(1, rows, messages).view_as(values)


@dataclass(frozen=True, eq=False)
class PointBatch:
    """Graphs one after the other, ascending in (n, r); graphs of equal size as they came.

    Edges stand here where they carry features, or where the points of a graph are truncated, so that they do not tell
    its edges.
    """

    runs: tuple[Run, ...]  # how many graphs of which size, in this order
    index: Tensor  # (G,) position of each graph in the input
    eigenvalues: Tensor  # (Σ r,)
    eigenvectors: Tensor  # (Σ n·r,) an (n, r) block of each graph, row by row
    x: Tensor | None  # (N, c) node features
    pos: Tensor | None  # (N, 3) positions
    edges: Tensor | None  # (3, M) graph (ascending), source, target within the graph; both directions, self-loops once
    edge_attr: Tensor | None  # (M, c) features of those edges
    edge_weight: Tensor | None  # (M,) their weights, where points are truncated and do not tell them
    num_nodes: Tensor  # (G,) nodes of each graph, in input order
    graph_order: Tensor  # (G,) row of each graph of the input in the order here
    node_order: Tensor  # (N,) row of each node of the input in the order here
    y: Tensor | None  # (G, …) targets of graphs or (N, …) of nodes, in input order
    descriptors: Tensor | None  # (G, c) numbers of each graph as a whole, in input order
    fingerprint: Tensor | None  # (G, bits / 8) uint8: of molecules, packed, in input order
    matrix: str  # which matrix the points come from
    pairs: Tensor | None = None  # (P, 2) nodes, counted through all graphs of the input, that are to be scored

    def __repr__(self) -> str:
        y = "no y" if self.y is None else f"y {tuple(self.y.shape)}"
        graphs, nodes = self.num_graphs, len(self.node_order)
        return f"PointBatch({graphs} graphs of {len(self.runs)} sizes, {nodes} nodes, {y}, matrix={self.matrix!r})"

    @property
    def num_graphs(self) -> int:
        """G."""
        return self.num_nodes.shape[0]

    @property
    def groups(self) -> list[PointGroup]:
        """Graphs of equal (n, r) side by side: views of the flat tensors."""
        return self._cut([[run] for run in self.runs])

    def buckets(self, channels: int) -> list[PointGroup]:
        """Fewer groups, padded where that is cheaper for layers of so many channels; one without padding is a view."""
        return self._cut(planned_buckets(self.runs, channels, self.eigenvectors.device.type))

    def _cut(self, parts: Sequence[Sequence[Run]]) -> list[PointGroup]:
        """A group of each part of the runs."""

        def split(tensor: Tensor | None, rows: Callable[[Run], int], dim: int = 0) -> Sequence[Any]:
            counts = [sum(map(rows, part)) for part in parts]
            return [None] * len(parts) if tensor is None else torch.split(tensor, counts, dim=dim)

        index = split(self.index, lambda run: run.graphs)
        first = starts(np.array([len(part) for part in index])).tolist()
        return [
            _group(part, index=numbers, first=start, values=values, vectors=vectors, nodes=nodes, edges=edges)
            for part, numbers, start, values, vectors, *nodes, edges in zip(
                parts,
                index,
                first,
                split(self.eigenvalues, lambda run: run.graphs * run.rank),
                split(self.eigenvectors, lambda run: run.graphs * run.nodes * run.rank),
                split(self.x, lambda run: run.graphs * run.nodes),
                split(self.pos, lambda run: run.graphs * run.nodes),
                zip(
                    split(self.edges, lambda run: run.edges, 1),
                    split(self.edge_attr, lambda run: run.edges),
                    split(self.edge_weight, lambda run: run.edges),
                    strict=True,
                ),
                strict=True,
            )
        ]

    def to(self, target: torch.device | torch.dtype | str) -> PointBatch:
        """Move to a device, or change the floating-point type of eigenpairs, positions and real features."""

        def moved(tensor: Tensor) -> Tensor:
            if isinstance(target, torch.dtype) and not tensor.is_floating_point():
                return tensor
            return tensor.to(target)

        return with_tensors(self, moved)

    def pin_memory(self) -> PointBatch:
        """For DataLoader(pin_memory=True)."""
        return with_tensors(self, lambda tensor: tensor.pin_memory())


def _group(
    runs: Sequence[Run],
    *,
    index: Tensor,
    first: int,
    values: Tensor,
    vectors: Tensor,
    nodes: Sequence[Tensor | None],
    edges: tuple[Tensor | None, Tensor | None, Tensor | None],
) -> PointGroup:
    """The graphs of these runs, the first of which is graph ``first`` of the batch; ``nodes`` are x and pos."""
    graphs, n, r = len(index), max(run.nodes for run in runs), max(run.rank for run in runs)
    padding = rows = None
    if len(runs) == 1:
        values, vectors = values.view(graphs, r), vectors.view(graphs, n, r)
    else:
        counts = [run.graphs for run in runs]
        num_nodes, ranks = (
            np.repeat(sizes, counts) for sizes in ([run.nodes for run in runs], [run.rank for run in runs])
        )
        values, vectors = padded_points(values, vectors, runs)
        padding = Padding.of(num_nodes, ranks, vectors)
        rows = torch.from_numpy(padded_rows(num_nodes)).to(vectors.device)

    def by_graph(feature: Tensor | None) -> Tensor | None:
        if feature is None:
            return None
        feature = feature if rows is None else feature.index_select(0, rows)
        return feature.view(graphs, n, *feature.shape[1:])

    x, pos = map(by_graph, nodes)
    places, edge_attr, edge_weight = edges
    if places is not None:
        places = torch.stack([places[0] - first, places[1], places[2]])
    return PointGroup(index, values, vectors, x, places, edge_attr, edge_weight, pos, padding)


def collate(point_sets: Sequence[PointSet]) -> PointBatch:
    """Put point sets together in one batch; outputs of a model come back in the order given here.

    Features must be of one type and width on all graphs; only a graph without nodes or edges may lack theirs. Targets
    ``y`` belong to graphs (a scalar, (1,) or (1, k) on each: (graphs,) or (graphs, k) in the batch), or to nodes ((n,)
    or (n, k) on each: (nodes,) or (nodes, k)).

    Raises:
        GraphError: no point sets, or point sets that do not fit together (different matrices, features on some only).
    """
    if not point_sets:
        raise GraphError("got no point sets; expected at least one for a batch")
    _check_alike(point_sets)
    num_nodes = np.array([points.num_nodes for points in point_sets])
    layout = Layout.of(num_nodes, np.array([points.rank for points in point_sets]))
    numbers = layout.order.tolist()
    in_order = [point_sets[number] for number in numbers]

    def joined(name: str, counts: list[int]) -> Tensor | None:
        parts = checked_rows([getattr(points, name) for points in in_order], counts, name, numbers)
        return torch.cat(parts) if parts else None

    nodes, num_edges = [points.num_nodes for points in in_order], [points.num_edges for points in in_order]
    edge_attr = joined("edge_attr", num_edges)
    edges, edge_weight = _edges_of(in_order, featured=edge_attr is not None)
    y = checked_targets([points.y for points in point_sets], num_nodes.tolist(), range(len(point_sets)))
    return batch_of(
        FlatGraphs(
            layout=layout,
            num_nodes=num_nodes,
            matrix=point_sets[0].matrix,
            eigenvalues=torch.cat([points.eigenvalues for points in in_order]),
            eigenvectors=torch.cat([points.eigenvectors.flatten() for points in in_order]),
            x=joined("x", nodes),
            pos=joined("pos", nodes),
            num_edges=np.array(num_edges),
            edges=edges,
            edge_attr=edge_attr,
            edge_weight=edge_weight,
            y=torch.cat(y) if y else None,
            **_of_whole_graphs(point_sets),
        )
    )


def _edges_of(point_sets: Sequence[PointSet], *, featured: bool) -> tuple[Integers | None, Tensor | None]:
    """Edges (2, Σ m) where they have features or a graph is truncated, and their weights (Σ m,) in the latter case."""
    truncated = any(points.truncation is not None for points in point_sets)
    if not featured and not truncated:
        return None, None
    known = [points for points in point_sets if points.num_edges]
    edges, weights = [np.empty((2, 0), dtype=np.int64)], []
    for points in known:
        edge_index, edge_weight = points.edge_index, points.edge_weight
        if edge_index is None:  # a whole graph in a batch with truncated ones
            rebuilt = rebuild(points.cpu())
            edge_index, edge_weight = rebuilt.edges, rebuilt.weights
        edges.append(edge_index.cpu().numpy())
        weights.append((edge_weight, len(edge_index[0])))
    if not truncated:
        return np.concatenate(edges, axis=1), None
    like = point_sets[0].eigenvalues
    parts = [like.new_ones(count) if weight is None else weight.to(like) for weight, count in weights]
    return np.concatenate(edges, axis=1), torch.cat([like.new_empty(0), *parts])


def _of_whole_graphs(point_sets: Sequence[PointSet]) -> dict[str, Tensor | None]:
    """Features that have a row for each graph, in input order."""
    ones, numbers = [1] * len(point_sets), range(len(point_sets))
    parts = {name: checked_rows([getattr(points, name) for points in point_sets], ones, name, numbers)
             for name in WHOLE_GRAPH}  # fmt: skip
    return {name: torch.cat(rows) if rows else None for name, rows in parts.items()}


def _check_alike(point_sets: Sequence[PointSet]) -> None:
    first = point_sets[0]
    for position, points in enumerate(point_sets):
        if not isinstance(points, PointSet):
            raise GraphError(
                f"item {position} is a {type(points).__name__}; expected a PointSet from pointset.to_points"
            )
        if points.matrix != first.matrix:
            raise GraphError(
                f"point set {position} comes from matrix {points.matrix!r} and point set 0 from {first.matrix!r}; "
                "expected one matrix in a batch"
            )
        carries = points.edge_attr is not None or points.truncation is not None
        if points.num_edges and carries and points.edge_index is None:
            what = "edge_attr" if points.edge_attr is not None else "truncated eigenpairs"
            raise GraphError(f"point set {position} has {what} but no edge_index; expected the edges of its graph")


def checked_rows(
    values: Sequence[Tensor | None], counts: Sequence[int], name: str, graphs: Iterable[int]
) -> list[Tensor]:
    """A feature of each graph, (counts, …), all of one type and width; an empty list where no graph has it.

    A graph without rows (no nodes, or no edges) may lack the feature or have it of any kind: it says nothing.
    ``name`` and ``graphs``, the number of each graph, are for messages.

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


def checked_targets(values: Sequence[Tensor | None], num_nodes: Sequence[int], graphs: Sequence[int]) -> list[Tensor]:
    """Targets y of each graph, all for graphs (one row, or a scalar) or all for nodes (n rows).

    Raises:
        GraphError: as :func:`checked_rows`; or some targets are neither, or graphs and nodes are mixed.
    """
    rows = [value if value is None or value.dim() else value.reshape(1) for value in values]
    known = [(value, n, graph) for value, n, graph in zip(rows, num_nodes, graphs, strict=True) if value is not None]
    if all(value.shape[0] == n for value, n, _ in known):
        return checked_rows(rows, num_nodes, "y", graphs)
    for value, n, graph in known:
        if value.shape[0] != 1:
            raise GraphError(
                f"graph {graph}: y has shape {tuple(value.shape)} on {n} nodes; expected one row on every graph, or "
                "one for each node on every graph. Give k targets of a graph as y.reshape(1, k)"
            )
    return checked_rows(rows, [1] * len(rows), "y", graphs)


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
        graphs = np.diff(np.r_[first, len(order)])
        return cls(order, list(zip(graphs.tolist(), n[first].tolist(), r[first].tolist(), strict=True)))


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
    edges: Integers | None  # (2, Σ m) each edge once; None without edge features where no graph is truncated
    edge_attr: Tensor | None  # (Σ m, …)
    edge_weight: Tensor | None  # (Σ m,) where a graph is truncated
    y: Tensor | None  # (G, …) or (Σ n, …)
    descriptors: Tensor | None = None  # (G, c)
    fingerprint: Tensor | None = None  # (G, bits / 8)


def batch_of(flat: FlatGraphs) -> PointBatch:
    """A batch of these graphs: a few tensors, as each is an open file on its way from a worker process."""
    edges, edge_attr, edge_weight, counts = _both_directions(flat)
    runs = tuple(Run(*size, count) for size, count in zip(flat.layout.sizes, counts, strict=True))
    graph_order, node_order = _order_of_input(flat)
    return PointBatch(
        runs=runs,
        index=torch.from_numpy(flat.layout.order),
        eigenvalues=flat.eigenvalues,
        eigenvectors=flat.eigenvectors,
        x=None if flat.x is None else _with_columns(flat.x),
        pos=None if flat.pos is None else _with_columns(flat.pos),
        edges=edges,
        edge_attr=edge_attr,
        edge_weight=edge_weight,
        num_nodes=torch.from_numpy(flat.num_nodes),
        graph_order=graph_order,
        node_order=node_order,
        y=flat.y,
        descriptors=flat.descriptors,
        fingerprint=flat.fingerprint,
        matrix=flat.matrix,
    )


def _order_of_input(flat: FlatGraphs) -> tuple[Tensor, Tensor]:
    """(G,) and (N,): the row of each graph, and of each node, in the order of the layout."""
    order, counts = flat.layout.order, flat.num_nodes[flat.layout.order]
    row, first_node = np.empty_like(order), np.empty_like(order)
    row[order] = np.arange(len(order))
    first_node[order] = starts(counts)
    return torch.from_numpy(row), torch.from_numpy(consecutive(first_node, flat.num_nodes))


def _both_directions(flat: FlatGraphs) -> tuple[Tensor | None, Tensor | None, Tensor | None, list[int]]:
    """(3, M): graph, source, target; features (M, …) and weights (M,) of these edges; and how many of them in each
    group of equal size. Self-loops stand once.
    """
    sizes = flat.layout.sizes
    if flat.edges is None:
        return None, None, None, [0] * len(sizes)
    low, high = flat.edges
    counts = np.array([graphs for graphs, _, _ in sizes])
    group = np.repeat(np.arange(len(sizes)), counts)  # (G,) of each graph
    graph = np.repeat(np.arange(len(group)), flat.num_edges)  # (Σ m,) of each edge
    back = np.flatnonzero(low != high)
    owner = np.concatenate([graph, graph[back]])
    order = np.argsort(owner, kind="stable")  # graph by graph: all edges forward, then all backward
    owner, row = owner[order], np.concatenate([np.arange(len(graph)), back])[order]
    forward = order < len(graph)
    source, target = np.where(forward, low[row], high[row]), np.where(forward, high[row], low[row])
    edges = torch.from_numpy(np.stack([owner, source, target])).to(flat.eigenvalues.device)
    rows = torch.from_numpy(row).to(flat.eigenvalues.device)
    features = None if flat.edge_attr is None else _with_columns(flat.edge_attr.index_select(0, rows))
    weights = None if flat.edge_weight is None else flat.edge_weight.index_select(0, rows)
    return edges, features, weights, np.bincount(group[owner], minlength=len(sizes)).tolist()


def _with_columns(feature: Tensor) -> Tensor:
    return feature.unsqueeze(-1) if feature.dim() == 1 else feature


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
        return cls.flat(torch.cat(parts), starts(counts), counts, dtype)

    @classmethod
    def flat(cls, values: Tensor | None, start: Integers, counts: Integers, dtype: torch.dtype) -> _Rows | None:
        if values is None:
            return None
        return cls(values.to(dtype) if values.is_floating_point() else values, start, counts)

    def of(self, graphs: Integers) -> Tensor:
        return self.values.index_select(0, torch.from_numpy(consecutive(self.start[graphs], self.counts[graphs])))


class PointArrays:
    """Some of the graphs of a :class:`PointSets`, ready to be gathered.

    Eigenpairs and edges stay where they are (in a memory-mapped store, on disk); features are joined once into flat
    tensors, unless they are :class:`FlatFeatures` already. ``dtype`` is the floating-point type of eigenpairs,
    positions, real features and real targets.
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
        self._edge_weights, self._truncated = arrays.weights, pairs.spectral_error[graphs] > 0
        self._join_features(arrays, graphs, dtype)

    def _join_features(self, arrays: GraphArrays, graphs: Integers, dtype: torch.dtype) -> None:
        if isinstance(flat := arrays.features, FlatFeatures):
            nodes, edges = flat.node_start[graphs], flat.edge_start[graphs]
            self._x = _Rows.flat(flat.x, nodes, self.num_nodes, dtype)
            self._pos = _Rows.flat(flat.pos, nodes, self.num_nodes, dtype)
            self._edge_attr = _Rows.flat(flat.edge_attr, edges, self.num_edges, dtype)
            rows_of_y = (nodes, self.num_nodes) if flat.y_of_nodes else (graphs, np.ones_like(graphs))
            self._y = _Rows.flat(flat.y, *rows_of_y, dtype)
            each = graphs, np.ones_like(graphs)
            self._whole = {name: _Rows.flat(getattr(flat, name), *each, dtype) for name in WHOLE_GRAPH}
            return
        names, nodes = graphs.tolist(), self.num_nodes.tolist()
        x, edge_attr, pos, y, *whole = zip(*map(arrays.features_of, names), strict=True)
        ones = [1] * len(names)
        self._whole = {name: _Rows.joined(checked_rows(rows, ones, name, names), dtype)
                       for name, rows in zip(WHOLE_GRAPH, whole, strict=True)}  # fmt: skip
        self._x = _Rows.joined(checked_rows(x, nodes, "x", names), dtype)
        self._pos = _Rows.joined(checked_rows(pos, nodes, "pos", names), dtype)
        self._edge_attr = _Rows.joined(checked_rows(edge_attr, self.num_edges.tolist(), "edge_attr", names), dtype)
        self._y = _Rows.joined(checked_targets(y, nodes, names), dtype)

    def gather(self, positions: Integers) -> FlatGraphs:
        """The graphs at these positions, (B,), copied out of the arrays."""
        layout = Layout.of(self.num_nodes[positions], self.ranks[positions])
        chosen = positions[layout.order]
        m = self.num_edges[chosen]
        truncated = bool(self._truncated[chosen].any())
        edges = consecutive(self._edge_start[chosen], m) if self._edge_attr is not None or truncated else None
        return FlatGraphs(
            layout=layout,
            num_nodes=self.num_nodes[positions],
            matrix=self.matrix,
            eigenvalues=self._cast(self._values[consecutive(self._value_start[chosen], self.ranks[chosen])]),
            eigenvectors=self._blocks(layout, self._vector_start[chosen]),
            x=None if self._x is None else self._x.of(chosen),
            pos=None if self._pos is None else self._pos.of(chosen),
            num_edges=m,
            edges=None if edges is None else self._edges[:, edges],
            edge_attr=None if self._edge_attr is None else self._edge_attr.of(chosen),
            edge_weight=self._weights(edges) if truncated and edges is not None else None,
            y=None if self._y is None else self._y.of(positions),
            **{name: None if rows is None else rows.of(positions) for name, rows in self._whole.items()},
        )

    def _blocks(self, layout: Layout, start: Integers) -> Tensor:
        """(Σ n·r,) eigenvectors, group by group.

        Row i of a window of width n·r is ``vectors[i : i + n·r]``, so one index for each graph takes out whole blocks:
        on graphs of 150 nodes twice as fast as an index for each number.
        """
        source = self._vectors
        # Eigenvectors have entries up to 1: they can be rounded on the way, without a second copy of the batch.
        once = self.dtypes[1] == torch.float32 and self.dtypes[0] in (torch.float32, torch.float64)
        total = sum(graphs * n * r for graphs, n, r in layout.sizes)
        blocks = np.empty(total, dtype=np.float32 if once else source.dtype)
        graph = written = 0
        for graphs, n, r in layout.sizes:
            width = n * r
            if width:
                shape, strides = (len(source) - width + 1, width), (source.itemsize, source.itemsize)
                windows: NDArray[np.floating] = np.ndarray(shape, source.dtype, source.data, 0, strides)
                target = blocks[written : written + graphs * width].reshape(graphs, width)
                target[...] = windows[start[graph : graph + graphs]]
            graph, written = graph + graphs, written + graphs * width
        return torch.from_numpy(blocks) if once else self._cast(blocks)

    def _weights(self, edges: Integers) -> Tensor:
        return self._cast(np.ones(len(edges)) if self._edge_weights is None else self._edge_weights[edges])

    def _cast(self, numbers: NDArray[np.floating]) -> Tensor:
        of_points, of_batch = self.dtypes
        return torch.from_numpy(numbers).to(of_points).to(of_batch)
