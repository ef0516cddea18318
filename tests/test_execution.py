"""Options of running a model: autocast, torch.compile, activation checkpointing of memory."""

from __future__ import annotations

import time

import networkx as nx
import pytest
import torch

import pointset
from pointset.encoders import model as execution
from pointset.registry import PRESETS, preset_names

GRAPHS = [nx.cycle_graph(5), nx.path_graph(7), nx.petersen_graph()]


def test_autocast_is_refused_where_it_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "has_bfloat16_products", lambda: False)
    model = pointset.PointModel.from_preset("pst", dim=8, layers=2)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(pointset.errors.SpecError, match="slower than float32"):
        model(GRAPHS)


@pytest.mark.parametrize("preset", [name for name in preset_names("paper") if not PRESETS[name].uses_positions])
def test_autocast_works_where_the_machine_can(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "has_bfloat16_products", lambda: True)
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=16, layers=2, out=2)
    expected = model(GRAPHS)
    with torch.autocast("cpu", torch.bfloat16):
        got = model(GRAPHS)
    got.float().square().sum().backward()
    torch.testing.assert_close(got.float(), expected, rtol=0.1, atol=0.05)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


def test_a_compiled_model_runs_as_written() -> None:
    model = pointset.PointModel.from_preset("pst-released", dim=8, layers=2)
    expected = model(GRAPHS)
    compiled = torch.compile(model)
    start = time.perf_counter()
    torch.testing.assert_close(compiled(GRAPHS), expected)
    assert time.perf_counter() - start < 30  # compiling for three sizes takes minutes


@pytest.mark.parametrize("preset", [name for name in preset_names("paper") if not PRESETS[name].uses_positions])
def test_large_weights_do_not_overflow(preset: str) -> None:
    """A layer is cubic in its vectors: without a bound on their lengths six layers would leave float32."""
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=16, layers=6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
        assert bool(model(GRAPHS).isfinite().all())
