"""Cycles and their kin: graphs that message passing cannot tell apart."""

from __future__ import annotations

import networkx as nx

from pointset.studies.families.checks import whole_number

CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def cycle(n: int) -> nx.Graph[int]:
    """One cycle C_n, n ≥ 3."""
    graph: nx.Graph[int] = nx.cycle_graph(whole_number(n, "n", 3))
    return graph


def two_cycles(length: int) -> nx.Graph[int]:
    """Two separate cycles, which message passing cannot tell from one cycle of twice the length."""
    one = cycle(whole_number(length, "length", 3))
    return nx.disjoint_union(one, one)


def circular_skip_links(nodes: int, skip: int) -> nx.Graph[int]:
    """A cycle with a link from each node to the one ``skip`` further on (twice the same link where 2·skip = nodes)."""
    nodes = whole_number(nodes, "nodes", 5)
    return nx.circulant_graph(nodes, [1, whole_number(skip, "skip", 2, nodes - 2)])


def csl_classes() -> list[nx.Graph[int]]:
    """The ten classes of the CSL benchmark: 41 nodes each, 4-regular, pairwise not isomorphic."""
    return [circular_skip_links(CSL_NODES, skip) for skip in CSL_SKIPS]
