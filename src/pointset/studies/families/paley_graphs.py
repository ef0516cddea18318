"""Paley graphs: strongly regular, and isomorphic to their complements."""

from __future__ import annotations

import itertools
from math import isqrt

import networkx as nx

from pointset.errors import SpecError
from pointset.studies.families.checks import whole_number

Element = tuple[int, int]  # a + b·√r of the field with p² elements; b = 0 in the field with p


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
    squares = {_squared(element, prime, non_residue) for element in elements} - {(0, 0)}
    graph: nx.Graph[int] = nx.empty_graph(q)
    for (u, (a, b)), (v, (c, d)) in itertools.combinations(enumerate(elements), 2):
        if ((a - c) % prime, (b - d) % prime) in squares:
            graph.add_edge(u, v)
    return graph


def _squared(element: Element, prime: int, non_residue: int) -> Element:
    """(a + b·√r)² = a² + r·b² + 2ab·√r."""
    a, b = element
    return (a * a + non_residue * b * b) % prime, 2 * a * b % prime


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))
