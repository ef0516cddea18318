"""By how much a model's output changes where it must not: for every symmetry and every graph.

:func:`assert_invariant` raises at the first violation, :func:`measure_invariance` measures all of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pointset.encoders.batch import collate
from pointset.encoders.coordinates import Coordinates
from pointset.encoders.model import evaluating, has_coordinates
from pointset.errors import SpecError
from pointset.machine import training_bytes
from pointset.points.convert import to_points_many
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graph, read_graphs
from pointset.points.matrices import DEFAULT_MATRIX
from pointset.points.point_set import PointSet
from pointset.progress import Advance

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}  # relative to the largest output


class InvarianceError(AssertionError):
    """A model's output changed where it must not."""


class Symmetry(StrEnum):
    """What must not matter; the value is how messages call it."""

    ALONE = "each graph alone instead of in a batch"
    NODE_ORDER = "another order of the nodes"
    EIGENSPACES = "another basis inside the eigenspaces"
    ORTHOGONAL = "an orthogonal transformation of the points"
    BATCH = "another order of the batch"
    GRAPH_ORDER = "another order of the nodes, decomposed anew"


def assert_invariant(
    model: nn.Module, graphs: Sequence[Any], *, tolerance: float | None = None, seed: int = 0, repeats: int = 2
) -> None:
    """Raise where the model's output depends on more than the graph.

    Checked, each with ``repeats`` random draws: another order of the nodes; R ∈ O(r), reflections included, applied
    to the points; another basis inside each eigenspace (signs where it has one dimension); each graph alone instead of
    in the batch; another order of the batch. The model is put into evaluation mode and back.

    Args:
        model: a :class:`pointset.PointModel`, or any module that takes a :class:`pointset.PointBatch` and gives a row
            for each graph or for each node. R ∈ O(r) needs the coordinates, so it is tried where the model has a module
            :class:`~pointset.encoders.Coordinates`.
        graphs: graphs of any accepted kind, or point sets.
        tolerance: largest difference, relative to the largest output of all graphs; by default 1e-10 in float64 and
            1e-5 in float32.
        seed: of the random draws.
        repeats: number of random draws.

    Raises:
        SpecError: there are no graphs.
        InvarianceError: which change mattered, for which graph, and by how much.

    Example:
        >>> import networkx as nx, pointset
        >>> model = pointset.PointModel.from_preset("pst", dim=8, layers=2).double()
        >>> pointset.testing.assert_invariant(model, [nx.cycle_graph(6), nx.hypercube_graph(3)])
    """
    points = as_points(model, graphs)
    if not points:
        raise SpecError("got no graphs; expected at least one, as nothing is checked without")
    dtype = next((p.dtype for p in model.parameters()), torch.float64)
    allowed = TOLERANCE.get(dtype, 1e-5) if tolerance is None else tolerance
    with evaluating(model):
        for draw in _draws(model, points, seed=seed, repeats=repeats, rows=RowsOfGraphs(model)):
            scale = _largest_output(draw.before)
            for graph, difference in enumerate(draw.differences):
                relative = difference / scale
                if not relative <= allowed and draw.before[graph].numel():  # also where it is NaN
                    raise InvarianceError(
                        f"{draw.symmetry} changed the output for graph {graph} by {relative:.1e} of the largest output "
                        f"{scale:.3g}; allowed is {allowed:.0e}"
                    )


class Change(NamedTuple):
    """Where the output of a graph changed the most."""

    graph: int  # position
    row: int  # 0, or the node
    column: int
    before: Tensor  # (out,) the whole row
    after: Tensor


@dataclass(frozen=True, eq=False)
class Measurement:
    """The largest changes that any draw made. What is not a number counts as infinite."""

    symmetry: Symmetry
    differences: list[float]  # of each graph, relative to the largest output of all graphs
    largest_output: float
    worst: Change | None  # None: there are no outputs

    @property
    def largest(self) -> float:
        """Over all graphs."""
        return max(self.differences, default=0.0)


def measure_invariance(
    model: nn.Module, graphs: Sequence[Any], *, seed: int = 0, repeats: int = 2, rows: RowsOfGraphs | None = None
) -> list[Measurement]:
    """Measure every symmetry for every graph; nothing is judged (:func:`assert_invariant` does).

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
    with evaluating(model):
        seen = list(_draws(model, points, graphs=decomposable, seed=seed, repeats=repeats, rows=rows))
    by_symmetry = [[draw for draw in seen if draw.symmetry is symmetry] for symmetry in Symmetry]
    return [_measurement(draws) for draws in by_symmetry if draws]


def _measurement(draws: list[_Draw]) -> Measurement:
    scale = _largest_output(draws[0].before)
    by_draw = [[math.inf if math.isnan(one / scale) else one / scale for one in draw.differences] for draw in draws]
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


def _largest_output(before: Sequence[Tensor]) -> float:
    """Over all graphs, as far as they are numbers; NaN where none is."""
    outputs = torch.cat([rows.flatten() for rows in before]).abs() if before else torch.empty(0)
    numbers = outputs[outputs.isfinite()]
    if outputs.numel() and not numbers.numel():
        return math.nan
    return max(float(numbers.max()) if numbers.numel() else 0.0, torch.finfo(torch.float32).tiny)


@dataclass(frozen=True, eq=False)
class _Draw:
    """What one random draw of one change did."""

    symmetry: Symmetry
    before: list[Tensor]  # (rows, out) of each graph
    after: list[Tensor]

    @cached_property
    def differences(self) -> list[float]:
        """The largest |after − before| of each graph; NaN where there is no number."""
        pairs = zip(self.before, self.after, strict=True)
        return [float((after - before).abs().max()) if before.numel() else 0.0 for before, after in pairs]


def _draws(
    model: nn.Module,
    points: list[PointSet],
    *,
    graphs: Sequence[Graph] | None = None,
    seed: int,
    repeats: int,
    rows: RowsOfGraphs,
) -> Iterator[_Draw]:
    """All draws, one after the other; ``graphs`` are those of the points, where they are to be decomposed anew."""
    generator = torch.Generator().manual_seed(seed)
    before = rows(points)
    yield _Draw(Symmetry.ALONE, before, [rows([one])[0] for one in points])
    for _ in range(repeats):
        orders = _orders(points, generator)
        moved = [reordered_nodes(one, order) for one, order in zip(points, orders, strict=True)]
        yield _Draw(Symmetry.NODE_ORDER, before, _moved_back(rows(moved), orders))
        rotated = [rotated_in_eigenspaces(one, generator) for one in points]
        yield _Draw(Symmetry.EIGENSPACES, before, rows(rotated))
        if has_coordinates(model):
            with _turned_coordinates(model, generator):
                after = rows(points)
            yield _Draw(Symmetry.ORTHOGONAL, before, after)
        batch_order = torch.randperm(len(points), generator=generator)
        shuffled = rows([points[position] for position in batch_order.tolist()])
        yield _Draw(Symmetry.BATCH, before, [shuffled[position] for position in batch_order.argsort().tolist()])
        if graphs is not None:
            orders = _orders(graphs, generator)
            anew = [reordered_graph(graph, order) for graph, order in zip(graphs, orders, strict=True)]
            yield _Draw(Symmetry.GRAPH_ORDER, before, _moved_back(rows(as_points(model, anew)), orders))


def _orders(items: Sequence[PointSet | Graph], generator: torch.Generator) -> list[Tensor]:
    return [torch.randperm(item.num_nodes, generator=generator) for item in items]


def _moved_back(rows: list[Tensor], orders: list[Tensor]) -> list[Tensor]:
    """Rows of nodes in their old order; rows of graphs as they are."""
    if any(len(part) != len(order) for part, order in zip(rows, orders, strict=True)):
        return rows
    return [part[order.argsort()] for part, order in zip(rows, orders, strict=True)]


class RowsOfGraphs:
    """The output of each graph in its own tensor: (1, out), or (n, out) where the model gives a row for each node.

    ``batch_size`` bounds the graphs that are computed together, ``batch_bytes`` about the memory that their activations
    take; ``advance`` is called with the number of graphs that were computed.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        batch_size: int | None = None,
        batch_bytes: float = math.inf,
        advance: Advance = lambda steps, /: None,
    ):
        self.model, self.advance = model, advance
        self._size, self._bytes = math.inf if batch_size is None else batch_size, batch_bytes
        self._dim: int = getattr(getattr(model, "settings", None), "dim", 1)

    def __call__(self, point_sets: Sequence[PointSet]) -> list[Tensor]:
        """One tensor for each point set.

        Raises:
            InvarianceError: the model gives rows that belong neither to graphs nor to nodes.
        """
        return [part for batch in self._batches(point_sets) for part in self._of_batch(batch)]

    def _batches(self, point_sets: Sequence[PointSet]) -> Iterator[list[PointSet]]:
        batch: list[PointSet] = []
        held = 0
        for points in point_sets:
            needed = training_bytes(points.num_nodes, points.rank, dim=self._dim, layers=1)
            if batch and (len(batch) >= self._size or held + needed > self._bytes):
                yield batch
                batch, held = [], 0
            batch.append(points)
            held += needed
        if batch:
            yield batch

    def _of_batch(self, batch: list[PointSet]) -> list[Tensor]:
        output: Tensor = self.model(collate(batch))
        self.advance(len(batch))
        counts = [points.num_nodes for points in batch]
        # Where there are as many nodes as graphs, the number of rows does not tell: the model does.
        by_node = getattr(getattr(self.model, "readout", None), "level", None) == "node"
        if output.shape[0] == sum(counts) and (by_node or output.shape[0] != len(counts)):
            return list(torch.split(output, counts))
        if output.shape[0] == len(counts):
            return list(torch.split(output, 1))
        raise InvarianceError(
            f"the model gave {output.shape[0]} rows for {len(counts)} graphs with {sum(counts)} nodes; expected a row "
            "for each graph or for each node"
        )


def as_points(model: nn.Module, graphs: Sequence[Any]) -> list[PointSet]:
    """Points of the model's matrix, in float64."""
    if all(isinstance(graph, PointSet) for graph in graphs):
        return list(graphs)
    matrix, rank = getattr(model, "matrix", DEFAULT_MATRIX), getattr(model, "rank", None)
    return list(to_points_many(graphs, matrix=matrix, rank=rank, progress=False))


@contextmanager
def _turned_coordinates(model: nn.Module, generator: torch.Generator) -> Iterator[None]:
    """Inside, every module of coordinates (d, B, n, r) gives them times a random R ∈ O(r), one for each graph."""

    def turn(_module: nn.Module, _arguments: Any, v: Tensor) -> Tensor:
        turns = [random_rotation(v.shape[-1], generator) for _ in range(v.shape[1])]
        return v @ torch.stack(turns).to(v) if turns else v

    hooks = [part.register_forward_hook(turn) for part in model.modules() if isinstance(part, Coordinates)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def rotated_in_eigenspaces(points: PointSet, generator: torch.Generator) -> PointSet:
    """The same graph's points with another orthonormal basis in each eigenspace."""
    vectors = points.eigenvectors.clone()
    start = 0
    for space in points.eigenspaces():
        stop = start + space.multiplicity
        vectors[:, start:stop] @= random_rotation(space.multiplicity, generator).to(vectors.dtype)
        start = stop
    return dataclasses.replace(points, eigenvectors=vectors)


def random_rotation(size: int, generator: torch.Generator) -> Tensor:
    """A random element of O(size), uniform, reflections included; (size, size) in float64."""
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    rotation: Tensor = q * r.diagonal().sign()
    return rotation


def reordered_nodes(points: PointSet, order: Tensor) -> PointSet:
    """The same graph whose node i is node ``order[i]`` of the old one."""
    rows = {
        name: value[order]
        for name in ("eigenvectors", "x", "pos", "degrees")
        if (value := getattr(points, name)) is not None
    }
    if points.edge_index is not None:
        rows["edge_index"] = order.argsort()[points.edge_index]
    return dataclasses.replace(points, **rows)


def reordered_graph(graph: Graph, order: Tensor) -> Graph:
    """The same for a graph that is not decomposed yet; its target ``y`` stays as it is."""
    features = graph.features
    x, pos = (None if value is None else value[order] for value in (features.x, features.pos))
    moved = dataclasses.replace(
        graph, edges=order.argsort().numpy()[graph.edges], features=features._replace(x=x, pos=pos)
    )
    return read_graph(moved)[0]  # the edges, with their weights and features, in the order of the new numbers
