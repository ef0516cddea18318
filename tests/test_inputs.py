"""What each way in means, and what odd input gets: defined answers or errors that name the remedy."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

import pointset
from pointset.errors import GraphError, MatrixError, MemoryForecastError, PointsetError, RankError
from tests.graph_strategies import MATRIX_NAMES, adjacency_matrices, dense_adjacency

PATH = [(0, 1), (1, 2), (2, 3)]
PATH_BOTH_WAYS = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def weighted_edge(weight: float) -> Data:
    return Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
                edge_weight=torch.tensor([1.0, 1.0, weight, weight], dtype=torch.float64), num_nodes=3)  # fmt: skip


ALL_KINDS: dict[str, Any] = {
    "pyg": Data(edge_index=PATH_BOTH_WAYS, num_nodes=4),
    "pyg without num_nodes": Data(edge_index=PATH_BOTH_WAYS),
    "networkx": nx.path_graph(4),
    "networkx multigraph": nx.MultiGraph([*PATH, (0, 1)]),
    "scipy csr_matrix": scipy.sparse.csr_matrix(nx.to_numpy_array(nx.path_graph(4))),
    "scipy coo_array": scipy.sparse.coo_array(nx.to_numpy_array(nx.path_graph(4))),
    "numpy": nx.to_numpy_array(nx.path_graph(4)),
    "numpy bool": nx.to_numpy_array(nx.path_graph(4)).astype(bool),
    "torch": torch.from_numpy(nx.to_numpy_array(nx.path_graph(4))),
    "torch sparse": torch.from_numpy(nx.to_numpy_array(nx.path_graph(4))).to_sparse(),
    "pairs": (4, PATH),
    "pairs backwards": (4, [(1, 0), (1, 2), (3, 2)]),
    "pairs both ways": (4, PATH_BOTH_WAYS),
    "int32 array of pairs": (4, np.array(PATH, dtype=np.int32)),
    "numpy count": (np.int64(4), PATH),
}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_kind_of_graph_gives_the_same_points(kind: str) -> None:
    points = pointset.to_points(ALL_KINDS[kind])
    assert (points.num_nodes, points.num_edges, points.rank) == (4, 3, 3)
    assert np.array_equal(dense_adjacency(pointset.to_graph(points)).numpy(), nx.to_numpy_array(nx.path_graph(4)))


@given(adjacency=adjacency_matrices(max_nodes=12, weighted=True))
def test_weighted_ways_in_agree(adjacency: NDArray[np.float64]) -> None:
    dense = pointset.to_points(adjacency)
    sparse = pointset.to_points(scipy.sparse.csr_array(adjacency))
    graph = pointset.to_points(nx.from_numpy_array(adjacency))
    assert torch.equal(dense.eigenvalues, sparse.eigenvalues)
    assert torch.equal(dense.eigenvalues, graph.eigenvalues)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_no_edges_means_rank_zero(matrix: str, n: int) -> None:
    points = pointset.to_points((n, []), matrix=matrix)
    assert (points.num_nodes, points.rank, points.num_edges) == (n, 0, 0)
    assert points.eigenvectors.shape == (n, 0)
    assert points.coordinates().shape == (n, 0)
    back = pointset.to_graph(points)
    assert back.num_nodes == n and back.edge_index.shape == (2, 0)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_isolated_node_and_components(matrix: str) -> None:
    graph = nx.disjoint_union_all([nx.path_graph(3), nx.empty_graph(1), nx.cycle_graph(4)])
    points = pointset.to_points(graph, matrix=matrix)
    assert points.eigenvectors[3].abs().max() < 1e-12
    assert np.array_equal(dense_adjacency(pointset.to_graph(points)).numpy(), nx.to_numpy_array(graph))


def test_self_loop_under_the_laplacian_is_refused_and_others_keep_it() -> None:
    loop = (3, [(0, 1), (1, 1)])
    with pytest.raises(MatrixError, match=r"node 1 has a self-loop.*RemoveSelfLoops.*'augmented'"):
        pointset.to_points(loop)
    with pytest.raises(MatrixError, match="graph 1: node 1 has a self-loop"):
        pointset.to_points_many([(3, PATH[:2]), loop])
    assert pointset.to_points(loop, matrix="augmented").num_edges == 2


def test_duplicate_edges_are_one_edge() -> None:
    assert pointset.to_points((3, [(0, 1), (0, 1), (1, 0), (1, 2)])).num_edges == 2
    doubled = Data(edge_index=torch.cat([PATH_BOTH_WAYS, PATH_BOTH_WAYS], dim=1))
    assert pointset.to_points(doubled).num_edges == 3


def test_duplicate_edges_of_different_weight_are_refused() -> None:
    graph: nx.MultiGraph[int] = nx.MultiGraph()
    graph.add_edge(0, 1, weight=1.0)
    graph.add_edge(0, 1, weight=2.0)
    with pytest.raises(GraphError, match=r"nodes 0 and 1 is listed with weights 1.0 and 2.0"):
        pointset.to_points(graph)


@pytest.mark.parametrize(
    "graph",
    [
        nx.DiGraph(PATH),
        Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4),
        np.triu(np.ones((3, 3)), 1),
        scipy.sparse.csr_array(np.array([[0, 1], [0, 0]])),
        np.array([[0, 1.0], [2.0, 0]]),
    ],
    ids=["DiGraph", "one direction only", "upper triangle", "scipy", "weights differ"],
)
def test_directed_graphs_are_refused_with_a_remedy(graph: Any) -> None:
    with pytest.raises(GraphError, match=r"to_undirected|ToUndirected"):
        pointset.to_points(graph)


def test_asymmetry_at_the_last_digit_is_no_direction() -> None:
    adjacency = np.array([[0, 0.1 + 0.2], [0.3, 0]])
    assert pointset.to_points(adjacency).num_edges == 1


def test_edge_features_must_agree_in_both_directions() -> None:
    data = Data(edge_index=PATH_BOTH_WAYS, edge_attr=torch.arange(6.0))
    with pytest.raises(GraphError, match="different edge features"):
        pointset.to_points(data)


def test_zero_weight_is_no_edge() -> None:
    points = pointset.to_points(weighted_edge(0.0))
    assert points.num_edges == 1
    assert dense_adjacency(pointset.to_graph(points))[1, 2] == 0


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("as_matrix", [False, True])
def test_weights_that_are_not_finite_are_refused(weight: float, as_matrix: bool) -> None:
    graph: Any = weighted_edge(weight)
    if as_matrix:
        graph = np.array([[0, 1, 0], [1, 0, weight], [0, weight, 0]])
    with pytest.raises(GraphError, match=r"edge \(1, 2\) has weight -?(nan|inf); expected a finite number"):
        pointset.to_points(graph)


def test_negative_weights_are_kept_and_srd_is_refused() -> None:
    points = pointset.to_points(weighted_edge(-2.0))
    assert float(points.eigenvalues.min()) < 0
    with pytest.raises(MatrixError, match="positive semi-definite"):
        points.coordinates()
    with pytest.raises(MatrixError, match=r"node 1 has degree -1 because of negative weights"):
        pointset.to_points(weighted_edge(-2.0), matrix="normalized_adjacency")


def test_node_numbers_outside_the_graph() -> None:
    with pytest.raises(GraphError, match=r"edge \(2, 3\) names a node outside the graph's 3 nodes.*num_nodes=4"):
        pointset.to_points((3, PATH))
    with pytest.raises(GraphError, match="1-based: subtract 1"):
        pointset.to_points((3, [(1, 2), (2, 3)]))
    with pytest.raises(GraphError, match="start at 0"):
        pointset.to_points((3, [(0, -1)]))
    with pytest.raises(GraphError, match="graph 1: edge"):
        pointset.to_points_many([(4, PATH), (3, PATH)])


@pytest.mark.parametrize("index", [2**31, 2**40, 2**62, 2**63, 2**70])
def test_huge_node_numbers_do_not_overflow(index: int) -> None:
    with pytest.raises(GraphError):
        pointset.to_points((3, [(0, index)]))
    if index < 2**63:
        with pytest.raises(GraphError, match="renumber the nodes"):
            pointset.to_points(Data(edge_index=torch.tensor([[0, index], [index, 0]])))


def test_a_graph_that_does_not_fit_is_refused_before_the_work() -> None:
    with pytest.raises(MemoryForecastError, match="rank=k"):
        pointset.to_points((3_000_000, PATH))
    sparse = pointset.to_points((1_000_000, PATH), matrix="normalized_adjacency", rank=8)
    assert sparse.truncation is None  # a path of 4 nodes among isolated ones has at most 4 eigenvalues
    with pytest.raises(MemoryForecastError, match="rebuilding a graph of 1,000,000 nodes"):
        pointset.to_graph(sparse)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("C6", "expected a PyG Data"),
        (None, "expected a PyG Data"),
        ([[0, 1], [1, 0]], "expected a PyG Data"),
        (np.zeros((2, 3)), "square adjacency"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        (np.zeros((2, 2), dtype=complex), "complex"),
        ((2.0, PATH), "whole number"),
        ((True, []), "whole number"),
        ((4, torch.tensor([[0.0], [1.0]])), "whole numbers"),
        ((4, [[0, 1, 2], [1, 2, 3], [0, 0, 0]]), "expected pairs"),
        (Data(x=torch.ones(3, 1)), "no edge_index"),
        (Data(edge_index=torch.zeros(3, 4, dtype=torch.long)), r"expected \(2, m\)"),
        (Data(x=torch.ones(3, 1), edge_index=PATH_BOTH_WAYS), "outside the graph's 3 nodes"),
        (Data(x=torch.ones(3, 1), edge_index=PATH_BOTH_WAYS, num_nodes=4), "one row for each of the 4 nodes"),
        (Data(edge_index=PATH_BOTH_WAYS, edge_attr=torch.ones(2, 1)), "6 listed edges"),
        (Data(edge_index=PATH_BOTH_WAYS, edge_weight=torch.ones(2)), "each of 6 edges"),
    ],
)  # fmt: skip
def test_what_is_no_graph_gets_a_clear_error(graph: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        pointset.to_points(graph)


def test_a_batch_is_refused_with_the_remedy() -> None:
    batch = Batch.from_data_list([Data(edge_index=PATH_BOTH_WAYS, num_nodes=4)] * 2)
    with pytest.raises(GraphError, match="to_data_list"):
        pointset.to_points(batch)
    assert len(pointset.to_points_many(batch.to_data_list())) == 2


def test_one_graph_where_several_are_expected() -> None:
    with pytest.raises(GraphError, match="expected several graphs"):
        pointset.to_points_many(Data(edge_index=PATH_BOTH_WAYS))


def test_unknown_matrix_names_the_nearest() -> None:
    with pytest.raises(MatrixError, match="did you mean 'laplacian'"):
        pointset.to_points((4, PATH), matrix="laplace")


@pytest.mark.parametrize("rank", [0, -1, 2.5, True, "3"])
def test_impossible_rank(rank: Any) -> None:
    with pytest.raises(RankError, match="whole number of at least 1"):
        pointset.to_points((4, PATH), rank=rank)


def test_two_edges_in_an_array_are_not_guessed() -> None:
    with pytest.raises(GraphError, match="ambiguous"):
        pointset.to_points((4, np.array([[0, 1], [2, 3]])))
    assert pointset.to_points((3, torch.tensor([[0, 1], [1, 2]]))).num_edges == 2  # the same either way
    back = pointset.to_graph(pointset.to_points((4, [(0, 1), (2, 3)])))
    assert back.edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
    assert pointset.to_points((4, {(0, 1), (2, 3)})).num_edges == 2
    assert pointset.to_points((4, zip([0, 2], [1, 3], strict=True))).num_edges == 2


def test_the_number_of_nodes_is_what_pyg_says() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    assert pointset.to_points(Data(edge_index=edge_index, batch=torch.zeros(5, dtype=torch.long))).num_nodes == 5
    for wrong in (3.7, 2**70, -1, True):
        with pytest.raises(GraphError, match="num_nodes"):
            pointset.to_points(Data(edge_index=edge_index, num_nodes=wrong))


def test_duplicates_in_a_scipy_matrix_add_up_without_overflow() -> None:
    twice = scipy.sparse.coo_array((np.array([100, 100] * 2, np.int8), ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert dense_adjacency(pointset.to_graph(pointset.to_points(twice)))[0, 1] == 200


def test_edge_features_of_nan_agree_with_nan_only() -> None:
    nan = float("nan")
    both = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.tensor([[nan], [nan]]))
    assert pointset.to_points(both).num_edges == 1
    one = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.tensor([[nan], [0.0]]))
    with pytest.raises(GraphError, match="different edge features"):
        pointset.to_points(one)


def test_networkx_attributes_are_kept() -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: [1.0, 0.0], 1: [0.0, 1.0], 2: [1.0, 1.0]}, "x")
    nx.set_edge_attributes(graph, {(0, 1): [7], (1, 2): [8]}, "edge_attr")
    graph.graph["y"] = 3.5
    points = pointset.to_points(graph)
    assert points.x is not None and points.x.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert points.edge_attr is not None and points.edge_attr.tolist() == [[7], [8]]
    assert points.y is not None and float(points.y) == 3.5
    del graph.nodes[1]["x"]
    with pytest.raises(GraphError, match="missing on 1 of 3"):
        pointset.to_points(graph)


def test_reading_pyg_gives_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pointset.to_points(from_networkx(nx.karate_club_graph())).num_nodes == 34


NUMBERS = st.integers(-3, 40) | st.integers(2**40) | st.floats()


@given(garbage=st.recursive(st.none() | NUMBERS | st.text(), st.lists, max_leaves=6))
def test_garbage_never_gives_anything_but_a_pointset_error(garbage: Any) -> None:
    values: list[Any] = [garbage, (3, garbage), (garbage, [])]
    for value in values:
        with contextlib.suppress(PointsetError):
            assert isinstance(pointset.to_points(value), pointset.PointSet)
