"""Directed graph → magnetic points → the same directed graph; what is invariant; what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.data import Data

import pointset
from pointset.errors import GraphError, MatrixError, PointsetError, RankError
from pointset.points import MagneticPoints, magnetic_points
from tests.graph_strategies import dense_adjacency


@st.composite
def directed_adjacencies(draw: st.DrawFn, max_nodes: int = 30, weights: str = "none") -> NDArray[np.float64]:
    """Not symmetric, zero diagonal; 2-cycles, several components and isolated nodes occur."""
    n = draw(st.integers(0, max_nodes))
    density = draw(st.sampled_from([0.02, 0.1, 0.4, 1.0]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    present = generator.random((n, n)) < density
    present |= present.T & (generator.random((n, n)) < draw(st.sampled_from([0.0, 0.5, 1.0])))
    np.fill_diagonal(present, False)
    sizes: NDArray[np.float64] = {
        "none": np.ones((n, n)),
        "whole": generator.integers(1, 20, (n, n)).astype(np.float64),
        "real": generator.uniform(0.01, 3.0, (n, n)),
    }[weights]
    return present * sizes


@given(adjacency=directed_adjacencies(), q=st.sampled_from([None, 0.05, 0.25, 1 / 3, 0.45]))
def test_random_directed_graphs_come_back(adjacency: NDArray[np.float64], q: float | None) -> None:
    points = magnetic_points(adjacency, q=q)
    back = points.to_graph()
    assert np.array_equal(dense_adjacency(back).numpy(), adjacency)
    assert "edge_weight" not in back and back.reconstruction_error < 1e-11
    assert points.num_edges == int(adjacency.sum()) == back.edge_index.shape[1]


@given(adjacency=directed_adjacencies(weights="whole"))
def test_whole_number_weights_come_back_exactly(adjacency: NDArray[np.float64]) -> None:
    assert np.array_equal(dense_adjacency(magnetic_points(adjacency).to_graph()).numpy(), adjacency)


@given(adjacency=directed_adjacencies(weights="real"))
def test_real_weights_of_both_directions_come_back(adjacency: NDArray[np.float64]) -> None:
    back = dense_adjacency(magnetic_points(adjacency).to_graph()).numpy()
    assert np.array_equal(back != 0, adjacency != 0)
    assert np.abs(back - adjacency).max(initial=0.0) < 1e-9


@given(adjacency=directed_adjacencies(weights="real"))
def test_the_points_decompose_the_magnetic_laplacian(adjacency: NDArray[np.float64]) -> None:
    """Against the definition, entry by entry."""
    points = magnetic_points(adjacency)
    n = len(adjacency)
    expected = np.zeros((n, n), dtype=complex)
    for i in range(n):
        for j in range(n):
            mean = (adjacency[i, j] + adjacency[j, i]) / 2
            expected[i, i] += mean
            expected[i, j] -= mean * np.exp(2j * np.pi * points.q * (adjacency[i, j] - adjacency[j, i]))
    z = points.coordinates()
    assert bool((points.eigenvalues > 0).all())
    assert np.allclose((z @ z.mH).numpy(), expected, atol=1e-10)
    x, y = points.real_coordinates()[:, : points.rank], points.real_coordinates()[:, points.rank :]
    assert np.allclose((x @ x.mT + y @ y.mT).numpy(), expected.real, atol=1e-10)
    assert np.allclose((y @ x.mT - x @ y.mT).numpy(), expected.imag, atol=1e-10)


@given(adjacency=directed_adjacencies(weights="whole"), seed=st.integers(0, 99))
def test_inner_products_do_not_depend_on_node_order_or_basis(adjacency: NDArray[np.float64], seed: int) -> None:
    permutation = np.random.default_rng(seed).permutation(len(adjacency))
    points = magnetic_points(adjacency)
    moved = magnetic_points(adjacency[np.ix_(permutation, permutation)])
    assert torch.allclose(points.eigenvalues, moved.eigenvalues, atol=1e-9)
    order = torch.from_numpy(permutation)
    assert torch.allclose(points.inner_products()[order][:, order], moved.inner_products(), atol=1e-9)
    z = points.coordinates()
    generator = torch.Generator().manual_seed(seed)
    unitary = torch.linalg.qr(torch.randn(points.rank, points.rank, generator=generator, dtype=torch.complex128)).Q
    assert torch.allclose((z @ unitary) @ (z @ unitary).mH, points.inner_products(), atol=1e-9)


def test_the_reversed_graph_has_the_conjugate_inner_products() -> None:
    """And so the same real part: directions show in the imaginary part only."""
    forward, back = (magnetic_points((4, edges)) for edges in ([(0, 1), (1, 2), (3, 2)], [(1, 0), (2, 1), (2, 3)]))
    assert torch.allclose(forward.inner_products(), back.inner_products().conj(), atol=1e-12)
    assert not torch.allclose(forward.inner_products(), back.inner_products(), atol=0.1)


def test_a_directed_triangle_by_hand() -> None:
    """H = I − the shift by −i/2 and its adjoint: λ = 1 + sin(2πj/3)."""
    points = magnetic_points((3, [(0, 1), (1, 2), (2, 0)]))
    assert points.q == 0.25
    assert points.eigenvalues.tolist() == pytest.approx([1 - 3**0.5 / 2, 1, 1 + 3**0.5 / 2])
    assert points.inner_products()[0, 1].item() == pytest.approx(-0.5j)
    assert points.inner_products()[1, 0].item() == pytest.approx(0.5j)


@pytest.mark.parametrize("graph", [nx.path_graph(5), nx.cycle_graph(6), nx.complete_graph(4)])
def test_of_undirected_graphs_it_is_the_laplacian(graph: nx.Graph[int]) -> None:
    points, plain = magnetic_points(graph), pointset.to_points(graph)
    assert torch.allclose(points.eigenvalues, plain.eigenvalues, atol=1e-12)
    assert torch.allclose(points.inner_products().real, plain.inner_products(), atol=1e-12)
    assert [space.multiplicity for space in points.eigenspaces()] == [s.multiplicity for s in plain.eigenspaces()]
    back = points.to_graph()
    assert np.array_equal(dense_adjacency(back).numpy(), nx.to_numpy_array(graph))


def test_every_kind_of_graph_says_the_same() -> None:
    edges = [(0, 1), (1, 0), (2, 1), (3, 0)]
    matrix = np.zeros((5, 5))
    matrix[tuple(np.array(edges).T)] = 1
    network = nx.DiGraph(edges)
    network.add_node(4)
    index = {node: position for position, node in enumerate(network.nodes)}
    order = [index[node] for node in range(5)]
    given_as: list[Any] = [
        (5, edges),
        Data(edge_index=torch.tensor(edges).mT, num_nodes=5),
        matrix,
        torch.from_numpy(matrix),
        scipy.sparse.csr_array(matrix),
    ]
    for graph in given_as:
        assert np.array_equal(dense_adjacency(magnetic_points(graph).to_graph()).numpy(), matrix)
    from_network = dense_adjacency(magnetic_points(network).to_graph()).numpy()
    assert np.array_equal(from_network[np.ix_(order, order)], matrix)


def test_features_survive_in_the_order_of_the_edges() -> None:
    data = Data(
        edge_index=torch.tensor([[2, 0, 1, 0], [0, 1, 0, 1]]),
        edge_attr=torch.tensor([[5.0], [1.0], [3.0], [1.0]]),
        x=torch.arange(8).view(4, 2),
        pos=torch.rand(4, 3),
        y=torch.tensor([0.5]),
    )
    back = magnetic_points(data).to_graph()
    assert back.edge_index.tolist() == [[0, 1, 2], [1, 0, 0]]
    assert back.edge_attr.tolist() == [[1.0], [3.0], [5.0]]
    assert all(torch.equal(back[name], data[name]) for name in ("x", "pos", "y"))
    assert back.num_nodes == 4


def test_an_undirected_networkx_graph_keeps_its_edge_features_both_ways() -> None:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_edge(0, 1, edge_attr=[1.0], weight=2)
    graph.add_edge(1, 2, edge_attr=[4.0], weight=3)
    back = magnetic_points(graph).to_graph()
    assert back.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert back.edge_attr.flatten().tolist() == [1, 1, 4, 4] and back.edge_weight.tolist() == [2, 2, 3, 3]


@pytest.mark.parametrize("n", [0, 1, 3])
def test_no_edges(n: int) -> None:
    points = magnetic_points((n, []))
    assert points.rank == 0 and points.real_coordinates().shape == (n, 0)
    assert points.to_graph().num_nodes == n and points.to_graph().edge_index.shape == (2, 0)


def test_a_bounded_rank_reports_what_it_left_out_and_is_not_a_graph() -> None:
    graph = nx.gnp_random_graph(30, 0.2, seed=1, directed=True)
    whole, part = magnetic_points(graph), magnetic_points(graph, rank=6)
    assert part.rank == 6 and part.truncation is not None
    assert torch.allclose(part.eigenvalues, whole.eigenvalues[-6:])
    assert part.truncation.spectral_error == pytest.approx(float(whole.eigenvalues[-7]))
    difference = torch.linalg.matrix_norm(whole.inner_products() - part.inner_products(), ord=2)
    assert float(difference) == pytest.approx(part.truncation.spectral_error)
    with pytest.raises(RankError, match="6 eigenpairs"):
        part.to_graph()


def test_points_that_were_changed_are_refused() -> None:
    points = magnetic_points((4, [(0, 1), (1, 2), (2, 3)]))
    other = magnetic_points((4, [(0, 1), (1, 2), (2, 3), (3, 0)]))
    forged = MagneticPoints(other.eigenvalues, other.eigenvectors, points.q, points.num_edges)
    with pytest.raises(GraphError, match="3 edges"):
        forged.to_graph()


def test_saving_needs_no_code(tmp_path: Path) -> None:
    points = magnetic_points((4, [(0, 1), (1, 2), (2, 3)]))
    torch.save(points, tmp_path / "points.pt")
    loaded = torch.load(tmp_path / "points.pt", weights_only=True)
    assert torch.equal(loaded.to_graph().edge_index, points.to_graph().edge_index)


# --- refused, with the remedy


@pytest.mark.parametrize("q", [0, -0.25, 0.5, 0.49999, 1, math.nan, math.inf, "0.25", True])
def test_a_q_that_does_not_determine_the_graph(q: Any) -> None:
    with pytest.raises(MatrixError, match=r"above 0 and at most 0\.49.*Leave q out for 0\.25"):
        magnetic_points((3, [(0, 1), (1, 2)]), q=q)


def test_the_limit_of_q_follows_the_weights() -> None:
    matrix = np.array([[0.0, 10], [2, 0]])
    assert magnetic_points(matrix).q == pytest.approx(1 / 32)
    assert np.allclose(dense_adjacency(magnetic_points(matrix, q=0.06).to_graph()).numpy(), matrix)
    with pytest.raises(MatrixError, match=r"differ by up to 8"):
        magnetic_points(matrix, q=0.25)


@pytest.mark.parametrize(
    ("graph", "match"),
    [
        ((3, [(0, 1), (1, 1)]), "node 1 has a self-loop.*RemoveSelfLoops"),
        (np.array([[0.0, -1], [1, 0]]), r"edge \(0, 1\) has weight -1.*edge features"),
        (np.array([[0.0, np.nan], [1, 0]]), "weight nan"),
        ((2, [(0, 2)]), "outside the graph's 2 nodes"),
        (
            Data(edge_index=torch.tensor([[0, 0], [1, 1]]), edge_weight=torch.tensor([1.0, 2.0]), num_nodes=2),
            "from node 0 to node 1 is listed with different weights",
        ),
        (
            Data(edge_index=torch.tensor([[0, 0], [1, 1]]), edge_attr=torch.tensor([1.0, 2.0]), num_nodes=2),
            "different weights or edge features",
        ),
    ],
)
def test_odd_input(graph: Any, match: str) -> None:
    with pytest.raises(PointsetError, match=match):
        magnetic_points(graph)


@pytest.mark.parametrize(
    "graph",
    [
        nx.DiGraph([(0, 1), (1, 2)]),
        Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3),
        np.array([[0.0, 1, 0], [0, 0, 1], [0, 0, 0]]),
    ],
)
def test_to_points_names_the_remedy(graph: Any) -> None:
    with pytest.raises(GraphError, match="magnetic_points"):
        pointset.to_points(graph)


def test_encoders_refuse_these_points() -> None:
    points = magnetic_points((3, [(0, 1), (1, 2)]))
    model = pointset.PointModel.from_preset("pst", dim=8, layers=1)
    for given_as in (points, [points], [pointset.to_points(nx.path_graph(3)), points]):
        with pytest.raises(PointsetError, match="no encoder takes"):
            model(given_as)
    with pytest.raises(PointsetError, match="no encoder takes"):
        pointset.collate([points])  # type: ignore[list-item]
