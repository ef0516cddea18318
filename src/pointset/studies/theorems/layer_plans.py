"""A layer written down by names, and the weights of :class:`ExactLayer` that it stands for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pointset.errors import SpecError
from pointset.studies.theorems.exact_layers import ExactLayer
from pointset.studies.theorems.polynomials import Polynomials, linear

ONE = "one"  # the scalar that every point has from the start


@dataclass(frozen=True)
class LayerPlan:
    """Formulas are those of :mod:`polynomials`.

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
