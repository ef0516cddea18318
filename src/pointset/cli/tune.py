"""``pointset tune``: search the hyperparameters of a recipe."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.entry import INTERRUPTED
from pointset.cli.express_output import JsonFile, check_outputs
from pointset.cli.messages import load_torch, reported_errors, say
from pointset.cli.options import Device
from pointset.cli.train import Progress

if TYPE_CHECKING:
    from pointset.training.recipe import Recipe
    from pointset.training.tuning.ranges import Range

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
        from pointset.cli.tuning_words import finish, print_plan, show_trial
        from pointset.training.tuning.extra import check_tune_extra
        from pointset.training.tuning.space import search_space

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
        from pointset.training.interruption import TrainingStopped
        from pointset.training.tuning.searching import tune as search

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
    from pointset.training.recipe_files import read_recipe
    from pointset.training.tuning.ranges import check_searchable

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
    from pointset.training.tuning.ranges import read_range

    return dict(read_range(text) for text in texts)


def _mode(progress: Progress) -> str:
    """``auto``: a bar on a terminal; elsewhere the line of each trial is enough."""
    if progress is not Progress.AUTO:
        return progress.value
    return "bar" if sys.stderr.isatty() else "quiet"
