"""The page of distances: what can be read off each layer, beside what can be read off degrees and random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pointset.reports.drawing.style import FAINT, HAIRLINE, INK, NEGATIVE, PAPER, QUIET
from pointset.reports.express.cells import draw_cell, share_colour
from pointset.reports.express.page import HEAD, MARGIN, SMALL, TEXT, Page, broken, width_of

_NAME = (1.2, 2.6)  # inches of the layers' names, at least and at most
_CHART, _COLUMN, _LAST, _ROW = 3.6, 0.78, 1.15, 0.52  # inches: the chart of all pairs, a distance, a measure, a row
_GAP, _TITLES, _KEY = 0.35, 0.75, 0.95  # inches: between blocks, above the rows, below them
_MEASURES = {"resistance_r2": "resistance", "commute_r2": "commute", "return_r2": "return"}

_KEY_WIDTH = 6.0  # inches of the chart's signs
_TRAINED: dict[str, Any] = {"s": 80, "c": NEGATIVE}
_FRESH: dict[str, Any] = {"s": 70, "c": PAPER, "edgecolors": NEGATIVE, "linewidths": 1.6}
_DASHES: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.3}

Probe = Mapping[str, Any]


class _Row(NamedTuple):
    name: str
    probe: Probe
    random: Probe | None  # None: it has no weights


def compose_distances(content: Mapping[str, Any]) -> Figure:
    """The whole page. ``content``: of :mod:`pointset.studies.trained.distances`."""
    rows = [_Row("degrees only", content["degrees"], None)]
    rows += [_Row(layer["name"], layer["trained"], layer["random"]) for layer in content["layers"]]
    distances = [one for one in content["distances"] if _pairs(rows, one)]
    name = min(max([width_of(row.name, TEXT) for row in rows] + [_NAME[0]]), _NAME[1])
    chart = MARGIN + name + 0.2
    first = chart + _CHART + _GAP
    last = first + len(distances) * _COLUMN + _GAP
    page = Page(last + len(_MEASURES) * _LAST + MARGIN, HEAD + _TITLES + len(rows) * _ROW + _KEY + MARGIN)
    page.head(f"The distances that {content['run']} knows", _subtitle(content))
    for index, row in enumerate(rows):
        middle = HEAD + _TITLES + (index + 0.5) * _ROW
        page.write(MARGIN, middle, broken(row.name, name, TEXT, 1)[0], va="center_baseline")
    _draw_chart(page, chart, rows, content["majority"])
    _draw_table(page, first, rows, distances)
    _draw_measures(page, last, rows)
    _draw_key(page, HEAD + _TITLES + len(rows) * _ROW + 0.45)
    return page.figure


def _subtitle(content: Mapping[str, Any]) -> str:
    graphs = content["graphs"]
    return (
        f"{content['preset']}: what a probe, fitted on {graphs['fit']:,} graphs, reads off each layer on "
        f"{graphs['test']:,} others ({graphs['test_pairs']:,} pairs of nodes; graphs: {graphs['kind']})"
    )


def _title(page: Page, left: float, title: str, below: str = "") -> None:
    page.write(left, HEAD + 0.02, title, weight="bold")
    page.write(left, HEAD + 0.24, below, SMALL, QUIET)


def _draw_chart(page: Page, left: float, rows: Sequence[_Row], majority: float) -> None:
    """Accuracy over all pairs: the trained model against the same with fresh weights, and two lines to beat."""
    _title(page, left, "shortest path, all pairs", "accuracy")
    axes = page.axes(left, HEAD + _TITLES, _CHART, len(rows) * _ROW)
    degrees = rows[0].probe["accuracy"]
    axes.set(xlim=(0, 1.16), ylim=(len(rows), 0))
    for at, colour in ((majority, FAINT), (degrees, QUIET)):
        axes.axvline(at, color=colour, zorder=1, **_DASHES)
    for index, row in enumerate(rows):
        _draw_accuracies(axes, index + 0.5, row)
    axes.set_yticks([])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.tick_params(length=0, pad=6, labelsize=SMALL, labelcolor=QUIET)
    axes.spines[:].set_visible(False)


def _draw_accuracies(axes: Axes, middle: float, row: _Row) -> None:
    accuracy = row.probe["accuracy"]
    axes.plot([0, 1], [middle, middle], color=HAIRLINE, linewidth=1, zorder=0)
    if row.random is not None:
        other = row.random["accuracy"]
        axes.plot([other, accuracy], [middle, middle], color=NEGATIVE, linewidth=3, alpha=0.35, zorder=2)
        axes.scatter(other, middle, zorder=3, **_FRESH)
    axes.scatter(accuracy, middle, zorder=4, **_TRAINED | ({"c": QUIET} if row.random is None else {}))
    axes.text(1.03, middle, f"{accuracy:.2f}", color=INK, weight="bold", fontsize=TEXT, va="center_baseline")


def _draw_table(page: Page, left: float, rows: Sequence[_Row], distances: Sequence[str]) -> None:
    """The share of the pairs at each distance that is recognised."""
    for column, distance in enumerate(distances):
        at = left + column * _COLUMN
        middle = at + _COLUMN / 2 - 0.015
        page.write(middle, HEAD + 0.24, distance, weight="bold", ha="center")
        page.write(middle, HEAD + 0.46, f"{_pairs(rows, distance):,}", 9.0, QUIET, ha="center")
        for index, row in enumerate(rows):
            place = (at, HEAD + _TITLES + index * _ROW, _COLUMN, _ROW)
            below = "" if row.random is None else _number(_accuracy(row.random, distance))
            value = _accuracy(row.probe, distance)
            draw_cell(page, place, share_colour(value), _number(value), below)
    page.write(left, HEAD + 0.02, "accuracy by distance", SMALL, QUIET)


def _draw_measures(page: Page, left: float, rows: Sequence[_Row]) -> None:
    page.write(left, HEAD + 0.02, "R² of other measures", SMALL, QUIET)
    for column, (key, title) in enumerate(_MEASURES.items()):
        at = left + column * _LAST
        page.write(at + _LAST / 2 - 0.015, HEAD + 0.35, title, weight="bold", ha="center")
        for index, row in enumerate(rows):
            place = (at, HEAD + _TITLES + index * _ROW, _LAST, _ROW)
            below = "" if row.random is None else _number(row.random[key])
            draw_cell(page, place, share_colour(row.probe[key]), _number(row.probe[key]), below)


def _draw_key(page: Page, top: float) -> None:
    """The four signs of the chart in one line, and what the numbers mean."""
    axes = page.axes(MARGIN, top, _KEY_WIDTH, 0.3)
    axes.set(xlim=(0, _KEY_WIDTH), ylim=(0, 1))
    axes.set_axis_off()
    axes.scatter(0.08, 0.5, **_TRAINED)
    axes.scatter(1.0, 0.5, **_FRESH)
    for left, colour in ((2.35, QUIET), (3.85, FAINT)):
        axes.plot([left, left + 0.28], [0.5, 0.5], color=colour, **_DASHES)
    for left, words in (
        (0.22, "trained"),
        (1.14, "fresh weights"),
        (2.7, "degrees only"),
        (4.2, "always the most common"),
    ):
        axes.text(left, 0.5, words, color=QUIET, fontsize=SMALL, va="center_baseline")
    words = "under each distance: its pairs of nodes; small in the cells: the same model with fresh weights"
    page.write(MARGIN, top + 0.4, words, SMALL, QUIET)


def _pairs(rows: Sequence[_Row], distance: str) -> int:
    """How many pairs of nodes the probes were scored on; 0 where there are none at this distance."""
    scored = rows[0].probe["per_distance"].get(distance)
    return 0 if scored is None else int(scored["pairs"])


def _accuracy(probe: Probe, distance: str) -> float | None:
    scored = probe["per_distance"].get(distance)
    return None if scored is None else scored["accuracy"]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # + 0.0: no −0.00
