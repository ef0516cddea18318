"""Eigenpairs of many graphs: small ones of one size stacked and solved together, large ones by a sparse solver.

:func:`solve_in_order` works with a pool of single-threaded workers. They are threads: torch's solver runs outside
Python's lock, and nothing has to be copied between processes. Results come in a fixed order, whatever the number of
workers. :func:`decompose` solves a stack of dense matrices, :func:`largest_pairs` finds a few pairs of a sparse one.

Which eigenvalues are zero and which belong together is decided by one relative tolerance, n·ε·max|λ| times a safety
factor, in float64. An absolute cut-off is a known defect: 1e-4 deletes the Fiedler vector of a path of 320 nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Floats, Integers
from pointset.errors import ConvergenceError, MatrixError, RankError
from pointset.machine import check_fits, cores
from pointset.points.graphs import Graph, GraphArrays, consecutive
from pointset.points.matrices import AdjacencyFunction
from pointset.progress import Advance, progress_bar

_STACK_BYTES = 16 * 2**20  # a stack of matrices that stays near the cache; more graphs at once gain nothing
_DENSE_COPIES = 5  # matrix, eigenvectors, workspace of the solver, and what Python still holds
_SPARSE_FROM_NODES = 1500  # with rank=k, larger graphs go to the sparse solver
_DENSE_AFTER_ALL_NODES = 6000  # up to which the dense solver takes over, within a minute, where Lanczos fails

# In units of max(n, 8)·ε·max|λ|, over all graphs of up to 7 nodes and random graphs of up to 300, gaps between equal
# eigenvalues come out below 2 and true gaps above 10⁶ (tests/test_solve.py): the tolerance stands well between.
_SAFETY = 8.0
_SMALLEST_N = 8  # for tiny matrices the error does not shrink with n

_SOLVER_TOLERANCE = 1e-8  # relative residual; the error of an eigenvalue is about its square over the gap
_SAME_EIGENVALUE = 1e-7  # relative; above the solver's error, below gaps worth telling apart in a truncated spectrum
_KRYLOV_DIMENSION = 64  # vectors held at least; fewer restarts than scipy's default, and 0.5 GB at a million nodes
_MOST_RESTARTS = 300  # a spectrum that is not resolved by then lies too densely for this method
_EXTRA = 64  # how many pairs beyond k an eigenspace at the boundary may ask for


class Solved(NamedTuple):
    """Eigenpairs of a few graphs, concatenated in the order of ``graphs``."""

    graphs: Integers  # (B,) which graphs
    ranks: Integers  # (B,)
    spectral_error: Floats  # (B,)
    frobenius_error: Floats  # (B,)
    residual: Floats  # (B,)
    values: NDArray[np.floating]  # (Σ r,)
    vectors: NDArray[np.floating]  # (Σ n·r,)


def solve_in_order(
    graphs: GraphArrays,
    function: AdjacencyFunction,
    rank: int | None,
    *,
    workers: int | None = None,
    progress: bool | None = None,
) -> Generator[Solved, None, None]:
    """Yield the eigenpairs of all graphs, a stack at a time, in an order that depends on the graphs only."""
    check_rank(rank)
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise RankError(f"got workers={workers!r}; expected a whole number of at least 1, or None for all cores")
    function.check(graphs)
    rank = None if rank is None else int(rank)
    _check_memory(graphs, rank)
    stacks = list(_stacks(graphs.num_nodes, rank))

    def solve(stack: Integers) -> Solved:
        if _is_sparse(int(graphs.num_nodes[stack[0]]), rank):
            return _solve_sparse(graphs, function, int(stack[0]), rank or 0, progress)
        matrices = function.dense(_stacked_adjacency(graphs, stack))
        return _solved(stack, matrices, rank, weighted=graphs.weights is not None)

    with progress_bar("Decomposing", len(graphs), show=progress) as advance:
        for solved in _in_order(solve, stacks, workers or cores()):
            advance(len(solved.graphs))
            yield solved


def check_rank(rank: object) -> None:
    """Refuse what is neither None nor a positive whole number."""
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1):
        raise RankError(f"got rank={rank!r}; expected a whole number of at least 1, or None for all eigenpairs")


def _is_sparse(num_nodes: int, rank: int | None) -> bool:
    return rank is not None and num_nodes > _SPARSE_FROM_NODES and rank < num_nodes // 4


def _stacks(num_nodes: Integers, rank: int | None) -> Iterator[Integers]:
    order = np.argsort(num_nodes, kind="stable")
    for same_size in np.split(order, np.flatnonzero(np.diff(num_nodes[order])) + 1):
        if len(same_size):
            n = int(num_nodes[same_size[0]])
            per_stack = 1 if _is_sparse(n, rank) else max(1, _STACK_BYTES // (8 * max(n, 1) ** 2))
            yield from (same_size[at : at + per_stack] for at in range(0, len(same_size), per_stack))


def _check_memory(graphs: GraphArrays, rank: int | None) -> None:
    largest = int(graphs.num_nodes.max(initial=0))
    if _is_sparse(largest, rank):
        return
    remedy = "Pass rank=k (for example rank=64) to keep k extremal eigenpairs with a sparse solver"
    if rank is not None:
        remedy = f"Choose a rank below {largest // 4}: then the sparse solver is used"
    check_fits(_DENSE_COPIES * 8 * largest**2, f"decomposing a graph of {largest:,} nodes needs", remedy)


def _in_order(solve: Callable[[Integers], Solved], stacks: list[Integers], workers: int) -> Iterator[Solved]:
    if len(stacks) <= 1:  # one stack, perhaps one large graph: the solver's own threads help
        yield from map(solve, stacks)
        return
    if workers == 1:  # stacks are small: threads would only wait for each other
        with _single_threaded():
            yield from map(solve, stacks)
        return
    with _single_threaded(), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running: deque[Future[Solved]] = deque()
        try:
            for stack in stacks:  # a few ahead only, so that results do not pile up before a slower reader
                running.append(pool.submit(solve, stack))
                if len(running) > 2 * workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Workers times threads must not exceed the cores; part of torch's setting is shared by all threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _solved(stack: Integers, matrices: torch.Tensor, rank: int | None, *, weighted: bool) -> Solved:
    """Eigenpairs of a stack of matrices (B, n, n)."""
    spectra = decompose(matrices, rank)
    if weighted and matrices.numel():
        entries = matrices.abs()
        smallest = torch.where(entries > 0, entries, torch.inf).amin((-1, -2))
        _check_resolved(stack, matrices.shape[-1], smallest.numpy(), spectra.eigenvalues.abs().amax(-1).numpy())
    values = torch.masked_select(spectra.eigenvalues, spectra.kept)
    vectors = torch.masked_select(spectra.eigenvectors, spectra.kept.unsqueeze(1))  # (n, r) blocks, row by row
    frobenius = residual = np.zeros(len(stack))
    if bool(spectra.dropped.any()):
        rest = torch.where(spectra.kept, 0.0, spectra.eigenvalues)
        frobenius = rest.square().sum(-1).sqrt().numpy()
        difference = matrices @ spectra.eigenvectors - spectra.eigenvectors * spectra.eigenvalues.unsqueeze(1)
        residual = torch.where(spectra.kept, difference.norm(dim=1), 0.0).amax(-1).numpy()
    ranks, spectral = spectra.kept.sum(-1).numpy(), spectra.dropped.numpy()
    return Solved(stack, ranks, spectral, frobenius, residual, values.numpy(), vectors.numpy())


def _check_resolved(stack: Integers, n: int, smallest: Floats, largest: Floats) -> None:
    """Refuse weights so far apart that the small ones drown in the rounding errors of the large ones."""
    lost = smallest < 4 * relative_error_bound(n) * largest
    if lost.any():
        at = int(np.argmax(lost))
        raise MatrixError(
            f"graph {stack[at]}: an entry of its matrix is {smallest[at]:.3g} and its largest eigenvalue "
            f"{largest[at]:.3g}; that is too far apart for double precision, and the small weights would be lost. "
            "Remove the smallest weights, or bring them nearer to each other (for example by their logarithms)"
        )


def _stacked_adjacency(graphs: GraphArrays, stack: Integers) -> torch.Tensor:
    counts = graphs.num_edges[stack]
    at = consecutive(graphs.edge_start[stack], counts)  # where the edges of these graphs lie in the flat arrays
    member = np.repeat(np.arange(len(stack)), counts)
    n = int(graphs.num_nodes[stack[0]])
    adjacency = np.zeros((len(stack), n, n))
    source, target = graphs.edges[:, at]
    weights = 1.0 if graphs.weights is None else graphs.weights[at]
    adjacency[member, source, target] = weights
    adjacency[member, target, source] = weights
    return torch.from_numpy(adjacency)


def _solve_sparse(
    graphs: GraphArrays, function: AdjacencyFunction, index: int, rank: int, progress: bool | None
) -> Solved:
    """One large graph. Isolated nodes are zero rows of every matrix: only the others are solved for."""
    matrix = function.sparse(adjacency_matrix(graphs[index]))
    matrix.eliminate_zeros()
    touched = np.flatnonzero(np.diff(matrix.indptr))
    part = matrix[touched][:, touched]
    if not _is_sparse(len(touched), rank):
        return _solve_as_dense(part, touched, matrix.shape[0], index, rank)
    try:
        with progress_bar(f"Lanczos on {len(touched):,} nodes", None, show=progress) as advance:
            found = largest_pairs(part, rank, advance)
    except ConvergenceError:
        if len(touched) > _DENSE_AFTER_ALL_NODES:
            raise
        return _solve_as_dense(part, touched, matrix.shape[0], index, rank)
    return Solved(
        np.array([index]),
        np.array([len(found.eigenvalues)]),
        np.array([found.spectral_error]),
        np.array([found.frobenius_error]),
        np.array([found.residual]),
        found.eigenvalues,
        _spread(found.eigenvectors.reshape(-1), touched, matrix.shape[0]),
    )


def _solve_as_dense(part: scipy.sparse.csr_array, touched: Integers, n: int, index: int, rank: int) -> Solved:
    solved = _solved(np.array([index]), torch.from_numpy(part.toarray()).unsqueeze(0), rank, weighted=True)
    return solved._replace(vectors=_spread(solved.vectors, touched, n))


def _spread(vectors: NDArray[np.floating], nodes: Integers, n: int) -> NDArray[np.floating]:
    """Rows of some nodes → rows of all n, zero for the others; flat on both sides."""
    if len(nodes) == n:
        return vectors
    rank = len(vectors) // len(nodes) if len(nodes) else 0
    rows = np.zeros((n, rank))
    rows[nodes] = vectors.reshape(len(nodes), rank)
    return rows.reshape(-1)


def adjacency_matrix(graph: Graph) -> scipy.sparse.csr_array:
    """The sparse symmetric adjacency matrix of one graph."""
    low, high = graph.edges
    weights = np.ones(len(low)) if graph.weights is None else graph.weights
    off = low != high
    rows, columns = np.r_[low, high[off]], np.r_[high, low[off]]
    shape = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.coo_array((np.r_[weights, weights[off]], (rows, columns)), shape=shape).tocsr()


def spectral_tolerance(n: int, largest: Tensor) -> Tensor:
    """Below it an eigenvalue is zero, and a gap between two eigenvalues is none."""
    return _SAFETY * max(n, _SMALLEST_N) * torch.finfo(torch.float64).eps * largest


def relative_error_bound(n: int, precision: float = 0.0) -> float:
    """Bound of |(UΛUᵀ − Z)_ij| / max|λ|: the solver's error, the averaging, and a cast.

    Rows of U have length at most 1, so casting Λ and U to a type of relative precision ε changes an entry by at most
    about 2ε·max|λ|; solver and averaging stay within the tolerance above.
    """
    return 2 * precision + 10 * max(n, _SMALLEST_N) * torch.finfo(torch.float64).eps


class Spectra(NamedTuple):
    """Eigenpairs of B matrices of one size, in ascending order of λ."""

    eigenvalues: Tensor  # (B, n) float64; equal to the last bit inside an eigenspace; zero where not kept
    eigenvectors: Tensor  # (B, n, n) float64, in columns
    kept: Tensor  # (B, n) bool: the eigenvalue is not zero
    dropped: Tensor  # (B,) largest |λ| that was left out because of a bound on the rank, 0 where none was


def decompose(matrices: Tensor, rank: int | None = None) -> Spectra:
    """Eigenpairs of symmetric matrices (B, n, n), float64.

    ``rank=k`` keeps the k largest |λ| and whatever has the same |λ| as the last of them, so that no eigenspace is cut
    and the choice does not depend on rounding or on the order of the nodes.
    """
    try:
        eigenvalues, eigenvectors = torch.linalg.eigh(matrices)
    except RuntimeError as error:
        raise ConvergenceError(f"the eigensolver failed on a {matrices.shape[-1]}-node graph: {error}") from None
    n = matrices.shape[-1]
    magnitude = eigenvalues.abs()
    largest = magnitude.amax(-1, keepdim=True) if n else magnitude.new_zeros(len(matrices), 1)
    tolerance = spectral_tolerance(n, largest)
    kept = magnitude > tolerance
    dropped = largest.new_zeros(len(matrices))
    eigenvalues = averaged_over_eigenspaces(eigenvalues, kept, tolerance)
    if rank is not None and rank < n:
        magnitude = eigenvalues.abs()
        floor = magnitude.topk(rank, dim=-1).values[:, -1:] - tolerance
        left_out = kept & (magnitude < floor)
        dropped = torch.where(left_out, magnitude, 0.0).amax(-1)
        kept = kept & ~left_out
    return Spectra(eigenvalues, eigenvectors, kept, dropped)


def averaged_over_eigenspaces(eigenvalues: Tensor, kept: Tensor, tolerance: Tensor) -> Tensor:
    """Give the eigenvalues of each eigenspace one value, bit for bit; those not kept become 0.

    Without it a learned f would see rounding noise between equal eigenvalues, and the prediction would depend on the
    basis that the solver happened to choose inside the eigenspace.
    """
    if not eigenvalues.shape[-1]:
        return eigenvalues
    gap = eigenvalues.diff(dim=-1) > tolerance
    edge = gap | (kept[:, 1:] != kept[:, :-1])
    first = torch.ones_like(kept[:, :1])  # each matrix starts a new eigenspace
    space = torch.cat([first, edge], dim=-1).flatten().cumsum(0) - 1  # (B·n,)
    count = int(space[-1]) + 1 if len(space) else 0
    total = eigenvalues.new_zeros(count).index_add_(0, space, eigenvalues.flatten())
    size = eigenvalues.new_zeros(count).index_add_(0, space, torch.ones_like(eigenvalues).flatten())
    averaged = (total / size)[space].view_as(eigenvalues)
    return torch.where(kept, averaged, 0.0)


class LargestPairs(NamedTuple):
    """The k (or a few more) eigenpairs of largest |λ|, ascending in λ."""

    eigenvalues: Floats  # (r,)
    eigenvectors: Floats  # (n, r)
    spectral_error: float  # ‖Z − UΛUᵀ‖₂; 0 where nothing non-zero is left
    frobenius_error: float
    residual: float  # largest ‖Zu − λu‖


def largest_pairs(matrix: scipy.sparse.csr_array, k: int, advance: Advance | None = None) -> LargestPairs:
    """Eigenpairs of largest magnitude of a symmetric matrix, whole eigenspaces: at least k unless the rank is smaller.

    Lanczos iteration can miss copies of a repeated eigenvalue. So after every solve the found pairs are deflated and
    the largest eigenvalue of what remains is computed: it is the truncation error ‖Z − UΛUᵀ‖₂, and where it reaches the
    smallest pair kept, an eigenspace is not complete yet and the search goes on.

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
