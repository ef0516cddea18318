"""Padded buckets: the same results, gradients and forces as groups of equal size, and a plan that is the cheapest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args
from unittest import mock

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import pointset
from pointset import PointModel
from pointset.encoders import batch as batch_module
from pointset.encoders import model as model_module
from pointset.encoders.batch import PointBatch
from pointset.encoders.buckets import Padding, Run, planned_buckets
from pointset.encoders.coordinates import Coordinates
from pointset.encoders.layers import PointState, Pooling
from pointset.registry import PRESETS, preset_names
from tests.graph_strategies import EDGE_CATEGORIES, NODE_CATEGORIES, edge_spec, with_features
from tests.tolerances import near, terms_of_model

PAPER = preset_names("paper")
TERMS = terms_of_model(nodes=12, dim=8, layers=3)
Plan = Callable[..., list[list[Run]]]


def in_one_bucket(runs: Sequence[Run], *_: Any) -> list[list[Run]]:
    return [list(runs)]


def by_size(runs: Sequence[Run], *_: Any) -> list[list[Run]]:
    return [[run] for run in runs]


@contextmanager
def planned(plan: Plan) -> Iterator[None]:
    """Inside, batches are cut by this plan."""
    with mock.patch.object(batch_module, "planned_buckets", plan):
        yield


def graphs_of_many_sizes(matrix: str = "laplacian") -> PointBatch:
    """No nodes, one, up to 12; separate components, so that equal n have different ranks; some sizes twice."""
    graphs = [
        nx.path_graph(7),
        nx.empty_graph(0),
        nx.gnp_random_graph(12, 0.4, seed=1),
        nx.empty_graph(1),
        nx.disjoint_union(nx.path_graph(3), nx.cycle_graph(4)),
        nx.empty_graph(4),
        nx.complete_graph(5),
        nx.star_graph(6),
    ]
    return pointset.collate(
        [pointset.to_points(with_features(graph, seed), matrix=matrix) for seed, graph in enumerate(graphs)]
    )


def model_of(preset: str, dtype: torch.dtype = torch.float64, **options: Any) -> PointModel:
    """Weights that differ from those at the beginning, so that no bias is zero by chance."""
    torch.manual_seed(0)
    features: dict[str, Any] = {"node": NODE_CATEGORIES, "edge": edge_spec(preset)}
    made = PointModel.from_preset(preset, dim=8, layers=3, out=2, **features, **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.to(dtype)


def outputs_and_gradients(model: PointModel, batch: PointBatch, plan: Plan) -> list[Tensor]:
    """Outputs, and the gradients of all weights in one row: small ones are differences of large ones."""
    with planned(plan):
        output = model(batch)
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view_as(output).to(output.dtype)
    gradients = torch.autograd.grad((output * weights).sum(), list(model.parameters()))
    return [output.detach(), torch.cat([gradient.flatten() for gradient in gradients])]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("preset", PAPER)
def test_padding_changes_neither_outputs_nor_gradients(
    preset: str, level: Literal["graph", "node"], dtype: torch.dtype
) -> None:
    model, batch = model_of(preset, dtype, level=level), graphs_of_many_sizes(PRESETS[preset].matrix)
    assert model.takes_padding
    expected = outputs_and_gradients(model, batch, by_size)
    got = outputs_and_gradients(model, batch, in_one_bucket)
    assert all(near(one, other, terms=TERMS, dtype=dtype) for one, other in zip(got, expected, strict=True))


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_pooling_leaves_padded_rows_out(pooling: Pooling) -> None:
    model, batch = model_of("pst", pooling=pooling), graphs_of_many_sizes()
    expected = outputs_and_gradients(model, batch, by_size)
    got = outputs_and_gradients(model, batch, in_one_bucket)
    assert all(near(one, other, terms=TERMS, dtype=torch.float64) for one, other in zip(got, expected, strict=True))
    assert bool(got[0].isfinite().all())


@pytest.mark.parametrize("level", ["graph", "node"])
def test_representations_of_either_level(level: Literal["graph", "node"]) -> None:
    model, batch = model_of("pst"), graphs_of_many_sizes()
    with planned(by_size):
        expected = model.embed(batch, level=level)
    with planned(in_one_bucket):
        got = model.embed(batch, level=level)
    assert near(got, expected, terms=TERMS, dtype=torch.float64)
    assert len(got) == (batch.num_graphs if level == "graph" else int(batch.num_nodes.sum()))


@pytest.mark.parametrize("preset", ["pst", "pst-released", "psds"])
def test_in_pieces_and_with_checkpointing(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_of(preset), graphs_of_many_sizes()
    expected = outputs_and_gradients(model, batch, in_one_bucket)
    monkeypatch.setattr(model_module, "_PIECE_BYTES", 3 * 8 * 12 * 12 * 8)  # three graphs
    model.checkpointing = True
    got = outputs_and_gradients(model, batch, in_one_bucket)
    assert all(near(one, other, terms=TERMS, dtype=torch.float64) for one, other in zip(got, expected, strict=True))


def test_noise_is_on_real_rows_and_columns_only() -> None:
    model, batch = model_of("pst", noise=0.5).train(), graphs_of_many_sizes().to(torch.float64)
    with planned(in_one_bucket):
        (bucket,) = batch.buckets(8)
    assert bucket.padding is not None and isinstance(model.coordinates, Coordinates)
    generator = torch.Generator().manual_seed(0)
    _, vectors = model.coordinates._eigenpairs(bucket, generator)
    noise = (vectors - bucket.eigenvectors) != 0
    real = bucket.padding.rows.unsqueeze(-1) * bucket.padding.columns.unsqueeze(-2) > 0
    assert torch.equal(noise, real)
    v: Tensor = model.coordinates(bucket, generator)
    assert bool((v.masked_fill(real, 0.0) == 0).all())


@pytest.mark.parametrize("preset", PAPER)
def test_vectors_stay_zero_in_padding_through_all_layers(preset: str) -> None:
    model, batch = model_of(preset), graphs_of_many_sizes(PRESETS[preset].matrix).to(torch.float64)
    states: list[PointState] = []
    model.encoder.register_forward_hook(lambda _module, _arguments, state: states.append(state))
    with planned(in_one_bucket):
        model(batch)
    (state,) = states
    assert state.padding is not None
    real = state.padding.rows.unsqueeze(-1) * state.padding.columns.unsqueeze(-2) > 0
    assert bool((state.v.masked_fill(real, 0.0) == 0).all()) and bool(state.s.isfinite().all())


def test_what_a_bucket_holds() -> None:
    batch = graphs_of_many_sizes().to(torch.float64)
    with planned(in_one_bucket):
        (bucket,) = batch.buckets(8)
    padding = bucket.padding
    assert isinstance(padding, Padding) and bucket.shape == (8, 12, 11)
    row = 0
    for group in batch.groups:
        graphs, n, r = group.shape
        rows = slice(row, row + graphs)
        assert torch.equal(bucket.index[rows], group.index)
        assert torch.equal(bucket.eigenvalues[rows, :r], group.eigenvalues)
        assert torch.equal(bucket.eigenvectors[rows, :n, :r], group.eigenvectors)
        assert not bucket.eigenvalues[rows, r:].any() and not bucket.eigenvectors[rows, n:].any()
        assert not bucket.eigenvectors[rows, :, r:].any()
        for padded, plain in ((bucket.x, group.x), (bucket.pos, group.pos)):
            assert padded is not None and plain is not None and torch.equal(padded[rows, :n], plain)
        assert padding.nodes[rows].tolist() == [[n]] * graphs and padding.ranks[rows].tolist() == [[r]] * graphs
        assert padding.rows[rows].sum(1).tolist() == [n] * graphs
        assert padding.columns[rows].sum(1).tolist() == [r] * graphs
        row += graphs
    assert bucket.edges is not None and batch.edges is not None and torch.equal(bucket.edges, batch.edges)


class MeanOfRows(nn.Module):
    """An encoder that knows nothing of padding."""

    def forward(self, state: PointState) -> PointState:
        return PointState(state.s + state.v.square().sum(-1).mean(-1, keepdim=True), state.v)


class OwnCoordinates(Coordinates):
    """A subclass that does not say that it takes padding."""


def test_a_part_that_knows_nothing_of_padding_gets_graphs_of_equal_size() -> None:
    batch = graphs_of_many_sizes()
    for part, own in (("encoder", MeanOfRows()), ("coordinates", OwnCoordinates(nn.Tanh())), ("layer", MeanOfRows())):
        model = model_of("pst")
        if part == "layer":
            layers: Any = model.encoder.layers
            layers[1] = own
        elif part == "coordinates":
            own.function = model.coordinates.function
            model.coordinates = own
        else:
            setattr(model, part, own)
        assert not model.takes_padding
        together = model(batch)
        with planned(in_one_bucket):
            assert torch.equal(model(batch), together), part


# Gradients of gradients


def molecules_in_space(matrix: str) -> PointBatch:
    graphs = [
        with_features(graph, seed) for seed, graph in enumerate((nx.path_graph(3), nx.cycle_graph(4), nx.star_graph(4)))
    ]
    return pointset.collate([pointset.to_points(graph, matrix=matrix) for graph in graphs])


def force_loss(model: PointModel, batch: PointBatch, pos: Tensor) -> Tensor:
    """Mean square of the forces −∂E/∂p, as a loss has them."""
    energy = model(dataclasses.replace(batch, pos=pos)).sum()
    (gradient,) = torch.autograd.grad(energy, pos, create_graph=True)
    return gradient.square().mean()


@pytest.mark.parametrize("plan", [by_size, in_one_bucket])
@pytest.mark.parametrize("preset", ["pst-star", "pst-fast-star", "pst-released-star"])
def test_a_loss_on_forces_has_the_right_gradient(preset: str, plan: Plan) -> None:
    torch.manual_seed(0)
    model = PointModel.from_preset(preset, node=NODE_CATEGORIES, edge=EDGE_CATEGORIES, dim=4, layers=2).double()
    batch = molecules_in_space(model.matrix).to(torch.float64)
    assert batch.pos is not None
    pos = batch.pos.clone().requires_grad_()
    generator = torch.Generator().manual_seed(1)
    with planned(plan):
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(force_loss(model, batch, pos), parameters, allow_unused=True)
        assert sum(gradient is not None and bool(gradient.any()) for gradient in gradients) > len(parameters) / 2
        for parameter, gradient in zip(parameters, gradients, strict=True):
            direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            step = 1e-5
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
            ahead = float(force_loss(model, batch, pos).detach())
            with torch.no_grad():
                parameter.sub_(direction, alpha=2 * step)
            behind = float(force_loss(model, batch, pos).detach())
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
            slope = 0.0 if gradient is None else float((gradient * direction).sum())
            assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("preset", ["pst", "psds", "pst-sum", "pst-onelayer"])
def test_second_derivatives_by_the_weights(preset: str) -> None:
    """A gradient penalty: every other model can be differentiated twice, too."""
    model = model_of(preset)
    batch = molecules_in_space(model.matrix)
    parameters = list(model.parameters())
    first = torch.autograd.grad(model(batch).square().sum(), parameters, create_graph=True)
    penalty = torch.stack([gradient.square().sum() for gradient in first]).sum()
    assert all(bool(part.isfinite().all()) for part in torch.autograd.grad(penalty, parameters))


# The plan


sizes = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 40)), min_size=1, max_size=6, unique_by=lambda pair: pair[1]
)


def runs_of(drawn: list[tuple[int, int]]) -> list[Run]:
    return [Run(graphs, n, max(n - 1, 0), 0) for graphs, n in sorted(drawn, key=lambda pair: pair[1])]


def cost(buckets: Sequence[Sequence[Run]], h: int, start: float, passes: float) -> float:
    total = 0.0
    for bucket in buckets:
        graphs, n, r = sum(run.graphs for run in bucket), max(run.nodes for run in bucket), max(r.rank for r in bucket)
        multiply_adds = n * n * (2 * r * h + 3 * h * h) + 6 * n * r * h * h
        total += graphs * (multiply_adds + passes * (n * n * h + n * r * h)) + start
    return total


@given(sizes, st.sampled_from([8, 32, 80]))
def test_the_plan_is_the_cheapest_of_all(drawn: list[tuple[int, int]], channels: int) -> None:
    from pointset.encoders.buckets import _PASSES, _START

    runs = runs_of(drawn)
    got = planned_buckets(runs, channels)
    assert list(itertools.chain(*got)) == runs
    every = (
        [runs[a:b] for a, b in itertools.pairwise([0, *cuts, len(runs)])]
        for count in range(len(runs))
        for cuts in itertools.combinations(range(1, len(runs)), count)
    )
    best = min(cost(buckets, channels, _START["cpu"], _PASSES) for buckets in every)
    assert cost(got, channels, _START["cpu"], _PASSES) == pytest.approx(best, rel=1e-12)


def test_small_graphs_share_a_bucket_and_large_ones_do_not() -> None:
    small = runs_of([(1, n) for n in range(5, 9)])
    large = runs_of([(4, n) for n in (100, 150, 200)])
    assert planned_buckets(small + large, 32) == [small, *([run] for run in large)]
