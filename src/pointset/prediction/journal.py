"""An output that survives being killed: :class:`PartFile`.

Rows go to ``OUT.part``. Now and then a journal beside it, ``OUT.part.json``, notes how many rows of the input its first
so many bytes hold. Who goes on cuts the file there; when all is done it is renamed to OUT, and the journal removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Any

from pointset.errors import FileFormatError, PointsetError
from pointset.files import csv_lines, replacing, try_lock

# A file that one process at a time can hold (:func:`open_held`).


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


_VERSION = 1
_TABS = (".tsv", ".tab")
SUFFIXES = (".csv", *_TABS, ".txt")


@dataclass(frozen=True)
class Progress:
    """How far a prediction is."""

    entries: int = 0  # rows of the input
    bytes: int = 0  # of the part file, which hold them
    ok: int = 0
    not_ok: int = 0
    bad: tuple[str, ...] = ()  # the first few that are not, in words


class PartFile:
    """The growing output. Held by one process at a time, until it is closed or the process ends, however it ends.

    Args:
        output: what is to be written in the end.
        restart: forget what an earlier call left.
        overwrite: whether an output that is there may be replaced.

    Raises:
        FileFormatError: the output is there, or its name is not that of a table.
        PointsetError: another process writes it.
        OSError: nothing can be written there.
    """

    def __init__(self, output: Path, *, restart: bool = False, overwrite: bool = False):
        self.output = output
        self.path = output.with_name(f"{output.name}.part")
        self.journal = output.with_name(f"{output.name}.part.json")
        self.progress = Progress()
        self._identity: Mapping[str, Any] = {}
        self._delimiter = "\t" if output.suffix.lower() in _TABS else ","
        _check_output(output, overwrite)
        self._file = open_held(self.path, output)
        try:
            _check_output(output, overwrite)  # nobody finished it just now
            if restart:
                self.journal.unlink(missing_ok=True)
        except BaseException:
            self.close()
            raise

    def begin(self, identity: Mapping[str, Any], header: Sequence[str]) -> None:
        """Find out where to go on, by :attr:`progress`; where nothing was left, begin with the header.

        Raises:
            FileFormatError: what was left belongs to another model, input or setting, or is damaged.
        """
        whole = {**identity, "columns": list(header), "separator": self._delimiter}
        self._identity = json.loads(json.dumps(whole))
        if self.journal.exists() and self._size():  # without a part it is of a call that was killed when all was done
            self.progress = self._left()
        self._file.truncate(self.progress.bytes)
        self._file.seek(self.progress.bytes)
        if not self.progress.bytes:
            self.append([header], self.progress)

    def _left(self) -> Progress:
        again = f"Begin again with --restart, or choose another output than {self.output}"
        try:
            content = json.loads(self.journal.read_text(encoding="utf-8"))
            version, identity = content["version"], dict(content["identity"])
            progress = Progress(**content["progress"])
            entries, size = int(progress.entries), int(progress.bytes)
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"{self.journal} is damaged ({error}). {again}") from None
        differing = [key for key in self._identity if identity.get(key) != self._identity[key]]
        if version != _VERSION or differing:
            raise FileFormatError(
                f"{self.path} was left by another call: not the same {', '.join(differing) or 'version'}. {again}"
            )
        if not 0 < size <= self._size() or entries < 1:
            raise FileFormatError(f"{self.path} has {self._size():,} bytes; expected {size:,} at least. {again}")
        return dataclasses.replace(progress, bad=tuple(map(str, progress.bad)))

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def append(self, rows: Iterable[Sequence[str]], progress: Progress) -> None:
        """Write rows behind the others; ``progress`` is what holds then, but for the bytes."""
        self._file.write("".join(csv_lines(rows, self._delimiter)).encode())
        # One assignment: Ctrl-C comes before or after it, and rows and bytes always belong together.
        self.progress = dataclasses.replace(progress, bytes=self._file.tell())

    def note(self) -> None:
        """Make the progress safe: rows on the disk, and the journal that counts them."""
        self._file.flush()
        os.fsync(self._file.fileno())
        content = {"version": _VERSION, "identity": self._identity, "progress": dataclasses.asdict(self.progress)}
        with replacing(self.journal) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")

    def finish(self) -> None:
        """The whole output, in its place."""
        self._file.flush()
        os.fsync(self._file.fileno())
        for half_written in self.journal.parent.glob(f".{glob.escape(self.journal.name)}.*"):
            half_written.unlink(missing_ok=True)  # of a call that was killed while it noted; nobody else writes it now
        self.path.replace(self.output)
        self.journal.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go; a part without a journal is of no use to anybody."""
        if not self.journal.exists():
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
                    self.path.unlink()
        with contextlib.suppress(OSError):  # a full disk, of which was told already
            self._file.close()


def _check_output(output: Path, overwrite: bool) -> None:
    if output.suffix.lower() not in SUFFIXES:
        raise FileFormatError(f"got the output {output}; expected a name that ends in {', '.join(SUFFIXES)}")
    if output.is_dir():
        raise FileFormatError(f"the output {output} is a folder; expected the name of a file")
    if output.exists() and not overwrite:
        raise FileFormatError(f"{output} is there already; choose another name, or replace it with --overwrite")
