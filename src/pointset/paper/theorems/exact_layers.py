"""The layer of the paper to the letter, in float64, with any functions for its MLPs: explicit constructions run on it.

The layer of the proof of Theorems 5.4 and 5.5 (Appendix A, called "weakened"): Q and K from before the mixer, values
from after it. Scalars and vectors may have different numbers of channels, which zeros would make equal.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from pointset.errors import SpecError
from pointset.points.point_set import PointSet

Function = Callable[[Tensor], Tensor]  # an MLP: (…, inputs) → (…, outputs)


class Features(NamedTuple):
    """Points of graphs with equal n and r; B graphs side by side."""

    scalars: Tensor  # s (B, n, a)
    vectors: Tensor  # v (B, n, r, b)


class LayerOutput(NamedTuple):
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

    def __call__(self, features: Features) -> LayerOutput:
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
        return LayerOutput(attention, Features(scalars, torch.cat([mixed_v, sums_v], -1) @ self.W5))


def run_layers(layers: Sequence[ExactLayer], features: Features) -> list[LayerOutput]:
    """What every layer computes, one after the other."""
    outputs = []
    for layer in layers:
        outputs.append(layer(features))
        features = outputs[-1].features
    return outputs


def first_features(points: Sequence[PointSet], powers: Sequence[int]) -> Features:
    """Points with equal n and r: the scalar 1, and a channel U diag(λ^k) for each k of ``powers``."""
    values = torch.stack([one.eigenvalues for one in points])  # (B, r)
    U = torch.stack([one.eigenvectors for one in points])  # (B, n, r)
    functions = torch.stack([values**power for power in powers], -1)  # (B, r, b)
    return Features(U.new_ones(*U.shape[:2], 1), U.unsqueeze(-1) * functions.unsqueeze(-3))


Terms = tuple[tuple[float, tuple[str, ...]], ...]  # (factor, names multiplied)

_NAME = r"[A-Za-z_][\w.]*"
_TERM = re.compile(rf"(-?)\s*(\d+(?:\.\d+)?)?\s*({_NAME}(?:\*{_NAME})*)?")


def terms(formula: str) -> Terms:
    """A polynomial as the paper writes it: ``"2 A*B - 0.5"`` → ((2, ("A", "B")), (-0.5, ())); the empty one is 0."""
    found = []
    for text in formula.replace("-", "+-").split("+"):
        if not text.strip():
            continue
        match = _TERM.fullmatch(text.strip())
        if match is None or not (match[2] or match[3]):
            raise SpecError(f"got the term {text.strip()!r}; expected a number, names joined by '*', or both: 2 A*B")
        factor = float(match[2] or 1) * (-1 if match[1] else 1)
        found.append((factor, tuple(match[3].split("*")) if match[3] else ()))
    return tuple(found)


@dataclass(frozen=True)
class Polynomials:
    """A function (…, number of inputs) → (…, number of formulas), which stands for an MLP of an explicit construction.

    An MLP comes as near as one likes to a polynomial on every bounded set, and rounding to whole numbers does the
    rest.
    """

    inputs: tuple[str, ...]
    outputs: tuple[Terms, ...]

    @classmethod
    def of(cls, inputs: Sequence[str], formulas: Sequence[str]) -> Polynomials:
        """Parsed, each name checked."""
        outputs = tuple(terms(formula) for formula in formulas)
        for name in sorted({name for output in outputs for _, names in output for name in names}):
            if name not in inputs:
                raise SpecError(f"got {name!r} in a formula; expected one of {', '.join(inputs)}")
        return cls(tuple(inputs), outputs)

    def __call__(self, values: Tensor) -> Tensor:
        column = {name: values[..., index] for index, name in enumerate(self.inputs)}
        results = values.new_zeros(*values.shape[:-1], len(self.outputs))
        for index, output in enumerate(self.outputs):
            for factor, names in output:
                product = values.new_full(values.shape[:-1], factor)
                for name in names:
                    product = product * column[name]
                results[..., index] += product
        return results


def linear(rows: Sequence[str], columns: Sequence[str | None]) -> Tensor:
    """(rows, columns) of zeros with a one where a column has the name of a row; a column None stays zero."""
    matrix = torch.zeros(len(rows), len(columns), dtype=torch.float64)
    for column, name in enumerate(columns):
        if name is not None:
            matrix[list(rows).index(name), column] = 1.0
    return matrix


ONE = "one"  # the scalar that every point has from the start


@dataclass(frozen=True)
class LayerPlan:
    """A layer written down by names and formulas (:func:`terms`), which :func:`compiled` turns into weights.

    In formulas of pairs a product's name is its value at i, j, and ``i.x``, ``j.x`` is the scalar x of either end. In
    formulas of points a product's name is its value at i, i, and ``sum.x`` the sum named x.
    """

    products: Mapping[str, tuple[str, str]]  # name: channels a, b of ⟨v_i^a, v_j^b⟩
    sums: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name: Y_ij (pairs), h_j (points) in Σ_j
    scalars: Mapping[str, str] = field(default_factory=dict)  # next scalars (points); those before are kept
    gates: Mapping[str, str] = field(default_factory=dict)  # factor (points) of a channel of vectors, in sums
    kept: tuple[str, ...] = ()  # channels of vectors that go on as they are
    vectors: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name: Y_ij, channel of Σ_j Y_ij v'_j


def compiled(plans: Sequence[LayerPlan], channels: Sequence[str], *, gate_after: bool = True) -> list[ExactLayer]:
    """The layers' weights; ``channels`` are the names of the coordinates' channels."""
    scalars: tuple[str, ...] = (ONE,)
    layers = []
    for plan in plans:
        layers.append(_compiled(plan, scalars, tuple(channels), gate_after=gate_after))
        scalars = (*scalars, *plan.scalars)
        channels = (*plan.kept, *plan.vectors)
    return layers


def head(plan: LayerPlan, scalars: int, name: str) -> int:
    """Which channel of the attention belongs to the sum ``name``, in a layer that ``scalars`` scalars enter."""
    return scalars + len(plan.products) + list(plan.sums).index(name)


def _compiled(plan: LayerPlan, scalars: tuple[str, ...], channels: tuple[str, ...], *, gate_after: bool) -> ExactLayer:
    for name in (*itertools.chain(*plan.products.values()), *plan.gates, *plan.kept):
        if name not in channels:
            raise SpecError(f"got the channel {name!r}; expected one of {', '.join(channels)}")
    products, sums = tuple(plan.products), tuple(plan.sums)
    first = linear(channels, [a for a, _ in plan.products.values()])
    second = linear(channels, [b for _, b in plan.products.values()])
    points = (*scalars, *products)
    mixed = (*points, *(f"value.{name}" for name in sums))  # s'
    sources = (*plan.kept, *(channel for _, channel in plan.vectors.values()))  # of v'
    gated = [index >= len(plan.kept) and name in plan.gates for index, name in enumerate(sources)]
    new = [False] * len(plan.kept) + [True] * len(plan.vectors)
    inside = [f"v{index}" for index in range(len(sources))]
    ends = (*(f"i.{name}" for name in scalars), *(f"j.{name}" for name in scalars))
    heads = ["" for _ in points] + [Y for Y, _ in plan.sums.values()]
    heads += ["" for _ in plan.kept] + [Y for Y, _ in plan.vectors.values()]
    return ExactLayer(
        W1=first,
        W2=second,
        mlp1=Polynomials.of(points, [*points, *(h for _, h in plan.sums.values())]),
        mlp2=Polynomials.of(mixed if gate_after else scalars, [plan.gates.get(name, "") for name in channels]),
        W3=linear(channels, [name if gate else None for name, gate in zip(sources, gated, strict=True)]),
        W4=linear(channels, [None if gate else name for name, gate in zip(sources, gated, strict=True)]),
        Wqs=linear(scalars, [*scalars, *(ONE for _ in scalars)]),
        Wks=linear(scalars, [*(ONE for _ in scalars), *scalars]),
        Wqv=first,
        Wkv=second,
        mlp3=Polynomials.of((*ends, *products), heads),
        mlp4=Polynomials.of(
            (*mixed, *(f"unused.{name}" for name in points), *(f"sum.{name}" for name in sums)),
            [*scalars, *plan.scalars.values()],
        ),
        W5=linear(
            [*inside, *(f"sum.{name}" for name in inside)],
            [f"sum.{name}" if summed else name for name, summed in zip(inside, new, strict=True)],
        ),
        gate_after=gate_after,
    )
