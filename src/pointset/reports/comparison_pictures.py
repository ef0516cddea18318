"""Pictures of ``pointset compare``: validation curves of models (:func:`draw_comparison`), costs (:func:`draw_costs`).

Both take the content that is written as JSON, and a path that ends in ``.png``, ``.svg`` or ``.pdf``. They raise
``MissingExtraError`` where matplotlib is not installed, and ``FileFormatError`` for another ending or a missing folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.metrics import metric_label
from pointset.reports.learning_curves import Curve, curve_style, learning_curve
from pointset.reports.palette import INK, QUIET, SERIES
from pointset.reports.pictures import check_picture_file, save_picture
from pointset.text import byte_size, duration, with_spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pointset.reports.canvas import Page

_CHART = (6.8, 4.4)  # inches
_KEY, _SCORE, _LINE = 3.6, 1.85, 0.32  # inches: the list of models, where scores stand in it, from line to line
_NAME, _TRACK, _ROW = 1.7, 3.6, 0.36  # inches of the costs: names, a bar with its number, a row


def draw_comparison(content: Mapping[str, Any], path: str | Path) -> None:
    """The validation score of each model over the epochs, median over seeds; beside it the models by test score.

    ``content`` is what ``pointset compare --json FILE`` writes, ``comparison.json``.
    """
    check_picture_file(path)
    save_picture(compose_comparison(content), path)


def compose_comparison(content: Mapping[str, Any]) -> Figure:
    """The whole page; its height follows the number of models."""
    from pointset.reports.canvas import HEAD, MARGIN, Page, draw_chart

    models = content["contenders"]
    high = max(_CHART[1], _LINE * (len(models) + 1))
    page = Page(2 * MARGIN + 0.6 + _CHART[0] + 0.3 + _KEY, HEAD + 0.3 + high + 0.55 + MARGIN)
    seeds = "" if content["seeds"] == 1 else f", median of {content['seeds']} seeds"
    score = f"validation {metric_label(content['metric'])}"
    page.head(
        content["title"] or content["recipe"],
        f"{score} of models with about {content['parameters']:,} parameters{seeds}",
    )
    curves = [Curve.through(model["curve"], curve_style(index)) for index, model in enumerate(models) if model["curve"]]
    lower = not content["higher_is_better"]
    chart = learning_curve(curves, score, score=score, lower_is_better=lower)
    draw_chart(page, chart, (MARGIN + 0.6, HEAD + 0.3, _CHART[0], high))
    _write_key(page, MARGIN + 0.9 + _CHART[0], HEAD, content)
    return page.figure


def _write_key(page: Page, left: float, top: float, content: Mapping[str, Any]) -> None:
    """Models by their test score, the best in bold; those without one last."""
    from pointset.reports.canvas import SMALL, TEXT, broken, draw_sample

    sign = -1 if content["higher_is_better"] else 1
    scores = [None if model["failure"] else model["test_mean"] for model in content["contenders"]]
    order = sorted(range(len(scores)), key=lambda index: (scores[index] is None, sign * (scores[index] or 0.0)))
    page.write(left + _SCORE, top, f"test {metric_label(content['metric'])}", SMALL, QUIET)
    samples = page.inches(left, top, 0.4, (len(order) + 1) * _LINE)
    for row, index in enumerate(order, start=1):
        model = content["contenders"][index]
        draw_sample(samples, 0.05, row * _LINE + 0.07, curve_style(index))
        weight = "bold" if model["is_best"] else "normal"
        score = "failed" if model["failure"] else with_spread(model["test_mean"], model["test_std"])
        name = broken(model["model"], 1.3, TEXT, 1, bold=True)[0]
        for place, text in ((0.5, name), (_SCORE, score)):
            page.write(left + place, top + row * _LINE, text, TEXT, INK, weight=weight)


def draw_costs(content: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Bars of time and memory, a row for each model; bars are shares of the largest.

    ``content`` is what ``pointset compare --cost-only --json FILE`` writes.
    """
    check_picture_file(path)
    from pointset.reports.canvas import HEAD, MARGIN, SMALL, TEXT, Page, draw_bar

    top = HEAD + 0.4
    page = Page(2 * MARGIN + _NAME + 2 * (_TRACK + 0.4), top + max(1, len(content)) * _ROW + MARGIN)
    page.head("What an epoch costs", "training without validation, measured side by side")
    page.names([cost["model"] for cost in content], MARGIN, top, _NAME - 0.2, _ROW, weight="bold")
    columns: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("seconds_per_epoch", "time per epoch", duration),
        ("peak_memory_bytes", "peak memory", byte_size),
    )
    for index, (key, title, formatted) in enumerate(columns):
        left = MARGIN + _NAME + index * (_TRACK + 0.4)
        page.write(left, HEAD, title, TEXT, INK, weight="bold")
        values = [cost[key] for cost in content]
        largest = max((value for value in values if value is not None), default=1.0) or 1.0
        for row, value in enumerate(values):
            middle, length = top + (row + 0.5) * _ROW, 0.7 * _TRACK * (value or 0.0) / largest
            draw_bar(page, left, middle, _ROW, length, SERIES[index])
            text = "failed" if value is None else formatted(value)
            page.write(left + length + 0.08, middle, text, SMALL, va="center_baseline")
    save_picture(page.figure, path)
