"""Charts of the test predictions for every kind of task (:func:`prediction_section`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pointset.reports.run_pages.confusion_chart import MOST_CLASSES, confusion_figure
from pointset.reports.run_pages.figure import Cell, Figure, Table
from pointset.reports.run_pages.forms import MULTI_CLASS, REGRESSION, Result
from pointset.reports.run_pages.prediction_charts import (
    MOST_LABELS,
    MOST_TARGETS,
    agreement_figures,
    detection_figures,
    error_figure,
    is_density,
)
from pointset.reports.run_pages.predictions import Predictions
from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.scores import Floats, confusion
from pointset.reports.run_pages.words import count, number


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
    if run.result.task == REGRESSION:
        return _regression(run.predictions, run.result)
    if run.result.task == MULTI_CLASS:
        return _classes(run.predictions, run.result)
    return _labels(run.predictions, run.result)


def _regression(predictions: Predictions, result: Result) -> PredictionSection:
    figures = agreement_figures(predictions.numbers, result.units)
    if len(predictions.numbers) == 1:
        ((target, pair),) = predictions.numbers.items()
        figures.append(error_figure(*pair, result.units.get(target) or ""))
    intro = f"The test split, {count(predictions.rows, 'row')}. On the dashed diagonal a prediction is exact."
    if is_density(predictions.rows):
        intro += " The darker, the more rows lie there."
    if len(predictions.numbers) > MOST_TARGETS:
        intro += f" The first {MOST_TARGETS} of {len(predictions.numbers)} targets are drawn."
    return PredictionSection("Predicted against true", intro, figures, [], [])


def _labels(predictions: Predictions, result: Result) -> PredictionSection:
    figures, legend = detection_figures(predictions.numbers)
    many = len(predictions.numbers)
    intro = f"The test split, {count(predictions.rows, 'row')}, at every threshold of the predicted probability."
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


def _classes(predictions: Predictions, result: Result) -> PredictionSection:
    ((true, predicted), *_) = predictions.classes.values()
    names, counts = confusion(true, predicted, result.classes, MOST_CLASSES)
    intro = f"The test split, {count(predictions.rows, 'row')}: which class was taken for which."
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
