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
    said_at_the_end,
    say,
)
from pointset.cli.options import (
    ClusterOption,
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
from pointset.metrics import COUNTING_BOUND, higher_is_better, metric_label, metric_unit
from pointset.runs.folder import RunFolder
from pointset.text import counted, duration, fixed, printable, with_interval

if TYPE_CHECKING:
    from pointset.runs.recipe import Recipe
    from pointset.training.run import Repeat

EXAMPLES = """
[bold]Examples[/bold]
  pointset train counting-small --run-dir runs/first    [dim]a model in minutes[/dim]
  pointset train zinc model.dim=96 seed=3 trainer.epochs=20
  pointset train molecules dataset.file=my.csv dataset.targets=logS
  pointset train molecules dataset.file=my.csv --ensemble 5
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
_NO_SCORE: dict[str, float | None] = {"value": None, "lower": None, "upper": None}


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
    ensemble: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Train N members, whose mean is the model.")
    ] = None,
    cluster: ClusterOption = None,
    progress: ProgressOption = Progress.AUTO,
) -> None:
    """Train a model: data, training, best epoch by validation, one test at the end, a bundle and a report."""
    with reported_errors("Interrupted.", resume="Resume with --resume."):
        several = seeds is not None or folds is not None
        chosen = _recipe(recipe, settings or [], run_dir, resume, ensemble, several=several)
        folder = run_dir if run_dir is not None else _free_folder(chosen.name)
        load_torch()
        from pointset.training.devices import is_first_process

        if cluster is not None and is_first_process():
            _prepare_data(chosen, data_dir, cluster, progress)
        options = {"data_dir": data_dir, "device": device.value, "devices": devices, "watch": progress.value}
        try:
            with said_at_the_end(f"Resume with:\n  {_resume_command(folder)}"):
                if seeds is not None or folds is not None:
                    _run_all(chosen, folder, resume, options, seeds, folds)
                    return
                result = _trained(chosen, folder, resume, options)
            if is_first_process():
                print_result(result, folder)
        except TrainingStopped as stopped:
            exit_interrupted(f"{stopped} Resume with:", _resume_command(folder))


def _prepare_data(recipe: Recipe, data_dir: Path | None, cluster: str, progress: Progress) -> None:
    """Have the workers of a cluster read the data, which is then in the cache."""
    from pointset.cluster import connected
    from pointset.training.data import read_dataset

    with connected(cluster):
        read_dataset(recipe, data_dir, progress=False if progress is Progress.QUIET else None)


def _recipe(
    name: str | None, settings: list[str], run_dir: Path | None, resume: bool, ensemble: int | None, *, several: bool
) -> Recipe:
    """The recipe that is named; to resume a run, that of its folder needs no name."""
    from pointset.runs.recipe_files import changed, read_recipe

    if resume and run_dir is None:
        raise typer.BadParameter("say which run to resume with --run-dir DIR", param_hint="--resume")
    if name is not None or not resume:
        return named_recipe(name, settings if ensemble is None else [*settings, f"ensemble={ensemble}"])
    if several:
        raise typer.BadParameter("to resume several runs, name their recipe as before", param_hint="RECIPE")
    if run_dir is None or not (run_dir / "recipe.yaml").exists():
        raise typer.BadParameter(f"there is no run in {run_dir}; name a recipe to begin one", param_hint="--resume")
    begun = read_recipe(run_dir / "recipe.yaml")
    return begun if ensemble is None else changed(begun, {"ensemble": ensemble})


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
    parts = result.get("parts") or {}
    print_parts(console, parts, result.get("part_graphs") or {}, result.get("split_sizes") or {})
    if found := (parts.get("test") or {}).get(result["metric"]):
        text = f"{metric_label(result['metric'])} {with_interval(**found)}{_unit(result, result['metric'])}"
        console.print(f"test: {text}")
    elif result["test"]:
        scores = ", ".join(
            f"{metric_label(metric)} {_score(value)}{_unit(result, metric)}" for metric, value in result["test"].items()
        )
        console.print(f"test: {scores}")
    else:
        console.print("test: there is no test part")
    _print_baselines(console, result)
    print_coverage(console, result, "test")
    _print_expected(console, result, result["test"].get(result["metric"]))
    stopped = ", stopped early" if result.get("stopped_early") else ""
    scored = f"; the test part was scored {result['test_scored'].split(',')[0]}" if result["test"] else ""
    members, metric = result.get("members") or [], result["metric"]
    for member in members:
        scores = ", ".join(f"{part} {_score(member[part].get(metric))}" for part in ("val", "test") if member[part])
        console.print(f"{printable(member['name'])} alone: {metric_label(metric)} {scores}")
    chosen = f"best epoch {result['best_epoch']} of {result['epochs']}{stopped}"
    if members:
        chosen = f"mean of {counted(len(members), 'member')}, {counted(result['epochs'], 'epoch')}{stopped}"
    console.print(f"{chosen}; {result['parameters']:,} parameters; {duration(result['seconds'])}{scored}")
    _print_place(console, folder)


def print_coverage(console: Console, result: Mapping[str, Any], part: str) -> None:
    """How often intervals or sets hold the truth, and how many graphs of the part are in the domain."""
    calibration, domain = result.get("calibration") or {}, result.get("domain") or {}
    per_target = (calibration.get("per_target") or {}).values()
    known = [one for one in per_target if one["rows"] and one["coverage"] is not None]
    said = []
    if rows := sum(one["rows"] for one in known):
        share = sum(one["coverage"] * one["rows"] for one in known) / rows
        what = f"{part} {'rows' if len(per_target) == 1 else 'values'}" if part != "all" else "values"
        sure = f"{100 * calibration['confidence']:.3g} % {calibration['kind']}"
        said.append(f"{sure} cover {100 * share:.0f} % of {rows:,} {what}")
    if domain.get("test_in_domain") is not None:
        said.append(f"{100 * domain['test_in_domain']:.0f} % of its graphs are in the applicability domain")
    if said:
        console.print("; ".join(said))


def print_parts(
    console: Console,
    parts: Mapping[str, Mapping[str, Mapping[str, float | None]]],
    scored: Mapping[str, int],
    sizes: Mapping[str, int],
) -> None:
    """A row for each metric, a column for each part, with intervals."""
    if not parts:
        return
    table = plain_table(console, "", *parts, numbers=list(parts))
    for metric in dict.fromkeys(metric for scores in parts.values() for metric in scores):
        cells = (with_interval(**scores.get(metric, _NO_SCORE)) for scores in parts.values())
        table.add_row(metric_label(metric), *cells)
    console.print(table)
    some = [part for part in parts if scored.get(part, 0) < sizes.get(part, 0)]
    sample = "".join(f"; {part} is scored on {scored[part]:,} of {sizes[part]:,}" for part in some)
    if any(one.get("lower") is not None for scores in parts.values() for one in scores.values()):
        console.print(f"in brackets: 95 % intervals, by drawing the rows of a part again 1,000 times{sample}")


def _print_baselines(console: Console, result: Mapping[str, Any]) -> None:
    """The model's test scores beside those of a forest and of the mean; a baseline that is better is named."""
    baselines, test, metric = result.get("baselines") or {}, result["test"], result["metric"]
    others = {name: entry["test"] for name, entry in baselines.items() if entry.get("test")}
    if not test or not others:
        return
    headings = [metric_label(one) for one in test]
    table = plain_table(console, "on the test part", *headings, numbers=headings)
    for name, scores in {result["model"]["preset"]: test, **others}.items():
        table.add_row(printable(name), *(_score(scores.get(one)) for one in test))
    console.print(table)
    for name, entry in baselines.items():
        if name in others and _is_better(metric, others[name].get(metric), test.get(metric)):
            console.print(_better_than_model(name, entry, result), soft_wrap=True)


def _is_better(metric: str, one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return False
    return one > other if higher_is_better(metric) else one < other


def _better_than_model(name: str, entry: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """``the forest is better here: RMSE 0.61 against 0.64, validation 0.58 against 0.60; it took 2.1 s``."""
    metric = result["metric"]
    pairs = [(part, entry.get(part, {}).get(metric), result[part].get(metric)) for part in ("test", "val")]
    titles = {"test": metric_label(metric), "val": "validation"}
    scores = ", ".join(
        f"{titles[part]} {_score(theirs)} against {_score(ours)}" for part, theirs, ours in pairs if theirs is not None
    )
    found = ((result.get("parts") or {}).get("test") or {}).get(metric) or _NO_SCORE
    lower, upper = found["lower"], found["upper"]
    is_level = lower is not None and upper is not None and lower <= entry["test"][metric] <= upper
    level = ", within the model's interval" if is_level else ""
    who = {"ecfp forest": "the forest", "mean": "the mean of the training part"}.get(name, name)
    return f"{printable(who)} is better here{level}: {scores}; it took {duration(entry.get('seconds'))}"


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
