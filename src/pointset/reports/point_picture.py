"""Puts the panels and their captions on one page. Needs matplotlib."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from pointset.points.point_set import PointSet
from pointset.reports.layout import Floats, Integers
from pointset.reports.panels import Drawing, Scene, draw_graph, draw_points_in_space, draw_points_on_plane, scene_of
from pointset.reports.style import DPI, FAINT, HAIRLINE, INCHES, INK, NEGATIVE, NODES, PAPER, POSITIVE, QUIET, SIGNED
from pointset.text import counted

# What is written beside the panels of a picture of points.


_MATRICES = {
    "laplacian": "Laplacian Z = D − A",
    "adjacency": "Adjacency matrix Z = A",
    "normalized_adjacency": "Normalised adjacency matrix Z = D$^{-½}$ A D$^{-½}$",
    "augmented": "Augmented matrix Z = D + A",
}


class Caption(NamedTuple):
    """A heading and the lines under it; mathematics between dollar signs."""

    heading: str
    text: str


def overall(points: PointSet) -> Caption:
    """For the whole picture."""
    n = points.num_nodes
    if points.truncation is None:
        decomposition = f"{_MATRICES[points.matrix]} = U Λ Uᵀ,   rank {points.rank:,}"
    else:
        decomposition = f"{_MATRICES[points.matrix]} ≈ U Λ Uᵀ,   {counted(points.rank, 'eigenpair')} kept"
    return Caption(f"A graph of {counted(n, 'node')} as {counted(n, 'point')}", decomposition)


def of_graph(scene: Scene) -> Caption:
    """How large it is, and what widths, colours and rings mean."""
    lines = [f"{counted(scene.points.num_nodes, 'node')}, {counted(scene.points.num_edges, 'edge')}"]
    drawing = scene.drawing
    if isinstance(drawing, Drawing):
        meanings = []
        if drawing.weights is not None and len(drawing.weights):
            meanings.append("edge width: weight" + (", blue: negative" if drawing.weights.min() < 0 else ""))
        if len(drawing.loops):
            meanings.append("ring: self-loop")
        lines += ["; ".join(meanings)]
    return Caption("The graph", "\n".join(lines))


def of_points(scene: Scene) -> Caption:
    """In how many dimensions the points live, and which of them are seen."""
    points = scene.points
    first = f"{counted(points.num_nodes, 'point')} in {counted(points.rank, 'dimension')}"
    if points.rank == 0:
        where = ("", ": the origin")[points.num_nodes] if points.num_nodes < 2 else ": all at the origin"
        return Caption("Its points", first + where)
    hidden = points.num_nodes - len(np.unique(np.round(scene.projected / _closeness(scene), 6), axis=0))
    if points.rank > 3:
        first += ", seen in 3" if hidden else ", projected to 3"
    if hidden:
        first += f"; {hidden:,} coincide"
    second = "Q = U√Λ" if points.is_positive_semidefinite else "U√|Λ|, as some λ < 0"
    if points.rank > 3:
        second += ", along the smoothest directions"
    return Caption("Its points", f"{first}\n{second}")


def _closeness(scene: Scene) -> float:
    return max(float(np.abs(scene.projected).max(initial=0.0)), 1e-300)


def of_products(scene: Scene) -> Caption:
    """Why this panel is the graph again."""
    if scene.points.num_nodes == 0:
        return Caption("Their inner products", "none")
    product = "⟨$Q_i$, $Q_j$⟩" if scene.points.is_positive_semidefinite else "⟨$U_i$, Λ $U_j$⟩"
    if scene.points.truncation is None:
        first = f"{product} = $Z_{{ij}}$: the graph again"
    else:
        first = f"{product} ≈ $Z_{{ij}}$, off by {scene.points.truncation.spectral_error:.3g} at most"
    return Caption("Their inner products", f"{first}\nrows in the order of the colours")


def of_spectrum(points: PointSet) -> Caption:
    """How many eigenvalues there are, and how many distinct."""
    text = counted(points.rank, "non-zero eigenvalue")
    if points.rank > 1:
        text += f", {len(points.eigenspaces()):,} distinct"
    if points.truncation is not None:
        text += f"; those up to {points.truncation.spectral_error:.3g} in magnitude were left out"
    elif points.num_nodes > points.rank:
        zeros = points.num_nodes - points.rank
        text += f"; zero {({1: 'once', 2: 'twice'}).get(zeros, f'{zeros:,} times')}"
    return Caption("Its spectrum", text)


# The panels that show numbers: the inner products and the eigenvalues. Needs matplotlib.


_MOST_ROWS = 1000  # of the matrix: more than the panel has pixels
_STRIP = (0.05, 0.015)  # where the colours of the nodes run beside the matrix, in terms of its width


def draw_products(axes: Axes, bar: Axes, scene: Scene) -> None:
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
    axes.imshow(np.cbrt(products / largest), cmap=SIGNED, vmin=-1, vmax=1, extent=(0, 1, 1, 0))
    shades = NODES(scene.shade[nodes])
    axes.imshow(shades[:, None], extent=(-_STRIP[0], -_STRIP[1], 1, 0))
    axes.imshow(shades[None, :], extent=(0, 1, -_STRIP[1], -_STRIP[0]))
    axes.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=HAIRLINE, linewidth=0.8))
    axes.set(xlim=(-_STRIP[0], 1.004), ylim=(1.004, -_STRIP[0]), anchor="NW")
    _draw_scale(bar, products)


def _draw_scale(bar: Axes, products: Floats) -> None:
    """A colour bar over the numbers that occur."""
    numbers = np.array([products.min(), 0.0, products.max()])
    marks = np.unique(np.where(np.abs(numbers) > 1e-3 * np.abs(numbers).max(), numbers, 0.0))  # labels stay apart
    if len(marks) < 2:
        return
    roots = np.cbrt(marks / np.abs(marks).max())
    bar.set_axis_on()
    shown = np.linspace(roots[0], roots[-1], 256)
    bar.imshow(shown[:, None], cmap=SIGNED, vmin=-1, vmax=1, origin="lower", extent=(0, 1, roots[0], roots[-1]))
    bar.yaxis.tick_right()
    bar.set(xticks=[], ylim=(roots[0], roots[-1]), aspect="auto")
    bar.set_yticks(roots, [_short(number) for number in marks])
    bar.tick_params(length=0, labelsize=12, labelcolor=QUIET)
    bar.spines[:].set_visible(False)


def draw_spectrum(axes: Axes, scene: Scene) -> None:
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
    colours = [POSITIVE if value > 0 else NEGATIVE for value in at]
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
    form = ".0e" if abs(number) >= 1e5 else ".0f" if abs(number) >= 10 else ".2g"
    return f"{number:{form}}".replace("-", "−")


_COLUMNS = (0.035, 0.355, 0.675)  # left edges of the three upper panels
_TOP, _WIDE, _HIGH = 0.765, 0.285, 0.456  # of these panels, which are square
_LONGEST_TITLE = 60  # characters that fit at full size


def compose(points: PointSet, title: str | None) -> Figure:
    """The whole picture, 1600 × 1000 pixels."""
    scene = scene_of(points)
    figure = Figure(figsize=INCHES, dpi=DPI, facecolor=PAPER)
    _write_title(figure, overall(points), title)
    for left, caption in zip(_COLUMNS, (of_graph, of_points, of_products), strict=True):
        _write(figure, left, 0.838, caption(scene))
    _write(figure, _COLUMNS[0], 0.245, of_spectrum(points))

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
