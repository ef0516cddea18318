"""A process at work on a study (:class:`Session`). Needs optuna."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.study import Study
from optuna.trial import TrialState

from pointset.errors import SpecError
from pointset.training.data import load_data
from pointset.training.devices import check_device
from pointset.training.metrics import check_metric, higher_is_better
from pointset.training.tuning.importance import importance_of
from pointset.training.tuning.objective import Objective, TrialFailed, without_test
from pointset.training.tuning.outcome import TuningResult
from pointset.training.tuning.presence import Presence
from pointset.training.tuning.queue import counted, release_dead_trials, take_up, taken_up
from pointset.training.tuning.records import best_of, records_of
from pointset.training.tuning.space import Space
from pointset.training.tuning.storage import database_errors, open_storage, shown_url
from pointset.training.tuning.study import open_study

if TYPE_CHECKING:
    from pointset.training.tuning.searching import OnTrial


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
        self.higher_is_better = higher_is_better(self.metric)
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
