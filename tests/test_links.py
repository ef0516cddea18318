"""Link prediction: edges of one graph are split, other pairs are drawn, and a score of a pair is an inner product."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import pointset
from pointset import PointModel, Reals
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.dataset import Dataset
from pointset.datasets.own import graph_files
from pointset.errors import SpecError
from pointset.prediction.evaluation import evaluate
from pointset.runs.recipe_files import changed, read_recipe
from pointset.training.batches import Purpose, stream
from pointset.training.data import TrainingData, describe_data, training_data
from pointset.training.run import train
from pointset.training.scoring import score

N = 60


def communities(seed: int = 0) -> Data:
    """Three groups of twenty nodes, dense inside and sparse between."""
    generator = np.random.default_rng(seed)
    group = np.repeat(np.arange(3), N // 3)
    likely = np.where(group[:, None] == group, 0.4, 0.01)
    edges = np.argwhere(np.triu(generator.random((N, N)) < likely, 1))
    x = (group[:, None] == np.arange(3)) + generator.normal(0, 0.3, (N, 3))
    both = np.concatenate([edges, edges[:, ::-1]]).T
    return Data(
        x=torch.from_numpy(x).float(), edge_index=torch.from_numpy(np.ascontiguousarray(both)), num_nodes=N,
        y=torch.from_numpy(group),
    )  # fmt: skip


def dataset(tmp_path: Path) -> Dataset:
    torch.save(communities(), tmp_path / "groups.pt")
    return graph_files(tmp_path / "groups.pt", task="multi-class")


def quick(tmp_path: Path, **changes: Any) -> Any:
    dataset(tmp_path)
    values = {"dataset.file": str(tmp_path / "groups.pt"), "trainer.epochs": 40, "model.dim": 16, "model.rank": 8}
    return changed(read_recipe("links"), {**values, **changes})


def data_of(tmp_path: Path) -> TrainingData:
    recipe = quick(tmp_path)
    return training_data(dataset(tmp_path).with_links(), recipe)


def as_set(pairs: Any) -> set[tuple[int, int]]:
    return {(min(pair), max(pair)) for pair in np.asarray(pairs).tolist()}


def test_edges_are_split_and_only_those_for_training_are_seen(tmp_path: Path) -> None:
    given = dataset(tmp_path)
    data = data_of(tmp_path)
    every = as_set(given.arrays.edges.T)
    assert data.links is not None
    links = [as_set(pairs[: len(pairs) // 2]) for pairs in data.links.pairs]
    others = [as_set(pairs[len(pairs) // 2 :]) for pairs in data.links.pairs]
    assert set.union(*links) == every
    assert sum(map(len, links)) == len(every)
    assert not set.union(*others) & every
    assert len(set.union(*others)) == sum(map(len, others)) == len(every)
    for copy in range(3):
        assert as_set(data.dataset.arrays[copy].edges.T) == links[0]
        assert data.points[copy].num_edges == len(links[0])
    assert f"{len(every)} edges, of these {len(links[0])} edges to train" in describe_data(data)


def test_each_training_step_draws_other_pairs(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    assert data.links is not None
    batch = pointset.collate([data.points[0]])
    first, second, again = (data.links.training_batch(batch, stream(0, Purpose.PAIRS, at)) for at in (0, 1, 0))
    links = as_set(data.dataset.arrays[0].edges.T)
    for one in (first, second):
        assert one.pairs is not None
        assert one.y is not None
        assert as_set(one.pairs[one.y[:, 0] == 1]) == links
        others = as_set(one.pairs[one.y[:, 0] == 0])
        assert len(others) == len(links)
        assert not others & links
    assert first.pairs is not None
    assert second.pairs is not None
    assert again.pairs is not None
    assert not torch.equal(first.pairs, second.pairs)
    assert torch.equal(first.pairs, again.pairs)


def test_a_graph_of_nearly_all_edges_is_refused() -> None:
    full = Data(edge_index=torch.tensor([(u, v) for u in range(6) for v in range(6) if u != v]).mT, num_nodes=6)
    complete = pointset.datasets.from_graphs([full], targets=None)
    with pytest.raises(SpecError, match="0 pairs of nodes without one; expected at least"):
        training_data(complete.with_links((0.6, 0.2, 0.2)), read_recipe("links"))


def test_more_than_one_graph_is_refused() -> None:
    graphs = pointset.datasets.from_graphs([communities(), communities(1)])
    with pytest.raises(SpecError, match="has 2 graphs; expected one, whose links are predicted"):
        graphs.with_links()


def test_a_score_is_an_inner_product_of_points() -> None:
    torch.manual_seed(0)
    model = PointModel.from_preset("pst", node=Reals(3), level="edge", dim=8, layers=2).double().eval()
    graphs = [communities(), communities(1)]
    pairs = torch.tensor([[0, 1], [1, 0], [5, 7], [N, N + 3], [N + 59, 2]])
    scores = model(graphs, pairs=pairs)
    nodes = model.embed(graphs, level="node")
    expected = (nodes[pairs[:, 0]] * nodes[pairs[:, 1]]) @ model.readout.linear.weight.mT + model.readout.linear.bias
    torch.testing.assert_close(scores, expected)
    torch.testing.assert_close(scores[0], scores[1])


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(8)))
def test_scores_follow_the_nodes(order: list[int]) -> None:
    torch.manual_seed(0)
    model = PointModel.from_preset("pst", level="edge", dim=8, layers=2).double().eval()
    edges = torch.tensor([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (1, 5), (0, 3)])
    place = torch.tensor(order)
    pairs = torch.tensor([(0, 7), (2, 5), (1, 4)])
    one, other = ((8, (place[edges] if moved else edges).tolist()) for moved in (False, True))
    torch.testing.assert_close(model([other], pairs=place[pairs]), model([one], pairs=pairs), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (None, r"got no pairs; expected whole numbers \(P, 2\)"),
        (torch.zeros(3, 2), "got pairs of type torch.float32"),
        (torch.zeros(3, 3, dtype=torch.long), r"shape \(3, 3\)"),
        (torch.tensor([[0, N]]), f"got pairs of nodes from 0 to {N}; expected 0 to {N - 1}"),
    ],
)
def test_wrong_pairs_are_named(pairs: Any, message: str) -> None:
    model = PointModel.from_preset("pst", node=Reals(3), level="edge", dim=8, layers=1)
    with pytest.raises(SpecError, match=message):
        model([communities()], pairs=pairs)


def test_hits_are_the_share_of_links_above_the_kth_other_pair() -> None:
    card = Card("links", "", "", Level.EDGE, Task.LINK, (Target("link"),), Metric.ROC_AUC, "")
    others = torch.arange(100.0)[:, None]
    links = torch.tensor([[79.5], [80.5], [120.0], [-1.0]])
    y = torch.cat([torch.zeros(100, 1), torch.ones(4, 1)])
    scores = score(torch.cat([others, links]), y, card, None).overall
    assert scores["hits@20"] == 2 / 4  # the 20th highest of the others is 80
    assert scores["hits@50"] == 3 / 4
    assert scores["hits@100"] == 3 / 4
    fewer = score(torch.cat([others[:10], links]), torch.cat([torch.zeros(10, 1), torch.ones(4, 1)]), card, None)
    assert fewer.overall["hits@20"] == 1


def test_a_run_learns_communities_and_answers_for_pairs(tmp_path: Path) -> None:
    result = train(quick(tmp_path), tmp_path / "run", watch="quiet")
    assert result["test"]["roc_auc"] > 0.7
    assert result["split_of"] == "edge"
    with (tmp_path / "run" / "predictions.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 2 * result["split_sizes"]["test"]
    assert {row["link"] for row in rows} == {"0", "1"}
    assert evaluate(tmp_path / "run")["scores"]["roc_auc"] == pytest.approx(result["test"]["roc_auc"])
    everything = evaluate(tmp_path / "run", part="all")
    assert everything["graphs"] == 2 * sum(result["split_sizes"].values())
    assert everything["scores"]["accuracy"] == pytest.approx(
        np.average([result["parts"][part]["accuracy"]["value"] for part in ("train", "val", "test")],
                   weights=[result["split_sizes"][part] for part in ("train", "val", "test")])
    )  # fmt: skip
    model = pointset.load(tmp_path / "run")
    inside, across = model.predict_pairs(communities(), [(0, 5), (0, 55)])[:, 0].tolist()
    assert inside > across
    with pytest.raises(SpecError, match=r"scores pairs of nodes; expected .* predict_pairs\(graph, pairs\)"):
        model.predict([communities()])
    with pytest.raises(SpecError, match=r"scores pairs of nodes; expected .* predict_pairs\(graph, pairs\)"):
        model.predict_table(tmp_path / "groups.pt", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    assert model.embed([communities()])[0].shape == (N, 16)


def test_models_of_graphs_have_no_pairs_to_predict() -> None:
    with pytest.raises(SpecError, match=r"predicts for graphs; expected one of links"):
        pointset.load("solubility").predict_pairs(communities(), [(0, 1)])
