"""Trials as plain values (:class:`TrialRecord`), for tables, files and pictures. Needs optuna."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import fail_stale_trials
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from pointset.tuning.search import Presence, experiments_allowed

# Which trials are still to be done, and taking up those that ended in the middle. Needs optuna.
#
# A trial that was killed or interrupted is marked as failed, and another one with the same values and the same folder
# waits in its place: it goes on from the last checkpoint where there is one.


_MOST_KILLS = 3  # of a trial: one that the system kills each time, as it takes all the memory, must not come forever
# User attributes of a trial.
WORKER = "worker"  # the process that runs it
FIRST = "first"  # of a trial that is taken up again: the number of the first attempt, whose folder it has
RETRY_OF = "retry_of"  # … and of the last one
KILLS = "kills"  # how often it was killed


def first_attempt(trial: FrozenTrial) -> int:
    """The number after which a trial's folder is called."""
    return int(trial.user_attrs.get(FIRST, trial.number))


def counted(study: Study) -> int:
    """Trials that are done or at work. Those that are taken up again count once."""
    trials = study.get_trials(deepcopy=False)
    again = taken_up(trials)
    return sum(trial.state != TrialState.WAITING and trial.number not in again for trial in trials)


def taken_up(trials: list[FrozenTrial]) -> set[int]:
    """Numbers of the trials in whose place another one has come."""
    return {trial.user_attrs[RETRY_OF] for trial in trials if RETRY_OF in trial.user_attrs}


def release_dead_trials(study: Study, presence: Presence) -> None:
    """Trials of processes that have ended, here or by their heartbeat anywhere, wait to be taken up again."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if presence.is_gone(str(trial.user_attrs.get(WORKER, ""))):
            try:
                study.tell(trial.number, state=TrialState.FAIL)
            except (ValueError, UpdateFinishedTrialError):  # another process was faster
                continue
            take_up_killed(study, trial)
    with experiments_allowed():
        fail_stale_trials(study)


def take_up_killed(study: Study, trial: FrozenTrial) -> None:
    """Another one in place of a trial whose process ended, unless that happened three times."""
    kills = int(trial.user_attrs.get(KILLS, 0)) + 1
    if kills < _MOST_KILLS:
        take_up(study, trial, kills=kills)


def take_up(study: Study, trial: FrozenTrial, *, kills: int | None = None) -> None:
    """Another one in place of a trial that ended in the middle."""
    again = {FIRST: first_attempt(trial), RETRY_OF: trial.number}
    again[KILLS] = int(trial.user_attrs.get(KILLS, 0)) if kills is None else kills
    study.add_trial(
        create_trial(
            state=TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs=again,
            system_attrs=trial.system_attrs,
            intermediate_values=trial.intermediate_values,
        )
    )


# User attributes of a trial, besides those of the queue.
ERROR, PARAMETERS, BEST_EPOCH, SECONDS = "error", "parameters", "best_epoch", "seconds"
_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    number: int
    state: str  # complete, pruned, failed, running, waiting; retried: another one has come in its place
    value: float | None  # the best validation score, so far where it was pruned
    values: dict[str, float | int]  # by key of the recipe
    epochs: int | None  # the last one that was validated
    best_epoch: int | None
    parameters: int | None
    seconds: float | None
    error: str | None  # why it failed
    folder: str  # below the study's

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)


def records_of(study: Study) -> list[TrialRecord]:
    """All trials by number."""
    trials = study.get_trials(deepcopy=False)
    again = taken_up(trials)
    return [record_of(trial, study.direction, is_retried=trial.number in again) for trial in trials]


def record_of(trial: FrozenTrial, direction: StudyDirection, *, is_retried: bool = False) -> TrialRecord:
    """One trial as it stands."""
    attributes = trial.user_attrs
    return TrialRecord(
        number=trial.number,
        state="retried" if is_retried else _STATES[trial.state],
        value=_value(trial, direction),
        values=dict(trial.params),
        epochs=trial.last_step,
        best_epoch=attributes.get(BEST_EPOCH),
        parameters=attributes.get(PARAMETERS),
        seconds=attributes.get(SECONDS),
        error=attributes.get(ERROR),
        folder=folder_name(trial),
    )


def best_of(records: list[TrialRecord], *, higher_is_better: bool, most: int = 5) -> list[TrialRecord]:
    """The best of those that came to their end, the first of equals before the others."""
    done = [(one.value, one) for one in records if one.state == "complete" and one.value is not None]
    sign = -1 if higher_is_better else 1
    return [one for _, one in sorted(done, key=lambda pair: (sign * pair[0], pair[1].number))][:most]


def folder_name(trial: FrozenTrial) -> str:
    """Where a trial is trained: ``trials/0007``."""
    return f"trials/{first_attempt(trial):04d}"


def _value(trial: FrozenTrial, direction: StudyDirection) -> float | None:
    if trial.state == TrialState.COMPLETE:
        return trial.value
    known = [value for value in trial.intermediate_values.values() if math.isfinite(value)]
    if not known:
        return None
    return max(known) if direction == StudyDirection.MAXIMIZE else min(known)
