"""The forest on fingerprints and the mean: what they answer, and how a run is scored beside them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pointset
from pointset.baselines import forest as forest_module
from pointset.baselines.forest import forest_outputs, mean_outputs
from pointset.cli.train import print_result
from pointset.files import read_json, write_csv
from pointset.metrics import Task
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.runs.result import RunResult
from pointset.training.baselines import FOREST, MEAN, baseline_scores
from pointset.training.data import load_data
from tests.small_training import changed, edge_counts, write_graphs

ensemble = pytest.importorskip("sklearn.ensemble")
pytest.importorskip("rdkit")
NAN = float("nan")


def made_up(rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts (rows, 20) and a value that two of them make."""
    counts = np.random.default_rng(seed).integers(0, 5, (rows, 20)).astype(np.uint8)
    return counts, counts[:, 0] * 2.0 + counts[:, 1]


def test_values_are_those_of_scikit_learn_on_the_rows_that_have_them() -> None:
    counts, values = made_up()
    asked, _ = made_up(10, seed=1)
    targets = np.stack([values, np.where(np.arange(60) % 3 == 0, NAN, values)], axis=1)
    found = forest_outputs(counts, targets, asked, task=Task.REGRESSION, outputs=2, seed=7)
    assert found.shape == (10, 2)
    for column in range(2):
        known = ~np.isnan(targets[:, column])
        whole = ensemble.RandomForestRegressor(100, max_features=1 / 3, random_state=7)
        expected = whole.fit(counts[known], targets[known, column]).predict(asked)
        assert np.array_equal(found[:, column], expected)  # grown ten trees at a time, or all at once


def test_labels_are_logits_and_missing_ones_left_out() -> None:
    counts, values = made_up()
    labels = (values > 6).astype(float)
    labels[::4] = NAN
    targets = np.stack([labels, np.ones(60), np.full(60, NAN)], axis=1)
    found = forest_outputs(counts, targets, counts, task=Task.MULTI_LABEL, outputs=3, seed=0)
    assert ((found[:, 0] > 0) == (values > 6))[~np.isnan(labels)].all()
    assert (found[:, 1] == found[0, 1]).all() and found[0, 1] > 10  # only one class was seen
    assert np.isfinite(found).all()


def test_classes_that_training_lacks_are_unlikely() -> None:
    counts, values = made_up()
    classes = np.where(values > 6, 2, 0)  # of 0 to 3
    classes[:5] = -1
    found = forest_outputs(counts, classes, counts, task=Task.MULTI_CLASS, outputs=4, seed=0)
    assert found.shape == (60, 4)
    assert (found.argmax(1) == np.where(values > 6, 2, 0))[5:].all()
    assert (found[:, [1, 3]] < -10).all()


def test_rows_without_weight_do_not_count() -> None:
    counts, values = made_up()
    weights = (np.arange(60) % 2).astype(float)
    spoiled = np.where(weights > 0, values, 1000.0)[:, None]
    found = forest_outputs(counts, spoiled, counts, task=Task.REGRESSION, outputs=1, seed=0, weights=weights)
    assert found.max() <= values.max()


def test_many_targets_share_the_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[int] = []

    class Counted(forest_module._Forest):
        def __init__(self, task: Task, trees: int, seed: int):
            grown.append(trees)
            super().__init__(task, 1, seed)

    monkeypatch.setattr(forest_module, "_Forest", Counted)
    counts, values = made_up()
    for targets in (20, 50, 200):
        many = np.tile(values[:, None], (1, targets))
        forest_outputs(counts, many, counts[:1], task=Task.REGRESSION, outputs=targets, seed=0)
    assert (grown[0], grown[20], grown[70]) == (100, 40, 20)


def test_means() -> None:
    values = np.array([[1.0, NAN], [3.0, 5.0], [8.0, NAN]])
    assert mean_outputs(values, 2, task=Task.REGRESSION, outputs=2).tolist() == [[4.0, 5.0], [4.0, 5.0]]
    weighted = mean_outputs(values, 1, task=Task.REGRESSION, outputs=2, weights=np.array([1.0, 1.0, 0.0]))
    assert weighted.tolist() == [[2.0, 5.0]]
    labels = np.array([[1.0], [0.0], [0.0], [0.0], [NAN]])
    odds = mean_outputs(labels, 1, task=Task.BINARY, outputs=1)
    assert odds[0, 0] == pytest.approx(np.log(1 / 3))
    shares = mean_outputs(np.array([0, 2, 2, 2, -1]), 1, task=Task.MULTI_CLASS, outputs=3)
    assert shares[0, [0, 2]] == pytest.approx(np.log([0.25, 0.75]))
    assert shares[0, 1] < -10


def molecules(folder: Path, *, label: bool = False) -> Recipe:
    """Forty chains with a ring or without; the target is how many carbons there are, or whether there is a ring."""
    smiles = ["C" * (1 + row // 2) + ("O" if row % 2 else "c1ccccc1") for row in range(40)]
    target = [row % 2 for row in range(40)] if label else [1 + row // 2 + 6 * (1 - row % 2) for row in range(40)]
    write_csv(folder / "my.csv", [["smiles", "target"], *zip(smiles, target, strict=True)])
    settings = [f"dataset.file={folder / 'my.csv'}", "model.dim=8", "model.layers=1", "trainer.epochs=1"]
    return read_recipe("molecules", [*settings, "schedule.warmup=0", "trainer.threads=1"])


def test_a_run_on_molecules_is_scored_beside_the_forest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = molecules(tmp_path)
    result = pointset.train(recipe, tmp_path / "run", watch="quiet")
    assert result["baselines"] == read_json(tmp_path / "run" / "result.json")["baselines"]
    read = RunResult.model_validate(result).baselines
    assert list(read) == [FOREST, MEAN]
    assert read[FOREST].train_graphs == result["split_sizes"]["train"]
    data = load_data(recipe)
    truth = data.targets(data.part("test"))[:, 0].numpy()
    mean = float(data.targets(data.part("train")).mean())
    assert read[MEAN].test["mae"] == pytest.approx(np.abs(truth - mean).mean())
    errors = {name: entry["test"]["mae"] for name, entry in result["baselines"].items()}
    assert errors[FOREST] < errors[MEAN] / 2  # carbons can be read off the counts
    print_result(result, tmp_path / "run")
    printed = capsys.readouterr().out
    assert "on the test part" in printed and "ecfp forest" in printed
    assert "the forest is better here: MAE" in printed  # than a model of one epoch


def test_the_forest_is_the_same_each_time_and_knows_labels(tmp_path: Path) -> None:
    data = load_data(molecules(tmp_path, label=True))
    first, second = (baseline_scores(data)[FOREST] for _ in range(2))
    assert str({**first, "seconds": 0}) == str({**second, "seconds": 0})  # NaN where a part has one class
    assert first["test"]["accuracy"] == first["val"]["accuracy"] == 1.0


def test_of_many_molecules_some_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.training.baselines.MOST_TRAINED", 12)
    found = baseline_scores(load_data(molecules(tmp_path)))
    assert found[FOREST]["train_graphs"] == 12
    assert found[MEAN]["train_graphs"] == 32


def test_without_scikit_learn_a_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    result = pointset.train(molecules(tmp_path), tmp_path / "run", watch="plain")
    line = "no ecfp forest to compare with: scikit-learn is not installed: pip install 'pointset[chem]'"
    assert line in capsys.readouterr().err  # before the first epoch
    assert line in result["warnings"]
    assert list(result["baselines"]) == [MEAN]
    print_result(result, tmp_path / "run")
    assert "ecfp forest" not in capsys.readouterr().out


def test_graphs_that_are_not_molecules_have_no_baseline(tmp_path: Path) -> None:
    recipe = changed(write_graphs(tmp_path, edge_counts()), trainer__baseline=True)
    assert baseline_scores(load_data(recipe)) == {}


def test_only_the_recipe_for_molecules_has_a_baseline(tmp_path: Path) -> None:
    assert molecules(tmp_path).trainer.baseline
    assert not any(read_recipe(name).trainer.baseline for name in ("graphs", "zinc", "ogbg-molhiv"))
    recipe = changed(molecules(tmp_path), trainer__baseline=False)
    assert not pointset.train(recipe, tmp_path / "run", watch="quiet").get("baselines")


def printed_for(
    model: float, forest: float, capsys: pytest.CaptureFixture[str], tmp_path: Path, parts: dict[str, Any] | None = None
) -> str:
    result: dict[str, Any] = {"metric": "roc_auc", "test": {"roc_auc": model}, "val": {"roc_auc": 0.8}, "units": {}}
    result |= {"model": {"preset": "pst-fast"}, "per_target": {}, "expected": None, "best_epoch": 1, "epochs": 1}
    result |= {"parameters": 1, "seconds": 1.0, "test_scored": "once, at the end", "parts": parts}
    scores = {"roc_auc": forest}
    result["baselines"] = {FOREST: {"val": scores, "test": scores, "seconds": 2.0, "train_graphs": 8}}
    print_result(result, tmp_path)
    return capsys.readouterr().out


def test_the_better_one_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    worse = printed_for(0.7, 0.9, capsys, tmp_path)
    assert "the forest is better here: ROC-AUC 0.9000 against 0.7000, validation 0.9000 against 0.8000" in worse
    assert "better here" not in printed_for(0.95, 0.9, capsys, tmp_path)
    inside = {"test": {"roc_auc": {"value": 0.8, "lower": 0.7, "upper": 0.9}}}
    assert "the forest is better here, within the model's interval" in printed_for(0.8, 0.85, capsys, tmp_path, inside)
