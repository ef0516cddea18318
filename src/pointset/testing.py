"""Check that a model sees graphs and not their accidents: node order, basis of the points, the rest of the batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pointset.encoders.batch import collate
from pointset.encoders.inputs import Coordinates
from pointset.points.convert import to_points_many
from pointset.points.matrices import DEFAULT_MATRIX
from pointset.points.point_set import PointSet

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}  # relative to the largest output


class InvarianceError(AssertionError):
    """A model's output changed where it must not."""


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
            :class:`~pointset.encoders.inputs.Coordinates`.
        graphs: graphs of any accepted kind, or point sets.
        tolerance: largest difference, relative to the largest output of all graphs; by default 1e-10 in float64 and
            1e-5 in float32.
        seed: of the random draws.
        repeats: number of random draws.

    Raises:
        InvarianceError: which change mattered, for which graph, and by how much.

    Example:
        >>> import networkx as nx, pointset
        >>> model = pointset.PointModel.from_preset("pst", dim=8, layers=2).double()
        >>> pointset.testing.assert_invariant(model, [nx.cycle_graph(6), nx.hypercube_graph(3)])
    """
    point_sets = _point_sets(model, graphs)
    dtype = next((p.dtype for p in model.parameters()), torch.float64)
    allowed = TOLERANCE.get(dtype, 1e-5) if tolerance is None else tolerance
    generator = torch.Generator().manual_seed(seed)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            expected = _rows(model, point_sets)
            compare = _Comparison(expected, allowed)
            compare("each graph alone instead of in a batch", [_rows(model, [points])[0] for points in point_sets])
            for _ in range(repeats):
                _check_once(model, point_sets, compare, generator)
    finally:
        model.train(was_training)


def rotated_in_eigenspaces(points: PointSet, generator: torch.Generator) -> PointSet:
    """The same graph's points with another orthonormal basis in each eigenspace."""
    vectors = points.eigenvectors.clone()
    start = 0
    for space in points.eigenspaces():
        stop = start + space.multiplicity
        vectors[:, start:stop] @= random_rotation(space.multiplicity, generator).to(vectors.dtype)
        start = stop
    return dataclasses.replace(points, eigenvectors=vectors)


def reordered_nodes(points: PointSet, order: Tensor) -> PointSet:
    """The same graph whose node i is node ``order[i]`` of the old one."""
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order))
    rows = {
        name: value[order]
        for name in ("eigenvectors", "x", "pos", "degrees")
        if (value := getattr(points, name)) is not None
    }
    if points.edge_index is not None:
        rows["edge_index"] = position[points.edge_index]
    return dataclasses.replace(points, **rows)


def random_rotation(size: int, generator: torch.Generator) -> Tensor:
    """A random element of O(size), uniform, reflections included; (size, size) in float64."""
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    rotation: Tensor = q * r.diagonal().sign()
    return rotation


class _Comparison:
    """Compares rows of each graph with those expected, relative to the largest output."""

    def __init__(self, expected: list[Tensor], allowed: float):
        self.expected, self.allowed = expected, allowed
        largest = max((float(rows.abs().max()) for rows in expected if rows.numel()), default=0.0)
        self.scale = max(largest, torch.finfo(torch.float32).tiny)

    def __call__(self, change: str, got: list[Tensor]) -> None:
        for position, (before, after) in enumerate(zip(self.expected, got, strict=True)):
            if not before.numel():
                continue
            difference = float((after - before).abs().max()) / self.scale
            if not difference <= self.allowed:  # also where it is NaN
                raise InvarianceError(
                    f"{change} changed the output for graph {position} by {difference:.1e} of the largest output "
                    f"{self.scale:.3g}; allowed is {self.allowed:.0e}"
                )


def _check_once(model: nn.Module, point_sets: list[PointSet], compare: _Comparison, generator: torch.Generator) -> None:
    orders = [torch.randperm(points.num_nodes, generator=generator) for points in point_sets]
    rows = _rows(model, [reordered_nodes(points, order) for points, order in zip(point_sets, orders, strict=True)])
    if all(len(part) == len(order) for part, order in zip(rows, orders, strict=True)):  # a row for each node
        rows = [part[order.argsort()] for part, order in zip(rows, orders, strict=True)]
    compare("another order of the nodes", rows)
    turned = [rotated_in_eigenspaces(points, generator) for points in point_sets]
    compare("another basis inside the eigenspaces", _rows(model, turned))
    with _turned_coordinates(model, generator):
        compare("an orthogonal transformation of the points", _rows(model, point_sets))
    batch_order = torch.randperm(len(point_sets), generator=generator)
    shuffled = _rows(model, [point_sets[position] for position in batch_order.tolist()])
    compare("another order of the batch", [shuffled[position] for position in batch_order.argsort().tolist()])


def _point_sets(model: nn.Module, graphs: Sequence[Any]) -> list[PointSet]:
    if all(isinstance(graph, PointSet) for graph in graphs):
        return list(graphs)
    return list(to_points_many(graphs, matrix=getattr(model, "matrix", DEFAULT_MATRIX), progress=False))


def _rows(model: nn.Module, point_sets: list[PointSet]) -> list[Tensor]:
    """The output of each graph in its own tensor: (1, out), or (n, out) where the model gives a row for each node."""
    output: Tensor = model(collate(point_sets))
    counts = [points.num_nodes for points in point_sets]
    # Where there are as many nodes as graphs, the number of rows does not tell: the model does.
    by_node = getattr(getattr(model, "readout", None), "level", None) == "node"
    if output.shape[0] == sum(counts) and (by_node or output.shape[0] != len(counts)):
        return list(torch.split(output, counts))
    if output.shape[0] == len(counts):
        return list(torch.split(output, 1))
    raise InvarianceError(
        f"the model gave {output.shape[0]} rows for {len(counts)} graphs with {sum(counts)} nodes; expected a row for "
        "each graph or for each node"
    )


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
