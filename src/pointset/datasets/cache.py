"""Datasets as they were read, kept on disk so that the next use starts in seconds (:func:`prepared`).

A file holds a :class:`~pointset.datasets.table.GraphTable` as safetensors, named by the SHA-256 of what it was read
from. It is written beside its place and renamed when complete, and its checksum is verified when it is opened; a
damaged file is made again with a warning. What was noted while a table was made can be kept beside it
(:func:`prepared_with_notes`).
"""

from __future__ import annotations

import contextlib
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
from pointset.files import cache_folder, replacing

_NOTE = "pointset"
_VERSION = 1  # raise it when the same files would be read differently
Notes = dict[str, Any]  # plain values, for JSON
_ARRAYS = ("num_nodes", "num_edges", "edges", "y", "x", "edge_attr", "pos")


def prepared_file(name: str, *origin: object) -> Path:
    """Where a dataset is kept that was read from all this: digests, versions, settings; plain values."""
    key = hashlib.sha256(json.dumps([_VERSION, name, *origin]).encode()).hexdigest()[:32]
    return cache_folder() / "prepared" / f"{name}-{key}.safetensors"


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
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
        return self.path.read_bytes()

    @cached_property
    def sha256(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.content).hexdigest()


def prepared(path: Path, make: Callable[[], GraphTable]) -> GraphTable:
    """The table in this file; where it is not there, or damaged, it is made and kept."""
    if path.exists():
        try:
            return read_table(path)
        except PointsetError as error:
            warnings.warn(f"{error}; it is made again", StoreWarning, stacklevel=3)
    from safetensors import SafetensorError

    table = make().in_order()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, table)
    except (OSError, SafetensorError) as error:  # the latter where the disk is full
        warnings.warn(
            f"cannot keep the dataset in {path.parent} ({getattr(error, 'strerror', None) or error}), so every use "
            "reads it anew. Choose another folder with the environment variable POINTSET_CACHE",
            StoreWarning,
            stacklevel=3,
        )
    return table


def write_table(path: Path, table: GraphTable) -> None:
    """Write a table whole or not at all."""
    from safetensors.numpy import save_file

    arrays = {name: getattr(table, name) for name in _ARRAYS if getattr(table, name) is not None}
    arrays |= {f"split.{name}": indices for name, indices in table.split.items()}
    if table.smiles is not None:
        arrays["smiles"] = np.frombuffer("\n".join(table.smiles).encode(), dtype=np.uint8)  # GraphTable checked them
    arrays = {name: _narrow(array) for name, array in arrays.items()}
    # One entry: safetensors writes several in an order that changes from run to run, and equal data has equal bytes.
    note = json.dumps({"y_of_nodes": table.y_of_nodes, "sha256": _digest(arrays)})
    with replacing(path) as temporary:
        save_file(arrays, temporary, metadata={_NOTE: note})


def read_table(path: Path) -> GraphTable:
    """Read what :func:`write_table` wrote.

    Raises:
        PointsetError: the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            note = json.loads(file.metadata()[_NOTE])
        if note["sha256"] != _digest(arrays):
            raise PointsetError(f"{path} does not match its checksum")
        text = arrays.pop("smiles", None)
        split = {
            name.removeprefix("split."): arrays.pop(name).astype(np.int64)
            for name in list(arrays)
            if name.startswith("split.")
        }
        return GraphTable(
            **arrays,
            y_of_nodes=bool(note["y_of_nodes"]),
            split={name: split[name] for name in sorted(split, key=_part_order)},
            smiles=None if text is None else text.tobytes().decode().split("\n") if len(arrays["num_nodes"]) else [],
        )
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise PointsetError(f"{path} is damaged ({error})") from None


def _part_order(name: str) -> tuple[int, str]:
    return (PARTS.index(name) if name in PARTS else len(PARTS), name)


def _narrow(array: Array) -> Array:
    """Whole numbers in the smallest type that holds them: a quarter of the size, and read that much faster."""
    if array.dtype.kind in "iu" and array.size:
        kind = np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
        array = array.astype(kind) if kind.kind in "iu" else array
    return np.ascontiguousarray(array)


def _digest(arrays: dict[str, Array]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data)
    return digest.hexdigest()


def prepared_with_notes(path: Path, make: Callable[[], tuple[GraphTable, Notes]]) -> tuple[GraphTable, Notes]:
    """The table in this file with the notes beside it; where they are not there, or damaged, they are made and kept.

    The notes are JSON under a line with their SHA-256, written before the table: where there is a whole table there
    are whole notes, and where either is damaged both are made again.

    Args:
        path: of the table, ending in ``.safetensors``.
        make: gives the table and notes of plain values with a key ``rows``, a list with an entry for each graph.
    """
    beside = path.with_suffix(".json")
    notes = _read_notes(beside) if path.exists() else None
    if notes is None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    made: list[Notes] = []

    def make_both() -> GraphTable:
        table, new = make()
        made.append(new)
        with contextlib.suppress(OSError):  # where nothing can be kept, ``prepared`` says so
            beside.parent.mkdir(parents=True, exist_ok=True)
            _write_notes(beside, new)
        return table

    table = prepared(path, make_both)
    if made:
        return table, made[0]
    if notes is None or len(notes["rows"]) != len(table):  # a folder that can only be read
        return make()
    return table, notes


def _write_notes(path: Path, notes: Notes) -> None:
    text = json.dumps(notes, ensure_ascii=True, separators=(",", ":"))
    with replacing(path) as temporary:
        temporary.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}", encoding="ascii")


def _read_notes(path: Path) -> Notes | None:
    try:
        digest, _, text = path.read_text(encoding="ascii").partition("\n")
        notes = json.loads(text) if hashlib.sha256(text.encode()).hexdigest() == digest else None
    except (OSError, ValueError):
        return None
    return notes if isinstance(notes, dict) else None
