"""Datasets as they were read, kept on disk so that the next use starts in seconds (:func:`prepared`).

A file holds a :class:`~pointset.datasets.table.GraphTable`, and what was noted while it was made, as safetensors, named
by the SHA-256 of what it was read from. It is written beside its place and renamed when complete, and its checksum is
verified when it is opened; a damaged file is made again with a warning.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pointset.arrays import Array
from pointset.datasets.splits.parts import PARTS
from pointset.datasets.table import GraphTable
from pointset.errors import PointsetError, StoreWarning
from pointset.files import cache_folder, open_binary, open_safetensors, read_bytes, replacing

Notes = dict[str, Any]  # plain values, for JSON
_VERSION = 1  # raise it when the same files would be read differently
_METADATA = "pointset"
_ARRAYS = ("num_nodes", "num_edges", "edges", "y", "x", "edge_attr", "pos", "lower", "upper", "weights")


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open_binary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileContent:
    """A file that is read once, and then opened like its path: rows and digest are of the same bytes."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def open(self, mode: Literal["rb"] = "rb") -> io.BufferedReader:
        """As :meth:`pathlib.Path.open`."""
        return io.BufferedReader(io.BytesIO(self.content))

    @cached_property
    def content(self) -> bytes:
        """All bytes, read on first use."""
        return read_bytes(self.path)

    @cached_property
    def sha256(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.content).hexdigest()


def prepared_file(name: str, *origin: object) -> Path:
    """Where a dataset is kept that was read from all this: digests, versions, settings; plain values."""
    key = hashlib.sha256(json.dumps([_VERSION, name, *origin]).encode()).hexdigest()[:32]
    return cache_folder() / "prepared" / f"{name}-{key}.safetensors"


def prepared(path: Path, make: Callable[[], tuple[GraphTable, Notes]]) -> tuple[GraphTable, Notes]:
    """The table and the notes in this file; where it is not there, or damaged, they are made and kept."""
    if path.exists():
        try:
            return _read(path)
        except PointsetError as error:
            warnings.warn(f"{error}; it is made again", StoreWarning, stacklevel=3)
    table, notes = make()
    table = table.in_order()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, table, notes)
    except OSError as error:
        warnings.warn(
            f"cannot keep the dataset in {path.parent} ({error.strerror or error}), so every use "
            "reads it anew. Choose another folder with the environment variable POINTSET_CACHE",
            StoreWarning,
            stacklevel=3,
        )
    return table, notes


def _write(path: Path, table: GraphTable, notes: Notes) -> None:
    from safetensors.numpy import save_file

    arrays = {name: getattr(table, name) for name in _ARRAYS if getattr(table, name) is not None}
    arrays |= {f"split.{name}": indices for name, indices in table.split.items()}
    if table.smiles is not None:
        arrays["smiles"] = np.frombuffer("\n".join(table.smiles).encode(), dtype=np.uint8)  # GraphTable checked them
    if notes:
        arrays["notes"] = np.frombuffer(json.dumps(notes).encode(), dtype=np.uint8)
    arrays = {name: _narrow(array) for name, array in arrays.items()}
    # One entry: safetensors writes several in an order that changes from run to run, and equal data has equal bytes.
    about = {"y_of_nodes": table.y_of_nodes, "split_of_nodes": table.split_of_nodes, "sha256": _digest(arrays)}
    metadata = json.dumps(about)
    with replacing(path) as temporary:
        save_file(arrays, temporary, metadata={_METADATA: metadata})


def _read(path: Path) -> tuple[GraphTable, Notes]:
    """What :func:`_write` wrote; a :class:`PointsetError` where it is damaged."""
    from safetensors import SafetensorError

    try:
        with open_safetensors(path, "numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            metadata = json.loads(file.metadata()[_METADATA])
        if metadata["sha256"] != _digest(arrays):
            raise PointsetError(f"{path} does not match its checksum")
        notes, smiles = (arrays.pop(name, None) for name in ("notes", "smiles"))
        kept = [part for part in PARTS if f"split.{part}" in arrays]
        split = {part: arrays.pop(f"split.{part}").astype(np.int64) for part in kept}
        lines = None if smiles is None else smiles.tobytes().decode().split("\n")[: len(arrays["num_nodes"])]
        flags: Any = {name: bool(metadata.get(name, False)) for name in ("y_of_nodes", "split_of_nodes")}
        table = GraphTable(**arrays, **flags, split=split, smiles=lines)
        return table, {} if notes is None else json.loads(notes.tobytes())
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise PointsetError(f"{path} is damaged ({error})") from None


def _narrow(array: Array) -> Array:
    """Whole numbers in the smallest type that holds them: a quarter of the size, and read that much faster."""
    if array.dtype.kind in "iu" and array.size:
        smallest = np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
        array = array.astype(smallest) if smallest.kind in "iu" else array
    return np.ascontiguousarray(array)


def _digest(arrays: dict[str, Array]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data)
    return digest.hexdigest()
