"""The closed formulas for paths and cycles that hold: the paper's (Appendix), put right where the print is wrong.

P_k (n, n) holds in entry i, j ≠ i the number of paths with k edges from i to j, and C_k (n,) in entry i the number of
cycles with k nodes through i. With A the adjacency matrix and d(X) the diagonal part of X, the printed formulas
(:mod:`pointset.datasets.counting.printed_formulas`) need four changes:

- P₄ counts A² once; it needs 2A².
- P₅ lacks A d(A d(A²) A), the mirror image of its last term d(A d(A²) A) A.
- No P_k has a zero diagonal, though no path with k > 0 edges leads from a node to itself.
- C_{k+1} = diagonal(A P_k) finds each cycle in both directions; it needs a factor ½.

Why they hold then: a path is a walk on distinct nodes. Inclusion and exclusion over the partitions π of the nodes of a
walk gives P_k = Σ_π Π_{B ∈ π} (−1)^{|B|−1} (|B| − 1)! · hom(walk / π), and the formulas are this sum with equal terms
gathered. Conversely an identity between such sums that holds on all graphs with as many nodes as the walk has, here at
most 7, holds on all graphs (numbers of embeddings of different patterns are linearly independent): the tests go through
all 1,253 of them.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from pointset.datasets.counting.printed_formulas import (
    Integers,
    adjacency_matrix,
    closed_paths,
    d,
    printed_cycle_counts,
    printed_path_matrix,
)

__all__ = ["cycle_counts", "path_matrix", "printed_cycle_counts", "printed_path_matrix"]


def path_matrix(adjacency: ArrayLike, length: int) -> Integers:
    """P_k for k = ``length`` from 2 to 6, exact: (…, n, n) → (…, n, n).

    Args:
        adjacency: one or several matrices of simple graphs: zeros and ones, symmetric, zero on the diagonal.
        length: k, the number of edges.
    """
    A = adjacency_matrix(adjacency)
    paths = printed_path_matrix(A, length)
    if length == 4:
        paths = paths + A @ A
    if length == 5:
        paths = paths + A @ d(A @ d(A @ A) @ A)
    return paths - d(paths)


def cycle_counts(adjacency: ArrayLike, length: int) -> Integers:
    """C_k = ½ diagonal(A P_{k−1}) for k = ``length`` from 3 to 7, exact: (…, n, n) → (…, n)."""
    A = adjacency_matrix(adjacency)
    return closed_paths(A, path_matrix(A, length - 1)) // 2
