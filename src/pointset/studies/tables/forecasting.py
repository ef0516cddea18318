"""What a training will take, from a few of its own steps (:class:`Forecaster`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pointset.baselines.catalogue import model_preset
from pointset.encoders.loader import PointLoader
from pointset.points.memory import training_bytes
from pointset.process_memory import resident_bytes
from pointset.studies.comparison.stopwatch import Stopwatch
from pointset.training.batches import training_batches
from pointset.training.data import TrainingData, build_model, load_data
from pointset.training.devices import DTYPES, thread_count, threads_for
from pointset.training.forecast import check_memory
from pointset.training.recipe import Recipe

_LEAST_STEPS, _MOST_STEPS = 2, 20
_SECONDS = 2.0  # of steps that are timed
_EVALUATED = 1 / 3  # time of a graph without its gradient, as a share of that with it


@dataclass(frozen=True)
class Forecast:
    """Of one training on this machine's CPU, with the recipe's threads."""

    seconds: float  # of all epochs, with their validation; early stopping may end it sooner
    memory_bytes: int  # of the process at its largest batch


class Forecaster:
    """Forecasts recipes; those of the same data and model are measured once."""

    def __init__(self, data_dir: str | Path | None = None, progress: bool | None = None):
        self.data_dir, self.progress = data_dir, progress
        self._measured: dict[str, tuple[float, float, int]] = {}
        self._data: tuple[str, TrainingData] | None = None  # only the last: they are large

    def __call__(self, recipe: Recipe) -> Forecast:
        """Time some steps, where no like recipe was timed.

        Raises:
            PointsetError: what the run itself would raise at its start: data that is missing, memory that does not
                suffice.
        """
        key = _like(recipe)
        if key not in self._measured:
            threads = threads_for(recipe, 1)
            with thread_count(threads):
                self._measured[key] = _measured(recipe, self._loaded(recipe), threads)
        epoch, test, memory = self._measured[key]
        return Forecast(epoch * recipe.trainer.epochs + test, memory)

    def _loaded(self, recipe: Recipe) -> TrainingData:
        data = recipe.dataset.model_dump(mode="json") | {"fold": None}
        key = f"{data} {model_preset(recipe.model.preset).matrix} {recipe.scale_targets}"
        if self._data is None or self._data[0] != key:
            self._data = None  # before the next is read
            self._data = key, load_data(recipe, self.data_dir, progress=self.progress)
        return self._data[1]


def _like(recipe: Recipe) -> str:
    """The same for recipes whose epochs take about equally long: other seeds, folds, epochs, options of a dataset, one
    target or another.
    """
    dataset = recipe.dataset.model_dump(mode="json") | {"fold": None}
    if recipe.dataset.name is not None:
        dataset["options"] = {}
    if recipe.dataset.targets is not None:
        dataset["targets"] = len(recipe.dataset.targets)
    trainer = recipe.trainer.model_dump(mode="json") | {"epochs": 0, "patience": None, "checkpoint_minutes": 0}
    return f"{dataset} {recipe.model.model_dump(mode='json')} {recipe.loss} {trainer}"


def _measured(recipe: Recipe, data: TrainingData, threads: int) -> tuple[float, float, int]:
    """Seconds of an epoch, seconds of the test at the end, and the memory at the largest batch."""
    check_memory(recipe, data)
    stopwatch = Stopwatch(recipe, build_model(recipe, data.card), data.card.task, threads)
    largest = stopwatch.time(_loader(recipe, data, [_largest_batch(recipe, data)]))  # also a step to warm up
    seconds, steps, graphs = 0.0, 0, 0
    for batch in _batches(recipe, data):
        seconds += stopwatch.time(_loader(recipe, data, [batch])).seconds
        steps, graphs = steps + 1, graphs + len(batch)
        if steps >= _LEAST_STEPS and seconds >= _SECONDS:
            break
    rate = seconds / graphs
    validated = len(data.part("val")) / recipe.trainer.validate_every
    epoch = rate * (len(data.part("train")) + _EVALUATED * validated)
    return epoch, rate * _EVALUATED * len(data.part("test")), resident_bytes() + largest.peak_bytes


def _batches(recipe: Recipe, data: TrainingData) -> Iterator[list[int]]:
    """Some of the first epoch, as numbers of graphs in the training part."""
    graphs = data.part("train")
    batches = training_batches(data.points.num_nodes[graphs], data.points.ranks[graphs], recipe)
    for _, batch in zip(range(_MOST_STEPS), batches, strict=False):
        yield batch


def _loader(recipe: Recipe, data: TrainingData, batches: list[list[int]]) -> PointLoader:
    unused = torch.Generator()  # without one, torch draws from the global one
    dtype = DTYPES[recipe.trainer.precision]
    return PointLoader(data.points, indices=data.part("train"), dtype=dtype, batch_sampler=batches, generator=unused)


def _largest_batch(recipe: Recipe, data: TrainingData) -> list[int]:
    """The largest graphs together, as chance may have it; with a budget of memory, the largest that fits alone."""
    graphs, model = data.part("train"), recipe.model
    sizes = training_bytes(data.points.num_nodes[graphs], data.points.ranks[graphs], dim=model.dim, layers=model.layers)
    count = 1 if recipe.trainer.memory_budget is not None else recipe.trainer.batch_size
    largest: list[int] = np.argsort(-sizes, kind="stable")[:count].tolist()
    return largest
