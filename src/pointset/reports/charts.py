"""A chart with two axes, small enough to be read on a phone (:class:`Chart`)."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from pointset.text import clipped, number

# One axis of a chart: which numbers it spans, where its ticks are (:class:`Axis`).


Floats = NDArray[np.float64]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LOG_FROM = 20.0  # ratio of the largest to the smallest number from which a scale is logarithmic
_MOST_TICKS = 6


@dataclass(frozen=True)
class Axis:
    """From ``low`` to ``high``, both inside; logarithmic where ``log`` is set, and both then are positive."""

    low: float
    high: float
    label: str = ""
    log: bool = False
    whole: bool = False  # only whole numbers have ticks

    @staticmethod
    def around(values: Iterable[Any], label: str = "", *, may_be_log: bool = False, margin: float = 0.04) -> Axis:
        """An axis with room for all finite numbers of the arrays given."""
        parts = [np.zeros(0), *(np.asarray(part, dtype=np.float64).ravel() for part in values)]
        numbers = np.concatenate(parts)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return Axis(0.0, 1.0, label)
        low, high = float(numbers.min()), float(numbers.max())
        if may_be_log and low > 0 and high / low > _LOG_FROM:
            room = (high / low) ** margin
            return Axis(low / room, high * room, label, log=True)
        width = (high - low) or abs(high) or 1.0
        if not math.isfinite(width) or width < 1e-12 * max(abs(low), abs(high)):
            width = max(abs(low) * 1e-3, 1e-9)
        return Axis(low - margin * width, high + margin * width, label)

    def shares(self, values: Any) -> Floats:
        """Where numbers lie: 0 at ``low``, 1 at ``high``; NaN where they have no place."""
        numbers = np.asarray(values, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.log:
                return np.asarray(np.log(numbers / self.low) / math.log(self.high / self.low))
            return np.asarray((numbers - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers inside, with their text."""
        found = self._log_ticks() if self.log else self._even_ticks()
        return [(value, _tick_text(value)) for value in found]

    def _even_ticks(self) -> list[float]:
        width = self.high - self.low
        power = 10.0 ** math.floor(math.log10(width))
        wanted = (power * scale * step for scale in (0.1, 1.0) for step in _STEPS)
        step = next(step for step in wanted if width / step <= _MOST_TICKS - 0.5)
        step = max(1.0, math.ceil(step)) if self.whole else step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        places = 2 - math.floor(math.log10(step))
        found = [round(multiple * step, places) for multiple in range(first, last + 1)]
        slack = 1e-7 * width  # beyond which rounding has put a tick outside, where the width is tiny beside the numbers
        return [value for value in found if self.low - slack <= value <= self.high + slack] or [self.low]

    def _log_ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1,), (1, 3), (1, 2, 5)):
            every = max(1, math.ceil((last - first) / _MOST_TICKS)) if factors == (1,) else 1
            found = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
            inside = [float(f"{value:.12g}") for value in found if self.low <= value <= self.high]
            if len(inside) >= 3:
                return inside
        return inside


def _tick_text(value: float) -> str:
    """Shorter than in a sentence: ``10⁻⁵``, ``3·10⁻⁵``."""
    return number(value, 6).replace(" × ", "·").removeprefix("1·")


# Scalable drawings as text for the page: colours come from the page's style sheet, so that they follow its mode.
#
# Texts go through an XML writer, so that no name can become markup.


Element = ElementTree.Element


_STRENGTHS = 256


def drawing(width: float, height: float, description: str, kind: str = "chart") -> Element:
    """An empty drawing of this size in its own units; as a whole it is a picture with a description."""
    box = f"0 0 {short(width)} {short(height)}"
    attributes = {"class": kind, "viewBox": box, "role": "img", "aria-label": description}
    return ElementTree.Element("svg", attributes)


def add(parent: Element, tag: str, text: str | None = None, **attributes: object) -> Element:
    """A new element; ``class_`` is class, ``text_anchor`` is text-anchor, numbers are rounded to a tenth."""
    plain = {
        name.rstrip("_").replace("_", "-"): short(value) if isinstance(value, float) else str(value)
        for name, value in attributes.items()
        if value is not None
    }
    child = ElementTree.SubElement(parent, tag, plain)
    child.text = text
    return child


def short(value: float) -> str:
    """``12.3``, ``7``."""
    return f"{value:.1f}".removesuffix(".0")


def finished(root: Element) -> str:
    """The drawing as text that can stand in a page."""
    return ElementTree.tostring(root, encoding="unicode")


def picture_of(strengths: Floats, colour: str) -> str:
    """A ``data:`` address of a PNG with a pixel for each number in 0…1: the colour, the stronger the less see-through.

    Args:
        strengths: (rows, columns).
        colour: ``#d9583b``.
    """
    rows, columns = strengths.shape
    levels = np.rint(np.clip(np.nan_to_num(strengths), 0, 1) * (_STRENGTHS - 1)).astype(np.uint8)
    lines = np.concatenate([np.zeros((rows, 1), dtype=np.uint8), levels], axis=1)  # 0: the line is not filtered
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes.fromhex(colour.removeprefix("#")) * _STRENGTHS),
        (b"tRNS", bytes(range(_STRENGTHS))),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(file).decode("ascii")


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


# What a page shows under a heading: a drawing with its caption (:class:`Figure`), or a table (:class:`Table`).


class Figure(NamedTuple):
    """A drawing; ``svg`` is markup made by :mod:`~pointset.reports.charts`, the others are plain text."""

    svg: str
    title: str
    caption: str = ""


class Cell(NamedTuple):
    """A cell of a table; ``mark`` is a class of the style sheet, such as ``good``."""

    text: str
    mark: str = ""


class Table(NamedTuple):
    """Rows under a head; the first column names the row."""

    head: list[str]
    rows: list[list[Cell]]
    caption: str = ""
