"""Rooted subgraphs: a GIN inside the neighbourhood of every node (NGNN, ID-GNN). Features are (d, B, n roots, n nodes).

The subgraph of a root is induced by the nodes within 3 hops. Edge features scale messages in each channel,
m_ij = (g + e_ij) ⊙ x_j with a learned g: GINE's relu(x_j + e_ij) would need a tensor of d·n³ numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pointset.baselines.graphs import Structure, hop_distances, restored_adjacency
from pointset.baselines.pairs import PairNorm
from pointset.encoders.batch import PointGroup
from pointset.encoders.layers import MLP, ChannelLinear, LayerStack, PairMLP, PointState
from pointset.encoders.products import row_products, weighted_sums

HOPS = 3


class EdgeScale(nn.Module):
    """A_ij g, with a learned number for each channel: (B, n, n) → (d, B, n, n)."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, adjacency: Tensor) -> Tensor:
        """(B, n, n) → (d, B, n, n)."""
        return self.scale.view(-1, 1, 1, 1) * adjacency


class MessageWeights(Structure):
    """A, then in each channel w_ij = A_ij (g + e_ij)."""

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (1 + d, B, n, n)."""
        edges = restored_adjacency(group)
        weights: Tensor = self.function(edges)
        if self.pairs is not None:
            weights = weights + edges * self.pairs(group)
        return torch.cat([edges.unsqueeze(0), weights])


class RootedLayer(nn.Module):
    """x ← mask ⊙ (x + MLP((1 + ε) x̂_i + Σ_j w_ij ⊙ x̂_j)), x̂ the LayerNorm over the channels: GIN in each subgraph."""

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__()
        self.norm, self.mlp = PairNorm(), PairMLP(channels, channels, tail=False)
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.last = last

    def forward(self, x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        """(d, B, n, n), (d, B, n, n), (B, n, n) → (d, B, n, n). The mask is symmetric, and so are the weights."""
        hidden = self.sent(self.norm(x))
        sums = torch.addcmul(weighted_sums(hidden, weights), hidden, 1 + self.epsilon)
        return torch.addcmul(x, mask, self.mlp(sums))

    def sent(self, x: Tensor) -> Tensor:
        """What nodes send and keep."""
        return x


class RootedGIN(LayerStack):
    """Layers that pass messages in all subgraphs at once."""

    layer: type[RootedLayer] = RootedLayer

    def __init__(self, channels: int, layers: int):
        super().__init__(self.layer, channels, layers)

    def passed(self, x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        """(d, B, n, n) → what the last layer gives."""
        for layer in self.layers:
            x = layer(x, weights, mask)
        return x


class NestedGIN(RootedGIN):
    """NGNN (Zhang & Li, 2021): nodes know their distance to the root, and a subgraph is pooled to its root's row.

    s_r = MLP(Σ_i x_ri / √size): a sum, as a mean would forget the size.
    """

    def __init__(self, channels: int, layers: int):
        super().__init__(channels, layers)
        self.labels = nn.Embedding(HOPS + 1, channels)
        self.readout = MLP([channels, channels, channels])

    def forward(self, state: PointState) -> PointState:
        """Scalars (d, B, n), adjacency and weights (1 + d, B, n, n) → scalars (d, B, n)."""
        distances = hop_distances(state.v[0], HOPS + 1)
        mask = (distances <= HOPS).to(state.s.dtype)
        labels = self.labels(distances.clamp(max=HOPS)).movedim(-1, 0)  # (d, B, n, n)
        x = self.passed((state.s.unsqueeze(-2) + labels) * mask, state.v[1:], mask)
        return PointState(self.readout(x.sum(-1) * mask.sum(-1).rsqrt()), state.v)


class IdentityLayer(RootedLayer):
    """ID-GNN's layer: the root's messages have other weights, x̂_r + U x̂_r in place of x̂_r.

    ``last``: only the roots' rows are computed, (d, B, n), as nothing reads the others.
    """

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__(channels, last=last)
        self.root = ChannelLinear(channels, channels, bias=False)

    def forward(self, x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        """(d, B, n, n) → (d, B, n, n), or (d, B, n) if it is the last."""
        if not self.last:
            return super().forward(x, weights, mask)
        hidden = self.sent(self.norm(x))
        sums = row_products(hidden, weights) + (1 + self.epsilon) * _roots(hidden)
        result: Tensor = _roots(x) + self.mlp(sums)
        return result

    def sent(self, x: Tensor) -> Tensor:
        """X̂ with the roots' rows, its diagonal, changed."""
        return torch.diagonal_scatter(x, _roots(x) + self.root(_roots(x)), dim1=-2, dim2=-1)


class IDGNN(RootedGIN):
    """ID-GNN (You et al., 2021): messages from the root have other weights, and the root's own row is taken."""

    layer = IdentityLayer

    def __init__(self, channels: int, layers: int):
        super().__init__(channels, layers)
        self.readout = MLP([channels, channels, channels])

    def forward(self, state: PointState) -> PointState:
        """Scalars (d, B, n), adjacency and weights (1 + d, B, n, n) → scalars (d, B, n)."""
        mask = (hop_distances(state.v[0], HOPS + 1) <= HOPS).to(state.s.dtype)
        roots = self.passed(state.s.unsqueeze(-2) * mask, state.v[1:], mask)
        return PointState(self.readout(roots), state.v)


def _roots(x: Tensor) -> Tensor:
    """x_rr: (d, B, n, n) → (d, B, n)."""
    return x.diagonal(dim1=-2, dim2=-1)
