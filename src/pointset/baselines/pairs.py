"""Pair features (d, B, n, n): PPGN (Maron et al., 2019), matrix products of them, as strong as 2-FWL.

Sums over m terms are divided by √m: they stay of moderate size, and n can still be read off them (a mean would forget
it). Cost of a layer: d·n³ + 6·d²·n² for each graph.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from pointset.baselines.graphs import Structure, restored_adjacency
from pointset.encoders.batch import PointGroup
from pointset.encoders.layers import MLP, ChannelLinear, ChannelNorm, PairMLP, PointState
from pointset.encoders.products import weighted_sums


class PairNorm(ChannelNorm):
    """:class:`ChannelNorm`, made for large tensors: (d, B, n, n) → (d, B, n, n), mean 0 and variance 1 over d.

    PyTorch's batch norm takes the mean over the first axis, which here are the channels: each pair is normalised alone,
    and nothing passes from graph to graph. It takes a third of the time, as nothing is transposed.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(d, …) → (d, …)."""
        if len(x) == 1 or not x.numel():  # where batch norm refuses
            return super().forward(x)
        return batch_norm(x.flatten(1), None, None, training=True, eps=self.EPSILON).view_as(x)


class PairStart(nn.Module):
    """Linear map of identity and adjacency, (2, B, n, n) → (d, B, n, n)."""

    def __init__(self, channels: int):
        super().__init__()
        self.linear = ChannelLinear(2, channels)

    def forward(self, adjacency: Tensor) -> Tensor:
        """(B, n, n) → (d, B, n, n)."""
        identity = torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device)
        first: Tensor = self.linear(torch.stack([identity.expand_as(adjacency), adjacency]))
        return first


class PairFeatures(Structure):
    """The first pair features: W (1[i = j], A_ij) + b, plus e_ij at the edges."""

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (d, B, n, n)."""
        first: Tensor = self.function(restored_adjacency(group))
        return first if self.pairs is None else first + self.pairs(group)


class PPGNLayer(nn.Module):
    """X ← X + W (X̂ ‖ MLP₁(X̂) · MLP₂(X̂)/√n), X̂ the LayerNorm over the channels; a matrix product in each channel."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = PairNorm()
        self.left, self.right = (PairMLP(channels, channels, tail=False) for _ in range(2))
        for mlp in (self.left, self.right):  # else products begin a hundred times smaller than X, and learn late
            for weight in (mlp.weight1, mlp.weight2):
                nn.init.kaiming_normal_(weight, nonlinearity="relu")
        self.own, self.product = ChannelLinear(channels, channels), ChannelLinear(channels, channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(d, B, n, n) → (d, B, n, n)."""
        normed = self.norm(x)
        product = weighted_sums(self.left(normed), self.right(normed))
        own: Tensor = x + self.own(normed)
        # The scale is on the small matrix, and the sum in the product: two passes over pairs less.
        return torch.addmm(own.flatten(1), root_scale(x) * self.product.weight, product.flatten(1)).view_as(x)


class PPGN(nn.Module):
    """Node features on the diagonal, layers, then s_i = MLP(X_ii ‖ Σ_j X_ij/√n)."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.node = ChannelLinear(channels, channels, bias=False)
        self.layers = nn.ModuleList(PPGNLayer(channels) for _ in range(layers))
        self.norm = PairNorm()
        self.readout = MLP([2 * channels, channels, channels])

    def forward(self, state: PointState) -> PointState:
        """Scalars (d, B, n) and pairs (d, B, n, n) → the same."""
        x = state.v + torch.diag_embed(self.node(state.s))
        for layer in self.layers:
            x = layer(x)
        normed = self.norm(x)
        rows = torch.cat([normed.diagonal(dim1=-2, dim2=-1), root_scale(x) * normed.sum(-1)])  # (2d, B, n)
        return PointState(self.readout(rows), x)


def root_scale(x: Tensor) -> float:
    """1/√n for (…, n)."""
    return float(max(x.shape[-1], 1) ** -0.5)
