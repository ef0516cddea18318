"""PST-onelayer of the ablation (Appendix H): attention is computed once, scalars and vectors are not combined.

The attention matrix comes from the first coordinates and scalars by equation (3); every layer then mixes scalars alone,
s_i ← s_i + Σ_j Atten_ij MLP(s_j). It shows what is lost where the graph only enters through fixed pair weights.
"""

from __future__ import annotations

from torch import Tensor, nn

from pointset.encoders.layers import (
    MLP,
    ChannelLinear,
    ChannelNorm,
    PointState,
    VectorBound,
    begin_in_sight,
    size_scale,
)
from pointset.encoders.products import pair_products, weighted_sums
from pointset.encoders.pst import PointAttention


class OneLayerPST(nn.Module):
    """One attention matrix for all layers."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.norm_s, self.bound_v = ChannelNorm(), VectorBound()
        self.projections_v = ChannelLinear(channels, 2 * channels, bias=False)
        self.projections_s = ChannelLinear(channels, 2 * channels, bias=False)
        self.attention = PointAttention(channels)
        self.values = nn.ModuleList(MLP([channels, channels, channels]) for _ in range(layers))
        begin_in_sight(self)

    def forward(self, state: PointState) -> PointState:
        """State → state with other scalars; the vectors stay as they are."""
        query_s, key_s = self.projections_s(self.norm_s(state.s)).chunk(2)
        attention: Tensor = self.attention(pair_products(self.projections_v(self.bound_v(state.v)), query_s, key_s))
        s = state.s
        for values in self.values:
            sums = weighted_sums(attention, values(self.norm_s(s)).unsqueeze(-1)).squeeze(-1)
            s = s + size_scale(s.shape[-1]) * sums
        return PointState(s, state.v)
