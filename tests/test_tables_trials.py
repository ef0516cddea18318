"""Rows whose learning rate short trainings choose, by validation alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pointset.cli import reproduce as reproduce_cli
from pointset.errors import SpecError
from pointset.files import read_json
from pointset.paper.tables import collect
from pointset.paper.tables.collect import TableFolder, merge_tables
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.plan import Selection, TablePlan, plan_table
from pointset.paper.tables.result import TableResult
from pointset.paper.tables.run import Forecast, TableRuns
from pointset.paper.tables.spec import BestOf, table_named
from pointset.paper.tables.trials import Trials
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, read_recipe

from .small_tables import write_table

app = typer.Typer()
app.command()(reproduce_cli.reproduce)
NAMES = ("gin-own-trial-lr-0.3", "gin-own-trial-lr-0.001")
NOTE = "learning rate 0.001, the best of 0.3, 0.001 on validation after 1 epoch"


def with_candidates(table: Path, values: str = "[0.3, 0.001]", more: str = "") -> Path:
    text = table.read_text(encoding="utf-8")
    row = f"model: gin, as_large_as: pst, best_of: {{optimizer.lr: {values}, share: 0.5}}{more}}}"
    table.write_text(text.replace("model: gin, as_large_as: pst}", row), encoding="utf-8")
    return table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return with_candidates(write_table(tmp_path))


def plan_of(table: Path, seeds: int = 2) -> TablePlan:
    return plan_table(table_named(table), "small", Selection(models=["gin"], seeds=seeds, threads=1))


def run(plan: TablePlan, folder: Path) -> tuple[TableResult, list[str]]:
    told: list[str] = []
    return TableRuns(plan, TableFolder(folder), "tiny.yaml", told.append).run(), told


def test_the_best_candidate_on_validation_is_taken_for_all_seeds(table: Path, tmp_path: Path) -> None:
    folder, plan = tmp_path / "runs", plan_of(table)
    result, told = run(plan, folder)
    assert result.complete and not (folder / "failures.json").exists()
    assert sum("to choose by validation" in line for line in told) == 2
    found = {name: read_json(folder / name / "result.json") for name in NAMES}
    assert found[NAMES[1]]["val"]["mae"] < found[NAMES[0]]["val"]["mae"]
    for trial in found.values():  # the test part was not there
        assert trial["epochs"] == 1 and trial["test"] == {} and not trial["split_sizes"].get("test")
    recipes = [read_recipe(folder / f"gin-own-seed-{seed}" / "recipe.yaml") for seed in (0, 1)]
    assert [recipe.optimizer.lr for recipe in recipes] == [0.001, 0.001] and recipes[0].trainer.epochs == 2
    (row,) = result.ours
    assert row.note == NOTE and all("optimizer.lr=0.001" in record.command for record in row.runs)
    assert [record.seed for record in row.runs] == [0, 1]

    again, told = run(plan_of(table), folder)
    assert told == [] and again == result
    for name in NAMES:  # as where only the runs were copied
        shutil.rmtree(folder / name)
    assert run(plan_of(table), folder)[0] == result
    table.write_text(table.read_text().replace("0.001], share", "0.03], share"))
    with pytest.raises(SpecError, match=r"other settings \(optimizer\.lr\)"):
        run(plan_of(table), folder)


def test_a_row_that_was_chosen_is_made_by_the_same_command_today(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "table_named", lambda name: table_named(table))
    result, _ = run(plan_of(table), tmp_path / "runs")
    empty = result.model_copy(update={"rows": tuple(row for row in result.rows if row.source != "ours")})
    assert merge_tables(empty, result).kept == ["GIN"]
    other = json.loads(result.model_dump_json().replace("optimizer.lr=0.001", "optimizer.lr=0.5"))
    assert merge_tables(empty, TableResult.model_validate(other)).outdated == ["GIN"]


def test_a_candidate_that_fails_is_not_taken_and_none_at_all_is_a_failure(table: Path, tmp_path: Path) -> None:
    text = table.read_text().replace("[0.3, 0.001]", "[1.0e+30, 0.001]")
    table.write_text(text.replace("share: 0.5}", "share: 0.5}, set: {optimizer.clip: null}"))
    folder = tmp_path / "runs"
    result, told = run(plan_of(table, seeds=1), folder)
    assert result.complete and result.ours[0].note.startswith("learning rate 0.001")
    assert any(line.startswith("gin-own-trial-lr-1e+30 failed: ") for line in told)
    assert list(read_json(folder / "failures.json")) == ["gin-own-trial-lr-1e+30"]

    table.write_text(table.read_text().replace("0.001], share", "2.0e+30], share"))
    broken, _ = run(plan_of(table, seeds=1), tmp_path / "others")
    cell = broken.ours[0].cells["edges"]
    assert cell.mean is None and "no candidate of optimizer.lr has a validation score" in cell.note


def test_a_trial_that_another_process_trains_is_left_to_it(table: Path, tmp_path: Path) -> None:
    plan, folder, told = plan_of(table, seeds=1), TableFolder(tmp_path / "runs"), list[str]()
    runs = TableRuns(plan, folder, "tiny.yaml", told.append)
    (tmp_path / "runs" / NAMES[0]).mkdir(parents=True)
    with RunFolder(folder.path / NAMES[0]).claim(resume=True):
        result = runs.run()
    assert not result.complete and runs.failed == [] and folder.failures() == {}
    assert (folder.path / NAMES[1] / "result.json").exists()  # meanwhile it makes the other one
    assert told[-1] == "gin-own-seed-0 is left to another process, which chooses its optimizer.lr"


def test_trials_of_other_settings_are_refused(table: Path, tmp_path: Path) -> None:
    folder = TableFolder(tmp_path / "runs")
    recipes = plan_of(table, seeds=1).chosen[0].trials
    assert recipes is not None
    begun = RunFolder(folder.path / NAMES[0])
    begun.path.mkdir(parents=True)
    other = changed(recipes.recipes(plan_of(table).chosen[0].recipe)[NAMES[0]], {"trainer.batch_size": 3})
    begun.recipe.write_text(other.as_yaml(), encoding="utf-8")
    with pytest.raises(SpecError, match=r"trial-lr-0\.3 was begun with other settings \(trainer\.batch_size\)"):
        TableRuns(plan_of(table), folder, "tiny.yaml", lambda line: None)


def test_the_forecast_counts_trials_once(table: Path, tmp_path: Path) -> None:
    runs = TableRuns(plan_of(table), TableFolder(tmp_path / "runs"), "tiny.yaml", lambda line: None)

    def ten_seconds_an_epoch(recipe: Recipe) -> Forecast:
        return Forecast(10.0 * recipe.trainer.epochs, 10**6)

    found = runs.forecasts(ten_seconds_an_epoch)
    assert [one.seconds for one in found.values() if one is not None] == [40.0, 20.0]


def test_from_the_command_line(table: Path, tmp_path: Path) -> None:
    words = [str(table), "--run-dir", str(tmp_path / "runs"), "--models", "gin", "--seeds", "1", "--threads", "1"]
    done = CliRunner().invoke(app, [*words, "--progress", "quiet", "--device", "cpu"])
    assert done.exit_code == 0, done.stderr
    assert NOTE in " ".join(done.stdout.split())
    assert read_table(tmp_path / "runs" / "tiny-small.json").ours[0].note == NOTE


def test_schedules_are_shortened_and_ties_go_to_the_first() -> None:
    trials = Trials(BestOf(key="optimizer.lr", values=[0.01, 0.001], share=0.1), "gps-zinc", 0)
    recipe = read_recipe("zinc", ["schedule.shape=cosine", "schedule.cosine=0", "trainer.epochs=25", "seed=3"])
    first, second = trials.recipes(recipe).values()
    assert first.trainer.epochs == 3 and first.seed == 0
    assert first.schedule.warmup == pytest.approx(17 * 3 / 25)
    assert (first.optimizer.lr, second.optimizer.lr) == (0.01, 0.001)
    names = trials.names
    assert names == ["gps-zinc-trial-lr-0.01", "gps-zinc-trial-lr-0.001"]

    def results(metric: str, *values: float | None) -> dict[str, Any]:
        return {name: {"metric": metric, "val": {metric: value}} for name, value in zip(names, values, strict=True)}

    assert trials.best(results("mae", 0.5, 0.5)) == 0.01 and trials.best(results("mae", 0.5, 0.4)) == 0.001
    assert trials.best(results("roc_auc", 0.5, 0.4)) == 0.01 and trials.best(results("mae", None, 0.4)) == 0.001
    assert trials.best(results("mae", None, None)) is None and trials.best({}) is None


@pytest.mark.parametrize(
    ("best_of", "message"),
    [
        ("{share: 0.1}", "expected one key of a recipe"),
        ("{optimizer.lr: [0.1, 0.2], model.dim: [8, 16]}", "expected one key of a recipe"),
        ("{optimizer.lr: [0.1]}", "at least 2 items"),
        ("{optimizer.lr: [0.1, 0.2], share: 2}", "less than or equal to 1"),
        ("{optimizer.lrr: [0.1, 0.2]}", "no key 'optimizer.lrr'; did you mean 'optimizer.lr'"),
        ("{optimizer.lr: [0.1, -1.0]}", "got optimizer.lr=-1.0; expected a number, above 0"),
    ],
)
def test_candidates_that_cannot_be_are_refused_before_anything_runs(tmp_path: Path, best_of: str, message: str) -> None:
    table = write_table(tmp_path)
    row = f"model: gin, as_large_as: pst, best_of: {best_of}}}"
    table.write_text(table.read_text().replace("model: gin, as_large_as: pst}", row))
    with pytest.raises(SpecError, match=message):
        plan_of(table)
