"""PST at the price of message passing: the layer of ``pst-fast``.

State of B graphs with n points of rank r: scalars s (d, B, n), vectors v (h, B, n, r), pairs p (h, B, n, n) with
p_ij = p_ji; d = h·k. With ŝ = LayerNorm(s) and v̂ the bounded v, a layer is

* q = W v̂: one map on vectors; x_ij = ⟨q_i, q_j⟩ for each channel;
* p_ij ← p_ij + W₂ silu(W₁ x_ij + A ŝ_i + A ŝ_j + b₁) + b₂: two maps on pairs, i ≤ j;
* s_i ← s_i + W_o (n^-0.925 Σ_j p_ij ⊙ (V ŝ_j + c)) + b_o, where channel c of p weighs channels c, c + h, … of V ŝ;
* s_i ← s_i + MLP(LayerNorm(s_i) ‖ x_ii);
* v_i ← v_i + n^-0.925 Σ_j p_ij ⊙ v̂_j ⊙ (G ŝ_j + g), not in the last layer, whose vectors nothing reads.

A vector costs h² multiplications and an unordered pair 2h², against 6h² and twice 3h² in ``pst``; sums over pairs cost
n²·r·h. Parameters sit in the scalars, which cost n·d². Symmetric products lose nothing that W₁ cannot bring
back: 4⟨a, b⟩ = ⟨a + b, a + b⟩ − ⟨a − b, a − b⟩. Equivariant to O(r) and to permutations of the points.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from pointset.encoders.batch import PointGroup
from pointset.encoders.coordinates import (
    Coordinates,
    EdgeWeights,
    PairWeights,
    RadialDistances,
    by_row,
    distances,
    distances_of_pairs,
)
from pointset.encoders.layers import (
    MLP,
    AttentionMap,
    ChannelLinear,
    ChannelNorm,
    LayerStack,
    PointState,
    ScalarBound,
    SizeFactor,
    VectorBound,
    enlarge_first_weights,
    masked,
    recorded_sums,
    row_factor,
    size_scale,
)
from pointset.encoders.products import gated, weighted_sums
from pointset.encoders.pst import SummingPST, SummingPSTLayer
from pointset.errors import SpecError
from pointset.native.program import Code, Program, Space, Symbol
from pointset.specs import Spec


def symmetric_products(q: Tensor) -> Tensor:
    """⟨q_i, q_j⟩ for every channel: (h, B, n, r) → (h, B, n, n)."""
    if isinstance(q, Symbol):
        return q.program.record(Code.PAIR_PRODUCTS, [q, q], Space.SYMMETRIC, q.width)
    return q @ q.mT


def diagonal_of(x: Tensor) -> Tensor:
    """x_ii: (h, B, n, n) → (h, B, n)."""
    if isinstance(x, Symbol):
        return x.unary(Code.DIAGONAL, space=Space.NODES)
    return x.diagonal(dim1=-2, dim2=-1)


def plus_points(x: Tensor, a: Tensor) -> Tensor:
    """x_ij + a_i + a_j: (h, B, n, n), (h, B, n) → (h, B, n, n)."""
    if isinstance(x, Symbol):
        return x.program.record(Code.PAIR_ADD, [x, a], x.space, x.width)
    return x + a.unsqueeze(-1) + a.unsqueeze(-2)


def repeated_sums(p: Tensor, values: Tensor, state: PointState, factor: SizeFactor) -> Tensor:
    """factor(n) Σ_j p_ij ⊙ values_j, p's channels used again and again: (h, B, n, n), (d, B, n) → (d, B, n)."""
    if isinstance(p, Symbol):
        recorded: Tensor = recorded_sums(p, values, None, factor)
        return recorded
    channels, graphs, nodes = p.shape[:3]
    repeats = values.shape[0] // channels  # no -1: without nodes it cannot be inferred
    own = masked(values, state.padding).view(repeats, channels, graphs, nodes).permute(1, 2, 3, 0)  # (h, B, n, k)
    sums = weighted_sums(p, own).permute(3, 0, 1, 2).reshape(values.shape)
    return row_factor(state, factor) * sums


class PairUpdate(AttentionMap):
    """p_ij + W₂ silu(W₁ x_ij + A ŝ_i + A ŝ_j + b₁) + b₂, (h, B, n, n)."""

    def __init__(self, scalars: int, channels: int):
        super().__init__()
        self.w1, self.w2 = ChannelLinear(channels, channels), ChannelLinear(channels, channels)
        self.of_points = ChannelLinear(scalars, channels, bias=False)  # A

    def forward(self, p: Tensor, products: Tensor, s: Tensor) -> Tensor:
        """(h, B, n, n) twice, (d, B, n) → (h, B, n, n)."""
        updated: Tensor = p + self.w2(silu(plus_points(self.w1(products), self.of_points(s))))
        return updated


class FastPSTLayer(nn.Module):
    """A layer as the head of this file has it."""

    takes_padding = True

    def __init__(self, scalars: int, channels: int, *, last: bool = False):
        super().__init__()
        self.norm_s: nn.Module = ChannelNorm()
        self.norm_mixed: nn.Module = ChannelNorm()
        self.bound_v = VectorBound()
        self.projection = ChannelLinear(channels, channels, bias=False)  # W
        self.pairs = PairUpdate(scalars, channels)
        self.values, self.out = ChannelLinear(scalars, scalars), ChannelLinear(scalars, scalars)  # V, W_o
        self.mixer = MLP([scalars + channels, scalars, scalars])
        self.gate = None if last else ChannelLinear(scalars, channels)  # G

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        if state.p is None:
            raise SpecError("the layers of pst-fast need a state of pairs; expected PointState(s, v, p=…)")
        s, v = self.norm_s(state.s), self.bound_v(state.v)
        products = symmetric_products(self.projection(v))
        p = self.pairs(state.p, products, s)
        mixed = state.s + self.out(repeated_sums(p, self.values(s), state, self.sum_factor))
        mixed = mixed + self.mixer(torch.cat([self.norm_mixed(mixed), diagonal_of(products)]))
        if self.gate is None:
            return state._replace(s=mixed, p=p)
        return state._replace(s=mixed, v=self._moved(state, p, gated(v, self.gate(s))), p=p)

    def _moved(self, state: PointState, p: Tensor, values: Tensor) -> Tensor:
        """v_i + n^-0.925 Σ_j p_ij ⊙ values_j; padded rows stay zero."""
        if isinstance(p, Symbol):
            moved: Tensor = recorded_sums(p, values, state.v, self.sum_factor)
            return moved
        factor = row_factor(state, self.sum_factor)
        return state.v + weighted_sums(p, values) * (factor.unsqueeze(-1) if isinstance(factor, Tensor) else factor)

    def sum_factor(self, nodes: int | Tensor) -> float | Tensor:
        """What the sums over the points of a graph are multiplied by."""
        return size_scale(nodes)


class FastPST(LayerStack):
    """Layers with one state of pairs; ``REPEATS`` is k, scalar channels for each channel of vectors and pairs."""

    takes_padding = True
    REPEATS = 2
    LAYER: type[FastPSTLayer] = FastPSTLayer

    def __init__(self, channels: int, layers: int):
        def layer(scalars: int, *, last: bool) -> FastPSTLayer:
            return self.LAYER(scalars, scalars // self.REPEATS, last=last)

        super().__init__(layer, channels, layers)
        enlarge_first_weights(self)


class WidePairsPST(FastPST):
    """``pst-fast-k1``, of the ablation: as many channels of vectors and pairs as of scalars."""

    takes_padding = True
    REPEATS = 1


class NarrowPairsPST(FastPST):
    """``pst-fast-k4``, of the ablation: a quarter as many channels of vectors and pairs as of scalars."""

    takes_padding = True
    REPEATS = 4


class StatelessPairsLayer(FastPSTLayer):
    """A layer whose pairs are the first ones plus its own update, which no later layer sees."""

    takes_padding = True

    def forward(self, state: PointState) -> PointState:
        """State → state, with the pairs that came in."""
        return super().forward(state)._replace(p=state.p)


class StatelessPairsPST(FastPST):
    """``pst-fast-stateless``, of the ablation: pairs are computed anew in each layer."""

    takes_padding = True
    LAYER: type[FastPSTLayer] = StatelessPairsLayer


class FastSummingPSTLayer(FastPSTLayer):
    """A layer of ``pst-fast`` whose sums are sums (divided by 16 for every n), and whose scalars keep their size."""

    takes_padding = True

    def __init__(self, scalars: int, channels: int, *, last: bool = False):
        super().__init__(scalars, channels, last=last)
        self.norm_s, self.norm_mixed = ScalarBound(), ScalarBound()
        self.bound_v = VectorBound(SummingPSTLayer.LONGEST_VECTOR)

    def sum_factor(self, nodes: int | Tensor) -> float | Tensor:
        """The same for every n."""
        return SummingPSTLayer.SUM_FACTOR


class FastSummingPST(FastPST):
    """``pst-fast`` for tasks that count, as :class:`~pointset.encoders.pst.SummingPST` is ``pst`` for them."""

    takes_padding = True
    LAYER: type[FastPSTLayer] = FastSummingPSTLayer

    def __init__(self, channels: int, layers: int):
        super().__init__(channels, layers)
        with torch.no_grad():
            for part in self.modules():
                if isinstance(part, PairUpdate):
                    part.of_points.weight.mul_(SummingPST.SCALAR_GAIN)

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        return super().forward(state._replace(s=SummingPST.FIRST_SCALARS * state.s))


class EdgeRounds(Coordinates):
    """v_i = U_i ⊙ f(Λ), then twice v_i ← v_i + Σ_j e_ij ⊙ v_j over the edges, each time with embeddings of its own."""

    takes_padding = True
    ROUNDS = 2

    def __init__(self, function: nn.Module, pairs: PairWeights | None = None, *, noise: float = 0.0):
        super().__init__(function, None, noise=noise)
        self.rounds = nn.ModuleList([] if pairs is None else [pairs])
        if pairs is not None:
            self.rounds.extend(EdgeWeights(pairs.spec, pairs.channels, None) for _ in range(self.ROUNDS - 1))

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (h, B, n, r)."""
        v = super().forward(group, generator)
        for weights in self.rounds:
            v = v + weighted_sums(weights(group), v)
        return v

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""
        v = super().record(program)
        for weights in self.rounds:
            v = weights.record_sums(program, v, v)  # type: ignore[operator]
        return v


class FirstDistances(RadialDistances):
    """For ``pst-fast-star``: radial basis functions of |p_i − p_j|, the distance and its square → MLP → (h, B, n, n).

    The square is there because what a molecule shows from far away is a sum over pairs of it: the dipole moment of
    charges q with Σ_i q_i = 0 is |Σ_i q_i p_i|² = −½ Σ_ij q_i q_j |p_i − p_j|².
    """

    takes_padding = True
    UNIT = 4.0  # ångström: distances in molecules, and their squares, are then not far from 1

    def __init__(self, channels: int, functions: int = 32, reach: float = 12.0):
        super().__init__(channels, functions, reach)
        self.mlp = MLP([functions + 2, channels, channels])

    def _functions(self, distance: Tensor) -> Tensor:
        """(…) → (functions + 2, …)."""
        scaled = distance.to(self.centres.dtype).unsqueeze(0) / self.UNIT
        return torch.cat([super()._functions(distance), scaled, scaled.square()])

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (h, B, n, n)."""
        first: Tensor = self.mlp(self._functions(distances(group)))
        return first

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels, of unordered pairs."""

        def functions(flat: Any) -> Tensor:
            return by_row(self._functions(distances_of_pairs(flat, unordered=True)))

        x: Any = program.input(Space.SYMMETRIC, len(self.centres) + 2, functions, differentiable=True)
        recorded: Symbol = self.mlp(x)
        return recorded


class FirstPairs(nn.Module):
    """The first state of pairs: 8 e_ij on edges, with embeddings e of their own, plus a learned vector where i = j.

    The factor, about half of n^0.925, keeps what comes from neighbours from being lost among all points. With
    ``distances`` (h, B, n, n), those of ``pst-fast-star``, 8 times these are added for every pair.
    """

    takes_padding = True
    GAIN = 8.0

    def __init__(self, edge: Spec, channels: int, distances: nn.Module | None = None):
        super().__init__()
        self.edges = None if edge is None else EdgeWeights(edge, channels, None)
        self.diagonal = nn.Parameter(torch.randn(channels))
        self.distances = distances

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (h, B, n, n)."""
        graphs, nodes, _ = group.shape
        unit = torch.eye(nodes, dtype=self.diagonal.dtype, device=self.diagonal.device).expand(graphs, nodes, nodes)
        p = self.diagonal.view(-1, 1, 1, 1) * unit
        if self.edges is not None:
            p = p + self.GAIN * self.edges(group)
        return p if self.distances is None else p + self.GAIN * self.distances(group)

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""
        width = len(self.diagonal)
        one = program.ones()
        edges = None if self.edges is None else self.edges.record_edges(program)
        if edges is None:
            p = program.record(Code.EDGE_PAIRS, [None, None], Space.SYMMETRIC, width)
        else:
            p = program.record(Code.EDGE_PAIRS, [edges, None], Space.SYMMETRIC, width, self.GAIN)
        own = program.linear(one, self._diagonal_column, outputs=width)
        p = program.record(Code.POINTS_OF_PAIRS, [p, own], Space.SYMMETRIC, width)
        return p if self.distances is None else p + self.GAIN * self.distances.record(program)  # type: ignore[operator]

    def _diagonal_column(self) -> Tensor:
        """(h, 1)."""
        return self.diagonal.unsqueeze(1)
