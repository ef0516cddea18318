"""The authors' released model: what their code computes, which is not quite what the paper prints.

For each layer ℓ, with ŝ and v̂ normalised:

* pair term g_ij = MLP(⟨W_q v̂_i, W_k v̂_j⟩ per channel)·n^-0.925; attention a⁽ℓ⁾ = a⁽ℓ⁻¹⁾ + g accumulates over the
  layers; scalars do not enter it;
* mixer s' = ŝ + MLP(ŝ) ⊙ ⟨W₁v̂_i, W₂v̂_i⟩, v' = v̂ + v̂ ⊙ MLP(ŝ): products with residuals, no concatenation;
* update s ← s + Σ_j a_ij ⊙ MLP(s'_j), v ← v + Σ_j a_ij ⊙ (W v'_j).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from pointset.encoders.layers import (
    AttentionMap,
    ChannelLinear,
    ChannelNorm,
    LayerStack,
    PairMLP,
    PointState,
    VectorNorm,
    size_scale,
)
from pointset.encoders.products import attended, projected_products


class Gate(nn.Module):
    """silu(W s + b), (d, B, n) → (d, B, n): the MLP of one layer with its activation at the end."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight, self.bias = ChannelLinear(channels, channels).parameters()

    def forward(self, s: Tensor) -> Tensor:
        """(d, B, n) → (d, B, n)."""
        flat = s.reshape(s.shape[0], s.shape[1] * s.shape[2])
        return silu(torch.addmm(self.bias.unsqueeze(-1), self.weight, flat)).view_as(s)


class ReleasedAttention(AttentionMap):
    """a⁽ℓ⁾ = a⁽ℓ⁻¹⁾ + MLP(x), (d, B, n, n); the factor n^-0.925 is applied where it is used."""

    def __init__(self, channels: int):
        super().__init__()
        self.mlp = PairMLP(channels, channels, tail=True)

    def forward(self, products: Tensor, previous: Tensor | None) -> Tensor:
        """(d, B, n, n) twice → (d, B, n, n)."""
        term: Tensor = self.mlp(products)
        return term if previous is None else previous + term


class ReleasedLayer(nn.Module):
    """One layer; takes the attention of the layer before and hands on its own.

    ``last``: only the scalars are computed, as nothing reads the vectors of the last layer.
    """

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__()
        self.norm_s, self.norm_v = ChannelNorm(), VectorNorm()
        self.projections = ChannelLinear(channels, 4 * channels, bias=False)  # W_q, W_k, W₁, W₂ in one product
        self.attention = ReleasedAttention(channels)
        self.gate_s, self.value_s = Gate(channels), Gate(channels)
        self.gate_v = None if last else Gate(channels)
        self.value_v = None if last else ChannelLinear(channels, channels, bias=False)

    def forward(self, state: PointState, previous: Tensor | None = None) -> tuple[PointState, Tensor]:
        """State and attention before → state and attention after."""
        s, v = self.norm_s(state.s), self.norm_v(state.v)
        products, lengths = projected_products(self.projections(v))  # (d, B, n, n), (d, B, n)
        attention: Tensor = self.attention(products, previous)
        values_s = self.value_s(s + self.gate_s(s) * lengths)
        values_v = None
        if self.value_v is not None and self.gate_v is not None:
            values_v = self.value_v(v * (1 + self.gate_v(s)).unsqueeze(-1))
        return PointState(*attended(attention, values_s, values_v, *state, size_scale(s.shape[-1]))), attention


class ReleasedPST(LayerStack):
    """Layers that share one growing attention."""

    def __init__(self, channels: int, layers: int):
        super().__init__(ReleasedLayer, channels, layers)

    def forward(self, state: PointState) -> PointState:
        """State → state; the vectors are those after the last layer but one, as nothing reads later ones."""
        attention: Tensor | None = None
        for layer in self.layers:
            state, attention = layer(state, attention)
        return state
