"""Pictures of what ``pointset express`` finds: theorems, BREC, counting, distances. Needs matplotlib.

Each is a table on a page whose size follows its content: a heading, names of the rows at the left, columns with titles,
and what signs and colours mean at the foot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from pointset.reports.canvas import (
    HEAD,
    MARGIN,
    SMALL,
    TEXT,
    TINY,
    Page,
    Place,
    broken,
    draw_bar,
    draw_cell,
    error_colour,
    share_colour,
    widest_of,
    width_of,
)
from pointset.reports.palette import (
    BAD,
    BAD_PALE,
    BLUE,
    DEEP_BLUE,
    DOUBTFUL,
    ERRORS,
    FAINT,
    GOOD,
    HAIRLINE,
    INK,
    PAPER,
    QUIET,
    WALLS,
    colours_on,
)
from pointset.text import counted, fixed

_GAP = 0.2  # inches between the names of the rows and the columns, and between columns of bars
_LINE = 0.2  # inches from one line of small text to the next


class _Grid(NamedTuple):
    """Where the cells of a table are, in inches."""

    left: float
    top: float
    column: float  # width
    row: float  # height

    def cell(self, row: int, column: int) -> Place:
        return self.left + column * self.column, self.top + row * self.row, self.column, self.row

    def middle(self, column: int) -> float:
        return self.left + (column + 0.5) * self.column - 0.015


def _write_lines(
    page: Page, left: float, top: float, lines: Sequence[str], size: float, color: str, **style: Any
) -> None:
    """Each at its own place, so that rows of several columns stay in line."""
    for index, line in enumerate(lines):
        page.write(left, top + index * _LINE, line, size, color, **style)


# --- theorems: a row for each statement, with its verdict and the evidence

_VERDICTS = {"holds": (GOOD, "✓"), "fails as printed": (DOUBTFUL, "✗")}  # all else is an error
_MARK, _STATEMENT, _CLAIM, _EVIDENCE = 0.5, 2.2, 4.8, 8.4  # inches of the columns
_BETWEEN, _ABOVE = 0.3, 0.09  # inches: between columns; above and below the text of a row
_MOST_LINES, _MOST_OF_EVIDENCE = 3, 12  # of a claim; of evidence, which says at its end what holds instead


def compose_theorems(results: Sequence[Mapping[str, Any]]) -> Figure:
    """The page of :func:`pointset.reports.pictures.draw_theorems`."""
    rows = [
        (
            broken(str(result["statement"]), _STATEMENT, TEXT, 3, bold=True),
            str(result["verdict"]),
            broken(str(result.get("claim", "")), _CLAIM, SMALL, _MOST_LINES),
            broken(str(result["evidence"]), _EVIDENCE, SMALL, _MOST_OF_EVIDENCE),
        )
        for result in results
    ]
    heights = [max(len(row[0]) + 1, len(row[2]), len(row[3])) * _LINE + 2 * _ABOVE for row in rows]
    name = MARGIN + _MARK
    claim = name + _STATEMENT + _BETWEEN
    evidence = claim + _CLAIM + _BETWEEN
    top = HEAD + _LINE + _ABOVE
    page = Page(evidence + _EVIDENCE + 0.15 + MARGIN, top + sum(heights) + MARGIN)
    page.head("The paper's statements, checked", _summary([row[1] for row in rows]))
    for left, title in ((name, "statement"), (claim, "what it claims"), (evidence, "what was found")):
        page.write(left, HEAD, title, SMALL, QUIET)
    for index, ((lines, verdict, claimed, found), height) in enumerate(zip(rows, heights, strict=True)):
        colour, mark = _VERDICTS.get(verdict, (BAD, "!"))
        if index % 2 == 0:
            page.box(MARGIN, top, page.wide - 2 * MARGIN, height, WALLS[0])
        page.box(MARGIN, top, 0.07, height, colour)
        first = top + _ABOVE
        page.write(MARGIN + 0.18, first - 0.02, mark, 15, colour, weight="bold")
        _write_lines(page, name, first, lines, TEXT, INK, weight="bold")
        page.write(name, first + len(lines) * _LINE, verdict, SMALL, colour)
        _write_lines(page, claim, first, claimed, SMALL, QUIET)
        _write_lines(page, evidence, first, found, SMALL, INK)
        top += height
    return page.figure


def _summary(verdicts: Sequence[str]) -> str:
    known = [*_VERDICTS]
    found = sorted(dict.fromkeys(verdicts), key=lambda one: known.index(one) if one in known else len(known))
    counts = ",   ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in found)
    return f"{counted(len(verdicts), 'statement')} as experiments.   {counts}"


# --- BREC: for each model a bar in each category of pairs, and the total

Outcome = Mapping[str, int]  # "pairs", "separated", "unreliable"
_TRACK, _NUMBER, _BAR_ROW = 1.05, 0.75, 0.42  # inches: the longest bar, the number behind it, a model
_UNRELIABLE: dict[str, Any] = {"edgecolor": BAD, "hatch": "/////", "linewidth": 0.8}


class _Category(NamedTuple):
    """A category of pairs, or the total."""

    title: str
    outcomes: list[Outcome | None]  # of each model; None where it was not tried
    colour: str

    @property
    def pairs(self) -> int | None:
        """Where all models were tried on as many."""
        numbers = {one["pairs"] for one in self.outcomes if one is not None}
        return numbers.pop() if len(numbers) == 1 else None


def compose_brec(content: Mapping[str, Mapping[str, Outcome]]) -> Figure:
    """The page of :func:`pointset.reports.pictures.draw_brec`."""
    models, categories = list(content), _categories(content)
    name = widest_of(models, TEXT, 1.0, 3.2, bold=True)
    wide = max(2 * MARGIN + name + len(categories) * (_TRACK + _NUMBER + _GAP), 8.0)
    top = HEAD + 0.55
    page = Page(wide, top + len(models) * _BAR_ROW + 0.5 + MARGIN)
    below = "Bars: the share of the pairs that a model distinguishes. No two graphs of a pair are isomorphic."
    page.head("BREC: pairs of graphs distinguished", below)
    page.names(models, MARGIN, top, name, _BAR_ROW, weight="bold")
    for index, category in enumerate(categories):
        left = MARGIN + name + _GAP + index * (_TRACK + _NUMBER + _GAP)
        title = broken(category.title.replace("_", " "), _TRACK + _NUMBER, TEXT, 1, bold=True)[0]
        page.write(left, HEAD, title, color=INK if category.colour == BLUE else category.colour, weight="bold")
        if category.pairs is not None:
            page.write(left, HEAD + 0.23, counted(category.pairs, "pair"), SMALL, QUIET)
        for row, outcome in enumerate(category.outcomes):
            _draw_outcome(page, left, top + (row + 0.5) * _BAR_ROW, outcome, category)
    foot = page.high - MARGIN - 0.12
    page.box(MARGIN, foot, 0.3, 0.16, BLUE)
    page.write(MARGIN + 0.4, foot + 0.01, "distinguished", SMALL, QUIET)
    if any(one is not None and one["unreliable"] for category in categories for one in category.outcomes):
        page.box(MARGIN + 1.65, foot, 0.3, 0.16, BAD_PALE, **_UNRELIABLE)
        text = "(in brackets) unreliable: two copies of one graph were taken for different ones"
        page.write(MARGIN + 2.05, foot + 0.01, text, SMALL, QUIET)
    return page.figure


def _categories(content: Mapping[str, Mapping[str, Outcome]]) -> list[_Category]:
    """In the order in which they come, and the total at the right."""
    names = dict.fromkeys(category for model in content.values() for category in model)
    categories = [_Category(name, [model.get(name) for model in content.values()], BLUE) for name in names]
    totals: list[Outcome | None] = [
        {key: sum(one[key] for one in model.values()) for key in ("pairs", "separated", "unreliable")}
        for model in content.values()
    ]
    return [*categories, _Category("total", totals, DEEP_BLUE)]


def _draw_outcome(page: Page, left: float, middle: float, outcome: Outcome | None, category: _Category) -> None:
    """A bar as long as the share of the pairs; the number behind it is that of the pairs distinguished."""
    if outcome is None or not outcome["pairs"]:
        page.write(left, middle, "–", color=QUIET, va="center_baseline")
        return
    share, doubtful = (outcome[key] / outcome["pairs"] for key in ("separated", "unreliable"))
    draw_bar(page, left, middle, _BAR_ROW, _TRACK, HAIRLINE, zorder=-2)
    draw_bar(page, left, middle, _BAR_ROW, share * _TRACK, category.colour)
    if doubtful:
        start = min(share, max(1 - doubtful, 0.0))
        length = min(doubtful, 1.0) * _TRACK
        draw_bar(page, left + start * _TRACK, middle, _BAR_ROW, length, BAD_PALE, **_UNRELIABLE)
    number = f"{outcome['separated']}" + (f"/{outcome['pairs']}" if category.pairs is None else "")
    behind = left + 1.06 * _TRACK
    page.write(behind, middle, number, weight="bold", va="center_baseline")
    if outcome["unreliable"]:
        beside = behind + width_of(number, TEXT, bold=True) + 0.06
        page.write(beside, middle, f"({outcome['unreliable']})", color=BAD, va="center_baseline")


# --- counting: the error of a model for each substructure in each family of fresh graphs

_TITLES, _ROW = 0.75, 0.52  # inches: above the cells, of a cell; also of the distances
_SCALE_WIDTH, _BELOW_CELLS = 3.2, 0.85  # inches of the scale of colours, and of its space


def compose_counting(content: Mapping[str, Any]) -> Figure:
    """The page of :func:`pointset.reports.pictures.draw_counting`."""
    names, families = content["substructures"], content["families"]
    name = widest_of(names, TEXT, 1.6, 3.0)
    grid = _Grid(MARGIN + name + _GAP, HEAD + _TITLES, 1.5, _ROW)
    wide = max(grid.left + len(families) * grid.column + MARGIN, 8.6)
    notes = _notes(content, wide - 2 * MARGIN)
    bottom = grid.top + len(names) * _ROW
    page = Page(wide, bottom + _BELOW_CELLS + len(notes) * _LINE + MARGIN)
    cells = [family.get(one) for family in families.values() for one in names]
    correct = sum(scores is not None and bool(scores["counts"]) for scores in cells)
    page.head(
        f"What {content['run']} counts",
        f"{content['preset']}, on graphs that it has not seen: normalised MAE. "
        f"✓ it counts: at most {content['bound']:g}, in {correct} of {len(cells)} cells",
    )
    page.names(names, MARGIN, grid.top, name, _ROW)
    for column, (family, scores) in enumerate(families.items()):
        left = grid.cell(0, column)[0] + 0.02
        lines = broken(family, grid.column - 0.15, TEXT, 2, bold=True)
        _write_lines(page, left, grid.top - 0.3 - len(lines) * _LINE, lines, TEXT, INK, weight="bold")
        if graphs := content["graphs"].get(family):
            page.write(left, grid.top - 0.27, counted(graphs["graphs"], "graph"), SMALL, QUIET)
        for row, substructure in enumerate(names):
            _draw_error(page, grid.cell(row, column), scores.get(substructure), content["bound"])
    _draw_error_scale(page, grid.left, bottom + 0.25, content["bound"])
    _write_lines(page, MARGIN, bottom + _BELOW_CELLS, notes, SMALL, QUIET)
    return page.figure


def _draw_error(page: Page, place: Place, scores: Mapping[str, Any] | None, bound: float) -> None:
    if scores is None:
        draw_cell(page, place, error_colour(None, bound), "–")
        return
    mae, exact = scores["mae"], scores["exact_share"]
    number = "no number" if mae is None else f"{mae:.4f}" if mae < 10 else f"{mae:.3g}"
    below = "" if exact is None else f"{100 * exact:.1f} % exact"
    draw_cell(page, place, error_colour(mae, bound), number + (" ✓" if scores["counts"] else ""), below)


def _draw_error_scale(page: Page, left: float, top: float, bound: float) -> None:
    """The colours of errors, with the bound in the middle."""
    axes = page.axes(left, top, _SCALE_WIDTH, 0.14)
    colours = colours_on(ERRORS, [step / 255 for step in range(256)])
    axes.imshow(colours[None], aspect="auto", extent=(-2, 2, 0, 1))
    axes.set_yticks([])
    axes.set_xticks(range(-2, 3), [f"{bound * 10.0**power:g}" for power in range(-2, 3)])
    axes.tick_params(length=0, pad=5, labelsize=SMALL, labelcolor=QUIET)
    axes.spines[:].set_visible(False)
    axes.get_xticklabels()[2].set(color=GOOD, weight="bold", fontsize=TEXT)
    page.write(left + _SCALE_WIDTH + 0.3, top + 0.005, "normalised MAE", SMALL, INK)


def _notes(content: Mapping[str, Any], space: float) -> list[str]:
    """What the families are, and what could not be checked."""
    notes = [
        f"{family}: {one['description']}" + (f"; {one['seen']:,} seen in training left out" if one.get("seen") else "")
        for family, one in content["graphs"].items()
    ]
    if content.get("not_checked"):
        notes.append(f"Whether training has seen some of them was not checked: {content['not_checked']}")
    return [line for text in notes for line in broken(text, space, SMALL, 2)]


# --- distances: what can be read off each layer, beside what can be read off degrees and fresh weights

Probe = Mapping[str, Any]
_CHART, _APART = 3.6, 0.35  # inches: the chart of all pairs, between blocks
_MEASURES = {"resistance_r2": "resistance", "commute_r2": "commute", "return_r2": "return"}
_TRAINED: dict[str, Any] = {"s": 80, "c": BLUE}
_FRESH: dict[str, Any] = {"s": 70, "c": PAPER, "edgecolors": BLUE, "linewidths": 1.6}
_DASHES: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.3}


class _Layer(NamedTuple):
    name: str
    probe: Probe
    fresh: Probe | None  # of the same model with fresh weights; None: it has no weights


def compose_distances(content: Mapping[str, Any]) -> Figure:
    """The page of :func:`pointset.reports.pictures.draw_distances`."""
    layers = [_Layer("degrees only", content["degrees"], None)]
    layers += [_Layer(layer["name"], layer["trained"], layer["random"]) for layer in content["layers"]]
    pairs = {one: layers[0].probe["per_distance"].get(one) for one in content["distances"]}
    distances = {one: int(scored["pairs"]) for one, scored in pairs.items() if scored and scored["pairs"]}
    name = widest_of([layer.name for layer in layers], TEXT, 1.2, 2.6)
    top, chart = HEAD + _TITLES, MARGIN + name + _GAP
    by_distance = _Grid(chart + _CHART + _APART, top, 0.78, _ROW)
    measures = _Grid(by_distance.left + len(distances) * by_distance.column + _APART, top, 1.15, _ROW)
    bottom = top + len(layers) * _ROW
    page = Page(measures.left + len(_MEASURES) * measures.column + MARGIN, bottom + 0.95 + MARGIN)
    graphs = content["graphs"]
    page.head(
        f"The distances that {content['run']} knows",
        f"{content['preset']}: what a probe, fitted on {graphs['fit']:,} graphs, reads off each layer on "
        f"{graphs['test']:,} others ({graphs['test_pairs']:,} pairs of nodes; graphs: {graphs['kind']})",
    )
    page.names([layer.name for layer in layers], MARGIN, top, name, _ROW)
    _draw_accuracies(page, chart, layers, content["majority"])
    page.write(by_distance.left, HEAD + 0.02, "accuracy by distance", SMALL, QUIET)
    for column, (distance, number_of_pairs) in enumerate(distances.items()):
        page.write(by_distance.middle(column), HEAD + 0.24, distance, weight="bold", ha="center")
        page.write(by_distance.middle(column), HEAD + 0.46, f"{number_of_pairs:,}", TINY, QUIET, ha="center")
        _draw_shares(page, by_distance, column, layers, partial(_accuracy, distance))
    page.write(measures.left, HEAD + 0.02, "R² of other measures", SMALL, QUIET)
    for column, (key, title) in enumerate(_MEASURES.items()):
        page.write(measures.middle(column), HEAD + 0.35, title, weight="bold", ha="center")
        _draw_shares(page, measures, column, layers, itemgetter(key))
    _draw_distance_key(page, bottom + 0.45)
    return page.figure


def _draw_accuracies(page: Page, left: float, layers: Sequence[_Layer], majority: float) -> None:
    """Accuracy over all pairs: the trained model against the same with fresh weights, and two lines to beat."""
    page.write(left, HEAD + 0.02, "shortest path, all pairs", weight="bold")
    page.write(left, HEAD + 0.24, "accuracy", SMALL, QUIET)
    axes = page.axes(left, HEAD + _TITLES, _CHART, len(layers) * _ROW)
    axes.set(xlim=(0, 1.16), ylim=(len(layers), 0))
    for at, colour in ((majority, FAINT), (layers[0].probe["accuracy"], QUIET)):
        axes.axvline(at, color=colour, zorder=1, **_DASHES)
    for index, layer in enumerate(layers):
        accuracy, middle = layer.probe["accuracy"], index + 0.5
        axes.plot([0, 1], [middle, middle], color=HAIRLINE, linewidth=1, zorder=0)
        if layer.fresh is not None:
            other = layer.fresh["accuracy"]
            axes.plot([other, accuracy], [middle, middle], color=BLUE, linewidth=3, alpha=0.35, zorder=2)
            axes.scatter(other, middle, zorder=3, **_FRESH)
        axes.scatter(accuracy, middle, zorder=4, **_TRAINED | ({"c": QUIET} if layer.fresh is None else {}))
        axes.text(1.03, middle, f"{accuracy:.2f}", color=INK, weight="bold", fontsize=TEXT, va="center_baseline")
    axes.set_yticks([])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.tick_params(length=0, pad=6, labelsize=SMALL, labelcolor=QUIET)
    axes.spines[:].set_visible(False)


def _draw_shares(
    page: Page, grid: _Grid, column: int, layers: Sequence[_Layer], share: Callable[[Probe], float | None]
) -> None:
    for row, layer in enumerate(layers):
        value, below = share(layer.probe), "" if layer.fresh is None else fixed(share(layer.fresh), 2)
        draw_cell(page, grid.cell(row, column), share_colour(value), fixed(value, 2), below)


def _draw_distance_key(page: Page, top: float) -> None:
    """The four signs of the chart in one line, and what the numbers mean."""
    axes = page.inches(MARGIN, top, 6.0, 0.3)
    axes.scatter(0.08, 0.15, **_TRAINED)
    axes.scatter(1.0, 0.15, **_FRESH)
    for left, colour in ((2.35, QUIET), (3.85, FAINT)):
        axes.plot([left, left + 0.28], [0.15, 0.15], color=colour, **_DASHES)
    labels = {0.22: "trained", 1.14: "fresh weights", 2.7: "degrees only", 4.2: "always the most common"}
    for left, label in labels.items():
        axes.text(left, 0.15, label, color=QUIET, fontsize=SMALL, va="center_baseline")
    text = "under each distance: its pairs of nodes; small in the cells: the same model with fresh weights"
    page.write(MARGIN, top + 0.4, text, SMALL, QUIET)


def _accuracy(distance: str, probe: Probe) -> float | None:
    scored = probe["per_distance"].get(distance)
    return None if scored is None else scored["accuracy"]
