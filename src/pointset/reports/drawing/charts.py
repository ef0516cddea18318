"""The panels that show numbers: the inner products and the eigenvalues. Needs matplotlib."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from pointset.reports.drawing.layout import Floats, Integers
from pointset.reports.drawing.scene import Scene
from pointset.reports.drawing.style import FAINT, HAIRLINE, INK, NEGATIVE, NODES, PAPER, POSITIVE, QUIET, SIGNED

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
