"""A chart with two axes, small enough to be read on a phone (:class:`Chart`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pointset.reports.run_pages.axis import Axis, Floats
from pointset.reports.run_pages.svg import add, drawing, finished, picture_of, short
from pointset.reports.run_pages.words import clipped

WIDTH, HEIGHT = 360.0, 240.0  # units, about pixels: a page shows one to three side by side
_RIGHT, _TOP, _BOTTOM = 14.0, 28.0, 40.0  # margins; that on the left has room for the ticks
_LETTER = 6.3  # units: about the width of a digit
_BUCKET = 0.5  # units: of a line with more points than that only the extremes within such a width are kept
_LONGEST_LABEL = 44


class Place(NamedTuple):
    """The space between the axes."""

    left: float
    right: float
    top: float
    bottom: float


class Chart:
    """Draws in the order of the calls. ``style`` names classes of the style sheet: ``c0`` … ``c7`` are colours."""

    def __init__(self, x: Axis, y: Axis, description: str, *, height: float = HEIGHT) -> None:
        self.x, self.y = x, y
        longest = max((len(text) for _, text in y.ticks()), default=0)
        left = float(np.clip(14 + _LETTER * longest, 30, 80))
        self.place = Place(left, WIDTH - _RIGHT, _TOP if y.label else _TOP / 3, height - _BOTTOM)
        self.root = drawing(WIDTH, height, description)
        self._draw_axes(height)

    def line(self, x: Any, y: Any, style: str = "c0") -> None:
        """A line through points; it is broken where a number is missing."""
        if path := _path(*_thinned(*self._positions(x, y))):
            add(self.root, "path", d=path, class_=f"line {style}")

    def dots(self, x: Any, y: Any, style: str = "c0") -> None:
        """Small dots, all of them in one path, which keeps the file small."""
        across, down = self._positions(x, y)
        known = np.isfinite(across) & np.isfinite(down)
        if known.any():
            path = "".join(f"M{short(a)} {short(d)}h0" for a, d in zip(across[known], down[known], strict=True))
            add(self.root, "path", d=path, class_=f"dots {style}")

    def bars(self, edges: Any, heights: Any, style: str = "c0") -> None:
        """Columns that stand on the axis: (k + 1,) their sides, (k,) how high they are."""
        sides, tops = self._positions(edges, np.append(heights, 0.0))
        bottom = short(self.place.bottom)
        path = "".join(
            f"M{short(sides[i])} {bottom}V{short(tops[i])}H{short(sides[i + 1])}V{bottom}z"
            for i in range(len(sides) - 1)
            if heights[i] > 0
        )
        add(self.root, "path", d=path, class_=f"bars {style}")

    def density(self, shares: Floats, colour: str) -> None:
        """(rows, columns) strengths 0…1 over the whole space, the first row at the bottom."""
        left, right, top, bottom = self.place
        size: dict[str, Any] = {"width": right - left, "height": bottom - top, "preserveAspectRatio": "none"}
        href = picture_of(shares[::-1], colour)
        add(self.root, "image", x=left, y=top, class_="pixels", href=href, **size)

    def mark(self, x: float, y: float, text: str, style: str = "c1") -> None:
        """A ring around a point, with a note beside it that stays inside the chart."""
        across, down = (float(value[0]) for value in self._positions([x], [y]))
        if not np.isfinite([across, down]).all():
            return
        add(self.root, "circle", cx=across, cy=down, r=4.5, class_=f"ring {style}")
        if not text:
            return
        middle = (self.place.left + self.place.right) / 2
        anchor, shift = ("start", 9.0) if across < middle else ("end", -9.0)
        below = down < (self.place.top + self.place.bottom) / 2
        shifted = down + (24.0 if below else -16.0)
        add(self.root, "text", text, x=across + shift, y=shifted, text_anchor=anchor, class_="note")

    def svg(self) -> str:
        """The chart as text for the page."""
        return finished(self.root)

    def _positions(self, x: Any, y: Any) -> tuple[Floats, Floats]:
        left, right, top, bottom = self.place
        across = left + self.x.shares(x) * (right - left)
        down = bottom - self.y.shares(y) * (bottom - top)
        limit = 10 * WIDTH  # far outside; infinities have no place
        return np.clip(across, -limit, limit), np.clip(down, -limit, limit)

    def _draw_axes(self, height: float) -> None:
        left, right, _, bottom = self.place
        grid = ""
        for value, text in self.y.ticks():
            down = float(self._positions([self.x.low], [value])[1][0])
            grid += f"M{short(left)} {short(down)}H{short(right)}"
            add(self.root, "text", text, x=left - 7, y=down + 4, text_anchor="end", class_="tick")
        for value, text in self.x.ticks():
            across = float(self._positions([value], [self.y.low])[0][0])
            add(self.root, "text", text, x=across, y=bottom + 17, text_anchor="middle", class_="tick")
        add(self.root, "path", d=grid, class_="grid")
        add(self.root, "path", d=f"M{short(left)} {short(bottom)}H{short(right)}", class_="axis")
        if self.y.label:
            add(self.root, "text", clipped(self.y.label, _LONGEST_LABEL), x=4.0, y=13.0, class_="label")
        middle = (left + right) / 2
        text = clipped(self.x.label, _LONGEST_LABEL)
        add(self.root, "text", text, x=middle, y=height - 6, text_anchor="middle", class_="label")


def _thinned(across: Floats, down: Floats) -> tuple[Floats, Floats]:
    """Not more than four points for each half unit of width: the first, the lowest, the highest, the last."""
    if len(across) <= 4 * WIDTH:
        return across, down
    bucket = np.floor(np.nan_to_num(across, nan=-1.0) / _BUCKET)
    starts = np.flatnonzero(np.diff(bucket, prepend=np.inf))
    kept: set[int] = set()
    for start, end in zip(starts, np.append(starts[1:], len(across)), strict=True):
        part = np.nan_to_num(down[start:end])
        kept |= {int(start), int(end - 1), int(start + part.argmin()), int(start + part.argmax())}
    order = sorted(kept)
    return across[order], down[order]


def _path(across: Floats, down: Floats) -> str:
    parts, pen_is_down = [], False
    for a, d in zip(across.tolist(), down.tolist(), strict=True):
        known = bool(np.isfinite(a) and np.isfinite(d))
        if known:
            parts.append(f"{'L' if pen_is_down else 'M'}{short(a)} {short(d)}")
        pen_is_down = known
    return "".join(parts)
