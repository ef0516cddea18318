"""A file that one process at a time can hold (:func:`open_held`)."""

from __future__ import annotations

import os
from io import BufferedRandom
from pathlib import Path

from pointset.errors import PointsetError
from pointset.files import try_lock


def open_held(path: Path, what: Path) -> BufferedRandom:
    """The file, open for reading and writing, made where it is not there; nobody else holds it until it is closed.

    Args:
        path: the file.
        what: how messages call it.

    Raises:
        PointsetError: another process holds it.
    """
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            if not try_lock(file):
                raise PointsetError(f"another process is writing {what}; wait for it, or choose another output")
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()  # the one who held it renamed or removed it just now: this is not the file at the path
