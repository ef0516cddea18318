"""Graphs that no training has seen: the kind of the counting benchmark, larger ones, and quite different ones.

Graph i of a family depends on the seed, the family and i alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from pointset.datasets.counting.generator import NODES_AND_DEGREES, counting_graphs
from pointset.points.graphs import GraphArrays
from pointset.points.inputs import read_graphs

_FEWEST, _MOST = 10, 30  # nodes of the small graphs, as in the benchmark
_CYCLES = range(3, _MOST + 1)  # all there are: a family of them has no more graphs
TRAINING_KIND = "training kind"


class Family(NamedTuple):
    """Graphs of one kind."""

    description: str
    graphs: GraphArrays


def counting_families(count: int, seed: int) -> dict[str, Family]:
    """``count`` graphs of the benchmark's own kind, and as many of each kind beyond it."""
    num_nodes, num_edges, edges = counting_graphs(seed, count)
    families = {
        TRAINING_KIND: Family(
            "regular graphs of 10 to 30 nodes, n edges removed", GraphArrays.from_flat(num_nodes, num_edges, edges)
        )
    }
    for place, (name, (description, draw)) in enumerate(_BEYOND.items()):
        families[name] = Family(description, read_graphs(_drawn(draw, count, seed, place)))
    families["cycles"] = Family("one cycle of 3 to 30 nodes", read_graphs(map(nx.cycle_graph, _CYCLES[:count])))
    return families


def mixed_graphs(count: int, seed: int) -> list[nx.Graph[Any]]:
    """Sparse random graphs, regular ones with n edges removed, trees and cycles of 10 to 30 nodes, in turn."""
    kinds = (_random, _small_regular, _tree, _cycle)
    generators = _generators(count, seed, len(_BEYOND))
    return [kinds[number % len(kinds)](generator) for number, generator in enumerate(generators)]


def _drawn(draw: Callable[[np.random.Generator], nx.Graph[Any]], count: int, seed: int, place: int) -> Any:
    return [draw(generator) for generator in _generators(count, seed, place)]


def _generators(count: int, seed: int, place: int) -> Sequence[np.random.Generator]:
    return [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place, number, 1)))  # 1: not the benchmark's
        for number in range(count)
    ]


def _whole(generator: np.random.Generator) -> int:
    """A seed for networkx."""
    return int(generator.integers(2**32))


def _size(generator: np.random.Generator) -> int:
    return int(generator.integers(_FEWEST, _MOST + 1))


def _regular(generator: np.random.Generator, nodes: int, degree: int) -> nx.Graph[Any]:
    """A regular graph from which n random edges were removed, as in the benchmark."""
    graph: nx.Graph[Any] = nx.random_regular_graph(degree, nodes, seed=_whole(generator))
    edges = sorted(tuple(sorted(edge)) for edge in graph.edges())
    kept = generator.choice(len(edges), len(edges) - nodes, replace=False)
    thinned: nx.Graph[Any] = nx.empty_graph(nodes)
    thinned.add_edges_from(edges[index] for index in sorted(kept.tolist()))
    return thinned


def _small_regular(generator: np.random.Generator) -> nx.Graph[Any]:
    return _regular(generator, *NODES_AND_DEGREES[generator.integers(len(NODES_AND_DEGREES))])


def _random(generator: np.random.Generator) -> nx.Graph[Any]:
    """As many edges as the benchmark's graphs have, anywhere."""
    nodes, degree = NODES_AND_DEGREES[generator.integers(len(NODES_AND_DEGREES))]
    graph: nx.Graph[Any] = nx.gnm_random_graph(nodes, nodes * degree // 2 - nodes, seed=_whole(generator))
    return graph


def _tree(generator: np.random.Generator) -> nx.Graph[Any]:
    graph: nx.Graph[Any] = nx.random_labeled_tree(_size(generator), seed=_whole(generator))
    return graph


def _cycle(generator: np.random.Generator) -> nx.Graph[Any]:
    graph: nx.Graph[Any] = nx.cycle_graph(_size(generator))
    return graph


def _hubs(generator: np.random.Generator) -> nx.Graph[Any]:
    graph: nx.Graph[Any] = nx.barabasi_albert_graph(_size(generator), 2, seed=_whole(generator))
    return graph


_BEYOND: dict[str, tuple[str, Callable[[np.random.Generator], nx.Graph[Any]]]] = {
    "40 nodes": ("5-regular graphs of 40 nodes, 40 edges removed", lambda generator: _regular(generator, 40, 5)),
    "60 nodes": ("5-regular graphs of 60 nodes, 60 edges removed", lambda generator: _regular(generator, 60, 5)),
    "random": ("as many nodes and edges as the training kind, edges anywhere", _random),
    "hubs": ("preferential attachment, 10 to 30 nodes, two edges for each new one", _hubs),
    "trees": ("random trees of 10 to 30 nodes", _tree),
}
