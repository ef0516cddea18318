"""Point Set Transformer, equations (1) to (4) of the paper; pooling, equation (5), is in readout.py.

State of a group of B graphs with n points of rank r: scalars s (d, B, n), invariant to O(r); vectors v (d, B, n, r),
equivariant to it. A layer costs n²·r·d for the pairs and n·r·d² + n²·d² for mixing channels, for each graph.

What the paper leaves open and what is done here (docs/departures_from_paper.md): scalars are normalised and
vectors bounded before they are used, attention is scaled by n^-0.925, SiLU throughout, residual connections, larger
first weights.
Queries and keys are taken before the mixer, values after it, as in the proofs of Appendix A.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pointset.encoders.layers import (
    MLP,
    AttentionMap,
    ChannelLinear,
    ChannelNorm,
    LayerStack,
    PairMLP,
    PointState,
    VectorBound,
    begin_in_sight,
    size_scale,
)
from pointset.encoders.products import attended, projected_products


class ScalarMixer(nn.Module):
    """Equation (1): s' = MLP₁(s ‖ diagonal(W₁ vᵀv W₂ᵀ)); W₁ and W₂ stand with the other projections of the layer."""

    def __init__(self, channels: int):
        super().__init__()
        self.mlp1 = MLP([2 * channels, channels, channels])

    def forward(self, s: Tensor, diagonal: Tensor) -> Tensor:
        """(d, B, n) twice → (d, B, n)."""
        mixed: Tensor = self.mlp1(torch.cat([s, diagonal]))
        return mixed


class VectorMixer(nn.Module):
    """Equation (2): v' = v diag(MLP₂(s)) W₃ + v W₄."""

    def __init__(self, channels: int):
        super().__init__()
        self.mlp2 = MLP([channels, channels, channels])
        self.w3, self.w4 = (ChannelLinear(channels, channels, bias=False) for _ in range(2))

    def forward(self, s: Tensor, v: Tensor) -> Tensor:
        """(d, B, n), (d, B, n, r) → (d, B, n, r)."""
        mixed: Tensor = self.w3(v * self.mlp2(s).unsqueeze(-1)) + self.w4(v)
        return mixed


class PointAttention(AttentionMap):
    """Equation (3): Atten_ij = MLP((W_q s_i ⊙ W_k s_j) ‖ diagonal(W_q v_iᵀ v_j W_k)), (d, B, n, n).

    The factor n^-0.925 is applied where the attention is used.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.mlp = PairMLP(2 * channels, channels, tail=False)

    def forward(self, pairs: Tensor) -> Tensor:
        """(2d, B, n, n) → (d, B, n, n)."""
        attention: Tensor = self.mlp(pairs)
        return attention


class PSTLayer(nn.Module):
    """Mixer, attention, and equation (4): s_i ← s_i + Σ_j Atten_ij s'_j, v_i ← v_i + Σ_j Atten_ij v'_j.

    ``last``: only the scalars are computed, as nothing reads the vectors of the last layer.
    """

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__()
        self.norm_s: nn.Module = ChannelNorm()
        self.bound_v = VectorBound()
        self.projections_v = ChannelLinear(channels, 4 * channels, bias=False)  # W_q, W_k, W₁, W₂ in one product
        self.projections_s = ChannelLinear(channels, 2 * channels, bias=False)  # W_q, W_k of the scalars
        self.attention = PointAttention(channels)
        self.mixer_s = ScalarMixer(channels)
        self.mixer_v = None if last else VectorMixer(channels)

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        s, v = self.norm_s(state.s), self.bound_v(state.v)
        query_s, key_s = self.projections_s(s).chunk(2)
        pairs, diagonal = projected_products(self.projections_v(v), query_s, key_s)  # (2d, B, n, n), (d, B, n)
        attention = self.attention(pairs)
        values_s = self.mixer_s(s, diagonal)
        values_v = None if self.mixer_v is None else self.mixer_v(s, v)
        return PointState(*attended(attention, values_s, values_v, *state, self.sum_factor(s.shape[-1])))

    def sum_factor(self, nodes: int) -> float:
        """By what the sums over the points of a graph are multiplied."""
        return size_scale(nodes)


class PST(LayerStack):
    """The Point Set Transformer."""

    def __init__(self, channels: int, layers: int):
        super().__init__(PSTLayer, channels, layers)
        begin_in_sight(self, attention=min(1.0, 4 / layers))  # what many layers add must not explode
