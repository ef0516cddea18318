"""A file from its official address into the cache, checked, whole or not at all (:func:`fetch`)."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from pointset.datasets.sources import Download
from pointset.errors import MissingDataError
from pointset.files import replacing
from pointset.progress import progress_bar

_BLOCK = 1 << 20
_TIMEOUT_SECONDS = 30


def fetch(download: Download, folder: Path, *, show: bool | None = None) -> Path:
    """Download a file unless it is there already.

    Raises:
        MissingDataError: there is no connection, the file is cut short, or it is not the one that was published.
    """
    target = folder / download.file
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            _transfer(download, temporary, show)
    except MissingDataError:
        raise
    except urllib.error.HTTPError as error:
        raise MissingDataError(f"{download.url} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise MissingDataError(f"no connection to {download.url} ({error.reason})") from None
    except (OSError, HTTPException, ValueError) as error:  # time-outs, broken connections and answers among them
        raise MissingDataError(f"cannot save {download.url} as {target} ({error})") from None
    return target


def _transfer(download: Download, path: Path, show: bool | None) -> None:
    request = urllib.request.Request(download.url, headers={"User-Agent": "pointset"})  # noqa: S310 - from the catalogue
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer, path.open("wb") as file:  # noqa: S310
        length = answer.headers.get("Content-Length") or ""
        expected, received = int(length) if length.isdecimal() else 0, 0
        with progress_bar(f"Downloading {download.file}", expected or None, show=show) as advance:
            while block := answer.read(_BLOCK):
                for target in (sha256, md5):
                    target.update(block)
                file.write(block)
                received += len(block)
                advance(len(block))
    _check_kind(download, path)
    if expected and received != expected:
        raise MissingDataError(f"{download.url} was cut short: {received:,} of {expected:,} bytes came. Try again")
    for name, stated, got in (("SHA-256", download.sha256, sha256.hexdigest()), ("MD5", download.md5, md5.hexdigest())):
        if stated and stated != got:
            raise MissingDataError(
                f"{download.url} is not the file that was published: its {name} is {got}, expected {stated}. It was "
                "not kept"
            )


def _check_kind(download: Download, path: Path) -> None:
    """A page that says "log in" or "moved" is no archive."""
    with path.open("rb") as file:
        start = file.read(2)
    expected = {".zip": b"PK", ".gz": b"\x1f\x8b"}.get(Path(download.file).suffix, start)
    if not start or start != expected:
        raise MissingDataError(
            f"{download.url} gave no {Path(download.file).suffix or 'file'}, but {start!r}…; it was not kept"
        )
