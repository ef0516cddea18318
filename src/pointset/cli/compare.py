"""``pointset compare``: several models on the same data, at the same number of parameters, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.entry import INTERRUPTED
from pointset.cli.express_output import JsonFile, Picture, check_outputs, write_outputs
from pointset.cli.messages import load_torch, reported_errors, say
from pointset.cli.options import Device
from pointset.cli.train import Progress

if TYPE_CHECKING:
    from pointset.studies.comparison.planning import Plan
    from pointset.studies.comparison.records import Comparison
    from pointset.training.recipe import Recipe

_GO_ON = "Interrupted; what is finished is kept. Go on with the same command and --resume."
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

[bold]What comes out[/bold] in the folder --run-dir
  comparison.json  every score, curve, time and peak of memory
  report.html      the runs side by side, to look at
  MODEL/seed-K/    each run, as pointset train leaves it
"""


def compare(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE", help="A recipe by name, or a YAML file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Other values, such as model.layers=3.")
    ] = None,
    models: Annotated[str, typer.Option(metavar="NAMES", help="Comma-separated names of models.")] = "",
    run_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the runs go.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the runs in --run-dir.")] = False,
    parameters: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Of each model, within 15 %; else those of the recipe's.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Other than the recipe's; its schedule shrinks alike.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Train each model K times.")] = 1,
    cost_only: Annotated[
        bool, typer.Option("--cost-only", help="Train nothing: time some batches of an epoch, side by side.")
    ] = False,
    batches: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --cost-only: batches in a round; 0 for a whole epoch.")
    ] = 20,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="With --cost-only: rounds.")] = 3,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the data lies.")] = None,
    device: Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")] = Device.AUTO,
    progress: Annotated[
        Progress, typer.Option(metavar="MODE", help="bar, plain (lines, for logs), quiet, or auto.")
    ] = Progress.AUTO,
    json_file: JsonFile = None,
    picture: Picture = None,
    list_models: Annotated[bool, typer.Option("--list", help="Show the models and end.")] = False,
) -> None:
    """Train several models on the same data at the same number of parameters: accuracy, time and memory in a table."""
    with reported_errors(_GO_ON):
        if list_models:
            _show_models()
            return
        chosen = _recipe(recipe, settings or [], epochs)
        names = _names(models)
        if run_dir is None and not cost_only:
            raise typer.BadParameter("say where the runs go with --run-dir DIR", param_hint="--run-dir")
        check_outputs(json_file, picture)
        load_torch()
        from pointset.studies.comparison.planning import plan

        shown = {"bar": True, "auto": None}.get(progress.value, False)
        made = plan(chosen, names, parameters=parameters, data_dir=data_dir, progress=shown)
        _show_plan(made)
        if run_dir is None or cost_only:
            failed = _cost(made, batches or None, repeats, data_dir, shown, json_file, picture)
        else:
            found = _trained(made, run_dir, seeds, resume, data_dir, device.value, progress.value)
            from pointset.reports.comparison_pictures import draw_comparison

            write_outputs(found.as_dict(), json_file, picture, draw_comparison)
            failed = [one.model for one in found.failed]
        if failed:
            raise typer.Exit(1)


def _recipe(name: str | None, settings: list[str], epochs: int | None) -> Recipe:
    if name is None or "=" in name:
        raise typer.BadParameter("name a recipe first; `pointset recipes` lists them", param_hint="RECIPE")
    from pointset.training.recipe_files import read_recipe
    from pointset.training.recipe_overrides import changed

    recipe = read_recipe(name, settings)
    if epochs is None:
        return recipe
    share = epochs / recipe.trainer.epochs
    schedule = {
        "schedule.warmup": recipe.schedule.warmup * share,
        "schedule.cosine": recipe.schedule.cosine * share,
    }
    return changed(recipe, {"trainer.epochs": epochs} | schedule)


def _names(models: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
    if not names:
        raise typer.BadParameter(
            "name some, such as --models pst,psds; `pointset compare --list` shows them all", param_hint="--models"
        )
    return names


def _show_models() -> None:
    load_torch()
    from pointset.cli.comparison_tables import show_models

    show_models()


def _show_plan(made: Plan) -> None:
    from pointset.cli.comparison_tables import show_plan

    show_plan(made)


def _trained(
    made: Plan, folder: Path, seeds: int, resume: bool, data_dir: Path | None, device: str, watch: str
) -> Comparison:
    from pointset.cli.comparison_tables import show_comparison
    from pointset.studies.comparison.comparing import run_plan
    from pointset.training.interruption import TrainingStopped

    def tell(line: str) -> None:
        if watch != "quiet":
            say(line, style="bold")

    try:
        found = run_plan(
            made, folder, seeds=seeds, resume=resume, data_dir=data_dir, device=device, watch=watch, tell=tell
        )
    except TrainingStopped as stopped:
        say(f"{stopped} Go on with the same command and --resume.", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    show_comparison(found)
    _write_report(found, folder)
    return found


def _write_report(found: Comparison, folder: Path) -> None:
    """A missing package costs the report, not the comparison."""
    from pointset.errors import MissingExtraError
    from pointset.reports.run_report import write_comparison

    runs = [folder / run.run for one in found.contenders for run in one.runs]
    try:
        if runs:
            say(f"report: {write_comparison(runs, folder / 'report.html')}")
    except MissingExtraError as error:
        say(f"note: no report.html was written: {error}", style="yellow")


def _cost(
    made: Plan,
    batches: int | None,
    repeats: int,
    data_dir: Path | None,
    shown: bool | None,
    json_file: Path | None,
    picture: Path | None,
) -> list[str]:
    """The models that could not be measured."""
    from pointset.cli.comparison_tables import show_costs
    from pointset.reports.comparison_pictures import draw_costs
    from pointset.studies.comparison.cost import measure_cost

    threads = made.recipe.trainer.threads or 1
    costs = measure_cost(
        made.possible, batches=batches, repeats=repeats, data_dir=data_dir, threads=threads, progress=shown
    )
    show_costs(costs, repeats)
    write_outputs([cost.as_dict() for cost in costs], json_file, picture, draw_costs)
    return [one.model for one in made.models if one.failure] + [one.model for one in costs if one.failure]
