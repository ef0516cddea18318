"""One trial: values are drawn, a run is trained without its test part, its best validation score is the answer.

Needs optuna.
"""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optuna import TrialPruned
from optuna.trial import Trial

from pointset.errors import PointsetError
from pointset.training.data import TrainingData
from pointset.training.interruption import TrainingStopped
from pointset.training.metrics_file import write_metrics
from pointset.training.recipe import Recipe
from pointset.training.recipe_overrides import changed
from pointset.training.run import train
from pointset.training.run_folder import RunFolder
from pointset.training.tuning.queue import WORKER
from pointset.training.tuning.records import BEST_EPOCH, ERROR, PARAMETERS, SECONDS, folder_name
from pointset.training.tuning.space import Space
from pointset.training.watcher import EpochRow
from pointset.training.watching.quiet import Quiet

_LONGEST_ERROR = 500  # letters that are kept: databases limit them


class TrialFailed(Exception):  # noqa: N818 - one trial's, not the study's
    """A trial could not be trained to its end; the study goes on."""


class EpochReports(Quiet):
    """Tells the study every validation score, and ends the run where the study has seen enough."""

    def __init__(self, trial: Trial, metric: str, epochs: int, known: set[int]):
        self._trial, self._metric, self._epochs, self._known = trial, metric, epochs, known
        self.rows: list[EpochRow] = []

    def epoch(self, row: EpochRow) -> None:
        """Raises: TrialPruned."""
        self.rows.append(row)
        value = row.val.get(self._metric)
        if value is None or value != value or row.epoch in self._known:  # not validated, NaN, or told before a break
            return
        self._trial.report(value, row.epoch)
        if row.epoch < self._epochs and self._trial.should_prune():
            raise TrialPruned


@dataclass
class Objective:
    """What Optuna calls for each trial."""

    space: Space
    folder: Path
    data: TrainingData  # without a test part
    metric: str
    worker: str  # this process, as others know it
    device: str
    watch: str
    number: int | None = field(default=None, init=False)  # of the last trial that was begun

    def __call__(self, trial: Trial) -> float:
        """The best validation score.

        Raises:
            TrialPruned: it was worse than the others at the same epoch.
            TrialFailed: the loss is no number, memory does not suffice, …
            TrainingStopped: Ctrl-C.
        """
        self.number = trial.number
        trial.set_user_attr(WORKER, self.worker)
        values = {key: _drawn(trial, key, self.space) for key in self.space.ranges}
        recipe = single_threaded(self.space.recipe_for(values))
        noted = trial.study.get_trials(deepcopy=False)[trial.number]
        run = RunFolder(self.folder / folder_name(noted))
        reports = EpochReports(trial, self.metric, recipe.trainer.epochs, set(noted.intermediate_values))
        result = self._trained(trial, recipe, run, reports)
        _drop_checkpoints(run)
        for key, name in ((PARAMETERS, "parameters"), (BEST_EPOCH, "best_epoch"), (SECONDS, "seconds")):
            trial.set_user_attr(key, result[name])
        value = result["val"].get(self.metric)
        if value is None:
            raise self._failed(trial, f"the validation {self.metric} was never a number")
        return float(value)

    def _trained(self, trial: Trial, recipe: Recipe, run: RunFolder, reports: EpochReports) -> dict[str, Any]:
        how: dict[str, Any] = {"device": self.device, "watch": self.watch, "watcher": reports, "data": self.data}
        try:
            return train(recipe, run.path, resume=True, **how)
        except TrainingStopped:
            raise
        except TrialPruned:
            _end_early(trial, run, reports)
            raise
        except (PointsetError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
            _end_early(trial, run, reports)
            raise self._failed(trial, str(error) or type(error).__name__) from error

    def _failed(self, trial: Trial, message: str) -> TrialFailed:
        short = " ".join(message.split())[:_LONGEST_ERROR]
        trial.set_user_attr(ERROR, short)
        return TrialFailed(short)


def without_test(data: TrainingData) -> TrainingData:
    """The same without its test part: what is not there cannot be looked at. The scale of the targets stays."""
    split = {name: graphs for name, graphs in data.dataset.split.items() if name != "test"}
    return dataclasses.replace(data, dataset=data.dataset.with_split(split))


def single_threaded(recipe: Recipe) -> Recipe:
    """One thread unless the recipe says otherwise: processes that share the cores of a machine would fight."""
    return recipe if recipe.trainer.threads is not None else changed(recipe, {"trainer.threads": 1})


def _drawn(trial: Trial, key: str, space: Space) -> float | int:
    one = space.ranges[key]
    if one.whole:
        return trial.suggest_int(key, int(one.low), int(one.high), step=int(one.step or 1), log=one.log)
    return trial.suggest_float(key, one.low, one.high, step=one.step, log=one.log)


def _end_early(trial: Trial, run: RunFolder, reports: EpochReports) -> None:
    """Of a run that does not go on only small files stay."""
    trial.set_user_attr(SECONDS, round(sum(row.seconds for row in reports.rows), 3))
    if run.path.is_dir() and reports.rows:
        write_metrics(run.metrics, reports.rows)
    _drop_checkpoints(run)


def _drop_checkpoints(run: RunFolder) -> None:
    """A run that has ended needs none; the model is in its bundle."""
    shutil.rmtree(run.last_checkpoint.parent, ignore_errors=True)
