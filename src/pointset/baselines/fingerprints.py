"""Chemists' models on fingerprints, tuned: a random forest or gradient boosting on Morgan counts (:func:`tuned`).

Each is trained by three settings, and the best of them on the validation part answers. Unlike the forest that is
trained beside a run (:mod:`pointset.baselines.forest`), they see all molecules and may take long: a limit on time ends
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats
from pointset.baselines.forest import OneTarget, require_sklearn
from pointset.errors import SpecError
from pointset.metrics import Task

Learner = Literal["forest", "boosting"]
SETTINGS: dict[Learner, tuple[str, tuple[float, ...]]] = {
    "forest": ("max_features", (0.1, 0.33, 1.0)),
    "boosting": ("learning_rate", (0.03, 0.1, 0.3)),
}
"""What is tuned of each, and the three values."""
_MOST = {"forest": 300, "boosting": 1000}  # trees, or rounds, of a target
_STEP = {"forest": 10, "boosting": 25}  # between two looks at the clock
_PATIENCE = 20  # rounds of boosting without progress on the validation part


class Examples(NamedTuple):
    """Molecules to learn from, or to choose by: (G, c) counts, and targets (G, k) with NaN, or (G,) classes."""

    counts: NDArray[Any]
    targets: Floats
    weights: Floats | None = None  # (G,) how much each counts in training


class Trial(NamedTuple):
    """One of the settings: its value, how good it was, how large its models grew."""

    value: float
    loss: float
    trees: int  # or rounds, of the largest of all targets
    is_limited: bool  # ended by the time


class Tuned(NamedTuple):
    """What the best of the settings answers, (rows, outputs), and all of them."""

    answers: Floats
    best: Trial
    trials: list[Trial]


def tuned(
    learner: Learner,
    train: Examples,
    val: Examples,
    asked: NDArray[Any],
    loss: Callable[[Floats], float],
    *,
    task: Task,
    outputs: int,
    seed: int = 0,
    minutes: float | None = None,
    threads: int = 1,
    tell: Callable[[str], None] = lambda line: None,
) -> Tuned:
    """Train three settings, and answer by the one that is best on the validation part; the first of equal ones.

    There is a model for each target, of the molecules that have it. The same for the same arguments, whatever the
    threads, unless the time ends it.

    Args:
        learner: ``"forest"`` or ``"boosting"``.
        train: what is learned from.
        val: by what the setting is chosen, and where boosting stops.
        asked: (rows, c) counts of the molecules to answer for.
        loss: of answers (rows, outputs) for the validation part; the smallest is the best.
        task: what is predicted.
        outputs: k, or the number of classes.
        seed: of the trees.
        minutes: how long all may take, in equal parts for each model; a tree, or some rounds, are always made.
        threads: that build trees.
        tell: gets a line for each setting.

    Raises:
        MissingExtraError: scikit-learn is not installed.
        SpecError: there is no validation part, or no setting has a score.
    """
    require_sklearn()
    if not len(val.counts):
        raise SpecError("got no molecules for validation; expected some to choose among the settings by")
    name, values = SETTINGS[learner]
    varies = (train.counts != train.counts[:1]).any(0)  # the others are never branched on
    train, val = (part._replace(counts=part.counts[:, varies]) for part in (train, val))
    clock = _Clock(minutes, len(values) * (1 if task is Task.MULTI_CLASS else train.targets.shape[1]))
    trials: list[Trial] = []
    answers: list[Floats] = []
    with _openmp_threads(threads):
        for value in values:
            models = [
                _fitted(learner, value, column, task, seed=seed, threads=threads, until=clock.next_end())
                for column in _columns(train, val, task)
            ]
            found = [_answers(models, counts, outputs) for counts in (val.counts, asked[:, varies])]
            size, is_limited = max(one.size for one in models), any(one.is_limited for one in models)
            trials.append(Trial(value, loss(found[0]), size, is_limited))
            answers.append(found[1])
            tell(f"{learner} on fingerprints, {name} {value:g}: {trials[-1].loss:.4g} on validation")
    best = _best(trials, learner)
    return Tuned(answers[best], trials[best], trials)


def _best(trials: Sequence[Trial], learner: Learner) -> int:
    losses = [np.inf if np.isnan(trial.loss) else trial.loss for trial in trials]
    if not np.isfinite(min(losses)):
        raise SpecError(f"no setting of the {learner} has a score on the validation part; expected targets that vary")
    return int(np.argmin(losses))


class _Column(NamedTuple):
    """One target, of the molecules that have it."""

    counts: NDArray[Any]
    target: Floats
    weights: Floats | None
    val_counts: NDArray[Any]
    val_target: Floats


def _columns(train: Examples, val: Examples, task: Task) -> Iterator[_Column]:
    def known(column: Floats) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = column >= 0 if task is Task.MULTI_CLASS else ~np.isnan(column)
        return found

    columns = (part.targets.reshape(len(part.targets), -1).T for part in (train, val))
    for target, val_target in zip(*columns, strict=True):
        here, there = known(target), known(val_target)
        weights = None if train.weights is None else train.weights[here]
        yield _Column(train.counts[here], target[here], weights, val.counts[there], val_target[there])


class _Fitted(OneTarget):
    """With the size that it grew to, and whether the time ended it."""

    size = 0
    is_limited = False


def _fitted(
    learner: Learner, value: float, data: _Column, task: Task, *, seed: int, threads: int, until: float | None
) -> _Fitted:
    """A model of one target, grown step by step."""
    model = _Fitted(task, _estimator(learner, task, value, seed))
    if not model.learns(data.target, data.weights):
        return model
    size_name, more = "n_estimators", {}
    if learner == "boosting":
        size_name, more = "max_iter", _for_stopping(model, data)
    counts = data.counts.astype(np.float32 if learner == "forest" else np.float64)  # scikit-learn's own types
    if learner == "forest":
        model.model.set_params(n_jobs=threads)
    step = 1 if learner == "forest" and until is not None else _STEP[learner]  # a tree may take many seconds
    for size in range(step, _MOST[learner] + 1, step):
        model.model.set_params(**{size_name: size}).fit(counts, data.target, sample_weight=data.weights, **more)
        model.size = size if learner == "forest" else int(model.model.n_iter_)
        if model.size < size:
            break
        if until is not None and time.monotonic() >= until and size < _MOST[learner]:
            model.is_limited = True
            break
    if learner == "forest":
        model.model.set_params(n_jobs=1)  # the sums of several threads are added in another order each time
    return model


def _estimator(learner: Learner, task: Task, value: float, seed: int) -> Any:
    from sklearn import ensemble  # type: ignore[import-untyped]

    kind = "Regressor" if task is Task.REGRESSION else "Classifier"
    name = f"RandomForest{kind}" if learner == "forest" else f"HistGradientBoosting{kind}"
    return getattr(ensemble, name)(random_state=seed, warm_start=True, **{SETTINGS[learner][0]: value})


def _for_stopping(model: _Fitted, data: _Column) -> dict[str, Any]:
    """What boosting is given to stop by: validation molecules of classes that training has, if there are some."""
    of_classes = model.task is not Task.REGRESSION
    rows = np.isin(data.val_target, np.unique(data.target)) if of_classes else np.ones(len(data.val_target), dtype=bool)
    model.model.set_params(early_stopping=bool(rows.any()), n_iter_no_change=_PATIENCE)
    if not rows.any():
        return {}
    return {"X_val": data.val_counts[rows].astype(np.float64), "y_val": data.val_target[rows]}


def _answers(models: list[_Fitted], counts: NDArray[Any], outputs: int) -> Floats:
    """(rows, outputs): of one model all, else a column of each."""
    width = outputs if len(models) == 1 else 1
    return np.concatenate([model.outputs(counts, width) for model in models], axis=1)


class _Clock:
    """When each of several models is to end; what one leaves over is there for the next."""

    def __init__(self, minutes: float | None, models: int):
        self.started, self.minutes, self.models, self.begun = time.monotonic(), minutes, models, 0

    def next_end(self) -> float | None:
        """Of the next model; None where there is no limit."""
        self.begun += 1
        return None if self.minutes is None else self.started + 60 * self.minutes * self.begun / self.models


@contextmanager
def _openmp_threads(threads: int) -> Iterator[None]:
    """Boosting takes all that OpenMP has."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn needs it

    with threadpool_limits(threads, user_api="openmp"):
        yield
