"""Baselines that work on dense graphs: a vanilla transformer, PPGN, NGNN, ID-GNN, Graphormer."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import pointset
from pointset import PointModel, PointSet, Reals
from pointset.baselines.graphs import hop_distances, same_component
from pointset.baselines.pairs import PairNorm
from pointset.baselines.rooted import HOPS
from pointset.encoders.layers import ChannelNorm
from pointset.paper.families import rook, shrikhande
from pointset.training.run import train
from tests.graph_strategies import (
    EDGE_CATEGORIES,
    NODE_CATEGORIES,
    adjacency_matrices,
    asymmetric_graphs,
    relabelled,
    with_features,
)
from tests.small_training import changed, edge_counts, write_graphs

DENSE_BASELINES = ("transformer", "ppgn", "nested-gin", "id-gnn", "graphormer")
FEATURES: dict[str, Any] = {"node": NODE_CATEGORIES, "edge": EDGE_CATEGORIES}
TWO_TRIANGLES = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
NO_PATH = 1_000_000
each_baseline = pytest.mark.parametrize("name", DENSE_BASELINES)


def model_of(name: str, **options: Any) -> PointModel:
    torch.manual_seed(0)
    return PointModel.from_preset(name, **{"out": 2, "dim": 12, "layers": 2} | options).double().eval()


def outputs(name: str, graphs: list[Any], **options: Any) -> Tensor:
    with torch.no_grad():
        result: Tensor = model_of(name, **options)(graphs)
    return result


def difference(first: Tensor, second: Tensor) -> float:
    """Of two rows, relative to their size."""
    return float((first - second).abs().max() / first.abs().max())


@given(adjacency_matrices(max_nodes=30, weighted=False), st.sampled_from([1, 4, 20]))
@settings(max_examples=25)
def test_distances_are_those_of_networkx(adjacency: NDArray[np.float64], most: int) -> None:
    n = len(adjacency)
    expected = np.full((n, n), NO_PATH)
    for source, targets in nx.all_pairs_shortest_path_length(nx.from_numpy_array(adjacency)):
        for target, distance in targets.items():
            expected[source, target] = distance
    stack = torch.from_numpy(np.stack([adjacency, np.ones((n, n)) - np.eye(n)]))  # another graph changes nothing
    np.testing.assert_array_equal(hop_distances(stack, most)[0], np.minimum(expected, most))
    np.testing.assert_array_equal(same_component(stack)[0], expected < NO_PATH)


def test_far_nodes_of_a_long_path_are_not_taken_for_separate_ones() -> None:
    path = torch.from_numpy(nx.to_numpy_array(nx.path_graph(50))).unsqueeze(0)
    assert hop_distances(path, 20)[0, 0].tolist() == [*range(20), *[20] * 30]
    assert same_component(path).all()


@each_baseline
@given(adjacency=adjacency_matrices(min_nodes=1, max_nodes=9, weighted=False), seed=st.integers(0, 1000))
@settings(max_examples=8)
def test_order_of_nodes_and_of_the_batch_do_not_matter(name: str, adjacency: NDArray[np.float64], seed: int) -> None:
    other, permutation = relabelled(adjacency, seed)
    if name == "transformer":  # eigenvectors of repeated eigenvalues are a matter of choice: its known defect
        values = np.linalg.eigvalsh(np.diag(adjacency.sum(0)) - adjacency)
        if (np.diff(values[values > 1e-9]) < 1e-6).any():
            return
    graphs = [nx.from_numpy_array(matrix) for matrix in (adjacency, other)]
    assert_same = torch.testing.assert_close
    model = model_of(name, level="node")
    with torch.no_grad():
        alone = model([graphs[0]])
        together = model([nx.path_graph(3), *graphs, nx.path_graph(len(adjacency))])
    n = len(adjacency)
    assert_same(together[3 : 3 + n], alone)
    assert_same(together[3 + n : 3 + 2 * n][permutation], alone)


@each_baseline
def test_features_of_nodes_and_edges_move_with_the_nodes_and_are_read(name: str) -> None:
    graph = with_features(asymmetric_graphs()[0], seed=1)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    place = order.argsort()
    moved = graph.clone()
    moved.x, moved.edge_index = graph.x[order], place[graph.edge_index]
    others = [graph.clone(), graph.clone()]
    others[0].x = (graph.x + 1) % torch.tensor(NODE_CATEGORIES)
    others[1].edge_attr = (graph.edge_attr + 1) % torch.tensor(EDGE_CATEGORIES)
    first, same, *changed_rows = outputs(name, [graph, moved, *others], **FEATURES)
    assert difference(first, same) < 1e-12
    assert all(difference(first, row) > 1e-6 for row in changed_rows)
    by_node = outputs(name, [graph, moved], level="node", **FEATURES)
    torch.testing.assert_close(by_node[6:], by_node[:6][order])


@each_baseline
@pytest.mark.parametrize("features", [False, True])
def test_graphs_of_all_sizes_give_finite_outputs_and_gradients(name: str, features: bool) -> None:
    sizes = [nx.empty_graph(0), nx.empty_graph(1), nx.empty_graph(4), nx.path_graph(2), nx.star_graph(70)]
    graphs = [with_features(graph, seed) for seed, graph in enumerate([*sizes, nx.gnp_random_graph(30, 0.1, seed=0)])]
    model = model_of(name, dim=10, **(FEATURES if features else {}))
    points = pointset.to_points_many(graphs, progress=False)
    result = model(pointset.collate(list(points)))
    assert result.shape == (6, 2) and result.isfinite().all()
    torch.autograd.backward(result.square().sum())
    for parameter in model.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()
    single = model.float()(pointset.collate(list(points)))
    torch.testing.assert_close(single.double(), result, rtol=1e-3, atol=1e-4)


@each_baseline
def test_real_features_are_read(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    graph = with_features(nx.path_graph(5), seed=0)
    graph.x = torch.rand(5, 3, generator=generator)
    graph.edge_attr = torch.rand(4, 2, generator=generator).repeat(2, 1)
    other = graph.clone()
    other.edge_attr = 2 * graph.edge_attr
    rows = outputs(name, [graph, other], node=Reals(3), edge=Reals(2))
    assert difference(rows[0], rows[1]) > 1e-6


@pytest.mark.parametrize("name", ["ppgn", "nested-gin", "id-gnn"])
def test_two_triangles_and_a_hexagon_are_told_apart(name: str) -> None:
    first, second = outputs(name, [TWO_TRIANGLES, nx.cycle_graph(6)], layers=3)
    assert difference(first, second) > 1e-7  # rounding is nine digits below


def test_ppgn_is_not_stronger_than_2_fwl() -> None:
    first, second = outputs("ppgn", [rook(4), shrikhande()], layers=4)
    assert difference(first, second) < 1e-12


def test_pairs_are_normalised_each_alone() -> None:
    for shape in ((5, 2, 3, 3), (1, 2, 3, 3), (4, 1, 0, 0)):
        x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(PairNorm()(x), ChannelNorm()(x))


def test_ppgn_product_is_the_sum_over_a_third_node() -> None:
    layer: Any = model_of("ppgn", dim=3).get_submodule("encoder.layers.0")
    x = torch.randn(3, 2, 4, 4, dtype=torch.float64)
    normed = layer.norm(x)
    left, right = layer.left(normed), layer.right(normed)
    product = torch.zeros_like(x)
    for i, j, k in itertools.product(range(4), repeat=3):
        product[..., i, j] += left[..., i, k] * right[..., k, j] / 2  # √4
    torch.testing.assert_close(layer(x), x + layer.own(normed) + layer.product(product))


@pytest.mark.parametrize("name", ["nested-gin", "id-gnn"])
def test_a_root_sees_its_subgraph_only(name: str) -> None:
    graph = with_features(nx.path_graph(8), seed=0)
    other = graph.clone()
    other.x = graph.x.clone()
    other.x[7] = (graph.x[7] + 1) % torch.tensor(NODE_CATEGORIES)
    rows = outputs(name, [graph, other], layers=6, level="node", node=NODE_CATEGORIES)
    differs = ((rows[:8] - rows[8:]).abs().amax(-1) > 1e-9).tolist()
    assert differs == [node >= 7 - HOPS for node in range(8)]


def test_transformer_does_not_depend_on_signs_but_on_eigenvectors() -> None:
    points = pointset.to_points(asymmetric_graphs()[3])
    signs = torch.tensor([1.0, -1, -1, 1, -1], dtype=torch.float64)

    def with_vectors(vectors: Tensor) -> PointSet:
        return dataclasses.replace(points, eigenvectors=vectors)

    flipped, zeroed = with_vectors(points.eigenvectors * signs), with_vectors(points.eigenvectors * 0)
    first, second, third = outputs("transformer", [points, flipped, zeroed])
    assert difference(first, second) < 1e-13
    assert difference(first, third) > 1e-3


def test_transformer_sees_which_nodes_have_equal_signs() -> None:
    """Two vectors with equal |u_i|: an encoding of each node alone could not tell them."""
    encoding: Any = model_of("transformer").get_submodule("coordinates.function")
    vectors = torch.tensor([[[0.1], [0.5], [0.3]], [[0.1], [-0.5], [0.3]]], dtype=torch.float64)
    first, second = encoding(torch.ones(2, 1, dtype=torch.float64), vectors).detach().unbind(1)
    assert difference(first, second) > 1e-3


def test_graphormer_tells_far_from_separate() -> None:
    """One bias for separate nodes, and one for each distance: changing the first moves separate nodes only."""
    two_edges, path = (nx.Graph([(0, 1), (2, 3)]), nx.path_graph(4))
    model = model_of("graphormer", node=NODE_CATEGORIES)
    graphs = [with_features(graph, seed=0) for graph in (two_edges, path)]
    with torch.no_grad():
        before = model(graphs)
        model.get_parameter("coordinates.function.table")[-1] += 1
        after = model(graphs)
    assert difference(before[0], after[0]) > 1e-6
    assert difference(before[1], after[1]) == 0


@each_baseline
def test_trained_saved_and_loaded_again(name: str, tmp_path: Path) -> None:
    recipe = changed(write_graphs(tmp_path / "data", edge_counts()), model__preset=name, trainer__epochs=1)
    result = train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    assert np.isfinite(result["test"]["mae"])
    predictor = pointset.load(tmp_path / "run" / "bundle")
    values = predictor.predict([nx.cycle_graph(5), nx.path_graph(4)])
    assert np.isfinite(np.asarray(values)).all() and len(values) == 2
