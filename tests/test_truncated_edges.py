"""Truncated points do not tell their graph's edges, so these travel with them: in files, in batches, to the models."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from scipy.linalg import block_diag
from torch import Tensor

import pointset
from pointset import PointModel, PointSet
from pointset.baselines.graphs import restored_adjacency
from pointset.encoders.batch import PointBatch, collate
from pointset.encoders.loader import PointLoader
from pointset.errors import FileFormatError, GraphError
from pointset.points.point_files import read_points, write_points
from tests.graph_strategies import adjacency_matrices

MATRICES = ("laplacian", "adjacency", "normalized_adjacency")


def chord(weight: float, *, loop: bool = False) -> nx.Graph[int]:
    """A cycle of twelve nodes with a chord of a weight of its own."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(12))
    graph.add_edges_from(((node, (node + 1) % 12) for node in range(12)), weight=1.0)
    graph.add_edge(0, 5, weight=weight)
    if loop:
        graph.add_edge(3, 3, weight=1.0)
    return graph


def listed_adjacency(batch: PointBatch) -> Tensor:
    """The weighted adjacency matrices that a batch lists, one after the other on the diagonal, in its order."""
    assert batch.edges is not None
    assert batch.edge_weight is not None
    counts = batch.num_nodes[batch.index]
    start = torch.cumsum(counts, 0) - counts
    graph, source, target = batch.edges
    dense = torch.zeros(int(counts.sum()), int(counts.sum()))
    dense[start[graph] + source, start[graph] + target] = batch.edge_weight.float()
    return dense


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_a_batch_lists_the_edges_and_weights_of_truncated_points(matrix: str, weight: float) -> None:
    graph = chord(weight, loop=matrix != "laplacian")  # which cannot see one
    points = pointset.to_points(graph, matrix=matrix, rank=3)
    assert points.truncation is not None
    expected = torch.from_numpy(nx.to_numpy_array(graph)).float()
    torch.testing.assert_close(listed_adjacency(collate([points])), expected)


def test_whole_points_carry_no_edges() -> None:
    points = pointset.to_points(nx.cycle_graph(8), rank=100)
    assert points.edge_index is None
    batch = collate([points])
    assert batch.edges is None
    assert batch.edge_weight is None


def test_a_whole_graph_beside_a_truncated_one_lists_its_edges_too() -> None:
    weighted = chord(2.5)
    sets = [pointset.to_points(nx.path_graph(4), rank=3), pointset.to_points(weighted, rank=3)]
    assert [one.truncation is None for one in sets] == [True, False]
    expected = torch.from_numpy(block_diag(*map(nx.to_numpy_array, (nx.path_graph(4), weighted)))).float()
    torch.testing.assert_close(listed_adjacency(collate(sets)), expected)


@settings(max_examples=40, deadline=None)
@given(adjacency_matrices(max_nodes=9))
def test_the_loader_lists_the_same_edges_as_collate(adjacency: Tensor) -> None:
    many = pointset.to_points_many([adjacency, nx.cycle_graph(9), nx.path_graph(3)], rank=2)
    (batch,) = PointLoader(many, batch_size=3, dtype=torch.float64)
    expected = collate(list(many))
    for name in ("edges", "edge_weight", "edge_attr"):
        got, wanted = getattr(batch, name), getattr(expected, name)
        assert (got is None) == (wanted is None)
        if name == "edges":
            torch.testing.assert_close(listed_adjacency(batch), listed_adjacency(expected))


def test_the_loader_lists_edges_only_where_a_graph_of_the_batch_is_truncated() -> None:
    many = pointset.to_points_many([nx.cycle_graph(9), nx.path_graph(3)], rank=2)
    truncated, whole = PointLoader(many, batch_size=1)
    assert truncated.edges is not None
    assert whole.edges is None


def test_a_file_keeps_edges_and_weights(tmp_path: Path) -> None:
    sets = [pointset.to_points(chord(2.5), rank=3), pointset.to_points(nx.cycle_graph(9), rank=3),
            pointset.to_points(chord(2.5))]  # fmt: skip
    write_points(tmp_path / "some.safetensors", sets)
    back, _ = read_points(tmp_path / "some.safetensors")
    for one, other in zip(sets, back, strict=True):
        for name in ("edge_index", "edge_weight"):
            expected, got = getattr(one, name), getattr(other, name)
            assert (expected is None) == (got is None)
            assert expected is None or torch.equal(expected, got)
    assert back[0].edge_weight is not None
    assert back[1].edge_weight is None
    assert back[2].edge_index is None


def test_edges_of_truncated_points_must_be_there(tmp_path: Path) -> None:
    points = pointset.to_points(chord(1), rank=3)
    points = PointSet(points.eigenvalues, points.eigenvectors, points.matrix, points.num_edges,
                      truncation=points.truncation)  # fmt: skip
    with pytest.raises(GraphError, match="truncated eigenpairs but no edge_index"):
        collate([points])
    write_points(tmp_path / "old.safetensors", [points])  # as files of before were
    assert read_points(tmp_path / "old.safetensors")[0][0].edge_index is None


def test_weights_without_edges_are_a_damaged_file(tmp_path: Path) -> None:
    points = pointset.to_points(chord(1))
    weights = torch.ones(points.num_edges)
    forged = PointSet(points.eigenvalues, points.eigenvectors, points.matrix, points.num_edges, edge_weight=weights)
    write_points(tmp_path / "forged.safetensors", [forged])
    with pytest.raises(FileFormatError, match=r"edges and the features or weights .* do not go together"):
        read_points(tmp_path / "forged.safetensors")


def test_baselines_see_the_graph_and_not_its_approximation() -> None:
    graph = chord(2.5)
    (group,) = collate([pointset.to_points(graph, rank=3)]).groups
    torch.testing.assert_close(restored_adjacency(group)[0], torch.from_numpy(nx.to_numpy_array(graph)))


@pytest.mark.parametrize("preset", ["gcn", "gin", "gatedgcn", "gps"])
def test_message_passing_does_not_depend_on_the_rank(preset: str) -> None:
    torch.manual_seed(0)
    model = PointModel.from_preset(preset, out=2, dim=16, layers=2).double().eval()
    whole, truncated = (pointset.to_points(chord(2.5), rank=rank) for rank in (None, 3))
    torch.testing.assert_close(model(collate([truncated])), model(collate([whole])), rtol=1e-6, atol=1e-8)
