"""The released models once more, from their description alone: from an adjacency matrix to an output, in plain numpy.

Written without a look at the encoders, in the order in which the authors' code computes: dense arrays of one graph,
channels last, features of non-edges 0. The weights are those of our models by their names in the state dict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from pointset import Categories, PointModel, Reals
from pointset.points.graphs import GraphArrays

Array = NDArray[np.float64]
DIM, LAYERS = 6, 3


class Input(NamedTuple):
    """A graph as a dense batch of one has it."""

    adjacency: Array  # (n, n) weights
    x: NDArray[Any]  # (n, c) numbers, or (n, c) whole numbers of categories from 0
    edges: NDArray[Any] | None = (
        None  # (n, n, c) numbers, or whole numbers of categories from 1; 0 where there is no edge
    )
    positions: Array | None = None  # (n, 3)


@dataclass(frozen=True)
class Options:
    """Of the published commands."""

    embedding: int = 2  # layers of the eigenvalues' embedding
    deep_sets: int = 3
    normalised: bool = True  # vectors are centred and normalised
    pair_norm: bool = False  # LayerNorm in the MLP of pairs
    tails: bool = True  # an activation at the end of the MLPs of pairs, mixer and values
    exponent: float = 0.925
    pooling: str = "mean"


# --- parts


def layer_norm(x: Array, epsilon: float = 1e-5) -> Array:
    result: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return result


def silu(x: Array) -> Array:
    result: Array = x / (1 + np.exp(-x))
    return result


class Weights:
    """Of a model, by name."""

    def __init__(self, model: PointModel):
        self.arrays = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}

    def linear(self, name: str, x: Array) -> Array:
        bias = self.arrays.get(f"{name}.bias")
        result: Array = x @ self.arrays[f"{name}.weight"].T
        return result if bias is None else result + bias

    def mlp(self, name: str, x: Array, layers: int, norm: bool, tail: bool) -> Array:
        """k linear layers; norm and SiLU after each but the last, after the last with ``tail``."""
        step = 3 if norm else 2
        for at in range(layers):
            x = self.linear(f"{name}.{at * step}", x)
            if at < layers - 1 or tail:
                if norm:
                    affine = f"{name}.{at * step + 1}"
                    x = layer_norm(x) * self.arrays[f"{affine}.scale"] + self.arrays[f"{affine}.shift"]
                x = silu(x)
        return x

    def table(self, name: str, column: int, categories: Array) -> Array:
        """Rows of categories from 1; 0 is padding."""
        rows = self.arrays[f"{name}.{column}.weight"]
        result: Array = np.concatenate([np.zeros((1, rows.shape[1])), rows])[categories.astype(int)]
        return result

    def deep_set(self, name: str, x: Array) -> Array:
        """x ← x + mean(MLPₐ(x)) ⊙ MLP_b(x), the mean over the rows that are not masked."""
        pooled = self.mlp(f"{name}.pooled", x, 2, True, True).mean(0)
        result: Array = x + pooled * self.mlp(f"{name}.own", x, 2, True, True)
        return result

    def pair_mlp(self, name: str, x: Array, options: Options) -> Array:
        if options.pair_norm:
            return self.mlp(name, x, 2, True, options.tails)
        first, second = ((self.arrays[f"{name}.weight{at}"], self.arrays[f"{name}.bias{at}"]) for at in (1, 2))
        x = silu(x @ first[0].T + first[1]) @ second[0].T + second[1]
        return silu(x) if options.tails else x

    def one_layer(self, name: str, x: Array, tail: bool) -> Array:
        return silu(self.linear(name, x)) if tail else self.linear(name, x)


# --- the description, by its numbers


def eigenpairs(adjacency: Array) -> tuple[Array, Array]:
    """1. Without the smallest pair, and without those of |λ| < 1e-4; λ ← √max(λ, 0)."""
    values, vectors = np.linalg.eigh(np.diag(adjacency.sum(1)) - adjacency)
    values, vectors = values[1:], vectors[:, 1:]
    kept = np.abs(values) >= 1e-4
    return np.sqrt(np.maximum(values[kept], 0)), vectors[:, kept]


def first_vectors(w: Weights, given: Input, options: Options) -> Array:
    """2 and 3: v_i = U_i ⊙ emb(Λ), with edge features (Σ_c Σ_j e_ij^c U_j) ⊙ emb(Λ); (n, r, d)."""
    values, vectors = eigenpairs(given.adjacency)
    of_values = w.mlp("coordinates.function.embedding", values[:, None], options.embedding, True, True)
    for at in range(options.deep_sets):
        of_values = w.deep_set(f"coordinates.function.layers.{at}", of_values)
    if given.edges is None and given.positions is None:
        plain: Array = np.einsum("ir,rd->ird", vectors, of_values)
        return plain
    if given.edges is None:
        e: Array = np.ones((*given.adjacency.shape, DIM))
    elif "coordinates.pairs.linear.weight" in w.arrays:
        e = w.linear("coordinates.pairs.linear", given.edges)
    else:
        columns = range(given.edges.shape[-1])
        e = layer_norm(
            np.sum([w.table("coordinates.pairs.tables.tables", c, given.edges[..., c]) for c in columns], axis=0)
        )
    if given.positions is not None:
        apart = np.linalg.norm(given.positions[:, None] - given.positions, axis=-1)
        e = e * w.mlp("coordinates.pairs.distances.mlp", apart[..., None], 2, True, True)
    result: Array = np.einsum("ijc,jr,rd->ird", e, vectors, of_values)
    return result


def first_scalars(w: Weights, given: Input) -> Array:
    """4, (n, d)."""
    if "scalars.linear.weight" in w.arrays:
        return w.linear("scalars.linear", given.x)
    tables = [w.table("scalars.tables.tables", c, given.x[:, c] + 1) for c in range(given.x.shape[1])]
    return layer_norm(np.sum(tables, axis=0))


def normalised(v: Array) -> Array:
    """v − mean over the channels, over the rank axis to length 1 with floor 1e-3."""
    v = v - v.mean(-1, keepdims=True)
    result: Array = v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-3)
    return result


def released_pst(model: PointModel, given: Input, options: Options) -> Array:
    """5 and 6, (out,)."""
    w = Weights(model)
    s, v = first_scalars(w, given), first_vectors(w, given, options)
    attention: Array = np.zeros((len(s), len(s), DIM))
    for layer in (f"encoder.layers.{at}" for at in range(LAYERS)):
        s_hat, v_hat = layer_norm(s), normalised(v) if options.normalised else v
        query, key, left, right = (v_hat @ part.T for part in np.split(w.arrays[f"{layer}.projections.weight"], 4))
        products = np.einsum("ird,jrd->ijd", query, key)
        attention = attention + w.pair_mlp(f"{layer}.attention.mlp", products, options) * len(s) ** -options.exponent
        lengths = np.einsum("ird,ird->id", left, right)
        mixed_s = s_hat + w.one_layer(f"{layer}.gate_s", s_hat, options.tails) * lengths
        s = s + np.einsum("ijd,jd->id", attention, w.one_layer(f"{layer}.value_s", mixed_s, options.tails))
        if f"{layer}.value_v.weight" in w.arrays:  # not in our last layer, whose vectors nothing reads
            mixed_v = v_hat + v_hat * w.one_layer(f"{layer}.gate_v", s_hat, options.tails)[:, None]
            v = v + np.einsum("ijd,jrd->ird", attention, w.linear(f"{layer}.value_v", mixed_v))
    pooled = s.mean(0) if options.pooling == "mean" else s.max(0)
    return w.linear("readout.linear", pooled)


def released_psds(model: PointModel, given: Input) -> Array:
    """The authors' Point Set DeepSet, (out,)."""
    w = Weights(model)
    s, v = first_scalars(w, given), first_vectors(w, given, Options())
    scale = len(s) ** -0.925
    sum_s: Any = 0
    sum_v: Any = 0
    square: Any = 0
    for layer in (f"encoder.layers.{at}" for at in range(LAYERS)):
        s_hat, v_hat = layer_norm(s), normalised(v)
        x = s
        for at in range(3):
            x = w.deep_set(f"{layer}.sums.layers.{at}", x)
        sum_s = sum_s + scale * w.linear(f"{layer}.sums.after", w.linear(f"{layer}.sums.before", x.mean(0)))
        sum_v = sum_v + scale * w.linear(f"{layer}.sums.w5", v_hat.sum(0))  # (r, d)
        one, two = w.linear(f"{layer}.sums.w6", v_hat), w.linear(f"{layer}.sums.w7", v_hat)
        square = square + scale * np.einsum("ird,iqd->rqd", one, two)
        left, right = (v_hat @ part.T for part in np.split(w.arrays[f"{layer}.projections.weight"], 2))
        mixed_s = s_hat + w.one_layer(f"{layer}.gate_s", s_hat, True) * np.einsum("ird,ird->id", left, right)
        mixed_v = v_hat + v_hat * w.one_layer(f"{layer}.gate_v", s_hat, True)[:, None]
        added = w.linear(f"{layer}.w1", np.einsum("ird,rqd->iqd", mixed_v, square))
        added = added + w.linear(f"{layer}.w2", mixed_s[:, None] * sum_v) + w.linear(f"{layer}.w3", sum_s * mixed_v)
        added = added / 3
        trace = np.einsum("rrd->d", square)
        product = w.linear(f"{layer}.of_trace", trace) * sum_s * w.linear(f"{layer}.of_s", mixed_s)
        product = product * w.linear(f"{layer}.of_v", np.einsum("rd,ird->id", sum_v, added))
        s, v = s + w.one_layer(f"{layer}.update", product, True), v + added
    return w.linear("readout.linear", s.mean(0))


# --- compared


def two_rings() -> Any:
    """Repeated eigenvalues, two components."""
    return nx.disjoint_union(nx.cycle_graph(5), nx.complete_graph(4))


GRAPHS = {"without symmetry": nx.lollipop_graph(4, 3), "two components": two_rings()}
each_graph = pytest.mark.parametrize("graph", list(GRAPHS.values()), ids=list(GRAPHS))


def made(preset: str, **specs: Any) -> PointModel:
    """All weights random, also those that begin as 0 or 1."""
    torch.manual_seed(0)
    model = PointModel.from_preset(preset, dim=DIM, layers=LAYERS, out=2, **specs).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.4)
    return model


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def as_data(graph: Any, **features: Any) -> Data:
    low, high = np.array(sorted(graph.edges)).T
    ends = torch.from_numpy(np.concatenate([[low, high], [high, low]], axis=1))
    edge_attr = features.pop("edge_attr", None)
    if edge_attr is not None:
        features["edge_attr"] = torch.from_numpy(np.concatenate([edge_attr, edge_attr]))
    arrays = {name: value if isinstance(value, torch.Tensor) else torch.from_numpy(value)
              for name, value in features.items()}  # fmt: skip
    return Data(edge_index=ends, num_nodes=len(graph), **arrays)


def dense(graph: Any, by_edge: NDArray[Any]) -> Array:
    """(n, n, c), 0 where there is no edge."""
    result = np.zeros((len(graph), len(graph), by_edge.shape[1]))
    for (i, j), row in zip(sorted(graph.edges), by_edge, strict=True):
        result[i, j] = result[j, i] = row
    return result


def assert_equal(model: PointModel, graph: Any, expected: Array) -> None:
    with torch.no_grad():
        got = model.eval()([graph] if not isinstance(graph, GraphArrays) else list(graph))[0].numpy()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * max(1.0, float(np.abs(expected).max())))


PUBLISHED = {
    "pst-released": Options(),
    "pst-released-zinc": Options(embedding=1),
    "pst-released-peptides": Options(normalised=False, pair_norm=True, tails=False, pooling="max"),
    "pst-released-struct": Options(normalised=False, pair_norm=True, tails=False, exponent=1.9 / 2, deep_sets=4),
}


@each_graph
@pytest.mark.parametrize("preset", PUBLISHED)
class TestPST:
    def test_without_edge_features(self, preset: str, graph: Any) -> None:
        x = np.arange(len(graph))[:, None] % 3
        model = made(preset, node=Categories(3), pooling=PUBLISHED[preset].pooling)
        given = Input(nx.to_numpy_array(graph), x)
        assert_equal(model, as_data(graph, x=x), released_pst(model, given, PUBLISHED[preset]))

    def test_zincs_edges_weigh_the_category_plus_1(self, preset: str, graph: Any) -> None:
        x, bonds = np.arange(len(graph))[:, None] % 3, 1 + np.arange(graph.size()) % 3
        model = made(preset, node=Categories(3), pooling=PUBLISHED[preset].pooling)
        given = Input(dense(graph, 1.0 + bonds[:, None])[..., 0], x)
        data = as_data(graph, x=x, edge_weight=np.concatenate([bonds, bonds]) + 1.0)
        assert_equal(model, data, released_pst(model, given, PUBLISHED[preset]))

    def test_real_edge_features(self, preset: str, graph: Any) -> None:
        x, attr = numbers(len(graph), 2), numbers(graph.size(), 3, seed=1)
        model = made(preset, node=Reals(2), edge=Reals(3), pooling=PUBLISHED[preset].pooling)
        given = Input(nx.to_numpy_array(graph), x, dense(graph, attr))
        assert_equal(model, as_data(graph, x=x, edge_attr=attr), released_pst(model, given, PUBLISHED[preset]))

    def test_categories_of_edges_leave_nothing(self, preset: str, graph: Any) -> None:
        """In theirs rounding remains of 0, which the floor of 1e-3 makes 10³ times longer in each layer."""
        x, bonds = np.arange(len(graph))[:, None] % 3, np.stack([np.arange(graph.size()) % k for k in (3, 2)], axis=1)
        model = made(preset, node=Categories(3), edge=Categories(3, 2), pooling=PUBLISHED[preset].pooling)
        given = Input(nx.to_numpy_array(graph), x, dense(graph, bonds + 1.0))
        assert np.abs(first_vectors(Weights(model), given, PUBLISHED[preset])).max() < 1e-13
        assert_equal(model, as_data(graph, x=x, edge_attr=bonds), released_pst(model, given, PUBLISHED[preset]))


@each_graph
class TestQM9:
    """11 columns of x, bonds as 4 columns of zeros and ones; 1 is added to all of them, then linear maps."""

    @staticmethod
    def one_hot(graph: Any) -> tuple[Array, NDArray[Any]]:
        bonds = np.arange(graph.size()) % 4
        return np.eye(4)[bonds], bonds[:, None]

    @pytest.mark.parametrize("positions", [False, True])
    def test_as_categories(self, graph: Any, positions: bool) -> None:
        """pst-released-qm9 with row W e_c + W 1 of the table for category c, and b + W 1 for the bias of x."""
        preset = "pst-released-qm9-star" if positions else "pst-released-qm9"
        (columns, bonds), x, pos = self.one_hot(graph), numbers(len(graph), 11), numbers(len(graph), 3, seed=2)
        theirs = made(preset.replace("-qm9", ""), node=Reals(11), edge=Reals(4))
        given = Input(nx.to_numpy_array(graph), x + 1, dense(graph, columns + 1), pos if positions else None)
        expected = released_pst(theirs, given, Options())
        ours = made(preset, node=Reals(11), edge=Categories(4))
        shared = {name: value for name, value in theirs.state_dict().items() if "pairs.linear" not in name}
        weight, bias = (theirs.state_dict()[f"coordinates.pairs.linear.{name}"] for name in ("weight", "bias"))
        shared["scalars.linear.bias"] = shared["scalars.linear.bias"] + shared["scalars.linear.weight"].sum(1)
        shared["coordinates.pairs.tables.tables.0.weight"] = weight.T + weight.sum(1)
        shared["coordinates.pairs.bias"] = bias
        ours.load_state_dict(shared)
        features = {"x": x, "edge_attr": bonds} | ({"pos": pos} if positions else {})
        assert_equal(ours, as_data(graph, **features), expected)

    @pytest.mark.parametrize("edge", [Reals(4), Categories(4), None], ids=["numbers", "categories", "none"])
    def test_distances(self, graph: Any, edge: Any) -> None:
        x, pos = np.arange(len(graph))[:, None] % 3, numbers(len(graph), 3, seed=2)
        model = made("pst-released-star", node=Categories(3), edge=edge)
        columns, bonds = self.one_hot(graph)
        attr: dict[Any, Any] = {Reals(4): (columns, columns), Categories(4): (bonds, bonds + 1.0), None: (None, None)}
        mine, theirs = attr[edge]
        given = Input(nx.to_numpy_array(graph), x, None if theirs is None else dense(graph, theirs), pos)
        features = {"x": x, "pos": pos} | ({} if mine is None else {"edge_attr": mine})
        assert_equal(model, as_data(graph, **features), released_pst(model, given, Options()))


@each_graph
def test_psds(graph: Any) -> None:
    x, attr = np.arange(len(graph))[:, None] % 3, numbers(graph.size(), 3, seed=1)
    for edge in (None, Reals(3)):
        model = made("psds-released", node=Categories(3), edge=edge)
        given = Input(nx.to_numpy_array(graph), x, None if edge is None else dense(graph, attr))
        features = {"x": x} | ({} if edge is None else {"edge_attr": attr})
        assert_equal(model, as_data(graph, **features), released_psds(model, given))
