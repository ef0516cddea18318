"""Eigenpairs of many graphs: small ones of one size stacked and solved together, large ones by a sparse solver.

:func:`solve_in_order` works with a pool of single-threaded workers. They are threads: torch's solver runs outside
Python's lock, and nothing has to be copied between processes. Results come in a fixed order, whatever the number of
workers. A stack of dense matrices is solved in ``spectra.py``, a few pairs of a large graph in ``large.py``.
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

from pointset.arrays import Floats, Integers
from pointset.errors import RankError
from pointset.machine import cores
from pointset.points.forecast import check_dense_fits, is_sparse
from pointset.points.graphs import Graph, GraphArrays, consecutive
from pointset.points.large import solve_large
from pointset.points.matrices import AdjacencyFunction
from pointset.points.spectra import DEFAULT_WHICH, STACK_BYTES, Which, check_resolved, check_which, decompose
from pointset.progress import progress_bar


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
    which: Which = DEFAULT_WHICH,
    *,
    workers: int | None = None,
    progress: bool | None = None,
) -> Generator[Solved, None, None]:
    """Yield the eigenpairs of all graphs, a stack at a time, in an order that depends on the graphs only."""
    check_rank(rank)
    check_which(which, rank)
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise RankError(f"got workers={workers!r}; expected a whole number of at least 1, or None for all cores")
    function.check(graphs)
    rank = None if rank is None else int(rank)
    _check_memory(graphs, rank)
    stacks = list(_stacks(graphs.num_nodes, rank))

    def solve(stack: Integers) -> Solved:
        if rank is not None and is_sparse(int(graphs.num_nodes[stack[0]]), rank):
            return _solve_sparse(graphs, function, int(stack[0]), rank, which, progress)
        matrices = function.dense(_stacked_adjacency(graphs, stack))
        return _solved(stack, matrices, rank, which, weighted=graphs.weights is not None)

    with progress_bar("Decomposing", len(graphs), show=progress) as advance:
        for solved in _in_order(solve, stacks, workers or cores()):
            advance(len(solved.graphs))
            yield solved


def check_rank(rank: object) -> None:
    """Refuse what is neither None nor a positive whole number."""
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1):
        raise RankError(f"got rank={rank!r}; expected a whole number of at least 1, or None for all eigenpairs")


def _stacks(num_nodes: Integers, rank: int | None) -> Iterator[Integers]:
    order = np.argsort(num_nodes, kind="stable")
    for same_size in np.split(order, np.flatnonzero(np.diff(num_nodes[order])) + 1):
        if len(same_size):
            n = int(num_nodes[same_size[0]])
            per_stack = 1 if is_sparse(n, rank) else max(1, STACK_BYTES // (8 * max(n, 1) ** 2))
            yield from (same_size[at : at + per_stack] for at in range(0, len(same_size), per_stack))


def _check_memory(graphs: GraphArrays, rank: int | None) -> None:
    largest = int(graphs.num_nodes.max(initial=0))
    if not is_sparse(largest, rank):
        check_dense_fits(largest, rank)


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


def _solved(stack: Integers, matrices: torch.Tensor, rank: int | None, which: Which, *, weighted: bool) -> Solved:
    """Eigenpairs of a stack of matrices (B, n, n)."""
    spectra = decompose(matrices, rank, which)
    if weighted:
        check_resolved(matrices, spectra.eigenvalues, stack.tolist())
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
    graphs: GraphArrays, function: AdjacencyFunction, index: int, rank: int, which: Which, progress: bool | None
) -> Solved:
    """One large graph."""
    matrix = function.sparse(adjacency_matrix(graphs[index]))
    matrix.eliminate_zeros()
    found = solve_large(matrix, rank, which, name=str(index), progress=progress)
    return Solved(
        np.array([index]),
        np.array([len(found.eigenvalues)]),
        np.array([found.spectral_error]),
        np.array([found.frobenius_error]),
        np.array([found.residual]),
        found.eigenvalues,
        found.eigenvectors.reshape(-1),
    )


def adjacency_matrix(graph: Graph) -> scipy.sparse.csr_array:
    """The sparse symmetric adjacency matrix of one graph."""
    low, high = graph.edges
    weights = np.ones(len(low)) if graph.weights is None else graph.weights
    off = low != high
    rows, columns = np.r_[low, high[off]], np.r_[high, low[off]]
    shape = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.coo_array((np.r_[weights, weights[off]], (rows, columns)), shape=shape).tocsr()
