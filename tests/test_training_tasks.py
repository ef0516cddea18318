"""Every shipped recipe trains on data of its dataset's format; every kind of task can be learned by heart."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.dataset import Dataset
from pointset.datasets.loading import benchmark_named
from pointset.errors import MissingDataError
from pointset.points.graphs import GraphArrays
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe, recipe_names
from pointset.specs import Categories
from pointset.training.run import train
from tests.card_data import dataset_like

OWN_DATA = {"molecules", "graphs", "nodes", "links"}
NODE_TASKS = {"cora", "citeseer", "pubmed", "tolokers", "minesweeper", "actor", "squirrel-filtered",
              "minesweeper-grid", "luxembourg"}  # fmt: skip


def one_graph_like(card: Card) -> Dataset:
    """The union of the graphs that :func:`dataset_like` makes, with a split of its nodes."""
    many = dataset_like(card)
    start = np.cumsum(many.arrays.num_nodes) - many.arrays.num_nodes
    nodes = many.arrays.num_nodes.sum(keepdims=True)
    edges = many.arrays.edges + np.repeat(start, many.arrays.num_edges)
    features = dataclasses.replace(many.features, num_nodes=nodes, num_edges=many.arrays.num_edges.sum(keepdims=True))
    arrays = GraphArrays.from_flat(nodes, features.num_edges, edges, None, features)
    split = {part: np.arange(at, int(nodes[0]), 3) for at, part in enumerate(("train", "val", "test"))}
    return dataclasses.replace(many, arrays=arrays, split=split, split_of=Level.NODE)


@pytest.fixture
def load_small(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Datasets are small ones with the real cards; gives the calls."""
    calls: list[dict[str, Any]] = []

    def load(name: str, *_: Any, **options: Any) -> Dataset:
        calls.append({"name": name, **options})
        card = benchmark_named(name).card
        return one_graph_like(card) if name in NODE_TASKS else dataset_like(card)

    monkeypatch.setattr("pointset.training.data.load", load)
    return calls


OF_TABLES = {name for name in recipe_names() if read_recipe(name).dataset.file is not None}


@pytest.mark.parametrize("name", sorted(set(recipe_names()) - OWN_DATA - OF_TABLES))
def test_every_recipe_trains_two_steps(name: str, tmp_path: Path, load_small: list[dict[str, Any]]) -> None:
    recipe = read_recipe(name, ["trainer.epochs=1", "trainer.batch_size=4", "trainer.threads=1"])
    result = train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    assert load_small[0]["name"] == recipe.dataset.name
    assert result["epochs"] == 1 and result["parameters"] > 1000
    assert np.isfinite(result["test"]["normalised_mae" if result["task"] == "regression" else "accuracy"])
    for file in ("predictions.csv", "examples.json", "bundle/bundle.json", "checkpoints/best.safetensors"):
        assert (tmp_path / "run" / file).exists(), file


@pytest.mark.parametrize("name", sorted(OF_TABLES))
def test_recipes_of_tables_find_them_in_the_data_folder(name: str, tmp_path: Path) -> None:
    recipe = read_recipe(name, ["trainer.epochs=1", "model.dim=8", "model.layers=1", "trainer.baseline=false"])
    targets, file = recipe.dataset.targets or [], tmp_path / "data" / str(recipe.dataset.file)
    scaffolds = [f"C1{'C' * size}1" for size in range(2, 12)]
    molecules = [f"{ring}{'C' * length}" for ring in scaffolds for length in (1, 2, 3)]
    rows = [
        ",".join([one, *(str((at + label) % 2) for label in range(len(targets)))]) for at, one in enumerate(molecules)
    ]
    file.parent.mkdir(parents=True)
    with gzip.open(file, "wt") if file.suffix == ".gz" else file.open("w") as table:
        table.write("\n".join([f"smiles,{','.join(targets)}", *rows]))
    result = train(recipe, tmp_path / "run", device="cpu", watch="quiet", data_dir=tmp_path / "data")
    assert list(result["per_target"]) == targets
    with pytest.raises(MissingDataError, match=r"neither here nor in .*; check the name"):
        train(recipe, tmp_path / "other", device="cpu", watch="quiet", data_dir=tmp_path)


def card_for(task: Task, level: Level) -> Card:
    targets = 2 if task in (Task.REGRESSION, Task.MULTI_LABEL) else 1
    return Card(
        name="heart",
        title="By heart",
        description="Random targets.",
        level=level,
        task=task,
        targets=tuple(Target(f"t{number}") for number in range(targets)),
        metric={Task.REGRESSION: Metric.MAE, Task.MULTI_CLASS: Metric.ACCURACY}.get(task, Metric.ROC_AUC),
        split="none",
        node=Categories(7, 5),
        edge=Categories(3),
        classes=("a", "b", "c") if task is Task.MULTI_CLASS else (),
    )


@pytest.mark.parametrize("level", [Level.GRAPH, Level.NODE], ids=str)
@pytest.mark.parametrize("task", [task for task in Task if task is not Task.LINK], ids=lambda task: task.name.lower())
def test_32_graphs_are_learned_by_heart(
    task: Task, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = card_for(task, level)
    graphs = dataset_like(card, sizes=(5,) * 32).with_split({"train": np.arange(32)})
    monkeypatch.setattr("pointset.training.data._read", lambda *_: graphs)
    recipe = Recipe.from_dict(
        {
            "name": "heart",
            "dataset": {"file": "not read"},
            "model": {"preset": "pst", "dim": 32, "layers": 2},
            "optimizer": {"lr": 0.004},
            "schedule": {"shape": "cosine", "warmup": 4},
            "trainer": {"epochs": 150, "batch_size": 32, "threads": 1},
        }
    )
    train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    first, last = (float(rows[number].split(",")[2]) for number in (1, -1))
    assert last < 0.08 * first


def test_the_worst_node_is_one_with_a_known_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = dataset_like(card_for(Task.MULTI_CLASS, Level.NODE), sizes=(5,) * 12)
    classes = torch.full((60,), -1)
    classes[::5] = 1
    features = dataclasses.replace(graphs.features, y=classes)
    graphs = dataclasses.replace(graphs, arrays=dataclasses.replace(graphs.arrays, features=features))
    parts = {"train": np.arange(6), "test": np.arange(6, 12)}
    monkeypatch.setattr("pointset.training.data._read", lambda *_: graphs.with_split(parts))
    plain = {"name": "nodes", "dataset": {"file": "not read"}, "model": {"dim": 8, "layers": 1}}
    recipe = Recipe.from_dict(plain | {"trainer": {"epochs": 1, "batch_size": 6, "threads": 1}})
    train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    worst = json.loads((tmp_path / "run" / "examples.json").read_text())["worst"]
    assert [one["values"][0]["true"] for one in worst] == ["b"] * 6
    assert [one["error"] for one in worst] == sorted((one["error"] for one in worst), reverse=True)


def test_folds_are_the_datasets_own(tmp_path: Path, load_small: list[dict[str, Any]]) -> None:
    folded = next(name for name in recipe_names() if "fold" in _options(name))
    recipe = read_recipe(folded, ["dataset.fold=3", "trainer.epochs=1", "trainer.threads=1"])
    train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    assert load_small[0]["fold"] == 3
    assert json.loads((tmp_path / "run" / "result.json").read_text())["fold"] == 3


def _options(recipe: str) -> Any:
    name = read_recipe(recipe).dataset.name
    return {} if name is None else benchmark_named(name).options
