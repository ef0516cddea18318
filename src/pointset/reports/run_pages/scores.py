"""What charts and their captions need of true and predicted values: R², MAE, ROC and precision-recall curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Agreement(NamedTuple):
    """How near predictions are to the truth, over the rows where both are known."""

    true: Floats  # (rows,)
    predicted: Floats  # (rows,)
    mae: float
    r2: float  # NaN where the true values do not differ


class Detection(NamedTuple):
    """A yes-or-no label at every threshold, from the strictest to the laxest."""

    positives: int
    negatives: int
    false_positive_rate: Floats  # (thresholds + 1,) from 0 to 1
    recall: Floats  # (thresholds + 1,) from 0 to 1, also called true positive rate
    precision: Floats  # (thresholds + 1,) the first is that of the strictest threshold
    roc_auc: float  # NaN where only one of both answers occurs
    average_precision: float


def agreement(true: Floats, predicted: Floats) -> Agreement:
    """R² = 1 − Σ(y − ŷ)² / Σ(y − ȳ)² and MAE = mean |y − ŷ|."""
    known = np.isfinite(true) & np.isfinite(predicted)
    true, predicted = true[known], predicted[known]
    if not len(true):
        return Agreement(true, predicted, np.nan, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):  # a run that diverged has a report too
        spread = float(((true - true.mean()) ** 2).sum())
        r2 = 1 - float(((true - predicted) ** 2).sum()) / spread if spread > 0 else np.nan
    return Agreement(true, predicted, float(np.abs(true - predicted).mean()), r2)


def detection(true: Floats, probability: Floats) -> Detection:
    """ROC curve, and average precision Σ (R_k − R_{k−1}) P_k as scikit-learn defines it; ties share a threshold."""
    known = np.isfinite(true) & np.isfinite(probability)
    order = np.argsort(-probability[known], kind="stable")
    scores, positive = probability[known][order], true[known][order] > 0.5
    last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1) if len(scores) else np.zeros(0, dtype=np.int64)
    hits, alarms = np.cumsum(positive)[last], (last + 1).astype(np.int64)
    positives, negatives = int(positive.sum()), int((~positive).sum())
    recall = np.concatenate([[0.0], hits / max(positives, 1)])
    false_alarms = np.concatenate([[0.0], (alarms - hits) / max(negatives, 1)])
    precision = hits / alarms
    both = positives > 0 and negatives > 0
    return Detection(
        positives=positives,
        negatives=negatives,
        false_positive_rate=false_alarms,
        recall=recall,
        precision=np.concatenate([precision[:1] if len(precision) else [np.nan], precision]),
        roc_auc=float(np.trapezoid(recall, false_alarms)) if both else np.nan,
        average_precision=float((np.diff(recall) * precision).sum()) if positives else np.nan,
    )


def confusion(
    true: Sequence[str], predicted: Sequence[str], classes: Sequence[str], most: int
) -> tuple[list[str], NDArray[np.int64]]:
    """(k, k) how often a class (row) was predicted as a class (column), of the ``most`` frequent classes in order.

    Rows without a true class do not count; a class that ``classes`` does not name comes after those it does.
    """
    pairs = Counter((one, other) for one, other in zip(true, predicted, strict=True) if one)
    frequency = Counter(one for one in true if one)
    known = list(dict.fromkeys([*classes, *sorted({name for pair in pairs for name in pair})]))
    kept = set(sorted(known, key=lambda name: -frequency[name])[:most])
    names = [name for name in known if name in kept]
    return names, np.array([[pairs[one, other] for other in names] for one in names], dtype=np.int64)
