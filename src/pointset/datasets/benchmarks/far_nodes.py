"""Node tasks on graphs of a hundred thousand nodes and more: a grid of mines of any size, made here, and the roads of
Luxembourg with labels whose answer lies far away.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pointset.arrays import Array, Integers, read_arrays
from pointset.datasets.benchmarks.reading import expect_whole
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.sources import Benchmark, Source
from pointset.datasets.splits.parts import whole_number
from pointset.datasets.splits.splitters import random_split
from pointset.datasets.table import GraphTable
from pointset.progress import progress_bar
from pointset.specs import Reals

_SHARES = (0.5, 0.25, 0.25)
_SIDE = 316  # 99,856 cells
_MOST_SIDE = 4_000
_MINES = 0.2  # of the cells
_HIDDEN = 0.5  # share of the cells whose number is not known
_NEIGHBOURS = 8
_CLASSES = 10


def minesweeper_grid(side: int, seed: int) -> GraphTable:
    """A square of ``side`` × ``side`` cells, each joined to the eight around it; a fifth of them are mines.

    Features are the number of mines around a cell, one column for each, or the last column where it is not known.
    """
    generator = np.random.default_rng(seed)
    cell = np.arange(side * side).reshape(side, side)
    mines = generator.random((side, side)) < _MINES
    edges, around = [], np.zeros((side, side), dtype=np.int64)
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = (slice(0, side - down), slice(max(0, -right), side - max(0, right)))
        there = (slice(down, side), slice(max(0, right), side - max(0, -right)))
        edges.append(np.stack([cell[here].ravel(), cell[there].ravel()]))
        around[here] += mines[there]
        around[there] += mines[here]
    known = np.where(generator.random((side, side)) < _HIDDEN, _NEIGHBOURS + 1, around)
    joined = np.concatenate(edges, axis=1)
    return GraphTable(
        num_nodes=np.array([side * side]),
        num_edges=np.array([joined.shape[1]]),
        edges=joined,
        x=np.eye(_NEIGHBOURS + 2, dtype=np.float32)[known.ravel()],
        y=mines.ravel().astype(np.float32),
        y_of_nodes=True,
        split=random_split(side * side, _SHARES, seed=seed),
        split_of_nodes=True,
    )


def _grid_sources(**options: Any) -> tuple[Source]:
    side = whole_number(options.get("side", _SIDE), "side", least=4, most=_MOST_SIDE)
    seed = whole_number(options.get("seed", 0), "seed")

    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        return minesweeper_grid(side, seed)

    return (Source(f"the generator, {side} × {side} cells, seed {seed}", read, made_here=True),)


MINESWEEPER_GRID = Benchmark(
    Card(
        name="minesweeper-grid",
        title="Minesweeper on a larger grid",
        description="A square grid of any size, a fifth of its cells mines; predict which, from the number of mines "
        "beside half of the cells. As the benchmark minesweeper, which has 100 × 100 cells.",
        level=Level.NODE,
        task=Task.BINARY,
        targets=(Target("mine"),),
        metric=Metric.ROC_AUC,
        split="nodes at random, 50 / 25 / 25 %",
        node=Reals(_NEIGHBOURS + 2),
        node_columns=(*(f"mines beside it: {count}" for count in range(_NEIGHBOURS + 1)), "number not known"),
        licence="made here",
        source="made here",
        reference="after Platonov et al. 2023, arXiv:2302.11640",
    ),
    _grid_sources(),
    choose=_grid_sources,
    options={"side": f"cells on a side (default {_SIDE})", "seed": "of mines, hidden numbers and split (default 0)"},
)


def eccentricities(num_nodes: int, edges: Array, *, show: bool | None = None) -> Integers:
    """(n,) the largest number of steps to any node of the same component, exactly.

    Distances d from a node w of known eccentricity e bound that of v: max(d, e − d) ≤ e(v) ≤ e + d. The node of the
    largest upper and the node of the smallest lower bound are searched from in turn, until the bounds of all meet: some
    hundred searches on road networks instead of one from each node (Takes and Kosters, 2013).
    """
    import scipy.sparse

    both = np.concatenate([edges, edges[::-1]], axis=1)
    ones = np.ones(both.shape[1], dtype=np.int8)
    graph: Any = scipy.sparse.csr_array((ones, (both[0], both[1])), shape=(num_nodes, num_nodes))
    lower, upper = np.zeros(num_nodes, dtype=np.int64), np.full(num_nodes, num_nodes, dtype=np.int64)
    largest = True
    with progress_bar("Eccentricities", num_nodes, show=show) as advance:
        done = 0
        while (open_nodes := np.flatnonzero(lower < upper)).size:
            bound = upper[open_nodes] if largest else -lower[open_nodes]
            node = int(open_nodes[np.argmax(bound)])
            largest = not largest
            reached, steps = _steps_from(graph, node)
            farthest = int(steps[-1])
            lower[reached] = np.maximum(lower[reached], np.maximum(steps, farthest - steps))
            upper[reached] = np.minimum(upper[reached], farthest + steps)
            lower[node] = upper[node] = farthest
            closed = num_nodes - int((lower < upper).sum())
            advance(closed - done)
            done = closed
    return lower


def _steps_from(graph: Any, node: int) -> tuple[Integers, Integers]:
    """The nodes that a breadth-first search reaches, in its order, and the number of steps to each, ascending."""
    from scipy.sparse.csgraph import breadth_first_order

    order, before = breadth_first_order(graph, node)
    place = np.empty(graph.shape[0], dtype=np.int64)
    place[order] = np.arange(len(order))
    parents = place[before[order[1:]]]  # ascending, as the search is first in, first out
    stops = [0, 1]
    while stops[-1] < len(order):  # a level are the nodes whose parents are in the one before
        stops.append(1 + int(np.searchsorted(parents, stops[-1])))
    return order.astype(np.int64), np.repeat(np.arange(len(stops) - 1), np.diff(stops))


def _read_roads(seed: int, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    (path,) = files
    arrays = read_arrays(path, ("num_nodes", "edges"))
    num_nodes = int(arrays["num_nodes"])
    edges = expect_whole(path, "edges", arrays["edges"], None, 2).T.astype(np.int64)
    edges = edges[:, edges[0] != edges[1]]
    far = eccentricities(num_nodes, edges, show=show)
    bounds = np.quantile(far, np.linspace(0, 1, _CLASSES + 1)[1:-1])
    degrees = np.minimum(np.bincount(edges.ravel(), minlength=num_nodes), 7)
    return GraphTable(
        num_nodes=np.array([num_nodes]),
        num_edges=np.array([edges.shape[1]]),
        edges=edges,
        x=np.eye(8, dtype=np.float32)[degrees],
        y=np.searchsorted(bounds, far, side="right"),
        y_of_nodes=True,
        split=random_split(num_nodes, (0.1, 0.1, 0.8), seed=seed),
        split_of_nodes=True,
    )


def _road_sources(**options: Any) -> tuple[Source]:
    seed = whole_number(options.get("seed", 0), "seed")
    reader = partial(_read_roads, seed)
    return (Source(f"roads with eccentricities, seed {seed}", reader, places=(("large/luxembourg_osm.npz",),)),)


LUXEMBOURG = Benchmark(
    Card(
        name="luxembourg",
        title="Roads of Luxembourg",
        description="Crossings and the roads between them; predict in which tenth of all nodes a node's eccentricity "
        "lies, the number of steps to the node that is farthest from it.",
        level=Level.NODE,
        task=Task.MULTI_CLASS,
        targets=(Target("eccentricity"),),
        classes=tuple(f"tenth {number}" for number in range(1, _CLASSES + 1)),
        metric=Metric.ACCURACY,
        split="nodes at random, 10 / 10 / 80 %",
        node=Reals(8),
        node_columns=(*(f"degree {degree}" for degree in range(7)), "degree 7 or more"),
        licence="OpenStreetMap, CC BY-SA",
        source="luxembourg_osm of the SuiteSparse Matrix Collection, as one .npz with num_nodes and edges (m, 2)",
        reference="labels after City-Networks (Liang et al. 2025), which has them within 16 hops by lengths of roads; "
        "here lengths are not known, and eccentricities are those of the whole graph",
        notes=("Nodes have no features but their degree.",),
    ),
    _road_sources(),
    choose=_road_sources,
    options={"seed": "of the split (default 0)"},
)
