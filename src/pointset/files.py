"""Files on disk: where the cache is, opening regular files only, writing whole files or none, CSV and JSON, and locks.

Whatever file a user names is opened here (:func:`open_binary`, :func:`open_text`, :func:`read_bytes`,
:func:`read_text`, :func:`open_safetensors`): what is not a regular file is refused at once.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TextIO, cast

from pointset.errors import FileFormatError, PointsetError

_FORMULA_STARTS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # wide ones behave alike
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def cache_folder() -> Path:
    """Where downloads, prepared datasets and eigenpairs are kept: ``$POINTSET_CACHE``, or in the user's cache.

    Raises:
        PointsetError: the user has no home folder, as in a container that runs under any number.
    """
    if chosen := os.environ.get("POINTSET_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pointset"
    except RuntimeError:
        raise PointsetError("there is no home folder for a cache: name a folder in POINTSET_CACHE") from None


_KINDS = {
    stat.S_IFIFO: "a pipe (FIFO)", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip
_NONBLOCKING = getattr(os, "O_NONBLOCK", 0)  # not on Windows, whose file system has no pipes


def check_regular(path: str | Path) -> None:
    """Refuse what is neither a regular file nor a folder, links followed; what does not exist is for others to report.

    A pipe would keep its reader waiting for ever, and a device such as /dev/zero never ends.

    Raises:
        FileFormatError: it is a pipe, a socket or a device.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return
    _check_mode(path, mode)


def _check_mode(path: str | Path, mode: int) -> None:
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
        raise FileFormatError(
            f"{path} is {kind}; expected a regular file. Write what comes from it to a file first, and give that"
        )


def _open_regular(path: str, flags: int) -> int:
    """As :func:`os.open`. Nothing waits here, should a pipe take the file's place after it was looked at."""
    check_regular(path)  # before it is opened: to open a device may already do something
    handle = os.open(path, flags | _NONBLOCKING)
    try:
        _check_mode(path, os.fstat(handle).st_mode)
    except BaseException:
        os.close(handle)
        raise
    return handle


def open_binary(path: str | Path) -> io.BufferedReader:
    """Open a regular file for reading bytes.

    Raises:
        FileFormatError: it is a pipe, a socket or a device.
        OSError: it cannot be opened.
    """
    return open(path, "rb", opener=_open_regular)


def open_text(path: str | Path, *, encoding: str = "utf-8", newline: str | None = None) -> TextIO:
    """Open a regular file for reading text; see :func:`open_binary`."""
    return cast(TextIO, open(path, encoding=encoding, newline=newline, opener=_open_regular))


def read_bytes(path: str | Path, most: int = -1) -> bytes:
    """All bytes of a regular file, or the first ``most``; see :func:`open_binary`."""
    with open_binary(path) as file:
        return file.read(most)


def read_text(path: str | Path, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text of a regular file, each line ending in a line feed; see :func:`open_binary`."""
    with io.TextIOWrapper(open_binary(path), encoding=encoding, errors=errors) as file:
        return file.read()


def open_safetensors(path: str | Path, framework: str) -> Any:
    """``safetensors.safe_open`` of a regular file, to be used in a ``with`` block.

    Raises:
        FileFormatError: it is a pipe, a socket or a device.
        SafetensorError: it is not such a file, or damaged.
    """
    from safetensors import safe_open

    check_regular(path)
    return safe_open(path, framework)


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # what the system says of a file that finds no room
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Inside, an error of a full disk names this file: by itself it names none, or a temporary one.

    Raises:
        OSError: with the file's name, also in the place of safetensors' own error, which wraps the system's.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    except Exception as error:
        found = _SYSTEM_ERROR.search(str(error)) if type(error).__name__ == "SafetensorError" else None
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it is renamed onto ``path`` only if the block ends without an error."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None  # not the temporary file's name
    os.close(handle)
    temporary = Path(name)
    try:
        with naming(target):
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def csv_lines(rows: Iterable[Iterable[object]], delimiter: str = ",") -> Iterator[str]:
    """The rows as CSV, each ending in a line feed.

    ``csv.writer`` quotes only the line ending that it writes itself: with a line feed, a carriage return inside a cell
    would be written bare, and end the line for whoever reads it.
    """
    for row in rows:
        line = io.StringIO(newline="")
        csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(row)
        yield line.getvalue().removesuffix("\r\n") + "\n"


def not_a_formula(cell: str) -> str:
    """The cell behind an apostrophe where a spreadsheet would take it for a formula; numbers stay as they are."""
    return f"'{cell}" if cell.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(cell) else cell


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a table, its header first; the file appears whole or not at all."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_json(path: Path, content: Any) -> None:
    """Write JSON for programs and people; numbers that are not finite become null."""
    with replacing(path) as temporary:
        text = json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read an object that :func:`write_json` wrote.

    Raises:
        FileFormatError: the file is damaged.
    """
    try:
        content = json.loads(read_text(path))
    except FileFormatError:  # not a regular file
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged ({error})") from None
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} is damaged; expected an object")
    return content


def finite(content: Any) -> Any:
    """The same content with None for NaN and ±∞, which JSON does not have (scores of a model that diverged)."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file for this process, until it is closed or the process ends, however it ends.

    The lock is on the file itself: nothing is left behind. On Windows, others cannot read a locked file.

    Returns:
        False where another process holds it.
    """
    from filelock import lock_descriptor

    return lock_descriptor(file.fileno(), blocking=False)
