"""A whole run: data, training, test, everything in its folder (:func:`train`); and several runs of one recipe.

:func:`train` checks all that can be known beforehand, reads the data, builds the model and hands both to
``_train_in_this_process``. With ``devices=2`` it starts processes instead, each of which does the same for itself.
"""

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
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
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
from pointset.encoders.native import path_of
from pointset.errors import PointsetError, SpecError, TrainingStopped
from pointset.files import read_json, replacing, write_json
from pointset.machine import peak_bytes
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder, check_space
from pointset.runs.recipe import Recipe, check_ready, check_schedule
from pointset.runs.recipe_files import changed, flattened, read_recipe
from pointset.runs.result import TEST_SCORED, DatasetNames, RunResult, environment, read_result
from pointset.training.bundle import write_bundle
from pointset.training.checkpoint import read_checkpoint
from pointset.training.data import TrainingData, build_model, check_memory, describe_data, load_data, run_bytes
from pointset.training.devices import check_device, is_first_process, make_fabric, thread_count, threads_for
from pointset.training.loop import TrainingLoop
from pointset.training.losses import recipe_loss
from pointset.training.outputs import examples_of, write_predictions
from pointset.training.progress import Watcher, Watchers, watcher_for
from pointset.training.scoring import Scores, check_metric, score

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_UNDO = "Undo the change, or start another run in another folder"
_SHARED = ("recipe", "title", "dataset", "model", "task", "level", "metric", "higher_is_better")  # by runs of a recipe


@dataclass(frozen=True)
class _Request:
    """What :func:`train` was asked for; plain values, which other processes can be given."""

    recipe: Recipe
    folder: RunFolder
    data_dir: Path | None
    device: str
    devices: int
    watch: str
    watcher: Watcher | None


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
    """Train a model by a recipe and write the run's folder; returns what ``result.json`` holds.

    The best epoch is chosen by validation; the test part is scored once, at the end. A run that was interrupted or
    killed is resumed with ``resume=True`` and ends at the same weights, bit for bit on a CPU with as many threads.

    Args:
        recipe: a recipe, its name, or its file. With ``resume`` it must be that of the run.
        run_dir: a new folder, or that of the run to resume.
        resume: resume the run in the folder; where there is none, start it.
        data_dir: the folder with the datasets.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        devices: processes on this machine (DDP). Under ``torchrun`` it is torchrun that decides.
        watch: how progress is shown: ``"auto"``, ``"bar"``, ``"plain"`` or ``"quiet"``.
        watcher: is told of every batch and epoch too; whatever it raises ends the run, and is raised here.
        data: the recipe's own, read before; where it has no test part, none is scored. Not with ``devices``.

    Raises:
        SpecError: the recipe does not fit the data, or the folder holds something else.
        MissingDataError: the data was not found.
        MemoryForecastError: the largest batch would not fit into memory.
        TrainingStopped: Ctrl-C or SIGTERM; the run can be resumed.

    Example:
        >>> result = train("counting-small", "runs/first")  # doctest: +SKIP
        >>> result["test"]["normalised_mae"]  # doctest: +SKIP
    """
    chosen = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    folder = RunFolder(run_dir)
    request = _Request(chosen, folder, None if data_dir is None else Path(data_dir), device, devices, watch, watcher)
    _check_request(request, data)
    if resume and folder.has_run:
        check_same_recipe(folder, chosen)
        if folder.is_finished:
            return read_result(folder.result)
    with folder.claim(resume=resume) if is_first_process() else nullcontext():
        if data is None:
            data = load_data(chosen, request.data_dir, progress={"bar": True, "auto": None}.get(watch, False))
        model = _checked_model(request, data)
        if devices > 1 and not torch.distributed.is_torchelastic_launched():
            return _train_in_processes(request)
        fabric = make_fabric(chosen, device)
        fabric.launch()
        return _train_in_this_process(fabric, request, data, model)


def _check_request(request: _Request, data: TrainingData | None) -> None:
    """Whatever can be known without data."""
    check_ready(request.recipe)
    check_schedule(request.recipe.schedule, request.recipe.trainer.epochs)
    check_device(request.device, request.recipe.trainer.precision)
    devices = request.devices
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise SpecError(f"got devices={devices!r}; expected a whole number, at least 1")
    if devices > 1 and (request.watcher is not None or data is not None):
        raise SpecError(f"got a watcher or data with devices={devices}, which are other processes; use devices=1")


def _checked_model(request: _Request, data: TrainingData) -> PointModel:
    """The model, after all checks that are possible before the first step."""
    recipe = request.recipe
    check_memory(recipe, data)
    check_metric(recipe.metric, data.card)
    recipe_loss(recipe, data.card.task)
    model = build_model(recipe, data.card)
    check_space(request.folder.path, run_bytes(model.num_parameters, recipe.trainer.precision))
    model.eval()(data.points[int(data.part("train")[0])])  # features that do not fit the specs are refused here
    return model


# --- one process: resume or start, train, score the test part, write


def _train_in_this_process(fabric: Fabric, request: _Request, data: TrainingData, model: PointModel) -> dict[str, Any]:
    """What each process does: train, and together score the test part; the first one writes."""
    recipe, folder, first = request.recipe, request.folder, fabric.is_global_zero
    threads = threads_for(recipe, int(os.environ.get("LOCAL_WORLD_SIZE", fabric.world_size)))  # processes here
    if folder.has_run:
        _check_unchanged(folder, recipe, data.dataset)
    elif first:
        _write_start(request, data, model, fabric, threads)
    fabric.barrier()
    checkpoint = read_checkpoint(folder.last_checkpoint) if folder.last_checkpoint.exists() else None
    with thread_count(threads):
        loop = TrainingLoop(fabric, model, data, recipe, folder, _watcher(request, first), checkpoint)
        loop.watcher.say(describe_data(data))
        loop.run()
        return _finish(loop)


def _watcher(request: _Request, first: bool) -> Watcher:
    if not first:
        return watcher_for("quiet", log_dir=None)
    log_dir = request.folder.path / "tensorboard" if request.recipe.trainer.tensorboard else None
    watcher = watcher_for(request.watch, log_dir=log_dir)
    return watcher if request.watcher is None else Watchers(watcher, request.watcher)


def _write_start(request: _Request, data: TrainingData, model: PointModel, fabric: Fabric, threads: int) -> None:
    """The recipe comes last: a folder with a recipe is a run that can be resumed."""
    folder, dataset = request.folder, data.dataset
    about = environment(device=fabric.device.type, processes=fabric.world_size, threads=threads)
    if about["device"] == "cpu":
        precision = request.recipe.trainer.precision
        about["kernels"] = path_of(model) if precision == "32" else f"torch (precision {precision})"
    source = dataset.provenance
    about["data"] = {"source": source.source, "origin": source.origin, "sha256": list(source.sha256)}
    about["recipe_sha256"] = _recipe_digest(request.recipe)
    write_json(folder.environment, about)
    save_split(folder.split, dataset.split, count=len(dataset), made_by=dataset.card.split)
    with replacing(folder.recipe) as temporary:
        temporary.write_text(request.recipe.as_yaml(), encoding="utf-8")


def _finish(loop: TrainingLoop) -> dict[str, Any]:
    """Score the test part, write what the run leaves behind; the result comes last."""
    data, recipe, folder = loop.data, loop.recipe, loop.folder
    model = loop.best_model()
    graphs = data.part("test")
    outputs = loop.predictions(graphs)
    test = score(outputs, data.targets(graphs), data.card, data.scale) if len(graphs) else Scores({}, {})
    result = _result(loop, test, model.num_parameters)
    if not loop.fabric.is_global_zero:
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
        about={"recipe": recipe.name, "seed": recipe.seed, "metric": loop.metric, "test": test.overall},
    )
    write_json(folder.result, result)
    return read_json(folder.result)


def _result(loop: TrainingLoop, test: Scores, parameters: int) -> dict[str, Any]:
    """The content of ``result.json``; ``test`` is empty where there is no test part."""
    recipe, progress, card = loop.recipe, loop.progress, loop.data.card
    best = next((row for row in progress.history if row.epoch == progress.best_epoch), None)
    speeds = sorted(row.graphs_per_second for row in progress.history)
    result = RunResult(
        recipe=recipe.name,
        title=recipe.title,
        dataset=DatasetNames(name=card.name, title=card.title),
        model=recipe.model.model_dump(mode="json"),
        task=card.task,
        level=card.level.value,
        metric=loop.metric,
        higher_is_better=metric_named(loop.metric).higher_is_better,
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
        split_sizes={part: len(indices) for part, indices in loop.data.dataset.split.items()},
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


# --- a resumed run must have the recipe and the data that it was started with: otherwise the weights would come from
# one training part and the scores from another, and nobody would notice


def check_same_recipe(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse to resume with other settings than the run was started with; the message names them."""
    before, now = flattened(read_recipe(folder.recipe).as_dict()), flattened(recipe.as_dict())
    different = [key for key in {**before, **now} if before.get(key) != now.get(key) and key != "name"]
    if different:
        lines = "\n".join(f"  {key}: {before.get(key)!r} → {now.get(key)!r}" for key in different[:8])
        raise SpecError(
            f"the run in {folder.path} was started with other settings:\n{lines}\n"
            "Resume it without them, or start another run in another folder"
        )


def _check_unchanged(folder: RunFolder, recipe: Recipe, dataset: Dataset) -> None:
    """Refuse to resume with an edited recipe.yaml, or with data or a split that changed."""
    noted = read_json(folder.environment) if folder.environment.exists() else {}
    if noted.get("recipe_sha256", _recipe_digest(recipe)) != _recipe_digest(recipe):
        raise SpecError(f"{folder.recipe} was edited after the run had started; expected it as it was. {_UNDO}")
    source = noted.get("data")
    before = source.get("sha256") if recipe.dataset.file is not None and isinstance(source, dict) else None
    if before and before != list(dataset.provenance.sha256):
        raise SpecError(f"the data {recipe.dataset.file} changed after the run had started; expected the same. {_UNDO}")
    if not folder.split.exists():
        return
    try:
        split = split_from_file(folder.split, len(dataset))
    except PointsetError as error:
        raise SpecError(f"the run's split does not fit the data: {error}. {_UNDO}") from None
    if not all(np.array_equal(split.get(part, ()), dataset.split.get(part, ())) for part in {*split, *dataset.split}):
        raise SpecError(f"the data is split differently from {folder.split}; expected the same split. {_UNDO}")


def _recipe_digest(recipe: Recipe) -> str:
    """SHA-256 over all settings but the name, which may be another when a run is resumed."""
    settings = {key: value for key, value in recipe.as_dict().items() if key != "name"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


# --- several processes on this machine: what torchrun does, without its command


def _train_in_processes(request: _Request) -> dict[str, Any]:
    """Start ``request.devices`` processes with torchrun's environment variables, and wait for them."""
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

    messages = torch.multiprocessing.get_context("spawn").SimpleQueue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start: Any = spawn  # torch has no types for it
    # Ctrl-C reaches every process: those that train stop cleanly, and this one waits for them
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        start(_process, args=(request, port, messages), nprocs=request.devices)
    except (ProcessExitedException, ProcessRaisedException) as error:
        if messages.empty():
            last = str(error).strip().splitlines()[-1]
            raise PointsetError(f"a training process ended: {last}. Resume the run with --resume") from error
        kind, message = messages.get()
        raise (TrainingStopped if kind == "stopped" else PointsetError)(message) from None
    finally:
        signal.signal(signal.SIGINT, before)
    return read_json(request.folder.result)


def _process(rank: int, request: _Request, port: int, messages: Any) -> None:
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(request.devices),
        "LOCAL_WORLD_SIZE": str(request.devices),
        "TORCHELASTIC_RUN_ID": "pointset",
    }
    torch.set_num_threads(threads_for(request.recipe, request.devices))
    try:
        fabric = make_fabric(request.recipe, request.device)
        fabric.launch()
        data = load_data(request.recipe, request.data_dir, progress=False)
        _train_in_this_process(fabric, request, data, build_model(request.recipe, data.card))
    except PointsetError as error:
        if rank == 0 or not isinstance(error, TrainingStopped):  # all of them stop, one says so
            messages.put(("stopped" if isinstance(error, TrainingStopped) else "failed", str(error)))
        sys.exit(1)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


# --- several runs of one recipe: other seeds, or the folds of a cross-validation, and their mean ± deviation


class Repeat(NamedTuple):
    """One of the runs of a recipe."""

    name: str  # of its folder: ``seed-3``, ``fold-0``, ``fold-0-seed-3``
    recipe: Recipe


def repeats_of(recipe: Recipe, seeds: int | None, folds: int | None) -> list[Repeat]:
    """The recipe with other seeds, counted from its own, and on every fold.

    Raises:
        SpecError: the numbers are impossible.
    """
    for name, number, least in (("seeds", seeds, 1), ("folds", folds, 2)):
        if number is not None and number < least:
            raise SpecError(f"got {name}={number}; expected a whole number, at least {least}")
    repeats = [Repeat("", recipe)]
    if folds is not None:
        repeats = [
            Repeat(f"fold-{fold}", changed(recipe, {"dataset.fold": fold, "dataset.folds": folds}))
            for fold in range(folds)
        ]
    if seeds is not None:
        repeats = [
            Repeat("-".join(filter(None, (repeat.name, f"seed-{seed}"))), changed(repeat.recipe, {"seed": seed}))
            for repeat in repeats
            for seed in range(recipe.seed, recipe.seed + seeds)
        ]
    return repeats


def train_many(
    repeats: Sequence[Repeat], folder: Path, train_one: Callable[[Repeat], Mapping[str, Any]]
) -> dict[str, Any]:
    """Train one after the other, and write their summary into ``folder/result.json``.

    Args:
        repeats: from :func:`repeats_of`.
        folder: holds a folder for each of them.
        train_one: trains one, or gives the result of one that is finished.
    """
    results = [train_one(repeat) for repeat in repeats]
    summary = summarised([repeat.name for repeat in repeats], results)
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
