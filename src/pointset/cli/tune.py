"""``pointset tune``: search the hyperparameters of a recipe."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.console import Device, load_torch, output_console, plain_table, reported_errors, say
from pointset.cli.entry import INTERRUPTED
from pointset.cli.express import JsonFile, check_outputs
from pointset.cli.train import Progress
from pointset.errors import MissingExtraError
from pointset.metrics import metric_label
from pointset.text import counted, duration, number, printable

if TYPE_CHECKING:
    from pointset.runs.recipe import Recipe
    from pointset.tuning.ranges import Range, Space
    from pointset.tuning.result import TrialRecord, TuningResult


# What ``pointset tune`` prints: the plan, a line for each trial, the best ones; and its pictures.


_STATES = ("complete", "pruned", "failed", "running", "waiting")


def print_plan(space: Space, folder: Path, *, trials: int, storage: str | None, pruning: bool) -> None:
    """The ranges, and what would be done."""
    from pointset.tuning.ranges import value_at

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
    from pointset.reports.tuning import short_names

    epochs = result.space.recipe.trainer.epochs
    score = f"{metric_label(result.metric)} {number(trial.value)}"
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
    from pointset.files import write_json

    content = result.as_dict()
    if json_file is not None:
        write_json(json_file, content)
    _print_best(result)
    try:
        from pointset.reports.tuning import write_tuning_report

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
    from pointset.reports.tuning import short_names

    console = output_console()
    if result.best:
        table = plain_table(console)
        keys = list(result.space.ranges)
        table.add_column("trial", justify="right")
        for heading in (metric_label(result.metric), "best epoch", "parameters", *short_names(keys)):
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


EXAMPLES = """
[bold]Examples[/bold]
  pointset tune counting-small --run-dir runs/tuned --trials 20
  pointset tune zinc --epochs 30 --range model.dim=32:96 --fix model.layers
  pointset tune zinc optimizer.weight_decay=0 --timeout 600 --dry-run
  pointset tune zinc --storage postgresql://me@host/db   [dim]on many machines[/dim]
  pointset train runs/tuned/best.yaml --seeds 8          [dim]then the test[/dim]

[bold]What is searched[/bold]  the paper's seven hyperparameters and ranges
  model.layers 4:8, model.dim 64:256:16, optimizer.lr 1e-4:3e-3:log,
  schedule.warmup 0:40, schedule.cosine 1:20, model.noise 1e-6:1e-4:log,
  optimizer.weight_decay 1e-6:1e-1:log.
  KEY=VALUE and --fix KEY take a key out of the search;
  --range KEY=LOW:HIGH[:log|:linear|:STEP] gives another range, or adds a key.

[bold]How[/bold]
  A trial's score is its best validation score; the test part is never looked
  at. The first trial has the recipe's own values, as near as the ranges
  allow. A trial that is worse than the median of the others at the same epoch
  ends early.

[bold]Going on, and many at once[/bold]
  The same command goes on, up to --trials in all; started again in another
  terminal it works on the same study. A killed trial is taken up again.

[bold]What comes out[/bold] in the folder
  best.yaml      the best recipe, for pointset train
  trials.csv     every trial;  tuning.json  the same for programs
  report.html    history.svg and importance.svg, all to look at
"""


def tune(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe by name, a YAML file, or a run's folder.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Other values; such keys are not searched.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The study's folder. By default runs/tune-RECIPE.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="How many there are to be in all.")] = 20,
    ranges: Annotated[
        list[str] | None, typer.Option("--range", metavar="KEY=LOW:HIGH", help="Another range; may be repeated.")
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Keep the recipe's value of a key; may be repeated.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Short for trainer.epochs=N.")] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="After which no further trial begins.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="A database for many machines. By default a file in DIR.")
    ] = None,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its name in the database. By default the recipe's.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the proposals.")] = 0,
    no_pruning: Annotated[bool, typer.Option("--no-pruning", help="Train every trial to its end.")] = False,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the data lies.")] = None,
    device: Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")] = Device.AUTO,
    progress: Annotated[
        Progress, typer.Option(metavar="MODE", help="Of each trial: bar, plain, quiet, or auto.")
    ] = Progress.AUTO,
    json_file: JsonFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be searched, and end.")] = False,
) -> None:
    """Search the hyperparameters of a recipe by validation, on one machine or many; the best comes out as YAML."""
    with reported_errors("Interrupted; the same command goes on."):
        check_outputs(json_file, None)
        chosen, fixed = _recipe(recipe, settings or [], fix or [], epochs)
        pass
        from pointset.tuning.ranges import search_space
        from pointset.tuning.search import check_tune_extra

        other = _ranges(ranges or [])
        space = search_space(chosen, other, fixed)
        folder = run_dir if run_dir is not None else _folder(chosen.name)
        if dry_run:
            print_plan(space, folder, trials=trials, storage=storage, pruning=not no_pruning)
            return
        check_tune_extra()
        for note in space.notes:
            say(note, style="dim")
        load_torch()
        from pointset.errors import TrainingStopped
        from pointset.tuning.search import tune as search

        try:
            result = search(
                chosen,
                folder,
                trials=trials,
                ranges=other,
                fixed=fixed,
                storage=storage,
                study=study,
                timeout=timeout,
                seed=seed,
                pruning=not no_pruning,
                data_dir=data_dir,
                device=device.value,
                watch=_mode(progress),
                on_trial=show_trial,
            )
        except TrainingStopped as stopped:
            say(f"{stopped} The same command goes on.", style="yellow")
            raise typer.Exit(INTERRUPTED) from None
        finish(result, json_file)


def _recipe(name: str, settings: list[str], fix: list[str], epochs: int | None) -> tuple[Recipe, list[str]]:
    """The recipe, and the keys that are not searched: those of ``--fix`` and those that the user has set."""
    from pointset.runs.recipe_files import read_recipe
    from pointset.tuning.ranges import check_searchable

    if "=" in name:
        raise typer.BadParameter(f"got {name!r}; expected a recipe's name before settings", param_hint="RECIPE")
    settings = [*settings, *(one for one in fix if "=" in one)]
    kept = [one.partition("=")[0].strip() for one in fix]
    for key in kept:
        check_searchable(key)
    given = [*settings, *([] if epochs is None else [f"trainer.epochs={epochs}"])]
    return read_recipe(name, given), list(dict.fromkeys([*kept, *(one.partition("=")[0].strip() for one in settings)]))


def _folder(name: str) -> Path:
    """runs/tune-NAME, always inside of runs; the same each time, so that the same command goes on."""
    name = re.sub(r"[^\w-]+", "-", name).strip("-") or "recipe"
    return Path("runs") / f"tune-{name}"


def _ranges(texts: list[str]) -> dict[str, Range | str]:
    from pointset.tuning.ranges import read_range

    return dict(read_range(text) for text in texts)


def _mode(progress: Progress) -> str:
    """``auto``: a bar on a terminal; elsewhere the line of each trial is enough."""
    if progress is not Progress.AUTO:
        return progress.value
    return "bar" if sys.stderr.isatty() else "quiet"
