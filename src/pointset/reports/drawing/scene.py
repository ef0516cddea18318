"""What a picture of points shows, apart from how: positions, colours, directions. Knows no plotting library."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from pointset.errors import GraphError, RankError
from pointset.points.inverse import rebuild
from pointset.points.matrices import Laplacian
from pointset.points.point_set import PointSet
from pointset.reports.drawing.layout import Floats, Integers, even_ranks, place_nodes, smooth_values

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
