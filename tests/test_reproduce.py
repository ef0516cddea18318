"""``pointset reproduce`` on a table of its own: plan, runs, an interrupt, a failure, and what the table says."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pointset.cli import reproduce as reproduce_cli
from pointset.cli.reproduce import show_plan
from pointset.errors import SpecError
from pointset.paper.cost import Cost
from pointset.paper.tables.collect import NO_DATA, TableFolder
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.plan import Selection, plan_table
from pointset.paper.tables.result import Cell, TableResult
from pointset.paper.tables.run import Forecast, TableRuns
from pointset.paper.tables.spec import table_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe_files import read_recipe
from pointset.training.loop import TrainingLoop

from .small_tables import finish, write_table

app = typer.Typer()
app.command()(reproduce_cli.reproduce)


def invoke(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path)


def own_cell(result: TableResult, title: str) -> Cell:
    return next(row for row in result.rows if row.title == title and row.source == "ours").cells["edges"]


def test_a_table_is_run_interrupted_resumed_and_collected(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs"
    end_epoch = TrainingLoop._end_epoch
    interrupted: list[Path] = []

    def interrupting(self: TrainingLoop) -> None:
        if not interrupted and self.folder.path.name == "gin-own-seed-0":
            interrupted.append(self.folder.path)
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does, in the first epoch of the second run
        end_epoch(self)

    monkeypatch.setattr(TrainingLoop, "_end_epoch", interrupting)
    monkeypatch.setattr("sys.argv", ["pointset", "reproduce", "tiny.yaml"])
    words = (table, "--run-dir", folder, "--seeds", "1", "--progress", "quiet", "--device", "cpu")
    stopped = invoke(*words, "--threads", "1")
    assert stopped.exit_code == 130
    assert "pointset reproduce tiny.yaml" in stopped.stderr
    half = read_table(folder / "tiny-small.json")
    assert not half.complete
    assert own_cell(half, "PST").mean is not None
    assert own_cell(half, "GIN") == Cell(mean=None, note="not run yet")
    finished_at = (folder / "pst-own-seed-0" / "result.json").stat().st_mtime_ns

    collected = invoke(*words, "--collect")  # changes nothing
    assert collected.exit_code == 0
    assert read_table(folder / "tiny-small.json").rows == half.rows

    done = invoke(*words)  # threads are remembered
    assert done.exit_code == 0, done.stderr
    assert (folder / "pst-own-seed-0" / "result.json").stat().st_mtime_ns == finished_at
    result = read_table(folder / "tiny-small.json")
    assert result.complete
    score = json.loads((folder / "gin-own-seed-0" / "result.json").read_text())["test"]["mae"]
    assert own_cell(result, "GIN") == Cell(mean=score, values=(score,))
    check_what_the_table_says(result, folder)
    assert {path.suffix for path in folder.glob("tiny-small.*")} >= {".json", ".md", ".tex"}
    assert "PST, paper" in done.stdout


def check_what_the_table_says(result: TableResult, folder: Path) -> None:
    """The paper's numbers in the metric's own unit, the runs with commands that do them alone, no names of places."""
    paper = next(row for row in result.rows if row.title == "PST" and row.source == "paper")
    assert paper.cells["edges"] == Cell(mean=0.05, std=0.01)
    ours = next(row for row in result.rows if row.title == "GIN")
    assert ours.model == "gin"
    assert ours.parameters is not None
    for record in ours.runs:
        base, *overrides = shlex.split(record.command)[2:-2]
        begun = read_recipe(RunFolder(folder / record.name).recipe)
        again = read_recipe(base, overrides)
        assert again.model_copy(update={"name": begun.name, "title": begun.title, "trainer": begun.trainer}) == begun
        assert [epoch for epoch, _ in record.curve] == [1, 2]
        assert record.seconds is not None and record.seconds > 0
        assert len(record.times) == 2 and 0 < record.times[0] < record.times[1] < record.seconds + 0.01
    assert result.machine["machine"]["cores"] >= 1
    assert str(folder) not in result.model_dump_json(exclude={"rows"})


def test_a_run_that_fails_is_noted_beside_those_that_do_not(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    finish(TableFolder(folder), plan_table(table_named(table), "full", Selection(threads=1)).runs[0])
    words = ("--budget", "full", "--run-dir", folder, "--threads", "1", "--progress", "quiet", "--device", "cpu")
    failed = invoke(table, *words, "--models", "broken,pst")
    assert failed.exit_code == 1
    result = read_table(folder / "tiny-full.json")
    assert not result.complete
    cell = own_cell(result, "broken")
    assert cell.mean is None and ("loss" in cell.note or "gradient" in cell.note)
    assert str(tmp_path) not in cell.note
    assert own_cell(result, "PST").mean is not None
    assert [row.title for row in result.rows if row.source == "ours"] == ["PST", "broken"]  # GIN was not asked for
    assert result.command == "pointset reproduce tiny.yaml --budget full --models pst,broken"


def test_a_plan_says_what_the_runs_take_and_runs_nothing(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    words = (table, "--plan", "--run-dir", folder, "--threads", "1", "--models", "gin", "--seeds", "3")
    shown = invoke(*words, "--progress", "quiet")  # which hides what runs do, not the plan that was asked for
    assert shown.exit_code == 0, shown.stderr
    assert re.search(r"GIN +own +3 of 3 +2 +[\d,]+ +\d\S* \S+ +\d\S* [MG]B", shown.stdout)
    assert "3 runs left, about" in shown.stdout
    assert not folder.exists()


def test_what_another_process_finished_meanwhile_is_not_forecast(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = TableFolder(tmp_path / "runs")
    plan = plan_table(table_named(table), "small", Selection(models=["pst"], seeds=2, threads=1))
    runs = TableRuns(plan, folder, "tiny", lambda line: None)
    forecasts: dict[str, Forecast | None] = {run.name: Forecast(60.0, 10**6) for run in runs.left}
    finish(folder, plan.chosen[0])
    show_plan(runs, forecasts)
    said = capsys.readouterr().out
    assert "1 run left, about 1 min on" in said and "cannot be forecast" not in said


def test_other_settings_than_a_run_was_begun_with_are_refused(table: Path, tmp_path: Path) -> None:
    folder = TableFolder(tmp_path / "runs")
    plan = plan_table(table_named(table), "small", Selection(models=["pst"], seeds=1, threads=1))
    finish(folder, plan.chosen[0])
    table.write_text(table.read_text().replace("{scope: Two", "{set: {model.dim: 12}, scope: Two"), encoding="utf-8")
    other = plan_table(table_named(table), "small", Selection(models=["pst"], seeds=1))
    with pytest.raises(SpecError, match=r"other settings \(model.dim\)"):
        TableRuns(other, folder, "tiny", lambda line: None)


def test_costs_are_measured_side_by_side_and_shown_as_ratios(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = """
  - {key: seconds_per_epoch, title: time}
  - {key: ratio, title: time / PST's, ratio_of: seconds_per_epoch}
paper:
  - {title: PST, values: "2.0"}
  - {title: GPS, values: "1.0"}
"""
    text = table.read_text().replace("metric: mae, columns: [edges]", "columns: [seconds_per_epoch]")
    text = re.sub(r"columns:\n.*?(?=tasks:)", lambda _: f"kind: measured\ncolumns:{columns}", text, flags=re.DOTALL)
    table.write_text(text, encoding="utf-8")
    calls = []

    def measured(recipes: list[Any], **how: Any) -> list[Cost]:
        calls.append([recipe.model.preset for recipe in recipes])
        times = {"pst": 4.0, "gin": 1.0}
        return [Cost(one.model.preset, 8, 2, 100, times[one.model.preset]) for one in recipes]

    monkeypatch.setattr("pointset.paper.tables.run.measure_cost", measured)
    plan = plan_table(table_named(table), "small", Selection(seeds=1))
    runs = TableRuns(plan, TableFolder(tmp_path / "runs"), "tiny", lambda line: None)
    result = runs.run()
    assert calls == [["pst", "gin"]]
    ratios = {(row.source, row.title): row.cells["ratio"].mean for row in result.rows}
    assert ratios == {("paper", "PST"): 1, ("paper", "GPS"): 0.5, ("ours", "PST"): 1, ("ours", "GIN"): 0.25}
    assert result.complete
    runs.run()
    assert len(calls) == 1  # nothing is measured twice


def test_data_that_is_missing_is_said_and_its_rows_are_noted(table: Path, tmp_path: Path) -> None:
    alone = invoke("zinc-full", "--data-dir", tmp_path, "--budget", "small", "--plan")
    assert alone.exit_code == 1
    assert "is not on this machine" in alone.stderr and "--data-dir" in alone.stderr
    second = "  - {name: lacking, recipe: zinc, metric: mae, columns: [zinc]}\nours:"
    text = table.read_text().replace("ours:", second).replace("paper:", "  - {key: zinc, title: zinc}\npaper:")
    text = text.replace("0.50±0.10", "0.50±0.10 –").replace('"0.70"', "0.70 0.1")
    table.write_text(text, encoding="utf-8")
    finish(TableFolder(tmp_path / "runs"), plan_table(table_named(table), "small").runs[0])
    words = (table, "--data-dir", tmp_path, "--run-dir", tmp_path / "runs", "--models", "pst", "--seeds", "1")
    done = invoke(*words, "--progress", "quiet", "--device", "cpu")
    assert done.exit_code == 0, done.stderr
    assert "left out: zinc" in done.stderr
    result = read_table(tmp_path / "runs" / "tiny-small.json")
    row = next(row for row in result.rows if row.source == "ours")
    assert row.cells["zinc"].note == NO_DATA
    assert row.cells["edges"].mean is not None
