"""Contributions of nodes and edges: known answers, completeness, symmetry, and a model that learned to count."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pointset
from pointset import Categories, PointModel, PointSet, Reals, collate, to_points
from pointset.datasets.molecules import MoleculeReader
from pointset.datasets.molecules.features import EDGE, NODE, SYMBOLS
from pointset.encoders.attributions import METHODS, GraphContributions, Method, Neutral, contributions
from pointset.encoders.coordinates import Coordinates, NodeScalars, SquareRoot
from pointset.encoders.layers import PointState, Readout
from pointset.errors import SpecError
from pointset.prediction.features import molecule_graph

MATRIX = "normalized_adjacency"  # of pst-fast

# --- graphs with random features


def graph_with(n: int, node: Any, edge: Any, seed: int = 0, matrix: str = "laplacian") -> PointSet:
    """A connected graph of n nodes with random features."""
    generator = torch.Generator().manual_seed(seed)
    graph: Any = nx.connected_watts_strogatz_graph(n, 4, 0.4, seed=seed) if n > 4 else nx.path_graph(n)

    def drawn(spec: Any) -> Tensor:
        if isinstance(spec, Reals):
            return torch.randn(spec.width, generator=generator, dtype=torch.float64)
        return torch.cat([torch.randint(size, (1,), generator=generator) for size in spec.sizes])

    for at in graph.nodes:
        graph.nodes[at]["x"] = drawn(node)
    for pair in graph.edges if edge is not None else ():
        graph.edges[pair]["edge_attr"] = drawn(edge)
    points = to_points(graph, matrix=matrix)
    if edge is None or graph.edges:
        return points
    return replace(points, edge_attr=torch.zeros(0, edge.width).long(), edge_index=torch.zeros(2, 0).long())


def random_model(preset: str = "pst-fast", node: Any = Categories(5, 3), edge: Any = Categories(4), **more: Any) -> Any:  # noqa: B008
    settings: dict[str, Any] = {"out": 2, "dim": 8, "layers": 2, "pooling": "sum", **more}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = PointModel.from_preset(preset, node=node, edge=edge, **settings)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval().requires_grad_(False)


def neutral_of(points: list[PointSet], node: Any, edge: Any) -> Neutral:
    x = None if node is None else torch.cat([one.x for one in points if one.x is not None])
    attr = None if edge is None else torch.cat([one.edge_attr for one in points if one.edge_attr is not None])
    return Neutral.of(node, edge, x, attr)


def first(outputs: Tensor) -> Tensor:
    return outputs[:, 0]


def total(one: GraphContributions) -> float:
    return float(one.nodes.sum() + one.edges.sum())


# --- models whose answer is known


class Unchanged(nn.Module):
    def forward(self, state: PointState) -> PointState:
        return state


def additive_model(node: Any, pooling: Any, channels: int = 4) -> PointModel:
    """Σ_i w · embedding(x_i): each node's contribution is its own term."""
    torch.manual_seed(3)
    model = PointModel(
        NodeScalars(node, channels),
        Coordinates(SquareRoot(channels)),
        Unchanged(),
        Readout(channels, 1, "graph", pooling),
        matrix="laplacian",
    )
    return model.to(torch.float64).eval().requires_grad_(False)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("n", [1, 5, 12])
def test_an_additive_model_has_an_exact_answer(method: Method, pooling: str, n: int) -> None:
    node = Reals(3)
    model, points = additive_model(node, pooling), graph_with(n, node, None)
    neutral = Neutral(((0.3, -0.2, 0.5),), None)
    (found,) = contributions(model, [points], neutral, first, method=method)
    assert points.x is not None
    linear: Any = model.scalars.linear
    terms = (
        (points.x - torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64))
        @ linear.weight.mT
        @ model.readout.linear.weight[0]
    )
    expected = terms / (n if pooling == "mean" else 1)
    assert torch.allclose(found.nodes, expected, rtol=0, atol=1e-12)
    assert not found.edges.any()
    assert abs(found.residual) < 1e-12
    assert found.output == pytest.approx(float(model([points])), abs=1e-12)


def test_categories_of_an_additive_model() -> None:
    """LayerNorm bends the way from the average to the node, but its two ends are what they are."""
    node = Categories(4)
    model, points = additive_model(node, "sum"), graph_with(6, node, None)
    neutral = Neutral(((0.4, 0.3, 0.2, 0.1),), None)
    tables: Any = model.scalars.tables
    average = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64) @ tables.tables[0].weight
    assert points.x is not None
    embedded = tables.tables[0].weight[points.x[:, 0]]
    norm, last = model.scalars.norm, model.readout.linear.weight[0]
    expected = (norm(embedded.mT) - norm(average.unsqueeze(1))).mT @ last  # type: ignore[operator]
    exact, integrated = (contributions(model, [points], neutral, first, method=method)[0] for method in METHODS[::-1])
    assert torch.allclose(exact.nodes, expected, rtol=0, atol=1e-12)
    assert torch.allclose(integrated.nodes, expected, rtol=0, atol=0.02 * float(expected.abs().sum()))


def test_exact_shapley_values_are_means_over_all_orders() -> None:
    node, edge = Categories(5, 3), Categories(4)
    model, points = random_model().to(torch.float64), graph_with(4, node, edge, matrix=MATRIX)
    neutral = neutral_of([graph_with(9, node, edge, 1)], node, edge)
    found = contributions(model, [points], neutral, first, method="shapley")[0]

    from pointset.encoders.attributions import _blending, _Explained, _of_sets

    explained = _Explained(_blending(model, neutral), first, 0)

    def value(members: tuple[int, ...]) -> float:
        return float(_of_sets(explained, points, torch.tensor([[at in members for at in range(4)]])))

    sums = np.zeros(4)
    for order in itertools.permutations(range(4)):
        for place, joining in enumerate(order):
            sums[joining] += (value(order[: place + 1]) - value(order[:place])) / 24
    assert found.nodes.numpy() == pytest.approx(sums, abs=1e-10)


# --- every model


@pytest.mark.parametrize("preset", ["pst-fast", "pst", "psds", "gin"])
@pytest.mark.parametrize("method", METHODS)
def test_contributions_add_up(preset: str, method: Method) -> None:
    node, edge = Categories(5, 3), Categories(4)
    model = random_model(preset)
    points = [graph_with(n, node, edge, seed=n, matrix=model.matrix) for n in (9, 4, 1, 9, 13)]
    found = contributions(model, points, neutral_of(points, node, edge), first, method=method)
    outputs = model(collate(points))[:, 0]
    for one, output, graph in zip(found, outputs.tolist(), points, strict=True):
        assert len(one.nodes) == graph.num_nodes
        assert one.edge_index.shape == (2, graph.num_edges) == (2, len(one.edges))
        assert one.output == pytest.approx(output, rel=1e-4, abs=1e-4)
        size = float(one.nodes.abs().sum() + one.edges.abs().sum())
        assert abs(one.residual) <= (0.02 if preset == "gin" else 0.01) * size + 1e-5  # gin has corners
        assert total(one) == pytest.approx(one.output - one.baseline - one.residual)


def test_edges_are_the_graphs_own_in_both_directions_at_once() -> None:
    node, edge = Categories(5, 3), Categories(4)
    points = graph_with(9, node, edge, matrix=MATRIX)
    (found,) = contributions(random_model(), [points], neutral_of([points], node, edge), first)
    assert points.edge_index is not None
    pairs = {tuple(sorted(pair)) for pair in points.edge_index.T.tolist()}
    assert set(map(tuple, found.edge_index.T.tolist())) == pairs
    assert found.edges.abs().min() > 0


def test_an_average_graph_has_no_contributions() -> None:
    """Where every node and edge is the average one, nothing differs from the baseline."""
    node, edge = Categories(5, 3), Categories(4)
    plain = graph_with(7, node, edge, matrix=MATRIX)
    points = replace(plain, x=torch.tensor([[2, 1]] * 7), edge_attr=torch.full((plain.num_edges, 1), 3))
    (found,) = contributions(random_model(), [points], neutral_of([points], node, edge), first)
    assert float(found.nodes.abs().max()) < 1e-6
    assert found.output == pytest.approx(found.baseline, abs=1e-6)


def test_neither_the_order_of_nodes_nor_the_batch_matters() -> None:
    node, edge = Categories(5, 3), Categories(4)
    model = random_model().to(torch.float64)
    n = 8
    graph: Any = nx.connected_watts_strogatz_graph(n, 4, 0.4, seed=1)
    generator = torch.Generator().manual_seed(0)
    x = torch.stack([torch.randint(size, (n,), generator=generator) for size in node.sizes], 1)
    types = {pair: int(torch.randint(4, (1,), generator=generator)) for pair in graph.edges}
    order = torch.randperm(n, generator=generator)
    new = order.argsort().tolist()  # node order[i] becomes node i

    def points_of(rename: list[int], features: Tensor) -> PointSet:
        renamed: Any = nx.Graph()
        renamed.add_nodes_from((at, {"x": features[at]}) for at in range(n))
        for (a, b), kind in types.items():
            renamed.add_edge(rename[a], rename[b], edge_attr=torch.tensor([kind]))
        return to_points(renamed, matrix=model.matrix)

    one, other = points_of(list(range(n)), x), points_of(new, x[order])
    neutral = neutral_of([one], node, edge)
    alone = contributions(model, [one], neutral, first)[0]
    beside = contributions(model, [graph_with(5, node, edge, matrix=model.matrix), other], neutral, first)[1]
    assert torch.allclose(beside.nodes, alone.nodes[order], atol=1e-9)
    assert float(beside.edges.sum()) == pytest.approx(float(alone.edges.sum()), abs=1e-9)


def test_both_paths_give_the_same() -> None:
    node, edge = Categories(5, 3), Categories(4)
    points = [graph_with(n, node, edge, matrix=MATRIX) for n in (5, 9)]
    model, neutral = random_model(), neutral_of(points, node, edge)
    native = contributions(model, points, neutral, first)
    with pointset.torch_path():
        plain = contributions(model, points, neutral, first)
    for one, other in zip(native, plain, strict=True):
        assert torch.allclose(one.nodes, other.nodes, rtol=0, atol=1e-4 * float(other.nodes.abs().max()))


def test_the_model_is_left_as_it_is() -> None:
    node, edge = Categories(5, 3), Categories(4)
    points = [graph_with(6, node, edge, matrix=MATRIX)]
    model = random_model().requires_grad_(True)
    classes = [type(part) for part in model.modules()]
    before = model(collate(points))
    contributions(model, points, neutral_of(points, node, edge), first)
    assert [type(part) for part in model.modules()] == classes
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(model(collate(points)), before)


# --- what is refused


def test_what_cannot_be_explained_is_said() -> None:
    node, edge = Categories(5, 3), Categories(4)
    points = [graph_with(5, node, edge, matrix=MATRIX)]
    neutral = neutral_of(points, node, edge)
    with pytest.raises(SpecError, match="predicts for nodes"):
        contributions(random_model(level="node"), points, neutral, first)
    with pytest.raises(SpecError, match="no node features"):
        contributions(random_model(node=None, edge=None), points, neutral, first)
    with pytest.raises(SpecError, match="expected 'gradients' or 'shapley'"):
        contributions(random_model(), points, neutral, first, method="lime")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"averages of \[2\] values for"):
        contributions(random_model(), points, Neutral(((0.5, 0.5),), neutral.edge), first)
    with pytest.raises(SpecError, match="no average features"):
        contributions(random_model(), points, Neutral(None, None), first)
    assert contributions(random_model(), [], neutral, first) == []


# --- a trained model with a known answer: how many nitrogens a molecule has


def small_molecules(count: int) -> list[str]:
    """Chains with a branch, of carbon, oxygen, chlorine and nitrogen."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(count):
        letters = generator.choice([*"CCCCCC", "O", "N"], size=generator.integers(3, 9)).tolist()
        branch = generator.choice(["", "(Cl)", "(C)", "(=O)"])
        found.append(f"C{branch}{''.join(letters)}")
    return found


def counting_model(points: list[PointSet], counts: Tensor) -> PointModel:
    """Trained for some seconds to give the counts."""
    torch.manual_seed(0)
    model = PointModel.from_preset("pst-fast", node=NODE, edge=EDGE, dim=16, layers=1, pooling="sum")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batches = [(collate(points[at : at + 25]), counts[at : at + 25]) for at in range(0, len(points), 25)]
    for epoch in range(epochs := 80):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - epoch / epochs)
        for batch, wanted in batches:
            loss = (model(batch)[:, 0] - wanted).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval().requires_grad_(False)


def test_a_model_that_counts_nitrogen_puts_it_on_the_nitrogens() -> None:
    """Every nitrogen comes before every other atom and adds one more than they do.

    Other atoms add a little less than nothing, as the average atom, which they stand in the place of, is nitrogen too,
    in part.
    """
    pytest.importorskip("rdkit")
    molecules = [MoleculeReader()(smiles) for smiles in small_molecules(200)]
    points = [to_points(molecule_graph(one), matrix="normalized_adjacency") for one in molecules]
    nitrogens = [np.array([SYMBOLS[z] == "N" for z in one.x[:, 0]]) for one in molecules]
    counts = torch.tensor([float(one.sum()) for one in nitrogens])
    model = counting_model(points[50:], counts[50:])
    assert float((model(collate(points[:50]))[:, 0] - counts[:50]).abs().mean()) < 0.25, "it has not learned to count"
    neutral = neutral_of(points[50:], NODE, EDGE)
    chosen = [at for at in range(50) if 0 < counts[at] < len(nitrogens[at])]
    for method in METHODS:
        found = contributions(model, [points[at] for at in chosen], neutral, first, method=method)
        explained, steps = [], []
        for one, at in zip(found, chosen, strict=True):
            nodes, own = one.nodes_with_edges.numpy(), nitrogens[at]
            assert nodes[own].min() > nodes[~own].max(), f"{molecules[at].smiles}: {nodes}"
            explained.append(np.corrcoef(nodes, own)[0, 1] ** 2)
            steps.append(nodes[own].mean() - nodes[~own].mean())
        assert np.mean(steps) == pytest.approx(1.0, abs=0.25), "one nitrogen more is one more"
        assert np.mean(explained) > 0.75, "of how contributions differ, most is nitrogen"
