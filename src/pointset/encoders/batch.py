"""Point sets in a batch: graphs of equal (n, r) side by side, no padding, no masks.

A :class:`PointGroup` holds B graphs with the same number of nodes n and the same rank r, so the result for a graph
cannot depend on what else is in the batch. A :class:`PointBatch` is a list of groups and knows the order of the input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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
    y: Tensor | None  # targets, concatenated in input order
    matrix: str  # which matrix the points come from

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

    Raises:
        GraphError: no point sets, or point sets that do not fit together (different matrices, features on some only).
    """
    if not point_sets:
        raise GraphError("got no point sets; expected at least one for a batch")
    _check_alike(point_sets)
    members: dict[tuple[int, int], list[int]] = {}
    for position, points in enumerate(point_sets):
        members.setdefault((points.num_nodes, points.rank), []).append(position)
    ordered = [members[size] for size in sorted(members)]
    groups = [_group(positions, [point_sets[position] for position in positions]) for positions in ordered]
    num_nodes = torch.tensor([points.num_nodes for points in point_sets])
    return assemble(groups, num_nodes, _targets(point_sets), point_sets[0].matrix)


def assemble(groups: list[PointGroup], num_nodes: Tensor, y: Tensor | None, matrix: str) -> PointBatch:
    """A batch from its groups: works out the way back to the order of the input."""
    listed = torch.cat([group.index for group in groups])  # graph at each row of the concatenated groups
    graph_order = torch.empty_like(listed)
    graph_order[listed] = torch.arange(len(listed))
    counts = num_nodes[listed]
    start = torch.empty_like(counts)
    start[listed] = counts.cumsum(0) - counts  # first row of each graph's nodes in the concatenated groups
    input_start = num_nodes.cumsum(0) - num_nodes
    within = torch.arange(int(num_nodes.sum())) - torch.repeat_interleave(input_start, num_nodes)
    node_order = torch.repeat_interleave(start, num_nodes) + within
    return PointBatch(groups, num_nodes, graph_order, node_order, y, matrix)


def _group(positions: list[int], members: list[PointSet]) -> PointGroup:
    def stacked(name: str) -> Tensor | None:
        values = [getattr(points, name) for points in members]
        if values[0] is None:
            return None
        stack = torch.stack(values)
        return stack.unsqueeze(-1) if stack.dim() == 2 else stack

    edges, edge_attr = _edges(members)
    return PointGroup(
        index=torch.tensor(positions),
        eigenvalues=torch.stack([points.eigenvalues for points in members]),
        eigenvectors=torch.stack([points.eigenvectors for points in members]),
        x=stacked("x"),
        edges=edges,
        edge_attr=edge_attr,
        pos=stacked("pos"),
    )


def _edges(members: list[PointSet]) -> tuple[Tensor | None, Tensor | None]:
    """(3, M) with both directions of each edge, and their features (M, c)."""
    columns, rows = [], []
    for position, points in enumerate(members):
        if points.edge_index is None or points.edge_attr is None:
            return None, None
        low, high = points.edge_index
        off = low != high
        both = torch.stack([torch.cat([low, high[off]]), torch.cat([high, low[off]])])
        columns.append(torch.cat([torch.full_like(both[:1], position), both]))
        rows.append(torch.cat([points.edge_attr, points.edge_attr[off]]))
    features = torch.cat(rows)
    return torch.cat(columns, dim=1), features.unsqueeze(-1) if features.dim() == 1 else features


def _targets(point_sets: Sequence[PointSet]) -> Tensor | None:
    if point_sets[0].y is None:
        return None
    return torch.cat(
        [points.y if points.y.dim() else points.y.reshape(1) for points in point_sets if points.y is not None]
    )


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
        for name in ("x", "edge_attr", "pos", "y"):
            if (getattr(points, name) is None) != (getattr(first, name) is None):
                raise GraphError(f"{name} is there on some point sets and missing on others; expected all or none")
