"""Graph → points → the same graph, for all matrices, float types, weights and features."""

from __future__ import annotations

import contextlib

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

import pointset
from pointset.errors import GraphError, MatrixError, RankError
from tests.graph_strategies import ATLAS_UP_TO_6, MATRIX_NAMES, adjacency_matrices, dense_adjacency


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_every_graph_on_at_most_six_nodes(matrix: str, dtype: torch.dtype) -> None:
    for graph, points in zip(
        ATLAS_UP_TO_6, pointset.to_points_many(ATLAS_UP_TO_6, matrix=matrix, dtype=dtype), strict=True
    ):
        back = pointset.to_graph(points)
        expected = nx.to_numpy_array(graph) if len(graph) else np.zeros((0, 0))
        assert np.array_equal(dense_adjacency(back).numpy(), expected)
        assert back.reconstruction_error < (1e-12 if dtype is torch.float64 else 1e-5)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@given(adjacency=adjacency_matrices(weighted=False), dtype=st.sampled_from([torch.float64, torch.float32]))
def test_random_graphs(matrix: str, adjacency: NDArray[np.float64], dtype: torch.dtype) -> None:
    back = pointset.to_graph(pointset.to_points(adjacency, matrix=matrix, dtype=dtype))
    assert np.array_equal(dense_adjacency(back).numpy(), adjacency)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@given(adjacency=adjacency_matrices(weighted=True), dtype=st.sampled_from([torch.float64, torch.float32]))
def test_random_weighted_graphs(matrix: str, adjacency: NDArray[np.float64], dtype: torch.dtype) -> None:
    back = dense_adjacency(pointset.to_graph(pointset.to_points(adjacency, matrix=matrix, dtype=dtype))).numpy()
    assert np.array_equal(back != 0, adjacency != 0)
    scale = max(adjacency.sum(-1).max(initial=0.0), 1.0)
    assert np.abs(back - adjacency).max(initial=0.0) <= (1e-12 if dtype is torch.float64 else 1e-5) * scale


@pytest.mark.parametrize("matrix", ["laplacian", "augmented"])
@given(adjacency=adjacency_matrices())
def test_srd_coordinates_alone(matrix: str, adjacency: NDArray[np.float64]) -> None:
    coordinates = pointset.to_points(adjacency, matrix=matrix).coordinates()
    back = pointset.to_graph(coordinates, matrix=matrix)
    assert np.allclose(dense_adjacency(back).numpy(), adjacency, atol=1e-11)
    if np.isin(adjacency, (0, 1)).all():
        assert "edge_weight" not in back
        assert np.array_equal(dense_adjacency(back).numpy(), adjacency)


@given(adjacency=adjacency_matrices(max_nodes=30, min_nodes=1), seed=st.integers(0, 1000))
def test_rotated_coordinates_are_the_same_graph(adjacency: NDArray[np.float64], seed: int) -> None:
    """Q and QR are two SRDs of one matrix (Proposition 2.3)."""
    coordinates = pointset.to_points(adjacency, matrix="augmented").coordinates()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(coordinates.shape[1], coordinates.shape[1], generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(noise).Q
    back = pointset.to_graph(coordinates @ rotation, matrix="augmented")
    assert np.allclose(dense_adjacency(back).numpy(), adjacency, atol=1e-11)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_whole_number_weights_come_back_exactly(matrix: str) -> None:
    karate = nx.karate_club_graph()  # weights 1…7
    back = pointset.to_graph(pointset.to_points(karate, matrix=matrix, dtype=torch.float32))
    assert np.array_equal(dense_adjacency(back).numpy(), nx.to_numpy_array(karate))


@pytest.mark.parametrize("matrix", ["adjacency", "normalized_adjacency", "augmented"])
def test_self_loops_come_back(matrix: str) -> None:
    adjacency = np.array([[1.0, 1, 0], [1, 0, 1], [0, 1, 2]])
    back = pointset.to_graph(pointset.to_points(adjacency, matrix=matrix))
    assert np.array_equal(dense_adjacency(back).numpy(), adjacency)


@pytest.mark.parametrize("matrix", ["laplacian", "adjacency", "augmented"])
def test_negative_weights_come_back(matrix: str) -> None:
    adjacency = np.array([[0, -1.5, 0], [-1.5, 0, 2.25], [0, 2.25, 0]])
    back = pointset.to_graph(pointset.to_points(adjacency, matrix=matrix))
    assert np.allclose(dense_adjacency(back).numpy(), adjacency, atol=1e-14)


def featured_graph() -> Data:
    generator = torch.Generator().manual_seed(1)
    edge_index = torch.tensor([[3, 0, 1, 4, 2], [1, 1, 2, 2, 0]])
    edge_index, edge_attr = to_undirected(edge_index, torch.arange(10.0).view(5, 2))
    shuffle = torch.randperm(edge_index.shape[1], generator=generator)
    return Data(
        x=torch.arange(12).view(6, 2),
        edge_index=edge_index[:, shuffle],
        edge_attr=edge_attr[shuffle],
        pos=torch.randn(6, 3, generator=generator),
        y=torch.tensor([0.5]),
    )


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_features_survive(matrix: str) -> None:
    data = featured_graph()
    before = data.clone()
    points = pointset.to_points(data, matrix=matrix)
    back = pointset.to_graph(points)
    order, features = coalesce(data.edge_index, data.edge_attr)
    assert torch.equal(back.edge_index, order)
    assert torch.equal(back.edge_attr, features)
    for name in ("x", "pos", "y"):
        assert torch.equal(back[name], data[name])
    assert back.num_nodes == 6  # node 5 is isolated
    for name, value in before.to_dict().items():
        assert torch.equal(data[name], value), f"the input's {name} was modified"


def test_features_are_kept_on_the_point_set() -> None:
    points = pointset.to_points(featured_graph())
    assert points.x is not None and points.x.shape == (6, 2)
    assert points.edge_index is not None and points.edge_attr is not None
    assert bool((points.edge_index[0] <= points.edge_index[1]).all())
    assert len(points.edge_attr) == points.edge_index.shape[1] == points.num_edges == 5


def test_truncated_points_are_refused_with_the_reason() -> None:
    points = pointset.to_points(nx.karate_club_graph(), rank=5)
    assert points.truncation is not None
    with pytest.raises(RankError, match="keep 5 eigenpairs and leave out eigenvalues up to"):
        pointset.to_graph(points)


def test_a_harmless_truncation_still_gives_the_exact_graph() -> None:
    """Rounding is provably right while what was left out is below a quarter."""
    graph = nx.disjoint_union(nx.complete_graph(20), nx.path_graph(12))
    full = pointset.to_points(graph)
    points = pointset.to_points(graph, rank=full.rank - 1)
    assert points.truncation is not None and points.truncation.spectral_error < 0.25
    assert np.array_equal(dense_adjacency(pointset.to_graph(points)).numpy(), nx.to_numpy_array(graph))


def test_a_rank_above_the_true_one_is_no_truncation() -> None:
    points = pointset.to_points(nx.star_graph(5), matrix="adjacency", rank=4)
    assert points.rank == 2 and points.truncation is None
    assert pointset.to_graph(points).num_edges == 10


def test_points_that_were_tampered_with_are_refused() -> None:
    points = pointset.to_points(nx.petersen_graph())
    points.eigenvectors[:] = points.eigenvectors.flip(0).cumsum(0)
    with pytest.raises(GraphError, match="were made from one of 15 edges"):
        pointset.to_graph(points)
    points.eigenvectors[0, 0] = float("nan")
    with pytest.raises(GraphError, match="NaN"):
        pointset.to_graph(points)


def test_coordinates_of_another_matrix_are_refused() -> None:
    coordinates = pointset.to_points(nx.petersen_graph(), matrix="augmented").coordinates()
    with pytest.raises(GraphError, match="not those of a graph under matrix='laplacian'"):
        pointset.to_graph(coordinates)


def test_srd_of_an_indefinite_matrix_is_refused_with_the_remedy() -> None:
    points = pointset.to_points(nx.cycle_graph(5), matrix="adjacency")
    with pytest.raises(MatrixError, match="augmented"):
        points.coordinates()


@given(adjacency=adjacency_matrices(max_nodes=20))
def test_srd_is_a_square_root_of_full_column_rank(adjacency: NDArray[np.float64]) -> None:
    points = pointset.to_points(adjacency, matrix="augmented")
    coordinates = points.coordinates()
    matrix = adjacency + np.diag(adjacency.sum(-1))
    assert np.allclose((coordinates @ coordinates.T).numpy(), matrix, atol=1e-11)
    assert np.linalg.matrix_rank(coordinates.numpy()) == points.rank == coordinates.shape[1]


def test_two_channel_psrd_of_theorem_3_3() -> None:
    """f = (√|λ|, sign(λ)√|λ|) makes ⟨Q¹, Q²⟩ the matrix again, also where it is not semi-definite."""
    points = pointset.to_points(nx.karate_club_graph(), matrix="adjacency")

    def f(values: torch.Tensor) -> torch.Tensor:
        root = values.abs().sqrt()
        return torch.stack([root, values.sign() * root], dim=-1)

    coordinates = points.parameterized_coordinates(f)
    assert coordinates.shape == (34, points.rank, 2)
    product = coordinates[..., 0] @ coordinates[..., 1].T
    assert np.allclose(product.numpy(), nx.to_numpy_array(nx.karate_club_graph()), atol=1e-12)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@given(seed=st.integers(0, 2**32 - 1), digits=st.integers(1, 17), dtype=st.sampled_from([torch.float64, torch.float32]))
def test_whole_numbers_come_back_exactly_or_are_refused(
    matrix: str, seed: int, digits: int, dtype: torch.dtype
) -> None:
    generator = np.random.default_rng(seed)
    weights = np.rint(10 ** generator.uniform(0, digits, (10, 10)))
    upper = np.triu(weights * (generator.random((10, 10)) < 0.4), 1)
    with contextlib.suppress(GraphError, MatrixError):
        back = pointset.to_graph(pointset.to_points(upper + upper.T, matrix=matrix, dtype=dtype))
        exact = dense_adjacency(back).to(dtype).double().numpy()
        assert np.array_equal(exact, (upper + upper.T).astype(str(dtype).removeprefix("torch.")))


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@given(seed=st.integers(0, 2**32 - 1), spread=st.integers(1, 18), dtype=st.sampled_from([torch.float64, torch.float32]))
def test_real_weights_keep_their_edges_or_are_refused(matrix: str, seed: int, spread: int, dtype: torch.dtype) -> None:
    generator = np.random.default_rng(seed)
    weights = 10 ** generator.uniform(-spread, 0, (10, 10))
    upper = np.triu(weights * (generator.random((10, 10)) < 0.4), 1)
    with contextlib.suppress(GraphError, MatrixError):
        back = dense_adjacency(pointset.to_graph(pointset.to_points(upper + upper.T, matrix=matrix, dtype=dtype)))
        assert np.array_equal(back.numpy() != 0, (upper + upper.T) != 0)
        assert (back >= 0).all()


def test_weights_too_far_apart_are_refused_at_once() -> None:
    adjacency = np.zeros((4, 4))
    adjacency[0, 1] = adjacency[1, 0] = 1e9
    adjacency[2, 3] = adjacency[3, 2] = 1.5e-9
    with pytest.raises(MatrixError, match="too far apart for double precision"):
        pointset.to_points(adjacency)
    assert pointset.to_points(adjacency, matrix="normalized_adjacency").rank == 4  # there they are not


@pytest.mark.parametrize("weight", [1e308, 1e-310])
def test_weights_whose_squares_overflow_are_refused(weight: float) -> None:
    with pytest.raises(GraphError, match="rescale the weights"):
        pointset.to_points(weight * (np.ones((3, 3)) - np.eye(3)))


def test_coordinates_of_low_precision_are_not_rounded_to_another_graph() -> None:
    generator = np.random.default_rng(0)
    upper = np.triu((generator.random((100, 100)) < 0.2) * generator.uniform(0.998, 1.002, (100, 100)), 1)
    coordinates = pointset.to_points(upper + upper.T, dtype=torch.float32).coordinates()
    back = pointset.to_graph(coordinates)
    assert np.allclose(dense_adjacency(back).numpy(), upper + upper.T, atol=1e-4)
    faint = np.triu((generator.random((60, 60)) < 0.3) * 10 ** generator.uniform(-7, 0, (60, 60)), 1)
    with pytest.raises(GraphError, match="edge or rounding noise"):
        pointset.to_graph(pointset.to_points(faint + faint.T, dtype=torch.float32).coordinates())


def test_normalised_coordinates_are_those_of_an_unweighted_graph() -> None:
    heavy_loops = np.array([[5.0, 1], [1, 5]])
    coordinates = pointset.to_points(heavy_loops, matrix="normalized_adjacency").coordinates()
    with pytest.raises(GraphError, match="not those of a graph"):
        pointset.to_graph(coordinates, matrix="normalized_adjacency")
