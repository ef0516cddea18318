"""A few eigenpairs of a large graph, component by component: :func:`solve_large`.

Z of a graph is block diagonal, one block for each component, so its eigenpairs are those of the blocks. Small
components are solved in dense stacks, large ones by Lanczos iteration (:func:`extremal_pairs`) with Z or, where its
factors are sparse, with the inverse at an end (``shift_invert.py``). The union is cut at k pairs with whole
eigenspaces. So an eigenvalue that many components share, such as 1 of D^-½AD^-½, is found as often as it occurs, which
iteration on the whole graph would not promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from scipy.sparse.csgraph import connected_components

from pointset.arrays import Floats, Integers
from pointset.errors import ConvergenceError, RankError
from pointset.machine import check_fits
from pointset.points.forecast import check_dense_fits
from pointset.points.graphs import starts
from pointset.points.shift_invert import Inverse, eliminated, inverses_at_end, known_vector
from pointset.points.spectra import (
    DEFAULT_WHICH,
    STACK_BYTES,
    Which,
    check_resolved,
    decompose,
    order_of,
    spectral_tolerance,
)
from pointset.progress import Advance, progress_bar

_DENSE_UP_TO_NODES = 400  # a component of this size costs no more by the dense solver, which resolves every eigenspace
_DENSE_AFTER_ALL_NODES = 6000  # up to which the dense solver takes over, within a minute, where Lanczos fails

_SOLVER_TOLERANCE = {"both": 1e-8, "largest": 1e-10, "smallest": 1e-10}
"""Relative residual. The error of an eigenvalue is about its square over the gap. At one end, residuals are relative to
the whole width of the spectrum, in which the smallest eigenvalues of D − A are tiny."""
_SAME_EIGENVALUE = 1e-7  # relative; above the solver's error, below gaps worth telling apart in a truncated spectrum
_KRYLOV_DIMENSION = 64  # vectors held at least; fewer restarts than scipy's default, and 0.5 GB at a million nodes
_SMALL_DIMENSION = 20  # likewise where few products are needed, or little precision
_MOST_RESTARTS = 300  # a spectrum that is not resolved by then lies too densely for this method
_MOST_INVERSE_RESTARTS = 10  # it takes one to three, unless the shift is not near to the spectrum
_RESOLVED_BY_INVERSE = 256 * float(np.finfo(np.float64).eps)  # relative to ‖Z‖; gaps below are rounding
_FEW_RESTARTS = 10  # after which other ways are tried, where there are any
_ERROR_TOLERANCE, _ROUGH_TOLERANCE = 1e-5, 1e-4  # at the other end, of which only the truncation error is wanted
_EXTRA = 64  # how many pairs beyond k an eigenspace of one component may ask of Lanczos iteration


class ExtremalPairs(NamedTuple):
    """The k (or more) first eigenpairs in the order asked for, ascending in λ."""

    eigenvalues: Floats  # (r,)
    eigenvectors: Floats  # (n, r)
    spectral_error: float  # ‖Z − UΛUᵀ‖₂; 0 where nothing non-zero is left
    frobenius_error: float
    residual: float  # largest ‖Zu − λu‖
    resolution: float  # eigenvalues that differ by less are taken for equal


class _Part(NamedTuple):
    """Eigenpairs of some components of c nodes."""

    values: Floats  # (K,)
    nodes: Integers  # (K, c) where each vector is not zero
    vectors: Floats  # (K, c)
    left_out: float  # largest |λ| of these components that is not here
    resolution: float  # smaller gaps are none


def solve_large(
    matrix: scipy.sparse.csr_array, k: int, which: Which, *, name: str, progress: bool | None = None
) -> ExtremalPairs:
    """At least k eigenpairs of a graph (fewer if its rank is smaller), whole eigenspaces; ``name`` is for errors."""
    n = matrix.shape[0]
    parts = list(_parts(matrix, k, which, name, progress))
    if not parts:
        return ExtremalPairs(np.zeros(0), np.zeros((n, 0)), 0.0, 0.0, 0.0, 0.0)
    found = np.concatenate([part.values for part in parts])
    place = np.argsort(found, kind="stable")
    first = np.sort(order_of(found, which))[::-1][: min(k, len(found))]
    same = max(part.resolution for part in parts)
    values = _averaged(found[place], same)
    kept = order_of(values, which) >= first[-1] - same
    column = np.full(len(found), -1)
    column[place[kept]] = np.arange(kept.sum())
    vectors = _assembled(parts, column, n, k)
    left_out = max([part.left_out for part in parts] + np.abs(values[~kept]).tolist())
    return _with_errors(matrix, values[kept], vectors, left_out, same)


def _parts(matrix: scipy.sparse.csr_array, k: int, which: Which, name: str, progress: bool | None) -> Iterator[_Part]:
    """The eigenpairs of all components; isolated nodes are zero rows of every matrix and have none."""
    component = connected_components(matrix, directed=False)[1]
    sizes = np.bincount(component)
    filled = np.bincount(component, np.diff(matrix.indptr)) > 0
    order = np.argsort(component, kind="stable")
    local = np.empty_like(order)  # the number of a node inside of its component
    local[order] = np.arange(len(order)) - np.repeat(starts(sizes), sizes)
    first = starts(sizes)
    for size in np.unique(sizes[filled]).tolist():
        members = np.flatnonzero(filled & (sizes == size))
        nodes = order[first[members][:, None] + np.arange(size)]  # (B, c)
        if size > _DENSE_UP_TO_NODES and k < size // 4:
            yield from (_solve_component(matrix, one, local, k, which, name, progress) for one in nodes)
            continue
        per_stack = max(1, STACK_BYTES // (8 * size**2))
        for at in range(0, len(nodes), per_stack):
            yield _solve_dense(matrix, nodes[at : at + per_stack], local, k, which, name)


def _solve_component(
    matrix: scipy.sparse.csr_array,
    nodes: Integers,
    local: Integers,
    k: int,
    which: Which,
    name: str,
    progress: bool | None,
) -> _Part:
    try:
        with progress_bar(f"Lanczos on {len(nodes):,} nodes", None, show=progress) as advance:
            found = extremal_pairs(matrix[nodes][:, nodes], k, which, advance)
    except (ConvergenceError, RankError):
        if len(nodes) > _DENSE_AFTER_ALL_NODES:
            raise
        return _solve_dense(matrix, nodes[None], local, k, which, name)
    everywhere = np.broadcast_to(nodes, (len(found.eigenvalues), len(nodes)))
    return _Part(found.eigenvalues, everywhere, found.eigenvectors.T, found.spectral_error, found.resolution)


def _solve_dense(
    matrix: scipy.sparse.csr_array, nodes: Integers, local: Integers, k: int, which: Which, name: str
) -> _Part:
    """Components of one size, nodes (B, c), stacked."""
    count, size = nodes.shape
    check_dense_fits(size, k)
    rows = matrix[nodes.reshape(-1)]
    at, row = np.divmod(np.repeat(np.arange(count * size), np.diff(rows.indptr)), size)
    stack = np.zeros((count, size, size))
    stack[at, row, local[rows.indices]] = rows.data
    dense = torch.from_numpy(stack)
    spectra = decompose(dense, k, which)
    check_resolved(dense, spectra.eigenvalues, [name] * count)
    which_matrix, which_pair = np.nonzero(spectra.kept.numpy())
    vectors = spectra.eigenvectors.mT.numpy()[which_matrix, which_pair]  # (K, c)
    values = spectra.eigenvalues.numpy()[which_matrix, which_pair]
    resolution = spectral_tolerance(matrix.shape[0], float(np.abs(values).max(initial=0.0)))
    return _Part(values, nodes[which_matrix], vectors, float(spectra.dropped.max()), resolution)


def _assembled(parts: list[_Part], column: Integers, n: int, k: int) -> Floats:
    """The chosen vectors as columns (n, r): the i-th of all vectors goes to column[i], or nowhere if that is -1."""
    rank = int(column.max(initial=-1)) + 1
    check_fits(
        4 * 8 * n * rank,
        f"rank={k} cuts through an eigenvalue that occurs often, and whole eigenspaces make it {rank:,} eigenpairs of "
        f"{n:,} nodes, which need",
        "Take the largest component of the graph, where extremal eigenvalues are rarely repeated, or another matrix",
    )
    vectors = np.zeros((n, rank))
    done = 0
    for part in parts:
        columns = column[done : done + len(part.values)]
        done += len(part.values)
        chosen = columns >= 0
        vectors[part.nodes[chosen], columns[chosen, None]] = part.vectors[chosen]
    return vectors


def _with_errors(
    matrix: scipy.sparse.csr_array, values: Floats, vectors: Floats, left_out: float, resolution: float
) -> ExtremalPairs:
    residual = float(np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max(initial=0.0))
    if left_out == 0.0:
        return ExtremalPairs(values, vectors, 0.0, 0.0, residual, resolution)
    square = float(scipy.sparse.linalg.norm(matrix)) ** 2 - float(np.square(values).sum())
    return ExtremalPairs(values, vectors, left_out, max(square, left_out**2) ** 0.5, residual, resolution)


# --- one component


class _End(NamedTuple):
    """Pairs of one component from an end of its spectrum, not yet cut at k."""

    values: Floats  # (r,) ascending, with those of the kernel if it is known
    vectors: Floats  # (n, r)
    next: float  # |λ| of the first pair that is not among them
    zero: float  # smaller eigenvalues are rounding
    same: float  # and so are smaller gaps
    at_zero: bool  # whether the search ended there

    @property
    def rank(self) -> int:
        """How many are not zero."""
        return int((np.abs(self.values) > self.zero).sum())


def extremal_pairs(
    matrix: scipy.sparse.csr_array, k: int, which: Which = DEFAULT_WHICH, advance: Advance | None = None
) -> ExtremalPairs:
    """Non-zero eigenpairs of a connected graph from an end of its spectrum, whole eigenspaces: k or more if there are.

    At one end the iteration is with the inverse where its factors are sparse, otherwise with Z. Where Z is sparse and
    both ends lie too densely for it, as on a long path, they are solved one by one. The largest |λ| of what
    remains is the truncation error ‖Z − UΛUᵀ‖₂.

    ``advance`` is called with 1 after each product with a vector.
    """
    if not matrix.data.any():
        return ExtremalPairs(np.zeros(0), np.zeros((matrix.shape[0], 0)), 0.0, 0.0, 0.0, 0.0)
    if which == "both":
        end = _both_ends(matrix, k, advance)
        return _cut(matrix, end, k, which, end.next)
    inverted = _by_inverse(matrix, k, which, advance)
    end = inverted or _first_pairs(matrix, k, which, None, advance)
    if end.at_zero and end.rank < k:
        return _all_pairs(matrix, k, which, end.rank, advance)
    if inverted is None:
        remaining = _largest_left(matrix, end, advance)
    else:
        remaining = _other_end(matrix, end, "largest" if which == "smallest" else "smallest", advance)
    return _cut(matrix, end, k, which, remaining)


def _by_inverse(matrix: scipy.sparse.csr_array, k: int, which: Which, advance: Advance | None) -> _End | None:
    """None where the inverse is too costly, or does not help because the shift could not be brought near enough."""
    for inverse in inverses_at_end(matrix, which):
        with suppress(ConvergenceError):
            return _first_pairs(matrix, k, which, inverse, advance, _MOST_INVERSE_RESTARTS)
    return None


def _first_pairs(
    matrix: scipy.sparse.csr_array,
    k: int,
    which: Which,
    inverse: Inverse | None,
    advance: Advance | None,
    restarts: int | None = None,
) -> _End:
    """The k first pairs, and all of the eigenspaces that they belong to.

    Lanczos iteration can miss copies of a repeated eigenvalue. So after every solve the found pairs are deflated and
    the next eigenvalue of what remains is computed: where it reaches the last pair kept, an eigenspace is not complete
    yet and the search goes on.
    """
    n = matrix.shape[0]
    restarts = restarts or _MOST_RESTARTS
    scale = float(scipy.sparse.linalg.norm(matrix, np.inf))
    zero = (8.0 * n * np.finfo(np.float64).eps if inverse is None else _RESOLVED_BY_INVERSE) * scale
    known = np.zeros((n, 0)) if which == "both" else known_vector(matrix, inverse, zero)
    vectors = _solve(matrix, k, which, known, np.zeros(known.shape[1]), inverse, advance, restarts)[1]
    values, vectors = _rayleigh_ritz(matrix, np.column_stack([known, vectors]))
    near_zero = np.abs(values) <= (zero if inverse else _SAME_EIGENVALUE * float(np.abs(values).max()))
    kernel = np.linalg.norm(matrix @ known, axis=0) <= zero
    crossed = which != "both" and near_zero.sum() > kernel.sum()
    if crossed:  # fewer than k eigenvalues come before zero, or copies of them are still missing
        before = ~near_zero & (order_of(values, which) > 0)
        if not before.any():
            raise ConvergenceError(_too_dense(k, n, which, "eigenvalues too near to zero"))
        values, vectors = values[before], vectors[:, before]
    ask = 1
    while True:
        order = order_of(values[np.abs(values) > zero], which)
        same = _SAME_EIGENVALUE * float(np.abs(order).max(initial=0.0)) if inverse is None else zero
        more, directions = _solve(matrix, ask, which, vectors, values, inverse, advance, restarts)
        missing = order_of(more, which) >= order.min(initial=np.inf) - same
        if which == "both":
            missing &= np.abs(more) > zero
        if not missing.any():
            return _End(values, vectors, float(np.abs(more).max()), zero, same, crossed)
        values, vectors = _rayleigh_ritz(matrix, np.column_stack([vectors, directions[:, missing]]))
        _check_extra(values, k, which, float(more[missing][0]), same)
        ask = min(2 * ask, 16) if missing.all() else 1


def _both_ends(matrix: scipy.sparse.csr_array, k: int, advance: Advance | None) -> _End:
    if eliminated(matrix).is_affordable:
        with suppress(ConvergenceError):
            return _first_pairs(matrix, k, "both", None, advance, _FEW_RESTARTS)
        low, high = (_by_inverse(matrix, k, end, advance) for end in ("smallest", "largest"))
        if low is not None and high is not None:
            return _union(low, high)
    return _first_pairs(matrix, k, "both", None, advance)


def _other_end(matrix: scipy.sparse.csr_array, end: _End, other: Which, advance: Advance | None) -> float:
    """The largest |λ| left, where one end is so dense that the other may be, too."""
    try:
        return _largest_left(matrix, end, advance, _ERROR_TOLERANCE, _FEW_RESTARTS)
    except ConvergenceError:
        if (found := _by_inverse(matrix, 1, other, advance)) is None:
            return _largest_left(matrix, end, advance, _ROUGH_TOLERANCE)
        return max(end.next, float(np.abs(found.values).max()))


def _largest_left(
    matrix: scipy.sparse.csr_array,
    end: _End,
    advance: Advance | None,
    tolerance: float | None = None,
    restarts: int = _MOST_RESTARTS,
) -> float:
    more = _solve(matrix, 1, "both", end.vectors, end.values, None, advance, restarts, tolerance)[0]
    return float(np.abs(more).max())


def _union(low: _End, high: _End) -> _End:
    """Pairs of both ends; all others lie between the next ones of either."""
    return _End(
        np.concatenate([low.values, high.values]),
        np.column_stack([low.vectors, high.vectors]),
        max(low.next, high.next),
        max(low.zero, high.zero),
        max(low.same, high.same),
        at_zero=False,
    )


def _cut(matrix: scipy.sparse.csr_array, end: _End, k: int, which: Which, remaining: float) -> ExtremalPairs:
    """The k first, and those equal to the last of them. Copies found late may have pushed others beyond that place."""
    filled = np.abs(end.values) > end.zero
    order = order_of(end.values, which)
    first = np.sort(order[filled])[::-1][:k]
    kept = filled & (order >= first.min(initial=np.inf) - end.same)
    remaining = max(remaining, float(np.abs(end.values[~kept]).max(initial=0.0)))
    averaged = _averaged(end.values[kept], end.same)
    left_out = remaining if remaining > end.zero else 0.0
    return _with_errors(matrix, averaged, end.vectors[:, kept], left_out, end.same)


def _all_pairs(
    matrix: scipy.sparse.csr_array, k: int, which: Which, before: int, advance: Advance | None
) -> ExtremalPairs:
    """For a component that has fewer than k eigenvalues before zero: all it has, if they are few."""
    everything = extremal_pairs(matrix, k, "both", advance)
    if everything.spectral_error == 0.0:
        return everything
    raise ConvergenceError(
        f"rank={k}, which={which!r}: a component of {matrix.shape[0]:,} nodes has only {before} "
        f"{'positive' if which == 'largest' else 'negative'} eigenvalues, and the sparse solver cannot look beyond "
        f"zero. Ask for rank={before} or less, or for which='both'"
    )


def _check_extra(values: Floats, k: int, which: Which, boundary: float, same: float) -> None:
    if len(values) < k + _EXTRA:
        return
    before = int((order_of(values, which) > order_of(np.array([boundary]), which)[0] + same).sum())
    smaller = f"Ask for rank={before} or less, which ends before it, or choose" if before else "Choose"
    raise RankError(
        f"rank={k}: the eigenvalue {boundary:.6g} at the boundary occurs more than {_EXTRA} times in one component, so "
        f"the pairs cannot be cut there without splitting an eigenspace. {smaller} another matrix or the other end of "
        "the spectrum (which='largest' or 'smallest')"
    )


def _solve(
    matrix: scipy.sparse.csr_array,
    k: int,
    which: Which,
    found: Floats,
    values: Floats,
    inverse: Inverse | None,
    advance: Advance | None,
    restarts: int,
    tolerance: float | None = None,
) -> tuple[Floats, Floats]:
    """The k first pairs of what remains of Z without the pairs (Λ, U) found so far.

    At one end the operator is the inverse, or ±Z + c·I, with c so large that it has no negative eigenvalue. Deflated
    pairs have its eigenvalue 0, so they come last.
    """
    sign, shift = (-1.0 if which == "smallest" else 1.0), 0.0
    if which != "both" and inverse is None:  # Gershgorin's circles
        diagonal = matrix.diagonal()
        radius = np.asarray(abs(matrix).sum(axis=1)).reshape(-1) - np.abs(diagonal)
        shift = max(0.0, float((radius - sign * diagonal).max()))
    weights = sign * values + shift

    def without_found(vector: Floats) -> Floats:
        rest: Floats = vector - found @ (found.T @ vector)
        return rest

    def apply(vector: Floats) -> Floats:
        if advance is not None:
            advance(1)
        flat = vector.reshape(-1)
        if inverse is not None:
            return without_found(inverse.apply(without_found(flat)))
        return np.asarray(sign * (matrix @ flat) + shift * flat - found @ (weights * (found.T @ flat)))

    n = matrix.shape[0]
    # A start of its own for each call: Lanczos sees of an eigenspace only what its start vector has of it, and after
    # deflation the first start has nothing left there, so that missing copies would stay unseen.
    start = without_found(np.random.default_rng(found.shape[1]).standard_normal(n))
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=apply, dtype=np.float64)
    try:
        solved, vectors = scipy.sparse.linalg.eigsh(
            operator,
            k,
            which="LM" if which == "both" else "LA",
            v0=start,
            ncv=min(
                n, max(2 * k + 1, _KRYLOV_DIMENSION if tolerance is None and inverse is None else _SMALL_DIMENSION)
            ),
            tol=tolerance or _SOLVER_TOLERANCE[which],
            maxiter=restarts,
        )
    except scipy.sparse.linalg.ArpackError as error:
        raise ConvergenceError(_too_dense(k, n, which, str(error))) from None
    if inverse is not None:
        return inverse.eigenvalues(solved), vectors
    return sign * (solved - shift), vectors


def _too_dense(k: int, n: int, which: Which, reason: str) -> str:
    """What to do where neighbouring eigenvalues lie too near to each other for iteration."""
    remedy = "Try another matrix or a larger rank"
    if which == "smallest":
        remedy = (
            "Take matrix='normalized_adjacency', whose ends are found more easily (its largest eigenvalues belong to "
            "the slow modes that are the smallest of the Laplacian), or which='largest', or a larger rank"
        )
    return (
        f"the sparse eigensolver did not converge for {k} pairs of a component of {n:,} nodes ({reason}): that end of "
        "its spectrum lies too densely, and the inverse, which would help, is forecast to take too long or too much "
        f"memory. {remedy}; components of up to {_DENSE_AFTER_ALL_NODES:,} nodes are solved in any case"
    )


def _rayleigh_ritz(matrix: scipy.sparse.csr_array, vectors: Floats) -> tuple[Floats, Floats]:
    """The best pairs inside the space that ``vectors`` span, orthonormal."""
    basis = np.linalg.qr(vectors)[0]
    small = basis.T @ (matrix @ basis)
    values, mix = np.linalg.eigh((small + small.T) / 2)
    return values, basis @ mix


def _averaged(values: Floats, same: float) -> Floats:
    """One value, bit for bit, inside each eigenspace (values ascending)."""
    if not len(values):
        return values
    space = np.r_[0, np.cumsum(np.diff(values) > same)]
    mean: Floats = np.bincount(space, values) / np.bincount(space)
    return mean[space]
