"""The closed formulas of the paper's appendix against enumeration: which printed ones fail, and that ours hold.

``docs/departures_from_paper.md`` rests on these tests.
"""

from __future__ import annotations

import functools
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from networkx.generators.atlas import graph_atlas_g
from numpy.typing import NDArray

from pointset.datasets.counting import count_many
from pointset.datasets.counting_formulas import cycle_counts, path_matrix, printed_cycle_counts, printed_path_matrix
from pointset.errors import GraphError, MatrixError
from tests.graph_strategies import adjacency_matrices
from tests.test_counting import embedded, maps_to, path_pattern

Integers = NDArray[np.int64]
LENGTHS = (2, 3, 4, 5, 6)

EDGE = nx.path_graph(2)
TWO_EDGES = nx.path_graph(3)
TRIANGLE = nx.cycle_graph(3)
STAR = nx.star_graph(3)
TAILED_TRIANGLE = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)])


def matrix(graph: nx.Graph[int]) -> Integers:
    return np.asarray(nx.to_numpy_array(graph), dtype=np.int64)


def enumerated_paths(adjacency: Integers, length: int) -> Integers:
    """(…, n, n) → (…, n, n): try every sequence of different nodes."""
    n = adjacency.shape[-1]
    sequences = maps_to(length + 1, n)
    found = embedded(path_pattern(length), sequences, adjacency)
    counts = np.zeros_like(adjacency)
    for i in range(n):
        for j in range(n):
            counts[..., i, j] = found[..., (sequences[:, 0] == i) & (sequences[:, -1] == j)].sum(-1)
    return counts


def enumerated_cycles(adjacency: Integers, length: int) -> Integers:
    """(…, n, n) → (…, n): paths to a neighbour, two for each cycle."""
    closed: Integers = (adjacency * enumerated_paths(adjacency, length - 1)).sum(-1)
    return closed // 2


def outside_diagonal(matrices: Integers) -> Integers:
    elsewhere: Integers = 1 - np.eye(matrices.shape[-1], dtype=np.int64)
    return matrices * elsewhere


@functools.cache
def atlas() -> tuple[Integers, ...]:
    """All graphs with 1 to 7 nodes, those of one size together: (B, n, n)."""
    graphs = graph_atlas_g()
    return tuple(np.array([matrix(graph) for graph in graphs if len(graph) == n]) for n in range(1, 8))


@pytest.mark.parametrize("length", LENGTHS)
def test_our_formulas_hold_on_all_graphs_with_up_to_seven_nodes(length: int) -> None:
    """No walk of six edges has more than seven nodes, so this proves them for all graphs (see ``formulas``)."""
    for adjacency in atlas():
        expected = enumerated_paths(adjacency, length)
        np.testing.assert_array_equal(path_matrix(adjacency, length), expected)
        closed = (adjacency * expected).sum(-1)
        np.testing.assert_array_equal(2 * cycle_counts(adjacency, length + 1), closed)


@pytest.mark.parametrize("length", LENGTHS)
def test_which_printed_path_formulas_hold_between_different_nodes(length: int) -> None:
    fails = [
        (printed != expected).any()
        for adjacency in atlas()
        for printed, expected in zip(
            outside_diagonal(printed_path_matrix(adjacency, length)), enumerated_paths(adjacency, length), strict=True
        )
    ]
    # P₅ fails as soon as there is an edge (1,245 graphs), P₄ as soon as two edges meet (1,233).
    assert sum(fails) == {2: 0, 3: 0, 4: 1233, 5: 1245, 6: 0}[length]


def test_printed_p4_counts_two_edges_once_too_few() -> None:
    A = matrix(TWO_EDGES)
    assert outside_diagonal(printed_path_matrix(A, 4)).tolist() == [[0, 0, -1], [0, 0, 0], [-1, 0, 0]]
    assert not path_matrix(A, 4).any()


def test_printed_p5_lacks_a_term_on_a_single_edge() -> None:
    A = matrix(EDGE)
    assert outside_diagonal(printed_path_matrix(A, 5)).tolist() == [[0, -1], [-1, 0]]
    assert not path_matrix(A, 5).any()
    asymmetric = printed_path_matrix(matrix(nx.path_graph(4)), 5)  # which a matrix of paths can never be
    assert (asymmetric != asymmetric.T).any()


@pytest.mark.parametrize(
    ("length", "graph"),
    [(2, EDGE), (3, TRIANGLE), (4, EDGE), (5, TAILED_TRIANGLE), (6, STAR)],
    ids=["P2 edge", "P3 triangle", "P4 edge", "P5 tailed triangle", "P6 star"],
)
def test_printed_path_formulas_are_not_zero_on_the_diagonal(length: int, graph: nx.Graph[int]) -> None:
    assert np.diagonal(printed_path_matrix(matrix(graph), length)).any()
    assert not np.diagonal(path_matrix(matrix(graph), length)).any()


@pytest.mark.parametrize("length", [3, 4, 7])
def test_printed_cycle_formulas_count_each_cycle_twice(length: int) -> None:
    A = matrix(nx.cycle_graph(length))
    assert printed_cycle_counts(A, length).tolist() == [2] * length
    assert cycle_counts(A, length).tolist() == [1] * length
    for adjacency in atlas():
        twice = 2 * enumerated_cycles(adjacency, length)
        np.testing.assert_array_equal(printed_cycle_counts(adjacency, length), twice)


@pytest.mark.parametrize(("length", "graph"), [(5, TRIANGLE), (6, EDGE)], ids=["C5 triangle", "C6 edge"])
def test_printed_c5_and_c6_inherit_what_is_wrong_with_the_paths(length: int, graph: nx.Graph[int]) -> None:
    """Not even a factor helps: they are negative where there is no cycle."""
    assert (printed_cycle_counts(matrix(graph), length) < 0).all()
    assert not cycle_counts(matrix(graph), length).any()


@settings(max_examples=20)
@given(adjacency_matrices(max_nodes=9, weighted=False))
def test_our_formulas_on_random_graphs(adjacency: NDArray[np.float64]) -> None:
    A = adjacency.astype(np.int64)
    for length in LENGTHS:
        np.testing.assert_array_equal(path_matrix(A, length), enumerated_paths(A, length))


@pytest.mark.parametrize("n", [8, 10, 12])
def test_our_formulas_agree_with_the_counts_on_a_thousand_larger_graphs(n: int) -> None:
    generator = np.random.default_rng(n)
    density = generator.uniform(0.05, 0.6, (1000, 1, 1))
    upper = np.triu(generator.random((1000, n, n)) < density, 1)
    graph, u, v = np.nonzero(upper)
    counts = count_many([n] * 1000, np.bincount(graph, minlength=1000), np.stack([u, v])).reshape(1000, n, 13)
    A = upper | upper.mT
    for length in LENGTHS:
        np.testing.assert_array_equal(path_matrix(A, length).sum(-1), counts[..., length - 2])
        np.testing.assert_array_equal(cycle_counts(A, length + 1), counts[..., length + 3])


@pytest.mark.parametrize("n", [0, 1])
def test_formulas_on_next_to_nothing(n: int) -> None:
    empty = np.zeros((n, n), dtype=np.int64)
    for length in LENGTHS:
        assert not path_matrix(empty, length).any()
        assert cycle_counts(empty, length + 1).tolist() == [0] * n


@pytest.mark.parametrize("formula", [path_matrix, printed_path_matrix], ids=["ours", "printed"])
@pytest.mark.parametrize("length", [-1, 0, 1, 7])
def test_lengths_without_a_formula_are_refused(formula: Any, length: int) -> None:
    with pytest.raises(MatrixError, match="2, 3, 4, 5 and 6"):
        formula(matrix(EDGE), length)


@pytest.mark.parametrize(
    "values",
    [
        [[0, 1], [0, 0]],
        [[1, 0], [0, 0]],
        [[0, 2], [2, 0]],
        [[0, float("nan")], [float("nan"), 0]],
        [[0, 1, 0], [1, 0, 0]],
        [0, 1],
        [[0, 1], [1]],
        [["0", "1"], ["1", "0"]],
        1 - np.eye(514),
    ],
    ids=["directed", "self-loop", "weight", "NaN", "not square", "one row", "ragged", "text", "degree 513"],
)
def test_what_is_no_simple_graph_is_refused(values: Any) -> None:
    with pytest.raises(GraphError, match="got"):
        path_matrix(values, 3)


def test_counts_beyond_32_bits() -> None:
    n = 120
    A = 1 - np.eye(n, dtype=np.int64)
    between = (n - 2) * (n - 3) * (n - 4) * (n - 5) * (n - 6)
    assert path_matrix(A, 6)[0, 1] == between
    assert cycle_counts(A, 7)[0] == (n - 1) * between // 2
