"""What ``pointset tune`` prints: the plan, a line for each trial, the best ones; and its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pointset.cli.console import output_console, plain_table
from pointset.cli.messages import counted, printable, say
from pointset.errors import MissingExtraError
from pointset.reports.run_pages.words import duration, metric_name, number
from pointset.reports.tuning.page import short_names

if TYPE_CHECKING:
    from pointset.training.tuning.outcome import TuningResult
    from pointset.training.tuning.records import TrialRecord
    from pointset.training.tuning.space import Space

_STATES = ("complete", "pruned", "failed", "running", "waiting")


def print_plan(space: Space, folder: Path, *, trials: int, storage: str | None, pruning: bool) -> None:
    """The ranges, and what would be done."""
    from pointset.training.tuning.space import value_at

    console = output_console()
    table = plain_table(console)
    for heading in ("key", "from", "to", "", "recipe"):
        table.add_column(heading, justify="left" if heading in ("key", "") else "right")
    for key, one in space.ranges.items():
        kind = "logarithmic" if one.log else f"steps of {one.step:g}" if one.step not in (None, 1) else ""
        own = value_at(space.recipe, key)
        table.add_row(key, f"{one.low:g}", f"{one.high:g}", kind, "–" if own is None else f"{own:g}")
    console.print(table)
    for note in space.notes:
        console.print(note, style="dim")
    ends = "bad ones end early" if pruning else "each to its end"
    console.print(f"{counted(trials, 'trial')} of {counted(space.recipe.trainer.epochs, 'epoch')}, {ends}")
    database = folder / "study.db" if storage is None else f"a database ({storage.partition(':')[0]})"
    console.print(f"folder: {folder}; study: {database}", soft_wrap=True)


def show_trial(trial: TrialRecord, result: TuningResult) -> None:
    """One line when a trial has ended."""
    epochs = result.space.recipe.trainer.epochs
    score = f"{metric_name(result.metric)} {number(trial.value)}"
    match trial.state:
        case "complete":
            told = score
        case "pruned":
            told = f"pruned at epoch {trial.epochs} of {epochs}, {score}"
        case _:
            told = f"failed: {trial.error or 'for an unknown reason'}"
    best = result.best[0] if result.best else None
    is_best = best is not None and best.number == trial.number
    ending = "best so far" if is_best else f"best {number(best.value)} (trial {best.number})" if best else "no best yet"
    names = short_names(list(trial.values))
    values = " ".join(f"{name}={value:.3g}" for name, value in zip(names, trial.values.values(), strict=True))
    style = {"complete": "green" if is_best else None, "pruned": "dim"}.get(trial.state, "yellow")
    say(f"trial {trial.number}: {told}; {ending}; {values}; {duration(trial.seconds)}", style=style)


def finish(result: TuningResult, json_file: Path | None) -> None:
    """The table of the best, the pictures, and where to look."""
    from pointset.training.json_files import write_json

    content = result.as_dict()
    if json_file is not None:
        write_json(json_file, content)
    _print_best(result)
    try:
        from pointset.reports.tuning_pictures import write_tuning_report

        report = write_tuning_report(content, result.folder)
    except MissingExtraError as error:  # it costs the report, not the study
        say(f"note: no report.html was written: {error}", style="yellow")
        report = None
    console = output_console()
    if result.best:
        console.print(f"train it: pointset train {result.folder / 'best.yaml'}", soft_wrap=True)
    if report is not None:
        console.print(f"report: {report}", soft_wrap=True)


def _print_best(result: TuningResult) -> None:
    console = output_console()
    if result.best:
        table = plain_table(console)
        keys = list(result.space.ranges)
        table.add_column("trial", justify="right")
        for heading in (metric_name(result.metric), "best epoch", "parameters", *short_names(keys)):
            table.add_column(printable(heading), justify="right")
        for one in result.best:
            values = [f"{one.values[key]:.3g}" for key in keys]
            parameters = "–" if one.parameters is None else f"{one.parameters:,}"
            table.add_row(str(one.number), number(one.value), str(one.best_epoch), parameters, *values)
        console.print(table)
    else:
        say("No trial came to its end yet; the same command goes on.", style="yellow")
    states = [f"{result.count(state)} {state}" for state in _STATES if result.count(state)]
    console.print(f"{', '.join(states)}; by validation, the test part was never looked at")
    if result.importance is None:
        console.print("how much each hyperparameter mattered: needs at least 4 complete trials", style="dim")
    else:
        told = ", ".join(f"{key} {share:.0%}" for key, share in list(result.importance.items())[:4])
        console.print(f"what mattered most: {told}")
