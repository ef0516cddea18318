"""From the records of a file to graphs and points: bad ones are set aside with their reasons, the others stay together.

Each step first tries all graphs at once, which is fast; only where that fails does it go through them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from pointset.cluster import current
from pointset.datasets.graph_files.formats import GraphRecord
from pointset.errors import ConvergenceError, MatrixError, MemoryForecastError, PointsetError, RankError
from pointset.points.convert import to_points, to_points_many
from pointset.points.forecast import check_not_too_long
from pointset.points.graphs import Features, Graph
from pointset.points.inputs import read_graph, read_graphs
from pointset.points.inverse import rebuild
from pointset.points.matrices import matrix_named
from pointset.points.point_set import PointSet
from pointset.points.spectra import DEFAULT_WHICH, STACK_BYTES, Which
from pointset.progress import progress_bar

Item = TypeVar("Item")
Result = TypeVar("Result")
_DIED = "the process that decomposed it ended (out of memory?); convert it alone, with more memory"


class Problem(NamedTuple):
    """A graph that was left out, and why."""

    name: str
    reason: str


@dataclass
class CheckedGraphs:
    """What was found in a file: good graphs with their names, and the rest."""

    graphs: Sequence[Graph]
    names: list[str]
    problems: list[Problem]
    ignored: list[str] = field(default_factory=list)  # attributes that were not read


@dataclass
class CheckedPoints:
    """The points of the good graphs. ``graphs`` are those of ``points``, one to one."""

    points: Sequence[PointSet]
    graphs: Sequence[Graph]
    names: list[str]
    problems: list[Problem]


def check_graphs(records: Iterable[GraphRecord]) -> CheckedGraphs:
    """Set bad entries aside."""
    graphs: list[Any] = []
    names: list[str] = []
    problems: list[Problem] = []
    ignored: dict[str, None] = {}  # an ordered set
    for record in records:
        ignored.update(dict.fromkeys(record.ignored))
        if record.problem is not None:
            problems.append(Problem(record.name, record.problem))
        else:
            graphs.append(record.graph)
            names.append(record.name)
    try:
        return CheckedGraphs(read_graphs(graphs), names, problems, list(ignored))
    except PointsetError:
        good, at = _one_by_one(lambda graph: read_graph(graph)[0], graphs, names, problems)
        return CheckedGraphs(good, [names[index] for index in at], problems, list(ignored))


def solve_graphs(
    checked: CheckedGraphs,
    *,
    matrix: str,
    rank: int | None,
    which: Which = DEFAULT_WHICH,
    dtype: torch.dtype,
    progress: bool | None = None,
    too_long: str | None = None,
) -> CheckedPoints:
    """The points of all graphs that this matrix and this machine can take.

    ``too_long``: what to do about graphs whose decomposition is forecast to take minutes, which are then set aside.
    Inside :func:`pointset.cluster.connected` the workers of the cluster decompose them.
    """
    chunks = _chunks(checked)
    cluster = current()
    if cluster is None or len(chunks) < 2:
        return _solved_here(checked, matrix, rank, which, dtype, progress, too_long)
    work = partial(_solved_chunk, matrix, rank, which, dtype, too_long)
    found: list[PointSet | Problem] = []
    with progress_bar("Decomposing", len(checked.graphs), show=progress) as advance:
        for chunk, results in cluster.in_order(work, chunks, _given_up):
            found += results
            advance(len(chunk))
    good = [at for at, one in enumerate(found) if isinstance(one, PointSet)]
    return CheckedPoints(
        [one for one in found if isinstance(one, PointSet)],
        [checked.graphs[at] for at in good],
        [checked.names[at] for at in good],
        [*checked.problems, *(one for one in found if isinstance(one, Problem))],
    )


class _Named(NamedTuple):
    """A graph for a worker of a cluster; None in the place of one that is given up."""

    name: str
    graph: Graph | None


def _given_up(one: _Named) -> _Named:
    return one._replace(graph=None)


def _chunks(checked: CheckedGraphs) -> list[list[_Named]]:
    """Neighbours with about as many entries of matrices together as are decomposed in one stack."""
    chunks: list[list[_Named]] = []
    held = 0
    for graph, name in zip(checked.graphs, checked.names, strict=True):
        if not chunks or held > STACK_BYTES // 8:
            chunks.append([])
            held = 0
        chunks[-1].append(_Named(name, graph))
        held += graph.num_nodes**2
    return chunks


def _solved_chunk(
    matrix: str, rank: int | None, which: Which, dtype: torch.dtype, too_long: str | None, chunk: Sequence[_Named]
) -> list[PointSet | Problem]:
    """The points of each graph, or why there are none; in a worker."""
    found: dict[int, PointSet | Problem] = {}
    graphs: list[Graph] = []
    numbers: list[str] = []  # names need not differ
    for at, one in enumerate(chunk):
        if one.graph is None:
            found[at] = Problem(one.name, _DIED)
        else:
            graphs.append(one.graph)
            numbers.append(str(at))
    if graphs:
        solved = _solved_here(CheckedGraphs(graphs, numbers, []), matrix, rank, which, dtype, False, too_long)
        found |= {int(number): points for number, points in zip(solved.names, solved.points, strict=True)}
        found |= {int(at): Problem(chunk[int(at)].name, reason) for at, reason in solved.problems}
    return [found[at] for at in range(len(chunk))]


def _solved_here(
    checked: CheckedGraphs,
    matrix: str,
    rank: int | None,
    which: Which,
    dtype: torch.dtype,
    progress: bool | None,
    too_long: str | None,
) -> CheckedPoints:
    problems = list(checked.problems)
    graphs, names = _fit_for_matrix(checked, matrix, problems)
    if too_long is not None:
        remedy = too_long
        _, at = _one_by_one(lambda graph: check_not_too_long(graph.num_nodes, rank, remedy), graphs, names, problems)
        graphs, names = [graphs[index] for index in at], [names[index] for index in at]
    while True:
        arrays = read_graphs(graphs)
        try:
            points = to_points_many(arrays, matrix=matrix, rank=rank, which=which, dtype=dtype, progress=progress)
            return CheckedPoints(points, arrays, names, problems)
        except MemoryForecastError as error:  # it speaks of the largest graph
            largest = arrays.num_nodes == arrays.num_nodes.max()
            problems += [Problem(names[index], str(error)) for index in np.flatnonzero(largest)]
            others = np.flatnonzero(~largest).tolist()
            graphs, names = [arrays[index] for index in others], [names[index] for index in others]
        except (RankError, ConvergenceError):  # of one graph, but it does not say which

            def solve(graph: Graph) -> PointSet:
                return to_points(graph, matrix=matrix, rank=rank, which=which, dtype=dtype)

            solved, at = _one_by_one(solve, arrays, names, problems)
            return CheckedPoints(solved, [arrays[index] for index in at], [names[index] for index in at], problems)


def rebuild_graphs(points: Iterable[PointSet], names: Sequence[str]) -> CheckedGraphs:
    """The graphs behind points, as :func:`pointset.to_graph` finds them, without PyG around them."""
    problems: list[Problem] = []
    graphs, at = _one_by_one(_rebuilt, points, names, problems)
    return CheckedGraphs(graphs, [names[index] for index in at], problems)


def _fit_for_matrix(checked: CheckedGraphs, matrix: str, problems: list[Problem]) -> tuple[Sequence[Graph], list[str]]:
    check = matrix_named(matrix).check
    try:
        check(read_graphs(checked.graphs))
        return checked.graphs, checked.names
    except MatrixError:
        _, at = _one_by_one(lambda graph: check(read_graph(graph)), checked.graphs, checked.names, problems)
        return [checked.graphs[index] for index in at], [checked.names[index] for index in at]


def _rebuilt(points: PointSet) -> Graph:
    rebuilt = rebuild(points)
    weights = rebuilt.weights
    exact = None if weights is None else weights.to(points.eigenvalues.dtype).to(torch.float64).numpy()
    features = Features(x=points.x, edge_attr=points.edge_attr, pos=points.pos, y=points.y)
    return Graph(points.num_nodes, rebuilt.edges.numpy(), exact, points.weight_kind, features)


def _one_by_one(
    step: Callable[[Item], Result], items: Iterable[Item], names: Sequence[str], problems: list[Problem]
) -> tuple[list[Result], list[int]]:
    """The results of a step, and the positions of the items that it took; the others become problems."""
    results: list[Result] = []
    taken: list[int] = []
    for index, (item, name) in enumerate(zip(items, names, strict=True)):
        try:
            results.append(step(item))
            taken.append(index)
        except PointsetError as error:
            problems.append(Problem(name, str(error)))
    return results, taken
