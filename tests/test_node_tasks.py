"""Node tasks: one graph whose nodes are split; files of it, masks, training, scores and predictions of each part."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import pointset
from pointset.datasets.card import Level
from pointset.datasets.dataset import Dataset
from pointset.datasets.graph_files import read_graph_file, write_graph_file
from pointset.datasets.own import graph_files
from pointset.datasets.splits import split_from_file
from pointset.errors import FileFormatError, SpecError
from pointset.points.inputs import read_graphs
from pointset.prediction.evaluation import evaluate
from pointset.reports.pages import write_report
from pointset.runs.recipe_files import changed, read_recipe
from pointset.training.data import describe_data, training_data
from pointset.training.run import train

N = 60


def communities(seed: int = 0) -> dict[str, Any]:
    """Three groups of twenty nodes, dense inside and sparse between, with noisy features; ten nodes without a class."""
    generator = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), N // 3)
    likely = np.where(y[:, None] == y, 0.35, 0.02)
    edges = np.argwhere(np.triu(generator.random((N, N)) < likely, 1))
    x = (y[:, None] == np.arange(3)) + generator.normal(0, 0.7, (N, 3))
    order = generator.permutation(N)
    y[order[50:]] = -1
    parts = {"train": order[:20], "val": order[20:35], "test": order[35:55]}
    return {"edges": edges, "x": x.astype(np.float32), "y": y, **parts}


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def quick(file: Path, **changes: Any) -> Any:
    settings = {"dataset.file": str(file), "trainer.epochs": 40, "model.dim": 16, "model.rank": 8, **changes}
    return changed(read_recipe("nodes"), settings)


def split_of(dataset: Dataset) -> dict[str, list[int]]:
    return {part: sorted(nodes.tolist()) for part, nodes in dataset.split.items()}


def sorted_parts(arrays: dict[str, Any]) -> dict[str, list[int]]:
    return {part: sorted(arrays[part].tolist()) for part in ("train", "val", "test")}


def test_a_file_of_one_graph_is_a_node_task_with_its_split(tmp_path: Path) -> None:
    arrays = communities()
    dataset = graph_files(saved(tmp_path / "three.npz", **arrays), task="multi-class")
    assert dataset.card.level is Level.NODE
    assert dataset.split_of is Level.NODE
    assert split_of(dataset) == sorted_parts(arrays)
    assert dataset.card.classes == ("0", "1", "2")
    assert dataset.targets is not None
    assert dataset.targets.tolist() == arrays["y"].tolist()
    graph = dataset.graphs[0]
    assert graph.train_mask.nonzero().flatten().tolist() == sorted_parts(arrays)["train"]
    assert repr(dataset) == "Dataset(three: 1 graph of 60 nodes; train 20, val 15, test 20)"


@pytest.mark.parametrize("form", ["edge_index", "both directions", "adj", "pt"])
def test_all_forms_give_the_same_graph(tmp_path: Path, form: str) -> None:
    arrays = communities()
    expected = graph_files(saved(tmp_path / "three.npz", **arrays), task="multi-class")
    edges = arrays.pop("edges")
    both = np.concatenate([edges, edges[:, ::-1]]).T
    path = tmp_path / "other.npz"
    if form == "pt":
        masks = {f"{part}_mask": torch.zeros(N, dtype=torch.bool).index_fill_(0, torch.from_numpy(arrays[part]), True)
                 for part in ("train", "val", "test")}  # fmt: skip
        data = Data(x=torch.from_numpy(arrays["x"]), y=torch.from_numpy(arrays["y"]), num_nodes=N, **masks,
                    edge_index=torch.from_numpy(np.ascontiguousarray(both)))  # fmt: skip
        path = tmp_path / "other.pt"
        torch.save(data, path)
    elif form == "adj":
        sparse = np.zeros((N, N))
        sparse[tuple(both)] = 1
        rows, columns = np.nonzero(sparse)
        start = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=N))])
        saved(path, **arrays, adj_data=np.ones(len(rows)), adj_indices=columns, adj_indptr=start, adj_shape=(N, N))
    else:
        saved(path, **arrays, **({"edge_index": both} if form == "edge_index" else {"edges": both.T}))
    found = graph_files(path, task="multi-class")
    assert np.array_equal(found.arrays.edges, expected.arrays.edges)
    assert found.features.x is not None
    assert expected.features.x is not None
    assert torch.equal(found.features.x, expected.features.x)
    assert split_of(found) == split_of(expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_one_of_several_splits_is_chosen(tmp_path: Path, transposed: bool) -> None:
    arrays = communities()
    parts = {part: arrays.pop(part) for part in ("train", "val", "test")}
    masks = np.zeros((3, 2, N), dtype=bool)
    for row, nodes in zip(masks, parts.values(), strict=True):
        row[0, nodes], row[1, (nodes + 1) % N] = True, True
    named = {f"{part}_masks": mask.T if transposed else mask for part, mask in zip(parts, masks, strict=True)}
    path = saved(tmp_path / "two.npz", **arrays, **named)
    for fold in (0, 1):
        found = graph_files(path, task="multi-class", fold=fold)
        assert split_of(found)["test"] == sorted(((parts["test"] + fold) % N).tolist())
    with pytest.raises(SpecError, match=r"fold.*=2; expected a whole number from 0 to 1"):
        graph_files(path, task="multi-class", fold=2)


def test_without_masks_nodes_are_split_at_random(tmp_path: Path) -> None:
    arrays = communities()
    path = saved(tmp_path / "plain.npz", **{name: arrays[name] for name in ("edges", "x", "y")})
    dataset = graph_files(path, task="multi-class")
    assert {part: len(nodes) for part, nodes in dataset.split.items()} == {"train": 48, "val": 6, "test": 6}
    assert graph_files(path, task="multi-class", split=(0.5, 0.25, 0.25)).split["train"].shape == (30,)


def test_a_graph_in_memory_is_split_by_its_masks() -> None:
    arrays = communities()
    both = np.concatenate([arrays["edges"], arrays["edges"][:, ::-1]]).T
    masks = {f"{part}_mask": torch.zeros(N, dtype=torch.bool).index_fill_(0, torch.from_numpy(arrays[part]), True)
             for part in ("train", "val", "test")}  # fmt: skip
    data = Data(x=torch.from_numpy(arrays["x"]), y=torch.from_numpy(arrays["y"]), num_nodes=N, **masks,
                edge_index=torch.from_numpy(np.ascontiguousarray(both)))  # fmt: skip
    assert split_of(pointset.datasets.from_graphs([data], task="multi-class")) == sorted_parts(arrays)
    mine = pointset.datasets.from_graphs([data], task="multi-class", split={"train": [0, 1], "val": [2], "test": [3]})
    assert mine.graphs[0].train_mask.nonzero().flatten().tolist() == [0, 1]
    many = pointset.datasets.from_graphs([data] * 10, task="multi-class")
    assert many.split_of is Level.GRAPH


def test_graphs_with_targets_of_nodes_are_split_by_graphs_as_ever(tmp_path: Path) -> None:
    data = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, y=torch.tensor([0.0, 1.0]))] * 10
    torch.save(data, tmp_path / "ten.pt")
    dataset = graph_files(tmp_path / "ten.pt")
    assert dataset.card.level is Level.NODE
    assert dataset.split_of is Level.GRAPH


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": None}, "expected the edges of one graph as one of edges"),
        ({"edge_index": np.zeros((2, 1), dtype=int)}, "expected the edges of one graph as one of edges"),
        ({"edges": np.zeros((4, 3), dtype=int)}, r"the edges are of shape \(3, 4\)"),
        ({"edges": np.array([[0, N]])}, f"the edges name nodes up to {N}; expected 0 to {N - 1}"),
        ({"x": np.zeros((3, 2))}, "labels has shape .60,.; expected 3 rows|name nodes up to"),
        ({"train": np.array([N])}, f"expected numbers of nodes from 0 to {N - 1}"),
        ({"train_mask": np.ones(N, dtype=bool)}, "names the nodes for train twice"),
        ({"node_labels": np.zeros(N)}, "y and node_labels, both for y"),
        ({"x": np.array(["a"] * N)}, "x is of type <U1; expected numbers"),
        ({"feat_indptr": np.array([0])}, "expected data, indices, indptr, shape of it, too"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    arrays = {name: value for name, value in (communities() | change).items() if value is not None}
    with pytest.raises(FileFormatError, match=message):
        list(read_graph_file(saved(tmp_path / "bad.npz", **arrays)))


def test_a_graph_survives_being_written(tmp_path: Path) -> None:
    (record,) = read_graph_file(saved(tmp_path / "in.npz", **communities()))
    write_graph_file(tmp_path / "out.npz", read_graphs([record.graph]))
    (again,) = read_graph_file(tmp_path / "out.npz")
    assert torch.equal(again.graph.edge_index, record.graph.edge_index)
    assert torch.equal(again.graph.x, record.graph.x)
    assert torch.equal(again.graph.y, record.graph.y)
    with pytest.raises(FileFormatError, match=r"got 2 graphs; expected one"):
        write_graph_file(tmp_path / "two.npz", read_graphs([record.graph] * 2))


def test_each_part_sees_the_whole_graph_and_only_its_own_targets(tmp_path: Path) -> None:
    arrays = communities()
    dataset = graph_files(saved(tmp_path / "three.npz", **arrays), task="multi-class")
    data = training_data(dataset, quick(tmp_path / "three.npz"))
    assert [data.part(part).tolist() for part in ("train", "val", "test")] == [[0], [1], [2]]
    for part in ("train", "val", "test"):
        targets = data.targets(data.part(part))
        known = (targets >= 0).nonzero().flatten().tolist()
        assert known == [node for node in sorted_parts(arrays)[part] if arrays["y"][node] >= 0]
        assert torch.equal(data.points[int(data.part(part)[0])].eigenvectors, data.points[0].eigenvectors)
    assert "60 nodes, of these 20 nodes to train, 15 to validate, 20 to test" in describe_data(data)


def test_a_run_learns_scores_predicts_and_can_be_evaluated(tmp_path: Path) -> None:
    arrays = communities()
    file = saved(tmp_path / "three.npz", **arrays)
    result = train(quick(file), tmp_path / "run", watch="quiet")
    assert result["test"]["accuracy"] > 0.7
    assert result["split_sizes"] == {"train": 20, "val": 15, "test": 20}
    assert result["split_of"] == "node"
    assert 0.5 < result["parts"]["test"]["accuracy"]["lower"] <= result["test"]["accuracy"]
    assert split_from_file(tmp_path / "run" / "split.json", N)["test"].tolist() == sorted_parts(arrays)["test"]
    with (tmp_path / "run" / "predictions.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["node"]) for row in rows] == sorted_parts(arrays)["test"]
    assert {row["graph"] for row in rows} == {"0"}
    known = [row for row in rows if row["y"]]
    hits = [row["y"] == row["predicted_y"] for row in known]
    assert np.mean(hits) == pytest.approx(result["test"]["accuracy"])
    scored = evaluate(tmp_path / "run")
    assert scored["scores"]["accuracy"] == pytest.approx(result["test"]["accuracy"])
    assert scored["graphs"] == 20
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "20 test nodes" in page
    assert "Nodes: 20 train, 15 val and 20 test" in page


def test_hidden_labels_do_not_change_the_training(tmp_path: Path) -> None:
    arrays = communities()
    other = arrays | {"y": arrays["y"].copy()}
    other["y"][arrays["test"]] = (other["y"][arrays["test"]] + 1) % 3
    losses = []
    for name, values in (("one", arrays), ("other", other)):
        file = saved(tmp_path / f"{name}.npz", **values)
        train(quick(file, **{"trainer.epochs": 5}), tmp_path / name, watch="quiet")
        with (tmp_path / name / "metrics.csv").open() as lines:
            losses.append([row["train_loss"] for row in csv.DictReader(lines)])
    assert losses[0] == losses[1]


def test_a_resumed_run_wants_the_same_split(tmp_path: Path) -> None:
    arrays = communities()
    file = saved(tmp_path / "three.npz", **arrays)
    recipe = quick(file, **{"trainer.epochs": 3})
    first = train(recipe, tmp_path / "run", watch="quiet")
    assert train(recipe, tmp_path / "run", resume=True, watch="quiet") == first


def test_features_are_dropped_in_training_only(tmp_path: Path) -> None:
    file = saved(tmp_path / "three.npz", **communities())
    result = train(
        quick(file, **{"trainer.feature_dropout": 0.5, "trainer.epochs": 5}), tmp_path / "run", watch="quiet"
    )
    model = pointset.load(tmp_path / "run")
    again = [model.predict([graph_files(file, task="multi-class").graphs[0]]) for _ in range(2)]
    assert repr(again[0]) == repr(again[1])
    assert result["epochs"] == 5


@pytest.mark.parametrize("preset", ["pst-linear-edges", "gcn"])
def test_a_graph_whose_pairs_would_not_fit_is_predicted_without_them(preset: str, tmp_path: Path) -> None:
    nodes = 200_000
    chain = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    large = Data(edge_index=torch.cat([chain, chain.flip(0)], dim=1), num_nodes=nodes, x=torch.ones(nodes, 3))
    train(quick(saved(tmp_path / "three.npz", **communities()), **{"trainer.epochs": 1, "model.preset": preset,
                "model.rank": 2}), tmp_path / "run", watch="quiet")  # fmt: skip
    rows = pointset.load(tmp_path / "run").predict([large])[0]
    assert rows.shape == (nodes, 3)


def test_leaks_of_a_split_of_nodes_are_not_looked_for(tmp_path: Path) -> None:
    dataset = graph_files(saved(tmp_path / "three.npz", **communities()), task="multi-class")
    with pytest.raises(SpecError, match="split by nodes; expected a split of graphs"):
        dataset.find_leaks()
