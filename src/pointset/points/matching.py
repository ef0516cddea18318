"""A bijection between the nodes of two coloured graphs, exactly: refinement, then search with backtracking.

A coloured graph is an n × n matrix of pair colours and n node colours. Connected components are matched one by one
(isomorphism is an equivalence, so the first that fits is right). Inside a component, colours are refined over both
graphs together; where equal colours remain, a node is singled out in the first graph and each candidate of the second
tried in turn. A candidate that an automorphism carries onto one that failed is skipped: without this, symmetric graphs
that are *not* isomorphic would take exponential time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Colours = NDArray[np.int64]
_PATIENCE = 2  # fruitless searches for automorphisms before a graph is taken to have too few to be worth it


class Coloured(NamedTuple):
    """One graph."""

    nodes: Colours  # (n,)
    pairs: Colours  # (n, n)
    component: Colours  # (n,) which connected component

    def part(self, number: int) -> tuple[Colours, Coloured]:
        """The nodes of one component, and the graph on them."""
        own = np.flatnonzero(self.component == number)
        return own, Coloured(self.nodes[own], self.pairs[np.ix_(own, own)], self.component[own])


def match_by_components(a: Coloured, b: Coloured) -> Colours | None:
    """permutation[i] is the node of ``b`` that node i of ``a`` becomes, or None if there is no isomorphism."""
    permutation = np.empty(len(a.nodes), dtype=np.int64)
    open_parts = [b.part(number) for number in np.unique(b.component)]
    for number in np.unique(a.component):
        own, part = a.part(number)
        for position, (others, candidate) in enumerate(open_parts):
            found = match(part, candidate) if len(others) == len(own) else None
            if found is not None:
                permutation[own] = others[found]
                del open_parts[position]
                break
        else:
            return None
    return permutation


def match(a: Coloured, b: Coloured) -> Colours | None:
    """A bijection that keeps node and pair colours; None if none exists."""
    pairs = np.stack([a.pairs, b.pairs])
    colours = refined(np.concatenate([a.nodes, b.nodes]), pairs)
    return None if colours is None else _search(colours, pairs)


def combined(left: Colours, right: NDArray[np.integer] | NDArray[np.bool_]) -> Colours:
    """One colour for each pair of colours that occurs."""
    other = right.astype(np.int64)
    code = left * (other.max(initial=0) + 1) + other
    return np.unique(code, return_inverse=True)[1].reshape(left.shape)


def refined(nodes: Colours, pairs: Colours) -> Colours | None:
    """Refine the node colours (2n,) of two graphs with pair colours (2, n, n) until they are stable.

    None as soon as the two graphs differ. A node's new colour is its old one with the multiset of (pair colour, other
    node's colour). The multiset is hashed by adding pseudo-random 64-bit numbers; a collision could only merge two
    colours, which costs time, not truth.
    """
    n = pairs.shape[-1]
    count = 0
    while True:
        nodes = np.unique(nodes, return_inverse=True)[1]
        if not np.array_equal(np.sort(nodes[:n]), np.sort(nodes[n:])):
            return None
        distinct = int(nodes.max(initial=-1)) + 1
        if distinct in (count, n):
            return nodes
        count = distinct
        codes = pairs * count + np.stack([nodes[:n], nodes[n:]])[:, None, :]  # (2, n, n)
        hashed = _scrambled(codes).sum(axis=-1, dtype=np.uint64).reshape(-1)
        order = np.lexsort((hashed, nodes))
        changes = (np.diff(nodes[order]) != 0) | (np.diff(hashed[order]) != 0)
        nodes = np.empty_like(nodes)
        nodes[order] = np.concatenate([[0], np.cumsum(changes)])


def _scrambled(codes: Colours) -> NDArray[np.uint64]:
    """Splitmix64: whole numbers to well-mixed 64-bit numbers."""
    mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _search(colours: Colours, pairs: Colours) -> Colours | None:
    """A bijection that keeps stable node colours and the pair colours; None if none exists."""
    n = pairs.shape[-1]
    # Tried also while colours repeat: nodes that are twins of each other match in any order.
    permutation = np.empty(n, dtype=np.int64)
    permutation[np.argsort(colours[:n], kind="stable")] = np.argsort(colours[n:], kind="stable")
    if np.array_equal(pairs[1][np.ix_(permutation, permutation)], pairs[0]):
        return permutation
    if colours.max(initial=-1) + 1 >= n:
        return None
    sizes = np.bincount(colours[:n])
    cell = int(np.where(sizes > 1, sizes, n + 1).argmin())
    chosen = int(np.flatnonzero(colours[:n] == cell)[0])
    orbits = _Orbits(colours[n:], pairs[1])
    for candidate in orbits.candidates(np.flatnonzero(colours[n:] == cell)):
        singled = refined(_single_out(colours, chosen, n + candidate), pairs)
        found = None if singled is None else _search(singled, pairs)
        if found is not None:
            return found
        orbits.failed.append(candidate)
    return None


def _single_out(colours: Colours, *nodes: int) -> Colours:
    result = colours.copy()
    result[list(nodes)] = colours.max() + 1
    return result


class _Orbits:
    """Which candidates are the same as one that failed, by an automorphism of the second graph."""

    def __init__(self, colours: Colours, pairs: Colours):
        self.colours = np.concatenate([colours, colours])
        self.pairs = np.stack([pairs, pairs])
        self.orbit = np.arange(len(colours))
        self.failed: list[int] = []
        self.patience = _PATIENCE

    def candidates(self, cell: Colours) -> Iterator[int]:
        """Those of the cell that no automorphism carries onto a failed one."""
        for candidate in cell.tolist():
            if any(self.orbit[failure] == self.orbit[candidate] for failure in self.failed):
                continue
            if self.failed and self.patience and self._equivalent(self.failed[-1], candidate):
                continue
            yield candidate

    def _equivalent(self, failure: int, candidate: int) -> bool:
        n = len(self.orbit)
        singled = refined(_single_out(self.colours, failure, n + candidate), self.pairs)
        automorphism = None if singled is None else _search(singled, self.pairs)
        if automorphism is None:
            self.patience -= 1
            return False
        for node in range(n):  # every node is in one orbit with its image
            self.orbit[self.orbit == self.orbit[automorphism[node]]] = self.orbit[node]
        return True
