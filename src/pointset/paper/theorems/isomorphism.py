"""Isomorphic graphs have point sets that are equal up to O(r), and only they: Theorem 3.1 for SRD coordinates,
Theorem 3.3 for parameterized coordinates U diag(f(Λ)).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Floats
from pointset.encoders.coordinates import LearnedDeepSet, signed_root
from pointset.errors import MatrixError
from pointset.paper.theorems.decomposition import bijection, census, inner_products, rotation
from pointset.paper.theorems.small_graphs import (
    adjacency_of,
    described,
    random_weighted,
    relabelled,
    small_adjacencies,
    small_graphs,
)
from pointset.paper.theorems.statement import Finding, Statement, holds_if
from pointset.points.convert import to_points_many
from pointset.points.matrices import MATRICES

ROUNDING = 1e-9  # points of relabelled graphs agree to about 1e-14
EigenvalueFunction = Callable[[Tensor], Tensor]  # (B, r) → (B, r, d)
Conversion = Callable[[Sequence[Floats]], list[Floats]]  # graphs → points (n, r, d)


def parameterized_points(graphs: Sequence[Floats], matrix: str, f: EigenvalueFunction) -> list[Floats]:
    """PSRD coordinates U diag(f(Λ)) of every graph, (n, r, d) each; f is called once for each rank."""
    many = list(to_points_many(graphs, matrix=matrix, workers=1, progress=False))
    values: dict[int, Tensor] = {}
    for rank in {points.rank for points in many}:
        alike = [index for index, points in enumerate(many) if points.rank == rank]
        values |= zip(alike, f(torch.stack([many[index].eigenvalues for index in alike])), strict=True)
    return [points.parameterized_coordinates(lambda _, own=values[index]: own).numpy()  # type: ignore[misc]
            for index, points in enumerate(many)]  # fmt: skip


def srd_points(graphs: Sequence[Floats]) -> list[Floats]:
    """SRD coordinates of D + A, (n, r, 1)."""
    return parameterized_points(graphs, "augmented", lambda eigenvalues: eigenvalues.sqrt().unsqueeze(-1))


@dataclass(frozen=True)
class Copies:
    """What became of relabelled copies with features, and of copies whose features were dealt out anew."""

    found: int  # copies whose points were found equal up to some R ∈ O(r), features included
    largest_error: float  # |RQ_v − Q'_π(v)|, R by least squares
    changed: int  # graphs with other features that are not isomorphic any more
    right: int  # graphs with other features on which points and networkx agree


def relabelled_copies(adjacencies: Sequence[Floats], convert: Conversion, seed: int = 31) -> Copies:
    """Give random node features, relabel, and look for R and a bijection that sees points and features only."""
    generator = np.random.default_rng(seed)
    orders = [generator.permutation(len(A)) for A in adjacencies]
    copies = [relabelled(A, order) for A, order in zip(adjacencies, orders, strict=True)]
    found = changed = right = 0
    largest = 0.0
    for A, order, first, second in zip(adjacencies, orders, convert(adjacencies), convert(copies), strict=True):
        X = generator.integers(0, 3, size=len(A)).astype(np.float64)
        copied = np.empty_like(X)
        copied[order] = X
        products = inner_products(first), inner_products(second)
        where = bijection(*products, (X, copied))
        if where is not None:
            found += 1
            largest = max(largest, rotation(first, second[where])[1])
        dealt = generator.permutation(X)
        same = _isomorphic(A, X, relabelled(A, order), dealt)
        changed += not same
        right += (bijection(*products, (X, dealt)) is not None) == same
    return Copies(found, largest, changed, right)


def theorem_3_1(max_nodes: int = 7, convert: Conversion = srd_points) -> Finding:
    """All graphs with up to ``max_nodes`` nodes, both directions."""
    graphs = small_adjacencies(max_nodes)
    copies = relabelled_copies(graphs, convert)
    pairs = census(convert(graphs))
    sizes = np.bincount([len(A) for A in graphs])
    of_one_size = int((sizes * (sizes - 1) // 2).sum())
    evidence = (
        f"All {len(graphs):,} graphs with 0 to {max_nodes} nodes. Relabelled copies with node features: an R ∈ O(r) "
        f"makes the point sets equal for {copies.found:,}, to {copies.largest_error:.1e}; with features dealt out "
        f"anew ({copies.changed:,} are then not isomorphic) points and networkx disagree on "
        f"{len(graphs) - copies.right}. Non-isomorphic graphs: of {of_one_size:,} pairs of the same size "
        f"{pairs.pairs:,} have the same rank, and {len(pairs.equal)} of these have equal point sets. Distinguished "
        f"by coordinates alone: {pairs.gaps}."
    )
    return holds_if(
        copies.found == len(graphs) == copies.right and copies.largest_error < ROUNDING and not pairs.equal,
        evidence, graphs=len(graphs), copies_found_equal=copies.found, largest_error=copies.largest_error,
        pairs_of_one_size=of_one_size, **pairs.counted(),
    )  # fmt: skip


def _isomorphic(A: Floats, X: Floats, other: Floats, other_X: Floats) -> bool:
    """Definition 2.1, by networkx."""
    first, second = nx.from_numpy_array(A), nx.from_numpy_array(other)
    for graph, features in ((first, X), (second, other_X)):
        nx.set_node_attributes(graph, dict(enumerate(features.tolist())), "x")
    return nx.is_isomorphic(first, second, node_match=lambda a, b: a["x"] == b["x"])


def two_channels(eigenvalues: Tensor) -> Tensor:
    """√|λ| and sgn(λ)√|λ|: what the proof of Theorem 3.3 needs."""
    return torch.stack([eigenvalues.abs().sqrt(), signed_root(eigenvalues)], dim=-1)


def two_channels_as_printed(eigenvalues: Tensor) -> Tensor:
    """√|λ| and sgn(|λ|)√|λ|, to the letter."""
    magnitude = eigenvalues.abs()
    return torch.stack([magnitude.sqrt(), magnitude.sign() * magnitude.sqrt()], dim=-1)


def one_channel(eigenvalues: Tensor) -> Tensor:
    """exp(λ/2): one channel whose inner products U diag(exp Λ) Uᵀ still determine Λ and U, signs included."""
    return (eigenvalues / 2).exp().unsqueeze(-1)


@functools.cache
def deep_set(channels: int, seed: int) -> EigenvalueFunction:
    """A DeepSet with random weights: the eigenvalue function that the paper learns."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LearnedDeepSet(channels).double().requires_grad_(False)

    def f(eigenvalues: Tensor) -> Tensor:
        return torch.movedim(model(eigenvalues), 0, -1)

    return f


def elementary(eigenvalues: Tensor) -> Tensor:
    """Channels λ², sin λ, exp(−|λ|), λ/Σ|λ|, 1 where |λ| is the largest: each permutation-equivariant."""
    size = eigenvalues.abs()
    total = size.sum(-1, keepdim=True).clamp(min=1e-300)
    largest = (size > 0.999 * size.amax(-1, keepdim=True)).double() if size.shape[-1] else size
    return torch.stack([eigenvalues**2, eigenvalues.sin(), (-size).exp(), eigenvalues / total, largest], dim=-1)


def by_position(eigenvalues: Tensor) -> Tensor:
    """λ_k times k: not permutation-equivariant, so Theorem 3.3 does not speak of it."""
    return (eigenvalues * torch.arange(1, eigenvalues.shape[-1] + 1)).unsqueeze(-1)


def many_functions(eigenvalues: Tensor) -> Tensor:
    """The elementary functions and two DeepSets of random weights, 13 channels in all."""
    functions = (elementary, deep_set(4, seed=1), deep_set(4, seed=2))
    return torch.cat([f(eigenvalues) for f in functions], dim=-1)


def theorem_3_3_first(max_nodes: int = 7, f: EigenvalueFunction = many_functions) -> Finding:
    """Relabelled graphs have PSRD points equal up to one R ∈ O(r) for all channels, for all four matrices Z."""
    generator = np.random.default_rng(33)
    graphs = [*small_adjacencies(max_nodes), *(random_weighted(n, 0.3, generator) for n in range(8, 28))]
    orders = [generator.permutation(len(A)) for A in graphs]
    copies = [relabelled(A, order) for A, order in zip(graphs, orders, strict=True)]
    sides = graphs, copies

    def rests(matrix: str, f: EigenvalueFunction) -> list[float]:
        """|RQ_v − Q'_π(v)|, R from the coordinates; node features move with the nodes."""
        first, second = (parameterized_points(side, matrix, f) for side in sides)
        return [rotation(a, b[order])[1] for a, b, order in zip(first, second, orders, strict=True)]

    errors = [error for matrix in MATRICES for error in rests(matrix, f)]
    equal = sum(error < ROUNDING for error in errors)
    wrong = sum(error > ROUNDING for error in rests("laplacian", by_position))
    evidence = (
        f"{len(graphs):,} graphs (all with up to {max_nodes} nodes, weighted ones with up to 27), relabelled, for "
        f"each Z of {', '.join(MATRICES)}, and an f of many channels (DeepSets with random weights, λ², sin λ and "
        f"others): of {len(errors):,} pairs of point sets {equal:,} are equal up to one R ∈ O(r) for all channels, "
        f"the largest rest is {max(errors):.1e}. With an f that is not permutation-equivariant, k·λ_k, {wrong} of "
        f"{len(graphs):,} are not."
    )
    return holds_if(
        equal == len(errors), evidence,
        pairs=len(errors), equal=equal, largest_error=max(errors), failures_of_an_f_that_is_not_equivariant=wrong,
    )  # fmt: skip


def theorem_3_3_second(max_nodes: int = 7, f: EigenvalueFunction = two_channels) -> Finding:
    """Non-isomorphic graphs never have equal points under the two-channel f, for all four matrices Z."""
    graphs = small_adjacencies(max_nodes)
    by_matrix = {matrix: census(parameterized_points(graphs, matrix, f)) for matrix in MATRICES}
    equal = sum(len(pairs.equal) for pairs in by_matrix.values())
    total = sum(pairs.pairs for pairs in by_matrix.values())
    gap = min(pairs.smallest_gap for pairs in by_matrix.values())
    single = census(parameterized_points(graphs, "adjacency", one_channel))
    evidence = (
        f"All {len(graphs):,} graphs with up to {max_nodes} nodes, f = (√|λ|, sgn(λ)√|λ|), Z = {', '.join(MATRICES)}: "
        f"of {total:,} pairs of one size and rank {equal} have equal point sets; invariants of coordinates differ by "
        f"{gap:.2g} or more. Two channels are not needed: the one channel exp(λ/2) on A leaves {len(single.equal)} of "
        f"{single.pairs:,} pairs equal."
    )
    return holds_if(
        not equal, evidence, pairs=total, equal=equal, smallest_gap=gap, equal_with_one_channel=len(single.equal)
    )


def theorem_3_3_as_printed(max_nodes: int = 7, f: EigenvalueFunction = two_channels_as_printed) -> Finding:
    """The f of the proof to the letter, sgn(|·|)√|·|, on Z = A: are there graphs that it makes equal?"""
    graphs = small_adjacencies(max_nodes)
    points = parameterized_points(graphs, "adjacency", f)
    pairs = census(points)
    if not pairs.equal:
        return holds_if(True, f"No two graphs with up to {max_nodes} nodes have equal point sets.", **pairs.counted())
    smallest = min(pairs.equal, key=lambda pair: (len(graphs[pair[0]]), graphs[pair[0]].sum() + graphs[pair[1]].sum()))
    (first, second), (A, other) = ([sides[index] for index in smallest] for sides in (points, graphs))
    where = bijection(inner_products(first), inner_products(second))
    if where is None:
        raise MatrixError(f"graphs {smallest} were found equal by one search and different by the other")
    error = rotation(first, second[where])[1]
    squares = np.array_equal((other @ other)[np.ix_(where, where)], A @ A)
    names = " and ".join(_described(small_graphs(max_nodes)[index]) for index in smallest)
    corrected = census(parameterized_points(graphs, "adjacency", two_channels))
    evidence = (
        f"sgn(|λ|) is 1, so both channels are √|λ| and their inner products |A|: the signs are lost. On Z = A, of "
        f"{pairs.pairs:,} pairs of non-isomorphic graphs of one size (up to {max_nodes} nodes) and rank "
        f"{len(pairs.equal)} have equal point sets; the smallest are {names}: an R ∈ O(r) carries one onto the other "
        f"to {error:.1e}{', and A² is the same' if squares else ''}. With sgn(λ)√|λ|, {len(corrected.equal)} pairs "
        f"are equal."
    )
    return holds_if(
        not pairs.equal, evidence,
        smallest_pair=names, error_of_the_rotation=error, equal_when_corrected=len(corrected.equal), **pairs.counted(),
    )  # fmt: skip


def _described(graph: nx.Graph[int]) -> str:
    parts = nx.number_connected_components(graph)
    return f"{described(adjacency_of(graph))} ({parts} component{'s' if parts > 1 else ''})"


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 3.1",
        "Two graphs are isomorphic if and only if their points (X_v, Q_v), Q the SRD of D + A, are equal up to O(r).",
        theorem_3_1,
    ),
    Statement(
        "Theorem 3.3 (1)",
        "For permutation-equivariant f and Z, isomorphic graphs have PSRD points that are equal up to O(r).",
        theorem_3_3_first,
    ),
    Statement(
        "Theorem 3.3 (2)",
        "For injective Z some continuous permutation-equivariant f of two channels makes the converse true.",
        theorem_3_3_second,
    ),
    Statement(
        "Theorem 3.3 (2), f as printed",
        "f₁ = √|·| and f₂ = sgn(|·|)√|·| make point sets equal up to O(r) for isomorphic graphs only.",
        theorem_3_3_as_printed,
    ),
)
