"""Explained predictions to look at: a picture of one molecule or of several, and a page with their numbers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pointset.reports.molecules import (
    Contributions,
    add_legend,
    contribution_legend,
    draw_molecule,
    molecule_element,
    molecule_png,
)
from pointset.reports.palette import INK, PAPER, QUIET
from pointset.reports.svg import Element, add, drawing, finished, short
from pointset.text import clipped

_WIDTH, _HEIGHT = 380.0, 270.0  # of a molecule
_TITLE, _LINE, _LEGEND, _MARGIN = 24.0, 17.0, 44.0, 14.0
_LETTERS = 52  # on a line below a title
_MOST_COLUMNS = 3
_TOO_LARGE = "too large to be drawn"


class Explained(NamedTuple):
    """A molecule, what was predicted for it, and what its atoms and bonds add to that."""

    read_as: str  # the SMILES whose atoms are numbered
    title: str
    notes: Sequence[str]
    contributions: Contributions
    rows: Sequence[Sequence[str]]  # of the table on the page


def explanation_svg(several: Sequence[Explained], unit: str = "", *, numbered: bool = False) -> str:
    """A picture for a file: the molecules side by side, with one scale of colours below."""
    largest = common_scale(several)
    columns = min(_MOST_COLUMNS, math.ceil(math.sqrt(len(several))))
    several = [one._replace(notes=[line for note in one.notes for line in _lines(note)]) for one in several]
    notes = max((len(one.notes) for one in several), default=0)
    high = _TITLE + notes * _LINE + _HEIGHT
    rows = math.ceil(len(several) / columns)
    width, height = 2 * _MARGIN + columns * _WIDTH, 2 * _MARGIN + rows * high + _LEGEND
    root = drawing(width, height, "; ".join(one.title for one in several), "explanation")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("width", short(width))
    root.set("height", short(height))
    add(root, "rect", width="100%", height="100%", fill=PAPER)
    for at, one in enumerate(several):
        row, column = divmod(at, columns)
        _add_panel(root, one, _MARGIN + column * _WIDTH, _MARGIN + row * high, notes, largest, numbered)
    add_legend(root, _MARGIN, height - _MARGIN - 26.0, _WIDTH - 60.0, largest, unit)
    return finished(root)


def _lines(note: str) -> list[str]:
    """As many as it needs: a sum of which the last terms are missing is wrong."""
    return textwrap.wrap(note, _LETTERS, break_on_hyphens=False) or [""]


def _add_panel(root: Element, one: Explained, x: float, y: float, notes: int, largest: float, numbered: bool) -> None:
    font = "px system-ui, sans-serif"
    add(root, "text", clipped(one.title, 44), x=x, y=y + 15, style=f"fill: {INK}; font: 600 15{font}")
    for at, note in enumerate(one.notes):
        style = f"fill: {QUIET}; font: 12{font}"
        add(root, "text", note, x=x, y=y + _TITLE + 11 + at * _LINE, style=style)
    top = y + _TITLE + notes * _LINE
    molecule = molecule_element(
        one.read_as,
        one.contributions._replace(largest=largest),
        width=_WIDTH,
        height=_HEIGHT,
        numbered=numbered,
        for_file=True,
    )
    if molecule is None:
        middle = {"x": x + _WIDTH / 2, "y": top + _HEIGHT / 2, "text_anchor": "middle"}
        add(root, "text", _TOO_LARGE, style=f"fill: {QUIET}; font: 13{font}", **middle)
        return
    for name, value in (("x", x), ("y", top), ("width", _WIDTH), ("height", _HEIGHT)):
        molecule.set(name, short(value))
    root.append(molecule)


def explanation_png(one: Explained, *, numbered: bool = False) -> bytes | None:
    """The molecule alone, as a picture file; None where it is too large, or RDKit was built without Cairo."""
    return molecule_png(one.read_as, one.contributions, width=_WIDTH, height=_HEIGHT, numbered=numbered)


def write_explanations(path: str | Path, title: str, lead: str, several: Sequence[Explained], unit: str = "") -> None:
    """A page with all molecules, their numbers, and one scale of colours.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    from pointset.reports.pages import check_page_extra, rendered, write_page

    check_page_extra()
    largest = common_scale(several)
    cards = [
        {
            "svg": draw_molecule(
                one.read_as,
                one.contributions._replace(largest=largest),
                width=_WIDTH,
                height=_HEIGHT,
                description=one.title,
                numbered=True,
            ),
            "title": one.title,
            "notes": one.notes,
            "smiles": one.read_as,
            "rows": one.rows,
        }
        for one in several
    ]
    values = {
        "title": title,
        "lead": lead,
        "eyebrow": "Contributions of atoms and bonds",
        "cards": cards,
        "scale": contribution_legend(largest, unit),
        "too_large": _TOO_LARGE,
    }
    nothing = dict.fromkeys(("tiles", "verdict", "test_scored"))
    write_page(rendered("explanations.html.j2", nothing | values), Path(path))


def common_scale(several: Sequence[Explained]) -> float:
    """|c| of the strongest colour for all of them."""
    return max((one.contributions.scale for one in several), default=0.0)
