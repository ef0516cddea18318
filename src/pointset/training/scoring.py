"""How predictions are scored: all metrics of a task, over all rows at once, in float64 (:func:`score`).

The table of metrics is :mod:`pointset.metrics`; a new one is computed in ``_value_scores`` (regression),
``_label_scores`` (yes-or-no labels) or ``_class_scores``.

Missing targets are left out, each target by itself. A score that does not exist is NaN: of no rows, ROC-AUC and
average precision of one class only, R² of a constant, all scores of predictions that are NaN.

The score over all targets is the mean of those of the targets that have one (for RMSE too). So a label without both
classes among its known rows does not count for ROC-AUC and average precision, but does for accuracy: as in OGB's
evaluator. Macro F1 is the mean over the classes that occur among the targets or the predictions: scikit-learn's
default, which the evaluator of the Long Range Graph Benchmark takes.

torch and torchmetrics (2.4 s) are imported where scores are computed: names of metrics are checked without the wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pointset.datasets.card import Card
from pointset.errors import SpecError, did_you_mean
from pointset.metrics import Task, metric_names, threshold_curve

if TYPE_CHECKING:
    from torch import Tensor

    from pointset.datasets.dataset import TargetScale


class Scores(NamedTuple):
    """All metrics of the task, over the targets and for each target by its name."""

    overall: dict[str, float]
    per_target: dict[str, dict[str, float]]


def check_metric(name: str | None, card: Card) -> str:
    """The metric that chooses the best epoch, None for the card's own; one of another task is refused."""
    fitting = list(metric_names(card.task))
    metric = card.metric.value if name is None else name
    if metric not in fitting:
        hint = did_you_mean(str(metric), fitting)
        raise SpecError(
            f"got the metric {metric!r} for {card.task.value} ({card.name}); expected one of {', '.join(fitting)}{hint}"
        )
    return metric


def score(predictions: Tensor, targets: Tensor, card: Card, scale: TargetScale | None) -> Scores:
    """All metrics of the card's task.

    Args:
        predictions: (rows, k): for regression in the targets' own units, otherwise logits; (rows, classes) for
            multi-class.
        targets: (rows, k) with NaN where a target is missing; for multi-class (rows,) whole numbers, negative where
            missing.
        card: says task, targets and classes.
        scale: its standard deviations are those of ``normalised_mae``, which is NaN without a scale.

    Raises:
        SpecError: shapes or values are not those of the task.
    """
    import torch

    predictions = predictions.detach().to("cpu", torch.float64)
    targets = targets.detach().to("cpu")
    _check_shapes(predictions, targets, card, scale)
    if card.task is Task.MULTI_CLASS:
        overall = _class_scores(predictions, targets)
        return Scores(overall, {name: dict(overall) for name in card.target_names})
    targets = targets.to(torch.float64)
    known = ~targets.isnan()
    per_target = {}
    for column, name in enumerate(card.target_names):
        rows = predictions[known[:, column], column], targets[known[:, column], column]  # (known rows,) each
        if card.task is Task.REGRESSION:
            per_target[name] = _value_scores(*rows, None if scale is None else float(scale.std[column]))
        else:
            per_target[name] = _label_scores(*rows)
    broken = bool((predictions.isnan() & known).any())  # a model that diverged has no score, not that of the rest
    overall = {}
    for metric in metric_names(card.task):  # the mean of the scores that exist
        defined = [scores[metric] for scores in per_target.values() if not math.isnan(scores[metric])]
        overall[metric] = sum(defined) / len(defined) if defined and not broken else math.nan
    return Scores(overall, per_target)


def _value_scores(predictions: Tensor, targets: Tensor, std: float | None) -> dict[str, float]:
    """Of one target of a regression, (rows,) each."""
    from torchmetrics.functional.regression import mean_absolute_error, mean_squared_error, relative_squared_error

    scores = dict.fromkeys(metric_names(Task.REGRESSION), math.nan)
    if not len(targets):
        return scores
    scores["mae"] = float(mean_absolute_error(predictions, targets))
    scores["rmse"] = float(mean_squared_error(predictions, targets, squared=False))
    if std is not None:
        scores["normalised_mae"] = scores["mae"] / std
    if not bool((targets == targets[0]).all()):
        # Centred and scaled first: Σy² − (Σy)²/n loses all digits of energies near −11,000, and values below 1e-16 are
        # taken for zero (r2_score takes even residuals below 1e-4 for zero).
        mean, spread = targets.mean(), targets.std(correction=0)
        scores["r2"] = 1 - float(relative_squared_error((predictions - mean) / spread, (targets - mean) / spread))
    return scores


def _label_scores(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Of one label, (rows,) each; a row is taken for class 1 where its logit is above 0."""
    from torchmetrics.functional.classification import binary_stat_scores

    scores = dict.fromkeys(metric_names(Task.BINARY), math.nan)
    if not len(labels) or bool(logits.isnan().any()):
        return scores
    labels = labels.long()
    right_1, _, right_0, _, positive = binary_stat_scores((logits > 0).long(), labels, validate_args=False).tolist()
    scores["accuracy"] = (right_1 + right_0) / len(labels)
    if 0 < positive < len(labels):
        curve = threshold_curve(labels.double().numpy(), logits.numpy())
        scores["roc_auc"], scores["average_precision"] = curve.roc_auc, curve.average_precision
    return scores


def _class_scores(logits: Tensor, classes: Tensor) -> dict[str, float]:
    """Of logits (rows, classes) and the right classes (rows,)."""
    import torch
    from torchmetrics.functional.classification import multiclass_stat_scores

    known = classes >= 0
    logits, classes = logits[known], classes[known].long()
    if not len(classes) or bool(logits.isnan().any()):
        return dict.fromkeys(metric_names(Task.MULTI_CLASS), math.nan)
    counts = multiclass_stat_scores(
        logits.argmax(1), classes, num_classes=max(logits.shape[1], 2), average=None, validate_args=False
    )
    true, false, _, missed, _ = counts.to(torch.float64).unbind(1)  # (classes,) each
    occurs = (true + false + missed) > 0
    f1 = 2 * true / (2 * true + false + missed)  # F1 = 2PR / (P + R)
    return {"accuracy": float(true.sum()) / len(classes), "macro_f1": float(f1[occurs].mean())}


def _check_shapes(predictions: Tensor, targets: Tensor, card: Card, scale: TargetScale | None) -> None:
    width = card.outputs
    wanted = (len(predictions),) if card.task is Task.MULTI_CLASS else (len(predictions), width)
    if predictions.dim() != 2 or predictions.shape[1] != width or targets.shape != wanted:
        names = ("rows,", "classes") if card.task is Task.MULTI_CLASS else ("rows, targets", "targets")
        raise SpecError(
            f"got predictions of shape {tuple(predictions.shape)} for targets of shape {tuple(targets.shape)}; "
            f"expected (rows, {names[1]}) and ({names[0]}) with {width} {names[1]}"
        )
    if scale is not None and len(scale.std) != width and card.task is Task.REGRESSION:
        raise SpecError(f"got a scale of {len(scale.std)} targets; expected one of {width}, as {card.name} has")
    if card.task is Task.MULTI_CLASS:
        if targets.is_floating_point() or bool((targets >= width).any()):
            raise SpecError(f"got classes that are not whole numbers below {width}; expected those of {card.name}")
    elif card.task is not Task.REGRESSION and not bool(((targets == 0) | (targets == 1) | targets.isnan()).all()):
        raise SpecError("got labels other than 0 and 1; expected 0, 1, or NaN where a label is missing")
