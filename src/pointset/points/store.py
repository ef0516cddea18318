"""Eigenpairs on disk, so that the same graphs are never solved twice.

An entry is a folder named by the SHA-256 of what the eigenpairs depend on: the graphs' edges and weights, the matrix,
the rank, which end of the spectrum and the version of this code's numerics. It is written beside its place and renamed
when complete, so a reader never sees half an entry and of two writers one simply comes second. Every file's checksum is
verified when the entry is opened; a damaged entry is put aside with a warning and computed again. Reading is by memory
mapping.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.errors import PointsetError, StoreWarning
from pointset.files import cache_folder, open_binary, read_text
from pointset.points.graphs import GraphArrays
from pointset.points.matrices import DEFAULT_MATRIX, matrix_named
from pointset.points.point_set import Eigenpairs
from pointset.points.solve import Solved, solve_in_order
from pointset.points.spectra import DEFAULT_WHICH, Which

_VERSION = 2  # of the layout and of the numerics: raise it when eigenpairs of the same graph would come out differently
_DESCRIPTION = "entry.json"
_FILES = {"index": "index.i64", "errors": "errors.f64", "values": "values.f64", "vectors": "vectors.f64"}
_ATTEMPTS = 2  # to open or write, where another process discards a damaged entry at the same moment
_ABANDONED_AFTER_SECONDS = 24 * 3600


class PointStore:
    """A folder of eigenpairs, keyed by content. Safe with several readers and writers at once."""

    def __init__(self, folder: str | Path | None = None):
        self.folder = Path(folder) if folder is not None else cache_folder()

    def __repr__(self) -> str:
        return f"PointStore({str(self.folder)!r})"

    def eigenpairs(
        self,
        graphs: GraphArrays,
        *,
        matrix: str = DEFAULT_MATRIX,
        rank: int | None = None,
        which: Which = DEFAULT_WHICH,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> Eigenpairs:
        """The eigenpairs of these graphs, from disk where they are there, computed and kept otherwise."""
        entry = self.folder / self.key(graphs, matrix=matrix, rank=rank, which=which)
        for _ in range(_ATTEMPTS):
            found = self._open(entry, len(graphs))
            if found is not None:
                return found
            self._write(entry, graphs, matrix, rank, which, workers, progress)
        found = self._open(entry, len(graphs))
        if found is None:
            raise PointsetError(f"the eigenpairs just written to {entry} cannot be read back; check the disk")
        return found

    def key(
        self,
        graphs: GraphArrays,
        *,
        matrix: str = DEFAULT_MATRIX,
        rank: int | None = None,
        which: Which = DEFAULT_WHICH,
    ) -> str:
        """The name of the entry that holds the eigenpairs of these graphs."""
        kept = None if rank is None else int(rank)
        sizes = [len(graphs), graphs.edges.shape[1], graphs.weights is not None]
        digest = hashlib.sha256(json.dumps([_VERSION, matrix_named(matrix).name, kept, which, *sizes]).encode())
        for array in (graphs.num_nodes, graphs.num_edges, graphs.edges):
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
        if graphs.weights is not None:
            digest.update(np.ascontiguousarray(graphs.weights, dtype="<f8").data)
        return digest.hexdigest()

    def _open(self, entry: Path, count: int) -> Eigenpairs | None:
        if not entry.exists():
            return None
        try:
            return _read_entry(entry, count)
        except FileNotFoundError:
            if not entry.exists():  # another process put it aside between the two looks
                return None
            reason = "a file is missing"
        except OSError as error:  # the disk or the system, not the entry
            raise PointsetError(f"cannot read the eigenpairs in {entry}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            reason = str(error)
        warnings.warn(
            f"the eigenpairs in {entry} are damaged ({reason}); they are put aside and computed again",
            StoreWarning,
            stacklevel=4,
        )
        _discard(entry, count)
        return None

    def _write(
        self,
        entry: Path,
        graphs: GraphArrays,
        matrix: str,
        rank: int | None,
        which: Which,
        workers: int | None,
        progress: bool | None,
    ) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_abandoned()
            temporary = Path(tempfile.mkdtemp(prefix=f".{entry.name[:16]}.", suffix=".writing", dir=self.folder))
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            # closing: a failed write must end the solver now, and give back its setting of threads
            with closing(
                solve_in_order(graphs, matrix_named(matrix), rank, which, workers=workers, progress=progress)
            ) as solved:
                _write_files(temporary, graphs, solved)
            temporary.rename(entry)
        except OSError as error:
            if not entry.exists():  # otherwise another writer came first with the same content
                raise self._unwritable(error) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _unwritable(self, error: OSError) -> PointsetError:
        return PointsetError(
            f"cannot write eigenpairs to {self.folder}: {error.strerror}. Choose another folder with store=… or the "
            "environment variable POINTSET_CACHE"
        )

    def _remove_abandoned(self) -> None:
        """Folders that a killed process left behind."""
        for left in (*self.folder.glob(".*.writing"), *self.folder.glob(".*.damaged")):
            try:
                if time.time() - left.stat().st_mtime > _ABANDONED_AFTER_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
            except OSError:  # gone already
                continue


def _write_files(folder: Path, graphs: GraphArrays, solved: Iterable[Solved]) -> None:
    parts: list[Solved] = []
    with _HashedFile(folder / _FILES["values"]) as values, _HashedFile(folder / _FILES["vectors"]) as vectors:
        for part in solved:
            values.write(part.values)
            vectors.write(part.vectors)
            parts.append(part._replace(values=np.zeros(0), vectors=np.zeros(0)))
    pairs = Eigenpairs.assembled(graphs.num_nodes, parts, np.zeros(0), np.zeros(0))
    with _HashedFile(folder / _FILES["index"]) as index, _HashedFile(folder / _FILES["errors"]) as errors:
        for integers in (pairs.ranks, pairs.value_start, pairs.vector_start):
            index.write(integers)
        for floats in (pairs.spectral_error, pairs.frobenius_error, pairs.residual):
            errors.write(floats)
    files = {
        name: {"bytes": file.size, "sha256": file.digest.hexdigest()}
        for name, file in (("values", values), ("vectors", vectors), ("index", index), ("errors", errors))
    }
    content = {"version": _VERSION, "graphs": len(graphs), "files": files}
    description = {**content, "sha256": _digest_of(content)}
    with (folder / _DESCRIPTION).open("w") as file:
        json.dump(description, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _read_entry(entry: Path, count: int) -> Eigenpairs:
    description = json.loads(read_text(entry / _DESCRIPTION))
    claimed = description.pop("sha256")
    if claimed != _digest_of(description):
        raise ValueError(f"{_DESCRIPTION} does not match its checksum")
    if description["version"] != _VERSION or description["graphs"] != count:
        raise ValueError(f"it describes {description['graphs']} graphs in version {description['version']}")
    for name, expected in description["files"].items():
        path = entry / _FILES[name]
        if path.stat().st_size != expected["bytes"]:
            raise ValueError(f"{path.name} has {path.stat().st_size} bytes instead of {expected['bytes']}")
        with open_binary(path) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != expected["sha256"]:
                raise ValueError(f"{path.name} does not match its checksum")
    ranks, value_start, vector_start = np.fromfile(entry / _FILES["index"], "<i8").reshape(3, count)
    spectral_error, frobenius_error, residual = np.fromfile(entry / _FILES["errors"], "<f8").reshape(3, count)
    values, vectors = (_mapped(entry / _FILES[name], "<f8") for name in ("values", "vectors"))
    return Eigenpairs(ranks, value_start, vector_start, spectral_error, frobenius_error, residual, values, vectors)


def _mapped(path: Path, dtype: str) -> NDArray[Any]:
    if path.stat().st_size == 0:  # nothing to map, and the system refuses to
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r")


def _discard(entry: Path, count: int) -> None:
    """Rename first: the rename is atomic, so two processes that notice the damage do not trip over each other.

    What was renamed is looked at once more: between the two steps another process may have repaired the entry.
    """
    aside = Path(tempfile.mkdtemp(prefix=f".{entry.name[:16]}.", suffix=".damaged", dir=entry.parent))
    with suppress(OSError, ValueError, KeyError, TypeError):  # gone already, or damaged indeed
        entry.rename(aside / "entry")
        _read_entry(aside / "entry", count)
        (aside / "entry").rename(entry)
    shutil.rmtree(aside, ignore_errors=True)


def _digest_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class _HashedFile:
    """A file of little-endian numbers that is hashed as it is written and on the disk when closed."""

    def __init__(self, path: Path):
        self.size = 0
        self.digest = hashlib.sha256()
        self._file = path.open("wb")

    def __enter__(self) -> _HashedFile:
        return self

    def write(self, array: NDArray[Any]) -> None:
        content = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self._file.write(content.data)
        self.digest.update(content.data)
        self.size += content.nbytes

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
