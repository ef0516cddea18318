"""One picture of a graph as points: the graph, its spectrum, its points and their inner products."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch

from pointset.errors import FileFormatError, GraphError, MissingExtraError
from pointset.files import replacing
from pointset.points.point_set import PointSet

_FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
# Without the time of writing, so that the same points give the same file.
_METADATA: dict[str, dict[str, str | None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


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
    target = Path(path)
    file_format = _format_of(target)
    if find_spec("matplotlib") is None:
        raise MissingExtraError(
            "drawing needs matplotlib, which is not installed. Install it with: pip install 'pointset[report]'"
        )
    from pointset.reports.drawing.composition import compose

    if not (torch.isfinite(points.eigenvalues).all() and torch.isfinite(points.eigenvectors).all()):
        raise GraphError("the eigenpairs contain NaN or infinity, so there is nothing to draw")
    figure = compose(points, title)
    with replacing(target) as temporary:
        figure.savefig(temporary, format=file_format, metadata=_METADATA[file_format])


def _format_of(path: Path) -> str:
    if path.suffix.lower() not in _FORMATS:
        raise FileFormatError(f"got {path.name!r}; expected a name that ends in {', '.join(_FORMATS)}")
    if not path.parent.is_dir():
        raise FileFormatError(f"cannot write {path}: there is no folder {path.parent}. Create it first")
    if path.is_dir():
        raise FileFormatError(f"cannot write {path}: it is a folder. Choose the name of a file in it")
    return _FORMATS[path.suffix.lower()]
