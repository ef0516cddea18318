"""The 16 smallest non-zero eigenvalues of D − A: which solver finds them on which graph, in what time.

    python benchmarks/low_end.py [--graphs NAME …] [--solvers NAME …] [--limit SECONDS] [--json FILE]

Of each graph the largest component, by one thread, each pair of graph and solver in a process of its own that is ended
after the limit. "pointset" is the package itself (``rank=16, which="smallest"``), which chooses between the inverse and
Lanczos iteration with the matrix, and proves that no pair was missed; the others are the candidates. Where eigenvalues
differ from those of the smallest residual by more than a thousandth of the first, it is said. ``lobpcg + pyamg`` needs
``pip install pyamg``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

import pointset
from common import machine, report
from pointset.datasets.sources import find_file

Matrix = scipy.sparse.csr_array
Pairs = tuple[NDArray[np.float64], NDArray[np.float64]]
RANK = 16
BLOCK = 24  # vectors that a block method carries, so that a cluster at the end fits
SEED = 0


# --- graphs


def path(nodes: int, *, closed: bool = False) -> Matrix:
    """A path, or a cycle, whose eigenvalues occur twice."""
    node = np.arange(nodes if closed else nodes - 1)
    return adjacency(nodes, np.stack([node, (node + 1) % nodes]))


def grid(side: int, *, diagonals: bool = False) -> Matrix:
    """A square grid, as on paper or as a king walks."""
    node = np.arange(side * side).reshape(side, side)
    steps = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    if diagonals:
        steps += [(node[:-1, :-1], node[1:, 1:]), (node[:-1, 1:], node[1:, :-1])]
    return adjacency(side * side, np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in steps], axis=1))


def regular(nodes: int) -> Matrix:
    """Three random permutations: every node has 6 neighbours, less the few that fall together."""
    draw = np.random.default_rng(SEED)
    return adjacency(nodes, np.concatenate([[np.arange(nodes), draw.permutation(nodes)] for _ in range(3)], axis=1))


def stored(name: str) -> Matrix:
    """A graph of the data folder."""
    with np.load(find_file(f"{name}.npz")) as file:
        edges = file["edges"].T.astype(np.int64)
    return adjacency(int(edges.max()) + 1, edges)


def adjacency(nodes: int, edges: NDArray[np.int64]) -> Matrix:
    """The largest component."""
    one_way = scipy.sparse.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes)).tocsr()
    both = scipy.sparse.csr_array(one_way + one_way.T)
    both.setdiag(0)
    both.eliminate_zeros()
    both.data[:] = 1.0
    component = connected_components(both, directed=False)[1]
    kept = np.flatnonzero(component == np.bincount(component).argmax())
    return both[kept][:, kept]


GRAPHS: dict[str, Callable[[], Matrix]] = {
    "path of 10,000": lambda: path(10_000),
    "cycle of 10,000": lambda: path(10_000, closed=True),
    "grid 100 × 100": lambda: grid(100),
    "minesweeper": lambda: stored("nodes/minesweeper"),
    "cora": lambda: stored("nodes/cora"),
    "luxembourg_osm": lambda: stored("large/luxembourg_osm"),
    "tolokers": lambda: stored("nodes/tolokers"),
    "regular, 100,000": lambda: regular(100_000),
    "king's grid 1,000 × 1,000": lambda: grid(1000, diagonals=True),
}


# --- solvers: D − A of a connected graph → k pairs, ascending, the zero eigenvalue not among them


def lanczos(matrix: Matrix, k: int) -> Pairs:
    """Implicitly restarted, from the low end."""
    values, vectors = scipy.sparse.linalg.eigsh(
        matrix, k + 1, which="SA", ncv=64, tol=1e-10, v0=start(matrix), maxiter=10**6
    )
    return values[1:], vectors[:, 1:]


def shift_invert(matrix: Matrix, k: int) -> Pairs:
    """Lanczos iteration with (Z + c·I)⁻¹ by sparse LU."""
    shift = 1e-9 * 2 * float(matrix.diagonal().max())
    shifted = scipy.sparse.csc_array(matrix + shift * scipy.sparse.eye_array(matrix.shape[0]))
    factors = scipy.sparse.linalg.splu(
        shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    inverse = scipy.sparse.linalg.LinearOperator(matrix.shape, matvec=lambda x: centred(factors.solve(centred(x))))
    values, vectors = scipy.sparse.linalg.eigsh(inverse, k, which="LA", v0=start(matrix))
    order = np.argsort(-values)
    return 1 / values[order] - shift, vectors[:, order]


def lobpcg(matrix: Matrix, k: int, *, multigrid: bool = False) -> Pairs:
    """A block method, with the diagonal or algebraic multigrid as preconditioner."""
    inverse = scipy.sparse.diags_array(1 / matrix.diagonal())
    if multigrid:
        import pyamg  # type: ignore[import-not-found]

        levels = pyamg.smoothed_aggregation_solver(scipy.sparse.csr_matrix(matrix), B=np.ones((matrix.shape[0], 1)))
        inverse = levels.aspreconditioner()
    n = matrix.shape[0]
    block = np.random.default_rng(SEED).standard_normal((n, BLOCK))
    values, vectors = scipy.sparse.linalg.lobpcg(
        matrix, block, M=inverse, Y=np.ones((n, 1)) / n**0.5, largest=False, tol=1e-9, maxiter=2000
    )
    order = np.argsort(values)[:k]
    return values[order].real, vectors[:, order].real


def chebyshev(matrix: Matrix, k: int) -> Pairs:
    """Subspace iteration with a Chebyshev polynomial that is small on all of the spectrum but its low end."""
    top, degree = 2 * float(matrix.diagonal().max()), 200
    block = centred(np.random.default_rng(SEED).standard_normal((matrix.shape[0], BLOCK)))
    cut = top / 10
    while True:
        middle, half = (top + cut) / 2, (top - cut) / 2
        before, now = block, (matrix @ block - middle * block) / half
        for _ in range(degree - 1):
            before, now = now, 2 / half * (matrix @ now - middle * now) - before
            scale = np.abs(now).max()
            before, now = before / scale, now / scale
        block = np.linalg.qr(centred(now))[0]
        values, mix = np.linalg.eigh(block.T @ (matrix @ block))
        block = block @ mix
        if residual(matrix, (values[:k], block[:, :k])) < 1e-9 * top:
            return values[:k], block[:, :k]
        cut = values[-1]


def package(matrix: Matrix, k: int) -> Pairs:
    """What a user gets, with whole eigenspaces, a search for missed copies and the truncation error."""
    weights = scipy.sparse.csr_array(scipy.sparse.diags_array(matrix.diagonal()) - matrix)
    weights.eliminate_zeros()
    points = pointset.to_points(weights, rank=k, which="smallest")
    return points.eigenvalues.numpy(), points.eigenvectors.numpy()


SOLVERS: dict[str, Callable[[Matrix, int], Pairs]] = {
    "pointset": package,
    "shift-invert": shift_invert,
    "lanczos": lanczos,
    "lobpcg": lobpcg,
    "lobpcg + pyamg": lambda matrix, k: lobpcg(matrix, k, multigrid=True),
    "chebyshev": chebyshev,
}


def start(matrix: Matrix) -> NDArray[np.float64]:
    """A random vector, the same in each run."""
    return centred(np.random.default_rng(SEED).standard_normal(matrix.shape[0]))


def centred(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without the kernel of D − A, the constant vector."""
    shifted: NDArray[np.float64] = vectors - vectors.mean(axis=0)
    return shifted


def residual(matrix: Matrix, pairs: Pairs) -> float:
    """The largest ‖Zu − λu‖."""
    values, vectors = pairs
    return float(np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max())


# --- measuring


class Measured(NamedTuple):
    """One solver on one graph."""

    seconds: float
    residual: float
    values: NDArray[np.float64]


def measure(graph: str, solver: str, answer: multiprocessing.Queue[Measured | str]) -> None:
    """In a process of its own."""
    torch.set_num_threads(1)
    links = GRAPHS[graph]()
    matrix = scipy.sparse.csr_array(scipy.sparse.diags_array(links.sum(axis=1)) - links)
    begin = time.perf_counter()
    try:
        pairs = SOLVERS[solver](matrix, RANK)
    except (ImportError, RuntimeError, MemoryError, np.linalg.LinAlgError) as error:
        answer.put(type(error).__name__)
        return
    answer.put(Measured(time.perf_counter() - begin, residual(matrix, pairs), pairs[0]))


def measured_within(limit: float, graph: str, solver: str) -> Measured | str:
    """The figures, or why there are none."""
    spawn = multiprocessing.get_context("spawn")
    answer = spawn.Queue()
    process = spawn.Process(target=measure, args=(graph, solver, answer))
    process.start()
    begin = time.perf_counter()
    while process.is_alive() and answer.empty() and time.perf_counter() - begin < limit:
        time.sleep(0.05)
    found: Measured | str = f"> {limit:g} s" if answer.empty() and process.is_alive() else "ended"
    if not answer.empty():
        found = answer.get()
    process.terminate()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--solvers", nargs="+", choices=list(SOLVERS), default=list(SOLVERS))
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one solver on one graph")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    figures: dict[str, object] = {}
    for graph in arguments.graphs:
        found = {solver: measured_within(arguments.limit, graph, solver) for solver in arguments.solvers}
        done = [one for one in found.values() if isinstance(one, Measured)]
        best = min(done, key=lambda one: one.residual).values[:RANK] if done else np.zeros(RANK)
        for solver, one in found.items():
            if isinstance(one, str):
                figures[f"{graph}: {solver}"] = one
                continue
            error = float(np.abs(one.values[:RANK] - best).max())
            text = f"{one.seconds:.2g} s, residual {one.residual:.1e}"
            figures[f"{graph}: {solver}"] = (
                text if error < 1e-3 * best[0] else f"{text}, eigenvalues off by {error:.1e}"
            )
            print(f"{graph:26} {solver:16} {figures[f'{graph}: {solver}']}", flush=True)
    report("The low end of D − A", figures | machine(torch.__version__), arguments.json)


if __name__ == "__main__":
    main()
