"""Splits in files: written as JSON (:func:`save_split`), read from JSON, .npz and CSV (:func:`split_from_file`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pointset.datasets.splits.file_readers import READERS
from pointset.datasets.splits.parts import Split, check_split
from pointset.errors import FileFormatError, SpecError
from pointset.files import replacing


def save_split(path: str | Path, split: Mapping[str, Any], *, count: int, made_by: str = "") -> None:
    """Write a split as JSON: the indices of train, val and test, the number of graphs, and how the split was made.

    The file appears whole or not at all, and is the same for the same split.

    Args:
        path: a name that ends in .json.
        split: the split.
        count: number of graphs in the whole dataset, which :func:`split_from_file` compares with.
        made_by: in words or as a call, such as ``"random_split(12000, (0.8, 0.1, 0.1), seed=0)"``.

    Raises:
        SpecError: the split is none (:func:`~pointset.datasets.splits.check_split`).
        FileFormatError: the name does not end in .json.
    """
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise FileFormatError(f"cannot write a split to {target.name}; expected a name that ends in .json")
    checked = check_split(split, count)
    lines = [f'"count": {int(count)}', f'"made_by": {json.dumps(made_by)}']
    lines += [f'"{part}": {json.dumps(indices.tolist())}' for part, indices in checked.items()]
    with replacing(target) as temporary:
        temporary.write_text("{\n  " + ",\n  ".join(lines) + "\n}\n", encoding="utf-8")


def split_from_file(path: str | Path, count: int) -> Split:
    """Read a split of ``count`` graphs.

    * .json: ``{"train": [0, 2, …], "val": […], "test": […]}``, optionally with ``"count"``, which must agree;
    * .npz: arrays train, val, test (nothing is unpickled);
    * .csv: a header with the columns ``index`` and ``split``, then rows such as ``0,train``.

    Everywhere ``valid`` and ``validation`` also mean ``val``, and a part that is missing is empty.

    Raises:
        FileFormatError: the file is not of that form, or not a split of ``count`` graphs (what
            :func:`~pointset.datasets.splits.check_split` refuses).
        OSError: there is no such file, or it cannot be read.
    """
    file = Path(path)
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise FileFormatError(f"{file.name}: cannot tell what split this is; expected a name in {', '.join(READERS)}")
    try:
        return check_split(reader(file.read_bytes(), count), count)
    except (SpecError, FileFormatError) as error:
        raise FileFormatError(f"{file.name}: {error}") from None
