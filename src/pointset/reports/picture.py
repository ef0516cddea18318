"""One picture of a graph as points: the graph, its spectrum, its points and their inner products."""

from __future__ import annotations

from pathlib import Path

import torch

from pointset.errors import GraphError
from pointset.points.point_set import PointSet
from pointset.reports.picture_files import check_picture_file, save_picture


def draw_points(points: PointSet, path: str | Path, *, title: str | None = None) -> None:
    """Save a picture of 1600 × 1000 pixels with four panels, made to be shown in a talk.

    The graph as it is rebuilt from the points; the eigenvalues; the points, projected onto their three leading
    directions; and their inner products, from which the graph was rebuilt. Nodes have the same colour everywhere,
    after the Fiedler vector. The same points give the same picture. The cost is O(n³), a few seconds for 500 nodes.

    Args:
        points: a point set of any matrix; where it is not positive semi-definite, coordinates are U√|Λ|.
        path: where to write; ``.png``, ``.svg`` or ``.pdf``. An older file is replaced.
        title: heading of the picture, by default the size of the graph.

    Raises:
        MissingExtraError: matplotlib is not installed.
        FileFormatError: the name ends in something else, or its folder does not exist.
        GraphError: the eigenpairs contain NaN or infinity.
    """
    check_picture_file(path)
    from pointset.reports.drawing.composition import compose

    if not (torch.isfinite(points.eigenvalues).all() and torch.isfinite(points.eigenvectors).all()):
        raise GraphError("the eigenpairs contain NaN or infinity, so there is nothing to draw")
    save_picture(compose(points, title), path)
