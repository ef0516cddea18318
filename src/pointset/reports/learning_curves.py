"""Charts of the epochs: loss, validation score, learning rate (:func:`learning_curves`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pointset.metrics import higher_is_better, metric_label
from pointset.reports.charts import Axis, Chart, Figure, Floats, add, short
from pointset.runs.records import Columns, EigenvalueFunctions, RunRecord
from pointset.text import counted, number

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
    name = metric_label(metric)
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
    name = metric_label(metric)
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


# The learned eigenvalue functions f (:func:`function_figure`).


_MOST = 8  # channels that can be told apart
_MOST_GROUPS, _MOST_DOTS = 40, 400


def function_figure(functions: EigenvalueFunctions) -> tuple[Figure, list[tuple[str, str]]] | None:
    """f_i(λ) of some channels i over the eigenvalues λ of an example graph, and the legend (channel, style)."""
    eigenvalues = np.asarray(functions.eigenvalues, dtype=np.float64)
    order = np.argsort(eigenvalues, kind="stable")
    eigenvalues = eigenvalues[order]
    values = np.asarray(functions.values, dtype=np.float64).reshape(len(order), len(functions.channels))[order][
        :, :_MOST
    ]
    if not values.size:
        return None
    x, y = Axis.around([eigenvalues], "eigenvalue λ"), Axis.around([values], "f(λ)")
    shown = counted(values.shape[1], "channel")
    chart = Chart(x, y, f"Eigenvalue functions of {shown} over {counted(len(order), 'eigenvalue')}", height=280)
    legend = [(f"channel {channel}", f"c{i}") for i, channel in enumerate(functions.channels[:_MOST])]
    some = slice(None, None, 1 + len(order) // _MOST_DOTS)
    for column, (_, style) in enumerate(legend):
        chart.dots(eigenvalues[some], values[some, column], f"{style} faint")
    for column, (_, style) in enumerate(legend):
        chart.line(*_smoothed(eigenvalues, values[:, column]), style)
    _draw_rug(chart, eigenvalues[some])
    matrix = functions.matrix.replace("_", " ")
    caption = (
        f"What {shown} make of the eigenvalues of the {matrix or 'matrix'}: a dot for each eigenvalue of some test "
        "graphs (strokes at the bottom), a line for their local mean. Where f(λ) is far from zero, eigenvectors with "
        "that eigenvalue weigh much in the coordinates of that channel; dots of one channel scatter because f sees all "
        "eigenvalues of a graph. Without learning it would be f(λ) = √λ."
    )
    return Figure(chart.svg(), "", caption), legend


def _smoothed(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Means over up to 40 groups of neighbouring eigenvalues; of a few eigenvalues the numbers themselves."""
    known = np.isfinite(x) & np.isfinite(y)
    groups = np.array_split(np.flatnonzero(known), min(_MOST_GROUPS, max(int(known.sum()), 1)))
    means = [(x[group].mean(), y[group].mean()) for group in groups if len(group)]
    return np.array([mean[0] for mean in means]), np.array([mean[1] for mean in means])


def _draw_rug(chart: Chart, eigenvalues: Floats) -> None:
    left, right, _, bottom = chart.place
    across = left + chart.x.shares(eigenvalues) * (right - left)
    path = "".join(f"M{short(a)} {short(bottom)}v-7" for a in across[np.isfinite(across)].tolist())
    add(chart.root, "path", d=path, class_="rug")
