"""Proposition 2.3 and Appendix A.2: symmetric rank decompositions, and why D + A has one; and the search that decides
whether point sets are equal up to O(r) (:func:`census`).

Points q_v ∈ R^{r×d} (d channels, on which one R ∈ O(r) acts) can be carried onto points q'_π(v) if and only if all
inner products ⟨q_u^a, q_v^b⟩ and ⟨q'_π(u)^a, q'_π(v)^b⟩ agree. So only these are compared, under every bijection: no
graph is seen.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg.lapack
import torch

from pointset.arrays import Floats, Integers
from pointset.paper.theorems.small_graphs import random_weighted, small_adjacencies
from pointset.paper.theorems.statement import Finding, Statement, holds_if
from pointset.points.convert import to_points, to_points_many
from pointset.testing.symmetry import random_rotation

Decomposition = Callable[[Floats, np.random.Generator], Floats]  # L (n, n) → Q (n, r)

_ROUNDING = 1e-9  # what two decompositions of one matrix may differ by, where true differences are above 0.01
CLOSE = 1e-6  # inner products of equal sets agree to about 1e-14, others differ by far more; both are reported


def by_eigenvectors(L: Floats, generator: np.random.Generator) -> Floats:
    """Q = U diag(√Λ), as Section 2 does."""
    eigenvalues, eigenvectors = np.linalg.eigh(L)
    kept = eigenvalues > 1e-10 * max(1.0, float(eigenvalues.max(initial=0.0)))
    return np.asarray(eigenvectors[:, kept] * np.sqrt(eigenvalues[kept]))


def by_cholesky(L: Floats, generator: np.random.Generator) -> Floats:
    """Q from a pivoted Cholesky decomposition (LAPACK pstrf) of the rows in random order, without eigenvectors."""
    if not len(L):
        return np.zeros((0, 0))
    order = generator.permutation(len(L))
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(L[np.ix_(order, order)], lower=1, tol=1e-10 * L.max(initial=1))
    Q = np.zeros((len(L), rank))
    Q[order[pivots - 1]] = np.tril(factor)[:, :rank]
    return Q


def transformation(Q1: Floats, Q2: Floats) -> tuple[float, float]:
    """R = pinv(Q2) Q1, the only candidate: how far Q1 is from Q2 R, and R Rᵀ from I."""
    R = np.linalg.pinv(Q2) @ Q1
    rest = np.abs(Q1 - Q2 @ R).max(initial=0.0)
    return float(rest), float(np.abs(R @ R.T - np.eye(R.shape[0])).max(initial=0.0))


def semidefinite_matrices(max_nodes: int, generator: np.random.Generator) -> list[Floats]:
    """D + A of all small graphs and of random weighted ones, and random matrices BBᵀ of every rank."""
    graphs = [*small_adjacencies(max_nodes), *(random_weighted(n, 0.3, generator) for n in range(8, 24))]
    products = [generator.normal(size=(n, r)) for n in (5, 12, 20) for r in range(1, n + 1)]
    return [_augmented(A) for A in graphs] + [B @ B.T for B in products]


def proposition_2_3(
    max_nodes: int = 7, first: Decomposition = by_eigenvectors, second: Decomposition = by_cholesky
) -> Finding:
    """Both directions, and that two different matrices never have an R."""
    generator, rotations = np.random.default_rng(23), torch.Generator().manual_seed(23)
    matrices = semidefinite_matrices(max_nodes, generator)
    reach = orthogonal = converse = 0.0
    for L in matrices:
        Q1, Q2 = first(L, generator), second(L, generator)
        if Q1.shape != Q2.shape:
            return holds_if(False, f"Two decompositions of a matrix have the ranks {Q1.shape[1]} and {Q2.shape[1]}.")
        rest, off = transformation(Q1, Q2)
        reach, orthogonal = max(reach, rest), max(orthogonal, off)
        turned = Q2 @ random_rotation(Q2.shape[1], rotations).numpy()
        converse = max(converse, float(np.abs(turned @ turned.T - L).max(initial=0.0)))
    pairs, nearest = different_matrices(max_nodes)
    evidence = (
        f"{len(matrices):,} positive semi-definite matrices (D + A of all graphs with up to {max_nodes} nodes, "
        f"weighted graphs, random ones): the SRDs by eigenvectors and by pivoted Cholesky differ by R = pinv(Q₂) Q₁: "
        f"|Q₁ − Q₂R| ≤ {reach:.1e}, |RRᵀ − I| ≤ {orthogonal:.1e}; Q₂R with random R ∈ O(r) gives the matrix back to "
        f"{converse:.1e}. For {pairs:,} pairs of different matrices of the same size and rank the larger of |Q₁ − "
        f"Q₂R| and |RRᵀ − I| is never below {nearest:.2g}."
    )
    return holds_if(
        max(reach, orthogonal, converse) < _ROUNDING and nearest > 1e3 * _ROUNDING,
        evidence, matrices=len(matrices), largest_rest=reach, largest_departure_from_orthogonal=orthogonal,
        largest_error_of_the_converse=converse, pairs_of_different_matrices=pairs, smallest_rest_of_those=nearest,
    )  # fmt: skip


def different_matrices(max_nodes: int) -> tuple[int, float]:
    """Pairs of different D + A with equal n and r, and the smallest of max(|Q₁ − Q₂R|, |RRᵀ − I|) over them."""
    groups: dict[tuple[int, int], list[Floats]] = {}
    for points in to_points_many(small_adjacencies(max_nodes), matrix="augmented", workers=1, progress=False):
        Q = points.coordinates().numpy()
        groups.setdefault((Q.shape[0], Q.shape[1]), []).append(Q)
    pairs, nearest = 0, np.inf
    for (_, rank), of_one_shape in groups.items():
        stack = np.stack(of_one_shape)
        for row, Q2 in enumerate(stack[:-1]):
            Q1 = stack[row + 1 :]  # (B, n, r)
            R = np.linalg.pinv(Q2) @ Q1
            rest = np.abs(Q1 - Q2 @ R).max((-1, -2), initial=0.0)
            off = np.abs(R @ R.mT - np.eye(rank)).max((-1, -2), initial=0.0)
            pairs, nearest = pairs + len(Q1), min(nearest, float(np.maximum(rest, off).min()))
    return pairs, nearest


def appendix_a_2(max_nodes: int = 7, negative: bool = False) -> Finding:
    """D + A is positive semi-definite, with the identity of the proof; ``negative`` allows weights of both signs."""
    generator = np.random.default_rng(24)
    small = small_adjacencies(max_nodes)
    exact = sum(np.array_equal(_incidence(A) @ _incidence(A).T, _augmented(A)) for A in small)
    weighted = [random_weighted(int(n), 0.4, generator) for n in generator.integers(2, 40, size=300)]
    if negative:
        weighted = [A * _random_signs(len(A), generator) for A in weighted]
    lowest = min(_lowest_eigenvalue(A) for A in (*small, *weighted))
    identity = max(_identity_error(A, generator) for A in (*small, *weighted))
    edge = to_points(np.array([[0.0, -1.0], [-1.0, 0.0]]), matrix="augmented")
    evidence = (
        f"D + A = BBᵀ in whole numbers, B the nodes × edges incidence, on {exact:,} of the {len(small):,} graphs with "
        f"0 to {max_nodes} nodes; on these and {len(weighted)} weighted graphs the smallest eigenvalue, relative to "
        f"the largest, is {lowest:.1e}, and xᵀ(D+A)x = ½ Σ A_ij (x_i + x_j)² to {identity:.1e}. Weights must not be "
        f"negative: a single edge of weight −1 has the eigenvalue {float(edge.eigenvalues.min()):g}."
    )
    return holds_if(
        exact == len(small) and lowest > -_ROUNDING and identity < _ROUNDING, evidence,
        graphs=len(small) + len(weighted), smallest_relative_eigenvalue=lowest, largest_error_of_the_identity=identity,
        eigenvalue_with_a_negative_weight=float(edge.eigenvalues.min()),
    )  # fmt: skip


def _augmented(A: Floats) -> Floats:
    return np.asarray(np.diag(A.sum(-1)) + A)


def _incidence(A: Floats) -> Floats:
    """(n, m): 1 where a node is an end of an edge."""
    ends = np.argwhere(np.triu(A))
    B = np.zeros((len(A), len(ends)))
    for edge, (u, v) in enumerate(ends):
        B[u, edge] = B[v, edge] = 1
    return B


def _lowest_eigenvalue(A: Floats) -> float:
    eigenvalues = np.linalg.eigvalsh(_augmented(A))
    return float(eigenvalues.min(initial=0.0) / np.abs(eigenvalues).max(initial=1e-300))


def _identity_error(A: Floats, generator: np.random.Generator) -> float:
    x = generator.normal(size=len(A))
    square = 0.5 * float((A * np.add.outer(x, x) ** 2).sum())
    return abs(float(x @ _augmented(A) @ x) - square) / (1 + abs(square))


def _random_signs(size: int, generator: np.random.Generator) -> Floats:
    signs = np.triu(generator.choice([-1.0, 1.0], size=(size, size)))
    return np.asarray(signs + np.triu(signs, 1).T)


def inner_products(points: Floats) -> Floats:
    """(n, r, d) → (n, n, d, d): ⟨q_u^a, q_v^b⟩ for all points and channels."""
    products: Floats = np.einsum("ura,vrb->uvab", points, points)
    return products


def rotation(first: Floats, second: Floats) -> tuple[Floats, float]:
    """R ∈ O(r) that brings the points (n, r, d) nearest to ``second`` in order (Procrustes), and the largest rest."""
    left, _, right = np.linalg.svd(np.einsum("vsa,vra->sr", second, first))
    R = left @ right
    return R, float(np.abs(np.einsum("sr,vra->vsa", R, first) - second).max(initial=0.0))


def bijection(first: Floats, second: Floats, features: tuple[Floats, Floats] | None = None) -> Integers | None:
    """π, [v] the point of the second set that point v of the first becomes; None if none keeps what there is to keep:
    the inner products (n, n, d, d), and the points' features (n,).
    """
    candidates = _bijections(len(first))
    if features is not None:
        candidates = candidates[(features[1][candidates] == features[0]).all(-1)]
    for u, v in sorted(np.ndindex(len(first), len(first)), key=lambda pair: (pair[0] != pair[1], max(pair))):
        image = second[candidates[:, u], candidates[:, v]]
        candidates = candidates[(np.abs(image - first[u, v]) < CLOSE).all((-1, -2))]
    return candidates[0] if len(candidates) else None


def smallest_difference(first: Floats, second: Floats) -> float:
    """Min over all bijections of the largest difference of an inner product: 0 where the sets are equal up to O(r)."""
    candidates = _bijections(len(first))
    images = second[candidates[:, :, None], candidates[:, None, :]]
    return float(np.abs(images - first).reshape(len(candidates), -1).max(-1, initial=0.0).min())


@functools.cache
def _bijections(n: int) -> Integers:
    return np.array(list(itertools.permutations(range(n))), dtype=np.int64).reshape(math.factorial(n), n)


def invariants(products: Floats) -> Floats:
    """(B, n, n, d, d) → (B, p): numbers that no bijection and no R changes, and that rounding changes by as little.

    Sorted spectra of the inner products of each two channels and of their squares, sorted squared lengths, sorted sums
    over the other points of powers of inner products. Sorting numbers is safe under rounding; sorting rows is not.
    """
    channels = products.shape[-1]
    upper = [products[..., a, b] for a in range(channels) for b in range(a, channels)]
    parts = []
    for gram in upper:
        symmetric = (gram + gram.mT) / 2
        parts += [np.linalg.eigvalsh(symmetric), np.linalg.eigvalsh(symmetric**2)]
        parts += [np.sort(np.diagonal(gram, axis1=-2, axis2=-1))]
        parts += [np.sort((gram**power).sum(-1)) for power in (1, 2, 3)]
    return np.concatenate(parts, axis=-1)


@dataclass(frozen=True)
class Census:
    """All pairs of point sets with equally many points in equally many dimensions."""

    pairs: int
    searched: int  # pairs that the invariants left open, decided by every bijection
    equal: tuple[tuple[int, int], ...]  # pairs that are equal up to O(r)
    smallest_gap: float  # smallest of the largest differences of an invariant, over pairs distinguished by them
    smallest_searched: float  # smallest difference of inner products under the best bijection, over pairs searched

    @property
    def gaps(self) -> str:
        """How clear the decisions were."""
        searched = f", {self.searched} by every bijection" if self.searched else ""
        if self.searched and not self.equal:
            searched += f" (inner products then differ by {self.smallest_searched:.3g} or more)"
        return (
            f"{self.pairs - self.searched:,} by invariants (which differ by {self.smallest_gap:.2g} or more){searched}"
        )

    def counted(self) -> dict[str, float | int]:
        """For the numbers of a finding."""
        return {
            "pairs_of_one_size_and_rank": self.pairs,
            "pairs_searched": self.searched,
            "equal_pairs": len(self.equal),
            "smallest_gap": self.smallest_gap,
        }


def census(point_sets: list[Floats]) -> Census:
    """Decide for all pairs of point sets (n, r, d), n and r their own, whether they are equal up to O(r)."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, points in enumerate(point_sets):
        groups.setdefault(points.shape[:2], []).append(index)
    total, gap, searched_gap = 0, np.inf, np.inf
    open_pairs, equal = 0, []
    for indices in groups.values():
        products = np.stack([inner_products(point_sets[index]) for index in indices])
        numbers = invariants(products)
        total += len(indices) * (len(indices) - 1) // 2
        for row in range(len(indices) - 1):
            difference = np.abs(numbers[row + 1 :] - numbers[row]).max(-1, initial=0.0)
            gap = min(gap, float(difference[difference >= CLOSE].min(initial=np.inf)))
            for other in row + 1 + np.flatnonzero(difference < CLOSE):
                open_pairs += 1
                smallest = smallest_difference(products[row], products[other])
                searched_gap = min(searched_gap, smallest)
                if smallest < CLOSE:
                    equal.append((indices[row], indices[other]))
    return Census(total, open_pairs, tuple(sorted(equal)), gap, searched_gap)


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Proposition 2.3",
        "Q₁ and Q₂ are symmetric rank decompositions of one matrix if and only if Q₁ = Q₂R for some R ∈ O(r).",
        proposition_2_3,
    ),
    Statement("Appendix A.2", "D + A is always positive semi-definite.", appendix_a_2),
)
