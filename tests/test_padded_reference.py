"""The padded references of the benchmarks compute what `pst-released` and `pst` compute: outputs and gradients."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import pointset
from pointset import Categories, Reals
from pointset.datasets.benchmarks.zinc import ZINC
from pointset.points.graphs import Features, GraphArrays
from pointset.specs import Spec

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # scripts, not a package

from operations import operations
from padded_reference import REFERENCES, TIMED, PaddedModel, pad, reference_of, shared_weights
from tests.tolerances import near, rounding, terms_of_model
from zinc_graphs import random_molecule, synthetic_zinc

CHANNELS = 16
PRESETS = list(TIMED)
# Of the last layer: they make vectors, which nothing reads.
LAST_VECTORS = {
    "pst-released": {"value_v.weight", "gate_v.0.weight", "gate_v.0.bias"},
    "pst": {"w3.weight", "w4.weight", "mlp2.0.weight", "mlp2.0.bias", "mlp2.2.weight", "mlp2.2.bias"},
}
TYPES = [torch.float32, torch.float64]


def molecules() -> GraphArrays:
    """Connected, of 2 to 30 nodes, two of one size, with bond types as weights."""
    return with_features([2, 30, 5, 12, 12, 23], [1] * 6)


def with_features(sizes: list[int], parts: list[int], edge: Spec = None) -> GraphArrays:
    """Molecule-like graphs; graph g falls into ``parts[g]`` components of ``sizes[g]`` nodes each.

    Without a spec of edge features, bond types are weights. All graphs have positions.
    """
    generator = np.random.default_rng(3)

    def edges_of(size: int, count: int) -> list[tuple[int, int]]:
        components = [random_molecule(size, generator) for _ in range(count)]
        return [(low + p * size, high + p * size) for p, edges in enumerate(components) for low, high in edges]

    ends = [np.array(edges_of(*pair), dtype=int).reshape(-1, 2) for pair in zip(sizes, parts, strict=True)]
    nodes, edges = np.multiply(sizes, parts), np.array([len(pairs) for pairs in ends])
    features = [
        Features(
            x=torch.from_numpy(generator.integers(0, 28, size)),
            edge_attr=edge_features(count, edge, generator),
            pos=torch.from_numpy(generator.normal(size=(size, 3))),
        )
        for size, count in zip(nodes, edges, strict=True)
    ]
    bonds = generator.integers(1, 4, edges.sum()) if edge is None else np.ones(edges.sum())
    return GraphArrays.from_flat(nodes, edges, np.concatenate(ends).T, bonds, features)


def edge_features(count: int, edge: Spec, generator: np.random.Generator) -> Tensor | None:
    """(m, c) of a spec."""
    if isinstance(edge, Categories):
        return torch.from_numpy(np.stack([generator.integers(0, size, count) for size in edge.sizes], axis=1))
    return None if edge is None else torch.from_numpy(generator.normal(size=(count, edge.width)))


def both(
    preset: str, graphs: GraphArrays, layers: int, dtype: torch.dtype, edge: Spec = None
) -> tuple[pointset.PointModel, PaddedModel]:
    """Both models after a backward pass of the same loss; outputs are compared on the way."""
    torch.manual_seed(layers)
    settings: dict[str, Any] = {"node": Categories(28), "edge": edge, "out": 3, "dim": CHANNELS, "layers": layers}
    model = pointset.PointModel.from_preset(preset, **settings).to(dtype)
    reference = reference_of(model)
    ours: Tensor = model(pointset.collate(list(pointset.to_points_many(graphs, dtype=dtype, progress=False))))
    theirs: Tensor = reference(pad(list(graphs), dtype))
    assert near(theirs, ours, terms=terms_of_model(nodes=30, dim=CHANNELS, layers=layers), dtype=dtype)
    target = torch.randn(ours.shape, dtype=dtype)
    for output in (ours, theirs):
        torch.autograd.backward((output - target).square().sum())
    return model, reference


@pytest.mark.parametrize("preset", [*PRESETS, "pst-released-zinc"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("graphs", [molecules(), with_features([9, 1, 6, 4], [1, 1, 2, 3])], ids=["connected", "parts"])
def test_outputs_and_gradients_agree(preset: str, graphs: GraphArrays, layers: int, dtype: torch.dtype) -> None:
    model, reference = both(preset, graphs, layers, dtype)
    assert_equal_gradients(model, reference, graphs, layers, dtype)


EDGES: dict[str, Spec] = {"reals": Reals(3), "categories": Categories(4), "two columns": Categories(4, 3), "none": None}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("preset", ["pst-released", "pst-released-star"])
def test_edge_features_and_positions_agree(preset: str, edge: str, dtype: torch.dtype) -> None:
    if preset == "pst-released" and edge in ("categories", "two columns") and dtype is torch.float32:
        pytest.skip("their coordinates are what rounding leaves of 0, made longer by the floor of 1e-3")
    graphs = with_features([9, 1, 6, 4, 12], [1, 1, 2, 3, 1], EDGES[edge])
    model, reference = both(preset, graphs, 3, dtype, EDGES[edge])
    assert_equal_gradients(model, reference, graphs, 3, dtype)


def test_coordinates_of_categorical_edges_vanish_in_the_reference_too() -> None:
    graphs = with_features([9, 6], [1, 2], Categories(4))
    _, reference = both("pst-released", graphs, 2, torch.float64, Categories(4))
    batch = pad(list(graphs), torch.float64)
    assert reference.edges is not None
    weights = reference.edges(batch).detach()
    assert float(weights.abs().max()) > 0.5 and float(weights.sum(-1).abs().max()) < 1e-13


def test_adding_1_to_features_changes_weights_and_not_the_function() -> None:
    """The authors do so for QM9; W (e + 1) = (W + (W1)1ᵀ) e where the columns of e add up to 1, as for bonds."""
    graphs = with_features([9, 1, 6, 4, 12], [1, 1, 2, 3, 1], Reals(4))
    generator = torch.Generator().manual_seed(0)
    attr = [torch.eye(4)[torch.randint(0, 4, (one.edges.shape[1],), generator=generator)] for one in graphs]
    bonds = [dataclasses.replace(one, features=one.features._replace(edge_attr=attr[at]))
             for at, one in enumerate(graphs)]  # fmt: skip
    model = pointset.PointModel.from_preset("pst-released", node=28, edge=Reals(4), dim=CHANNELS, layers=2).double()
    reference = reference_of(model)
    batch = pad(bonds, torch.float64)
    assert batch.edges is not None and reference.edges is not None and reference.edges.linear is not None
    there = (batch.adjacency != 0).unsqueeze(-1)
    expected = reference(batch._replace(edges=batch.edges + there))
    with torch.no_grad():
        reference.edges.linear.weight += reference.edges.linear.weight.sum(1, keepdim=True)
    assert near(reference(batch), expected, terms=100, dtype=torch.float64)


@pytest.mark.parametrize(("preset", "count"), [("pst-released", 484_641), ("pst-released-zinc", 471_281)])
def test_the_numbers_of_parameters_are_the_authors_for_zinc(preset: str, count: int) -> None:
    """6 layers of 80. Theirs have 40 rows for atoms, and, read by nothing, 20 for bonds and the vectors of the last
    layer; ours have the 28 atoms of the dataset's spec, and nothing that is not read."""
    rows, (atoms,) = {"atoms": 40, "bonds": 20}, ZINC.card.node.sizes  # type: ignore[union-attr]
    theirs = REFERENCES[preset]([rows["atoms"] - 1], 80, 6, edge=Categories(rows["bonds"] - 1))
    assert sum(parameter.numel() for parameter in theirs.parameters()) == count
    model = pointset.PointModel.from_preset(preset, node=ZINC.card.node, dim=80, layers=6)
    unread = sum(
        parameter.numel()
        for name, parameter in theirs.named_parameters()
        if name in {f"layers.5.{part}" for part in LAST_VECTORS["pst-released"]}
    )
    assert model.num_parameters == count - unread - 80 * (sum(rows.values()) - atoms)


def assert_equal_gradients(
    model: pointset.PointModel, reference: PaddedModel, graphs: GraphArrays, layers: int, dtype: torch.dtype
) -> None:
    """Of every shared weight, after :func:`both`."""
    # Forward and backward, then a sum over all nodes. In float32 the error of a small gradient is that of the large
    # ones which cancel in it, so the scale is the largest of the whole model; in float64 it is each weight's own.
    allowed = rounding(dtype, 2 * terms_of_model(nodes=30, dim=CHANNELS, layers=layers) + sum(graphs.num_nodes))
    steepest = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    weights_pairs = reference.edges is not None
    for weight in shared_weights(model, reference):
        ours, theirs = weight.ours.grad, weight.theirs.grad
        assert ours is not None and theirs is not None
        largest = float(ours.abs().max())
        # Where nothing is left of the coordinates, or of a bias at all pairs (Σ_j U_j = 0), gradients are rounding.
        assert largest > 1e-9 * steepest or weights_pairs
        difference = float((ours[weight.rows] - theirs[weight.their_rows]).abs().max())
        if dtype is torch.float32:  # Σ_j e_ij U_j is small beside its terms
            assert difference <= (5 if weights_pairs else 1) * allowed * steepest
        else:
            assert difference <= max(1e-8 * largest, 1e-11 * steepest if weights_pairs else 0.0)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_weight_of_ours_is_in_the_reference(preset: str) -> None:
    model, reference = both(preset, molecules(), 2, torch.float64)
    shared = list(shared_weights(model, reference))
    assert {id(weight.ours) for weight in shared} == {id(parameter) for parameter in model.parameters()}
    covered = sum(weight.ours[weight.rows].numel() for weight in shared)
    assert covered == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("preset", PRESETS)
def test_only_the_vectors_of_the_last_layer_are_extra_in_the_reference(preset: str) -> None:
    model, reference = both(preset, molecules(), 2, torch.float64)
    shared = {id(weight.theirs) for weight in shared_weights(model, reference)}
    extra = {name: parameter for name, parameter in reference.named_parameters() if id(parameter) not in shared}
    assert set(extra) == {f"layers.1.{name}" for name in LAST_VECTORS[preset]}
    assert all(parameter.grad is None for parameter in extra.values())


@pytest.mark.parametrize("preset", PRESETS)
def test_weights_of_the_last_layers_vectors_do_not_matter(preset: str) -> None:
    _, reference = both(preset, molecules(), 2, torch.float64)
    batch = pad(list(molecules()), torch.float64)
    before = reference(batch)
    with torch.no_grad():
        for name in LAST_VECTORS[preset]:
            dict(reference.named_parameters())[f"layers.1.{name}"].normal_()
    assert torch.equal(reference(batch), before)


def test_the_reference_refuses_other_models() -> None:
    with pytest.raises(ValueError, match="pst-released"):
        reference_of(pointset.PointModel.from_preset("psds", node=28))
    with pytest.raises(ValueError, match="edge features"):
        reference_of(pointset.PointModel.from_preset("pst", node=28, edge=4))


@pytest.mark.parametrize("preset", PRESETS)
def test_counted_operations_are_those_that_torch_counts_in_the_reference(preset: str) -> None:
    graphs, n, d, layers = with_features([20] * 3, [1] * 3), 20, 24, 3  # of one size: nothing is padded
    reference = REFERENCES[preset]([28], d, layers)
    for parameter in reference.parameters():
        torch.nn.init.constant_(parameter, 1 / d)
    with FlopCounterMode(display=False) as forward:
        output = reference(pad(list(graphs)))
    with FlopCounterMode(display=False) as backward:
        torch.autograd.backward(output.sum())
    counted = operations(preset, [(n, n - 1)] * 3, d, layers)
    maps, gates = {"pst-released": (1, 1), "pst": (2, 2)}[preset]  # d × d, of vectors and of scalars
    last_vectors = 3 * (maps * 2 * d**2 * n * (n - 1) + 2 * d * n**2 * (n - 1) + gates * 2 * d**2 * n)  # never read
    assert forward.get_total_flops() == pytest.approx(counted / 3 + last_vectors, rel=1e-6)
    assert backward.get_total_flops() == pytest.approx(2 * counted / 3, rel=1e-3)


def test_random_molecules_are_of_zincs_sizes_and_connected() -> None:
    graphs = synthetic_zinc(300)
    assert np.mean(graphs.num_nodes) == pytest.approx(23.16, abs=1)
    assert np.mean(graphs.num_edges) == pytest.approx(24.92, abs=1.5)
    points = pointset.to_points_many(graphs, progress=False)
    assert all(item.rank == item.num_nodes - 1 for item in points)
