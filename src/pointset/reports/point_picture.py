"""A graph as points on one page: the graph, its points, their inner products, its eigenvalues. Needs matplotlib.

First the page (:func:`compose_points`) with its captions, then what is shown (:class:`Scene`), then the panels that
show nodes and those that show numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from pointset.arrays import Floats, Integers
from pointset.errors import GraphError, RankError
from pointset.points.inverse import rebuild
from pointset.points.matrices import Laplacian
from pointset.points.point_set import PointSet
from pointset.reports.canvas import DPI, MANY_LINES
from pointset.reports.gallery import LABELLED, draw_loops, draw_nodes, marker_area
from pointset.reports.layout import MOST_NODES, even_ranks, place_nodes, smooth_values, too_many
from pointset.reports.palette import (
    BLUE,
    FAINT,
    HAIRLINE,
    INK,
    PAPER,
    QUIET,
    RED,
    SCALE,
    SIGNED,
    WALLS,
    as_hex,
    colours_on,
    is_dark,
)
from pointset.text import counted

_COLUMNS = (0.035, 0.355, 0.675)  # left edges of the three upper panels
_TOP, _WIDE, _HIGH = 0.765, 0.285, 0.456  # of these panels, which are square
_LONGEST_TITLE = 60  # characters that fit at full size
_MATRICES = {
    "laplacian": "Laplacian Z = D − A",
    "adjacency": "Adjacency matrix Z = A",
    "normalized_adjacency": "Normalised adjacency matrix Z = D$^{-½}$ A D$^{-½}$",
    "augmented": "Augmented matrix Z = D + A",
}
_TURN, _TILT = np.radians(32.0), np.radians(20.0)  # of the camera about the vertical, and above the floor
_NARROWEST = 0.5  # of a room's sides, in terms of its longest
_DISTANCE = 7.0  # of the camera, where the room reaches from −1 to 1
_LABEL_AREA = 190.0  # of a marker, in square points: two digits fit
_MOST_ROWS = 1000  # of the matrix: more than the panel has pixels
_STRIP = (0.05, 0.015)  # where the colours of the nodes run beside the matrix, in terms of its width


def compose_points(points: PointSet, title: str | None) -> Figure:
    """The whole picture, 1600 × 1000 pixels."""
    scene = scene_of(points)
    figure = Figure(figsize=(16, 10), dpi=DPI, facecolor=PAPER)
    n = points.num_nodes
    heading = " ".join((title or f"A graph of {counted(n, 'node')} as {counted(n, 'point')}").split())
    size = 27 * min(1.0, _LONGEST_TITLE / max(len(heading), 1))
    figure.text(_COLUMNS[0], 0.935, heading, fontsize=size, weight="bold", color=INK, parse_math=False)
    rank = f"= U Λ Uᵀ,   rank {points.rank:,}"
    if points.truncation is not None:
        rank = f"≈ U Λ Uᵀ,   {counted(points.rank, 'eigenpair')} kept"
    figure.text(_COLUMNS[0], 0.898, f"{_MATRICES[points.matrix]} {rank}", fontsize=15, color=QUIET)
    _write(figure, _COLUMNS[0], 0.838, "The graph", _about_graph(scene))
    _write(figure, _COLUMNS[1], 0.838, "Its points", _about_points(scene))
    _write(figure, _COLUMNS[2], 0.838, "Their inner products", _about_products(points))
    _write(figure, _COLUMNS[0], 0.245, "Its spectrum", _about_spectrum(points))

    graph, projection = (figure.add_axes((left, _TOP - _HIGH, _WIDE, _HIGH)) for left in _COLUMNS[:2])
    _draw_graph(graph, scene)
    (_draw_points_in_space if scene.projected.shape[1] == 3 else _draw_points_on_plane)(projection, scene)
    matrix = figure.add_axes((_COLUMNS[2], _TOP - 0.408, 0.255, 0.408))
    _draw_products(matrix, figure.add_axes((0.938, _TOP - 0.408, 0.009, 0.389)), scene)
    _draw_spectrum(figure.add_axes((_COLUMNS[0], 0.065, 0.93, 0.105)), scene)
    return figure


def _write(figure: Figure, left: float, top: float, heading: str, text: str) -> None:
    """Mathematics stands between dollar signs."""
    figure.text(left, top, heading, fontsize=19, weight="bold", color=INK)
    figure.text(left, top - 0.012, text, fontsize=13, color=QUIET, va="top", linespacing=1.4)


def _about_graph(scene: Scene) -> str:
    """How large it is, and what widths, colours and rings mean."""
    size = f"{counted(scene.points.num_nodes, 'node')}, {counted(scene.points.num_edges, 'edge')}"
    drawing, meanings = scene.drawing, []
    if isinstance(drawing, Drawing) and drawing.weights is not None and len(drawing.weights):
        meanings.append("edge width: weight" + (", blue: negative" if drawing.weights.min() < 0 else ""))
    if isinstance(drawing, Drawing) and len(drawing.loops):
        meanings.append("ring: self-loop")
    return f"{size}\n{'; '.join(meanings)}"


def _about_points(scene: Scene) -> str:
    """In how many dimensions the points live, and which of them are seen."""
    points = scene.points
    first = f"{counted(points.num_nodes, 'point')} in {counted(points.rank, 'dimension')}"
    if points.rank == 0:
        where = ("", ": the origin")[points.num_nodes] if points.num_nodes < 2 else ": all at the origin"
        return first + where
    largest = max(float(np.abs(scene.projected).max(initial=0.0)), 1e-300)
    hidden = points.num_nodes - len(np.unique(np.round(scene.projected / largest, 6), axis=0))
    if points.rank > 3:
        first += ", seen in 3" if hidden else ", projected to 3"
    if hidden:
        first += f"; {hidden:,} coincide"
    second = "Q = U√Λ" if points.is_positive_semidefinite else "U√|Λ|, as some λ < 0"
    if points.rank > 3:
        second += ", along the smoothest directions"
    return f"{first}\n{second}"


def _about_products(points: PointSet) -> str:
    """Why this panel is the graph again."""
    if points.num_nodes == 0:
        return "none"
    product = "⟨$Q_i$, $Q_j$⟩" if points.is_positive_semidefinite else "⟨$U_i$, Λ $U_j$⟩"
    if points.truncation is None:
        first = f"{product} = $Z_{{ij}}$: the graph again"
    else:
        first = f"{product} ≈ $Z_{{ij}}$, off by {points.truncation.spectral_error:.3g} at most"
    return f"{first}\nrows in the order of the colours"


def _about_spectrum(points: PointSet) -> str:
    """How many eigenvalues there are, and how many distinct."""
    text = counted(points.rank, "non-zero eigenvalue")
    if points.rank > 1:
        text += f", {len(points.eigenspaces()):,} distinct"
    if points.truncation is not None:
        text += f"; those up to {points.truncation.spectral_error:.3g} in magnitude were left out"
    elif points.num_nodes > points.rank:
        zeros = points.num_nodes - points.rank
        text += f"; zero {({1: 'once', 2: 'twice'}).get(zeros, f'{zeros:,} times')}"
    return text


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
    if points.num_nodes > MOST_NODES:
        return too_many(points.num_nodes)
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
    drawn = None
    if positions is not None:
        centred = positions - positions.mean(0) if len(positions) else positions
        drawn = np.column_stack([centred, (centred**2).sum(1)])  # with the distance from the middle
    columns: list[Floats] = [np.zeros((points.num_nodes, 0))]
    for value in sorted(set(values.tolist()), reverse=points.matrix != Laplacian.name):
        space = vectors[:, values == value] * np.sqrt(abs(value))  # (n, multiplicity)
        if drawn is not None:
            space = space @ np.linalg.svd(space.T @ drawn)[0]
        columns.append(space)
        if sum(column.shape[1] for column in columns) >= 3:
            break
    return np.concatenate(columns, axis=1)[:, :3]


def _draw_graph(axes: Axes, scene: Scene) -> None:
    """The graph; the width of an edge is its weight."""
    axes.set_axis_off()
    if isinstance(scene.drawing, str):
        axes.text(0.5, 0.5, scene.drawing, color=QUIET, fontsize=15, ha="center", va="center", linespacing=1.5)
        return
    positions, loops = scene.drawing.positions, scene.drawing.loops
    scale = _frame(axes, positions, smallest=0.8)
    area = marker_area(positions * scale)
    _draw_edges(axes, positions, scene.drawing)
    draw_loops(axes, positions[loops], 2.4 * area)
    colours = colours_on(SCALE, scene.shade)
    draw_nodes(axes, positions, colours, np.full(len(positions), area))
    if len(positions) <= LABELLED and area >= _LABEL_AREA:
        for node, (x, y) in enumerate(positions):
            style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 10.5, "zorder": 4}
            axes.text(x, y, str(node), color=PAPER if is_dark(as_hex(colours[node])) else INK, **style)


def _draw_points_in_space(axes: Axes, scene: Scene) -> None:
    """The points along their three leading directions, in a room; what is far is smaller and paler."""
    axes.set_axis_off()
    low, high = scene.projected.min(0), scene.projected.max(0)
    scale = 1.12 * float((high - low).max()) / 2  # the same in all directions, with a little space around the points
    half = np.maximum(1.12 * (high - low) / 2 / scale, _NARROWEST)  # (3,) of the room's width, depth and height
    corners = np.array([(-1, -1), (-1, 1), (1, 1), (1, -1)], dtype=np.float64)
    far = ((0, -1.0), (1, 1.0), (2, -1.0))  # the sides away from the camera: two walls and the floor
    walls = [_seen(half * np.insert(corners, axis, side, axis=1))[0] for axis, side in far]
    _frame(axes, np.concatenate(walls), margin=1.0)
    axes.add_collection(PolyCollection(walls, facecolors=WALLS, edgecolors=PAPER, linewidths=2, zorder=0))
    page, near = _seen((scene.projected - (low + high) / 2) / scale)
    if isinstance(scene.drawing, Drawing):
        _draw_edges(axes, page, scene.drawing, width=0.6)
    order = np.argsort(near, kind="stable")  # far ones first
    colours = colours_on(SCALE, scene.shade[order])
    colours += (1 - colours) * (0.45 * (1 - near[order]))[:, None]
    area = float(np.clip(5000 / len(near), 26, 190))
    draw_nodes(axes, page[order], colours, area * (0.5 + 0.9 * near[order]))


def _seen(points: Floats) -> tuple[Floats, Floats]:
    """Points (n, 3) of a room from −1 to 1, on the page (n, 2), and how near they are (n,), from 0 to 1."""
    right = np.array([np.cos(_TURN), np.sin(_TURN), 0.0])
    towards = np.array([np.sin(_TURN) * np.cos(_TILT), -np.cos(_TURN) * np.cos(_TILT), np.sin(_TILT)])
    up = np.cross(towards, right)
    depth = points @ towards
    page = points @ np.stack([right, up], axis=1) * (_DISTANCE / (_DISTANCE - depth))[:, None]
    return page, np.clip((depth / np.sqrt(3) + 1) / 2, 0.0, 1.0)


def _draw_points_on_plane(axes: Axes, scene: Scene) -> None:
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
    draw_nodes(axes, points, colours_on(SCALE, scene.shade), np.full(n, 190.0))


def _draw_edges(axes: Axes, positions: Floats, drawing: Drawing, width: float = 1.0) -> None:
    count = drawing.edges.shape[1]
    if not count:
        return
    widths = np.full(count, width * float(np.clip(28 / np.sqrt(count), 0.4, 2.0)))
    colours = [FAINT] * count
    if drawing.weights is not None:
        widths = widths * (0.3 + 2.2 * np.abs(drawing.weights) / np.abs(drawing.weights).max())
        colours = [BLUE if weight < 0 else FAINT for weight in drawing.weights]
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


def _draw_products(axes: Axes, bar: Axes, scene: Scene) -> None:
    """The inner products, with rows in the order of the nodes' colours, which run along the margins."""
    axes.set_axis_off()
    bar.set_axis_off()
    nodes = np.argsort(scene.shade, kind="stable")
    nodes = nodes[np.linspace(0, len(nodes) - 1, min(len(nodes), _MOST_ROWS)).round().astype(np.int64)]
    if not len(nodes):
        return
    vectors = scene.points.eigenvectors.numpy()[nodes]
    products = (vectors * scene.points.eigenvalues.numpy()) @ vectors.T
    largest = float(np.abs(products).max()) or 1.0
    # The cube root makes an edge of weight 1 visible beside a degree of 50.
    axes.imshow(_signed(np.cbrt(products / largest)), extent=(0, 1, 1, 0))
    shades = colours_on(SCALE, scene.shade[nodes])
    axes.imshow(shades[:, None], extent=(-_STRIP[0], -_STRIP[1], 1, 0))
    axes.imshow(shades[None, :], extent=(0, 1, -_STRIP[1], -_STRIP[0]))
    axes.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=HAIRLINE, linewidth=0.8))
    axes.set(xlim=(-_STRIP[0], 1.004), ylim=(1.004, -_STRIP[0]), anchor="NW")
    _draw_scale(bar, products)


def _signed(shares: Floats) -> Floats:
    """(…, 3) colours of numbers from −1 to 1; zero is white."""
    return colours_on(SIGNED, (shares + 1) / 2)


def _draw_scale(bar: Axes, products: Floats) -> None:
    """A colour bar over the numbers that occur."""
    numbers = np.array([products.min(), 0.0, products.max()])
    marks = np.unique(np.where(np.abs(numbers) > 1e-3 * np.abs(numbers).max(), numbers, 0.0))  # labels stay apart
    if len(marks) < 2:
        return
    roots = np.cbrt(marks / np.abs(marks).max())
    bar.set_axis_on()
    shown = np.linspace(roots[0], roots[-1], 256)
    bar.imshow(_signed(shown[:, None]), origin="lower", extent=(0, 1, roots[0], roots[-1]))
    bar.yaxis.tick_right()
    bar.set(xticks=[], ylim=(roots[0], roots[-1]), aspect="auto")
    bar.set_yticks(roots, [_short(number) for number in marks])
    bar.tick_params(length=0, labelsize=12, labelcolor=QUIET)
    bar.spines[:].set_visible(False)


def _draw_spectrum(axes: Axes, scene: Scene) -> None:
    """A stem for each distinct eigenvalue, the higher the more often; zero, which gives no coordinate, is hollow."""
    spaces = scene.points.eigenspaces()
    at = np.array([space.eigenvalue for space in spaces])
    often = np.array([space.multiplicity for space in spaces], dtype=np.int64)
    zeros = 0 if scene.points.truncation is not None else scene.points.num_nodes - scene.points.rank
    most = max([*often.tolist(), zeros, 1])
    power = min(0.5, np.log(3) / np.log(max(most, 3)))  # one is at least a third as high as the most frequent
    heights = (often / most) ** power
    width = float(np.clip(120 / max(len(at), 1), 0.8, 3.0))
    area = float(np.clip(2400 / max(len(at), 1), 5, 90))
    colours = [RED if value > 0 else BLUE for value in at]
    axes.vlines(at, 0, heights, colors=colours, linewidth=width)
    axes.scatter(at, heights, s=area, c=colours, edgecolors=PAPER, linewidths=0.5, zorder=3, clip_on=False)
    if zeros:
        high = (zeros / most) ** power
        axes.vlines(0, 0, high, colors=FAINT, linewidth=max(width, 1.2))
        axes.scatter(0, high, s=max(area, 24), c=PAPER, edgecolors=QUIET, linewidths=1.2, zorder=3, clip_on=False)
        at, often, heights = np.append(at, 0.0), np.append(often, zeros), np.append(heights, high)
    _style_spectrum(axes, at)
    _label_multiplicities(axes, at, often, heights)


def _style_spectrum(axes: Axes, at: Floats) -> None:
    low, high = min(at.min(initial=0.0), 0.0), max(at.max(initial=0.0), 0.0)
    low, high = (low, high) if low < high else (-1.0, 1.0)
    margin = 0.015 * (high - low)
    axes.set(xlim=(low - margin, high + margin), ylim=(0, 1), yticks=[], facecolor="none")
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set(color=FAINT)
    axes.tick_params(length=0, pad=6, labelsize=12, labelcolor=QUIET)


def _label_multiplicities(axes: Axes, at: Floats, often: Integers, heights: Floats) -> None:
    """``×4`` over repeated eigenvalues, the most frequent first, where there is room."""
    left, right = axes.get_xlim()
    taken: list[float] = []
    for index in np.argsort(-often, kind="stable"):
        if often[index] < 2 or any(abs(at[index] - x) < 0.025 * (right - left) for x in taken):
            continue
        taken.append(at[index])
        place = (at[index], heights[index])
        text = axes.annotate(f"×{often[index]}", place, (0, 8), textcoords="offset points", ha="center", fontsize=13)
        text.set(color=INK, path_effects=[withStroke(linewidth=3, foreground=PAPER)], zorder=5)


def _short(number: float) -> str:
    digits = ".0e" if abs(number) >= 1e5 else ".0f" if abs(number) >= 10 else ".2g"
    return f"{number:{digits}}".replace("-", "−")
