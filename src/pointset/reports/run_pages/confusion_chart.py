"""How often which class was taken for which (:func:`confusion_figure`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pointset.reports.run_pages.figure import Figure
from pointset.reports.run_pages.svg import Element, add, drawing, finished
from pointset.reports.run_pages.words import clipped, count

MOST_CLASSES = 25
_FEW = 8  # classes up to which cells show counts and a row's share
_NAME = 15  # letters of a class's name that are shown
_LETTER = 6.2  # units: about the width of one


def confusion_figure(names: Sequence[str], counts: NDArray[np.int64]) -> Figure:
    """Rows are the true classes, columns the predicted ones; colour is the share of the row."""
    k = len(names)
    few = k <= _FEW
    cell = 300.0 / max(k, 2) if few else 28.0
    shown = [clipped(name, _NAME) for name in names]
    left = 26 + _LETTER * max((len(name) for name in shown), default=1)
    upright = few and all(_LETTER * len(name) < cell for name in shown)
    top = 44.0 if upright else 34 + _LETTER * max((len(name) for name in shown), default=1)
    width, height = left + k * cell + 8, top + k * cell + 8
    total, right = int(counts.sum()), int(np.trace(counts))
    root = drawing(width, height, f"Confusion matrix of {count(k, 'class')}: {right:,} of {total:,} right")
    least = "" if few else f"; min-width: {width * 0.8:.0f}px"  # it scrolls in its own frame on a phone
    root.set("style", f"max-width: {width * 1.35:.0f}px{least}")
    add(root, "text", "predicted", x=left + k * cell / 2, y=14.0, text_anchor="middle", class_="label")
    add(root, "text", "true", x=4.0, y=top - 8, class_="label")
    for index, name in enumerate(shown):
        middle = (index + 0.5) * cell
        add(root, "text", name, x=left - 8, y=top + middle + 4, text_anchor="end", class_="tick")
        place = (left + middle, top - 9)
        if upright:
            add(root, "text", name, x=place[0], y=place[1], text_anchor="middle", class_="tick")
        else:
            turn = f"translate({place[0] + 4:.1f} {place[1]:.1f}) rotate(-90)"
            add(root, "text", name, transform=turn, class_="tick")
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for row in range(k):
        for column in range(k):
            corner = (left + column * cell, top + row * cell)
            _draw_cell(root, corner, cell, int(counts[row, column]), float(shares[row, column]), few)
    text = f"{right:,} of {total:,} on the diagonal are right. Colour and percentage are the share of the row."
    return Figure(finished(root), "Confusion matrix", text)


def _draw_cell(root: Element, corner: tuple[float, float], cell: float, times: int, share: float, few: bool) -> None:
    (x, y), size = corner, cell - 2.0
    add(root, "rect", x=x, y=y, width=size, height=size, rx=3.0, class_="cell-back")
    add(root, "rect", x=x, y=y, width=size, height=size, rx=3.0, class_="cell", fill_opacity=f"{share:.3f}")
    style = "on-strong" if share > 0.55 else "on-weak"
    middle = {"x": x + size / 2, "text_anchor": "middle"}
    if few and cell > 40:
        add(root, "text", f"{times:,}", y=y + size / 2 + 1, class_=f"cell-count {style}", **middle)
        add(root, "text", f"{share:.0%}", y=y + size / 2 + 16, class_=f"cell-share {style}", **middle)
    elif share >= 0.005:
        add(root, "text", f"{100 * share:.0f}", y=y + size / 2 + 3.5, class_=f"cell-share {style}", **middle)
