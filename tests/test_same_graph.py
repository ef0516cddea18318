"""Isomorphism and alignment: relabelled graphs are found the same, others are told apart."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.data import Data

import pointset
from pointset.datasets.benchmarks.brec import load_pairs
from pointset.errors import NotSameGraphError, RankError
from pointset.paper import families
from tests.graph_strategies import ATLAS_UP_TO_6, MATRIX_NAMES, adjacency_matrices, relabelled


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@given(adjacency=adjacency_matrices(max_nodes=40), seed=st.integers(0, 2**32 - 1))
def test_relabelled_graphs_are_the_same_and_align(matrix: str, adjacency: NDArray[np.float64], seed: int) -> None:
    other, _ = relabelled(adjacency, seed)
    a, b = (pointset.to_points(graph, matrix=matrix) for graph in (adjacency, other))
    same, permutation = pointset.is_same_graph(a, b)
    assert same
    assert isinstance(permutation, torch.Tensor)
    assert np.allclose(other[np.ix_(permutation.numpy(), permutation.numpy())], adjacency, atol=1e-12)
    rotation = pointset.align(a, b, permutation=permutation)
    assert torch.allclose(rotation @ rotation.T, torch.eye(a.rank, dtype=torch.float64), atol=1e-10)
    assert torch.allclose(a.eigenvectors @ rotation, b.eigenvectors[permutation], atol=1e-8)
    moved = (a.eigenvectors * a.eigenvalues.abs().sqrt()) @ rotation  # R commutes with every f(Λ)
    assert torch.allclose(moved, (b.eigenvectors * b.eigenvalues.abs().sqrt())[permutation], atol=1e-7)
    assert pointset.align(a, b).shape == (a.rank, a.rank)


@given(adjacency=adjacency_matrices(max_nodes=25), seed=st.integers(0, 2**32 - 1))
def test_float32_points_are_still_recognised(adjacency: NDArray[np.float64], seed: int) -> None:
    other, _ = relabelled(adjacency, seed)
    a, b = (pointset.to_points(graph, dtype=torch.float32) for graph in (adjacency, other))
    assert pointset.is_same_graph(a, b)


def test_all_pairs_of_graphs_on_five_nodes() -> None:
    """Theorem 3.1 both ways: the atlas lists each isomorphism class once."""
    graphs = [graph for graph in ATLAS_UP_TO_6 if len(graph) == 5]
    points = list(pointset.to_points_many(graphs, matrix="augmented"))
    for i, j in itertools.combinations_with_replacement(range(len(graphs)), 2):
        assert bool(pointset.is_same_graph(points[i], points[j])) == (i == j)


@given(adjacency=adjacency_matrices(max_nodes=14, weighted=False), seed=st.integers(0, 1000))
def test_agrees_with_networkx_after_moving_one_edge(adjacency: NDArray[np.float64], seed: int) -> None:
    other, _ = relabelled(adjacency, seed)
    generator = np.random.default_rng(seed)
    present, absent = (np.argwhere(np.triu(other == value, 1)) for value in (1, 0))
    if len(present) and len(absent):
        (u, v), (p, q) = generator.choice(present), generator.choice(absent)
        other[u, v] = other[v, u] = 0
        other[p, q] = other[q, p] = 1
    expected = nx.is_isomorphic(nx.from_numpy_array(adjacency), nx.from_numpy_array(other))
    assert bool(pointset.is_same_graph(pointset.to_points(adjacency), pointset.to_points(other))) == expected


def test_cospectral_strongly_regular_graphs_are_told_apart() -> None:
    rook, shrikhande = (pointset.to_points(graph) for graph in (families.rook(4), families.shrikhande()))
    assert torch.allclose(rook.eigenvalues, shrikhande.eigenvalues)
    answer = pointset.is_same_graph(rook, shrikhande)
    assert not answer
    assert answer.reason == "equal invariants, but no matching of the nodes exists"
    with pytest.raises(NotSameGraphError, match="not of the same graph"):
        pointset.align(rook, shrikhande)


@pytest.mark.parametrize(
    "graph",
    [nx.star_graph(300), nx.empty_graph(300), nx.complete_graph(200), nx.cycle_graph(200), nx.hypercube_graph(7),
     nx.circular_ladder_graph(80), nx.complete_multipartite_graph(20, 20, 30)],
    ids=["star", "empty", "complete", "cycle", "hypercube", "prism", "multipartite"],
)  # fmt: skip
def test_highly_symmetric_graphs_are_quick(graph: nx.Graph[int]) -> None:
    adjacency = nx.to_numpy_array(graph)
    other, _ = relabelled(adjacency, 3)
    assert pointset.is_same_graph(pointset.to_points(adjacency), pointset.to_points(other))


def test_one_cycle_is_not_two() -> None:
    two = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    answer = pointset.is_same_graph(pointset.to_points(nx.cycle_graph(10)), pointset.to_points(two))
    assert not answer and answer.reason == "the invariants of the nodes differ"


def test_features_decide() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])

    def path(x: list[int], edge_attr: list[int]) -> pointset.PointSet:
        features = torch.tensor(edge_attr).repeat_interleave(2)
        return pointset.to_points(Data(x=torch.tensor(x).view(-1, 1), edge_index=edge_index, edge_attr=features))

    base = path([1, 2, 3, 4], [5, 6, 7])
    mirrored = path([4, 3, 2, 1], [7, 6, 5])
    found = pointset.is_same_graph(base, mirrored)
    assert found.permutation is not None and found.permutation.tolist() == [3, 2, 1, 0]
    assert not pointset.is_same_graph(base, path([4, 3, 2, 1], [5, 6, 7]))
    assert not pointset.is_same_graph(base, path([1, 2, 4, 3], [5, 6, 7]))


def test_weights_decide() -> None:
    def path(*weights: float) -> pointset.PointSet:
        graph = nx.path_graph(len(weights) + 1)
        nx.set_edge_attributes(graph, dict(zip(graph.edges, weights, strict=True)), "weight")
        return pointset.to_points(graph)

    assert pointset.is_same_graph(path(1.5, 2.5, 3.5), path(3.5, 2.5, 1.5))
    assert not pointset.is_same_graph(path(1.5, 2.5, 3.5), path(2.5, 1.5, 3.5))


def test_points_of_different_matrices_can_be_compared() -> None:
    graph = nx.petersen_graph()
    laplacian, adjacency = pointset.to_points(graph), pointset.to_points(graph, matrix="adjacency")
    assert pointset.is_same_graph(laplacian, adjacency)
    with pytest.raises(NotSameGraphError, match="from one matrix"):
        pointset.align(laplacian, adjacency)


def test_truncated_points_cannot_decide() -> None:
    truncated = pointset.to_points(nx.karate_club_graph(), rank=3)
    with pytest.raises(RankError):
        pointset.is_same_graph(truncated, truncated)


def test_alignment_undoes_a_rotation_inside_an_eigenspace() -> None:
    points = pointset.to_points(nx.hypercube_graph(4))
    blocks = [torch.linalg.qr(torch.randn(space.multiplicity, space.multiplicity, dtype=torch.float64)).Q
              for space in points.eigenspaces()]  # fmt: skip
    rotation: torch.Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
    turned = pointset.PointSet(points.eigenvalues, points.eigenvectors @ rotation, "laplacian", points.num_edges)
    assert torch.allclose(pointset.align(points, turned), rotation, atol=1e-10)


def heavy(small_edges: list[tuple[int, int]]) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(6))
    graph.add_edge(0, 1, weight=1e8)
    graph.add_edges_from(small_edges, weight=1)
    return graph


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_an_edge_beside_a_very_heavy_one_is_still_an_edge(matrix: str) -> None:
    path, star = heavy([(2, 3), (3, 4), (4, 5)]), heavy([(2, 3), (2, 4), (2, 5)])
    assert not pointset.is_same_graph(*(pointset.to_points(graph, matrix=matrix) for graph in (path, star)))


@pytest.mark.parametrize("weights", [(10**9, 10**9 + 1), (1.0, 1.0 + 1e-9)])
def test_nearly_equal_weights_are_different(weights: tuple[float, float]) -> None:
    def two_edges(first: float, second: float) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.Graph()
        graph.add_weighted_edges_from([(0, 1, first), (2, 3, second)])
        return graph

    assert pointset.is_same_graph(two_edges(*weights), two_edges(*weights[::-1]))
    assert not pointset.is_same_graph(two_edges(*weights), two_edges(weights[0], weights[0]))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (torch.tensor([[float("nan")], [1.0]]), torch.tensor([[0.0], [1.0]]), False),
        (torch.tensor([[float("nan")], [1.0]]), torch.tensor([[1.0], [float("nan")]]), True),
        (torch.tensor([[float("inf")], [1.0]]), torch.tensor([[torch.finfo(torch.float32).max], [1.0]]), False),
        (torch.tensor([[16777217], [1]]), torch.tensor([[16777216.0], [1.0]]), False),
        (torch.tensor([[2], [1]]), torch.tensor([[1.0], [2.0]]), True),
        (torch.tensor([[0.0], [1.0]]), torch.tensor([[-0.0], [1.0]]), True),
        (torch.ones(2, 0), torch.ones(2, 0), True),
        (torch.tensor([1.5, 2.5], dtype=torch.bfloat16), torch.tensor([2.5, 1.5]), True),
        (torch.tensor([True, False]), torch.tensor([True, True]), False),
    ],
)
def test_features_are_compared_exactly(left: torch.Tensor, right: torch.Tensor, same: bool) -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = (Data(x=x, edge_index=edge_index, num_nodes=2) for x in (left, right))
    assert bool(pointset.is_same_graph(*graphs)) == same


def test_graphs_can_be_compared_without_converting_first() -> None:
    assert pointset.is_same_graph(nx.petersen_graph(), nx.complement(nx.line_graph(nx.complete_graph(5))))
    with pytest.raises(NotSameGraphError, match="expected two PointSets"):
        pointset.align(nx.petersen_graph(), nx.petersen_graph())  # type: ignore[arg-type]
    points = pointset.to_points(nx.petersen_graph())
    with pytest.raises(NotSameGraphError, match="one node for each of 10"):
        pointset.align(points, points, permutation=torch.arange(3))


@pytest.mark.parametrize("copies", [2, 4])
def test_copies_of_symmetric_graphs_do_not_multiply_the_work(copies: int) -> None:
    rook, shrikhande = families.rook(4), families.shrikhande()
    all_alike = nx.disjoint_union_all([shrikhande] * copies)
    one_different = nx.disjoint_union_all([shrikhande] * (copies - 1) + [rook])
    assert not pointset.is_same_graph(all_alike, one_different)
    other, _ = relabelled(nx.to_numpy_array(one_different), 1)
    assert pointset.is_same_graph(one_different, other)


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_the_hard_pairs_of_brec(shared_data: Path, step: int) -> None:
    """Regular, strongly regular, CFI, distance-regular: all told apart, and each found again when relabelled."""
    for number, _, first, second in load_pairs(shared_data)[::step]:
        a, b = (np.zeros((nodes, nodes)) for nodes, _ in (first, second))
        for matrix, (_, edges) in ((a, first), (b, second)):
            matrix[tuple(edges)] = matrix[tuple(edges.flip(0))] = 1.0
        assert not pointset.is_same_graph(a, b), f"pair {number}"
        other, _ = relabelled(a, number)
        permutation = pointset.is_same_graph(a, other).permutation
        assert permutation is not None, f"pair {number}"
        assert np.array_equal(other[np.ix_(permutation.numpy(), permutation.numpy())], a)
