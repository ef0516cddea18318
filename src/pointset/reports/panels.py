"""The panels that show nodes: the graph on the plane and its points in space. Needs matplotlib."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from scipy.spatial import KDTree

from pointset.errors import GraphError, RankError
from pointset.points.inverse import rebuild
from pointset.points.matrices import Laplacian
from pointset.points.point_set import PointSet
from pointset.reports.layout import Floats, Integers, even_ranks, place_nodes, smooth_values
from pointset.reports.style import DPI, FAINT, MANY_LINES, NEGATIVE, NODES, PAPER, QUIET, WALLS, legible_on

# A room with points in it, seen from a little above: three dimensions on paper.


_TURN, _TILT = np.radians(32.0), np.radians(20.0)  # of the camera about the vertical, and above the floor
_NARROWEST = 0.5  # of a room's sides, in terms of its longest
_DISTANCE = 7.0  # of the camera, where the room reaches from −1 to 1


class Seen(NamedTuple):
    """Points on the page."""

    page: Floats  # (n, 2)
    near: Floats  # (n,) from 0, the far end of the room, to 1, the near end


class Room(NamedTuple):
    """A box around points, centred at the origin and not larger than −1 to 1."""

    points: Floats  # (n, 3)
    half: Floats  # (3,) half its width, depth and height


def room_around(points: Floats) -> Room:
    """Points moved and scaled, the same in all directions, into a room that leaves a little space around them."""
    low, high = points.min(0), points.max(0)
    half = (high - low) / 2
    scale = 1.12 * float(half.max())
    return Room((points - (low + high) / 2) / scale, np.maximum(1.12 * half / scale, _NARROWEST))


def seen(points: Floats) -> Seen:
    """Project points (n, 3) of the room onto the page."""
    right = np.array([np.cos(_TURN), np.sin(_TURN), 0.0])
    towards = np.array([np.sin(_TURN) * np.cos(_TILT), -np.cos(_TURN) * np.cos(_TILT), np.sin(_TILT)])
    up = np.cross(towards, right)
    depth = points @ towards
    page = points @ np.stack([right, up], axis=1) * (_DISTANCE / (_DISTANCE - depth))[:, None]
    return Seen(page, np.clip((depth / np.sqrt(3) + 1) / 2, 0.0, 1.0))


def back_walls(half: Floats) -> list[Floats]:
    """The two walls behind the points and the floor, as polygons on the page, (4, 2) each."""
    corners = np.array([(-1, -1), (-1, 1), (1, 1), (1, -1)], dtype=np.float64)
    far = ((0, -1.0), (1, 1.0), (2, -1.0))  # the sides away from the camera
    return [seen(half * np.insert(corners, axis, side, axis=1)).page for axis, side in far]


# What a picture of points shows, apart from how: positions, colours, directions. Knows no plotting library.


_MOST_NODES = 1000  # up to which the graph is drawn: beyond it is a blot, and rebuilding takes n² memory


class Drawing(NamedTuple):
    """A graph on the plane."""

    positions: Floats  # (n, 2)
    edges: Integers  # (2, m) without self-loops
    weights: Floats | None  # (m,) None where every edge weighs 1
    loops: Integers  # nodes with a self-loop
    shade: Floats  # (n,) smooth along edges, in (0, 1)


class Scene(NamedTuple):
    """What the panels share."""

    points: PointSet  # float64
    drawing: Drawing | str  # or why the graph cannot be drawn
    shade: Floats  # (n,) in (0, 1): the place of each node on the colour map
    projected: Floats  # (n, min(r, 3)): coordinates along the smoothest directions


def scene_of(points: PointSet) -> Scene:
    """Rebuild the graph, draw it, and choose colours and directions."""
    points = points.to(torch.float64)
    drawing = _drawing_of(points)
    projected = _smoothest_directions(points, None if isinstance(drawing, str) else drawing.positions)
    if isinstance(drawing, Drawing):
        return Scene(points, drawing, drawing.shade, projected)
    lead = projected[:, 0] if points.rank else np.zeros(points.num_nodes)
    return Scene(points, drawing, (even_ranks(lead) + 0.5) / max(points.num_nodes, 1), projected)


def _drawing_of(points: PointSet) -> Drawing | str:
    if points.num_nodes > _MOST_NODES:
        return f"{points.num_nodes:,} nodes\nare too many to draw"
    try:
        rebuilt = rebuild(points)
    except RankError:
        return f"{points.rank} of its eigenpairs were kept:\ntoo few to determine the graph"
    except GraphError:
        return "The graph cannot be rebuilt\nfrom these points"
    adjacency = rebuilt.adjacency.numpy()
    edges = rebuilt.edges.numpy()
    proper = edges[0] != edges[1]
    weights = None if rebuilt.weights is None else rebuilt.weights.numpy()[proper]
    positions = place_nodes(adjacency)
    return Drawing(positions, edges[:, proper], weights, edges[0, ~proper], smooth_values(adjacency, positions))


def _smoothest_directions(points: PointSet, positions: Floats | None) -> Floats:
    """Coordinates U√|Λ| along the three directions that change least along edges, so that neighbours lie together.

    These are the smallest eigenvalues of the Laplacian and the largest of the other matrices; the other end of the
    spectrum sits on single hubs. Inside a repeated eigenspace any directions are as good; those nearest to the drawing
    are taken, so that the two panels resemble each other.
    """
    vectors, values = points.eigenvectors.numpy(), points.eigenvalues.numpy()
    drawn = None if positions is None else _with_radius(positions)
    columns: list[Floats] = [np.zeros((points.num_nodes, 0))]
    for value in sorted(set(values.tolist()), reverse=points.matrix != Laplacian.name):
        space = vectors[:, values == value] * np.sqrt(abs(value))  # (n, multiplicity)
        if drawn is not None:
            space = space @ np.linalg.svd(space.T @ drawn)[0]
        columns.append(space)
        if sum(column.shape[1] for column in columns) >= 3:
            break
    return np.concatenate(columns, axis=1)[:, :3]


def _with_radius(positions: Floats) -> Floats:
    centred = positions - positions.mean(0) if len(positions) else positions
    return np.column_stack([centred, (centred**2).sum(1)])


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
