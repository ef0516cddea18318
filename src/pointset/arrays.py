"""numpy arrays: the names of their types in signatures, and ``.npz`` files, checked and never unpickled."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pointset.errors import FileFormatError
from pointset.files import open_binary

Array = NDArray[Any]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

DAMAGED = (
    ValueError, EOFError, OSError, KeyError, AttributeError, TypeError, RuntimeError, MemoryError, OverflowError,
    SyntaxError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy and zipfile raise for a file that is cut short, altered, encrypted, pickled, or claims an absurd size."""
_LARGEST = 1 << 32  # bytes unpacked; far above any real file, far below what would fill the memory


def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, Array]:
    """The arrays with these names, by default all.

    Raises:
        FileFormatError: the file is damaged, holds Python objects, or lacks an array.
    """
    try:
        # opened here: numpy leaves a file open that turns out to be damaged
        with open_binary(path) as file, np.load(file, allow_pickle=False) as archive:
            wanted = archive.files if names is None else names
            if missing := [name for name in wanted if name not in archive]:
                raise FileFormatError(
                    f"{path} has no {', '.join(missing)}; expected arrays {', '.join(wanted)}, got "
                    f"{', '.join(archive) or 'none'}"
                )
            _check_size(path, file)
            return {name: _plain(path, name, archive[name]) for name in wanted}
    except FileFormatError:
        raise
    except DAMAGED as error:
        raise FileFormatError(
            f"{path} cannot be read as .npz ({str(error).partition(chr(10))[0] or type(error).__name__}); it is empty, "
            "cut short or of another kind. Get it again"
        ) from None


def _check_size(path: Path, file: BinaryIO) -> None:
    with zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > _LARGEST:
            raise FileFormatError(
                f"{path} unpacks to more than {_LARGEST:,} bytes; expected less. It is not a real dataset"
            )


def _plain(path: Path, name: str, array: Any) -> Array:
    """In this machine's byte order, and no wider than torch can take."""
    if not isinstance(array, np.ndarray):  # what is not an .npy comes as bytes
        raise FileFormatError(f"{path}: {name} is not an array; expected an .npz that numpy.savez wrote")
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
    return array.astype(np.float64 if wide else array.dtype.newbyteorder("="), copy=False)
