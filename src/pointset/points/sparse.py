"""A few extremal eigenpairs of one large sparse matrix, whole eigenspaces, with proof of what was left out.

Lanczos iteration can miss copies of a repeated eigenvalue. So after every solve the found pairs are deflated and the
largest eigenvalue of what remains is computed: it is the truncation error ‖Z − UΛUᵀ‖₂, and where it reaches the
smallest pair kept, an eigenspace is not complete yet and the search goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from pointset.errors import ConvergenceError, RankError
from pointset.points.graphs import Floats, Graph
from pointset.progress import Advance

_SOLVER_TOLERANCE = 1e-8  # relative residual; the error of an eigenvalue is about its square over the gap
_SAME_EIGENVALUE = 1e-7  # relative; above the solver's error, below gaps worth telling apart in a truncated spectrum
_KRYLOV_DIMENSION = 64  # vectors held at least; fewer restarts than scipy's default, and 0.5 GB at a million nodes
_MOST_RESTARTS = 300  # a spectrum that is not resolved by then lies too densely for this method
_EXTRA = 64  # how many pairs beyond k an eigenspace at the boundary may ask for


class LargestPairs(NamedTuple):
    """The k (or a few more) eigenpairs of largest |λ|, ascending in λ."""

    eigenvalues: Floats  # (r,)
    eigenvectors: Floats  # (n, r)
    spectral_error: float  # ‖Z − UΛUᵀ‖₂; 0 where nothing non-zero is left
    frobenius_error: float
    residual: float  # largest ‖Zu − λu‖


def adjacency_matrix(graph: Graph) -> scipy.sparse.csr_array:
    """The sparse symmetric adjacency matrix of one graph."""
    low, high = graph.edges
    weights = np.ones(len(low)) if graph.weights is None else graph.weights
    off = low != high
    rows, columns = np.r_[low, high[off]], np.r_[high, low[off]]
    shape = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.coo_array((np.r_[weights, weights[off]], (rows, columns)), shape=shape).tocsr()


def largest_pairs(matrix: scipy.sparse.csr_array, k: int, advance: Advance | None = None) -> LargestPairs:
    """Eigenpairs of largest magnitude of a symmetric matrix, at least k unless the rank is smaller.

    ``advance`` is called with 1 after each matrix-vector product.
    """
    n = matrix.shape[0]
    scale = float(scipy.sparse.linalg.norm(matrix, np.inf))
    if scale == 0.0:
        return LargestPairs(np.zeros(0), np.zeros((n, 0)), 0.0, 0.0, 0.0)
    zero = 8.0 * n * np.finfo(np.float64).eps * scale
    vectors = _solve(matrix, k, np.zeros((n, 0)), np.zeros(0), advance)[1]
    values, vectors = _rayleigh_ritz(matrix, vectors)
    ask = 1
    while True:
        more, directions = _solve(matrix, ask, vectors, values, advance)
        smallest = float(np.abs(values).min())
        missing = (np.abs(more) > zero) & (np.abs(more) >= smallest * (1 - _SAME_EIGENVALUE))
        if not missing.any():
            remaining = float(np.abs(more).max())
            break
        values, vectors = _rayleigh_ritz(matrix, np.column_stack([vectors, directions[:, missing]]))
        if len(values) >= k + _EXTRA:
            raise RankError(
                f"rank={k}: the eigenvalue {more[missing][0]:.6g} at the boundary occurs more than {_EXTRA} times, so "
                "the pairs cannot be cut there without splitting an eigenspace. A graph of many components repeats its "
                "extremal eigenvalues: take its largest component, or choose another rank or matrix"
            )
        ask = min(2 * ask, 16) if missing.all() else 1
    # Copies found late push others beyond the k-th place: the same choice as for a dense matrix.
    floor = np.sort(np.abs(values))[::-1][min(k, len(values)) - 1] * (1 - _SAME_EIGENVALUE)
    kept = np.abs(values) >= max(floor, zero)
    remaining = max(remaining, float(np.abs(values[~kept]).max(initial=0.0)))
    values, vectors = values[kept], vectors[:, kept]
    values = _averaged(values)
    residual = float(np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max(initial=0.0))
    square = float(scipy.sparse.linalg.norm(matrix)) ** 2 - float(np.square(values).sum())
    if remaining <= zero:
        return LargestPairs(values, vectors, 0.0, 0.0, residual)
    return LargestPairs(values, vectors, remaining, max(square, 0.0) ** 0.5, residual)


def _solve(
    matrix: scipy.sparse.csr_array, k: int, found: Floats, values: Floats, advance: Advance | None
) -> tuple[Floats, Floats]:
    """The k pairs of largest |λ| of Z − UΛUᵀ for the pairs (Λ, U) found so far."""

    def apply(vector: Floats) -> Floats:
        if advance is not None:
            advance(1)
        flat = vector.reshape(-1)
        return np.asarray(matrix @ flat - found @ (values * (found.T @ flat)))

    n = matrix.shape[0]
    # A start of its own for each call: Lanczos sees of an eigenspace only what its start vector has of it, and after
    # deflation the first start has nothing left there, so that missing copies would stay unseen.
    start = np.random.default_rng(found.shape[1]).standard_normal(n)
    start -= found @ (found.T @ start)
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=apply, dtype=np.float64)
    try:
        pairs = scipy.sparse.linalg.eigsh(
            operator,
            k,
            which="LM",
            v0=start,
            ncv=min(n, max(2 * k + 1, _KRYLOV_DIMENSION)),
            tol=_SOLVER_TOLERANCE,
            maxiter=_MOST_RESTARTS,
        )
    except scipy.sparse.linalg.ArpackError as error:
        raise ConvergenceError(
            f"the sparse eigensolver did not converge for {k} pairs of a {n}-node graph ({error}): the ends of its "
            "spectrum lie too densely, as those of long chains do. Try another matrix or a larger rank"
        ) from None
    return pairs


def _rayleigh_ritz(matrix: scipy.sparse.csr_array, vectors: Floats) -> tuple[Floats, Floats]:
    """The best pairs inside the space that ``vectors`` span, orthonormal."""
    basis = np.linalg.qr(vectors)[0]
    small = basis.T @ (matrix @ basis)
    values, mix = np.linalg.eigh((small + small.T) / 2)
    return values, basis @ mix


def _averaged(values: Floats) -> Floats:
    """One value, bit for bit, inside each eigenspace (values ascending)."""
    if not len(values):
        return values
    gap = np.diff(values) > _SAME_EIGENVALUE * np.abs(values).max()
    space = np.r_[0, np.cumsum(gap)]
    mean: Floats = np.bincount(space, values) / np.bincount(space)
    return mean[space]
