"""The encoders compute the paper's equations: one layer, the whole encoder and the whole model against loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import pointset
from pointset import PointModel
from pointset.encoders.coordinates import LearnedDeepSet, LearnedFromRoot, RootAndPolynomials, SquareRoot
from pointset.encoders.layers import MLP, AffineChannelNorm, ChannelLinear, PairMLP, PointState, Pooling, pooled
from pointset.encoders.psds import PSDS, PSDSLayer
from pointset.encoders.pst import PST, OneLayerPST, PointAttention, PSTLayer, SummingPST, SummingPSTLayer
from pointset.encoders.released import (
    FourLayerDeepSet,
    FreeVectorsLayer,
    FreeVectorsPST,
    Gate,
    IndicatorPairWeights,
    ReleasedPSDS,
    ReleasedPSDSLayer,
    ReleasedPST,
    ReleasedPSTLayer,
    ShortDeepSet,
    SteepFreeVectorsLayer,
    SteepFreeVectorsPST,
)
from pointset.registry import preset_names
from tests import loop_references as loops
from tests.loop_references import Array, Function, Points

GRAPHS, NODES, RANK, CHANNELS, LAYERS = 2, 4, 3, 3, 3


# ---- our weights as the paper's letters ------------------------------------------------------------------------------


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


def matrices(linear: ChannelLinear) -> list[Array]:
    """The square matrices that one linear map holds one above the other."""
    assert linear.bias is None
    return [array(part) for part in linear.weight.chunk(linear.weight.shape[0] // linear.weight.shape[1])]


def from_the_right(linear: Any) -> Array:
    """The paper writes v W with channels as columns of v, the code W v with channels first: W is transposed."""
    return matrices(linear)[0].T


def step(module: nn.Module) -> Function:
    if isinstance(module, ChannelLinear):
        assert module.bias is not None
        weight, bias = array(module.weight), array(module.bias)
        return lambda x: loops.times(weight, x) + bias
    if isinstance(module, AffineChannelNorm):
        scale, shift = array(module.scale), array(module.shift)
        return lambda x: loops.layer_norm(x) * scale + shift
    assert isinstance(module, nn.SiLU)
    return loops.silu


def perceptron(mlp: Any) -> Function:
    if isinstance(mlp, Gate):
        weight, bias = array(mlp.weight), array(mlp.bias)
        return lambda x: loops.silu(loops.times(weight, x) + bias)
    if isinstance(mlp, ChannelLinear):
        return step(mlp)
    assert isinstance(mlp, MLP)
    return loops.perceptron([step(module) for module in mlp])


def pair_perceptron(mlp: Any) -> Function:
    if not isinstance(mlp, PairMLP):
        return perceptron(mlp)
    weight1, bias1, weight2, bias2 = (array(p) for p in (mlp.weight1, mlp.bias1, mlp.weight2, mlp.bias2))
    first: Function = lambda x: loops.silu(loops.times(weight1, x) + bias1)
    second: Function = lambda x: loops.times(weight2, x) + bias2
    return loops.perceptron([first, second, loops.silu] if mlp.tail else [first, second])


def mixer_weights(layer: PSTLayer | PSDSLayer, w1: Array, w2: Array) -> loops.MixerWeights:
    mlp1 = perceptron(layer.mixer_s.mlp1)
    if layer.mixer_v is None:
        return loops.MixerWeights(w1, w2, mlp1)
    mixer = layer.mixer_v
    return loops.MixerWeights(w1, w2, mlp1, from_the_right(mixer.w3), from_the_right(mixer.w4), perceptron(mixer.mlp2))


def attention_weights(scalars: ChannelLinear, wq: Array, wk: Array, pair: PointAttention) -> loops.AttentionWeights:
    wq_s, wk_s = matrices(scalars)
    return loops.AttentionWeights(wq_s, wk_s, wq, wk.T, pair_perceptron(pair.mlp))


def pst_weights(layer: Any) -> tuple[loops.MixerWeights, loops.AttentionWeights]:
    assert isinstance(layer, PSTLayer)
    wq, wk, w1, w2 = matrices(layer.projections_v)
    return mixer_weights(layer, w1, w2), attention_weights(layer.projections_s, wq, wk, layer.attention)


def psds_weights(layer: Any) -> tuple[loops.MixerWeights, loops.DeepSetWeights]:
    assert isinstance(layer, PSDSLayer)
    mixer = mixer_weights(layer, *matrices(layer.projections))
    mlps = perceptron(layer.sum_s.mlp3), perceptron(layer.mlp4)
    if layer.sums_v is None:
        return mixer, loops.DeepSetWeights(*mlps)
    sums = layer.sums_v
    # v W₆ W₇ vᵀ is (v W₆)(v W₇ᵀ)ᵀ: the code's two projections are W₆ from the right and W₇ from the left.
    w7 = matrices(sums.w7)[0]
    return mixer, loops.DeepSetWeights(
        *mlps, from_the_right(sums.w5), from_the_right(sums.w6), w7, from_the_right(layer.w8)
    )


def released_weights(layer: Any) -> loops.ReleasedWeights:
    assert isinstance(layer, ReleasedPSTLayer)
    wq, wk, w1, w2 = matrices(layer.projections)
    gate, value = perceptron(layer.gate_s), perceptron(layer.value_s)
    needed = loops.ReleasedWeights(wq, wk, w1, w2, pair_perceptron(layer.attention.mlp), gate, value)
    if isinstance(layer, FreeVectorsLayer):
        needed.normalised = lambda v: v
        assert all(isinstance(part, ChannelLinear) for part in (layer.gate_s, layer.value_s))
        assert [type(part).__name__ for part in layer.attention.mlp.children()] == [
            "ChannelLinear",
            "AffineChannelNorm",
            "SiLU",
            "ChannelLinear",
        ]
    if isinstance(layer, SteepFreeVectorsLayer):
        needed.exponent = 1.9 / 2
    if layer.value_v is not None:
        needed.gate_v, needed.w = perceptron(layer.gate_v), matrices(layer.value_v)[0]
    return needed


def released_psds_weights(layer: Any) -> loops.ReleasedDeepSetWeights:
    assert isinstance(layer, ReleasedPSDSLayer)
    sums, of_points = layer.sums, ("gate_s", "gate_v", "of_trace", "of_s", "of_v", "update")
    deep_set: list[Any] = list(sums.layers)
    parts: dict[str, Any] = {name: perceptron(getattr(layer, name)) for name in of_points}
    parts |= {name: perceptron(getattr(sums, name)) for name in ("before", "after")}
    parts |= {name: matrices(getattr(layer, name))[0] for name in ("w1", "w2", "w3")}
    parts |= {name: matrices(getattr(sums, name))[0] for name in ("w5", "w6", "w7")}
    parts |= dict(zip(("left", "right"), matrices(layer.projections), strict=True))
    parts["deep_set"] = [(perceptron(part.pooled), perceptron(part.own)) for part in deep_set]
    return loops.ReleasedDeepSetWeights(**parts)


# ---- the encoders by loops -------------------------------------------------------------------------------------------


def encoded_by_loops(encoder: nn.Module, s: Points, v: Points) -> tuple[Points, Points]:
    if isinstance(encoder, OneLayerPST):
        wq, wk = matrices(encoder.projections_v)
        pair = attention_weights(encoder.projections_s, wq, wk, encoder.attention)
        return loops.one_layer_pst(s, v, pair, [perceptron(values) for values in encoder.values]), v
    before: Any = None
    if isinstance(encoder, SummingPST):
        s = [0.01 * point for point in s]
    stacks = (PST, SummingPST, PSDS, ReleasedPST, ReleasedPSDS)
    for layer in encoder.layers if isinstance(encoder, stacks) else [encoder]:
        if isinstance(layer, SummingPSTLayer):
            s, v = loops.pst_layer(s, v, *pst_weights(layer), scale=1 / 16)
        elif isinstance(layer, PSTLayer):
            s, v = loops.pst_layer(s, v, *pst_weights(layer))
        elif isinstance(layer, PSDSLayer):
            s, v = loops.psds_layer(s, v, *psds_weights(layer))
        elif isinstance(layer, ReleasedPSDSLayer):
            s, v, before = loops.released_psds_layer(s, v, before, released_psds_weights(layer))
        else:
            s, v, before = loops.released_layer(s, v, before, released_weights(layer))
    return s, v


def points_of(state: PointState, graph: int) -> tuple[Points, Points]:
    """s_i (d,) and v_i (r, d) of one graph."""
    return [array(x) for x in state.s[:, graph].mT], [array(x).T for x in state.v[:, graph].movedim(0, 1)]


def random_state(rank: int = RANK, nodes: int = NODES) -> PointState:
    s = torch.randn(CHANNELS, GRAPHS, nodes, dtype=torch.float64)
    return PointState(s, torch.randn(CHANNELS, GRAPHS, nodes, rank, dtype=torch.float64))


def assert_near(got: Tensor | Array, expected: Array) -> None:
    got = array(got) if isinstance(got, Tensor) else got
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * max(1.0, float(np.abs(expected).max(initial=0))))


def assert_encodes_as_loops(encoder: nn.Module, before: PointState) -> None:
    encoder.double()
    after = encoder(before)
    after = PointState(*(after[0] if isinstance(encoder, (ReleasedPSTLayer, ReleasedPSDSLayer)) else after))
    for graph in range(before.s.shape[1]):
        expected = encoded_by_loops(encoder, *points_of(before, graph))
        for got_points, expected_points in zip(points_of(after, graph), expected, strict=True):
            for got, reference in zip(got_points, expected_points, strict=True):
                assert_near(got, reference)


ONE_LAYER: dict[str, Callable[[bool], nn.Module]] = {
    "PST": lambda last: PSTLayer(CHANNELS, last=last),
    "SummingPST": lambda last: SummingPSTLayer(CHANNELS, last=last),
    "PSDS": lambda last: PSDSLayer(CHANNELS, last=last),
    "ReleasedPST": lambda last: ReleasedPSTLayer(CHANNELS, last=last),
    "FreeVectorsPST": lambda last: FreeVectorsLayer(CHANNELS, last=last),
    "ReleasedPSDS": lambda last: ReleasedPSDSLayer(CHANNELS, last=last),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ONE_LAYER)
def test_one_layer(name: str, last: bool) -> None:
    torch.manual_seed(0)
    assert_encodes_as_loops(ONE_LAYER[name](last), random_state())


@pytest.mark.parametrize("layers", [1, LAYERS])
@pytest.mark.parametrize(
    "encoder",
    [PST, SummingPST, PSDS, OneLayerPST, ReleasedPST, FreeVectorsPST, SteepFreeVectorsPST, ReleasedPSDS],
)
class TestWholeEncoder:
    def test_as_loops(self, encoder: type[nn.Module], layers: int) -> None:
        torch.manual_seed(1)
        assert_encodes_as_loops(encoder(CHANNELS, layers), random_state())

    def test_rank_0(self, encoder: type[nn.Module], layers: int) -> None:
        torch.manual_seed(2)
        assert_encodes_as_loops(encoder(CHANNELS, layers), random_state(rank=0))

    def test_one_point(self, encoder: type[nn.Module], layers: int) -> None:
        torch.manual_seed(3)
        assert_encodes_as_loops(encoder(CHANNELS, layers), random_state(nodes=1))

    def test_vectors_below_the_floor(self, encoder: type[nn.Module], layers: int) -> None:
        torch.manual_seed(4)
        state = random_state()
        assert_encodes_as_loops(encoder(CHANNELS, layers), PointState(state.s, 1e-5 * state.v))


@pytest.mark.parametrize("pooling", ["sum", "mean", "max", "scaled_sum"])
def test_pooling_equation_5(pooling: Pooling) -> None:
    torch.manual_seed(0)
    s = random_state().s
    for graph in range(GRAPHS):
        assert_near(pooled(s, pooling)[:, graph], loops.pooled([array(x) for x in s[:, graph].mT], pooling))


# ---- coordinates -----------------------------------------------------------------------------------------------------


def values_by_loops(function: Any, eigenvalues: Tensor) -> Array:
    """f(Λ), (r, d)."""
    if isinstance(function, SquareRoot):
        return loops.srd_values(array(eigenvalues), array(function.scale))
    if isinstance(function, LearnedFromRoot):
        return values_by_loops(function.root, eigenvalues) + values_by_loops(function.learned, eigenvalues)
    if isinstance(function, RootAndPolynomials):
        by_weight = loops.polynomial_values(array(eigenvalues), array(function.weights), function.interval[1])
        return np.concatenate([values_by_loops(function.root, eigenvalues), by_weight], axis=1)
    assert isinstance(function, LearnedDeepSet)
    layers: list[Any] = list(function.layers)
    pairs = [(perceptron(layer.pooled), perceptron(layer.own)) for layer in layers]
    return loops.deep_set_values(array(eigenvalues), perceptron(function.embedding), pairs)


@pytest.mark.parametrize("matrix", ["laplacian", "adjacency"])
@pytest.mark.parametrize(
    "function",
    [SquareRoot, LearnedDeepSet, LearnedFromRoot, RootAndPolynomials, ShortDeepSet, FourLayerDeepSet],
)
def test_eigenvalue_functions(function: type[nn.Module], matrix: str) -> None:
    torch.manual_seed(0)
    f = function(5).double()
    points = pointset.to_points((5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2)]), matrix=matrix)
    got = f(points.eigenvalues.unsqueeze(0))  # (d, B, r)
    assert_near(got[:, 0].mT, values_by_loops(f, points.eigenvalues))


def test_srd_channels_give_back_the_matrix() -> None:
    """Theorem 3.3: ⟨first half, second half⟩ is Z, also where Z has negative eigenvalues."""
    adjacency = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=torch.float64)
    points = pointset.to_points(adjacency, matrix="adjacency")
    f = SquareRoot(2).double()
    nn.init.ones_(f.scale)
    q = loops.psrd_coordinates(array(points.eigenvectors), array(f(points.eigenvalues.unsqueeze(0))[:, 0].mT))
    for i, j in itertools.product(range(4), repeat=2):
        assert float(q[i][:, 0] @ q[j][:, 1]) == pytest.approx(float(adjacency[i, j]), abs=1e-13)


def test_polynomial_channels_give_powers_of_the_matrix() -> None:
    """With T₁ alone the inner products are (Z/6 − 1)² on the image of Z: walks of two steps can be read off them."""
    graph = nx.petersen_graph()
    points = pointset.to_points(graph)
    f = RootAndPolynomials(2).double()
    with torch.no_grad():
        f.weights.copy_(torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0]]))
        v = points.eigenvectors * f(points.eigenvalues.unsqueeze(0))[1]  # (n, r)
    shifted = nx.laplacian_matrix(graph).toarray() / 6 - np.eye(10)
    assert_near(v @ v.mT, (shifted @ shifted) - np.full((10, 10), 1 / 10))  # less the kernel, where it is 1


# ---- the whole model -------------------------------------------------------------------------------------------------


def example(seed: int, edges: list[tuple[int, int]], real: bool) -> Data:
    """Four nodes with features, edge features and positions."""
    generator = torch.Generator().manual_seed(seed)
    both = torch.tensor([*edges, *[(j, i) for i, j in edges]]).mT
    whole = torch.stack([torch.randint(0, 4, (len(edges),), generator=generator) for _ in range(2)], dim=1)
    attr = torch.randn(len(edges), 2, generator=generator, dtype=torch.float64) if real else whole
    nodes = torch.randint(0, 5, (4, 2), generator=generator)
    return Data(
        x=torch.randn(4, 2, generator=generator, dtype=torch.float64) if real else nodes,
        edge_index=both,
        edge_attr=torch.cat([attr, attr]),
        pos=torch.randn(4, 3, generator=generator, dtype=torch.float64),
    )


EXAMPLE_EDGES = [[(0, 1), (1, 2), (2, 3), (0, 2)], [(0, 1), (1, 2), (2, 3)]]


def features_by_loops(tables: Any, linear: Any, row: Tensor) -> Array:
    """A sum of embedding tables, or one linear map with bias."""
    if tables is not None:
        return sum((array(table.weight[int(row[c])]) for c, table in enumerate(tables.tables)), np.zeros(CHANNELS))
    return loops.times(array(linear.weight), array(row)) + array(linear.bias)


def scalars_by_loops(model: Any, data: Data, nodes: int) -> Points:
    if model.scalars.spec is None:
        return [array(model.scalars.constant)] * nodes
    rows = [features_by_loops(model.scalars.tables, model.scalars.linear, row) for row in data.x]
    return [loops.layer_norm(row) for row in rows] if model.scalars.tables is not None else rows


def distance_weight(module: Any, distance: float) -> Array:
    """PST*: a weight for each channel from the distance of two points; ours by Gaussians at 32 centres up to 12."""
    if type(module).__name__ == "PlainDistances":
        return perceptron(module.mlp)(np.array([distance]))
    centres = array(module.centres)  # made in float32, so they are compared and then taken as they are
    assert centres == pytest.approx([12 * position / 31 for position in range(32)], rel=1e-6)
    return perceptron(module.mlp)(np.array([math.exp(-(((distance - c) / (12 / 32)) ** 2)) for c in centres]))


def pair_weights_by_loops(pairs: Any, data: Data, nodes: int, released: bool) -> Array:
    """e_ij (n, n, d). Ours: zero without an edge; with distances w_ij ⊙ (1 + e_ij).

    Released: a non-edge has zero features, so the bias of a linear map remains; categories go through LayerNorm; times
    distances; and every channel is the sum of all.
    """
    result = np.zeros((nodes, nodes, CHANNELS))
    if pairs.spec is not None:
        as_indicators = isinstance(pairs, IndicatorPairWeights) and pairs.tables is not None
        if released and pairs.linear is not None:
            result += array(pairs.linear.bias)
        if as_indicators:
            result += array(pairs.bias)
        for column in range(data.edge_index.shape[1]):
            i, j = data.edge_index[:, column].tolist()
            result[i, j] = features_by_loops(pairs.tables, pairs.linear, data.edge_attr[column])
            if as_indicators:
                result[i, j] += array(pairs.bias)
            elif released and pairs.tables is not None:
                result[i, j] = loops.layer_norm(result[i, j])
    for i, j in itertools.product(range(nodes), repeat=2):
        if pairs.distances is not None:
            distance = math.sqrt(sum(float(data.pos[i, k] - data.pos[j, k]) ** 2 for k in range(3)))
            near = distance_weight(pairs.distances, distance)
            if pairs.spec is None:
                result[i, j] = near
            else:
                result[i, j] = near * result[i, j] if released else near * (1 + result[i, j])
        if released:
            result[i, j] = np.full(CHANNELS, sum(result[i, j]))
    return result


def model_by_loops(model: Any, data: Data, name: str, pooling: str | None) -> Array:
    points = pointset.to_points(data, matrix=model.matrix)
    nodes, released = points.num_nodes, "released" in name
    f = values_by_loops(model.coordinates.function, points.eigenvalues)
    v = loops.psrd_coordinates(array(points.eigenvectors), f)
    if model.coordinates.pairs is not None:
        weights = pair_weights_by_loops(model.coordinates.pairs, data, nodes, released)
        if released:  # Σ_j e_ij U_j replaces U_i
            plain = loops.psrd_coordinates(array(points.eigenvectors), np.ones_like(f))
            v = [point * f for point in loops.summed_over_pairs(weights, plain)]
        else:
            v = [own + summed for own, summed in zip(v, loops.summed_over_pairs(weights, v), strict=True)]
    s, _ = encoded_by_loops(model.encoder, scalars_by_loops(model, data, nodes), v)
    rows = s if pooling is None else [loops.pooled(s, pooling)]
    linear = model.readout.linear
    return np.array([loops.times(array(linear.weight), row) + array(linear.bias) for row in rows])


# Others: test_fast.py, test_linear.py.
WITHOUT_FILES_OF_THEIR_OWN = [name for name in preset_names("paper") if "fast" not in name and "linear" not in name]


@pytest.mark.parametrize("features", ["categories", "reals", "none"])
@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("name", WITHOUT_FILES_OF_THEIR_OWN)
def test_whole_model(name: str, level: Any, features: str) -> None:
    torch.manual_seed(0)
    graphs = [example(seed, edges, features == "reals") for seed, edges in enumerate(EXAMPLE_EDGES)]
    specs: dict[str, dict[str, Any]] = {
        "categories": {"node": (5, 5), "edge": (4, 4)},
        "reals": {"node": pointset.Reals(2), "edge": pointset.Reals(2)},
        "none": {},
    }
    model = PointModel.from_preset(name, out=2, level=level, dim=CHANNELS, layers=2, pooling="sum", **specs[features])
    got = model.double()(graphs)
    expected = [model_by_loops(model, data, name, "sum" if level == "graph" else None) for data in graphs]
    assert_near(got, np.concatenate(expected))
