"""Rows that could not be used: kept with their number and reason (:class:`Rejected`), counted, written to a file.

A few bad rows are normal in tables that people made; many mean that the file was misread, so that is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pointset.datasets.own.csv_rows import LONGEST_CELL, Table
from pointset.datasets.own.options import option
from pointset.datasets.own.table_files import open_table
from pointset.errors import FileFormatError, SpecError
from pointset.files import csv_lines, replacing
from pointset.text import counted

MOST_REJECTED = 0.10  # share of the rows
NO_TARGET = "no target"  # the kind of rows that are not wrong: a table of several tasks has them everywhere
TOO_LARGE = "too many nodes"  # of graphs left out by max_nodes, which somebody has asked for
_SHOWN = 5
_CONTENT_LENGTH = 80


class TooManyRejectedError(FileFormatError):
    """More rows cannot be used than was allowed; ``rejected`` are all of them."""

    def __init__(self, message: str, rejected: Sequence[Rejected]):
        super().__init__(message)
        self.rejected = tuple(rejected)


@dataclass(frozen=True)
class Rejected:
    """One row, or one graph of a graph file, that is not in the dataset."""

    row: int  # the line where it begins, counted from 1 as an editor does; a graph's number, counted from 0
    reason: str
    content: str  # the row, shortened, or the name of the graph
    kind: str = ""  # the reason without its particulars, to count by
    place: str = "line"  # what ``row`` counts: "line", "record", "row", "graph", or "targets.csv, line"

    def __str__(self) -> str:
        return f"{self.place} {self.row}: {self.reason} [{self.content}]"


def rejected_row(row: int, kind: str, reason: str, content: str, place: str = "line") -> Rejected:
    """With the content on one line, printable, and short."""
    text = "".join(letter if letter.isprintable() else " " for letter in content[: 2 * _CONTENT_LENGTH]).strip()
    if len(text) > _CONTENT_LENGTH or len(content) > 2 * _CONTENT_LENGTH:
        text = text[: _CONTENT_LENGTH - 1] + "…"
    return Rejected(row, reason, text, kind, place)


def check_share(rejected: Sequence[Rejected], good: int, limit: float, where: object, *, unit: str = "row") -> None:
    """Refuse data of which too much could not be used; rows without a target or with too many nodes do not count.

    ``good`` rows were not rejected, ``limit`` is the largest share of rejected ones, and ``where`` the file.
    """
    bad = [one for one in rejected if one.kind not in (NO_TARGET, TOO_LARGE)]
    total = good + len(bad)
    if good and len(bad) <= limit * total:
        return
    if not good:
        bad, total = list(rejected), len(rejected)
    by_kind = Counter(one.kind or one.reason for one in bad).most_common()
    reasons = ", ".join(f"{count:,} × {kind}" for kind, count in by_kind)
    examples = "".join(f"\n  {one}" for one in bad[:_SHOWN])
    more = f"\n  … and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    bound = f"expected at most {100 * limit:.3g}%" if good else f"no {unit} is left"
    alternative = f", or use the other {good:,} with {option('max_rejected', 1.0)}" if good else ""
    raise TooManyRejectedError(
        f"{where}: {len(bad):,} of {counted(total, unit)} ({100 * len(bad) / max(total, 1):.3g}%) cannot be used; "
        f"{bound}. By reason: {reasons}. The first are{examples}{more}\nCorrect them{alternative}",
        rejected,
    )


def check_max_nodes(max_nodes: int | None) -> None:
    """Refuse what is no number of nodes."""
    if max_nodes is not None and (isinstance(max_nodes, bool) or not isinstance(max_nodes, int) or max_nodes < 1):
        raise SpecError(f"got {max_nodes!r} for {option('max_nodes')}; expected a whole number of at least 1, or null")


def size_problem(num_nodes: int, max_nodes: int | None) -> tuple[str, str] | None:
    """The kind of problem and the reason, where a graph has more nodes than are wanted."""
    if max_nodes is None or num_nodes <= max_nodes:
        return None
    return TOO_LARGE, f"it has {num_nodes:,} nodes; expected at most {max_nodes:,}, as {option('max_nodes')} says"


def check_limit(limit: float) -> float:
    """``max_rejected`` as a share between 0 and 1."""
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 <= limit <= 1:
        raise SpecError(
            f"got {limit!r} for {option('max_rejected')}; expected a share between 0 and 1, such as 0.1 for a tenth"
        )
    return float(limit)


def write_rejected(
    path: str | Path,
    rejected: Sequence[Rejected],
    table: str | Path | None = None,
    *,
    header: bool = True,
    sheet: str | int | None = None,
) -> None:
    """Write what was left out as CSV, whole or not at all.

    Args:
        path: the file to write.
        rejected: the rows left out.
        table: the table that they come from. With it, its columns are written as they are, with its separator, and
            behind them line and reason (one column of both where there is no header): the rows can be corrected there
            and read again. Without it, the columns are place, row, reason and content.
        header: whether the table has a header; otherwise none is written.
        sheet: of a workbook.

    Raises:
        FileFormatError: the folder is not there, or the table cannot be read any more.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileFormatError(f"cannot write {target}: there is no folder {target.parent}. Create it first")
    source = None if table is None else open_table(table, header=header, sheet=sheet)
    delimiter = "," if source is None else source.delimiter.replace(" ", "\t")  # .smi: names have blanks
    with (
        replacing(target) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        rows: Iterable[Iterable[object]]
        if source is not None:
            rows = _original_rows(source, {one.row: one.reason for one in rejected})
        else:
            each = ((one.place, one.row, one.reason, one.content) for one in rejected)
            rows = [("place", "row", "reason", "content"), *each]
        file.writelines(csv_lines(rows, delimiter))


def _original_rows(table: Table, reasons: dict[int, str]) -> Iterator[list[str]]:
    """The rows at these lines; cells that are missing at the end are empty, and those that no program reads are cut."""
    if table.has_header:
        yield [*table.header, table.unit, "reason"]
    for row in table.rows():
        if row.line in reasons:
            missing = [""] * (table.width - len(row.cells))
            cells = [cell[:LONGEST_CELL] for cell in row.cells]
            reason = reasons[row.line]
            # Where columns have no names, a column of lines would be taken for a target when it is read again.
            told = (str(row.line), reason) if table.has_header else (f"{table.unit} {row.line}: {reason}",)
            yield [*cells, *missing, *told]
