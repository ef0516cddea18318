"""Predicted against true: dots or a density for numbers, ROC and precision-recall curves for labels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pointset.reports.drawing.node_colours import SCALE
from pointset.reports.run_pages.axis import Axis
from pointset.reports.run_pages.chart import HEIGHT, WIDTH, Chart
from pointset.reports.run_pages.figure import Figure
from pointset.reports.run_pages.scores import Agreement, Detection, Floats, agreement, detection
from pointset.reports.run_pages.words import count, number

MOST_TARGETS, MOST_LABELS = 13, 10
_MOST_DOTS = 1500  # rows from which dots would hide each other and make the file large: a density is drawn
_BARS = 31
_CELLS = (50, 64)  # rows and columns of a density


def agreement_figures(numbers: Mapping[str, tuple[Floats, Floats]], units: Mapping[str, str | None]) -> list[Figure]:
    """A chart for each of the first targets; the diagonal is where a perfect prediction would lie."""
    return [
        _agreement_figure(target, units.get(target) or "", len(pair[0]), agreement(*pair))
        for target, pair in list(numbers.items())[:MOST_TARGETS]
    ]


def is_density(rows: int) -> bool:
    """Whether a chart of so many rows shows how many there are in each place, not each of them."""
    return rows > _MOST_DOTS


def _agreement_figure(target: str, unit: str, rows: int, found: Agreement) -> Figure:
    title = f"{target} ({unit})" if unit and unit not in target else target
    span = Axis.around([found.true, found.predicted])
    x, y = Axis(span.low, span.high, "true"), Axis(span.low, span.high, "predicted")
    scores = f"R² {number(found.r2, 3)}, MAE {number(found.mae, 3)}"
    chart = Chart(x, y, f"{target}: predicted against true, {scores}", height=WIDTH * 0.86)
    if is_density(rows):
        chart.density(_densities(found, span), SCALE[1])
    else:
        chart.dots(found.true, found.predicted)
    chart.line([span.low, span.high], [span.low, span.high], "diagonal")
    known = len(found.true)
    return Figure(chart.svg(), title, scores + (f"; {known:,} of {rows:,} rows have a value" if known < rows else ""))


def error_figure(true: Floats, predicted: Floats, unit: str) -> Figure:
    """How often which error occurs; the few largest are left out of the picture."""
    found = agreement(true, predicted)
    errors = found.predicted - found.true
    reach = float(np.quantile(np.abs(errors), 0.99)) if len(errors) else 0.0
    inside = errors[np.abs(errors) <= reach]
    heights, edges = np.histogram(inside, bins=_BARS, range=(-(reach or 1.0), reach or 1.0))
    x, y = (
        Axis(edges[0], edges[-1], f"predicted − true{f' ({unit})' if unit else ''}"),
        Axis(0, max(1.0, heights.max() * 1.05)),
    )
    chart = Chart(x, y, "Histogram of the errors", height=WIDTH * 0.86)
    chart.bars(edges, heights)
    chart.line([0, 0], [y.low, y.high], "diagonal")
    bias = number(float(errors.mean()) if len(errors) else None, 2)
    left_out = f" The largest 1 %, beyond ±{number(reach, 2)}, are not drawn." if len(inside) < len(errors) else ""
    return Figure(chart.svg(), "Errors", f"How many rows have which error; their mean is {bias}.{left_out}")


def _densities(found: Agreement, span: Axis) -> Floats:
    """(rows, columns) how many values fall in each cell, on a logarithmic scale from 0.15 for a single one to 1."""
    edges = [np.linspace(span.low, span.high, cells + 1) for cells in _CELLS]
    counts = np.histogram2d(found.predicted, found.true, bins=edges)[0]
    shares = np.log1p(counts) / np.log1p(max(counts.max(), 1.0))
    return np.where(counts > 0, 0.15 + 0.85 * shares, 0.0)


def detection_figures(numbers: Mapping[str, tuple[Floats, Floats]]) -> tuple[list[Figure], list[tuple[str, str]]]:
    """The ROC and the precision-recall curves of the first labels, and the legend: (label, style)."""
    found = {target: detection(*pair) for target, pair in list(numbers.items())[:MOST_LABELS]}
    if not found:
        return [], []
    legend = [(target, f"c{index % 10}") for index, target in enumerate(found)]
    return [_roc(found, legend), _precision_recall(found, legend)], legend if len(legend) > 1 else []


def _roc(found: Mapping[str, Detection], legend: list[tuple[str, str]]) -> Figure:
    scores = [one.roc_auc for one in found.values() if np.isfinite(one.roc_auc)]
    mean = number(float(np.mean(scores)), 3) if scores else "unknown"
    x, y = Axis(0, 1, "false positive rate"), Axis(0, 1, "true positive rate")
    chart = Chart(x, y, f"ROC curve, area {mean}", height=HEIGHT * 1.2)
    chart.line([0, 1], [0, 1], "diagonal")
    for target, style in legend:
        chart.line(found[target].false_positive_rate, found[target].recall, style)
    words = f"Area under the curve {mean}" + (f", mean over {count(len(scores), 'label')}" if len(found) > 1 else "")
    return Figure(chart.svg(), "ROC curve", f"{words}. The dashed diagonal is guessing.")


def _precision_recall(found: Mapping[str, Detection], legend: list[tuple[str, str]]) -> Figure:
    scores = [one.average_precision for one in found.values() if np.isfinite(one.average_precision)]
    mean = number(float(np.mean(scores)), 3) if scores else "unknown"
    x, y = Axis(0, 1, "recall"), Axis(0, 1, "precision")
    chart = Chart(x, y, f"Precision-recall curve, average precision {mean}", height=HEIGHT * 1.2)
    for target, style in legend:
        chart.line(found[target].recall, found[target].precision, style)
    words = f"Average precision {mean}" + (f", mean over {count(len(scores), 'label')}" if len(found) > 1 else "")
    if len(found) == 1:
        (one,) = found.values()
        share = one.positives / max(one.positives + one.negatives, 1)
        chart.line([0, 1], [share, share], "diagonal")
        words += f"; guessing would give {number(share, 3)}, the share of positives (dashed)"
    return Figure(chart.svg(), "Precision and recall", f"{words}.")
