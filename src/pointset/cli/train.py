"""``pointset train``: from data to a trained model in one command."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli.console import Device, load_torch, output_console, plain_table, reported_errors, say
from pointset.cli.entry import INTERRUPTED
from pointset.errors import MissingExtraError, SpecError
from pointset.metrics import metric_label, metric_unit
from pointset.runs.folder import RunFolder
from pointset.text import counted, duration, fixed, printable

if TYPE_CHECKING:
    from rich.console import Console

    from pointset.runs.recipe import Recipe
    from pointset.training.run import Repeat


# What is printed of a run's result: test scores beside the paper's, a table of targets, and where to look.


COUNTED = 0.010  # the largest normalised MAE at which a model counts a substructure, after Huang et al. 2023
_MOST_TARGETS = 20


def print_result(result: Mapping[str, Any], folder: Path) -> None:
    """Of one run."""
    console = output_console()
    _print_targets(console, result, _value)
    if result["test"]:
        scores = ", ".join(
            f"{metric_label(metric)} {_score(value)}{_unit(result, metric)}" for metric, value in result["test"].items()
        )
        console.print(f"test: {scores}")
    else:
        console.print("test: there is no test part")
    _print_expected(console, result, result["test"].get(result["metric"]))
    stopped = ", stopped early" if result.get("stopped_early") else ""
    scored = f"; the test part was scored {result['test_scored'].split(',')[0]}" if result["test"] else ""
    console.print(
        f"best epoch {result['best_epoch']} of {result['epochs']}{stopped}; {result['parameters']:,} parameters; "
        f"{duration(result['seconds'])}{scored}"
    )
    _print_places(console, folder)


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Of several seeds or folds."""
    console = output_console()
    _print_targets(console, summary, _mean)
    for metric, spread in summary["test"].items():
        values = ", ".join(_score(value) for value in spread["values"])
        console.print(
            f"test {metric_label(metric)}: {_mean_and_deviation(spread)}{_unit(summary, metric)} "
            f"over {len(summary['runs'])} runs ({values})"
        )
    _print_expected(console, summary, summary["test"].get(summary["metric"], {}).get("mean"))
    _print_places(console, folder)


def print_scores(console: Console, scores: Mapping[str, Any], per_target: Mapping[str, Mapping[str, Any]]) -> None:
    """All metrics, over the targets and for each."""
    table = plain_table(console)
    table.add_column("")
    for metric in scores:
        table.add_column(metric_label(metric), justify="right")
    if 1 < len(per_target) <= _MOST_TARGETS:
        for target, values in per_target.items():
            table.add_row(printable(target), *(_score(values.get(metric)) for metric in scores))
    table.add_row("all" if len(per_target) > 1 else "", *(_score(value) for value in scores.values()), style="bold")
    console.print(table)


def _print_targets(console: Console, result: Mapping[str, Any], read: Any) -> None:
    """A row for each target, with the paper's values where it has them."""
    per_target, expected = result["per_target"], result["expected"] or {}
    if not 1 < len(per_target) <= _MOST_TARGETS:
        return
    paper, others = expected.get("per_target") or {}, expected.get("others") or {}
    metric = expected["metric"] if paper else result["metric"]
    table = plain_table(console)
    table.add_column("target")
    table.add_column(f"test {metric_label(metric)}", justify="right")
    ours = "PSDS" if result["model"]["preset"] == "psds" else "PST"
    for title in [ours, *others] if paper else []:
        table.add_column(f"paper's {title}", justify="right")
    counts = metric == "normalised_mae" and bool(paper)
    if counts:
        table.add_column("")
    for target, scores in per_target.items():
        value = read(scores.get(metric))
        known = [_score(values.get(target)) for values in (paper, *others.values())] if paper else []
        mark = ["counts" if value is not None and value <= COUNTED else ""] if counts else []
        table.add_row(printable(target), _score(value), *known, *mark)
    console.print(table)
    if counts:
        values = [read(scores.get(metric)) for scores in per_target.values()]
        counted = sum(value is not None and value <= COUNTED for value in values)
        console.print(f"{counted} of {len(values)} are counted (at most {COUNTED:.3f})")


def _print_expected(console: Console, result: Mapping[str, Any], value: float | None) -> None:
    expected = result["expected"]
    if not expected or value is None:
        return
    deviation = "" if expected.get("std") is None else f" ± {_score(expected['std'])}"
    unit = _unit(result, expected["metric"])
    if expected["metric"] == result["metric"]:
        console.print(f"the paper has {metric_label(expected['metric'])} {_score(expected['value'])}{deviation}{unit}")


def _print_places(console: Console, folder: Path) -> None:
    report = folder / "report.html"
    console.print(f"report: {report}" if report.exists() else f"run: {folder}", soft_wrap=True)


def _value(score: float | None) -> float | None:
    return score


def _mean(spread: Mapping[str, Any] | None) -> float | None:
    return None if spread is None else spread["mean"]


def _mean_and_deviation(spread: Mapping[str, Any]) -> str:
    return _score(spread["mean"]) + ("" if spread["std"] is None else f" ± {_score(spread['std'])}")


def _unit(result: Mapping[str, Any], metric: str) -> str:
    """`` eV``, where the metric is in the targets' unit and they share one."""
    units = set((result.get("units") or {}).values())
    shared = metric_unit(metric, units.pop()) if len(units) == 1 else ""
    return f" {printable(shared)}" if shared else ""


def _score(value: float | None) -> str:
    return fixed(value, 4 if value is None or abs(value) < 100 else 1)


# What ``pointset train`` does with a recipe: one run or many, each with its report, and what it prints at the end.


@dataclass(frozen=True)
class RunSettings:
    """The options of the command."""

    folder: Path
    resume: bool
    data_dir: Path | None
    device: str
    devices: int
    progress: str


def run_one(recipe: Recipe, how: RunSettings) -> None:
    """Train, write the report, print the result."""
    from pointset.training.devices import is_first_process

    result = _trained(recipe, how.folder, how, resume=how.resume)
    if is_first_process():
        print_result(result, how.folder)


def run_all(recipe: Recipe, how: RunSettings, seeds: int | None, folds: int | None) -> None:
    """Train with several seeds, or on several folds; each run can be resumed by itself."""
    from pointset.training.devices import is_first_process
    from pointset.training.run import repeats_of, train_many

    repeats = repeats_of(recipe, seeds, folds)
    _check_folder_of_repeats(how, repeats)

    def train_one(repeat: Repeat) -> dict[str, Any]:
        folder = how.folder / repeat.name
        if is_first_process() and how.progress != "quiet":
            say(f"{repeat.name} ({1 + repeats.index(repeat)} of {counted(len(repeats), 'run')})", style="bold")
        return _trained(repeat.recipe, folder, how, resume=how.resume and RunFolder(folder).has_run)

    summary = train_many(repeats, how.folder, train_one)
    if is_first_process():
        _report(lambda: _write_comparison([how.folder / repeat.name for repeat in repeats], how.folder))
        print_summary(summary, how.folder)


def _trained(recipe: Recipe, folder: Path, how: RunSettings, *, resume: bool) -> dict[str, Any]:
    from pointset.training.devices import is_first_process
    from pointset.training.run import train as train_recipe

    was_finished = resume and RunFolder(folder).is_finished
    result = train_recipe(
        recipe,
        folder,
        resume=resume,
        data_dir=how.data_dir,
        device=how.device,
        devices=how.devices,
        watch=how.progress,
    )
    if is_first_process() and not (was_finished and RunFolder(folder).report.exists()):  # one of half a run is stale
        _report(lambda: _write_report(folder))
    return result


def _check_folder_of_repeats(how: RunSettings, repeats: Sequence[Repeat]) -> None:
    """All of them before the first begins."""
    begun = [repeat.name for repeat in repeats if RunFolder(how.folder / repeat.name).has_run]
    if begun and not how.resume:
        raise SpecError(
            f"{how.folder} holds runs already ({', '.join(begun[:3])}…); go on with --resume, or choose another folder "
            "with --run-dir"
        )
    if RunFolder(how.folder).has_run:
        raise SpecError(f"{how.folder} is the folder of a single run; choose another with --run-dir")


def _write_report(folder: Path) -> None:
    from pointset.reports.pages import write_report

    write_report(folder)


def _write_comparison(runs: Sequence[Path], folder: Path) -> None:
    from pointset.reports.pages import write_comparison

    write_comparison(runs, folder / "report.html")


def _report(write: Callable[[], None]) -> None:
    """A missing package costs the report, not the run."""
    try:
        write()
    except MissingExtraError as error:
        say(f"note: no report.html was written: {error}. Then: pointset report RUN", style="yellow")


EXAMPLES = """
[bold]Examples[/bold]
  pointset train counting-small --run-dir runs/first    [dim]a model in minutes[/dim]
  pointset train zinc model.dim=96 seed=3 trainer.epochs=20
  pointset train molecules dataset.file=my.csv dataset.targets=logS
  pointset train --resume --run-dir runs/zinc           [dim]after Ctrl-C, kill -9[/dim]
  pointset train zinc --seeds 8 --run-dir runs/zinc8    [dim]mean ± deviation[/dim]
  pointset train mutag --folds 10 --run-dir runs/folds  [dim]cross-validation[/dim]

[bold]What comes out[/bold] in the run's folder
  result.json      test scores, best epoch, parameters, seconds
  report.html      all of it to look at, in one file
  predictions.csv  of the test part, beside the truth
  bundle/          the model, for pointset predict and pointset.load
  metrics.csv      every epoch;  recipe.yaml  every setting, to run it again

[bold]Recipes[/bold]  pointset recipes lists them; pointset recipes show NAME: all keys.
"""


class Progress(StrEnum):
    """How a run is watched."""

    AUTO = "auto"
    BAR = "bar"
    PLAIN = "plain"
    QUIET = "quiet"


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe by name, a YAML file, or the folder of a run.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Other values, such as model.dim=96 or seed=3.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder, new or empty. By default runs/RECIPE.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --run-dir.")] = False,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the data lies.")] = None,
    device: Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")] = Device.AUTO,
    devices: Annotated[int, typer.Option(min=1, metavar="N", help="Processes (DDP); under torchrun not needed.")] = 1,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Train N times with seeds from the recipe's on.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, metavar="K", help="Cross-validation: train K times, test on each fold.")
    ] = None,
    progress: Annotated[
        Progress, typer.Option(metavar="MODE", help="bar, plain (lines, for logs), quiet, or auto.")
    ] = Progress.AUTO,
) -> None:
    """Train a model: data, training, best epoch by validation, one test at the end, a bundle and a report."""
    with reported_errors("Interrupted; go on with --resume."):
        chosen = _recipe(recipe, settings or [], run_dir, resume, several=seeds is not None or folds is not None)
        folder = run_dir if run_dir is not None else _free_folder(chosen.name)
        load_torch()
        pass
        from pointset.errors import TrainingStopped

        how = RunSettings(folder, resume, data_dir, device.value, devices, progress.value)
        try:
            if seeds is None and folds is None:
                run_one(chosen, how)
            else:
                run_all(chosen, how, seeds, folds)
        except TrainingStopped as stopped:
            say(f"{stopped} Go on with:", style="yellow")
            say(f"  {_command_to_go_on(folder)}", style="bold")
            raise typer.Exit(INTERRUPTED) from None


def _recipe(name: str | None, settings: list[str], run_dir: Path | None, resume: bool, several: bool) -> Recipe:
    """The recipe that is named; to resume a run, that of its folder needs no name."""
    from pointset.runs.recipe_files import read_recipe

    if name is not None and "=" in name:
        raise typer.BadParameter(f"got {name!r}; expected a recipe's name before settings", param_hint="RECIPE")
    if resume and run_dir is None:
        raise typer.BadParameter("say which run to resume with --run-dir DIR", param_hint="--resume")
    if name is not None:
        return read_recipe(name, settings)
    if not resume:
        raise typer.BadParameter("name a recipe; `pointset recipes` lists them", param_hint="RECIPE")
    if several:
        raise typer.BadParameter("to resume several runs, name their recipe as before", param_hint="RECIPE")
    if run_dir is None or not (run_dir / "recipe.yaml").exists():
        raise typer.BadParameter(f"there is no run in {run_dir}; name a recipe to begin one", param_hint="--resume")
    return read_recipe(run_dir / "recipe.yaml")


def _free_folder(name: str) -> Path:
    """runs/NAME, or runs/NAME-2, -3, … where that is taken; always inside of runs, whatever the recipe is called."""
    name = re.sub(r"[^\w-]+", "-", name).strip("-") or "run"
    base = Path("runs") / name
    number = 1
    folder = base
    while folder.exists():
        number += 1
        folder = base.with_name(f"{name}-{number}")
    return folder


def _command_to_go_on(folder: Path) -> str:
    """The same command with what it needs to resume."""
    words = ["pointset", *sys.argv[1:]]
    if "--resume" not in words:
        words.append("--resume")
    if not any(word == "--run-dir" or word.startswith("--run-dir=") for word in words):
        words += ["--run-dir", str(folder)]
    return shlex.join(words)
