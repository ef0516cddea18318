"""Arrays of a ``.npz`` file, checked by name and never unpickled (:func:`read_arrays`)."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pointset.datasets.table import Array
from pointset.errors import FileFormatError


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, Array]:
    """The arrays with these names.

    Raises:
        FileFormatError: the file is damaged, holds Python objects, or lacks an array.
    """
    wanted = tuple(names)
    try:
        # opened here: numpy leaves a file open that turns out to be damaged
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if missing := [name for name in wanted if name not in archive]:
                raise FileFormatError(
                    f"{path} has no {', '.join(missing)}; expected arrays {', '.join(wanted)}, got "
                    f"{', '.join(archive) or 'none'}"
                )
            return {name: archive[name] for name in wanted}
    except FileFormatError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError, AttributeError, TypeError) as error:
        raise FileFormatError(
            f"{path} cannot be read as .npz ({str(error).partition(chr(10))[0] or type(error).__name__}); it is empty, "
            "cut short or of another kind. Get it again"
        ) from None
