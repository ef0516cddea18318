"""The check for leaks: relabelled copies across a split are found, and nothing else is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import pointset
from pointset.datasets.splits import LeakReport, find_leaks, folds, random_split
from pointset.errors import SpecError
from pointset.paper.families import circular_skip_links, csl_classes, rook, shrikhande, two_cycles
from pointset.points.graphs import Features, FlatFeatures, GraphArrays
from pointset.points.inputs import read_graphs
from tests.graph_strategies import ATLAS_UP_TO_6, relabelled, with_features


def leaks(train: list[Any], test: list[Any]) -> LeakReport:
    graphs = read_graphs([*train, *test])
    return find_leaks(graphs, {"train": np.arange(len(train)), "test": np.arange(len(train), len(graphs))})


def permuted(data: Data, seed: int) -> Data:
    """The same graph with its nodes renamed and its edges listed in another order."""
    rng = np.random.default_rng(seed)
    new_name = torch.from_numpy(rng.permutation(data.num_nodes))
    order = torch.from_numpy(rng.permutation(data.edge_index.shape[1]))
    result = Data(num_nodes=data.num_nodes, edge_index=new_name[data.edge_index][:, order])
    for name in ("x", "pos"):
        if name in data:
            result[name] = torch.empty_like(data[name])
            result[name][new_name] = data[name]
    for name in ("edge_attr", "edge_weight"):
        if name in data:
            result[name] = data[name][order]
    return result


def path(x: list[Any], edge_attr: list[Any] | None = None, weights: list[float] | None = None) -> Data:
    """A path with features, edges in both directions."""
    ends = torch.arange(len(x) - 1)
    forward = torch.stack([ends, ends + 1])
    data = Data(x=torch.tensor(x), edge_index=torch.cat([forward, forward.flip(0)], dim=1))
    if edge_attr is not None:
        data.edge_attr = torch.tensor(edge_attr + edge_attr)
    if weights is not None:
        data.edge_weight = torch.tensor(weights + weights, dtype=torch.float64)
    return data


@st.composite
def graphs_with_features(draw: st.DrawFn, max_nodes: int = 9) -> Data:
    """Small graphs with few different features, so that graphs often look alike."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(0, max_nodes))
    upper = np.argwhere(np.triu(rng.random((n, n)) < draw(st.sampled_from([0.1, 0.4, 0.8])), 1))
    edge_index = torch.from_numpy(np.concatenate([upper, upper[:, ::-1]]).T.copy())
    data = Data(num_nodes=n, edge_index=edge_index)
    data.x = torch.from_numpy(rng.integers(0, draw(st.sampled_from([1, 2])), (n, 2)))
    edge_attr = torch.from_numpy(rng.integers(0, draw(st.sampled_from([1, 2])), (len(upper), 1)))
    data.edge_attr = torch.cat([edge_attr, edge_attr])
    return data


# --- found


@given(
    graphs=st.lists(graphs_with_features(), min_size=1, max_size=6), which=st.integers(0, 5), seed=st.integers(0, 99)
)
def test_a_planted_copy_is_always_found(graphs: list[Data], which: int, seed: int) -> None:
    which %= len(graphs)
    report = leaks(graphs, [permuted(graphs[which], seed)])
    assert report.found and report.counts["train", "test"] == 1
    assert any(which in group["train"] and group["test"].tolist() == [len(graphs)] for group in report.groups)


@given(graphs=st.lists(graphs_with_features(max_nodes=4), min_size=2, max_size=8), train=st.integers(1, 7))
def test_the_same_answer_as_comparing_all_pairs(graphs: list[Data], train: int) -> None:
    train = min(train, len(graphs) - 1)
    report = leaks(graphs[:train], graphs[train:])
    expected = {
        (i, j)
        for i, j in itertools.product(range(train), range(train, len(graphs)))
        if pointset.is_same_graph(graphs[i], graphs[j])
    }
    found = {pair for group in report.groups for pair in itertools.product(group["train"], group["test"])}
    assert found == expected
    assert report.counts["train", "test"] == len({j for _, j in expected})


def test_every_graph_of_the_atlas_is_found_once() -> None:
    copies = [nx.from_numpy_array(relabelled(nx.to_numpy_array(graph), 1)[0]) for graph in ATLAS_UP_TO_6[1:]]
    graphs = read_graphs([*ATLAS_UP_TO_6[1:], *copies])
    half = len(copies)
    report = find_leaks(graphs, {"train": np.arange(half), "test": np.arange(half, 2 * half)})
    assert [(pair.seen, pair.scored) for pair in report.pairs] == [(index, half + index) for index in range(half)]
    assert report.duplicates == {"train": 0, "test": 0} and not len(report.undecided)


def test_graphs_without_nodes_or_edges() -> None:
    nothing, isolated = nx.empty_graph(0), nx.empty_graph(3)
    report = leaks([nothing, isolated, nx.empty_graph(4)], [nothing, isolated, nx.path_graph(3)])
    assert [(pair.seen, pair.scored) for pair in report.pairs] == [(0, 3), (1, 4)]


def test_classes_of_circulant_graphs() -> None:
    """Colour refinement sees no difference between any of these."""
    graphs = csl_classes()
    copies = [nx.from_numpy_array(relabelled(nx.to_numpy_array(graph), seed)[0]) for seed, graph in enumerate(graphs)]
    report = leaks(graphs, copies[::2])
    assert [(pair.seen, pair.scored) for pair in report.pairs] == [(2 * index, 10 + index) for index in range(5)]


def test_features_of_several_kinds_are_compared_by_value() -> None:
    """Whole and real numbers, NaN and negative zero, and a graph without features beside them."""
    graphs = [path([[0.0], [float("nan")], [2.0]]), path([[0], [1], [2]]), nx.path_graph(3), path([0, 1, 2])]
    same = [path([[2.0], [float("nan")], [-0.0]]), path([[2.0], [1.0], [0.0]]), nx.path_graph(3), path([2, 1, 0])]
    assert [(pair.seen, pair.scored) for pair in leaks(graphs, same).pairs] == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_positions_and_targets_do_not_matter() -> None:
    a, b = with_features(nx.petersen_graph(), 0), with_features(nx.petersen_graph(), 0)
    b.pos = b.pos + 1
    b.y = torch.tensor([3.0])
    assert leaks([a], [permuted(b, 5)]).found


def test_a_self_loop_stays_where_it_is() -> None:
    def path_with_loop(at: int) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.path_graph(4)
        graph.add_edge(at, at)
        return graph

    report = leaks([path_with_loop(0), path_with_loop(1)], [path_with_loop(3), nx.path_graph(4)])
    assert [(pair.seen, pair.scored) for pair in report.pairs] == [(0, 2)]


# --- not found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (path([0, 1, 1, 0]), path([0, 1, 0, 1])),
        (path([0, 1, 1, 0]), path([0, 1, 1, 2])),
        (path([[0, 1], [1, 0], [0, 1]]), path([[1, 0], [0, 1], [1, 0]])),
        (path([0, 0, 0], [1, 2]), path([0, 0, 0], [1, 1])),
        (path([1, 2, 2, 1], [7, 8, 8]), path([1, 2, 2, 1], [8, 7, 8])),
        (path([0, 0, 0], weights=[1.0, 2.0]), path([0, 0, 0], weights=[1.0, np.nextafter(2.0, 3.0)])),
        (path([0, 0, 0], weights=[1.0, 2.0]), path([0, 0, 0])),
        (path([0, 1, 2]), nx.path_graph(3)),
        (path([0, 1, 2]), path([[0], [1], [2]])),
        (path([0, 0, 0], [1, 1]), path([0, 0, 0])),
        (nx.cycle_graph(10), two_cycles(5)),
        (nx.empty_graph(2), nx.empty_graph(3)),
        (nx.star_graph(3), nx.path_graph(4)),
        (rook(4), shrikhande()),
        (circular_skip_links(41, 2), circular_skip_links(41, 3)),
    ],
    ids=["x moved", "x", "x columns", "edge_attr", "edge_attr moved", "weight", "unweighted", "x missing", "x shape",
         "edge_attr missing", "one cycle, two cycles", "sizes", "trees", "strongly regular", "circulant"],
)  # fmt: skip
def test_different_graphs_are_no_leak(one: Any, other: Any) -> None:
    report = leaks([one], [other])
    assert not report.found and not report.pairs and not len(report.undecided)
    assert set(report.counts.values()) == {0}
    assert leaks([one, other], [one]).pairs[0].seen == 0


# --- the report


def test_the_report_in_numbers_and_words() -> None:
    kinds = [nx.path_graph(5), nx.cycle_graph(5), nx.star_graph(4), nx.complete_graph(5), nx.empty_graph(5)]
    graphs = read_graphs([kinds[index] for index in (0, 0, 1, 2, 1, 0, 3, 0, 2, 4, 0)])
    split = {"train": np.array([3, 0, 1, 2]), "val": np.array([4, 5, 6]), "test": np.array([10, 7, 8, 9])}
    report = find_leaks(graphs, split)
    assert report.counts == {("train", "test"): 3, ("train", "val"): 2, ("val", "test"): 2}
    assert report.affected("train", "test").tolist() == [7, 8, 10]
    assert report.affected("val", "test").tolist() == [7, 10]
    assert report.duplicates == {"train": 1, "val": 0, "test": 1}
    groups = [{part: indices.tolist() for part, indices in group.items()} for group in report.groups]
    assert groups == [
        {"train": [0, 1], "val": [5], "test": [7, 10]},
        {"train": [2], "val": [4]},
        {"train": [3], "test": [8]},
    ]
    assert [tuple(pair) for pair in report.pairs] == [
        (0, 7, ("train", "test")),
        (0, 10, ("train", "test")),
        (3, 8, ("train", "test")),
        (0, 5, ("train", "val")),
        (2, 4, ("train", "val")),
        (5, 7, ("val", "test")),
        (5, 10, ("val", "test")),
    ]
    text = str(report)
    assert "3 of 4 test graphs (75.0 %) are also in train (e.g. graph 7 = graph 0)" in text
    assert "2 of 3 val graphs (66.7 %) are also in train (e.g. graph 5 = graph 0)" in text
    assert "remove copies before splitting" in text
    assert "Copies within one part, which are not a leak: 1 in train, 1 in test." in text


def test_no_leak_in_words() -> None:
    assert str(leaks([nx.path_graph(3)], [nx.path_graph(4)])) == (
        "No graph stands on two sides of the split (2 graphs compared)."
    )


def test_graphs_outside_the_split_are_not_looked_at() -> None:
    graphs = read_graphs([nx.path_graph(3), nx.cycle_graph(3), nx.path_graph(3), nx.cycle_graph(3)])
    assert not find_leaks(graphs, {"train": [0], "test": [1]}).found  # type: ignore[dict-item]
    report = find_leaks(graphs, {"train": np.array([3]), "test": np.array([1])})
    assert [tuple(pair) for pair in report.pairs] == [(3, 1, ("train", "test"))]


def test_where_val_is_test_it_counts_once() -> None:
    graphs = read_graphs([nx.path_graph(size) for size in range(1, 13)])
    report = find_leaks(graphs, folds(12, 3, seed=0, validation="test")[0])
    assert not report.found and set(report.sizes) == {"train", "test"}


def test_a_split_of_other_graphs_is_refused() -> None:
    with pytest.raises(SpecError, match="holds 5"):
        find_leaks(read_graphs([nx.path_graph(3)]), {"train": np.array([0, 5])})


# --- bounds, and real data


def test_large_graphs_are_undecided_unless_they_are_verbatim() -> None:
    large = nx.random_regular_graph(3, 1002, seed=0)
    other = nx.random_regular_graph(3, 1002, seed=1)
    report = leaks([large], [other, large])
    assert [(pair.seen, pair.scored) for pair in report.pairs] == [(0, 2)]
    assert report.undecided.tolist() == [1]
    assert "1 graph could be the same as another" in str(report)


def test_patience_for_hard_graphs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.datasets.splits.leaks._PATIENCE", 1)
    others = [nx.from_numpy_array(relabelled(nx.to_numpy_array(shrikhande()), seed)[0]) for seed in range(2)]
    report = leaks([rook(4), others[0]], [others[1], rook(4)])
    assert [(pair.seen, pair.scored) for pair in report.pairs] == [(0, 3)]
    assert report.undecided.tolist() == [2]


def test_hard_graphs_of_one_size_take_no_time() -> None:
    """Regular graphs look all alike to colour refinement; the colours of pairs tell them apart."""
    graphs = [nx.random_regular_graph(3, 60, seed=seed) for seed in range(30)]
    copy = nx.from_numpy_array(relabelled(nx.to_numpy_array(graphs[17]), 0)[0])
    report = leaks(graphs, [copy])
    assert [(pair.seen, pair.scored) for pair in report.pairs] == [(17, 30)] and not len(report.undecided)


@settings(max_examples=20)
@given(graphs=st.lists(graphs_with_features(), min_size=2, max_size=10), seed=st.integers(0, 99))
def test_flat_features_give_the_same_report(graphs: list[Data], seed: int) -> None:
    apart = read_graphs([*graphs, *(permuted(graph, seed) for graph in graphs[::2])])
    assert apart.features is not None
    features: list[Features] = list(apart.features)
    together = GraphArrays(
        apart.num_nodes, apart.num_edges, apart.edges, apart.weights, apart.weight_kind,
        FlatFeatures(
            apart.num_nodes, apart.num_edges,
            x=torch.cat([given.x for given in features if given.x is not None]),
            edge_attr=torch.cat([given.edge_attr for given in features if given.edge_attr is not None]),
        ),
    )  # fmt: skip
    split = random_split(len(apart), (0.5, 0.2, 0.3), seed=seed)
    one, other = find_leaks(apart, split), find_leaks(together, split)
    assert one.pairs == other.pairs and one.duplicates == other.duplicates


def test_zinc(shared_data: Path) -> None:
    """The official split of ZINC-12k has two molecules on two sides."""
    with np.load(shared_data / "zinc" / "zinc12k.npz") as file:
        arrays = {name: file[name].astype(np.int64) for name in file.files if file[name].dtype.kind in "iu"}
    counts = arrays["num_nodes"], arrays["num_edges"]
    features = FlatFeatures(
        *counts,
        x=torch.from_numpy(arrays["atom_type"]).unsqueeze(1),
        edge_attr=torch.from_numpy(arrays["bond_type"]).unsqueeze(1),
    )
    graphs = GraphArrays.from_flat(*counts, arrays["edges"].T, features=features)
    split = {part: np.flatnonzero(arrays["split"] == code) for code, part in enumerate(("train", "val", "test"))}
    report = find_leaks(graphs, split)
    assert report.counts == {("train", "test"): 1, ("train", "val"): 1, ("val", "test"): 0}
    assert report.duplicates == {"train": 3, "val": 0, "test": 1}
    for seen, scored, _ in report.pairs:
        assert pointset.is_same_graph(graphs[seen], graphs[scored])
