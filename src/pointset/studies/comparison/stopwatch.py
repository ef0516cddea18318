"""What runs in the process of a model that is measured: the model is made once, then trains batches when it is told to.

Every model has a process of its own, so that its peak of memory is its own, and each process holds one model.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from pointset.datasets.card import Task
from pointset.encoders.batch import PointBatch
from pointset.encoders.loader import PointLoader
from pointset.encoders.model import PointModel
from pointset.process_memory import forget_peak, peak_bytes, resident_bytes
from pointset.training.batches import training_batches
from pointset.training.data import TrainingData, build_model, load_data
from pointset.training.devices import DTYPES, make_fabric
from pointset.training.forecast import check_memory
from pointset.training.learner import Learner, recipe_loss
from pointset.training.recipe import Recipe

Batches = Sequence[Sequence[int]]  # of an epoch, as numbers of graphs in the training part


class Ready(NamedTuple):
    """A model is made."""

    parameters: int
    batches: Batches  # of its first epoch
    seconds: float  # to read the data and make the model


class Timed(NamedTuple):
    """Some steps are done."""

    seconds: float
    peak_bytes: int  # above what was resident before the first step of all
    cpu_seconds: float = 0.0  # of the processor, all threads together: other work on the machine changes it little


class Stopwatch:
    """Times training steps of a model, which are those of :class:`~pointset.training.learner.Learner`."""

    def __init__(self, recipe: Recipe, model: PointModel, task: Task, threads: int):
        torch.set_num_threads(threads)
        fabric = make_fabric(recipe, "cpu")
        fabric.launch()
        self.learner = Learner(fabric, model, recipe, recipe_loss(recipe, task), lambda step: 1.0)
        model.train()
        self.steps = 0
        self.resident = resident_bytes()

    def time(self, batches: Iterable[PointBatch]) -> Timed:
        """Train on these."""
        forget_peak()
        start, cpu_start = time.perf_counter(), time.process_time()
        for batch in batches:
            self.learner.step(batch, (0, self.steps), self.steps, idle=False, stop=False)
            self.steps += 1
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        return Timed(seconds, max(0, peak_bytes() - self.resident), cpu_seconds)


class _OnDataset(NamedTuple):
    stopwatch: Stopwatch
    data: TrainingData
    dtype: torch.dtype


_here: dict[str, _OnDataset] = {}  # the one model of this process


def make_ready(recipe: Recipe, data_dir: Path | None, threads: int) -> Ready:
    """Read the data and make the model of this process."""
    start = time.perf_counter()
    data = load_data(recipe, data_dir, progress=False)
    check_memory(recipe, data)
    model = build_model(recipe, data.card)
    graphs = data.part("train")
    batches = training_batches(data.points.num_nodes[graphs], data.points.ranks[graphs], recipe)
    stopwatch = Stopwatch(recipe, model, data.card.task, threads)
    _here["model"] = _OnDataset(stopwatch, data, DTYPES[recipe.trainer.precision])
    return Ready(model.num_parameters, list(batches), time.perf_counter() - start)


def time_batches(batches: Batches) -> Timed:
    """Train the model of this process on these batches; gathering them belongs to it."""
    stopwatch, data, dtype = _here["model"]
    unused = torch.Generator()  # without one, torch draws from the global one
    loader = PointLoader(data.points, indices=data.part("train"), dtype=dtype, batch_sampler=batches, generator=unused)
    return stopwatch.time(loader)
