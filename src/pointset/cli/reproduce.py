"""``pointset reproduce``: the paper's tables, run here, with ours beside the paper's rows."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pointset.cli.console import exit_interrupted, load_torch, output_console, plain_table, reported_errors, say
from pointset.cli.options import DataDirOption, Device, DeviceOption, Progress, ProgressOption, split_names
from pointset.errors import MissingDataError, PointsetError, TrainingStopped
from pointset.text import byte_size, counted, duration, printable

if TYPE_CHECKING:
    from pointset.paper.tables.plan import PlannedRun
    from pointset.paper.tables.result import TableResult
    from pointset.paper.tables.run import Forecast, TableRuns
    from pointset.paper.tables.sheet import SheetCell

EXAMPLES = """
[bold]Examples[/bold]
  pointset reproduce                                   [dim]the tables[/dim]
  pointset reproduce parameters                        [dim]seconds, no training[/dim]
  pointset reproduce zinc --budget cpu --plan          [dim]what it would take[/dim]
  pointset reproduce zinc --budget cpu                 [dim]run it, or resume[/dim]
  pointset reproduce tu --budget full --models pst-honest,gin-honest --columns mutag
  pointset reproduce zinc --budget cpu --collect       [dim]the table as it stands[/dim]

[bold]Budgets[/bold]
  small  minutes, to see that everything works; its numbers mean nothing
  cpu    about an hour on two cores, smaller models and fewer epochs
  hours  real trainings on two cores, up to two and a half hours for a run
  full   the paper's own recipes, all seeds and folds; mostly for a GPU

[bold]The folder --run-dir[/bold]
  TABLE-BUDGET.md, .tex, .html, .json   written again after every run
  NAME/                                 each run, as pointset train leaves it
  Runs that are finished are not run again: after Ctrl-C, repeat the command.
  Started twice, with --threads 1, it uses two cores and shares the runs.
"""
_LONG = 2 * 3600.0  # seconds: before more than this, somebody at a terminal is asked
_MOST_COLUMNS = 7  # of numbers, beside each other


class BudgetName(StrEnum):
    """How much is run."""

    SMALL = "small"
    CPU = "cpu"
    HOURS = "hours"
    FULL = "full"


def reproduce(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table by name, or a YAML file of your own.")
    ] = None,
    budget: Annotated[BudgetName, typer.Option(metavar="NAME", help="small, cpu, hours or full.")] = BudgetName.SMALL,
    models: Annotated[str, typer.Option(metavar="NAMES", help="Only these rows of ours, comma-separated.")] = "",
    columns: Annotated[str, typer.Option(metavar="NAMES", help="Only runs for these columns, comma-separated.")] = "",
    seeds: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Train each model K times. By default as the budget says.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the runs go; by default runs/reproduce/TABLE-BUDGET.")
    ] = None,
    data_dir: DataDirOption = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Show the runs, their time and memory, and end.")] = False,
    collect: Annotated[bool, typer.Option("--collect", help="Run nothing; write the table of what is there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before hours of work.")] = False,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads of each run; by default all cores.")
    ] = None,
    device: DeviceOption = Device.AUTO,
    progress: ProgressOption = Progress.AUTO,
) -> None:
    """Repeat a table of the paper: plan, forecast, runs that can be resumed, and our numbers beside the paper's."""
    with reported_errors("Interrupted; what is finished is kept.", resume="Repeat the command to resume."):
        if table is None:
            _show_tables()
            return
        load_torch()
        from pointset.paper.tables.collect import TableFolder
        from pointset.paper.tables.plan import Selection, default_folder, plan_table
        from pointset.paper.tables.run import TableRuns
        from pointset.paper.tables.spec import table_named

        spec = table_named(table)
        folder = TableFolder(run_dir or default_folder(spec, budget.value))
        rows, keys = split_names(models) or None, split_names(columns) or None
        plan = plan_table(spec, budget.value, Selection(rows, keys, seeds, threads, folder.seeds_begun()), data_dir)
        quiet = progress is Progress.QUIET and not plan_only  # a plan is what was asked for
        runs = TableRuns(
            plan,
            folder,
            Path(table).name,
            lambda line: None if quiet else say(line, style="bold"),
            data_dir=data_dir,
            device=device.value,
            watch=progress.value,
        )
        if collect:
            _collect(runs)
            return
        _say_missing(runs)
        if not plan_only:
            with folder.locked():  # whether it can be written to is better known before anything is timed
                pass
        forecasts = _forecast(runs, quiet)
        if plan_only or not _agreed(forecasts, yes):
            return
        _run(runs, forecasts)


def _collect(runs: TableRuns) -> None:
    if runs.plan.spec.kind != "counted" and not any(runs.folder.is_done(run) for run in runs.plan.runs):
        raise MissingDataError(
            f"no run of this table is finished in {runs.folder.path}, so there is nothing to collect\n"
            "Name the folder of its runs with --run-dir, or run it: the same command without --collect"
        )
    _finish(runs, runs.collect())


def _say_missing(runs: TableRuns) -> None:
    if not runs.missing:
        return
    names = ", ".join(runs.missing)
    if not runs.left and not any(runs.folder.is_done(run) for run in runs.plan.chosen):
        raise MissingDataError(
            f"the data of {names} is not on this machine\nName its folder with --data-dir DIR; "
            f"pointset datasets show {runs.missing[0]} says what to put there"
        )
    say(f"Not on this machine, so left out: {names}. pointset datasets show NAME says what to do.", style="yellow")


def _forecast(runs: TableRuns, quiet: bool) -> dict[str, Forecast | None]:
    if not quiet and runs.left and runs.plan.spec.kind == "trained":
        say("Timing some steps of each model …", style="dim")
    forecasts = runs.forecasts()
    if not quiet:
        show_plan(runs, forecasts)
    return forecasts


def _agreed(forecasts: dict[str, Forecast | None], yes: bool) -> bool:
    """Ask before hours of work, where there is somebody to ask."""
    seconds = sum(one.seconds for one in forecasts.values() if one is not None)
    if yes or seconds <= _LONG or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return typer.confirm(f"This takes about {duration(seconds)}. Begin?", err=True)


def _run(runs: TableRuns, forecasts: dict[str, Forecast | None]) -> None:
    try:
        result = runs.run(forecasts)
    except TrainingStopped as stopped:
        runs.write()
        exit_interrupted(f"{stopped} What is finished is kept. Resume with:", shlex.join(["pointset", *sys.argv[1:]]))
    _finish(runs, result)


def _finish(runs: TableRuns, result: TableResult) -> None:
    _show_result(result)
    say(f"wrote {', '.join(str(path) for path in runs.files)}")
    if runs.failed:
        say(f"{counted(len(runs.failed), 'run')} failed: {', '.join(runs.failed[:5])}", style="red")
        raise typer.Exit(1)


# --- what is printed


def _show_tables() -> None:
    """Every table, and what each budget of it does."""
    from pointset.paper.tables.spec import table_named, table_names

    console = output_console()
    for name in table_names():
        spec = table_named(name)
        console.print(Text.assemble((name, "bold"), f"  {spec.paper_table}: {spec.title}"))
        for option, names in (
            ("--models", [row.name for row in spec.ours]),
            ("--columns", [column.key for column in spec.printed_columns]),
        ):
            console.print(f"  {option} {','.join(names)}", style="dim", soft_wrap=True)
        scopes: dict[str, list[str]] = {}
        for budget, plan in spec.budgets.items():
            scopes.setdefault(plan.scope, []).append(budget)
        for scope, budgets in scopes.items():
            grid = plain_table(console)
            grid.show_header = False
            grid.add_column(no_wrap=True, min_width=7)
            grid.add_column()
            grid.add_row(f"  {', '.join(budgets)}", scope)
            console.print(grid)
    console.print("\npointset reproduce TABLE --budget NAME --plan shows the runs, their time and memory.", style="dim")


def show_plan(runs: TableRuns, forecasts: Mapping[str, Forecast | None]) -> None:
    """Runs of the same row and data in one line: how many are left, and what they take."""
    from pointset.paper.tables.plan import parameters_of

    spec, left = runs.plan.spec, {run.name for run in runs.left}
    if spec.kind == "counted":
        return  # there is nothing to wait for
    groups: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in runs.plan.chosen:
        groups.setdefault((run.row.title, run.task.name), []).append(run)
    console = output_console()
    console.print(f"{spec.paper_table}: {spec.title}, budget {runs.plan.budget}", style="bold")
    console.print(runs.plan.spec.budgets[runs.plan.budget].scope)
    headings = ("left", "epochs", "parameters", "time each", "memory", "together")
    table = plain_table(console, "model", "run", *headings, numbers=headings)
    for (title, task), group in groups.items():
        one, todo = group[0], [run for run in group if run.name in left]
        known = [forecast for run in todo if (forecast := forecasts.get(run.name)) is not None]
        forecast = known[0] if known else None
        is_model = one.row.fingerprints is None
        try:
            parameters = f"{parameters_of(one.recipe, runs.data_dir):,}" if is_model else "–"
        except PointsetError:  # the run itself says why
            parameters = "–"
        table.add_row(
            printable(title),
            task,
            f"{len(todo)} of {len(group)}",
            str(one.recipe.trainer.epochs) if spec.kind == "trained" and is_model else "–",
            parameters,
            duration(None if forecast is None else forecast.seconds),
            byte_size(None if forecast is None else forecast.memory_bytes),
            duration(sum(each.seconds for each in known) if len(known) == len(todo) and known else None),
        )
    console.print(table)
    _print_total(spec.kind, forecasts, left)


def _print_total(kind: str, forecasts: Mapping[str, Forecast | None], left: set[str]) -> None:
    """Of the runs that are left now: while some were timed, another process may have finished others."""
    console = output_console()
    if kind != "trained":
        console.print(f"{counted(len(left), 'model')} to measure", style="bold")
        return
    known = [one for name in left if (one := forecasts.get(name)) is not None]
    unknown = len(left) - len(known)
    seconds = sum(one.seconds for one in known)
    words = f"{counted(len(left), 'run')} left, about {duration(seconds)} on this machine's CPU"
    if known:
        words += f", up to {byte_size(max(one.memory_bytes for one in known))} of memory"
    console.print(words + (f"; {unknown} cannot be forecast" if unknown else ""), style="bold")


def _show_result(result: TableResult) -> None:
    """Our rows and those of the paper that they repeat; all others are in the files."""
    from pointset.paper.tables.sheet import make_sheet

    sheet = make_sheet(result)
    repeated = {line.repeats for part in sheet.parts if part.ours for line in part.lines}
    lines = [
        (line.title if part.ours else f"{line.title}, paper", line)
        for part in sheet.parts
        for line in part.lines
        if part.ours or line.title in repeated
    ]
    titles = [printable(title) + _mark(line.letter) for title, line in lines]
    rows = [[_shown(cell) for cell in line.cells] for _, line in lines]
    heads = list(sheet.heads)
    if sheet.with_parameters:
        heads = ["parameters", *heads]
        rows = [[Text(line.parameters), *row] for row, (_, line) in zip(rows, lines, strict=True)]
    if len(heads) > _MOST_COLUMNS:  # a model in each column instead
        titles, heads, rows = heads, titles, [list(row) for row in zip(*rows, strict=True)]
    console = output_console()
    table = plain_table(console, "", *heads, numbers=heads)
    for title, row in zip(titles, rows, strict=True):
        table.add_row(title, *row)
    console.print(table)
    for sentence in [*sheet.legend, *(f"({letter}) {text}" for letter, text in sheet.footnotes)]:
        console.print(Text(printable(sentence), style="dim"))


def _shown(cell: SheetCell) -> Text:
    return Text(f"{cell.text}{' ✓' if cell.counts else ''}{_mark(cell.letter)}", style="bold" if cell.bold else "")


def _mark(letter: str) -> str:
    return f" ({letter})" if letter else ""
