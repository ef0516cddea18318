"""Searching the hyperparameters of a recipe (:func:`tune`)."""

from __future__ import annotations

import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pointset.errors import MissingExtraError, PointsetError, SpecError
from pointset.files import try_lock
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.tuning.ranges import Range, search_space
from pointset.tuning.result import BEST, CONTENT, TABLE, TuningResult

if TYPE_CHECKING:
    from pointset.tuning.trials import TrialRecord


# Which of the processes that work on a study in a folder are still alive (:class:`Presence`).
#
# Each holds a lock on a file of its own, which the system lets go when the process ends, however it ends. So a trial
# of a
# killed process is known to be nobody's at once, while a heartbeat in the database (for other machines) takes minutes.


_FOLDER = "workers"


class Presence(AbstractContextManager["Presence"]):
    """One process among those at work in ``folder``; inside of the ``with`` block it is present."""

    def __init__(self, folder: Path):
        self._folder = folder / _FOLDER
        self._file: IO[Any] | None = None
        self.name = ""

    def __enter__(self) -> Presence:
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

    def is_gone(self, name: str) -> bool:
        """Whether a process has ended. False where it is not known here: then its heartbeat decides."""
        path = self._folder / Path(name).name
        if name == self.name or not path.is_file():
            return False
        with path.open("r+") as file:
            return try_lock(file)


# Whether Optuna is there, and what it would say by itself kept quiet. Light to import.


def check_tune_extra() -> None:
    """Refuse before any work is done.

    Raises:
        MissingExtraError: optuna is not installed.
    """
    if find_spec("optuna") is None:
        raise MissingExtraError(
            "tuning needs optuna, which is not installed. Install it with: pip install 'pointset[tune]'"
        )


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Inside, Optuna logs errors only: what happens to a trial is told by us, once."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def experiments_allowed() -> Iterator[None]:
    """Inside, parts that Optuna calls experimental (heartbeats) are used without a warning to the user."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


OnTrial = Callable[["TrialRecord", TuningResult], None]
_OURS = ("study.db", "trials", "workers", CONTENT, TABLE, BEST)


def tune(
    recipe: Recipe | str | Path,
    run_dir: str | Path,
    *,
    trials: int = 20,
    ranges: Mapping[str, Range | str] | None = None,
    fixed: Collection[str] = (),
    storage: str | None = None,
    study: str | None = None,
    timeout: float | None = None,
    seed: int = 0,
    pruning: bool = True,
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: str = "quiet",
    on_trial: OnTrial | None = None,
) -> TuningResult:
    """Search the paper's seven hyperparameters for those with the best validation score. The test part is not touched.

    The first trial has the recipe's own values, so that the best is never worse; the others are proposed by TPE. A
    trial that is worse than the median of the others at the same epoch ends early. Calling again goes on, until there
    are ``trials`` in all; any number of processes may work on one study at once. In one process, the same seed gives
    the same trials, interrupted or not.

    Args:
        recipe: a recipe, its name, or its file.
        run_dir: the folder of the study, new or that of the study to go on with.
        trials: how many there are to be in all, pruned and failed ones included.
        ranges: other ranges than the paper's, or of other keys: ``{"model.dim": "16:64"}``.
        fixed: keys that keep the recipe's own value.
        storage: URL of a database that several machines share; by default a file in the folder.
        study: its name in the database; by default the recipe's.
        timeout: minutes after which no further trial begins.
        seed: of the proposals. The weights' seed is the recipe's, the same for all trials.
        pruning: whether bad trials end early.
        data_dir: where the data lies.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        watch: how a trial's training is shown: ``"bar"``, ``"plain"`` or ``"quiet"``.
        on_trial: told of each trial of this process when it has ended, with all that is known then.

    Raises:
        MissingExtraError: optuna is not installed.
        SpecError: a range is impossible, or the folder holds something else or a study of another recipe.
        PointsetError: the database fails, or all trials failed.
        TrainingStopped: Ctrl-C or SIGTERM; the trial at hand is taken up again by the next call.

    Example:
        >>> result = tune("counting-small", "runs/tuned", trials=10)  # doctest: +SKIP
        >>> result.best[0].value, result.best_recipe  # doctest: +SKIP
    """
    check_tune_extra()
    _check_numbers(trials, timeout, seed)
    folder = Path(run_dir)
    space = search_space(recipe if isinstance(recipe, Recipe) else read_recipe(recipe), ranges, fixed)
    _check_folder(folder, storage)
    from pointset.tuning.session import Session, Settings

    settings = Settings(storage, study or space.recipe.name, seed, pruning, device, watch)
    data_folder = None if data_dir is None else Path(data_dir)
    with quiet_optuna(), Presence(folder) as presence:
        session = Session(space, folder, settings, presence, data_folder)
        deadline = math.inf if timeout is None else time.monotonic() + 60 * timeout
        try:
            result = session.run(trials, deadline, on_trial)
        finally:
            session.close()
    _check_any(result)
    return result


def _check_numbers(trials: int, timeout: float | None, seed: int) -> None:
    for name, value, least in (("trials", trials, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SpecError(f"got {name}={value!r}; expected a whole number, at least {least}")
    if timeout is not None and not timeout > 0:
        raise SpecError(f"got timeout={timeout!r}; expected minutes, above 0")


def _check_folder(folder: Path, storage: str | None) -> None:
    """A new folder, an empty one, or that of a study."""
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"{folder} is a file; expected a folder for the study. Choose another with --run-dir")
    if RunFolder(folder).has_run:
        raise SpecError(f"{folder} is the folder of a run; expected a new one, or that of a study. Choose another")
    names = [item.name for item in folder.iterdir()] if folder.is_dir() else []
    if names and not any(name in _OURS for name in names):
        raise SpecError(
            f"{folder} holds other files ({', '.join(sorted(names)[:3])}…) and no study; expected a new folder, an "
            "empty one, or that of a study. Choose another with --run-dir"
        )
    if storage is None and "trials" in names and "study.db" not in names:
        raise SpecError(
            f"{folder} holds trials of a study whose study.db is not there; expected both. Name its database with "
            "--storage, or choose another folder with --run-dir"
        )


def _check_any(result: TuningResult) -> None:
    """A study in which nothing could be trained is a failure."""
    failed = [one for one in result.trials if one.state == "failed"]
    if failed and not any(result.count(state) for state in ("complete", "pruned", "running")):
        raise PointsetError(
            f"all trials failed, {len(failed)} of {len(failed)}; the last one: {failed[-1].error or 'it was killed'}\n"
            "Change the recipe or its ranges, and begin another study"
        )
