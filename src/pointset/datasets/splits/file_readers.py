"""The bytes of a split file → index lists by part, not yet checked; one reader for each format (:data:`READERS`).

A reader refuses what is not of its format, and names that could be misspelt parts.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from pointset.datasets.npz import DAMAGED
from pointset.datasets.splits.parts import EXPECTED_WORDS, PARTS, part_of
from pointset.errors import FileFormatError, did_you_mean

Parts = dict[str, Any]
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def _from_json(content: bytes, count: int) -> Parts:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        name, times = Counter(name for name, _ in pairs).most_common(1)[0] if pairs else ("", 0)
        if times > 1:
            raise FileFormatError(f"the name {name[:80]!r} stands there {times} times; expected each part once")
        return dict(pairs)

    text = _decoded(content)
    try:
        fields = json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise FileFormatError("the JSON is nested too deeply; expected lists of whole numbers by part") from None
    except FileFormatError:
        raise
    except ValueError as error:  # also numbers of thousands of digits
        raise FileFormatError(f"not valid JSON, or cut short ({str(error)[:120]})") from None
    if not isinstance(fields, dict):
        raise FileFormatError(f"the JSON is a {type(fields).__name__}; expected {{'train': […], 'val': […], …}}")
    if "count" in fields and fields["count"] != count:
        raise FileFormatError(
            f"the split is of {str(fields['count'])[:40]} graphs; expected {count}. It was made for another dataset, "
            "or for another version of this one"
        )
    parts = {name: value for name, value in fields.items() if isinstance(value, list) or part_of(name)}
    for name, value in parts.items():
        if not isinstance(value, list):
            raise FileFormatError(f"{name!r} is a {type(value).__name__}; expected a list of whole numbers")
        wrong = next((item for item in value if type(item) is not int), None)
        if wrong is not None:
            raise FileFormatError(f"{name!r} holds {str(wrong)[:40]!r}; expected whole numbers")
    return _known_parts(parts)


def _from_npz(content: bytes, _count: int) -> Parts:
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise FileFormatError("a single array; expected an .npz file with the arrays train, val, test")
        with loaded as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileFormatError:
        raise
    except DAMAGED as error:
        raise FileFormatError(
            f"not a whole .npz file of plain arrays ({str(error)[:120]}). Write it anew with numpy.savez(path, "
            "train=…, val=…, test=…) and integer arrays"
        ) from None
    return _known_parts({name: array for name, array in arrays.items() if np.ndim(array) or part_of(name)})


def _from_csv(content: bytes, _count: int) -> Parts:
    rows = csv.reader(io.StringIO(_decoded(content), newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        if header.count("index") != 1 or header.count("split") != 1:
            raise FileFormatError(f"the header is {','.join(header)[:80]!r}; expected one column index and one split")
        at_index, at_split = header.index("index"), header.index("split")
        parts: dict[str, list[int]] = {part: [] for part in PARTS}
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            where = f"line {rows.line_num}"
            if len(row) != len(header):
                raise FileFormatError(f"{where} has {len(row)} columns; expected {len(header)}, as in the header")
            index, word = row[at_index].strip(), row[at_split]
            part = part_of(word)
            if part is None:
                raise FileFormatError(f"{where} has the split {word[:40]!r}; expected {EXPECTED_WORDS}")
            if not _WHOLE_NUMBER.fullmatch(index):
                raise FileFormatError(f"{where} has the index {index[:40]!r}; expected a whole number")
            parts[part].append(int(index))
    except csv.Error as error:
        raise FileFormatError(f"line {rows.line_num} is not valid CSV ({error})") from None
    return parts


READERS: dict[str, Callable[[bytes, int], Parts]] = {".json": _from_json, ".npz": _from_npz, ".csv": _from_csv}


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    if not text.strip():
        raise FileFormatError("the file is empty; expected a split")
    return text


def _known_parts(parts: Parts) -> Parts:
    """Refuse lists under another name, which could be misspelt parts, and a file without any part."""
    for name in parts:
        if part_of(name) is None:
            known = did_you_mean(name, list(PARTS))
            raise FileFormatError(f"there is a list named {name[:80]!r}; expected {EXPECTED_WORDS}{known}")
    if not parts:
        raise FileFormatError(f"no part of a split in it; expected lists named {EXPECTED_WORDS}")
    return parts
