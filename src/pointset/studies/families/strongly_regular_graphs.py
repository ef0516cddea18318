"""Strongly regular graphs: v nodes of degree k, neighbours with λ common neighbours, others with μ.

2-FWL is stable on them at the start, and so takes all with the same parameters for one graph.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pointset.errors import SpecError
from pointset.studies.families.checks import whole_number
from pointset.studies.families.regular import hypercube


class Parameters(NamedTuple):
    """Of a strongly regular graph: v nodes with k neighbours each; λ shared by neighbours, μ by other pairs."""

    v: int
    k: int
    lambda_: int
    mu: int


def parameters(graph: nx.Graph[Any]) -> Parameters | None:
    """The parameters of a strongly regular graph, from A² = kI + λA + μ(J − I − A); None for any other graph."""
    adjacency = np.asarray(nx.to_numpy_array(graph) != 0, dtype=np.int64)
    common, identity = adjacency @ adjacency, np.eye(len(adjacency), dtype=np.int64)
    values = [np.unique(common[where == 1]) for where in (identity, adjacency, 1 - identity - adjacency)]
    if np.trace(adjacency) or any(len(one) != 1 for one in values):  # not constant, or no pair of the kind
        return None
    return Parameters(len(adjacency), *(int(one[0]) for one in values))


def rook(side: int) -> nx.Graph[int]:
    """Squares of a chessboard, linked in a row or a column: (s², 2s−2, s−2, 2)."""
    side = whole_number(side, "side", 2)
    return _numbered(nx.line_graph(nx.complete_bipartite_graph(side, side)))


def shrikhande() -> nx.Graph[int]:
    """(16, 6, 2, 2) like the 4×4 rook graph, and not isomorphic to it: Z₄ × Z₄, linked by ±(0,1), ±(1,0), ±(1,1)."""
    steps = ((0, 1), (1, 0), (1, 1))
    cells = itertools.product(range(4), repeat=2)
    return _linked(range(16), ((4 * i + j, 4 * ((i + a) % 4) + (j + b) % 4) for i, j in cells for a, b in steps))


def triangular(n: int) -> nx.Graph[int]:
    """Pairs out of n, linked where they share one: T(n), (n(n−1)/2, 2n−4, n−2, 4)."""
    return _numbered(nx.line_graph(nx.complete_graph(whole_number(n, "n", 4))))


def chang(which: int) -> nx.Graph[int]:
    """The three graphs (28, 12, 6, 4) besides T(8), which Seidel switching makes of it; ``which`` from 1 to 3."""
    edges_of_k8 = (
        [(0, 1), (2, 3), (4, 5), (6, 7)],  # a perfect matching
        [(i, (i + 1) % 8) for i in range(8)],  # a cycle of 8
        [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (5, 6), (6, 7), (3, 7)],  # a triangle and a cycle of 5
    )[whole_number(which, "which", 1, 3) - 1]
    number = {pair: node for node, pair in enumerate(itertools.combinations(range(8), 2))}
    pairs = list(number)
    shared = ((u, v) for u, v in itertools.combinations(range(28), 2) if len({*pairs[u], *pairs[v]}) == 3)
    return seidel_switched(_linked(range(28), shared), {number[min(edge), max(edge)] for edge in edges_of_k8})


def seidel_switched(graph: nx.Graph[Any], nodes: Iterable[Any]) -> nx.Graph[Any]:
    """The graph whose edges between ``nodes`` and the others are exchanged for the missing ones."""
    switched = set(nodes)
    result: nx.Graph[Any] = nx.empty_graph(graph.nodes)
    pairs = itertools.combinations(graph.nodes, 2)
    result.add_edges_from((u, v) for u, v in pairs if graph.has_edge(u, v) != ((u in switched) != (v in switched)))
    return result


def petersen() -> nx.Graph[int]:
    """Petersen's graph, (10, 3, 0, 1): pairs out of five, linked where they share none."""
    return nx.petersen_graph()


def clebsch() -> nx.Graph[int]:
    """(16, 5, 0, 2): the cube of dimension 4 with a link between opposite corners."""
    return _linked(range(16), [*hypercube(4).edges, *((node, 15 - node) for node in range(8))])


def schlaefli() -> nx.Graph[int]:
    """(27, 16, 10, 8): the 27 lines on a cubic surface, linked where they do not meet."""
    lines = [("a", {i}) for i in range(6)] + [("b", {i}) for i in range(6)]
    lines += [("c", set(pair)) for pair in itertools.combinations(range(6), 2)]

    def meet(one: tuple[str, set[int]], other: tuple[str, set[int]]) -> bool:
        kinds, common = {one[0], other[0]}, bool(one[1] & other[1])
        if kinds == {"a", "b"} or kinds == {"c"}:
            return not common
        return len(kinds) == 2 and common

    return _linked(range(27), ((u, v) for u, v in itertools.combinations(range(27), 2) if not meet(lines[u], lines[v])))


def hoffman_singleton() -> nx.Graph[int]:
    """The graph of Hoffman and Singleton, (50, 7, 0, 1): the largest known with degree 7 and diameter 2."""
    return nx.hoffman_singleton_graph()


def latin_square(square: Iterable[Iterable[int]]) -> nx.Graph[int]:
    """Cells of a Latin square, linked in a row, a column or by equal symbols: (n², 3n−3, n, 6)."""
    table = _checked_square(square)
    n = len(table)
    cells = [(i, j, int(table[i, j])) for i in range(n) for j in range(n)]
    pairs = itertools.combinations(range(n * n), 2)
    return _linked(range(n * n), ((u, v) for u, v in pairs if any(map(int.__eq__, cells[u], cells[v]))))


def _checked_square(square: Iterable[Iterable[int]]) -> NDArray[np.int64]:
    try:
        table = np.array([[operator.index(symbol) for symbol in row] for row in square], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        table = np.zeros(0, dtype=np.int64)
    n = len(table)
    if n < 3 or table.shape != (n, n) or any(sorted(line) != list(range(n)) for line in (*table, *table.T)):
        raise SpecError(f"got {square!r}; expected n ≥ 3 rows in which, as in the columns, 0…n−1 stand once each")
    return table


def _linked(nodes: Iterable[int], edges: Iterable[tuple[int, int]]) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.empty_graph(nodes)
    graph.add_edges_from(edges)
    return graph


def _numbered(graph: nx.Graph[Any]) -> nx.Graph[int]:
    return nx.convert_node_labels_to_integers(graph, ordering="sorted")
