"""Refinement of colours, exact: 1-WL (:func:`refine_nodes`), 2-FWL (:func:`refine_pairs`), k-WL and k-FWL
(:func:`refine_tuples`), and 2-FWL on graphs with a node marked (:func:`same_when_marked`).

Graphs are refined together, round after round until no class splits; two are the same to a test where their colours
occur equally often.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from pointset.arrays import Floats, Integers
from pointset.datasets.splits.leaks import LabelledGraph, labelled_graphs
from pointset.datasets.splits.parts import whole_number
from pointset.errors import GraphError
from pointset.machine import check_fits
from pointset.paper.families import marked
from pointset.points.inputs import read_graph, read_graphs

Colours = list[Integers]  # an array for each graph
Step = Callable[[Colours], Colours]  # one round; it may split classes, never join them
Residues = Floats  # whole numbers 0 … p − 1, of which products mod p are exact and done by BLAS

PRIME = 2**22 - 3
DRAWS = 5  # independent fingerprints of everything that is compared
_EXACT = 512  # terms of a sum: 2²² · 2²² · 2⁹ = 2⁵³, up to which float64 holds every whole number
_SEED = 0x2F31


@dataclass(frozen=True, eq=False)
class Refinement:
    """Colours of graphs that were refined together. Residues of different calls cannot be compared."""

    colours: Colours  # (n,) of nodes, (n, n) of pairs, (n,)*k of tuples; equal numbers are equal colours in all graphs
    rounds: int  # rounds made
    stable: bool  # whether one more round would split no class

    def histogram(self, graph: int) -> dict[int, int]:
        """How often each colour occurs in a graph."""
        numbers, counts = np.unique(self.colours[graph], return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def same(self, graph: int, other: int) -> bool:
        """Whether the refinement cannot distinguish two graphs: their histograms are equal."""
        return self.histogram(graph) == self.histogram(other)


def refine_nodes(graphs: Sequence[Any], rounds: int | None = None) -> Refinement:
    """1-WL: h_i ← (h_i, {{(e_ij, h_j) : j a neighbour of i}}), started from the node features x_i.

    The most that message passing can distinguish. e_ij is the edge's features and weight. Colours are numbers of sorted
    tuples: exact, no hash.

    Args:
        graphs: anything :func:`pointset.to_points` takes; features of all graphs must have one shape.
        rounds: how many; None for as many as split a class.

    Returns:
        colours (n,) of each graph.
    """
    read = coloured_graphs(graphs)
    neighbours = [_neighbours(graph) for graph in read]

    def step(colours: Colours) -> Colours:
        return _numbered(
            [
                [(int(own[i]), *sorted((edge, int(own[j])) for edge, j in near)) for i, near in enumerate(lists)]
                for own, lists in zip(colours, neighbours, strict=True)
            ]
        )

    return refine([graph.node_class for graph in read], step, rounds)


def _neighbours(graph: LabelledGraph) -> list[list[tuple[int, int]]]:
    """(edge's class, neighbour) of each node; a node with a loop is its own neighbour, once."""
    lists: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes)]
    for u, v, edge in zip(*graph.edges.tolist(), graph.edge_class.tolist(), strict=True):
        lists[u].append((edge, v))
        if u != v:
            lists[v].append((edge, u))
    return lists


def _numbered(keys: list[list[tuple[Any, ...]]]) -> Colours:
    """Residues 0…C−1 in the order of the keys, equal for equal keys in all graphs."""
    number = {key: position for position, key in enumerate(sorted({key for graph in keys for key in graph}))}
    return [np.array([number[key] for key in graph], dtype=np.int64) for graph in keys]


def refine_pairs(graphs: Sequence[Any], rounds: int | None = None) -> Refinement:
    """2-FWL: h_ij ← (h_ij, {{(h_ik, h_kj) : k}}), started from (i = j, A_ij, x_i, x_j); A_ij with edge features.

    As strong as 3-WL. The multiset {{(h_ik, h_kj)}} is compared by its fingerprint

        F_ij = Σ_k g(h_ik) · f(h_kj)  mod p,        p = 2²² − 3, prime,

    with g and f drawn at random for each colour: a product of two matrices, exact in float64. Equal multisets have
    equal fingerprints. Different ones differ by a matrix D of counts, D ≠ 0 also mod p as n < p, and share a
    fingerprint only where gᵀDf = 0 mod p: of probability at most 2/p (Schwartz–Zippel), with five independent draws
    under 10⁻³¹. Two graphs of 200 nodes have under 4·10⁹ such comparisons, hence a chance of error under 10⁻²¹ in each
    round. The error would be to join two classes: "different" is always right. The draws are seeded, so that the same
    input gives the same colours.

    n³ for each graph and round, by BLAS: two graphs of 200 nodes take about half a second. Arguments are those of
    :func:`refine_nodes`; the colours of each graph are (n, n).
    """
    read = coloured_graphs(graphs)
    num_pairs, largest = sum(graph.num_nodes**2 for graph in read), max((graph.num_nodes for graph in read), default=0)
    check_fits(
        48 * num_pairs + 48 * largest**2,
        f"2-FWL on {len(read)} graphs of up to {largest} nodes needs",
        "Use refine_nodes",
    )
    generator = np.random.default_rng(_SEED)

    def step(colours: Colours) -> Colours:
        after = colours
        for _ in range(DRAWS):
            left, right = generator.integers(PRIME, size=(2, num_classes(colours))).astype(np.float64)
            after = split(after, [product(left[one], right[one]).astype(np.int64) for one in colours])
        return after

    return refine(_start_pairs(read), step, rounds)


def _start_pairs(graphs: list[LabelledGraph]) -> Colours:
    """(n, n) for each graph: i = j, then A_ij, then x_i, then x_j."""
    colours: Colours = [np.eye(graph.num_nodes, dtype=np.int64) for graph in graphs]
    nodes = [graph.node_class for graph in graphs]
    for by in ([graph.edge_table() for graph in graphs], of_first(nodes), of_second(nodes)):
        colours = split(colours, by)
    return colours


def refine_tuples(graphs: Sequence[Any], k: int, rounds: int | None = None, *, folklore: bool = False) -> Refinement:
    """k-WL, or k-FWL with ``folklore``, started from the isomorphism type of the tuple with all features.

    With v[a→w] for the tuple v whose entry a is replaced by the node w:

        k-WL:   h_v ← (h_v, {{h_v[1→w] : w}}, …, {{h_v[k→w] : w}})
        k-FWL:  h_v ← (h_v, {{(h_v[1→w], …, h_v[k→w]) : w}})

    A plain reference for small graphs: colours are numbers of whole rows, no hash. k-WL for k ≥ 3 is as strong as
    (k−1)-FWL, and 2-WL as 1-WL. Memory and time of a round are n^k·k for each graph, with ``folklore`` n^(k+1)·k.
    Arguments are those of :func:`refine_nodes`, and k from 2; the colours of each graph are (n,)*k.
    """
    k = whole_number(k, "k", 2)
    read = coloured_graphs(graphs)
    largest = max((graph.num_nodes for graph in read), default=0)
    cells = sum(graph.num_nodes ** (k + 1 if folklore else k) for graph in read)
    name = f"{k}-{'FWL' if folklore else 'WL'}"
    check_fits(
        64 * k * cells,
        f"{name} on {len(read)} graphs of up to {largest} nodes needs",
        "Use fewer or smaller graphs, a smaller k, or refine_pairs, which is 2-FWL and as strong as 3-WL",
    )
    multisets = _folklore_multisets if folklore else _oblivious_multisets

    def step(colours: Colours) -> Colours:
        after = colours
        for by in multisets(colours, k):
            after = split(after, by)
        return after

    return refine(_start_tuples(read, k), step, rounds)


def _start_tuples(graphs: list[LabelledGraph], k: int) -> Colours:
    """(n,)*k: features and loop of each entry, and of each two entries whether they are equal and their edge."""
    edges = [graph.edge_table() for graph in graphs]
    of_one = ([graph.node_class for graph in graphs], [np.diagonal(one) for one in edges])
    of_two = ([np.eye(graph.num_nodes, dtype=np.int64) for graph in graphs], edges)
    colours: Colours = [np.zeros((graph.num_nodes,) * k, dtype=np.int64) for graph in graphs]
    for length, tables in ((1, of_one), (2, of_two)):
        for places in itertools.combinations(range(k), length):
            for table in tables:
                colours = split(colours, [_placed(one, places, k) for one in table])
    return colours


def _placed(table: Integers, places: tuple[int, ...], k: int) -> Integers:
    """(n,)*k whose entry at v is the table's at the entries ``places`` of v."""
    n = len(table)
    shape = [n if place in places else 1 for place in range(k)]
    return np.broadcast_to(table.reshape(shape), (n,) * k)


def _oblivious_multisets(colours: Colours, k: int) -> Iterator[Colours]:
    """For each entry a the number of {{h_v[a→w] : w}}, of shape (n,)*k; it does not depend on the entry replaced."""
    for entry in range(k):
        rows = _numbered_rows([np.sort(np.moveaxis(one, entry, -1), axis=-1) for one in colours])
        yield [
            np.broadcast_to(np.expand_dims(numbers, entry), one.shape)
            for numbers, one in zip(rows, colours, strict=True)
        ]


def _folklore_multisets(colours: Colours, k: int) -> Iterator[Colours]:
    """The number of {{(h_v[1→w], …, h_v[k→w]) : w}}, of shape (n,)*k."""
    vectors: Colours = [np.zeros((*one.shape, *one.shape[:1]), dtype=np.int64) for one in colours]  # (n,)*k + (w,)
    for entry in range(k):
        replaced = [np.expand_dims(np.moveaxis(one, entry, -1), entry) for one in colours]
        vectors = split(
            vectors, [np.broadcast_to(by, all_w.shape) for by, all_w in zip(replaced, vectors, strict=True)]
        )
    yield _numbered_rows([np.sort(one, axis=-1) for one in vectors])


def _numbered_rows(tables: Colours) -> Colours:
    """A number for each row (the last axis), equal for equal rows of all tables; shorter rows are filled with −1."""
    width = max((table.shape[-1] for table in tables), default=0)
    without_last: Colours = [np.zeros(table.shape[:-1], dtype=np.int64) for table in tables]
    if not width:
        return without_last
    rows = [table.reshape(-1, table.shape[-1]) for table in tables if table.size]
    filled = [np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=-1) for one in rows]
    numbers = np.unique(np.concatenate(filled), axis=0, return_inverse=True)[1]
    return like(numbers.reshape(-1).astype(np.int64), without_last)


def same_when_marked(graphs: Sequence[Any], rounds: int | None = None) -> list[bool]:
    """For each graph after the first, whether 2-FWL with a node marked, each in turn, takes it for the first.

    Between 3-WL and 4-WL: the multisets over the nodes v of what 2-FWL says of the graph with v marked agree. n⁴ for
    each graph and round. Arguments are those of :func:`refine_pairs`; graphs have no node features.
    """
    every = [[marked(graph, node) for node in range(int(read_graph(graph).num_nodes[0]))] for graph in graphs]
    refinement = refine_pairs([one for copies in every for one in copies], rounds)
    seen, begin = [], 0
    for copies in every:
        stop = begin + len(copies)
        seen.append(Counter(tuple(refinement.histogram(index).items()) for index in range(begin, stop)))
        begin = stop
    return [multiset == seen[0] for multiset in seen[1:]]


def coloured_graphs(graphs: Sequence[Any]) -> list[LabelledGraph]:
    """Graphs of any kind, with numbers that are equal where features (of edges: and weights) are equal."""
    read = read_graphs(graphs)
    if not len(read):
        return []
    every = list(read)
    _check_alike([graph.features.x for graph in every if graph.num_nodes], "x")
    _check_alike([graph.features.edge_attr for graph in every if graph.edges.shape[1]], "edge_attr")
    return labelled_graphs(every)


def _check_alike(tensors: list[Tensor | None], name: str) -> None:
    """Features of different shape would have no common numbers."""
    shapes = [None if tensor is None else tuple(tensor.shape[1:]) for tensor in tensors]
    if different := [shape for shape in shapes if shape != shapes[0]]:
        raise GraphError(
            f"graphs to be refined together have {name} of shapes {shapes[0]} and {different[0]} for each row; "
            "expected one shape for all. Drop the features, or give them to all graphs"
        )


def refine(start: Colours, step: Step, rounds: int | None) -> Refinement:
    """Exactly ``rounds`` rounds; with None, until no class splits."""
    rounds = None if rounds is None else whole_number(rounds, "rounds", 0)
    colours, made = start, 0
    while True:
        after = step(colours)
        if num_classes(after) == num_classes(colours):  # further rounds would only rename
            return Refinement(colours, made if rounds is None else rounds, stable=True)
        if made == rounds:
            return Refinement(colours, made, stable=False)
        colours, made = after, made + 1


def num_classes(colours: Colours) -> int:
    """Number of different colours in all graphs, which are numbered from 0 without gaps."""
    return int(flat(colours).max(initial=-1)) + 1


def flat(colours: Colours) -> Integers:
    """All colours of all graphs in a row."""
    return np.concatenate([one.ravel() for one in colours]) if colours else np.zeros(0, dtype=np.int64)


def like(numbers: Integers, colours: Colours) -> Colours:
    """The inverse of :func:`flat`: cut and shaped as ``colours``."""
    parts = np.split(numbers, np.cumsum([one.size for one in colours])[:-1]) if colours else []
    return [part.reshape(one.shape) for part, one in zip(parts, colours, strict=True)]


def split(colours: Colours, by: Colours) -> Colours:
    """New numbers 0…C−1 for the pairs (colour, by), ordered first by colour; ``by`` holds numbers from 0."""
    second = flat(by)
    keys = flat(colours) * (int(second.max(initial=0)) + 1) + second
    return like(np.unique(keys, return_inverse=True)[1].astype(np.int64), colours)


def of_first(nodes: Colours) -> Colours:
    """Colours (…, n) of nodes as colours (…, n, n) of pairs i, j: that of i."""
    return [np.broadcast_to(one[..., :, None], (*one.shape, one.shape[-1])) for one in nodes]


def of_second(nodes: Colours) -> Colours:
    """The same for that of j."""
    return [np.broadcast_to(one[..., None, :], (*one.shape, one.shape[-1])) for one in nodes]


def product(left: Residues, right: Residues) -> Residues:
    """Left · right mod p, (…, n, n)."""
    total = np.zeros(left.shape)
    for begin in range(0, left.shape[-1], _EXACT):
        terms = slice(begin, begin + _EXACT)
        total += remainder(left[..., :, terms] @ right[..., terms, :])
    return remainder(total)


def remainder(numbers: Residues) -> Residues:
    """Residues mod p for 0 ≤ numbers < 2⁵³; np.fmod is a hundred times slower. The quotient may be off by one."""
    rest: Residues = numbers - PRIME * np.floor(numbers / PRIME)
    rest += PRIME * (rest < 0)
    rest -= PRIME * (rest >= PRIME)
    return rest
