"""A whole run: data, training, test, everything in its folder (:func:`train`)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import signal
import socket
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from pointset.datasets.card import Card
from pointset.datasets.dataset import Dataset
from pointset.datasets.molecules.reader import OGB_READER, MoleculeReader
from pointset.datasets.splits import save_split, split_from_file
from pointset.encoders.model import PointModel
from pointset.errors import PointsetError, SpecError
from pointset.files import read_json, replacing, write_json
from pointset.machine import peak_bytes
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder, check_space
from pointset.runs.recipe import Recipe, check_ready
from pointset.runs.recipe_files import changed, read_recipe
from pointset.runs.result import TEST_SCORED, DatasetNames, RunResult, environment, read_result
from pointset.training.bundle import write_bundle
from pointset.training.checkpoint import read_checkpoint
from pointset.training.data import TrainingData, build_model, check_memory, data_in_words, load_data, run_bytes
from pointset.training.devices import (
    check_device,
    is_first_process,
    make_fabric,
    processes_here,
    thread_count,
    threads_for,
)
from pointset.training.interruption import TrainingStopped
from pointset.training.loop import Fitting, recipe_loss
from pointset.training.optim import check_schedule
from pointset.training.outputs import examples_of, write_predictions
from pointset.training.progress import Watcher, Watchers, watcher_for
from pointset.training.scoring import Scores, check_metric, score

if TYPE_CHECKING:
    from lightning.fabric import Fabric


# A run as every process gets it: plain values (:class:`Job`).


@dataclass(frozen=True)
class Job:
    """A run as every process gets it; plain values, so that it can be handed to others."""

    recipe: Recipe
    run_dir: Path
    data_dir: Path | None = None
    device: str = "auto"
    devices: int = 1
    watch: str = "auto"  # auto, bar, plain or quiet
    watcher: Watcher | None = None  # is told too

    @property
    def folder(self) -> RunFolder:
        """Where it all goes."""
        return RunFolder(self.run_dir)

    @property
    def show_bars(self) -> bool | None:
        """Whether reading and decomposing show bars."""
        return {"bar": True, "auto": None}.get(self.watch, False)


# Whether a resumed run still has the recipe and the data that it was begun with (:func:`check_same_beginning`).
#
# Else the weights would come from one training part and the scores from another, and nobody would see it.


_REMEDY = "Undo the change, or begin another run in another folder"


def recipe_digest(recipe: Recipe) -> str:
    """SHA-256 over all settings but the name, which a resumed run may be called by otherwise."""
    settings = {key: value for key, value in recipe.as_dict().items() if key != "name"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def check_same_beginning(folder: RunFolder, recipe: Recipe, dataset: Dataset) -> None:
    """Refuse to go on with an edited recipe.yaml, or with data or a split that changed.

    Raises:
        SpecError: they differ from what the run noted when it began.
    """
    noted = read_json(folder.environment) if folder.environment.exists() else {}
    if noted.get("recipe_sha256", recipe_digest(recipe)) != recipe_digest(recipe):
        raise SpecError(f"{folder.recipe} was edited after the run had begun; expected it as it was. {_REMEDY}")
    source = noted.get("data")
    before = source.get("sha256") if recipe.dataset.file is not None and isinstance(source, dict) else None
    if before and before != list(dataset.provenance.sha256):
        raise SpecError(f"the data {recipe.dataset.file} changed after the run had begun; expected the same. {_REMEDY}")
    if folder.split.exists() and not _is_same_split(folder, dataset):
        raise SpecError(f"the data is split otherwise than in {folder.split}; expected the same split. {_REMEDY}")


def _is_same_split(folder: RunFolder, dataset: Dataset) -> bool:
    try:
        before = split_from_file(folder.split, len(dataset))
    except PointsetError as error:
        raise SpecError(f"the run's split does not fit the data: {error}. {_REMEDY}") from None
    parts = {*before, *dataset.split}
    return all(np.array_equal(before.get(part, ()), dataset.split.get(part, ())) for part in parts)


# What each process of a run does (:func:`work`): train, then together score the test part; the first one writes.


def work(fabric: Fabric, job: Job, data: TrainingData | None = None) -> dict[str, Any]:
    """What each process does: train, and together score the test part; the first one writes."""
    if data is None:
        data = load_data(job.recipe, job.data_dir, progress=False)
    folder, first = job.folder, fabric.is_global_zero
    threads = threads_for(job.recipe, processes_here(fabric))
    if folder.has_run:
        check_same_beginning(folder, job.recipe, data.dataset)
    elif first:
        _write_beginning(job, data, fabric, threads)
    fabric.barrier()
    checkpoint = read_checkpoint(folder.last_checkpoint) if folder.last_checkpoint.exists() else None
    log_dir = folder.path / "tensorboard" if job.recipe.trainer.tensorboard else None
    watcher = watcher_for(job.watch, log_dir=log_dir) if first else watcher_for("quiet", log_dir=None)
    if first and job.watcher is not None:
        watcher = Watchers(watcher, job.watcher)
    with thread_count(threads):
        model = build_model(job.recipe, data.card)
        fitting = Fitting(fabric, model, data, job.recipe, folder, watcher, checkpoint)
        watcher.say(data_in_words(data))
        fitting.run()
        return _finish(fitting)


def _write_beginning(job: Job, data: TrainingData, fabric: Fabric, threads: int) -> None:
    """The recipe comes last: a folder with a recipe is a run that can be resumed."""
    folder, dataset = job.folder, data.dataset
    about = environment(device=fabric.device.type, processes=fabric.world_size, threads=threads)
    source = dataset.provenance
    about["data"] = {"source": source.source, "origin": source.origin, "sha256": list(source.sha256)}
    about["recipe_sha256"] = recipe_digest(job.recipe)
    write_json(folder.environment, about)
    save_split(folder.split, dataset.split, count=len(dataset), made_by=dataset.card.split)
    with replacing(folder.recipe) as temporary:
        temporary.write_text(job.recipe.as_yaml(), encoding="utf-8")


def _finish(fitting: Fitting) -> dict[str, Any]:
    """Score the test part, write what the run leaves behind; the result comes last."""
    fabric, data, recipe, folder = fitting.fabric, fitting.data, fitting.recipe, fitting.folder
    model = fitting.best_model()
    graphs = data.part("test")
    outputs = fitting.predictions(graphs)
    test = score(outputs, data.targets(graphs), data.card, data.scale) if len(graphs) else Scores({}, {})
    result = _result(fitting, test, model.num_parameters)
    if not fabric.is_global_zero:
        return result
    if len(graphs):
        write_predictions(folder.predictions, data, graphs, outputs)
        write_json(folder.examples, examples_of(model, data, graphs, outputs))
    write_bundle(
        folder.bundle,
        model,
        data.card,
        scale=data.scale,
        weighted_edges=recipe.dataset.weighted_edges,
        molecule_reader=_reader_settings(recipe, data.card),
        about={"recipe": recipe.name, "seed": recipe.seed, "metric": fitting.metric, "test": test.overall},
    )
    write_json(folder.result, result)
    return read_json(folder.result)


def _result(fitting: Fitting, test: Scores, parameters: int) -> dict[str, Any]:
    """The content of ``result.json``; ``test`` is empty where there is no test part."""
    recipe, progress, card = fitting.recipe, fitting.progress, fitting.data.card
    best = next((row for row in progress.history if row.epoch == progress.best_epoch), None)
    speeds = sorted(row.graphs_per_second for row in progress.history)
    result = RunResult(
        recipe=recipe.name,
        title=recipe.title,
        dataset=DatasetNames(name=card.name, title=card.title),
        model=recipe.model.model_dump(mode="json"),
        task=card.task,
        level=card.level.value,
        metric=fitting.metric,
        higher_is_better=metric_named(fitting.metric).higher_is_better,
        test=dict(test.overall),
        val={} if best is None else dict(best.val),
        per_target={target: dict(scores) for target, scores in test.per_target.items()},
        best_epoch=progress.best_epoch,
        epochs=progress.epoch,
        stopped_early=progress.stopped_early,
        parameters=parameters,
        seconds=round(progress.seconds, 3),
        graphs_per_second=speeds[len(speeds) // 2] if speeds else None,
        peak_memory_bytes=peak_bytes(),
        seed=recipe.seed,
        fold=recipe.dataset.fold,
        expected=recipe.expected,
        units={target.name: target.unit for target in card.targets},
        classes=list(card.classes),
        split_sizes={part: len(indices) for part, indices in fitting.data.dataset.split.items()},
        test_scored=TEST_SCORED if test.overall else "there is no test part",
    )
    return result.model_dump(mode="json")


def _reader_settings(recipe: Recipe, card: Card) -> dict[str, Any] | None:
    """How the molecules were read: own ones by the options, benchmarks as OGB does."""
    if card.molecules is None:
        return None
    if recipe.dataset.name is not None:
        return dataclasses.asdict(OGB_READER)
    known = [field.name for field in dataclasses.fields(MoleculeReader)]
    return {key: value for key, value in recipe.dataset.options.items() if key in known}


# Several processes on this machine (``devices=2``): what ``torchrun`` does for one machine, without its command.
#
# Each process is started anew with torchrun's environment variables, so that there is one way from one process to
# many.


def train_in_processes(job: Job) -> dict[str, Any]:
    """Run the job in ``job.devices`` processes.

    Raises:
        TrainingStopped: it was interrupted.
        PointsetError: a process failed.
    """
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

    messages = torch.multiprocessing.get_context("spawn").SimpleQueue()
    try:
        with _interrupts_left_to_the_others():
            start: Any = spawn  # torch has no types for it
            start(_process, args=(job, _free_port(), messages), nprocs=job.devices)
    except (ProcessExitedException, ProcessRaisedException) as error:
        if messages.empty():
            last = str(error).strip().splitlines()[-1]
            raise PointsetError(f"a training process ended: {last}. Go on with --resume") from error
        kind, message = messages.get()
        raise (TrainingStopped if kind == "stopped" else PointsetError)(message) from None
    return read_json(job.folder.result)


def _process(rank: int, job: Job, port: int, messages: Any) -> None:
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(job.devices),
        "LOCAL_WORLD_SIZE": str(job.devices),
        "TORCHELASTIC_RUN_ID": "pointset",
    }
    torch.set_num_threads(threads_for(job.recipe, job.devices))
    try:
        fabric = make_fabric(job.recipe, job.device)
        fabric.launch()
        work(fabric, job)
    except PointsetError as error:
        if rank == 0 or not isinstance(error, TrainingStopped):  # all of them stop, one says so
            messages.put(("stopped" if isinstance(error, TrainingStopped) else "failed", str(error)))
        sys.exit(1)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def _interrupts_left_to_the_others() -> Iterator[None]:
    """Ctrl-C reaches every process: those that train stop cleanly, and this one waits for them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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


# Several runs of one recipe: other seeds, or the folds of a cross-validation, and their mean ± deviation.


_SHARED = ("recipe", "title", "dataset", "model", "task", "level", "metric", "higher_is_better")  # by all runs


class Part(NamedTuple):
    """One of the runs."""

    name: str  # of its folder: ``seed-3``, ``fold-0``, ``fold-0-seed-3``
    recipe: Recipe


def parts_of(recipe: Recipe, seeds: int | None, folds: int | None) -> list[Part]:
    """The runs that are asked for; seeds count from the recipe's own.

    Raises:
        SpecError: the numbers are impossible.
    """
    for name, number, least in (("seeds", seeds, 1), ("folds", folds, 2)):
        if number is not None and number < least:
            raise SpecError(f"got {name}={number}; expected a whole number, at least {least}")
    parts = [Part("", recipe)]
    if folds is not None:
        parts = [
            Part(f"fold-{fold}", changed(recipe, {"dataset.fold": fold, "dataset.folds": folds}))
            for fold in range(folds)
        ]
    if seeds is not None:
        numbers = range(recipe.seed, recipe.seed + seeds)
        parts = [
            Part("-".join(filter(None, (part.name, f"seed-{seed}"))), changed(part.recipe, {"seed": seed}))
            for part in parts
            for seed in numbers
        ]
    return parts


def train_many(parts: Sequence[Part], folder: Path, train_one: Callable[[Part], Mapping[str, Any]]) -> dict[str, Any]:
    """Train the parts one after the other, and write their summary into ``folder/result.json``.

    Args:
        parts: what :func:`parts_of` gave.
        folder: holds a folder for each part.
        train_one: trains a part, or gives the result of one that is finished.
    """
    results = [train_one(part) for part in parts]
    summary = summarised([part.name for part in parts], results)
    write_json(folder / "result.json", summary)
    return summary


def summarised(names: Sequence[str], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations (division by the number of runs minus one) over runs of one recipe."""
    first = results[0]
    per_target = {
        target: {metric: _spread([result["per_target"][target][metric] for result in results]) for metric in scores}
        for target, scores in first["per_target"].items()
    }
    return {
        "runs": list(names),
        **{key: first[key] for key in _SHARED},
        "test": {metric: _spread([result["test"][metric] for result in results]) for metric in first["test"]},
        "per_target": per_target,
        "parameters": first["parameters"],
        "seconds": round(sum(result["seconds"] for result in results), 3),
        "expected": first["expected"],
        "test_scored": first["test_scored"],
    }


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return {
        "mean": statistics.fmean(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
        "values": list(values),
    }
