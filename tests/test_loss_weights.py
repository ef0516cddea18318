"""Class weights and weights of rows, from the recipe to the loss."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pointset.datasets.card import Task
from pointset.datasets.own import smiles_csv
from pointset.errors import SpecError
from pointset.runs.recipe import Recipe
from pointset.training.bundle import read_bundle
from pointset.training.data import TrainingData, load_data
from pointset.training.run import train
from tests.small_training import changed, edge_counts, write_graphs
from tests.tolerances import near

pytest.importorskip("rdkit")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


def table(folder: Path, rows: list[Any], header: str) -> Path:
    path = folder / "own.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return path


def recipe_for(path: Path, *, dataset: dict[str, Any] | None = None, **settings: Any) -> Recipe:
    return Recipe.from_dict(
        {
            "name": "weights",
            "dataset": {"file": str(path), "targets": ["y"], **(dataset or {})},
            "model": {"preset": "pst", "dim": 8, "layers": 1},
            "trainer": {"epochs": 2, "batch_size": 4, "threads": 1},
            **settings,
        }
    )


def loss_columns(data: TrainingData) -> list[list[float]]:
    """What the loss gets for each graph."""
    rows = [data.points[graph].y for graph in range(len(data.dataset))]
    return [row.flatten().tolist() for row in rows if row is not None]


class TestClassWeights:
    @pytest.mark.parametrize(
        ("task", "words"), [(Task.BINARY, "01"), (Task.MULTI_CLASS, "ab")], ids=["labels", "classes"]
    )
    def test_rare_classes_of_the_training_part_weigh_more(self, tmp_path: Path, task: Task, words: str) -> None:
        rare = [False, False, False, True, True, True]
        parts = ["train"] * 4 + ["val", "test"]
        rows = [
            ("C" * (n + 1), words[is_rare], part) for n, (is_rare, part) in enumerate(zip(rare, parts, strict=True))
        ]
        path = table(tmp_path, rows, "smiles,y,split")
        recipe = recipe_for(path, dataset={"options": {"split": "column:split"}}, class_weights="balanced")
        data = load_data(recipe, progress=False)
        assert data.card.task is task
        columns = loss_columns(data)
        assert [row[0] for row in columns] == rare
        assert [row[-1] for row in columns] == pytest.approx([2 / 3] * 3 + [2] * 3)
        train(recipe, tmp_path / "run", device="cpu", watch="quiet")

    def test_not_for_a_regression(self, tmp_path: Path) -> None:
        path = table(tmp_path, [("C" * n, n / 7) for n in range(1, 21)], "smiles,y")
        with pytest.raises(SpecError, match="class_weights=balanced for a regression; expected labels or classes"):
            load_data(recipe_for(path, class_weights="balanced"), progress=False)


PARTS = ["train"] * 6 + ["val", "test"]
ROWS = [("C" * n, n / 7, (0, 1, 3)[n % 3], part) for n, part in enumerate(PARTS, start=1)]


class TestWeightColumn:
    def recipe(self, folder: Path, rows: list[Any], **dataset: Any) -> Recipe:
        path = table(folder, rows, "smiles,y,trust,split")
        return recipe_for(path, dataset={"weight_column": "trust", **dataset})

    def test_weights_have_the_mean_1_over_the_training_part(self, tmp_path: Path) -> None:
        data = load_data(self.recipe(tmp_path, ROWS), progress=False)
        assert data.dataset.weights is not None
        assert data.dataset.weights.tolist() == [row[2] for row in ROWS] and data.card.target_names == ("y",)
        train_part = data.part("train")
        mean = data.dataset.weights[train_part].mean()
        weights = np.array([row[-1] for row in loss_columns(data)])
        assert weights == pytest.approx(data.dataset.weights / mean) and weights[train_part].mean() == pytest.approx(1)

    def test_never_guessed_as_a_target_once_it_is_named(self, tmp_path: Path) -> None:
        path = table(tmp_path, ROWS, "smiles,y,trust,split")
        assert smiles_csv(path, weights="trust").target_names == ("y",)
        with pytest.raises(SpecError, match="trust cannot be a target"):
            smiles_csv(path, weights="trust", targets=["y", "trust"])
        for column, told in (("smiles", "the column of SMILES"), ("trsut", "did you mean 'trust'")):
            with pytest.raises(SpecError, match=told):
                smiles_csv(path, weights=column)

    @pytest.mark.parametrize("cell", ["-1", "much", "", "NA", "inf"])
    def test_rows_with_other_weights_are_bad(self, tmp_path: Path, cell: str) -> None:
        rows = [*ROWS, ("CCO", 0.5, cell, "train")]
        dataset = smiles_csv(table(tmp_path, rows, "smiles,y,trust,split"), weights="trust", max_rejected=0.2)
        (one,) = dataset.rejected
        assert one.row == 10 and f"the weight 'trust' is {cell!r}; expected a number, 0 or more" in one.reason

    def test_refused_where_there_is_nothing_to_weigh(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="all weights of the training part of own are 0"):
            load_data(self.recipe(tmp_path, [(*row[:2], 0, row[3]) for row in ROWS]), progress=False)
        graphs = write_graphs(tmp_path / "graphs", edge_counts())
        with pytest.raises(SpecError, match=r"weight_column='w' for graphs\.g6, which is not a table of molecules"):
            load_data(changed(graphs, dataset__weight_column="w"), progress=False)

    def test_rows_of_weight_0_change_nothing(self, tmp_path: Path) -> None:
        """A whole run, in one batch: the weights after training are those without the row."""
        zero = [("CCN", 99.0, 0, "train")]
        bundles = []
        for name, rows in (("with", [*ROWS, *zero]), ("without", ROWS)):
            folder = tmp_path / name
            folder.mkdir()
            recipe = changed(self.recipe(folder, rows), trainer__batch_size=20, scale_targets=False)
            train(recipe, folder / "run", device="cpu", watch="quiet")
            bundles.append(read_bundle(folder / "run" / "bundle").models[0].state_dict())
        for name, values in bundles[0].items():
            assert near(values, bundles[1][name], terms=100, dtype=torch.float32), name
