"""Explicit layers that count paths (in their last attention) and cycles (in the scalars they end with).

``PATHS`` and ``CYCLES`` need as few layers as we know how to, with gates by s' (the appendix's layer); the variants for
gates by s (equation (2) to the letter) need one more where the first layer would gate by a diagonal of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pointset.errors import SpecError
from pointset.points.convert import to_points_many
from pointset.studies.theorems import counting_formulas as formulas
from pointset.studies.theorems.exact_layers import Features, first_features, run_layers
from pointset.studies.theorems.layer_plans import LayerPlan, compiled, head

Matrix = NDArray[np.float64]

COUNT = "count"
CHANNELS = formulas.COORDINATES | dict.fromkeys(formulas.GATED, 0)  # name: the power of λ in U diag(λ^k)


@dataclass(frozen=True, eq=False)
class Groups:
    """The coordinates of graphs, those with equal n and r together."""

    members: tuple[tuple[tuple[int, ...], Features], ...]  # positions of the graphs, their first features

    @classmethod
    def of(cls, adjacencies: Sequence[NDArray[np.generic]]) -> Groups:
        """Of simple graphs, given by their adjacency matrices (n, n)."""
        points = list(to_points_many(adjacencies, matrix="adjacency", workers=1, progress=False))
        sizes: dict[tuple[int, int], list[int]] = {}
        for index, one in enumerate(points):
            sizes.setdefault((one.num_nodes, one.rank), []).append(index)
        powers = tuple(CHANNELS.values())
        return cls(
            tuple((tuple(stack), first_features([points[at] for at in stack], powers)) for stack in sizes.values())
        )


@dataclass(frozen=True)
class Construction:
    """Layers that count, as data."""

    plans: tuple[LayerPlan, ...]
    pairs: bool  # counts stand in the last attention, (n, n); else in the scalars after the last layer, (n,)

    @property
    def layers(self) -> int:
        """How many it needs."""
        return len(self.plans)

    def counts(self, graphs: Groups, layers: int | None = None, *, gate_after: bool = True) -> list[Matrix]:
        """What the layers give for each graph, not rounded.

        Args:
            graphs: their coordinates.
            layers: run with so many; those it does not need come first and do nothing (Lemma A.6). None: ``layers``.
            gate_after: gates read s'; False: s.
        """
        idle = 0 if layers is None else layers - self.layers
        if idle < 0:
            raise SpecError(f"got layers={layers}; expected at least {self.layers}, which the construction needs")
        plans = (*(LayerPlan(products={}, kept=tuple(CHANNELS)) for _ in range(idle)), *self.plans)
        weights = compiled(plans, tuple(CHANNELS), gate_after=gate_after)
        scalars = 1 + sum(len(plan.scalars) for plan in plans)
        counts: dict[int, Matrix] = {}
        for positions, features in graphs.members:
            outcome = run_layers(weights, features)[-1]
            if self.pairs:
                found = outcome.attention[..., head(plans[-1], scalars - len(plans[-1].scalars), COUNT)]
            else:
                found = outcome.features.scalars[..., scalars - 1]
            counts |= dict(zip(positions, found.numpy(), strict=True))
        return [counts[position] for position in range(len(counts))]


def on_the_diagonal(cycles: Construction) -> Construction:
    """A layer more, whose attention holds at i, j what the scalars held at i: the reading of Theorem A.13."""
    return Construction((*cycles.plans, LayerPlan(products={}, sums={COUNT: (f"i.{COUNT}", "")})), pairs=True)


_KEPT = tuple(CHANNELS)
_TWO_LAYER_PRODUCTS = {**formulas.WALKS, **formulas.OF_TRIANGLES, **formulas.OF_NEIGHBOURS}

# Diagonals and sums become scalars, sums of U over triangles vectors.
_SCALARS_AND_TRIANGLES = LayerPlan(
    formulas.WALKS, sums=formulas.SUMS, scalars=formulas.SCALARS, kept=_KEPT, vectors=formulas.TRIANGLES
)
# The same with sums of U over neighbours, gated by diagonals of this layer, which only s' holds.
_WITH_NEIGHBOURS = replace(
    _SCALARS_AND_TRIANGLES,
    gates={"Ud2": "A2", "Ud3": "A3", "Ud4": "A4", "Ud2d2": "A2*A2"},
    vectors=formulas.TRIANGLES | formulas.NEIGHBOURS,
)
# Sums over neighbours in a layer of their own, gated by scalars that came before: s and s' both hold them.
_NEIGHBOURS_LATER = LayerPlan(
    {name: formulas.WALKS[name] for name in ("A", "A2")},
    gates=formulas.GATED,
    kept=(*_KEPT, *formulas.TRIANGLES),
    vectors=formulas.NEIGHBOURS | formulas.OUTER,
)


def _attention(formula: str, products: Mapping[str, tuple[str, str]]) -> LayerPlan:
    """A last layer with the formula as attention."""
    return LayerPlan(products, sums={COUNT: (formula, "0.5")})


def _half_sum(formula: str, products: Mapping[str, tuple[str, str]]) -> LayerPlan:
    """A last layer with ½ Σ_j of the formula as a scalar."""
    return LayerPlan(products, sums={COUNT: (formula, "0.5")}, scalars={COUNT: f"sum.{COUNT}"})


def _paths(*plans: LayerPlan) -> Construction:
    return Construction(plans, pairs=True)


def _cycles(*plans: LayerPlan) -> Construction:
    return Construction(plans, pairs=False)


def _own_cycles(twice: str) -> Construction:
    """From the diagonals and sums of one layer."""
    half = {COUNT: formulas.times(twice, number=0.5)}
    return _cycles(LayerPlan(formulas.WALKS, sums=formulas.SUMS, scalars=half))


PATHS = {
    1: _paths(_attention("A", formulas.WALKS)),
    2: _paths(_attention("A2", formulas.WALKS)),
    3: _paths(_SCALARS_AND_TRIANGLES, _attention(formulas.P3, formulas.WALKS)),
    4: _paths(_WITH_NEIGHBOURS, _attention(formulas.P4, _TWO_LAYER_PRODUCTS)),
    5: _paths(_WITH_NEIGHBOURS, _attention(formulas.P5, _TWO_LAYER_PRODUCTS)),
    6: _paths(
        _SCALARS_AND_TRIANGLES,
        _NEIGHBOURS_LATER,
        _attention(formulas.P6, _TWO_LAYER_PRODUCTS | formulas.OF_OUTER),
    ),
}
CYCLES = {
    3: _own_cycles("A3"),
    4: _own_cycles(formulas.TWICE_C4),
    5: _own_cycles(formulas.TWICE_C5),
    6: _cycles(_SCALARS_AND_TRIANGLES, _half_sum(formulas.C6_SUMMAND, formulas.WALKS | formulas.OF_TRIANGLES)),
    7: _cycles(_WITH_NEIGHBOURS, _half_sum(formulas.C7_SUMMAND, _TWO_LAYER_PRODUCTS)),
}
PATHS_GATED_BEFORE = PATHS | {
    4: _paths(_SCALARS_AND_TRIANGLES, _NEIGHBOURS_LATER, _attention(formulas.P4, _TWO_LAYER_PRODUCTS)),
    5: _paths(_SCALARS_AND_TRIANGLES, _NEIGHBOURS_LATER, _attention(formulas.P5, _TWO_LAYER_PRODUCTS)),
}
CYCLES_GATED_BEFORE = CYCLES | {
    7: _cycles(
        _SCALARS_AND_TRIANGLES,
        _NEIGHBOURS_LATER,
        _half_sum(formulas.times(formulas.P6, "A"), _TWO_LAYER_PRODUCTS | formulas.OF_OUTER),
    )
}
# The reading of Theorem A.13: on the diagonal of the last attention, where the first has (A³)_ii already.
_FIRST_DIAGONAL = Construction((_attention("0.5 A3", formulas.WALKS),), pairs=True)
DIAGONAL_CYCLES = {k: on_the_diagonal(one) for k, one in CYCLES.items()} | {3: _FIRST_DIAGONAL}
DIAGONAL_CYCLES_GATED_BEFORE = {k: on_the_diagonal(one) for k, one in CYCLES_GATED_BEFORE.items()} | {
    3: _FIRST_DIAGONAL
}
