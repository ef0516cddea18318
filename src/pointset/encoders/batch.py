"""Point sets in a batch: graphs of equal (n, r) side by side, no padding, no masks.

A :class:`PointGroup` holds B graphs with the same number of nodes n and the same rank r, so the result for a graph
cannot depend on what else is in the batch. A :class:`PointBatch` is a list of groups and knows the order of the input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.encoders.gather import FlatGraphs, Layout, alike, alike_targets, runs
from pointset.errors import GraphError
from pointset.points.point_set import PointSet


@dataclass(frozen=True, eq=False)
class PointGroup:
    """B graphs with the same n and r."""

    index: Tensor  # (B,) position of each graph in the batch
    eigenvalues: Tensor  # (B, r)
    eigenvectors: Tensor  # (B, n, r)
    x: Tensor | None = None  # (B, n, c) node features
    edges: Tensor | None = None  # (3, M) graph in the group, source, target; both directions
    edge_attr: Tensor | None = None  # (M, c) features of those edges
    pos: Tensor | None = None  # (B, n, 3) positions

    @property
    def size(self) -> tuple[int, int, int]:
        """(B, n, r)."""
        graphs, nodes, rank = self.eigenvectors.shape
        return graphs, nodes, rank


@dataclass(frozen=True, eq=False)
class PointBatch:
    """Groups of equal (n, r), and the way back to the order of the input."""

    groups: list[PointGroup]
    num_nodes: Tensor  # (G,) nodes of each graph, in input order
    graph_order: Tensor  # (G,) row of each graph in the concatenated groups
    node_order: Tensor  # (N,) row of each node in the concatenated groups
    y: Tensor | None  # (G, …) targets of graphs or (N, …) of nodes, in input order
    matrix: str  # which matrix the points come from

    def __repr__(self) -> str:
        y = "no y" if self.y is None else f"y {tuple(self.y.shape)}"
        graphs, nodes = self.num_graphs, int(self.num_nodes.sum())
        return f"PointBatch({graphs} graphs in {len(self.groups)} groups, {nodes} nodes, {y}, matrix={self.matrix!r})"

    @property
    def num_graphs(self) -> int:
        """G."""
        return self.num_nodes.shape[0]

    def to(self, target: torch.device | torch.dtype | str) -> PointBatch:
        """Move to a device, or change the floating-point type of eigenpairs, positions and real features."""

        def moved(tensor: Tensor) -> Tensor:
            if isinstance(target, torch.dtype) and not tensor.is_floating_point():
                return tensor
            return tensor.to(target)

        return self._mapped(moved)

    def pin_memory(self) -> PointBatch:
        """For DataLoader(pin_memory=True)."""
        return self._mapped(lambda tensor: tensor.pin_memory())

    def _mapped(self, function: Callable[[Tensor], Tensor]) -> PointBatch:
        def each(item: PointGroup | PointBatch) -> dict[str, Any]:
            values = ((field.name, getattr(item, field.name)) for field in dataclasses.fields(item))
            return {name: function(value) for name, value in values if isinstance(value, Tensor)}

        groups = [dataclasses.replace(group, **each(group)) for group in self.groups]
        return dataclasses.replace(self, groups=groups, **each(self))


def collate(point_sets: Sequence[PointSet]) -> PointBatch:
    """Put point sets into groups of equal (n, r); outputs of a model come back in the order given here.

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
    members = [point_sets[number] for number in numbers]

    def joined(name: str, counts: list[int]) -> Tensor | None:
        parts = alike([getattr(points, name) for points in members], counts, name, numbers)
        return torch.cat(parts) if parts else None

    nodes, edges = [points.num_nodes for points in members], [points.num_edges for points in members]
    edge_attr = joined("edge_attr", edges)
    edge_index = [points.edge_index for points in members if points.num_edges and points.edge_index is not None]
    nothing = [torch.empty(2, 0, dtype=torch.long)]
    y = alike_targets([points.y for points in point_sets], num_nodes.tolist(), range(len(point_sets)))
    return batch_of(
        FlatGraphs(
            layout=layout,
            num_nodes=num_nodes,
            matrix=point_sets[0].matrix,
            eigenvalues=torch.cat([points.eigenvalues for points in members]),
            eigenvectors=torch.cat([points.eigenvectors.flatten() for points in members]),
            x=joined("x", nodes),
            pos=joined("pos", nodes),
            num_edges=np.array(edges),
            edges=None if edge_attr is None else torch.cat(edge_index or nothing, dim=1).cpu().numpy(),
            edge_attr=edge_attr,
            y=torch.cat(y) if y else None,
        )
    )


def batch_of(flat: FlatGraphs) -> PointBatch:
    """Cut flat tensors into groups. The groups are views: a worker process passes on a few tensors, not hundreds."""
    sizes = flat.layout.sizes
    index = torch.split(torch.from_numpy(flat.layout.order), [graphs for graphs, _, _ in sizes])
    values = torch.split(flat.eigenvalues, [graphs * r for graphs, _, r in sizes])
    vectors = torch.split(flat.eigenvectors, [graphs * n * r for graphs, n, r in sizes])
    x, pos = (_cut_by_nodes(feature, sizes) for feature in (flat.x, flat.pos))
    edges, edge_attr = _both_directions(flat)
    groups = [
        PointGroup(
            index=index[group],
            eigenvalues=values[group].view(graphs, r),
            eigenvectors=vectors[group].view(graphs, n, r),
            x=x[group],
            edges=edges[group],
            edge_attr=edge_attr[group],
            pos=pos[group],
        )
        for group, (graphs, n, r) in enumerate(sizes)
    ]
    graph_order, node_order = _order_of_input(flat)
    return PointBatch(groups, torch.from_numpy(flat.num_nodes), graph_order, node_order, flat.y, flat.matrix)


def _order_of_input(flat: FlatGraphs) -> tuple[Tensor, Tensor]:
    """(G,) and (N,): the row of each graph, and of each node, in the concatenated groups."""
    order, counts = flat.layout.order, flat.num_nodes[flat.layout.order]
    row, first_node = np.empty_like(order), np.empty_like(order)
    row[order] = np.arange(len(order))
    first_node[order] = np.cumsum(counts) - counts
    return torch.from_numpy(row), torch.from_numpy(runs(first_node, flat.num_nodes))


def _cut_by_nodes(feature: Tensor | None, sizes: list[tuple[int, int, int]]) -> Sequence[Tensor | None]:
    """(Σ n, …) → (B, n, …) for each group; a feature without columns becomes one column."""
    if feature is None:
        return [None] * len(sizes)
    columns = _with_columns(feature)
    parts = torch.split(columns, [graphs * n for graphs, n, _ in sizes])
    return [part.view(graphs, n, *columns.shape[1:]) for part, (graphs, n, _) in zip(parts, sizes, strict=True)]


def _both_directions(flat: FlatGraphs) -> tuple[Sequence[Tensor | None], Sequence[Tensor | None]]:
    """For each group (3, M): graph in the group, source, target; and (M, …). Self-loops stand once."""
    sizes = flat.layout.sizes
    if flat.edges is None or flat.edge_attr is None:
        return [None] * len(sizes), [None] * len(sizes)
    low, high = flat.edges
    members = np.array([graphs for graphs, _, _ in sizes])
    group = np.repeat(np.arange(len(sizes)), members)  # (G,) of each graph
    number_in_group = runs(np.zeros_like(members), members)  # (G,)
    graph = np.repeat(np.arange(len(group)), flat.num_edges)  # (Σ m,) of each edge
    back = np.flatnonzero(low != high)
    owner = np.concatenate([graph, graph[back]])
    order = np.argsort(owner, kind="stable")  # graph by graph: all edges forward, then all backward
    owner, row = owner[order], np.concatenate([np.arange(len(graph)), back])[order]
    forward = order < len(graph)
    source, target = np.where(forward, low[row], high[row]), np.where(forward, high[row], low[row])
    edges = torch.from_numpy(np.stack([number_in_group[owner], source, target])).to(flat.edge_attr.device)
    features = _with_columns(flat.edge_attr.index_select(0, torch.from_numpy(row).to(flat.edge_attr.device)))
    counts = np.bincount(group[owner], minlength=len(sizes)).tolist()
    return torch.split(edges, counts, dim=1), torch.split(features, counts)


def _with_columns(feature: Tensor) -> Tensor:
    return feature.unsqueeze(-1) if feature.dim() == 1 else feature


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
        if points.num_edges and points.edge_attr is not None and points.edge_index is None:
            raise GraphError(f"point set {position} has edge_attr but no edge_index; expected the edges they belong to")
