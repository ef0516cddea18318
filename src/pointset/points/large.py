"""A few eigenpairs of a large graph, component by component: :func:`solve_large`.

Z of a graph is block diagonal, one block for each component, so its eigenpairs are those of the blocks. Small
components are solved in dense stacks, large ones by Lanczos iteration (:func:`extremal_pairs`), and the union is cut at
k pairs with whole eigenspaces. So an eigenvalue that many components share, such as 1 of D^-½AD^-½, is found as often
as it occurs, which Lanczos iteration on the whole graph would not promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from scipy.sparse.csgraph import connected_components

from pointset.arrays import Flags, Floats, Integers
from pointset.errors import ConvergenceError, RankError
from pointset.machine import check_fits
from pointset.points.forecast import check_dense_fits
from pointset.points.graphs import starts
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
_MOST_RESTARTS = 300  # a spectrum that is not resolved by then lies too densely for this method
_EXTRA = 64  # how many pairs beyond k an eigenspace of one component may ask of Lanczos iteration


class ExtremalPairs(NamedTuple):
    """The k (or more) first eigenpairs in the order asked for, ascending in λ."""

    eigenvalues: Floats  # (r,)
    eigenvectors: Floats  # (n, r)
    spectral_error: float  # ‖Z − UΛUᵀ‖₂; 0 where nothing non-zero is left
    frobenius_error: float
    residual: float  # largest ‖Zu − λu‖


class _Part(NamedTuple):
    """Eigenpairs of some components of c nodes."""

    values: Floats  # (K,)
    nodes: Integers  # (K, c) where each vector is not zero
    vectors: Floats  # (K, c)
    left_out: float  # largest |λ| of these components that is not here
    exact: bool  # not by iteration


def solve_large(
    matrix: scipy.sparse.csr_array, k: int, which: Which, *, name: str, progress: bool | None = None
) -> ExtremalPairs:
    """At least k eigenpairs of a graph (fewer if its rank is smaller), whole eigenspaces; ``name`` is for errors."""
    n = matrix.shape[0]
    parts = list(_parts(matrix, k, which, name, progress))
    if not parts:
        return ExtremalPairs(np.zeros(0), np.zeros((n, 0)), 0.0, 0.0, 0.0)
    found = np.concatenate([part.values for part in parts])
    place = np.argsort(found, kind="stable")
    first = np.sort(order_of(found, which))[::-1][: min(k, len(found))]
    if all(part.exact for part in parts):
        same = spectral_tolerance(n, float(np.abs(found).max()))
    else:
        same = _SAME_EIGENVALUE * float(np.abs(first).max())
    values = _averaged(found[place], same)
    kept = order_of(values, which) >= first[-1] - same
    column = np.full(len(found), -1)
    column[place[kept]] = np.arange(kept.sum())
    vectors = _assembled(parts, column, n, k)
    left_out = max([part.left_out for part in parts] + np.abs(values[~kept]).tolist())
    return _with_errors(matrix, values[kept], vectors, left_out)


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
    return _Part(found.eigenvalues, everywhere, found.eigenvectors.T, found.spectral_error, exact=False)


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
    return _Part(values, nodes[which_matrix], vectors, float(spectra.dropped.max()), exact=True)


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


def _with_errors(matrix: scipy.sparse.csr_array, values: Floats, vectors: Floats, left_out: float) -> ExtremalPairs:
    residual = float(np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max(initial=0.0))
    if left_out == 0.0:
        return ExtremalPairs(values, vectors, 0.0, 0.0, residual)
    square = float(scipy.sparse.linalg.norm(matrix)) ** 2 - float(np.square(values).sum())
    return ExtremalPairs(values, vectors, left_out, max(square, left_out**2) ** 0.5, residual)


# --- one component


def extremal_pairs(
    matrix: scipy.sparse.csr_array, k: int, which: Which = DEFAULT_WHICH, advance: Advance | None = None
) -> ExtremalPairs:
    """Non-zero eigenpairs of a symmetric matrix from an end of its spectrum, whole eigenspaces: k or more if there are.

    Lanczos iteration can miss copies of a repeated eigenvalue. So after every solve the found pairs are deflated and
    the next eigenvalue of what remains is computed: where it reaches the last pair kept, an eigenspace is not complete
    yet and the search goes on. The largest |λ| of what remains is the truncation error ‖Z − UΛUᵀ‖₂.

    ``advance`` is called with 1 after each matrix-vector product.
    """
    n = matrix.shape[0]
    scale = float(scipy.sparse.linalg.norm(matrix, np.inf))
    if scale == 0.0:
        return ExtremalPairs(np.zeros(0), np.zeros((n, 0)), 0.0, 0.0, 0.0)
    zero = 8.0 * n * np.finfo(np.float64).eps * scale
    known = np.zeros((n, 0)) if which == "both" else _kernel(matrix, zero)
    vectors = _solve(matrix, k, which, known, np.zeros(known.shape[1]), advance)[1]
    values, vectors = _rayleigh_ritz(matrix, np.column_stack([known, vectors]))
    crossed = which != "both" and _near_zero(values).sum() > known.shape[1]
    if crossed:  # fewer than k eigenvalues come before zero, or copies of them are still missing
        before = ~_near_zero(values) & (order_of(values, which) > 0)
        if not before.any():
            raise ConvergenceError(_too_dense(k, n, which, "eigenvalues too near to zero"))
        values, vectors = values[before], vectors[:, before]
    ask = 1
    while True:
        order = order_of(values[np.abs(values) > zero], which)
        same = _SAME_EIGENVALUE * float(np.abs(order).max(initial=0.0))
        more, directions = _solve(matrix, ask, which, vectors, values, advance)
        missing = order_of(more, which) >= order.min(initial=np.inf) - same
        if which == "both":
            missing &= np.abs(more) > zero
        if not missing.any():
            break
        values, vectors = _rayleigh_ritz(matrix, np.column_stack([vectors, directions[:, missing]]))
        _check_extra(values, k, which, float(more[missing][0]), same)
        ask = min(2 * ask, 16) if missing.all() else 1
    if crossed and len(order) < k:
        return _all_pairs(matrix, k, which, len(order), advance)
    if which != "both":
        more = _solve(matrix, 1, "both", vectors, values, advance)[0]
    remaining = float(np.abs(more).max())
    # Copies found late push others beyond the k-th place: the same choice as for a dense matrix.
    floor = np.sort(order)[::-1][min(k, len(order)) - 1] - same
    kept = (np.abs(values) > zero) & (order_of(values, which) >= floor)
    remaining = max(remaining, float(np.abs(values[~kept]).max(initial=0.0)))
    averaged = _averaged(values[kept], same)
    return _with_errors(matrix, averaged, vectors[:, kept], remaining if remaining > zero else 0.0)


def _kernel(matrix: scipy.sparse.csr_array, zero: float) -> Floats:
    """What is known of the zero eigenvalues of a connected graph, (n, 0) or (n, 1).

    The kernel of D − A is 1, that of D + A on a bipartite graph is 1 on one side and −1 on the other. They stand at the
    low end of the spectrum, where iteration would not tell them from the smallest eigenvalues that are kept.
    """
    n = matrix.shape[0]
    off = scipy.sparse.tril(matrix, -1) + scipy.sparse.triu(matrix, 1)
    # Two copies of each node, edges from one copy to the other: in two pieces if and only if the graph is bipartite.
    _, piece = connected_components(scipy.sparse.block_array([[None, off], [off, None]]), directed=False)
    for candidate in (np.ones(n), np.where(piece[:n] == piece[0], 1.0, -1.0)):
        if np.abs(matrix @ candidate).max() <= zero:
            kernel: Floats = candidate[:, None] / n**0.5
            return kernel
    return np.zeros((n, 0))


def _near_zero(values: Floats) -> Flags:
    near: Flags = np.abs(values) <= _SAME_EIGENVALUE * np.abs(values).max()
    return near


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
    matrix: scipy.sparse.csr_array, k: int, which: Which, found: Floats, values: Floats, advance: Advance | None
) -> tuple[Floats, Floats]:
    """The k first pairs of what remains of Z without the pairs (Λ, U) found so far.

    At one end the operator is ±Z + c·I, with c so large that it has no negative eigenvalue. Deflated pairs have its
    eigenvalue 0, so they come last.
    """
    sign, shift = (-1.0 if which == "smallest" else 1.0), 0.0
    if which != "both":  # Gershgorin's circles
        diagonal = matrix.diagonal()
        radius = np.asarray(abs(matrix).sum(axis=1)).reshape(-1) - np.abs(diagonal)
        shift = max(0.0, float((radius - sign * diagonal).max()))
    weights = sign * values + shift

    def apply(vector: Floats) -> Floats:
        if advance is not None:
            advance(1)
        flat = vector.reshape(-1)
        return np.asarray(sign * (matrix @ flat) + shift * flat - found @ (weights * (found.T @ flat)))

    n = matrix.shape[0]
    # A start of its own for each call: Lanczos sees of an eigenspace only what its start vector has of it, and after
    # deflation the first start has nothing left there, so that missing copies would stay unseen.
    start = np.random.default_rng(found.shape[1]).standard_normal(n)
    start -= found @ (found.T @ start)
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=apply, dtype=np.float64)
    try:
        solved, vectors = scipy.sparse.linalg.eigsh(
            operator,
            k,
            which="LM" if which == "both" else "LA",
            v0=start,
            ncv=min(n, max(2 * k + 1, _KRYLOV_DIMENSION)),
            tol=_SOLVER_TOLERANCE[which],
            maxiter=_MOST_RESTARTS,
        )
    except scipy.sparse.linalg.ArpackError as error:
        raise ConvergenceError(_too_dense(k, n, which, str(error))) from None
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
        "its spectrum lies too densely, as both ends do for long chains and the low end of the Laplacian often does. "
        f"{remedy}; components of up to {_DENSE_AFTER_ALL_NODES:,} nodes are solved in any case"
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
