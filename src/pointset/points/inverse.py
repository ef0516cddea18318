"""Points → graph: the exact way back (:func:`to_graph`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pointset.errors import GraphError, RankError
from pointset.points.graphs import WeightKind
from pointset.points.matrices import (
    DEFAULT_MATRIX,
    AdjacencyMatrixFunction,
    Augmented,
    NormalizedAdjacency,
    matrix_named,
)
from pointset.points.memory import check_fits
from pointset.points.point_set import PointSet

if TYPE_CHECKING:
    from torch_geometric.data import Data

_DENSE_COPIES = 5  # matrix, adjacency and what is between them
_MARGIN = 4.0  # the weakest edge must stand out this much from the strongest non-edge


class Rebuilt(NamedTuple):
    """A graph rebuilt from points."""

    adjacency: Tensor  # (n, n) float64, symmetric, exact where weights are whole numbers
    edges: Tensor  # (2, m), u ≤ v, sorted
    weights: Tensor | None  # (m,), None where every edge weighs 1
    error: float  # max |Z of the points − Z of the rebuilt graph|


def to_graph(points: PointSet | Tensor, *, matrix: str | None = None) -> Data:
    """Rebuild the graph from its points.

    Args:
        points: a :class:`~pointset.PointSet`; or SRD coordinates Q (n, r) alone, from which Z = Q Qᵀ.
        matrix: which Z the coordinates decompose; only for coordinates alone (default ``"laplacian"``).

    Returns:
        A PyG ``Data`` with both directions of each edge in ``edge_index`` (sorted), features as they were, and
        ``reconstruction_error``, the largest difference between the points' inner products and the matrix of the graph
        that comes out. Structure and whole-number weights are exact; real weights are as exact as the points' type.

    Raises:
        RankError: too much was left out by ``rank=k`` for the graph to be determined.
        GraphError: the points are not those of a graph.
    """
    if isinstance(points, PointSet):
        if matrix is not None and matrix != points.matrix:
            raise GraphError(f"got matrix={matrix!r} for points of {points.matrix!r}; leave matrix out")
        return _as_data(rebuild(points), points)
    if not isinstance(points, Tensor) or points.dim() != 2:
        shape = f" of shape {tuple(points.shape)}" if isinstance(points, Tensor) else ""
        raise GraphError(f"got {type(points).__name__}{shape}; expected a PointSet, or SRD coordinates (n, r)")
    return _as_data(rebuild_from_coordinates(points, matrix or DEFAULT_MATRIX), None)


def rebuild(points: PointSet) -> Rebuilt:
    """The adjacency matrix behind a point set, from its eigenpairs only."""
    function = matrix_named(points.matrix)
    _check_truncation(points)
    _check_memory(points.num_nodes)
    wide = points.to(torch.float64)
    matrix = wide.inner_products()  # (n, n)
    if not torch.isfinite(matrix).all():
        raise GraphError("the eigenpairs contain NaN or infinity, so no graph can be rebuilt")
    noisy = function.adjacency(matrix, points.degrees)
    if points.weight_kind is WeightKind.REAL:
        noise = _inverse_degrees(points.degrees, noisy) if points.degrees is not None else None
        adjacency = _strongest(noisy, points.num_edges, noise)
    elif points.weight_kind is WeightKind.INTEGER:
        adjacency = noisy.round()
    else:
        adjacency = noisy.round().clamp(0, 1)
    rebuilt = _rebuilt(function, matrix, adjacency, points.weight_kind is not WeightKind.NONE)
    _check_rebuilt(points, rebuilt, matrix)
    return rebuilt


def rebuild_from_coordinates(coordinates: Tensor, matrix: str) -> Rebuilt:
    """The adjacency matrix behind SRD coordinates alone: nothing is known of weights, so they are kept unless all 1."""
    function = matrix_named(matrix)
    _check_memory(len(coordinates))
    wide = coordinates.to(torch.float64)
    gram = wide @ wide.mT
    if not torch.isfinite(gram).all():
        raise GraphError("the coordinates contain NaN or infinity, so no graph can be rebuilt")
    noisy = function.adjacency(gram, None)
    precision = torch.finfo(coordinates.dtype).eps if coordinates.dtype.is_floating_point else 2.0**-52
    scale = float(gram.abs().max()) if gram.numel() else 0.0
    tolerance = 16 * max(len(wide), 8) * precision * scale
    adjacency = torch.where(noisy.abs() > tolerance, noisy, 0.0)
    whole = adjacency.round()
    if bool(((adjacency - whole).abs() <= tolerance).all()):
        adjacency = whole
    weighted = not bool(((adjacency == 0) | (adjacency == 1)).all())
    rebuilt = _rebuilt(function, gram, adjacency, weighted)
    if rebuilt.error > 100 * tolerance:
        raise GraphError(
            f"the coordinates are not those of a graph under matrix={matrix!r}: the nearest graph's matrix differs by "
            f"{rebuilt.error:.3g}. Name the matrix that was decomposed with matrix=…"
        )
    return rebuilt


def _check_memory(n: int) -> None:
    check_fits(
        _DENSE_COPIES * 8 * n**2, f"rebuilding a graph of {n:,} nodes needs", "Only smaller graphs can be rebuilt"
    )


def _check_truncation(points: PointSet) -> None:
    if points.truncation is None:
        return
    # |Z − UΛUᵀ| is at most the spectral error in every entry: below half of the smallest step, rounding is still exact.
    # An entry of the normalised matrix is at least 1/(n − 1); the augmented one's row sums add up √n errors.
    n = points.num_nodes
    step = {NormalizedAdjacency.name: 1 / max(n - 1, 1), Augmented.name: 1 / max(n, 1) ** 0.5}.get(points.matrix, 1.0)
    exact = points.weight_kind is not WeightKind.REAL and points.truncation.spectral_error < step / 4
    if not exact or (points.matrix == NormalizedAdjacency.name and points.weight_kind is not WeightKind.NONE):
        raise RankError(
            f"these points keep {points.rank} eigenpairs and leave out eigenvalues up to "
            f"{points.truncation.spectral_error:.4g} in magnitude, so the graph is not determined by them. Convert "
            "again without rank=…, or with a larger one"
        )


def _inverse_degrees(degrees: Tensor, noisy: Tensor) -> Tensor:
    """How noise is scaled: A = D^½ Z D^½ enlarges errors where degrees are large."""
    root = degrees.to(noisy.dtype).clamp(min=torch.finfo(noisy.dtype).tiny).rsqrt()
    return root.unsqueeze(-1) * root.unsqueeze(-2)


def _strongest(noisy: Tensor, count: int, scale: Tensor | None) -> Tensor:
    """Keep the ``count`` strongest entries on and above the diagonal, if they stand out from the rest."""
    node = torch.arange(len(noisy))
    above = node.unsqueeze(-1) <= node  # (n, n); torch.triu would start threads for tiny matrices
    upper = torch.where(above, (noisy + noisy.mT) / 2, 0.0)
    strength = upper.abs() if scale is None else (upper * scale).abs()
    order = strength.flatten().argsort(descending=True, stable=True)
    kept = torch.zeros_like(upper).flatten()
    kept[order[:count]] = upper.flatten()[order[:count]]
    if 0 < count < len(order):
        weakest, noise = (float(strength.flatten()[order[at]]) for at in (count - 1, count))
        if weakest <= _MARGIN * noise:
            raise GraphError(
                f"the weakest of {count} edges ({weakest:.3g}) does not stand out from rounding noise ({noise:.3g}), "
                "so the edges cannot be told from non-edges. Keep the points in float64, or rescale very small weights"
            )
    full = kept.view_as(upper)
    return torch.where(above, full, full.mT)


def _rebuilt(function: AdjacencyMatrixFunction, matrix: Tensor, adjacency: Tensor, weighted: bool) -> Rebuilt:
    adjacency = (adjacency + adjacency.mT) / 2
    error = float((function.dense(adjacency) - matrix).abs().max()) if matrix.numel() else 0.0
    both = adjacency.nonzero().mT
    edges = both[:, both[0] <= both[1]]
    weights = adjacency[edges[0], edges[1]] if weighted else None
    return Rebuilt(adjacency, edges, weights, error)


def _check_rebuilt(points: PointSet, rebuilt: Rebuilt, matrix: Tensor) -> None:
    scale = max(float(matrix.abs().max()), 1.0) if matrix.numel() else 1.0
    found = rebuilt.edges.shape[1]
    if found != points.num_edges or rebuilt.error > 0.25 * scale:
        raise GraphError(
            f"the points give a graph of {found} edges with error {rebuilt.error:.3g}, but were made from one of "
            f"{points.num_edges} edges; they were changed since, or their type {points.eigenvalues.dtype} is too "
            "coarse for this graph. Keep them in float64"
        )


def _as_data(rebuilt: Rebuilt, points: PointSet | None) -> Data:
    from torch_geometric.data import Data

    low, high = rebuilt.edges
    off = low != high
    source, target = torch.cat([low, high[off]]), torch.cat([high, low[off]])
    order = (source * max(len(rebuilt.adjacency), 1) + target).argsort()
    data = Data(edge_index=torch.stack([source, target])[:, order], num_nodes=len(rebuilt.adjacency))

    def both_directions(rows: Tensor) -> Tensor:
        return torch.cat([rows, rows[off]])[order]

    if rebuilt.weights is not None:
        precision = torch.float64 if points is None else points.eigenvalues.dtype
        data.edge_weight = both_directions(rebuilt.weights).to(precision)
    if points is not None:
        for name in ("x", "pos", "y"):
            if getattr(points, name) is not None:
                data[name] = getattr(points, name)
        if points.edge_attr is not None:
            data.edge_attr = both_directions(points.edge_attr)
    data.reconstruction_error = rebuilt.error
    return data
