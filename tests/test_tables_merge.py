"""``pointset results --keep``: a table measured in several sittings is one table, and never holds outdated rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pointset.cli.results import results
from pointset.errors import SpecError
from pointset.paper.tables.collect import merge_tables
from pointset.paper.tables.formats import read_table, write_table
from pointset.paper.tables.plan import plan_table
from pointset.paper.tables.result import Cell, Column, Row, RunRecord, TableResult
from pointset.paper.tables.spec import table_named

COLUMNS = (Column(key="ogbg-molhiv", title="ROC-AUC", better="high"),)
PLAN = plan_table(table_named("molhiv"), "cpu")


def measured(*names: str, score: float = 0.7, command: str | None = None, **changes: object) -> TableResult:
    """A result of molhiv with these rows of ours, each of one run."""
    rows = [Row(title="GIN", source="paper", cells={"ogbg-molhiv": Cell(mean=0.77)})]
    for name in names:
        run = next(run for run in PLAN.runs if run.row.name == name)
        record = RunRecord(name=run.name, command=command or f"{run.command} trainer.threads=1", seed=0, seconds=60.0)
        rows.append(
            Row(title=run.row.title, source="ours", cells={"ogbg-molhiv": Cell(mean=score)}, runs=(record,))
        )  # fmt: skip
    about = dict[str, object](
        table="molhiv", title="m", paper_table="Table 3", budget="cpu", columns=COLUMNS, rows=tuple(rows),
        command=f"pointset reproduce molhiv --budget cpu --models {','.join(names)}", date="2026-11-20", machine={},
        seconds=60.0 * len(names), scope="little",
    )  # fmt: skip
    return TableResult.model_validate(about | changes)


def scores(result: TableResult) -> dict[str, float | None]:
    return {row.title: row.cells["ogbg-molhiv"].mean for row in result.rows if row.source == "ours"}


def test_rows_of_both_stand_in_the_tables_order_and_the_newer_of_two_counts() -> None:
    new, before = measured("gin", score=0.72, date="2026-12-01"), measured("pst", "gin", score=0.71)
    result, kept, outdated = merge_tables(new, before)
    assert scores(result) == {"PST": 0.71, "GINE": 0.72} and list(scores(result)) == ["PST", "GINE"]
    assert (kept, outdated) == (["PST"], [])
    assert result.command == "pointset reproduce molhiv --budget cpu" and result.seconds == 120.0
    assert {row.title: row.note for row in result.rows[1:]} == {"PST": "measured on 2026-11-20", "GINE": ""}
    again = merge_tables(measured("gin", date="2026-12-02"), result).result
    assert next(row.note for row in again.rows if row.title == "PST") == "measured on 2026-11-20"
    assert result.date == "2026-12-01" and [row.title for row in result.rows if row.source == "paper"] == ["GIN"]


def test_a_table_with_all_rows_replaces_the_other() -> None:
    new = measured("pst", "gin")
    assert merge_tables(new, measured("gin", score=0.1)).result == new


def test_a_row_that_is_not_run_yet_takes_nothing_away() -> None:
    """A table that is collected while some runs are missing shows their rows without numbers."""
    unfinished = measured("gin", complete=False)
    empty = Row(title="PST", source="ours", cells={"ogbg-molhiv": Cell(mean=None, note="not run yet")})
    new = unfinished.model_copy(update={"rows": (empty, *unfinished.rows)})
    result, kept, _ = merge_tables(new, measured("pst", score=0.75))
    assert scores(result) == {"PST": 0.75, "GINE": 0.7} and kept == ["PST"] and result.complete
    assert not merge_tables(new, measured("gin")).result.complete


def test_a_row_that_is_made_otherwise_today_does_not_stay() -> None:
    result, kept, outdated = merge_tables(measured("gin"), measured("pst", command="pointset train ogbg-molhiv seed=7"))
    assert list(scores(result)) == ["GINE"] and (kept, outdated) == ([], ["PST"])
    assert result.command.endswith("--models gin")


def test_other_tables_are_not_mixed() -> None:
    with pytest.raises(SpecError, match=r"molhiv-cpu.*qm9-cpu.*expected the same table"):
        merge_tables(measured("gin"), measured("pst", table="qm9"))


def test_no_column_is_lost() -> None:
    """A table that was run for some columns only does not replace one that has all."""
    more = (*COLUMNS, Column(key="another", title="another"))
    with pytest.raises(SpecError, match="has the columns another, which the new one lacks"):
        merge_tables(measured("gin"), measured("pst", "gin", columns=more))


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("results", "docs", "first", "second"):
        (tmp_path / folder).mkdir()
    write_table(measured("pst", score=0.75), tmp_path / "first")
    write_table(measured("gin", score=0.71), tmp_path / "second")
    app = typer.Typer()
    app.command()(results)
    for folder in ("first", "second"):
        done = CliRunner().invoke(app, ["--keep", f"{folder}/molhiv-cpu.json"])
        assert done.exit_code == 0, done.output
    assert "kept as they were: PST" in done.output
    assert scores(read_table(tmp_path / "results" / "molhiv-cpu.json")) == {"PST": 0.75, "GINE": 0.71}
    refused = CliRunner().invoke(app, ["--check", "--keep", "first/molhiv-cpu.json"])
    assert refused.exit_code == 2 and "--check writes nothing" in refused.output
