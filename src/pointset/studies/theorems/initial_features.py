"""What inner products of a point's coordinates with themselves say: the first step in the proof of Theorem B.2.

The first mixer sees U diag(f(Λ)) Uᵀ at (i, i) for functions f of the whole spectrum, that is, the spectrum and (Z^k)_ii
for k = 1 … n. From these it is to work out the degree, with which Graphormer starts, and RWSE, with which GPS starts.
All in whole numbers, so that "equal" is exact.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems.relations import Array, adjacency
from pointset.studies.theorems.small_graphs import LARGEST, small_graphs

MATRICES = ("adjacency", "laplacian", "augmented", "normalized_adjacency")
_MULTIPLE = math.lcm(*range(1, LARGEST))  # of every degree; 60⁷ is far below 2⁶³


def whole_matrix(A: Array, matrix: str) -> Array:
    """Z, (n, n). For D^-½AD^-½ it is a multiple of D⁻¹A, whose powers have the same diagonals."""
    D = A.sum(1)
    if matrix == "normalized_adjacency":
        return np.asarray(A * (_MULTIPLE // np.maximum(D, 1))[:, None])
    return {"adjacency": A, "laplacian": np.diag(D) - A, "augmented": np.diag(D) + A}[matrix]


@functools.cache
def diagonals(matrix: str, max_nodes: int) -> tuple[Array, ...]:
    """For each small graph (Z^k)_ii, (n, n), node i and k = 1 … n."""
    matrices = [whole_matrix(adjacency(graph), matrix) for graph in small_graphs(max_nodes) if len(graph)]
    powers = ([np.linalg.matrix_power(Z, k) for k in range(1, len(Z) + 1)] for Z in matrices)
    return tuple(np.stack([power.diagonal() for power in each], axis=1) for each in powers)


def undetermined(matrix: str, wanted: str, max_nodes: int) -> int:
    """How many values of (Z^k)_ii, with the spectrum, come with several degrees or several RWSE."""
    seen: dict[tuple[bytes, bytes], set[bytes]] = {}
    if wanted == "degree":  # (D − A)_ii
        values = tuple(one[:, :1] for one in diagonals("laplacian", max_nodes))
    else:
        values = diagonals("normalized_adjacency", max_nodes)
    for known, value in zip(diagonals(matrix, max_nodes), values, strict=True):
        spectrum = known.sum(0).tobytes()  # the traces of Z^k
        for node, row in enumerate(known):
            seen.setdefault((spectrum, row.tobytes()), set()).add(value[node].tobytes())
    return sum(len(found) > 1 for found in seen.values())


def start_of_b_2(max_nodes: int = LARGEST, matrices: tuple[str, ...] = MATRICES) -> Finding:
    """For the degree and for RWSE: which matrices Z give it."""
    several = {(Z, wanted): undetermined(Z, wanted, max_nodes) for Z in matrices for wanted in ("degree", "RWSE")}
    giving = {wanted: [Z for Z in matrices if not several[Z, wanted]] for wanted in ("degree", "RWSE")}
    both = [Z for Z in matrices if Z in giving["degree"] and Z in giving["RWSE"]]
    counts = "; ".join(f"{Z} {several[Z, 'degree']} and {several[Z, 'RWSE']}" for Z in matrices)
    evidence = (
        f"Nodes of all graphs with up to {max_nodes} nodes that agree in these inner products and in the spectrum, "
        f"exactly; how many such values come with several degrees and with several RWSE: {counts}. The degree is "
        f"given by {' or '.join(giving['degree']) or 'none'}, RWSE by {' or '.join(giving['RWSE']) or 'none'}, both "
        f"by {' or '.join(both) or 'none: a model has one matrix, so it starts as Graphormer or as GPS, not as both'}."
    )
    return holds_if(
        bool(giving["degree"]) and bool(giving["RWSE"]), evidence,
        matrices_that_give_both=len(both), **{f"{Z}_several_{wanted}": n for (Z, wanted), n in several.items()},
    )  # fmt: skip


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem B.2, the start in the proof",
        "Inner products of a point's coordinates with themselves express its degree and RWSE.",
        start_of_b_2,
    ),
)
