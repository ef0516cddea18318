"""Which of the processes that work on a study in a folder are still alive (:class:`Presence`).

Each holds a lock on a file of its own, which the system lets go when the process ends, however it ends. So a trial of a
killed process is known to be nobody's at once, while a heartbeat in the database (for other machines) takes minutes.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, Any

from pointset.files import try_lock

_FOLDER = "workers"


class Presence(AbstractContextManager["Presence"]):
    """One process among those at work in ``folder``; inside of the ``with`` block it is present."""

    def __init__(self, folder: Path):
        self._folder = folder / _FOLDER
        self._file: IO[Any] | None = None
        self.name = ""

    def __enter__(self) -> Presence:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=".lock", dir=self._folder)
        self._file = os.fdopen(handle, "w")
        try_lock(self._file)  # nobody else knows the file yet
        self.name = Path(path).name
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        begun = any(item != self._folder for item in self._folder.parent.iterdir())
        if kind is None or not begun:  # else the file stays: that it can be locked says that this process has ended
            (self._folder / self.name).unlink(missing_ok=True)
        if not begun:
            with suppress(OSError):  # another process has come
                self._folder.rmdir()
                self._folder.parent.rmdir()

    def is_gone(self, name: str) -> bool:
        """Whether a process has ended. False where it is not known here: then its heartbeat decides."""
        path = self._folder / Path(name).name
        if name == self.name or not path.is_file():
            return False
        with path.open("r+") as file:
            return try_lock(file)
