"""Points → graph: the exact way back (:func:`to_graph`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pointset.errors import GraphError, RankError
from pointset.machine import check_fits
from pointset.points.graphs import WeightKind
from pointset.points.matrices import DEFAULT_MATRIX, AdjacencyFunction, Augmented, NormalizedAdjacency, matrix_named
from pointset.points.point_set import PointSet, Truncation
from pointset.points.spectra import relative_error_bound

if TYPE_CHECKING:
    from torch_geometric.data import Data


_DENSE_COPIES = 5  # matrix, adjacency and what is between them
_MARGIN = 4.0  # an edge must stand out this much from the largest possible error


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
        that comes out. Structure and whole-number weights are exact; real weights come back up to
        rounding, at most 2ε·max|λ| of the points' type besides the solver's own error, and in that type. Where the
        error could hide an edge or a whole number, the points are refused.

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
    _check_memory(points.num_nodes)
    wide = points.to(torch.float64)
    matrix = wide.inner_products()  # (n, n)
    if not torch.isfinite(matrix).all():
        raise GraphError("the eigenpairs contain NaN or infinity, so no graph can be rebuilt")
    noisy = function.adjacency(matrix, points.degrees)
    largest = float(wide.eigenvalues.abs().max()) if points.rank else 0.0
    bound = relative_error_bound(points.num_nodes, _cast_error(points.eigenvalues.dtype)) * largest
    bound += points.truncation.spectral_error if points.truncation is not None else 0.0
    error = _error_of_adjacency(points.matrix, bound, noisy, points.degrees)
    if points.weight_kind is WeightKind.REAL:
        adjacency = _strongest(noisy, points, error)
    else:
        _check_rounding(points, float(error.max()) if error.numel() else 0.0, bound)
        adjacency = noisy.round() if points.weight_kind is WeightKind.INTEGER else noisy.round().clamp(0, 1)
    rebuilt = _rebuilt(function, matrix, adjacency, points.weight_kind is not WeightKind.NONE)
    if (found := rebuilt.edges.shape[1]) != points.num_edges or rebuilt.error > 4 * bound:
        raise GraphError(
            f"the points give a graph of {found} edges with error {rebuilt.error:.3g}, but were made from one of "
            f"{points.num_edges} edges; they were changed since"
        )
    return rebuilt


def rebuild_from_coordinates(coordinates: Tensor, matrix: str) -> Rebuilt:
    """The adjacency matrix behind SRD coordinates alone.

    Nothing is known of weights then: they are kept, unless all are whole numbers within the error. The normalised
    adjacency matrix determines a graph only if it is unweighted, and is read as such.
    """
    function = matrix_named(matrix)
    _check_memory(len(coordinates))
    wide = coordinates.to(torch.float64)
    gram = wide @ wide.mT
    if not torch.isfinite(gram).all():
        raise GraphError("the coordinates contain NaN or infinity, so no graph can be rebuilt")
    noisy = function.adjacency(gram, None)
    largest = float(gram.abs().sum(-1).max()) if gram.numel() else 0.0  # at least the largest eigenvalue
    bound = relative_error_bound(len(wide), _cast_error(coordinates.dtype)) * largest
    error = _error_of_adjacency(matrix, bound, noisy, None)
    doubtful = (noisy.abs() > error) & (noisy.abs() < _MARGIN * error)
    if bool(doubtful.any()):
        raise GraphError(
            f"an entry of {float(noisy[doubtful].abs().max()):.3g} can be an edge or rounding noise of coordinates of "
            f"type {coordinates.dtype}; convert with more digits, or keep the PointSet, which knows the number of edges"
        )
    adjacency = torch.where(noisy.abs() > error, noisy, 0.0)
    whole = adjacency.round()
    if bool(((adjacency - whole).abs() <= error).all()) and bool((error < 0.25).all()):
        adjacency = whole
    weighted = not bool(((adjacency == 0) | (adjacency == 1)).all())
    rebuilt = _rebuilt(function, gram, adjacency, weighted)
    if rebuilt.error > 4 * bound or (weighted and matrix == NormalizedAdjacency.name):
        raise GraphError(
            f"the coordinates are not those of a graph under matrix={matrix!r}: the nearest graph's matrix differs by "
            f"{rebuilt.error:.3g}. Name the matrix that was decomposed with matrix=…"
        )
    return rebuilt


def _check_memory(n: int) -> None:
    needed = _DENSE_COPIES * 8 * n**2
    check_fits(needed, f"rebuilding a graph of {n:,} nodes needs", "Only smaller graphs can be rebuilt")


def _cast_error(dtype: torch.dtype) -> float:
    """Relative precision that a cast from float64 left."""
    return torch.finfo(dtype).eps if dtype.is_floating_point and dtype != torch.float64 else 0.0


def _error_of_adjacency(matrix: str, bound: float, noisy: Tensor, degrees: Tensor | None) -> Tensor:
    """How far each entry of A can be off, (n, n), where those of Z are off by at most ``bound``."""
    n = len(noisy)
    error = torch.full((n, n), bound, dtype=torch.float64)
    if matrix == NormalizedAdjacency.name:  # A = D^½ Z D^½
        known = noisy.abs().sum(-1) if degrees is None else degrees.to(torch.float64)
        return error * (known.unsqueeze(-1) * known).sqrt()
    if matrix == Augmented.name:  # the diagonal is Z_ii − ½ Σ_j Z_ij, where errors of a row add up as a vector does
        error.diagonal().mul_(1 + max(n, 1) ** 0.5 / 2)
    return error


def _check_rounding(points: PointSet, error: float, bound: float) -> None:
    """Rounding to whole numbers is exact while every entry is off by less than a half; a quarter leaves a margin."""
    pattern_lost = points.matrix == NormalizedAdjacency.name and bound >= 0.25 / max(points.num_nodes, 1)
    if error < 0.25 and not pattern_lost:
        return
    refuse_truncated(points.rank, points.truncation)
    raise GraphError(
        f"in type {points.eigenvalues.dtype} the points give the graph's matrix only to about {max(error, bound):.2g}, "
        "too coarse to tell whole numbers. Convert in float64, or divide very large weights by a common factor"
    )


def refuse_truncated(rank: int, truncation: Truncation | None) -> None:
    """Points that keep so many eigenpairs and have left some out do not determine a graph."""
    if truncation is not None:
        raise RankError(
            f"these points keep {rank} eigenpairs and leave out eigenvalues up to "
            f"{truncation.spectral_error:.4g} in magnitude, so the graph is not determined by them. Convert "
            "again without rank=…, or with a larger one"
        )


def _strongest(noisy: Tensor, points: PointSet, error: Tensor) -> Tensor:
    """Keep as many entries as there are edges, the strongest, if all stand out from the possible error."""
    node = torch.arange(len(noisy))
    above = node.unsqueeze(-1) <= node  # (n, n); torch.triu would start threads for tiny matrices
    upper = torch.where(above, (noisy + noisy.mT) / 2, 0.0)
    strength = torch.where(error > 0, upper.abs() / error, 0.0).flatten()
    order = strength.argsort(descending=True, stable=True)[: points.num_edges]
    if points.num_edges and (len(order) < points.num_edges or float(strength[order[-1]]) < _MARGIN):
        refuse_truncated(points.rank, points.truncation)
        weakest = float(upper.flatten()[order[-1]].abs()) if len(order) else 0.0
        raise GraphError(
            f"the weakest of {points.num_edges} edges ({weakest:.3g}) does not stand out from the rounding of points "
            f"of type {points.eigenvalues.dtype}, so edges cannot be distinguished from non-edges. Convert in float64"
        )
    kept = torch.zeros_like(strength)
    kept[order] = upper.flatten()[order]
    full = kept.view_as(upper)
    return torch.where(above, full, full.mT)


def _rebuilt(function: AdjacencyFunction, matrix: Tensor, adjacency: Tensor, weighted: bool) -> Rebuilt:
    adjacency = (adjacency + adjacency.mT) / 2
    error = float((function.dense(adjacency) - matrix).abs().max()) if matrix.numel() else 0.0
    both = adjacency.nonzero().mT
    edges = both[:, both[0] <= both[1]]
    weights = adjacency[edges[0], edges[1]] if weighted else None
    return Rebuilt(adjacency, edges, weights, error)


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
