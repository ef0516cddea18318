"""Graph families on which expressivity is decided: networkx graphs with nodes 0…n−1, and PyG Data with a mark.

``FAMILIES`` lists them by name, with a description of each::

    from pointset.paper.families import FAMILIES, cfi, rook

    rook(4)  # a networkx graph with 16 nodes
    cfi(rook(2), twisted=True)
    for family in FAMILIES.values():
        print(family.name, "–", family.description)
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import comb, isqrt
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

from pointset.arrays import Integers
from pointset.datasets.splits.parts import whole_number
from pointset.errors import GraphError, SpecError
from pointset.points.inputs import read_graph
from pointset.points.same_graph import is_same_graph

CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
MOST_CFI_NODES = 20_000  # a node of degree d in the base becomes 2^(d−1) nodes
MOST_NODES = 100  # of strongly_regular; the constructions themselves have no bound


def _linked(nodes: Iterable[int], edges: Iterable[tuple[int, int]]) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.empty_graph(nodes)
    graph.add_edges_from(edges)
    return graph


def cycle(n: int) -> nx.Graph[int]:
    """One cycle C_n, n ≥ 3."""
    graph: nx.Graph[int] = nx.cycle_graph(whole_number(n, "n", 3))
    return graph


def two_cycles(length: int) -> nx.Graph[int]:
    """Two separate cycles, which message passing cannot distinguish from one cycle of twice the length."""
    one = cycle(whole_number(length, "length", 3))
    return nx.disjoint_union(one, one)


def circular_skip_links(nodes: int, skip: int) -> nx.Graph[int]:
    """A cycle with a link from each node to the one ``skip`` further on (twice the same link where 2·skip = nodes)."""
    nodes = whole_number(nodes, "nodes", 5)
    return nx.circulant_graph(nodes, [1, whole_number(skip, "skip", 2, nodes - 2)])


def csl_classes() -> list[nx.Graph[int]]:
    """The ten classes of the CSL benchmark: 41 nodes each, 4-regular, pairwise not isomorphic."""
    return [circular_skip_links(CSL_NODES, skip) for skip in CSL_SKIPS]


def hypercube(dimension: int) -> nx.Graph[int]:
    """The 2^d nodes of a cube, linked where one binary digit differs."""
    dimension = whole_number(dimension, "dimension", 0, 20)
    nodes = range(1 << dimension)
    return _linked(nodes, ((node, node ^ (1 << digit)) for node in nodes for digit in range(dimension)))


def random_regular(nodes: int, degree: int, seed: int) -> nx.Graph[int]:
    """A graph drawn at random from those in which every node has ``degree`` neighbours."""
    nodes = whole_number(nodes, "nodes", 1)
    degree = whole_number(degree, "degree", 0, nodes - 1)
    if nodes * degree % 2:
        raise SpecError(f"got {nodes} nodes of degree {degree}; expected an even product, as each edge has two ends")
    generator = np.random.default_rng(whole_number(seed, "seed", 0))
    dense = 2 * degree >= nodes  # then networkx would rarely succeed; the complement of a sparse one is as random
    drawn = nx.random_regular_graph(nodes - 1 - degree if dense else degree, nodes, seed=generator)
    graph = _linked(range(nodes), sorted((min(edge), max(edge)) for edge in drawn.edges))  # with the nodes in order
    return nx.complement(graph) if dense else graph


def marked(graph: Any, node: int) -> Data:
    """PyG Data with x (n, 1), 1 at the node and 0 elsewhere; nodes are numbered from 0 in the graph's own order.

    The graph is anything that :func:`pointset.to_points` takes, without node features.
    """
    read = read_graph(graph)[0]
    if read.features.x is not None:
        raise GraphError(f"the graph has node features x of shape {tuple(read.features.x.shape)}; expected none")
    if not read.num_nodes:
        raise GraphError("got a graph without nodes; expected one node to mark")
    x = torch.zeros(read.num_nodes, 1, dtype=torch.int64)
    x[whole_number(node, "node", 0, read.num_nodes - 1)] = 1
    back = np.flatnonzero(read.edges[0] != read.edges[1])  # a loop stands once
    order = torch.from_numpy(np.concatenate([np.arange(read.edges.shape[1]), back]))
    edges = np.concatenate([read.edges, read.edges[::-1, back]], axis=1)
    data = Data(x=x, edge_index=torch.from_numpy(edges), num_nodes=read.num_nodes)
    if read.weights is not None:
        data.edge_weight = torch.from_numpy(read.weights.copy())[order]
    if read.features.edge_attr is not None:
        data.edge_attr = read.features.edge_attr[order]
    return data


def cfi(base_graph: nx.Graph[Any], twisted: bool) -> nx.Graph[int]:
    """A graph made of a base graph; its twisted form is not isomorphic to it, but alike for weak tests.

    A node v of the base becomes the nodes (v, S), one for each set S of an even number of its edges. (u, S) and (v, T)
    are linked for an edge e = uv of the base if e is in both S and T or in neither; on one edge, the twisted one, if
    e is in just one of them. Which edge that is makes no difference. (The form without nodes for the base's edges.)
    k-FWL distinguishes the pair only where the base's treewidth is at most k (Cai, Fürer and Immerman).
    The base is connected, undirected, with an edge and without loops.
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
    if nodes > MOST_CFI_NODES:
        raise SpecError(
            f"this base would give {nodes} nodes; expected at most {MOST_CFI_NODES}. Use a base of smaller degree"
        )


class Parameters(NamedTuple):
    """Of a strongly regular graph: v nodes with k neighbours each; λ shared by neighbours, μ by other pairs.

    2-FWL is stable on such graphs at the start, and so takes all with the same parameters for one graph.
    """

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


def _checked_square(square: Iterable[Iterable[int]]) -> Integers:
    try:
        table = np.array([[operator.index(symbol) for symbol in row] for row in square], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        table = np.zeros(0, dtype=np.int64)
    n = len(table)
    if n < 3 or table.shape != (n, n) or any(sorted(line) != list(range(n)) for line in (*table, *table.T)):
        raise SpecError(f"got {square!r}; expected n ≥ 3 rows in which, as in the columns, 0…n−1 stand once each")
    return table


def _numbered(graph: nx.Graph[Any]) -> nx.Graph[int]:
    return nx.convert_node_labels_to_integers(graph, ordering="sorted")


def paley(q: int) -> nx.Graph[int]:
    """Elements of the field with q elements, linked where they differ by a square: (q, (q−1)/2, (q−5)/4, (q−1)/4).

    q is a prime with q = 1 mod 4, or the square of an odd prime.
    """
    q = whole_number(q, "q", 5)
    root = isqrt(q)
    if _is_prime(q) and q % 4 == 1:
        prime, elements = q, [(a, 0) for a in range(q)]
    elif root * root == q and root > 2 and _is_prime(root):
        prime, elements = root, list(itertools.product(range(root), range(root)))
    else:
        raise SpecError(
            f"got q={q}; expected a prime with q = 1 mod 4 (5, 13, 17, …) or an odd prime's square (9, 25, …)"
        )
    non_residue = next(r for r in range(2, prime) if pow(r, (prime - 1) // 2, prime) == prime - 1)
    # (a + b·√r)² = a² + r·b² + 2ab·√r in the field with p² elements; b = 0 in the field with p
    squares = {((a * a + non_residue * b * b) % prime, 2 * a * b % prime) for a, b in elements} - {(0, 0)}
    pairs = itertools.combinations(enumerate(elements), 2)
    differ = (((u, v), ((a - c) % prime, (b - d) % prime)) for (u, (a, b)), (v, (c, d)) in pairs)
    return _linked(range(q), (edge for edge, difference in differ if difference in squares))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))


_SPORADIC: dict[int, tuple[Callable[[], nx.Graph[int]], ...]] = {
    10: (petersen,),
    16: (shrikhande, clebsch),
    27: (schlaefli,),
    28: tuple(partial(chang, which) for which in (1, 2, 3)),
    50: (hoffman_singleton,),
}


def strongly_regular(v: int, k: int, lambda_: int, mu: int) -> list[nx.Graph[int]]:
    """The graphs (v, k, λ, μ) known here, no two isomorphic: not all there are, but every one checked by computation.

    Rook, triangular and Paley graphs, Latin square graphs of groups, the Chang graphs, a few single ones, and the
    complements of all. The list is empty where no construction of this library gives the parameters.
    """
    names = ("v", "k", "lambda_", "mu")
    wanted = Parameters(*(whole_number(value, name, 0) for value, name in zip((v, k, lambda_, mu), names, strict=True)))
    if not 4 <= v <= MOST_NODES:
        raise SpecError(f"got v={v}; expected 4 to {MOST_NODES} nodes")
    if k * (k - lambda_ - 1) != (v - k - 1) * mu:
        raise SpecError(
            f"got {tuple(wanted)}; expected k(k − λ − 1) = (v − k − 1)μ, which every strongly regular graph satisfies"
        )
    return [graph.copy() for graph in _by_parameters(v).get(wanted, [])]


@cache
def _by_parameters(v: int) -> dict[Parameters, list[nx.Graph[int]]]:
    found: dict[Parameters, list[nx.Graph[int]]] = {}
    for graph in itertools.chain.from_iterable((one, nx.complement(one)) for one in _constructed(v)):
        values = parameters(graph)
        if values is None:
            continue
        others = found.setdefault(values, [])
        if not any(is_same_graph(graph, other) for other in others):
            others.append(graph)
    return found


def _constructed(v: int) -> Iterator[nx.Graph[int]]:
    """Everything with v nodes, perhaps the same graph twice."""
    side = isqrt(v)
    n = isqrt(2 * v) + 1
    if side * side == v:
        yield rook(side)
        for square in _group_tables(side):
            yield latin_square(square)
    if n >= 4 and comb(n, 2) == v:
        yield triangular(n)
    with contextlib.suppress(SpecError):  # no field of v elements known here, or none with −1 a square
        yield paley(v)
    for make in _SPORADIC.get(v, ()):
        yield make()


def _group_tables(order: int) -> Iterator[list[list[int]]]:
    """Multiplication tables of the products of cyclic groups of an order from 3, and of the symmetric group of 3."""
    if order < 3:
        return
    for factors in _factorisations(order):
        elements = list(itertools.product(*(range(factor) for factor in factors)))
        number = {element: place for place, element in enumerate(elements)}
        yield [
            [number[tuple((a + b) % f for a, b, f in zip(left, right, factors, strict=True))] for right in elements]
            for left in elements
        ]
    if order == 6:
        permutations = list(itertools.permutations(range(3)))
        yield [[permutations.index(tuple(left[i] for i in right)) for right in permutations] for left in permutations]


def _factorisations(number: int, least: int = 2) -> Iterator[tuple[int, ...]]:
    """Ways to write the number as an ascending product."""
    yield (number,)
    for factor in range(least, isqrt(number) + 1):
        if number % factor == 0:
            for rest in _factorisations(number // factor, factor):
                yield (factor, *rest)


@dataclass(frozen=True)
class Family:
    """A family of graphs."""

    name: str  # with its parameters: "rook(side)"
    description: str  # one line
    make: Callable[..., Any]  # a networkx graph, a list of them, or with marks a PyG Data


def _family(make: Callable[..., Any]) -> Family:
    """Described by the first line of the function's docstring."""
    parameters = ", ".join(inspect.signature(make).parameters)
    return Family(f"{make.__name__}({parameters})", (inspect.getdoc(make) or "").split("\n")[0], make)


FAMILIES: dict[str, Family] = {
    make.__name__: _family(make)
    for make in (
        cycle, two_cycles, circular_skip_links, csl_classes, hypercube, random_regular, rook, shrikhande, triangular,
        chang, petersen, clebsch, schlaefli, hoffman_singleton, latin_square, paley, strongly_regular, cfi, marked,
    )
}  # fmt: skip


__all__ = ["FAMILIES", "Family", "Parameters", "parameters", "seidel_switched", *FAMILIES]
