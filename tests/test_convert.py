"""Many graphs at once: the same as one by one, in order, whatever the number of workers; real data; large graphs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.utils import from_networkx

import pointset
from pointset.errors import GraphError, MatrixError, MemoryForecastError, RankError
from pointset.points.graphs import Features
from pointset.points.large import extremal_pairs
from pointset.points.matrices import MATRICES
from tests.graph_strategies import ATLAS_UP_TO_6, MATRIX_NAMES


def random_graphs(count: int, seed: int = 0) -> list[nx.Graph[int]]:
    generator = np.random.default_rng(seed)
    return [nx.gnp_random_graph(int(generator.integers(1, 25)), 0.3, seed=i) for i in range(count)]


def same_points(a: pointset.PointSet, b: pointset.PointSet) -> bool:
    return torch.equal(a.eigenvalues, b.eigenvalues) and torch.equal(a.eigenvectors, b.eigenvectors)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_many_is_the_same_as_one_by_one_in_order(matrix: str) -> None:
    graphs = random_graphs(80)
    many = pointset.to_points_many(graphs, matrix=matrix)
    assert len(many) == len(graphs)
    for graph, points in zip(graphs, many, strict=True):
        alone = pointset.to_points(graph, matrix=matrix)
        assert points.num_nodes == len(graph)
        assert torch.allclose(alone.eigenvalues, points.eigenvalues, atol=1e-12)
        assert torch.allclose(alone.inner_products(), points.inner_products(), atol=1e-11)


def test_the_number_of_workers_changes_nothing() -> None:
    graphs = [nx.gnp_random_graph(n, 0.4, seed=n) for n in range(2, 40)] * 4
    one, three = (pointset.to_points_many(graphs, workers=workers) for workers in (1, 3))
    assert all(same_points(a, b) for a, b in zip(one, three, strict=True))


def test_the_thread_setting_of_the_caller_is_restored() -> None:
    before = torch.get_num_threads()
    pointset.to_points_many(random_graphs(50))
    assert torch.get_num_threads() == before


def test_a_sequence_with_slices_and_negative_indices() -> None:
    many = pointset.to_points_many(ATLAS_UP_TO_6[:20])
    assert same_points(many[-1], many[19])
    assert [points.num_nodes for points in many[3:6]] == [len(graph) for graph in ATLAS_UP_TO_6[3:6]]
    with pytest.raises(IndexError):
        many[20]
    assert len(pointset.to_points_many([])) == 0


def test_weighted_and_unweighted_graphs_may_be_mixed() -> None:
    weighted = nx.karate_club_graph()
    plain, heavy = pointset.to_points_many([nx.karate_club_graph().__class__(weighted.edges), weighted])
    assert "edge_weight" not in pointset.to_graph(plain)
    assert "edge_weight" in pointset.to_graph(heavy)


def test_features_of_flat_arrays_follow_their_graph() -> None:
    features = [Features(x=torch.full((3, 1), float(i)), edge_attr=torch.tensor([[1], [2]])) for i in range(2)]
    graphs = pointset.GraphArrays.from_flat(
        np.array([3, 3]), np.array([2, 2]), np.array([[2, 0, 0, 1], [1, 1, 1, 2]]), features=features
    )
    first, second = pointset.to_points_many(graphs)
    assert first.edge_attr is not None and first.edge_attr.flatten().tolist() == [2, 1]  # sorted to (0,1), (1,2)
    assert second.edge_attr is not None and second.edge_attr.flatten().tolist() == [1, 2]
    assert second.x is not None and second.x.flatten().tolist() == [1, 1, 1]


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_real_molecules_survive(shared_data: Path, matrix: str) -> None:
    with np.load(shared_data / "zinc" / "zinc12k.npz") as zinc:
        counts = zinc["num_edges"][:300].astype(int)
        edges, bonds = zinc["edges"][: counts.sum()].T, zinc["bond_type"][: counts.sum()]
        graphs = pointset.GraphArrays.from_flat(zinc["num_nodes"][:300], counts, edges, bonds)
    for graph, points in zip(graphs, pointset.to_points_many(graphs, matrix=matrix), strict=True):
        back = pointset.to_graph(points.to(torch.float32))
        once = back.edge_index[:, back.edge_index[0] < back.edge_index[1]].numpy()
        assert np.array_equal(once, graph.edges)
        assert graph.weights is not None
        weights = back.edge_weight[back.edge_index[0] < back.edge_index[1]].numpy()
        assert np.array_equal(weights, graph.weights)


def test_counting_graphs_with_several_components_survive(shared_data: Path) -> None:
    with np.load(shared_data / "counting" / "graphs.npz") as file:
        graphs = pointset.GraphArrays.from_flat(file["num_nodes"], file["num_edges"], file["edges"].T)
    many = pointset.to_points_many(graphs)
    disconnected = int((many.ranks < many.num_nodes - 1).sum())
    assert disconnected == 520  # the data's own README
    assert all(pointset.to_graph(many[i]).num_edges == 2 * int(graphs.num_edges[i]) for i in range(0, 5000, 50))


def large_graph(n: int, seed: int = 0) -> scipy.sparse.csr_array:
    generator = np.random.default_rng(seed)
    ring = np.arange(n - 1)  # connected, so that no small component repeats eigenvalues
    random_rows, random_columns = generator.integers(0, n, (2, 4 * n))
    rows, columns = np.r_[ring, random_rows], np.r_[ring + 1, random_columns]
    keep = rows < columns
    upper = scipy.sparse.coo_array((np.ones(keep.sum()), (rows[keep], columns[keep])), shape=(n, n)).tocsr()
    upper.data[:] = 1
    return scipy.sparse.csr_array(upper + upper.T)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_the_sparse_solver_agrees_with_the_dense_one(matrix: str) -> None:
    graph = large_graph(1600)
    sparse = pointset.to_points(graph, matrix=matrix, rank=6)
    values = np.linalg.eigvalsh(MATRICES[matrix].sparse(graph).toarray())
    order = np.argsort(-np.abs(values))
    assert np.allclose(np.sort(values[order[: sparse.rank]]), sparse.eigenvalues.numpy(), atol=1e-7)
    assert sparse.rank == 6
    assert sparse.truncation is not None
    assert sparse.truncation.spectral_error == pytest.approx(abs(values[order[6]]), rel=1e-6)
    assert sparse.truncation.frobenius_error == pytest.approx(np.sqrt(np.sum(values[order[6:]] ** 2)), rel=1e-6)
    assert sparse.truncation.residual < 1e-6 * np.abs(values).max()


@pytest.mark.parametrize("copies", [3, 7])
def test_the_sparse_solver_finds_every_copy_of_a_repeated_eigenvalue(copies: int) -> None:
    """Single-vector Lanczos misses copies; components repeat the eigenvalue 1 of the normalised adjacency."""
    part = large_graph(400, seed=5)
    graph = scipy.sparse.csr_array(scipy.sparse.block_diag([part] * copies))
    found = extremal_pairs(MATRICES["normalized_adjacency"].sparse(graph), 2)
    alone = np.linalg.eigvalsh(MATRICES["normalized_adjacency"].sparse(part).toarray())
    top = np.sort(np.abs(alone))[::-1]
    assert len(found.eigenvalues) % copies == 0
    assert len(set(found.eigenvalues.tolist())) == len(found.eigenvalues) // copies  # one value for each eigenspace
    assert found.spectral_error == pytest.approx(top[len(found.eigenvalues) // copies], rel=1e-6)
    assert np.allclose(found.eigenvectors.T @ found.eigenvectors, np.eye(len(found.eigenvalues)), atol=1e-10)


@pytest.mark.parametrize(
    ("graph", "matrix", "k", "expected"),
    [
        (nx.cycle_graph(1600), "normalized_adjacency", 4, 6),
        (nx.convert_node_labels_to_integers(nx.grid_2d_graph(40, 40, periodic=True)), "laplacian", 2, 5),
        (nx.disjoint_union_all([nx.gnp_random_graph(400, 0.05, seed=1)] * 5), "normalized_adjacency", 7, 10),
    ],
    ids=["cycle", "torus", "five copies"],
)
def test_repeated_eigenvalues_at_the_boundary_are_kept_whole(
    graph: nx.Graph[int], matrix: str, k: int, expected: int
) -> None:
    """A start vector that is used again after deflation would not see the copies that are missing."""
    points = pointset.to_points(graph, matrix=matrix, rank=k)
    values = np.linalg.eigvalsh(MATRICES[matrix].sparse(nx.to_scipy_sparse_array(graph).astype(float)).toarray())
    assert points.rank == expected
    assert points.truncation is not None
    left_out = np.sort(np.abs(values))[::-1][expected]
    assert points.truncation.spectral_error == pytest.approx(left_out, rel=1e-6)


def test_copies_found_late_do_not_leave_more_than_was_asked_for() -> None:
    """Eigenvalues 1 (twice), then simple ones: k = 4 is a clean cut, whatever Lanczos finds first."""
    parts = [nx.gnp_random_graph(900, 0.01, seed=seed) for seed in (1, 2)]
    graph = nx.disjoint_union_all(
        [nx.Graph(part.subgraph(max(nx.connected_components(part), key=len))) for part in parts]
    )
    assert pointset.to_points(graph, matrix="normalized_adjacency", rank=4).rank == 4


def test_long_chains_defeat_lanczos_and_are_solved_all_the_same() -> None:
    for n in (1600, 20_000):
        points = pointset.to_points(nx.path_graph(n), rank=3)
        exact = 2 - 2 * np.cos(np.pi * np.arange(n - 3, n) / n)
        assert np.allclose(points.eigenvalues.numpy(), exact, rtol=1e-12)


def test_isolated_nodes_of_a_large_graph_are_zero_rows() -> None:
    points = pointset.to_points((200_000, [(7, 9), (9, 150_000)]), matrix="adjacency", rank=4)
    assert points.rank == 2 and points.truncation is None
    assert torch.nonzero(points.eigenvectors.abs().sum(-1)).flatten().tolist() == [7, 9, 150_000]


def test_a_large_graph_of_small_rank_is_complete() -> None:
    """A star has two non-zero eigenvalues: nothing is left out, and the graph comes back."""
    star = pointset.to_points(nx.star_graph(2500), matrix="adjacency", rank=10)
    assert star.rank == 2 and star.truncation is None
    assert pointset.to_graph(star).num_edges == 5000


def test_an_eigenvalue_of_all_components_is_kept_whole_or_refused_before_memory_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matching = (1800, np.arange(1800).reshape(-1, 2))  # 900 components, each with the eigenvalue 2
    points = pointset.to_points(matching, rank=4)
    assert [tuple(space) for space in points.eigenspaces()] == [(2.0, 900)]
    assert points.truncation is None
    monkeypatch.setattr("pointset.machine.NEVER_A_PROBLEM", 2**20)  # more than a component takes
    monkeypatch.setattr("pointset.machine._available_bytes", lambda: 1)
    with pytest.raises(MemoryForecastError, match=r"rank=4 cuts through .* 900 eigenpairs .* largest component"):
        pointset.to_points(matching, rank=4)


FLAT = {"num_nodes": np.array([3, 3]), "num_edges": np.array([1, 2]), "edges": np.array([[0, 0, 1], [1, 1, 2]])}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": np.ones(2)}, r"weights has shape \(2,\)"),
        ({"edges": np.array([[0.7, 0, 1], [1.9, 1, 2]])}, "whole numbers"),
        ({"edges": FLAT["edges"].T}, r"edges.T"),
        ({"num_edges": np.array([-1, 4])}, "0 or more"),
        ({"num_edges": np.array([1, 1])}, "adds up to 2"),
        ({"num_nodes": np.array([3])}, "expected as many"),
        ({"features": [Features()]}, "features names 1 graphs"),
        ({"features": [Features(x=torch.ones(7, 1)), Features()]}, "graph 0: x has shape"),
        ({"features": [Features(), Features(edge_attr=torch.ones(5, 1))]}, "graph 1: edge_attr"),
    ],
)
def test_flat_arrays_that_do_not_fit_together(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        pointset.GraphArrays.from_flat(**{**FLAT, **changed})


@pytest.mark.parametrize("workers", [0, -1, True, 1.5])
def test_wrong_number_of_workers(workers: Any) -> None:
    with pytest.raises(RankError, match="workers"):
        pointset.to_points_many(random_graphs(3), workers=workers)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, "float32"])
def test_wrong_dtype(dtype: Any) -> None:
    with pytest.raises(MatrixError, match="floating-point"):
        pointset.to_points(nx.path_graph(3), dtype=dtype)


def test_moving_between_devices_and_types_as_tensors_do() -> None:
    points = pointset.to_points(Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]])))
    elsewhere = points.to(device="meta")
    assert elsewhere.eigenvectors.is_meta and elsewhere.x is not None and elsewhere.x.is_meta
    assert points.to("cpu", dtype=torch.float32).eigenvalues.dtype == torch.float32
    data = pointset.ToPoints()(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)).to("meta")
    assert data.points.eigenvectors.is_meta


def test_saved_graphs_with_points_load_without_unpickling_code(tmp_path: Path) -> None:
    points = pointset.to_points(nx.karate_club_graph(), rank=3)
    torch.save(points, tmp_path / "points.pt")
    assert same_points(torch.load(tmp_path / "points.pt", weights_only=True), points)


def test_a_pyg_dataset_is_many_graphs() -> None:
    class Two(InMemoryDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.data, self.slices = self.collate([from_networkx(nx.path_graph(n)) for n in (3, 4)])

    assert [points.num_nodes for points in pointset.to_points_many(Two())] == [3, 4]


def test_point_sets_can_be_pickled_for_data_loader_workers() -> None:
    points = pointset.to_points(nx.petersen_graph())
    assert same_points(pickle.loads(pickle.dumps(points)), points)
    many = pointset.to_points_many(ATLAS_UP_TO_6[:30])
    assert same_points(pickle.loads(pickle.dumps(many))[20], many[20])


def test_frozen_and_readable() -> None:
    points = pointset.to_points(Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]])))
    with pytest.raises(AttributeError):
        points.matrix = "adjacency"  # type: ignore[misc]
    assert repr(points) == "PointSet(num_nodes=2, num_edges=1, rank=1, matrix='laplacian', x=[2, 3])"
    assert "truncated" in repr(pointset.to_points(nx.karate_club_graph(), rank=2))
