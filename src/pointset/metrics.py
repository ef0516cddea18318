"""The one table of metrics: all that is known of a score but its computation (:class:`Metric`).

A new metric is an entry here and its value in :mod:`pointset.training.scoring`; recipes, result files, tables and pages
take names, labels, directions and units from this table. Light to import (no torch, no numpy).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from pointset.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from pointset.arrays import Floats


class Task(StrEnum):
    """What is predicted."""

    REGRESSION = "regression"
    BINARY = "binary classification"
    MULTI_CLASS = "multi-class classification"
    MULTI_LABEL = "multi-label classification"


_LABELS = (Task.BINARY, Task.MULTI_LABEL)


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
    MACRO_F1 = "macro_f1", "macro F1", "F1 score, averaged over the classes", (Task.MULTI_CLASS,)


_BY_NAME = {metric.value: metric for metric in Metric}
METRIC_NAMES = tuple(_BY_NAME)
COUNTING_BOUND = 0.01
"""A model counts a substructure where its normalised MAE is at most this (Huang et al. 2023; the paper's Table 1)."""


def metric_names(task: Task) -> tuple[str, ...]:
    """The metrics of a task, in the order of the table."""
    return tuple(metric.value for metric in Metric if task in metric.tasks)


def metric_named(name: str) -> Metric:
    """The metric with this name.

    Raises:
        SpecError: there is no such metric.
    """
    if name not in _BY_NAME:
        hint = did_you_mean(str(name), list(METRIC_NAMES))
        raise SpecError(f"got the metric {name!r}; expected one of {', '.join(METRIC_NAMES)}{hint}")
    return _BY_NAME[name]


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
