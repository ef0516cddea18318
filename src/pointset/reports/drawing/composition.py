"""Puts the panels and their captions on one page. Needs matplotlib."""

from __future__ import annotations

from matplotlib.figure import Figure

from pointset.points.point_set import PointSet
from pointset.reports.drawing import captions
from pointset.reports.drawing.captions import Caption
from pointset.reports.drawing.charts import draw_products, draw_spectrum
from pointset.reports.drawing.panels import draw_graph, draw_points_in_space, draw_points_on_plane
from pointset.reports.drawing.scene import scene_of
from pointset.reports.drawing.style import DPI, INCHES, INK, PAPER, QUIET

_COLUMNS = (0.035, 0.355, 0.675)  # left edges of the three upper panels
_TOP, _WIDE, _HIGH = 0.765, 0.285, 0.456  # of these panels, which are square
_LONGEST_TITLE = 60  # characters that fit at full size


def compose(points: PointSet, title: str | None) -> Figure:
    """The whole picture, 1600 × 1000 pixels."""
    scene = scene_of(points)
    figure = Figure(figsize=INCHES, dpi=DPI, facecolor=PAPER)
    _write_title(figure, captions.overall(points), title)
    for left, caption in zip(_COLUMNS, (captions.of_graph, captions.of_points, captions.of_products), strict=True):
        _write(figure, left, 0.838, caption(scene))
    _write(figure, _COLUMNS[0], 0.245, captions.of_spectrum(points))

    graph, projection = (figure.add_axes((left, _TOP - _HIGH, _WIDE, _HIGH)) for left in _COLUMNS[:2])
    draw_graph(graph, scene)
    (draw_points_in_space if scene.projected.shape[1] == 3 else draw_points_on_plane)(projection, scene)
    matrix = figure.add_axes((_COLUMNS[2], _TOP - 0.408, 0.255, 0.408))
    draw_products(matrix, figure.add_axes((0.938, _TOP - 0.408, 0.009, 0.389)), scene)
    draw_spectrum(figure.add_axes((_COLUMNS[0], 0.065, 0.93, 0.105)), scene)
    return figure


def _write_title(figure: Figure, caption: Caption, title: str | None) -> None:
    heading = " ".join((title or caption.heading).split())
    size = 27 * min(1.0, _LONGEST_TITLE / max(len(heading), 1))
    figure.text(_COLUMNS[0], 0.935, heading, fontsize=size, weight="bold", color=INK, parse_math=False)
    figure.text(_COLUMNS[0], 0.898, caption.text, fontsize=15, color=QUIET)


def _write(figure: Figure, left: float, top: float, caption: Caption) -> None:
    figure.text(left, top, caption.heading, fontsize=19, weight="bold", color=INK)
    figure.text(left, top - 0.012, caption.text, fontsize=13, color=QUIET, va="top", linespacing=1.4)
