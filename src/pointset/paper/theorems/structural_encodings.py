"""Appendix D, Table 5: each structural encoding as printed, an inner product of coordinates, against its definition.

The inner products are the table's, to the letter; ``pointset.encodings`` has the forms that hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import scipy.linalg
import torch

from pointset.arrays import Floats
from pointset.paper.theorems.small_graphs import described, random_weighted, small_adjacencies
from pointset.paper.theorems.statement import Finding, Statement, holds_if
from pointset.points import encodings
from pointset.points.convert import to_points
from pointset.testing.symmetry import rotated_in_eigenspaces

Encoding = Callable[[Floats], Floats]  # of an adjacency matrix
StableForm = Callable[[Floats, Floats], Floats]  # U (n, r), 1_K (r,) → (n, n)

ROUNDING = 1e-9
_STEPS = (1, 2, 3, 8)
_TIMES = (0.1, 1.0, 5.0)


def trial_graphs(max_nodes: int, *, connected: bool = True, weighted: bool = False) -> list[Floats]:
    """All graphs with 2 … ``max_nodes`` nodes (those in one piece), and random ones of 10 to 30 nodes."""
    generator = np.random.default_rng(4)
    drawn = [random_weighted(n, 5 / n, generator) for n in range(10, 31)]
    larger = [A if weighted else (A > 0).astype(np.float64) for A in drawn]
    graphs = [A for A in (*small_adjacencies(max_nodes), *larger) if len(A) > 1]
    return [A for A in graphs if not connected or nx.is_connected(nx.from_numpy_array(A))]


@dataclass(frozen=True)
class Trial:
    """A formula against its definition, on many graphs."""

    graphs: int
    largest_error: float
    wrong: int  # graphs with an error above rounding
    smallest_wrong: Floats | None  # the first of them, in order of size

    @property
    def right(self) -> bool:
        """Whether the formula gave the defined numbers on every graph."""
        return not self.wrong and self.largest_error < ROUNDING


def try_formula(form: Encoding, definition: Encoding, graphs: Sequence[Floats]) -> Trial:
    """Largest difference on each graph, relative to the definition's largest entry where that exceeds 1."""
    errors = []
    for A in graphs:
        expected = definition(A)
        difference = np.abs(form(A) - expected).max(initial=0.0)
        errors.append(float(difference / max(1.0, float(np.abs(expected).max(initial=0.0)))))
    wrong = [A for A, error in zip(graphs, errors, strict=True) if not error < ROUNDING]
    return Trial(len(graphs), max(errors, default=0.0), len(wrong), min(wrong, key=len) if wrong else None)


def inner_products(A: Floats, matrix: str, *functions: Callable[[torch.Tensor], torch.Tensor]) -> Floats:
    """⟨U_i, diag(f(Λ)) U_j⟩ for all pairs and each f, (functions, n, n)."""
    points = to_points(np.array(A), matrix=matrix)
    return np.stack([points.inner_products(f).numpy() for f in functions])


def example(found: Trial, form: Encoding, definition: Encoding, at: tuple[int, int]) -> str:
    """The smallest graph where it fails, at two of its nodes: what is printed, what is true."""
    A = found.smallest_wrong
    if A is None:
        return ""
    place = f"nodes {at[0]} and {at[1]}" if at[0] != at[1] else f"node {at[0]}"
    return f" (the smallest: {described(A)}; {place}: {form(A)[at]:.3g} in place of {definition(A)[at]:.3g})"


def walk_as_printed(A: Floats, steps: Sequence[int] = _STEPS) -> Floats:
    """√(d_j/d_i)·⟨Û_i, diag(Λ̂^k) Û_j⟩, (steps, n, n)."""
    degrees = A.sum(-1)
    powers = [lambda values, k=k: values**k for k in steps]
    scale: Floats = np.sqrt(degrees[None, :] / degrees[:, None])
    return scale * inner_products(A, "normalized_adjacency", *powers)


def walk_by_definition(A: Floats, steps: Sequence[int] = _STEPS) -> Floats:
    """(D⁻¹A)^k."""
    return np.stack([np.linalg.matrix_power(A / A.sum(-1, keepdims=True), k) for k in steps])


def random_walk(max_nodes: int = 6, form: Encoding = walk_as_printed) -> Finding:
    """Table 5, first row."""
    graphs = trial_graphs(max_nodes, weighted=True)
    found = try_formula(form, walk_by_definition, graphs)
    start = max(float(np.abs(walk_as_printed(A, [0]) - np.eye(len(A))).max()) for A in graphs)
    evidence = (
        f"{found.graphs} connected graphs (all with 2 to {max_nodes} nodes, weighted ones with up to 30), k = 1, 2, "
        f"3, 8: (D⁻¹A)^k and √(d_j/d_i)⟨Û_i, Λ̂^k Û_j⟩ differ by at most {found.largest_error:.1e}. At k = 0 "
        f"coordinates of non-zero eigenvalues give a projection, up to {start:.2g} away from I; a node without edges "
        f"has no row."
    )
    return holds_if(found.right, evidence, graphs=found.graphs, largest_error=found.largest_error, error_at_0=start)


def heat_as_printed(A: Floats) -> Floats:
    """δ_ij + ⟨Ũ_i, (diag(exp(−tΛ̃)) − I) Ũ_j⟩."""
    cooled = [lambda values, t=t: (-t * values).exp() - 1 for t in _TIMES]
    start: Floats = np.eye(len(A))
    return start + inner_products(A, "laplacian", *cooled)


def heat_by_definition(A: Floats) -> Floats:
    """exp(−tL), the solution of the heat equation, by a matrix exponential."""
    return np.stack([scipy.linalg.expm(-t * _laplacian(A)) for t in _TIMES])


def heat_kernel(max_nodes: int = 6, form: Encoding = heat_as_printed) -> Finding:
    """Table 5, second row."""
    found = try_formula(form, heat_by_definition, trial_graphs(max_nodes, connected=False, weighted=True))
    evidence = (
        f"{found.graphs} graphs (all with 2 to {max_nodes} nodes, weighted ones with up to 30), t = 0.1, 1, 5: the "
        f"matrix exponential exp(−tL) and δ_ij + ⟨Ũ_i, (exp(−tΛ̃) − 1)Ũ_j⟩ differ by at most "
        f"{found.largest_error:.1e}."
    )
    return holds_if(found.right, evidence, graphs=found.graphs, largest_error=found.largest_error)


def resistance_as_printed(A: Floats) -> Floats:
    """⟨Ũ_i, diag(Λ̃⁻¹) Ũ_j⟩."""
    return np.asarray(inner_products(A, "laplacian", torch.reciprocal)[0])


def resistance_by_definition(A: Floats) -> Floats:
    """Voltage between i and j where a unit current enters at i and leaves at j, which is grounded."""
    n = len(A)
    result = np.zeros((n, n))
    for j in range(n):
        others = np.arange(n) != j
        result[others, j] = np.diagonal(np.linalg.inv(_laplacian(A)[np.ix_(others, others)]))
    return result


def resistance_corrected(A: Floats) -> Floats:
    """L⁺_ii + L⁺_jj − 2L⁺_ij: three inner products, the squared distance of the points Ũ_i Λ̃^-½."""
    return encodings.resistance_distance(np.array(A)).numpy()


def resistance_distance(max_nodes: int = 6, form: Encoding = resistance_as_printed) -> Finding:
    """Table 5, third row."""
    graphs = trial_graphs(max_nodes, weighted=True)
    found = try_formula(form, resistance_by_definition, graphs)
    pseudoinverse = try_formula(form, lambda A: np.asarray(np.linalg.pinv(_laplacian(A)), dtype=np.float64), graphs)
    corrected = try_formula(resistance_corrected, resistance_by_definition, graphs)
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


def _laplacian(A: Floats) -> Floats:
    return np.asarray(np.diag(A.sum(-1)) - A)


def stable_by_definition(U: Floats, chosen: Floats) -> Floats:
    """‖1_K ⊙ (U_i − U_j)‖²."""
    return np.asarray(np.square((U[:, None] - U[None, :]) * chosen).sum(-1))


def stable_as_printed(U: Floats, chosen: Floats) -> Floats:
    """⟨U_i, diag(1_K)U_i⟩ + ⟨U_j, diag(1_K)U_j⟩ − 2⟨U_i, diag(1_K)U_j⟩."""
    gram = (U * chosen) @ U.T
    own = np.diagonal(gram)
    return np.asarray(own[:, None] + own[None, :] - 2 * gram)


def stable_laplacian(max_nodes: int = 6, form: StableForm = stable_as_printed) -> Finding:
    """Table 5, fourth row: the identity for every K, and whether the encoding depends on the basis of eigenspaces."""
    generator, graphs = torch.Generator().manual_seed(5), trial_graphs(max_nodes)
    identity, tried, dependent, largest, whole = 0.0, 0, 0, 0.0, 0.0
    for A in graphs:
        points = to_points(np.array(A), matrix="laplacian")
        other = rotated_in_eigenspaces(points, generator)  # the same eigenspaces in another basis
        U, turned = points.eigenvectors.numpy(), other.eigenvectors.numpy()
        for K in range(1, points.rank + 1):
            chosen = (np.arange(points.rank) >= points.rank - K).astype(np.float64)  # ascending: the K largest
            tried += 1
            identity = max(identity, float(np.abs(form(U, chosen) - stable_by_definition(U, chosen)).max()))
            change = float(np.abs(stable_by_definition(turned, chosen) - stable_by_definition(U, chosen)).max())
            dependent, largest = dependent + (change > ROUNDING), max(largest, change)
            first, second = (encodings.stable_laplacian(side, K).square() for side in (points, other))
            whole = max(whole, float((first - second).abs().max()))
    evidence = (
        f"{len(graphs)} connected graphs, every K, {tried:,} cases: ‖1_K ⊙ (U_i − U_j)‖² and the three inner products "
        f"differ by at most {identity:.1e}. The encoding itself depends on the solver's choice of eigenvectors where "
        f"K cuts an eigenspace: in {dependent} cases, by up to {largest:.2g}; with whole eigenspaces "
        f"(pointset.encodings) by {whole:.1e}."
    )
    return holds_if(
        identity < ROUNDING, evidence, cases=tried, largest_error=identity, cases_that_depend_on_the_basis=dependent,
        largest_change_with_whole_eigenspaces=whole,
    )  # fmt: skip


def power_as_printed(exponent: int) -> Encoding:
    """⟨U_i, diag(Λ^k) U_j⟩ on A, (n, n): the table has j on one side only."""
    return lambda A: inner_products(A, "adjacency", lambda values: values**exponent)[0]


def degrees_by_definition(A: Floats) -> Floats:
    """d_i, in every column: the table says it for each j."""
    return _in_columns(A.sum(-1))


def triangles_by_definition(A: Floats) -> Floats:
    """t_i by enumeration, in every column."""
    graph = nx.from_numpy_array(A)
    return _in_columns(np.array([nx.triangles(graph, node) for node in range(len(A))], dtype=np.float64))


def degree(max_nodes: int = 6, form: Encoding | None = None) -> Finding:
    """Table 5, fifth row, degrees."""
    form = form or power_as_printed(2)
    graphs = trial_graphs(max_nodes, connected=False)
    found = try_formula(form, degrees_by_definition, graphs)
    own = try_formula(_at_itself(power_as_printed(2)), degrees_by_definition, graphs)
    weighted = [A for A in trial_graphs(max_nodes, connected=False, weighted=True) if len(A) > max_nodes]
    squares = try_formula(_at_itself(power_as_printed(2)), degrees_by_definition, weighted)
    library = try_formula(lambda A: _in_columns(encodings.degree(np.array(A)).numpy()), degrees_by_definition, weighted)
    evidence = (
        f"{found.graphs} graphs (all with 2 to {max_nodes} nodes, random ones with up to 30): ⟨U_i, Λ²U_j⟩ is (A²)_ij "
        f"and not d_i on {found.wrong} of them{example(found, form, degrees_by_definition, (0, 1))}. With j = i it is "
        f"the degree, to {own.largest_error:.1e} (wrong on {own.wrong}); with weights it is Σ_j A_ij² (wrong on "
        f"{squares.wrong} of {squares.graphs} graphs), and half the row sums of D + A hold (wrong on {library.wrong})."
    )
    return holds_if(found.right, evidence, graphs=found.graphs, wrong=found.wrong, wrong_with_j_equal_to_i=own.wrong)


def triangles(max_nodes: int = 6, form: Encoding | None = None) -> Finding:
    """Table 5, fifth row, triangles."""
    form = form or power_as_printed(3)
    graphs = trial_graphs(max_nodes, connected=False)
    found = try_formula(form, triangles_by_definition, graphs)
    own = try_formula(_at_itself(power_as_printed(3)), triangles_by_definition, graphs)
    half = try_formula(lambda A: _at_itself(power_as_printed(3))(A) / 2, triangles_by_definition, graphs)
    evidence = (
        f"{found.graphs} graphs (all with 2 to {max_nodes} nodes, random ones with up to 30): ⟨U_i, Λ³U_j⟩ is not the "
        f"number of triangles on {found.wrong} of them. With j = i each triangle counts twice, once in each "
        f"direction: wrong on "
        f"{own.wrong}{example(own, _at_itself(power_as_printed(3)), triangles_by_definition, (0, 0))}. With j = i and "
        f"a factor ½ it holds, to {half.largest_error:.1e} (wrong on {half.wrong})."
    )
    return holds_if(
        found.right, evidence,
        graphs=found.graphs, wrong=found.wrong, wrong_with_j_equal_to_i=own.wrong, wrong_with_half=half.wrong,
    )  # fmt: skip


def _at_itself(form: Encoding) -> Encoding:
    """The same with j = i, in every column."""
    return lambda A: _in_columns(np.diagonal(form(A)))


def _in_columns(values: Floats) -> Floats:
    """(n,) → (n, n)."""
    return np.repeat(values[:, None], len(values), axis=1)


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
