"""Are two graphs the same? Invariants of their points first, exact matching where they leave doubt.

A pair of nodes gets a colour from what is invariant under relabelling and under O(r): the inner product of two generic
PSRD coordinates, the edge's weight and features. :func:`match_by_components` then looks for a bijection of the nodes
that keeps all colours. Whole-number weights and features are compared exactly and real weights up to the
rounding of the points, so a "yes" is a true isomorphism; inner products only ever *separate* nodes by far more than
their rounding error, so a "no" is true as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.csgraph
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.errors import NotSameGraphError
from pointset.points.convert import to_points
from pointset.points.graphs import WeightKind
from pointset.points.inverse import rebuild
from pointset.points.point_set import PointSet
from pointset.points.spectra import relative_error_bound

Colours = NDArray[np.int64]
_PATIENCE = 2  # fruitless searches for automorphisms before a graph is taken to have too few to be worth it
_CLOSE = 1e-7  # relative: inner products closer than this may be equal; in float64 they agree to about 1e-13
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


def is_same_graph(a: Any, b: Any) -> SameGraph:
    """Decide whether two graphs are isomorphic with equal node and edge features, exactly.

    Args:
        a: a :class:`~pointset.PointSet`, or a graph of any kind that :func:`pointset.to_points` takes.
        b: likewise; the point sets may come from different matrices or floating-point types.

    Returns:
        :class:`SameGraph`: true or false, the permutation, the reason. Positions and targets are not compared.

    The cost is that of a few n × n sorts for almost all graphs; for the hardest families the exact matching branches.
    """
    a, b = (graph if isinstance(graph, PointSet) else to_points(graph, matrix=_matrix_for(a, b)) for graph in (a, b))
    for what, of_a, of_b in (("nodes", a.num_nodes, b.num_nodes), ("edges", a.num_edges, b.num_edges)):
        if of_a != of_b:
            return SameGraph(False, None, f"different number of {what}: {of_a} and {of_b}")
    for name in ("x", "edge_attr"):
        left, right = getattr(a, name), getattr(b, name)
        if (left is None) != (right is None) or (left is not None and left.shape != right.shape):
            return SameGraph(False, None, f"{name} is there on one side only or of another shape")
    first, second = _coloured(a, b)
    if not np.array_equal(np.sort(first.nodes), np.sort(second.nodes)):
        return SameGraph(False, None, "the invariants of the nodes differ")
    if not np.array_equal(np.sort(first.pairs, axis=None), np.sort(second.pairs, axis=None)):
        return SameGraph(False, None, "the invariants of the pairs of nodes differ")
    permutation = match_by_components(first, second)
    if permutation is None:
        return SameGraph(False, None, "equal invariants, but no matching of the nodes exists")
    return SameGraph(True, torch.from_numpy(permutation), "the same graph")


def align(a: PointSet, b: PointSet, *, permutation: Tensor | None = None) -> Tensor:
    """R ∈ O(r) that carries the points of ``a`` onto those of ``b`` (Proposition 2.3, Theorem 3.1).

    With π the relabelling (``permutation[i]`` is the node of ``b`` that node i of ``a`` becomes),
    ``a.coordinates() @ R == b.coordinates()[permutation]``, and likewise for eigenvectors and every PSRD coordinate:
    R is block-diagonal over the eigenspaces, so it commutes with every f(Λ).

    Args:
        a: points of a graph.
        b: points of the same graph, from the same matrix, perhaps relabelled, perhaps in another basis.
        permutation: the relabelling if it is known; otherwise node order is taken as it is if that fits, and searched
            for with :func:`~pointset.is_same_graph` if it does not.

    Returns:
        R, (r, r), in float64.

    Raises:
        NotSameGraphError: no such R exists.
    """
    for points in (a, b):
        if not isinstance(points, PointSet):
            raise NotSameGraphError(f"got {type(points).__name__}; expected two PointSets from pointset.to_points")
    if permutation is not None and permutation.shape != (a.num_nodes,):
        raise NotSameGraphError(
            f"the permutation has shape {tuple(permutation.shape)}; expected one node for each of {a.num_nodes}"
        )
    if a.matrix != b.matrix or a.eigenvectors.shape != b.eigenvectors.shape:
        raise NotSameGraphError(
            f"cannot align {a.num_nodes} points of rank {a.rank} from {a.matrix!r} with {b.num_nodes} of rank {b.rank} "
            f"from {b.matrix!r}; expected two point sets of one graph from one matrix"
        )
    from_a, from_b = a.to(torch.float64), b.to(torch.float64)
    tolerance = 1e-8 if min(a.eigenvectors.dtype.itemsize, b.eigenvectors.dtype.itemsize) >= 8 else 1e-3
    if permutation is not None:
        return _rotation(from_a, from_b, permutation, tolerance)
    try:
        return _rotation(from_a, from_b, torch.arange(a.num_nodes), tolerance)
    except NotSameGraphError:
        found = is_same_graph(a, b)
        if found.permutation is None:
            raise NotSameGraphError(f"the point sets are not of the same graph: {found.reason}") from None
        return _rotation(from_a, from_b, found.permutation, tolerance)


def _rotation(a: PointSet, b: PointSet, permutation: Tensor, tolerance: float) -> Tensor:
    target = b.eigenvectors[permutation]
    overlap = a.eigenvectors.mT @ target  # (r, r): block-diagonal and orthogonal already, but for rounding
    left, _, right = torch.linalg.svd(overlap)
    rotation: Tensor = left @ right
    scale = float(a.eigenvalues.abs().max()) if a.rank else 1.0
    difference = (a.eigenvectors * a.eigenvalues) @ rotation - target * b.eigenvalues
    vectors = a.eigenvectors @ rotation - target
    off = max(float(difference.abs().max()) / scale, float(vectors.abs().max())) if vectors.numel() else 0.0
    if off > tolerance:
        raise NotSameGraphError(
            f"no rotation carries one point set onto the other with this order of nodes (off by {off:.3g})"
        )
    return rotation


def _matrix_for(a: Any, b: Any) -> str:
    """The matrix for a plain graph: that of the point set it is compared with; self-loops need one that keeps them."""
    for graph in (a, b):
        if isinstance(graph, PointSet):
            return graph.matrix
    return "augmented"


def _coloured(a: PointSet, b: PointSet) -> tuple[Coloured, Coloured]:
    """Node and pair colours of both graphs, comparable between them."""
    n = a.num_nodes
    adjacency, error = zip(*(_adjacency(points) for points in (a, b)), strict=True)
    real = WeightKind.REAL in (a.weight_kind, b.weight_kind)
    pairs = _classes(np.stack(adjacency), max(error) if real else 0.0)
    pairs = combined(pairs, np.stack(adjacency) != 0)
    coarse = _CLOSE if max(_precision(a), _precision(b)) < 1e-12 else _CLOSE_IN_FLOAT32
    if b.matrix != a.matrix:
        b = dataclasses.replace(to_points(adjacency[1], matrix=a.matrix), x=b.x, edge_index=b.edge_index,
                                edge_attr=b.edge_attr)  # fmt: skip
    products = np.stack([_generic_product(a), _generic_product(b)])
    pairs = combined(pairs, _classes(products, coarse * float(np.abs(products).max(initial=0.0))))
    if a.edge_attr is not None and b.edge_attr is not None:
        edge = np.zeros((2, n, n), dtype=np.int64)
        for side, (points, rows) in enumerate(zip((a, b), _row_classes(a.edge_attr, b.edge_attr), strict=True)):
            if points.edge_index is not None:
                low, high = points.edge_index.numpy()
                edge[side, low, high] = edge[side, high, low] = rows + 1
        pairs = combined(pairs, edge)
    nodes = np.stack([np.diagonal(pairs[0]), np.diagonal(pairs[1])])
    if a.x is not None and b.x is not None:
        nodes = combined(nodes, np.stack(_row_classes(a.x, b.x)))
    components = [
        np.asarray(scipy.sparse.csgraph.connected_components(matrix != 0, directed=False)[1], dtype=np.int64)
        for matrix in adjacency
    ]
    return Coloured(nodes[0], pairs[0], components[0]), Coloured(nodes[1], pairs[1], components[1])


def _adjacency(points: PointSet) -> tuple[NDArray[np.float64], float]:
    """The rebuilt matrix, and how far two renderings of one real weight can be apart."""
    rebuilt = rebuild(points).adjacency.numpy()
    largest = float(points.eigenvalues.abs().max()) if points.rank else 0.0
    scale = 1.0 if points.degrees is None else float(points.degrees.max())
    return rebuilt, 4 * relative_error_bound(points.num_nodes, _precision(points)) * largest * scale


def _precision(points: PointSet) -> float:
    return torch.finfo(points.eigenvalues.dtype).eps


def _generic_product(points: PointSet) -> NDArray[np.float64]:
    """⟨U_i, diag(h(Λ)) U_j⟩ for one h that treats almost all spectra differently."""
    wide = points.to(torch.float64)
    scale = float(wide.eigenvalues.abs().max()) if wide.rank else 1.0
    return wide.inner_products(lambda values: torch.exp(values / scale) + torch.sin(3 * values / scale)).numpy()


def _classes(numbers: NDArray[np.float64], tolerance: float) -> Colours:
    """Whole numbers for real ones: two that are within the tolerance, also by a chain of others, get the same."""
    flat = numbers.ravel()
    order = np.argsort(flat, kind="stable")
    step = np.zeros(len(flat), dtype=np.int64)
    step[order[1:]] = np.diff(flat[order]) > tolerance
    step[order] = np.cumsum(step[order])
    return step.reshape(numbers.shape)


def _row_classes(left: Tensor, right: Tensor) -> tuple[Colours, Colours]:
    """Whole numbers for rows of features, exactly: equal rows get the same (NaN equals NaN, and nothing else)."""
    whole = not left.is_floating_point() and not right.is_floating_point()
    rows = [side.detach().to_dense().to(torch.int64 if whole else torch.float64) for side in (left, right)]
    table = torch.cat(rows).flatten(1).numpy() if rows[0].dim() > 1 else torch.cat(rows).unsqueeze(-1).numpy()
    if not whole:
        table = np.where(np.isnan(table), np.nan, table + 0.0).view(np.int64)  # one NaN, one zero, then bit for bit
    if table.shape[1] == 0:
        table = np.zeros((len(table), 1), dtype=np.int64)
    classes = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    return classes[: len(left)], classes[len(left) :]


class Coloured(NamedTuple):
    """One graph as the colours of its nodes and of its pairs of nodes."""

    nodes: Colours  # (n,)
    pairs: Colours  # (n, n)
    component: Colours  # (n,) which connected component

    def part(self, number: int) -> tuple[Colours, Coloured]:
        """The nodes of one component, and the graph on them."""
        own = np.flatnonzero(self.component == number)
        return own, Coloured(self.nodes[own], self.pairs[np.ix_(own, own)], self.component[own])


def match_by_components(a: Coloured, b: Coloured) -> Colours | None:
    """permutation[i] is the node of ``b`` that node i of ``a`` becomes, or None if there is no isomorphism.

    Connected components are matched one by one (isomorphism is an equivalence, so the first that fits is right). Inside
    a component, colours are refined over both graphs together; where equal colours remain, a node is singled out in the
    first graph and each candidate of the second tried in turn. A candidate that an automorphism carries onto one that
    failed is skipped: without this, symmetric graphs that are *not* isomorphic would take exponential time.
    """
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
