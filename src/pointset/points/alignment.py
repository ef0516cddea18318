"""The rotation between two point sets of one graph (Proposition 2.3, Theorem 3.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from pointset.errors import NotSameGraphError
from pointset.points.isomorphism import is_same_graph
from pointset.points.point_set import PointSet


def align(a: PointSet, b: PointSet, *, permutation: Tensor | None = None) -> Tensor:
    """R ∈ O(r) that carries the points of ``a`` onto those of ``b``.

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
