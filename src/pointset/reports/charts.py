"""Charts with two axes: what is in them (:class:`Chart`), drawn on a page by :meth:`Chart.svg`.

The same description is drawn in picture files by :func:`pointset.reports.canvas.draw_chart`. Colours and widths are
those of :mod:`~pointset.reports.palette`. Here are also the other things that a page shows: :class:`Figure`,
:class:`Table`, :class:`Tile`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from pointset.arrays import Floats
from pointset.reports.palette import RING_SIZE
from pointset.reports.svg import Element, add, drawing, finished, picture_of, short
from pointset.text import clipped, number

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
    names: tuple[str, ...] = ()  # of the places 0, 1, …, which then have all ticks

    @staticmethod
    def around(
        values: Iterable[Any], label: str = "", *, may_be_log: bool = False, margin: float = 0.04, whole: bool = False
    ) -> Axis:
        """An axis with room for all finite numbers of the arrays given."""
        parts = [np.zeros(0), *(np.asarray(part, dtype=np.float64).ravel() for part in values)]
        numbers = np.concatenate(parts)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return Axis(0.0, 1.0, label, whole=whole)
        low, high = float(numbers.min()), float(numbers.max())
        if may_be_log and low > 0 and high / low > _LOG_FROM:
            room = (high / low) ** margin
            return Axis(low / room, high * room, label, log=True)
        width = (high - low) or abs(high) or 1.0
        if not math.isfinite(width) or width < 1e-12 * max(abs(low), abs(high)):
            width = max(abs(low) * 1e-3, 1e-9)
        return Axis(low - margin * width, high + margin * width, label, whole=whole)

    @staticmethod
    def of_names(names: Iterable[str]) -> Axis:
        """With the names at the places 0, 1, …"""
        places = tuple(names)
        return Axis(-0.6, len(places) - 0.4, names=places)

    @property
    def scale_note(self) -> str:
        """For a caption."""
        return " Logarithmic scale." if self.log else ""

    def shares(self, values: Any) -> Floats:
        """Where numbers lie: 0 at ``low``, 1 at ``high``; NaN where they have no place."""
        numbers = np.asarray(values, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.log:
                return np.asarray(np.log(numbers / self.low) / math.log(self.high / self.low))
            return np.asarray((numbers - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers inside, with their text, which is shorter than in a sentence: ``10⁻⁵``, ``3·10⁻⁵``."""
        if self.names:
            return [(float(place), name) for place, name in enumerate(self.names)]
        found = self._log_ticks() if self.log else self._even_ticks()
        return [(value, number(value, 6).replace(" × ", "·").removeprefix("1·")) for value in found]

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


class Part(NamedTuple):
    """One thing in a chart. ``style`` are words: a colour ``c0`` … ``c9``, and how it looks (see :class:`Chart`)."""

    kind: Literal["line", "dots", "bars", "spans", "density", "ring", "rug"]
    x: Floats  # of bars: (k + 1,) their sides
    y: Floats  # of bars: (k,) how high they are; of spans: (2, k) from, to; of a density: (rows, columns) strengths 0…1
    style: str
    text: str = ""  # of a ring: the note beside it; of a density: its colour

    @property
    def looks(self) -> list[str]:
        """The words of the style."""
        return self.style.split()


WIDTH, HEIGHT = 360.0, 240.0  # units, about pixels: a page shows one to three side by side
_RIGHT, _TOP, _BOTTOM = 14.0, 28.0, 40.0  # margins; that on the left has room for the ticks
_LETTER = 6.3  # units: about the width of a digit
_BUCKET = 0.5  # units: of a line with more points than that only the extremes within such a width are drawn
_LONGEST_LABEL = 44


class Chart:
    """Lines, dots, bars over two axes; what is added first is drawn first.

    A style is a colour, ``c0`` … ``c9``, and words from: ``reference`` (a line to compare with, in grey), ``dashed``,
    ``dotted``, ``thin``, ``pale``, ``faded`` for lines and spans; ``faint``, ``large``, ``hollow``, ``cross`` for dots.
    """

    def __init__(self, x: Axis, y: Axis, description: str, *, height: float = HEIGHT) -> None:
        self.x, self.y, self.description, self.height = x, y, description, height
        self.parts: list[Part] = []
        self.legend: list[tuple[str, str, str]] = []  # label, style, kind

    def line(self, x: Any, y: Any, style: str = "c0", label: str = "") -> None:
        """A line through points; it is broken where a number is missing."""
        self._add("line", x, y, style, label)

    def dots(self, x: Any, y: Any, style: str = "c0", label: str = "") -> None:
        """A mark at each point."""
        self._add("dots", x, y, style, label)

    def bars(self, edges: Any, heights: Any, style: str = "c0") -> None:
        """Columns that stand on the axis: (k + 1,) their sides, (k,) how high they are."""
        self._add("bars", edges, heights, style)

    def spans(self, x: Any, low: Any, high: Any, style: str = "c0", label: str = "") -> None:
        """An upright stroke at each place, (k,), from ``low`` to ``high``; it ends where the chart ends."""
        ends = [np.clip(np.asarray(end, dtype=np.float64), self.y.low, self.y.high) for end in (low, high)]
        self._add("spans", x, np.stack(ends), style, label)

    def density(self, strengths: Floats, colour: str) -> None:
        """(rows, columns) strengths 0…1 over the whole space, the first row at the bottom."""
        self.parts.append(Part("density", np.zeros(0), strengths, "", colour))

    def ring(self, x: float, y: float, text: str = "", style: str = "c1") -> None:
        """Around a point, with a note beside it that stays inside the chart."""
        if np.isfinite(self.x.shares(x)) and np.isfinite(self.y.shares(y)):
            self.parts.append(Part("ring", np.array([x]), np.array([y]), style, text))

    def rug(self, x: Any) -> None:
        """A stroke at the bottom for each number."""
        self._add("rug", x, [], "")

    def _add(
        self, kind: Literal["line", "dots", "bars", "spans", "rug"], x: Any, y: Any, style: str, label: str = ""
    ) -> None:
        self.parts.append(Part(kind, np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64), style))
        if label:
            self.legend.append((label, style, kind))

    def svg(self) -> str:
        """The chart as text for a page."""
        return _SvgChart(self).text()

    def figure(self, title: str, caption: str = "") -> Figure:
        """The chart for a page, with its legend."""
        return Figure(self.svg(), title, caption, [(label, style) for label, style, _ in self.legend])


class Figure(NamedTuple):
    """A drawing on a page; ``svg`` is markup made by :mod:`~pointset.reports.svg`, the others are plain text."""

    svg: str
    title: str
    caption: str = ""
    legend: Sequence[tuple[str, str]] = ()  # label, style


class Cell(NamedTuple):
    """A cell of a table; ``mark`` is a class of the style sheet, such as ``good``."""

    text: str
    mark: str = ""


class Table(NamedTuple):
    """Rows under a head; the first column names the row."""

    head: list[str]
    rows: list[list[Cell]]
    caption: str = ""


class Tile(NamedTuple):
    """A key number; ``mark`` is a class of the style sheet: main, better, worse, level."""

    label: str
    value: str
    note: str = ""
    mark: str = ""


class _SvgChart:
    """Draws the parts of a chart between its axes, which lie at ``left``, ``right``, ``top``, ``bottom``."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        longest = max((len(text) for _, text in chart.y.ticks()), default=0)
        self.left, self.right = float(np.clip(14 + _LETTER * longest, 30, 80)), WIDTH - _RIGHT
        self.top, self.bottom = _TOP if chart.y.label else _TOP / 3, chart.height - _BOTTOM
        self.root = drawing(WIDTH, chart.height, chart.description)

    def text(self) -> str:
        """All of it."""
        self._draw_axes()
        for part in self.chart.parts:
            getattr(self, f"_draw_{part.kind}")(part)
        return finished(self.root)

    def _positions(self, x: Any, y: Any) -> tuple[Floats, Floats]:
        across = self.left + self.chart.x.shares(x) * (self.right - self.left)
        down = self.bottom - self.chart.y.shares(y) * (self.bottom - self.top)
        limit = 10 * WIDTH  # far outside; infinities have no place
        return np.clip(across, -limit, limit), np.clip(down, -limit, limit)

    def _draw_axes(self) -> None:
        x, y = self.chart.x, self.chart.y
        grid = ""
        for value, text in y.ticks():
            down = float(self._positions(x.low, value)[1])
            grid += f"M{short(self.left)} {short(down)}H{short(self.right)}"
            self._write(text, self.left - 7, down + 4, "tick", "end")
        for value, text in x.ticks():
            self._write(text, float(self._positions(value, y.low)[0]), self.bottom + 17, "tick", "middle")
        add(self.root, "path", d=grid, class_="grid")
        add(self.root, "path", d=f"M{short(self.left)} {short(self.bottom)}H{short(self.right)}", class_="axis")
        if y.label:
            self._write(clipped(y.label, _LONGEST_LABEL), 4.0, 13.0, "label")
        if x.label:
            middle = (self.left + self.right) / 2
            self._write(clipped(x.label, _LONGEST_LABEL), middle, self.chart.height - 6, "label", "middle")

    def _write(self, text: str, x: float, y: float, kind: str, anchor: str | None = None) -> Element:
        return add(self.root, "text", text, x=x, y=y, text_anchor=anchor, class_=kind)

    def _draw_line(self, part: Part) -> None:
        if path := _path(*_thinned(*self._positions(part.x, part.y))):
            add(self.root, "path", d=path, class_=f"line {part.style}")

    def _draw_dots(self, part: Part) -> None:
        """All of them in one path, which keeps the file small; hollow ones are circles."""
        across, down = self._positions(part.x, part.y)
        known = np.isfinite(across) & np.isfinite(down)
        points = list(zip(across[known].tolist(), down[known].tolist(), strict=True))
        if "hollow" in part.looks:
            for a, d in points:
                add(self.root, "circle", cx=a, cy=d, r=3.5, class_=part.style)
        elif points:
            cross = "cross" in part.looks
            mark = "m-3-3l6 6m0-6l-6 6" if cross else "h0"
            path = "".join(f"M{short(a)} {short(d)}{mark}" for a, d in points)
            add(self.root, "path", d=path, class_=part.style if cross else f"dots {part.style}")

    def _draw_bars(self, part: Part) -> None:
        sides, tops = self._positions(part.x, np.append(part.y, 0.0))
        bottom = short(self.bottom)
        path = "".join(
            f"M{short(sides[i])} {bottom}V{short(tops[i])}H{short(sides[i + 1])}V{bottom}z"
            for i in range(len(sides) - 1)
            if part.y[i] > 0
        )
        add(self.root, "path", d=path, class_=f"bars {part.style}")

    def _draw_spans(self, part: Part) -> None:
        across, ends = self._positions(part.x, part.y)
        known = np.isfinite(across) & np.isfinite(ends).all(0)
        path = "".join(
            f"M{short(a)} {short(low)}V{short(high)}"
            for a, low, high in zip(across[known].tolist(), *ends[:, known].tolist(), strict=True)
        )
        if path:
            add(self.root, "path", d=path, class_=f"line {part.style}")

    def _draw_density(self, part: Part) -> None:
        place: dict[str, Any] = {"x": self.left, "y": self.top, "preserveAspectRatio": "none"}
        place |= {"width": self.right - self.left, "height": self.bottom - self.top}
        add(self.root, "image", class_="pixels", href=picture_of(part.y[::-1], part.text), **place)

    def _draw_ring(self, part: Part) -> None:
        across, down = (float(values[0]) for values in self._positions(part.x, part.y))
        add(self.root, "circle", cx=across, cy=down, r=RING_SIZE / 2, class_=f"ring {part.style}")
        if part.text:
            on_the_left = across < (self.left + self.right) / 2
            above = down < (self.top + self.bottom) / 2
            place = (across + (9.0 if on_the_left else -9.0), down + (24.0 if above else -16.0))
            self._write(part.text, *place, "note", "start" if on_the_left else "end")

    def _draw_rug(self, part: Part) -> None:
        across = self._positions(part.x, self.chart.y.low)[0]
        path = "".join(f"M{short(a)} {short(self.bottom)}v-7" for a in across[np.isfinite(across)].tolist())
        add(self.root, "path", d=path, class_="rug")


def _thinned(across: Floats, down: Floats) -> tuple[Floats, Floats]:
    """Not more than four points for each half unit of width: the first, the lowest, the highest, the last."""
    if len(across) <= 4 * WIDTH:
        return across, down
    bucket = np.floor(np.nan_to_num(across, nan=-1.0) / _BUCKET)
    starts = np.flatnonzero(np.diff(bucket, prepend=np.inf))
    chosen: set[int] = set()
    for start, end in zip(starts, np.append(starts[1:], len(across)), strict=True):
        part = np.nan_to_num(down[start:end])
        chosen |= {int(start), int(end - 1), int(start + part.argmin()), int(start + part.argmax())}
    order = sorted(chosen)
    return across[order], down[order]


def _path(across: Floats, down: Floats) -> str:
    parts, pen_is_down = [], False
    for a, d in zip(across.tolist(), down.tolist(), strict=True):
        known = math.isfinite(a) and math.isfinite(d)
        if known:
            parts.append(f"{'L' if pen_is_down else 'M'}{short(a)} {short(d)}")
        pen_is_down = known
    return "".join(parts)
