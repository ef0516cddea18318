"""By how much a model's output changes where it must not: for every symmetry and every graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pointset.points.convert import to_points_many
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graphs
from pointset.points.matrices import DEFAULT_MATRIX
from pointset.points.point_set import PointSet
from pointset.testing.changes import (
    has_coordinates,
    reordered_graph,
    reordered_nodes,
    rotated_in_eigenspaces,
    turned_coordinates,
)
from pointset.testing.rows import RowsOfGraphs, at_rest


class Symmetry(StrEnum):
    """What must not matter; the value is how messages call it."""

    ALONE = "each graph alone instead of in a batch"
    NODE_ORDER = "another order of the nodes"
    EIGENSPACES = "another basis inside the eigenspaces"
    ORTHOGONAL = "an orthogonal transformation of the points"
    BATCH = "another order of the batch"
    GRAPH_ORDER = "another order of the nodes, decomposed anew"


@dataclass(frozen=True, eq=False)
class Observation:
    """What one random draw of one change did."""

    symmetry: Symmetry
    before: list[Tensor]  # (rows, out) of each graph
    after: list[Tensor]

    @cached_property
    def differences(self) -> list[float]:
        """The largest |after − before| of each graph; NaN where there is no number."""
        pairs = zip(self.before, self.after, strict=True)
        return [float((after - before).abs().max()) if before.numel() else 0.0 for before, after in pairs]


class Change(NamedTuple):
    """Where the output of a graph changed the most."""

    graph: int  # position
    row: int  # 0, or the node
    column: int
    before: Tensor  # (out,) the whole row
    after: Tensor


@dataclass(frozen=True, eq=False)
class Measurement:
    """The largest changes that any draw made. What is no number counts as infinite."""

    symmetry: Symmetry
    differences: list[float]  # of each graph, relative to the largest output of all graphs
    largest_output: float
    worst: Change | None  # None: there are no outputs

    @property
    def largest(self) -> float:
        """Over all graphs."""
        return max(self.differences, default=0.0)


def measure_invariance(
    model: nn.Module,
    graphs: Sequence[Any],
    *,
    seed: int = 0,
    repeats: int = 2,
    rows: RowsOfGraphs | None = None,
) -> list[Measurement]:
    """Measure every symmetry for every graph; nothing is judged (:func:`pointset.testing.assert_invariant` does).

    Args:
        model: a :class:`pointset.PointModel`, or any module that takes a :class:`pointset.PointBatch` and gives a row
            for each graph or for each node.
        graphs: graphs of any accepted kind, or point sets, which cannot be decomposed anew.
        seed: of the random draws.
        repeats: number of random draws.
        rows: how the model is computed; by default all graphs in one batch.

    Returns:
        A measurement for each symmetry that can be tried: R ∈ O(r) needs a module of coordinates.
    """
    decomposable = None if any(isinstance(graph, PointSet) for graph in graphs) else list(read_graphs(graphs))
    points = as_points(model, graphs if decomposable is None else decomposable)
    rows = rows or RowsOfGraphs(model)
    with at_rest(model):
        seen = list(observations(model, points, graphs=decomposable, seed=seed, repeats=repeats, rows=rows))
    by_symmetry = [[one for one in seen if one.symmetry is symmetry] for symmetry in Symmetry]
    return [_measurement(draws) for draws in by_symmetry if draws]


def observations(
    model: nn.Module,
    points: list[PointSet],
    *,
    graphs: Sequence[Graph] | None = None,
    seed: int,
    repeats: int,
    rows: RowsOfGraphs,
) -> Iterator[Observation]:
    """All draws, one after the other; ``graphs`` are those of the points, where they are to be decomposed anew."""
    generator = torch.Generator().manual_seed(seed)
    before = rows(points)
    yield Observation(Symmetry.ALONE, before, [rows([one])[0] for one in points])
    for _ in range(repeats):
        for symmetry, after in _one_draw_of_each(model, points, rows, generator):
            yield Observation(symmetry, before, after)
        if graphs is not None:
            orders = _orders([graph.num_nodes for graph in graphs], generator)
            moved = [reordered_graph(graph, order) for graph, order in zip(graphs, orders, strict=True)]
            yield Observation(Symmetry.GRAPH_ORDER, before, _moved_back(rows(as_points(model, moved)), orders))


def _one_draw_of_each(
    model: nn.Module, points: list[PointSet], rows: RowsOfGraphs, generator: torch.Generator
) -> Iterator[tuple[Symmetry, list[Tensor]]]:
    orders = _orders([one.num_nodes for one in points], generator)
    moved = [reordered_nodes(one, order) for one, order in zip(points, orders, strict=True)]
    yield Symmetry.NODE_ORDER, _moved_back(rows(moved), orders)
    yield Symmetry.EIGENSPACES, rows([rotated_in_eigenspaces(one, generator) for one in points])
    if has_coordinates(model):
        with turned_coordinates(model, generator):
            after = rows(points)
        yield Symmetry.ORTHOGONAL, after
    batch_order = torch.randperm(len(points), generator=generator)
    shuffled = rows([points[position] for position in batch_order.tolist()])
    yield Symmetry.BATCH, [shuffled[position] for position in batch_order.argsort().tolist()]


def largest_output(before: Sequence[Tensor]) -> float:
    """Over all graphs, as far as they are numbers; NaN where none is."""
    outputs = torch.cat([rows.flatten() for rows in before]).abs() if before else torch.empty(0)
    numbers = outputs[outputs.isfinite()]
    if outputs.numel() and not numbers.numel():
        return math.nan
    return max(float(numbers.max()) if numbers.numel() else 0.0, torch.finfo(torch.float32).tiny)


def as_points(model: nn.Module, graphs: Sequence[Any]) -> list[PointSet]:
    """Points of the model's matrix, in float64."""
    if all(isinstance(graph, PointSet) for graph in graphs):
        return list(graphs)
    return list(to_points_many(graphs, matrix=getattr(model, "matrix", DEFAULT_MATRIX), progress=False))


def _orders(sizes: list[int], generator: torch.Generator) -> list[Tensor]:
    return [torch.randperm(size, generator=generator) for size in sizes]


def _moved_back(rows: list[Tensor], orders: list[Tensor]) -> list[Tensor]:
    """Rows of nodes in their old order; rows of graphs as they are."""
    if any(len(part) != len(order) for part, order in zip(rows, orders, strict=True)):
        return rows
    return [part[order.argsort()] for part, order in zip(rows, orders, strict=True)]


def _measurement(draws: list[Observation]) -> Measurement:
    scale = largest_output(draws[0].before)
    by_draw = [[_or_infinite(one / scale) for one in draw.differences] for draw in draws]
    differences = [max(of_graph) for of_graph in zip(*by_draw, strict=True)]
    with_output = [at for at, rows in enumerate(draws[0].before) if rows.numel()]
    if not with_output:
        return Measurement(draws[0].symmetry, differences, scale, None)
    graph = max(with_output, key=lambda at: differences[at])
    draw = draws[max(range(len(draws)), key=lambda at: by_draw[at][graph])]
    before, after = (rows[graph].reshape(len(rows[graph]), -1) for rows in (draw.before, draw.after))
    change = (after - before).abs().nan_to_num(nan=math.inf)
    row, column = divmod(int(change.argmax()), change.shape[-1])
    return Measurement(draw.symmetry, differences, scale, Change(graph, row, column, before[row], after[row]))


def _or_infinite(difference: float) -> float:
    return math.inf if math.isnan(difference) else difference
