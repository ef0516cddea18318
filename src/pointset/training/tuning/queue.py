"""Which trials are still to be done, and taking up those that ended in the middle. Needs optuna.

A trial that was killed or interrupted is marked as failed, and another one with the same values and the same folder
waits in its place: it goes on from the last checkpoint where there is one.
"""

from __future__ import annotations

from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import fail_stale_trials
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from pointset.training.tuning.extra import experiments_allowed
from pointset.training.tuning.presence import Presence

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
