"""pst-fast against its equations, written as loops over points and pairs."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import pointset
from pointset.arrays import Array
from pointset.encoders.batch import PointGroup
from pointset.encoders.fast import FastPSTLayer, FastSummingPSTLayer, FirstDistances, FirstPairs
from pointset.encoders.layers import PointState
from pointset.errors import SpecError

D, H, N, R = 6, 3, 4, 3


def array(x: Any) -> Array:
    return np.asarray(x.detach().double())


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def layer_norm(x: Array) -> Array:
    return np.asarray((x - x.mean()) / np.sqrt(x.var() + 1e-5))


def linear(module: Any, x: Array) -> Array:
    return array(module.weight) @ x + (0 if module.bias is None else array(module.bias))


def scalar_bound(x: Array) -> Array:
    return np.asarray(x / np.sqrt(1 + (x**2).mean() / 25))


def layer_by_loops(layer: Any, s: Array, v: Array, p: Array) -> tuple[Array, Array, Array]:
    """s (n, d), v (n, r, h), p (n, n, h) → the same."""
    sums_up = isinstance(layer, FastSummingPSTLayer)
    nodes, scale = len(s), 1 / 16 if sums_up else len(s) ** -0.925
    norm, reach = (scalar_bound, 100) if sums_up else (layer_norm, 9)
    normed = np.stack([norm(row) for row in s])
    lengths = [(point**2).sum() / v.shape[-1] for point in v]
    bounded = np.stack([point / np.sqrt(1 + length / reach) for point, length in zip(v, lengths, strict=True)])
    query = np.stack([[linear(layer.projection, row) for row in point] for point in bounded])
    products = np.zeros_like(p)
    updated = p.copy()
    for i, j in itertools.product(range(nodes), repeat=2):
        products[i, j] = sum(query[i, k] * query[j, k] for k in range(v.shape[1]))
        of_points = linear(layer.pairs.of_points, normed[i]) + linear(layer.pairs.of_points, normed[j])
        updated[i, j] += linear(layer.pairs.w2, silu(linear(layer.pairs.w1, products[i, j]) + of_points))
    mixed = s.copy()
    for i in range(nodes):
        terms = [np.tile(updated[i, j], D // H) * linear(layer.values, normed[j]) for j in range(nodes)]
        mixed[i] += linear(layer.out, scale * np.sum(terms, axis=0))
    first, _, second = layer.mixer
    for i in range(nodes):
        hidden = silu(linear(first, np.concatenate([norm(mixed[i]), products[i, i]])))
        mixed[i] += linear(second, hidden)
    moved = v.copy()
    if layer.gate is not None:
        for i, j in itertools.product(range(nodes), repeat=2):
            moved[i] += scale * updated[i, j] * bounded[j] * linear(layer.gate, normed[j])
    return mixed, moved, updated


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", [FastPSTLayer, FastSummingPSTLayer])
def test_a_layer_equals_its_equations(kind: type[FastPSTLayer], last: bool) -> None:
    torch.manual_seed(0)
    layer = kind(D, H, last=last).double()
    s, v = torch.randn(D, 1, N, dtype=torch.float64), torch.randn(H, 1, N, R, dtype=torch.float64)
    p = torch.randn(H, 1, N, N, dtype=torch.float64)
    p = p + p.mT
    got = layer(PointState(s, v, p=p))
    expected = layer_by_loops(
        layer, array(s[:, 0].mT), array(v[:, 0].permute(1, 2, 0)), array(p[:, 0].permute(1, 2, 0))
    )
    assert np.allclose(array(got.s[:, 0].mT), expected[0], rtol=1e-10, atol=1e-10)
    assert np.allclose(array(got.v[:, 0].permute(1, 2, 0)), expected[1], rtol=1e-10, atol=1e-10)
    assert np.allclose(array(got.p[:, 0].permute(1, 2, 0)), expected[2], rtol=1e-10, atol=1e-10)


def test_the_first_pairs_are_eight_embeddings_and_a_vector_on_the_diagonal() -> None:
    torch.manual_seed(0)
    first = FirstPairs(pointset.Categories(3), H)
    edges = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 2], [1, 0, 2, 1]])[:, :2]  # graph, source, target
    group = PointGroup(
        torch.zeros(1), torch.zeros(1, 1), torch.zeros(1, 3, 1), edges=edges, edge_attr=torch.tensor([[2], [2]])
    )
    p = first(group)
    assert first.edges is not None and first.edges.tables is not None
    table = next(first.edges.tables.parameters())
    source, target = edges[1:].tolist()
    for i, j in itertools.product(range(3), repeat=2):
        expected = first.diagonal.detach() if i == j else torch.zeros(H)
        if (i, j) in set(zip(source, target, strict=True)):
            expected = expected + 8 * table[2].detach()
        torch.testing.assert_close(p[:, 0, i, j].detach(), expected)


def test_first_pairs_in_space_add_functions_of_the_distance() -> None:
    torch.manual_seed(0)
    distances = FirstDistances(H, functions=5, reach=4.0)
    first, plain = FirstPairs(None, H, distances), FirstPairs(None, H)
    plain.diagonal = first.diagonal
    pos = torch.tensor([[[0.0, 0, 0], [3, 0, 0], [3, 4, 0]]])
    group = PointGroup(torch.zeros(1), torch.zeros(1, 1), torch.zeros(1, 3, 1), pos=pos)
    got = array((first(group) - plain(group))[:, 0])
    for (i, j), length in {(0, 1): 3.0, (0, 2): 5.0, (1, 2): 4.0, (1, 1): 0.0}.items():
        gaussians = np.exp(-(((length - np.linspace(0, 4, 5)) / 0.8) ** 2))
        features = np.concatenate([gaussians, [length / 4, (length / 4) ** 2]])
        expected = 8 * linear(distances.mlp[2], silu(linear(distances.mlp[0], features)))
        assert np.allclose(got[:, i, j], expected, atol=1e-6) and np.allclose(got[:, j, i], expected, atol=1e-6)


def molecule_in_space(seed: int, nodes: int = 7) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    edges = torch.cat([edges, edges.flip(0)], 1)
    kinds = torch.randint(3, (nodes - 1, 1), generator=generator).repeat(2, 1)
    x = torch.randint(4, (nodes, 1), generator=generator)
    return Data(x=x, edge_index=edges, edge_attr=kinds, pos=2 * torch.randn(nodes, 3, generator=generator))


def star_model() -> pointset.PointModel:
    torch.manual_seed(1)
    return pointset.PointModel.from_preset("pst-fast-star", node=4, edge=3, out=2, dim=32, layers=2)


def test_in_space_both_paths_are_one_function() -> None:
    graphs, model = [molecule_in_space(seed, nodes) for seed, nodes in enumerate((7, 3, 7, 12))], star_model()
    native = model(graphs).detach()
    with pointset.torch_path():
        assert float((model(graphs).detach() - native).abs().max()) < 1e-4 * float(native.abs().max())


def test_in_space_only_distances_count() -> None:
    data, model = molecule_in_space(0), star_model().double()
    rotation = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(2))).Q
    moved, bent = data.clone(), data.clone()
    moved.pos = (data.pos.double() @ rotation.double() + 3.0).float()
    bent.pos = data.pos * torch.tensor([2.0, 1.0, 1.0])
    before, same, other = model([data, moved, bent]).detach()
    assert torch.allclose(before, same, rtol=1e-4, atol=1e-4 * float(before.abs().max()))
    assert float((before - other).abs().max()) > 1e-2 * float(before.abs().max())


def test_in_space_positions_are_asked_for() -> None:
    data = molecule_in_space(0)
    data.pos = None
    with pytest.raises(SpecError, match="carry no pos"):
        star_model()([data])


def test_an_odd_number_of_channels_is_refused_with_a_remedy() -> None:
    with pytest.raises(SpecError, match="dim=64"):
        pointset.PointModel.from_preset("pst-fast", dim=65)


@pytest.mark.parametrize("half", [3, 4, 5, 8])
def test_two_cycles_and_one_of_the_same_size_are_distinguished(half: int) -> None:
    """C_2l against two C_l: what message passing cannot distinguish."""
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset("pst-fast", dim=16, layers=2, pooling="sum").double()
    whole = nx.cycle_graph(2 * half)
    parts = nx.disjoint_union(nx.cycle_graph(half), nx.cycle_graph(half))
    one, two = model([whole, parts]).detach()
    assert float((one - two).abs().max()) > 1e-6 * float(one.abs().max())


def test_circular_skip_links_are_distinguished() -> None:
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset("pst-fast", dim=32, layers=3, pooling="sum").double()
    graphs = [nx.circulant_graph(41, [1, skip]) for skip in (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)]
    outputs = model(graphs).detach().flatten()
    gaps = (outputs.unsqueeze(0) - outputs.unsqueeze(1)).abs() + torch.eye(len(graphs)) * 1e9
    assert float(gaps.min()) > 1e-6 * float(outputs.abs().max())


def layers_of(preset: str) -> list[Any]:
    model: Any = pointset.PointModel.from_preset(preset, dim=16, layers=2)
    return list(model.encoder.layers)


def test_without_a_state_each_layer_sees_the_first_pairs() -> None:
    first, again = layers_of("pst-fast-stateless")[0], FastPSTLayer(16, 8)
    again.load_state_dict(first.state_dict())
    state = PointState(torch.randn(16, 1, N), torch.randn(8, 1, N, R), p=torch.randn(8, 1, N, N))
    ours, theirs = first(state), again(state)
    assert ours.p is state.p and theirs.p is not None and not torch.equal(theirs.p, state.p)
    assert torch.equal(ours.s, theirs.s) and torch.equal(ours.v, theirs.v)


@pytest.mark.parametrize(("preset", "share"), [("pst-fast-k1", 1), ("pst-fast", 2), ("pst-fast-k4", 4)])
def test_vectors_and_pairs_have_a_share_of_the_channels(preset: str, share: int) -> None:
    for layer in layers_of(preset):
        assert layer.projection.weight.shape == (16 // share, 16 // share)
