"""The numbers of a dataset (:func:`statistics_of`), and of one graph and its points (:func:`facts_of`).

All of a dataset is computed on the flat arrays, so that 250,000 graphs take seconds. NaN is a missing value everywhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from pointset.arrays import Array
from pointset.datasets.card import Card, Target, Task
from pointset.datasets.dataset import Dataset
from pointset.errors import PointsetError, RankError
from pointset.machine import training_bytes
from pointset.points.graphs import Graph, GraphArrays
from pointset.points.inverse import Rebuilt, rebuild
from pointset.points.point_set import PointSet
from pointset.specs import Categories, Spec

RoundTrip = Literal["ok", "truncated", "failed"]


@dataclass(frozen=True)
class Spread:
    """Where numbers lie; ``std`` divides by their number."""

    mean: float
    std: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Array) -> Spread | None:
        """Of all that are finite; None where there are none."""
        numbers = np.asarray(values, dtype=np.float64).ravel()
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return None
        return cls(*(float(number) for number in (numbers.mean(), numbers.std(), numbers.min(), numbers.max())))


@dataclass(frozen=True)
class Column:
    """One column of node or edge features."""

    name: str
    categories: int | None  # how many there are by the card; None where the column holds real numbers
    occurring: int | None  # how many of them occur
    spread: Spread | None  # of real numbers
    missing: int


@dataclass(frozen=True)
class TargetColumn:
    """One column of ``y``."""

    name: str
    unit: str
    rows: int  # graphs or nodes
    missing: int
    spread: Spread | None = None  # of a regression
    counts: dict[str, int] | None = None  # of a classification: rows of each class, by its name


@dataclass(frozen=True)
class Statistics:
    """A dataset in numbers; None where there is no graph, node or edge to take them from."""

    graphs: int
    total_nodes: int
    total_edges: int  # each once
    nodes: Spread | None  # per graph
    edges: Spread | None  # per graph, each once
    degrees: Spread | None  # per node; a self-loop counts twice
    components: Spread | None  # per graph
    connected: int  # graphs in one piece
    isolated_nodes: int
    self_loops: int
    parts: dict[str, int]  # sizes of the split
    node_columns: tuple[Column, ...]
    edge_columns: tuple[Column, ...]
    targets: tuple[TargetColumn, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def statistics_of(dataset: Dataset) -> Statistics:
    """The numbers of a dataset, O(N + M)."""
    arrays, card, features = dataset.arrays, dataset.card, dataset.features
    first, second = _flat_edges(arrays)
    degrees = np.bincount(np.concatenate([first, second]), minlength=int(arrays.num_nodes.sum()))
    components = _components(arrays, first, second)
    return Statistics(
        graphs=len(arrays),
        total_nodes=int(arrays.num_nodes.sum()),
        total_edges=int(arrays.num_edges.sum()),
        nodes=Spread.of(arrays.num_nodes),
        edges=Spread.of(arrays.num_edges),
        degrees=Spread.of(degrees),
        components=Spread.of(components),
        connected=int((components == 1).sum()),
        isolated_nodes=int((degrees == 0).sum()),
        self_loops=int((first == second).sum()),
        parts={name: len(indices) for name, indices in dataset.split.items()},
        node_columns=_columns(features.x, card.node, card.node_columns),
        edge_columns=_columns(features.edge_attr, card.edge, card.edge_columns),
        targets=_targets(features.y, card),
    )


def as_columns(values: Any) -> list[Array]:
    """The columns of an array or tensor (rows,) or (rows, …); none where there is none."""
    if values is None:
        return []
    if isinstance(values, Tensor) and values.dtype == torch.bfloat16:  # which numpy does not have
        values = values.float()
    array = np.asarray(values)
    wide = array.reshape(len(array), int(np.prod(array.shape[1:])))
    return [wide[:, column] for column in range(wide.shape[1])]


def column_names(names: Sequence[str], width: int) -> list[str]:
    """A name for each column: those given, then ``column 3``."""
    return [names[column] if column < len(names) else f"column {column}" for column in range(width)]


def missing_in(values: Array) -> int:
    """How many are NaN."""
    return int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0


def _flat_edges(arrays: GraphArrays) -> tuple[Array, Array]:
    """The ends (M,) of all edges, with nodes numbered through all graphs."""
    starts = np.repeat(np.cumsum(arrays.num_nodes) - arrays.num_nodes, arrays.num_edges)
    first, second = arrays.edges
    return first + starts, second + starts


def _components(arrays: GraphArrays, first: Array, second: Array) -> Array:
    """(G,) components of each graph: all graphs are searched as one, and no component crosses from one to another."""
    nodes = int(arrays.num_nodes.sum())
    count, label = _connected_components(nodes, first, second)
    representative = np.zeros(count, dtype=np.int64)
    representative[label] = np.arange(nodes)
    graph_of_node = np.repeat(np.arange(len(arrays)), arrays.num_nodes)
    return np.bincount(graph_of_node[representative], minlength=len(arrays))


def _connected_components(nodes: int, first: Array, second: Array) -> tuple[int, Array]:
    """How many there are, and (nodes,) the number of each node's."""
    pattern = scipy.sparse.coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(nodes, nodes))
    count, label = scipy.sparse.csgraph.connected_components(pattern, directed=False)
    return int(count), label


def _columns(values: Any, spec: Spec, names: Sequence[str]) -> tuple[Column, ...]:
    columns = as_columns(values)
    sizes = spec.sizes if isinstance(spec, Categories) else ()
    return tuple(
        Column(
            name=name,
            categories=sizes[number] if number < len(sizes) else None,
            occurring=len(np.unique(column)) if number < len(sizes) else None,
            spread=None if number < len(sizes) else Spread.of(column),
            missing=missing_in(column),
        )
        for number, (name, column) in enumerate(zip(column_names(names, len(columns)), columns, strict=True))
    )


def _targets(values: Any, card: Card) -> tuple[TargetColumn, ...]:
    columns = as_columns(values)
    names = column_names(card.target_names, len(columns))
    known: Iterable[Target] = (*card.targets, *(Target(name) for name in names[len(card.targets) :]))
    return tuple(
        TargetColumn(
            name=target.name,
            unit=target.unit,
            rows=len(column),
            missing=missing_in(column),
            spread=Spread.of(column) if card.task is Task.REGRESSION else None,
            counts=None if card.task is Task.REGRESSION else _class_counts(column, card),
        )
        for target, column in zip(known, columns, strict=False)
    )


def _class_counts(column: Array, card: Card) -> dict[str, int]:
    """Rows of each class; those that the card names come in its order and are there even with none."""
    values, counts = np.unique(column[~np.isnan(column)] if column.dtype.kind == "f" else column, return_counts=True)
    found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    named = dict(enumerate(card.classes or ("0", "1")))
    others = {value: f"{value:g}" for value in found if value not in named}
    return {name: found.get(value, 0) for value, name in (named | others).items()}


@dataclass(frozen=True)
class GraphFacts:
    """What is worth knowing of a graph and its points before training on it; None where the points do not say."""

    name: str
    nodes: int
    edges: int
    components: int | None
    rank: int
    multiplicities: list[int]  # of the non-zero eigenvalues, ascending
    smallest_relative_gap: float | None  # between distinct eigenvalues, 0 among them where it is one, by max |λ|
    round_trip: RoundTrip
    round_trip_error: float | None  # max |Z of the points − Z of the rebuilt graph|
    round_trip_problem: str | None
    training_bytes: int


def facts_of(name: str, points: PointSet, graph: Graph | None, *, width: int, layers: int) -> GraphFacts:
    """Facts of a graph and its points; the graph is really rebuilt from them, and stands in where it is not at hand.

    ``width`` (channels) and ``layers`` are of the encoder whose memory is forecast.
    """
    rebuilt, round_trip, problem = _round_trip(points, graph)
    if graph is None and rebuilt is not None:
        graph = Graph(points.num_nodes, rebuilt.edges.numpy(), None, points.weight_kind)
    return GraphFacts(
        name=name,
        nodes=points.num_nodes,
        edges=points.num_edges,
        components=None if graph is None else _connected_components(graph.num_nodes, *graph.edges)[0],
        rank=points.rank,
        multiplicities=[space.multiplicity for space in points.eigenspaces()],
        smallest_relative_gap=_smallest_gap(points),
        round_trip=round_trip,
        round_trip_error=None if rebuilt is None else rebuilt.error,
        round_trip_problem=problem,
        training_bytes=training_bytes(points.num_nodes, points.rank, dim=width, layers=layers),
    )


def _round_trip(points: PointSet, graph: Graph | None) -> tuple[Rebuilt | None, RoundTrip, str | None]:
    try:
        rebuilt = rebuild(points)
    except RankError as error:
        return None, "truncated", str(error)
    except PointsetError as error:
        return None, "failed", str(error)
    if graph is not None and not np.array_equal(rebuilt.edges.numpy(), graph.edges):
        return rebuilt, "failed", "the rebuilt graph has other edges"
    return rebuilt, "ok", None


def _smallest_gap(points: PointSet) -> float | None:
    values = [space.eigenvalue for space in points.eigenspaces()]
    if points.rank < points.num_nodes and points.truncation is None:
        values = sorted([*values, 0.0])
    if len(values) < 2 or not all(math.isfinite(value) for value in values):
        return None
    return float(np.diff(values).min() / np.abs(values).max())
