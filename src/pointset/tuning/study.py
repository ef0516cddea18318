"""The study in its database: created once, found by every process, with the trials of dead processes queued again.

Needs optuna.
"""

from __future__ import annotations

import copy
import datetime
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import optuna
from filelock import FileLock
from optuna.exceptions import (
    DuplicatedStudyError,
    ExperimentalWarning,
    StorageInternalError,
    UpdateFinishedTrialError,
)
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import TPESampler
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from pointset.errors import MissingExtraError, PointsetError, SpecError
from pointset.files import check_regular, try_lock
from pointset.metrics import metric_named
from pointset.runs.recipe_files import default_settings, flattened
from pointset.tuning.ranges import Space
from pointset.tuning.result import DATABASE, WORKERS

_ABOUT = "pointset"  # the attribute that says what the study is about; written last, so that one with it is whole
_PATIENCE_SECONDS = 20  # for another process that is creating the study
_SHOWN = 8  # differences
_HEARTBEAT_SECONDS = 60
_BUSY_SECONDS = 120  # how long a process waits for another one that writes to the same file
_ATTEMPTS = 8  # two processes that create the tables of one new database at once: one of them fails, and tries again
_OF_A_RACE = ("already exists", "unique", "duplicate", "locked")  # what the database says then
_EXAMPLES = "sqlite:///FILE, postgresql://USER:PASSWORD@HOST/NAME or mysql://…"
_MOST_KILLS = 3  # of a trial: one that takes all the memory is killed each time, and must not come forever
# User attributes of a trial.
WORKER = "worker"  # the process that runs it
KILLS = "kills"  # how often it was killed
_EARLIER = ("first", "retry_of")  # numbers of earlier attempts, in studies made before Optuna's retry_history was used


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Inside, Optuna logs errors only: what happens to a trial is reported by us, once."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def experiments_allowed() -> Iterator[None]:
    """Inside, parts that Optuna calls experimental (heartbeats, retries) are used without a warning to the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


# --- the database: a file in the study's folder, or any that SQLAlchemy knows


def open_storage(url: str | None, folder: Path, *, heartbeat: int = _HEARTBEAT_SECONDS) -> RDBStorage:
    """The database; without a URL the file ``study.db`` in the study's folder.

    Trials whose process has missed three heartbeats, ``heartbeat`` seconds apart, are queued again.
    """
    address = _address(url, folder)
    if address.get_backend_name() == "sqlite" and address.database:
        check_regular(address.database)
    connect = {"connect_args": {"timeout": _BUSY_SECONDS}} if address.get_backend_name() == "sqlite" else {}
    plain = address.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # a template to Optuna
    with database_errors(shown_url(url, folder)):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with experiments_allowed():
                    return RDBStorage(
                        plain,
                        engine_kwargs={**connect},
                        heartbeat_interval=heartbeat,
                        grace_period=3 * heartbeat,
                        heartbeat_stale_trial_callback=requeue,
                    )
            except (DatabaseError, StorageInternalError) as error:
                said = f"{error} {error.__cause__}".lower()
                if attempt == _ATTEMPTS or not any(word in said for word in _OF_A_RACE):
                    raise
                time.sleep(0.2 * attempt)
            except RuntimeError as error:  # tables of another version of Optuna
                raise PointsetError(f"the study's database {shown_url(url, folder)}: {error}") from None
    raise AssertionError("every attempt returns or raises")


def shown_url(url: str | None, folder: Path) -> str:
    """The database for people, without a password."""
    return str(folder / DATABASE) if url is None else _address(url, folder).render_as_string(hide_password=True)


@contextmanager
def database_errors(name: str) -> Iterator[None]:
    """Report errors of the database inside as one PointsetError."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
        reason = str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0]
        raise PointsetError(
            f"the study's database {name} fails: {reason}\nOnce it works again, the same command resumes the study"
        ) from None


def _address(url: str | None, folder: Path) -> URL:
    if url is None:
        return URL.create("sqlite", database=str((folder / DATABASE).absolute()))
    try:
        address = make_url(url)
        address.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ValueError):
        scheme = url.partition(":")[0]  # the rest may hold a password
        raise SpecError(f"got a storage that begins with {scheme!r:.40}; expected {_EXAMPLES}") from None
    except ImportError as error:
        raise MissingExtraError(
            f"the database {address.get_backend_name()} needs the package {error.name}, which is not installed. "
            f"Install it with: pip install {error.name}"
        ) from None
    return address


# --- the study and its proposals


def open_study(storage: RDBStorage, name: str, space: Space, *, metric: str, seed: int, pruning: bool) -> Study:
    """The study of this name; the first trial of a new one has the recipe's own values."""
    about = {**space.as_dict(), "metric": metric}
    settings: dict[str, Any] = {"sampler": TrialSeededSampler(seed), "pruner": _pruner(space, pruning)}
    direction = StudyDirection.MAXIMIZE if metric_named(metric).higher_is_better else StudyDirection.MINIMIZE
    try:
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
    begun = _about(study)
    searched = begun.get("ranges", {})
    defaults = {f"recipe.{key}": value for key, value in default_settings().items() if key not in searched}
    known, now = flattened(begun), flattened(about)
    known = {key: value for key, value in defaults.items() if key in now} | known  # keys newer than the study, too
    differ = [key for key in {**known, **now} if known.get(key) != now.get(key)]
    if differ:
        lines = [f"  {key.removeprefix('recipe.')}: {known.get(key)!r} → {now.get(key)!r}" for key in differ[:_SHOWN]]
        more = [f"  … and {len(differ) - _SHOWN} more"] if len(differ) > _SHOWN else []
        raise SpecError(
            "\n".join([f"the study {study.study_name!r} was begun with another recipe or other ranges:", *lines, *more])
            + "\nResume it with what it was begun with, or start another with --run-dir (or --study)"
        )


def _about(study: Study) -> dict[str, Any]:
    began = time.monotonic()
    while time.monotonic() - began < _PATIENCE_SECONDS:
        about = study.user_attrs.get(_ABOUT)
        if isinstance(about, dict):
            return about
        time.sleep(0.1)
    raise PointsetError(
        f"the study {study.study_name!r} says nothing about its recipe: it is not one of `pointset tune`, or the "
        "process that created it ended too early. Choose another name with --study"
    )


class TrialSeededSampler(TPESampler):
    """TPE, whose draws for a trial depend on the seed, the trial's number and the trials before it, nothing else.

    So a study that was interrupted proposes the same as one that was not, and processes that share a study never draw
    the same numbers, which they would with one seed for each process.
    """

    def __init__(self, seed: int):
        self._study_seed = seed
        self._begin(0)

    def _begin(self, number: int) -> None:
        seed = int(np.random.SeedSequence([self._study_seed, number]).generate_state(1)[0])
        with experiments_allowed():
            super().__init__(seed=seed, constant_liar=True)  # trials at work elsewhere count as bad ones so far

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._begin(trial.number)
        super().before_trial(study, trial)


# --- trials of processes that have ended


class WorkerLock(AbstractContextManager["WorkerLock"]):
    """One process among those at work in ``folder``: inside the ``with`` block it holds a lock on a file of its own.

    The system releases the lock when the process ends, however it ends. So a trial of a killed process can be queued
    again at once, while its heartbeat in the database, which other machines go by, is missed only after minutes.
    """

    def __init__(self, folder: Path):
        self._folder = folder / WORKERS
        self._file: IO[Any] | None = None
        self.name = ""
        # Held by a process of this folder while its next trial is at work in the database but not yet named after it.
        self.naming = FileLock(self._folder / "naming.lock")

    def __enter__(self) -> WorkerLock:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=".lock", dir=self._folder)
        self._file = os.fdopen(handle, "w")
        try_lock(self._file)  # nobody else knows the file yet
        self.name = Path(path).name
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        begun = any(item != self._folder for item in self._folder.parent.iterdir())
        if kind is None or not begun:  # else the file stays: that it can be locked says that this process has ended
            (self._folder / self.name).unlink(missing_ok=True)
        if not begun:
            with suppress(OSError):  # another process has come
                self._folder.rmdir()
                self._folder.parent.rmdir()

    def has_ended(self, name: str) -> bool:
        """Whether another process has ended. False where it is not known here: then its heartbeat decides."""
        path = self._folder / Path(name).name
        if name == self.name or not path.is_file():
            return False
        with path.open("r+") as file:
            return try_lock(file)


def requeue_dead_trials(study: Study, worker: WorkerLock, *, has_other_folders: bool) -> None:
    """Queue trials again whose process has ended: here by its lock, on other machines by its heartbeat.

    A trial at work that has no process's name was left by one that was killed before it could write its name, and
    before its first heartbeat. Processes with other folders do not share the lock, so theirs are given some time.
    """
    with worker.naming:
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    for trial in running:
        name = trial.user_attrs.get(WORKER)
        is_dead = worker.has_ended(str(name)) if name else not has_other_folders or _is_old(trial)
        if is_dead:
            try:
                study.tell(trial.number, state=TrialState.FAIL)
            except (ValueError, UpdateFinishedTrialError):  # another process was faster
                continue
            requeue(study, trial)
    with experiments_allowed():
        fail_stale_trials(study)


def _is_old(trial: FrozenTrial) -> bool:
    """Whether it began longer ago than a process may go without a heartbeat."""
    began = trial.datetime_start
    return began is not None and (datetime.datetime.now() - began).total_seconds() > 3 * _HEARTBEAT_SECONDS


def requeue(study: Study, trial: FrozenTrial, *, was_killed: bool = True) -> None:
    """Queue another trial with the same values in place of one that ended in the middle, unless killed three times.

    It is trained in the same folder, from the last checkpoint on. Optuna's callback does it; its ``max_retry`` would
    also count how often a trial was interrupted by Ctrl-C, which must not lose it, so the kills are counted here.
    """
    kills = int(trial.user_attrs.get(KILLS, 0)) + was_killed
    if kills >= _MOST_KILLS:
        return
    trial = copy.deepcopy(trial)
    # Without the rest, above all the name of the dead worker: others would take the new trial for dead, too.
    trial.user_attrs = {key: value for key, value in trial.user_attrs.items() if key in _EARLIER} | {KILLS: kills}
    with experiments_allowed():
        RetryHeartbeatStaleTrialCallback(inherit_intermediate_values=True)(study, trial)


def first_attempt(trial: FrozenTrial) -> int:
    """The number of the first attempt at a trial, after which its folder is named."""
    return min(_earlier_attempts(trial), default=trial.number)


def retried_numbers(trials: list[FrozenTrial]) -> set[int]:
    """Numbers of the trials in whose place another one has come."""
    return {number for trial in trials for number in _earlier_attempts(trial)}


def _earlier_attempts(trial: FrozenTrial) -> list[int]:
    with experiments_allowed():
        attempts = RetryHeartbeatStaleTrialCallback.retry_history(trial)
    return [*attempts, *(trial.user_attrs[key] for key in _EARLIER if key in trial.user_attrs)]
