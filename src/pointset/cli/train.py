"""``pointset train``: from data to a trained model in one command."""

from __future__ import annotations

import re
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.entry import INTERRUPTED
from pointset.cli.messages import load_torch, reported_errors, say
from pointset.cli.options import Device

if TYPE_CHECKING:
    from pointset.training.recipe import Recipe

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
        from pointset.cli.training_runs import RunSettings, run_all, run_one
        from pointset.training.interruption import TrainingStopped

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
    from pointset.training.recipe_files import read_recipe

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
