"""Are two point sets the same graph? Invariants of the points first, exact matching where they leave doubt.

A pair of nodes gets a colour from what is invariant under relabelling and under O(r): the inner product of two generic
PSRD coordinates, the edge weight and the edge features. Colours are refined over both graphs together (as in the
Weisfeiler-Leman test, over all pairs); where equal colours remain, one node is singled out and the search branches. A
"yes" is always checked on the rebuilt graphs; a "no" is sound because numbers that may be equal get one colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.points.convert import to_points
from pointset.points.inverse import Rebuilt, rebuild
from pointset.points.point_set import PointSet

Colours = NDArray[np.int64]
_CLOSE = 1e-7  # relative: numbers closer than this may be equal; eigenpairs agree to about 1e-13 in float64
_CLOSE_IN_FLOAT32 = 1e-4


@dataclass(frozen=True, eq=False)
class SameGraph:
    """The answer. True or false by itself; unpacks to ``same, permutation``.

    ``permutation[i]`` is the node of ``b`` that node i of ``a`` becomes: ``Z_b[p][:, p] == Z_a`` and
    ``b.x[p] == a.x``.
    """

    same: bool
    permutation: Tensor | None  # (n,)
    reason: str  # how it was decided

    def __bool__(self) -> bool:
        return self.same

    def __iter__(self) -> Iterator[bool | Tensor | None]:
        return iter((self.same, self.permutation))


def is_same_graph(a: PointSet, b: PointSet) -> SameGraph:
    """Decide whether two point sets come from isomorphic graphs with equal node and edge features, exactly.

    Positions and targets are not compared. The point sets may come from different matrices or floating-point types.
    The cost is that of a few n × n sorts for almost all graphs; for the hardest families the exact matching branches.
    """
    for what, of_a, of_b in (
        ("number of nodes", a.num_nodes, b.num_nodes),
        ("number of edges", a.num_edges, b.num_edges),
        ("rank", a.rank, b.rank if a.matrix == b.matrix else a.rank),
    ):
        if of_a != of_b:
            return SameGraph(False, None, f"different {what}: {of_a} and {of_b}")
    for name in ("x", "edge_attr"):
        left, right = getattr(a, name), getattr(b, name)
        if (left is None) != (right is None) or (left is not None and left.shape != right.shape):
            return SameGraph(False, None, f"{name} is there on one side only or of another shape")
    rebuilt_a, rebuilt_b = rebuild(a), rebuild(b)
    nodes, pairs = _initial_colours(a, b, rebuilt_a, rebuilt_b)
    n = a.num_nodes
    refined = _refine(nodes, pairs, n)
    if refined is None:
        return SameGraph(False, None, "the invariants of the two point sets differ")
    permutation = _match(refined, pairs, n)
    if permutation is None:
        return SameGraph(False, None, "equal invariants, but no matching of the nodes exists")
    return SameGraph(True, torch.from_numpy(permutation), "the same graph")


def _initial_colours(a: PointSet, b: PointSet, rebuilt_a: Rebuilt, rebuilt_b: Rebuilt) -> tuple[Colours, Colours]:
    """Node colours (2n,) and pair colours (2, n, n), comparable between the two graphs."""
    n = a.num_nodes
    coarse = _CLOSE if max(_precision(a), _precision(b)) < 1e-12 else _CLOSE_IN_FLOAT32
    pairs = _classes(np.stack([_generic_product(a, a.matrix), _generic_product(b, a.matrix)]), coarse)
    pairs = _both(pairs, _classes(np.stack([rebuilt_a.adjacency.numpy(), rebuilt_b.adjacency.numpy()]), coarse))
    if a.edge_attr is not None and b.edge_attr is not None:
        rows = _row_classes(torch.cat([a.edge_attr, b.edge_attr])) + 1
        edge = np.zeros((2, n, n), dtype=np.int64)
        for side, (points, part) in enumerate(zip((a, b), np.split(rows, 2), strict=True)):
            if points.edge_index is not None:
                low, high = points.edge_index.numpy()
                edge[side, low, high] = edge[side, high, low] = part
        pairs = _both(pairs, edge)
    nodes = np.concatenate([np.diagonal(pairs[0]), np.diagonal(pairs[1])])
    if a.x is not None and b.x is not None:
        nodes = _both(nodes, _row_classes(torch.cat([a.x, b.x])))
    return nodes, pairs


def _precision(points: PointSet) -> float:
    return torch.finfo(points.eigenvalues.dtype).eps


def _generic_product(points: PointSet, matrix: str) -> NDArray[np.float64]:
    """⟨U_i, diag(h(Λ)) U_j⟩ for one h that treats almost all spectra differently."""
    if points.matrix != matrix:
        rebuilt = rebuild(points)
        points = to_points(rebuilt.adjacency, matrix=matrix)
    wide = points.to(torch.float64)
    scale = float(wide.eigenvalues.abs().max()) if wide.rank else 1.0
    return wide.inner_products(lambda values: torch.exp(values / scale) + torch.sin(3 * values / scale)).numpy()


def _classes(numbers: NDArray[np.float64], closeness: float) -> Colours:
    """Whole numbers for real ones: two that are within the tolerance, also by a chain of others, get the same."""
    flat = numbers.ravel()
    order = np.argsort(flat, kind="stable")
    tolerance = closeness * max(float(np.abs(flat).max(initial=0.0)), np.finfo(np.float64).tiny)
    rank = np.zeros(len(flat), dtype=np.int64)
    rank[order[1:]] = np.diff(flat[order]) > tolerance
    rank[order] = np.cumsum(rank[order])
    return rank.reshape(numbers.shape)


def _row_classes(rows: Tensor) -> Colours:
    """Whole numbers for rows of features: equal rows get the same (NaN equals NaN)."""
    table = torch.nan_to_num(rows.detach()).reshape(len(rows), -1).numpy()
    return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)


def _both(left: Colours, right: Colours) -> Colours:
    """One colour for each pair of colours that occurs."""
    return np.unique(left * (right.max(initial=0) + 1) + right, return_inverse=True)[1].reshape(left.shape)


def _refine(nodes: Colours, pairs: Colours, n: int) -> Colours | None:
    """Refine node colours until they are stable; None as soon as the two graphs differ.

    A node's new colour is its old one with the multiset of (pair colour, other node's colour). The multiset is hashed
    by adding pseudo-random 64-bit numbers; a collision could only merge two colours, which costs time, not truth.
    """
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
        hashed = _scramble(codes).sum(axis=-1, dtype=np.uint64).reshape(-1)
        nodes = np.unique(np.stack([nodes.astype(np.uint64), hashed]), axis=1, return_inverse=True)[1].reshape(-1)


def _scramble(codes: Colours) -> NDArray[np.uint64]:
    """Splitmix64: whole numbers to well-mixed 64-bit numbers."""
    mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _match(nodes: Colours, pairs: Colours, n: int) -> Colours | None:
    """A bijection that preserves node and pair colours, by singling out nodes and backtracking; None if none exists."""
    pending = [iter([nodes])]
    while pending:
        colours = next(pending[-1], None)
        if colours is None:
            pending.pop()
            continue
        permutation = np.empty(n, dtype=np.int64)
        permutation[np.argsort(colours[:n], kind="stable")] = np.argsort(colours[n:], kind="stable")
        # Also tried while colours still repeat: nodes that are twins of each other match in any order.
        if np.array_equal(pairs[1][np.ix_(permutation, permutation)], pairs[0]):
            return permutation
        if colours.max(initial=-1) + 1 < n:
            pending.append(_branches(colours, pairs, n))
    return None


def _branches(colours: Colours, pairs: Colours, n: int) -> Iterator[Colours]:
    """Single out one node of the smallest cell in the first graph, and each node of that cell in the second in turn."""
    sizes = np.bincount(colours[:n])
    cell = int(np.where(sizes > 1, sizes, n + 1).argmin())
    chosen = int(np.flatnonzero(colours[:n] == cell)[0])
    for candidate in np.flatnonzero(colours[n:] == cell):
        branch = colours.copy()
        branch[chosen] = branch[n + candidate] = colours.max() + 1
        refined = _refine(branch, pairs, n)
        if refined is not None:
            yield refined
