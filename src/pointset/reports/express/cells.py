"""Cells of a table that are coloured by their number."""

from __future__ import annotations

import math

from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex, to_rgb

from pointset.reports.drawing.style import INK, PAPER, WALLS
from pointset.reports.express.page import TEXT, Page

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
