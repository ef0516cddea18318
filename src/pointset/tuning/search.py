"""Searching the hyperparameters of a recipe (:func:`tune`); the trials are run by a :class:`~.session.Session`.

>>> result = tune("counting-small", "runs/tuned", trials=10)  # doctest: +SKIP
>>> result.best[0].value, result.best_recipe  # doctest: +SKIP

Light to import (neither torch nor optuna).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pointset.errors import MissingExtraError, PointsetError, SpecError
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.specs import check_whole_numbers
from pointset.tuning.ranges import Range, search_space
from pointset.tuning.result import BEST, CONTENT, DATABASE, TABLE, TRIALS, WORKERS, TrialRecord, TuningResult

if TYPE_CHECKING:
    from pointset.tuning.forecast import StudyForecast

OnTrial = Callable[[TrialRecord, TuningResult], None]
OnForecast = Callable[["StudyForecast", int], None]  # and how many trials are left


def tune(
    recipe: Recipe | str | Path,
    run_dir: str | Path,
    *,
    trials: int = 20,
    ranges: Mapping[str, Range | str] | None = None,
    fixed: Collection[str] = (),
    storage: str | None = None,
    study: str | None = None,
    minutes: float | None = None,
    seed: int = 0,
    pruning: bool = True,
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: str = "quiet",
    on_trial: OnTrial | None = None,
    on_forecast: OnForecast | None = None,
) -> TuningResult:
    """Search the paper's seven hyperparameters for the best validation score. The test part is not touched.

    The first trial has the recipe's own values, so that the best is never worse; the others are proposed by TPE. A
    trial that is worse than the median of the others at the same epoch ends early. Calling again resumes the study;
    any number of processes may share it. In one process, the same seed gives the same trials, interrupted or not.

    Args:
        recipe: a recipe, its name, or its file.
        run_dir: the folder of the study, new or that of a study to resume.
        trials: how many there are to be in all, pruned and failed ones included.
        ranges: ranges other than the paper's, or of other keys: ``{"model.dim": "16:64"}``.
        fixed: keys that keep the recipe's own value.
        storage: URL of a database that several machines share; by default a file in the folder.
        study: its name in the database; by default the recipe's.
        minutes: a budget of time: no trial begins that would not end within it, as far as can be known, and one that
            has not ended by then is pruned.
        seed: of the proposals. The seed of the weights is the recipe's, the same for all trials.
        pruning: whether bad trials end early.
        data_dir: where the data is.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        watch: how the training of a trial is shown: ``"bar"``, ``"plain"`` or ``"quiet"``.
        on_trial: called after each trial of this process, with all that is known then.
        on_forecast: called before the first trial with what the trials will take; without it, and without ``minutes``,
            nothing is timed.

    Raises:
        PointsetError: optuna is missing, a range is impossible, the folder or the database holds something else, the
            database fails, or all trials failed.
        TrainingStopped: Ctrl-C or SIGTERM; the next call resumes the trial.
    """
    check_tune_extra()
    check_whole_numbers(trials=trials)
    check_whole_numbers(0, seed=seed)
    if minutes is not None and not minutes > 0:
        raise SpecError(f"got minutes={minutes!r}; expected a number above 0")
    space = search_space(recipe if isinstance(recipe, Recipe) else read_recipe(recipe), ranges, fixed)
    folder = Path(run_dir)
    _check_folder(folder, storage)
    from pointset.tuning.forecast import Budget  # loads torch
    from pointset.tuning.session import open_session  # and optuna

    name, budget = study or space.recipe.name, Budget(minutes)
    with open_session(space, folder, storage, name, seed, pruning, data_dir, device, watch, budget) as session:
        result = session.run(trials, on_trial, on_forecast)
    _check_any(result)
    return result


def check_tune_extra() -> None:
    """Refuse before any work is done where optuna is not installed."""
    if find_spec("optuna") is None:
        raise MissingExtraError(
            "tuning needs optuna, which is not installed. Install it with: pip install 'pointset[tune]'"
        )


def _check_folder(folder: Path, storage: str | None) -> None:
    """A new folder, an empty one, or that of a study."""
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"{folder} is a file; expected a folder for the study. Choose another with --run-dir")
    if RunFolder(folder).has_run:
        raise SpecError(
            f"{folder} is the folder of a run; expected a new one, or that of a study. Choose another with --run-dir"
        )
    names = {item.name for item in folder.iterdir()} if folder.is_dir() else set()
    if names and not names & {DATABASE, TRIALS, WORKERS, CONTENT, TABLE, BEST}:
        raise SpecError(
            f"{folder} holds other files ({', '.join(sorted(names)[:3])}…) and no study; expected a new folder, an "
            "empty one, or that of a study. Choose another with --run-dir"
        )
    if storage is None and TRIALS in names and DATABASE not in names:
        raise SpecError(
            f"{folder} holds trials of a study, but {DATABASE} is not there; expected both. Name its database with "
            "--storage, or choose another folder with --run-dir"
        )


def _check_any(result: TuningResult) -> None:
    """A study in which nothing could be trained is a failure."""
    failed = [one for one in result.trials if one.state == "failed"]
    if failed and not any(result.count(state) for state in ("complete", "pruned", "running")):
        raise PointsetError(
            f"all trials failed, {len(failed)} of {len(failed)}; the last one: {failed[-1].error or 'it was killed'}\n"
            "Change the recipe or its ranges, and start another study"
        )
