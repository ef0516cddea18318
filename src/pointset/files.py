"""Where files are kept, and writing that leaves either the old file or the whole new one, never a half."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pointset.errors import FileFormatError


def cache_folder() -> Path:
    """Where downloads, prepared datasets and eigenpairs are kept: ``$POINTSET_CACHE``, or in the user's cache."""
    if chosen := os.environ.get("POINTSET_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pointset"


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
        yield temporary
        _flush_to_disk(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def csv_lines(rows: Iterable[Iterable[object]], delimiter: str = ",") -> Iterator[str]:
    """The rows as CSV, each with a line feed at its end.

    ``csv.writer`` quotes only those ends of lines that it writes itself: with a line feed as its end, a carriage return
    inside of a cell would go out bare, and be the end of a line for whoever reads it.
    """
    for row in rows:
        line = io.StringIO(newline="")
        csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(row)
        yield line.getvalue().removesuffix("\r\n") + "\n"


def try_lock(file: IO[Any]) -> bool:
    """Whether this process now holds an open file: until it is closed, or the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows, where nobody is kept out
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# JSON files of a run: written whole or not at all, and read with a word on what is wrong.


def write_json(path: Path, content: Any) -> None:
    """For programs and people; :func:`finite` numbers only."""
    with replacing(path) as temporary:
        text = json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A file that :func:`write_json` wrote.

    Raises:
        FileFormatError: it is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged ({error})") from None
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} is damaged; expected an object")
    return content


def finite(content: Any) -> Any:
    """The same with None for NaN and ±∞, scores of a model that diverged, which JSON does not have."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
