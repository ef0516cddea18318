"""Directed graphs as points, by the magnetic Laplacian: :func:`magnetic_points`, and back by ``.to_graph()``.

With A_ij the weight of the edge i → j (0 where there is none), A_s = (A + Aᵀ)/2 and D_s its degrees,

    H = D_s − A_s ∘ exp(iΘ),   Θ = 2πq (A − Aᵀ)

is Hermitian and positive semi-definite (Zhang et al., MagNet, NeurIPS 2021). |H_ij| is half the sum of the weights of
i → j and j → i, the phase of −H_ij is 2πq times their difference. So H determines a directed graph without negative
weights as long as no phase reaches half a turn. Without weights and with q = 1/4, H_ij is −i/2 where only i → j is
there, +i/2 where only j → i is, and −1 where both are.

H = U Λ U* gives complex coordinates Z = U √Λ, n points in r complex or 2r real dimensions, with ⟨z_i, z_j⟩ = H_ij. They
are determined up to unitary maps: the real and the imaginary parts of ⟨z_i, z_j⟩ are the invariants. Inner products
of the 2r real coordinates alone are Re H, in which directions do not show; Im H needs the pairing of the coordinates,
(x, y) → (−y, x), too (docs/directed.md). No encoder of this package knows that pairing, so none takes these points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Floats, Integers
from pointset.errors import GraphError, MatrixError
from pointset.machine import check_fits
from pointset.points.forecast import decomposition_bytes
from pointset.points.graphs import EdgeListing, Features, WeightKind, check_node_numbers, check_weights
from pointset.points.inputs import RawGraph, read_raw
from pointset.points.inverse import refuse_truncated
from pointset.points.point_set import Eigenspace, Truncation
from pointset.points.solve import check_rank
from pointset.points.spectra import check_resolved, decompose, relative_error_bound

if TYPE_CHECKING:
    from torch_geometric.data import Data

_LARGEST_PHASE = 0.98  # of half a turn; nearer to it rounding could turn a direction round
_QUARTER = 0.25
_MARGIN = 4.0  # an edge must stand out this much from the largest possible error
_AGREEMENT = 1e-12  # relative difference up to which repeated edges have one weight


@dataclass(frozen=True, eq=False)
class MagneticPoints:
    """A directed graph as n points in r complex dimensions; made by :func:`magnetic_points`.

    Holds the non-zero eigenvalues Λ and eigenvectors U of H = U diag(Λ) U*, ascending and bit-equal inside one
    eigenspace. The tensors are not to be modified in place.
    """

    eigenvalues: Tensor  # (r,) float64, positive
    eigenvectors: Tensor  # (n, r) complex128
    q: float  # phases are 2πq times the difference of weights
    num_edges: int  # m, directed: both directions count as two
    weight_kind: WeightKind = WeightKind.NONE
    x: Tensor | None = None  # (n, …)
    edge_index: Tensor | None = None  # (2, m) the edges that edge_attr belongs to; None without edge features
    edge_attr: Tensor | None = None  # (m, …)
    pos: Tensor | None = None  # (n, …)
    y: Tensor | None = None
    truncation: Truncation | None = None  # None: every non-zero eigenvalue is here

    @property
    def rank(self) -> int:
        """r, the number of eigenpairs kept."""
        return self.eigenvalues.shape[0]

    @property
    def num_nodes(self) -> int:
        """n, the number of points."""
        return self.eigenvectors.shape[0]

    def coordinates(self) -> Tensor:
        """Z = U diag(√Λ), (n, r) complex, with Z Z* = H."""
        return self.eigenvectors * self.eigenvalues.sqrt()

    def real_coordinates(self) -> Tensor:
        """The same points in 2r real dimensions, (n, 2r): real parts, then imaginary parts in the same order."""
        complex_coordinates = self.coordinates()
        return torch.cat([complex_coordinates.real, complex_coordinates.imag], dim=1)

    def inner_products(self) -> Tensor:
        """⟨z_i, z_j⟩ = H_ij for all pairs, (n, n) complex: what unitary maps do not change."""
        return (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.mH

    def eigenspaces(self) -> list[Eigenspace]:
        """The distinct non-zero eigenvalues with their multiplicities over ℂ, ascending."""
        values, counts = torch.unique_consecutive(self.eigenvalues, return_counts=True)
        return [Eigenspace(value, count) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]

    def to_graph(self) -> Data:
        """Rebuild the directed graph.

        Returns:
            A PyG ``Data`` whose ``edge_index`` lists each edge in its direction (sorted), features as they were, and
            ``reconstruction_error``, the largest difference between H of the points and H of that graph.
            Structure and whole-number weights are exact, real weights up to rounding.

        Raises:
            RankError: too much was left out by ``rank=k`` for the graph to be determined.
            GraphError: the points are not those of a directed graph, or rounding hides an edge.
        """
        from torch_geometric.data import Data

        adjacency, error = rebuild(self)
        edges = adjacency.nonzero().mT.contiguous()
        data = Data(edge_index=edges, num_nodes=self.num_nodes)
        if self.weight_kind is not WeightKind.NONE:
            data.edge_weight = adjacency[edges[0], edges[1]]
        for name in ("x", "edge_attr", "pos", "y"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        data.reconstruction_error = error
        return data

    def __repr__(self) -> str:
        parts = [f"num_nodes={self.num_nodes}", f"num_edges={self.num_edges}", f"rank={self.rank}", f"q={self.q:g}"]
        if self.truncation is not None:
            parts.append(f"truncated (‖H − UΛU*‖₂ = {self.truncation.spectral_error:.3g})")
        return f"MagneticPoints({', '.join(parts)})"


# torch.load then takes saved points under weights_only=True: plain data, no code runs.
torch.serialization.add_safe_globals([MagneticPoints])


def magnetic_points(graph: Any, *, q: float | None = None, rank: int | None = None) -> MagneticPoints:
    """Turn one directed graph into points, losslessly.

    Args:
        graph: what :func:`pointset.to_points` takes, and directed networkx graphs. In ``edge_index``, in matrices
            (A_ij is the edge i → j) and in ``(num_nodes, edges)`` each pair is one direction; an undirected networkx
            graph has both. Features are kept. Self-loops and negative weights are refused.
        q: phases are 2πq times the difference of the weights of both directions. By default 1/(4w), w the largest
            difference, which is 1/4 without weights: no phase exceeds a quarter turn. Any q below 1/(2w) is lossless.
        rank: None for all non-zero eigenvalues; k for the k largest, with whole eigenspaces.

    Returns:
        The points; their ``.to_graph()`` is the way back.

    Example:
        >>> from pointset.points import magnetic_points
        >>> points = magnetic_points((4, [(0, 1), (1, 2), (2, 0), (0, 2)]))  # 0 ⇄ 2; node 3 is alone
        >>> points.real_coordinates().shape
        torch.Size([4, 6])
        >>> points.to_graph().edge_index.tolist()
        [[0, 0, 1, 2], [1, 2, 2, 0]]
    """
    check_rank(rank)
    listed = _listed(read_raw(graph, directed=True))
    n, (source, target) = listed.num_nodes, listed.edges
    remedy = "Only smaller directed graphs can be converted"
    check_fits(2 * decomposition_bytes(n), f"decomposing a directed graph of {n:,} nodes needs", remedy)
    adjacency = torch.zeros(n, n, dtype=torch.float64)
    weights = np.ones(len(source)) if listed.weights is None else listed.weights
    adjacency[torch.from_numpy(source), torch.from_numpy(target)] = torch.from_numpy(weights)
    q = _checked_q(q, adjacency)
    matrix = magnetic_laplacian(adjacency, q).unsqueeze(0)
    spectra = decompose(matrix, rank)
    check_resolved(matrix, spectra.eigenvalues, ["0"])
    kept = spectra.kept[0]
    values, vectors = spectra.eigenvalues[0, kept], spectra.eigenvectors[0][:, kept]
    truncation = None
    if bool(spectra.dropped[0] > 0):
        left_out = torch.where(kept, 0.0, spectra.eigenvalues[0])
        residual = (matrix[0] @ vectors - vectors * values).norm(dim=0).max()
        truncation = Truncation(float(spectra.dropped[0]), float(left_out.norm()), float(residual))
    features = listed.features
    return MagneticPoints(
        values,
        vectors,
        q,
        len(source),
        listed.weight_kind,
        x=features.x,
        edge_index=None if features.edge_attr is None else torch.from_numpy(listed.edges),
        edge_attr=features.edge_attr,
        pos=features.pos,
        y=features.y,
        truncation=truncation,
    )


def magnetic_laplacian(adjacency: Tensor, q: float) -> Tensor:
    """H = D_s − A_s ∘ exp(2πiq(A − Aᵀ)) from A (n, n), complex128."""
    symmetric = (adjacency + adjacency.mT) / 2
    phase = 2 * math.pi * q * (adjacency - adjacency.mT)
    return torch.diag(symmetric.sum(-1)).to(torch.complex128) - torch.polar(symmetric, phase)


def _checked_q(q: float | None, adjacency: Tensor) -> float:
    widest = float((adjacency - adjacency.mT).max()) if adjacency.numel() else 0.0
    if q is None:
        return _QUARTER / widest if widest else _QUARTER
    limit = _LARGEST_PHASE / (2 * widest) if widest else math.inf
    if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 < q <= limit:
        raise MatrixError(
            f"got q={q!r}; expected a number above 0 and at most {limit:.6g}: the weights of an edge's two directions "
            f"differ by up to {widest:g}, and from half a turn on phases are those of other graphs. Leave q out for "
            f"{_QUARTER / widest if widest else _QUARTER:.6g}"
        )
    return float(q)


# --- reading


class _Listed(NamedTuple):
    """A directed graph: each edge once, sorted by source, then target."""

    num_nodes: int
    edges: Integers  # (2, m)
    weights: Floats | None  # (m,)
    weight_kind: WeightKind
    features: Features


def _listed(raw: RawGraph) -> _Listed:
    """As for undirected graphs: weight 0 is no edge, repeats that agree are one edge, others are refused."""
    listing = EdgeListing(
        num_nodes=np.array([raw.num_nodes]),
        counts=np.array([len(raw.source)]),
        source=raw.source,
        target=raw.target,
        weights=raw.weights,
        weighted=np.array([raw.weights is not None]),
        mirrored=np.array([False]),
    )
    check_node_numbers(listing, np.zeros(len(raw.source), dtype=np.int64))
    check_weights(listing)
    if raw.weights is not None and (raw.weights < 0).any():
        at = int(np.argmax(raw.weights < 0))
        raise MatrixError(
            f"edge ({raw.source[at]}, {raw.target[at]}) has weight {raw.weights[at]:g}; expected none below 0: weights "
            "of opposite sign in the two directions cancel in the magnetic Laplacian. Keep signs as edge features "
            "(edge_attr)"
        )
    rows = np.arange(len(raw.source)) if raw.weights is None else np.flatnonzero(raw.weights)
    if (loops := rows[raw.source[rows] == raw.target[rows]]).size:
        raise MatrixError(
            f"node {raw.source[loops[0]]} has a self-loop, which the magnetic Laplacian cannot see (it cancels, as in "
            "D − A), so the graph would not survive the conversion. Remove self-loops "
            "(torch_geometric.transforms.RemoveSelfLoops()), or keep them as a node feature"
        )
    key = raw.source[rows] * max(raw.num_nodes, 1) + raw.target[rows]
    _, first, edge_of = np.unique(key, return_index=True, return_inverse=True)
    chosen = rows[first]
    attributes = raw.features.edge_attr
    same = np.ones(len(rows), dtype=bool)
    if raw.weights is not None:
        given, once = raw.weights[rows], raw.weights[chosen][edge_of]
        same &= np.abs(given - once) <= _AGREEMENT * once
    if attributes is not None and len(chosen) < len(rows):
        given_rows, once_rows = attributes[torch.from_numpy(rows)], attributes[torch.from_numpy(chosen[edge_of])]
        equal = (given_rows == once_rows) | ((given_rows != given_rows) & (once_rows != once_rows))
        same &= equal.reshape(len(rows), -1).all(1).numpy()
    if not same.all():
        at = rows[int(np.argmin(same))]
        raise GraphError(
            f"the edge from node {raw.source[at]} to node {raw.target[at]} is listed with different weights or edge "
            "features; an edge has one of each. Combine them first, e.g. with torch_geometric.utils.coalesce"
        )
    weights = None if raw.weights is None else raw.weights[chosen]
    kind = WeightKind.NONE
    if weights is not None:
        kind = WeightKind.INTEGER if np.array_equal(weights, np.rint(weights)) else WeightKind.REAL
    kept = None if attributes is None else attributes[torch.from_numpy(chosen)]
    edges = np.stack([raw.source[chosen], raw.target[chosen]])
    return _Listed(raw.num_nodes, edges, weights, kind, raw.features._replace(edge_attr=kept))


# --- the way back


def rebuild(points: MagneticPoints) -> tuple[Tensor, float]:
    """A (n, n) from the eigenpairs, and max |H of the points − H of A|.

    Off the diagonal |H_ij| = (A_ij + A_ji)/2 and the phase of −H_ij is 2πq(A_ij − A_ji).
    """
    n, q = points.num_nodes, points.q
    check_fits(
        2 * decomposition_bytes(n), f"rebuilding a graph of {n:,} nodes needs", "Only smaller graphs can be rebuilt"
    )
    matrix = points.inner_products().to(torch.complex128)
    if not torch.isfinite(torch.view_as_real(matrix)).all():
        raise GraphError("the eigenpairs contain NaN or infinity, so no graph can be rebuilt")
    bound = relative_error_bound(n) * float(points.eigenvalues.max() if points.rank else 0.0)
    bound += points.truncation.spectral_error if points.truncation is not None else 0.0
    mean = matrix.abs().fill_diagonal_(0.0)
    clear = mean > _MARGIN * bound
    half_difference = torch.where(clear, torch.angle(-matrix), 0.0) / (4 * math.pi * q)
    noisy = torch.where(clear, mean + half_difference, 0.0)
    # A phase is off by at most π/2 times the relative error of H_ij.
    error = bound + torch.where(clear, bound / mean.clamp(min=torch.finfo(torch.float64).tiny), 0.0) / (8 * q)
    adjacency = _strongest(points, noisy, error)
    if points.weight_kind is not WeightKind.REAL:
        adjacency = adjacency.round()
    difference = float((magnetic_laplacian(adjacency, q) - matrix).abs().max()) if n else 0.0
    if int((adjacency != 0).sum()) != points.num_edges or difference > _MARGIN * bound:
        refuse_truncated(points.rank, points.truncation)
        raise GraphError(
            f"the points give a directed graph of {int((adjacency != 0).sum())} edges with error {difference:.3g}, but "
            f"were made from one of {points.num_edges} edges; they were changed since"
        )
    return adjacency, difference


def _strongest(points: MagneticPoints, noisy: Tensor, error: Tensor) -> Tensor:
    """As many entries as there are edges, if all stand out from the possible error and all others vanish in it."""
    strength = torch.where(error > 0, noisy / error, 0.0).flatten()
    order = strength.argsort(descending=True, stable=True)
    chosen, others = order[: points.num_edges], order[points.num_edges :]
    whole = points.weight_kind is not WeightKind.REAL
    hidden = len(chosen) < points.num_edges or bool((strength[chosen] < _MARGIN).any())
    if hidden or (whole and bool((error.flatten()[chosen] >= _QUARTER).any())):
        refuse_truncated(points.rank, points.truncation)
        raise GraphError(
            f"not all of the {points.num_edges} edges stand out from the rounding of the points. Convert again with a "
            "larger q, or with weights nearer to each other"
        )
    if bool((noisy.flatten()[others].abs() > _MARGIN * error.flatten()[others]).any()):
        refuse_truncated(points.rank, points.truncation)
        raise GraphError(
            f"the points have more than the {points.num_edges} edges they were made from; they were changed"
        )
    kept = torch.zeros_like(strength)
    kept[chosen] = noisy.flatten()[chosen]
    return kept.view_as(noisy)
