"""``pointset compare``: several models on the same data, at the same number of parameters, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pointset.cli.console import (
    load_torch,
    optional_report,
    output_console,
    plain_table,
    reported_errors,
    say,
    write_outputs,
)
from pointset.cli.options import (
    DataDirOption,
    Device,
    DeviceOption,
    JsonFileOption,
    PictureOption,
    Progress,
    ProgressOption,
    SettingsArgument,
    check_outputs,
    named_recipe,
    split_names,
)
from pointset.metrics import metric_label
from pointset.text import byte_size, counted, duration, printable, with_spread

if TYPE_CHECKING:
    from pointset.paper.comparison import Comparison, ComparisonPlan, Contender, PlannedModel
    from pointset.paper.cost import Cost
    from pointset.runs.recipe import Recipe

EXAMPLES = """
[bold]Examples[/bold]
  pointset compare --list                             [dim]the models[/dim]
  pointset compare counting-small --models pst,gin --run-dir runs/two
  pointset compare counting-small --models pst,gin --run-dir runs/two --resume
  pointset compare zinc --models pst,gps --epochs 20 --seeds 3 --run-dir z
  pointset compare zinc --models pst,ppgn,gps --parameters 500000 --cost-only

[bold]What is the same for all[/bold]
  Data, split, loop, loss, metric, layers and seeds are those of the recipe.
  The width is chosen so that every model has as many parameters, within 15 %:
  those of the recipe's own model, or --parameters.

[bold]The folder --run-dir[/bold]
  comparison.json  every score, curve, time and peak memory
  report.html      the runs side by side, to look at
  MODEL/seed-K/    each run, as pointset train leaves it
"""


def compare(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE", help="A recipe by name, or a YAML file.")] = None,
    settings: SettingsArgument = None,
    models: Annotated[str, typer.Option(metavar="NAMES", help="Comma-separated names of models.")] = "",
    run_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the runs go.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the runs in --run-dir.")] = False,
    parameters: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Of each model, within 15 %; by default the recipe's.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="In place of the recipe's; its schedule is scaled with them.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Train each model K times.")] = 1,
    cost_only: Annotated[
        bool, typer.Option("--cost-only", help="Train nothing: time some batches of an epoch, side by side.")
    ] = False,
    batches: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --cost-only: batches in a round; 0 for a whole epoch.")
    ] = 20,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="With --cost-only: rounds.")] = 3,
    data_dir: DataDirOption = None,
    device: DeviceOption = Device.AUTO,
    progress: ProgressOption = Progress.AUTO,
    json_file: JsonFileOption = None,
    picture: PictureOption = None,
    list_models: Annotated[bool, typer.Option("--list", help="List the models and end.")] = False,
) -> None:
    """Train several models on the same data at the same number of parameters: accuracy, time and memory in a table."""
    with reported_errors(
        "Interrupted; what is finished is kept.", resume="To resume, repeat the command with --resume."
    ):
        if list_models:
            _show_models()
            return
        chosen = _recipe(recipe, settings or [], epochs)
        names = split_names(models)
        if not names:
            raise typer.BadParameter(
                "name some, such as --models pst,psds; `pointset compare --list` shows them all", param_hint="--models"
            )
        if run_dir is None and not cost_only:
            raise typer.BadParameter("say where the runs go with --run-dir DIR", param_hint="--run-dir")
        check_outputs(json_file, picture)
        load_torch()
        from pointset.paper.comparison import plan_comparison
        from pointset.reports.comparison_pictures import draw_comparison, draw_costs

        shown = {"bar": True, "auto": None}.get(progress.value, False)
        made = plan_comparison(chosen, names, parameters=parameters, data_dir=data_dir, progress=shown)
        _show_plan(made)
        if run_dir is None or cost_only:
            costs = _measured(made, batches or None, repeats, data_dir, shown)
            write_outputs([cost.as_dict() for cost in costs], json_file, picture, draw_costs)
            failed = any(one.failure for one in made.models) or any(one.failure for one in costs)
        else:
            found = _trained(made, run_dir, seeds, resume, data_dir, device.value, progress.value)
            write_outputs(found.as_dict(), json_file, picture, draw_comparison)
            failed = bool(found.failed)
        if failed:
            raise typer.Exit(1)


def _recipe(name: str | None, settings: list[str], epochs: int | None) -> Recipe:
    from pointset.runs.recipe_files import changed

    recipe = named_recipe(name, settings)
    if epochs is None:
        return recipe
    share = epochs / recipe.trainer.epochs
    schedule = {"schedule.warmup": recipe.schedule.warmup * share, "schedule.cosine": recipe.schedule.cosine * share}
    return changed(recipe, {"trainer.epochs": epochs} | schedule)


def _trained(
    made: ComparisonPlan, folder: Path, seeds: int, resume: bool, data_dir: Path | None, device: str, watch: str
) -> Comparison:
    from pointset.paper.comparison import run_comparison
    from pointset.reports.pages import write_comparison

    def tell(line: str) -> None:
        if watch != "quiet":
            say(line, style="bold")

    found = run_comparison(
        made, folder, seeds=seeds, resume=resume, data_dir=data_dir, device=device, watch=watch, tell=tell
    )
    _show_comparison(found)
    if runs := [folder / run.run for one in found.contenders for run in one.runs]:
        with optional_report():
            say(f"report: {write_comparison(runs, folder / 'report.html')}")
    return found


def _measured(
    made: ComparisonPlan, batches: int | None, repeats: int, data_dir: Path | None, shown: bool | None
) -> list[Cost]:
    from pointset.paper.cost import measure_cost

    threads = made.recipe.trainer.threads or 1
    costs = measure_cost(
        made.possible, batches=batches, repeats=repeats, data_dir=data_dir, threads=threads, progress=shown
    )
    _show_costs(costs, repeats)
    return costs


# --- what is printed


def _show_models() -> None:
    """Every model with what it is."""
    from pointset.extensions import load_extensions
    from pointset.registry import PRESETS

    load_extensions()
    console = output_console()
    table = plain_table(console, "model", "", "what it is")
    for name, preset in PRESETS.items():
        table.add_row(name, preset.kind, printable(preset.summary))
    console.print(table)


def _show_plan(made: ComparisonPlan) -> None:
    """Width and parameters of each model, before anything is trained."""
    recipe = made.recipe
    console = output_console()
    console.print(
        f"{printable(recipe.name)}: {counted(len(made.models), 'model')} of {recipe.model.layers} layers with about "
        f"{made.parameters:,} parameters, {counted(recipe.trainer.epochs, 'epoch')}, on "
        f"{counted(recipe.trainer.threads or 1, 'thread')}"
    )
    table = _table(console, ("model", "width", "parameters", "off by"))
    for one in made.models:
        if one.recipe is None or one.parameters is None:
            table.add_row(one.model, "–", "–", "–")
        else:
            off = f"{one.parameters / made.parameters - 1:+.1%}".replace("-", "−")
            table.add_row(one.model, f"{one.recipe.model.dim}", f"{one.parameters:,}", off)
    console.print(table)
    console.print()
    _say_failures(made.models)


def _show_comparison(found: Comparison) -> None:
    """The table of results; the best test score is bold."""
    name = metric_label(found.metric)
    console = output_console()
    headings = (
        *("model", "width", "parameters", f"test {name}", "validation", "best epoch"),
        *("time/epoch", "peak memory", "total time"),
    )
    table = _table(console, headings)
    best = found.best
    for one in found.contenders:
        test = with_spread(*one.score("test", found.metric))
        epoch = one.median("best_epoch")
        table.add_row(
            one.model,
            "–" if one.width is None else f"{one.width}",
            "–" if one.parameters is None else f"{one.parameters:,}",
            Text(test, style="bold" if one is best else ""),
            with_spread(*one.score("val", found.metric)),
            "–" if epoch is None else f"{epoch:g}",
            duration(one.median("seconds_per_epoch")),
            byte_size(one.peak_memory_bytes),
            duration(one.seconds) if one.runs else "–",
        )
    console.print(table)
    direction = "higher" if found.higher_is_better else "lower"
    runs = "" if found.seeds == 1 else f"Mean ± standard deviation over {found.seeds} seeds. "
    console.print(
        f"{runs}Of test scores, {direction} is better. Time per epoch with validation; memory of the whole process.",
        style="dim",
    )
    _say_failures(found.contenders)


def _show_costs(costs: Sequence[Cost], repeats: int) -> None:
    """The table of costs, with ratios to the first model; nothing where no model could be made."""
    if not costs:
        return
    console = output_console()
    table = _table(console, ("model", "width", "parameters", "time/epoch", "CPU time", "× first", "memory", "× first"))
    first = costs[0]
    for one in costs:
        table.add_row(
            one.model,
            f"{one.width}",
            "–" if one.parameters is None else f"{one.parameters:,}",
            duration(one.seconds_per_epoch) + ("" if one.spread is None else f" ± {duration(one.spread)}"),
            duration(one.cpu_seconds_per_epoch),
            _ratio(one.cpu_seconds_per_epoch, first.cpu_seconds_per_epoch),
            byte_size(one.peak_memory_bytes),
            _ratio(one.peak_memory_bytes, first.peak_memory_bytes),
        )
    console.print(table)
    share = next((one.timed_share for one in costs if one.timed_share is not None), None)
    if share is not None:
        how = "whole epochs" if share == 1 else f"{share:.1%} of an epoch's graphs, the rest extrapolated"
        console.print(
            f"Median of {counted(repeats, 'round')} of {how}, without validation. Memory: the most that training took "
            "above what libraries, data and model take before it.",
            style="dim",
        )
    _say_failures(costs)


def _table(console: Console, headings: Sequence[str]) -> Table:
    table = plain_table(console, *headings, numbers=headings[1:])
    table.columns[0].no_wrap = True
    return table


def _ratio(value: float | None, first: float | None) -> str:
    return "–" if value is None or not first else f"{value / first:.2f}"


def _say_failures(models: Sequence[PlannedModel | Contender | Cost]) -> None:
    for one in models:
        if one.failure:
            say(f"{one.model} failed: {one.failure}", style="red")
