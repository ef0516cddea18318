"""What is worth knowing of a graph and its points before training on it (:func:`facts_of`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse.csgraph

from pointset.errors import PointsetError, RankError
from pointset.points.graphs import Graph
from pointset.points.inverse import Rebuilt, rebuild
from pointset.points.memory import training_bytes
from pointset.points.point_set import PointSet
from pointset.points.sparse import adjacency_matrix

RoundTrip = Literal["ok", "truncated", "failed"]


@dataclass(frozen=True)
class GraphFacts:
    """Facts of one graph; None where the points do not tell."""

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
    """Facts of a graph and its points; the way back is really gone.

    Args:
        name: where the graph comes from.
        points: its points.
        graph: the graph itself where it is at hand; otherwise the rebuilt one is taken for it.
        width: channels of the encoder whose memory is forecast.
        layers: its layers.
    """
    rebuilt, round_trip, problem = _way_back(points, graph)
    if graph is None and rebuilt is not None:
        graph = Graph(points.num_nodes, rebuilt.edges.numpy(), None, points.weight_kind)
    return GraphFacts(
        name=name,
        nodes=points.num_nodes,
        edges=points.num_edges,
        components=None if graph is None else _components(graph),
        rank=points.rank,
        multiplicities=[space.multiplicity for space in points.eigenspaces()],
        smallest_relative_gap=_smallest_gap(points),
        round_trip=round_trip,
        round_trip_error=None if rebuilt is None else rebuilt.error,
        round_trip_problem=problem,
        training_bytes=training_bytes(points.num_nodes, points.rank, dim=width, layers=layers),
    )


def _way_back(points: PointSet, graph: Graph | None) -> tuple[Rebuilt | None, RoundTrip, str | None]:
    try:
        rebuilt = rebuild(points)
    except RankError as error:
        return None, "truncated", str(error)
    except PointsetError as error:
        return None, "failed", str(error)
    if graph is not None and not np.array_equal(rebuilt.edges.numpy(), graph.edges):
        return rebuilt, "failed", "the rebuilt graph has other edges"
    return rebuilt, "ok", None


def _components(graph: Graph) -> int:
    if not graph.num_nodes:
        return 0
    pattern = adjacency_matrix(Graph(graph.num_nodes, graph.edges, None, graph.weight_kind))
    count, _ = scipy.sparse.csgraph.connected_components(pattern, directed=False)
    return int(count)


def _smallest_gap(points: PointSet) -> float | None:
    values = [space.eigenvalue for space in points.eigenspaces()]
    if points.rank < points.num_nodes and points.truncation is None:
        values = sorted([*values, 0.0])
    if len(values) < 2 or not all(math.isfinite(value) for value in values):
        return None
    return float(np.diff(values).min() / np.abs(values).max())
