"""Files of a dataset that lie each for itself, or together in one zip; read without unpacking (:func:`members`)."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pointset.errors import FileFormatError

LARGEST = 1 << 30  # bytes; far above the official text files, far below what would fill the memory
_DAMAGED = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Member:
    """A file, or a file inside a zip; ``str`` of it is its place, for messages."""

    path: Path
    inside: str = ""  # its name in the zip

    def __str__(self) -> str:
        return f"{self.path} ({self.inside})" if self.inside else str(self.path)

    def size(self) -> int:
        """Bytes, once unpacked from the zip."""
        if not self.inside:
            return self.path.stat().st_size
        with zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(self.inside).file_size  # zipfile never gives more bytes than it states

    @contextmanager
    def open(self, largest: int = LARGEST) -> Iterator[IO[bytes]]:
        """The bytes as they are stored, one after the other.

        Raises:
            FileFormatError: it cannot be opened, or is larger than ``largest``; also where a zip unpacks to more.
        """
        with ExitStack() as opened:
            try:
                size = self.size()
                if self.inside:
                    archive = opened.enter_context(zipfile.ZipFile(self.path))
                    file = opened.enter_context(archive.open(self.inside))
                else:
                    file = opened.enter_context(self.path.open("rb"))
            except _DAMAGED as error:
                raise self._unreadable(error) from None
            self._check_size(size, largest)
            yield file

    def read(self, largest: int = LARGEST) -> bytes:
        """All bytes; what ends in ``.gz`` is decompressed.

        Raises:
            FileFormatError: it is damaged, cut short, empty, or larger than ``largest``.
        """
        with self.open(largest) as file:
            try:
                content = file.read()
                if (self.inside or self.path.name).endswith(".gz"):
                    with gzip.open(io.BytesIO(content)) as packed:
                        content = packed.read(largest + 1)
            except _DAMAGED as error:
                raise self._unreadable(error) from None
        self._check_size(len(content), largest)
        if not content:
            raise FileFormatError(f"{self} is empty; it was cut short. Get it again")
        return content

    def _check_size(self, size: int, largest: int) -> None:
        if size > largest:
            raise FileFormatError(f"{self} holds more than {largest:,} bytes; expected less, as in the official file")

    def _unreadable(self, error: Exception) -> FileFormatError:
        return FileFormatError(f"{self} cannot be read ({_reason(error)}); it is damaged or cut short. Get it again")


def members(files: Sequence[Path], names: Sequence[str]) -> list[Member]:
    """The files with these names: those given, or where one ``.zip`` is given, those in it, in whatever folder.

    Raises:
        FileFormatError: the zip is damaged, or one is not in it.
    """
    if len(files) != 1 or files[0].suffix != ".zip":
        found = {name: path for name in names for path in files if path.as_posix().endswith(f"/{name}")}
        return [Member(found[name]) for name in names]
    (path,) = files
    try:
        with zipfile.ZipFile(path) as archive:
            inside = archive.namelist()
    except _DAMAGED as error:
        raise FileFormatError(f"{path} is not a whole zip ({_reason(error)}); get it again") from None
    return [Member(path, _only(path, inside, name)) for name in names]


def _only(path: Path, inside: list[str], name: str) -> str:
    for entry in inside:
        if entry == name or entry.endswith(f"/{name}"):
            return entry
    raise FileFormatError(
        f"{path} holds no {name}; expected the official archive, got {', '.join(inside[:8]) or 'none'}"
    )


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
