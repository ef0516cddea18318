"""Families of random graphs to count substructures in (:data:`FAMILIES`): those a model is trained on, and others.

The benchmark's own kind, regular graphs with n edges removed, is in
:func:`pointset.datasets.benchmarks.counting.counting_graphs`. Graph i of a family depends on the seed, the family and i
alone, so that more graphs begin with the same ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import networkx as nx

NODES_AND_DEGREES = ((10, 6), (15, 6), (20, 5), (30, 5))  # of the benchmark's graphs
FEWEST_NODES, MOST_NODES = 10, 30
_MIXED = 5  # the number of mixed_graphs among the streams of a seed
Draw = Callable[[np.random.Generator], "nx.Graph[Any]"]


class Family(NamedTuple):
    """Graphs of one kind; ``place`` numbers its stream of random numbers, whatever else is in the table."""

    description: str
    draw: Draw
    place: int

    def draw_many(self, count: int, seed: int) -> list[nx.Graph[Any]]:
        """The first ``count`` graphs."""
        return [self.draw(generator) for generator in _generators(count, seed, self.place)]


def mixed_graphs(count: int, seed: int) -> list[nx.Graph[Any]]:
    """Sparse random graphs, regular ones with n edges removed, trees and cycles of 10 to 30 nodes, in turn."""
    draws: list[Draw] = [_random, _small_regular, _tree, _cycle]
    generators = _generators(count, seed, _MIXED)
    return [draw(generator) for draw, generator in zip(itertools.cycle(draws), generators, strict=False)]


def _generators(count: int, seed: int, place: int) -> Sequence[np.random.Generator]:
    return [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place, number, 1)))  # 1: not the benchmark's
        for number in range(count)
    ]


def _seed(generator: np.random.Generator) -> int:
    """For networkx."""
    return int(generator.integers(2**32))


def _size(generator: np.random.Generator) -> int:
    return int(generator.integers(FEWEST_NODES, MOST_NODES + 1))


def _regular(generator: np.random.Generator, nodes: int, degree: int) -> nx.Graph[Any]:
    """A regular graph from which n random edges were removed, as in the benchmark."""
    import networkx as nx  # here and below: reading a table of datasets should not wait for it

    graph: nx.Graph[Any] = nx.random_regular_graph(degree, nodes, seed=_seed(generator))
    edges = sorted(tuple(sorted(edge)) for edge in graph.edges())
    remaining = generator.choice(len(edges), len(edges) - nodes, replace=False)
    thinned: nx.Graph[Any] = nx.empty_graph(nodes)
    thinned.add_edges_from(edges[index] for index in sorted(remaining.tolist()))
    return thinned


def _small_regular(generator: np.random.Generator) -> nx.Graph[Any]:
    return _regular(generator, *NODES_AND_DEGREES[generator.integers(len(NODES_AND_DEGREES))])


def _random(generator: np.random.Generator) -> nx.Graph[Any]:
    """As many edges as the benchmark's graphs have, anywhere."""
    import networkx as nx

    nodes, degree = NODES_AND_DEGREES[generator.integers(len(NODES_AND_DEGREES))]
    graph: nx.Graph[Any] = nx.gnm_random_graph(nodes, nodes * degree // 2 - nodes, seed=_seed(generator))
    return graph


def _hubs(generator: np.random.Generator) -> nx.Graph[Any]:
    import networkx as nx

    graph: nx.Graph[Any] = nx.barabasi_albert_graph(_size(generator), 2, seed=_seed(generator))
    return graph


def _tree(generator: np.random.Generator) -> nx.Graph[Any]:
    import networkx as nx

    tree: nx.Graph[Any] = nx.random_labeled_tree(_size(generator), seed=_seed(generator))
    return tree


def _cycle(generator: np.random.Generator) -> nx.Graph[Any]:
    import networkx as nx

    cycle: nx.Graph[Any] = nx.cycle_graph(_size(generator))
    return cycle


def _small_world(generator: np.random.Generator) -> nx.Graph[Any]:
    import networkx as nx

    graph: nx.Graph[Any] = nx.watts_strogatz_graph(_size(generator), 4, 0.3, seed=_seed(generator))
    return graph


def _communities(generator: np.random.Generator) -> nx.Graph[Any]:
    """Blocks of five nodes, dense inside, sparse between."""
    import networkx as nx

    sizes = [5] * int(generator.integers(2, 7))
    graph = nx.random_partition_graph(sizes, 0.6, 1 / sum(sizes), seed=_seed(generator))
    plain: nx.Graph[Any] = nx.empty_graph(len(graph))  # without the attributes that networkx adds
    plain.add_edges_from(graph.edges())
    return plain


def _geometric(generator: np.random.Generator) -> nx.Graph[Any]:
    """Points in a square, joined to the near ones: four neighbours on average, and many triangles."""
    nodes = _size(generator)
    points = generator.random((nodes, 2))
    apart = np.square(points[:, None] - points[None]).sum(-1)
    i, j = np.nonzero(np.triu(apart < 4 / (np.pi * nodes), 1))
    import networkx as nx

    graph: nx.Graph[Any] = nx.empty_graph(nodes)
    graph.add_edges_from(zip(i.tolist(), j.tolist(), strict=True))
    return graph


FAMILIES: dict[str, Family] = {
    "40 nodes": Family("5-regular graphs of 40 nodes, 40 edges removed", lambda seeded: _regular(seeded, 40, 5), 0),
    "60 nodes": Family("5-regular graphs of 60 nodes, 60 edges removed", lambda seeded: _regular(seeded, 60, 5), 1),
    "random": Family("as many nodes and edges as the training kind, edges anywhere", _random, 2),
    "hubs": Family("preferential attachment, 10 to 30 nodes, two edges for each new one", _hubs, 3),
    "trees": Family("random trees of 10 to 30 nodes", _tree, 4),
    "small worlds": Family("rings of 10 to 30 nodes, 4 neighbours each, 3 of 10 edges rewired", _small_world, 6),
    "communities": Family("2 to 6 blocks of 5 nodes, dense inside, sparse between", _communities, 7),
    "geometric": Family("10 to 30 points in a square, near ones joined", _geometric, 8),
}
