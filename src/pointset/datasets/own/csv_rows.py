"""A table row by row (:class:`Table`); of text, with the line where each row begins (:class:`CsvFile`).

Parsing is the standard library's, in its strict mode. Memory does not grow with the file, and a bad row is a row with
a ``problem``: it stops neither the reader nor the rows behind it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pointset.datasets.cache import FileContent
from pointset.datasets.own.unpacking import unpacked
from pointset.errors import FileFormatError, MissingDataError
from pointset.files import open_binary
from pointset.text import counted

LONGEST_LINE = 2**22  # characters; what is longer is cut here, so that a file without line ends cannot fill the memory
LONGEST_CELL = 131_072  # characters, which is the csv module's own limit unless someone changed it
MOST_LINES = 100  # of one row: a cell of more lines is a quote that was never closed, and would swallow the file

_GZIP = b"\x1f\x8b"
_OTHER_FORMATS = {
    b"PK\x03\x04": ("an Excel workbook or another zip archive", "Name it .xlsx, or save the sheet as CSV in UTF-8"),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save the sheet as CSV in UTF-8"),
    b"PAR1": ("a Parquet file", "Name it .parquet, or write it as CSV"),
    b"BZh": ("a bzip2 archive", "Unpack it, or pack it with gzip"),
    b"\xfd7zXZ": ("an xz archive", "Unpack it, or pack it with gzip"),
    b"\xff\xfe": ("UTF-16 text", "Save it in UTF-8; on a shell: iconv -f UTF-16 -t UTF-8 IN > OUT"),
    b"\xfe\xff": ("UTF-16 text", "Save it in UTF-8; on a shell: iconv -f UTF-16 -t UTF-8 IN > OUT"),
}
_BINARY = (".xlsx", ".xlsm", ".parquet", ".pq")  # whose names say so

_QUOTE_NOT_CLOSED = 'a quote (") is opened and not closed'
_CELL_TOO_LONG = f"a cell has more than {LONGEST_CELL:,} characters"
_PROBLEMS = {  # what the csv module says → what it means
    "unexpected end of data": _QUOTE_NOT_CLOSED,
    "field larger": _CELL_TOO_LONG,
    "expected after": 'text follows a closing quote; a quote (") inside a quoted cell is written twice',
}
_NAMED_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?', re.IGNORECASE)


class Row(NamedTuple):
    """One row of data."""

    line: int  # where it begins, counted from 1 as an editor does; what it counts is the table's ``unit``
    cells: Sequence[str]  # as many as the header has; where there is a problem, whatever could be read
    problem: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is sound, but has nothing in any cell."""
        return self.problem is None and not any(map(str.strip, self.cells))


class Table(ABC):
    """A header and rows of text, whatever the file's format."""

    path: Path
    header: tuple[str, ...] = ()  # names of the columns, where they have any
    width: int  # number of columns
    kinds: Sequence[str] = ()  # what the cells are in the file, as Arrow calls it; empty where all are text
    has_header = True
    is_smi = False
    has_structures = False  # whether column 0 was made from structures
    delimiter = ","  # between the cells of a row that is shown or written
    decimal_commas = False  # whether numbers may have them, as commas do not separate the columns
    unit = "line"  # what the number of a row counts
    starts_anywhere = False  # whether :meth:`rows_from` costs little wherever it starts
    notes: tuple[str, ...] = ()  # what was guessed to read it
    sheet_hint = ""  # for messages on what is not found in a workbook: which sheet was read, and which others there are

    def __init__(self, source: Path | FileContent):
        self._source = source
        self.path = source.path if isinstance(source, FileContent) else source
        self._sample: list[Sequence[str]] = []

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """The rows from the beginning, each time anew, empty ones included."""

    def rows_from(self, start: int) -> Iterator[Row]:
        """The rows behind the first ``start``."""
        return itertools.islice(self.rows(), start, None)

    def filled_rows(self) -> Iterator[Row]:
        """The same without empty rows at the end, of which spreadsheets export thousands: what is learned from."""
        empty: list[Row] = []
        for row in self.rows():
            if row.is_empty:
                empty.append(row)
            else:
                yield from empty
                empty.clear()
                yield row

    def count(self) -> int | None:
        """How many there are, approximately, where that is known quickly."""
        return None

    def sample(self, most: int) -> list[Sequence[str]]:
        """The cells of the first rows that can be read, which are kept."""
        if not self._sample:
            sound = (row.cells for row in self.rows() if row.problem is None)
            self._sample = list(itertools.islice(sound, most))
        return self._sample


class CsvFile(Table):
    """A table of text: ``header`` is its first line, :meth:`rows` the others.

    Columns are separated by tabs in ``.tsv`` and ``.tab``, and otherwise by whichever of comma, semicolon and tab is
    the most frequent in the first line outside quotes; ``.gz`` may follow. A first line such as ``sep=;``, which Excel
    writes, names the separator and is no header. ``.smi`` files have no header, and tabs between SMILES, name and
    whatever follows; or, where the first line has no tab, the name behind the first blank. Blank lines are not rows, as
    for pandas; a line of separators or of empty quotes is one, unless it stands before the header.

    Args:
        path: the file, or its content where it is to be opened once only.
        header: whether the first line names the columns. Without names, columns are chosen by number.
    """

    def __init__(self, path: str | Path | FileContent, *, header: bool = True):
        super().__init__(path if isinstance(path, FileContent) else Path(path))
        lines = _Lines(self._source)
        suffix = Path(self.path.name.lower().removesuffix(".gz")).suffix
        self.is_smi = suffix == ".smi"
        self._named_separator = None if self.is_smi else _NAMED_SEPARATOR.fullmatch(lines.first.strip("\r\n"))
        self.has_header = header and not self.is_smi
        self.delimiter = self._named_separator[1] if self._named_separator else _delimiter(suffix, lines.first)
        self.decimal_commas = self.delimiter != ","
        first = next((row for row in self._all_rows(lines, None) if not (self.has_header and row.is_empty)), None)
        if first is None:
            raise FileFormatError(f"{self.path} is empty; expected a header and a row for each graph")
        if first.problem is not None:
            raise FileFormatError(f"{self.path}, line {first.line}: {first.problem}; expected the names of the columns")
        self.header = tuple(cell.strip() for cell in first.cells) if self.has_header else ()
        self._header_line = first.line if self.has_header else 0
        self.width = len(first.cells)

    def rows(self) -> Iterator[Row]:
        """The rows from the beginning, each time anew, empty ones included."""
        rows = self._all_rows(_Lines(self._source), self.width)
        return itertools.dropwhile(lambda row: row.line <= self._header_line, rows)

    def count(self) -> int | None:
        """Lines of a plain file, too many where cells hold several lines; None for a compressed one."""
        lines = 0
        with _plain(self._source) as file:
            if file.read(2) == _GZIP:
                return None
            file.seek(0)
            while block := file.read(2**20):
                lines += block.count(b"\n")
        return max(lines - self.has_header, 1)

    def _all_rows(self, lines: _Lines, width: int | None) -> Iterator[Row]:
        if self._named_separator:
            next(lines)
        if self.is_smi:
            return _smiles_and_names(lines, self.delimiter, width)
        return _rows(lines, self.delimiter, width)


def _delimiter(suffix: str, first_line: str) -> str:
    if suffix in (".tsv", ".tab"):
        return "\t"
    if suffix == ".smi":
        return "\t" if "\t" in first_line.strip() else " "
    outside_quotes = re.sub(r'"[^"]*("|$)', "", first_line)  # a cell in quotes may go on in the next line
    return max((",", ";", "\t"), key=outside_quotes.count)  # the first of them where none occurs


def _rows(lines: _Lines, delimiter: str, width: int | None) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    blanks = " \t\r\n".replace(delimiter, "")
    while True:
        lines.begin_row()
        line = lines.before + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = _QUOTE_NOT_CLOSED
            if len(lines.taken) == 1:
                problem = next((meaning for known, meaning in _PROBLEMS.items() if known in str(error)), str(error))
            lines.keep_only_first()
            yield Row(line, (lines.taken[0].strip()[:LONGEST_CELL],), problem)
            continue
        if any(map(str.strip, cells)):
            misfit = _misfit(cells, lines.taken, width)
            yield Row(line, cells if misfit is None else cells[:width], misfit)
        elif lines.taken[0].strip(blanks):  # separators or quotes: an empty row, however many there are
            yield Row(line, cells if width is None or width == len(cells) else [""] * width)


def _smiles_and_names(lines: _Lines, delimiter: str, width: int | None) -> Iterator[Row]:
    """``CCO ethyl alcohol`` → the SMILES and the name, which may be missing; there are no quotes in such files."""
    while True:
        lines.begin_row()
        try:
            text = next(lines).strip(" \r\n" if delimiter == "\t" else None)
        except StopIteration:
            return
        except csv.Error as error:
            yield Row(lines.before + 1, (lines.taken[0][:LONGEST_CELL],), str(error))
            continue
        if text:
            cells = text.split("\t") if delimiter == "\t" and "\t" in text else text.split(maxsplit=1)
            while len(cells) > (width or 2) and not cells[-1].strip():  # tabs at the end
                cells.pop()
            cells += [""] * ((width or 2) - len(cells))
            yield Row(lines.before + 1, cells, _misfit(cells, lines.taken, width))


def _misfit(cells: list[str], taken: list[str], width: int | None) -> str | None:
    text = taken[0] if len(taken) == 1 else "".join(taken)
    if "\0" in text:
        return "it holds a NUL character; the file is damaged there, or not UTF-8 text"
    if len(text) > LONGEST_CELL and max(map(len, cells)) > LONGEST_CELL:
        return _CELL_TOO_LONG  # where someone has raised the csv module's limit
    if width is not None and len(cells) != width:
        return f"the row has {counted(len(cells), 'cell')}; expected {width}, as in the first line"
    return None


class _Lines:
    """Hands lines to ``csv.reader`` and remembers those of the row at hand, to begin again behind a bad one."""

    def __init__(self, path: Path | FileContent):
        self._source = _text_lines(path)
        self._waiting: deque[str] = deque()
        self.taken: list[str] = []  # lines of the row at hand
        self.before = 0  # lines before the row at hand
        self.first = next(self._source, "")
        if self.first:
            self._waiting.append(self.first)

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if len(self.taken) == MOST_LINES:
            raise csv.Error(_QUOTE_NOT_CLOSED)
        line = self._waiting.popleft() if self._waiting else next(self._source)
        self.taken.append(line)
        if len(line) > LONGEST_LINE:
            raise csv.Error(f"the line has more than {LONGEST_LINE:,} characters")
        return line

    def begin_row(self) -> None:
        """What was taken is dealt with."""
        self.before += len(self.taken)
        self.taken.clear()

    def keep_only_first(self) -> None:
        """Only the first line was bad; the others are handed out again."""
        self._waiting.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]


def _text_lines(path: Path | FileContent) -> Iterator[str]:
    """Every line with its line end, of whichever kind; a byte-order mark at the beginning is dropped.

    Whether the file is packed with gzip is seen from its content, not from its name. A line of more than
    :data:`LONGEST_LINE` characters comes cut to one character more than that.
    """
    with opened(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        try:
            while line := text.readline(LONGEST_LINE + 1):
                yield line
                while len(line) > LONGEST_LINE and not line.endswith(("\n", "\r")):
                    line = text.readline(LONGEST_LINE + 1)  # the rest of a cut line
        except UnicodeDecodeError:
            raise _not_utf8(path) from None
        finally:
            text.detach()


def _plain(source: Path | FileContent) -> io.BufferedReader:
    return source.open() if isinstance(source, FileContent) else open_binary(source)


@contextmanager
def opened(path: Path | FileContent) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked; whatever goes wrong while they are read is named."""
    try:
        with _plain(path) as plain:
            start = plain.peek(8)
            others = {} if str(path).lower().endswith(_BINARY) else _OTHER_FORMATS
            for magic, (kind, remedy) in others.items():
                if start.startswith(magic):
                    raise FileFormatError(f"{path} is {kind}; expected text in UTF-8, plain or gzip. {remedy}")
            if start.startswith(_GZIP):
                with unpacked(plain, path) as content:
                    yield content
            else:
                yield plain
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(
            f"{path} is a damaged gzip file: {str(error).rstrip('.')}. It was probably cut short; copy or download it "
            "again"
        ) from None
    except FileNotFoundError:
        raise MissingDataError(f"there is no file {path}; expected a table of text. Check the name") from None
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be read ({error.strerror or error}); expected a file of text in UTF-8"
        ) from None


def _not_utf8(path: Path | FileContent) -> FileFormatError:
    """Names the byte where decoding stops, its offset and its line; a text stream does not know its byte offset."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    read, lines = 0, 1
    with opened(path) as binary:
        while True:
            chunk = binary.read(2**20)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                begin = read + len(chunk) - len(error.object)  # the decoder holds back an unfinished letter
                lines += error.object[: error.start].count(b"\n")
                return FileFormatError(
                    f"{path} is not UTF-8 text: byte {error.object[error.start]:#04x} at offset "
                    f"{begin + error.start:,} (line {lines:,}). Save it in UTF-8 ('CSV UTF-8' in a spreadsheet); if it "
                    "is Latin-1, on a shell: iconv -f LATIN1 -t UTF-8 IN > OUT"
                )
            if not chunk:
                return FileFormatError(f"{path} changed while it was read; read it again")
            read += len(chunk)
            lines += chunk.count(b"\n")
