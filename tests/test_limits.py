"""Targets of which only a limit is known (``>3``, ``<10``): read, kept, scaled, learned from, not scored."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pointset.datasets.card import Task
from pointset.datasets.dataset import TargetScale
from pointset.datasets.own import smiles_csv
from pointset.datasets.own.targets import limit_of, read_targets
from pointset.errors import SpecError
from pointset.prediction.evaluation import evaluate
from pointset.runs.recipe import Recipe
from pointset.training.data import describe_data, load_data
from pointset.training.run import train

pytest.importorskip("rdkit")

ROWS = [("CCO", "1.5"), ("CC", ">3"), ("CCC", "<= 10"), ("CCCC", "2.5"), ("CO", "≥ 4,"), ("CN", ""), ("CF", "0.5")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


def table(folder: Path, rows: list[Any], header: str = "smiles,y", name: str = "own.csv") -> Path:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return path


def recipe_for(path: Path, **dataset: Any) -> Recipe:
    return Recipe.from_dict(
        {
            "name": "limits",
            "dataset": {"file": str(path), **dataset},
            "model": {"preset": "pst", "dim": 8, "layers": 1},
            "trainer": {"epochs": 2, "batch_size": 4, "threads": 1},
        }
    )


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (">3", (3.0, True)),
        (" > 3.5 ", (3.5, True)),
        (">=3", (3.0, True)),
        ("=>3", (3.0, True)),
        ("≥-1e-3", (-0.001, True)),
        ("<10", (10.0, False)),
        ("≤ 10", (10.0, False)),
        ("<=10", (10.0, False)),
        *((cell, None) for cell in ("3", "", ">", ">>3", "> nan", ">inf", "<b", "~3", "3>", "><3", ">3 uM")),
    ],
)
def test_a_limit_in_a_cell(cell: str, expected: tuple[float, bool] | None) -> None:
    assert limit_of(cell) == expected


def test_limits_with_decimal_commas() -> None:
    values = read_targets([["0,5", "<1,5", ">2,25"]], ["y"], None, commas=True, limits=True)
    assert values.limits is not None and values.y is not None and not values.problems
    assert values.y[0] == 0.5 and values.limits.upper[1] == 1.5 and values.limits.lower[2] == 2.25


@given(st.lists(st.sampled_from(["1.5", "2", ">3", "<4", "", "word"]), min_size=1, max_size=8))
def test_every_cell_is_a_number_a_limit_missing_or_a_problem(cells: list[str]) -> None:
    values = read_targets([cells], ["y"], Task.REGRESSION, limits=True)
    assert values.y is not None
    for row, cell in enumerate(cells):
        lower, upper = (math.nan, math.nan) if values.limits is None else (limit[row, 0] for limit in values.limits)
        known = (float(values.y[row]), float(lower), float(upper))
        expected = {"1.5": (0, 1.5), "2": (0, 2.0), ">3": (1, 3.0), "<4": (2, 4.0)}.get(cell)
        assert (row in values.problems) == (expected is None)
        assert [known[at] for at in range(3) if not math.isnan(known[at])] == (
            [] if expected is None else [expected[1]]
        )
        assert expected is None or known[expected[0]] == expected[1]


def test_limits_make_a_regression_of_0_and_1_and_are_bad_labels(tmp_path: Path) -> None:
    path = table(tmp_path, [("C", "0"), ("CC", "1"), ("CCC", ">1")])
    assert smiles_csv(path).card.task is Task.REGRESSION
    labels = smiles_csv(path, task="binary", max_rejected=1.0)
    assert [one.row for one in labels.rejected] == [4] and "a limit" in labels.rejected[0].reason
    with pytest.raises(SpecError, match="has only limits such as '>3', and limits alone cannot be learned from"):
        smiles_csv(table(tmp_path, [("C", ">3"), ("CC", ">4")], name="only.csv"), targets="y")
    with pytest.raises(SpecError, match="no number, but cells such as '12 uM'"):
        smiles_csv(table(tmp_path, [("C", "12 uM"), ("CC", ">4")], name="units.csv"), targets="y")


def test_a_table_keeps_limits_beside_exact_values_also_from_the_cache(tmp_path: Path) -> None:
    path = table(tmp_path, ROWS)
    for _ in range(2):
        dataset = smiles_csv(path, max_rejected=1.0)
        assert [one.row for one in dataset.rejected] == [6, 7]  # '≥ 4,' is not a number, and a missing one
        assert dataset.targets is not None and dataset.limits is not None and dataset.limits.number == 2
        assert np.array_equal(dataset.targets[:, 0], [1.5, np.nan, np.nan, 2.5, 0.5], equal_nan=True)
        assert np.array_equal(dataset.limits.lower[:, 0], [np.nan, 3, np.nan, np.nan, np.nan], equal_nan=True)
        assert np.array_equal(dataset.limits.upper[:, 0], [np.nan, np.nan, 10, np.nan, np.nan], equal_nan=True)
        assert any("2 of 7 values of 'y' are limits such as '>3'" in note for note in dataset.card.notes)


def test_limits_follow_the_chosen_targets(tmp_path: Path) -> None:
    path = table(tmp_path, [("C", "1.5", ">3"), ("CC", "<2", "5"), ("CCC", ">1", "")], header="smiles,a,b")
    dataset = smiles_csv(path, targets=["a", "b"]).with_targets("b")
    assert dataset.limits is not None and dataset.limits.number == 1 and dataset.limits.lower[0, 0] == 3


@pytest.mark.parametrize("split", ["random", "stratified"])
def test_all_splits_take_limits(tmp_path: Path, split: str) -> None:
    rows = [("C" * n, f">{n}" if n % 3 == 0 else str(n / 7)) for n in range(1, 21)]
    assert sum(map(len, smiles_csv(table(tmp_path, rows), split=split).split.values())) == 20


class TestTraining:
    def test_the_scale_is_of_exact_values_and_the_loss_gets_limits_in_it(self, tmp_path: Path) -> None:
        rows = [("C", "1"), ("CC", "3"), ("CCC", ">100"), ("CCCC", "<-50"), ("CCCCC", "2"), ("O", "2")]
        parts = ["train"] * 4 + ["val", "test"]
        path = table(tmp_path, [(*row, part) for row, part in zip(rows, parts, strict=True)], header="smiles,y,split")
        data = load_data(recipe_for(path, targets=["y"], options={"split": "column:split"}), progress=False)
        assert isinstance(data.scale, TargetScale) and (float(data.scale.mean), float(data.scale.std)) == (2, 1)
        y = torch.cat([data.points[graph].y for graph in range(6)])  # type: ignore[misc]
        expected = [[-1, math.nan, math.nan, 1], [1, math.nan, math.nan, 1]]
        expected += [[math.nan, 98, math.nan, 1], [math.nan, math.nan, -52, 1]]
        assert np.array_equal(y[:4], expected, equal_nan=True)
        assert "2 values are limits" in describe_data(data)
        assert data.targets(np.arange(4))[:, 0].isnan().tolist() == [False, False, True, True]

    def test_a_target_with_limits_alone_is_refused(self, tmp_path: Path) -> None:
        rows = [("C" * n, str(n), f">{n}") for n in range(1, 21)]
        path = table(tmp_path, rows, header="smiles,a,b")
        with pytest.raises(SpecError, match="'b' of own has only limits"):
            train(recipe_for(path, targets=["a", "b"]), tmp_path / "run", device="cpu", watch="quiet")

    @pytest.mark.parametrize("loss", ["l1", "smooth_l1", "mse"])
    def test_a_run_scores_exact_values_only(self, tmp_path: Path, loss: str) -> None:
        rows = [("C" * n, f">{n}" if n % 2 else str(n)) for n in range(1, 31)]
        recipe = recipe_for(table(tmp_path, rows), targets=["y"]).model_copy(update={"loss": loss})
        train(recipe, tmp_path / "run", device="cpu", watch="quiet")
        with (tmp_path / "run" / "predictions.csv").open() as file:
            predictions = list(csv.DictReader(file))
        exact = [(float(row["y"]), float(row["predicted_y"])) for row in predictions if row["y"]]
        assert 0 < len(exact) < len(predictions) and {int(true) % 2 for true, _ in exact} == {0}
        mae = json.loads((tmp_path / "run" / "result.json").read_text())["test"]["mae"]
        assert mae == pytest.approx(sum(abs(true - got) for true, got in exact) / len(exact), rel=1e-6)
        again = evaluate(tmp_path / "run")
        assert again["limits"] == len(predictions) - len(exact) and again["scores"]["mae"] == pytest.approx(mae)
