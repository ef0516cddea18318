"""Files on disk: where the cache is, writing whole files or none, CSV and JSON, and locks between processes."""

from __future__ import annotations

import csv
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
        content = json.loads(path.read_text(encoding="utf-8"))
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
