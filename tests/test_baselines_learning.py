"""What every baseline must do to be compared with: learn by heart, train all its weights, have heads, compute in
bfloat16, and take the memory that is forecast.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import pointset
from pointset.baselines.transformers import heads_of
from pointset.encoders.batch import PointBatch, collate
from pointset.encoders.model import PointModel
from pointset.errors import SpecError
from pointset.paper.comparison import matched
from pointset.paper.cost import ANY_GRAPHS
from pointset.registry import preset_names
from pointset.runs.recipe import Recipe
from pointset.training.data import graph_bytes
from tests.graph_strategies import EDGE_CATEGORIES, NODE_CATEGORIES, with_features

FEATURES: dict[str, Any] = {"node": NODE_CATEGORIES, "edge": EDGE_CATEGORIES}
each_baseline = pytest.mark.parametrize("baseline", preset_names("baseline"))


@pytest.fixture(scope="module")
def batch() -> PointBatch:
    connected = [graph for seed in range(30) if nx.is_connected(graph := nx.gnp_random_graph(6, 0.5, seed=seed))][:8]
    graphs = [with_features(graph, seed) for seed, graph in enumerate(connected)]
    return collate([pointset.to_points(graph, dtype=torch.float32) for graph in graphs])


def recipe_of(baseline: str, **size: int) -> Recipe:
    trainer = {"epochs": 1, "batch_size": 4}
    return Recipe.from_dict({"name": "any", "model": {"preset": baseline, **size}, "trainer": trainer})


@each_baseline
def test_eight_graphs_are_learned_by_heart_with_all_weights(baseline: str, batch: PointBatch) -> None:
    torch.manual_seed(0)
    model, targets = PointModel.from_preset(baseline, dim=16, layers=2, **FEATURES), torch.randn(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    steepest = dict.fromkeys(dict(model.named_parameters()), 0.0)
    losses = []
    for _ in range(40):
        loss = (model(batch) - targets).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            steepest[name] = max(steepest[name], float(parameter.grad.abs().max()))
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.05 * losses[0]
    idle = [name for name, slope in steepest.items() if slope < 1e-6]
    assert all(name.endswith("bias") for name in idle)  # a norm takes off what a bias before it adds: as in the papers
    assert sum(model.get_parameter(name).numel() for name in idle) < 0.05 * model.num_parameters


def test_a_width_that_was_searched_for_has_several_heads() -> None:
    """At 99 channels, the nearest to half a million parameters, GPS would have a single head."""
    found = matched(recipe_of("gps", layers=5), "gps", 500_000, ANY_GRAPHS)
    assert found.model.dim == 100
    for baseline in ("gps", "transformer", "graphormer"):
        with pytest.raises(SpecError, match="got dim=99; expected a multiple of 4, such as 96"):
            PointModel.from_preset(baseline, dim=99)
    assert [heads_of(width) for width in (3, 10, 18, 36, 64)] == [1, 2, 2, 4, 8]


@each_baseline
def test_bfloat16(baseline: str, batch: PointBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.encoders.model.has_bfloat16_products", lambda: True)
    torch.manual_seed(0)
    model = PointModel.from_preset(baseline, dim=16, layers=2, **FEATURES).eval()
    with torch.autocast("cpu", torch.bfloat16):
        found = model(batch)
    torch.autograd.backward(found.sum())
    torch.testing.assert_close(found.float(), model(batch), rtol=0.1, atol=0.1)


def kept_bytes(baseline: str, batch: Any) -> int:
    """Of the tensors that a forward pass keeps for the backward pass, without the weights."""
    model = PointModel.from_preset(baseline, dim=32, layers=3).train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(batch)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in kept}
    return sum(size for place, size in storages.items() if place not in weights)


@pytest.mark.parametrize("baseline", ["gin", "gatedgcn", "gps", "graphormer", "ppgn", "id-gnn"])
def test_memory_is_forecast(baseline: str) -> None:
    """Neither refused where it fits, nor begun where it does not; by PST's formula, GIN would need 70 times as much."""
    graphs = [nx.gnm_random_graph(40, 60, seed=seed) for seed in range(4)]
    points = pointset.to_points_many(graphs, dtype=torch.float32, progress=False)
    data: Any = SimpleNamespace(points=points, card=ANY_GRAPHS, part=lambda _: np.arange(4))
    forecast = graph_bytes(recipe_of(baseline, dim=32, layers=3), data).sum()
    assert 1 < forecast / kept_bytes(baseline, list(points)) < 9
