"""``pointset tune``: search the hyperparameters of a recipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli.console import load_torch, optional_report, output_console, plain_table, reported_errors, say
from pointset.cli.options import (
    DataDirOption,
    Device,
    DeviceOption,
    JsonFileOption,
    Progress,
    SettingsArgument,
    check_outputs,
    folder_name,
    named_recipe,
)
from pointset.errors import PointsetError
from pointset.metrics import metric_label
from pointset.text import counted, duration, number, printable

if TYPE_CHECKING:
    from pointset.runs.recipe import Recipe
    from pointset.tuning.forecast import StudyForecast
    from pointset.tuning.ranges import Space
    from pointset.tuning.result import TrialRecord, TuningResult

EXAMPLES = """
[bold]Examples[/bold]
  pointset tune counting-small --run-dir runs/tuned --trials 20
  pointset tune zinc --epochs 30 --range model.dim=32:96 --fix model.layers
  pointset tune zinc optimizer.weight_decay=0 --minutes 600 --dry-run
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

[bold]Resuming, and many at once[/bold]
  The same command resumes the study, up to --trials in all; started again in
  another terminal it works on the same study. A killed trial is resumed, too.

[bold]The study's folder[/bold]
  best.yaml      the best recipe, for pointset train
  trials.csv     every trial;  tuning.json  the same for programs
  report.html    history.svg and importance.svg, all to look at
"""
_STATES = ("complete", "pruned", "failed", "running", "waiting")


def tune(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe by name, a YAML file, or a run's folder.")],
    settings: SettingsArgument = None,
    run_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The study's folder. By default runs/tune-RECIPE.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Trials in all, with those of earlier calls.")] = 20,
    ranges: Annotated[
        list[str] | None, typer.Option("--range", metavar="KEY=LOW:HIGH", help="The range of a key; may be repeated.")
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Keep the recipe's value of a key; may be repeated.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Short for trainer.epochs=N.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="BUDGET", help="Begin no trial that cannot end in time; stop one that does not."),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="A database for many machines. By default a file in DIR.")
    ] = None,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its name in the database. By default the recipe's.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the proposals.")] = 0,
    no_pruning: Annotated[bool, typer.Option("--no-pruning", help="Train every trial to its end.")] = False,
    data_dir: DataDirOption = None,
    device: DeviceOption = Device.AUTO,
    progress: Annotated[
        Progress, typer.Option(metavar="MODE", help="Of each trial: bar, plain, quiet, or auto.")
    ] = Progress.AUTO,
    json_file: JsonFileOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be searched and how long it takes.")
    ] = False,
) -> None:
    """Search the hyperparameters of a recipe by validation, on one machine or many; the best comes out as YAML."""
    with reported_errors("Interrupted.", resume="Repeat the command to resume."):
        check_outputs(json_file)
        chosen, fixed = _recipe(recipe, settings or [], fix or [], epochs)
        from pointset.tuning.ranges import read_range, search_space

        other = dict(read_range(text) for text in ranges or [])
        space = search_space(chosen, other, fixed)
        folder = run_dir if run_dir is not None else Path("runs") / f"tune-{folder_name(chosen.name, 'recipe')}"
        if dry_run:
            _print_plan(space, folder, trials=trials, storage=storage, pruning=not no_pruning)
            _print_forecast(space, trials, data_dir)
            return
        automatic = "bar" if sys.stderr.isatty() else "quiet"  # in a log the line of each trial is enough
        result = _search(
            space,
            folder,
            trials=trials,
            ranges=other,
            fixed=fixed,
            storage=storage,
            study=study,
            minutes=minutes,
            seed=seed,
            pruning=not no_pruning,
            data_dir=data_dir,
            device=device.value,
            watch=automatic if progress is Progress.AUTO else progress.value,
        )
        if minutes is not None and (done := sum(map(result.count, ("complete", "pruned", "failed")))) < trials:
            say(f"{done} of {counted(trials, 'trial')} are done, and the time is up; repeat the command for more.")
        _finish(result, json_file)


def _recipe(name: str, settings: list[str], fix: list[str], epochs: int | None) -> tuple[Recipe, list[str]]:
    """The recipe, and the keys that are not searched: those of ``--fix`` and those that the user has set."""
    from pointset.tuning.ranges import check_searchable

    settings = [*settings, *(one for one in fix if "=" in one)]
    fixed = [one.partition("=")[0].strip() for one in fix]
    for key in fixed:
        check_searchable(key)
    recipe = named_recipe(name, [*settings, *([] if epochs is None else [f"trainer.epochs={epochs}"])])
    return recipe, list(dict.fromkeys([*fixed, *(one.partition("=")[0].strip() for one in settings)]))


def _search(space: Space, folder: Path, **options: Any) -> TuningResult:
    from pointset.tuning.search import check_tune_extra
    from pointset.tuning.search import tune as search

    check_tune_extra()
    for note in space.notes:
        say(note, style="dim")
    load_torch()
    return search(space.recipe, folder, on_trial=_show_trial, on_forecast=_show_forecast, **options)


# --- what is printed


def _print_plan(space: Space, folder: Path, *, trials: int, storage: str | None, pruning: bool) -> None:
    """The ranges, and what would be done."""
    from pointset.tuning.ranges import value_at

    console = output_console()
    table = plain_table(console, "key", "from", "to", "", "recipe", numbers=("from", "to", "recipe"))
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


def _print_forecast(space: Space, trials: int, data_dir: Path | None) -> None:
    """How long it would take; where the data is not there, the plan is shown without."""
    load_torch()
    from pointset.training.data import load_data
    from pointset.tuning.forecast import forecast_study
    from pointset.tuning.session import without_test

    try:
        forecast = forecast_study(space, without_test(load_data(space.recipe, data_dir)))
    except PointsetError as error:
        output_console().print(f"how long it takes cannot be said: {printable(str(error))}", style="yellow")
        return
    output_console().print(forecast.text(trials))


def _show_forecast(forecast: StudyForecast, trials: int) -> None:
    say(forecast.text(trials))


def _show_trial(trial: TrialRecord, result: TuningResult) -> None:
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


def _finish(result: TuningResult, json_file: Path | None) -> None:
    """The table of the best, the pictures, and where to look."""
    from pointset.files import write_json
    from pointset.reports.tuning import write_tuning_report

    content = result.as_dict()
    if json_file is not None:
        write_json(json_file, content)
    _print_best(result)
    if result.best:
        typer.echo(f"train it: pointset train {result.folder / 'best.yaml'}")
    with optional_report():
        typer.echo(f"report: {write_tuning_report(content, result.folder)}")


def _print_best(result: TuningResult) -> None:
    from pointset.reports.tuning import short_names

    console = output_console()
    if result.best:
        keys = list(result.space.ranges)
        names = map(printable, short_names(keys))
        headings = ("trial", metric_label(result.metric), "best epoch", "parameters", *names)
        table = plain_table(console, *headings, numbers=headings)
        for one in result.best:
            values = [f"{one.values[key]:.3g}" for key in keys]
            parameters = "–" if one.parameters is None else f"{one.parameters:,}"
            table.add_row(str(one.number), number(one.value), str(one.best_epoch), parameters, *values)
        console.print(table)
    else:
        say("No trial has come to its end yet; repeat the command to resume.", style="yellow")
    states = [f"{result.count(state)} {state}" for state in _STATES if result.count(state)]
    console.print(f"{', '.join(states)}; chosen by the validation score, the test part was not used")
    if result.importance is None:
        console.print("how much each hyperparameter mattered: needs at least 4 complete trials", style="dim")
    else:
        told = ", ".join(f"{key} {share:.0%}" for key, share in list(result.importance.items())[:4])
        console.print(f"what mattered most: {told}")
