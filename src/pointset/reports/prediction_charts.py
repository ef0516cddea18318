"""Charts of the test predictions for every kind of task (:func:`prediction_section`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pointset.arrays import Flags, Floats, Integers
from pointset.metrics import ThresholdCurve, threshold_curve
from pointset.reports.charts import HEIGHT, WIDTH, Axis, Cell, Chart, Figure, Table
from pointset.reports.palette import BLUE
from pointset.reports.svg import Element, add, drawing, finished
from pointset.runs.records import Predictions, RunRecord
from pointset.runs.result import RunResult
from pointset.text import clipped, counted, number, whole_percent

_MOST_TARGETS, _MOST_LABELS, _MOST_CLASSES = 13, 10, 25
_MOST_DOTS = 1500  # rows from which dots would hide each other and make the file large: a density is drawn
_BARS = 31
_CELLS = (50, 64)  # rows and columns of a density
_FEW = 8  # classes up to which cells show counts and a row's share
_LONGEST_NAME = 15  # letters of a class's name that are shown
_LETTER = 6.2  # units: about the width of one


class PredictionSection(NamedTuple):
    """``figures`` side by side, whose legend is that of the first; ``wide`` ones below each other."""

    heading: str
    intro: str
    figures: Sequence[Figure] = ()
    wide: Sequence[Figure] = ()
    table: Table | None = None


def prediction_section(run: RunRecord, *, measured: bool = False) -> PredictionSection | None:
    """None where the run has no predictions yet; the truth is called ``measured`` where it is."""
    if run.result is None or run.predictions is None or not run.predictions.rows:
        return None
    if run.result.is_regression:
        return _regression(run.predictions, run.result, "measured" if measured else "true")
    if run.result.is_multi_class:
        return _classes(run.predictions, run.result)
    return _labels(run.predictions, run.result)


# --- numbers: predicted against true


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


def _regression(predictions: Predictions, result: RunResult, truth: str) -> PredictionSection:
    numbers = predictions.numbers
    shown = {target: agreement(*numbers[target]) for target in list(numbers)[:_MOST_TARGETS]}
    units = {target: result.units.get(target) or "" for target in shown}
    figures = [_agreement_figure(target, units[target], predictions, found, truth) for target, found in shown.items()]
    if len(numbers) == 1:
        ((target, found),) = shown.items()
        figures.append(_error_figure(found.predicted - found.true, units[target], truth))
    intro = f"The test split, {counted(predictions.rows, 'row')}. On the dashed diagonal a prediction is exact."
    if predictions.rows > _MOST_DOTS:
        intro += " The darker, the more rows lie there."
    elif any(target in predictions.intervals for target in shown):
        confidence = 0.9 if result.calibration is None else result.calibration.confidence
        intro += f" Strokes are {whole_percent(confidence)} intervals"
        intro += ", red outside the model's domain." if _outside(predictions).any() else "."
    if len(numbers) > _MOST_TARGETS:
        intro += f" The first {_MOST_TARGETS} of {len(numbers)} targets are drawn."
    return PredictionSection(f"Predicted against {truth}", intro, figures)


def _outside(predictions: Predictions) -> Flags:
    """(rows,) which are known to be outside the model's domain."""
    domain = predictions.in_domain
    return np.zeros(predictions.rows, dtype=np.bool_) if domain is None else domain == 0


def _agreement_figure(target: str, unit: str, predictions: Predictions, found: Agreement, truth: str) -> Figure:
    """The diagonal is where a perfect prediction would lie."""
    rows = predictions.rows
    title = f"{target} ({unit})" if unit and unit not in target else target
    span = Axis.around([found.true, found.predicted])
    x, y = Axis(span.low, span.high, truth), Axis(span.low, span.high, "predicted")
    scores = f"R² {number(found.r2, 3)}, MAE {number(found.mae, 3)}"
    chart = Chart(x, y, f"{target}: predicted against {truth}, {scores}", height=WIDTH * 0.86)
    if rows > _MOST_DOTS:
        chart.density(_densities(found, span), BLUE)
    else:
        true, predicted = predictions.numbers[target]
        outside = _outside(predictions)
        for chosen, style in ((~outside, "c0"), (outside, "c1")):
            if target in predictions.intervals:
                lower, upper = (end[chosen] for end in predictions.intervals[target])
                chart.spans(true[chosen], lower, upper, f"{style} thin faded")
        for chosen, style in ((~outside, "c0"), (outside, "c1")):
            if chosen.any():
                chart.dots(true[chosen], predicted[chosen], style)
    chart.line([span.low, span.high], [span.low, span.high], "reference")
    known = len(found.true)
    return chart.figure(title, scores + (f"; {known:,} of {rows:,} rows have a value" if known < rows else ""))


def _densities(found: Agreement, span: Axis) -> Floats:
    """(rows, columns) how many values fall in each cell, on a logarithmic scale from 0.15 for a single one to 1."""
    edges = [np.linspace(span.low, span.high, cells + 1) for cells in _CELLS]
    counts = np.histogram2d(found.predicted, found.true, bins=edges)[0]
    shares = np.log1p(counts) / np.log1p(max(counts.max(), 1.0))
    return np.where(counts > 0, 0.15 + 0.85 * shares, 0.0)


def _error_figure(errors: Floats, unit: str, truth: str) -> Figure:
    """How often which error occurs; the few largest are left out of the picture."""
    reach = float(np.quantile(np.abs(errors), 0.99)) if len(errors) else 0.0
    inside = errors[np.abs(errors) <= reach]
    heights, edges = np.histogram(inside, bins=_BARS, range=(-(reach or 1.0), reach or 1.0))
    x = Axis(edges[0], edges[-1], f"predicted − {truth}{f' ({unit})' if unit else ''}")
    y = Axis(0, max(1.0, heights.max() * 1.05))
    chart = Chart(x, y, "Histogram of the errors", height=WIDTH * 0.86)
    chart.bars(edges, heights)
    chart.line([0, 0], [y.low, y.high], "reference")
    bias = number(float(errors.mean()) if len(errors) else None, 2)
    left_out = f" The largest 1 %, beyond ±{number(reach, 2)}, are not drawn." if len(inside) < len(errors) else ""
    return chart.figure("Errors", f"How many rows have which error; their mean is {bias}.{left_out}")


# --- yes-or-no labels: ROC and precision-recall curves


def detection(true: Floats, probability: Floats) -> ThresholdCurve:
    """The curves of a label over the rows where both are known."""
    known = np.isfinite(true) & np.isfinite(probability)
    return threshold_curve(true[known], probability[known])


def _labels(predictions: Predictions, result: RunResult) -> PredictionSection:
    numbers = predictions.numbers
    found = {target: detection(*numbers[target]) for target in list(numbers)[:_MOST_LABELS]}
    figures = [_roc(found), _precision_recall(found)]
    intro = f"The test split, {counted(predictions.rows, 'row')}, at every threshold of the predicted probability."
    if len(numbers) > _MOST_LABELS:
        intro += f" The first {_MOST_LABELS} of {len(numbers)} labels are drawn."
    if len(numbers) == 1:
        (pair,) = numbers.values()
        figures.append(_at_one_half(*pair, result.classes))
    return PredictionSection("Yes or no: how sure, how right", intro, figures)


def _roc(found: Mapping[str, ThresholdCurve]) -> Figure:
    area = _mean([one.roc_auc for one in found.values()])
    x, y = Axis(0, 1, "false positive rate"), Axis(0, 1, "true positive rate")
    chart = Chart(x, y, f"ROC curve, area {area}", height=HEIGHT * 1.2)
    chart.line([0, 1], [0, 1], "reference")
    for index, (target, one) in enumerate(found.items()):
        chart.line(one.false_positive_rate, one.recall, f"c{index}", target if len(found) > 1 else "")
    return chart.figure("ROC curve", f"Area under the curve {area}. The dashed diagonal is guessing.")


def _precision_recall(found: Mapping[str, ThresholdCurve]) -> Figure:
    precision = _mean([one.average_precision for one in found.values()])
    x, y = Axis(0, 1, "recall"), Axis(0, 1, "precision")
    chart = Chart(x, y, f"Precision-recall curve, average precision {precision}", height=HEIGHT * 1.2)
    for index, one in enumerate(found.values()):
        chart.line(one.recall, one.precision, f"c{index}")
    text = f"Average precision {precision}"
    if len(found) == 1:
        (one,) = found.values()
        share = one.positives / max(one.positives + one.negatives, 1)
        chart.line([0, 1], [share, share], "reference")
        text += f"; guessing would give {number(share, 3)}, the share of positives (dashed)"
    return chart.figure("Precision and recall", f"{text}.")


def _mean(scores: Sequence[float]) -> str:
    """``0.913, mean over 3 labels``."""
    known = [score for score in scores if np.isfinite(score)]
    mean = number(float(np.mean(known)), 3) if known else "unknown"
    return mean + (f", mean over {counted(len(known), 'label')}" if len(scores) > 1 else "")


def _at_one_half(true: Floats, probability: Floats, classes: list[str]) -> Figure:
    """The confusion matrix of a yes-or-no label, where a probability of one half and more is a yes."""
    names = classes if len(classes) == 2 else ["no", "yes"]
    known = np.isfinite(true) & np.isfinite(probability)
    pairs = [[names[int(value > 0.5)] for value in column[known]] for column in (true, probability + 1e-12)]
    return _confusion_figure(*confusion(pairs[0], pairs[1], names, _MOST_CLASSES))


# --- classes: how often which was taken for which


def confusion(
    true: Sequence[str], predicted: Sequence[str], classes: Sequence[str], most: int
) -> tuple[list[str], Integers]:
    """(k, k) how often a class (row) was predicted as a class (column), of the ``most`` frequent classes in order.

    Rows without a true class do not count; a class that ``classes`` does not name comes after those it does.
    """
    pairs = Counter((one, other) for one, other in zip(true, predicted, strict=True) if one)
    frequency = Counter(one for one in true if one)
    known = list(dict.fromkeys([*classes, *sorted({name for pair in pairs for name in pair})]))
    frequent = set(sorted(known, key=lambda name: -frequency[name])[:most])
    names = [name for name in known if name in frequent]
    return names, np.array([[pairs[one, other] for other in names] for one in names], dtype=np.int64)


def _classes(predictions: Predictions, result: RunResult) -> PredictionSection:
    ((true, predicted), *_) = predictions.classes.values()
    names, counts = confusion(true, predicted, result.classes, _MOST_CLASSES)
    intro = f"The test split, {counted(predictions.rows, 'row')}: which class was taken for which."
    if len(set(true) | set(result.classes)) > _MOST_CLASSES:
        intro += f" The {_MOST_CLASSES} most frequent classes are shown."
    wide, table = [_confusion_figure(names, counts)], _class_table(names, counts)
    return PredictionSection("Right and wrong classes", intro, wide=wide, table=table)


def _class_table(names: list[str], counts: Integers) -> Table:
    rows = []
    for index, name in enumerate(names):
        hits, of_class, called = (int(n) for n in (counts[index, index], counts[index].sum(), counts[:, index].sum()))
        recall = hits / of_class if of_class else None
        precision = hits / called if called else None
        f1 = 2 * hits / (of_class + called) if of_class + called else None
        rows.append([Cell(name), Cell(f"{of_class:,}"), *(Cell(number(x, 3)) for x in (precision, recall, f1))])
    caption = "Precision: how many called so are so. Recall: how many of these were called so. F1: their harmonic mean."
    return Table(["class", "in the test split", "precision", "recall", "F1"], rows, caption)


def _confusion_figure(names: Sequence[str], counts: Integers) -> Figure:
    """Rows are the true classes, columns the predicted ones; colour is the share of the row."""
    k = len(names)
    few = k <= _FEW
    cell = 300.0 / max(k, 2) if few else 28.0
    shown = [clipped(name, _LONGEST_NAME) for name in names]
    longest = _LETTER * max((len(name) for name in shown), default=1)
    upright = few and longest < cell
    left, top = 26 + longest, 44.0 if upright else 34 + longest
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
        if upright:
            add(root, "text", name, x=left + middle, y=top - 9, text_anchor="middle", class_="tick")
        else:
            turn = f"translate({left + middle + 4:.1f} {top - 9:.1f}) rotate(-90)"
            add(root, "text", name, transform=turn, class_="tick")
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for row, column in np.ndindex(k, k):
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
