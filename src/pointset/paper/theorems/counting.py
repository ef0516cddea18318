"""Counting paths and cycles by explicit layers: Theorems 5.4 and 5.5, their appendix versions A.12 and A.13, and the
closed formulas P_2 … P_6 and C_3 … C_7 that their proofs print.

The verdict is on the layer of the appendix's proof, whose gates read s'; the evidence says what changes where they read
s, as equation (2) prints, and how few layers do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from pointset.arrays import Integers
from pointset.datasets.counting_formulas import printed_cycle_counts, printed_path_matrix
from pointset.paper.theorems import counting_lemmas
from pointset.paper.theorems.constructions import (
    CYCLES,
    CYCLES_GATED_BEFORE,
    DIAGONAL_CYCLES,
    DIAGONAL_CYCLES_GATED_BEFORE,
    PATHS,
    PATHS_GATED_BEFORE,
    Construction,
    CountedGraphs,
    Groups,
    counted_graphs,
)
from pointset.paper.theorems.counting_lemmas import layers_needed
from pointset.paper.theorems.small_graphs import LARGEST, described
from pointset.paper.theorems.statement import Finding, Statement, holds_if

Formula = Callable[[Integers, int], Integers]  # of an adjacency matrix and k

WHOLE = 1e-3  # a number this near to a whole one is that
_NODES_WITH_IDLE_LAYERS = 5


@dataclass(frozen=True)
class Claim:
    """So many layers count what has the length k."""

    name: str
    layers: Mapping[int, int]  # {k: layers}
    letter: str  # P: between different nodes in the last attention; C: in the points' scalars at the end
    on_diagonal: bool = False  # C on the diagonal of the last attention instead

    def truth(self, graphs: CountedGraphs, k: int) -> list[Integers]:
        """What enumeration says."""
        return (graphs.paths if self.letter == "P" else graphs.cycles)[k]


PATHS_OF_TEXT = Claim("Theorem 5.4", {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4}, "P")
PATHS_OF_APPENDIX = Claim("Theorem A.12", {2: 1, 3: 2, 4: 3, 5: 3, 6: 5}, "P")
CYCLES_OF_TEXT = Claim("Theorem 5.5", {3: 1, 4: 3, 5: 3, 6: 5, 7: 5}, "C")
CYCLES_OF_APPENDIX = Claim("Theorem A.13", {3: 2, 4: 3, 5: 4, 6: 4, 7: 6}, "C", on_diagonal=True)


def check_claim(
    claim: Claim,
    other: Claim,
    constructions: Mapping[int, Construction],
    gated_before: Mapping[int, Construction],
    max_nodes: int = LARGEST,
) -> Finding:
    """Run explicit layers, as many as are claimed, against the true counts; ``other`` is the paper's other version."""
    graphs = counted_graphs(max_nodes)
    errors = {k: _error_of_claim(claim, k, constructions[k], graphs, gate_after=True) for k in claim.layers}
    before = {k: _error_of_claim(claim, k, gated_before[k], graphs, gate_after=False) for k in claim.layers}
    worst, later = max(errors.values()), [k for k, error in before.items() if not error < WHOLE]
    evidence = (
        f"On all {graphs.description}, explicit layers on coordinates of A, as many as stated or fewer, are off by at "
        f"most {worst:.0e} {_place(claim)}. {_fewest(claim, constructions, max_nodes)} "
        f"{_gates(claim, gated_before, later, max_nodes)} {_compared(claim, other)}"
    )
    numbers = {f"layers_for_{claim.letter}_{k}": constructions[k].layers for k in claim.layers}
    needed = _needed(claim, max_nodes)
    numbers |= {f"at_least_for_{claim.letter}_{k}": needed[k] for k in claim.layers}
    return holds_if(worst < WHOLE, evidence, largest_error=worst, **numbers)


# called with the largest number of nodes, or nothing
theorem_5_4 = partial(check_claim, PATHS_OF_TEXT, PATHS_OF_APPENDIX, PATHS, PATHS_GATED_BEFORE)
theorem_a_12 = partial(check_claim, PATHS_OF_APPENDIX, PATHS_OF_TEXT, PATHS, PATHS_GATED_BEFORE)
theorem_5_5 = partial(check_claim, CYCLES_OF_TEXT, CYCLES_OF_APPENDIX, CYCLES, CYCLES_GATED_BEFORE)
theorem_a_13 = partial(check_claim, CYCLES_OF_APPENDIX, CYCLES_OF_TEXT, DIAGONAL_CYCLES, DIAGONAL_CYCLES_GATED_BEFORE)


def _error_of_claim(claim: Claim, k: int, layers: Construction, graphs: CountedGraphs, *, gate_after: bool) -> float:
    """With as few layers as they are, and on fewer graphs with as many as claimed; infinite if that is not enough."""
    stated = claim.layers[k]
    if layers.layers > stated:
        return math.inf
    fewer = counted_graphs(_NODES_WITH_IDLE_LAYERS)
    return max(
        largest_error(layers, claim.truth(graphs, k), graphs.coordinates, gate_after=gate_after),
        largest_error(layers, claim.truth(fewer, k), fewer.coordinates, stated, gate_after=gate_after),
    )


def largest_error(
    construction: Construction,
    counts: list[Integers],
    graphs: Groups,
    layers: int | None = None,
    *,
    gate_after: bool = True,
) -> float:
    """Max |what the layers give − count|: of pairs (n, n) between different nodes, of nodes (n,) at each."""
    largest = 0.0
    for found, count in zip(construction.counts(graphs, layers, gate_after=gate_after), counts, strict=True):
        off = np.abs((np.diagonal(found) if found.ndim > count.ndim else found) - count)
        if off.ndim == 2:
            np.fill_diagonal(off, 0.0)
        largest = max(largest, float(off.max(initial=0.0)))
    return largest


def _place(claim: Claim) -> str:
    if claim.letter == "P":
        return "between different nodes"
    return "on the diagonal of the last attention" if claim.on_diagonal else "in the points' scalars"


def _needed(claim: Claim, max_nodes: int, **reading: str | bool) -> dict[int, int]:
    """At least so many layers."""
    needed = layers_needed(max_nodes, **reading)
    return {k: needed[f"{'diagonal ' if claim.on_diagonal else ''}{claim.letter}_{k}"] for k in claim.layers}


def _fewest(claim: Claim, constructions: Mapping[int, Construction], max_nodes: int) -> str:
    needed = _needed(claim, max_nodes)
    used = {k: constructions[k].layers for k in claim.layers}
    unknown = [k for k in used if needed[k] < used[k]]
    least = f"fewer are not excluded for {_names(claim, unknown)}" if unknown else "and with fewer no weights do"
    text = (
        f"Layers that suffice: {_listed(claim, used)}, {least}: two places with different counts that fewer layers "
        f"cannot distinguish are in graphs with up to {max_nodes} nodes or in the 4 × 4 rook's graph and Shrikhande's "
        "without one or two nodes."
    )
    if claim.letter == "P":
        laplacian = _needed(claim, max_nodes, matrix="laplacian")
        more = [k for k in used if laplacian[k] > used[k]]
        if more:
            text += f" On coordinates of D − A at least: {_listed(claim, {k: laplacian[k] for k in more})}."
    return text


def _gates(claim: Claim, gated_before: Mapping[int, Construction], later: list[int], max_nodes: int) -> str:
    if not later:
        return "With gates by s, as equation (2) prints, as many layers as stated suffice too."
    used = {k: gated_before[k].layers for k in later}
    needed = _needed(claim, max_nodes, gate_after=False)
    unknown = [k for k in later if needed[k] <= claim.layers[k]]
    known = f"; whether fewer suffice for {_names(claim, unknown)} is open" if unknown else ", and fewer do not suffice"
    return f"With gates by s, as equation (2) prints, we need more layers than stated, {_listed(claim, used)}{known}."


def _compared(claim: Claim, other: Claim) -> str:
    both = [k for k in claim.layers if k in other.layers]
    fewer = [k for k in both if claim.layers[k] < other.layers[k]]
    more = [k for k in both if claim.layers[k] > other.layers[k]]
    return (
        f"{claim.name} is sharper than {other.name} for {_names(claim, fewer)}, less sharp for {_names(claim, more)}."
    )


def _names(claim: Claim, lengths: list[int]) -> str:
    return ", ".join(f"{claim.letter}_{k}" for k in lengths) or "none"


def _listed(claim: Claim, layers: Mapping[int, int]) -> str:
    """``1 for P_1, P_2; 2 for P_3``."""
    numbers = sorted(set(layers.values()))
    return "; ".join(f"{n} for {_names(claim, [k for k, some in layers.items() if some == n])}" for n in numbers)


def path_formulas(max_nodes: int = LARGEST, formula: Formula = printed_path_matrix) -> Finding:
    """P_k between different nodes; the diagonals are wrong in all of them, and no count reads them."""
    graphs = counted_graphs(max_nodes)
    found = {k: [formula(A, k) * (1 - np.eye(len(A), dtype=A.dtype)) for A in graphs.adjacencies] for k in range(2, 7)}
    wrong = {k: _failures(some, graphs.paths[k]) for k, some in found.items()}
    asymmetric = [f"P_{k}" for k, some in found.items() if any((P != P.T).any() for P in some)]
    first = "; ".join(f"P_{k} on {described(graphs.adjacencies[bad[0]])}" for k, bad in wrong.items() if bad)
    evidence = f"On all {graphs.description}, between different nodes; {_numbers('P', wrong)}. "
    if first:
        evidence += f"The smallest: {first}. "
    if asymmetric:
        evidence += f"{', '.join(asymmetric)} is not symmetric, which numbers of paths are. "
    if wrong[4] or wrong[5]:
        evidence += "With 2A² in place of A² in P_4 and A d(A d(A²)A) added to P_5 all five hold."
    return holds_if(not first, evidence, **{f"graphs_where_P_{k}_fails": len(bad) for k, bad in wrong.items()})


def cycle_formulas(max_nodes: int = LARGEST, formula: Formula = printed_cycle_counts) -> Finding:
    """C_k = diagonal(A P_{k−1})."""
    graphs = counted_graphs(max_nodes)
    found = {k: [formula(A, k) for A in graphs.adjacencies] for k in range(3, 8)}
    wrong = {k: _failures(some, graphs.cycles[k]) for k, some in found.items()}
    more = {k: _failures(some, [2 * counts for counts in graphs.cycles[k]]) for k, some in found.items() if wrong[k]}
    doubled = ", ".join(f"C_{k}" for k, bad in more.items() if not bad)
    others = "; ".join(f"C_{k} on {described(graphs.adjacencies[bad[0]])}" for k, bad in more.items() if bad)
    evidence = f"On all {graphs.description}; {_numbers('C', wrong)}. "
    if doubled:
        evidence += f"{doubled} are twice the number everywhere: each cycle is found in both directions. "
    if others:
        evidence += f"Wrong by more than that: {others}. "
    if any(wrong.values()):
        evidence += "½ diagonal(A P) with the corrected P holds for all five."
    return holds_if(
        not any(wrong.values()), evidence, **{f"graphs_where_C_{k}_fails": len(bad) for k, bad in wrong.items()}
    )


def _failures(found: Iterable[Integers], counts: Iterable[Integers]) -> list[int]:
    """Positions of the graphs where the two differ."""
    return [at for at, (one, count) in enumerate(zip(found, counts, strict=True)) if (one != count).any()]


def _numbers(letter: str, wrong: Mapping[int, list[int]]) -> str:
    """``graphs where the formula is wrong: 0 (P_2), 1,239 (P_4)``."""
    numbers = ", ".join(f"{len(bad):,} ({letter}_{k})" for k, bad in wrong.items())
    return f"graphs where the formula is wrong: {numbers}"


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 5.4",
        "The attention of one layer counts paths with 1 and 2 edges, of two with 3 and 4, of four with 5 and 6.",
        theorem_5_4,
    ),
    Statement(
        "Theorem 5.5",
        "A point's representation counts 3-cycles after one layer, 4- and 5-cycles after three, 6 and 7 after five.",
        theorem_5_5,
    ),
    *counting_lemmas.STATEMENTS,
    Statement("Formulas P_2…P_6", "The printed polynomials of A count the paths with 2 to 6 edges.", path_formulas),
    Statement("Formulas C_3…C_7", "C_{k+1} = diagonal(A P_k) counts the cycles through each node.", cycle_formulas),
    Statement(
        "Theorem A.12",
        "The attention of one layer expresses P_2, of two P_3, of three P_4 and P_5, of five P_6.",
        theorem_a_12,
    ),
    Statement(
        "Theorem A.13",
        "The attention's diagonal expresses C_3 in two layers, C_4 in three, C_5 and C_6 in four, C_7 in six.",
        theorem_a_13,
    ),
)
