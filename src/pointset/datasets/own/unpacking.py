"""Packed files that unfold to far more than they hold ("bombs"): refused early, before they fill memory or time.

Text of molecules, numbers and structures shrinks to a third or a tenth; gzip can shrink zeros to a thousandth, Parquet
to a millionth. What unfolds to more than :data:`UNPACKED_FREE` bytes beyond :data:`MOST_UNPACKED` times its own size is
therefore no table. Whoever means it unpacks it first: a plain file is read whatever its size.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from typing import Any, BinaryIO

from pointset.errors import FileFormatError
from pointset.machine import check_fits

MOST_UNPACKED = 100  # times the size of the packed file
UNPACKED_FREE = 16 * 2**20  # bytes; small files may shrink by any factor


def unpacked(plain: BinaryIO, path: object) -> BinaryIO:
    """The content of a gzip file; reading raises FileFormatError once it unfolds to too much."""
    return io.BufferedReader(_Bounded(plain, path), 2**17)


def check_unpacked(size: int, packed: int, path: object) -> None:
    """Raise where ``packed`` bytes of a file unfold to ``size`` bytes or more, which no table does."""
    if size > UNPACKED_FREE + MOST_UNPACKED * packed:
        raise FileFormatError(
            f"{path} unfolds to {size / 2**20:,.0f} MiB or more from {packed:,} bytes; expected at most "
            f"{MOST_UNPACKED} times its size, as text and numbers shrink less. If it is meant, unpack it or write it "
            "as plain CSV, and pass that file"
        )


def check_workbook(content: bytes, path: object) -> None:
    """Raise where the parts of a workbook, which is a zip archive, unfold to too much, or to more than the memory."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:  # a part never gives more bytes than it states here
        size = sum(entry.file_size for entry in archive.infolist())
    check_unpacked(size, len(content), path)
    check_fits(2 * size, f"reading {path} needs", "Save the sheet as CSV, which is read row by row")


class _Bounded(io.RawIOBase):
    """What a gzip file unfolds to, held against what was read of the file itself."""

    def __init__(self, plain: BinaryIO, path: object):
        self._plain, self._path, self._size = plain, path, 0
        self._unpacked = gzip.GzipFile(fileobj=plain)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with memoryview(buffer) as target:
            count = self._unpacked.readinto(target)
        self._size += count
        check_unpacked(self._size, self._plain.tell(), self._path)
        return count

    def close(self) -> None:
        self._unpacked.close()
        super().close()
