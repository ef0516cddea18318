"""Eigenpairs of many graphs: graphs of one size stacked and solved together, by a pool of single-threaded workers.

The workers are threads: torch's solver runs outside Python's lock, and nothing has to be copied between processes.
Results come in a fixed order, whatever the number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from pointset.errors import ConvergenceError, MatrixError, RankError
from pointset.machine import cores
from pointset.points.graphs import Floats, GraphArrays, Integers
from pointset.points.matrices import AdjacencyMatrixFunction
from pointset.points.memory import check_fits
from pointset.points.sparse import adjacency_matrix, largest_pairs
from pointset.points.spectrum import decompose, relative_error_bound
from pointset.progress import progress_bar

_STACK_BYTES = 16 * 2**20  # a stack of matrices that stays near the cache; more graphs at once gain nothing
_DENSE_COPIES = 5  # matrix, eigenvectors, workspace of the solver, and what Python still holds
_SPARSE_FROM_NODES = 1500  # with rank=k, larger graphs go to the sparse solver
_DENSE_AFTER_ALL_NODES = 6000  # up to which the dense solver takes over, within a minute, where Lanczos fails


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
    function: AdjacencyMatrixFunction,
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
    edge_start = graphs.edge_start

    def solve(stack: Integers) -> Solved:
        if _is_sparse(int(graphs.num_nodes[stack[0]]), rank):
            return _solve_sparse(graphs, function, int(stack[0]), rank or 0, progress)
        matrices = function.dense(_stacked_adjacency(graphs, edge_start, stack))
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
    count = len(stack)
    frobenius = residual = np.zeros(count)
    if bool(spectra.dropped.any()):
        rest = torch.where(spectra.kept, 0.0, spectra.eigenvalues)
        frobenius = rest.square().sum(-1).sqrt().numpy()
        difference = matrices @ spectra.eigenvectors - spectra.eigenvectors * spectra.eigenvalues.unsqueeze(1)
        residual = torch.where(spectra.kept, difference.norm(dim=1), 0.0).amax(-1).numpy()
    return Solved(
        stack,
        spectra.kept.sum(-1).numpy(),
        spectra.dropped.numpy(),
        frobenius,
        residual,
        values.numpy(),
        vectors.numpy(),
    )


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


def _stacked_adjacency(graphs: GraphArrays, edge_start: Integers, stack: Integers) -> torch.Tensor:
    counts = graphs.num_edges[stack]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat(edge_start[stack], counts) + within  # where the edges of these graphs lie in the flat arrays
    member = np.repeat(np.arange(len(stack)), counts)
    n = int(graphs.num_nodes[stack[0]])
    adjacency = np.zeros((len(stack), n, n))
    source, target = graphs.edges[:, at]
    weights = 1.0 if graphs.weights is None else graphs.weights[at]
    adjacency[member, source, target] = weights
    adjacency[member, target, source] = weights
    return torch.from_numpy(adjacency)


def _solve_sparse(
    graphs: GraphArrays, function: AdjacencyMatrixFunction, index: int, rank: int, progress: bool | None
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
