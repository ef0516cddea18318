"""Which pictures a table gives on the results page, and what is in them (:func:`pictures_of`)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from pointset.paper.tables.result import Column, Row, RunRecord, TableResult
from pointset.paper.tables.sheet import counterpart_of, shared
from pointset.reports.charts import Axis, Chart, Figure

# Validation curves of our rows (:func:`curves_of`), and the chart of a page (:func:`curve_chart`).


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


_LEAST_COLUMNS = 3  # fewer numbers are read faster in the table
_DRAWING = 1  # to be raised when the same content is drawn in another way


class Picture(NamedTuple):
    """``digest`` is that of the content: the file holds it, so that an outdated one is known without drawing anew."""

    file: str
    text: str  # for who cannot see it
    digest: str
    draw: Callable[[], str]  # the SVG


def pictures_of(name: str, result: TableResult) -> list[Picture]:
    """Validation curves, and measured beside printed; those for which the result has the numbers."""
    pictures = []
    if learned := _learning(result):
        text = f"{score_name(result)} over the epochs: {', '.join(row['title'] for row in learned['rows'])}"
        pictures.append(_picture(f"results_{name}_learning.svg", text, "learning", learned))
    if measured := _beside(result):
        text = f"{result.title}: measured here beside the paper's"
        pictures.append(_picture(f"results_{name}.svg", text, "beside", measured))
    return pictures


def _picture(file: str, text: str, kind: str, content: dict[str, Any]) -> Picture:
    words = json.dumps([_DRAWING, kind, content], sort_keys=True, allow_nan=False)
    digest = hashlib.sha256(words.encode()).hexdigest()[:32]

    def draw() -> str:
        from pointset.paper.tables import drawing

        return drawing.DRAWINGS[kind](content, digest)

    return Picture(file, text, digest, draw)


def _learning(result: TableResult) -> dict[str, Any] | None:
    rows = curves_of(result)
    if not rows:
        return None
    low = result.columns[0].better != "high"
    return {"rows": [row._asdict() for row in rows], "score": score_name(result), "low": low}


def _beside(result: TableResult) -> dict[str, Any] | None:
    """Only where all columns can stand on one axis, and something of ours has a counterpart."""
    columns = result.columns
    alike = shared([f"{column.unit} {column.better} {column.factor}" for column in columns])
    pairs = [(row, other) for row in result.rows if (other := counterpart_of(row, result)) is not None]
    if alike is None or columns[0].better == "neither" or len(columns) < _LEAST_COLUMNS or not pairs:
        return None
    bound = columns[0].counts_below
    rows = [
        {"title": row.title, "repeats": other.title, "ours": _values(row, columns), "printed": _values(other, columns)}
        for row, other in pairs
    ]
    if all(value is None for row, _ in pairs for value in _values(row, columns)):
        return None
    return {
        "columns": [column.title for column in columns],
        "rows": rows,
        "others": [_values(row, columns) for row in result.rows if row.source == "paper"],
        "unit": columns[0].unit,
        "low": columns[0].better == "low",
        "bound": None if bound is None else bound * columns[0].factor,
    }


def _values(row: Row, columns: tuple[Column, ...]) -> list[float | None]:
    """As shown; None where there is no number."""
    cells = [row.cells.get(column.key) for column in columns]
    return [
        None if cell is None or cell.mean is None else cell.mean * column.factor
        for cell, column in zip(cells, columns, strict=True)
    ]
