"""The panels that show nodes: the graph on the plane and its points in space. Needs matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from scipy.spatial import KDTree

from pointset.reports.drawing.layout import Floats
from pointset.reports.drawing.perspective import back_walls, room_around, seen
from pointset.reports.drawing.scene import Drawing, Scene
from pointset.reports.drawing.style import DPI, FAINT, MANY_LINES, NEGATIVE, NODES, PAPER, QUIET, WALLS, legible_on

_LABELLED = 40  # nodes up to which each carries its number
_LABEL_AREA = 190.0  # of a marker, in square points: two digits fit
_SMALLEST, _LARGEST = 16.0, 360.0  # areas of markers


def draw_graph(axes: Axes, scene: Scene) -> None:
    """The graph; the width of an edge is its weight."""
    axes.set_axis_off()
    if isinstance(scene.drawing, str):
        axes.text(0.5, 0.5, scene.drawing, color=QUIET, fontsize=15, ha="center", va="center", linespacing=1.5)
        return
    positions, loops = scene.drawing.positions, scene.drawing.loops
    scale = _frame(axes, positions, smallest=0.8)
    area = marker_area(positions * scale)
    _draw_edges(axes, positions, scene.drawing)
    rings: dict[str, Any] = {"facecolors": "none", "edgecolors": QUIET, "zorder": 2, "clip_on": False}
    axes.scatter(positions[loops, 0], positions[loops, 1], s=2.4 * area, **rings)
    draw_nodes(axes, positions, NODES(scene.shade), np.full(len(positions), area))
    if len(positions) <= _LABELLED and area >= _LABEL_AREA:
        for node, (x, y) in enumerate(positions):
            style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 10.5, "zorder": 4}
            axes.text(x, y, str(node), color=legible_on(scene.shade[node]), **style)


def draw_points_in_space(axes: Axes, scene: Scene) -> None:
    """The points along their three leading directions, in a room; what is far is smaller and paler."""
    axes.set_axis_off()
    room = room_around(scene.projected)
    walls = back_walls(room.half)
    _frame(axes, np.concatenate(walls), margin=1.0)
    axes.add_collection(PolyCollection(walls, facecolors=WALLS, edgecolors=PAPER, linewidths=2, zorder=0))
    page, near = seen(room.points)
    if isinstance(scene.drawing, Drawing):
        _draw_edges(axes, page, scene.drawing, width=0.6)
    order = np.argsort(near, kind="stable")  # far ones first
    colours = NODES(scene.shade[order])
    colours[:, :3] += (1 - colours[:, :3]) * (0.45 * (1 - near[order]))[:, None]
    area = float(np.clip(5000 / len(near), 26, 190))
    draw_nodes(axes, page[order], colours, area * (0.5 + 0.9 * near[order]))


def draw_points_on_plane(axes: Axes, scene: Scene) -> None:
    """The points where they have two dimensions, one, or none."""
    axes.set_axis_off()
    n, dimensions = scene.projected.shape
    points = np.concatenate([scene.projected, np.zeros((n, 2 - dimensions))], axis=1)
    _frame(axes, np.concatenate([points, -points]), smallest=0.1)
    if dimensions > 0:
        axes.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    if dimensions > 1:
        axes.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    if isinstance(scene.drawing, Drawing):
        _draw_edges(axes, points, scene.drawing)
    draw_nodes(axes, points, NODES(scene.shade), np.full(n, 190.0))


def draw_nodes(axes: Axes, positions: Floats, colours: Floats, areas: Floats) -> None:
    """Discs with a white rim, (n, 2) positions, (n, 3 or 4) colours, (n,) areas in square points."""
    rim = 1.2 if areas.max(initial=0.0) > 100 else 0.5
    style: dict[str, Any] = {"edgecolors": PAPER, "linewidths": rim, "zorder": 3, "clip_on": False}
    axes.scatter(positions[:, 0], positions[:, 1], s=areas, c=colours, **style)


def _draw_edges(axes: Axes, positions: Floats, drawing: Drawing, width: float = 1.0) -> None:
    count = drawing.edges.shape[1]
    if not count:
        return
    widths = np.full(count, width * float(np.clip(28 / np.sqrt(count), 0.4, 2.0)))
    colours = [FAINT] * count
    if drawing.weights is not None:
        widths = widths * (0.3 + 2.2 * np.abs(drawing.weights) / np.abs(drawing.weights).max())
        colours = [NEGATIVE if weight < 0 else FAINT for weight in drawing.weights]
    lines = LineCollection(list(positions[drawing.edges.T]), linewidths=widths, colors=colours, zorder=1)
    lines.set(alpha=float(np.clip(30 / np.sqrt(count), 0.3, 0.9)), rasterized=count > MANY_LINES)
    axes.add_collection(lines)


def _frame(axes: Axes, positions: Floats, smallest: float = 0.0, margin: float = 1.1) -> float:
    """Equal scales in both directions, with space for the markers; returns how many points (1/72 inch) one unit is."""
    low, high = (positions.min(0), positions.max(0)) if len(positions) else (np.zeros(2), np.zeros(2))
    half = max(margin * float((high - low).max()) / 2, smallest)
    x, y = (low + high) / 2
    axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal")
    return 72 * float(axes.get_window_extent().width) / DPI / (2 * half)


def marker_area(positions: Floats) -> float:
    """As large as neighbours leave room for, with positions in points."""
    if len(positions) < 2:
        return _LARGEST
    nearest, _ = KDTree(positions).query(positions, k=[2])  # the first is the node itself
    share = 0.85 if len(positions) <= _LABELLED else 0.65  # numbers need space, many nodes should let edges be seen
    return float(np.clip((share * np.quantile(nearest, 0.2)) ** 2, _SMALLEST, _LARGEST))
