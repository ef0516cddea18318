"""Rows of fingerprints: a forest and boosting on Morgan counts, tuned on the validation part, beside trained models."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from pointset.baselines import fingerprints
from pointset.baselines.fingerprints import SETTINGS, Examples, Learner, Tuned, tuned
from pointset.cli import reproduce as reproduce_cli
from pointset.errors import MissingExtraError, SpecError
from pointset.files import read_json
from pointset.metrics import Task
from pointset.paper.tables import collect
from pointset.paper.tables.collect import TableFolder, merge_tables
from pointset.paper.tables.fingerprints import fingerprint_note, fingerprint_recipe, run_fingerprints
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.plan import plan_table
from pointset.paper.tables.run import TableRuns
from pointset.paper.tables.spec import table_named
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, read_recipe
from pointset.training.data import read_dataset

from .small_training import edge_counts, write_graphs
from .test_forest import molecules

pytest.importorskip("sklearn")
pytest.importorskip("rdkit")
app = typer.Typer()
app.command()(reproduce_cli.reproduce)
LEARNERS: tuple[Learner, ...] = ("forest", "boosting")
TABLE = """
name: carbons
title: Carbons
paper_table: Table 99
columns: [{{key: target, title: MAE, digits: 3}}]
paper: [{{title: PST, values: "0.1"}}]
tasks: [{{name: own, recipe: "{recipe}", metric: mae, columns: [target]}}]
ours:
  - {{name: pst, title: PST}}
  - {{name: ecfp-forest, title: Forest, fingerprints: forest}}
  - {{name: ecfp-boosting, title: Boosting, fingerprints: boosting, minutes: 2}}
budgets: {{small: {{scope: Little.}}}}
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few trees, which take seconds."""
    monkeypatch.setattr(fingerprints, "_MOST", {"forest": 20, "boosting": 50})
    monkeypatch.setattr(fingerprints, "_STEP", {"forest": 10, "boosting": 25})


def made_up(rows: int, seed: int, *, labels: bool = False) -> Examples:
    """Counts (rows, 20), and two targets of which the second lacks some."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 4, (rows, 20)).astype(np.uint8)
    value = counts[:, 0] * 2.0 + counts[:, 1]
    value = (value > 4).astype(float) if labels else value
    return Examples(counts, np.stack([value, np.where(generator.random(rows) < 0.3, np.nan, 1 - value)], axis=1))


def answer(learner: Learner, task: Task = Task.REGRESSION, **more: Any) -> tuple[Tuned, np.ndarray]:
    labels = task is not Task.REGRESSION
    train, val, test = (made_up(rows, seed, labels=labels) for seed, rows in enumerate((150, 60, 40)))

    def loss(answers: np.ndarray) -> float:
        assert answers.shape == (60, 2)
        values = (answers > 0).astype(float) if labels else answers
        return float(np.nanmean(np.abs(values - val.targets)))

    found = tuned(learner, train, val, test.counts, loss, task=task, outputs=2, **more)
    return found, test.targets


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_best_of_three_settings_answers_and_missing_values_are_left_out(learner: Learner) -> None:
    found, truth = answer(learner)
    assert [trial.value for trial in found.trials] == list(SETTINGS[learner][1])
    assert found.best.loss == min(trial.loss for trial in found.trials) and not found.best.is_limited
    assert np.nanmean(np.abs(found.answers - truth)) < 1.0 < np.nanstd(truth)
    threaded, _ = answer(learner, threads=2)
    assert np.array_equal(found.answers, threaded.answers) and found.trials == threaded.trials
    labels, truth = answer(learner, Task.MULTI_LABEL)
    known = ~np.isnan(truth)
    assert ((labels.answers > 0) == truth)[known].mean() > 0.85 and np.isfinite(labels.answers).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_time_ends_it_and_something_is_always_learned(learner: Learner) -> None:
    start = time.monotonic()
    found, truth = answer(learner, minutes=1e-9)
    assert time.monotonic() - start < 30
    assert all(trial.is_limited for trial in found.trials)
    assert found.best.trees == {"forest": 1, "boosting": 25}[learner]
    assert found.answers.shape == truth.shape and np.isfinite(found.answers).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_classes_and_targets_without_anything_to_learn(learner: Learner) -> None:
    counts = made_up(90, 3).counts
    classes = np.where(counts[:, 0] > 1, 2.0, 0.0)
    classes[:4] = -1
    train, val = Examples(counts[:60], classes[:60]), Examples(counts[60:], np.where(classes[60:] > 0, 1.0, 0.0))
    found = tuned(learner, train, val, counts[60:], lambda a: 0.0, task=Task.MULTI_CLASS, outputs=3)
    assert (found.answers.argmax(1) == classes[60:]).mean() > 0.9  # validation has a class that training lacks
    assert found.best == found.trials[0]  # of equal ones the first
    same = train._replace(targets=np.full((60, 1), 7.0))
    constant = tuned(learner, same, val, counts[60:], lambda a: 0.0, task=Task.REGRESSION, outputs=1)
    assert (constant.answers == 7.0).all()
    empty = Examples(counts[:0], classes[:0])
    with pytest.raises(SpecError, match="no molecules for validation; expected some"):
        tuned(learner, train, empty, counts, lambda a: 0.0, task=Task.MULTI_CLASS, outputs=3)
    with pytest.raises(SpecError, match=r"no setting of the .* has a score"):
        tuned(learner, same, val, counts, lambda a: float("nan"), task=Task.REGRESSION, outputs=1)


# --- as a run of a table


def with_data(folder: Path) -> Recipe:
    recipe = molecules(folder)
    return changed(recipe, {"dataset.options": {"split": "random"}, "trainer.baseline": False})


def test_a_run_leaves_a_folder_like_that_of_a_training(tmp_path: Path) -> None:
    recipe = fingerprint_recipe(with_data(tmp_path), "boosting")
    assert recipe.model == Recipe.from_dict({"name": "x", "trainer": {"epochs": 1, "batch_size": 1}}).model
    told: list[str] = []
    result = run_fingerprints(recipe, "boosting", tmp_path / "run", tell=told.append)
    assert result == read_json(tmp_path / "run" / "result.json") and len(told) == 3
    data = read_dataset(recipe)
    assert result["split_sizes"] == {part: len(graphs) for part, graphs in data.split.items()}
    assert result["test"]["mae"] == result["per_target"]["target"]["mae"] > 0 and result["test"]["r2"] is not None
    tried = [one["val"] for one in result["fingerprints"]["tried"]]
    assert result["val"]["mae"] == min(tried)
    assert fingerprint_note(result).endswith("the best of 0.03, 0.1, 0.3 on validation")
    assert read_recipe(tmp_path / "run" / "recipe.yaml") == recipe
    assert run_fingerprints(recipe, "boosting", tmp_path / "run") == result  # only read


def test_what_cannot_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = fingerprint_recipe(write_graphs(tmp_path / "graphs", edge_counts()), "forest")
    with pytest.raises(SpecError, match="has no molecules; expected some to compute fingerprints of"):
        run_fingerprints(graphs, "forest", tmp_path / "a")
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match="pip install"):
        run_fingerprints(fingerprint_recipe(with_data(tmp_path), "forest"), "forest", tmp_path / "b")


def test_rows_of_a_table_are_planned_run_resumed_and_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_text(with_data(tmp_path).as_yaml(), encoding="utf-8")
    table, folder = tmp_path / "carbons.yaml", tmp_path / "runs"
    table.write_text(TABLE.format(recipe=tmp_path / "own.yaml"), encoding="utf-8")
    words = [str(table), "--run-dir", str(folder), "--threads", "1", "--device", "cpu"]
    words += ["--models", "ecfp-forest,ecfp-boosting"]
    plan = CliRunner().invoke(app, [*words, "--plan"])
    assert plan.exit_code == 0, plan.stderr
    lines = {line.split()[0]: line.split() for line in plan.stdout.splitlines() if line.strip()}
    assert lines["Forest"][1:] == ["own", "1", "of", "1", *"–" * 5]  # without a limit nobody knows
    assert lines["Boosting"][5:9] == ["–", "–", "2", "min"]

    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    result = read_table(folder / "carbons-small.json")
    assert result.complete and [row.title for row in result.ours] == ["Forest", "Boosting"]
    forest, boosting = result.ours
    assert (forest.model, boosting.model) == ("ecfp-forest", "ecfp-boosting") and forest.parameters is None
    assert "max_features" in forest.note and "learning_rate" in boosting.note
    assert forest.runs[0].command == "pointset reproduce carbons --budget small --models ecfp-forest"
    assert forest.runs[0].seconds is not None and forest.runs[0].curve == () and result.machine["threads"] == 1

    score = read_json(folder / "ecfp-forest-own-seed-0" / "result.json")["test"]["mae"]
    assert forest.cells["target"].mean == score
    again = TableRuns(plan_table(table_named(table), "small"), TableFolder(folder), "carbons.yaml", lambda line: None)
    assert [run.name for run in again.left] == ["pst-own-seed-0"]
    monkeypatch.setattr(collect, "table_named", lambda name: table_named(table))
    alone = result.model_copy(update={"rows": tuple(row for row in result.rows if row.title != "Boosting")})
    merged = merge_tables(alone, result)
    assert merged.kept == ["Boosting"] and [row.title for row in merged.result.ours] == ["Forest", "Boosting"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("fingerprints: forest, model: pst", "expected only one of the two kinds"),
        ("fingerprints: forests", "forest"),
        ("minutes: 5", "which is trained by epochs; set trainer.epochs"),
    ],
)
def test_a_row_is_of_one_kind(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "carbons.yaml"
    path.write_text(TABLE.format(recipe="zinc").replace("fingerprints: forest}", f"{row}}}"), encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        table_named(path)
