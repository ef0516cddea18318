"""Pictures as files: of points, of graphs side by side, of what ``pointset express`` finds.

Every function writes ``.png``, ``.svg`` or ``.pdf``, whole or not at all, and replaces an older file; the same content
gives the same file. All raise ``MissingExtraError`` where matplotlib is not installed, and ``FileFormatError`` where
the name ends in something else or its folder does not exist, both before anything is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.errors import FileFormatError, GraphError, MissingExtraError
from pointset.files import replacing
from pointset.reports.layout import NO_LEGEND, Legend, Portrait

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pointset.points.point_set import PointSet

_FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
# Without the time of writing, so that the same picture gives the same file.
_METADATA: dict[str, dict[str, str | None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def check_picture_file(path: str | Path) -> None:
    """Refuse before anything is drawn what could not be written in the end."""
    target = Path(path)
    if target.suffix.lower() not in _FORMATS:
        raise FileFormatError(f"got {target.name!r}; expected a name that ends in {', '.join(_FORMATS)}")
    if not target.parent.is_dir():
        raise FileFormatError(f"cannot write {target}: there is no folder {target.parent}. Create it first")
    if target.is_dir():
        raise FileFormatError(f"cannot write {target}: it is a folder. Choose the name of a file in it")
    if find_spec("matplotlib") is None:
        raise MissingExtraError(
            "drawing needs matplotlib, which is not installed. Install it with: pip install 'pointset[report]'"
        )


def save_picture(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the name ends in."""
    import matplotlib as mpl

    target = Path(path)
    file_format = _FORMATS[target.suffix.lower()]
    with replacing(target) as temporary, mpl.rc_context({"svg.hashsalt": "pointset"}):  # else names in it are random
        figure.savefig(temporary, format=file_format, metadata=_METADATA[file_format])


def svg_text(figure: Figure, digest: str) -> str:
    """A figure as SVG that holds the digest of its content; it depends on nothing else."""
    import matplotlib as mpl

    file = io.StringIO()
    metadata = {"Date": None, "Creator": "pointset results", "Description": f"content {digest}"}
    with mpl.rc_context({"svg.hashsalt": digest}):
        figure.savefig(file, format="svg", metadata=metadata)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def draw_points(points: PointSet, path: str | Path, *, title: str | None = None) -> None:
    """Save a picture of 1600 × 1000 pixels with four panels, made to be shown in a talk.

    The graph as it is rebuilt from the points; the eigenvalues; the points, projected onto their three leading
    directions; and their inner products, from which the graph was rebuilt. Nodes have the same colour everywhere,
    after the Fiedler vector. The same points give the same picture. The cost is O(n³), a few seconds for 500 nodes.

    Args:
        points: a point set of any matrix; where it is not positive semi-definite, coordinates are U√|Λ|.
        path: where to write.
        title: heading of the picture, by default the size of the graph.

    Raises:
        GraphError: the eigenpairs contain NaN or infinity.
    """
    check_picture_file(path)
    from pointset.reports.point_picture import compose_points

    if not (points.eigenvalues.isfinite().all() and points.eigenvectors.isfinite().all()):
        raise GraphError("the eigenpairs contain NaN or infinity, so there is nothing to draw")
    save_picture(compose_points(points, title), path)


def draw_gallery(portraits: Sequence[Portrait], path: str | Path, *, heading: str, legend: Legend = NO_LEGEND) -> None:
    """Save a picture of graphs, each with its title and caption, and one legend for all.

    A graph of n nodes costs O(n²) for each step of the layout; one with more than 1,000 nodes is named, not drawn.

    Args:
        portraits: the graphs, at least one.
        path: where to write.
        heading: of the whole picture.
        legend: what colours and widths mean.

    Raises:
        GraphError: there is no graph.
    """
    check_picture_file(path)
    if not portraits:
        raise GraphError("there is no graph to draw; give at least one")
    from pointset.reports.gallery import compose_gallery

    save_picture(compose_gallery(portraits, heading, legend), path)


def draw_theorems(content: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """A row for each statement, {"statement", "verdict", "evidence", "claim"}: its verdict and what was found."""
    check_picture_file(path)
    from pointset.reports.express import compose_theorems

    save_picture(compose_theorems(content), path)


def draw_brec(content: Mapping[str, Mapping[str, Mapping[str, int]]], path: str | Path) -> None:
    """For each model a bar in each category of pairs, and the total; unreliable answers are hatched in red.

    ``content`` is {model: {category: {"pairs", "separated", "unreliable"}}}.
    """
    check_picture_file(path)
    from pointset.reports.express import compose_brec

    save_picture(compose_brec(content), path)


def draw_counting(content: Mapping[str, Any], path: str | Path) -> None:
    """A table of errors, coloured: substructures by families of fresh graphs, with a mark where the model counts.

    ``content`` is what ``pointset express counting RUN --json FILE`` writes.
    """
    check_picture_file(path)
    from pointset.reports.express import compose_counting

    save_picture(compose_counting(content), path)


def draw_distances(content: Mapping[str, Any], path: str | Path) -> None:
    """What can be read off each layer of a model, distance by distance, beside degrees and fresh weights.

    ``content`` is what ``pointset express distances RUN --json FILE`` writes.
    """
    check_picture_file(path)
    from pointset.reports.express import compose_distances

    save_picture(compose_distances(content), path)
