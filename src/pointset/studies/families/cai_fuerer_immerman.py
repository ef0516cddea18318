"""The pairs of Cai, Fürer and Immerman: k-FWL tells them apart only where the base graph's treewidth is at most k."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx

from pointset.errors import GraphError, SpecError

MOST_NODES = 20_000  # a node of degree d in the base becomes 2^(d−1) nodes


def cfi(base_graph: nx.Graph[Any], twisted: bool) -> nx.Graph[int]:
    """A graph made of a base graph; its twisted form is not isomorphic to it, but alike for weak tests.

    A node v of the base becomes the nodes (v, S), one for each set S of an even number of its edges. (u, S) and (v, T)
    are linked for an edge e = uv of the base if e is in both S and T or in neither; on one edge, the twisted one, if
    e is in just one of them. Which edge that is makes no difference. (The form without nodes for the base's edges.)

    Args:
        base_graph: connected, undirected, with an edge and without loops.
        twisted: whether one edge is twisted.
    """
    _check(base_graph)
    edges = [frozenset(edge) for edge in base_graph.edges]
    sets = {node: _even_subsets([edge for edge in edges if node in edge]) for node in base_graph.nodes}
    number = {(node, chosen): place for place, (node, chosen) in enumerate((v, s) for v in sets for s in sets[v])}
    graph: nx.Graph[int] = nx.empty_graph(len(number))
    for edge in edges:
        u, v = edge
        crossed = twisted and edge == edges[0]
        for of_u, of_v in itertools.product(sets[u], sets[v]):
            if ((edge in of_u) == (edge in of_v)) != crossed:
                graph.add_edge(number[u, of_u], number[v, of_v])
    return graph


def _even_subsets(edges: list[frozenset[Any]]) -> list[frozenset[frozenset[Any]]]:
    sizes = range(0, len(edges) + 1, 2)
    return [frozenset(chosen) for size in sizes for chosen in itertools.combinations(edges, size)]


def _check(base: nx.Graph[Any]) -> None:
    if not isinstance(base, nx.Graph) or base.is_directed() or base.is_multigraph():
        raise GraphError(f"got {type(base).__name__}; expected an undirected networkx graph as base")
    if not base.number_of_edges() or nx.number_of_selfloops(base) or not nx.is_connected(base):
        raise GraphError(
            f"got a base of {len(base)} nodes in {nx.number_connected_components(base)} parts, with "
            f"{base.number_of_edges()} edges, {nx.number_of_selfloops(base)} of them loops; expected one part, with "
            "edges and without loops. Take one part, and call base.remove_edges_from(list(nx.selfloop_edges(base)))"
        )
    nodes = sum(2 ** (degree - 1) for _, degree in base.degree)
    if nodes > MOST_NODES:
        raise SpecError(
            f"this base would give {nodes} nodes; expected at most {MOST_NODES}. Use a base of smaller degree"
        )
