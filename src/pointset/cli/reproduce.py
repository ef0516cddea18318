"""``pointset reproduce``: the paper's tables, run here, with ours beside the paper's rows."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.entry import INTERRUPTED
from pointset.cli.messages import counted, load_torch, reported_errors, say
from pointset.cli.options import Device
from pointset.cli.train import Progress

if TYPE_CHECKING:
    from pointset.studies.tables.forecasting import Forecast
    from pointset.studies.tables.result import TableResult
    from pointset.studies.tables.running import TableRuns

_LONG = 2 * 3600.0  # seconds: before more than this, somebody at a terminal is asked
EXAMPLES = """
[bold]Examples[/bold]
  pointset reproduce                                   [dim]the tables[/dim]
  pointset reproduce parameters                        [dim]seconds, no training[/dim]
  pointset reproduce zinc --budget cpu --plan          [dim]what it would take[/dim]
  pointset reproduce zinc --budget cpu                 [dim]run it, or go on[/dim]
  pointset reproduce tu --budget full --models pst-honest,gin-honest --columns mutag
  pointset reproduce zinc --budget cpu --collect       [dim]the table as it stands[/dim]

[bold]Budgets[/bold]
  small  minutes, to see that all works; its numbers mean nothing
  cpu    about an hour on two cores, smaller models and fewer epochs
  full   the paper's own recipes, all seeds and folds; mostly for a GPU

[bold]What comes out[/bold] in the folder --run-dir
  TABLE-BUDGET.md, .tex, .html, .json   written anew after every run
  NAME/                                 each run, as pointset train leaves it
  Runs that are finished are not run again: after Ctrl-C, the same command goes on.
  Started twice, with --threads 1, it uses two cores: each run is done by one of both.
"""


class BudgetName(StrEnum):
    """How much is run."""

    SMALL = "small"
    CPU = "cpu"
    FULL = "full"


def reproduce(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table by name, or a YAML file of your own.")
    ] = None,
    budget: Annotated[BudgetName, typer.Option(metavar="NAME", help="small, cpu or full.")] = BudgetName.SMALL,
    models: Annotated[str, typer.Option(metavar="NAMES", help="Only these rows of ours, comma-separated.")] = "",
    columns: Annotated[str, typer.Option(metavar="NAMES", help="Only runs for these columns.")] = "",
    seeds: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Train each model K times. By default as the budget says.")
    ] = None,
    run_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="By default runs/reproduce/TABLE-BUDGET.")] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the data lies.")] = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Show the runs, their time and memory, and end.")] = False,
    collect: Annotated[bool, typer.Option("--collect", help="Run nothing; write the table of what is there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before hours of work.")] = False,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Of each run; by default all cores.")] = None,
    device: Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")] = Device.AUTO,
    progress: Annotated[
        Progress, typer.Option(metavar="MODE", help="bar, plain (lines, for logs), quiet, or auto.")
    ] = Progress.AUTO,
) -> None:
    """Run a table of the paper: plan, forecast, runs that can be resumed, and the table with ours beside it."""
    with reported_errors("Interrupted; what is finished is kept. Go on with the same command."):
        if table is None:
            from pointset.cli.reproduction_tables import show_tables

            show_tables()
            return
        load_torch()
        from pointset.studies.tables.plan import Choice, default_folder, planned
        from pointset.studies.tables.records import TableFolder
        from pointset.studies.tables.running import Surroundings, TableRuns
        from pointset.studies.tables.spec_files import table_named

        spec = table_named(table)
        folder = TableFolder(run_dir or default_folder(spec, budget.value))
        choice = Choice(_names(models), _names(columns), seeds, threads, folder.seeds_begun())
        plan = planned(spec, budget.value, choice, data_dir)
        where = Surroundings(folder.path, data_dir, device.value, progress.value)
        quiet = progress is Progress.QUIET
        runs = TableRuns(plan, where, Path(table).name, lambda line: None if quiet else say(line, style="bold"))
        if collect:
            _check_begun(runs)
            _finish(runs, runs.collect())
            return
        _say_missing(runs)
        if not plan_only:
            with folder.alone():  # whether it can be written to is better known before anything is timed
                pass
        forecasts = _forecast(runs, quiet)
        if plan_only or not _agreed(forecasts, yes):
            return
        _run(runs, forecasts)


def _names(text: str) -> list[str] | None:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip())) or None


def _check_begun(runs: TableRuns) -> None:
    from pointset.errors import MissingDataError

    if runs.plan.spec.kind != "counted" and not any(runs.folder.is_done(run) for run in runs.plan.runs):
        raise MissingDataError(
            f"no run of this table is finished in {runs.where.folder}, so there is nothing to collect\n"
            "Name the folder of its runs with --run-dir, or run it: the same command without --collect"
        )


def _say_missing(runs: TableRuns) -> None:
    from pointset.errors import MissingDataError

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
    """Measured, and shown."""
    from pointset.cli.reproduction_tables import show_plan

    if not quiet and runs.left and runs.plan.spec.kind == "trained":
        say("Timing some steps of each model …", style="dim")
    forecasts = runs.forecasts()
    if not quiet:
        show_plan(runs, forecasts)
    return forecasts


def _agreed(forecasts: dict[str, Forecast | None], yes: bool) -> bool:
    """Hours of work are asked for, where there is somebody to ask."""
    from pointset.reports.run_pages.words import duration

    seconds = sum(one.seconds for one in forecasts.values() if one is not None)
    if yes or seconds <= _LONG or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return typer.confirm(f"This takes about {duration(seconds)}. Begin?", err=True)


def _run(runs: TableRuns, forecasts: dict[str, Forecast | None]) -> None:
    from pointset.training.interruption import TrainingStopped

    try:
        result = runs.run(forecasts)
    except TrainingStopped as stopped:
        runs.write()
        say(f"{stopped} What is finished is kept. Go on with:", style="yellow")
        say(f"  {shlex.join(['pointset', *sys.argv[1:]])}", style="bold")
        raise typer.Exit(INTERRUPTED) from None
    _finish(runs, result)


def _finish(runs: TableRuns, result: TableResult) -> None:
    from pointset.cli.reproduction_tables import show_result

    show_result(result)
    say(f"wrote {', '.join(str(path) for path in runs.files)}")
    if runs.failed:
        say(f"{counted(len(runs.failed), 'run')} failed: {', '.join(runs.failed[:5])}", style="red")
        raise typer.Exit(1)
