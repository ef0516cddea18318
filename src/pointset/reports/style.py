"""The page and its colours: one scale for nodes, one for signed numbers, a few greys. Needs matplotlib."""

from __future__ import annotations

from matplotlib.colors import LinearSegmentedColormap

from pointset.reports.palette import SCALE

INCHES, DPI = (16, 10), 100
MANY_LINES = 4000  # edges from which vector formats get them as pixels, so that the file stays small
INK, QUIET, FAINT, HAIRLINE, PAPER = "#1d2733", "#5f6b78", "#b3bdc8", "#e1e6ec", "#ffffff"
NEGATIVE, POSITIVE = "#2b6ca8", "#d9583b"
WALLS = ["#f3f5f8", "#f8f9fb", "#edf0f4"]
NODES = LinearSegmentedColormap.from_list("nodes", SCALE)
SIGNED = LinearSegmentedColormap.from_list(
    "signed", ["#123f6d", NEGATIVE, "#a9cbe3", PAPER, "#f6bfa8", POSITIVE, "#8a2413"], N=257
)  # an odd number of colours, so that zero is white


def legible_on(shade: float) -> str:
    """White or dark, for a number on a node of this shade."""
    red, green, blue, _ = NODES(shade)
    return PAPER if 0.299 * red + 0.587 * green + 0.114 * blue < 0.6 else INK
