"""Charts of a table: validation curves of our rows, and what was measured beside what the paper prints.

:func:`pictures_of` gives them as SVG files for the results page, :func:`curve_figure` as a part of the table's page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pointset.arrays import Floats
from pointset.paper.tables.result import Column, Row, RunRecord, TableResult
from pointset.paper.tables.sheet import comparable_curves, counterpart_of, lower_is_better, shared, validation_score
from pointset.reports.charts import Axis, Chart, Figure
from pointset.reports.learning_curves import Curve, curve_style, learning_curve
from pointset.reports.pictures import svg_text

_LEAST_COLUMNS = 3  # fewer numbers are read faster in the table
_DRAWING = 2  # to be raised when the same content is drawn in another way
_SPREAD = 0.6  # of the way to the next column: where the marks of one column stand
_DASH = 0.3  # half the length of a short line that stands for a row of the paper, in the same terms


class Picture(NamedTuple):
    """``digest`` is that of the content: the file holds it, so that an outdated one is known without drawing anew."""

    file: str
    text: str  # for those who cannot see it
    digest: str
    draw: Callable[[], str]  # the SVG


def pictures_of(name: str, result: TableResult) -> list[Picture]:
    """Validation curves, and measured beside printed; those for which the result has the numbers."""
    pictures = []
    if curves := curve_chart(result):
        pictures.append(_picture(f"results_{name}_learning.svg", curves, 5.6))
    if beside := chart_beside_paper(result):
        pictures.append(_picture(f"results_{name}.svg", beside, max(4.5, 0.75 * len(result.columns))))
    return pictures


def _picture(file: str, chart: Chart, wide: float) -> Picture:
    parts = [(part.kind, part.x.tolist(), part.y.tolist(), part.style, part.text) for part in chart.parts]
    axes = [chart.x.label, chart.x.names, chart.y.label, chart.y.log]
    content = json.dumps([_DRAWING, chart.description, axes, parts, chart.legend])
    digest = hashlib.sha256(content.encode()).hexdigest()[:32]

    def draw() -> str:
        from pointset.reports.canvas import compose_chart

        return svg_text(compose_chart(chart, wide, 3.3), digest)

    return Picture(file, chart.description, digest, draw)


def curve_figure(result: TableResult) -> Figure | None:
    """The validation curves for a page; None where there is nothing that may be compared."""
    chart = curve_chart(result)
    return None if chart is None else chart.figure("", f"One line for each run.{chart.y.scale_note}")


def curve_chart(result: TableResult) -> Chart | None:
    """A line for each run of our rows, over minutes where all times are known, else over epochs.

    Runs of one row share a colour. None where there is nothing that may be compared.
    """
    rows = [(row.title, [run for run in runs if len(run.curve) > 1]) for row, runs in comparable_curves(result)]
    rows = [(title, runs) for title, runs in rows if runs]
    if not rows:
        return None
    by_time = all(run.times for _, runs in rows for run in runs)
    curves: list[Curve] = []
    for index, (title, runs) in enumerate(rows):
        style = curve_style(index) + (" thin" if len(runs) > 1 else "")
        curves += [Curve.through(_points(run, by_time=by_time), style, title) for run in runs]
    score, low = validation_score(result), lower_is_better(result)
    label = f"{score} ({'lower' if low else 'higher'} is better)"
    over = "minutes of training" if by_time else "epoch"
    description = f"{score} over the {over if by_time else 'epochs'}: {', '.join(title for title, _ in rows)}"
    return learning_curve(curves, description, score=label, lower_is_better=low, over=over)


def _points(run: RunRecord, *, by_time: bool) -> list[tuple[float, float]]:
    """(minutes or epoch, validation score)."""
    scores = [score for _, score in run.curve]
    places = [seconds / 60 for seconds in run.times] if by_time else [float(epoch) for epoch, _ in run.curve]
    return list(zip(places, scores, strict=True))


def chart_beside_paper(result: TableResult) -> Chart | None:
    """For each column: ours as dots, what they repeat as rings, all rows of the paper as short lines behind.

    None unless all columns can stand on one axis, and something of ours has a counterpart.
    """
    columns = result.columns
    alike = shared([f"{column.unit} {column.better} {column.factor}" for column in columns])
    pairs = [(row, other) for row in result.rows if (other := counterpart_of(row, result)) is not None]
    if alike is None or columns[0].better == "neither" or len(columns) < _LEAST_COLUMNS or not pairs:
        return None
    ours = [_values(row, columns) for row, _ in pairs]
    printed = [_values(other, columns) for _, other in pairs]
    others = [_values(row, columns) for row in result.rows if row.source == "paper"]
    if not np.isfinite(ours).any():
        return None
    first = columns[0]
    low, places = first.better == "low", np.arange(len(columns), dtype=np.float64)
    label = f"{f'in {first.unit}, ' if first.unit else ''}{'lower' if low else 'higher'} is better"
    x, y = Axis.of_names(column.title for column in columns), Axis.around([*others, *ours], label, may_be_log=low)
    chart = Chart(x, y, f"{result.title}: measured here beside the paper's")
    if first.counts_below is not None:
        bound = first.counts_below * first.factor
        chart.line([x.low, x.high], [bound, bound], "reference", f"counts: at most {bound:g}")
    for index, values in enumerate(others):
        label = "all rows of the paper" if index == 0 else ""
        x_values, y_values = _joined(places - _DASH, values, places + _DASH, values)
        chart.line(x_values, y_values, "c7 thin pale", label)
    for index, ((row, _), mine, theirs) in enumerate(zip(pairs, ours, printed, strict=True)):
        at = places + _SPREAD * ((index + 0.5) / len(pairs) - 0.5)
        x_values, y_values = _joined(at, theirs, at, mine)
        chart.line(x_values, y_values, f"c{index % 10} thin pale")
        chart.dots(at, theirs, f"c{index % 10} large hollow")
        chart.dots(at, mine, f"c{index % 10} large", f"{row.title}, measured here")
    chart.legend.append(("the paper's row that it repeats", "c7 large hollow", "dots"))
    return chart


def _values(row: Row, columns: Sequence[Column]) -> list[float]:
    """As shown; NaN where there is no number."""
    cells = [(row.cells.get(column.key), column.factor) for column in columns]
    return [np.nan if cell is None or cell.mean is None else cell.mean * factor for cell, factor in cells]


def _joined(x: Floats, y: Sequence[float], to_x: Floats, to_y: Sequence[float]) -> tuple[Floats, Floats]:
    """(3k,) each: one broken line from each point to its partner."""
    gaps = np.full(len(x), np.nan)
    return np.stack([x, to_x, gaps], axis=1).ravel(), np.stack([y, to_y, gaps], axis=1).ravel()
