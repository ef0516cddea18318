"""What is written beside the panels of a picture of points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pointset.points.point_set import PointSet
from pointset.reports.drawing.scene import Drawing, Scene

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
        decomposition = f"{_MATRICES[points.matrix]} ≈ U Λ Uᵀ,   {_count(points.rank, 'eigenpair')} kept"
    return Caption(f"A graph of {_count(n, 'node')} as {_count(n, 'point')}", decomposition)


def of_graph(scene: Scene) -> Caption:
    """How large it is, and what widths, colours and rings mean."""
    lines = [f"{_count(scene.points.num_nodes, 'node')}, {_count(scene.points.num_edges, 'edge')}"]
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
    first = f"{_count(points.num_nodes, 'point')} in {_count(points.rank, 'dimension')}"
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
    text = _count(points.rank, "non-zero eigenvalue")
    if points.rank > 1:
        text += f", {len(points.eigenspaces()):,} distinct"
    if points.truncation is not None:
        text += f"; those up to {points.truncation.spectral_error:.3g} in magnitude were left out"
    elif points.num_nodes > points.rank:
        zeros = points.num_nodes - points.rank
        text += f"; zero {({1: 'once', 2: 'twice'}).get(zeros, f'{zeros:,} times')}"
    return Caption("Its spectrum", text)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
