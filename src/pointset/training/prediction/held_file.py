"""A file that one process at a time can hold (:func:`open_held`)."""

from __future__ import annotations

import errno
import os
from io import BufferedRandom
from pathlib import Path

from pointset.errors import PointsetError


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
            _lock(file, what)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()  # the one who held it renamed or removed it just now: this is not the file at the path


def _lock(file: BufferedRandom, what: Path) -> None:
    """The system lets go of the lock of a killed process."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        raise PointsetError(f"another process is writing {what}; wait for it, or choose another output") from None
