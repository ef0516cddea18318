"""Point Set DeepSet (Appendix K): points are changed one by one, and meet only in sums over all points.

Cost n·r²·d + n·r·d² a layer and graph; no pair of points is ever formed. Scalars are normalised and vectors bounded
before use, sums are scaled by n^-0.925 and added to what was there, as in the Point Set Transformer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pointset.encoders.buckets import Padding
from pointset.encoders.layers import (
    MLP,
    SIZE_EXPONENT,
    ChannelLinear,
    ChannelNorm,
    LayerStack,
    PointState,
    VectorBound,
    enlarge_first_weights,
    masked,
    size_scale,
)
from pointset.encoders.products import row_products
from pointset.encoders.pst import ScalarMixer, VectorMixer
from pointset.native.program import Code, Space, Symbol


class ScalarSum(nn.Module):
    """s = Σ_i MLP₃(s_i), times n^-0.925."""

    def __init__(self, channels: int):
        super().__init__()
        self.mlp3 = MLP([channels, channels, channels])

    def forward(self, s: Tensor, padding: Padding | None = None) -> Tensor:
        """(d, B, n) → (d, B, 1)."""
        if isinstance(s, Symbol):
            return self.mlp3(s).unary(Code.POOL, space=Space.GRAPH).unary(Code.SCALE, number=SIZE_EXPONENT)
        scale = size_scale(s.shape[-1]) if padding is None else size_scale(padding.nodes)
        total: Tensor = scale * masked(self.mlp3(s), padding).sum(-1, keepdim=True)
        return total


class VectorSums(nn.Module):
    """v = Σ_i v_i W₅ and v_sq = Σ_i v_i W₆ W₇ v_iᵀ, each times n^-0.925."""

    def __init__(self, channels: int):
        super().__init__()
        self.w5, self.w6, self.w7 = (ChannelLinear(channels, channels, bias=False) for _ in range(3))

    def forward(self, v: Tensor, padding: Padding | None = None) -> tuple[Tensor, Tensor]:
        """(d, B, n, r) → (d, B, 1, r), (B, r, r)."""
        if isinstance(v, Symbol):
            return self._recorded(v)
        channels, graphs, nodes, rank = v.shape
        scale = size_scale(nodes) if padding is None else size_scale(padding.nodes).unsqueeze(-1)  # (B, 1, 1)
        left, right = (
            projection(v).transpose(0, 1).reshape(graphs, channels * nodes, rank) for projection in (self.w6, self.w7)
        )
        # Divided by d, which W₆ could learn: v_sq then starts at the size of one channel's square.
        return scale * self.w5(v.sum(2, keepdim=True)), (scale / channels) * torch.bmm(left.mT, right)

    def _recorded(self, v: Any) -> tuple[Any, Any]:
        """The same of a symbol: a row for each of the r coordinates, and r × r."""
        total = v.unary(Code.POOL, space=Space.EIGENVALUES).unary(Code.SCALE, number=SIZE_EXPONENT)
        sides = [self.w6(v), self.w7(v)]
        return self.w5(total), v.program.record(Code.SQUARE, sides, Space.SQUARES, 1, SIZE_EXPONENT)


def turned(v: Tensor, squared: Tensor, base: Tensor) -> Tensor:
    """base_i + v_sq v_i: (d, B, n, r), (B, r, r), (d, B, n, r) → (d, B, n, r)."""
    if isinstance(v, Symbol):
        return v.program.record(Code.TIMES_SQUARE, [v, squared, base], v.space, v.width)
    return base + v @ squared.mT


class PSDSLayer(nn.Module):
    """Mixer, aggregator and update: s_i ← s_i + MLP₄(s'_i + s), v_i ← v_i + v_sq v'_i + v W₈.

    ``last``: only the scalars are computed, as nothing reads the vectors of the last layer.
    """

    takes_padding = True

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__()
        self.norm_s, self.bound_v = ChannelNorm(), VectorBound()
        self.projections = ChannelLinear(channels, 2 * channels, bias=False)  # W₁, W₂ in one product
        self.mixer_s, self.sum_s = ScalarMixer(channels), ScalarSum(channels)
        self.mlp4 = MLP([channels, channels, channels])
        self.mixer_v = None if last else VectorMixer(channels)
        self.sums_v = None if last else VectorSums(channels)
        self.w8 = None if last else ChannelLinear(channels, channels, bias=False)

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        s, v = self.norm_s(state.s), self.bound_v(state.v)
        mixed_s = self.mixer_s(s, row_products(*self.projections(v).chunk(2)))
        updated_s = state.s + self.mlp4(mixed_s + self.sum_s(mixed_s, state.padding))
        if self.mixer_v is None or self.sums_v is None or self.w8 is None:
            return state._replace(s=updated_s)
        mixed_v = self.mixer_v(s, v)
        total, squared = self.sums_v(mixed_v, state.padding)
        shared: Tensor = self.w8(total)  # (d, B, 1, r): the same for all points, but not for padded rows
        if state.padding is not None:
            shared = shared * state.padding.rows.unsqueeze(-1)
        return PointState(updated_s, turned(mixed_v, squared, state.v) + shared, state.padding)


class PSDS(LayerStack):
    """The Point Set DeepSet."""

    takes_padding = True

    def __init__(self, channels: int, layers: int):
        super().__init__(PSDSLayer, channels, layers)
        enlarge_first_weights(self)
