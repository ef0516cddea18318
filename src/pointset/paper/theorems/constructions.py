"""Explicit layers that count paths (in their last attention) and cycles (in the scalars they end with), and the graphs
they are tried on, with true counts by enumeration (:func:`counted_graphs`).

``PATHS`` and ``CYCLES`` need as few layers as we know how to, with gates by s' (the appendix's layer); the variants for
gates by s (equation (2) to the letter) need one more where the first layer would gate by a diagonal of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx
import numpy as np

from pointset.arrays import Array, Floats, Integers
from pointset.datasets.counting_formulas import cycle_counts, path_matrix
from pointset.errors import SpecError
from pointset.paper.theorems.exact_layers import Features, LayerPlan, compiled, first_features, head, run_layers, terms
from pointset.paper.theorems.small_graphs import small_adjacencies, whole_adjacency
from pointset.points.convert import to_points_many

# The formulas of P_3 … P_6 (corrected) as polynomials of what layers hold, and how layers come to hold it:
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


COUNT = "count"
CHANNELS = COORDINATES | dict.fromkeys(GATED, 0)  # name: the power of λ in U diag(λ^k)


@dataclass(frozen=True, eq=False)
class Groups:
    """The coordinates of graphs, those with equal n and r together."""

    stacks: tuple[tuple[tuple[int, ...], Features], ...]  # positions of the graphs, their first features

    @classmethod
    def of(cls, adjacencies: Sequence[Array]) -> Groups:
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

    def counts(self, graphs: Groups, layers: int | None = None, *, gate_after: bool = True) -> list[Floats]:
        """What the layers give for each graph, not rounded; ``gate_after``: gates read s', else s.

        Of more ``layers`` than it needs, those come first and do nothing (Lemma A.6).
        """
        idle = 0 if layers is None else layers - self.layers
        if idle < 0:
            raise SpecError(f"got layers={layers}; expected at least {self.layers}, which the construction needs")
        plans = (*(LayerPlan(products={}, kept=tuple(CHANNELS)) for _ in range(idle)), *self.plans)
        weights = compiled(plans, tuple(CHANNELS), gate_after=gate_after)
        scalars = 1 + sum(len(plan.scalars) for plan in plans)
        counts: dict[int, Floats] = {}
        for positions, features in graphs.stacks:
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
    {name: WALKS[name] for name in ("A", "A2")}, gates=GATED, kept=(*_KEPT, *TRIANGLES), vectors=NEIGHBOURS | OUTER
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
    return _cycles(LayerPlan(WALKS, sums=SUMS, scalars={COUNT: times(twice, number=0.5)}))


PATHS = {
    1: _paths(_attention("A", WALKS)),
    2: _paths(_attention("A2", WALKS)),
    3: _paths(_SCALARS_AND_TRIANGLES, _attention(P3, WALKS)),
    4: _paths(_WITH_NEIGHBOURS, _attention(P4, _TWO_LAYER_PRODUCTS)),
    5: _paths(_WITH_NEIGHBOURS, _attention(P5, _TWO_LAYER_PRODUCTS)),
    6: _paths(_SCALARS_AND_TRIANGLES, _NEIGHBOURS_LATER, _attention(P6, _TWO_LAYER_PRODUCTS | OF_OUTER)),
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
    7: _cycles(_SCALARS_AND_TRIANGLES, _NEIGHBOURS_LATER, _half_sum(times(P6, "A"), _TWO_LAYER_PRODUCTS | OF_OUTER))
}
# The reading of Theorem A.13: on the diagonal of the last attention, where the first has (A³)_ii already.
_FIRST_DIAGONAL = Construction((_attention("0.5 A3", WALKS),), pairs=True)
DIAGONAL_CYCLES = {k: on_the_diagonal(one) for k, one in CYCLES.items()} | {3: _FIRST_DIAGONAL}
DIAGONAL_CYCLES_GATED_BEFORE = {k: on_the_diagonal(one) for k, one in CYCLES_GATED_BEFORE.items()} | {
    3: _FIRST_DIAGONAL
}


_NODES, _DENSITY, _NUMBER = 20, 0.25, 6  # of the larger random graphs
_MOST_ENUMERATED = 10  # nodes: there are 2ⁿ sets of them


@dataclass(frozen=True, eq=False)
class CountedGraphs:
    """All small graphs, counted by enumeration, then larger ones, counted by the formulas that those prove."""

    description: str
    adjacencies: tuple[Integers, ...]
    coordinates: Groups
    paths: Mapping[int, list[Integers]]  # P_k (n, n) for each graph, k = 1 … 6
    cycles: Mapping[int, list[Integers]]  # C_k (n,), k = 3 … 7


@functools.cache
def counted_graphs(max_nodes: int) -> CountedGraphs:
    """All graphs with 1 … ``max_nodes`` nodes by size, and six random ones with 20 nodes."""
    matrices: list[Integers] = []
    paths: dict[int, list[Integers]] = {k: [] for k in range(1, 7)}
    cycles: dict[int, list[Integers]] = {k: [] for k in range(3, 8)}
    for n in range(1, max_nodes + 1):
        stack = np.stack([A for A in small_adjacencies(max_nodes) if len(A) == n]).astype(np.int64)
        matrices += list(stack)
        found = enumerated_paths(stack, 6)
        for k, counts in found.items():
            paths[k] += list(counts)
        for k, counts in enumerated_cycles(stack, found).items():
            cycles[k] += list(counts)
    description = f"{len(matrices):,} graphs with 1 to {max_nodes} nodes and {_NUMBER} random ones with {_NODES}"
    for seed in range(_NUMBER):
        A = whole_adjacency(nx.gnp_random_graph(_NODES, _DENSITY, seed=seed))
        matrices.append(A)
        for k in paths:
            paths[k].append(A if k == 1 else path_matrix(A, k))
        for k in cycles:
            cycles[k].append(cycle_counts(A, k))
    return CountedGraphs(description, tuple(matrices), Groups.of(matrices), paths, cycles)


def enumerated_paths(adjacencies: Array, longest: int) -> dict[int, Integers]:
    """{k: P_k (B, n, n)} for k = 1 … ``longest``, of B simple graphs (B, n, n).

    W[S][i, j] is the number of paths from i to j that visit just the nodes S, hence with |S| − 1 edges; one more node m
    outside S gives W[S ∪ m][i, m] = Σ_j W[S][i, j] A_jm.
    """
    A = np.asarray(adjacencies).astype(np.int64)
    number, n, _ = A.shape
    if n > _MOST_ENUMERATED:
        raise SpecError(f"got graphs of {n} nodes; expected at most {_MOST_ENUMERATED}. Use pointset.datasets.counting")
    counts = {k: np.zeros((number, n, n), dtype=np.int64) for k in range(1, longest + 1)}
    walks = {1 << i: np.zeros((number, n, n), dtype=np.int64) for i in range(n)}
    for i in range(n):
        walks[1 << i][:, i, i] = 1
    for k in range(1, min(longest, n - 1) + 1):
        longer: dict[int, Integers] = {}
        for nodes, found in walks.items():
            onward = found @ A
            for m in range(n):
                if not nodes >> m & 1:
                    more = longer.setdefault(nodes | 1 << m, np.zeros((number, n, n), dtype=np.int64))
                    more[:, :, m] += onward[:, :, m]
        walks = longer
        counts[k] = sum(walks.values(), start=np.zeros((number, n, n), dtype=np.int64))
    return counts


def enumerated_cycles(adjacencies: Array, paths: dict[int, Integers]) -> dict[int, Integers]:
    """{k + 1: C_{k+1} (B, n)}: paths with k ≥ 2 edges to a neighbour, two for each cycle."""
    A = np.asarray(adjacencies).astype(np.int64)
    return {k + 1: (A * P).sum(-1) // 2 for k, P in paths.items() if k > 1}
