"""Graph → points: :func:`to_points` for one graph, :func:`to_points_many` for many."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pointset.machine import check_fits
from pointset.points.graphs import GraphArrays
from pointset.points.inputs import read_graph, read_graphs
from pointset.points.matrices import DEFAULT_MATRIX, matrix_named
from pointset.points.point_set import Eigenpairs, PointSet, PointSets, check_floating_point
from pointset.points.solve import solve_in_order
from pointset.points.spectra import DEFAULT_WHICH, Which
from pointset.points.store import PointStore


def to_points(
    graph: Any,
    *,
    matrix: str = DEFAULT_MATRIX,
    rank: int | None = None,
    which: Which = DEFAULT_WHICH,
    dtype: torch.dtype = torch.float64,
) -> PointSet:
    """Turn one graph into points, losslessly (Theorems 3.1 and 3.3).

    Args:
        graph: a PyG ``Data``, a networkx graph, a scipy sparse or dense adjacency matrix, or ``(num_nodes, edges)``.
            Node features ``x``, edge features ``edge_attr``, weights, positions ``pos`` and target ``y`` are kept
            (``x``, ``pos`` and ``y`` are shared with the input, not copied).
        matrix: ``"laplacian"``, ``"adjacency"``, ``"normalized_adjacency"`` or ``"augmented"``.
        rank: None for all non-zero eigenvalues; k to keep k of them, with whole eigenspaces: more where the last one
            is repeated (``points.rank`` says how many), fewer where there are fewer. Large graphs are then solved
            sparsely, component by component.
        which: the k non-zero eigenvalues that ``rank=k`` keeps: ``"both"``, those of largest |λ| from either end of
            the spectrum; ``"largest"``, algebraically; or ``"smallest"``.
        dtype: type of the eigenpairs that come out; the solution itself is always in float64.

    Returns:
        The point set; ``pointset.to_graph`` is the way back.

    Example:
        >>> import networkx as nx, pointset
        >>> points = pointset.to_points(nx.cycle_graph(8))
        >>> points.rank, [space.multiplicity for space in points.eigenspaces()]
        (7, [2, 2, 2, 1])
    """
    check_floating_point(dtype)
    return _convert(read_graph(graph), matrix, rank, which, dtype, workers=1, progress=None)[0]


def to_points_many(
    graphs: Iterable[Any],
    *,
    matrix: str = DEFAULT_MATRIX,
    rank: int | None = None,
    which: Which = DEFAULT_WHICH,
    dtype: torch.dtype = torch.float64,
    store: str | Path | PointStore | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> PointSets:
    """Turn many graphs into points: equal sizes are stacked and solved together on all cores.

    Args:
        graphs: any number of what :func:`to_points` takes, or :class:`~pointset.points.graphs.GraphArrays`.
        matrix: as in :func:`to_points`.
        rank: as in :func:`to_points`.
        which: as in :func:`to_points`.
        dtype: as in :func:`to_points`.
        store: a folder in which eigenpairs are kept: the same graphs are then never solved twice.
        workers: number of threads, by default one for each core. The result does not depend on it.
        progress: whether to show a progress bar; by default where stderr is a terminal.

    Returns:
        A sequence of point sets in the order of the graphs, backed by flat arrays.
    """
    check_floating_point(dtype)
    arrays = read_graphs(graphs)
    if store is None:
        return _convert(arrays, matrix, rank, which, dtype, workers, progress)
    keeper = store if isinstance(store, PointStore) else PointStore(store)
    eigenpairs = keeper.eigenpairs(arrays, matrix=matrix, rank=rank, which=which, workers=workers, progress=progress)
    return PointSets(arrays, eigenpairs, matrix, dtype)


def _convert(
    graphs: GraphArrays,
    matrix: str,
    rank: int | None,
    which: Which,
    dtype: torch.dtype,
    workers: int | None,
    progress: bool | None,
) -> PointSets:
    if rank is None:
        numbers = float(np.square(graphs.num_nodes, dtype=np.float64).sum())
        remedy = "Pass store=… to keep them on disk, or rank=k to keep fewer"
        check_fits(8 * numbers, f"the eigenpairs of {len(graphs):,} graphs need", remedy)
    solved = list(solve_in_order(graphs, matrix_named(matrix), rank, which, workers=workers, progress=progress))
    values = np.concatenate([part.values for part in solved]) if solved else np.zeros(0)
    vectors = np.concatenate([part.vectors for part in solved]) if solved else np.zeros(0)
    return PointSets(graphs, Eigenpairs.assembled(graphs.num_nodes, solved, values, vectors), matrix, dtype)
