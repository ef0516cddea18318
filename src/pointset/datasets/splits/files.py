"""Splits as users give them: the option ``split=``, a file of JSON, .npz or CSV, or a column of a table."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.arrays import DAMAGED
from pointset.datasets.splits.parts import EXPECTED_PARTS, PARTS, Split, check_split, part_of, parts_from_codes
from pointset.datasets.splits.splitters import random_split, scaffold_split, stratified_split
from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean
from pointset.files import read_bytes, replacing

Parts = dict[str, Any]  # index lists by part, not yet checked
SplitChoice = str | Path | Sequence[float]  # a name, a file, or shares
AUTOMATIC = "auto"  # the table's own column where it has one, otherwise random
_COLUMN = "column:"
_CHOICES = ("random", "stratified", "scaffold", "column:NAME", AUTOMATIC)
_CARVED = (0.9, 0.1, 0.0)  # shares of a training part that has to give a validation part
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_SHOWN_ROWS = 5  # of those with a strange word


def split_column_of(how: SplitChoice) -> str | None:
    """The column that ``column:NAME`` names; None for all other choices."""
    return how.removeprefix(_COLUMN).strip() if isinstance(how, str) and how.startswith(_COLUMN) else None


def by_column(name: str) -> str:
    """The choice ``column:NAME``."""
    return _COLUMN + name


def split_problem(cell: str) -> str | None:
    """What is wrong with a cell of a split column; an empty cell leaves its row out of all parts."""
    if not cell.strip() or part_of(cell) is not None:
        return None
    return f"the split is {cell.strip()[:40]!r}; expected {EXPECTED_PARTS}, or nothing for a row that is not used"


def make_split(
    how: SplitChoice,
    *,
    count: int,
    seed: int,
    labels: Any = None,
    smiles: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    rejected: int = 0,
    given: Split | None = None,
) -> tuple[Split, str, tuple[str, ...]]:
    """Split ``count`` graphs as the option ``split=`` says; and say it in words, and what was guessed, for the card.

    A column or a file without a validation part gets one from its training part (:func:`with_validation`).

    Args:
        how: ``"random"`` (also ``"auto"``), ``"stratified"`` (by the targets), ``"scaffold"`` (molecules;
            deterministic), ``"column:NAME"``, a file of :func:`split_from_file`, or the shares of a random split.
        count: number of graphs.
        seed: of the random and the stratified split.
        labels: (count, …) the targets of graphs.
        smiles: (count,) of molecules.
        cells: (count,) of the split column.
        rejected: how many rows were left out before these graphs were counted.
        given: what is in the file ``how``, where that is known already.
    """
    if cells is not None:
        given, text = split_by_column(cells), f"the table's column {split_column_of(how)!r}"
        return _completed(given, text, count, seed, labels)
    if isinstance(how, Sequence) and not isinstance(how, str):
        shares = "/".join(f"{share:g}" if isinstance(share, (int, float)) else str(share) for share in how)
        return random_split(count, how, seed=seed), f"random {shares}, seed {seed}", ()
    if not isinstance(how, (str, Path)):
        raise SpecError(f"got split={how!r}; expected {', '.join(_CHOICES)}, a file, or shares such as (0.8, 0.1, 0.1)")
    if how in ("random", AUTOMATIC):
        return random_split(count, seed=seed), f"random 0.8/0.1/0.1, seed {seed}", ()
    if how == "stratified":
        if labels is None:
            raise SpecError(
                "got split='stratified' (--split), but the graphs have no targets of their own; use split='random'"
            )
        return stratified_split(labels, seed=seed), f"stratified 0.8/0.1/0.1, seed {seed}", ()
    if how == "scaffold":
        if smiles is None:
            raise SpecError("got split='scaffold' (--split), but the graphs are not molecules; use split='random'")
        return scaffold_split(smiles), "by scaffold 0.8/0.1/0.1, the largest scaffolds in train", ()
    given = split_in_file(how, count, rejected) if given is None else given
    return _completed(given, f"from the file {Path(how).name}", count, seed, labels)


def _completed(split: Split, text: str, count: int, seed: int, labels: Any) -> tuple[Split, str, tuple[str, ...]]:
    """A split that was given: with a validation part, and with what it lacks said."""
    split, notes = with_validation(split, seed=seed, labels=labels)
    unused = count - len(np.unique(np.concatenate(list(split.values()))))
    if unused:
        notes += (f"{unused:,} of {count:,} are in no part of the split, and not used",)
    return split, text, notes


def with_validation(
    split: Split, *, seed: int, labels: Any = None, smiles: Sequence[str] | None = None, how: str = "random"
) -> tuple[Split, tuple[str, ...]]:
    """The split with a validation part: where it has none, a tenth of its training part; and what is to be said of it.

    The tenth is taken by scaffold where ``how`` is ``"scaffold"``, with the same share of each class where it is
    ``"stratified"`` or the ``labels`` (G,) are classes, and otherwise at random. ``smiles`` (G,) are of molecules.
    """
    train = split["train"]
    notes: tuple[str, ...] = ()
    if not len(split["val"]) and len(train) > 1:
        own_labels = None if labels is None else np.asarray(labels)[train]
        if how == "scaffold" and smiles is not None:
            carved = scaffold_split([smiles[graph] for graph in train.tolist()], _CARVED)
            kind = "by scaffold"
        elif own_labels is not None and (how == "stratified" or _are_classes(own_labels)):
            carved, kind = stratified_split(own_labels, _CARVED, seed=seed), f"stratified, seed {seed}"
        else:
            carved, kind = random_split(len(train), _CARVED, seed=seed), f"random, seed {seed}"
        split = split | {"train": train[carved["train"]], "val": train[carved["val"]]}
        notes += (
            f"there is no validation part: {len(split['val']):,} of the {len(train):,} for training were taken for it "
            f"({kind})",
        )
    if not len(split["test"]):
        notes += ("there is no test part: scores on unseen data are not measured",)
    return split, notes


def _are_classes(labels: Any) -> bool:
    """Whether (G,) are whole numbers as type, or 0 and 1."""
    return bool(labels.ndim == 1 and (labels.dtype.kind in "iu" or np.isin(labels, (0, 1)).all()))


def names_file(how: SplitChoice) -> bool:
    """Whether ``split=`` names a file."""
    return isinstance(how, Path) or (isinstance(how, str) and how not in _CHOICES and split_column_of(how) is None)


def split_in_file(how: SplitChoice, count: int, rejected: int) -> Split:
    """The split of ``count`` graphs in a file that ``split=`` names; ``rejected`` as for :func:`make_split`."""
    path = Path(str(how))
    if isinstance(how, str) and not path.suffix:
        hint = did_you_mean(how, list(_CHOICES))
        raise SpecError(
            f"got split={how!r} (--split); expected {', '.join(_CHOICES)}, or a file (.json, .npz, .csv){hint}"
        )
    try:
        split = split_from_file(path, count)
    except FileNotFoundError:
        raise MissingDataError(
            f"there is no file {path}, which split= (--split) names; expected {', '.join(_CHOICES)}"
        ) from None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror or error}); expected a split") from None
    if rejected and len(np.unique(np.concatenate(list(split.values())))) < count:
        raise SpecError(
            f"{rejected:,} rows were left out, so the numbers in {path.name} may count other rows than the {count:,} "
            "graphs that are left; expected every graph in the split. Correct the rows, or use split='column:NAME'"
        )
    return split


def save_split(path: str | Path, split: Mapping[str, Any], *, count: int, made_by: str = "") -> None:
    """Write a split as JSON: the indices of train, val and test, the number of graphs, and how the split was made.

    The file appears whole or not at all, and is the same for the same split.

    Args:
        path: a name that ends in .json.
        split: the split.
        count: number of graphs in the whole dataset, which :func:`split_from_file` compares with.
        made_by: in words or as a call, such as ``"random_split(12000, (0.8, 0.1, 0.1), seed=0)"``.

    Raises:
        SpecError: the split is impossible (:func:`~pointset.datasets.splits.check_split`).
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
        FileFormatError: the file has another format, or is not a split of ``count`` graphs (what
            :func:`~pointset.datasets.splits.check_split` refuses).
        OSError: there is no such file, or it cannot be read.
    """
    file = Path(path)
    readers: dict[str, Callable[[bytes, int], Parts]] = {".json": _from_json, ".npz": _from_npz, ".csv": _from_csv}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise FileFormatError(f"{file.name} is not a split file; expected a name ending in {', '.join(readers)}")
    try:
        return check_split(reader(read_bytes(file), count), count)
    except (SpecError, FileFormatError) as error:
        raise FileFormatError(f"{file.name}: {error}") from None


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
                raise FileFormatError(f"{where} has the split {word[:40]!r}; expected {EXPECTED_PARTS}")
            if not _WHOLE_NUMBER.fullmatch(index):
                raise FileFormatError(f"{where} has the index {index[:40]!r}; expected a whole number")
            parts[part].append(int(index))
    except csv.Error as error:
        raise FileFormatError(f"line {rows.line_num} is not valid CSV ({error})") from None
    return parts


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
            raise FileFormatError(f"there is a list named {name[:80]!r}; expected {EXPECTED_PARTS}{known}")
    if not parts:
        raise FileFormatError(f"no part of a split in it; expected lists named {EXPECTED_PARTS}")
    return parts


def split_by_column(values: Iterable[object]) -> Split:
    """Read a column with the words train, val (or valid, validation) and test.

    Case and surrounding space do not matter. An empty cell (also None and NaN) leaves its row out of every part, as in
    tables that hold rows for later use.

    Args:
        values: (G,) one cell for each row.

    Returns:
        The split; indices count rows from 0 and are sorted.

    Raises:
        SpecError: another word, with its rows (counted from 1, without the header); or no row for training.
    """
    cells = list(values)
    codes = np.full(len(cells), -1, dtype=np.int64)
    strange: list[str] = []
    for row, cell in enumerate(cells):
        part = part_of(cell)
        if part is not None:
            codes[row] = PARTS.index(part)
        elif not _is_empty(cell):
            strange.append(f"row {row + 1} has {str(cell)[:40]!r}")
    if strange:
        more = f" and {len(strange) - _SHOWN_ROWS} more rows" if len(strange) > _SHOWN_ROWS else ""
        raise SpecError(
            f"the split column: {', '.join(strange[:_SHOWN_ROWS])}{more}; expected {EXPECTED_PARTS}, or an empty cell "
            "for a row that is not used"
        )
    return check_split(parts_from_codes(codes), len(cells))


def _is_empty(cell: object) -> bool:
    missing = isinstance(cell, (float, np.floating)) and bool(np.isnan(cell))
    return cell is None or missing or (isinstance(cell, str) and not cell.strip())
