"""Scores over epochs or minutes: every learning curve, on a page or in a picture, is made by :func:`learning_curve`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pointset.arrays import Floats
from pointset.metrics import higher_is_better, metric_label
from pointset.reports.charts import Axis, Chart, Figure
from pointset.reports.palette import SERIES
from pointset.runs.records import Columns, RunRecord
from pointset.text import number


class Curve(NamedTuple):
    """The scores of one run, NaN in epochs that were not validated."""

    epochs: Floats | Sequence[float]  # or other times
    values: Floats | Sequence[float]
    style: str
    label: str = ""  # for the legend
    best: int | None = None  # the place of the best one, which gets a ring
    note: str = ""  # beside that ring

    @classmethod
    def through(cls, points: Sequence[tuple[float, float]], style: str, label: str = "") -> Curve:
        """Through (epoch or time, score)."""
        return cls([epoch for epoch, _ in points], [score for _, score in points], style, label)


def curve_style(index: int) -> str:
    """Of the model or recipe with this number: after the last colour they come again, dashed and dotted."""
    again = ("", " dashed", " dotted")[index // len(SERIES) % 3]
    return f"c{index % len(SERIES)}{again}"


def learning_curve(
    curves: Sequence[Curve],
    description: str,
    *,
    score: str = "",
    lower_is_better: bool = True,
    with_zero: bool = False,
    over: str = "epoch",
) -> Chart:
    """A line for each run over the epochs, or over the times that ``over`` names; ``score`` is written above the axis.

    Where lower is better, the scale is logarithmic if the numbers span more than a factor of 20.
    """
    epochs = np.concatenate([np.zeros(0), *(np.asarray(curve.epochs, dtype=np.float64) for curve in curves)])
    first, last = float(epochs.min(initial=np.inf)), float(epochs.max(initial=-np.inf))
    if not first < last:
        first, last = (first - 1, first + 1) if first == last else (1.0, 2.0)
    values = [*(curve.values for curve in curves), *([[0.0]] if with_zero else [])]
    y = Axis.around(values, score, may_be_log=lower_is_better and not with_zero)
    chart = Chart(Axis(first, last, over, whole=over == "epoch"), y, description)
    named: set[str] = set()
    for curve in curves:
        at, scores = np.asarray(curve.epochs, dtype=np.float64), np.asarray(curve.values, dtype=np.float64)
        known = np.isfinite(scores)  # the line leads to the next epoch that was validated
        chart.line(at[known], scores[known], curve.style, "" if curve.label in named else curve.label)
        named.add(curve.label)
        if curve.best is not None:
            style = "c1" if curve.note else curve.style  # one that is spoken of stands out
            chart.ring(float(at[curve.best]), float(scores[curve.best]), curve.note, style)
        elif known.sum() == 1:  # a line through one point cannot be seen
            chart.ring(float(at[known][0]), float(scores[known][0]), "", curve.style)
    return chart


def learning_curves(run: RunRecord) -> list[Figure]:
    """Training loss, validation score and learning rate; none before the first epoch has ended."""
    if not len(run.epochs.get("epoch", ())):
        return []
    return list(filter(None, (_loss(run.epochs), _validation(run), _learning_rate(run.epochs))))


def best_epoch(run: RunRecord) -> int | None:
    """The row of metrics.csv whose validation score is the best."""
    values = run.epochs.get(f"val_{run.metric}", np.zeros(0))
    if not np.isfinite(values).any():
        return None
    if run.result is not None and run.result.best_epoch is not None:
        at = np.flatnonzero(run.epochs["epoch"] == run.result.best_epoch)
        if len(at):
            return int(at[0])
    up = run.result.higher_is_better if run.result is not None else higher_is_better(str(run.metric))
    return int(np.nanargmax(values) if up else np.nanargmin(values))


def overlaid_validation(runs: Sequence[tuple[RunRecord, str, str]], metric: str) -> Figure | None:
    """The validation score of several runs in one chart; each comes with its style and label."""
    curves = [
        Curve(run.epochs["epoch"], run.epochs[f"val_{metric}"], style, label, best_epoch(run))
        for run, style, label in runs
        if f"val_{metric}" in run.epochs and "epoch" in run.epochs
    ]
    if not curves:
        return None
    name, lower = metric_label(metric), not higher_is_better(metric)
    description = f"Validation {name} of {len(curves)} runs over the epochs"
    chart = learning_curve(curves, description, score=f"validation {name}", lower_is_better=lower)
    text = f"{'Lower' if lower else 'Higher'} is better; the best epoch of each run has a ring."
    return chart.figure("", text + chart.y.scale_note)


def _loss(epochs: Columns) -> Figure | None:
    values = epochs.get("train_loss")
    if values is None or not np.isfinite(values).any():
        return None
    first, last = number(values[0]), number(values[-1])
    chart = learning_curve([Curve(epochs["epoch"], values, "c0")], f"Training loss from {first} to {last}")
    text = f"From {first} in the first epoch to {last} in the last." if len(values) > 1 else "After one epoch."
    return chart.figure("Training loss", text + chart.y.scale_note)


def _validation(run: RunRecord) -> Figure | None:
    metric, best = run.metric, best_epoch(run)
    if metric is None or best is None:
        return None
    name, values = metric_label(metric), run.epochs[f"val_{metric}"]
    epoch, value = run.epochs["epoch"][best], number(values[best])
    curve = Curve(run.epochs["epoch"], values, "c2", best=best, note=f"best: {value}")
    description = f"Validation {name}; best {value} in epoch {epoch:.0f}"
    chart = learning_curve([curve], description, lower_is_better=not higher_is_better(metric))
    text = f"The ring marks epoch {epoch:.0f}, whose weights were kept: {value}.{chart.y.scale_note}"
    return chart.figure(f"Validation {name}", text)


def _learning_rate(epochs: Columns) -> Figure | None:
    values = epochs.get("lr")
    if values is None or not np.isfinite(values).any():
        return None
    chart = learning_curve([Curve(epochs["epoch"], values, "c4")], "Learning rate over the epochs", with_zero=True)
    return chart.figure("Learning rate", f"Up to {number(float(np.nanmax(values)))}.")
