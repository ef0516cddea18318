"""From the records of a file to points: bad graphs are set aside with their reasons, the others go on together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from pointset.datasets.graph_files.formats import GraphRecord
from pointset.errors import ConvergenceError, MatrixError, MemoryForecastError, PointsetError, RankError
from pointset.points.convert import to_points, to_points_many
from pointset.points.graphs import Graph, GraphArrays
from pointset.points.inputs import read_graph, read_graphs
from pointset.points.inverse import rebuild
from pointset.points.matrices import matrix_named
from pointset.points.point_set import PointSet


class Problem(NamedTuple):
    """A graph that was left out, and why."""

    name: str
    reason: str


@dataclass
class Screened:
    """What was found in a file: good graphs with their names, and the rest."""

    graphs: Sequence[Graph]
    names: list[str]
    problems: list[Problem] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # attributes that were not read


@dataclass
class Solved:
    """The points of the good graphs. ``graphs`` are those of ``points``, one to one."""

    points: Sequence[PointSet]
    graphs: Sequence[Graph]
    names: list[str]
    problems: list[Problem]


def screen(records: Iterable[GraphRecord]) -> Screened:
    """Set bad entries aside. All graphs are checked together; only where that fails, one by one."""
    graphs: list[Any] = []
    names: list[str] = []
    problems: list[Problem] = []
    ignored: dict[str, None] = {}
    for record in records:
        ignored.update(dict.fromkeys(record.ignored))
        if record.problem is not None:
            problems.append(Problem(record.name, record.problem))
        else:
            graphs.append(record.graph)
            names.append(record.name)
    try:
        arrays: Sequence[Graph] = read_graphs(graphs)
    except PointsetError:
        arrays, names = _one_by_one(graphs, names, problems)
    return Screened(arrays, names, problems, list(ignored))


def _one_by_one(graphs: list[Any], names: list[str], problems: list[Problem]) -> tuple[list[Graph], list[str]]:
    good: list[Graph] = []
    kept: list[str] = []
    for graph, name in zip(graphs, names, strict=True):
        try:
            good.append(read_graph(graph)[0])
            kept.append(name)
        except PointsetError as error:
            problems.append(Problem(name, str(error)))
    return good, kept


def solve(
    screened: Screened, *, matrix: str, rank: int | None, dtype: torch.dtype, progress: bool | None = None
) -> Solved:
    """The points of all graphs that this matrix and this machine can take."""
    problems = list(screened.problems)
    graphs, names = _fit_for_matrix(screened, matrix, problems)
    while True:
        arrays = read_graphs(graphs)
        try:
            points = to_points_many(arrays, matrix=matrix, rank=rank, dtype=dtype, progress=progress)
            return Solved(points, arrays, names, problems)
        except MemoryForecastError as error:  # it speaks of the largest graph
            graphs, names = _without_largest(arrays, names, problems, str(error))
        except (RankError, ConvergenceError):  # of one graph, but it is not said of which
            return _solve_one_by_one(arrays, names, problems, matrix, rank, dtype)


def _fit_for_matrix(screened: Screened, matrix: str, problems: list[Problem]) -> tuple[Sequence[Graph], list[str]]:
    function = matrix_named(matrix)
    try:
        function.check(read_graphs(screened.graphs))
        return screened.graphs, screened.names
    except MatrixError:
        good: list[Graph] = []
        names: list[str] = []
        for graph, name in zip(screened.graphs, screened.names, strict=True):
            try:
                function.check(read_graph(graph))
                good.append(graph)
                names.append(name)
            except MatrixError as error:
                problems.append(Problem(name, str(error)))
        return good, names


def _without_largest(
    graphs: GraphArrays, names: list[str], problems: list[Problem], reason: str
) -> tuple[list[Graph], list[str]]:
    largest = graphs.num_nodes == graphs.num_nodes.max()
    problems += [Problem(names[index], reason) for index in np.flatnonzero(largest)]
    kept = np.flatnonzero(~largest).tolist()
    return [graphs[index] for index in kept], [names[index] for index in kept]


def _solve_one_by_one(
    graphs: Sequence[Graph],
    names: list[str],
    problems: list[Problem],
    matrix: str,
    rank: int | None,
    dtype: torch.dtype,
) -> Solved:
    solved = Solved([], [], [], problems)
    points: list[PointSet] = []
    good: list[Graph] = []
    for graph, name in zip(graphs, names, strict=True):
        try:
            points.append(to_points(graph, matrix=matrix, rank=rank, dtype=dtype))
            good.append(graph)
            solved.names.append(name)
        except PointsetError as error:
            problems.append(Problem(name, str(error)))
    solved.points, solved.graphs = points, good
    return solved


def rebuilt_graph(points: PointSet) -> Graph:
    """The graph behind points, as :func:`pointset.to_graph` finds it, without PyG around it."""
    rebuilt = rebuild(points)
    weights = rebuilt.weights
    exact = None if weights is None else weights.to(points.eigenvalues.dtype).to(torch.float64).numpy()
    graph = Graph(points.num_nodes, rebuilt.edges.numpy(), exact, points.weight_kind)
    features = graph.features._replace(x=points.x, edge_attr=points.edge_attr, pos=points.pos, y=points.y)
    return Graph(graph.num_nodes, graph.edges, graph.weights, graph.weight_kind, features)


def screen_points(points: Iterable[PointSet], names: Sequence[str]) -> Screened:
    """The graphs behind points; those that cannot be rebuilt are set aside."""
    screened = Screened([], [])
    graphs: list[Graph] = []
    for one, name in zip(points, names, strict=True):
        try:
            graphs.append(rebuilt_graph(one))
            screened.names.append(name)
        except PointsetError as error:
            screened.problems.append(Problem(name, str(error)))
    screened.graphs = graphs
    return screened
