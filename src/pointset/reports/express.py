"""The page of BREC: for each model a bar in each category of pairs, and the total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pointset.reports.page import (
    ERRORS,
    FAILS,
    HEAD,
    HOLDS,
    MARGIN,
    SMALL,
    TEXT,
    WRONG,
    Page,
    broken,
    draw_cell,
    error_colour,
    share_colour,
    width_of,
)
from pointset.reports.style import FAINT, HAIRLINE, INK, NEGATIVE, PAPER, QUIET, WALLS
from pointset.text import counted, fixed

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


# The page of counting: the error of a model for each substructure in each family of fresh graphs.


_NAME_COUNTING_PAGE = (1.6, 3.0)  # inches of the substructures' names, at least and at most
_COLUMN, _ROW_COUNTING_PAGE = 1.5, 0.52  # inches of a cell
_TITLES_COUNTING_PAGE, _KEY_COUNTING_PAGE, _LINE = (
    0.75,
    0.85,
    0.21,
)  # inches: of the families' names, of the scale, from line to line
_NARROWEST_COUNTING_PAGE = 8.6  # inches of the page
_SCALE = 3.2  # inches of the scale


def compose_counting(content: Mapping[str, Any]) -> Figure:
    """The whole page. ``content``: of :mod:`pointset.paper.trained_counting`."""
    names, families = content["substructures"], content["families"]
    name = min(max([width_of(one, TEXT) for one in names] + [_NAME_COUNTING_PAGE[0]]), _NAME_COUNTING_PAGE[1])
    left = MARGIN + name + 0.2
    wide = max(left + len(families) * _COLUMN + MARGIN, _NARROWEST_COUNTING_PAGE)
    notes = _notes(content, wide - 2 * MARGIN)
    table = HEAD + _TITLES_COUNTING_PAGE
    page = Page(wide, table + len(names) * _ROW_COUNTING_PAGE + _KEY_COUNTING_PAGE + len(notes) * _LINE + MARGIN)
    page.head(f"What {content['run']} counts", _subtitle(content))
    for row, substructure in enumerate(names):
        middle = table + (row + 0.5) * _ROW_COUNTING_PAGE
        page.write(MARGIN, middle, broken(substructure, name, TEXT, 1)[0], va="center_baseline")
    for column, (family, scores) in enumerate(families.items()):
        at = left + column * _COLUMN
        _write_title_counting_page(page, at, family, content["graphs"].get(family, {}))
        for row, substructure in enumerate(names):
            _draw(
                page,
                (at, table + row * _ROW_COUNTING_PAGE, _COLUMN, _ROW_COUNTING_PAGE),
                scores.get(substructure),
                content["bound"],
            )
    bottom = table + len(names) * _ROW_COUNTING_PAGE
    _draw_scale(page, left, bottom + 0.25, content["bound"])
    for index, line in enumerate(notes):
        page.write(MARGIN, bottom + _KEY_COUNTING_PAGE + index * _LINE, line, SMALL, QUIET)
    return page.figure


def _subtitle(content: Mapping[str, Any]) -> str:
    cells = [family.get(name) for family in content["families"].values() for name in content["substructures"]]
    counted = sum(scores is not None and bool(scores["counts"]) for scores in cells)
    return (
        f"{content['preset']}, on graphs that it has not seen: normalised MAE. "
        f"✓ it counts: at most {content['bound']:g}, in {counted} of {len(cells)} cells"
    )


def _write_title_counting_page(page: Page, left: float, family: str, graphs: Mapping[str, Any]) -> None:
    lines = broken(family, _COLUMN - 0.15, TEXT, 2, bold=True)
    top = HEAD + _TITLES_COUNTING_PAGE - 0.3 - len(lines) * _LINE
    for index, line in enumerate(lines):
        page.write(left + 0.02, top + index * _LINE, line, weight="bold")
    if graphs:
        page.write(
            left + 0.02,
            HEAD + _TITLES_COUNTING_PAGE - 0.27,
            counted(graphs["graphs"], "graph"),
            SMALL,
            QUIET,
        )


def _draw(page: Page, place: tuple[float, float, float, float], scores: Mapping[str, Any] | None, bound: float) -> None:
    if scores is None:
        draw_cell(page, place, error_colour(None, bound), "–")
        return
    mae, exact = scores["mae"], scores["exact_share"]
    number = "no number" if mae is None else f"{mae:.4f}" if mae < 10 else f"{mae:.3g}"
    below = "" if exact is None else f"{100 * exact:.1f} % exact"
    draw_cell(page, place, error_colour(mae, bound), number + (" ✓" if scores["counts"] else ""), below)


def _draw_scale(page: Page, left: float, top: float, bound: float) -> None:
    """The colours of errors, with the bound in the middle."""
    axes = page.axes(left, top, _SCALE, 0.14)
    axes.imshow([[step / 255 for step in range(256)]], cmap=ERRORS, aspect="auto", extent=(-2, 2, 0, 1))
    axes.set_yticks([])
    axes.set_xticks(range(-2, 3), [f"{bound * 10.0**power:g}" for power in range(-2, 3)])
    axes.tick_params(length=0, pad=5, labelsize=SMALL, labelcolor=QUIET)
    axes.spines[:].set_visible(False)
    axes.get_xticklabels()[2].set(color=HOLDS, weight="bold", fontsize=TEXT)
    page.write(left + _SCALE + 0.3, top + 0.005, "normalised MAE", SMALL, INK)


def _notes(content: Mapping[str, Any], space: float) -> list[str]:
    """What the families are, and what could not be checked."""
    told = [
        f"{family}: {one['description']}" + (f"; {one['seen']:,} seen in training left out" if one.get("seen") else "")
        for family, one in content["graphs"].items()
    ]
    if content.get("not_checked"):
        told.append(f"Whether training has seen some of them was not checked: {content['not_checked']}")
    return [line for text in told for line in broken(text, space, SMALL, 2)]


# The page of distances: what can be read off each layer, beside what can be read off degrees and random weights.


_NAME_DISTANCES_PAGE = (1.2, 2.6)  # inches of the layers' names, at least and at most
_CHART, _COLUMN_DISTANCES_PAGE, _LAST, _ROW_DISTANCES_PAGE = (
    3.6,
    0.78,
    1.15,
    0.52,
)  # inches: the chart of all pairs, a distance, a measure, a row
_GAP_DISTANCES_PAGE, _TITLES_DISTANCES_PAGE, _KEY_DISTANCES_PAGE = (
    0.35,
    0.75,
    0.95,
)  # inches: between blocks, above the rows, below them
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
    """The whole page. ``content``: of :mod:`pointset.paper.trained_distances`."""
    rows = [_Row("degrees only", content["degrees"], None)]
    rows += [_Row(layer["name"], layer["trained"], layer["random"]) for layer in content["layers"]]
    distances = [one for one in content["distances"] if _pairs(rows, one)]
    name = min(max([width_of(row.name, TEXT) for row in rows] + [_NAME_DISTANCES_PAGE[0]]), _NAME_DISTANCES_PAGE[1])
    chart = MARGIN + name + 0.2
    first = chart + _CHART + _GAP_DISTANCES_PAGE
    last = first + len(distances) * _COLUMN_DISTANCES_PAGE + _GAP_DISTANCES_PAGE
    page = Page(
        last + len(_MEASURES) * _LAST + MARGIN,
        HEAD + _TITLES_DISTANCES_PAGE + len(rows) * _ROW_DISTANCES_PAGE + _KEY_DISTANCES_PAGE + MARGIN,
    )
    page.head(f"The distances that {content['run']} knows", _subtitle_distances_page(content))
    for index, row in enumerate(rows):
        middle = HEAD + _TITLES_DISTANCES_PAGE + (index + 0.5) * _ROW_DISTANCES_PAGE
        page.write(MARGIN, middle, broken(row.name, name, TEXT, 1)[0], va="center_baseline")
    _draw_chart(page, chart, rows, content["majority"])
    _draw_table(page, first, rows, distances)
    _draw_measures(page, last, rows)
    _draw_key_distances_page(page, HEAD + _TITLES_DISTANCES_PAGE + len(rows) * _ROW_DISTANCES_PAGE + 0.45)
    return page.figure


def _subtitle_distances_page(content: Mapping[str, Any]) -> str:
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
    axes = page.axes(left, HEAD + _TITLES_DISTANCES_PAGE, _CHART, len(rows) * _ROW_DISTANCES_PAGE)
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
        at = left + column * _COLUMN_DISTANCES_PAGE
        middle = at + _COLUMN_DISTANCES_PAGE / 2 - 0.015
        page.write(middle, HEAD + 0.24, distance, weight="bold", ha="center")
        page.write(middle, HEAD + 0.46, f"{_pairs(rows, distance):,}", 9.0, QUIET, ha="center")
        for index, row in enumerate(rows):
            place = (
                at,
                HEAD + _TITLES_DISTANCES_PAGE + index * _ROW_DISTANCES_PAGE,
                _COLUMN_DISTANCES_PAGE,
                _ROW_DISTANCES_PAGE,
            )
            below = "" if row.random is None else fixed(_accuracy(row.random, distance), 2)
            value = _accuracy(row.probe, distance)
            draw_cell(page, place, share_colour(value), fixed(value, 2), below)
    page.write(left, HEAD + 0.02, "accuracy by distance", SMALL, QUIET)


def _draw_measures(page: Page, left: float, rows: Sequence[_Row]) -> None:
    page.write(left, HEAD + 0.02, "R² of other measures", SMALL, QUIET)
    for column, (key, title) in enumerate(_MEASURES.items()):
        at = left + column * _LAST
        page.write(at + _LAST / 2 - 0.015, HEAD + 0.35, title, weight="bold", ha="center")
        for index, row in enumerate(rows):
            place = (at, HEAD + _TITLES_DISTANCES_PAGE + index * _ROW_DISTANCES_PAGE, _LAST, _ROW_DISTANCES_PAGE)
            below = "" if row.random is None else fixed(row.random[key], 2)
            draw_cell(page, place, share_colour(row.probe[key]), fixed(row.probe[key], 2), below)


def _draw_key_distances_page(page: Page, top: float) -> None:
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


# The page of statements: a row for each, with its verdict and the evidence.


_VERDICTS = {"holds": (HOLDS, "✓"), "fails as printed": (FAILS, "✗")}  # all else is an error
_NAME_THEOREMS_PAGE, _CLAIM, _EVIDENCE = 2.2, 4.8, 8.4  # inches of the columns
_MARK, _GAP_THEOREMS_PAGE, _END = 0.5, 0.3, 0.15  # inches: before the name, between columns, behind the last
_LINE_THEOREMS_PAGE, _ABOVE = 0.19, 0.09  # inches: from line to line, above and below the text of a row
_MOST_LINES, _OF_EVIDENCE = 3, 12  # of a claim; of evidence, which says at its end what holds instead


class _StatementRow(NamedTuple):
    name: list[str]
    verdict: str
    claim: list[str]
    evidence: list[str]

    @property
    def height(self) -> float:
        lines = max(len(self.name) + 1, len(self.claim), len(self.evidence))
        return lines * _LINE_THEOREMS_PAGE + 2 * _ABOVE


def compose_theorems(results: Sequence[Mapping[str, Any]]) -> Figure:
    """The whole page; its height follows the number of statements and the length of what is said of them."""
    rows = [_row(result) for result in results]
    wide = 2 * MARGIN + _MARK + _NAME_THEOREMS_PAGE + _CLAIM + _EVIDENCE + 2 * _GAP_THEOREMS_PAGE + _END
    page = Page(wide, HEAD + _LINE_THEOREMS_PAGE + _ABOVE + sum(row.height for row in rows) + MARGIN)
    page.head("The paper's statements, checked", _summary([row.verdict for row in rows]))
    claim = MARGIN + _MARK + _NAME_THEOREMS_PAGE + _GAP_THEOREMS_PAGE
    evidence = claim + _CLAIM + _GAP_THEOREMS_PAGE
    for left, title in ((MARGIN + _MARK, "statement"), (claim, "what it claims"), (evidence, "what was found")):
        page.write(left, HEAD, title, SMALL, QUIET)
    top = HEAD + _LINE_THEOREMS_PAGE + _ABOVE
    for index, row in enumerate(rows):
        colour, mark = _VERDICTS.get(row.verdict, (WRONG, "!"))
        if index % 2 == 0:
            page.box(MARGIN, top, wide - 2 * MARGIN, row.height, WALLS[0])
        page.box(MARGIN, top, 0.07, row.height, colour)
        page.write(MARGIN + 0.18, top + _ABOVE - 0.02, mark, 15, colour, weight="bold")
        _lines(page, MARGIN + _MARK, top, row.name, TEXT, INK, weight="bold")
        _lines(page, MARGIN + _MARK, top + len(row.name) * _LINE_THEOREMS_PAGE, [row.verdict], SMALL, colour)
        _lines(page, claim, top, row.claim, SMALL, QUIET)
        _lines(page, evidence, top, row.evidence, SMALL, INK)
        top += row.height
    return page.figure


def _row(result: Mapping[str, Any]) -> _StatementRow:
    return _StatementRow(
        broken(str(result["statement"]), _NAME_THEOREMS_PAGE, TEXT, 3, bold=True),
        str(result["verdict"]),
        broken(str(result.get("claim", "")), _CLAIM, SMALL, _MOST_LINES),
        broken(str(result["evidence"]), _EVIDENCE, SMALL, _OF_EVIDENCE),
    )


def _lines(page: Page, left: float, top: float, lines: Sequence[str], size: float, color: str, **style: Any) -> None:
    """Each at its own place, so that rows of several columns stay in line."""
    for index, line in enumerate(lines):
        page.write(left, top + _ABOVE + index * _LINE_THEOREMS_PAGE, line, size, color, **style)


def _summary(verdicts: Sequence[str]) -> str:
    counts = [(verdict, verdicts.count(verdict)) for verdict in dict.fromkeys(verdicts)]
    known = [*_VERDICTS]
    counts.sort(key=lambda one: known.index(one[0]) if one[0] in known else len(known))
    told = ",   ".join(f"{verdict}: {count}" for verdict, count in counts)
    return f"{len(verdicts)} statement{'' if len(verdicts) == 1 else 's'} as experiments.   {told}"
