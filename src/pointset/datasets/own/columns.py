"""Which columns of a table are meant, by name, by number, or found; and whether a file holds molecules at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pointset.datasets.cache import FileContent
from pointset.datasets.graph_files.formats import FORMATS
from pointset.datasets.own.candidates import Role, choose_split, judge_columns
from pointset.datasets.own.csv_rows import CsvFile, Table
from pointset.datasets.own.options import option
from pointset.datasets.own.table_files import PARQUET, SPREADSHEETS, STRUCTURES
from pointset.datasets.own.targets import is_missing, number_of
from pointset.datasets.splits.files import SplitChoice, split_column_of
from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean
from pointset.text import counted

Column = str | int  # a name, or a number counted from 0

# Names under which SMILES are published, without case, blanks and underscores; the earlier goes first.
_SMILES_NAMES = ("smiles", "canonicalsmiles", "isomericsmiles", "rdkitsmiles", "smile", "structure", "molecule", "mol")
_TABLES = (".csv", ".tsv", ".tab", ".txt", ".smi", *STRUCTURES)  # each may be followed by .gz
_SPREADSHEET = ("a spreadsheet", "Save it as .xlsx, or the sheet as CSV (UTF-8)")
_STRUCTURES = ("a file of structures", "Export an SDF, a .smi file, or a CSV with a column smiles")
_OTHER_FORMATS = dict.fromkeys((".xls", ".ods"), _SPREADSHEET)
_OTHER_FORMATS |= dict.fromkeys((".mol2", ".pdb"), _STRUCTURES)


def holds_molecules(path: str | Path | FileContent) -> bool:
    """Whether :func:`~pointset.datasets.own.smiles_csv` reads it; otherwise ``graph_files`` does.

    A ``.csv`` with the columns source and target is an edge list, so it holds graphs.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: neither of the two reads it.
    """
    file = path.path if isinstance(path, FileContent) else Path(path)
    refuse_other_formats(file)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-1] if suffixes else ""
    if file.is_dir() or (last in FORMATS and last != ".csv"):
        return False
    if last == ".csv":
        return not {"source", "target"} <= {name.lower() for name in CsvFile(path).header}
    if last in (*_TABLES, *SPREADSHEETS, *PARQUET) or (last == ".gz" and suffixes[-2:-1] and suffixes[-2] in _TABLES):
        return True
    if not file.exists():
        raise MissingDataError(f"there is no file or folder {file}; expected a table or graphs. Check the name")
    known = ", ".join(dict.fromkeys((*_TABLES, *SPREADSHEETS, *PARQUET, *FORMATS)))
    raise FileFormatError(
        f"{file.name!r} is not a known kind of data; expected a name that ends in {known} (text and SDF also .gz), "
        "or a folder of graph files"
    )


def refuse_other_formats(path: str | Path) -> None:
    """Refuse spreadsheets and files of structures, and say how to get a table out of them."""
    file = Path(path)
    name = file.name.lower().removesuffix(".gz")
    if file.exists() and (known := _OTHER_FORMATS.get(Path(name).suffix)):
        raise FileFormatError(f"{file} is {known[0]}; expected a table of text. {known[1]}")


def smiles_column(file: Table, chosen: Column | None) -> int:
    """The column of SMILES; where none is chosen, the one that is named so."""
    if chosen is not None:
        return column_number(file, chosen, "smiles")
    if file.is_smi or file.has_structures:
        return 0
    plain = [re.sub(r"[ _-]", "", name.lower()) for name in file.header]
    for name in _SMILES_NAMES:
        if name in plain:
            found = [column for column, other in enumerate(plain) if other == name]
            if len(found) > 1:
                raise FileFormatError(_twice(file, found, "smiles"))
            return found[0]
    raise SpecError(
        f"{file.path} has no column that is named smiles; {describe_columns(file)}. Pass {option('smiles')}, the "
        f"column's name or its number counted from 0{_header_hint(file)}{file.sheet_hint}"
    )


def target_columns(
    file: Table, chosen: Column | Sequence[Column] | None, others: Mapping[int, Role], what: str = "targets"
) -> tuple[list[int], tuple[str, ...]]:
    """The columns of targets, and what is to be said of them where none are chosen and they are guessed.

    ``others`` have another role; ``what`` is the name of the caller's argument, for messages.

    Raises:
        UnclearTargetsError: none are chosen, and more than one could be meant.
    """
    if chosen is None:
        judgement = judge_columns(file, others)
        names = Counter(one.name for one in judgement.candidates)
        if repeated := [one.column for one in judgement.candidates if names[one.name] > 1]:
            raise FileFormatError(_twice(file, repeated, what))
        return list(judgement.answered()), judgement.notes
    listed = list(chosen) if isinstance(chosen, Iterable) and not isinstance(chosen, str) else [chosen]
    columns = [column_number(file, column, what) for column in listed]
    if len(set(columns)) < len(columns):
        raise SpecError(f"got {listed} for {option(what)}; expected each column once")
    if clash := [column for column in columns if column in others]:
        raise SpecError(
            f"the column {shown(file, clash[0])} cannot be a target: it says which graph it is, its split or its weight"
        )
    return columns, ()


def settled_roles(
    file: Table,
    smiles: Column | None,
    split: SplitChoice,
    targets: Sequence[int] = (),
    weights: Column | None = None,
) -> tuple[dict[int, Role], SplitChoice, tuple[str, ...]]:
    """The columns of SMILES, of weights and of the split, how the table is split, and what was guessed about that.

    ``targets`` are columns that were chosen, which cannot be the split.
    """
    roles = {smiles_column(file, smiles): Role.STRUCTURE}
    if weights is not None:
        roles.setdefault(weights_at := column_number(file, weights, "weights"), Role.WEIGHT)
        if roles[weights_at] is not Role.WEIGHT:
            raise SpecError(f"got {weights!r} for {option('weights')}, the column of SMILES; expected one of numbers")
    how, notes = choose_split(file, split, [*roles, *targets])
    if (name := split_column_of(how)) is not None:
        split_at = column_number(file, name, "split")
        if roles.get(split_at) is Role.WEIGHT:
            raise SpecError(f"got the column {name!r} for weights and for the split; expected two columns")
        roles[split_at] = Role.SPLIT
    return roles, how, notes


def column_number(file: Table, chosen: Column, what: str) -> int:
    """The number of a column, counted from 0; digits that no column has for a name are its number, too."""
    if isinstance(chosen, np.integer):
        chosen = int(chosen)
    if isinstance(chosen, bool) or not isinstance(chosen, (str, int)):
        raise SpecError(
            f"got {chosen!r} for {option(what)}; expected the name of a column, or its number counted from 0"
        )
    column = _number_in(file, chosen) if isinstance(chosen, str) else chosen
    if isinstance(column, int):
        if not 0 <= column < file.width:
            raise SpecError(
                f"got {column} for {option(what)}; expected 0 to {file.width - 1}, as {file.path} has "
                f"{counted(file.width, 'column')}, counted from 0{file.sheet_hint}"
            )
        return column
    if (found := [at for at, known in enumerate(file.header) if known == column]) and len(found) > 1:
        raise FileFormatError(_twice(file, found, what))
    if not found:
        hint = did_you_mean(column, [known for known in file.header if known])
        raise SpecError(
            f"{file.path} has no column {column!r} for {option(what)}; {describe_columns(file)}{hint}"
            f"{_header_hint(file)}{file.sheet_hint}"
        )
    return found[0]


def is_named(file: Table, chosen: Column) -> bool:
    """Whether a column is chosen by a name of the header."""
    return isinstance(chosen, str) and chosen.strip() in file.header


def _number_in(file: Table, text: str) -> Column:
    """The number that is written as ``1``, or as ``column 1`` of a column without a name; otherwise the name."""
    name = text.strip()
    written = None if name in file.header else re.fullmatch(r"(column )?([0-9]{1,9})", name)
    if written is None or (written[1] and any(file.header[int(written[2]) : int(written[2]) + 1])):
        return name
    return int(written[2])


def shown(file: Table, column: int) -> str:
    """The name of a column for targets and messages; ``column 3`` where it has none."""
    return (file.header[column] if file.header else "") or f"column {column}"


def describe_columns(file: Table) -> str:
    """The columns of a table, for messages."""
    if not file.header:
        return f"it is read without a header, so columns are chosen by number, 0 to {file.width - 1}"
    names = ", ".join(f"{number} {name!r}" for number, name in enumerate(file.header[:20]))
    return f"its columns are {names}" + (", …" if len(file.header) > 20 else "")


def _twice(file: Table, columns: Sequence[int], what: str) -> str:
    names = ", ".join(dict.fromkeys(repr(file.header[column]) for column in columns))
    at = " and ".join(map(str, columns[:2])) if len(columns) == 2 else ", ".join(map(str, columns))
    return (
        f"the header of {file.path} names {names} more than once (columns {at}, counted from 0); expected each name "
        f"once. Rename the columns, or choose them by number: {option(what, columns[0])}"
    )


def _header_hint(file: Table) -> str:
    """A first line with a number in it is probably a row already."""
    if any(number_of(name) is not None and not is_missing(name) for name in file.header):
        return f". If the first line is a row already, pass {option('header', False)} and choose columns by number"
    return ""
