"""Targets of graphs in a table beside the graph files; a row names its graph (:func:`read_target_table`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pointset.datasets.card import Level, Task
from pointset.datasets.graph_formats import FORMATS
from pointset.datasets.own.column_choice import Column, column_number, columns_in_words, shown, target_columns
from pointset.datasets.own.csv_rows import CsvFile, Row
from pointset.datasets.own.graph_targets import GraphTargets
from pointset.datasets.own.rejected import Rejected, rejected_row
from pointset.datasets.own.splitting import split_problem
from pointset.datasets.own.target_values import read_targets
from pointset.errors import FileFormatError, SpecError

GRAPH_COLUMNS = ("graph", "name", "file", "filename", "id", "index")  # that say which graph a row is about


@dataclass(frozen=True)
class TargetTable:
    """The table, with the row of each graph."""

    file: CsvFile
    columns: list[int]  # of targets
    split: int | None  # the column of the split
    row_of: dict[int, Row]  # by the number of the graph
    rejected: list[Rejected] = field(default_factory=list)  # bad rows, and rows without a graph

    def targets(self, numbers: Sequence[int], task: Task | None) -> GraphTargets:
        """The targets of the graphs with these numbers.

        Raises:
            SpecError: the task does not fit the columns.
        """
        names = tuple(shown(self.file, column) for column in self.columns)
        known = [position for position, number in enumerate(numbers) if number in self.row_of]
        rows = [self.row_of[numbers[position]] for position in known]
        cells = [[row.cells[column] for row in rows] for column in self.columns]
        values = read_targets(cells, names, task, commas=self.file.decimal_commas)
        problems = {
            position: ("no row of targets", f"{self.file.path.name} has no row for this graph")
            for position, number in enumerate(numbers)
            if number not in self.row_of
        }
        for at, (kind, reason) in values.problems.items():
            problems[known[at]] = (kind, f"{self.file.path.name}, line {rows[at].line}: {reason}")
        if values.y is None:
            return GraphTargets(Level.GRAPH, values.task, problems=problems)
        at_position = dict(zip(known, values.y.reshape(len(rows), -1), strict=True))
        y = [None if index in problems else at_position[index][None] for index in range(len(numbers))]
        return GraphTargets(Level.GRAPH, values.task, names, y, values.classes, problems, values.notes)

    def split_cells(self, numbers: Sequence[int]) -> list[str] | None:
        """The cells of the split column for these graphs."""
        return None if self.split is None else [self.row_of[number].cells[self.split] for number in numbers]


def read_target_table(
    path: str | Path,
    names: Sequence[str],
    *,
    columns: Column | Sequence[Column] | None,
    split: str | None,
    numbered: bool,
) -> TargetTable:
    """Read the table and find each row's graph.

    The column ``graph`` (or name, file, filename, id, index) holds the name of the graph, as it is reported, or the
    name of its file without the suffix; or, in files where graphs have no names, its number counted from 0.

    Args:
        path: a CSV with a header.
        names: of all graphs, bad ones included, in their order.
        columns: of targets; None for all columns of numbers.
        split: the column of the split.
        numbered: whether graphs may be meant by number.

    Raises:
        FileFormatError: no row names a graph, or two rows name the same.
        SpecError: there is no such column.
    """
    file = CsvFile(path)
    key = _graph_column(file)
    split_column = None if split is None else column_number(file, split, "split")
    others = [key] if split_column is None else [key, split_column]
    rejected: list[Rejected] = []
    rows: dict[str, Row] = {}
    for row in file.rows():
        problem = row.problem
        if problem is None and split_column is not None:
            problem = split_problem(row.cells[split_column])
        if problem is not None:
            rejected.append(_row_rejected(file, row, "a bad row of targets", problem))
            continue
        name = row.cells[key].strip()
        if name in rows:
            raise FileFormatError(
                f"{file.path}: the graph {name!r} has a row in line {rows[name].line} and another in line {row.line}; "
                "expected one. Remove one of them"
            )
        rows[name] = row
    number_of = _numbers(file, list(rows), names, numbered=numbered)
    row_of = {number_of[name]: row for name, row in rows.items() if name in number_of}
    for name, row in rows.items():
        if name not in number_of:
            reason = f"there is no graph {name[:80]!r}"
            rejected.append(_row_rejected(file, row, "a row of targets without a graph", reason))
    return TargetTable(file, _target_columns(file, columns, others), split_column, row_of, rejected)


def _target_columns(file: CsvFile, chosen: Column | Sequence[Column] | None, others: Sequence[int]) -> list[int]:
    found = target_columns(file, chosen, others, "columns")
    if not found and chosen is None:
        raise SpecError(
            f"{file.path} has no column of numbers besides identifiers; {columns_in_words(file)}. Name the targets, "
            "which may be a column of words for classes: columns='…' (--target …)"
        )
    return found


def _graph_column(file: CsvFile) -> int:
    lower = [name.lower() for name in file.header]
    for name in GRAPH_COLUMNS:
        if lower.count(name) > 1:
            raise FileFormatError(f"the header of {file.path} names {name!r} more than once; expected once. Rename one")
        if name in lower:
            return lower.index(name)
    raise SpecError(
        f"{file.path} has the columns {', '.join(file.header)[:200]!r}; expected one named 'graph' with the name or "
        "number of each row's graph. Rename it, or add a column graph with 0, 1, 2, …, in the order of the graphs"
    )


def _numbers(file: CsvFile, keys: list[str], names: Sequence[str], *, numbered: bool) -> dict[str, int]:
    """The number of the graph that each key means. One way of naming holds for the whole table: none are mixed."""
    for known in (_unique(names), _unique([_short(name) for name in names])):
        if any(key in known for key in keys):
            return {key: known[key] for key in keys if key in known}
    digits = [key for key in keys if re.fullmatch(r"[0-9]{1,18}", key)]
    if not numbered or not digits:
        shown_names = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise FileFormatError(
            f"{file.path}: no row names one of the {len(names):,} graphs; got {', '.join(keys[:3])[:100]!r}, expected "
            f"names such as {shown_names}" + (" or their numbers, counted from 0" if numbered else "")
        )
    values = {key: int(key) for key in digits}
    first, last = min(values.values()), max(values.values())
    if first == 1 and len(set(values.values())) == last:  # 1, 2, 3, … without a gap
        raise FileFormatError(
            f"{file.path}: the numbers of the graphs run from 1 to {last}; expected 0 to {len(names) - 1}. Subtract 1, "
            "as graphs are counted from 0 here; or give graph 0 a row without target if it has none"
        )
    repeated = [value for value, count in Counter(values.values()).items() if count > 1]
    if repeated:
        raise FileFormatError(f"{file.path}: graph {repeated[0]} has two rows (such as 1 and 01); expected one")
    return {key: value for key, value in values.items() if value < len(names)}


def _unique(names: Sequence[str]) -> dict[str, int]:
    counts = Counter(names)
    return {name: index for index, name in enumerate(names) if counts[name] == 1}


def _short(name: str) -> str:
    """``a.graphml`` → ``a``."""
    path = Path(name)
    return path.stem if path.suffix.lower() in FORMATS else name


def _row_rejected(file: CsvFile, row: Row, kind: str, reason: str) -> Rejected:
    return rejected_row(row.line, kind, reason, file.delimiter.join(row.cells), f"{file.path.name}, line")
