"""Strongly regular graphs by their parameters, from the constructions known here (:func:`strongly_regular`)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial
from math import comb, isqrt

import networkx as nx

from pointset.errors import SpecError
from pointset.points.isomorphism import is_same_graph
from pointset.studies.families import strongly_regular_graphs as constructions
from pointset.studies.families.checks import whole_number
from pointset.studies.families.paley_graphs import paley
from pointset.studies.families.strongly_regular_graphs import Parameters, latin_square, parameters

MOST_NODES = 100  # of the catalogue; the constructions themselves know no bound

_SPORADIC: dict[int, tuple[Callable[[], nx.Graph[int]], ...]] = {
    10: (constructions.petersen,),
    16: (constructions.shrikhande, constructions.clebsch),
    27: (constructions.schlaefli,),
    28: tuple(partial(constructions.chang, which) for which in (1, 2, 3)),
    50: (constructions.hoffman_singleton,),
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
        yield constructions.rook(side)
        for square in _group_tables(side):
            yield latin_square(square)
    if n >= 4 and comb(n, 2) == v:
        yield constructions.triangular(n)
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
