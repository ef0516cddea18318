"""Pictures of ``pointset compare``: validation curves of models (:func:`draw_comparison`), costs (:func:`draw_costs`).

Both take the content that is written as JSON, and a path that ends in ``.png``, ``.svg`` or ``.pdf``. They raise
``MissingExtraError`` where matplotlib is not installed, and ``FileFormatError`` for another ending or a missing folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.metrics import metric_label
from pointset.reports.pictures import check_picture_file, save_picture
from pointset.text import byte_size, duration, number, with_spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pointset.reports.page import Page


# Told apart also by most who see fewer colours; from the ninth model on they come again, dashed.
_COLOURS = ("#2b6ca8", "#d9583b", "#2a8f63", "#8458a6", "#d18a00", "#5f6b78", "#c04a8a", "#3aa6b9")
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
_CHART = (6.8, 4.4)  # inches
_KEY = 3.6  # inches of the list of models
_LINE = 0.32  # inches between its lines
_MANY_TIMES = 3  # as large as the smallest: from here on values are drawn by their logarithms
_BAR, _ROW = 0.62, 0.36  # of a row; inches


def draw_comparison(content: Mapping[str, Any], path: str | Path) -> None:
    """The validation score of each model over the epochs, median over seeds; beside it the models by test score.

    Args:
        content: what ``pointset compare --json FILE`` writes, ``comparison.json``.
        path: where to write.
    """
    check_picture_file(path)
    save_picture(compose_comparison(content), path)


def draw_costs(content: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Bars of time and memory, a row for each model.

    Args:
        content: what ``pointset compare --cost-only --json FILE`` writes.
        path: where to write.
    """
    check_picture_file(path)
    save_picture(compose_costs(content), path)


def compose_comparison(content: Mapping[str, Any]) -> Figure:
    """The whole page; its height follows the number of models."""
    from pointset.reports.page import HEAD, MARGIN, Page

    models = content["contenders"]
    high = max(_CHART[1], _LINE * (len(models) + 1))
    page = Page(2 * MARGIN + 0.6 + _CHART[0] + 0.3 + _KEY, HEAD + high + 0.55 + MARGIN)
    seeds = "" if content["seeds"] == 1 else f", median of {content['seeds']} seeds"
    page.head(
        content["title"] or content["recipe"],
        f"validation {metric_label(content['metric'])} of models with about {content['parameters']:,} parameters"
        f"{seeds}",
    )
    axes = page.axes(MARGIN + 0.6, HEAD, _CHART[0], high)
    _draw_curves(axes, content)
    _write_key(page, MARGIN + 0.9 + _CHART[0], HEAD, content)
    return page.figure


def _style(index: int) -> dict[str, Any]:
    return {"color": _COLOURS[index % len(_COLOURS)], "linestyle": _DASHES[index // len(_COLOURS) % len(_DASHES)]}


def _draw_curves(axes: Axes, content: Mapping[str, Any]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    from pointset.reports.style import HAIRLINE, QUIET

    values: list[float] = []
    for index, model in enumerate(content["contenders"]):
        if model["curve"]:
            epochs, scores = zip(*model["curve"], strict=True)
            values += scores
            axes.plot(epochs, scores, linewidth=1.8, marker="o" if len(epochs) == 1 else None, **_style(index))
    if not content["higher_is_better"] and values and max(values) > _MANY_TIMES * min(values) > 0:
        axes.set_yscale("log")
        for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            ticks(FuncFormatter(lambda value, _: _round_number(value)))
    axes.set_xlabel("epoch", color=QUIET)
    axes.set_ylabel(f"validation {metric_label(content['metric'])}", color=QUIET)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color=HAIRLINE, linewidth=0.8, which="both")
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelcolor=QUIET)
    axes.spines[:].set_visible(False)


def _round_number(value: float) -> str:
    """Of the ticks of a logarithmic axis only those with 1, 2 or 5 have room."""
    return number(value, 3) if f"{value:e}"[0] in "125" else ""


def _write_key(page: Page, left: float, top: float, content: Mapping[str, Any]) -> None:
    """Models by their test score, the best in bold; those without one last."""
    from matplotlib.lines import Line2D

    from pointset.reports.page import TEXT, broken
    from pointset.reports.style import INK, QUIET

    sign = -1 if content["higher_is_better"] else 1
    order = sorted(
        enumerate(content["contenders"]),
        key=lambda pair: (_is_unscored(pair[1]), sign * (pair[1]["test_mean"] or 0.0)),
    )
    page.write(left + 1.85, top, f"test {metric_label(content['metric'])}", 10.5, QUIET)
    for row, (index, model) in enumerate(order, start=1):
        line = top + row * _LINE
        middle = 1 - (line + 0.07) / page.high
        ends = [left / page.wide, (left + 0.35) / page.wide]
        page.figure.add_artist(Line2D(ends, [middle, middle], linewidth=2.2, **_style(index)))
        weight = "bold" if model["is_best"] else "normal"
        score = "failed" if model["failure"] else with_spread(model["test_mean"], model["test_std"])
        page.write(left + 0.5, line, broken(model["model"], 1.3, TEXT, 1, bold=True)[0], TEXT, INK, weight=weight)
        page.write(left + 1.85, line, score, TEXT, INK, weight=weight)


def _is_unscored(model: Mapping[str, Any]) -> bool:
    return bool(model["failure"]) or model["test_mean"] is None


def compose_costs(content: Sequence[Mapping[str, Any]]) -> Figure:
    """The whole page; its height follows the number of models."""
    from pointset.reports.page import HEAD, MARGIN, TEXT, Page, broken
    from pointset.reports.style import INK

    name, wide = 1.7, 3.6
    high = max(1, len(content)) * _ROW
    page = Page(2 * MARGIN + name + 2 * (wide + 0.4), HEAD + 0.4 + high + MARGIN)
    page.head("What an epoch costs", "training without validation, measured side by side")
    top = HEAD + 0.4
    for row, cost in enumerate(content):
        text = broken(cost["model"], name - 0.2, TEXT, 1, bold=True)[0]
        page.write(MARGIN, top + (row + 0.5) * _ROW, text, TEXT, INK, weight="bold", va="center_baseline")
    columns = (("seconds_per_epoch", "time per epoch", duration), ("peak_memory_bytes", "peak memory", byte_size))
    for index, (key, title, words) in enumerate(columns):
        left = MARGIN + name + index * (wide + 0.4)
        page.write(left, HEAD, title, TEXT, INK, weight="bold")
        _draw_bars(page.axes(left, top, wide, high), [cost[key] for cost in content], words, _COLOURS[index])
    return page.figure


def _draw_bars(axes: Axes, values: Sequence[float | None], words: Any, colour: str) -> None:
    """Lengths are shares of the largest, with room for a number behind it."""
    from pointset.reports.style import INK

    largest = max((value for value in values if value is not None), default=1.0) or 1.0
    axes.set(xlim=(0, 1.4), ylim=(max(1, len(values)), 0))
    axes.set_axis_off()
    for row, value in enumerate(values):
        length = 0.0 if value is None else value / largest
        axes.barh(row + 0.5, length, _BAR, color=colour)
        text = "failed" if value is None else words(value)
        axes.text(length + 0.03, row + 0.5, text, fontsize=10.5, color=INK, va="center_baseline")
