"""The study: made once, found again by every process, refused where it is another one (:func:`open_study`).

Needs optuna.
"""

from __future__ import annotations

import time
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.storages import RDBStorage
from optuna.study import Study, StudyDirection

from pointset.errors import PointsetError, SpecError
from pointset.training.run import flattened
from pointset.training.tuning.sampler import TrialSeededSampler
from pointset.training.tuning.space import Space

_ABOUT = "pointset"  # the attribute that says what the study is about; written last, so that one with it is whole
_PATIENCE_SECONDS = 20  # for another process that is making the study
_SHOWN = 8  # differences


def open_study(
    storage: RDBStorage, name: str, space: Space, *, metric: str, higher_is_better: bool, seed: int, pruning: bool
) -> Study:
    """The study of this name; the first trial of a new one has the recipe's own values.

    Raises:
        SpecError: there is one of this name about something else; the message says what differs.
        PointsetError: another process began to make it and never ended.
    """
    about = {**space.as_dict(), "metric": metric}
    settings: dict[str, Any] = {"sampler": TrialSeededSampler(seed), "pruner": _pruner(space, pruning)}
    try:
        direction = StudyDirection.MAXIMIZE if higher_is_better else StudyDirection.MINIMIZE
        study = optuna.create_study(storage=storage, study_name=name, direction=direction, **settings)
    except DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=name, **settings)
        _check_same(study, about)
        return study
    study.enqueue_trial(space.own_values())
    study.set_user_attr(_ABOUT, about)
    return study


def _pruner(space: Space, pruning: bool) -> BasePruner:
    """Ends a trial that is worse than the median of the finished ones at the same epoch.

    Not before a fifth of the epochs, nor within the longest warm-up (but not later than half of the epochs): a trial
    that warms up longer is behind at first, and says nothing by it.
    """
    if not pruning:
        return NopPruner()
    epochs, warmup = space.recipe.trainer.epochs, space.ranges.get("schedule.warmup")
    longest = warmup.high if warmup is not None else space.recipe.schedule.warmup
    return MedianPruner(n_startup_trials=5, n_warmup_steps=max(epochs // 5, min(int(longest), epochs // 2)))


def _check_same(study: Study, about: dict[str, Any]) -> None:
    before = _about(study)
    known, now = flattened(before), flattened(about)
    differ = [key for key in {**known, **now} if known.get(key) != now.get(key)]
    if differ:
        lines = [f"  {key.removeprefix('recipe.')}: {known.get(key)!r} → {now.get(key)!r}" for key in differ[:_SHOWN]]
        more = [f"  … and {len(differ) - _SHOWN} more"] if len(differ) > _SHOWN else []
        raise SpecError(
            "\n".join([f"the study {study.study_name!r} was begun with another recipe or other ranges:", *lines, *more])
            + "\nGo on with what it was begun with, or begin another with --run-dir (or --study)"
        )


def _about(study: Study) -> dict[str, Any]:
    waited = time.monotonic()
    while time.monotonic() - waited < _PATIENCE_SECONDS:
        about = study.user_attrs.get(_ABOUT)
        if isinstance(about, dict):
            return about
        time.sleep(0.1)
    raise PointsetError(
        f"the study {study.study_name!r} says nothing about its recipe: it is not one of `pointset tune`, or the "
        "process that made it ended too early. Choose another name with --study"
    )
