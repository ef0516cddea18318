"""Whether a file holds molecules in a table or graphs, seen from its name and header (:func:`holds_molecules`)."""

from __future__ import annotations

from pathlib import Path

from pointset.datasets.graph_formats import FORMATS
from pointset.datasets.own.csv_rows import CsvFile
from pointset.errors import FileFormatError, MissingDataError

TABLES = (".csv", ".tsv", ".tab", ".txt", ".smi")  # each may be followed by .gz
_AS_CSV, _AS_SMILES = "Save the sheet as CSV (UTF-8)", "Export SMILES: a .smi file, or a CSV with a column smiles"
_OTHER_KINDS = dict.fromkeys((".xlsx", ".xls", ".ods"), ("a spreadsheet", _AS_CSV)) | dict.fromkeys(
    (".sdf", ".mol", ".mol2", ".pdb"), ("a file of structures", _AS_SMILES)
)


def check_kind(path: str | Path) -> None:
    """Refuse files of other programs, and say how to get a table out of them.

    Raises:
        FileFormatError: a spreadsheet or a file of structures.
    """
    file = Path(path)
    name = file.name.lower().removesuffix(".gz")
    if file.exists() and (known := _OTHER_KINDS.get(Path(name).suffix)):
        raise FileFormatError(f"{file} is {known[0]}; expected a table of text. {known[1]}")


def holds_molecules(path: str | Path) -> bool:
    """Whether :func:`~pointset.datasets.own.smiles_csv` reads it; otherwise ``graph_files`` does.

    A ``.csv`` with the columns source and target is an edge list, so it holds graphs.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: neither of the two reads it.
    """
    file = Path(path)
    check_kind(file)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-1] if suffixes else ""
    if file.is_dir() or (last in FORMATS and last != ".csv"):
        return False
    if last == ".csv":
        return not {"source", "target"} <= {name.lower() for name in CsvFile(file).header}
    if last in TABLES or (last == ".gz" and suffixes[-2:-1] and suffixes[-2] in TABLES):
        return True
    if not file.exists():
        raise MissingDataError(f"there is no file or folder {file}; expected a table or graphs. Check the name")
    known = ", ".join(dict.fromkeys((*TABLES, *FORMATS)))
    raise FileFormatError(
        f"{file.name!r} is no kind of data that is known; expected a name that ends in {known} (tables also with .gz), "
        "or a folder of graph files"
    )
