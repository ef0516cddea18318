"""Reading official files, alone or inside a zip; what is wrong in one is a :class:`FileFormatError` that names it.

:class:`DataFile` opens a file wherever it lies, :func:`read_columns` and :func:`read_numbers` read its text, and
:func:`as_array`, :func:`as_features` and the ``expect_…`` functions check that arrays are what a card promises.
"""

from __future__ import annotations

import csv
import gzip
import io
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from pointset.arrays import Array
from pointset.errors import FileFormatError
from pointset.files import open_binary
from pointset.specs import Categories, Reals

LARGEST = 1 << 30  # bytes; far above the official text files, far below what would fill the memory
_DAMAGED = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class DataFile:
    """A file, or a file inside a zip; ``str`` of it is its place, for messages."""

    path: Path
    inside: str = ""  # its name in the zip

    def __str__(self) -> str:
        return f"{self.path} ({self.inside})" if self.inside else str(self.path)

    def size(self) -> int:
        """Bytes, once unpacked from the zip."""
        if not self.inside:
            return self.path.stat().st_size
        with open_binary(self.path) as file, zipfile.ZipFile(file) as archive:
            return archive.getinfo(self.inside).file_size  # zipfile never gives more bytes than it states

    @contextmanager
    def open(self, largest: int = LARGEST) -> Iterator[IO[bytes]]:
        """The bytes as they are stored, one after the other."""
        with ExitStack() as opened:
            try:
                size = self.size()
                if self.inside:
                    archive = opened.enter_context(zipfile.ZipFile(opened.enter_context(open_binary(self.path))))
                    file = opened.enter_context(archive.open(self.inside))
                else:
                    file = opened.enter_context(open_binary(self.path))
            except _DAMAGED as error:
                raise self._unreadable(error) from None
            self._check_size(size, largest)
            yield file

    def read(self, largest: int = LARGEST) -> bytes:
        """All bytes; what ends in ``.gz`` is decompressed."""
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


def find_files(files: Sequence[Path], names: Sequence[str]) -> list[DataFile]:
    """The files with these names: those given, or where one ``.zip`` is given, those in it, in whatever folder."""
    if len(files) != 1 or files[0].suffix != ".zip":
        found = {name: path for name in names for path in files if path.as_posix().endswith(f"/{name}")}
        return [DataFile(found[name]) for name in names]
    (path,) = files
    try:
        with open_binary(path) as file, zipfile.ZipFile(file) as archive:
            inside = archive.namelist()
    except _DAMAGED as error:
        raise FileFormatError(f"{path} is not a whole zip ({_reason(error)}); get it again") from None
    entries = {name: entry for name in names for entry in reversed(inside) if f"/{entry}".endswith(f"/{name}")}
    if absent := [name for name in names if name not in entries]:
        raise FileFormatError(
            f"{path} holds no {absent[0]}; expected the official archive, got {', '.join(inside[:8]) or 'none'}"
        )
    return [DataFile(path, entries[name]) for name in names]


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def read_columns(file: DataFile, names: Sequence[str]) -> list[list[str]]:
    """The cells of these columns of a CSV with a header, as text."""
    try:
        text = file.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{file} is not UTF-8 text (byte {error.start}); get it again") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(lines)
        if wrong := [name for name in names if header.count(name) != 1]:
            raise FileFormatError(
                f"{file} has the columns {', '.join(header)[:200]}; expected {', '.join(wrong)}, each once"
            )
        rows = []
        for row in lines:
            if len(row) != len(header):
                raise FileFormatError(
                    f"{file}, line {lines.line_num}: got {len(row)} cells; expected {len(header)}, as in the header"
                )
            rows.append(row)
    except (csv.Error, StopIteration) as error:
        raise FileFormatError(f"{file}, line {lines.line_num}: not valid CSV ({error}); get it again") from None
    if not rows:
        raise FileFormatError(f"{file} has a header and no rows; it was cut short. Get it again")
    places = [header.index(name) for name in names]
    return [[row[place] for row in rows] for place in places]


def read_numbers(file: DataFile, columns: int, *, rows: int | None = None) -> Array:
    """(rows, columns) int64: text in which each line holds the same number of whole numbers, separated by commas."""
    content = file.read()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns of 1.5 read as a whole number, and of a file of blank lines
            numbers = np.loadtxt(io.BytesIO(content), np.int64, comments=None, delimiter=",", ndmin=2, encoding="utf-8")
    except (ValueError, OverflowError, Warning):
        numbers = np.empty((0, 0), dtype=np.int64)
    if numbers.shape[1] != columns:
        _refuse_line(file, content, columns)
    if rows is not None and len(numbers) != rows:
        raise FileFormatError(
            f"{file} has {len(numbers):,} lines; expected {rows:,}, as in the other files. It is cut short, or from "
            "another dataset"
        )
    return numbers


def read_features(file: DataFile, spec: Categories, rows: int) -> Array:
    """(rows, columns) categories as :func:`read_numbers` reads them, checked."""
    return as_features(file, read_numbers(file, spec.width, rows=rows), spec)


def _refuse_line(file: DataFile, content: bytes, columns: int) -> NoReturn:
    """Find the line that is wrong; only now is each looked at."""
    what = f"{columns} whole numbers on each line, separated by commas"
    for number, line in enumerate(content.splitlines(), start=1):
        cells = line.split(b",")
        if line.strip() and (len(cells) != columns or not all(map(_is_whole, cells))):
            shown = line[:60].decode("utf-8", "backslashreplace")
            raise FileFormatError(f"{file}, line {number}: got {shown!r}; expected {what}")
    raise FileFormatError(f"{file} holds no numbers; expected {what}")


def _is_whole(cell: bytes) -> bool:
    try:
        return abs(int(cell)) < 2**63
    except ValueError:
        return False


def as_array(place: str, value: Any) -> Array:
    """A tensor, an array or a list of numbers, out of a pickle, as an array."""
    storage = getattr(value, "untyped_storage", None)
    if storage is not None and value.nbytes > storage().nbytes():  # a few bytes, repeated to fill the memory
        raise FileFormatError(f"{place}: {kind_of(value)} claims more numbers than the file holds")
    if isinstance(value, list | tuple) and any(isinstance(one, list | tuple) for one in value):  # maybe endlessly many
        raise FileFormatError(f"{place}: got lists inside a {kind_of(value)}; expected numbers")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, sparse tensors
        raise FileFormatError(f"{place}: got {kind_of(value)}; expected numbers ({error})") from None
    if array.dtype.kind not in "iufb":
        raise FileFormatError(f"{place}: got {kind_of(value)}; expected numbers")
    return array


def kind_of(value: Any) -> str:
    """``tuple of 3`` or ``Tensor (5, 14)``, for messages."""
    if isinstance(value, list | tuple | dict):
        return f"{type(value).__name__} of {len(value)}"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {tuple(shape)}"


def expect_shape(place: object, name: str, array: Array, *shape: int | None) -> None:
    """Refuse an array of another shape; None leaves a size open."""
    if array.shape == shape:
        return
    if array.ndim != len(shape) or any(size not in (None, got) for size, got in zip(shape, array.shape, strict=True)):
        expected = str(shape).replace("None", "any")
        raise FileFormatError(f"{place}: {name} has shape {array.shape}; expected {expected}")


def expect_whole(place: object, name: str, array: Array, *shape: int | None) -> Array:
    """The array, if it holds whole numbers from 0 on and has this shape; None leaves a size open."""
    expect_shape(place, name, array, *shape)
    if array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise FileFormatError(f"{place}: {name} is not of whole numbers from 0 on (it is of type {array.dtype})")
    return array


def expect_real(place: object, name: str, array: Array, *shape: int | None) -> Array:
    """The array, if it holds finite real numbers and has this shape; None leaves a size open."""
    expect_shape(place, name, array, *shape)
    if array.dtype.kind != "f":
        raise FileFormatError(f"{place}: {name} is of type {array.dtype}; expected real numbers")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise FileFormatError(f"{place}: {name} holds NaN or infinity in row {row}; expected finite numbers")
    return array


def as_features(place: object, values: Array, spec: Categories | Reals) -> Array:
    """(rows, columns) int64 for categories, float32 for reals; rows are counted from 1 in messages."""
    if isinstance(spec, Reals):
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            real = values.astype(np.float32)
        if not np.isfinite(real).all():
            row = int(np.argwhere(~np.isfinite(real))[0, 0])
            raise FileFormatError(f"{place}, row {row + 1} holds NaN or infinity; expected finite numbers")
        return real
    if values.dtype.kind not in "iu":
        raise FileFormatError(f"{place} is of type {values.dtype}; expected whole numbers")
    wrong = (values < 0) | (values >= np.array(spec.sizes))
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise FileFormatError(
            f"{place}, row {row + 1}: column {column + 1} holds {values[row, column]}; expected a category from 0 to "
            f"{spec.sizes[column] - 1}"
        )
    return values.astype(np.int64)
