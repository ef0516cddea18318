"""The Point Set Transformer, equations (1) to (4) of the paper, and its variants.

State of a group of B graphs with n points of rank r: scalars s (d, B, n), invariant to O(r); vectors v (d, B, n, r),
equivariant to it. The first state comes from :mod:`pointset.encoders.coordinates`; pooling, equation (5), is the
``Readout`` in :mod:`pointset.encoders.layers`. A layer costs n²·r·d for the pairs and n·r·d² + n²·d² for mixing
channels, for each graph.

What the paper leaves open and what is done here (docs/departures_from_paper.md): scalars are normalised and vectors
bounded before they are used, attention is scaled by n^-0.925, SiLU throughout, residual connections, larger first
weights. Queries and keys are taken before the mixer, values after it, as in the proofs of Appendix A.
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
    ScalarBound,
    VectorBound,
    attended_state,
    enlarge_first_weights,
    size_scale,
)
from pointset.encoders.products import gated, pair_products, projected_products


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
        mixed: Tensor = self.w3(gated(v, self.mlp2(s))) + self.w4(v)
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

    takes_padding = True

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
        return attended_state(state, attention, values_s, values_v, self.sum_factor)

    def sum_factor(self, nodes: int | Tensor) -> float | Tensor:
        """What the sums over the points of a graph are multiplied by."""
        return size_scale(nodes)


class PST(LayerStack):
    """The Point Set Transformer."""

    takes_padding = True

    def __init__(self, channels: int, layers: int):
        super().__init__(PSTLayer, channels, layers)
        enlarge_first_weights(self, attention=min(1.0, 4 / layers))  # what many layers add must not explode


class SummingPSTLayer(PSTLayer):
    """A layer of PST with Σ_j Atten_ij s'_j / 16 and Σ_j Atten_ij v'_j / 16, whose scalars keep their size."""

    takes_padding = True
    LONGEST_VECTOR = 10.0  # the products of long vectors are counts, too
    SUM_FACTOR = 1 / 16  # of the order of one over the number of points

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__(channels, last=last)
        self.norm_s, self.bound_v = ScalarBound(), VectorBound(self.LONGEST_VECTOR)

    def sum_factor(self, nodes: int | Tensor) -> float | Tensor:
        """The same for every n."""
        return self.SUM_FACTOR


class SummingPST(LayerStack):
    """PST for tasks that count: sums over points are sums, equation (4) as it is printed.

    The other variants scale the sums over n points by n^-0.925, which keeps values alike in small and large graphs. To
    count, such a model has to find n and undo the factor, and graphs of different size pull its weights in different
    directions. Here the factor is the same for all graphs, and scalars are bounded instead of normalised, so that their
    size is not lost on the way. Attention begins still larger than in the other variants.
    """

    takes_padding = True
    FIRST_SCALARS = 0.01  # small beside what the layers add
    ATTENTION_GAIN = 3.0  # so that what few neighbours give can be seen among all points
    SCALAR_GAIN = 0.1  # at the beginning the scalars of all points are alike, and say nothing of a pair

    def __init__(self, channels: int, layers: int):
        super().__init__(SummingPSTLayer, channels, layers)
        enlarge_first_weights(self, attention=self.ATTENTION_GAIN)
        with torch.no_grad():
            for part in self.modules():
                if isinstance(part, PairMLP):
                    part.weight1[:, :channels].mul_(self.SCALAR_GAIN)

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        return super().forward(state._replace(s=self.FIRST_SCALARS * state.s))


class OneLayerPST(nn.Module):
    """PST-onelayer of the ablation (Appendix H): one attention matrix for all layers, scalars and vectors not combined.

    The attention comes from the first coordinates and scalars by equation (3); every layer then mixes scalars alone,
    s_i ← s_i + Σ_j Atten_ij MLP(s_j). It shows what is lost where the graph only enters through fixed pair weights.
    """

    takes_padding = True

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.norm_s, self.bound_v = ChannelNorm(), VectorBound()
        self.projections_v = ChannelLinear(channels, 2 * channels, bias=False)  # W_q, W_k in one product
        self.projections_s = ChannelLinear(channels, 2 * channels, bias=False)
        self.attention = PointAttention(channels)
        self.values = nn.ModuleList(MLP([channels, channels, channels]) for _ in range(layers))
        enlarge_first_weights(self)

    def forward(self, state: PointState) -> PointState:
        """State → state with other scalars; the vectors stay as they are."""
        query_s, key_s = self.projections_s(self.norm_s(state.s)).chunk(2)
        attention: Tensor = self.attention(pair_products(self.projections_v(self.bound_v(state.v)), query_s, key_s))
        for values in self.values:
            state = attended_state(state, attention, values(self.norm_s(state.s)), None, size_scale)
        return state
