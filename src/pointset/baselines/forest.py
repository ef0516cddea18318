"""The chemists' baseline: a random forest on Morgan counts, in seconds (:func:`forest_outputs`), and plain means.

Both answer as a model does (values of a regression, logits of labels, logits of classes), so that one evaluator scores
all. The forest is scikit-learn's, an extra; its size is bounded, so that it never takes long beside the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats
from pointset.errors import MissingExtraError
from pointset.metrics import Task
from pointset.progress import progress_bar

MOST_TRAINED = 20_000
"""Molecules that the forest learns from; of more, that many are drawn at random."""
_TREES = 100
_TREES_IN_ALL = 2_000  # shared by many targets
_FEWEST_TREES = 20
_STEP = 10  # trees between two movements of the bar
_AT_ONCE = 10_000  # molecules predicted together: 80 MB of counts in float32
_FEATURES = {Task.REGRESSION: 1 / 3}  # tried at a branch, Breiman's choice; of classes √2048, scikit-learn's own
_CERTAIN = 1e-6  # a probability this near to 0 or 1 is taken for this: its logit is finite


def require_sklearn() -> None:
    """Raise :class:`MissingExtraError` where scikit-learn is not installed."""
    try:
        import sklearn  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise MissingExtraError("scikit-learn is not installed: pip install 'pointset[chem]'") from None


def forest_outputs(
    counts: NDArray[Any],
    targets: Floats,
    asked: NDArray[Any],
    *,
    task: Task,
    outputs: int,
    seed: int,
    weights: Floats | None = None,
    progress: bool | None = None,
) -> Floats:
    """(rows, outputs) what random forests answer: one for each target, of the molecules that have it.

    The same for the same arguments. A forest has 100 trees; those of more than 20 targets have fewer each.

    Args:
        counts: (G, c) of the molecules to learn from, such as Morgan counts.
        targets: (G, k) values or labels, NaN where missing; (G,) classes, negative where missing.
        asked: (rows, c) of those to answer for.
        task: what is predicted.
        outputs: k, or the number of classes.
        seed: of the trees.
        weights: (G,) how much each molecule counts; None: all the same.
        progress: shows a bar; None shows it on a terminal.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    require_sklearn()
    columns = targets.reshape(len(targets), -1)
    trees = max(_FEWEST_TREES, min(_TREES, _TREES_IN_ALL // columns.shape[1]))
    answers = np.zeros((len(asked), outputs))
    with progress_bar("random forest", trees * columns.shape[1], show=progress) as advance:
        for place, column in enumerate(columns.T):
            known = column >= 0 if task is Task.MULTI_CLASS else ~np.isnan(column)
            places: Any = slice(None) if task is Task.MULTI_CLASS else slice(place, place + 1)
            some = None if weights is None else weights[known]
            forest = _Forest(task, trees, seed)
            forest.fit(counts[known], column[known], some, advance)
            for start in range(0, len(asked), _AT_ONCE):
                rows = slice(start, start + _AT_ONCE)
                answers[rows, places] = forest.outputs(asked[rows], answers[rows, places].shape[1])
    return answers


class OneTarget:
    """A model of scikit-learn for one target; a constant where there is nothing to learn."""

    def __init__(self, task: Task, model: Any):
        self.task, self.model, self.constant = task, model, np.nan

    def learns(self, target: Floats, weights: Floats | None) -> bool:
        """Whether there is something to learn; where there is not, the constant is noted."""
        if len(np.unique(target)) > 1 and (weights is None or weights.sum() > 0):
            return True
        self.constant = float(target[0]) if len(target) else 0.0
        return False

    def outputs(self, counts: NDArray[Any], width: int) -> Floats:
        """(rows, 1) values or logits, (rows, classes) logarithms of probabilities."""
        learned = np.isnan(self.constant)
        if self.task is Task.REGRESSION:
            values = self.model.predict(counts) if learned else np.full(len(counts), self.constant)
            return np.asarray(values, dtype=np.float64)[:, None]
        seen = self.model.classes_.astype(np.int64) if learned else np.array([int(self.constant)])
        every = np.zeros((len(counts), max(width, 2)))
        every[:, seen] = self.model.predict_proba(counts) if learned else 1.0
        return _logits(every, width)


class _Forest(OneTarget):
    """A random forest, grown some trees at a time."""

    def __init__(self, task: Task, trees: int, seed: int):
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor  # type: ignore[import-untyped]

        kind = RandomForestRegressor if task is Task.REGRESSION else RandomForestClassifier
        # one job: the sums of several threads are added in another order each time
        features = _FEATURES.get(task, "sqrt")
        super().__init__(task, kind(random_state=seed, n_jobs=1, max_features=features, warm_start=True))
        self.trees = trees

    def fit(self, counts: NDArray[Any], target: Floats, weights: Floats | None, advance: Any) -> None:
        """Some trees at a time, which are the same as all at once."""
        if not self.learns(target, weights):
            advance(self.trees)
            return
        wide = counts.astype(np.float32)  # scikit-learn's own type: it would copy at every step
        for grown in range(0, self.trees, _STEP):
            step = min(_STEP, self.trees - grown)
            self.model.set_params(n_estimators=grown + step).fit(wide, target, sample_weight=weights)
            advance(step)


def mean_outputs(targets: Floats, rows: int, *, task: Task, outputs: int, weights: Floats | None = None) -> Floats:
    """(rows, outputs) the same for all: the mean of each target, or how frequent each label or class is.

    Args:
        targets: as for :func:`forest_outputs`.
        rows: how many are asked for.
        task: what is predicted.
        outputs: k, or the number of classes.
        weights: as for :func:`forest_outputs`.
    """
    counted = np.ones(len(targets)) if weights is None else weights
    if task is Task.MULTI_CLASS:
        known = targets >= 0
        share = np.bincount(targets[known].astype(np.int64), weights=counted[known], minlength=outputs)
        return np.tile(_logits(share[None] / max(share.sum(), 1e-300), outputs), (rows, 1))
    known = ~np.isnan(targets)
    total = np.maximum((known * counted[:, None]).sum(0), 1e-300)
    mean = (np.where(known, targets, 0.0) * counted[:, None]).sum(0) / total  # (k,)
    if task is Task.REGRESSION:
        return np.tile(mean, (rows, 1))
    chances = np.clip(mean, _CERTAIN, 1 - _CERTAIN)
    return np.tile(np.log(chances / (1 - chances)), (rows, 1))


def _logits(probabilities: Floats, width: int) -> Floats:
    """Of (rows, 2) for a label the log odds of 1, (rows, 1); of (rows, width) classes the logarithms."""
    sure = np.clip(probabilities, _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(sure[:, 1:] / (1 - sure[:, 1:])) if width == 1 else np.log(sure))
