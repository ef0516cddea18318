"""Charts of the test predictions for every kind of task (:func:`prediction_section`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats
from pointset.metrics import ThresholdCurve, threshold_curve
from pointset.reports.charts import HEIGHT, WIDTH, Axis, Cell, Chart, Figure, Table
from pointset.reports.palette import SCALE
from pointset.reports.svg import Element, add, drawing, finished
from pointset.runs.records import Predictions, RunRecord
from pointset.runs.result import RunResult
from pointset.text import clipped, counted, number


class Agreement(NamedTuple):
    """How near predictions are to the truth, over the rows where both are known."""

    true: Floats  # (rows,)
    predicted: Floats  # (rows,)
    mae: float
    r2: float  # NaN where the true values do not differ


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


def detection(true: Floats, probability: Floats) -> ThresholdCurve:
    """The curves of a label over the rows where both are known."""
    known = np.isfinite(true) & np.isfinite(probability)
    return threshold_curve(true[known], probability[known])


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
    chart.line([span.low, span.high], [span.low, span.high], "reference")
    known = len(found.true)
    return chart.figure(title, scores + (f"; {known:,} of {rows:,} rows have a value" if known < rows else ""))


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
    chart.line([0, 0], [y.low, y.high], "reference")
    bias = number(float(errors.mean()) if len(errors) else None, 2)
    left_out = f" The largest 1 %, beyond ±{number(reach, 2)}, are not drawn." if len(inside) < len(errors) else ""
    return chart.figure("Errors", f"How many rows have which error; their mean is {bias}.{left_out}")


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


def _roc(found: Mapping[str, ThresholdCurve], legend: list[tuple[str, str]]) -> Figure:
    scores = [one.roc_auc for one in found.values() if np.isfinite(one.roc_auc)]
    mean = number(float(np.mean(scores)), 3) if scores else "unknown"
    x, y = Axis(0, 1, "false positive rate"), Axis(0, 1, "true positive rate")
    chart = Chart(x, y, f"ROC curve, area {mean}", height=HEIGHT * 1.2)
    chart.line([0, 1], [0, 1], "reference")
    for target, style in legend:
        chart.line(found[target].false_positive_rate, found[target].recall, style)
    words = f"Area under the curve {mean}" + (f", mean over {counted(len(scores), 'label')}" if len(found) > 1 else "")
    return chart.figure("ROC curve", f"{words}. The dashed diagonal is guessing.")


def _precision_recall(found: Mapping[str, ThresholdCurve], legend: list[tuple[str, str]]) -> Figure:
    scores = [one.average_precision for one in found.values() if np.isfinite(one.average_precision)]
    mean = number(float(np.mean(scores)), 3) if scores else "unknown"
    x, y = Axis(0, 1, "recall"), Axis(0, 1, "precision")
    chart = Chart(x, y, f"Precision-recall curve, average precision {mean}", height=HEIGHT * 1.2)
    for target, style in legend:
        chart.line(found[target].recall, found[target].precision, style)
    words = f"Average precision {mean}" + (f", mean over {counted(len(scores), 'label')}" if len(found) > 1 else "")
    if len(found) == 1:
        (one,) = found.values()
        share = one.positives / max(one.positives + one.negatives, 1)
        chart.line([0, 1], [share, share], "reference")
        words += f"; guessing would give {number(share, 3)}, the share of positives (dashed)"
    return chart.figure("Precision and recall", f"{words}.")


MOST_CLASSES = 25
_FEW = 8  # classes up to which cells show counts and a row's share
_NAME = 15  # letters of a class's name that are shown
_LETTER = 6.2  # units: about the width of one


def confusion_figure(names: Sequence[str], counts: NDArray[np.int64]) -> Figure:
    """Rows are the true classes, columns the predicted ones; colour is the share of the row."""
    k = len(names)
    few = k <= _FEW
    cell = 300.0 / max(k, 2) if few else 28.0
    shown = [clipped(name, _NAME) for name in names]
    left = 26 + _LETTER * max((len(name) for name in shown), default=1)
    upright = few and all(_LETTER * len(name) < cell for name in shown)
    top = 44.0 if upright else 34 + _LETTER * max((len(name) for name in shown), default=1)
    width, height = left + k * cell + 8, top + k * cell + 8
    total, right = int(counts.sum()), int(np.trace(counts))
    root = drawing(width, height, f"Confusion matrix of {counted(k, 'class')}: {right:,} of {total:,} right")
    least = "" if few else f"; min-width: {width * 0.8:.0f}px"  # it scrolls in its own frame on a phone
    root.set("style", f"max-width: {width * 1.35:.0f}px{least}")
    add(root, "text", "predicted", x=left + k * cell / 2, y=14.0, text_anchor="middle", class_="label")
    add(root, "text", "true", x=4.0, y=top - 8, class_="label")
    for index, name in enumerate(shown):
        middle = (index + 0.5) * cell
        add(root, "text", name, x=left - 8, y=top + middle + 4, text_anchor="end", class_="tick")
        place = (left + middle, top - 9)
        if upright:
            add(root, "text", name, x=place[0], y=place[1], text_anchor="middle", class_="tick")
        else:
            turn = f"translate({place[0] + 4:.1f} {place[1]:.1f}) rotate(-90)"
            add(root, "text", name, transform=turn, class_="tick")
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for row in range(k):
        for column in range(k):
            corner = (left + column * cell, top + row * cell)
            _draw_cell(root, corner, cell, int(counts[row, column]), float(shares[row, column]), few)
    text = f"{right:,} of {total:,} on the diagonal are right. Colour and percentage are the share of the row."
    return Figure(finished(root), "Confusion matrix", text)


def _draw_cell(root: Element, corner: tuple[float, float], cell: float, times: int, share: float, few: bool) -> None:
    (x, y), size = corner, cell - 2.0
    add(root, "rect", x=x, y=y, width=size, height=size, rx=3.0, class_="cell-back")
    add(root, "rect", x=x, y=y, width=size, height=size, rx=3.0, class_="cell", fill_opacity=f"{share:.3f}")
    style = "on-dark" if share > 0.55 else "on-page"
    middle = {"x": x + size / 2, "text_anchor": "middle"}
    if few and cell > 40:
        add(root, "text", f"{times:,}", y=y + size / 2 + 1, class_=f"cell-count {style}", **middle)
        add(root, "text", f"{share:.0%}", y=y + size / 2 + 16, class_=f"cell-share {style}", **middle)
    elif share >= 0.005:
        add(root, "text", f"{100 * share:.0f}", y=y + size / 2 + 3.5, class_=f"cell-share {style}", **middle)


class PredictionSection(NamedTuple):
    """``figures`` side by side, ``wide`` ones below each other."""

    heading: str
    intro: str
    figures: list[Figure]
    wide: list[Figure]
    legend: list[tuple[str, str]]  # (label, style)
    table: Table | None = None


def prediction_section(run: RunRecord) -> PredictionSection | None:
    """None where the run has no predictions yet."""
    if run.result is None or run.predictions is None or not run.predictions.rows:
        return None
    if run.result.is_regression:
        return _regression(run.predictions, run.result)
    if run.result.is_multi_class:
        return _classes(run.predictions, run.result)
    return _labels(run.predictions, run.result)


def _regression(predictions: Predictions, result: RunResult) -> PredictionSection:
    figures = agreement_figures(predictions.numbers, result.units)
    if len(predictions.numbers) == 1:
        ((target, pair),) = predictions.numbers.items()
        figures.append(error_figure(*pair, result.units.get(target) or ""))
    intro = f"The test split, {counted(predictions.rows, 'row')}. On the dashed diagonal a prediction is exact."
    if is_density(predictions.rows):
        intro += " The darker, the more rows lie there."
    if len(predictions.numbers) > MOST_TARGETS:
        intro += f" The first {MOST_TARGETS} of {len(predictions.numbers)} targets are drawn."
    return PredictionSection("Predicted against true", intro, figures, [], [])


def _labels(predictions: Predictions, result: RunResult) -> PredictionSection:
    figures, legend = detection_figures(predictions.numbers)
    many = len(predictions.numbers)
    intro = f"The test split, {counted(predictions.rows, 'row')}, at every threshold of the predicted probability."
    if many > MOST_LABELS:
        intro += f" The first {MOST_LABELS} of {many} labels are drawn."
    if many == 1:
        (pair,) = predictions.numbers.values()
        figures.append(_at_one_half(*pair, result.classes))
    return PredictionSection("Yes or no: how sure, how right", intro, figures, [], legend)


def _at_one_half(true: Floats, probability: Floats, classes: list[str]) -> Figure:
    """The confusion matrix of a yes-or-no label, where a probability of one half and more is a yes."""
    names = classes if len(classes) == 2 else ["no", "yes"]
    known = np.isfinite(true) & np.isfinite(probability)
    pairs = [[names[int(value > 0.5)] for value in column[known]] for column in (true, probability + 1e-12)]
    return confusion_figure(*confusion(pairs[0], pairs[1], names, MOST_CLASSES))


def _classes(predictions: Predictions, result: RunResult) -> PredictionSection:
    ((true, predicted), *_) = predictions.classes.values()
    names, counts = confusion(true, predicted, result.classes, MOST_CLASSES)
    intro = f"The test split, {counted(predictions.rows, 'row')}: which class was taken for which."
    if len(set(true) | set(result.classes)) > MOST_CLASSES:
        intro += f" The {MOST_CLASSES} most frequent classes are shown."
    figure = confusion_figure(names, counts)
    return PredictionSection("Right and wrong classes", intro, [], [figure], [], _class_table(names, counts))


def _class_table(names: list[str], counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Table:
    rows = []
    for index, name in enumerate(names):
        hits, of_class, called = (int(n) for n in (counts[index, index], counts[index].sum(), counts[:, index].sum()))
        recall = hits / of_class if of_class else None
        precision = hits / called if called else None
        f1 = 2 * hits / (of_class + called) if of_class + called else None
        rows.append([Cell(name), Cell(f"{of_class:,}"), *(Cell(number(x, 3)) for x in (precision, recall, f1))])
    caption = "Precision: how many called so are so. Recall: how many of these were called so. F1: their harmonic mean."
    return Table(["class", "in the test split", "precision", "recall", "F1"], rows, caption)
