"""The files of a bundle, in a folder or in one ``.zip``: written whole or not at all, read with bounds.

What is read may come from anyone: no size that a file claims is believed before it is held against what is there.
The name of a model that the package ships (:mod:`pointset.models`) stands for its file where no path is called so.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from pointset import models
from pointset.errors import FileFormatError, MissingDataError
from pointset.files import check_regular, naming, open_binary, read_bytes, replacing
from pointset.machine import check_fits

DESCRIPTION = "bundle.json"
WEIGHTS = "model.safetensors"
UNCERTAINTY = "uncertainty.safetensors"
MOST_DESCRIPTION_BYTES = 16 * 2**20
MOST_WEIGHTS_BYTES = 16 * 2**30
MOST_UNCERTAINTY_BYTES = 2**30
_MOST_COMPRESSION = 100  # weights hardly shrink; what grows more than this when unpacked is a trap
_MOST_UNBOUNDED = MOST_DESCRIPTION_BYTES  # what is smaller may shrink by any factor, and is deflated when it is written
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # equal bundles are equal files
_Source = Path | zipfile.ZipFile
Content = TypeVar("Content")


def _is_archive(path: Path) -> bool:
    """By its name; everything else is a folder."""
    return path.suffix.lower() == ".zip"


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder or a ``.zip`` with these files; an existing bundle is replaced, anything else is refused."""
    if not path.parent.is_dir():
        raise FileFormatError(f"cannot write {path}: there is no folder {path.parent}. Create it first")
    if _is_archive(path):
        if path.is_dir():
            raise FileFormatError(f"cannot write {path}: it is a folder; expected a file, or a name without .zip")
        with replacing(path) as temporary:
            _write_archive(temporary, files)
    else:
        _write_folder(path, files)


def _write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Small files are deflated, as fingerprints shrink to a fraction; large ones are weights, which hardly do."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            how = zipfile.ZIP_DEFLATED if len(content) <= _MOST_UNBOUNDED else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name, _ZIP_DATE), content, how, compresslevel=9)


def _write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    there = path.exists()
    if there and not (path.is_dir() and (not any(path.iterdir()) or (path / DESCRIPTION).is_file())):
        raise FileFormatError(f"cannot write a bundle to {path}: something else is there. Choose another name")
    outer = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        new, old = outer / "new", outer / "old"
        new.mkdir()
        with naming(path):
            for name, content in files.items():
                _write_file(new / name, content)
        if there:
            path.rename(old)
        try:
            new.rename(path)
        except OSError:
            if there:
                old.rename(path)
            raise
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _write_file(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


class BundleFiles:
    """A bundle's files, found at a path: the bundle's folder, a run's folder, or a ``.zip``."""

    def __init__(self, path: str | Path, held: Mapping[str, bytes] | None = None):
        """``held`` are the files' contents where they were read already, on this or on another machine."""
        self.path = find_bundle(Path(path)) if held is None else Path(path)
        self._held: dict[str, bytes] | None = None if held is None else dict(held)

    def hold(self) -> Mapping[str, bytes]:
        """Read every file once, also those that a bundle does not have; from here on :meth:`read` gives these bytes.

        What is checked of them holds for what is loaded, whatever happens to the files meanwhile.
        """
        if self._held is None:
            self._held = self._from_disk(self._all)
        return self._held

    def read(self, name: str, most_bytes: int) -> bytes:
        """The content of one file of the bundle."""
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            raise FileFormatError(f"{self.path} names the file {name[:80]!r}; expected a file of the bundle itself")
        if self._held is None:
            return self._from_disk(partial(self._one, name, most_bytes), name)
        if name not in self._held:
            raise self._incomplete(name)
        self._check_size(name, len(self._held[name]), most_bytes)
        return self._held[name]

    def write(self, name: str, content: bytes) -> None:
        """Add a file to the bundle, or replace it. In a ``.zip`` the files that are held are written again with it."""
        if _is_archive(self.path):
            write_files(self.path, {**self.hold(), name: content})
        else:
            with replacing(self.path / name) as temporary:
                temporary.write_bytes(content)

    def _from_disk(self, read: Callable[[_Source], Content], name: str = "") -> Content:
        """What is read of the folder or of the archive, which is opened once; damage is one kind of error."""
        try:
            if not _is_archive(self.path):
                return read(self.path)
            with open_binary(self.path) as packed, zipfile.ZipFile(packed) as archive:
                return read(archive)
        except OSError as error:
            what = f"{name} " if name else ""
            raise FileFormatError(f"{self.path}: {what}cannot be read ({error.strerror or error})") from None
        except _DAMAGED as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(
                f"{self.path} is not a readable zip archive ({error}); it is damaged or cut short. Copy it again"
            ) from None

    def _one(self, name: str, most_bytes: int, source: _Source) -> bytes:
        if isinstance(source, Path):
            check_regular(source / name)
            if not (source / name).is_file():
                raise self._incomplete(name)
            return self._in_folder(source / name, most_bytes)
        # a folder that was zipped by hand holds folder/bundle.json
        found = [entry for entry in source.infolist() if _base_name(entry) == name]
        if len(found) != 1:
            raise FileFormatError(
                f"{self.path} holds {name} {len(found)} times; expected a bundle with it once. Zip a bundle's "
                "folder, or write one with pointset.training.bundle.write_bundle"
            )
        return self._in_archive(source, found[0], most_bytes)

    def _all(self, source: _Source) -> dict[str, bytes]:
        """Every file; a folder inside is refused, as are two of the same name."""
        left, found = MOST_WEIGHTS_BYTES, dict[str, bytes]()
        entries: Sequence[Path | zipfile.ZipInfo]
        if isinstance(source, Path):
            entries = sorted(source.iterdir())
        else:
            entries = [entry for entry in source.infolist() if not entry.is_dir()]
        for entry in entries:
            name = entry.name if isinstance(entry, Path) else _base_name(entry)
            if name in found or not name.isprintable() or (isinstance(entry, Path) and entry.is_dir()):
                raise FileFormatError(
                    f"{self.path} holds {name[:80]!r}, which is a folder, is there twice or has a strange name; "
                    "expected the files of a bundle. Remove it"
                )
            if isinstance(entry, Path):
                found[name] = self._in_folder(entry, left)
            else:
                found[name] = self._in_archive(cast(zipfile.ZipFile, source), entry, left)
            left -= len(found[name])
        return found

    def _in_folder(self, file: Path, most_bytes: int) -> bytes:
        self._check_size(file.name, file.stat().st_size, most_bytes)
        content = read_bytes(file, most_bytes + 1)
        self._check_size(file.name, len(content), most_bytes)  # it may have grown
        return content

    def _in_archive(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most_bytes: int) -> bytes:
        name = _base_name(entry)
        self._check_size(name, entry.file_size, most_bytes)
        if entry.file_size > max(_MOST_COMPRESSION * entry.compress_size, _MOST_UNBOUNDED):
            raise FileFormatError(f"{self.path}: {name} would unpack to {entry.file_size:,} bytes; refused")
        if entry.compress_type not in _PACKED:
            raise FileFormatError(
                f"{self.path}: {name} is packed by method {entry.compress_type}; expected it stored or deflated. The "
                "archive is damaged, or was packed by another program: zip the bundle's folder again"
            )
        with archive.open(entry) as file:
            return file.read(entry.file_size + 1)  # no more than it claims, whatever it holds

    def _incomplete(self, name: str) -> FileFormatError:
        return FileFormatError(f"{self.path} is not a whole bundle: {name} is missing. Copy the whole bundle again")

    def _check_size(self, name: str, size: int, most_bytes: int) -> None:
        if size > most_bytes:
            raise FileFormatError(f"{self.path}: {name} has {size:,} bytes; expected at most {most_bytes:,}")
        check_fits(2 * size, f"loading {self.path} needs", "Load it on a larger machine")


def _base_name(entry: zipfile.ZipInfo) -> str:
    return entry.filename.rpartition("/")[2]


def find_bundle(path: Path) -> Path:
    """The folder or file of the bundle that this path means; where there is no such path, the shipped model."""
    shipped = models.find(str(path))
    if not path.exists():
        if shipped is not None:
            return shipped
        raise MissingDataError(
            f"there is no {path}; expected the folder of a run, a bundle (a folder or .zip), or the name of a shipped "
            f"model{models.near(str(path))}\n`pointset models` lists those that are shipped"
        )
    check_regular(path)
    comes_first = "" if shipped is None else f"\nIt comes before the shipped model of this name, which is {shipped}"
    if path.is_file():
        if not zipfile.is_zipfile(path):
            raise FileFormatError(
                f"{path} is not a bundle: expected the folder of a run, a bundle's folder or its .zip{comes_first}"
            )
        return path
    for folder in (path, path / "bundle"):
        if (folder / DESCRIPTION).is_file():
            return folder
    runs = sorted(one.parent.parent.name for one in path.glob(f"*/bundle/{DESCRIPTION}"))
    if runs:
        raise FileFormatError(
            f"{path} holds several runs: {', '.join(runs[:10])}{', …' if len(runs) > 10 else ''}. Choose one of them, "
            f"such as {path / runs[0]}"
        )
    if (path / "recipe.yaml").is_file():
        raise FileFormatError(
            f"the run in {path} has no bundle: it is not finished. Resume it first: pointset train --resume "
            f"--run-dir {path}"
        )
    raise FileFormatError(
        f"the folder {path} holds no bundle: expected {DESCRIPTION} and {WEIGHTS} in it, or in its folder bundle, "
        f"where pointset train puts them{comes_first}"
    )
