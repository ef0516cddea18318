"""The page of BREC: for each model a bar in each category of pairs, and the total."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pointset.reports.drawing.style import HAIRLINE, INK, NEGATIVE, QUIET
from pointset.reports.express.page import HEAD, MARGIN, TEXT, WRONG, Page, broken, width_of

_NAME = (1.0, 3.2)  # inches of the models' names, at least and at most
_TRACK, _NUMBER, _GAP = 1.05, 0.75, 0.2  # inches: the longest bar, the number behind it, between categories
_ROW, _TITLES, _KEY = 0.42, 0.55, 0.5  # inches: of a model, above the bars, for the legend
_BAR = 0.55  # of a row
_TOTAL = "total"
_TOTAL_COLOUR = "#16466f"  # a darker blue than that of the categories
_NARROWEST = 8.0  # inches of the page

_BELOW = "Bars: the share of the pairs that a model tells apart. No two graphs of a pair are isomorphic."

Outcome = Mapping[str, int]  # "pairs", "separated", "unreliable"


class _Column(NamedTuple):
    """A category, or the total."""

    title: str
    outcomes: list[Outcome | None]  # of each model; None where it was not tried
    colour: str

    @property
    def pairs(self) -> int | None:
        """Where all models were tried on as many."""
        numbers = {one["pairs"] for one in self.outcomes if one is not None}
        return numbers.pop() if len(numbers) == 1 else None


def compose_brec(content: Mapping[str, Mapping[str, Outcome]]) -> Figure:
    """The whole page; its width follows the categories, its height the models."""
    models = list(content)
    columns = _columns(content)
    name = min(max([width_of(model, TEXT, bold=True) for model in models] + [_NAME[0]]), _NAME[1])
    wide = max(2 * MARGIN + name + len(columns) * (_TRACK + _NUMBER + _GAP), _NARROWEST)
    page = Page(wide, HEAD + _TITLES + len(models) * _ROW + _KEY + MARGIN)
    page.head("BREC: pairs of graphs told apart", _BELOW)
    for index, model in enumerate(models):
        middle = HEAD + _TITLES + (index + 0.5) * _ROW
        page.write(MARGIN, middle, broken(model, name, TEXT, 1, bold=True)[0], weight="bold", va="center_baseline")
    for index, column in enumerate(columns):
        left = MARGIN + name + _GAP + index * (_TRACK + _NUMBER + _GAP)
        _write_title(page, left, column)
        axes = page.axes(left, HEAD + _TITLES, _TRACK + _NUMBER, len(models) * _ROW)
        _draw_column(axes, column)
    unreliable = any(one is not None and one["unreliable"] for column in columns for one in column.outcomes)
    _draw_key(page, unreliable)
    return page.figure


def _columns(content: Mapping[str, Mapping[str, Outcome]]) -> list[_Column]:
    """A column for each category, in the order in which they come, and the total at the right."""
    categories = list(dict.fromkeys(category for model in content.values() for category in model))
    columns = [_Column(name, [model.get(name) for model in content.values()], NEGATIVE) for name in categories]
    totals: list[Outcome | None] = [
        {key: sum(one[key] for one in model.values()) for key in ("pairs", "separated", "unreliable")}
        for model in content.values()
    ]
    return [*columns, _Column(_TOTAL, totals, _TOTAL_COLOUR)]


def _write_title(page: Page, left: float, column: _Column) -> None:
    title = broken(column.title.replace("_", " "), _TRACK + _NUMBER, TEXT, 1, bold=True)[0]
    page.write(left, HEAD, title, color=column.colour if column.title == _TOTAL else INK, weight="bold")
    if column.pairs is not None:
        page.write(left, HEAD + 0.23, f"{column.pairs} pair{'' if column.pairs == 1 else 's'}", 10.5, QUIET)


def _draw_column(axes: Axes, column: _Column) -> None:
    """Lengths are shares of the pairs; the number behind a bar is that of separated pairs."""
    axes.set(xlim=(0, (_TRACK + _NUMBER) / _TRACK), ylim=(len(column.outcomes), 0))
    axes.set_axis_off()
    for row, outcome in enumerate(column.outcomes):
        middle = row + 0.5
        if outcome is None or not outcome["pairs"]:
            axes.text(0, middle, "–", color=QUIET, fontsize=TEXT, va="center_baseline")
            continue
        share, doubtful = (outcome[key] / outcome["pairs"] for key in ("separated", "unreliable"))
        axes.barh(middle, 1, _BAR, color=HAIRLINE)
        axes.barh(middle, share, _BAR, color=column.colour)
        if doubtful:
            start = min(share, max(1 - doubtful, 0.0))
            hatched: dict[str, Any] = {"facecolor": "#fbe3e4", "edgecolor": WRONG, "hatch": "/////", "linewidth": 0.8}
            axes.barh(middle, min(doubtful, 1.0), _BAR, left=start, **hatched)
        _write_number(axes, middle, outcome, column.pairs is None)


def _write_number(axes: Axes, middle: float, outcome: Outcome, with_pairs: bool) -> None:
    number = f"{outcome['separated']}" + (f"/{outcome['pairs']}" if with_pairs else "")
    style: dict[str, Any] = {"fontsize": TEXT, "va": "center_baseline"}
    axes.text(1.06, middle, number, color=INK, weight="bold", **style)
    if outcome["unreliable"]:
        beside = 1.06 + (width_of(number, TEXT, bold=True) + 0.06) / _TRACK
        axes.text(beside, middle, f"({outcome['unreliable']})", color=WRONG, **style)


def _draw_key(page: Page, unreliable: bool) -> None:
    top = page.high - MARGIN - 0.12
    page.box(MARGIN, top, 0.3, 0.16, NEGATIVE)
    page.write(MARGIN + 0.4, top + 0.01, "told apart", 10.5, QUIET)
    if unreliable:
        page.box(MARGIN + 1.45, top, 0.3, 0.16, "#fbe3e4", edgecolor=WRONG, hatch="/////", linewidth=0.8)
        words = "(in brackets) unreliable: two copies of one graph were taken for different ones"
        page.write(MARGIN + 1.85, top + 0.01, words, 10.5, QUIET)
