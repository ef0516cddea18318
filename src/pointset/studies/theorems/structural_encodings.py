"""Appendix D, Table 5: each structural encoding as printed, an inner product of coordinates, against its definition.

The inner products are the table's, to the letter; ``pointset.encodings`` has the forms that hold. (Rows four and five:
stable_encoding.py, degrees_and_triangles.py.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import torch

from pointset.points import encodings
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems.degrees_and_triangles import degree, triangles
from pointset.studies.theorems.encoding_trials import Array, Encoding, compare, example, inner_products, trial_graphs
from pointset.studies.theorems.small_graphs import Matrix
from pointset.studies.theorems.stable_encoding import stable_laplacian

_STEPS = (1, 2, 3, 8)
_TIMES = (0.1, 1.0, 5.0)


def walk_as_printed(A: Matrix, steps: Sequence[int] = _STEPS) -> Array:
    """√(d_j/d_i)·⟨Û_i, diag(Λ̂^k) Û_j⟩, (steps, n, n)."""
    degrees = A.sum(-1)
    powers = [lambda values, k=k: values**k for k in steps]
    scale: Array = np.sqrt(degrees[None, :] / degrees[:, None])
    return scale * inner_products(A, "normalized_adjacency", *powers)


def walk_by_definition(A: Matrix, steps: Sequence[int] = _STEPS) -> Array:
    """(D⁻¹A)^k."""
    return np.stack([np.linalg.matrix_power(A / A.sum(-1, keepdims=True), k) for k in steps])


def random_walk(max_nodes: int = 6, form: Encoding = walk_as_printed) -> Finding:
    """Table 5, first row."""
    graphs = trial_graphs(max_nodes, weighted=True)
    found = compare(form, walk_by_definition, graphs)
    start = max(float(np.abs(walk_as_printed(A, [0]) - np.eye(len(A))).max()) for A in graphs)
    evidence = (
        f"{found.graphs} connected graphs (all with 2 to {max_nodes} nodes, weighted ones with up to 30), k = 1, 2, "
        f"3, 8: (D⁻¹A)^k and √(d_j/d_i)⟨Û_i, Λ̂^k Û_j⟩ differ by at most {found.largest_error:.1e}. At k = 0 "
        f"coordinates of non-zero eigenvalues give a projection, up to {start:.2g} away from I; a node without edges "
        f"has no row."
    )
    return holds_if(found.right, evidence, graphs=found.graphs, largest_error=found.largest_error, error_at_0=start)


def heat_as_printed(A: Matrix) -> Array:
    """δ_ij + ⟨Ũ_i, (diag(exp(−tΛ̃)) − I) Ũ_j⟩."""
    cooled = [lambda values, t=t: (-t * values).exp() - 1 for t in _TIMES]
    start: Array = np.eye(len(A))
    return start + inner_products(A, "laplacian", *cooled)


def heat_by_definition(A: Matrix) -> Array:
    """exp(−tL), the solution of the heat equation, by a matrix exponential."""
    return np.stack([scipy.linalg.expm(-t * _laplacian(A)) for t in _TIMES])


def heat_kernel(max_nodes: int = 6, form: Encoding = heat_as_printed) -> Finding:
    """Table 5, second row."""
    found = compare(form, heat_by_definition, trial_graphs(max_nodes, connected=False, weighted=True))
    evidence = (
        f"{found.graphs} graphs (all with 2 to {max_nodes} nodes, weighted ones with up to 30), t = 0.1, 1, 5: the "
        f"matrix exponential exp(−tL) and δ_ij + ⟨Ũ_i, (exp(−tΛ̃) − 1)Ũ_j⟩ differ by at most "
        f"{found.largest_error:.1e}."
    )
    return holds_if(found.right, evidence, graphs=found.graphs, largest_error=found.largest_error)


def resistance_as_printed(A: Matrix) -> Array:
    """⟨Ũ_i, diag(Λ̃⁻¹) Ũ_j⟩."""
    (inverse,) = inner_products(A, "laplacian", torch.reciprocal)
    return np.asarray(inverse)


def resistance_by_definition(A: Matrix) -> Array:
    """Voltage between i and j where a unit current enters at i and leaves at j, which is grounded."""
    n = len(A)
    result = np.zeros((n, n))
    for j in range(n):
        others = np.arange(n) != j
        result[others, j] = np.diagonal(np.linalg.inv(_laplacian(A)[np.ix_(others, others)]))
    return result


def resistance_corrected(A: Matrix) -> Array:
    """L⁺_ii + L⁺_jj − 2L⁺_ij: three inner products, the squared distance of the points Ũ_i Λ̃^-½."""
    return encodings.resistance_distance(np.array(A)).numpy()


def resistance_distance(max_nodes: int = 6, form: Encoding = resistance_as_printed) -> Finding:
    """Table 5, third row."""
    graphs = trial_graphs(max_nodes, weighted=True)
    found = compare(form, resistance_by_definition, graphs)
    pseudoinverse = compare(form, lambda A: np.asarray(np.linalg.pinv(_laplacian(A)), dtype=np.float64), graphs)
    corrected = compare(resistance_corrected, resistance_by_definition, graphs)
    evidence = (
        f"{found.graphs} connected graphs (all with 2 to {max_nodes} nodes, weighted ones with up to 30): the printed "
        f"inner product is the pseudo-inverse L⁺ (to {pseudoinverse.largest_error:.1e}) but not the resistance on "
        f"{found.wrong} of them{example(found, form, resistance_by_definition, (0, 1))}. What holds is L⁺_ii + L⁺_jj "
        f"− 2L⁺_ij, to {corrected.largest_error:.1e} (wrong on {corrected.wrong})."
    )
    return holds_if(
        found.right, evidence, graphs=found.graphs, wrong=found.wrong, wrong_when_corrected=corrected.wrong,
        largest_error_when_corrected=corrected.largest_error,
    )  # fmt: skip


def _laplacian(A: Matrix) -> Matrix:
    return np.asarray(np.diag(A.sum(-1)) - A)


STATEMENTS: tuple[Statement, ...] = (
    Statement("Table 5, random walk", "(D⁻¹A)^k_ij = √(d_j/d_i) ⟨Û_i, diag(Λ̂^k) Û_j⟩.", random_walk),
    Statement("Table 5, heat kernel", "The heat kernel is δ_ij + ⟨Ũ_i, (diag(exp(−tΛ̃)) − I) Ũ_j⟩.", heat_kernel),
    Statement(
        "Table 5, resistance distance",
        "The resistance between i and j is the pseudo-inverse of the Laplacian, ⟨Ũ_i, diag(Λ̃⁻¹) Ũ_j⟩.",
        resistance_distance,
    ),
    Statement(
        "Table 5, stable Laplacian encoding",
        "‖1_K ⊙ (U_i − U_j)‖² = ⟨U_i, 1_K U_i⟩ + ⟨U_j, 1_K U_j⟩ − 2⟨U_i, 1_K U_j⟩, 1_K the K largest eigenvalues of L.",
        stable_laplacian,
    ),
    Statement("Table 5, degree", "d_i = ⟨U_i, diag(Λ²) U_j⟩ on A.", degree),
    Statement("Table 5, triangles", "t_i = ⟨U_i, diag(Λ³) U_j⟩ on A, t_i the triangles at node i.", triangles),
)
