"""The paper's closed formulas for paths and cycles (Appendix): to the letter, and put right where the print is wrong.

P_k (n, n) holds in entry i, j ≠ i the number of paths with k edges from i to j, and C_k (n,) in entry i the number of
cycles with k nodes through i. With A the adjacency matrix, ⊙ (here ``*``) the product of entries and d(X) the diagonal
part of X, the printed formulas (:func:`printed_path_matrix`, :func:`printed_cycle_counts`) need four changes:

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

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from pointset.arrays import Integers
from pointset.errors import GraphError, MatrixError

__all__ = ["cycle_counts", "path_matrix", "printed_cycle_counts", "printed_path_matrix"]

MAX_DEGREE = 512  # the coefficients of P₆ sum to less than 2⁹ and the terms of A P₆ are at most 512⁶: below 2⁶³


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


def printed_path_matrix(adjacency: ArrayLike, length: int) -> Integers:
    """P_k for k = ``length`` from 2 to 6: (…, n, n) → (…, n, n)."""
    if length not in _FORMULAS:
        raise MatrixError(f"got paths with {length!r} edges; the paper has formulas for 2, 3, 4, 5 and 6 edges")
    return _FORMULAS[length](adjacency_matrix(adjacency))


def printed_cycle_counts(adjacency: ArrayLike, length: int) -> Integers:
    """C_k = diagonal(A P_{k−1}) for k = ``length`` from 3 to 7: (…, n, n) → (…, n)."""
    A = adjacency_matrix(adjacency)
    return closed_paths(A, printed_path_matrix(A, length - 1))


def closed_paths(A: Integers, P: Integers) -> Integers:
    """diagonal(A P): (…, n, n) → (…, n)."""
    counts: Integers = np.einsum("...ij,...ji->...i", A, P)
    return counts


def adjacency_matrix(values: ArrayLike) -> Integers:
    """(…, n, n) as int64, after a check that it is the adjacency matrix of one or several simple graphs."""
    try:
        A = np.asarray(values)
    except ValueError:
        raise GraphError("got rows of unequal length; expected an (n, n) adjacency matrix") from None
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise GraphError(f"got an array of shape {A.shape}; expected an (n, n) adjacency matrix, or several of them")
    simple = A.dtype.kind in "biuf" and np.isin(A, (0, 1)).all() and np.array_equal(A, A.mT)
    if not simple or np.diagonal(A, axis1=-2, axis2=-1).any():
        raise GraphError("got a matrix of no simple graph; expected zeros and ones, symmetric, zero on the diagonal")
    if A.sum(axis=-1, dtype=np.int64).max(initial=0) > MAX_DEGREE:
        raise GraphError(f"got a node with more than {MAX_DEGREE} neighbours; counts might not fit into 64 bits")
    return A.astype(np.int64)


def d(X: Integers) -> Integers:
    """The diagonal part of a matrix."""
    return X * np.eye(X.shape[-1], dtype=np.int64)


def _p3(A: Integers) -> Integers:
    A2 = A @ A
    P: Integers = A2 @ A + A - A @ d(A2) - d(A2) @ A
    return P


def _p4(A: Integers) -> Integers:
    A2 = A @ A
    A3 = A2 @ A
    P: Integers = A2 @ A2 + A2 + 3 * A * A2 - d(A3) @ A - d(A2) @ A2 - A @ d(A3) - A2 @ d(A2) - A @ d(A2) @ A
    return P


def _p5(A: Integers) -> Integers:
    A2 = A @ A
    A3, A4 = A2 @ A, A2 @ A2
    powers = A4 @ A + 3 * A3 + 4 * A + 3 * A2 * A2 * A + 3 * A * A3 - 4 * A * A2
    left = -d(A4) @ A - d(A3) @ A2 - d(A2) @ A3 + 2 * d(A2) @ d(A2) @ A - 2 * d(A2) @ A - 4 * d(A2) @ A
    right = -A @ d(A4) - A2 @ d(A3) - A3 @ d(A2) + 2 * A @ d(A2) @ d(A2) - 2 * A @ d(A2) - 4 * A @ d(A2)
    triangles = 3 * (A * A2) @ A + 3 * A @ (A * A2)
    inner = d(A2) @ A @ d(A2) - A @ d(A3) @ A - A @ d(A2) @ A2 - A2 @ d(A2) @ A
    P: Integers = powers + left + right + triangles + inner + d(A @ d(A2) @ A) @ A
    return P


def _p6(A: Integers) -> Integers:
    A2 = A @ A
    A3, A4 = A2 @ A, A2 @ A2
    A5, A6 = A4 @ A, A4 @ A2
    powers = A6 + 4 * A4 + 12 * A2 + 3 * A * A4 + 6 * A * A2 * A3 + A2 * A2 * A2 - 4 * A2 * A2 + 44 * A * A2
    left = -d(A5) @ A - d(A4) @ A2 - d(A3) @ A3 - 5 * d(A3) @ A - d(A2) @ A4 - 7 * d(A2) @ A2
    left += 2 * d(A2) @ d(A2) @ A2 + 4 * (d(A2) * d(A3)) @ A
    right = -A @ d(A5) - A4 @ d(A2) - A3 @ d(A3) - 5 * A @ d(A3) - A2 @ d(A4) - 7 * A2 @ d(A2)
    right += 2 * A2 @ d(A2) @ d(A2) + 4 * A @ (d(A2) * d(A3))
    both = d(A2) @ A @ d(A3) + d(A3) @ A @ d(A2) + d(A2) @ A2 @ d(A2)

    left_edges = 2 * (A * A3) @ A + 2 * (A * A2 * A2) @ A + (A2 * A2 * A) @ A - 3 * (A * A2) @ A + (A * A3) @ A
    left_edges += (A * A2) @ A2 + 2 * (A * A2) @ A2 - (A * A2) @ A
    right_edges = 2 * A @ (A * A3) + 2 * A @ (A * A2 * A2) + A @ (A2 * A2 * A) - 3 * A @ (A * A2) + A @ (A * A3)
    right_edges += A2 @ (A * A2) + 2 * A2 @ (A * A2) - A @ (A * A2)
    chords = -8 * A * (A @ (A * A2)) - 8 * A * ((A * A2) @ A) - 12 * d(A2) @ (A * A2) - 12 * (A * A2) @ d(A2)

    inner = -A @ d(A4) @ A - A @ d(A2) @ A3 - A3 @ d(A2) @ A - A @ d(A3) @ A2 - A2 @ d(A3) @ A - A2 @ d(A2) @ A2
    inner += -10 * A @ d(A2) @ A + 2 * A @ d(A2) @ d(A2) @ A + d(A2) @ A @ d(A2) @ A + A @ d(A2) @ A @ d(A2)
    inner += -3 * A * (A @ d(A2) @ A) - 4 * A @ d((A * A2) @ A) - 4 * A @ d(A @ (A * A2)) + 3 * A @ (A * A2) @ A
    inner += -4 * d(A @ (A * A2)) @ A - 4 * d((A * A2) @ A) @ A

    nested = d(A @ d(A3) @ A) @ A + d(A @ d(A2) @ A) @ A2 + d(A @ d(A2) @ A2) @ A + d(A2 @ d(A2) @ A) @ A
    nested += A @ d(A @ d(A3) @ A) + A2 @ d(A @ d(A2) @ A) + A @ d(A2 @ d(A2) @ A) + A @ d(A @ d(A2) @ A2)
    nested += A @ d(A @ d(A2) @ A) @ A
    P: Integers = powers + left + right + both + left_edges + right_edges + chords + inner + nested
    return P


_FORMULAS: dict[int, Callable[[Integers], Integers]] = {2: lambda A: A @ A, 3: _p3, 4: _p4, 5: _p5, 6: _p6}
