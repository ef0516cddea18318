"""A table of runs that several calls and processes made: nothing is lost, and its command makes all of it again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pointset.cli import reproduce as reproduce_cli
from pointset.errors import FileFormatError, SpecError
from pointset.paper.tables.collect import TableFolder
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.plan import Selection, TablePlan, plan_table
from pointset.paper.tables.result import Cell, TableResult
from pointset.paper.tables.run import TableRuns
from pointset.paper.tables.spec import table_named

from .small_tables import finish, write_table

app = typer.Typer()
app.command()(reproduce_cli.reproduce)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path)


def plan_of(table: Path, *models: str, **choice: Any) -> TablePlan:
    return plan_table(table_named(table), "small", Selection(models=list(models) or None, **choice))


def runs_of(plan: TablePlan, folder: TableFolder) -> TableRuns:
    return TableRuns(plan, folder, "tiny.yaml", lambda line: None)


def ours(result: TableResult) -> dict[str, Cell]:
    return {row.title: row.cells["edges"] for row in result.rows if row.source == "ours"}


def test_the_command_makes_what_the_table_holds_whichever_calls_made_it(table: Path, tmp_path: Path) -> None:
    folder, plan = TableFolder(tmp_path / "runs"), plan_of(table)
    of_gin = runs_of(plan_of(table, "gin"), folder)
    for run in plan.runs:
        if run.row.name == "gin":
            finish(folder, run)
    alone = of_gin.write()
    assert alone.command == "pointset reproduce tiny.yaml --budget small --models gin" and alone.complete
    finish(folder, plan.runs[0], score=0.5)  # of PST, by another process: one seed of two
    both = of_gin.write()
    assert both.command == "pointset reproduce tiny.yaml --budget small" and not both.complete
    assert ours(both)["PST"] == Cell(mean=0.5, values=(0.5,), note="1 of 2 runs")
    finish(folder, next(run for run in plan.runs if run.name == "pst-own-seed-1"))
    whole = of_gin.write()
    assert whole.complete
    pst = ours(whole)["PST"]
    assert pst.mean == 0.375 and pst.std == pytest.approx(0.25 / 2**0.5) and pst.note == ""


def test_more_seeds_of_an_earlier_call_stay_in_the_table(table: Path, tmp_path: Path) -> None:
    folder = TableFolder(tmp_path / "runs")
    for run in plan_of(table, seeds=3).runs:
        finish(folder, run)
    words = [str(table), "--run-dir", str(folder.path), "--collect"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    result = read_table(folder.path / "tiny-small.json")
    assert [len(cell.values) for cell in ours(result).values()] == [3, 3]
    assert result.command == "pointset reproduce tiny.yaml --budget small --seeds 3" and result.complete


def test_who_writes_waits_and_then_sees_what_another_finished(table: Path, tmp_path: Path) -> None:
    folder, plan = TableFolder(tmp_path / "runs"), plan_of(table, seeds=1)
    runs = runs_of(plan, folder)
    writing = threading.Thread(target=runs.write)
    with folder.locked():
        writing.start()
        writing.join(timeout=0.3)
        assert writing.is_alive() and not (folder.path / "tiny-small.json").exists()
        finish(folder, plan.runs[1])
    writing.join()
    assert ours(read_table(folder.path / "tiny-small.json"))["GIN"].mean == 0.25


def test_failures_of_other_calls_stay_and_those_that_were_made_good_go(table: Path, tmp_path: Path) -> None:
    folder, plan = TableFolder(tmp_path / "runs"), plan_of(table, seeds=1)
    for run in plan.runs:
        folder.note_failure(run.name, f"no memory for {run.row.name}")
    finish(folder, plan.runs[0])  # by hand, with pointset train
    cells = ours(runs_of(plan_of(table, "pst", seeds=1), folder).write())
    assert cells == {
        "PST": Cell(mean=0.25, values=(0.25,)),
        "GIN": Cell(mean=None, note="no memory for gin"),
    }


def test_a_run_that_another_process_trains_is_left_to_it(table: Path, tmp_path: Path) -> None:
    folder, plan = TableFolder(tmp_path / "runs"), plan_of(table, "pst", seeds=1)
    told: list[str] = []
    runs = TableRuns(plan, folder, "tiny.yaml", told.append)
    with folder.run(plan.chosen[0]).claim(resume=True):
        result = runs.run()
    assert told[-1] == "pst-own-seed-0 is left to another process, which trains it"
    assert runs.failed == [] and folder.failures() == {} and not result.complete


def test_date_and_machine_are_those_of_the_runs_and_data_is_not_needed(table: Path, tmp_path: Path) -> None:
    folder, plan = TableFolder(tmp_path / "runs"), plan_of(table, seeds=1)
    finish(folder, plan.runs[0], started="2020-02-03T04:05:06+00:00", threads=7, machine={"cores": 96}, command=["x"])
    finish(folder, plan.runs[1], started="2020-02-01T04:05:06+00:00", threads=1)
    result = runs_of(plan, folder).write()
    assert result.date == "2020-02-03"
    assert result.machine["threads"] == 7 and result.machine["machine"] == {"cores": 96}
    assert "command" not in result.machine


def test_what_is_damaged_is_named_with_a_remedy(table: Path, tmp_path: Path) -> None:
    folder, plan = TableFolder(tmp_path / "runs"), plan_of(table, seeds=1)
    finish(folder, plan.runs[0])
    folder.run(plan.runs[0]).metrics.write_text("epoch,val_mae\n1,x\n")
    with pytest.raises(FileFormatError, match=r"metrics\.csv is damaged.* Delete the folder"):
        runs_of(plan, folder).write()
    (folder.path / "failures.json").write_text('{"broken')
    with pytest.raises(FileFormatError, match=r"failures\.json is damaged .* Delete it"):
        folder.failures()


def test_nothing_to_collect_a_folder_that_is_none_and_a_choice_without_runs(table: Path, tmp_path: Path) -> None:
    nothing = CliRunner().invoke(app, [str(table), "--collect", "--run-dir", str(tmp_path / "none")])
    assert nothing.exit_code == 1 and "nothing to collect" in nothing.stderr
    assert not (tmp_path / "none").exists()
    words = [str(table), "--models", "pst", "--run-dir", str(table)]
    wrong = CliRunner().invoke(app, words)
    assert wrong.exit_code == 1 and "is not a folder; expected one for the runs" in wrong.stderr
    with pytest.raises(SpecError, match=r"no run for pascalvoc-sp of the models pst-adj at the budget 'full'"):
        plan_table(table_named("ablation"), "full", Selection(["pst-adj"], ["pascalvoc-sp"]))
