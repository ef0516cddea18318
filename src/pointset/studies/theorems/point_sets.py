"""Theorem 3.1: two graphs are isomorphic if and only if their point sets are equal up to O(r)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems import parameterized
from pointset.studies.theorems.parameterized import ROUNDING, parameterized_points
from pointset.studies.theorems.set_equality import Array, bijection, census, inner_products, rotation
from pointset.studies.theorems.small_graphs import Matrix, relabelled, small_adjacencies

Conversion = Callable[[Sequence[Matrix]], list[Array]]  # graphs → points (n, r, d)


def srd_points(graphs: Sequence[Matrix]) -> list[Array]:
    """SRD coordinates of D + A, (n, r, 1)."""
    return parameterized_points(graphs, "augmented", lambda eigenvalues: eigenvalues.sqrt().unsqueeze(-1))


@dataclass(frozen=True)
class Copies:
    """What became of relabelled copies with features, and of copies whose features were dealt out anew."""

    found: int  # copies whose points were found equal up to some R ∈ O(r), features included
    largest_error: float  # |RQ_v − Q'_π(v)|, R by least squares
    changed: int  # graphs with other features that are not isomorphic any more
    right: int  # graphs with other features on which points and networkx agree


def relabelled_copies(adjacencies: Sequence[Matrix], convert: Conversion, seed: int = 31) -> Copies:
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
        f"{pairs.pairs:,} have the same rank, and {len(pairs.equal)} of these have equal point sets. Told apart by "
        f"coordinates alone: {pairs.gaps}."
    )
    return holds_if(
        copies.found == len(graphs) == copies.right and copies.largest_error < ROUNDING and not pairs.equal,
        evidence, graphs=len(graphs), copies_found_equal=copies.found, largest_error=copies.largest_error,
        pairs_of_one_size=of_one_size, **pairs.counted(),
    )  # fmt: skip


def _isomorphic(A: Matrix, X: Array, other: Matrix, other_X: Array) -> bool:
    """Definition 2.1, by networkx."""
    first, second = nx.from_numpy_array(A), nx.from_numpy_array(other)
    for graph, features in ((first, X), (second, other_X)):
        nx.set_node_attributes(graph, dict(enumerate(features.tolist())), "x")
    return nx.is_isomorphic(first, second, node_match=lambda a, b: a["x"] == b["x"])


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 3.1",
        "Two graphs are isomorphic if and only if their points (X_v, Q_v), Q the SRD of D + A, are equal up to O(r).",
        theorem_3_1,
    ),
    *parameterized.STATEMENTS,
)
