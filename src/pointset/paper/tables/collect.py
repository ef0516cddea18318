"""A table from what is finished of it: its folder (:class:`TableFolder`), its numbers (:func:`collect_table`), and a
table measured in several sittings (:func:`merge_tables`).
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from filelock import lock_descriptor

from pointset.errors import FileFormatError, PointsetError, SpecError
from pointset.files import check_regular, read_json, write_json
from pointset.paper.comparison import validation_curve, validation_times
from pointset.paper.tables.fingerprints import fingerprint_model, fingerprint_note
from pointset.paper.tables.plan import PlannedRun, TablePlan, parameters_of, plan_table, table_command
from pointset.paper.tables.result import Cell, Column, Row, RunRecord, TableResult
from pointset.paper.tables.spec import OwnRow, TableColumn, TableSpec, printed_cell, table_named
from pointset.paper.tables.trials import Trials
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, flattened, read_recipe
from pointset.runs.result import machine_kind, read_result
from pointset.training.devices import check_device, threads_for

FAILURES = "failures.json"
_COST = "cost.json"
_LOCK = ".table.lock"
_UNIMPORTANT = ("name", "title", "trainer.threads", "trainer.checkpoint_minutes")  # and all below `expected`

NO_DATA = "its data is not on this machine"
_NOT_YET = "not run yet"
_NO_SCORE = "the run has no score"


class TableFolder:
    """A table's folder, which need not be there: a folder for each run or measurement, and a note of what failed."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Inside, no other process reads the runs to write the table of them: what one finishes, the next one sees."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise SpecError(f"{self.path} is not a folder; expected one for the runs. Choose it by --run-dir") from None
        check_regular(self.path / _LOCK)
        with (self.path / _LOCK).open("a") as file:
            lock_descriptor(file.fileno())  # waits until it is free
            yield

    def seeds_begun(self) -> int:
        """How many different seeds the runs in the folder have."""
        names = [item.name for item in self.path.iterdir()] if self.path.is_dir() else []
        return len({found[1] for name in names if (found := re.search(r"-seed-(\d+)(?:-fold-\d+)?$", name))})

    def run(self, run: PlannedRun) -> RunFolder:
        """Where a training goes."""
        return RunFolder(self.path / run.name)

    def as_begun(self, run: PlannedRun) -> PlannedRun:
        """The run with the recipe that it was begun with, if it was: its threads, name and title may be others.

        One that was not gets the setting that its trials chose, once they have.
        """
        folder = self.run(run)
        if not folder.has_run:
            return self._with_choice(run)
        begun = _begun(folder, run.possible)
        return replace(run, make_recipe=lambda: begun)

    def _with_choice(self, run: PlannedRun) -> PlannedRun:
        if run.trials is None:
            return run
        for name, recipe in run.trials.recipes(run.recipe).items():
            if (trial := RunFolder(self.path / name)).has_run:
                _begun(trial, [recipe])
        if (value := self.choice(run)) is None:
            return run
        chosen = changed(run.recipe, {run.trials.best_of.key: value})
        return replace(run, make_recipe=lambda: chosen)

    def choice(self, run: PlannedRun) -> Any | None:
        """The candidate that the run's trials chose; None before all of them are over, and where none has a score."""
        if run.trials is None or not self.trials_are_over(run.trials):
            return None
        folders = self._trial_folders(run.trials)
        return run.trials.best({name: read_result(one.result) for name, one in folders if one.is_finished})

    def trials_are_over(self, trials: Trials) -> bool:
        """Whether each has come to its end, or has failed."""
        failed = self.failures()
        return all(one.is_finished or name in failed for name, one in self._trial_folders(trials))

    def _trial_folders(self, trials: Trials) -> list[tuple[str, RunFolder]]:
        return [(name, RunFolder(self.path / name)) for name in trials.names]

    def result(self, run: PlannedRun) -> dict[str, Any] | None:
        """Of a finished training."""
        folder = self.run(run)
        return read_result(folder.result) if folder.is_finished else None

    def cost(self, run: PlannedRun) -> dict[str, Any] | None:
        """Of a measurement."""
        path = self.path / run.name / _COST
        return read_json(path) if path.exists() else None

    def write_cost(self, run: PlannedRun, cost: Mapping[str, Any]) -> None:
        """Of a measurement that was made now."""
        path = self.path / run.name / _COST
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, cost)

    def environment(self, run: PlannedRun) -> dict[str, Any] | None:
        """What a training or measurement was made with; None where it is not known."""
        path = self.run(run).environment
        return read_json(path) if path.exists() else (self.cost(run) or {}).get("environment")

    def is_running(self, name: str) -> bool:
        """Whether another process trains the run of this name now."""
        try:
            with RunFolder(self.path / name).claim(resume=True):
                return False
        except (SpecError, OSError):
            return False
        except PointsetError:
            return True

    def is_done(self, run: PlannedRun) -> bool:
        """Whether there is nothing left to do for it."""
        return self.run(run).is_finished or self.cost(run) is not None

    def failures(self) -> dict[str, str]:
        """Why runs failed, by their names."""
        path = self.path / FAILURES
        try:
            return read_json(path) if path.exists() else {}
        except FileFormatError as error:
            raise FileFormatError(f"{error}. Delete it: it only says why runs failed") from None

    def note_failure(self, failed: str, reason: str | None) -> None:
        """Write down why the run of this name failed; None where it did not."""
        with self.locked():
            known = self.failures()
            if reason is None and failed not in known:
                return
            known = {name: text for name, text in known.items() if name != failed}
            write_json(self.path / FAILURES, known if reason is None else known | {failed: reason})


def _begun(folder: RunFolder, possible: Sequence[Recipe]) -> Recipe:
    """What a run was begun with, which must be one of these recipes."""
    begun = read_recipe(folder.recipe)
    if different := min((_different(begun, recipe) for recipe in possible), key=len):
        raise SpecError(
            f"the run in {folder.path} was begun with other settings ({', '.join(different[:5])}).\n"
            "Delete its folder to run it anew, or choose another one for all runs with --run-dir"
        )
    return begun


def _different(begun: Recipe, now: Recipe) -> list[str]:
    """Keys in which two recipes differ, of those that change what is computed."""
    before, after = flattened(begun.as_dict()), flattened(now.as_dict())
    keys = [key for key in {**before, **after} if key not in _UNIMPORTANT and key.partition(".")[0] != "expected"]
    return [key for key in keys if before.get(key) != after.get(key)]


def collect_table(plan: TablePlan, folder: TableFolder, table: str, *, missing: Sequence[str] = ()) -> TableResult:
    """The table of all runs that are finished, whichever call made them, and of those that are chosen.

    It is ``complete`` where its command would find nothing left to do. ``table`` is its name, or its file; ``missing``
    are datasets that are not on this machine.
    """
    values = {run.name: _values(plan.spec, folder, run) for run in plan.runs}
    reasons = {run.name: NO_DATA for run in plan.chosen if run.recipe.dataset.name in missing} | folder.failures()
    reasons = {name: reason for name, reason in reasons.items() if values.get(name) is None}
    runs = _shown_runs(plan, values, reasons)
    ours = [_own_row(plan, row, runs, values, reasons, folder) for row in plan.spec.ours]
    rows = [row for row in ours if row is not None]
    filled = {key for row in rows for key in row.cells}  # a column that no run of this budget fills says nothing here
    columns = [column for column in plan.spec.columns if (column.ratio_of or column.key) in filled]
    printed = _printed_rows(plan.spec, columns)
    all_rows = [
        *_with_ratios(plan.spec, printed, printed[0].title if printed else ""),
        *_with_ratios(plan.spec, rows, plan.spec.ours[0].title),
    ]
    lacking = dict.fromkeys(str(run.recipe.dataset.name) for run in runs if reasons.get(run.name) == NO_DATA)
    date, machine = _date_and_machine([run for run in runs if values[run.name] is not None], folder, plan)
    return TableResult(
        table=plan.spec.name,
        title=plan.spec.title,
        paper_table=plan.spec.paper_table,
        budget=plan.budget,
        columns=tuple(Column(**column.model_dump(exclude={"ratio_of"})) for column in columns),
        rows=tuple(all_rows),
        command=plan.command(runs, table),
        date=date,
        machine=machine,
        seconds=_seconds(rows),
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


def _shown_runs(plan: TablePlan, values: Mapping[str, object], reasons: Mapping[str, str]) -> list[PlannedRun]:
    """The runs of all rows and tasks of which one is chosen, or has ended, well or not."""
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
    done = [folder.as_begun(run) if run.trials else run for run in runs if values[run.name] is not None]
    finished = {run.name for run in done}
    cells: dict[str, Cell] = {}
    for key in dict.fromkeys(key for run in runs for key in run.task.columns):
        filling = [run for run in runs if key in run.task.columns]
        cells[key] = _cell(
            [(values[run.name] or {}).get(key) for run in filling if run.name in finished],
            next((reasons[run.name] for run in filling if run.name in reasons), ""),
            len(filling),
        )
    is_counted = plan.spec.kind == "counted"
    return Row(
        title=row.title,
        source="ours",
        model=fingerprint_model(row.fingerprints) if row.fingerprints else runs[0].recipe.model.preset,
        counterpart=row.counterpart,
        parameters=None if is_counted else _shared_parameters(done, folder),
        cells=cells,
        runs=() if is_counted else tuple(_run_record(run, folder) for run in done),
        note="; ".join(filter(None, (row.note, *_choices(done, folder)))),
    )


def _choices(done: Sequence[PlannedRun], folder: TableFolder) -> list[str]:
    """What was chosen for a row by validation, in words; of several tasks by their names, where they differ."""
    by_task: dict[str, dict[str, None]] = {}
    for run in done:
        told = run.trials.note(run.recipe) if run.trials else fingerprint_note(folder.result(run) or {})
        by_task.setdefault(run.task.name, {}).update(dict.fromkeys(filter(None, [told])))
    told_of_all = list(dict.fromkeys("; ".join(notes) for notes in by_task.values() if notes))
    if len(told_of_all) <= 1:
        return told_of_all
    return [f"{task}: {'; '.join(notes)}" for task, notes in by_task.items() if notes]


def _cell(values: Sequence[float | None], failure: str, planned: int) -> Cell:
    """Mean and standard deviation (division by their number minus one) over seeds and folds."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return Cell(mean=None, note=failure or (_NO_SCORE if values else _NOT_YET))
    parts = ["" if len(known) == planned and not failure else f"{len(known)} of {planned} runs", failure]
    return Cell(
        mean=statistics.fmean(known),
        std=statistics.stdev(known) if len(known) > 1 else None,
        values=tuple(known),
        note="; ".join(filter(None, parts)),
    )


def _run_record(run: PlannedRun, folder: TableFolder) -> RunRecord:
    result = folder.result(run) or {}
    return RunRecord(
        name=run.name,
        command=run.command,
        seed=run.seed,
        fold=run.fold,
        **{key: result.get(key) for key in ("epochs", "best_epoch", "seconds")},
        # of a training it is unknown: all run in one process
        peak_memory_bytes=(folder.cost(run) or {}).get("peak_memory_bytes"),
        curve=validation_curve(folder.run(run), result["metric"]) if result else (),
        times=validation_times(folder.run(run), result["metric"]) if result else (),
    )


def _shared_parameters(done: Sequence[PlannedRun], folder: TableFolder) -> int | None:
    """Of the row's model, where all its tasks have the same."""
    tasks = {run.task.name: run for run in done}
    found = {(folder.result(run) or folder.cost(run) or {}).get("parameters") for run in tasks.values()}
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


def _with_ratios(spec: TableSpec, rows: Sequence[Row], first: str) -> list[Row]:
    """Rows with their ratios to the one of this title; without, where it is not among them."""
    ratios = {column.key: column.ratio_of for column in spec.columns if column.ratio_of is not None}
    reference = next((row.cells for row in rows if row.title == first), {})

    def with_ratios(row: Row) -> Row:
        cells = dict(row.cells)
        for key, of in ratios.items():
            if of in cells and of in reference:
                value, divisor = cells[of].mean, reference[of].mean
                if value is not None and divisor:
                    cells[key] = Cell(mean=value / divisor)
        return row.model_copy(update={"cells": cells})

    return [with_ratios(row) for row in rows]


def _seconds(rows: Sequence[Row]) -> float:
    return round(sum(record.seconds or 0.0 for row in rows for record in row.runs), 3)


def _date_and_machine(done: Sequence[PlannedRun], folder: TableFolder, plan: TablePlan) -> tuple[str, dict[str, Any]]:
    """Of the run that was begun last: a table may be collected later, and on another machine."""
    known = [one for run in done if (one := folder.environment(run)) is not None and "started" in one]
    here = environment_here(threads_for(plan.chosen[0].recipe, 1))
    last = max(known, key=lambda one: str(one["started"]), default=here)
    return str(last["started"])[:10], {key: last.get(key) for key in here if key != "started"}


def environment_here(threads: int, device: str = "auto") -> dict[str, Any]:
    """What is measured now is measured with this, without names or paths."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return _machine(check_device(device, "32"), threads) | {"started": started}


@cache
def _machine(device: str, threads: int) -> dict[str, Any]:
    """Asked once: it takes longer than the rest of a table."""
    return machine_kind(device=device, threads=threads)


_THREADS = re.compile(r" trainer\.threads=\S+")  # changes the time that a run takes, and nothing else
_MEASURED = "measured on"


class MergedTable(NamedTuple):
    """``kept`` and ``outdated``: titles of earlier rows that stay, and of those that the table now makes otherwise."""

    result: TableResult
    kept: list[str]
    outdated: list[str]


def merge_tables(new: TableResult, before: TableResult) -> MergedTable:
    """``new``, and the rows of ours that only ``before`` has, in the table's own order.

    A row of ``new`` counts if anything of it was measured. An earlier one stays only if each of its runs would be made
    by the same command today, and gets a note with its date. Date and machine of the table are those of ``new``.

    Raises:
        SpecError: the two are not of one table and budget, columns would be lost, or rows would have to be joined of a
            table that is not shipped, whose settings cannot be looked up.
    """
    if (new.table, new.budget) != (before.table, before.budget):
        raise SpecError(
            f"got a result of {new.table}-{new.budget} to keep beside one of {before.table}-{before.budget}; expected "
            "the same table and budget"
        )
    lost = [column.title for column in before.columns if column.key not in {one.key for one in new.columns}]
    if lost:
        raise SpecError(
            f"the result of {new.table}-{new.budget} that is kept has the columns {', '.join(lost)}, which the new one "
            "lacks; expected them in both. Run the table without --columns, or remove the kept file to begin anew"
        )
    ours = {row.title: row for row in new.rows if row.source == "ours" and _is_measured(row)}
    earlier = [row for row in before.rows if row.source == "ours" and _is_measured(row) and row.title not in ours]
    if not earlier:
        return MergedTable(new, [], [])
    plan = plan_table(table_named(new.table), new.budget)
    kept = [row for row in earlier if _is_current(row, plan)]
    ours |= {row.title: _dated(row, before.date, new.date) for row in kept}
    order = {row.title: row.name for row in plan.spec.ours if row.title in ours}
    rows = [ours[title] for title in order]
    names = {run.row.name for run in plan.runs}
    done = {record.name for row in rows for record in row.runs}
    result = new.model_copy(
        update={
            "rows": (*(row for row in new.rows if row.source != "ours"), *rows),
            "command": table_command(new.table, new.budget, () if set(order.values()) == names else [*order.values()]),
            "seconds": _seconds(rows),
            "complete": {run.name for run in plan.runs} <= done,
        }
    )
    return MergedTable(result, [row.title for row in kept], [row.title for row in earlier if row not in kept])


def _is_measured(row: Row) -> bool:
    return any(cell.mean is not None for cell in row.cells.values())


def _dated(row: Row, date: str, today: str) -> Row:
    """The row with a note of when it was measured, if not on the table's own day; one that has such a note keeps it."""
    if date == today or _MEASURED in row.note:
        return row
    return row.model_copy(update={"note": "; ".join(filter(None, (row.note, f"{_MEASURED} {date}")))})


def _is_current(row: Row, plan: TablePlan) -> bool:
    """Whether the table would make this row's runs by the same commands today."""
    runs = [run for run in plan.runs if run.row.title == row.title]
    commands = {_THREADS.sub("", run.make_command(recipe)) for run in runs for recipe in run.possible}
    return bool(row.runs) and {_THREADS.sub("", run.command) for run in row.runs} <= commands
