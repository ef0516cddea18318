"""Rank and multiplicities: textbook spectra, and the gap between rounding noise and true differences."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch
from networkx.generators.atlas import graph_atlas_g

import pointset
from pointset.paper.families import rook, shrikhande
from pointset.points.matrices import MATRICES
from pointset.points.spectra import decompose, spectral_tolerance
from tests.graph_strategies import MATRIX_NAMES, binary_adjacency


def multiplicities(graph: object, matrix: str = "laplacian") -> list[tuple[float, int]]:
    spaces = pointset.to_points(graph, matrix=matrix).eigenspaces()
    return [(round(space.eigenvalue, 9), space.multiplicity) for space in spaces]


def test_eight_cycle() -> None:
    root = round(math.sqrt(2), 9)
    assert multiplicities(nx.cycle_graph(8)) == [(round(2 - math.sqrt(2), 9), 2), (2, 2), (2 + root, 2), (4, 1)]


@pytest.mark.parametrize("n", [2, 3, 5, 40, 200])
def test_complete_graph(n: int) -> None:
    assert multiplicities(nx.complete_graph(n)) == [(n, n - 1)]
    assert multiplicities(nx.complete_graph(n), "adjacency") == [(-1, n - 1), (n - 1, 1)]


@pytest.mark.parametrize("dimension", [2, 4, 7])
def test_hypercube(dimension: int) -> None:
    expected = [(2 * k, math.comb(dimension, k)) for k in range(1, dimension + 1)]
    assert multiplicities(nx.hypercube_graph(dimension)) == expected


@pytest.mark.parametrize("graph", [rook(4), shrikhande()], ids=["rook", "shrikhande"])
def test_strongly_regular_16_6_2_2(graph: nx.Graph[int]) -> None:
    assert multiplicities(graph) == [(4, 6), (8, 9)]
    assert multiplicities(graph, "adjacency") == [(-2, 9), (2, 6), (6, 1)]


def test_star_has_rank_two_under_adjacency() -> None:
    assert multiplicities(nx.star_graph(100), "adjacency") == [(-10, 1), (10, 1)]


def test_path_of_2000_nodes_keeps_its_fiedler_vector() -> None:
    points = pointset.to_points(nx.path_graph(2000))
    assert points.rank == 1999
    fiedler = points.eigenvalues[0]
    assert float(fiedler) == pytest.approx(2 - 2 * math.cos(math.pi / 2000), rel=1e-6)
    exact = np.cos(math.pi * (np.arange(2000) + 0.5) / 2000)
    overlap = float(points.eigenvectors[:, 0] @ torch.from_numpy(exact / np.linalg.norm(exact)))
    assert abs(overlap) == pytest.approx(1, abs=1e-9)


def test_rank_is_the_number_of_nodes_minus_components_for_the_laplacian() -> None:
    graphs = list(graph_atlas_g())[1:]
    for graph, points in zip(graphs, pointset.to_points_many(graphs), strict=True):
        assert points.rank == len(graph) - nx.number_connected_components(graph)


def test_rank_of_augmented_counts_bipartite_components() -> None:
    graphs = list(graph_atlas_g())[1:]
    for graph, points in zip(graphs, pointset.to_points_many(graphs, matrix="augmented"), strict=True):
        bipartite = sum(nx.is_bipartite(graph.subgraph(nodes)) for nodes in nx.connected_components(graph))
        assert points.rank == len(graph) - bipartite


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1.0, 1e9, 1e150])
def test_rank_does_not_depend_on_the_scale_of_the_weights(scale: float) -> None:
    adjacency = binary_adjacency(nx.karate_club_graph())
    for matrix in MATRIX_NAMES:
        expected = pointset.to_points(adjacency, matrix=matrix).rank
        assert pointset.to_points(adjacency * scale, matrix=matrix).rank == expected


def test_eigenvalues_are_bit_equal_inside_an_eigenspace_and_stay_so_in_float32() -> None:
    points = pointset.to_points(nx.hypercube_graph(6))
    assert len(set(points.eigenvalues.tolist())) == 6
    assert len(set(points.to(torch.float32).eigenvalues.tolist())) == 6


def test_rounding_noise_and_true_gaps_are_far_apart() -> None:
    """The tolerance may stand anywhere between them: nothing lies near it."""
    graphs = list(graph_atlas_g())[1:] + [
        nx.gnm_random_graph(n, m, seed=seed)
        for n, m in ((20, 18), (60, 55), (100, 120), (300, 310), (300, 1000))
        for seed in range(4)
    ]
    for graph in graphs:
        adjacency = torch.from_numpy(binary_adjacency(graph))
        for function in MATRICES.values():
            eigenvalues = torch.linalg.eigh(function.dense(adjacency)).eigenvalues
            tolerance = float(spectral_tolerance(len(graph), eigenvalues.abs().max()))
            gaps = eigenvalues.diff()
            assert not bool(((gaps > tolerance / 4) & (gaps < tolerance / 8 * 1e6)).any())


def test_a_bounded_rank_keeps_whole_eigenspaces_and_both_signs() -> None:
    cycle = pointset.to_points(nx.cycle_graph(8), rank=4)  # 4, 3.41 twice, and one of the two 2s
    assert [space.multiplicity for space in cycle.eigenspaces()] == [2, 2, 1]
    bipartite = pointset.to_points(nx.complete_bipartite_graph(3, 4), matrix="adjacency", rank=1)
    assert bipartite.rank == 2  # ±√12 have the same magnitude
    assert bipartite.truncation is None


def test_decompose_of_nothing() -> None:
    spectra = decompose(torch.zeros(3, 0, 0, dtype=torch.float64))
    assert spectra.eigenvalues.shape == (3, 0)
    assert decompose(torch.zeros(2, 5, 5, dtype=torch.float64)).kept.sum() == 0
