"""Graphs on which a dihedral group acts, and a search among them for what graph transformers take for one.

All nodes of such a graph are alike, so return probabilities say no more than the spectrum does, and with diameter 2
distances say no more than edges do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import networkx as nx
import numpy as np

from pointset.studies.theorems.relations import adjacency, gps_same, graphormer_same

Pair = tuple["nx.Graph[int]", "nx.Graph[int]"]


def dihedral_graph(half: int, turns: Iterable[int], links: Iterable[int]) -> nx.Graph[int]:
    """The Cayley graph of the dihedral group of order 2m, m = ``half``, nodes 0 … 2m − 1.

    Node i is joined to i ± t and node m + i to m + (i ± t) for each turn t, node i to m + (i + l) for each link l, all
    modulo m within each half.
    """
    graph: nx.Graph[int] = nx.empty_graph(2 * half)
    for i, turn in itertools.product(range(half), turns):
        graph.add_edge(i, (i + turn) % half)
        graph.add_edge(half + i, half + (i + turn) % half)
    graph.add_edges_from((i, half + (i + link) % half) for i, link in itertools.product(range(half), links))
    return graph


def twelve_nodes() -> Pair:
    """The smallest pair that :func:`search` finds, and the only one with twelve nodes, up to complements.

    Both are 5-regular with diameter 2. The second is also the circulant graph on twelve nodes with steps 1, 3 and 6.
    """
    return dihedral_graph(6, (1,), (0, 1, 3)), dihedral_graph(6, (3,), (0, 1, 2, 3))


def search(half: int) -> Iterator[Pair]:
    """Different dihedral graphs with 2·``half`` nodes that Graphormer and GPS with RWSE both take for one.

    Of a graph and its complement the sparser is tried.
    """
    groups: dict[tuple[int, ...], list[nx.Graph[int]]] = {}
    for turns, links in itertools.product(_subsets(range(1, half // 2 + 1)), _subsets(range(half))):
        graph = dihedral_graph(half, turns, links)
        A = adjacency(graph)
        if 2 * A[0].sum() > 2 * half - 1:
            continue
        # All nodes are alike, so closed walks from one of them are the return probabilities of all, in whole numbers.
        known = groups.setdefault(tuple(int(np.linalg.matrix_power(A, k)[0, 0]) for k in range(2, 2 * half)), [])
        if any(nx.faster_could_be_isomorphic(graph, other) and nx.is_isomorphic(graph, other) for other in known):
            continue
        yield from ((other, graph) for other in known if gps_same(other, graph) and graphormer_same(other, graph))
        known.append(graph)


def _subsets(numbers: range) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(numbers, size) for size in range(len(numbers) + 1))
