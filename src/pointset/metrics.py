"""The one table of metrics: all that is known of a score but its computation (:class:`Metric`).

A new metric is an entry here and its value in :mod:`pointset.training.scoring`; recipes, result files, tables and pages
take names, labels, directions and units from this table. Users add their own with :func:`register_metric`. Light to
import (no torch, no numpy).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from pointset import extensions
from pointset.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from pointset.arrays import Floats

Made = TypeVar("Made", bound=Callable[..., Any])


class Task(StrEnum):
    """What is predicted."""

    REGRESSION = "regression"
    BINARY = "binary classification"
    MULTI_CLASS = "multi-class classification"
    MULTI_LABEL = "multi-label classification"
    LINK = "link prediction"  # whether two nodes are joined


_LABELS = (Task.BINARY, Task.MULTI_LABEL, Task.LINK)


class Metric(StrEnum):
    """How predictions are scored; the value is the name in recipes and results. The order is that of all tables."""

    _value_: str
    label: str  # for tables and axes
    meaning: str
    tasks: tuple[Task, ...]
    higher_is_better: bool
    has_unit: bool  # whether it has the unit of its target
    short: str  # for narrow columns

    def __new__(
        cls,
        name: str,
        label: str,
        meaning: str,
        tasks: tuple[Task, ...],
        higher_is_better: bool = True,
        has_unit: bool = False,
        short: str = "",
    ) -> Metric:
        """A member with the attributes of its line in the table."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.label, member.meaning, member.tasks, member.short = label, meaning, tasks, short or label
        member.higher_is_better, member.has_unit = higher_is_better, has_unit
        return member

    @classmethod
    def _missing_(cls, value: object) -> Metric | None:
        """A member that :func:`register_metric` has made."""
        return extensions.look_up("metric", _BY_NAME, value)

    @property
    def with_arrow(self) -> str:
        """``MAE ↓``: the arrow points to where it is better."""
        return f"{self.short} {'↑' if self.higher_is_better else '↓'}"

    MAE = "mae", "MAE", "mean absolute error", (Task.REGRESSION,), False, True
    RMSE = "rmse", "RMSE", "root mean square error", (Task.REGRESSION,), False, True
    R2 = "r2", "R²", "share of the variance explained", (Task.REGRESSION,)
    NORMALISED_MAE = (
        "normalised_mae",
        "normalised MAE",
        "mean absolute error in units of the target's standard deviation",
        (Task.REGRESSION,),
        False,
    )
    ROC_AUC = "roc_auc", "ROC-AUC", "area under the ROC curve", _LABELS
    AVERAGE_PRECISION = (
        "average_precision",
        "average precision",
        "area under the precision-recall curve",
        _LABELS,
        True,
        False,
        "AP",
    )
    ACCURACY = "accuracy", "accuracy", "share of correct answers", (*_LABELS, Task.MULTI_CLASS)
    HITS_20 = "hits@20", "hits@20", "share of the links above the 20th of the other pairs", (Task.LINK,)
    HITS_50 = "hits@50", "hits@50", "share of the links above the 50th of the other pairs", (Task.LINK,)
    HITS_100 = "hits@100", "hits@100", "share of the links above the 100th of the other pairs", (Task.LINK,)
    MACRO_F1 = "macro_f1", "macro F1", "F1 score, averaged over the classes", (Task.MULTI_CLASS,)


_BY_NAME = {metric.value: metric for metric in Metric}
_BUILT_IN = frozenset(_BY_NAME)
COUNTING_BOUND = 0.01
"""A model counts a substructure where its normalised MAE is at most this (Huang et al. 2023; the paper's Table 1)."""


def metric_names(task: Task | None = None) -> tuple[str, ...]:
    """The metrics of a task, or all, in the order of the table; those that users have registered come last."""
    return tuple(name for name, metric in _BY_NAME.items() if task is None or task in metric.tasks)


def metric_named(name: str) -> Metric:
    """The metric with this name.

    Raises:
        SpecError: there is no such metric.
    """
    metric = extensions.look_up("metric", _BY_NAME, name)
    if metric is None:
        hint = did_you_mean(str(name), list(_BY_NAME))
        raise SpecError(f"got the metric {name!r}; expected one of {', '.join(_BY_NAME)}{hint}")
    return metric


def is_metric(name: object) -> bool:
    """Whether there is one of this name; looks at what was registered, too."""
    return extensions.look_up("metric", _BY_NAME, name) is not None


def metric_label(name: str) -> str:
    """``ROC-AUC`` for ``roc_auc``; a name that is not in the table, such as ``loss``, without its underscores."""
    return _BY_NAME[name].label if name in _BY_NAME else name.replace("_", " ")


def metric_meaning(name: str) -> str:
    """``area under the ROC curve``; empty for a name that is not in the table."""
    return _BY_NAME[name].meaning if name in _BY_NAME else ""


def metric_unit(name: str, unit: str | None) -> str:
    """The unit of a score: that of the target, ``unit``, or none."""
    return unit or "" if name in _BY_NAME and _BY_NAME[name].has_unit else ""


def higher_is_better(name: str) -> bool:
    """The direction, also of a name that is not in the table: of a loss, less is better."""
    return _BY_NAME[name].higher_is_better if name in _BY_NAME else name != "loss"


# --- a user's own


class OwnMetric(NamedTuple):
    """How a registered metric is computed."""

    function: Callable[..., Any]
    intervals: bool


_OWN: dict[str, OwnMetric] = {}
_ROWS = 8  # on which a metric is tried when it is registered


@overload
def register_metric(
    name: str,
    function: None = None,
    *,
    task: str | Sequence[str] = ...,
    higher_is_better: bool,
    label: str = ...,
    meaning: str = ...,
    has_unit: bool = ...,
    intervals: bool = ...,
    replace: bool = ...,
) -> Callable[[Made], Made]: ...
@overload
def register_metric(
    name: str,
    function: Made,
    *,
    task: str | Sequence[str] = ...,
    higher_is_better: bool,
    label: str = ...,
    meaning: str = ...,
    has_unit: bool = ...,
    intervals: bool = ...,
    replace: bool = ...,
) -> Made: ...
def register_metric(
    name: str,
    function: Any = None,
    *,
    task: str | Sequence[str] = Task.REGRESSION,
    higher_is_better: bool,
    label: str = "",
    meaning: str = "",
    has_unit: bool = False,
    intervals: bool = True,
    replace: bool = False,
) -> Any:
    """Give a metric of your own a name; all results of its task then have it, and ``metric=name`` chooses epochs by it.

    Also as a decorator. It is called for each target by itself, without rows whose target is missing, with float64
    arrays of NumPy: ``function(predictions, targets) → float``.

    Args:
        name: the new name, for recipes and results.
        function: of a regression it gets numbers in the target's unit, (rows,) each; of labels the probability of 1 and
            the label 0 or 1, (rows,) each; of classes probabilities (rows, classes) and the numbers of classes (rows,).
            NaN says that there is no score.
        task: ``"regression"``, ``"binary"``, ``"multi-class"`` or ``"multi-label"``; or several.
        higher_is_better: the direction.
        label: for tables and axes; by default the name.
        meaning: in words; by default the first line of the docstring.
        has_unit: whether a score has the unit of its target.
        intervals: whether a confidence interval is given, for which it is called a thousand times.
        replace: take the place of a metric of another definition that you have registered under this name.

    Raises:
        SpecError: the name is taken, there is no such task, or it does not give a number.

    Example:
        >>> import numpy as np, pointset
        >>> @pointset.register_metric("max_error", higher_is_better=False, has_unit=True)
        ... def max_error(predictions, targets):
        ...     return np.abs(predictions - targets).max()
    """
    tasks = tuple(map(_task_named, (task,) if isinstance(task, str) else task))
    module = extensions.calling_module()

    def register(made: Made) -> Made:
        earlier = _OWN.get(name)
        same = earlier is not None and extensions.same_thing(earlier.function, made)
        extensions.check_name("metric", name, name in _BUILT_IN or name == "loss", same, replace)
        if not callable(made):
            raise SpecError(f"got {type(made).__name__} as the metric {name!r}; expected a function")
        if not tasks:
            raise SpecError(f"got no task for the metric {name!r}; expected one, such as 'regression', or several")
        for one in tasks:
            _tried(name, made, one)
        text = (inspect.getdoc(made) or "").strip().partition("\n")[0].rstrip(".")
        about = (
            label or name.replace("_", " "),
            meaning or text or name,
            tasks,
            bool(higher_is_better),
            bool(has_unit),
        )
        _BY_NAME[name] = _member(name, *about)
        _OWN[name] = OwnMetric(made, intervals)
        extensions.note_registration("metric", name, module)
        return made

    return register if function is None else register(function)


def _member(
    name: str, label: str, meaning: str, tasks: tuple[Task, ...], higher_is_better: bool, has_unit: bool
) -> Metric:
    """A member beside those of the table; ``Metric(name)`` finds it."""
    member = str.__new__(Metric, name)
    member._name_, member._value_ = name, name
    member.label, member.meaning, member.tasks, member.short = label, meaning, tasks, label
    member.higher_is_better, member.has_unit = higher_is_better, has_unit
    return member


def _task_named(task: str) -> Task:
    """``multi-class`` is enough for multi-class classification."""
    known = {one.value.removesuffix(" classification"): one for one in Task}
    found = known.get(str(task).removesuffix(" classification"))
    if found is None:
        hint = did_you_mean(str(task), list(known))
        raise SpecError(f"got the task {task!r}; expected some of {', '.join(known)}{hint}")
    return found


def _tried(name: str, function: Callable[..., Any], task: Task) -> None:
    """Refuse a metric that fails on eight made-up rows, before a training comes to its end."""
    import numpy as np

    rows = np.arange(_ROWS) % 2
    if task is Task.REGRESSION:
        own_score(name, function, np.linspace(0.5, 2.0, _ROWS), np.linspace(0.25, 3.0, _ROWS) ** 2)
    elif task is Task.MULTI_CLASS:
        own_score(name, function, np.stack([1 - 0.8 * rows, 0.8 * rows], axis=1), rows)
    else:
        own_score(name, function, np.linspace(0.1, 0.9, _ROWS), rows.astype(np.float64))


def own_metrics(task: Task) -> dict[str, OwnMetric]:
    """Those of this task that users have registered."""
    return {name: own for name, own in _OWN.items() if task in _BY_NAME[name].tasks}


def own_score(name: str, function: Callable[..., Any], predictions: Any, targets: Any) -> float:
    """What a registered metric says of these rows.

    Raises:
        SpecError: it fails, or does not give a number.
    """
    shapes = f"predictions of shape {predictions.shape} and targets of shape {targets.shape}"
    try:
        found = function(predictions, targets)
    except Exception as error:
        raise SpecError(f"the metric {name!r} failed on {shapes}: {type(error).__name__}: {error}") from error
    if isinstance(found, bool) or not (isinstance(found, Real) or getattr(found, "shape", None) == ()):
        raise SpecError(f"the metric {name!r} gave a {type(found).__name__} for {shapes}; expected one number")
    return float(found)


class ThresholdCurve(NamedTuple):
    """A yes-or-no label at every threshold, from the strictest to the laxest."""

    positives: int
    negatives: int
    false_positive_rate: Floats  # (thresholds + 1,) from 0 to 1
    recall: Floats  # (thresholds + 1,) from 0 to 1, also called true positive rate
    precision: Floats  # (thresholds + 1,) the first is that of the strictest threshold
    roc_auc: float  # NaN where only one of both answers occurs
    average_precision: float  # NaN without positives


def threshold_curve(labels: Floats, scores: Floats) -> ThresholdCurve:
    """ROC curve, and average precision Σ (R_k − R_{k−1}) P_k as scikit-learn defines it; ties share a threshold.

    Args:
        labels: (rows,) 0 or 1.
        scores: (rows,) probabilities or logits, none NaN. Only their order matters.
    """
    import numpy as np

    order = np.argsort(-scores, kind="stable")
    sorted_scores, positive = scores[order], labels[order] > 0.5
    is_last = np.append(sorted_scores[1:] != sorted_scores[:-1], True) if len(scores) else np.zeros(0, dtype=bool)
    last = np.flatnonzero(is_last)  # row of each threshold
    positives, negatives = int(positive.sum()), int((~positive).sum())
    true = np.concatenate([[0], np.cumsum(positive)[last]]).astype(np.float64)  # whole numbers, so areas are exact
    false = np.concatenate([[0], last + 1]) - true
    precision = true[1:] / (last + 1)
    return ThresholdCurve(
        positives=positives,
        negatives=negatives,
        false_positive_rate=false / max(negatives, 1),
        recall=true / max(positives, 1),
        precision=np.concatenate([precision[:1] if len(precision) else [np.nan], precision]),
        roc_auc=float(np.trapezoid(true, false)) / (positives * negatives) if positives and negatives else np.nan,
        average_precision=float((np.diff(true) * precision).sum()) / positives if positives else np.nan,
    )
