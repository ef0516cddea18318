"""Tables of every format, opened by their name (:func:`open_table`): text, SDF, Excel and Parquet.

All are a header and rows of text (:class:`~pointset.datasets.own.csv_rows.Table`), so that whatever reads a CSV reads
them, too. Numbers become the text that Python reads back to the same number.
"""

from __future__ import annotations

import datetime
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pointset.datasets.cache import FileContent
from pointset.datasets.molecules.parsing import require_rdkit, silent_rdkit
from pointset.datasets.own.csv_rows import LONGEST_CELL, CsvFile, Row, Table, opened
from pointset.datasets.own.options import option
from pointset.datasets.own.unpacking import check_unpacked, check_workbook
from pointset.errors import FileFormatError, MissingExtraError, PointsetError, SpecError, did_you_mean
from pointset.text import counted, listed

_RECORD_ENDS = "$$$$"
_MOST_LINES = 20_000  # of one record: 4,000 atoms and bonds, and long properties
_MOST_CHARACTERS = 2**22  # of one record
_MOST_PROPERTIES = 10_000  # different ones in a file: each is a column
_MOST_ROWS = 2**20  # that a sheet can have; one that skips to row 900,000,000 would be read for ever
_PROPERTY = re.compile(r">.*?<(.+?)>(?:\s|$)")
_GROUP_ROWS = 2**17  # of a group that is decoded in a few hundredths of a second, for rows in its middle
_PLAIN = ("bool", "float", "double", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_CELL_BYTES = 2  # at least, of a cell as text: a character and a separator
_BATCH, _NESTED_BATCH = 8192, 64  # rows of a Parquet file at a time; a cell that is a list may hold many numbers
_PART_BYTES = 2**26  # of text at a time
_TITLE = "name"  # the column of the first lines of records
_EXTRA = "pip install 'pointset[tables]'"

STRUCTURES = (".sdf", ".sd", ".mol")  # each may be followed by .gz
SPREADSHEETS = (".xlsx", ".xlsm")
PARQUET = (".parquet", ".pq")


_MOST_COLUMNS = 100_000  # far more than tables of descriptors or of genes have; each is judged and shown


def open_table(path: str | Path | FileContent, *, header: bool = True, sheet: str | int | None = None) -> Table:
    """The table in a file.

    Args:
        path: the file, or its content where it is to be opened once only.
        header: whether the first line, or row of a sheet, names the columns.
        sheet: of a workbook, by name or by number counted from 0; by default the first.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: it is damaged, or not what its name says.
        MissingExtraError: the package that reads it is not installed.
    """
    source = path if isinstance(path, FileContent) else Path(path)
    file = source.path if isinstance(source, FileContent) else source
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if sheet is not None and suffix not in SPREADSHEETS:
        raise SpecError(f"got {option('sheet', sheet)}, but {file.name} is not a workbook; leave it out")
    if not header and suffix in (*STRUCTURES, *PARQUET):
        raise SpecError(f"got {option('header', False)}, but {file.name} has names of columns; leave it out")
    table: Table
    if suffix in SPREADSHEETS:
        table = ExcelFile(source, header=header, sheet=sheet)
    elif suffix in (*STRUCTURES, *PARQUET):
        table = SdfFile(source) if suffix in STRUCTURES else ParquetFile(source)
    else:
        table = CsvFile(source, header=header)
    if table.width > _MOST_COLUMNS:
        raise FileFormatError(
            f"{file} has {table.width:,} columns; expected at most {_MOST_COLUMNS:,}. Keep those that are needed: "
            "SMILES, targets and what else is to stand in the output"
        )
    return table


class SdfFile(Table):
    """Structures with properties: column 0 is the structure as SMILES, the others are the properties, and the titles.

    RDKit reads the structures and removes plain hydrogens; coordinates are used for stereochemistry only. A row's
    ``line`` is the number of its record, counted from 1. Text is UTF-8, or where it is not, Latin-1.
    """

    has_structures = True
    unit = "record"

    def __init__(self, source: Path | FileContent):
        require_rdkit()
        super().__init__(source)
        names: dict[str, None] = {}
        self._titles, self._records = False, 0
        for record in _records(source):
            self._records += 1
            self._titles |= bool(record[0].strip())
            names |= dict.fromkeys(name for name, _ in _properties(record))
            if len(names) > _MOST_PROPERTIES:
                raise FileFormatError(
                    f"{self.path} has more than {_MOST_PROPERTIES:,} different properties; expected the same few in "
                    "all records, as each is a column"
                )
        if not self._records:
            raise FileFormatError(f"{self.path} holds no records; expected structures, each ended by a line $$$$")
        structure = "smiles" if "smiles" not in (name.lower() for name in names) else "structure"
        title = [] if not self._titles or _TITLE in names else [_TITLE]
        self._names = tuple(names)
        self.header = (structure, *title, *names)
        self.width = len(self.header)

    def rows(self) -> Iterator[Row]:
        """All records."""
        title = self.header[1:2] == (_TITLE,) and _TITLE not in self._names
        for number, record in enumerate(_records(self._source), start=1):
            values = dict(_properties(record))
            smiles, problem = _structure(record)
            cells = [smiles, *([record[0].strip()] if title else []), *(values.get(name, "") for name in self._names)]
            if len(record) > _MOST_LINES:
                problem = f"the record has more than {_MOST_LINES:,} lines, or {_MOST_CHARACTERS:,} characters"
            elif max(map(len, cells)) > LONGEST_CELL:
                problem = f"a property has more than {LONGEST_CELL:,} characters"
            yield Row(number, cells if problem is None else [cell[:LONGEST_CELL] for cell in cells], problem)

    def count(self) -> int:
        """The number of records."""
        return self._records


def _records(source: Path | FileContent) -> Iterator[list[str]]:
    """The lines of each record without ``$$$$``; of one that is too long only the first."""
    lines: list[str] = []
    size = 0
    with opened(source) as binary:
        while raw := binary.readline(_MOST_CHARACTERS):
            line = _decoded(raw).rstrip("\r\n")
            if line.startswith(_RECORD_ENDS):
                yield lines or [""]
                lines, size = [], 0
            elif len(lines) <= _MOST_LINES:
                size += len(raw)
                lines += [line] if size < _MOST_CHARACTERS else [""] * (_MOST_LINES + 1)  # too long in either way
    if any(map(str.strip, lines)):
        yield lines


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # the format does not say which; every byte is a letter there


def _properties(record: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values behind the structure: ``>  <logS>``, the lines of the value, an empty line."""
    lines = iter(record)
    for line in lines:
        if line.startswith(">") and (named := _PROPERTY.match(line)):
            yield named[1].strip(), "\n".join(itertools.takewhile(str.strip, lines)).strip()


def _structure(record: Sequence[str]) -> tuple[str, str | None]:
    """The SMILES of a record, or what is wrong with it.

    A structure with impossible chemistry is written as it is, so that reading its SMILES gives the reason.
    """
    from rdkit import Chem

    ends = next((at for at, line in enumerate(record) if line.startswith(("M  END", ">"))), len(record) - 1)
    block = "\n".join(record[: ends + 1]) + "\n"
    with silent_rdkit():
        try:
            mol = Chem.MolFromMolBlock(block)
            if mol is None:
                mol = Chem.MolFromMolBlock(block, sanitize=False)
            smiles = "" if mol is None else Chem.MolToSmiles(mol)
        except (RuntimeError, ValueError):  # RDKit's own exceptions
            mol, smiles = None, ""
    if mol is None:
        return "", "the structure cannot be read; expected a mol block (V2000 or V3000) as RDKit reads it"
    return smiles, None if smiles else "the structure has no atoms"


class ExcelFile(Table):
    """A sheet of a workbook. A row's ``line`` is its number in the sheet; empty rows at its end are none."""

    unit = "row"

    def __init__(self, source: Path | FileContent, *, header: bool, sheet: str | int | None):
        super().__init__(source)
        self._sheet, self.has_header = sheet, header
        self._name = ""  # of the sheet that is read
        first = next(((number, cells) for number, cells in self._all_rows() if cells), None)
        if first is None:
            raise FileFormatError(
                f"the sheet {self._name!r} of {self.path} is empty; expected a header and a row for each graph"
                f"{self.sheet_hint}"
            )
        number, cells = first
        self._header_row = number if header else 0
        self.width = len(cells)
        self.header = tuple(cell.strip() for cell in cells) if header else ()

    def rows(self) -> Iterator[Row]:
        """All rows to the last one that has something in it."""
        for number, cells in self._all_rows():
            if number <= self._header_row:
                continue
            missing = [""] * (self.width - len(cells))
            problem = None
            if len(cells) > self.width:
                problem = f"the row has {counted(len(cells), 'cell')}; expected {self.width}, as in the first row"
            yield Row(number, [*cells, *missing], problem)

    def _all_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Number and cells, without empty ones at the end, be they cells or rows."""
        try:
            import openpyxl
        except ImportError:
            raise MissingExtraError(
                f"reading {self.path.name} needs openpyxl, which is not installed: {_EXTRA}; or save the sheet as CSV"
            ) from None
        with opened(self._source) as binary, self._damage_named():
            content = binary.read()
            check_workbook(content, self.path)
            workbook = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        done = 0  # rows handed out; empty ones wait for one that is not
        try:
            sheet = self._chosen(workbook)
            with self._damage_named():
                sheet.reset_dimensions()  # what the file claims, and rows would be filled up to
                for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
                    if number > _MOST_ROWS:
                        raise ValueError(f"a row beyond {_MOST_ROWS:,}")
                    cells = [_as_text(value) for value in row]
                    while cells and not cells[-1].strip():
                        cells.pop()
                    if cells:
                        yield from ((empty, []) for empty in range(done + 1, number))
                        yield number, cells
                        done = number
        finally:
            workbook.close()

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        """Whatever openpyxl raises: it parses XML as it goes, and checks little."""
        try:
            yield
        except PointsetError:
            raise
        except Exception:
            raise FileFormatError(
                f"{self.path} is not a workbook that can be read; save it again as .xlsx, or the sheet as CSV"
            ) from None

    def _chosen(self, workbook: Any) -> Any:
        names = list(workbook.sheetnames)
        wanted = 0 if self._sheet is None else self._sheet
        if isinstance(wanted, str) and wanted not in names and re.fullmatch("[0-9]{1,9}", wanted):
            wanted = int(wanted)
        if isinstance(wanted, int) and not isinstance(wanted, bool) and 0 <= wanted < len(names):
            wanted = names[wanted]
        if wanted not in names:
            raise SpecError(
                f"{self.path} has no sheet {wanted!r}; expected one of {', '.join(map(repr, names))}, or a number "
                f"counted from 0{did_you_mean(str(wanted), names)}"
            )
        self._name = str(wanted)
        if others := [repr(name) for name in names if name != wanted]:
            one = "the other is" if len(others) == 1 else "the others are"
            self.sheet_hint = f". The sheet {wanted!r} was read; {one} {listed(others)}: choose with {option('sheet')}"
            if self._sheet is None:
                self.notes = (f"the first of {len(names)} sheets, {wanted!r}, is read; choose with {option('sheet')}",)
        return workbook[wanted]


class ParquetFile(Table):
    """A Parquet file, read a part at a time. A row's ``line`` is its number, counted from 1."""

    unit = "row"

    def __init__(self, source: Path | FileContent):
        super().__init__(source)
        with self._opened() as (file, packed):
            self.header = tuple(file.schema_arrow.names)
            self.kinds = [str(kind) if str(kind) in _PLAIN else "string" for kind in file.schema_arrow.types]
            about = file.metadata
            self._rows = int(about.num_rows)
            groups = [about.row_group(at) for at in range(about.num_row_groups)]
            claimed = sum(group.total_byte_size for group in groups)
            self.starts_anywhere = max((group.num_rows for group in groups), default=0) <= _GROUP_ROWS
        self.width = len(self.header)
        if not self.width:
            raise FileFormatError(f"{self.path} has no columns; expected a table")
        check_unpacked(max(claimed, self._rows * self.width * _CELL_BYTES), packed, self.path)

    def rows(self) -> Iterator[Row]:
        """All rows."""
        return self.rows_from(0)

    def rows_from(self, start: int) -> Iterator[Row]:
        """The rows behind the first ``start``, without reading row groups before them."""
        with self._opened() as (file, packed):
            sizes = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
            ends = list(itertools.accumulate(sizes))
            groups = [at for at, end in enumerate(ends) if end > start]
            before = ends[groups[0]] - sizes[groups[0]] if groups else 0
            yield from self._rows_of(file, packed, groups, start - before, itertools.count(start + 1))

    def _rows_of(self, file: Any, packed: int, groups: list[int], skipped: int, number: Iterator[int]) -> Iterator[Row]:
        """Those of some row groups without the first ``skipped``, which are not made text."""
        if groups:
            size = 0
            nested = any(kind.num_fields for kind in file.schema_arrow.types)
            for batch in file.iter_batches(batch_size=_NESTED_BATCH if nested else _BATCH, row_groups=groups):
                before, skipped = skipped, max(0, skipped - len(batch))
                batch = batch.slice(before)
                more = sum(map(_text_bytes, batch.columns))
                size += more
                check_unpacked(size, packed, self.path)
                for cells in _cells(batch, parts=1 + more // _PART_BYTES):
                    problem = None
                    if max(map(len, cells)) > LONGEST_CELL:
                        cells = [cell[:LONGEST_CELL] for cell in cells]
                        problem = f"a cell has more than {LONGEST_CELL:,} characters"
                    yield Row(next(number), cells, problem)

    def count(self) -> int:
        """The number of rows."""
        return self._rows

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, int]]:
        """The file and its size in bytes; its texts come as dictionaries, where a long one that repeats stands once."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(
                f"reading {self.path.name} needs pyarrow, which is not installed: {_EXTRA}; or write the table as CSV"
            ) from None
        with opened(self._source) as binary:
            try:
                packed = self.path.stat().st_size
                if not binary.seekable():  # packed with gzip as well
                    binary = io.BytesIO(binary.read())
                schema = pyarrow.parquet.read_schema(binary)
                texts = [field.name for field in schema if field.type in (pyarrow.string(), pyarrow.binary())]
                yield pyarrow.parquet.ParquetFile(binary, read_dictionary=texts), packed
            except (pyarrow.ArrowException, OSError) as error:
                raise FileFormatError(f"{self.path} is not a whole Parquet file ({str(error)[:120]})") from None


def _text_bytes(column: Any) -> int:
    """About how much the cells of a column take as text."""
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_dictionary(column.type):
        if column.dictionary.type not in (pyarrow.string(), pyarrow.binary()):
            return len(column) * _CELL_BYTES
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return len(column) * _CELL_BYTES + (compute.sum(lengths).as_py() or 0)
    return int(column.nbytes) if column.type.num_fields else len(column) * _CELL_BYTES


def _cells(batch: Any, *, parts: int) -> Iterator[list[str]]:
    """The rows of a batch, made text a part at a time."""
    import pyarrow

    step = max(1, -(-len(batch) // parts))
    for start in range(0, len(batch), step):
        part = batch.slice(start, step)
        columns = [
            column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column
            for column in part.columns
        ]
        texts = [[_as_text(value) for value in column.to_pylist()] for column in columns]
        yield from map(list, zip(*texts, strict=True))


def _as_text(value: object) -> str:
    """A value of a cell as people write it: 3 for 3.0, and for a float all digits that it needs."""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return str(value)
