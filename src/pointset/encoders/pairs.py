"""Weights of pairs of points, e_ij (d, B, n, n), from edge features and, for PST*, from distances in space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pointset.encoders.batch import PointGroup
from pointset.encoders.feature_columns import checked
from pointset.encoders.layers import MLP, ChannelLinear
from pointset.errors import SpecError
from pointset.specs import Categories, Reals, Spec


class SumOfTables(nn.Module):
    """Categorical columns (…, c) → (d, …): the sum of one embedding for each column."""

    def __init__(self, sizes: Sequence[int], channels: int):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, channels) for size in sizes)

    def forward(self, features: Tensor) -> Tensor:
        """(…, c) whole numbers → (d, …)."""
        embedded = [table(features[..., column]) for column, table in enumerate(self.tables)]
        return torch.stack(embedded).sum(0).movedim(-1, 0)


class PairWeights(nn.Module, ABC):
    """e_ij from the edge features of a group, zero where there is no edge, times a weight by distance for PST*."""

    def __init__(self, edge: Spec, channels: int, distances: nn.Module | None):
        super().__init__()
        self.edge, self.channels = edge, channels
        self.tables = SumOfTables(edge.sizes, channels) if isinstance(edge, Categories) else None
        self.linear = ChannelLinear(edge.width, channels) if isinstance(edge, Reals) else None
        self.distances = distances

    @abstractmethod
    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""

    def by_edge(self, group: PointGroup) -> Tensor:
        """(d, M): each edge's embedding, in the order of the group's edges."""
        features = checked(group.edge_attr, self.edge, "edge features edge_attr")  # (M, c)
        if self.tables is not None:
            embedded: Tensor = self.tables(features)
        elif self.linear is not None:
            embedded = self.linear(features.to(self.linear.weight.dtype).mT)
        else:
            raise SpecError(f"no embedding for {self.edge}")
        return embedded

    def of_edges(self, group: PointGroup, elsewhere: Tensor | None = None) -> Tensor:
        """(d, B, n, n) with each edge's embedding, and ``elsewhere`` (d,) or 0 at all other pairs."""
        by_edge = self.by_edge(group)
        graphs, nodes, _ = group.size
        if group.edges is None:
            raise SpecError("the batch has edge features without edges")
        place = (group.edges[0] * nodes + group.edges[1]) * nodes + group.edges[2]
        empty = by_edge.new_zeros(self.channels, 1) if elsewhere is None else elsewhere.unsqueeze(-1)
        pairs = empty.expand(self.channels, graphs * nodes * nodes)
        return pairs.index_copy(1, place, by_edge).view(self.channels, graphs, nodes, nodes)


class EdgeWeights(PairWeights):
    """Ours: an edge's embedding, zero elsewhere; with distances w_ij, every pair weighs w_ij ⊙ (1 + e_ij)."""

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""
        if self.distances is None:
            return self.of_edges(group)
        near: Tensor = self.distances(group)
        return near if self.edge is None else near * (1 + self.of_edges(group))


class ReleasedPairWeights(PairWeights):
    """As the released model: with real features the linear map's bias stands at every pair; PST*: times distances."""

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""
        if self.edge is None and self.distances is not None:
            near: Tensor = self.distances(group)
            return near
        weights = self.of_edges(group, None if self.linear is None else self.linear.bias)
        return weights if self.distances is None else weights * self.distances(group)


class RadialDistances(nn.Module):
    """|p_i − p_j| → radial basis functions (Gaussians at equal steps up to ``reach``) → MLP → (d, B, n, n)."""

    def __init__(self, channels: int, functions: int = 32, reach: float = 12.0):
        super().__init__()
        self.mlp = MLP([functions, channels, channels], tail=True)
        self.centres: Tensor
        self.register_buffer("centres", torch.linspace(0, reach, functions), persistent=False)
        self.width = reach / functions

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""
        offset = distances(group).to(self.centres.dtype) - self.centres.view(-1, 1, 1, 1)
        weights: Tensor = self.mlp(torch.exp(-((offset / self.width) ** 2)))
        return weights


class PlainDistances(nn.Module):
    """As the released PST*: |p_i − p_j| → MLP(1 → 2d → d with LayerNorm) → (d, B, n, n)."""

    def __init__(self, channels: int):
        super().__init__()
        self.mlp = MLP([1, 2 * channels, channels], norm="layer", tail=True)

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""
        weights: Tensor = self.mlp(distances(group).unsqueeze(0).to(next(self.parameters()).dtype))
        return weights


def distances(group: PointGroup) -> Tensor:
    """|p_i − p_j|, (B, n, n)."""
    if group.pos is None:
        raise SpecError("the model uses 3D positions (PST*), but the graphs carry no pos")
    square = (group.pos.unsqueeze(2) - group.pos.unsqueeze(1)).square().sum(-1)
    # Twice the same point has distance 0, where the root's gradient is infinite: it is taken elsewhere only.
    return torch.where(square > 0, square.clamp(min=torch.finfo(square.dtype).tiny).sqrt(), square)
