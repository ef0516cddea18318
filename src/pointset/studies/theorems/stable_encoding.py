"""Table 5, fourth row: the equivariant and stable Laplacian encoding ‖1_K ⊙ (U_i − U_j)‖, and when it is defined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from pointset.points import encodings
from pointset.points.convert import to_points
from pointset.points.point_set import PointSet
from pointset.studies.statement import Finding, holds_if
from pointset.studies.theorems.encoding_trials import ROUNDING, Array, trial_graphs
from pointset.studies.theorems.set_equality import random_rotation

StableForm = Callable[[Array, Array], Array]  # U (n, r), 1_K (r,) → (n, n)


def by_definition(U: Array, chosen: Array) -> Array:
    """‖1_K ⊙ (U_i − U_j)‖²."""
    return np.asarray(np.square((U[:, None] - U[None, :]) * chosen).sum(-1))


def as_printed(U: Array, chosen: Array) -> Array:
    """⟨U_i, diag(1_K)U_i⟩ + ⟨U_j, diag(1_K)U_j⟩ − 2⟨U_i, diag(1_K)U_j⟩."""
    gram = (U * chosen) @ U.T
    own = np.diagonal(gram)
    return np.asarray(own[:, None] + own[None, :] - 2 * gram)


def stable_laplacian(max_nodes: int = 6, form: StableForm = as_printed) -> Finding:
    """The identity for every K; and, for every K, whether another basis of the eigenspaces gives another encoding."""
    generator, graphs = np.random.default_rng(5), trial_graphs(max_nodes)
    identity, tried, dependent, largest, whole = 0.0, 0, 0, 0.0, 0.0
    for A in graphs:
        points = to_points(np.array(A), matrix="laplacian")
        U, turned = points.eigenvectors.numpy(), _another_basis(points, generator)
        for K in range(1, points.rank + 1):
            chosen = (np.arange(points.rank) >= points.rank - K).astype(np.float64)  # ascending: the K largest
            tried += 1
            identity = max(identity, float(np.abs(form(U, chosen) - by_definition(U, chosen)).max()))
            change = float(np.abs(by_definition(turned, chosen) - by_definition(U, chosen)).max())
            dependent, largest = dependent + (change > ROUNDING), max(largest, change)
            whole = max(whole, _whole_eigenspaces(points, turned, K))
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


def _another_basis(points: PointSet, generator: np.random.Generator) -> Array:
    """U with each eigenspace's columns turned by a random orthogonal matrix."""
    U, start = points.eigenvectors.numpy().copy(), 0
    for _, size in points.eigenspaces():
        block = slice(start, start + size)
        U[:, block] = U[:, block] @ random_rotation(size, generator)
        start += size
    return U


def _whole_eigenspaces(points: PointSet, turned: Array, K: int) -> float:
    """Largest change of the library's encoding, squared, when the basis is turned."""
    other = PointSet(points.eigenvalues, torch.from_numpy(turned), points.matrix, points.num_edges)
    first, second = (encodings.stable_laplacian(side, K).square() for side in (points, other))
    return float((first - second).abs().max())
