"""The page of counting: the error of a model for each substructure in each family of fresh graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from pointset.reports.drawing.style import INK, QUIET
from pointset.reports.express.cells import ERRORS, draw_cell, error_colour
from pointset.reports.express.page import HEAD, HOLDS, MARGIN, SMALL, TEXT, Page, broken, width_of

_NAME = (1.6, 3.0)  # inches of the substructures' names, at least and at most
_COLUMN, _ROW = 1.5, 0.52  # inches of a cell
_TITLES, _KEY, _LINE = 0.75, 0.85, 0.21  # inches: of the families' names, of the scale, from line to line
_NARROWEST = 8.6  # inches of the page
_SCALE = 3.2  # inches of the scale


def compose_counting(content: Mapping[str, Any]) -> Figure:
    """The whole page. ``content``: of :mod:`pointset.studies.trained.counting`."""
    names, families = content["substructures"], content["families"]
    name = min(max([width_of(one, TEXT) for one in names] + [_NAME[0]]), _NAME[1])
    left = MARGIN + name + 0.2
    wide = max(left + len(families) * _COLUMN + MARGIN, _NARROWEST)
    notes = _notes(content, wide - 2 * MARGIN)
    table = HEAD + _TITLES
    page = Page(wide, table + len(names) * _ROW + _KEY + len(notes) * _LINE + MARGIN)
    page.head(f"What {content['run']} counts", _subtitle(content))
    for row, substructure in enumerate(names):
        middle = table + (row + 0.5) * _ROW
        page.write(MARGIN, middle, broken(substructure, name, TEXT, 1)[0], va="center_baseline")
    for column, (family, scores) in enumerate(families.items()):
        at = left + column * _COLUMN
        _write_title(page, at, family, content["graphs"].get(family, {}))
        for row, substructure in enumerate(names):
            _draw(page, (at, table + row * _ROW, _COLUMN, _ROW), scores.get(substructure), content["bound"])
    bottom = table + len(names) * _ROW
    _draw_scale(page, left, bottom + 0.25, content["bound"])
    for index, line in enumerate(notes):
        page.write(MARGIN, bottom + _KEY + index * _LINE, line, SMALL, QUIET)
    return page.figure


def _subtitle(content: Mapping[str, Any]) -> str:
    cells = [family.get(name) for family in content["families"].values() for name in content["substructures"]]
    counted = sum(scores is not None and bool(scores["counts"]) for scores in cells)
    return (
        f"{content['preset']}, on graphs that it has not seen: normalised MAE. "
        f"✓ it counts: at most {content['bound']:g}, in {counted} of {len(cells)} cells"
    )


def _write_title(page: Page, left: float, family: str, graphs: Mapping[str, Any]) -> None:
    lines = broken(family, _COLUMN - 0.15, TEXT, 2, bold=True)
    top = HEAD + _TITLES - 0.3 - len(lines) * _LINE
    for index, line in enumerate(lines):
        page.write(left + 0.02, top + index * _LINE, line, weight="bold")
    if graphs:
        number = graphs["graphs"]
        page.write(left + 0.02, HEAD + _TITLES - 0.27, f"{number:,} graph{'' if number == 1 else 's'}", SMALL, QUIET)


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
