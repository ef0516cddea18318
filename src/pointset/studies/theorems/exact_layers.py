"""The layer of the paper to the letter, in float64, with any functions for its MLPs: explicit constructions run on it.

The layer of the proof of Theorems 5.4 and 5.5 (Appendix A, called "weakened"): Q and K from before the mixer, values
from after it. Scalars and vectors may have different numbers of channels, which zeros would make equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pointset.points.point_set import PointSet

Function = Callable[[Tensor], Tensor]  # an MLP: (…, inputs) → (…, outputs)


class Features(NamedTuple):
    """Points of graphs with equal n and r; B graphs side by side."""

    scalars: Tensor  # s (B, n, a)
    vectors: Tensor  # v (B, n, r, b)


class Outcome(NamedTuple):
    """What a layer computes."""

    attention: Tensor  # Y (B, n, n, a' + b')
    features: Features


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """One layer; a, b channels in, a', b' inside, a'', b'' out, p and q numbers of products.

        s'_i = MLP₁(s_i ‖ diagonal(W₁ v_iᵀ v_i W₂))                         equation (1)
        v'_i = v_i diag(MLP₂(s'_i)) W₃ + v_i W₄                             equation (2), which prints MLP₂(s_i)
        Y_ij = MLP₃((W_q^s s_i ⊙ W_k^s s_j) ‖ diagonal(W_q^v v_iᵀ v_j W_k^v))       equation (3)
        s_i ← MLP₄(s'_i ‖ Σ_j Y_ij ⊙ s'_j),  v_i ← (v'_i ‖ Σ_j Y_ij ⊙ v'_j) W₅     (4) with the residual of the appendix

    ``gate_after``: MLP₂ reads s', as the appendix prints, or s, as equation (2) does.
    """

    W1: Tensor  # (b, p)
    W2: Tensor  # (b, p)
    mlp1: Function  # a + p → a'
    mlp2: Function  # a' or a → b
    W3: Tensor  # (b, b')
    W4: Tensor  # (b, b')
    Wqs: Tensor  # (a, q)
    Wks: Tensor  # (a, q)
    Wqv: Tensor  # (b, p)
    Wkv: Tensor  # (b, p)
    mlp3: Function  # q + p → a' + b'
    mlp4: Function  # 2a' → a''
    W5: Tensor  # (2b', b'')
    gate_after: bool = True

    def __call__(self, features: Features) -> Outcome:
        s, v = features
        own = ((v @ self.W1) * (v @ self.W2)).sum(-2)
        mixed_s = self.mlp1(torch.cat([s, own], -1))
        gate = self.mlp2(mixed_s if self.gate_after else s)
        mixed_v = (v * gate.unsqueeze(-2)) @ self.W3 + v @ self.W4

        queries, keys = v @ self.Wqv, v @ self.Wkv
        between = torch.einsum("...irp,...jrp->...ijp", queries, keys)
        ends = (s @ self.Wqs).unsqueeze(-2) * (s @ self.Wks).unsqueeze(-3)
        attention = self.mlp3(torch.cat([ends, between], -1))

        channels = mixed_s.shape[-1]
        sums_s = torch.einsum("...ijc,...jc->...ic", attention[..., :channels], mixed_s)
        sums_v = torch.einsum("...ijc,...jrc->...irc", attention[..., channels:], mixed_v)
        scalars = self.mlp4(torch.cat([mixed_s, sums_s], -1))
        return Outcome(attention, Features(scalars, torch.cat([mixed_v, sums_v], -1) @ self.W5))


def run_layers(layers: Sequence[ExactLayer], features: Features) -> list[Outcome]:
    """What every layer computes, one after the other."""
    outcomes = []
    for layer in layers:
        outcomes.append(layer(features))
        features = outcomes[-1].features
    return outcomes


def first_features(points: Sequence[PointSet], powers: Sequence[int]) -> Features:
    """Points with equal n and r: the scalar 1, and a channel U diag(λ^k) for each k of ``powers``."""
    values = torch.stack([one.eigenvalues for one in points])  # (B, r)
    U = torch.stack([one.eigenvectors for one in points])  # (B, n, r)
    functions = torch.stack([values**power for power in powers], -1)  # (B, r, b)
    return Features(U.new_ones(*U.shape[:2], 1), U.unsqueeze(-1) * functions.unsqueeze(-3))
