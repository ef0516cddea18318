"""A whole run: data, training, test, everything in its folder (:func:`train`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pointset.encoders.model import PointModel
from pointset.errors import SpecError
from pointset.training.data import TrainingData, build_model, load_data
from pointset.training.devices import check_device, is_first_process, make_fabric
from pointset.training.forecast import check_memory, run_bytes
from pointset.training.job import Job
from pointset.training.learner import recipe_loss
from pointset.training.metrics import check_metric
from pointset.training.recipe import Recipe, check_ready
from pointset.training.recipe_files import read_recipe
from pointset.training.result import read_result
from pointset.training.run_folder import RunFolder, check_space
from pointset.training.schedule import check_schedule
from pointset.training.spawning import train_in_processes
from pointset.training.watcher import Watcher
from pointset.training.work import work


def train(
    recipe: Recipe | str | Path,
    run_dir: str | Path,
    *,
    resume: bool = False,
    data_dir: str | Path | None = None,
    device: str = "auto",
    devices: int = 1,
    watch: str = "auto",
    watcher: Watcher | None = None,
    data: TrainingData | None = None,
) -> dict[str, Any]:
    """Train a model by a recipe and write the run's folder; the result is also what ``result.json`` holds.

    The best epoch is chosen by validation; the test part is scored once, at the end. A run that was interrupted or
    killed is continued with ``resume=True`` and ends at the same weights, bit for bit on a CPU with as many threads.

    Args:
        recipe: a recipe, its name, or its file. With ``resume`` it must be that of the run.
        run_dir: a new folder, or that of the run to resume.
        resume: continue the run in the folder; where there is none, begin it.
        data_dir: where the data lies.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        devices: processes on this machine (DDP). Under ``torchrun`` it is torchrun that decides.
        watch: how progress is shown: ``"auto"``, ``"bar"``, ``"plain"`` or ``"quiet"``.
        watcher: is told of every batch and epoch too; whatever it raises ends the run, and is raised here.
        data: the recipe's own, read before; where it has no test part, none is scored. Not with ``devices``.

    Raises:
        SpecError: the recipe does not fit the data, or the folder holds something else.
        MissingDataError: the data is nowhere.
        MemoryForecastError: the largest batch would not fit into memory.
        TrainingStopped: Ctrl-C or SIGTERM; the run can be resumed.

    Example:
        >>> result = train("counting-small", "runs/first")  # doctest: +SKIP
        >>> result["test"]["normalised_mae"]  # doctest: +SKIP
    """
    chosen = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    job = Job(chosen, Path(run_dir), None if data_dir is None else Path(data_dir), device, devices, watch, watcher)
    _check_job(job)
    if job.devices > 1 and (watcher is not None or data is not None):
        raise SpecError(f"got a watcher or data with devices={devices}, which are other processes; use devices=1")
    if resume and job.folder.has_run:
        check_same_recipe(job.folder, chosen)
        if job.folder.is_finished:
            return read_result(job.folder.result)
    with _claimed(job, resume):
        return _train(job, data)


def check_same_recipe(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse to go on with other settings than the run was begun with.

    Raises:
        SpecError: they differ; the message names where.
    """
    before, now = flattened(read_recipe(folder.recipe).as_dict()), flattened(recipe.as_dict())
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key) and key != "name"]
    if changed:
        lines = "\n".join(f"  {key}: {before.get(key)!r} → {now.get(key)!r}" for key in changed[:8])
        raise SpecError(
            f"the run in {folder.path} was begun with other settings:\n{lines}\n"
            "Resume it without them, or begin another run in another folder"
        )


def flattened(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"model": {"dim": 64}}`` → ``{"model.dim": 64}``."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _check_job(job: Job) -> None:
    """Whatever can be known without data."""
    check_ready(job.recipe)
    check_schedule(job.recipe.schedule, job.recipe.trainer.epochs)
    check_device(job.device, job.recipe.trainer.precision)
    if isinstance(job.devices, bool) or not isinstance(job.devices, int) or job.devices < 1:
        raise SpecError(f"got devices={job.devices!r}; expected a whole number, at least 1")


@contextmanager
def _claimed(job: Job, resume: bool) -> Iterator[None]:
    """The folder is held by the first of all processes."""
    if not is_first_process():
        yield
        return
    with job.folder.claim(resume=resume):
        yield


def _train(job: Job, data: TrainingData | None) -> dict[str, Any]:
    if data is None:
        data = load_data(job.recipe, job.data_dir, progress=job.show_bars)
    check_memory(job.recipe, data)
    model = build_model(job.recipe, data.card)
    _check_against_data(job, data, model)
    if job.devices > 1 and not torch.distributed.is_torchelastic_launched():
        return train_in_processes(job)
    fabric = make_fabric(job.recipe, job.device)
    fabric.launch()
    return work(fabric, job, data)


def _check_against_data(job: Job, data: TrainingData, model: PointModel) -> None:
    """Whatever can be known before the first step."""
    recipe = job.recipe
    check_metric(recipe.metric, data.card)
    recipe_loss(recipe, data.card.task)
    check_space(job.run_dir, run_bytes(model.num_parameters, recipe.trainer.precision))
    model.eval()(data.points[int(data.part("train")[0])])  # features that do not fit the specs are refused here
