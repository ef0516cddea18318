"""How long training takes here, from a few of its own steps: a whole run (:func:`forecast_run`), and whether one thread
or all are faster (:func:`choose_threads`).

The steps are those of :class:`~pointset.training.loop.Learner`, on a model of their own: nothing that is timed changes
the run that is timed.
"""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from pointset.datasets.card import Task
from pointset.encoders.batch import PointBatch
from pointset.encoders.loader import PointLoader
from pointset.encoders.model import PointModel
from pointset.machine import cores, cores_used_by_others, forget_peak, peak_bytes, resident_bytes, training_bytes
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import with_enough_epochs
from pointset.text import counted
from pointset.training.batches import training_batches
from pointset.training.data import TrainingData, build_model, check_memory
from pointset.training.devices import DTYPES, make_fabric, thread_count
from pointset.training.loop import Learner
from pointset.training.losses import recipe_loss

Batches = Sequence[Sequence[int]]  # of an epoch, as numbers of graphs in the training part


class Timed(NamedTuple):
    """Some steps are done."""

    seconds: float
    peak_bytes: int  # above what was resident before the first step of all
    cpu_seconds: float = 0.0  # of the processor, all threads together: other work on the machine changes it little


class Stopwatch:
    """Times training steps of a model, which it changes by learning at ``rate`` times the recipe's rate."""

    def __init__(self, recipe: Recipe, model: PointModel, task: Task, threads: int, *, rate: float = 1.0):
        torch.set_num_threads(threads)
        fabric = make_fabric(recipe, "cpu")
        fabric.launch()
        self.learner = Learner(fabric, model, recipe, recipe_loss(recipe, task), lambda step: rate)
        model.train()
        self.steps = 0
        self.resident = resident_bytes()

    def time(self, batches: Iterable[PointBatch]) -> Timed:
        """Train on these."""
        forget_peak()
        start, cpu_start = time.perf_counter(), time.process_time()
        for batch in batches:
            self.learner.gradients(batch, (0, self.steps), self.steps, idle=False, stop=False)
            self.learner.apply()
            self.steps += 1
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        return Timed(seconds, max(0, peak_bytes() - self.resident), cpu_seconds)


def training_loader(recipe: Recipe, data: TrainingData, batches: Batches) -> Iterable[PointBatch]:
    """These batches of the training part."""
    unused = torch.Generator()  # without one, torch draws from the global one
    dtype = DTYPES[recipe.trainer.precision]
    loader = PointLoader(data.points, indices=data.part("train"), dtype=dtype, batch_sampler=batches, generator=unused)
    return loader if data.links is None else (data.links.training_batch(batch, unused) for batch in loader)


# --- how long a run will take

_LEAST_STEPS, _MOST_STEPS = 2, 20
_SECONDS = 2.0  # of steps that are timed
_EVALUATED = 1 / 3  # time of a graph without its gradient, as a share of that with it


class RunForecast(NamedTuple):
    """Of a run on this machine's CPU."""

    epoch_seconds: float  # with validation
    test_seconds: float  # of the test at the end
    memory_bytes: int  # of the process at its largest batch

    def seconds(self, epochs: int) -> float:
        """Of so many epochs and the test; early stopping may end it sooner."""
        return self.epoch_seconds * epochs + self.test_seconds


def forecast_run(recipe: Recipe, data: TrainingData, threads: int) -> RunForecast:
    """Time some steps on so many threads; it raises what the run itself would raise at its start."""
    check_memory(recipe, data)
    graphs = data.part("train")
    with thread_count(threads):
        stopwatch = Stopwatch(recipe, build_model(recipe, data.card), data.card.task, threads)
        largest = stopwatch.time(training_loader(recipe, data, [_largest_batch(recipe, data)]))  # also warms up
        batches = training_batches(data.points.num_nodes[graphs], data.points.ranks[graphs], recipe)
        seconds, timed = 0.0, 0
        for step, batch in enumerate(islice(batches, _MOST_STEPS), 1):
            seconds += stopwatch.time(training_loader(recipe, data, [batch])).seconds
            timed += len(batch)
            if step >= _LEAST_STEPS and seconds >= _SECONDS:
                break
    rate = seconds / timed
    validated = len(data.part("val")) / recipe.trainer.validate_every
    epoch = rate * (len(graphs) + _EVALUATED * validated)
    memory = resident_bytes() + largest.peak_bytes
    return RunForecast(epoch, rate * _EVALUATED * len(data.part("test")), memory)


def _largest_batch(recipe: Recipe, data: TrainingData) -> list[int]:
    """The largest graphs together, as chance may have it; with a budget of memory, the largest that fits alone."""
    graphs, model = data.part("train"), recipe.model
    sizes = training_bytes(data.points.num_nodes[graphs], data.points.ranks[graphs], dim=model.dim, layers=model.layers)
    count = 1 if recipe.trainer.memory_budget is not None else recipe.trainer.batch_size
    largest: list[int] = np.argsort(-sizes, kind="stable")[:count].tolist()
    return largest


# --- one thread or all

_SHORT_SECONDS = 10.0  # a run of less on one thread takes one: measuring would cost what it gains
_MOST_SECONDS, _MOST_SHARE = 2.0, 0.02  # of the measuring itself, in all and of the expected time
_LEAST_ROUNDS, _MOST_ROUNDS = 2, 5
_SAMPLE_SECONDS = 0.03  # steps shorter than this are timed several at a time
_WORTH = 0.85  # all threads must take at most this share of one thread's time: other work may come at any time
_LOOK_SECONDS = 0.2  # at what others do on this machine
_LEFT_OVER = 0.5  # cores; with fewer, threads would wait for each other


@dataclass(frozen=True)
class ThreadChoice:
    """How many threads a run takes, and why."""

    threads: int
    why: str = ""
    step_seconds: tuple[float, float] | None = None  # on one thread and on all, where it was measured

    def __str__(self) -> str:
        """A line for people."""
        return f"{counted(self.threads, 'thread')}: {self.why}"


def choose_threads(recipe: Recipe, model: PointModel, data: TrainingData) -> ThreadChoice:
    """One thread, or as many as torch would take, for a run in one process on a CPU: whichever is faster here and now.

    A few steps are timed with each in turn, on a copy of the model at learning rate 0, without drawing from any
    generator of the run. The median of all threads must be clearly less than that of one. Nothing is timed where other
    work leaves no core, as threads that wait for each other there are many times slower than one thread, nor for a run
    of seconds.
    """
    most = min(cores(), torch.get_num_threads())  # the latter also knows OMP_NUM_THREADS
    if most == 1:
        return ThreadChoice(1, "there is one core to use")
    graphs = data.part("train")
    batches = training_batches(data.points.num_nodes[graphs], data.points.ranks[graphs], recipe)
    first = list(training_loader(recipe, data, list(islice(batches, 1))))
    with torch.random.fork_rng(devices=[]), thread_count(1):
        stopwatch = Stopwatch(recipe, copy.deepcopy(model), data.card.task, 1, rate=0.0)
        stopwatch.time(first)  # what is done once and never again is not timed
        step = stopwatch.time(first).seconds
        expected = step * len(batches) * with_enough_epochs(recipe, len(batches)).trainer.epochs
        if expected < _SHORT_SECONDS:
            return ThreadChoice(1, "a short run")
        others = cores_used_by_others(_LOOK_SECONDS)
        if others is not None and others > cores() - _LEFT_OVER:
            return ThreadChoice(1, f"other work keeps {others:.1f} of {cores()} cores busy")
        steps = math.ceil(_SAMPLE_SECONDS / step)
        one, together = (total / steps for total in _times_in_turn(stopwatch, first * steps, most, expected))
    times = f"a step takes {1000 * one:.3g} ms with one and {1000 * together:.3g} ms with {most}"
    return ThreadChoice(most if together <= _WORTH * one else 1, times, (one, together))


def _times_in_turn(stopwatch: Stopwatch, batches: list[PointBatch], most: int, expected: float) -> tuple[float, float]:
    """Medians of the seconds that these batches take on one thread and on ``most``."""
    start, limit = time.perf_counter(), min(_MOST_SECONDS, _MOST_SHARE * expected)
    times: dict[int, list[float]] = {1: [], most: []}
    for number in range(_MOST_ROUNDS):
        for threads, seconds in times.items():
            with thread_count(threads):
                if number == 0 and threads > 1:
                    stopwatch.time(batches[:1])  # starts them
                seconds.append(stopwatch.time(batches).seconds)
        if number + 1 >= _LEAST_ROUNDS and time.perf_counter() - start > limit:
            break
    return statistics.median(times[1]), statistics.median(times[most])
