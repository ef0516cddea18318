"""Theorem 5.1: shortest path distances from inner products of PSRD coordinates, f_k(Λ) = Λ^k on A."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np
import torch

from pointset.arrays import Floats
from pointset.paper.theorems.small_graphs import described, distances, small_adjacencies, small_graphs
from pointset.paper.theorems.statement import Finding, Statement, holds_if
from pointset.points import encodings
from pointset.points.convert import to_points, to_points_many
from pointset.points.point_set import PointSet

_POSITIVE = 1e-6  # more than rounding on graphs this small, where true entries are whole numbers or above 0.01


def products(points: PointSet, largest: int) -> Floats:
    """⟨Q(A, f_0)_i, Q(A, f_k)_j⟩ for k = 0 … K, (K + 1, n, n), from U and U diag(Λ^k), non-zero eigenvalues only."""
    powers = points.eigenvalues.unsqueeze(-1) ** torch.arange(largest + 1)  # (r, K + 1); λ⁰ = 1
    return torch.einsum("ir,jrk->kij", points.eigenvectors, points.parameterized_coordinates(lambda _: powers)).numpy()


def first_positive(walks: Floats, start: int, positive: float = _POSITIVE) -> Floats:
    """argmin_k {k ≥ start | product > 0}, (n, n); infinite where there is none."""
    above = walks[start:] > positive
    if not len(above):
        return np.full(walks.shape[1:], np.inf)
    return np.where(above.any(0), above.argmax(0) + start, np.inf)


@dataclass(frozen=True)
class TriedGraph:
    """One graph: its distances, and the inner products for k = 0 … K."""

    adjacency: Floats
    distances: Floats  # (n, n)
    products: Floats  # (K + 1, n, n)
    power_error: float  # largest difference from A^k in whole numbers, k = 1 … K


def tried_graphs(max_nodes: int, matrix: str) -> list[TriedGraph]:
    """All graphs with up to ``max_nodes`` nodes."""
    result = []
    adjacencies = small_adjacencies(max_nodes)
    many = to_points_many(adjacencies, matrix=matrix, workers=1, progress=False)
    for graph, A, points in zip(small_graphs(max_nodes), adjacencies, many, strict=True):
        spd = distances(graph)
        K = int(spd[np.isfinite(spd)].max(initial=0))
        walks = products(points, K)
        whole = A.astype(np.int64)
        errors = [np.abs(walks[k] - np.linalg.matrix_power(whole, k)).max(initial=0.0) for k in range(1, K + 1)]
        result.append(TriedGraph(A, spd, walks, float(max(errors, default=0.0))))
    return result


def theorem_5_1(max_nodes: int = 7, matrix: str = "adjacency") -> Finding:
    """Different nodes: the first k ≥ 1 with a positive inner product is the distance."""
    tried = tried_graphs(max_nodes, matrix)
    pairs = far = wrong = longest = 0
    for trial in tried:
        different = ~np.eye(len(trial.adjacency), dtype=bool)
        expected = trial.distances[different]
        pairs, far = pairs + len(expected), far + int(np.isinf(expected).sum())
        wrong += int((first_positive(trial.products, start=1)[different] != expected).sum())
        longest = max(longest, len(trial.products) - 1)
    error = max(trial.power_error for trial in tried)
    evidence = (
        f"All {len(tried):,} graphs with up to {max_nodes} nodes, f_k = Λ^k: the first k ≥ 1 with ⟨U_i, Λ^k U_j⟩ > 0 "
        f"is the distance for {pairs - wrong:,} of {pairs:,} ordered pairs i ≠ j, distances up to {longest}; of these "
        f"{far:,} are in different components, where no k is found (infinite). The inner products are A^k, k ≥ 1, to "
        f"{error:.1e}."
    )
    return holds_if(not wrong, evidence, graphs=len(tried), pairs=pairs, wrong=wrong, largest_error_of_powers=error)


def collisions(trial: TriedGraph) -> tuple[int, int]:
    """Pairs of pairs with equal inner products for every k but another distance: with a pair (i, i), and without."""
    n = len(trial.adjacency)
    vectors = trial.products.reshape(len(trial.products), n * n)
    equal = (np.abs(vectors[:, :, None] - vectors[:, None, :]) < _POSITIVE).all(0)
    spd = trial.distances.reshape(-1)
    clash = np.triu(equal & (spd[:, None] != spd[None, :]))
    itself = np.eye(n, dtype=bool).reshape(-1)
    with_itself = int(clash[itself[:, None] | itself[None, :]].sum())
    return with_itself, int(clash.sum()) - with_itself


def theorem_5_1_every_pair(max_nodes: int = 7) -> Finding:
    """The proof to the letter, k from 0 and i = j included, with Definition 3.2's non-zero eigenvalues."""
    tried = tried_graphs(max_nodes, "adjacency")
    wrong = sum(int((first_positive(trial.products, 0) != trial.distances).sum()) for trial in tried)
    pairs = sum(trial.distances.size for trial in tried)
    clashes = [collisions(trial) for trial in tried]
    ambiguous = [trial for trial, (with_itself, without) in zip(tried, clashes, strict=True) if with_itself + without]
    repaired = sum(_wrong_with_identity(trial) for trial in tried)
    between = sum(without for _, without in clashes)
    evidence = (
        f"Definition 3.2 keeps non-zero eigenvalues, so at k = 0 the inner products are a projection, not A⁰ = I: the "
        f"argmin from k = 0 is wrong for {wrong:,} of {pairs:,} ordered pairs. Nor is it another function: in "
        f"{len(ambiguous)} of {len(tried):,} graphs a pair (i, i) has the same inner products for all k as a pair at "
        f"a distance, first in {_clash(ambiguous, connected=False)}, of connected graphs in "
        f"{_clash(ambiguous, connected=True)}; no f helps, as nodes with the same neighbours have the same rows of U "
        f"(to {max(map(_twins, tried)):.0e}). Between pairs i ≠ j there are {between} such cases; with A⁰ = I, all n "
        f"eigenvectors kept, {repaired} pairs are wrong."
    )
    return holds_if(
        not wrong and not ambiguous, evidence,
        pairs=pairs, wrong=wrong, ambiguous_graphs=len(ambiguous), wrong_with_identity=repaired,
        ambiguous_pairs_of_different_nodes=between,
    )  # fmt: skip


def _wrong_with_identity(trial: TriedGraph) -> int:
    """Wrong distances where all n eigenvectors make the coordinates, so that k = 0 gives UUᵀ = I."""
    eigenvectors = np.linalg.eigh(trial.adjacency)[1]
    walks = np.concatenate([(eigenvectors @ eigenvectors.T)[None], trial.products[1:]])
    return int((first_positive(walks, 0) != trial.distances).sum())


def _twins(trial: TriedGraph) -> float:
    """Largest ‖U_i − U_j‖² between nodes with the same neighbours, from the inner products at k = 0."""
    projection = trial.products[0]
    own = np.diagonal(projection)
    apart = np.abs(own[:, None] + own[None, :] - 2 * projection)
    same = (trial.adjacency[:, None] == trial.adjacency[None, :]).all(-1)
    return float(apart[same].max(initial=0.0))


def _clash(ambiguous: list[TriedGraph], *, connected: bool) -> str:
    """The smallest graph with a pair at a distance that inner products take for a node and itself, in words."""
    for trial in ambiguous:
        if connected and np.isinf(trial.distances).any():
            continue
        own = np.diagonal(trial.products, axis1=1, axis2=2)  # (K + 1, n)
        equal = (np.abs(trial.products[..., None] - own[:, None, None]) < _POSITIVE).all(0).any(-1)
        i, j = np.argwhere(equal & (trial.distances > 0))[0]
        apart = "not connected" if np.isinf(trial.distances[i, j]) else f"{trial.distances[i, j]:g} apart"
        return f"{described(trial.adjacency)} (nodes {i} and {j}, {apart})"
    return "none of them"


def arbitrarily_large(nodes: int = 300) -> Finding:
    """How far float64 goes: literal powers, and Chebyshev polynomials as f_k."""
    path, lollipop = nx.path_graph(nodes), nx.lollipop_graph(10, nodes - 10)
    wrong, pairs, longest = 0, 0, 0.0
    for graph in (path, lollipop):
        expected = distances(graph)
        wrong += int((encodings.shortest_path(graph).numpy() != expected).sum())
        pairs, longest = pairs + expected.size, max(longest, float(expected.max()))
    on_paths = literal_reach([nx.path_graph(n) for n in range(2, 101)])
    on_lollipops = literal_reach([nx.lollipop_graph(10, n) for n in range(1, 61)])
    evidence = (
        f"In exact arithmetic there is no limit. In float64, Λ^k gives all distances of paths only up to distance "
        f"{on_paths}, and on K₁₀ with a tail up to {on_lollipops}: rounding grows as |λ|^k. With f_k = T_k, Chebyshev "
        f"polynomials of D^-½AD^-½ (pointset.encodings.shortest_path; where their entries sink to rounding, on the "
        f"tailed K₁₀, longer distances are put together from shorter ones), {wrong} of {pairs:,} pairs are wrong on a "
        f"path and a tailed K₁₀ of {nodes} nodes, distances up to {longest:g}."
    )
    return holds_if(
        not wrong, evidence,
        pairs=pairs, wrong=wrong, longest=longest, reach_of_powers_on_paths=on_paths,
        reach_of_powers_on_lollipops=on_lollipops,
    )  # fmt: skip


def literal_reach(graphs: list[nx.Graph[int]]) -> int:
    """Diameter of the last graph, in this order, before literal powers in float64 first get a distance wrong."""
    reach = 0
    for graph in graphs:
        expected = distances(graph)
        walks = products(to_points(graph, matrix="adjacency"), int(expected.max()))
        different = ~np.eye(len(expected), dtype=bool)
        # entries are whole numbers, so ½ is the threshold that rounding passes last
        if (first_positive(walks, start=1, positive=0.5)[different] != expected[different]).any():
            return reach
        reach = int(expected.max())
    return reach


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 5.1 (i ≠ j)",
        "The distance of two nodes is a function of ⟨Q(A, f_0)_i, Q(A, f_k)_j⟩, k = 0 … K: the first positive one.",
        theorem_5_1,
    ),
    Statement(
        "Theorem 5.1 (every pair, proof as printed)",
        "With f_k = Λ^k the inner products are (A^k)_ij, and spd(i, j) = argmin {k ≥ 0 | (A^k)_ij > 0}, i = j or not.",
        theorem_5_1_every_pair,
    ),
    Statement(
        "Section 5.1, arbitrarily large distances",
        "PSRD coordinates capture arbitrarily large shortest path distances through inner products in one step.",
        arbitrarily_large,
    ),
)
