"""A page measured in inches from its upper left corner, with text that is broken where it would not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from pointset.reports.style import DPI, INK, PAPER, QUIET, WALLS

MARGIN = 0.45  # inches around the page
HEAD = 1.15  # inches from the upper edge to what stands below the heading
HEADING, TEXT, SMALL = 22.0, 11.5, 10.5  # points
HOLDS, FAILS, WRONG = "#2a8f63", "#d18a00", "#c8323c"  # green, amber and red, legible on white
_POINTS = 72.0  # in an inch
_MEASURED = 100.0  # points: the size at which letters are measured
_FRACTION = 2.0**16  # FreeType gives widths in these parts of a pixel
_ASCENT = 0.76  # how high a letter is, in terms of its size
_HINTED = 1.045  # small letters take whole pixels, and so a little more


class Page:
    """What is written and drawn at places in inches, measured from the upper left corner."""

    def __init__(self, wide: float, high: float):
        self.wide, self.high = wide, high
        self.figure = Figure(figsize=(wide, high), dpi=DPI, facecolor=PAPER)

    def write(self, left: float, top: float, text: str, size: float = TEXT, color: str = INK, **style: Any) -> Text:
        """A line whose highest letters reach up to ``top``; dollar signs are not mathematics."""
        style = dict[str, Any](va="baseline", parse_math=False) | style
        baseline = top + (_ASCENT * size / _POINTS if style["va"] == "baseline" else 0.0)
        return self.figure.text(left / self.wide, 1 - baseline / self.high, text, fontsize=size, color=color, **style)

    def head(self, heading: str, below: str) -> None:
        """The heading of the page and a line under it, smaller where the page is narrow."""
        space = self.wide - 2 * MARGIN
        size = min(HEADING, HEADING * space / max(width_of(heading, HEADING, bold=True), 1e-9))
        self.write(MARGIN, 0.38, heading, size, weight="bold")
        self.write(MARGIN, 0.75, below, min(13.0, 13.0 * space / max(width_of(below, 13.0), 1e-9)), QUIET)

    def box(self, left: float, top: float, wide: float, high: float, color: str, **style: Any) -> None:
        """A filled rectangle."""
        style = dict[str, Any](linewidth=0.0, facecolor=color, zorder=-1) | style
        place = (left / self.wide, 1 - (top + high) / self.high)
        size = (wide / self.wide, high / self.high)
        self.figure.add_artist(Rectangle(place, *size, transform=self.figure.transFigure, **style))

    def axes(self, left: float, top: float, wide: float, high: float, **sharing: Any) -> Axes:
        """Axes in a rectangle."""
        space = (left / self.wide, 1 - (top + high) / self.high, wide / self.wide, high / self.high)
        return self.figure.add_axes(space, **sharing)


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Inches that a line of text takes."""
    return _HINTED * size * sum(_letter_width(letter, bold) for letter in text)


@lru_cache(maxsize=4096)
def _letter_width(letter: str, bold: bool) -> float:
    """Inches for each point of size. Letters are measured once each: matplotlib takes long to measure whole lines."""
    font = get_font(findfont(FontProperties(weight="bold" if bold else "normal")))
    font.set_size(_MEASURED, _POINTS)  # a point is a pixel
    return font.load_char(ord(letter)).linearHoriAdvance / _FRACTION / _MEASURED / _POINTS


def broken(text: str, space: float, size: float, most: int, *, bold: bool = False) -> list[str]:
    """At most ``most`` lines that fit into ``space`` inches; an ellipsis stands for what does not."""
    fits: Callable[[str], bool] = lambda line: width_of(line, size, bold=bold) <= space  # noqa: E731
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if fits(longer) or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    kept = lines[:most]
    if len(lines) > most:
        kept[-1] += " …"
    return [line if fits(line) else _cut(line, fits) for line in kept]


def _cut(line: str, fits: Callable[[str], bool]) -> str:
    """As many words of a line as fit, or letters of its only word, with an ellipsis."""
    line = line.removesuffix(" …")
    while len(line) > 1 and not fits(f"{line} …"):
        line = line.rpartition(" ")[0] if " " in line else line[:-1]
    return f"{line} …"


# Cells of a table that are coloured by their number.


ERRORS = LinearSegmentedColormap.from_list("errors", ["#1f7a54", "#a9d8be", "#fbf6e6", "#f2b66d", "#c2452f"])
SHARES = LinearSegmentedColormap.from_list("shares", ["#f6f7f9", "#d3e8ec", "#8cc6cb", "#237f89", "#12525c"])
NOTHING = WALLS[2]
_BETWEEN = 0.03  # inches between cells
_BELOW = 9.0  # points of the second line


def draw_cell(page: Page, place: tuple[float, float, float, float], colour: str, number: str, below: str = "") -> None:
    """A number, bold, and a smaller line under it. ``place``: left, top, width and height in inches."""
    left, top, wide, high = place
    page.box(left, top, wide - _BETWEEN, high - _BETWEEN, colour)
    middle = left + (wide - _BETWEEN) / 2
    ink = PAPER if _luminance(colour) < 0.5 else INK
    height = (TEXT + (1.5 * _BELOW if below else 0)) / 72
    first = top + (high - _BETWEEN - height) / 2
    page.write(middle, first + 0.01, number, color=ink, weight="bold", ha="center")
    if below:
        page.write(middle, first + (TEXT + 0.5 * _BELOW) / 72, below, _BELOW, ink, ha="center")


def share_colour(share: float | None) -> str:
    """Of a number between 0 and 1; below 0 is as 0."""
    return NOTHING if share is None else _colour(SHARES, share)


def error_colour(error: float | None, bound: float) -> str:
    """On a logarithmic scale: green below the bound, red above, the farthest at a hundredth and at hundredfold."""
    if error is None:
        return NOTHING
    decades = math.log10(max(error, 1e-300) / bound)
    return _colour(ERRORS, 0.5 + decades / 4)


def _colour(colours: Colormap, share: float) -> str:
    return to_hex(colours(min(max(float(share), 0.0), 1.0)))  # of a whole number 1 it would give the second colour


def _luminance(colour: str) -> float:
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue
