"""Charts of the epochs: loss, validation score, learning rate (:func:`learning_curves`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pointset.reports.run_pages.axis import Axis, Floats
from pointset.reports.run_pages.chart import Chart
from pointset.reports.run_pages.figure import Figure
from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.tables import Columns
from pointset.reports.run_pages.words import higher_is_better, metric_name, number

_EPOCH = "epoch"


def learning_curves(run: RunRecord) -> list[Figure]:
    """Up to three charts; none before the first epoch has ended."""
    epochs = run.epochs
    if not len(epochs.get(_EPOCH, ())):
        return []
    found = [_loss(epochs), _validation(run, run.metric), _learning_rate(epochs)]
    return [figure for figure in found if figure is not None]


def best_epoch(run: RunRecord) -> int | None:
    """The row of metrics.csv whose validation score is the best."""
    values = run.epochs.get(f"val_{run.metric}", np.zeros(0))
    if not np.isfinite(values).any():
        return None
    if run.result is not None and run.result.best_epoch is not None:
        at = np.flatnonzero(run.epochs[_EPOCH] == run.result.best_epoch)
        if len(at):
            return int(at[0])
    up = run.result.higher_is_better if run.result is not None else higher_is_better(str(run.metric))
    return int(np.nanargmax(values) if up else np.nanargmin(values))


def overlaid_validation(runs: Sequence[tuple[RunRecord, str]], metric: str) -> Figure | None:
    """The validation score of several runs in one chart; each comes with its style."""
    shown = [(run, style) for run, style in runs if f"val_{metric}" in run.epochs and _EPOCH in run.epochs]
    if not shown:
        return None
    name = metric_name(metric)
    values = [run.epochs[f"val_{metric}"] for run, _ in shown]
    ends = [
        float(end) for run, _ in shown for end in (run.epochs[_EPOCH].min(initial=1), run.epochs[_EPOCH].max(initial=2))
    ]
    x = Axis(min(ends), max(ends), "epoch", whole=True)
    y = Axis.around(values, f"validation {name}", may_be_log=not higher_is_better(metric))
    chart = Chart(x, y, f"Validation {name} of {len(shown)} runs over the epochs")
    for (run, style), value in zip(shown, values, strict=True):
        _draw(chart, run.epochs[_EPOCH], value, style)
        best = best_epoch(run)
        if best is not None:
            chart.mark(float(run.epochs[_EPOCH][best]), float(value[best]), "", style)
    direction = "Higher" if higher_is_better(metric) else "Lower"
    return Figure(chart.svg(), "", f"{direction} is better; the best epoch of each run has a ring.{_scale_note(y)}")


def _loss(epochs: Columns) -> Figure | None:
    values = epochs.get("train_loss")
    if values is None or not np.isfinite(values).any():
        return None
    y = Axis.around([values], may_be_log=True)
    chart = Chart(_epoch_axis(epochs), y, f"Training loss from {number(values[0])} to {number(values[-1])}")
    _draw(chart, epochs[_EPOCH], values, "c0")
    text = f"From {number(values[0])} in the first epoch to {number(values[-1])} in the last."
    text = f"{text if len(values) > 1 else 'After one epoch.'}{_scale_note(y)}"
    return Figure(chart.svg(), "Training loss", text)


def _validation(run: RunRecord, metric: str | None) -> Figure | None:
    values = run.epochs.get(f"val_{metric}")
    best = best_epoch(run)
    if metric is None or values is None or best is None:
        return None
    name = metric_name(metric)
    epoch, value = run.epochs[_EPOCH][best], float(values[best])
    y = Axis.around([values], may_be_log=not higher_is_better(metric))
    chart = Chart(_epoch_axis(run.epochs), y, f"Validation {name}; best {number(value)} in epoch {epoch:.0f}")
    _draw(chart, run.epochs[_EPOCH], values, "c2")
    chart.mark(float(epoch), value, f"best: {number(value)}", "c1")
    text = f"The ring marks epoch {epoch:.0f}, whose weights were kept: {number(value)}.{_scale_note(y)}"
    return Figure(chart.svg(), f"Validation {name}", text)


def _learning_rate(epochs: Columns) -> Figure | None:
    values = epochs.get("lr")
    if values is None or not np.isfinite(values).any():
        return None
    largest = float(np.nanmax(values))
    chart = Chart(_epoch_axis(epochs), Axis.around([values, [0.0]]), "Learning rate over the epochs")
    _draw(chart, epochs[_EPOCH], values, "c4")
    return Figure(chart.svg(), "Learning rate", f"Up to {number(largest)}.")


def _draw(chart: Chart, epochs: Floats, values: Floats, style: str) -> None:
    known = np.isfinite(values)  # epochs that were not validated have no value: the line goes on to the next
    chart.line(epochs[known], values[known], style)
    if known.sum() == 1:  # a line through one point cannot be seen
        chart.mark(float(epochs[known][0]), float(values[known][0]), "", style)


def _epoch_axis(epochs: Columns) -> Axis:
    first, last = float(epochs[_EPOCH].min()), float(epochs[_EPOCH].max())
    return Axis(*((first, last) if first < last else (first - 1, first + 1)), "epoch", whole=True)


def _scale_note(axis: Axis) -> str:
    return " Logarithmic scale." if axis.log else ""
