"""Models on the native kernels: the same function as on torch, independent of the batch bit for bit."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

import pointset
from pointset.encoders.layers import PointState
from pointset.encoders.native import native_rows, path_of
from pointset.encoders.pst import PSTLayer
from pointset.native.build import library
from pointset.native.execute import Executable
from pointset.registry import preset_names

pytestmark = pytest.mark.skipif(library() is None, reason="no native kernels here: no C++ compiler")

ON_TORCH = ("psds-released", "pst-linear", "pst-linear-edges")  # see TestTorchPath
PRESETS = [name for name in preset_names("paper") if name not in ON_TORCH]
EDGES = {"categories": pointset.Categories(3), "reals": pointset.Reals(2), "none": None}
SIZES = (1, 2, 5, 9, 9, 13, 20)


def graph(n: int, edge: str, seed: int) -> Data:
    """A random graph, not always connected, with features of every kind."""
    data = from_networkx(nx.gnp_random_graph(n, 0.35, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    data.num_nodes = n
    data.x = torch.randint(0, 5, (n, 2), generator=generator)
    data.pos = torch.randn(n, 3, generator=generator)
    key = data.edge_index.min(0).values * 100 + data.edge_index.max(0).values
    if edge != "none":
        data.edge_attr = key.unsqueeze(1) % 3 if edge == "categories" else torch.stack([key % 7, key % 4], 1) / 5
    return data


def model_of(preset: str, edge: str = "categories", **options: Any) -> pointset.PointModel:
    torch.manual_seed(1)
    settings: dict[str, Any] = {"out": 2, "dim": 12, "layers": 3, **options}
    return pointset.PointModel.from_preset(preset, node=pointset.Categories(5, 5), edge=EDGES[edge], **settings)


def batch_of(model: pointset.PointModel, edge: str = "categories", sizes: tuple[int, ...] = SIZES) -> Any:
    graphs = [graph(n, edge, seed) for seed, n in enumerate(sizes)]
    return pointset.collate(pointset.to_points_many(graphs, matrix=model.matrix, progress=False))


def runs_native(model: pointset.PointModel, batch: Any) -> bool:
    points = model.read(batch)
    return native_rows(model, points, model.readout.level, None, recompute=False) is not None


def value_and_gradients(model: pointset.PointModel, batch: Any) -> tuple[Tensor, list[Tensor]]:
    output = model(batch)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    gradients = torch.autograd.grad((output * weights).sum(), list(model.parameters()), materialize_grads=True,
                                    allow_unused=True)  # fmt: skip
    return output.detach(), list(gradients)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("preset", PRESETS)
def test_native_equals_torch_in_float64(preset: str, edge: str, level: Any) -> None:
    """Value and gradients of every parameter, relative to the largest of each."""
    model = model_of(preset, edge, level=level)
    batch = batch_of(model, edge)
    assert runs_native(model, batch)
    output, gradients = value_and_gradients(model, batch)
    with pointset.torch_path():
        rough, rough_gradients = value_and_gradients(model, batch)
        exact, exact_gradients = value_and_gradients(copy.deepcopy(model).double(), batch)
    assert float((output - rough).abs().max()) <= 1e-5 * float(exact.abs().max())
    largest = max(float(gradient.abs().max()) for gradient in exact_gradients)
    # Where all pairs of the released model weigh something, Σ_j e_ij U_j nearly cancels, as Σ_j U_j = 0; the kernels
    # multiply by f(Λ) before that sum and torch after it, so torch's rounding says little of theirs.
    cancelled = "released" in preset and ("star" in preset or "qm9" in preset or edge == "reals")
    least = (5e-5 if cancelled else 1e-7) * largest
    for native, torch_own, wanted in zip(gradients, rough_gradients, exact_gradients, strict=True):
        off = float((torch_own - wanted).abs().max())  # rounding that torch's own gradient in float32 suffers
        assert float((native - wanted).abs().max()) <= 10 * off + 1e-5 * float(wanted.abs().max()) + least


@pytest.mark.parametrize("preset", PRESETS)
def test_a_graph_is_computed_alike_in_every_batch_bit_for_bit(preset: str) -> None:
    model = model_of(preset)
    graphs = [graph(n, "categories", seed) for seed, n in enumerate(SIZES)]
    points = pointset.to_points_many(graphs, matrix=model.matrix, progress=False)
    together = model.embed(pointset.collate(points))
    for position in range(len(graphs)):  # before the last linear map, which is torch's
        assert torch.equal(model.embed([points[position]])[0], together[position])


def test_threads_change_no_output_and_gradients_only_by_rounding() -> None:
    model = model_of("pst")
    batch = batch_of(model)
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(value_and_gradients(model, batch))
            again = value_and_gradients(model, batch)
            assert all(map(torch.equal, found[-1][1], again[1]))  # the same batch again: the same bits
    finally:
        torch.set_num_threads(threads)
    for output, gradients in found[1:]:
        assert torch.equal(model.embed(batch), model.embed(batch)) and torch.equal(output, found[0][0])
        for one, other in zip(gradients, found[0][1], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))


@pytest.mark.parametrize("preset", ["pst", "pst-released", "psds"])
def test_checkpointing_changes_no_gradient(preset: str) -> None:
    model = model_of(preset)
    batch = batch_of(model)
    _, kept = value_and_gradients(model, batch)
    model.checkpointing = True
    _, again = value_and_gradients(model, batch)
    assert all(map(torch.equal, kept, again))


def test_two_forward_passes_before_their_backward_passes() -> None:
    """Memory of the first is not given to the second."""
    model = model_of("pst")
    first, second = batch_of(model), batch_of(model, sizes=(6, 11))
    expected = [value_and_gradients(model, batch)[1] for batch in (first, second)]
    outputs = [model(batch) for batch in (first, second)]
    for output, wanted in zip(outputs, expected, strict=True):
        weights = torch.linspace(-1, 1, output.numel()).view_as(output)
        found = torch.autograd.grad((output * weights).sum(), list(model.parameters()), allow_unused=True)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True) if a is not None)


def test_a_gradient_taken_twice_is_refused_or_right() -> None:
    model = model_of("pst")
    output = model(batch_of(model)).sum()
    first = torch.autograd.grad(output, list(model.parameters()), retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(output, list(model.parameters()), allow_unused=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None)


def test_gradients_of_gradients_say_how_to_switch() -> None:
    """Of a gradient by the weights alone, and of the forces of a frozen model."""
    model = model_of("pst-star", "none")
    data = graph(6, "none", 0)
    with pytest.raises(RuntimeError, match="torch_path"):
        torch.autograd.grad(model([data]).sum(), list(model.parameters()), create_graph=True, allow_unused=True)
    model.requires_grad_(False)
    data.pos.requires_grad_()
    with pytest.raises(RuntimeError, match="torch_path"):
        torch.autograd.grad(model([data]).sum(), data.pos, create_graph=True)
    with pointset.torch_path():
        (force,) = torch.autograd.grad(model([data]).sum(), data.pos, create_graph=True)
        force.square().sum().backward()
    assert bool(data.pos.grad.any())


def test_a_loss_on_forces_needs_no_switch() -> None:
    model = model_of("pst-star", "none")
    data = graph(6, "none", 0)
    data.pos.requires_grad_()
    assert not runs_native(model, model.read([data]))
    (force,) = torch.autograd.grad(model([data]).sum(), data.pos, create_graph=True)
    force.square().sum().backward()
    assert any(parameter.grad is not None for parameter in model.parameters())
    with torch.no_grad():
        assert runs_native(model, model.read([data]))


def test_forces_equal_those_of_torch() -> None:
    """Those of a frozen model, as a trained one is, are native."""
    model = model_of("pst-star", "none").requires_grad_(False)
    data = graph(6, "none", 0)
    data.pos.requires_grad_()
    assert runs_native(model, model.read([data]))
    (native,) = torch.autograd.grad(model([data]).sum(), data.pos)
    with pointset.torch_path():
        (expected,) = torch.autograd.grad(model([data]).sum(), data.pos)
    torch.testing.assert_close(native, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_a_number_that_is_none_is_not_hidden() -> None:
    model = model_of("pst")
    with torch.no_grad():
        next(model.encoder.parameters()).fill_(torch.nan)
    assert model(batch_of(model)).isnan().any()


class TestTorchPath:
    """What the kernels do not know runs on torch."""

    def test_float64(self) -> None:
        model = model_of("pst").double()
        assert not runs_native(model, batch_of(model)) and "float64" in path_of(model)

    def test_a_baseline(self) -> None:
        assert path_of(model_of("gin")).startswith("torch (a baseline")

    def test_squares_of_each_channel(self) -> None:
        model = model_of("psds-released")
        assert not runs_native(model, batch_of(model))
        assert path_of(model).endswith("a square of the vectors for each channel)")

    @pytest.mark.parametrize("preset", ["pst-linear", "pst-linear-edges"])
    def test_what_has_no_pairs(self, preset: str) -> None:
        model = model_of(preset)
        assert not runs_native(model, batch_of(model))
        assert path_of(model).startswith("torch (the kernels do not know LinearCoordinates")

    def test_a_hook_sees_every_part(self) -> None:
        model, seen = model_of("pst"), []
        handle = model.encoder.register_forward_hook(lambda *_: seen.append(1))
        model(batch_of(model))
        handle.remove()
        assert seen and runs_native(model, batch_of(model))

    def test_a_layer_of_ones_own(self) -> None:
        class Squashed(PSTLayer):
            def forward(self, state: PointState) -> PointState:
                state = super().forward(state)
                return state._replace(s=torch.tanh(state.s))

        model = model_of("pst")
        model.encoder.layers = nn.ModuleList([Squashed(12), *model.encoder.layers[1:]])  # type: ignore[index]
        batch = batch_of(model)
        assert not runs_native(model, batch) and path_of(model).endswith("torch.tanh)")
        assert torch.isfinite(model(batch)).all()

    def test_an_inherited_layer_that_the_kernels_know(self) -> None:
        class Doubled(PSTLayer):
            def forward(self, state: PointState) -> PointState:
                state = super().forward(state)
                return state._replace(s=2.0 * state.s)

        model = model_of("pst")
        model.encoder.layers = nn.ModuleList([Doubled(12), *model.encoder.layers[1:]])  # type: ignore[index]
        batch = batch_of(model)
        assert runs_native(model, batch)
        with pointset.torch_path():
            expected = model(batch)
        torch.testing.assert_close(model(batch), expected, rtol=1e-5, atol=1e-5)

    def test_a_model_whose_encode_was_overridden(self) -> None:
        class Silent(pointset.PointModel):
            def encode(self, group: Any, generator: torch.Generator | None = None) -> Tensor:
                return 0 * super().encode(group, generator)

        model = model_of("pst")
        silent = Silent(model.scalars, model.coordinates, model.encoder, model.readout, matrix=model.matrix)
        output = silent(batch_of(model))
        torch.testing.assert_close(output, model.readout.linear.bias.expand_as(output))

    def test_the_variable_switches_off(self) -> None:
        code = "import pointset; pointset.PointModel.from_preset('pst', dim=4, layers=1).summary()"
        found = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "POINTSET_NATIVE": "0"}, capture_output=True, text=True
        )
        assert "POINTSET_NATIVE=0" in found.stdout


def test_replaced_and_copied_parts_are_recorded_anew() -> None:
    model = model_of("pst")
    batch = batch_of(model)
    before = model(batch)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.mul_(0.5)
    assert not torch.equal(twin(batch), before) and torch.equal(model(batch), before)
    model.encoder = model_of("pst-sum").encoder
    with pointset.torch_path():
        expected = model(batch)
    torch.testing.assert_close(model(batch), expected, rtol=1e-5, atol=1e-5)


def test_functional_call_uses_the_parameters_it_is_given() -> None:
    model = model_of("pst")
    batch = batch_of(model)
    zeros = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    assert float(torch.func.functional_call(model, zeros, (batch,)).detach().abs().max()) == 0
    assert float(model(batch).detach().abs().max()) > 0


def test_nothing_is_kept_where_no_gradient_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forward pass under no_grad needs memory for one graph at a time, not for all of them."""
    plans: list[Any] = []
    right = Executable.run

    def run(self: Executable, plan: Any, call: Any) -> Any:
        plans.append((self, plan))
        return right(self, plan, call)

    monkeypatch.setattr(Executable, "run", run)
    model = model_of("pst")
    batch = batch_of(model)
    with torch.no_grad():
        model(batch)
    with torch.inference_mode():
        model(batch)
    model(batch)
    assert [plan is executable.prediction for executable, plan in plans] == [True, True, False]


def test_many_passes_at_once_and_their_memory() -> None:
    """More blocks of memory than are kept for later, given back in any order."""
    model = model_of("pst")
    batches = [batch_of(model, sizes=(size, size + 3)) for size in (4, 9, 6, 12, 5, 8)]
    expected = [value_and_gradients(model, batch)[1] for batch in batches]
    losses = []
    for batch in batches:
        output = model(batch)
        losses.append((output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum())
    for at in (3, 0, 5, 1, 4, 2):
        found = torch.autograd.grad(losses[at], list(model.parameters()), allow_unused=True)
        assert all(torch.equal(a, b) for a, b in zip(found, expected[at], strict=True) if a is not None)
