"""Changes that leave a graph the same graph: another order of its nodes, another basis of its points."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pointset.encoders.inputs import Coordinates
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graph
from pointset.points.point_set import PointSet


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


def random_rotation(size: int, generator: torch.Generator) -> Tensor:
    """A random element of O(size), uniform, reflections included; (size, size) in float64."""
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    rotation: Tensor = q * r.diagonal().sign()
    return rotation


def has_coordinates(model: nn.Module) -> bool:
    """Whether :func:`turned_coordinates` has anything to turn."""
    return any(isinstance(part, Coordinates) for part in model.modules())


@contextmanager
def turned_coordinates(model: nn.Module, generator: torch.Generator) -> Iterator[None]:
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
