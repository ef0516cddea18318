"""The models that the paper's authors released: PST, which is not quite what the paper prints, and their PSDS.

In the order of this file: how their coordinates differ from ours (:class:`ReleasedCoordinates`); the layers of
``pst-released`` and of the options that they published for some datasets; ``psds-released``. What each computes stands
in its class, the differences from the paper in docs/departures_from_paper.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from pointset.encoders.batch import PointGroup
from pointset.encoders.buckets import Padding
from pointset.encoders.coordinates import (
    Coordinates,
    DeepSetLayer,
    LearnedDeepSet,
    PairWeights,
    distances,
    distances_of_pairs,
    plain_sums,
    record_distances,
    record_pairs,
)
from pointset.encoders.layers import (
    MLP,
    SIZE_EXPONENT,
    AttentionMap,
    ChannelLinear,
    ChannelNorm,
    LayerStack,
    PairMLP,
    PointState,
    VectorNorm,
    attended_state,
    masked,
    size_scale,
)
from pointset.encoders.products import gated, projected_products, row_products, weighted_sums
from pointset.errors import SpecError
from pointset.native.program import Code, NotRecorded, Program, Space, Symbol
from pointset.specs import Spec


class FourLayerDeepSet(LearnedDeepSet):
    """The learned f with four layers instead of three."""

    takes_padding = True
    LAYERS = 4


class ShortDeepSet(LearnedDeepSet):
    """The learned f whose embedding has one layer: √λ → silu(LayerNorm(w √λ + b)) → three layers."""

    takes_padding = True

    def __init__(self, channels: int):
        super().__init__(channels)
        self.embedding = MLP([1, channels], norm="layer", tail=True)


class PlainDistances(nn.Module):
    """As the released PST*: |p_i − p_j| → MLP(1 → 2d → d with LayerNorm) → (d, B, n, n)."""

    takes_padding = True

    def __init__(self, channels: int):
        super().__init__()
        self.mlp = MLP([1, 2 * channels, channels], norm="layer", tail=True)

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""
        weights: Tensor = self.mlp(distances(group).unsqueeze(0).to(next(self.parameters()).dtype))
        return weights

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""
        x: Any = program.input(
            Space.PAIRS, 1, lambda flat: distances_of_pairs(flat).float().unsqueeze(1), differentiable=True
        )
        recorded: Symbol = self.mlp(x)
        return recorded


class ReleasedPairWeights(PairWeights):
    """As the released model: one number for each pair, e_ij = Σ_c e_ij^c, (1, B, n, n), the sum of its d channels.

    Real features go through a linear map, whose bias also stands where there is no edge; categories through a sum of
    tables and LayerNorm. PST*: e_ij^c is multiplied by an embedding of the distance before the sum.

    After LayerNorm the channels of an edge add up to 0. With categories and without distances all e_ij are therefore 0,
    and with them the coordinates, which then say nothing of the graph: a defect of the released model that is kept.
    They are 0 exactly here, where the released code has what rounding leaves.
    """

    takes_padding = True

    def __init__(self, spec: Spec, channels: int, distances: nn.Module | None):
        super().__init__(spec, channels, distances)
        self.norm = ChannelNorm()

    @property
    def vanishes(self) -> bool:
        """Whether every number is 0, whatever the graph."""
        return self.tables is not None and self.distances is None

    def by_edge(self, group: PointGroup) -> Tensor:
        """(d, M): each edge's embedding."""
        embedded = super().by_edge(group)
        return embedded if self.tables is None else self.norm(embedded)

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (1, B, n, n)."""
        if self.spec is None and self.distances is not None:
            near: Tensor = self.distances(group)
            return near.sum(0, keepdim=True)
        if self.vanishes:
            return 0 * self.of_edges(group).sum(0, keepdim=True)  # the features are checked all the same
        weights = self.of_edges(group, self._elsewhere())
        return (weights if self.distances is None else weights * self.distances(group)).sum(0, keepdim=True)

    def record_sums(self, program: Program, v: Symbol, base: Symbol | None) -> Symbol:
        """base_i + Σ_j e_ij v_j for the native kernels, the number e_ij once for each channel of v."""
        if self.distances is None:
            edges = program.input(Space.EDGES, self.channels, self._numbers, differentiable=True)
            if self._elsewhere() is None:  # over the edges alone, as other pairs weigh nothing
                return program.record(Code.EDGE_SUMS, [edges, v, base], v.space, v.width)
            elsewhere = program.linear(program.ones(), self._elsewhere_sums, outputs=self.channels)
            return plain_sums(record_pairs(program, edges, elsewhere), v, base)
        weights = record_distances(self.distances, program)
        if self.spec is not None:
            plain = self._elsewhere() is None
            rest = None if plain else program.linear(program.ones(), self._elsewhere_column, outputs=self.channels)
            weights = record_pairs(program, self.record_edges(program), rest) * weights
        return plain_sums(program.linear(weights, self._ones, outputs=self.channels), v, base)

    def _elsewhere(self) -> Tensor | None:
        """(d,) what stands where there is no edge."""
        return None if self.linear is None else self.linear.bias

    def _numbers(self, flat: Any) -> Tensor:
        """(M, d): the number of each edge, d times."""
        numbers = self.by_edge(flat.rows).sum(0)
        return (0 * numbers if self.vanishes else numbers).unsqueeze(1).expand(-1, self.channels)

    def _ones(self) -> Tensor:
        """(d, d): times it, every channel is the sum of all."""
        return next(self.parameters()).new_ones(self.channels, self.channels)

    def _elsewhere_column(self) -> Tensor:
        """(d, 1)."""
        elsewhere = self._elsewhere()
        if elsewhere is None:
            raise SpecError("nothing stands where there is no edge")
        return elsewhere.unsqueeze(1)

    def _elsewhere_sums(self) -> Tensor:
        """(d, 1), each the sum of all."""
        return self._elsewhere_column().sum(0, keepdim=True).expand(self.channels, 1)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return "all 0: categories behind LayerNorm" if self.vanishes else ""


class IndicatorPairWeights(ReleasedPairWeights):
    """The same for categories that the authors give as columns of zeros and ones, and so to a linear map.

    An edge of category c has row c of a table plus a bias, other pairs have the bias; there is no LayerNorm.
    """

    takes_padding = True

    def __init__(self, spec: Spec, channels: int, distances: nn.Module | None):
        super().__init__(spec, channels, distances)
        self.bias = None
        if self.tables is not None:
            reach = 1 / math.sqrt(sum(len(table) for table in self.tables.parameters()))
            self.bias = nn.Parameter(torch.empty(channels).uniform_(-reach, reach))
            for table in self.tables.parameters():
                nn.init.uniform_(table, -reach, reach)  # as the linear map would begin

    @property
    def vanishes(self) -> bool:
        """It does not."""
        return False

    def by_edge(self, group: PointGroup) -> Tensor:
        """(d, M): each edge's embedding."""
        embedded = PairWeights.by_edge(self, group)
        return embedded if self.bias is None else embedded + self.bias.unsqueeze(1)

    def _elsewhere(self) -> Tensor | None:
        return super()._elsewhere() if self.bias is None else self.bias


class ReleasedCoordinates(Coordinates):
    """As the released model: weighted sums of eigenvectors replace them, v_i = (Σ_j e_ij U_j) ⊙ f(Λ), e_ij a number.

    ``pairs`` gives these, (1, B, n, n); see :class:`ReleasedPairWeights`.
    """

    takes_padding = True

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (d, B, n, r)."""
        values, vectors = self._eigenpairs(group, generator)
        points = vectors.unsqueeze(0)
        if self.pairs is not None:
            points = weighted_sums(self.pairs(group), points)  # (1, B, n, r)
            if group.padding is not None:
                points = points * group.padding.rows.unsqueeze(-1)
        return points * self._by_channel(values, group)

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels: f(Λ) may as well be multiplied before the sums."""
        v = self._record_points(program)
        return v if self.pairs is None else self.pairs.record_sums(program, v, None)


class Gate(nn.Module):
    """silu(W s + b), (d, B, n) → (d, B, n): the MLP of one layer with its activation at the end."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight, self.bias = ChannelLinear(channels, channels).parameters()

    def forward(self, s: Tensor) -> Tensor:
        """(d, B, n) → (d, B, n)."""
        if isinstance(s, Symbol):
            return s.linear(self.weight, self.bias).unary(Code.SILU)
        flat = s.reshape(s.shape[0], s.shape[1] * s.shape[2])
        return silu(torch.addmm(self.bias.unsqueeze(-1), self.weight, flat)).view_as(s)


class ReleasedAttention(AttentionMap):
    """a⁽ℓ⁾ = a⁽ℓ⁻¹⁾ + MLP(x), (d, B, n, n); the factor n^-0.925 is applied where it is used."""

    def __init__(self, channels: int):
        super().__init__()
        self.mlp: nn.Module = PairMLP(channels, channels, tail=True)

    def forward(self, products: Tensor, previous: Tensor | None) -> Tensor:
        """(d, B, n, n) twice → (d, B, n, n)."""
        term: Tensor = self.mlp(products)
        return term if previous is None else previous + term


class NormedAttention(ReleasedAttention):
    """The same with LayerNorm inside the MLP and no activation at its end."""

    def __init__(self, channels: int):
        super().__init__(channels)
        self.mlp = MLP([channels] * 3, norm="layer")


class ReleasedPSTLayer(nn.Module):
    """A layer of the model that the authors released, which is not quite what the paper prints.

    With ŝ and v̂ normalised:

    * pair term g_ij = MLP(⟨W_q v̂_i, W_k v̂_j⟩ per channel)·n^-0.925; attention a⁽ℓ⁾ = a⁽ℓ⁻¹⁾ + g accumulates over the
      layers; scalars do not enter it;
    * mixer s' = ŝ + MLP(ŝ) ⊙ ⟨W₁v̂_i, W₂v̂_i⟩, v' = v̂ + v̂ ⊙ MLP(ŝ): products with residuals, no concatenation;
    * update s ← s + Σ_j a_ij ⊙ MLP(s'_j), v ← v + Σ_j a_ij ⊙ (W v'_j).

    ``last``: only the scalars are computed, as nothing reads the vectors of the last layer.
    """

    takes_padding = True
    VECTOR_NORM: type[nn.Module] = VectorNorm
    ATTENTION: type[ReleasedAttention] = ReleasedAttention
    EXPONENT = SIZE_EXPONENT

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__()
        self.norm_s, self.norm_v = ChannelNorm(), self.VECTOR_NORM()
        self.projections = ChannelLinear(channels, 4 * channels, bias=False)  # W_q, W_k, W₁, W₂ in one product
        self.attention = self.ATTENTION(channels)
        self.gate_s, self.value_s = self.point_map(channels), self.point_map(channels)
        self.gate_v = None if last else self.point_map(channels)
        self.value_v = None if last else ChannelLinear(channels, channels, bias=False)

    def point_map(self, channels: int) -> nn.Module:
        """An MLP of one layer, (d, B, n) → (d, B, n), of which a layer has two on scalars and one for vectors."""
        return Gate(channels)

    def forward(self, state: PointState, previous: Tensor | None = None) -> tuple[PointState, Tensor]:
        """State and attention of the layer before → state and attention of this one."""
        s, v = self.norm_s(state.s), self.norm_v(state.v)
        products, lengths = projected_products(self.projections(v))  # (d, B, n, n), (d, B, n)
        attention: Tensor = self.attention(products, previous)
        values_s = self.value_s(s + self.gate_s(s) * lengths)
        values_v = None
        if self.value_v is not None and self.gate_v is not None:
            values_v = self.value_v(gated(v, self.gate_v(s), 1.0))
        return attended_state(state, attention, values_s, values_v, self.sum_factor), attention

    def sum_factor(self, nodes: int | Tensor) -> float | Tensor:
        """What the sums over the points of a graph are multiplied by."""
        return size_scale(nodes, self.EXPONENT)


class ReleasedPST(LayerStack):
    """The authors' released model: layers that share one growing attention."""

    takes_padding = True
    LAYER: type[ReleasedPSTLayer] = ReleasedPSTLayer

    def __init__(self, channels: int, layers: int):
        super().__init__(self.LAYER, channels, layers)

    def forward(self, state: PointState) -> PointState:
        """State → state; the vectors are those after the last layer but one, as nothing reads later ones."""
        attention: Tensor | None = None
        for layer in self.layers:
            state, attention = layer(state, attention)
        return state


class FreeVectorsLayer(ReleasedPSTLayer):
    """A layer that takes vectors as they are, neither centred nor normalised.

    The MLP of the pairs has LayerNorm inside, and there is no activation at the end of it, of the mixer's and of the
    values' MLPs.
    """

    takes_padding = True
    VECTOR_NORM = nn.Identity
    ATTENTION = NormedAttention

    def point_map(self, channels: int) -> nn.Module:
        """One linear map."""
        return ChannelLinear(channels, channels)


class FreeVectorsPST(ReleasedPST):
    """The released model with the options that its authors published for peptides."""

    takes_padding = True
    LAYER = FreeVectorsLayer


class SteepFreeVectorsLayer(FreeVectorsLayer):
    """The same, with sums over n points scaled by n^-0.95."""

    takes_padding = True
    EXPONENT = 0.95


class SteepFreeVectorsPST(ReleasedPST):
    """The released model with the options that its authors published for properties of the shape of peptides."""

    takes_padding = True
    LAYER = SteepFreeVectorsLayer


# The authors' Point Set DeepSet.


class PointSums(NamedTuple):
    """What the points of a graph add up to."""

    s: Tensor  # (d, B, 1)
    v: Tensor  # (d, B, 1, r)
    square: Tensor  # (d, B, r, r)

    def plus(self, other: PointSums | None) -> PointSums:
        """Each with its like."""
        return self if other is None else PointSums(*(one + two for one, two in zip(self, other, strict=True)))


class Aggregator(nn.Module):
    """s = W_b mean_i(W_a x_i + a) + b with x a DeepSet of the scalars, v = W₅ Σ_i v̂_i, v_sq = Σ_i (W₆ v̂_i)ᵀ (W₇ v̂_i).

    v_sq has r × r numbers in each channel. All three, the mean too, are multiplied by n^-0.925.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.layers = nn.ModuleList(DeepSetLayer(channels) for _ in range(LearnedDeepSet.LAYERS))
        self.before, self.after = ChannelLinear(channels, channels), ChannelLinear(channels, channels)
        self.w5, self.w6, self.w7 = (ChannelLinear(channels, channels, bias=False) for _ in range(3))

    def forward(self, s: Tensor, v: Tensor, padding: Padding | None) -> PointSums:
        """(d, B, n), (d, B, n, r) → the sums of these points."""
        # The layers add up over eigenvalues elsewhere, and over points here.
        points = None if padding is None else padding._replace(ranks=padding.nodes, columns=padding.rows)
        for layer in self.layers:
            s = layer(s, points)
        total = masked(self.before(s), padding).sum(-1, keepdim=True)
        mean = total / (max(s.shape[-1], 1) if padding is None else padding.nodes.clamp(min=1))
        of_scalars = size_scale(v.shape[2]) if padding is None else size_scale(padding.nodes)  # (B, 1)
        scale = of_scalars if padding is None else size_scale(padding.nodes).unsqueeze(-1)  # (B, 1, 1)
        square = scale * (self.w6(v).mT @ self.w7(v))
        return PointSums(of_scalars * self.after(mean), scale * self.w5(v.sum(2, keepdim=True)), square)


class ReleasedPSDSLayer(nn.Module):
    """A layer of the authors' Point Set DeepSet.

    With ŝ, v̂ normalised, s', v' mixed as in :class:`ReleasedPSTLayer`, and s, v, v_sq the sums of all layers so far:

    * v_i ← v_i + u_i, where u_i = (W₁(v'_i v_sq) + W₂(s'_i ⊙ v) + W₃(s ⊙ v'_i)) / 3;
    * s_i ← s_i + MLP((A trace(v_sq) + a) ⊙ s ⊙ (B s'_i + b) ⊙ (C⟨v, u_i⟩ + c)), the MLP of one layer.

    ``last`` changes nothing: the scalars read u of the last layer, too.
    """

    takes_padding = True

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__()
        self.norm_s, self.norm_v = ChannelNorm(), VectorNorm()
        self.sums = Aggregator(channels)
        self.projections = ChannelLinear(channels, 2 * channels, bias=False)  # of the mixer, in one product
        self.gate_s, self.gate_v = Gate(channels), Gate(channels)
        self.w1, self.w2, self.w3 = (ChannelLinear(channels, channels, bias=False) for _ in range(3))
        self.of_trace, self.of_s, self.of_v = (ChannelLinear(channels, channels) for _ in range(3))  # A, B, C
        self.update = Gate(channels)

    def forward(self, state: PointState, before: PointSums | None = None) -> tuple[PointState, PointSums]:
        """State and sums of the layers before → state and sums."""
        if isinstance(state.s, Symbol):
            raise NotRecorded("a square of the vectors for each channel")
        s, v = self.norm_s(state.s), self.norm_v(state.v)
        sums = self.sums(state.s, v, state.padding).plus(before)
        left, right = self.projections(v).chunk(2)
        mixed_s = masked(s + self.gate_s(s) * row_products(left, right), state.padding)
        mixed_v = gated(v, self.gate_v(s), 1.0)
        of_square, of_s = self.w1(mixed_v @ sums.square), self.w2(mixed_s.unsqueeze(-1) * sums.v)
        u = (of_square + of_s + self.w3(sums.s.unsqueeze(-1) * mixed_v)) / 3
        trace = sums.square.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)  # (d, B, 1)
        product = self.of_trace(trace) * sums.s * self.of_s(mixed_s) * self.of_v(row_products(sums.v, u))
        return state._replace(s=state.s + self.update(product), v=state.v + u), sums


class ReleasedPSDS(LayerStack):
    """The authors' Point Set DeepSet: layers whose sums over the points accumulate.

    Cost n·r²·d + n·r·d² a layer and graph.
    """

    takes_padding = True

    def __init__(self, channels: int, layers: int):
        super().__init__(ReleasedPSDSLayer, channels, layers)

    def forward(self, state: PointState) -> PointState:
        """State → state."""
        sums: PointSums | None = None
        for layer in self.layers:
            state, sums = layer(state, sums)
        return state
