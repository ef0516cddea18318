"""Message passing: edges from points, layers against plain formulas, symmetry, hard batches, whole runs."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import nn

import pointset
from pointset import Categories, PointModel, Reals
from pointset.baselines.graphs import EdgeList, restored_adjacency, return_probabilities
from pointset.baselines.message_passing import GatedGCNLayer, GCNLayer, GINConvolution, RowNorm, mean_at
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.encoders.batch import collate
from pointset.errors import TrainingStopped
from pointset.runs.recipe import Recipe
from pointset.testing import assert_invariant
from pointset.training.run import train
from tests.card_data import dataset_like
from tests.graph_strategies import EDGE_CATEGORIES, NODE_CATEGORIES, adjacency_matrices, with_features
from tests.small_training import changed, edge_counts, random_graphs, write_graphs
from tests.test_training import Stopper

BASELINES = ("gin", "gcn", "gatedgcn", "gps")
FEATURES: dict[str, Any] = {"node": NODE_CATEGORIES, "edge": EDGE_CATEGORIES}
each_baseline = pytest.mark.parametrize("baseline", BASELINES)
TRIANGLE_WITH_TAIL = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])  # and node 4 alone


def model_of(baseline: str, *, seed: int = 0, **changes: Any) -> PointModel:
    """In float64, with running statistics and weights that are not those of the beginning."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PointModel.from_preset(baseline, **({"out": 2, "dim": 10, "layers": 3} | changes)).double()
        for part in model.modules():
            if isinstance(part, RowNorm):
                part.mean.normal_(0, 0.2)
                part.variance.uniform_(0.5, 2)
                nn.init.uniform_(part.scale, 0.5, 2)
    return model.eval()


def mixed_graphs() -> list[Any]:
    """No node, one, several without edges, more than one component, one size twice."""
    graphs = [
        nx.empty_graph(1),
        nx.lollipop_graph(4, 3),
        nx.empty_graph(0),
        nx.empty_graph(4),
        nx.gnp_random_graph(20, 0.2, seed=0),
        nx.disjoint_union(nx.path_graph(3), nx.cycle_graph(4)),
        nx.star_graph(6),
    ]
    return [with_features(graph, seed) for seed, graph in enumerate(graphs)]


class TestEdges:
    @settings(max_examples=30, deadline=None)
    @given(adjacency=adjacency_matrices(max_nodes=25), dtype=st.sampled_from([torch.float32, torch.float64]))
    def test_the_points_tell_every_edge_and_its_weight(
        self, adjacency: NDArray[np.float64], dtype: torch.dtype
    ) -> None:
        points = pointset.to_points(adjacency).to(dtype).to(torch.float64)  # also points that were rounded before
        group = collate([points, points]).groups[0]
        edges, weights, features, walks = EdgeList(nn.Identity())(group)
        expected = torch.from_numpy(adjacency).nonzero().mT
        assert features is None and walks is None and weights is not None
        for graph in (0, 1):
            assert torch.equal(edges[1:, edges[0] == graph], expected)
        error = np.abs(weights[edges[0] == 1].numpy() - adjacency[adjacency != 0])
        assert error.max(initial=0) <= (1e-4 if dtype == torch.float32 else 1e-10)

    @settings(max_examples=20, deadline=None)
    @given(adjacency=adjacency_matrices(max_nodes=12), steps=st.integers(1, 7))
    def test_walks_are_powers(self, adjacency: NDArray[np.float64], steps: int) -> None:
        degrees = adjacency.sum(1, keepdims=True)
        walk = np.divide(adjacency, degrees, out=np.zeros_like(adjacency), where=degrees > 0)
        found = return_probabilities(torch.from_numpy(adjacency)[None], steps)[:, 0]
        expected = [np.linalg.matrix_power(walk, k).diagonal() for k in range(1, steps + 1)]
        np.testing.assert_allclose(found.numpy(), np.array(expected).reshape(steps, -1), atol=1e-12)

    def test_a_high_degree_hides_no_edge(self) -> None:
        adjacency = nx.to_numpy_array(nx.star_graph(600))
        points = pointset.to_points(adjacency, dtype=torch.float32)
        assert np.array_equal(restored_adjacency(collate([points]).groups[0])[0].round().numpy(), adjacency)


class TestLayers:
    h = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    e = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    weights = torch.tensor([1.0, 1.0, 2.0, 2.0, 0.5, 0.5, 3.0, 3.0])

    def test_gin_is_that_of_pyg(self) -> None:
        from torch_geometric.nn import GINConv, GINEConv

        ours = GINConvolution(nn.Linear(6, 6))
        nn.init.constant_(ours.epsilon, 0.3)
        plain, with_edges = GINConv(ours.mlp, eps=0.3), GINEConv(ours.mlp, eps=0.3)
        torch.testing.assert_close(ours(self.h, TRIANGLE_WITH_TAIL), plain(self.h, TRIANGLE_WITH_TAIL))
        torch.testing.assert_close(
            ours(self.h, TRIANGLE_WITH_TAIL, features=self.e), with_edges(self.h, TRIANGLE_WITH_TAIL, self.e)
        )
        dense = torch.zeros(5, 5).index_put((TRIANGLE_WITH_TAIL[1], TRIANGLE_WITH_TAIL[0]), self.weights)
        weighted = ours(self.h, TRIANGLE_WITH_TAIL, weights=self.weights)
        torch.testing.assert_close(weighted, ours.mlp(1.3 * self.h + dense @ self.h))

    def test_gcn_is_its_formula(self) -> None:
        torch.manual_seed(0)
        layer = GCNLayer(6).eval()
        looped = torch.eye(5).index_put((TRIANGLE_WITH_TAIL[1], TRIANGLE_WITH_TAIL[0]), self.weights)
        root = looped.sum(1).rsqrt()
        product = root[:, None] * looped * root @ self.h @ layer.convolution.lin.weight.mT + layer.convolution.bias
        expected = self.h + torch.relu(product / (1 + RowNorm.EPSILON) ** 0.5)
        torch.testing.assert_close(layer(self.h, TRIANGLE_WITH_TAIL, self.weights), expected)

    def test_gated_gcn_by_loops(self) -> None:
        torch.manual_seed(0)
        layer = GatedGCNLayer(6, last=False).eval()
        found, edges = layer(self.h, self.e, TRIANGLE_WITH_TAIL)
        matrices = list(zip(layer.nodes.weight.view(4, 6, 6), layer.nodes.bias.view(4, 6), strict=True))
        a, b, u, v = ([matrix @ row + bias for row in self.h] for matrix, bias in matrices)
        norm, received = (1 + RowNorm.EPSILON) ** 0.5, torch.zeros(5, 6)
        for number, (j, i) in enumerate(TRIANGLE_WITH_TAIL.mT.tolist()):
            state = a[i] + b[j] + layer.edges(self.e[number])
            received[i] = received[i] + torch.sigmoid(state) * v[j]
            torch.testing.assert_close(edges[number], self.e[number] + torch.relu(state / norm))
        torch.testing.assert_close(found, self.h + torch.relu((torch.stack(u) + received) / norm))

    def test_the_mean_over_incident_edges(self) -> None:
        mean = mean_at(TRIANGLE_WITH_TAIL[1], self.e, 5)
        torch.testing.assert_close(mean[2], (self.e[2] + self.e[4] + self.e[7]) / 3)
        assert mean[4].tolist() == [0.0] * 6

    def test_normalisation_is_that_of_torch(self) -> None:
        ours, theirs = RowNorm(6), nn.BatchNorm1d(6)
        torch.testing.assert_close(ours(self.h), theirs(self.h))
        torch.testing.assert_close(ours.eval()(self.e), theirs.eval()(self.e))  # the running statistics too


@each_baseline
def test_two_triangles_and_a_hexagon(baseline: str) -> None:
    """1-WL does not see the difference; walks that return after three steps do."""
    triangles, hexagon = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), nx.cycle_graph(6)
    one, other = model_of(baseline)([triangles, hexagon])
    assert torch.allclose(one, other, rtol=0, atol=1e-12) == (baseline != "gps")
    assert not torch.allclose(one, other, atol=1e-3) or baseline != "gps"


@pytest.mark.parametrize(
    ("baseline", "level", "features"), [*itertools.product(BASELINES, ("graph", "node"), ({}, FEATURES))]
)
def test_only_the_graph_matters(baseline: str, level: Literal["graph", "node"], features: dict[str, Any]) -> None:
    """Order of nodes, basis of the points, the rest of the batch."""
    assert_invariant(model_of(baseline, level=level, **features), mixed_graphs(), repeats=1)


@each_baseline
def test_weights_and_features_matter(baseline: str) -> None:
    heavy, light = (np.array([[0, 1, 0], [1, 0, w], [0, w, 0]], dtype=float) for w in (1.0, 2.5))
    one, other = model_of(baseline)([heavy, light])
    assert not torch.allclose(one, other, atol=1e-3)
    graph = with_features(nx.path_graph(4), 0)
    changed_edge = graph.clone()
    changed_edge.edge_attr = (graph.edge_attr + 1) % EDGE_CATEGORIES[0]
    one, other = model_of(baseline, **FEATURES)([graph, changed_edge])
    assert not torch.allclose(one, other, atol=1e-3)


@each_baseline
@pytest.mark.parametrize("graphs", [[nx.empty_graph(1)], [nx.empty_graph(0)], [nx.empty_graph(3)], [nx.path_graph(2)]])
def test_the_smallest_batches_train(baseline: str, graphs: list[Any]) -> None:
    """One row has no variance, none no mean; gradients stay numbers."""
    for features in ({}, FEATURES):
        model = model_of(baseline, **features).train()
        outputs = model([with_features(graph, 0) for graph in graphs])
        outputs.sum().backward()
        assert outputs.shape == (1, 2)
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
        assert all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values())


@each_baseline
def test_any_width_and_features_and_the_count_without_memory(baseline: str) -> None:
    for dim, layers in ((1, 1), (7, 2), (30, 3)):
        for specs in ({}, {"node": Reals(3), "edge": Reals(2)}, {"node": Categories(28), "edge": Categories(4)}):
            with torch.device("meta"):
                counted = PointModel.from_preset(baseline, dim=dim, layers=layers, **specs).num_parameters
            assert counted == PointModel.from_preset(baseline, dim=dim, layers=layers, **specs).num_parameters > 0
    graph = with_features(nx.cycle_graph(5), 0)
    graph.x, graph.edge_attr = torch.rand(5, 3), torch.rand(10, 1).repeat(1, 2)
    graph.edge_attr = graph.edge_attr[:5].repeat(2, 1)
    output = PointModel.from_preset(baseline, dim=7, layers=2, node=Reals(3), edge=Reals(2))([graph])
    assert output.shape == (1, 1) and bool(output.isfinite().all())


@each_baseline
def test_a_run_and_its_bundle(baseline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On nodes and edges with features; for every other baseline the targets are of nodes."""
    level = Level.NODE if baseline in ("gcn", "gps") else Level.GRAPH
    card = Card(
        name="small",
        title="Small",
        description="Random targets.",
        level=level,
        task=Task.REGRESSION,
        targets=(Target("t"),),
        metric=Metric.MAE,
        split="none",
        node=Categories(7, 5),
        edge=Categories(3),
    )
    dataset = dataset_like(card)
    monkeypatch.setattr("pointset.training.data._read", lambda *_: dataset)
    plain = {
        "name": "small",
        "dataset": {"file": "not read"},
        "model": {"preset": baseline, "dim": 8, "layers": 2},
        "optimizer": {"lr": 0.005},
        "trainer": {"epochs": 1, "batch_size": 3, "threads": 1, "ema": 0.9},
    }
    result = train(Recipe.from_dict(plain), tmp_path / "run", device="cpu", watch="quiet")
    rows = list(csv.DictReader((tmp_path / "run" / "predictions.csv").read_text().splitlines()))
    predicted = pointset.load(tmp_path / "run").predict([dataset.arrays[int(g)] for g in dataset.split["test"]])
    numbers = torch.cat([*predicted]).flatten().tolist()
    assert np.isfinite(result["test"]["mae"]) and len(numbers) == len(rows) > 0
    assert numbers == pytest.approx([float(row["predicted_t"]) for row in rows], rel=1e-4, abs=1e-5)


def test_a_resumed_run_ends_at_the_same_weights_and_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = changed(write_graphs(tmp_path / "data", edge_counts()), model__preset="gin", trainer__ema=0.9)
    train(recipe, tmp_path / "unbroken", device="cpu", watch="quiet")
    with monkeypatch.context() as patch:
        patch.setattr("pointset.training.run.watcher_for", lambda *_, **__: Stopper(5))
        with pytest.raises(TrainingStopped):
            train(recipe, tmp_path / "broken", device="cpu", watch="quiet")
    train(recipe, tmp_path / "broken", device="cpu", watch="quiet", resume=True)
    one, other = (load_file(tmp_path / name / "checkpoints" / "last.safetensors") for name in ("unbroken", "broken"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    statistics = [name for name in one if name.startswith("model/") and name.endswith("variance")]
    assert len(statistics) == 4 and not any(bool((one[name] == 1).all()) for name in statistics)
    for name in statistics:  # weights are averaged, statistics are those of the model
        assert torch.equal(one[name], one[name.replace("model/", "average/module.")])
    graphs = random_graphs(3)
    assert bool(pointset.load(tmp_path / "broken").predict(graphs).isfinite().all())
