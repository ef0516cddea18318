"""Trials as plain values (:class:`TrialRecord`), for tables, files and pictures. Needs optuna."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from pointset.training.tuning.queue import first_attempt, taken_up

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
