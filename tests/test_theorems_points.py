"""Statements on points, distances and encodings: their verdicts, and that each check rejects what is false."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pointset.errors import SpecError
from pointset.paper.theorems import decomposition, distances, isomorphism, structural_encodings
from pointset.paper.theorems.small_graphs import relabelled, small_adjacencies, small_graphs
from pointset.paper.theorems.statement import Finding, Statement, Verdict
from pointset.testing.symmetry import random_rotation
from tests.graph_strategies import adjacency_matrices

Matrix = NDArray[np.float64]

NUMBER_OF_GRAPHS = (1, 1, 2, 4, 11, 34, 156, 1044)  # with 0, 1, … 7 nodes (Pólya; OEIS A000088)

FAILS = {
    "Theorem 3.3 (2), f as printed",
    "Theorem 5.1 (every pair, proof as printed)",
    "Table 5, resistance distance",
    "Table 5, degree",
    "Table 5, triangles",
}
STATEMENTS = (
    *decomposition.STATEMENTS,
    *isomorphism.STATEMENTS,
    *distances.STATEMENTS,
    *structural_encodings.STATEMENTS,
)


NODES = {"Theorem 3.3 (2), f as printed": 6, "Section 5.1, arbitrarily large distances": 120}


@functools.cache
def found(name: str) -> Finding:
    """On all graphs with up to five nodes; ``pointset express theorems`` takes seven."""
    check: Callable[[int], Finding] = next(one for one in STATEMENTS if one.name == name).check  # type: ignore[assignment]
    return check(NODES.get(name, 5))


@pytest.mark.parametrize("statement", STATEMENTS, ids=[one.name for one in STATEMENTS])
def test_verdict(statement: Statement) -> None:
    finding = found(statement.name)
    assert finding.verdict == (Verdict.FAILS if statement.name in FAILS else Verdict.HOLDS)
    assert finding.numbers and any(character.isdigit() for character in finding.evidence)


def test_every_name_is_used_once_and_every_failure_is_a_statement() -> None:
    names = [one.name for one in STATEMENTS]
    assert len(set(names)) == len(names) and set(names) >= FAILS


def test_the_small_graphs_are_all_there_once() -> None:
    assert tuple(np.bincount([len(graph) for graph in small_graphs()])) == NUMBER_OF_GRAPHS
    assert [list(graph) for graph in small_graphs(3)] == [list(range(len(graph))) for graph in small_graphs(3)]
    with pytest.raises(nx.NetworkXError, match="Frozen"):
        small_graphs(3)[2].add_edge(0, 1)
    with pytest.raises(ValueError, match="read-only"):
        small_adjacencies(3)[2][0, 0] = 1
    for wrong in (-1, 8, True):
        with pytest.raises(SpecError, match="whole number from 0 to 7"):
            small_graphs(wrong)


# What a reader takes from the evidence: the counterexamples, worked out by hand.


def test_the_printed_f_takes_a_hexagon_for_two_triangles() -> None:
    numbers = found("Theorem 3.3 (2), f as printed").numbers
    names = str(numbers["smallest_pair"])
    assert names.count("6 nodes") == 2 and "(1 component)" in names and "(2 components)" in names
    assert numbers["equal_when_corrected"] == 0
    A, other = nx.to_numpy_array(nx.cycle_graph(6)), nx.to_numpy_array(nx.disjoint_union(*[nx.complete_graph(3)] * 2))
    evens_then_odds = np.array([0, 2, 4, 1, 3, 5])
    assert np.array_equal((A @ A)[np.ix_(evens_then_odds, evens_then_odds)], other @ other)


def test_distances_are_ambiguous_only_for_a_node_and_itself() -> None:
    finding = found("Theorem 5.1 (every pair, proof as printed)")
    assert "2 nodes with no edge" in finding.evidence and "3 nodes with the edges 0–1, 0–2" in finding.evidence
    assert finding.numbers["ambiguous_pairs_of_different_nodes"] == 0 == finding.numbers["wrong_with_identity"]


def test_powers_lose_their_digits_where_chebyshev_polynomials_do_not() -> None:
    numbers = found("Section 5.1, arbitrarily large distances").numbers
    assert 40 <= int(numbers["reach_of_powers_on_paths"]) <= 75
    assert 10 <= int(numbers["reach_of_powers_on_lollipops"]) <= 35
    assert numbers["longest"] == 119


def test_what_holds_in_place_of_the_printed_encodings() -> None:
    assert found("Table 5, resistance distance").numbers["wrong_when_corrected"] == 0
    assert "-0.25 in place of 1" in found("Table 5, resistance distance").evidence  # the single edge
    assert found("Table 5, degree").numbers["wrong_with_j_equal_to_i"] == 0
    triangles = found("Table 5, triangles").numbers
    assert triangles["wrong_with_half"] == 0 < int(triangles["wrong_with_j_equal_to_i"])
    assert int(found("Table 5, stable Laplacian encoding").numbers["cases_that_depend_on_the_basis"]) > 0


# Each check rejects something false, and accepts what is true where the paper's print is not.


def of_another_matrix(L: Matrix, generator: np.random.Generator) -> Matrix:
    return decomposition.by_cholesky(2 * L, generator)


def with_one_column_scaled(L: Matrix, generator: np.random.Generator) -> Matrix:
    Q = decomposition.by_cholesky(L, generator)
    Q[:, :1] *= 1.0001
    return Q


def with_one_point_moved(graphs: Sequence[Matrix]) -> list[Matrix]:
    moved = isomorphism.srd_points(graphs)
    for points in moved:
        points[:1] += 0.01
    return moved


def with_unit_lengths(graphs: Sequence[Matrix]) -> list[Matrix]:
    points = isomorphism.srd_points(graphs)
    return [one / np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1e-9) for one in points]


def degrees_only(graphs: Sequence[Matrix]) -> list[Matrix]:
    """Equivariant, but without edges: the converse of Theorem 3.1 must fail."""
    return [np.sqrt(A.sum(-1))[:, None, None] for A in graphs]


def without_eigenvalues(eigenvalues: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(eigenvalues).unsqueeze(-1)


BROKEN: dict[str, Callable[[], Finding]] = {
    "SRD of another matrix": lambda: decomposition.proposition_2_3(4, second=of_another_matrix),
    "not an SRD": lambda: decomposition.proposition_2_3(4, second=with_one_column_scaled),
    "negative weights": lambda: decomposition.appendix_a_2(4, negative=True),
    "a point moved": lambda: isomorphism.theorem_3_1(5, with_one_point_moved),
    "points without lengths": lambda: isomorphism.theorem_3_1(5, with_unit_lengths),
    "points without edges": lambda: isomorphism.theorem_3_1(5, degrees_only),
    "f by position": lambda: isomorphism.theorem_3_3_first(5, isomorphism.by_position),
    "f without eigenvalues": lambda: isomorphism.theorem_3_3_second(5, without_eigenvalues),
    "f as printed": lambda: isomorphism.theorem_3_3_second(6, isomorphism.two_channels_as_printed),
    "powers of the Laplacian": lambda: distances.theorem_5_1(4, "laplacian"),
    "walk from j to i": lambda: structural_encodings.random_walk(
        4, lambda A: structural_encodings.walk_as_printed(A).mT
    ),
    "heat kernel without δ": lambda: structural_encodings.heat_kernel(
        4, lambda A: structural_encodings.heat_as_printed(A) - np.eye(len(A))
    ),
    "two inner products": lambda: structural_encodings.stable_laplacian(4, lambda U, chosen: -2 * (U * chosen) @ U.T),
}
REPAIRED: dict[str, Callable[[], Finding]] = {
    "the corrected f": lambda: isomorphism.theorem_3_3_as_printed(6, isomorphism.two_channels),
    "five nodes are too few": lambda: isomorphism.theorem_3_3_as_printed(5),
    "resistance": lambda: structural_encodings.resistance_distance(5, structural_encodings.resistance_corrected),
    "degree": lambda: structural_encodings.degree(5, structural_encodings.degrees_by_definition),
    "triangles": lambda: structural_encodings.triangles(
        5, lambda A: np.repeat(np.diagonal(A @ A @ A)[:, None] / 2, len(A), axis=1)
    ),
}


@pytest.mark.parametrize("what", list(BROKEN))
def test_a_false_variant_is_rejected(what: str) -> None:
    assert BROKEN[what]().verdict == Verdict.FAILS


@pytest.mark.parametrize("what", list(REPAIRED))
def test_a_true_variant_is_accepted(what: str) -> None:
    assert REPAIRED[what]().verdict == Verdict.HOLDS


# The search that decides equality of point sets.


@given(adjacency=adjacency_matrices(max_nodes=6, weighted=False), seed=st.integers(0, 2**32 - 1))
def test_point_sets_are_equal_exactly_for_isomorphic_graphs(adjacency: Matrix, seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = len(adjacency)
    other = relabelled(adjacency, generator.permutation(n))
    if n > 1 and seed % 2:  # one pair of nodes changes
        u, v = generator.choice(n, size=2, replace=False)
        other[u, v] = other[v, u] = 1 - other[u, v]
    first, second = isomorphism.srd_points([adjacency, other])
    expected = nx.is_isomorphic(nx.from_numpy_array(adjacency), nx.from_numpy_array(other))
    if first.shape != second.shape:
        assert not expected
        return
    products = decomposition.inner_products(first), decomposition.inner_products(second)
    where = decomposition.bijection(*products)
    assert (where is not None) == expected == (decomposition.smallest_difference(*products) < decomposition.CLOSE)
    if where is not None:
        R, rest = decomposition.rotation(first, second[where])
        assert rest < 1e-9 and np.allclose(R @ R.T, np.eye(len(R)), atol=1e-9)


def test_invariants_leave_open_what_the_search_decides() -> None:
    """Equal invariants are no proof: a mirror image of four points in the plane with another order of features is."""
    points = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])[..., None]
    turned = np.einsum(
        "sr,vra->vsa", random_rotation(2, torch.Generator().manual_seed(1)).numpy(), points[[2, 0, 3, 1]]
    )
    products = decomposition.inner_products(points), decomposition.inner_products(turned)
    opposite, beside = np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])
    assert decomposition.census([points, turned]).equal == ((0, 1),)
    assert decomposition.bijection(*products, (opposite, beside)) is not None  # turned[:2] are opposite
    assert decomposition.bijection(*products, (beside, beside)) is None
