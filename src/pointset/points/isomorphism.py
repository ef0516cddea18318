"""Are two graphs the same? Invariants of their points first, exact matching where they leave doubt.

A pair of nodes gets a colour from what is invariant under relabelling and under O(r): the inner product of two generic
PSRD coordinates, the edge's weight and features. :mod:`pointset.points.matching` then looks for a bijection of the
nodes that keeps all colours. Whole-number weights and features are compared exactly and real weights up to the
rounding of the points, so a "yes" is a true isomorphism; inner products only ever *separate* nodes by far more than
their rounding error, so a "no" is true as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.csgraph
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.points.convert import to_points
from pointset.points.graphs import WeightKind
from pointset.points.inverse import rebuild
from pointset.points.matching import Coloured, Colours, combined, match_by_components
from pointset.points.point_set import PointSet
from pointset.points.spectrum import relative_error_bound

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
    for what, of_a, of_b in (
        ("number of nodes", a.num_nodes, b.num_nodes),
        ("number of edges", a.num_edges, b.num_edges),
    ):
        if of_a != of_b:
            return SameGraph(False, None, f"different {what}: {of_a} and {of_b}")
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
