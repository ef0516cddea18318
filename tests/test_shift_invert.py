"""Dense ends of spectra: against closed forms and dense solvers, and what happens where factors would fill."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

import pointset
from pointset.errors import ConvergenceError
from pointset.points import large, shift_invert
from pointset.points.matrices import MATRICES
from pointset.points.spectra import Which
from tests.graph_strategies import MATRIX_NAMES, adjacency_matrices

N = 10_000


def sparse_matrix(graph: nx.Graph[Any], matrix: str) -> scipy.sparse.csr_array:
    adjacency: Any = nx.to_scipy_sparse_array(graph)
    return MATRICES[matrix].sparse(scipy.sparse.csr_array(adjacency, dtype=float))


def test_the_low_end_of_a_path_of_10_000_nodes() -> None:
    points = pointset.to_points(nx.path_graph(N), rank=16, which="smallest")
    expected = 4 * np.sin(np.pi * np.arange(1, 17) / (2 * N)) ** 2
    assert points.rank == 16 and points.truncation is not None
    assert np.allclose(points.eigenvalues.numpy(), expected, rtol=1e-8, atol=0)
    assert points.truncation.residual < 1e-12
    assert points.truncation.spectral_error == pytest.approx(4, abs=1e-4)
    fiedler = np.cos(np.pi * (np.arange(N) + 0.5) / N) * (2 / N) ** 0.5
    assert abs(points.eigenvectors[:, 0].numpy() @ fiedler) == pytest.approx(1, abs=1e-8)


def test_the_low_end_of_a_cycle_of_10_000_nodes_has_whole_eigenspaces() -> None:
    points = pointset.to_points(nx.cycle_graph(N), rank=15, which="smallest")
    expected = np.repeat(4 * np.sin(np.pi * np.arange(1, 9) / N) ** 2, 2)
    assert [space.multiplicity for space in points.eigenspaces()] == [2] * 8
    assert np.allclose(points.eigenvalues.numpy(), expected, rtol=1e-8, atol=0)


def test_the_high_end_of_the_normalised_adjacency_of_a_path() -> None:
    """1 and the eigenvalues next to it, 5e-8 apart, are not taken for one."""
    points = pointset.to_points(nx.path_graph(N), matrix="normalized_adjacency", rank=8, which="largest")
    assert np.allclose(points.eigenvalues.numpy(), np.cos(np.pi * np.arange(7, -1, -1) / (N - 1)), rtol=0, atol=1e-13)
    assert len(points.eigenspaces()) == 8


def test_both_dense_ends_of_a_path() -> None:
    points = pointset.to_points(nx.path_graph(N), matrix="normalized_adjacency", rank=6)
    top = np.cos(np.pi * np.arange(3) / (N - 1))
    assert np.allclose(points.eigenvalues.numpy(), np.sort(np.r_[top, -top]), rtol=0, atol=1e-13)
    assert points.truncation is not None
    assert points.truncation.spectral_error == pytest.approx(np.cos(3 * np.pi / (N - 1)), abs=1e-12)


def test_two_equal_rings_of_roads_share_their_eigenvalues() -> None:
    """Components, each twofold: the whole eigenspace is fourfold; and an isolated node has no pair."""
    ring = nx.cycle_graph(7000)
    points = pointset.to_points(nx.disjoint_union_all([ring, ring, nx.empty_graph(1)]), rank=2, which="smallest")
    assert [space.multiplicity for space in points.eigenspaces()] == [4]
    assert float(points.eigenvalues[0]) == pytest.approx(4 * np.sin(np.pi / 7000) ** 2, rel=1e-8)


def roads(seed: int, weighted: bool) -> nx.Graph[Any]:
    """A thinned grid of 60 × 40 crossings, with hanging paths and, if asked, lengths."""
    generator = np.random.default_rng(seed)
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(60, 40))
    edges = [edge for edge in graph.edges if generator.random() < 0.75]
    thinned: nx.Graph[Any] = nx.Graph(edges)
    graph = nx.convert_node_labels_to_integers(thinned.subgraph(max(nx.connected_components(thinned), key=len)))
    if weighted:
        nx.set_edge_attributes(graph, {edge: float(generator.uniform(0.1, 3)) for edge in graph.edges}, "weight")
    return graph


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("which", ["both", "largest", "smallest"])
@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_roads_against_the_dense_solver(
    matrix: str, which: Which, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "_DENSE_AFTER_ALL_NODES", 0)
    sparse = sparse_matrix(roads(3, weighted), matrix)
    dense = torch.from_numpy(sparse.toarray())
    found = large.solve_large(sparse, 12, which, name="0")
    values = torch.linalg.eigvalsh(dense).numpy()
    filled = values[np.abs(values) > 1e-9]
    order = {"both": np.abs(filled), "largest": filled, "smallest": -filled}[which]
    expected = np.sort(filled[np.argsort(-order)[: len(found.eigenvalues)]])
    assert len(expected) in (12, 13)
    assert np.allclose(found.eigenvalues, expected, rtol=0, atol=1e-9)
    assert found.residual < 1e-7


def test_another_order_of_the_nodes_gives_the_same_points() -> None:
    graph = roads(5, weighted=True)
    adjacency = scipy.sparse.csr_array(nx.to_scipy_sparse_array(graph))
    permutation = np.random.default_rng(0).permutation(adjacency.shape[0])
    one = pointset.to_points(adjacency, rank=9, which="smallest")
    again = pointset.to_points(adjacency, rank=9, which="smallest")
    other = pointset.to_points(adjacency[permutation][:, permutation], rank=9, which="smallest")
    assert torch.equal(one.eigenvectors, again.eigenvectors) and torch.equal(one.eigenvalues, again.eigenvalues)
    assert torch.allclose(one.eigenvalues, other.eigenvalues, rtol=1e-9, atol=1e-13)
    moved = one.eigenvectors[torch.from_numpy(permutation)]
    assert torch.allclose((moved.mT @ other.eigenvectors).abs(), torch.eye(one.rank, dtype=torch.float64), atol=1e-7)


# --- which graphs


def test_a_graph_without_separators_is_not_factored() -> None:
    pieces = [np.random.default_rng(seed).permutation(40_000) for seed in range(3)]
    links = scipy.sparse.coo_array(
        (np.ones(120_000), (np.tile(np.arange(40_000), 3), np.concatenate(pieces))), shape=(40_000, 40_000)
    ).tocsr()
    both = scipy.sparse.csr_array(((links + links.T) > 0).astype(np.float64))
    assert not shift_invert.eliminated(both).is_affordable
    assert list(shift_invert.inverses_at_end(both, "largest")) == []


def test_without_the_inverse_iteration_with_the_matrix_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.random_regular_graph(4, 2000, seed=1)
    by_inverse = pointset.to_points(graph, rank=5, which="smallest")
    monkeypatch.setattr(shift_invert, "_MOST_SECONDS", 0.0)
    by_iteration = pointset.to_points(graph, rank=5, which="smallest")
    assert torch.allclose(by_inverse.eigenvalues, by_iteration.eigenvalues, rtol=0, atol=1e-9)


def test_memory_that_was_forecast_too_small_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    graph = nx.random_regular_graph(4, 2000, seed=1)
    expected = pointset.to_points(graph, rank=3, which="smallest").eigenvalues
    monkeypatch.setattr(scipy.sparse.linalg, "splu", full)
    assert torch.allclose(pointset.to_points(graph, rank=3, which="smallest").eigenvalues, expected, atol=1e-9)


def test_no_solver_is_left_where_neither_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "_DENSE_AFTER_ALL_NODES", 0)
    monkeypatch.setattr(shift_invert, "_MOST_SECONDS", 0.0)
    monkeypatch.setattr(large, "_MOST_RESTARTS", 3)
    with pytest.raises(ConvergenceError, match="did not converge"):
        pointset.to_points(nx.path_graph(2000), rank=3, which="smallest")


@settings(max_examples=20)
@given(side=st.integers(10, 60), seed=st.integers(0, 99))
def test_the_forecast_bounds_the_fill_of_roads(side: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side))
    kept: Any = nx.Graph([edge for edge in grid.edges if generator.random() < 0.8])
    adjacency = scipy.sparse.csr_array(nx.to_scipy_sparse_array(kept), dtype=float)
    shifted = scipy.sparse.csc_array(scipy.sparse.diags_array(adjacency.sum(axis=1) + 1) - adjacency)
    options = {"SymmetricMode": True}
    factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, relax=1, options=options)
    assert shift_invert.eliminated(adjacency).fill >= factors.nnz / 2


@pytest.mark.parametrize("which", ["largest", "smallest"])
@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@given(adjacency=adjacency_matrices(max_nodes=25, min_nodes=2))
def test_the_shift_is_beyond_the_spectrum(matrix: str, which: Which, adjacency: NDArray[np.float64]) -> None:
    if not adjacency.any():
        return
    dense = MATRICES[matrix].dense(torch.from_numpy(adjacency)).numpy()
    values = np.linalg.eigvalsh(dense)
    sign = 1.0 if which == "largest" else -1.0
    norm = float(np.abs(dense).sum(axis=1).max())
    bound, _ = shift_invert._bound(scipy.sparse.csr_array(dense), sign, norm)
    assert bound >= (sign * values).max() - 1e-10 * norm
