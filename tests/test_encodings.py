"""Every structural encoding equals its direct, slow definition."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose
from torch_geometric.utils import from_networkx

import pointset
from pointset import encodings
from pointset.errors import MatrixError, RankError
from tests.graph_strategies import MATRIX_NAMES, adjacency_matrices

WIDE = 1e-9  # absolute; entries are at most a few units unless scaled below


def laplacian(adjacency: NDArray[np.float64]) -> torch.Tensor:
    return torch.from_numpy(np.diag(adjacency.sum(-1)) - adjacency)


@given(adjacency=adjacency_matrices(max_nodes=30), steps=st.integers(0, 8))
def test_random_walk_is_a_matrix_power(adjacency: NDArray[np.float64], steps: int) -> None:
    degree = adjacency.sum(-1, keepdims=True)
    step = np.divide(adjacency, degree, out=np.zeros_like(adjacency), where=degree > 0)
    expected = np.linalg.matrix_power(step, steps) if len(adjacency) else adjacency
    assert np.allclose(encodings.random_walk(adjacency, steps).numpy(), expected, atol=WIDE)


@given(adjacency=adjacency_matrices(max_nodes=30), t=st.floats(0, 3))
def test_heat_kernel_is_a_matrix_exponential(adjacency: NDArray[np.float64], t: float) -> None:
    expected = torch.linalg.matrix_exp(-t * laplacian(adjacency))
    assert torch.allclose(encodings.heat_kernel(adjacency, t), expected, atol=WIDE)


@given(adjacency=adjacency_matrices(max_nodes=25))
def test_resistance_distance_is_pinv_inside_components_and_infinite_between(adjacency: NDArray[np.float64]) -> None:
    inverse = np.linalg.pinv(laplacian(adjacency).numpy(), hermitian=True, rcond=1e-12)
    assert np.allclose(encodings.pseudoinverse(adjacency).numpy(), inverse, atol=1e-8)
    diagonal = np.diag(inverse)
    expected = diagonal[:, None] + diagonal - 2 * inverse
    graph = nx.from_numpy_array(adjacency)
    together = np.zeros_like(adjacency, dtype=bool)
    for component in nx.connected_components(graph):
        together[np.ix_(list(component), list(component))] = True
    got = encodings.resistance_distance(adjacency).numpy()
    assert np.array_equal(np.isfinite(got), together)
    assert np.allclose(got[together], expected[together], atol=1e-8)


def test_resistances_in_series_and_parallel() -> None:
    assert float(encodings.resistance_distance(nx.path_graph(6))[0, 5]) == pytest.approx(5)
    assert float(encodings.resistance_distance(nx.cycle_graph(6))[0, 3]) == pytest.approx(1.5)
    two_ohm = np.array([[0, 0.5], [0.5, 0]])  # weights are conductances
    assert float(encodings.resistance_distance(two_ohm)[0, 1]) == pytest.approx(2)


@given(adjacency=adjacency_matrices(max_nodes=20, min_nodes=1), k=st.integers(1, 6))
def test_stable_laplacian_is_a_distance_between_projected_rows(adjacency: NDArray[np.float64], k: int) -> None:
    values, vectors = np.linalg.eigh(laplacian(adjacency).numpy())
    k = min(k, len(adjacency))
    floor = values[-k] - 1e-9 * max(values[-1], 1)  # whole eigenspaces
    chosen = vectors[:, (values >= floor) & (values > 1e-9 * max(values[-1], 1e-300))]
    expected = np.linalg.norm(chosen[:, None] - chosen[None], axis=-1)
    assert np.allclose(encodings.stable_laplacian(adjacency, k).numpy(), expected, atol=1e-6)


@given(adjacency=adjacency_matrices(max_nodes=25))
def test_degree_is_a_row_sum(adjacency: NDArray[np.float64]) -> None:
    assert np.allclose(encodings.degree(adjacency).numpy(), adjacency.sum(-1), atol=WIDE)


def test_degree_with_self_loops() -> None:
    adjacency = np.array([[2.0, 1], [1, 0]])
    assert np.allclose(encodings.degree(adjacency).numpy(), [3, 1])


@given(adjacency=adjacency_matrices(max_nodes=12))
def test_triangles_by_enumeration(adjacency: NDArray[np.float64]) -> None:
    expected = np.zeros(len(adjacency))
    for i, j, k in itertools.combinations(range(len(adjacency)), 3):
        expected[[i, j, k]] += adjacency[i, j] * adjacency[j, k] * adjacency[i, k]
    assert np.allclose(encodings.triangles(adjacency).numpy(), expected, atol=WIDE * 30)


def test_triangles_of_k5_with_a_loop() -> None:
    adjacency = np.ones((5, 5)) - np.eye(5)
    adjacency[0, 0] = 1
    assert np.allclose(encodings.triangles(adjacency).numpy(), math.comb(4, 2))


@given(adjacency=adjacency_matrices(max_nodes=20), k=st.integers(0, 6))
def test_adjacency_power(adjacency: NDArray[np.float64], k: int) -> None:
    expected = np.linalg.matrix_power(adjacency, k) if len(adjacency) else adjacency
    scale = max(np.abs(expected).max(initial=0), 1)
    assert np.allclose(encodings.adjacency_power(adjacency, k).numpy(), expected, atol=1e-12 * scale)


def networkx_distances(graph: nx.Graph[int]) -> NDArray[np.float64]:
    expected = np.full((len(graph), len(graph)), np.inf)
    for source, lengths in nx.all_pairs_shortest_path_length(graph):
        for target, length in lengths.items():
            expected[source, target] = length
    return expected


@given(adjacency=adjacency_matrices(max_nodes=60))
def test_shortest_path_agrees_with_networkx(adjacency: NDArray[np.float64]) -> None:
    expected = networkx_distances(nx.from_numpy_array(adjacency))
    assert np.array_equal(encodings.shortest_path(adjacency).numpy(), expected)


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(150),
        nx.cycle_graph(101),
        nx.convert_node_labels_to_integers(nx.disjoint_union(nx.path_graph(70), nx.complete_graph(20))),
        nx.lollipop_graph(30, 60),
        nx.balanced_tree(3, 4),
        nx.Graph([(i, i + 1) for i in range(59)] + [(i, 60 + 2 * i + k) for i in range(60) for k in range(2)]),
        nx.barbell_graph(25, 50),
    ],
    ids=["path", "cycle", "components", "lollipop", "tree", "caterpillar", "barbell"],
)
def test_long_distances_where_powers_of_a_would_lose_all_digits(graph: nx.Graph[int]) -> None:
    assert np.array_equal(encodings.shortest_path(graph).numpy(), networkx_distances(graph))


def test_negative_weights_do_not_hide_edges_from_distances() -> None:
    square = np.array([[0, 1, 0, -1.0], [1, 0, 1, 0], [0, 1, 0, 1], [-1, 0, 1, 0]])  # A² cancels between 0 and 2
    assert encodings.shortest_path(square)[0, 2] == 2


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_encodings_from_points_of_any_matrix(matrix: str) -> None:
    graph = nx.karate_club_graph()
    points = pointset.to_points(graph, matrix=matrix)
    assert torch.allclose(encodings.random_walk(points, 3), encodings.random_walk(graph, 3), atol=1e-10)
    assert torch.allclose(encodings.heat_kernel(points, 0.1), encodings.heat_kernel(graph, 0.1), atol=1e-10)
    assert torch.equal(encodings.shortest_path(points), encodings.shortest_path(graph))


@pytest.mark.parametrize("name", sorted(encodings.ENCODINGS))
def test_no_nodes_and_one_node(name: str) -> None:
    arguments: dict[str, list[float]] = {
        "random_walk": [2],
        "heat_kernel": [0.5],
        "stable_laplacian": [0],
        "adjacency_power": [2],
    }
    for n in (0, 1):
        value = encodings.ENCODINGS[name]((n, []), *arguments.get(name, []))
        assert value.shape in ((n,), (n, n))
        assert bool(torch.isfinite(value).all())


def test_resistance_with_negative_weights() -> None:
    triangle = np.array([[0, 1, -0.25], [1, 0, 1], [-0.25, 1, 0]])
    inverse = np.linalg.pinv(np.diag(triangle.sum(-1)) - triangle)
    expected = np.diag(inverse)[:, None] + np.diag(inverse) - 2 * inverse
    assert np.allclose(encodings.resistance_distance(triangle).numpy(), expected)
    triangle[0, 2] = triangle[2, 0] = -0.5  # singular beyond the constant vector
    with pytest.raises(MatrixError, match="negative weights make it singular"):
        encodings.resistance_distance(triangle)


def test_a_given_graph_is_not_rebuilt_to_see_its_edges() -> None:
    faint = np.array([[0, 1, 0], [1, 0, 5e-21], [0, 5e-21, 0]])
    assert encodings.shortest_path(faint)[0].tolist() == [0, 1, 2]


def test_wrong_arguments() -> None:
    with pytest.raises(RankError, match="steps=-1"):
        encodings.random_walk(nx.path_graph(3), -1)
    with pytest.raises(MatrixError, match="finite time"):
        encodings.heat_kernel(nx.path_graph(3), math.inf)
    with pytest.raises(RankError, match="approximate"):
        encodings.heat_kernel(pointset.to_points(nx.karate_club_graph(), rank=4), 1.0)
    with pytest.raises(RankError, match="at most"):
        encodings.stable_laplacian(nx.path_graph(3), 9)


def test_transforms_in_a_pyg_pipeline() -> None:
    graphs = [from_networkx(graph) for graph in (nx.path_graph(4), nx.cycle_graph(5))]
    transform = Compose([
        pointset.ToPoints(),
        pointset.AddEncoding("random_walk", steps=2, on="nodes", attribute="walk"),
        pointset.AddEncoding("resistance_distance", on="edges"),
        pointset.AddEncoding("shortest_path"),
        pointset.AddEncoding("degree"),
    ])  # fmt: skip
    batch = next(iter(DataLoader([transform(graph) for graph in graphs], batch_size=2)))
    assert [points.rank for points in batch.points] == [3, 4]
    assert batch.walk.shape == (9, 1) and batch.degree.flatten().tolist() == [1, 2, 2, 1, 2, 2, 2, 2, 2]
    assert batch.resistance_distance.shape == (batch.edge_index.shape[1], 1)
    assert batch.pair_index.shape == (2, 16 + 25) and int(batch.pair_index.max()) == 8
    assert batch.shortest_path[:16].view(4, 4)[0].tolist() == [0, 1, 2, 3]
    assert "points" not in graphs[0]  # the user's object stays as it was
    expected = "ToPoints(matrix='laplacian', rank=3, which='both', dtype=torch.float64)"
    assert repr(pointset.ToPoints(rank=3)) == expected


def test_transforms_reject_wrong_names() -> None:
    with pytest.raises(MatrixError, match="did you mean 'random_walk'"):
        pointset.AddEncoding("random_walks")
    with pytest.raises(MatrixError, match="missing a required argument: 'steps'"):
        pointset.AddEncoding("random_walk")
    with pytest.raises(RankError, match="rank=-1"):
        pointset.ToPoints(rank=-1)
    with pytest.raises(MatrixError, match="on='nodes'"):
        pointset.AddEncoding("degree", on="pairs")(from_networkx(nx.path_graph(3)))
