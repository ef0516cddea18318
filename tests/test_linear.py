"""pst-linear: its equations as loops over pairs, chunks of nodes, truncated points, and nothing of size n²."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any
from unittest import mock

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch_geometric.data import Data

import pointset
from pointset import PointModel, PointSet
from pointset.arrays import Array
from pointset.encoders import linear
from pointset.encoders.layers import PointState
from pointset.encoders.linear import LinearPSTLayer, LocalPSTLayer, Surroundings
from pointset.errors import SpecError
from pointset.points.point_set import Truncation
from pointset.testing import assert_invariant
from tests.graph_strategies import SYMMETRIC_GRAPHS, adjacency_matrices, with_features

D, H, N, R = 6, 3, 5, 4
PRESETS = ("pst-linear", "pst-linear-edges")
each_preset = pytest.mark.parametrize("preset", PRESETS)


def array(x: Any) -> Array:
    return np.asarray(x.detach().double())


def linear_map(module: Any, x: Array) -> Array:
    return np.asarray(array(module.weight) @ x + (0 if module.bias is None else array(module.bias)))


def layer_norm(x: Array) -> Array:
    return np.asarray((x - x.mean()) / np.sqrt(x.var() + 1e-5))


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def layer_by_loops(layer: Any, s: Array, v: Array, scale: float, matrix: Array | None) -> tuple[Array, Array]:
    """s (n, d), v (n, r, h) → the same; every pair of points is looked at."""
    nodes, rank, _ = v.shape
    normed = [layer_norm(row) for row in s]
    bounded = [point / np.sqrt(1 + (point**2).sum() / H / 9) for point in v]
    q, a = np.split(np.array([[linear_map(layer.queries, row) for row in point] for point in bounded]), 2, axis=-1)
    k, b = np.split(np.array([[linear_map(layer.keys, row) for row in point] for point in bounded]), 2, axis=-1)
    t, m, g = np.split(np.array([linear_map(layer.values, row) for row in normed]), [D, 2 * D], axis=-1)
    of_x, of_mean, of_z = np.split(np.array([linear_map(layer.gates, row) for row in normed]), [D, 2 * D], axis=-1)
    x, y, z, local = np.zeros((nodes, D)), np.zeros((nodes, rank, H)), np.zeros((nodes, H)), np.zeros((nodes, D))
    for i, j in itertools.product(range(nodes), repeat=2):
        for c in range(H):
            head = scale * sum(q[i, axis, c] * k[j, axis, c] for axis in range(rank))
            y[i, :, c] += head * (1 + g[j, c]) * b[j, :, c]
            z[i, c] += head * sum(a[i, axis, c] * b[j, axis, c] for axis in range(rank)) * (1 + g[j, c])
            for scalar in range(c, D, H):
                x[i, scalar] += head * t[j, scalar]
        if matrix is not None:
            local[i] += matrix[i, j] * t[j]
    mean = m.mean(0)
    new_s = []
    for i in range(nodes):
        heads = [(1 + of_x[i]) * x[i], (1 + of_z[i]) * z[i], of_mean[i] * mean]
        received = np.concatenate(heads if matrix is None else [*heads, local[i]])
        mixed = s[i] + linear_map(layer.out, received / np.sqrt(1 + (received**2).mean() / 25))
        own = np.array([q[i, :, c] @ a[i, :, c] for c in range(H)])
        first, _, second = layer.mixer
        hidden = silu(linear_map(first, np.concatenate([layer_norm(mixed), own])))
        new_s.append(mixed + linear_map(second, hidden))
    return np.array(new_s), v if layer.step is None else v + array(layer.step)[:, 0, 0, 0] * y


def state_of(scale: float, points: tuple[Tensor, Tensor] | None) -> PointState:
    generator = torch.Generator().manual_seed(0)
    s = torch.randn(D, 1, N, dtype=torch.float64, generator=generator)
    v = torch.randn(H, 1, N, R, dtype=torch.float64, generator=generator)
    p: Any = Surroundings(torch.full((1, 1), scale, dtype=torch.float64), points)
    return PointState(s, v, p=p)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", [LinearPSTLayer, LocalPSTLayer])
def test_a_layer_equals_its_equations(kind: type[LinearPSTLayer], last: bool) -> None:
    torch.manual_seed(0)
    layer = kind(D, H, last=last).double()
    basis = torch.linalg.qr(torch.randn(N, N, dtype=torch.float64))[0]
    values = torch.linspace(-1, 1, N, dtype=torch.float64)
    state = state_of(0.4, (values.unsqueeze(0), basis.unsqueeze(0)))
    matrix = array((basis * values) @ basis.mT) if kind is LocalPSTLayer else None
    s, v = layer_by_loops(layer, array(state.s[:, 0].mT), array(state.v[:, 0].permute(1, 2, 0)), 0.4, matrix)
    got = layer(state)
    np.testing.assert_allclose(array(got.s[:, 0].mT), s, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(array(got.v[:, 0].permute(1, 2, 0)), v, rtol=1e-10, atol=1e-10)


def test_the_first_scalars_of_pst_linear_edges_are_a_polynomial_of_the_matrix() -> None:
    """With its layers taken away, and θ from a random number generator; plus w ρ/n."""
    torch.manual_seed(0)
    model = PointModel.from_preset("pst-linear-edges", node=3, dim=4, layers=1, level="node").double()
    model.encoder.layers = torch.nn.ModuleList()
    torch.nn.init.normal_(model.encoder.steps)  # type: ignore[arg-type]
    edges = torch.tensor(list(nx.cycle_graph(6).edges)).T
    data = Data(num_nodes=6, x=torch.arange(6) % 3, edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    first = array(model.scalars(model.read([data]).groups[0])[:, 0])  # (d, n)
    z = nx.to_numpy_array(nx.cycle_graph(6)) / 2
    terms = [row[:, None] * first @ np.linalg.matrix_power(z, k) for k, row in enumerate(array(model.encoder.steps))]
    size = np.abs(np.linalg.eigvalsh(z)).sum() / 6
    expected = sum(terms) + size * array(model.encoder.size)[:, None]
    np.testing.assert_allclose(array(model.embed([data])).T, expected, rtol=1e-10, atol=1e-12)


def model_of(preset: str, **options: Any) -> PointModel:
    torch.manual_seed(0)
    return PointModel.from_preset(preset, **{"dim": 8, "layers": 2, "out": 3, "level": "node", **options}).double()


def truncated(nodes: int = 300, rank: int = 6, seed: int = 0, matrix: str = "normalized_adjacency") -> PointSet:
    graph = nx.gnp_random_graph(nodes, 4 / nodes, seed=seed)
    for number, (_, _, edge) in enumerate(graph.edges(data=True)):
        edge["weight"] = 1.0 + number % 3
    return pointset.to_points(graph, matrix=matrix, rank=rank)


def dense(points: PointSet) -> Tensor:
    """D^-½AD^-½ from the edges that truncated points carry."""
    assert points.edge_index is not None and points.edge_weight is not None
    a = torch.zeros(points.num_nodes, points.num_nodes, dtype=torch.float64)
    a[points.edge_index[0], points.edge_index[1]] = points.edge_weight.double()
    a = a + a.mT
    root = torch.where(a.sum(0) > 0, a.sum(0).clamp(min=1e-300).rsqrt(), 0.0)
    return a * root * root.unsqueeze(-1)


def test_truncated_points_know_their_whole_matrix_by_their_edges() -> None:
    """Weights, isolated nodes, several graphs and one that is whole in a batch; the local term is exact for each."""
    model = model_of("pst-linear-edges")
    sets = [truncated(seed=1), truncated(nodes=200, seed=2), truncated(nodes=40, rank=40)]
    assert [points.truncation is None for points in sets] == [False, False, True]
    assert model.pairs is not None
    for group in pointset.collate(sets).groups:
        around = model.pairs(group)
        assert around.matrix is not None
        points = sets[int(group.index)]
        z = dense(points) if points.truncation else points.inner_products()
        x = torch.randn(4, 1, len(z), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(around.times_matrix(x)[:, 0], x[:, 0] @ z)


def test_whole_points_and_listed_edges_give_the_same() -> None:
    """A graph by itself, and in a batch with a truncated one, for which all edges are listed."""
    model, graph, other = model_of("pst-linear-edges"), nx.karate_club_graph(), truncated()
    whole = pointset.to_points(nx.Graph(graph.edges), matrix=model.matrix)
    torch.testing.assert_close(model([whole, other])[: len(graph)], model([whole]))


@each_preset
@settings(max_examples=20, deadline=None)
@given(adjacency=adjacency_matrices(max_nodes=20, min_nodes=1))
def test_any_graph_is_one_graph_in_any_order_and_basis(preset: str, adjacency: Any) -> None:
    assert_invariant(model_of(preset), [adjacency, nx.path_graph(3)], repeats=1)


@each_preset
def test_truncated_points_are_invariant_too(preset: str) -> None:
    """Whole eigenspaces are kept, so another basis inside one changes nothing."""
    graph = nx.disjoint_union_all([nx.circulant_graph(40, [1, 2, 5]) for _ in range(3)])
    points = pointset.to_points(graph, matrix="normalized_adjacency", rank=9)
    assert points.truncation is not None and any(space.multiplicity >= 3 for space in points.eigenspaces())
    assert_invariant(model_of(preset), [points], repeats=2)


def value_and_gradients(model: PointModel, points: Any) -> list[Tensor]:
    output = model(points)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), list(model.parameters()))]


@each_preset
@pytest.mark.parametrize("recomputed", [False, True])
def test_chunks_change_neither_outputs_nor_gradients(preset: str, recomputed: bool) -> None:
    """Also of a padded bucket with a graph that ends inside the first chunk, and where chunks are not recomputed."""
    sets = [*(pointset.to_points(with_features(graph, 0), matrix="normalized_adjacency")
              for graph in (nx.path_graph(7), nx.star_graph(11), nx.empty_graph(2), nx.cycle_graph(12)))]  # fmt: skip
    for points in (sets, [truncated()]):
        features = {"node": (5, 3), "edge": (4,)} if points is sets else {}
        model = model_of(preset, **features)
        expected = value_and_gradients(model, points)
        with (
            mock.patch.object(linear, "_CHUNK_BYTES", 2000),
            nullcontext() if recomputed else mock.patch.object(linear, "_again", linear._once),
            mock.patch.object(LinearPSTLayer, "_sums", autospec=True, side_effect=LinearPSTLayer._sums) as sums,
        ):
            got = value_and_gradients(model, points)
        assert sums.call_count >= (8 if recomputed else 4)  # two layers, at least two chunks, once or twice
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@each_preset
def test_gradients_of_gradients(preset: str) -> None:
    """In chunks that are computed again, and with a sparse matrix: against differences."""
    model, points = model_of(preset, node=pointset.Reals(1), dim=4, layers=1), truncated(nodes=30, rank=3)
    batch = model.read([points])
    assert points.truncation is not None

    def outputs(x: Tensor) -> Tensor:
        with mock.patch.object(linear, "_CHUNK_BYTES", 1000):
            result: Tensor = model(pointset.PointBatch(**{**vars(batch), "x": x}))
        return result.sum(0)

    x = torch.randn(30, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(outputs, x)
    assert torch.autograd.gradgradcheck(outputs, x)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, notes the largest number of elements of any tensor that an operation makes."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_flatten(result)[0]:
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


@each_preset
def test_a_step_on_twenty_thousand_nodes_makes_nothing_of_size_n_squared(preset: str) -> None:
    """Not more than all vectors, n·r·h numbers, and edges 2m·(features): 4·10⁸ would be a matrix of pairs."""
    nodes, rank, dim = 20_000, 8, 8
    generator = np.random.default_rng(0)
    edges = np.unique(np.sort(generator.integers(0, nodes, (2, 60_000)), axis=0), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    points = PointSet(
        eigenvalues=torch.linspace(0.5, 1, rank),
        eigenvectors=torch.linalg.qr(torch.from_numpy(generator.normal(size=(nodes, rank))).float())[0],
        matrix="normalized_adjacency",
        num_edges=edges.shape[1],
        edge_index=torch.from_numpy(edges),
        edge_attr=torch.from_numpy(generator.integers(0, 4, (edges.shape[1], 1))),
        truncation=Truncation(0.5, 0.5, 0.0),
    )
    torch.manual_seed(0)
    model = PointModel.from_preset(preset, edge=4, dim=dim, layers=2, out=3, level="node")
    with Largest() as seen:  # type: ignore[no-untyped-call]
        loss = cross_entropy(model([points]), torch.from_numpy(generator.integers(0, 3, nodes)))
        torch.autograd.backward(loss)
    assert bool(loss.isfinite())
    assert nodes * rank * dim // 2 <= seen.numel <= 2 * edges.shape[1] * rank * dim // 2
    assert all(parameter.grad is not None and bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


def test_points_of_few_eigenpairs_are_as_long_as_those_of_all() -> None:
    """By the factor n/ρ: without it, the squares of 10 of 300 eigenpairs would be a tenth."""
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 25))
    model = model_of("pst-linear-edges")
    whole = pointset.to_points(graph, matrix=model.matrix)
    rows = [model.coordinates(pointset.collate([points]).groups[0]).square().sum(-1).mean().item()
            for points in (whole, pointset.to_points(graph, matrix=model.matrix, rank=10))]  # fmt: skip
    assert 0.4 < rows[0] / rows[1] < 2.5


def test_layers_by_themselves_ask_for_what_they_need() -> None:
    state = PointState(torch.randn(D, 1, N), torch.randn(H, 1, N, R))
    with pytest.raises(SpecError, match=r"need Surroundings beside the points, and got NoneType; expected PointState"):
        LinearPSTLayer(D, H)(state)
    with pytest.raises(SpecError, match="expected LocalTerms"):
        LocalPSTLayer(D, H).double()(state_of(1.0, None))


@pytest.mark.parametrize("name", SYMMETRIC_GRAPHS)
def test_edge_features_count_along_edges_only(name: str) -> None:
    """Of one coloured edge, both presets see the colour; what they see does not depend on how the edges are listed."""
    if not SYMMETRIC_GRAPHS[name].size():
        pytest.skip("no edges")
    data = with_features(SYMMETRIC_GRAPHS[name], 0)
    back = data.clone()
    back.edge_index, back.edge_attr = data.edge_index.flip(1), data.edge_attr.flip(0)
    for preset in PRESETS:
        model = model_of(preset, node=(5, 3), edge=4)
        torch.testing.assert_close(model([data]), model([back]))
        changed = data.clone()
        changed.edge_attr = (data.edge_attr + 1) % 4
        assert not torch.allclose(model([data]), model([changed]))
