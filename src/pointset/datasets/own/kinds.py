"""Whether a file holds molecules in a table or graphs, seen from its name and header (:func:`holds_molecules`)."""

from __future__ import annotations

from pathlib import Path

from pointset.datasets.graph_formats import FORMATS
from pointset.datasets.own.csv_rows import CsvFile
from pointset.errors import FileFormatError

TABLES = (".csv", ".tsv", ".tab", ".txt", ".smi")  # each may be followed by .gz


def holds_molecules(path: str | Path) -> bool:
    """Whether :func:`~pointset.datasets.own.smiles_csv` reads it; otherwise ``graph_files`` does.

    A ``.csv`` with the columns source and target is an edge list, so it holds graphs.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: neither of the two reads it.
    """
    file = Path(path)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-1] if suffixes else ""
    if file.is_dir() or (last in FORMATS and last != ".csv"):
        return False
    if last == ".csv":
        return not {"source", "target"} <= {name.lower() for name in CsvFile(file).header}
    if last in TABLES or (last == ".gz" and suffixes[-2:-1] and suffixes[-2] in TABLES):
        return True
    known = ", ".join(dict.fromkeys((*TABLES, *FORMATS)))
    raise FileFormatError(
        f"{file.name!r} is no kind of data that is known; expected a name that ends in {known} (tables also with .gz), "
        "or a folder of graph files"
    )
