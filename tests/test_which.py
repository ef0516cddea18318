"""``rank=k`` from an end of a spectrum: against numpy's eigh, with components, isolated nodes, equal eigenvalues."""

from __future__ import annotations

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

import pointset
from pointset.errors import ConvergenceError, RankError
from pointset.points import large, shift_invert
from pointset.points.matrices import MATRICES
from pointset.points.spectra import Which
from tests.graph_strategies import MATRIX_NAMES, adjacency_matrices, binary_adjacency

ENDS: tuple[Which, ...] = ("both", "largest", "smallest")
SAME = 1e-9
GRAPHS: dict[str, nx.Graph[Any]] = {
    "cycle": nx.cycle_graph(8),
    "bipartite, with an isolated node": nx.disjoint_union(nx.complete_bipartite_graph(3, 4), nx.empty_graph(1)),
    "cubes and a triangle": nx.disjoint_union_all([nx.hypercube_graph(3), nx.hypercube_graph(3), nx.cycle_graph(3)]),
    "star": nx.star_graph(9),
    "pairs and paths": nx.disjoint_union_all([nx.path_graph(n) for n in (2, 2, 2, 3, 3, 1, 1)]),
    "no edges": nx.empty_graph(4),
    "karate": nx.karate_club_graph(),
}


def matrix_of(adjacency: NDArray[np.float64], matrix: str) -> NDArray[np.float64]:
    dense: NDArray[np.float64] = MATRICES[matrix].dense(torch.from_numpy(adjacency)).numpy()
    return dense


def expected(dense: NDArray[np.float64], k: int, which: Which) -> tuple[list[float], float]:
    """The eigenvalues that k asks for, ascending, and the largest magnitude of the others: by the plainest way."""
    values = np.linalg.eigvalsh(dense) if len(dense) else np.zeros(0)

    def order(value: float) -> float:
        return {"both": abs(value), "largest": value, "smallest": -value}[which]

    scale = np.abs(values).max(initial=0.0)
    rest = sorted((value for value in values.tolist() if abs(value) > SAME * scale), key=order, reverse=True)
    end = min(k, len(rest))
    while 0 < end < len(rest) and abs(order(rest[end]) - order(rest[end - 1])) <= SAME * scale:
        end += 1
    return sorted(rest[:end]), max(map(abs, rest[end:]), default=0.0)


def check(
    dense: NDArray[np.float64],
    got: NDArray[np.float64],
    vectors: NDArray[np.float64],
    error: float,
    k: int,
    which: Which,
) -> None:
    values, left_out = expected(dense, k, which)
    scale = max(1.0, np.abs(values).max(initial=0.0))
    assert len(got) == len(values)
    assert np.allclose(got, values, rtol=0, atol=1e-8 * scale)
    assert error == pytest.approx(left_out, abs=1e-6 * scale)
    assert np.allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-9)
    assert np.allclose(dense @ vectors, vectors * got, atol=1e-6 * scale)
    if len(dense):  # whole eigenspaces: what is left over has no eigenvalue of those kept, so its norm is the error
        assert np.linalg.norm(dense - (vectors * got) @ vectors.T, 2) == pytest.approx(left_out, abs=1e-6 * scale)


@pytest.mark.parametrize("which", ENDS)
@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@pytest.mark.parametrize("name", GRAPHS)
def test_small_graphs(name: str, matrix: str, which: Which) -> None:
    adjacency = binary_adjacency(nx.convert_node_labels_to_integers(GRAPHS[name]))
    for k in (1, 2, 5, 100):
        points = pointset.to_points(adjacency, matrix=matrix, rank=k, which=which)
        error = points.truncation.spectral_error if points.truncation else 0.0
        check(matrix_of(adjacency, matrix), points.eigenvalues.numpy(), points.eigenvectors.numpy(), error, k, which)


@given(adjacency=adjacency_matrices(max_nodes=40), k=st.integers(1, 12), data=st.data())
def test_the_union_of_components_is_what_the_whole_matrix_has(
    adjacency: NDArray[np.float64], k: int, data: st.DataObject
) -> None:
    matrix, which = data.draw(st.sampled_from(MATRIX_NAMES)), data.draw(st.sampled_from(ENDS))
    dense = matrix_of(adjacency, matrix)
    found = large.solve_large(scipy.sparse.csr_array(dense), k, which, name="0")
    check(dense, found.eigenvalues, found.eigenvectors, found.spectral_error, k, which)


@pytest.mark.parametrize("which", ENDS)
@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_iteration_on_large_components(
    matrix: str, which: Which, bipartite: bool, inverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two equal components and one other of some 60 nodes by iteration, small ones densely, isolated nodes."""
    if not inverse:
        monkeypatch.setattr(shift_invert, "_MOST_SECONDS", 0.0)
    monkeypatch.setattr(large, "_DENSE_UP_TO_NODES", 20)
    monkeypatch.setattr(large, "_DENSE_AFTER_ALL_NODES", 0)
    one = nx.grid_2d_graph(7, 9) if bipartite else nx.random_regular_graph(4, 60, seed=1)
    other = nx.gnp_random_graph(60, 0.15, seed=2)
    graph = nx.disjoint_union_all([one, other, one, nx.path_graph(3), nx.path_graph(2), nx.empty_graph(3)])
    dense = matrix_of(binary_adjacency(graph), matrix)
    found = large.solve_large(scipy.sparse.csr_array(dense), 7, which, name="0")
    check(dense, found.eigenvalues, found.eigenvectors, found.spectral_error, 7, which)


def test_the_zero_eigenvalues_of_a_large_laplacian_are_not_among_the_smallest() -> None:
    graph = nx.disjoint_union_all([nx.random_regular_graph(3, 900, seed=seed) for seed in (1, 2)])
    points = pointset.to_points(graph, rank=5, which="smallest")
    values = np.linalg.eigvalsh(matrix_of(binary_adjacency(graph), "laplacian"))
    assert np.allclose(points.eigenvalues.numpy(), values[2 : 2 + points.rank], atol=1e-8)
    assert points.rank == 5 and points.truncation is not None
    assert points.truncation.spectral_error == pytest.approx(values[-1], rel=1e-6)


def test_beyond_zero_iteration_cannot_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star has one positive eigenvalue and is found whole; a hub for twenty triangles on a long star is not."""
    star = pointset.to_points(nx.star_graph(2500), matrix="adjacency", rank=10, which="largest")
    assert star.rank == 2 and star.truncation is None
    many = nx.disjoint_union_all([nx.star_graph(70)] * 30)
    many.add_edges_from((0, 71 * index) for index in range(1, 30))
    points = pointset.to_points(many, matrix="adjacency", rank=40, which="largest")  # 30 positive, then negative ones
    assert int((points.eigenvalues > 0).sum()) == 30 and points.rank >= 40
    monkeypatch.setattr(large, "_DENSE_AFTER_ALL_NODES", 0)
    with pytest.raises(ConvergenceError, match=r"only 30 positive eigenvalues.*rank=30 or less"):
        pointset.to_points(many, matrix="adjacency", rank=40, which="largest")
    assert pointset.to_points(many, matrix="adjacency", rank=30, which="largest").rank == 30


def test_an_end_that_does_not_converge_names_what_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "_DENSE_AFTER_ALL_NODES", 0)
    monkeypatch.setattr(shift_invert, "_MOST_SECONDS", 0.0)
    monkeypatch.setattr(large, "_MOST_RESTARTS", 5)
    with pytest.raises(ConvergenceError, match=r"1,600 nodes .*normalized_adjacency.*slow modes"):
        pointset.to_points(nx.path_graph(1600), rank=3, which="smallest")


@pytest.mark.parametrize("which", ["Largest", "LM", None, 1, ["both"]])
def test_unknown_ends(which: Any) -> None:
    for convert in (pointset.to_points, lambda graph, **given: pointset.ToPoints(**given)):
        with pytest.raises(RankError, match="expected both, largest, smallest"):
            convert(nx.path_graph(3), rank=2, which=which)


def test_an_end_without_a_rank_has_no_effect_and_is_refused() -> None:
    with pytest.raises(RankError, match=r"without a rank.*Add rank=k"):
        pointset.to_points(nx.path_graph(3), which="largest")
    assert pointset.to_points(nx.path_graph(3), which="both").rank == 2


def test_the_transform_and_the_store_know_the_end(tmp_path: Path) -> None:
    graphs = [nx.path_graph(5), nx.cycle_graph(6)]
    by_end = {
        which: pointset.to_points_many(graphs, rank=1, which=which, store=tmp_path)[0].eigenvalues.tolist()
        for which in ENDS
    }
    assert by_end["smallest"] == pytest.approx([2 - 2 * np.cos(np.pi / 5)])
    assert by_end["largest"] == by_end["both"] == pytest.approx([2 + 2 * np.cos(np.pi / 5)])
    assert "which='smallest'" in repr(pointset.ToPoints(rank=1, which="smallest"))


def test_cora_has_as_many_pairs_of_eigenvalue_one_as_components(shared_data: Path) -> None:
    with np.load(shared_data / "nodes" / "cora.npz") as file:
        cora = (len(file["y"]), file["edges"].T)
    points = pointset.to_points(cora, matrix="normalized_adjacency", rank=32, which="largest")
    (space,) = points.eigenspaces()
    assert space.multiplicity == 78 and space.eigenvalue == pytest.approx(1, abs=1e-12)
    assert points.truncation is not None and points.truncation.spectral_error == pytest.approx(1)
    more = pointset.to_points(cora, matrix="normalized_adjacency", rank=100, which="largest")
    spaces = more.eigenspaces()
    assert more.rank >= 100 and spaces[-1].multiplicity == 78 and spaces[-2].eigenvalue < 1 - 1e-4
    assert more.truncation is not None and more.truncation.residual < 1e-6
