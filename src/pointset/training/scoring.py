"""How predictions are scored: all metrics of a task, over all rows at once, in float64 (:func:`score`), and how far
the scores would move with other rows of the same kind (:func:`score_with_intervals`).

The table of metrics is :mod:`pointset.metrics`; a new one is computed in ``_value_scores`` (regression),
``_label_scores`` (yes-or-no labels) or ``_class_scores``, and of resampled rows in the ``_resampled_…`` beside it.
Those that users have registered are computed in ``_own_scores``.

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
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pointset.arrays import Array, Floats, Integers
from pointset.datasets.card import Card
from pointset.errors import SpecError, did_you_mean
from pointset.metrics import Metric, Task, metric_names, own_metrics, own_score, threshold_curve

if TYPE_CHECKING:
    from torch import Tensor

    from pointset.datasets.dataset import TargetScale

_RESAMPLES = 1000
_DRAWS_AT_ONCE = 2_000_000  # rows drawn together: 16 MB of float64
_MOST_DRAWS = 10**8  # of a million rows a hundred resamples are drawn, whose scores hardly differ
_SEED = 0
_FEWEST = 5  # resampling fewer rows says nothing of others
_CONFIDENCE = 0.95


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
        kept = targets >= 0
        overall |= _own_scores(predictions[kept].numpy(), targets[kept].numpy(), card.task)
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
            if card.task is Task.LINK:
                per_target[name] |= _hits(*rows)
        per_target[name] |= _own_scores(rows[0].numpy(), rows[1].numpy(), card.task)
    broken = bool((predictions.isnan() & known).any())  # a model that diverged has no score, not that of the rest
    overall = {}
    for metric in metric_names(card.task):  # the mean of the scores that exist
        defined = [scores[metric] for scores in per_target.values() if not math.isnan(scores[metric])]
        overall[metric] = sum(defined) / len(defined) if defined and not broken else math.nan
    return Scores(overall, per_target)


class Interval(NamedTuple):
    """A score, and between which bounds it lies for most resamples of its rows; NaN where there is none."""

    value: float
    lower: float
    upper: float


def score_with_intervals(
    predictions: Tensor,
    targets: Tensor,
    card: Card,
    scale: TargetScale | None,
    *,
    scores: Scores | None = None,
    groups: Integers | None = None,
) -> dict[str, Interval]:
    """All metrics over the targets, each with its 95 % interval: the percentile bootstrap over rows, 1,000 resamples.

    The seed is fixed, so the same rows have the same intervals. Fewer than five rows have none. It takes about a
    second for 10,000 rows of one label.

    Args:
        predictions: as for :func:`score`.
        targets: as for :func:`score`.
        card: as for :func:`score`.
        scale: as for :func:`score`.
        scores: what :func:`score` gives for them, if that is known.
        groups: (rows,) numbers from 0: rows of the same number, such as nodes of a graph, are drawn together.
    """
    import torch

    found = score(predictions, targets, card, scale) if scores is None else scores
    outputs, truth = predictions.detach().to("cpu", torch.float64).numpy(), targets.detach().to("cpu").numpy()
    units = np.arange(len(truth)) if groups is None else groups
    drawn: dict[str, list[Floats]] = {metric: [] for metric in found.overall}
    if int(units.max(initial=-1)) + 1 >= _FEWEST and not any(math.isnan(value) for value in _leading(found)):
        for times in _resamples(int(units.max()) + 1):  # (resamples, groups)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no scores is NaN, as it should be
                resampled = _resampled(outputs, truth, times[:, units], card, scale)
            for metric, values in resampled.items():
                drawn[metric].append(values)
    return {metric: Interval(value, *_bounds(value, drawn[metric])) for metric, value in found.overall.items()}


def _leading(found: Scores) -> list[float]:
    """A score that exists wherever any does: predictions that are NaN, and no rows, have none."""
    return [found.overall[metric] for metric in ("mae", "accuracy") if metric in found.overall]


def _resamples(groups: int) -> Iterator[Floats]:
    """(some resamples, groups): how often each is drawn, when as many are drawn as there are, with replacement."""
    generator = np.random.default_rng(_SEED)
    left = min(_RESAMPLES, max(_MOST_DRAWS // groups, _RESAMPLES // 10))
    at_once = max(1, _DRAWS_AT_ONCE // groups)
    while left:
        some = min(left, at_once)
        draws = generator.integers(groups, size=(some, groups)) + groups * np.arange(some)[:, None]
        yield np.bincount(draws.ravel(), minlength=some * groups).reshape(some, groups).astype(np.float64)
        left -= some


def _bounds(value: float, drawn: list[Floats]) -> tuple[float, float]:
    known = np.concatenate([np.zeros(0), *drawn])
    known = known[np.isfinite(known)]
    if math.isnan(value) or not len(known):
        return math.nan, math.nan
    lower, upper = np.quantile(known, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return float(lower), float(upper)


def _resampled(
    outputs: Floats, targets: Floats, times: Floats, card: Card, scale: TargetScale | None
) -> dict[str, Floats]:
    """(resamples,) for each metric, from outputs (rows, k), targets (rows, k) and times (resamples, rows).

    Like the score itself, that of a resample is NaN where it does not exist.
    """
    if card.task is Task.MULTI_CLASS:
        known = targets >= 0
        rows = outputs[known], targets[known].astype(np.int64), times[:, known]
        return _resampled_classes(*rows) | _resampled_own(*rows, card.task)
    columns = []
    for column in range(len(card.target_names)):
        known = ~np.isnan(targets[:, column])
        output, target, weights = outputs[known, column], targets[known, column].astype(np.float64), times[:, known]
        if card.task is Task.REGRESSION:
            std = None if scale is None else float(scale.std[column])
            columns.append(_resampled_values(output, target, weights, std))
        else:
            columns.append(_resampled_labels(output, target, weights))
            columns[-1] |= _resampled_hits(output, target, weights) if card.task is Task.LINK else {}
        columns[-1] |= _resampled_own(output, target, weights, card.task)
    return {metric: np.nanmean([one[metric] for one in columns], axis=0) for metric in columns[0]}


def _resampled_values(outputs: Floats, targets: Floats, times: Floats, std: float | None) -> dict[str, Floats]:
    """``_value_scores`` of rows (rows,) drawn so many times, (resamples, rows)."""
    center, spread = (targets.mean(), targets.std()) if len(targets) else (0.0, 0.0)
    scaled = (targets - center) / (spread or 1.0)  # as in _value_scores: no digits are lost
    error = np.abs(outputs - targets)
    columns = np.stack([error, error**2, scaled, scaled**2], axis=1)
    mae, square, mean, second = (times @ columns).T / times.sum(1)
    variance = second - mean**2
    r2 = 1 - square / (variance * spread**2)
    r2[~(variance > 1e-12)] = np.nan  # all rows drawn have the same value, up to rounding
    empty = np.full(len(times), np.nan)
    normalised = empty if std is None else mae / std
    return {"mae": mae, "rmse": np.sqrt(square), "r2": r2, "normalised_mae": normalised}


def _resampled_labels(logits: Floats, labels: Floats, times: Floats) -> dict[str, Floats]:
    """``_label_scores`` of rows (rows,) drawn so many times, (resamples, rows).

    Rows are sorted once. With P_g positives and N_g negatives drawn at the g-th highest logit, P and N in all,
    ROC-AUC = Σ_g P_g (Σ_{h>g} N_h + N_g/2) / (P N), and
    average precision = Σ_g P_g/P · (Σ_{h≤g} P_h) / (Σ_{h≤g} P_h + N_h).
    """
    order = np.argsort(-logits, kind="stable")
    ranked = logits[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(ranked) else np.zeros(0, dtype=np.int64)
    weights, positive = times[:, order], labels[order] > 0.5
    above = np.cumsum(weights * positive, axis=1)[:, last]  # (resamples, logits) positives down to this logit
    drawn = np.cumsum(weights, axis=1)[:, last]
    found = np.diff(above, prepend=0.0)
    negatives = drawn - above
    all_positive, all_drawn = above[:, -1:].sum(1), drawn[:, -1:].sum(1)  # 0 where there are no rows
    all_negative = all_drawn - all_positive
    behind = all_negative[:, None] - negatives + np.diff(negatives, prepend=0.0) / 2
    right = (logits > 0) == (labels > 0.5)
    area = (found * behind).sum(1) / (all_positive * all_negative)
    precision = (found * above / np.maximum(drawn, 1.0)).sum(1) / all_positive
    undefined = (all_positive == 0) | (all_negative == 0)
    area[undefined], precision[undefined] = np.nan, np.nan
    return {"roc_auc": area, "average_precision": precision, "accuracy": times @ right / all_drawn}


def _resampled_hits(logits: Floats, labels: Floats, times: Floats) -> dict[str, Floats]:
    """``_hits`` of rows (rows,) drawn so many times, (resamples, rows): links above the k-th other pair."""
    order = np.argsort(-logits, kind="stable")
    ranked, weights, link = logits[order], times[:, order], labels[order] > 0.5
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(ranked) else np.zeros(0, dtype=np.int64)
    links = np.cumsum(weights * link, axis=1)[:, last]  # (resamples, logits) down to this logit
    others = np.cumsum(weights * ~link, axis=1)[:, last]
    above = np.concatenate([np.zeros((len(times), 1)), links], axis=1)  # down to the logit before
    found = {}
    for metric in _HITS:
        at = (others < _rank_of(metric)).sum(1)  # the logit of the k-th; beyond the last where there are fewer
        found[metric.value] = np.take_along_axis(above, at[:, None], 1)[:, 0] / above[:, -1]
    return found


def _resampled_classes(logits: Floats, classes: Integers, times: Floats) -> dict[str, Floats]:
    """``_class_scores`` of logits (rows, classes) and classes (rows,) drawn so many times, (resamples, rows)."""
    every = np.arange(logits.shape[1])
    is_class, is_guess = classes[:, None] == every, logits.argmax(1)[:, None] == every  # (rows, classes)
    true, of_class, guessed = (times @ rows.astype(np.float64) for rows in (is_class & is_guess, is_class, is_guess))
    f1 = 2 * true / (of_class + guessed)  # (resamples, classes); NaN where the class does not occur
    return {"accuracy": true.sum(1) / times.sum(1), "macro_f1": np.nanmean(f1, axis=1)}


def _own_scores(outputs: Floats, targets: Array, task: Task) -> dict[str, float]:
    """Of the metrics that users have registered; arrays of their own, which they may change."""
    if not len(targets) or np.isnan(outputs).any():
        return dict.fromkeys(own_metrics(task), math.nan)
    return {
        name: own_score(name, own.function, _as_answers(outputs, task), targets.copy())
        for name, own in own_metrics(task).items()
    }


def _resampled_own(outputs: Floats, targets: Array, times: Floats, task: Task) -> dict[str, Floats]:
    """``_own_scores`` of rows drawn so many times, (resamples, rows); NaN where a metric fails on a resample."""
    found: dict[str, Floats] = {}
    for name, own in own_metrics(task).items():
        if not own.intervals:
            continue
        values = np.full(len(times), np.nan)
        for at, counts in enumerate(times.astype(np.int64)):
            rows = np.repeat(np.arange(len(targets)), counts)
            with suppress(SpecError):
                values[at] = own_score(name, own.function, _as_answers(outputs[rows], task), targets[rows])
        found[name] = values
    return found


def _as_answers(outputs: Floats, task: Task) -> Floats:
    """Logits as probabilities; numbers as they are."""
    if task is Task.REGRESSION:
        return outputs.copy()
    if task is Task.MULTI_CLASS:
        weights: Floats = np.exp(outputs - outputs.max(1, keepdims=True))
        shares: Floats = weights / weights.sum(1, keepdims=True)
        return shares
    ones: Floats = 1 / (1 + np.exp(-np.clip(outputs, -700, 700)))
    return ones


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


_HITS = (Metric.HITS_20, Metric.HITS_50, Metric.HITS_100)


def _rank_of(metric: Metric) -> int:
    """The k of hits@k."""
    return int(metric.value.rpartition("@")[2])


def _hits(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """hits@k of links among pairs, (rows,) each: the share of links whose logit is above the k-th of the other pairs.

    Fewer than k other pairs leave every link above (as in OGB's evaluator).
    """
    links, others = logits[labels > 0.5], logits[labels < 0.5].sort(descending=True).values
    scores = {}
    for metric in _HITS:
        k = _rank_of(metric)
        known = len(links) and not bool(logits.isnan().any())
        above = float((links > others[k - 1]).double().mean()) if known and len(others) >= k else 1.0
        scores[metric.value] = above if known else math.nan
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
