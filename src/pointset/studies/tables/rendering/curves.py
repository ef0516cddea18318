"""Validation curves of our rows (:func:`curves_of`), and the chart of a page (:func:`curve_chart`)."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pointset.reports.run_pages.axis import Axis
from pointset.reports.run_pages.chart import Chart
from pointset.reports.run_pages.figure import Figure
from pointset.studies.tables.result import RunRecord, TableResult

COLOURS = 10  # of the style sheet
Curve = tuple[tuple[int, float], ...]


class RowCurves(NamedTuple):
    """One for each seed or fold."""

    title: str
    curves: list[Curve]


def curves_of(result: TableResult) -> list[RowCurves]:
    """Those that may stand in one chart: the runs of a row differ in seed and fold only, not in what they learn."""
    rows = []
    for row in result.rows:
        if row.source != "ours":
            continue
        if _learn_different_things(row.runs):
            return []
        if curves := [run.curve for run in row.runs if len(run.curve) > 1]:
            rows.append(RowCurves(row.title, curves))
    return rows


def score_name(result: TableResult) -> str:
    """Of the first column where it is the only score, otherwise just that."""
    scores = [column for column in result.columns if column.better != "neither"]
    return f"validation {scores[0].title}" if len(scores) == 1 else "validation score"


def curve_chart(result: TableResult) -> tuple[Figure, list[tuple[str, str]]] | None:
    """The chart and its legend (titles and styles); None where there is nothing that may be compared."""
    rows = curves_of(result)
    if not rows:
        return None
    points = [point for row in rows for curve in row.curves for point in curve]
    epochs = [epoch for epoch, _ in points]
    low = result.columns[0].better != "high"
    y = Axis.around([[value for _, value in points]], score_name(result), may_be_log=low)
    x = Axis(min(epochs), max(max(epochs), min(epochs) + 1), "epoch", whole=True)
    chart = Chart(x, y, f"{score_name(result)} of {', '.join(row.title for row in rows)} over the epochs")
    legend = []
    for index, row in enumerate(rows):
        style = f"c{index % COLOURS}"
        legend.append((row.title, style))
        for curve in row.curves:
            chart.line([epoch for epoch, _ in curve], [value for _, value in curve], style)
    scale = " Logarithmic scale." if y.log else ""
    text = f"One line for each run; {'lower' if low else 'higher'} is better.{scale}"
    return Figure(chart.svg(), "", text), legend


def _learn_different_things(runs: tuple[RunRecord, ...]) -> bool:
    return any(often > 1 for often in Counter((run.seed, run.fold) for run in runs if run.curve).values())
