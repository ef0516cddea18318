"""A picture of several graphs side by side (:func:`draw_gallery`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pointset.errors import GraphError
from pointset.reports.picture_files import check_picture_file, save_picture
from pointset.reports.portraits import NO_LEGEND, Legend, Portrait


def draw_gallery(portraits: Sequence[Portrait], path: str | Path, *, heading: str, legend: Legend = NO_LEGEND) -> None:
    """Save a picture of graphs, each with its title and caption, and one legend for all.

    The same graphs give the same picture. A graph of n nodes costs O(n²) for each step of the layout; one with more
    than 1,000 nodes is named, not drawn.

    Args:
        portraits: the graphs, at least one.
        path: where to write; ``.png``, ``.svg`` or ``.pdf``. An older file is replaced.
        heading: of the whole picture.
        legend: what colours and widths mean.

    Raises:
        MissingExtraError: matplotlib is not installed.
        FileFormatError: the name ends in something else, or its folder does not exist.
        GraphError: there is no graph.
    """
    check_picture_file(path)
    if not portraits:
        raise GraphError("there is no graph to draw; give at least one")
    from pointset.reports.drawing.gallery_page import compose_gallery

    save_picture(compose_gallery(portraits, heading, legend), path)
