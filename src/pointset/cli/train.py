"""``pointset train``: from data to a trained model in one command."""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pointset.cli.console import (
    exit_interrupted,
    load_torch,
    optional_report,
    output_console,
    plain_table,
    reported_errors,
    say,
)
from pointset.cli.options import (
    DataDirOption,
    Device,
    DeviceOption,
    Progress,
    ProgressOption,
    SettingsArgument,
    folder_name,
    named_recipe,
)
from pointset.errors import SpecError, TrainingStopped
from pointset.metrics import COUNTING_BOUND, metric_label, metric_unit
from pointset.runs.folder import RunFolder
from pointset.text import counted, duration, fixed, printable

if TYPE_CHECKING:
    from pointset.runs.recipe import Recipe
    from pointset.training.run import Repeat

EXAMPLES = """
[bold]Examples[/bold]
  pointset train counting-small --run-dir runs/first    [dim]a model in minutes[/dim]
  pointset train zinc model.dim=96 seed=3 trainer.epochs=20
  pointset train molecules dataset.file=my.csv dataset.targets=logS
  pointset train --resume --run-dir runs/zinc           [dim]after Ctrl-C, kill -9[/dim]
  pointset train zinc --seeds 8 --run-dir runs/zinc8    [dim]mean ± deviation[/dim]
  pointset train mutag --folds 10 --run-dir runs/folds  [dim]cross-validation[/dim]

[bold]The run's folder[/bold]
  result.json      test scores, best epoch, parameters, seconds
  report.html      all of it to look at, in one file
  predictions.csv  of the test part, beside the true values
  bundle/          the model, for pointset predict and pointset.load
  metrics.csv      every epoch;  recipe.yaml  every setting, to run it again

[bold]Recipes[/bold]  pointset recipes lists them; pointset recipes show NAME: all keys.
"""
_MOST_TARGETS = 20


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe by name, a YAML file, or the folder of a run.")
    ] = None,
    settings: SettingsArgument = None,
    run_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder, new or empty. By default runs/RECIPE.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --run-dir.")] = False,
    data_dir: DataDirOption = None,
    device: DeviceOption = Device.AUTO,
    devices: Annotated[int, typer.Option(min=1, metavar="N", help="Processes (DDP); not needed under torchrun.")] = 1,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Train N times, with seeds from the recipe's seed up.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, metavar="K", help="Cross-validation: train K times, test on each fold.")
    ] = None,
    progress: ProgressOption = Progress.AUTO,
) -> None:
    """Train a model: data, training, best epoch by validation, one test at the end, a bundle and a report."""
    with reported_errors("Interrupted; resume with --resume."):
        chosen = _recipe(recipe, settings or [], run_dir, resume, several=seeds is not None or folds is not None)
        folder = run_dir if run_dir is not None else _free_folder(chosen.name)
        load_torch()
        from pointset.training.devices import is_first_process

        options = {"data_dir": data_dir, "device": device.value, "devices": devices, "watch": progress.value}
        try:
            if seeds is not None or folds is not None:
                _run_all(chosen, folder, resume, options, seeds, folds)
                return
            result = _trained(chosen, folder, resume, options)
            if is_first_process():
                print_result(result, folder)
        except TrainingStopped as stopped:
            exit_interrupted(f"{stopped} Resume with:", _resume_command(folder))


def _recipe(name: str | None, settings: list[str], run_dir: Path | None, resume: bool, several: bool) -> Recipe:
    """The recipe that is named; to resume a run, that of its folder needs no name."""
    from pointset.runs.recipe_files import read_recipe

    if resume and run_dir is None:
        raise typer.BadParameter("say which run to resume with --run-dir DIR", param_hint="--resume")
    if name is not None or not resume:
        return named_recipe(name, settings)
    if several:
        raise typer.BadParameter("to resume several runs, name their recipe as before", param_hint="RECIPE")
    if run_dir is None or not (run_dir / "recipe.yaml").exists():
        raise typer.BadParameter(f"there is no run in {run_dir}; name a recipe to begin one", param_hint="--resume")
    return read_recipe(run_dir / "recipe.yaml")


def _free_folder(name: str) -> Path:
    """runs/NAME, or runs/NAME-2, -3, … where that is taken."""
    base = Path("runs") / folder_name(name, "run")
    others = (base.with_name(f"{base.name}-{number}") for number in itertools.count(2))
    return next(folder for folder in itertools.chain([base], others) if not folder.exists())


def _resume_command(folder: Path) -> str:
    """The same command with what it needs to resume."""
    words = ["pointset", *sys.argv[1:]]
    if "--resume" not in words:
        words.append("--resume")
    if not any(word == "--run-dir" or word.startswith("--run-dir=") for word in words):
        words += ["--run-dir", str(folder)]
    return shlex.join(words)


# --- training


def _run_all(
    recipe: Recipe, folder: Path, resume: bool, options: dict[str, Any], seeds: int | None, folds: int | None
) -> None:
    """Train with several seeds, or on several folds; each run can be resumed by itself."""
    from pointset.training.devices import is_first_process
    from pointset.training.run import repeats_of, train_many

    repeats = repeats_of(recipe, seeds, folds)
    begun = [repeat.name for repeat in repeats if RunFolder(folder / repeat.name).has_run]
    if begun and not resume:
        raise SpecError(
            f"{folder} holds runs already ({', '.join(begun[:3])}…); resume them with --resume, or choose another "
            "folder with --run-dir"
        )
    if RunFolder(folder).has_run:
        raise SpecError(f"{folder} is the folder of a single run; choose another with --run-dir")

    def train_one(repeat: Repeat) -> dict[str, Any]:
        if is_first_process() and options["watch"] != "quiet":
            say(f"{repeat.name} ({1 + repeats.index(repeat)} of {counted(len(repeats), 'run')})", style="bold")
        return _trained(repeat.recipe, folder / repeat.name, repeat.name in begun, options)

    summary = train_many(repeats, folder, train_one)
    if is_first_process():
        from pointset.reports.pages import write_comparison

        with optional_report():
            write_comparison([folder / repeat.name for repeat in repeats], folder / "report.html")
        print_summary(summary, folder)


def _trained(recipe: Recipe, folder: Path, resume: bool, options: dict[str, Any]) -> dict[str, Any]:
    """The result of a run, whose report is written unless it is there."""
    from pointset.training.devices import is_first_process
    from pointset.training.run import train as train_recipe

    was_finished = resume and RunFolder(folder).is_finished
    result = train_recipe(recipe, folder, resume=resume, **options)
    if is_first_process() and not (was_finished and RunFolder(folder).report.exists()):  # one of half a run is stale
        from pointset.reports.pages import write_report

        with optional_report(". Then: pointset report RUN"):
            write_report(folder)
    return result


# --- what is printed


def print_result(result: Mapping[str, Any], folder: Path) -> None:
    """Of one run: test scores beside the paper's, and where to look."""
    console = output_console()
    _print_targets(console, result, lambda score: score)
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
    _print_place(console, folder)


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Of several seeds or folds."""
    console = output_console()
    _print_targets(console, summary, lambda spread: None if spread is None else spread["mean"])
    for metric, spread in summary["test"].items():
        values = ", ".join(_score(value) for value in spread["values"])
        console.print(
            f"test {metric_label(metric)}: {_with_deviation(spread['mean'], spread['std'])}{_unit(summary, metric)} "
            f"over {len(summary['runs'])} runs ({values})"
        )
    _print_expected(console, summary, summary["test"].get(summary["metric"], {}).get("mean"))
    _print_place(console, folder)


def print_scores(console: Console, scores: Mapping[str, Any], per_target: Mapping[str, Mapping[str, Any]]) -> None:
    """All metrics, over the targets and for each."""
    headings = [metric_label(metric) for metric in scores]
    table = plain_table(console, "", *headings, numbers=headings)
    if 1 < len(per_target) <= _MOST_TARGETS:
        for target, values in per_target.items():
            table.add_row(printable(target), *(_score(values.get(metric)) for metric in scores))
    table.add_row("all" if len(per_target) > 1 else "", *(_score(value) for value in scores.values()), style="bold")
    console.print(table)


def _print_targets(console: Console, result: Mapping[str, Any], read: Callable[[Any], float | None]) -> None:
    """A row for each target, with the paper's values where it has them."""
    per_target, expected = result["per_target"], result["expected"] or {}
    if not 1 < len(per_target) <= _MOST_TARGETS:
        return
    paper, others = expected.get("per_target") or {}, expected.get("others") or {}
    metric = expected["metric"] if paper else result["metric"]
    ours = "PSDS" if result["model"]["preset"] == "psds" else "PST"
    headings = [f"test {metric_label(metric)}", *(f"paper's {title}" for title in ([ours, *others] if paper else []))]
    counting = metric == "normalised_mae" and bool(paper)
    table = plain_table(console, "target", *headings, *([""] if counting else []), numbers=headings)
    values = {target: read(scores.get(metric)) for target, scores in per_target.items()}
    counts = {target for target, value in values.items() if value is not None and value <= COUNTING_BOUND}
    for target, value in values.items():
        known = [_score(column.get(target)) for column in (paper, *others.values())] if paper else []
        mark = ["counts" if target in counts else ""] if counting else []
        table.add_row(printable(target), _score(value), *known, *mark)
    console.print(table)
    if counting:
        console.print(f"{len(counts)} of {len(values)} are counted (at most {COUNTING_BOUND:.3f})")


def _print_expected(console: Console, result: Mapping[str, Any], value: float | None) -> None:
    expected = result["expected"]
    if expected and value is not None and expected["metric"] == result["metric"]:
        paper = _with_deviation(expected["value"], expected.get("std"))
        console.print(f"the paper has {metric_label(expected['metric'])} {paper}{_unit(result, expected['metric'])}")


def _print_place(console: Console, folder: Path) -> None:
    report = folder / "report.html"
    console.print(f"report: {report}" if report.exists() else f"run: {folder}", soft_wrap=True)


def _unit(result: Mapping[str, Any], metric: str) -> str:
    """`` eV``, where the metric is in the targets' unit and they share one."""
    units = set((result.get("units") or {}).values())
    shared = metric_unit(metric, units.pop()) if len(units) == 1 else ""
    return f" {printable(shared)}" if shared else ""


def _with_deviation(mean: float | None, std: float | None) -> str:
    return _score(mean) + ("" if std is None else f" ± {_score(std)}")


def _score(value: float | None) -> str:
    return fixed(value, 4 if value is None or abs(value) < 100 else 1)
