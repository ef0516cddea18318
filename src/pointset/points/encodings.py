"""Structural encodings as inner products of coordinates (Appendix D, Table of structural embeddings; Theorem 5.1).

Every function takes a graph of any kind that :func:`pointset.to_points` takes, or a :class:`~pointset.PointSet`, and
returns a float64 tensor: (n, n) for pairs, (n,) for nodes. A point set of the matrix that the encoding needs is used as
it is; otherwise the graph is rebuilt and decomposed again. Cost: one decomposition, then n²·r for each matrix. Entries
agree with the direct definitions to about 1e-12 of the largest one on graphs of moderate weights (see the tests); the
pseudo-inverse and resistances lose as many digits as the Laplacian's smallest eigenvalue is below its largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.csgraph
import torch
from torch import Tensor

from pointset.errors import MatrixError, RankError
from pointset.machine import check_fits
from pointset.points.convert import to_points
from pointset.points.inputs import read_graph
from pointset.points.inverse import rebuild
from pointset.points.point_set import PointSet
from pointset.points.solve import adjacency_matrix


def random_walk(graph: Any, steps: int) -> Tensor:
    """(D⁻¹A)^k, the probability that a k-step walk from i ends at j: √(d_j/d_i)·⟨Û_i, diag(Λ̂^k) Û_j⟩.

    The row of an isolated node is zero for k ≥ 1; k = 0 is the identity.
    """
    _check_whole("steps", steps)
    points = _points(graph, "normalized_adjacency")
    if steps == 0:
        return _identity(points)
    root = _graph(points).sum(-1).clamp(min=0).sqrt()
    inverse_root = torch.where(root > 0, 1 / root, 0.0)
    return inverse_root.unsqueeze(-1) * points.inner_products(lambda values: values**steps) * root


def heat_kernel(graph: Any, t: float) -> Tensor:
    """exp(−tL), how much heat diffuses from i to j in time t: δ_ij + ⟨Ũ_i, (exp(−tΛ̃) − 1) Ũ_j⟩."""
    if isinstance(t, bool) or not isinstance(t, (int, float)) or not math.isfinite(t):
        raise MatrixError(f"got t={t!r}; expected a finite time")
    points = _points(graph, "laplacian")
    return _identity(points) + points.inner_products(lambda values: torch.expm1(-t * values))


def pseudoinverse(graph: Any) -> Tensor:
    """L⁺, the pseudo-inverse of the Laplacian: ⟨Ũ_i, diag(Λ̃⁻¹) Ũ_j⟩."""
    return _points(graph, "laplacian").inner_products(torch.reciprocal)


def resistance_distance(graph: Any) -> Tensor:
    """L⁺_ii + L⁺_jj − 2L⁺_ij, the resistance between i and j with weights as conductances; infinite between components.

    The squared distance between the points U_i/√Λ. (The paper's table prints L⁺ itself: see :func:`pseudoinverse`.)
    """
    points = _points(graph, "laplacian")
    resistance = _squared_distances(points.inner_products(torch.reciprocal))
    together = _same_component(graph)
    components = int(together.double().sum(-1).reciprocal().sum().round())
    if points.rank != points.num_nodes - components:  # only negative weights can do that
        raise MatrixError(
            f"the Laplacian has rank {points.rank} on {components} components of {points.num_nodes} nodes: negative "
            "weights make it singular, and resistances are not defined"
        )
    return torch.where(together, resistance, math.inf)


def stable_laplacian(graph: Any, k: int) -> Tensor:
    """‖1_K ⊙ (U_i − U_j)‖ over the K = k largest eigenvalues of L, as three inner products.

    Whole eigenspaces are kept, so a few more than k where the k-th is repeated: only then is the encoding defined.
    """
    _check_whole("k", k)
    points = _points(graph, "laplacian")
    if k > points.num_nodes:
        raise RankError(f"got k={k} for a graph of {points.num_nodes} nodes; expected at most that many eigenvalues")
    if k == 0 or points.rank == 0:
        return torch.zeros(points.num_nodes, points.num_nodes, dtype=torch.float64)
    floor = points.eigenvalues[max(points.rank - k, 0)]  # ascending, and bit-equal inside an eigenspace
    gram = points.inner_products(lambda values: (values >= floor).to(values.dtype))
    return _squared_distances(gram).clamp(min=0).sqrt()


def degree(graph: Any) -> Tensor:
    """d_i = Σ_j A_ij, (n,): half the row sums of ⟨Q_i, Q_j⟩ for the SRD coordinates Q of D + A.

    Valid with weights and self-loops. (The paper's ⟨U_i, diag(Λ²) U_i⟩ on A is the same without weights.)
    """
    return _points(graph, "augmented").inner_products().sum(-1) / 2


def triangles(graph: Any) -> Tensor:
    """Triangles through each node, (n,): ½⟨U_i, diag(Λ³) U_i⟩ on A; with weights, each counts its weights' product."""
    points = _points(graph, "adjacency", without_loops=True)
    return (points.eigenvectors.square() * points.eigenvalues**3).sum(-1) / 2


def adjacency_power(graph: Any, k: int) -> Tensor:
    """A^k, the number of k-step walks from i to j (with weights, sums of products): ⟨U_i, diag(Λ^k) U_j⟩."""
    _check_whole("k", k)
    points = _points(graph, "adjacency")
    return _identity(points) if k == 0 else points.inner_products(lambda values: values**k)


def shortest_path(graph: Any) -> Tensor:
    """Number of edges on a shortest path between i and j; infinite between components (Theorem 5.1).

    The theorem takes the first k with (A^k)_ij ≠ 0. Powers overflow a floating-point number's digits after some twenty
    steps, so f_k here is the Chebyshev polynomial T_k on D^-½AD^-½: also zero before the distance and not at it, but
    of size 1. For as many steps as T_k provably stays above rounding, distances are read off; longer ones are composed
    from them. Weights do not matter, only which edges there are. Cost: n²·r for each step of the diameter.
    """
    pattern = (_graph(graph).abs() > 0).to(torch.float64)
    pattern.fill_diagonal_(0.0)
    points = to_points(pattern, matrix="normalized_adjacency")
    n = points.num_nodes
    distance = torch.full((n, n), math.inf, dtype=torch.float64)
    distance.fill_diagonal_(0.0)
    if points.rank == 0:
        return distance
    angle = torch.arccos(points.eigenvalues.clamp(-1, 1))
    reach = _readable_steps(n, float(pattern.sum(-1).max()))
    for k in range(1, reach + 1):
        # T_k(x) = cos(k·arccos x), of which the kernel of Z, left out of the points, contributes cos(k·π/2)
        chebyshev = torch.cos(k * angle) - math.cos(k * math.pi / 2)
        entries = points.inner_products(lambda _, f=chebyshev: f).abs()  # type: ignore[misc]
        reached = (entries > _smallest_entry(k, float(pattern.sum(-1).max())) / 2) & distance.isinf()
        reached.fill_diagonal_(False)
        if not reached.any():
            return distance
        distance[reached] = k
    return _composed(distance, reach)


def _readable_steps(n: int, largest_degree: float) -> int:
    """Up to which k an entry of T_k at distance k is sure to exceed the rounding error, about (n + k²)·ε, by far."""
    k = 1
    while k < n - 1 and _smallest_entry(k + 1, largest_degree) > 1e4 * (n + (k + 1) ** 2) * 2.0**-52:
        k += 1
    return k


def _smallest_entry(k: int, largest_degree: float) -> float:
    """Lower bound of |T_k(D^-½AD^-½)_ij| at distance k: 2^(k−1) times one path, each step at least 1/d_max."""
    return 0.5 * (2.0 / largest_degree) ** k


def _composed(distance: Tensor, reach: int) -> Tensor:
    """Longer distances from those up to ``reach``: at distance k from i is what is 1 from a node at distance k − 1."""
    near = (distance == 1).to(torch.float64)
    front = (distance == reach).to(torch.float64)
    k = reach
    while front.any():
        k += 1
        reached = ((front @ near) > 0.5) & distance.isinf()
        distance[reached] = k
        front = reached.to(torch.float64)
    return distance


def _same_component(graph: Any) -> Tensor:
    """(n, n) whether a path joins i and j."""
    label = torch.from_numpy(scipy.sparse.csgraph.connected_components(_graph(graph).numpy() != 0, directed=False)[1])
    return label.unsqueeze(-1) == label


def _points(graph: Any, matrix: str, *, without_loops: bool = False) -> PointSet:
    """Points of the matrix that an encoding needs, all eigenpairs, in float64."""
    if isinstance(graph, PointSet):
        if graph.truncation is not None:
            raise RankError(
                f"these points keep only {graph.rank} eigenpairs, so the encoding would be approximate; convert the "
                "graph without rank=…"
            )
        if graph.matrix == matrix and not without_loops:
            return graph.to(torch.float64)
    if isinstance(graph, PointSet) or without_loops:
        graph = _graph(graph)
        if without_loops:
            graph = graph - torch.diag(graph.diagonal())
    return to_points(graph, matrix=matrix)


def _graph(graph: Any) -> Tensor:
    """The adjacency matrix (n, n), of points by their inner products."""
    if isinstance(graph, PointSet):
        return rebuild(graph).adjacency
    arrays = read_graph(graph)
    check_fits(8.0 * float(arrays.num_nodes[0]) ** 2, "the adjacency matrix of this graph needs", "Use a smaller graph")
    return torch.from_numpy(adjacency_matrix(arrays[0]).toarray())


def _squared_distances(gram: Tensor) -> Tensor:
    """‖a_i − a_j‖² from the inner products ⟨a_i, a_j⟩, (n, n)."""
    diagonal = gram.diagonal()
    squared = diagonal.unsqueeze(-1) + diagonal - 2 * gram
    return squared.fill_diagonal_(0.0)


def _identity(points: PointSet) -> Tensor:
    return torch.eye(points.num_nodes, dtype=torch.float64)


def _check_whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise RankError(f"got {name}={value!r}; expected a whole number of at least 0")


ENCODINGS: dict[str, Callable[..., Tensor]] = {
    function.__name__: function
    for function in (
        random_walk, heat_kernel, pseudoinverse, resistance_distance, stable_laplacian, degree, triangles,
        adjacency_power, shortest_path,
    )
}  # fmt: skip
