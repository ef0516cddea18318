"""A model as a whole: what can be read out of it, its summary, autocast, torch.compile, large weights."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import summary
from torch_geometric.utils import from_networkx

import pointset
from pointset.encoders import PSDS, OneLayerPST, ReleasedPSDS
from pointset.encoders import model as model_module
from pointset.encoders.layers import size_scale
from pointset.encoders.linear import LinearPST, LocalLinearPST
from pointset.encoders.products import projected_products
from pointset.registry import PRESETS, preset_names

GRAPHS = [nx.cycle_graph(5), nx.path_graph(7), nx.petersen_graph()]
WITHOUT_POSITIONS = [name for name in preset_names("paper") if not PRESETS[name].uses_positions]


@pytest.mark.parametrize("preset", WITHOUT_POSITIONS)
def test_readings_have_the_right_shapes_and_leave_no_trace(preset: str) -> None:
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=8, layers=3, out=2)
    graph = nx.petersen_graph()
    expected = model.eval()([graph])
    model.train()
    seen = model.inspect(graph)
    points = pointset.to_points(graph, matrix=model.matrix)
    channels = 8 // getattr(type(model.encoder), "REPEATS", 1)  # of vectors and pairs
    assert seen.coordinates.shape == (10, points.rank, channels)
    assert seen.functions.shape == (points.rank, channels)
    maps = {PSDS: 0, ReleasedPSDS: 0, LinearPST: 0, LocalLinearPST: 0, OneLayerPST: 1}.get(type(model.encoder), 3)
    assert [tuple(weights.shape) for weights in seen.attention] == [(channels, 10, 10)] * maps
    torch.testing.assert_close(seen.output, expected)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_coordinates_are_eigenvectors_times_functions() -> None:
    model = pointset.PointModel.from_preset("pst", dim=8, layers=1)
    points = pointset.to_points(nx.path_graph(6), dtype=torch.float32)
    seen = model.inspect(points)
    torch.testing.assert_close(seen.coordinates, points.parameterized_coordinates(lambda values: seen.functions))


def test_attention_is_what_weighs_the_sums() -> None:
    """A model of one layer: its scalars are the first ones plus the sums with the attention read out."""
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset("pst-onelayer", dim=4, layers=1, level="node").double()
    graph = nx.path_graph(5)
    seen = model.inspect(graph)
    group = model.read([graph]).groups[0]
    s = model.scalars(group)[:, 0]
    values = model.encoder.values[0](model.encoder.norm_s(s))  # type: ignore[operator, index]
    expected = s + torch.einsum("cij,cj->ci", seen.attention[0], values)
    torch.testing.assert_close(model.embed([graph]).mT, expected)
    assert size_scale(5) == pytest.approx(5**-0.925)


def test_summary_lists_parts_and_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    model = pointset.PointModel.from_preset("pst-released", node=28, edge=(4, 3), dim=16, layers=3, out=2)
    model.summary()
    text = capsys.readouterr().out
    assert "encoder.layers[0…1]" in text
    assert "(graphs, 2)" in text
    total = sum(p.numel() for p in model.parameters())
    assert f"{total:,}" in text.splitlines()[-2]
    assert text.splitlines()[-1].startswith("computed by: ")
    numbers = [int(line.split()[-1].replace(",", "")) for line in text.splitlines()[2:-3]]
    assert sum(numbers) == total


@pytest.mark.parametrize("preset", ["pst", "pst-fast", "psds", "gin", "gps"])
def test_pygs_summary(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyG lays the table out with tabulate, which need not be installed: here the rows are joined."""
    rows = SimpleNamespace(tabulate=lambda content, **_: "\n".join(map(" ".join, content)), __spec__=None)
    monkeypatch.setitem(sys.modules, "tabulate", rows)
    model = pointset.PointModel.from_preset(preset, dim=8, layers=2, out=3)
    batch = Batch.from_data_list([from_networkx(graph) for graph in GRAPHS])
    lines = summary(model, batch).splitlines()
    assert lines[1].split()[0] == "PointModel" and f"[3, 3] {model.num_parameters:,}" in lines[1]
    assert any("(encoder)" in line and "[8, " in line for line in lines)  # the hooks saw what went through


def test_autocast_is_refused_where_it_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "has_bfloat16_products", lambda: False)
    model = pointset.PointModel.from_preset("pst", dim=8, layers=2)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(pointset.errors.SpecError, match="slower than float32"):
        model(GRAPHS)


@pytest.mark.parametrize("preset", WITHOUT_POSITIONS)
def test_autocast_works_where_the_machine_can(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "has_bfloat16_products", lambda: True)
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=16, layers=2, out=2)
    expected = model(GRAPHS)
    with torch.autocast("cpu", torch.bfloat16):
        got = model(GRAPHS)
    got.float().square().sum().backward()
    torch.testing.assert_close(got.float(), expected, rtol=0.1, atol=0.05)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@pytest.mark.parametrize(("preset", "exponent"), [("pst-released", 0.925), ("pst-released-struct", 0.95)])
def test_attention_is_read_out_with_the_factor_of_its_layer(preset: str, exponent: float) -> None:
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=4, layers=1).double()
    group = model.read([nx.path_graph(5)]).groups[0]
    layer: Any = model.encoder.layers[0]  # type: ignore[index]
    products, _ = projected_products(layer.projections(layer.norm_v(model.coordinates(group))))
    expected = 5**-exponent * layer.attention(products, None)[:, 0]
    torch.testing.assert_close(model.inspect(nx.path_graph(5)).attention[0], expected)


def test_a_compiled_model_runs_as_written() -> None:
    model = pointset.PointModel.from_preset("pst-released", dim=8, layers=2)
    expected = model(GRAPHS)
    compiled = torch.compile(model)
    start = time.perf_counter()
    torch.testing.assert_close(compiled(GRAPHS), expected)
    assert time.perf_counter() - start < 30  # compiling for three sizes takes minutes


@pytest.mark.parametrize("preset", [name for name in WITHOUT_POSITIONS if name != "psds-released"])  # nothing bounds it
def test_large_weights_do_not_overflow(preset: str) -> None:
    """A layer is cubic in its vectors: without a bound on their lengths six layers would leave float32."""
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=16, layers=6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
        assert bool(model(GRAPHS).isfinite().all())
