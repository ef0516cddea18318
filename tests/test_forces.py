"""Differentiating a model twice, as users write it: the example that learns forces, and torch.func."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, hessian, jacrev, stack_module_state, vmap
from torch_geometric.data import Batch, Data

import pointset
from pointset import PointBatch, PointModel
from pointset.errors import SpecError
from tests.graph_strategies import with_features

SCRIPT = Path(__file__).parents[1] / "examples" / "forces.py"
WITH_POSITIONS = ["pst-star", "pst-fast-star", "pst-released-star"]
each_model = pytest.mark.parametrize("preset", WITH_POSITIONS)


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("forces", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_learns(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    first, *_, last = example.main(["--preset", "pst-fast-star", "--steps", "120", "--geometries", "200"])
    assert last.forces < 0.6 * first.forces and last.energies < 0.6 * first.energies
    assert "step  120: energies ±" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["pst-star", "pst-fast-star"])
def test_the_example_learns_well(example: Any, preset: str) -> None:
    first, *_, last = example.main(["--preset", preset])
    assert last.forces < first.forces / 2.5 and last.energies < first.energies / 2.5


def test_the_examples_forces_are_slopes_of_its_potential(example: Any) -> None:
    geometry = example.random_geometries(1, torch.Generator().manual_seed(1))
    positions = geometry.positions.double()
    step = torch.zeros_like(positions)
    step[0, 2, 1] = 1e-5
    ahead, behind = (example.reference_potential(positions + sign * step) for sign in (1, -1))
    assert float(geometry.forces[0, 2, 1]) == pytest.approx(float(behind - ahead) / 2e-5, rel=1e-3)


def model_of(preset: str, seed: int = 0) -> PointModel:
    torch.manual_seed(seed)
    return PointModel.from_preset(preset, node=(5, 3), edge=4, dim=8, layers=2).double()


def molecules() -> list[Data]:
    graphs = [nx.path_graph(4), nx.cycle_graph(4), nx.star_graph(4)]
    return [with_features(graph, seed) for seed, graph in enumerate(graphs)]


def energy_of(model: PointModel) -> tuple[PointBatch, Tensor, Callable[[Tensor], Tensor]]:
    points = model.read(molecules())
    assert points.pos is not None
    return points, points.pos, lambda positions: model(replace(points, pos=positions)).sum()


@each_model
def test_func_grad_by_positions_and_parameters(preset: str) -> None:
    model = model_of(preset)
    points, positions, energy = energy_of(model)
    leaf = positions.clone().requires_grad_()
    torch.testing.assert_close(grad(energy)(positions), torch.autograd.grad(energy(leaf), leaf)[0])
    weights = dict(model.named_parameters())
    found = grad(lambda weights: functional_call(model, weights, (points,)).sum())(weights)
    with pointset.torch_path():
        expected = torch.autograd.grad(model(points).sum(), list(weights.values()), materialize_grads=True,
                                       allow_unused=True)  # fmt: skip
    torch.testing.assert_close(list(found.values()), list(expected))


@each_model
def test_func_grad_of_a_loss_on_forces(preset: str) -> None:
    model = model_of(preset)
    points, positions, energy = energy_of(model)
    weights: dict[str, Tensor] = dict(model.named_parameters())

    def loss(weights: dict[str, Tensor]) -> Tensor:
        forces = grad(lambda where: functional_call(model, weights, (replace(points, pos=where),)).sum())(positions)
        total: Tensor = forces.square().sum()
        return total

    found = grad(loss)(weights)
    leaf = positions.clone().requires_grad_()
    (slope,) = torch.autograd.grad(energy(leaf), leaf, create_graph=True)
    expected = torch.autograd.grad(slope.square().sum(), list(weights.values()), materialize_grads=True,
                                   allow_unused=True)  # fmt: skip
    torch.testing.assert_close(list(found.values()), list(expected))


def test_hessian_and_jacobian() -> None:
    model = model_of("pst-star")
    points, positions, energy = energy_of(model)
    curvature = hessian(energy)(positions)
    side = positions.numel()
    torch.testing.assert_close(curvature.reshape(side, side), curvature.reshape(side, side).mT)
    step = torch.zeros_like(positions)
    step[1, 2] = 1e-5
    slopes = [grad(energy)(positions + sign * step) for sign in (1, -1)]
    torch.testing.assert_close(curvature[1, 2], (slopes[0] - slopes[1]) / 2e-5, rtol=1e-4, atol=1e-6)
    jacobian = jacrev(lambda where: model(replace(points, pos=where)))(positions)
    torch.testing.assert_close(jacobian.sum((0, 1)), grad(energy)(positions))


def test_vmap_over_positions_and_over_an_ensemble() -> None:
    torch.manual_seed(0)
    models = [PointModel.from_preset("pst-star", dim=8, layers=2).double() for _ in range(3)]
    points, positions, energy = energy_of(models[0])
    places = torch.stack([positions, positions + 0.1 * torch.randn_like(positions)])
    torch.testing.assert_close(vmap(energy)(places), torch.stack([energy(place) for place in places]))
    weights, buffers = stack_module_state(models)
    together = vmap(lambda *state: functional_call(models[0], state, (points,)))(weights, buffers)
    torch.testing.assert_close(together, torch.stack([model(points) for model in models]))


def test_graphs_inside_a_transform_are_refused_with_the_remedy() -> None:
    model = model_of("pst-star")
    data = molecules()[0]

    def energy(positions: Tensor) -> Tensor:
        changed = data.clone()
        changed.pos = positions
        output: Tensor = model([changed]).sum()
        return output

    with pytest.raises(SpecError, match=r"got a list inside torch\.func.*model\.read\(graphs\)"):
        grad(energy)(data.pos)


@pytest.mark.parametrize("with_points", [False, True])
def test_forces_of_a_pyg_batch(with_points: bool) -> None:
    model = model_of("pst-star").float()
    data = [pointset.ToPoints()(item) if with_points else item for item in molecules()]
    batch = Batch.from_data_list(data)
    batch.pos.requires_grad_()
    (slope,) = torch.autograd.grad(model(batch).sum(), batch.pos, create_graph=True)
    assert bool(slope.any())
    slope.square().sum().backward()
    assert any(parameter.grad is not None and bool(parameter.grad.any()) for parameter in model.parameters())
