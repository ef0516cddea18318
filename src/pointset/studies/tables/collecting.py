"""A table from what is finished of it (:func:`collected`)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pointset.studies.tables.making import made_with
from pointset.studies.tables.plan import PlannedRun, TablePlan, parameters_of
from pointset.studies.tables.records import TableFolder
from pointset.studies.tables.result import Cell, Column, Row, RunRecord, TableResult
from pointset.studies.tables.spec import OwnRow, TableColumn, TableSpec, printed_cell

MISSING = "its data is not on this machine"
_NOT_YET = "not run yet"
_NO_SCORE = "the run has no score"


def collected(plan: TablePlan, folder: TableFolder, table: str, *, missing: Sequence[str] = ()) -> TableResult:
    """The table of all runs that are finished, whichever call made them, and of those that are chosen.

    It is ``complete`` where its command would find nothing left to do.

    Args:
        plan: of the table.
        folder: where its runs are.
        table: its name, or its file.
        missing: datasets that are not on this machine.
    """
    values = {run.name: _values(plan.spec, folder, run) for run in plan.runs}
    reasons = {run.name: MISSING for run in plan.chosen if run.recipe.dataset.name in missing} | folder.failures()
    reasons = {name: reason for name, reason in reasons.items() if values.get(name) is None}
    runs = _shown(plan, values, reasons)
    ours = [_own_row(plan, row, runs, values, reasons, folder) for row in plan.spec.ours]
    rows = [row for row in ours if row is not None]
    columns = [column for column in plan.spec.columns if _is_shown(column, rows)]
    printed = _printed_rows(plan.spec, columns)
    all_rows = [
        *_with_ratios(plan.spec, printed, printed[0].title if printed else ""),
        *_with_ratios(plan.spec, rows, plan.spec.ours[0].title),
    ]
    lacking = dict.fromkeys(str(run.recipe.dataset.name) for run in runs if reasons.get(run.name) == MISSING)
    made = made_with([run for run in runs if values[run.name] is not None], folder, plan)
    return TableResult(
        table=plan.spec.name,
        title=plan.spec.title,
        paper_table=plan.spec.paper_table,
        budget=plan.budget,
        columns=tuple(Column(**column.model_dump(exclude={"ratio_of"})) for column in columns),
        rows=tuple(all_rows),
        command=plan.command(runs, table),
        date=made.date,
        machine=made.machine,
        seconds=round(sum(record.seconds or 0.0 for row in rows for record in row.runs), 3),
        scope=plan.spec.budgets[plan.budget].scope,
        notes=(*plan.spec.notes, *(f"The data of {name} was not on this machine." for name in lacking)),
        complete=all(values[run.name] is not None for run in runs),
    )


def _values(spec: TableSpec, folder: TableFolder, run: PlannedRun) -> dict[str, float | None] | None:
    """By column, in the metric's own unit; None for a run that is not finished."""
    if spec.kind == "counted":
        return dict.fromkeys(run.task.columns, float(parameters_of(run.recipe))) if run.is_chosen else None
    if spec.kind == "measured":
        cost = folder.cost(run)
        return None if cost is None else {key: cost.get(key) for key in run.task.columns}
    result = folder.result(run)
    if result is None:
        return None
    scores = {
        key: result["per_target"].get(key, {}) if run.task.by_target else result["test"] for key in run.task.columns
    }
    return {key: of_target.get(run.task.metric) for key, of_target in scores.items()}


def _shown(plan: TablePlan, values: Mapping[str, object], reasons: Mapping[str, str]) -> list[PlannedRun]:
    """The runs of all rows and tasks of which one is chosen, or has come to an end, good or bad."""
    some = [run for run in plan.runs if run.is_chosen or values[run.name] is not None or run.name in reasons]
    rows, tasks = {run.row.name for run in some}, {run.task.name for run in some}
    return [run for run in plan.runs if run.row.name in rows and run.task.name in tasks]


def _own_row(
    plan: TablePlan,
    row: OwnRow,
    shown: Sequence[PlannedRun],
    values: Mapping[str, Mapping[str, float | None] | None],
    reasons: Mapping[str, str],
    folder: TableFolder,
) -> Row | None:
    """None for a row that is not shown."""
    runs = [run for run in shown if run.row.name == row.name]
    if not runs:
        return None
    done = [run for run in runs if values[run.name] is not None]
    cells: dict[str, Cell] = {}
    for key in dict.fromkeys(key for run in runs for key in run.task.columns):
        filling = [run for run in runs if key in run.task.columns]
        cells[key] = _cell(
            [(values[run.name] or {}).get(key) for run in filling if run in done],
            next((reasons[run.name] for run in filling if run.name in reasons), ""),
            len(filling),
        )
    return Row(
        title=row.title,
        source="ours",
        model=runs[0].recipe.model.preset,
        counterpart=row.counterpart,
        parameters=_shared_parameters(runs, plan, folder),
        cells=cells,
        runs=() if plan.spec.kind == "counted" else tuple(_record(run, folder) for run in done),
        note=row.note,
    )


def _cell(values: Sequence[float | None], failure: str, planned: int) -> Cell:
    """Mean and standard deviation (division by their number minus one) over seeds and folds."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return Cell(mean=None, note=failure or (_NO_SCORE if values else _NOT_YET))
    if failure:
        note = f"{len(known)} of {planned} runs; {failure}"
    else:
        note = "" if len(known) == planned else f"{len(known)} of {planned} runs"
    return Cell(
        mean=statistics.fmean(known),
        std=statistics.stdev(known) if len(known) > 1 else None,
        values=tuple(known),
        note=note,
    )


def _record(run: PlannedRun, folder: TableFolder) -> RunRecord:
    about: dict[str, Any] = folder.result(run) or {}
    cost = folder.cost(run) or {}
    return RunRecord(
        name=run.name,
        command=run.command,
        seed=run.seed,
        fold=run.fold,
        epochs=about.get("epochs"),
        best_epoch=about.get("best_epoch"),
        seconds=about.get("seconds"),
        peak_memory_bytes=cost.get("peak_memory_bytes"),  # of a training it is unknown: all run in one process
        curve=folder.curve(run, about["metric"]) if about else (),
    )


def _shared_parameters(runs: Sequence[PlannedRun], plan: TablePlan, folder: TableFolder) -> int | None:
    """Of the row's model, where all its tasks have the same."""
    if plan.spec.kind == "counted":
        return None
    tasks = {run.task.name: run for run in runs if folder.is_done(run)}
    found = set()
    for run in tasks.values():
        about: Mapping[str, Any] = folder.result(run) or folder.cost(run) or {}
        found.add(about.get("parameters"))
    return found.pop() if len(found) == 1 else None


def _printed_rows(spec: TableSpec, columns: Sequence[TableColumn]) -> list[Row]:
    """The paper's, without those that have nothing in the columns shown."""
    shown = {column.key for column in columns}
    rows = []
    for line in spec.paper:
        cells = {
            column.key: printed_cell(text, column)
            for column, text in zip(spec.printed_columns, line.values, strict=True)
            if text is not None and column.key in shown
        }
        if cells:
            rows.append(Row(title=line.title, source=line.source, cells=cells, note=line.note))
    return rows


def _is_shown(column: TableColumn, ours: Sequence[Row]) -> bool:
    """A column that no run of this budget fills says nothing here."""
    return any((column.ratio_of or column.key) in row.cells for row in ours)


def _with_ratios(spec: TableSpec, rows: Sequence[Row], first: str) -> list[Row]:
    """Rows with their ratios to the one of this title; without, where it is not among them."""
    ratios = {column.key: column.ratio_of for column in spec.columns if column.ratio_of is not None}
    one = next((row.cells for row in rows if row.title == first), {})
    wholes = {key: one[of].mean for key, of in ratios.items() if of in one}
    return [row.model_copy(update={"cells": _ratio_cells(row, ratios, wholes)}) for row in rows]


def _ratio_cells(row: Row, ratios: Mapping[str, str], wholes: Mapping[str, float | None]) -> dict[str, Cell]:
    cells = dict(row.cells)
    for key, of in ratios.items():
        whole, value = wholes.get(key), cells[of].mean if of in cells else None
        if whole and value is not None:
            cells[key] = Cell(mean=value / whole)
    return cells
