"""Which columns of a table are meant, by name, by number, or found; and whether a file holds molecules at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pointset.datasets.cache import FileContent
from pointset.datasets.graph_files.formats import FORMATS
from pointset.datasets.own.candidates import Role, choose_split, judge_columns
from pointset.datasets.own.csv_rows import CsvFile, Table
from pointset.datasets.own.table_files import PARQUET, SPREADSHEETS, STRUCTURES
from pointset.datasets.own.targets import is_missing, number_of
from pointset.datasets.splits.files import SplitChoice, split_column_of
from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean

Column = str | int  # a name, or a number counted from 0

# Names under which SMILES are published, without case, blanks and underscores; the earlier goes first.
_SMILES_NAMES = ("smiles", "canonicalsmiles", "isomericsmiles", "rdkitsmiles", "smile", "structure", "molecule", "mol")
_OPTIONS = {"smiles": "--smiles", "targets": "--target", "columns": "--target", "split": "--split"}  # on the shell
_OPTIONS |= {"weights": "--weights, dataset.weight_column"}
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
                raise FileFormatError(_twice(file, [file.header[column] for column in found]))
            return found[0]
    raise SpecError(
        f"{file.path} has no column that is named smiles; {describe_columns(file)}. Pass smiles= (--smiles), the "
        f"column's name or its number counted from 0{_header_hint(file)}"
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
        headers = [file.header[one.column] for one in judgement.candidates] if file.header else []
        if repeated := sorted({name for name in headers if headers.count(name) > 1}):
            raise FileFormatError(_twice(file, repeated))
        return list(judgement.answered()), judgement.notes
    listed = list(chosen) if isinstance(chosen, Iterable) and not isinstance(chosen, str) else [chosen]
    columns = [column_number(file, column, what) for column in listed]
    if len(set(columns)) < len(columns):
        raise SpecError(f"got {what}={listed} ({_OPTIONS[what]}); expected each column once")
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
            raise SpecError(
                f"got weights={weights!r} ({_OPTIONS['weights']}), the column of SMILES; expected one of numbers"
            )
    how, notes = choose_split(file, split, [*roles, *targets])
    if (name := split_column_of(how)) is not None:
        split_at = column_number(file, name, "split")
        if roles.get(split_at) is Role.WEIGHT:
            raise SpecError(f"got the column {name!r} for weights and for the split; expected two columns")
        roles[split_at] = Role.SPLIT
    return roles, how, notes


def column_number(file: Table, chosen: Column, what: str) -> int:
    """The number of a column, counted from 0."""
    if isinstance(chosen, np.integer):
        chosen = int(chosen)
    if isinstance(chosen, bool) or not isinstance(chosen, (str, int)):
        raise SpecError(
            f"got {what}={chosen!r} ({_OPTIONS[what]}); expected the name of a column, or its number counted from 0"
        )
    if isinstance(chosen, int):
        if not 0 <= chosen < file.width:
            raise SpecError(
                f"got {what}={chosen} ({_OPTIONS[what]}); expected 0 to {file.width - 1}, as {file.path} has "
                f"{file.width} columns, counted from 0"
            )
        return chosen
    name = chosen.strip()
    if file.header.count(name) > 1:
        raise FileFormatError(_twice(file, [name]))
    if name not in file.header:
        hint = did_you_mean(name, [known for known in file.header if known])
        raise SpecError(
            f"{file.path} has no column {name!r} for {what}= ({_OPTIONS[what]}); {describe_columns(file)}{hint}"
            f"{_header_hint(file)}"
        )
    return file.header.index(name)


def shown(file: Table, column: int) -> str:
    """The name of a column for targets and messages; ``column 3`` where it has none."""
    return (file.header[column] if file.header else "") or f"column {column}"


def describe_columns(file: Table) -> str:
    """The columns of a table, for messages."""
    if not file.header:
        return f"it is read without a header, so its {file.width} columns are chosen by number"
    names = ", ".join(f"{number} {name!r}" for number, name in enumerate(file.header[:20]))
    return f"its columns are {names}" + (", …" if len(file.header) > 20 else "")


def _twice(file: Table, names: Sequence[str]) -> str:
    listed = ", ".join(repr(name) for name in names)
    return (
        f"the header of {file.path} names {listed} more than once; expected each name once. Rename the columns, or "
        "choose them by number, counted from 0"
    )


def _header_hint(file: Table) -> str:
    """A first line with a number in it is probably a row already."""
    if any(number_of(name) is not None and not is_missing(name) for name in file.header):
        return ". If the first line is a row already, pass header=False (--no-header) and choose columns by number"
    return ""
