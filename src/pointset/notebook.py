"""What a notebook shows of an object in place of its ``repr``: facts, a small table, a drawing (``_repr_html_``).

Every text is escaped here, as names and SMILES come from files. The markup is small, brings no style sheet and no
script, and has the notebook's own colours, light or dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pointset.arrays import Floats
from pointset.text import clipped

_LONGEST = 120  # letters of a text that is shown
MOST_DRAWN = 80  # nodes of a graph that is drawn
_SIZE, _MARGIN = 150.0, 10.0  # pixels of a drawing
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:middle"


class Markup(str):
    """Text that is HTML of our own making already."""

    __slots__ = ()


def cell(value: object) -> str:
    """A value as HTML: markup as it is, every other text escaped and on one line."""
    return value if isinstance(value, Markup) else escape(clipped(str(value), _LONGEST))


def card(title: str, facts: Mapping[str, object], *, picture: str = "", below: str = "") -> str:
    """A title, names and values under it, and what is drawn beside them; ``picture`` and ``below`` are markup."""
    rows = "".join(
        f'<tr><th style="{_CELL};font-weight:normal;opacity:0.7">{cell(name)}</th>'
        f'<td style="{_CELL}">{cell(value)}</td></tr>'
        for name, value in facts.items()
    )
    beside = f'<div style="margin-left:1.5em">{picture}</div>' if picture else ""
    table = f'<table style="border:0;margin:0">{rows}</table>' if rows else ""
    return (
        f'<div><strong>{cell(title)}</strong><div style="display:flex;align-items:center">{table}{beside}</div>'
        f"{below}</div>"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> Markup:
    """A table with a line of text under it."""
    top = "".join(f'<th style="{_CELL}">{cell(name)}</th>' for name in head)
    lines = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{cell(value)}</td>' for value in row) + "</tr>" for row in rows
    )
    under = f'<div style="opacity:0.7">{cell(note)}</div>' if note else ""
    return Markup(f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>{under}")


def shape(value: Any) -> str:
    """``12 × 9`` of an array or tensor."""
    return " × ".join(map(str, value.shape)) or "1"


def graph_drawing(num_nodes: int, edges: Any) -> Markup:
    """A graph of up to 80 nodes as SVG, from edges (2, m); empty of larger ones.

    Nodes lie where classical scaling puts them: squared distances on paper are near the squared numbers of steps
    between them, −½ J D² J = X Xᵀ with J = 1 − 11ᵀ/n. Parts that are not joined stand side by side.
    """
    pairs = np.asarray(edges, dtype=np.int64).reshape(2, -1)
    if not 0 < num_nodes <= MOST_DRAWN:
        return Markup("")
    places = _on_paper(_side_by_side(_steps(num_nodes, pairs)))
    lines = "".join(f"M{places[a, 0]:.0f} {places[a, 1]:.0f}L{places[b, 0]:.0f} {places[b, 1]:.0f}" for a, b in pairs.T)
    dots = "".join(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3"/>' for x, y in places)
    return _svg(f'<path d="{lines}" stroke="currentColor" opacity="0.4" fill="none"/>{dots}', "A drawing of the graph")


def spectrum_drawing(eigenvalues: Any) -> Markup:
    """Eigenvalues as strokes along a line, with the least and the largest number."""
    values = np.asarray(eigenvalues, dtype=np.float64)
    if not len(values):
        return Markup("")
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    across = _MARGIN + (values - low) / ((high - low) or 1.0) * (_SIZE - 2 * _MARGIN)
    lines = "".join(f"M{x:.1f} 6V22" for x in np.unique(across.round(1)))
    ends = "".join(
        f'<text x="{x:.0f}" y="36" font-size="10" text-anchor="{anchor}" fill="currentColor">{value:.3g}</text>'
        for x, anchor, value in ((_MARGIN, "start", low), (_SIZE - _MARGIN, "end", high))
    )
    body = f'<path d="M{_MARGIN} 22H{_SIZE - _MARGIN}{lines}" stroke="currentColor" fill="none"/>{ends}'
    return _svg(body, "The eigenvalues", height=40.0)


def _svg(body: str, description: str, height: float = _SIZE) -> Markup:
    size = f'width="{_SIZE:.0f}" height="{height:.0f}"'
    return Markup(f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="currentColor" role="img">'
                  f"<title>{description}</title>{body}</svg>")  # fmt: skip


def _steps(n: int, edges: Any) -> Floats:
    """(n, n) the number of edges between nodes, by breadth-first search; ∞ where no way leads."""
    joined = np.zeros((n, n), dtype=np.bool_)
    joined[edges[0], edges[1]] = joined[edges[1], edges[0]] = True
    steps = np.where(np.eye(n, dtype=np.bool_), 0.0, np.inf)
    reached = np.eye(n, dtype=np.bool_)
    for step in range(1, n):
        new = (reached @ joined) & ~np.isfinite(steps)
        if not new.any():
            break
        steps[new] = step
        reached = new
    return steps


def _side_by_side(steps: Floats) -> Floats:
    """(n, 2) places of the nodes, in steps: each part by itself, one step to the right of the last."""
    places, right = np.zeros((len(steps), 2)), 0.0
    for first in range(len(steps)):
        part = np.flatnonzero(np.isfinite(steps[first]))
        if part[0] == first:
            own = _scaled_distances(steps[np.ix_(part, part)])
            own[:, 0] += right - own[:, 0].min()
            places[part] = own
            right = float(own[:, 0].max()) + 1
    return places


def _scaled_distances(distances: Floats) -> Floats:
    """(n, 2) the two leading coordinates of classical scaling."""
    n = len(distances)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-centre @ distances**2 @ centre / 2)
    places = np.zeros((n, 2))
    leading = np.argsort(values)[::-1][: min(n, 2)]
    places[:, : len(leading)] = vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0.0))
    return places


def _on_paper(places: Floats) -> Floats:
    low, high = places.min(0), places.max(0)
    scale = (_SIZE - 2 * _MARGIN) / max(float((high - low).max()), 1.0)
    return np.asarray((places - (low + high) / 2) * scale + _SIZE / 2)
