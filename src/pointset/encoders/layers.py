"""Small parts that every encoder is made of. Everything is channel-first: scalars (d, B, n), vectors (d, B, n, r).

With channels first, mixing channels is one matrix product over all points of a group, and products of one channel over
points are batched matrix products; nothing is transposed on the way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, silu

from pointset.encoders.buckets import Padding
from pointset.encoders.products import attended, normalised_vectors, pair_mlp, row_products
from pointset.errors import SpecError
from pointset.native.program import Code, NotRecorded, Symbol

Norm = Literal["none", "layer"]
Level = Literal["graph", "node", "edge"]
Pooling = Literal["sum", "mean", "max", "scaled_sum"]
POOLED_NODES = 16
"""``scaled_sum`` divides a sum by this, about the size of a small molecule: it grows with the graph, as what is added
up does, and begins as large as a mean."""
SIZE_EXPONENT = 0.925  # of the released model: sums over n points are scaled by n^-0.925


class PointState(NamedTuple):
    """What flows from layer to layer."""

    s: Tensor  # (d, B, n) scalars, invariant to O(r)
    v: Tensor  # (d, B, n, r) vectors, equivariant to O(r); zero in padded rows and columns
    padding: Padding | None = None  # None: all rows are points
    p: Tensor | None = None  # (h, B, n, n) a state of pairs, where a model has one


@overload
def size_scale(nodes: int, exponent: float = ...) -> float: ...
@overload
def size_scale(nodes: Tensor, exponent: float = ...) -> Tensor: ...
def size_scale(nodes: int | Tensor, exponent: float = SIZE_EXPONENT) -> float | Tensor:
    """n^-0.925: keeps sums over points of similar size in small and large graphs."""
    if isinstance(nodes, Tensor):
        return nodes.clamp(min=1) ** -exponent
    return float(max(nodes, 1) ** -exponent)


SizeFactor = Callable[[Any], float | Tensor]  # n (a number, or (B, 1)) → what sums over n points are multiplied by


def masked(s: Tensor, padding: Padding | None) -> Tensor:
    """Scalars (d, B, n) with zeros in padded rows."""
    return s if padding is None else s * padding.rows


def row_factor(state: PointState, factor: SizeFactor) -> float | Tensor:
    """What the sum that each point receives is multiplied by: a number, or (B, n) with zeros in padded rows."""
    padding = state.padding
    return factor(state.s.shape[-1]) if padding is None else padding.rows * factor(padding.nodes)


def recorded_sums(attention: Any, values: Any, base: Any, factor: SizeFactor) -> Any:
    """Symbols of base_i + factor(n) Σ_j attention_ij values_j; without values the base, without base the sum."""
    if values is None:
        return base
    two, four = float(factor(2)), float(factor(4))
    if two != four and not math.isclose(four, two**2, rel_tol=1e-6):
        raise NotRecorded(f"sums with a factor that is no power of n: {two} for 2 points, {four} for 4")
    options = {"number": two, "flag": 1} if two == four else {"number": -math.log2(two)}
    return attention.program.record(Code.SUMS, [attention, values, base], values.space, values.width, **options)


def attended_state(
    state: PointState, attention: Tensor, values_s: Tensor, values_v: Tensor | None, factor: SizeFactor
) -> PointState:
    """Equation (4) with residuals: s_i + c Σ_j a_ij values_s_j and v_i + c Σ_j a_ij values_v_j, with c = factor(n).

    In padded rows vectors stay zero and scalars as they are. Without ``values_v`` all vectors stay as they are.
    """
    if isinstance(attention, Symbol):
        return PointState(
            *(recorded_sums(attention, *pair, factor) for pair in ((values_s, state.s), (values_v, state.v)))
        )
    values_s = masked(values_s, state.padding)
    s, v = attended(attention, values_s, values_v, state.s, state.v, row_factor(state, factor))
    return state._replace(s=s, v=v)


class ChannelLinear(nn.Module):
    """y = W x (+ b) on (in, …) → (out, …)."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        bound = 1 / math.sqrt(inputs)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """(in, …) → (out, …)."""
        if isinstance(x, Symbol):
            return x.linear(self.weight, self.bias)
        flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))  # no -1: at rank 0 it cannot be inferred
        result = self.weight @ flat if self.bias is None else torch.addmm(self.bias.unsqueeze(-1), self.weight, flat)
        return result.view(self.weight.shape[0], *x.shape[1:])

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"{self.weight.shape[1]} → {self.weight.shape[0]}{'' if self.bias is not None else ', no bias'}"


class ChannelNorm(nn.Module):
    """LayerNorm without parameters over the channels (first axis)."""

    EPSILON = 1e-5

    def forward(self, x: Tensor) -> Tensor:
        """(d, …) → (d, …), mean 0 and variance 1 over d."""
        return self._normalised(x, None, None)

    def _normalised(self, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
        if isinstance(x, Symbol):
            return x.norm(scale, shift)
        # One fused kernel on the transposed tensor: with the ten small ones that it replaces, small batches spend a
        # fifth of their time on the way from kernel to kernel. Contiguous, as whatever is made of it takes its layout.
        return layer_norm(x.movedim(0, -1), x.shape[:1], scale, shift, self.EPSILON).movedim(-1, 0).contiguous()


class AffineChannelNorm(ChannelNorm):
    """LayerNorm over the channels, with a scale and a shift for each."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(d, …) → (d, …)."""
        return self._normalised(x, self.scale, self.shift)


class MLP(nn.Sequential):
    """Linear layers of the given widths; norm and SiLU after each, after the last only with ``tail``."""

    def __init__(self, widths: Sequence[int], *, norm: Norm = "none", tail: bool = False):
        parts: list[nn.Module] = []
        for position, (inputs, outputs) in enumerate(pairwise(widths)):
            parts.append(ChannelLinear(inputs, outputs))
            if position < len(widths) - 2 or tail:
                parts += [AffineChannelNorm(outputs)] if norm == "layer" else []
                parts.append(nn.SiLU())
        super().__init__(*parts)


class PairMLP(nn.Module):
    """A two-layer MLP on every pair, (c, B, n, n) → (d, B, n, n); ``tail``: SiLU also at the end."""

    def __init__(self, inputs: int, channels: int, *, tail: bool):
        super().__init__()
        first, second = ChannelLinear(inputs, channels), ChannelLinear(channels, channels)
        self.weight1, self.bias1 = first.parameters()
        self.weight2, self.bias2 = second.parameters()
        self.tail = tail

    def forward(self, x: Tensor) -> Tensor:
        """(c, B, n, n) → (d, B, n, n)."""
        if isinstance(x, Symbol):
            result = x.linear(self.weight1, self.bias1).unary(Code.SILU).linear(self.weight2, self.bias2)
            return result.unary(Code.SILU) if self.tail else result
        return pair_mlp(x, self.weight1, self.bias1, self.weight2, self.bias2, self.tail)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        channels, inputs = self.weight1.shape
        return f"{inputs} → {channels} → {channels}{', SiLU at the end' if self.tail else ''}"


class VectorNorm(nn.Module):
    """Centre vectors over the channels and give each length 1 over the rank axis, with a floor.

    On (d, B, n, r). Equivariant to O(r) and to permutations; zero vectors, also those of rank 0, stay zero.
    """

    FLOOR = 1e-3

    def forward(self, v: Tensor) -> Tensor:
        """(d, B, n, r) → (d, B, n, r)."""
        if isinstance(v, Symbol):
            return v.unary(Code.NORM_VECTORS, number=self.FLOOR)
        return normalised_vectors(v, self.FLOOR)


class VectorBound(nn.Module):
    """Shorten long vectors: v / √(1 + ℓ²/reach²), ℓ² the mean of ‖v‖² over the channels; a factor for each point.

    On (d, B, n, r). Equivariant to O(r) and to permutations. Which of two vectors is longer stays (in SRD the squared
    length is the degree); layers, each cubic in its vectors, cannot make them explode.
    """

    def __init__(self, reach: float = 3.0):
        super().__init__()
        self.reach = reach

    def forward(self, v: Tensor) -> Tensor:
        """(d, B, n, r) → (d, B, n, r)."""
        if isinstance(v, Symbol):
            return v.unary(Code.BOUND_VECTORS, number=self.reach)
        squares = row_products(v, v).mean(0, keepdim=True)  # (1, B, n)
        return v * (1 + squares / self.reach**2).rsqrt().unsqueeze(-1)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"reach {self.reach:g}"


class ScalarBound(nn.Module):
    """Shorten very large scalars: s / √(1 + ℓ²/25), ℓ² the mean of s² over the channels; a factor for each point.

    On (d, B, n). Unlike LayerNorm it keeps how large ordinary scalars are, which is what a count is.
    """

    REACH = 5.0

    def forward(self, s: Tensor) -> Tensor:
        """(d, B, n) → (d, B, n)."""
        if isinstance(s, Symbol):
            return s.unary(Code.BOUND_SCALARS, number=self.REACH)
        return s * (1 + s.square().mean(0, keepdim=True) / self.REACH**2).rsqrt()


class LayerStack(nn.Module):
    """Layers one after the other; the last one knows that it is the last, as nothing reads its vectors."""

    def __init__(self, layer: Callable[..., nn.Module], channels: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(layer(channels, last=position == layers - 1) for position in range(layers))

    def forward(self, state: PointState) -> PointState:
        """State → state."""
        for layer in self.layers:
            state = layer(state)
        return state


def enlarge_first_weights(encoder: nn.Module, *, attention: float = 1.0) -> None:
    """Weights of variance 1 / inputs instead of PyTorch's 1 / (3 inputs), no biases; ``attention`` times that in pairs.

    So the first outputs depend on the graph's edges. With PyTorch's weights attention begins as nearly the same number
    for all pairs (docs/departures_from_paper.md).
    """
    with torch.no_grad():
        for part in encoder.modules():
            if not isinstance(part, (ChannelLinear, PairMLP)):
                continue
            for parameter in part.parameters():
                if parameter.dim() == 2:
                    parameter.mul_(math.sqrt(3))
                else:
                    parameter.zero_()
            if isinstance(part, PairMLP):
                part.weight2.mul_(attention)


class BatchEncoder(nn.Module, ABC):
    """An encoder that takes all graphs of a batch at once, whatever their sizes: message passing over lists of edges.

    Such an encoder gains nothing from groups of one size, and would only pay for each of them.
    """

    ALL_PAIRS: ClassVar[bool] = True  # whether its memory grows with n², and not with the edges alone

    @abstractmethod
    def forward(self, scalars: list[Tensor], structures: list[Any]) -> list[Tensor]:
        """For each group the first scalars (d, B, n), and what the model's ``coordinates`` gave → (d, B, n) each."""


class AttentionMap(nn.Module):
    """Base of the modules whose output is attention, (d, B, n, n), before the factor n^-0.925: it can be read out."""


def pooled(s: Tensor, pooling: Pooling, padding: Padding | None = None) -> Tensor:
    """Equation (5): scalars (d, B, n) → (d, B). A graph without nodes gives zeros."""
    if padding is not None:
        nodes = padding.nodes.squeeze(-1)  # (B,)
        if pooling == "max":
            return s.masked_fill(padding.rows == 0, -math.inf).amax(-1).masked_fill(nodes == 0, 0.0)
        return masked(s, padding).sum(-1) / (nodes.clamp(min=1) if pooling == "mean" else _divisor(pooling))
    if pooling == "max":
        return s.amax(-1) if s.shape[-1] else s.sum(-1)
    return s.sum(-1) / (max(s.shape[-1], 1) if pooling == "mean" else _divisor(pooling))


def _divisor(pooling: Pooling) -> int:
    return POOLED_NODES if pooling == "scaled_sum" else 1


def represented(s: Tensor, level: Level, pooling: Pooling, padding: Padding | None = None) -> Tensor:
    """Scalars (d, B, n) → (B, d), or at levels "node" and "edge" (B·n, d) without padded rows."""
    if level == "graph":
        return pooled(s, pooling, padding).mT
    rows = s.reshape(s.shape[0], math.prod(s.shape[1:])).mT
    return rows if padding is None else rows[padding.rows.flatten() > 0]


_LEAST_GRAPHS = 2  # in which a descriptor must differ to be looked at
_LEAST_DEVIATION = 1e-6


class DescriptorInput(nn.Module):
    """Numbers x of a graph as a whole → SiLU(W z + b), (B, d), with z = clip((ℓ(x) − mean) · scale, ±5).

    ℓ(x) = sign(x) log(1 + |x|) tames counts and surfaces in Å². ``mean`` and ``scale`` are fitted to the training part
    (:meth:`fit`) and kept with the weights; a number that hardly varies there has scale 0. NaN counts as the mean.
    """

    REACH = 5.0

    mean: Tensor  # (c,)
    scale: Tensor  # (c,)

    def __init__(self, descriptors: int, channels: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(descriptors))
        self.register_buffer("scale", torch.ones(descriptors))
        self.linear = nn.Linear(descriptors, channels)

    def fit(self, x: Tensor, counts: Tensor) -> None:
        """Mean and scale of (G, c). Where ``counts`` (c,) is true, a column keeps its zero and its size.

        A number counts only where at least two graphs differ from the most frequent value. Counts of environments, most
        of them rare, are not standardised: that would make one atom of a rare kind as loud as a property of all.
        """
        z = _signed_log(x.to(torch.float64))
        known = ~z.isnan()
        number = known.sum(0).clamp(min=1)
        mean = torch.where(known, z, 0.0).sum(0) / number
        std = (torch.where(known, z - mean, 0.0).square().sum(0) / number).sqrt()
        varies = ((z != z.nan_to_num(0.0).mode(0).values) & known).sum(0) >= _LEAST_GRAPHS
        self.mean.copy_(torch.where(counts, 0.0, mean))
        self.scale.copy_(torch.where(varies, torch.where(counts, 1.0, 1 / std.clamp(min=_LEAST_DEVIATION)), 0.0))

    def forward(self, x: Tensor) -> Tensor:
        """(B, c) → (B, d)."""
        rows: Tensor = silu(self.linear(self.standardised(x)))
        return rows

    def standardised(self, x: Tensor) -> Tensor:
        """(B, c) → z, (B, c): 0 is the mean of the training part."""
        return ((_signed_log(x) - self.mean) * self.scale).nan_to_num(0.0).clamp(-self.REACH, self.REACH)


def _signed_log(x: Tensor) -> Tensor:
    return x.sign() * x.abs().log1p()


class Readout(nn.Module):
    """The end of a model, pooling or none and one linear map: scalars (d, B, n) → (B, out), or (B·n, out) for nodes.

    With ``descriptors`` numbers of each graph beside its points, the linear map sees [pooled s, DescriptorInput(x)], of
    2d channels.
    """

    takes_padding = True

    def __init__(
        self, channels: int, out: int, level: Level, pooling: Pooling, descriptors: int = 0, dropout: float = 0.0
    ):
        super().__init__()
        self.level, self.pooling, self.dropout = level, pooling, dropout
        self.descriptors = DescriptorInput(descriptors, channels) if descriptors else None
        self.linear = nn.Linear(2 * channels if descriptors else channels, out)

    def representation(self, s: Tensor, padding: Padding | None = None) -> Tensor:
        """(d, B, n) → (B, d) or (B·n, d): what the last linear map sees."""
        return represented(s, self.level, self.pooling, padding)

    def joined(self, rows: Tensor, descriptors: Tensor | None) -> Tensor:
        """(B, d) representations and (B, c) descriptors → (B, 2d); without descriptors, the representations."""
        if self.descriptors is None:
            return rows
        if descriptors is None:
            raise SpecError(
                f"the model takes {len(self.descriptors.mean):,} descriptors of each graph, and the batch has none; "
                "expected data.descriptors of shape (1, c) on each graph"
            )
        return torch.cat([rows, self.descriptors(descriptors)], dim=1)

    def of_pairs(self, rows: Tensor, pairs: Tensor | None) -> Tensor:
        """h_i ∘ h_j of pairs of nodes, (N, d) and (P, 2) → (P, d), whose weighted sum is an inner product of points."""
        if pairs is None or pairs.dim() != 2 or pairs.shape[1] != 2 or pairs.is_floating_point():
            got = "no pairs" if pairs is None else f"pairs of type {pairs.dtype} and shape {tuple(pairs.shape)}"
            raise SpecError(
                f"the model scores pairs of nodes and got {got}; expected whole numbers (P, 2): model(batch, pairs=…)"
            )
        if len(pairs) and not 0 <= int(pairs.min()) <= int(pairs.max()) < len(rows):
            raise SpecError(
                f"got pairs of nodes from {int(pairs.min())} to {int(pairs.max())}; expected 0 to {len(rows) - 1}, "
                "counted through all graphs of the batch"
            )
        return rows.index_select(0, pairs[:, 0]) * rows.index_select(0, pairs[:, 1])

    def head(self, rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(rows, d) or (rows, 2d) → (rows, out): dropout in training, then the linear map."""
        if self.training and self.dropout:
            kept = torch.empty_like(rows).bernoulli_(1 - self.dropout, generator=generator)
            rows = rows * kept / (1 - self.dropout)
        result: Tensor = self.linear(rows)
        return result

    def forward(self, s: Tensor, padding: Padding | None = None) -> Tensor:
        """(d, B, n) → (B, out) or (B·n, out); of a model without descriptors."""
        return self.head(self.representation(s, padding))

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        ends = {"node": "node outputs", "edge": "products of two nodes"}
        return ends.get(self.level, f"{self.pooling} over the points")
