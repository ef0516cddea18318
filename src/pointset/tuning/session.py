"""A process at work on a study (:class:`Session`). Needs optuna."""

from __future__ import annotations

import dataclasses
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna import TrialPruned
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.study import Study
from optuna.trial import Trial, TrialState

from pointset.errors import PointsetError, SpecError
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed
from pointset.runs.result import EpochRow, write_metrics
from pointset.training.data import TrainingData, load_data
from pointset.training.devices import check_device
from pointset.training.interruption import TrainingStopped
from pointset.training.progress import Quiet
from pointset.training.run import train
from pointset.training.scoring import check_metric
from pointset.tuning.ranges import Space
from pointset.tuning.result import TuningResult
from pointset.tuning.search import Presence, experiments_allowed
from pointset.tuning.study import database_errors, open_storage, open_study, shown_url
from pointset.tuning.trials import (
    BEST_EPOCH,
    ERROR,
    PARAMETERS,
    SECONDS,
    WORKER,
    best_of,
    counted,
    folder_name,
    records_of,
    release_dead_trials,
    take_up,
    taken_up,
)

if TYPE_CHECKING:
    from pointset.tuning.search import OnTrial


# One trial: values are drawn, a run is trained without its test part, its best validation score is the answer.
#
# Needs optuna.


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


# How much each hyperparameter mattered (:func:`importance_of`). Needs optuna.


LEAST_TRIALS = 4  # complete ones
_BEST_SHARE = 0.25  # of the trials: their values are compared with those of all


def importance_of(study: Study) -> dict[str, float] | None:
    """By key, together 1, the most important first: how unlike all values those of the best quarter of trials are.

    It is PED-ANOVA (Watanabe et al. 2023), which needs no forest of scikit-learn. None with fewer than four complete
    trials, or where all have the same score.
    """
    scores = [trial.value for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
    if len(scores) < LEAST_TRIALS or len(set(scores)) < 2:
        return None
    with experiments_allowed():
        evaluator = PedAnovaImportanceEvaluator(target_quantile=_BEST_SHARE)
        found = get_param_importances(study, evaluator=evaluator)
    return {key: float(value) for key, value in found.items()}


@dataclass(frozen=True)
class Settings:
    """How to search."""

    storage: str | None
    study: str
    seed: int
    pruning: bool
    device: str
    watch: str


class Session:
    """The data is read once for all trials; the study is made, or found.

    Raises:
        SpecError: there is no validation part, or the study is about something else.
    """

    def __init__(self, space: Space, folder: Path, settings: Settings, presence: Presence, data_dir: Path | None):
        self.space, self.folder, self.settings, self.presence = space, folder, settings, presence
        check_device(settings.device, space.recipe.trainer.precision)
        data = without_test(load_data(space.recipe, data_dir, progress=False if settings.watch == "quiet" else None))
        self.metric = check_metric(space.recipe.metric, data.card)
        if not len(data.part("val")):
            raise SpecError(
                f"{data.card.name} has no validation part; expected one, by which trials are judged. "
                "Choose another split"
            )
        self.higher_is_better = metric_named(self.metric).higher_is_better
        self.storage = shown_url(settings.storage, folder)
        self._database = open_storage(settings.storage, folder)
        with database_errors(self.storage):
            self.study = open_study(
                self._database,
                settings.study,
                space,
                metric=self.metric,
                higher_is_better=self.higher_is_better,
                seed=settings.seed,
                pruning=settings.pruning,
            )
        self.objective = Objective(space, folder, data, self.metric, presence.name, settings.device, settings.watch)

    def run(self, wanted: int, deadline: float, on_trial: OnTrial | None) -> TuningResult:
        """Trials until there are ``wanted`` in all, or the time is up."""
        with database_errors(self.storage):
            while True:
                release_dead_trials(self.study, self.presence)
                if counted(self.study) >= wanted or time.monotonic() >= deadline:
                    return self._written(importance_of(self.study))
                _run_one(self.study, self.objective)
                result = self._written(None)
                if on_trial is not None and self.objective.number is not None:
                    on_trial(result.trials[self.objective.number], result)

    def close(self) -> None:
        """Let go of the database."""
        self._database.remove_session()
        self._database.engine.dispose()

    def _written(self, importance: dict[str, float] | None) -> TuningResult:
        """The files as the study stands, again where another process has found a better one meanwhile."""
        while True:
            result = self._result(importance)
            result.write()
            if self._result(importance).best[:1] == result.best[:1]:
                return result

    def _result(self, importance: dict[str, float] | None) -> TuningResult:
        records = records_of(self.study)
        return TuningResult(
            folder=self.folder,
            study=self.settings.study,
            storage=self.storage,
            space=self.space,
            metric=self.metric,
            higher_is_better=self.higher_is_better,
            trials=records,
            best=best_of(records, higher_is_better=self.higher_is_better),
            importance=importance,
        )


def _run_one(study: Study, objective: Objective) -> None:
    """The next trial. One that ends in the middle, by Ctrl-C or a full disk, waits to be taken up again."""
    objective.number = None
    try:
        study.optimize(objective, n_trials=1, catch=(TrialFailed,))
    except BaseException:
        number = objective.number
        trials = study.get_trials(deepcopy=False)
        if number is None or trials[number].state != TrialState.FAIL:
            raise
        if number in taken_up(trials):
            return  # it was taken for dead, and is another process's by now: this one has trained it in vain
        take_up(study, trials[number])
        raise
