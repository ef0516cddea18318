"""One process at work on a study (:class:`Session`): trial after trial, each a training run without its test part.

Needs optuna.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna import TrialPruned
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from pointset.errors import DiskSpaceError, PointsetError, SpecError, TrainingStopped
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.result import EpochRow, write_metrics
from pointset.text import duration
from pointset.training.data import TrainingData, load_data
from pointset.training.devices import check_device
from pointset.training.progress import Quiet
from pointset.training.run import train
from pointset.training.scoring import check_metric
from pointset.tuning.forecast import Budget, StudyForecast, forecast_study, trial_recipe
from pointset.tuning.ranges import Space
from pointset.tuning.result import TRIALS, TrialRecord, TuningResult
from pointset.tuning.study import (
    WORKER,
    WorkerLock,
    database_errors,
    experiments_allowed,
    first_attempt,
    open_storage,
    open_study,
    quiet_optuna,
    requeue,
    requeue_dead_trials,
    retried_numbers,
    shown_url,
)

if TYPE_CHECKING:
    from pointset.tuning.search import OnForecast, OnTrial

# User attributes of a trial, besides those of the study.
_ERROR, _PARAMETERS, _BEST_EPOCH, _SECONDS = "error", "parameters", "best_epoch", "seconds"
_LONGEST_ERROR = 500  # characters: databases limit them
_FEWEST_TRIALS = 4  # complete ones, for the importance of hyperparameters
_BEST_SHARE = 0.25  # of the trials: their values are compared with those of all


@contextmanager
def open_session(
    space: Space,
    folder: Path,
    storage: str | None,
    name: str,
    seed: int,
    pruning: bool,
    data_dir: str | Path | None,
    device: str,
    watch: str,
    budget: Budget,
) -> Iterator[Session]:
    """Read the data, once for all trials, and create the study or find it."""
    with quiet_optuna(), WorkerLock(folder) as worker:
        check_device(device, space.recipe.trainer.precision)
        data = load_data(space.recipe, data_dir, progress=False if watch == "quiet" else None)
        metric = check_metric(space.recipe.metric, data.card)
        if not len(data.part("val")):
            raise SpecError(
                f"{data.card.name} has no validation part; expected one, by which trials are judged. "
                "Choose another split"
            )
        database, shown = open_storage(storage, folder), shown_url(storage, folder)
        try:
            with database_errors(shown):
                study = open_study(database, name, space, metric=metric, seed=seed, pruning=pruning)
            objective = Objective(space, folder, without_test(data), metric, worker, device, watch, budget)
            yield Session(study, objective, shown, has_other_folders=storage is not None)
        finally:
            database.remove_session()
            database.engine.dispose()


@dataclass
class Session:
    """A study, and how this process works on it."""

    study: Study
    objective: Objective
    storage: str  # the database, for people
    has_other_folders: bool  # processes may share the study that do not share its folder

    def run(self, wanted: int, on_trial: OnTrial | None, on_forecast: OnForecast | None) -> TuningResult:
        """Trials until there are ``wanted`` in all, or the next one would not end within the budget."""
        with database_errors(self.storage):
            self._requeue_dead_trials()
            forecast = self._forecast(wanted, on_forecast)
            while True:
                if _counted(self.study) >= wanted or self.objective.budget.seconds_left < self._needed(forecast):
                    return self._written(importance_of(self.study))
                self._run_next()
                result = self._written(None)
                if on_trial is not None and self.objective.number is not None:
                    on_trial(result.trials[self.objective.number], result)
                self._requeue_dead_trials()

    def _requeue_dead_trials(self) -> None:
        requeue_dead_trials(self.study, self.objective.worker, has_other_folders=self.has_other_folders)

    def _forecast(self, wanted: int, on_forecast: OnForecast | None) -> StudyForecast | None:
        """How long a trial takes, where somebody wants to know; refuses a budget that is too small for any."""
        left, budget = wanted - _counted(self.study), self.objective.budget
        if left <= 0 or (on_forecast is None and not budget.is_limited):
            return None
        forecast = forecast_study(self.objective.space, self.objective.data)
        if on_forecast is not None:
            on_forecast(forecast, left)
        shortest = min(forecast.own_seconds, forecast.trial_seconds)
        if budget.seconds_left < shortest and not _seconds_of_trials(self.study):
            raise SpecError(
                f"{duration(max(budget.seconds_left, 0.0))} of the budget are left, and a trial takes about "
                f"{duration(shortest)}; expected time for one at least. Give more --minutes, or fewer --epochs"
            )
        return forecast

    def _needed(self, forecast: StudyForecast | None) -> float:
        """Seconds of the next trial: as long as the median of those that are complete, at first as forecast."""
        if forecast is None:
            return 0.0
        known = _seconds_of_trials(self.study)
        return statistics.median(known) if known else min(forecast.own_seconds, forecast.trial_seconds)

    def _run_next(self) -> None:
        """The next trial. One that ends in the middle, by Ctrl-C or a full disk, is queued again."""
        self.objective.number = None
        naming = self.objective.worker.naming
        try:
            naming.acquire()  # until the trial has the name of this process
            self.study.optimize(self.objective, n_trials=1, catch=(TrialFailed,))
        except BaseException:
            number, trials = self.objective.number, self.study.get_trials(deepcopy=False)
            if number is None or trials[number].state != TrialState.FAIL:
                raise
            if number in retried_numbers(trials):
                return  # it was taken for dead, and another process has it by now: this one has trained it in vain
            requeue(self.study, trials[number], was_killed=False)
            raise
        finally:
            naming.release()

    def _written(self, importance: dict[str, float] | None) -> TuningResult:
        """The files as the study stands, again if another process has found a better trial meanwhile."""
        while True:
            result = self._result(importance)
            result.write()
            if self._result(importance).best[:1] == result.best[:1]:
                return result

    def _result(self, importance: dict[str, float] | None) -> TuningResult:
        maximize = self.study.direction == StudyDirection.MAXIMIZE
        trials = self.study.get_trials(deepcopy=False)
        retried = retried_numbers(trials)
        return TuningResult(
            folder=self.objective.folder,
            study=self.study.study_name,
            storage=self.storage,
            space=self.objective.space,
            metric=self.objective.metric,
            higher_is_better=maximize,
            trials=[_record(one, maximize=maximize, is_retried=one.number in retried) for one in trials],
            importance=importance,
        )


def _counted(study: Study) -> int:
    """Trials that are done or at work. One that was retried counts once."""
    trials = study.get_trials(deepcopy=False)
    retried = retried_numbers(trials)
    return sum(trial.state != TrialState.WAITING and trial.number not in retried for trial in trials)


def _seconds_of_trials(study: Study) -> list[float]:
    """Of those that are complete."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return [float(one.user_attrs[_SECONDS]) for one in trials if _SECONDS in one.user_attrs]


def _record(trial: FrozenTrial, *, maximize: bool, is_retried: bool) -> TrialRecord:
    state = "failed" if trial.state == TrialState.FAIL else trial.state.name.lower()
    value = trial.value
    if trial.state != TrialState.COMPLETE:
        seen = [value for value in trial.intermediate_values.values() if math.isfinite(value)]
        value = (max if maximize else min)(seen, default=None)
    return TrialRecord(
        number=trial.number,
        state="retried" if is_retried else state,
        value=value,
        values=dict(trial.params),
        epochs=trial.last_step,
        best_epoch=trial.user_attrs.get(_BEST_EPOCH),
        parameters=trial.user_attrs.get(_PARAMETERS),
        seconds=trial.user_attrs.get(_SECONDS),
        error=trial.user_attrs.get(_ERROR),
        folder=_folder_name(trial),
    )


def _folder_name(trial: FrozenTrial) -> str:
    """Where a trial is trained: ``trials/0007``."""
    return f"{TRIALS}/{first_attempt(trial):04d}"


def importance_of(study: Study) -> dict[str, float] | None:
    """How much each key mattered, together 1, the most important first.

    It is PED-ANOVA (Watanabe et al. 2023), which needs no forest of scikit-learn: how unlike all values those of the
    best quarter of trials are. None with fewer than four complete trials, or where all have the same score.
    """
    scores = [trial.value for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
    if len(scores) < _FEWEST_TRIALS or len(set(scores)) < 2:
        return None
    with experiments_allowed():
        evaluator = PedAnovaImportanceEvaluator(target_quantile=_BEST_SHARE)
        found = get_param_importances(study, evaluator=evaluator)
    return {key: float(value) for key, value in found.items()}


# --- one trial


class TrialFailed(Exception):  # noqa: N818 - one trial's, not the study's
    """A trial could not be trained to its end; the study continues."""


class EpochReports(Quiet):
    """Reports every validation score to the study, and ends the run where the study has seen enough."""

    def __init__(self, trial: Trial, metric: str, epochs: int, reported: set[int], budget: Budget):
        self._trial, self._metric, self._epochs, self._reported = trial, metric, epochs, reported
        self._budget = budget
        self.rows: list[EpochRow] = []

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        """Raises: TrialPruned where the budget is used up."""
        if self._budget.seconds_left < 0:
            raise TrialPruned

    def epoch(self, row: EpochRow) -> None:
        """Raises: TrialPruned."""
        self.rows.append(row)
        value = row.val.get(self._metric)
        if value is None or math.isnan(value) or row.epoch in self._reported:  # or not validated
            return
        self._trial.report(value, row.epoch)
        if row.epoch < self._epochs and self._trial.should_prune():
            raise TrialPruned


@dataclass
class Objective:
    """What Optuna calls for each trial: draw values, train a run, return its best validation score."""

    space: Space
    folder: Path
    data: TrainingData  # without a test part
    metric: str
    worker: WorkerLock  # this process, as others know it
    device: str
    watch: str
    budget: Budget
    number: int | None = field(default=None, init=False)  # of the last trial that was begun

    def __call__(self, trial: Trial) -> float:
        """The best validation score; raises TrialPruned, TrialFailed or, at Ctrl-C, TrainingStopped."""
        self.number = trial.number
        trial.set_user_attr(WORKER, self.worker.name)
        self.worker.naming.release()
        recipe = trial_recipe(self.space, {key: self._drawn(trial, key) for key in self.space.ranges})
        stored = trial.study.get_trials(deepcopy=False)[trial.number]
        run = RunFolder(self.folder / _folder_name(stored))
        reported = set(stored.intermediate_values)
        reports = EpochReports(trial, self.metric, recipe.trainer.epochs, reported, self.budget)
        result = self._trained(trial, recipe, run, reports)
        _drop_checkpoints(run)
        for key in (_PARAMETERS, _BEST_EPOCH, _SECONDS):
            trial.set_user_attr(key, result[key])
        value = result["val"].get(self.metric)
        if value is None:
            raise _failed(trial, f"the validation {self.metric} was never a number")
        return float(value)

    def _drawn(self, trial: Trial, key: str) -> float | int:
        one = self.space.ranges[key]
        if one.whole:
            return trial.suggest_int(key, int(one.low), int(one.high), step=int(one.step or 1), log=one.log)
        return trial.suggest_float(key, one.low, one.high, step=one.step, log=one.log)

    def _trained(self, trial: Trial, recipe: Recipe, run: RunFolder, reports: EpochReports) -> dict[str, Any]:
        how: dict[str, Any] = {"device": self.device, "watch": self.watch, "watcher": reports, "data": self.data}
        try:
            return train(recipe, run.path, resume=True, **how)
        except (TrainingStopped, DiskSpaceError):  # no fault of the trial's: it is queued again
            raise
        except TrialPruned:
            _end_early(trial, run, reports)
            raise
        except (PointsetError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
            _end_early(trial, run, reports)
            raise _failed(trial, str(error) or type(error).__name__) from error


def _failed(trial: Trial, message: str) -> TrialFailed:
    short = " ".join(message.split())[:_LONGEST_ERROR]
    trial.set_user_attr(_ERROR, short)
    return TrialFailed(short)


def _end_early(trial: Trial, run: RunFolder, reports: EpochReports) -> None:
    """Only small files stay of a run that will not be resumed."""
    trial.set_user_attr(_SECONDS, round(sum(row.seconds for row in reports.rows), 3))
    if run.path.is_dir() and reports.rows:
        write_metrics(run.metrics, reports.rows)
    _drop_checkpoints(run)


def _drop_checkpoints(run: RunFolder) -> None:
    """A run that has ended needs none; the model is in its bundle."""
    shutil.rmtree(run.last_checkpoint.parent, ignore_errors=True)


def without_test(data: TrainingData) -> TrainingData:
    """The same without its test part: what is not there cannot be looked at. The scale of the targets stays."""
    split = {name: graphs for name, graphs in data.dataset.split.items() if name != "test"}
    return dataclasses.replace(data, dataset=data.dataset.with_split(split))
