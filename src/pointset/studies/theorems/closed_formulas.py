"""The closed formulas for P_2 … P_6 and C_3 … C_7 as printed (in the proofs of A.12 and A.13), against enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.counting.formulas import printed_cycle_counts, printed_path_matrix
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems.counted_graphs import counted_graphs
from pointset.studies.theorems.small_graphs import LARGEST, described

Array = NDArray[np.int64]
Formula = Callable[[Array, int], Array]  # of an adjacency matrix and k


def path_formulas(max_nodes: int = LARGEST, formula: Formula = printed_path_matrix) -> Finding:
    """P_k between different nodes; the diagonals are wrong in all of them, and no count reads them."""
    graphs = counted_graphs(max_nodes)
    found = {k: [_off_diagonal(formula(A, k)) for A in graphs.adjacencies] for k in range(2, 7)}
    wrong = {k: _failures(some, graphs.paths[k]) for k, some in found.items()}
    asymmetric = [f"P_{k}" for k, some in found.items() if any((P != P.T).any() for P in some)]
    first = "; ".join(f"P_{k} on {described(graphs.adjacencies[bad[0]])}" for k, bad in wrong.items() if bad)
    evidence = f"On all {graphs.description}, between different nodes; graphs where the formula is wrong: "
    evidence += f"{_numbers('P', wrong)}. "
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
    evidence = f"On all {graphs.description}; graphs where the formula is wrong: {_numbers('C', wrong)}. "
    if doubled:
        evidence += f"{doubled} are twice the number everywhere: each cycle is found in both directions. "
    if others:
        evidence += f"Wrong by more than that: {others}. "
    if any(wrong.values()):
        evidence += "½ diagonal(A P) with the corrected P holds for all five."
    return holds_if(
        not any(wrong.values()), evidence, **{f"graphs_where_C_{k}_fails": len(bad) for k, bad in wrong.items()}
    )


def _off_diagonal(P: Array) -> Array:
    return np.where(np.eye(len(P), dtype=bool), 0, P)


def _failures(found: Iterable[Array], counts: Iterable[Array]) -> list[int]:
    """Positions of the graphs where the two differ."""
    return [at for at, (one, count) in enumerate(zip(found, counts, strict=True)) if (one != count).any()]


def _numbers(letter: str, wrong: Mapping[int, list[int]]) -> str:
    """``0 (P_2), 1,239 (P_4)``: the graphs on which each formula is wrong."""
    return ", ".join(f"{len(bad):,} ({letter}_{k})" for k, bad in wrong.items())


STATEMENTS: tuple[Statement, ...] = (
    Statement("Formulas P_2…P_6", "The printed polynomials of A count the paths with 2 to 6 edges.", path_formulas),
    Statement("Formulas C_3…C_7", "C_{k+1} = diagonal(A P_k) counts the cycles through each node.", cycle_formulas),
)
