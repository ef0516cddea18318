"""Writing a picture as ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pointset.errors import FileFormatError, MissingExtraError
from pointset.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
# Without the time of writing, so that the same picture gives the same file.
_METADATA: dict[str, dict[str, str | None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def check_picture_file(path: str | Path) -> None:
    """Refuse before anything is drawn what could not be written in the end.

    Raises:
        MissingExtraError: matplotlib is not installed.
        FileFormatError: the name ends in something else, or its folder does not exist.
    """
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
    """Write a figure in the format that the name ends in; an older file is replaced."""
    target = Path(path)
    file_format = _FORMATS[target.suffix.lower()]
    with replacing(target) as temporary:
        figure.savefig(temporary, format=file_format, metadata=_METADATA[file_format])
