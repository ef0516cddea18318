"""Every model trained on the same data by the same loop, each run in a process and a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.errors import SpecError
from pointset.reports.run_pages.record import read_run
from pointset.reports.run_pages.tables import Columns
from pointset.studies.comparison.matching import TOLERANCE
from pointset.studies.comparison.own_process import own_processes
from pointset.studies.comparison.planning import Plan, Planned, plan
from pointset.studies.comparison.records import Comparison, Contender, Training
from pointset.training.json_files import write_json
from pointset.training.many_runs import parts_of
from pointset.training.metrics import higher_is_better
from pointset.training.recipe import Recipe
from pointset.training.run import check_same_recipe, train
from pointset.training.run_folder import RunFolder

COMPARISON_FILE = "comparison.json"


def compare(
    recipe: Recipe,
    models: Sequence[str],
    run_dir: str | Path,
    *,
    parameters: int | None = None,
    tolerance: float = TOLERANCE,
    seeds: int = 1,
    resume: bool = False,
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: str = "auto",
) -> Comparison:
    """Train each model as wide as it takes to have the same number of parameters, and put the results side by side.

    Every run is one of :func:`pointset.training.run.train`, in ``run_dir/MODEL/seed-K``; what is known is written to
    ``run_dir/comparison.json`` after each. With ``resume=True`` finished runs are not repeated, and a run that was
    interrupted goes on. A model that fails is in the comparison with its message, and does not sink the others.

    Args:
        recipe: data, split, loop and metric of all.
        models: names of :func:`pointset.baselines.catalogue.model_names`.
        run_dir: a new folder, or that of the comparison to resume.
        parameters: of each model; by default those of the recipe's own.
        tolerance: how far a model may be from it, as a share.
        seeds: runs of each model, with seeds from the recipe's on.
        resume: go on with what is in the folder.
        data_dir: where the data lies.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        watch: how progress is shown: ``"auto"``, ``"bar"``, ``"plain"`` or ``"quiet"``.

    Raises:
        SpecError: there are no models, one is unknown, or the folder holds something else.
        MissingDataError: the data is nowhere.
        KeyboardInterrupt: Ctrl-C; what is finished is kept.

    Example:
        >>> recipe = pointset.training.read_recipe("counting-small")  # doctest: +SKIP
        >>> compare(recipe, ["pst", "psds", "gin"], "runs/three").best.model  # doctest: +SKIP
    """
    progress = {"bar": True, "auto": None}.get(watch, False)
    made = plan(recipe, models, parameters=parameters, tolerance=tolerance, data_dir=data_dir, progress=progress)
    return run_plan(made, run_dir, seeds=seeds, resume=resume, data_dir=data_dir, device=device, watch=watch)


def run_plan(
    made: Plan,
    run_dir: str | Path,
    *,
    seeds: int = 1,
    resume: bool = False,
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: str = "auto",
    tell: Callable[[str], None] | None = None,
) -> Comparison:
    """Train what was planned; ``tell`` gets a line before each run. See :func:`compare`."""
    folder = Path(run_dir)
    runs = [(planned, _runs_of(planned, seeds)) for planned in made.models]
    _check_folder(folder, [run for _, several in runs for run in several], resume)
    contenders = {planned.model: _contender(made, planned, [], planned.failure) for planned in made.models}
    for planned, several in runs:
        done: list[Training] = []
        for name, recipe in several:
            if tell is not None:
                tell(f"{name}: {planned.parameters:,} parameters")
            result, failure = trained_alone(recipe, folder / name, data_dir, device, watch)
            done += [] if result is None else [_training(name, folder / name, result)]
            contenders[planned.model] = _contender(made, planned, done, failure)
            _write(folder, _comparison(made, seeds, contenders.values()))
            if failure:
                break
    found = _comparison(made, seeds, contenders.values())
    _write(folder, found)
    return found


def trained_alone(
    recipe: Recipe, folder: Path, data_dir: str | Path | None, device: str, watch: str
) -> tuple[dict[str, Any] | None, str]:
    """The result of a run in a process of its own, or why there is none; a finished run needs no process."""
    if RunFolder(folder).is_finished:
        return train(recipe, folder, resume=True, data_dir=data_dir), ""
    with own_processes(1) as (process,):
        result = process.call(_train, recipe, folder, data_dir, device, watch)
    return result, process.failure


def _train(recipe: Recipe, folder: Path, data_dir: str | Path | None, device: str, watch: str) -> dict[str, Any]:
    return train(recipe, folder, resume=True, data_dir=data_dir, device=device, watch=watch)


def _runs_of(planned: Planned, seeds: int) -> list[tuple[str, Recipe]]:
    """Folder and recipe of each run."""
    if planned.recipe is None:
        return []
    return [(f"{planned.model}/{part.name}", part.recipe) for part in parts_of(planned.recipe, seeds, None)]


def _check_folder(folder: Path, runs: Sequence[tuple[str, Recipe]], resume: bool) -> None:
    """All of them before the first begins."""
    if RunFolder(folder).has_run or (folder.exists() and not folder.is_dir()):
        raise SpecError(f"{folder} is a file or the folder of a single run; choose another with --run-dir")
    begun = [(name, recipe) for name, recipe in runs if RunFolder(folder / name).has_run]
    if begun and not resume:
        raise SpecError(
            f"{folder} holds runs already ({begun[0][0]}, …); go on with --resume, or choose another folder with "
            "--run-dir"
        )
    for name, recipe in begun:
        check_same_recipe(RunFolder(folder / name), recipe)


def _training(name: str, folder: Path, result: dict[str, Any]) -> Training:
    epochs = read_run(folder).epochs
    return Training(
        run=name,
        seed=result["seed"],
        test=result["test"],
        val=result["val"],
        per_target=result["per_target"],
        best_epoch=result["best_epoch"],
        epochs=result["epochs"],
        seconds=result["seconds"],
        seconds_per_epoch=float(np.median(epochs["seconds"])),
        graphs_per_second=result["graphs_per_second"],
        peak_memory_bytes=result["peak_memory_bytes"],
        curve=_curve(epochs, f"val_{result['metric']}"),
    )


def _curve(epochs: Columns, score: str) -> tuple[tuple[int, float], ...]:
    """(epoch, score) of the epochs that were validated and gave a number."""
    if score not in epochs:
        return ()
    known = np.isfinite(epochs[score])
    return tuple(zip(epochs["epoch"][known].astype(int).tolist(), epochs[score][known].tolist(), strict=True))


def _contender(made: Plan, planned: Planned, runs: Sequence[Training], failure: str) -> Contender:
    width = None if planned.recipe is None else planned.recipe.model.dim
    return Contender(planned.model, width, made.recipe.model.layers, planned.parameters, tuple(runs), failure)


def _comparison(made: Plan, seeds: int, contenders: Iterable[Contender]) -> Comparison:
    recipe = made.recipe
    return Comparison(
        recipe=recipe.name,
        title=made.title,
        metric=made.metric,
        higher_is_better=higher_is_better(made.metric),
        parameters=made.parameters,
        tolerance=made.tolerance,
        epochs=recipe.trainer.epochs,
        seeds=seeds,
        contenders=tuple(contenders),
    )


def _write(folder: Path, found: Comparison) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / COMPARISON_FILE, found.as_dict())
