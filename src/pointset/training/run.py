"""A whole run: data, training, test, everything in its folder (:func:`train`); and several runs of one recipe.

:func:`train` checks all that can be known beforehand, reads the data, builds the model and hands both to
``_train_in_this_process``. With ``devices=2`` it starts processes instead, each of which does the same for itself.
"""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from pointset.datasets.dataset import Dataset
from pointset.datasets.splits import save_split, split_from_file
from pointset.encoders.model import PointModel
from pointset.encoders.native import path_of
from pointset.errors import PointsetError, SpecError, TrainingStopped
from pointset.extensions import import_named, needed, passed_on
from pointset.files import read_json, replacing, write_json
from pointset.machine import cores
from pointset.runs.folder import RunFolder, check_space
from pointset.runs.recipe import Recipe, check_ready, check_schedule, check_snapshots
from pointset.runs.recipe_files import changed, flattened, read_recipe
from pointset.runs.result import environment, read_result, write_metrics
from pointset.stopping import SIGNALS, end_in_time, saving
from pointset.training.baselines import missing_baseline
from pointset.training.bundle import read_bundle
from pointset.training.checkpoint import Checkpoint, read_checkpoint, recipe_digest, run_digest
from pointset.training.data import (
    TrainingData,
    check_learnable,
    check_memory,
    describe_data,
    first_model,
    load_data,
    run_bytes,
    training_data,
    with_choices,
)
from pointset.training.devices import check_device, is_first_process, make_fabric, thread_count, threads_for
from pointset.training.ensemble import mean_progress, member_recipes, members_at_once, train_members
from pointset.training.finish import Trained, finish
from pointset.training.loop import TrainingLoop
from pointset.training.losses import recipe_loss
from pointset.training.progress import MemberDisplay, Watcher, Watchers, watcher_for
from pointset.training.scoring import check_metric
from pointset.training.timing import ThreadChoice, choose_threads

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_BARS = {"bar": True, "auto": None}  # by how progress is shown; None: on a terminal
_EARLIER_SECONDS, _END_SECONDS = 1.0, 2.0  # by which processes are ended before their parent, and its patience
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
    is_member: bool = False  # of an ensemble, which is scored instead


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
    data: TrainingData | Dataset | None = None,
    ensemble: int | None = None,
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
        data: a dataset, such as :func:`pointset.datasets.from_graphs` makes, in the place of the recipe's own; where it
            has no test part, none is scored. Not with ``devices``.
        ensemble: train so many members, with seeds counted from the recipe's, in ``members/`` of the folder, side by
            side where cores are free; the run's model is their mean. The recipe's key ``ensemble`` says the same.

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
    chosen = chosen if ensemble is None else changed(chosen, {"ensemble": ensemble})
    where = None if data_dir is None else Path(data_dir)
    if isinstance(data, Dataset):
        data = training_data(with_choices(data, chosen.dataset), chosen, progress=_BARS.get(watch, False))
    return _train(_Request(chosen, RunFolder(run_dir), where, device, devices, watch, watcher), resume, data)


def _train(request: _Request, resume: bool, data: TrainingData | None) -> dict[str, Any]:
    chosen, folder = request.recipe, request.folder
    _check_request(request, data)
    if resume and folder.has_run:
        check_same_recipe(folder, chosen)
        if folder.is_finished:
            return read_result(folder.result)
    with folder.claim(resume=resume) if is_first_process() else nullcontext():
        if data is None:
            data = load_data(chosen, request.data_dir, progress=_BARS.get(request.watch, False))
        model = _checked_model(request, data)
        if chosen.ensemble is not None:
            return _train_ensemble(request, data, model)
        if request.devices > 1 and not torch.distributed.is_torchelastic_launched():
            return _train_in_processes(request)
        fabric = make_fabric(chosen, request.device)
        fabric.launch()
        return _train_in_this_process(fabric, request, data, model)


def _check_request(request: _Request, data: TrainingData | None) -> None:
    """Whatever can be known without data."""
    if data is None:
        check_ready(request.recipe)
    check_schedule(request.recipe.schedule, request.recipe.trainer.epochs)
    check_snapshots(request.recipe)
    check_device(request.device, request.recipe.trainer.precision)
    devices = request.devices
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise SpecError(f"got devices={devices!r}; expected a whole number, at least 1")
    if devices > 1 and (request.watcher is not None or data is not None):
        raise SpecError(f"got a watcher or data with devices={devices}, which are other processes; use devices=1")
    if request.recipe.ensemble is not None and (devices > 1 or torch.distributed.is_torchelastic_launched()):
        raise SpecError("got an ensemble on several devices; expected one process, which trains members side by side")


def _checked_model(request: _Request, data: TrainingData) -> PointModel:
    """The model, after all checks that are possible before the first step."""
    recipe = request.recipe
    check_memory(recipe, data)
    check_metric(recipe.metric, data.card)
    recipe_loss(recipe, data.card.task)
    check_learnable(data)
    model = first_model(recipe, data)
    check_space(request.folder.path, run_bytes(model.num_parameters, recipe.trainer))
    first = data.part("train")[:1]
    pairs = None if data.links is None else data.links.asked(first)[0]
    model.eval()(data.points[int(first[0])], pairs=pairs)  # features that do not fit the specs are refused here
    return model


# --- one process: resume or start, train, score the test part, write


def _train_in_this_process(fabric: Fabric, request: _Request, data: TrainingData, model: PointModel) -> dict[str, Any]:
    """What each process does: train, and together score the test part; the first one writes."""
    recipe, folder, first = request.recipe, request.folder, fabric.is_global_zero
    if was_begun := folder.has_run:
        _check_unchanged(folder, recipe, data.given)
    threads = _threads(fabric, request, data, model)
    if first and not folder.has_run:
        _write_start(request, data, model, fabric, threads)
    fabric.barrier()
    checkpoint = _checkpoint(folder, recipe, data)
    with thread_count(threads.threads):
        loop = TrainingLoop(fabric, model, data, recipe, folder, _watcher(request, first), checkpoint)
        if not request.is_member:  # the ensemble says it once
            for note in _notes(recipe, data):
                loop.watcher.say(note)
        if threads.why:
            loop.watcher.say(str(threads))
        if was_begun and checkpoint is None:
            loop.watcher.say("no checkpoint had been written, so training begins at epoch 1")
        loop.run()
        return finish(_trained(loop, request))


def _checkpoint(folder: RunFolder, recipe: Recipe, data: TrainingData) -> Checkpoint | None:
    """Where the run in the folder has come to."""
    if not folder.last_checkpoint.exists():
        return None
    checkpoint = read_checkpoint(folder.last_checkpoint)
    if checkpoint.run not in ("", run_digest(recipe, data.given.split)):
        raise SpecError(
            f"{folder.last_checkpoint} is of another run: its settings or its split differ from {folder.recipe}. Put "
            "back the run's own, or remove it, and training begins at epoch 1"
        )
    return checkpoint


def _notes(recipe: Recipe, data: TrainingData) -> list[str]:
    """What people should know before the first epoch: what was read and guessed, and what will be missing."""
    missing = missing_baseline(data) if recipe.trainer.baseline else None
    return [describe_data(data), *(f"- {warning}" for warning in (*data.warnings, *filter(None, [missing])))]


def _trained(loop: TrainingLoop, request: _Request) -> Trained:
    members = loop.members()
    return Trained(
        loop.recipe,
        loop.data,
        loop.folder,
        models=tuple(members.values()),
        names=tuple(members),
        progress=loop.progress,
        rank=loop.fabric.global_rank,
        processes=loop.fabric.world_size,
        bars=_BARS.get(request.watch, False),
        is_member=request.is_member,
    )


def _threads(fabric: Fabric, request: _Request, data: TrainingData, model: PointModel) -> ThreadChoice:
    """As the recipe says; as before, for a run that is resumed; else what is faster, where there is a choice."""
    recipe, folder = request.recipe, request.folder
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", fabric.world_size))  # on this machine
    if recipe.trainer.threads is not None or processes > 1 or fabric.device.type != "cpu":
        return ThreadChoice(threads_for(recipe, processes))
    noted = read_json(folder.environment).get("threads") if folder.has_run and folder.environment.exists() else None
    if not isinstance(noted, int) or noted < 1:
        return choose_threads(recipe, model, data)
    if noted > cores():  # threads that share a core are many times slower than one
        return ThreadChoice(cores(), f"the run was started with {noted}, which this machine does not have")
    return ThreadChoice(noted, "as the run was started")


def _watcher(request: _Request, first: bool) -> Watcher:
    if not first:
        return watcher_for("quiet", log_dir=None)
    log_dir = request.folder.path / "tensorboard" if request.recipe.trainer.tensorboard else None
    watcher = watcher_for(request.watch, log_dir=log_dir)
    return watcher if request.watcher is None else Watchers(watcher, request.watcher)


def _write_start(
    request: _Request, data: TrainingData, model: PointModel, fabric: Fabric, threads: ThreadChoice
) -> None:
    """The recipe comes last: a folder with a recipe is a run that can be resumed."""
    folder, dataset = request.folder, data.given
    about = environment(device=fabric.device.type, processes=fabric.world_size, threads=threads.threads)
    about |= {"threads_why": threads.why} if threads.why else {}
    if about["device"] == "cpu":
        precision = request.recipe.trainer.precision
        about["kernels"] = path_of(model) if precision == "32" else f"torch (precision {precision})"
    recipe, metric = request.recipe, request.recipe.metric or data.card.metric.value
    own = needed(("encoder", recipe.model.preset), ("metric", metric), ("dataset", recipe.dataset.name))
    about |= {"extensions": own} if own else {}
    source = dataset.provenance
    about["data"] = {"source": source.source, "origin": source.origin, "sha256": list(source.sha256)}
    about["recipe_sha256"] = recipe_digest(request.recipe)
    write_json(folder.environment, about)
    save_split(folder.split, dataset.split, count=dataset.split_count, made_by=dataset.card.split)
    with replacing(folder.recipe) as temporary:
        temporary.write_text(request.recipe.as_yaml(), encoding="utf-8")


# --- an ensemble: members with other seeds, each a run of its own, and their mean


def _train_ensemble(request: _Request, data: TrainingData, model: PointModel) -> dict[str, Any]:
    """Train the members, then score and write what is one model to its users."""
    recipe, folder = request.recipe, request.folder
    fabric, threads = make_fabric(recipe, request.device), ThreadChoice(recipe.trainer.threads or 1)
    if folder.has_run:
        _check_unchanged(folder, recipe, data.given)
    else:
        _write_start(request, data, model, fabric, threads)
    members = member_recipes(recipe)
    folders = {name: RunFolder(folder.members / name) for name in members}
    names = {name: member.is_finished for name, member in folders.items()}
    display = MemberDisplay(request.watch, list(members))
    at_once = members_at_once(recipe, list(names.values()).count(False), on_cpu=fabric.device.type == "cpu")
    at_once = at_once if request.watcher is None else 1  # which belongs to this process
    for note in _notes(recipe, data):
        display.say(note)
    display.say(f"ensemble of {len(members)} members, {at_once} at a time")
    without_test = {part: graphs for part, graphs in data.dataset.split.items() if part != "test"}
    seen = dataclasses.replace(data, dataset=data.dataset.with_split(without_test))
    train_members(_MemberTraining(request, seen), names, display, at_once=at_once, watcher=request.watcher)
    progress = mean_progress([read_checkpoint(member.last_checkpoint).progress for member in folders.values()])
    write_metrics(folder.metrics, progress.history)
    models = {name: read_bundle(member.bundle).models for name, member in folders.items()}
    with thread_count(threads.threads):
        return finish(
            Trained(
                recipe,
                data,
                folder,
                models=tuple(model.to(fabric.device) for of_member in models.values() for model in of_member),
                names=tuple(
                    f"seed {members[name].seed}" + (f", snapshot {at + 1}" if len(of_member) > 1 else "")
                    for name, of_member in models.items()
                    for at in range(len(of_member))
                ),
                progress=progress,
                bars=_BARS.get(request.watch, False),
            )
        )


@dataclass(frozen=True, eq=False)
class _MemberTraining:
    """Trains a member of an ensemble, or resumes it; can be handed to another process."""

    request: _Request
    data: TrainingData  # without the test part

    def __call__(self, name: str, watcher: Watcher) -> None:
        folder, recipe = RunFolder(self.request.folder.members / name), member_recipes(self.request.recipe)[name]
        change: dict[str, Any] = {"recipe": recipe, "folder": folder, "is_member": True, "watch": "quiet"}
        _train(dataclasses.replace(self.request, watcher=watcher, **change), True, self.data)

    def __getstate__(self) -> dict[str, Any]:
        return {"request": dataclasses.replace(self.request, watcher=None), "data": self.data}


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
    if noted.get("recipe_sha256", recipe_digest(recipe)) != recipe_digest(recipe):
        raise SpecError(f"{folder.recipe} was edited after the run had started; expected it as it was. {_UNDO}")
    source = noted.get("data")
    before = source.get("sha256") if recipe.dataset.file is not None and isinstance(source, dict) else None
    if before and before != list(dataset.provenance.sha256):
        raise SpecError(f"the data {recipe.dataset.file} changed after the run had started; expected the same. {_UNDO}")
    if not folder.split.exists():
        return
    try:
        split = split_from_file(folder.split, dataset.split_count)
    except PointsetError as error:
        raise SpecError(f"the run's split does not fit the data: {error}. {_UNDO}") from None
    if not all(np.array_equal(split.get(part, ()), dataset.split.get(part, ())) for part in {*split, *dataset.split}):
        raise SpecError(f"the data is split differently from {folder.split}; expected the same split. {_UNDO}")


# --- several processes on this machine: what torchrun does, without its command


def _train_in_processes(request: _Request) -> dict[str, Any]:
    """Start ``request.devices`` processes with torchrun's environment variables, and wait for them."""
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

    messages = torch.multiprocessing.get_context("spawn").SimpleQueue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start: Any = spawn  # torch has no types for it
    with passed_on():
        context = start(_process, args=(request, port, messages), nprocs=request.devices, join=False)
    try:
        with _passed_on(context.pids()) as asked, saving(lambda: _last_message(context, messages)):
            while not context.join():
                pass
    except (ProcessExitedException, ProcessRaisedException) as error:
        if not messages.empty():
            kind, message = messages.get()
            raise (TrainingStopped if kind == "stopped" else PointsetError)(message) from None
        if asked:
            raise KeyboardInterrupt from None  # before there was anything to save
        last = str(error).strip().splitlines()[-1]
        raise PointsetError(f"a training process ended: {last}. Resume the run with --resume") from error
    return read_json(request.folder.result)


@contextmanager
def _passed_on(processes: Sequence[int]) -> Iterator[list[int]]:
    """Inside, Ctrl-C and SIGTERM are noted in a list, and passed on to the processes: those that train stop cleanly."""
    asked: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)  # a terminal has sent them Ctrl-C already, and a second one is rude

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_message(context: Any, messages: Any) -> str:
    """What the first process says when it ends, which it does before this one."""
    deadline = time.monotonic() + _END_SECONDS
    for process in context.processes:
        process.join(max(0.0, deadline - time.monotonic()))
    return "" if messages.empty() else str(messages.get()[1])


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
    # The parent ends all when one has ended: the first, which saves and speaks, is given time before the others.
    end_in_time(
        lambda said: messages.put(("stopped", said)) if said and rank == 0 else None,
        code=1,
        earlier=_EARLIER_SECONDS if rank == 0 else -_EARLIER_SECONDS,
    )
    try:
        import_named()
        fabric = make_fabric(request.recipe, request.device)
        fabric.launch()
        data = load_data(request.recipe, request.data_dir, progress=False)
        _train_in_this_process(fabric, request, data, first_model(request.recipe, data))
    except PointsetError as error:
        if rank == 0 or not isinstance(error, TrainingStopped):  # all of them stop, one says so
            messages.put(("stopped" if isinstance(error, TrainingStopped) else "failed", str(error)))
        if isinstance(error, TrainingStopped):
            torch.distributed.barrier()  # the others are ended when one has ended: not before the first has spoken
        sys.exit(1)
    except KeyboardInterrupt:
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
    repeats, step = [Repeat("", recipe)], recipe.ensemble or 1  # no two ensembles have a member in common
    if folds is not None:
        repeats = [
            Repeat(f"fold-{fold}", changed(recipe, {"dataset.fold": fold, "dataset.folds": folds}))
            for fold in range(folds)
        ]
    if seeds is not None:
        repeats = [
            Repeat("-".join(filter(None, (repeat.name, f"seed-{seed}"))), changed(repeat.recipe, {"seed": seed}))
            for repeat in repeats
            for seed in range(recipe.seed, recipe.seed + seeds * step, step)
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
