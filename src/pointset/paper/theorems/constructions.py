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
from pointset.paper.theorems.exact_layers import Features, LayerPlan, compiled, first_features, head, run_layers, terms
from pointset.points.convert import to_points_many

# The formulas of P_3 … P_6 (corrected) as polynomials of what layers hold, and how layers come to hold it.
#
# A, A2, … are powers of the adjacency matrix; d2, d3, … their diagonals; r2 = A·d2, r3 = A·d3 and t2 = (A⊙A²)·d2 sums
# over neighbours; T = A⊙A², T3 = A⊙A³, T22 = A⊙A²⊙A². Names side by side are a product of matrices, Ad2A = A d(A²) A.


POWERS = (1, 2, 3, 4, 5, 6)
COORDINATES = {"U": 0} | {("AU" if power == 1 else f"A{power}U"): power for power in POWERS}
# Copies of U that gates will multiply: a channel has one gate.
GATED = {"Ud2": "d2", "Ud3": "d3", "Ud4": "d4", "Ud2d2": "d2*d2", "Ur2": "r2"}
WALKS = {("A" if power == 1 else f"A{power}"): ("U", "AU" if power == 1 else f"A{power}U") for power in POWERS}

DIAGONALS = {f"d{power}": f"A{power}" for power in (2, 3, 4, 5)}
SUMS = {"r2": ("A", "A2"), "r3": ("A", "A3"), "t2": ("A*A2", "A2")}  # Σ_j Y_ij h_j
SCALARS = DIAGONALS | {name: f"sum.{name}" for name in SUMS}

# Σ_j Y_ij v_j of the first layer, and with its gates
TRIANGLES = {"TU": ("A*A2", "U"), "T3U": ("A*A3", "U"), "T22U": ("A*A2*A2", "U")}
NEIGHBOURS = {f"A{gate}U": ("A", f"U{gate}") for gate in ("d2", "d3", "d4", "d2d2")} | {"A2d2U": ("A2", "Ud2")}
# what a layer more makes of them
OUTER = {"Ar2U": ("A", "Ur2"), "ATU": ("A", "TU")}

# Inner products of those: ⟨(M U)_i, A^s U_j⟩ = (M A^s)_ij
OF_TRIANGLES = {
    "TA": ("TU", "AU"), "AT": ("AU", "TU"), "TA2": ("TU", "A2U"), "A2T": ("A2U", "TU"),
    "T3A": ("T3U", "AU"), "AT3": ("AU", "T3U"), "T22A": ("T22U", "AU"), "AT22": ("AU", "T22U"),
}  # fmt: skip
OF_NEIGHBOURS = {
    "Ad2A": ("Ad2U", "AU"), "Ad3A": ("Ad3U", "AU"), "Ad4A": ("Ad4U", "AU"), "Ad2d2A": ("Ad2d2U", "AU"),
    "Ad2A2": ("Ad2U", "A2U"), "A2d2A": ("A2U", "Ad2U"), "Ad3A2": ("Ad3U", "A2U"), "A2d3A": ("A2U", "Ad3U"),
    "Ad2A3": ("Ad2U", "A3U"), "A3d2A": ("A3U", "Ad2U"), "A2d2A2": ("A2d2U", "A2U"),
}  # fmt: skip
OF_OUTER = {"Ar2A": ("Ar2U", "AU"), "ATA": ("ATU", "AU")}


def both_ends(left: str) -> str:
    """The terms of one end and their mirror images."""
    return f"{left} + {left.replace('i.', 'j.')}"


def times(formula: str, *names: str, number: float = 1.0) -> str:
    """Every term of a formula multiplied."""
    return " + ".join(f"{number * factor:g} {'*'.join((*names, *more))}" for factor, more in terms(formula))


P3 = "A3 + A - i.d2*A - j.d2*A"

P4 = "A4 + 2 A2 + 3 A*A2 - Ad2A + " + both_ends("- i.d3*A - i.d2*A2")

_P5_ENDS = both_ends("- i.d4*A - i.d3*A2 - i.d2*A3 + 2 i.d2*i.d2*A - 6 i.d2*A + i.r2*A") + " + i.d2*j.d2*A"
_P5_WITHOUT_GATES = f"A5 + 3 A3 + 4 A + 3 A2*A2*A + 3 A*A3 - 4 A*A2 + 3 TA + 3 AT + {_P5_ENDS}"
P5 = f"{_P5_WITHOUT_GATES} - Ad3A - Ad2A2 - A2d2A"

_P6_POWERS = "A6 + 4 A4 + 12 A2 + 3 A*A4 + 6 A*A2*A3 + A2*A2*A2 - 4 A2*A2 + 44 A*A2"
_P6_ENDS = (
    both_ends("- i.d5*A - i.d4*A2 - i.d3*A3 - 5 i.d3*A - i.d2*A4 - 7 i.d2*A2 + 2 i.d2*i.d2*A2 + 4 i.d2*i.d3*A")
    + " + i.d2*j.d3*A + i.d3*j.d2*A + i.d2*j.d2*A2 + "
    + both_ends("- 12 i.d2*A*A2 - 8 i.d3*A + i.r3*A + i.r2*A2 + 2 i.t2*A + i.d2*Ad2A")
)
_P6_EDGES = "3 T3A + 3 T22A - 4 TA + 3 TA2 + 3 AT3 + 3 AT22 - 4 AT + 3 A2T - 8 A*AT - 8 A*TA"
_P6_INNER = "2 Ad2d2A - Ad4A - Ad2A3 - A3d2A - Ad3A2 - A2d3A - A2d2A2 - 10 Ad2A - 3 A*Ad2A"
P6_OF_TWO_LAYERS = f"{_P6_POWERS} + {_P6_ENDS} + {_P6_EDGES} + {_P6_INNER}"
P6 = f"{P6_OF_TWO_LAYERS} + 3 ATA + Ar2A"

# Σ_j A_ij P_k(i, j) = 2 C_{k+1}(i). Under the sum, A d(X) A becomes Σ_k (A⊙A²)_ik X_k, which needs no gate, and
# A T A becomes A⊙(A² T): a layer less.
TWICE_C4 = "A4 + A2 - A2*A2 - sum.r2"
TWICE_C5 = "A5 + 5 A3 - 2 A2*A3 - sum.r3 - 2 sum.t2"
C6_SUMMAND = times(_P5_WITHOUT_GATES, "A") + " - A*A2*j.d3 - A*A3*j.d2 - A2*A2*j.d2"
C7_SUMMAND = times(P6_OF_TWO_LAYERS, "A") + " + 3 A*A2T + A*A2*j.r2"


Matrix = NDArray[np.float64]

COUNT = "count"
CHANNELS = COORDINATES | dict.fromkeys(GATED, 0)  # name: the power of λ in U diag(λ^k)


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
_TWO_LAYER_PRODUCTS = {**WALKS, **OF_TRIANGLES, **OF_NEIGHBOURS}

# Diagonals and sums become scalars, sums of U over triangles vectors.
_SCALARS_AND_TRIANGLES = LayerPlan(WALKS, sums=SUMS, scalars=SCALARS, kept=_KEPT, vectors=TRIANGLES)
# The same with sums of U over neighbours, gated by diagonals of this layer, which only s' holds.
_WITH_NEIGHBOURS = replace(
    _SCALARS_AND_TRIANGLES,
    gates={"Ud2": "A2", "Ud3": "A3", "Ud4": "A4", "Ud2d2": "A2*A2"},
    vectors=TRIANGLES | NEIGHBOURS,
)
# Sums over neighbours in a layer of their own, gated by scalars that came before: s and s' both hold them.
_NEIGHBOURS_LATER = LayerPlan(
    {name: WALKS[name] for name in ("A", "A2")},
    gates=GATED,
    kept=(*_KEPT, *TRIANGLES),
    vectors=NEIGHBOURS | OUTER,
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
    half = {COUNT: times(twice, number=0.5)}
    return _cycles(LayerPlan(WALKS, sums=SUMS, scalars=half))


PATHS = {
    1: _paths(_attention("A", WALKS)),
    2: _paths(_attention("A2", WALKS)),
    3: _paths(_SCALARS_AND_TRIANGLES, _attention(P3, WALKS)),
    4: _paths(_WITH_NEIGHBOURS, _attention(P4, _TWO_LAYER_PRODUCTS)),
    5: _paths(_WITH_NEIGHBOURS, _attention(P5, _TWO_LAYER_PRODUCTS)),
    6: _paths(
        _SCALARS_AND_TRIANGLES,
        _NEIGHBOURS_LATER,
        _attention(P6, _TWO_LAYER_PRODUCTS | OF_OUTER),
    ),
}
CYCLES = {
    3: _own_cycles("A3"),
    4: _own_cycles(TWICE_C4),
    5: _own_cycles(TWICE_C5),
    6: _cycles(_SCALARS_AND_TRIANGLES, _half_sum(C6_SUMMAND, WALKS | OF_TRIANGLES)),
    7: _cycles(_WITH_NEIGHBOURS, _half_sum(C7_SUMMAND, _TWO_LAYER_PRODUCTS)),
}
PATHS_GATED_BEFORE = PATHS | {
    4: _paths(_SCALARS_AND_TRIANGLES, _NEIGHBOURS_LATER, _attention(P4, _TWO_LAYER_PRODUCTS)),
    5: _paths(_SCALARS_AND_TRIANGLES, _NEIGHBOURS_LATER, _attention(P5, _TWO_LAYER_PRODUCTS)),
}
CYCLES_GATED_BEFORE = CYCLES | {
    7: _cycles(
        _SCALARS_AND_TRIANGLES,
        _NEIGHBOURS_LATER,
        _half_sum(times(P6, "A"), _TWO_LAYER_PRODUCTS | OF_OUTER),
    )
}
# The reading of Theorem A.13: on the diagonal of the last attention, where the first has (A³)_ii already.
_FIRST_DIAGONAL = Construction((_attention("0.5 A3", WALKS),), pairs=True)
DIAGONAL_CYCLES = {k: on_the_diagonal(one) for k, one in CYCLES.items()} | {3: _FIRST_DIAGONAL}
DIAGONAL_CYCLES_GATED_BEFORE = {k: on_the_diagonal(one) for k, one in CYCLES_GATED_BEFORE.items()} | {
    3: _FIRST_DIAGONAL
}
