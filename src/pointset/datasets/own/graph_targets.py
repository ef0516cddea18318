"""Targets of the user's graphs: ``y`` in the graph files themselves, or the rows of a table beside them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.card import Level, Task
from pointset.datasets.graph_files.formats import FORMATS
from pointset.datasets.own.candidates import Role
from pointset.datasets.own.columns import Column, column_number, describe_columns, shown, target_columns
from pointset.datasets.own.csv_rows import Row, Table
from pointset.datasets.own.options import option
from pointset.datasets.own.rejected import NO_TARGET, Rejected, rejected_row
from pointset.datasets.own.table_files import open_table
from pointset.datasets.own.targets import infer_task, read_targets, whole_numbers_note
from pointset.datasets.splits.files import split_problem
from pointset.errors import FileFormatError, SpecError
from pointset.points.graphs import Graph

Numbers = NDArray[np.float64]
Problems = dict[int, tuple[str, str]]  # graph → kind and reason
_GRAPH_COLUMNS = ("graph", "name", "file", "filename", "id", "index")  # that say which graph a row is about


@dataclass(frozen=True)
class GraphTargets:
    """Targets of all graphs handed in; those with a problem have None."""

    level: Level
    task: Task
    names: tuple[str, ...] = ()
    y: Sequence[NDArray[Any] | None] | None = None  # of each graph: (1, k), or at the level of nodes (n, k)
    classes: tuple[str, ...] = ()
    problems: Problems = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # for the card

    def joined(self) -> NDArray[Any] | None:
        """(G,), (G, k), or with a row for each node; None where there are no targets."""
        if self.y is None:
            return None
        y = np.concatenate([table for table in self.y if table is not None])
        return y[:, 0] if y.shape[1] == 1 else y


def targets_in_files(graphs: Sequence[Graph], level: Level | None, task: Task | None) -> GraphTargets:
    """The targets ``y`` of the graphs.

    ``y`` with one row is of the graph, with a row for each node of the nodes; numbers in a row are several targets.
    Where no graph has ``y`` there are no targets.

    ``level`` None is seen from their shapes. ``task`` None is inferred: 0 and 1 are labels, everything else numbers;
    classes have to be asked for.
    """
    if all(graph.features.y is None for graph in graphs):
        if level is Level.NODE:
            raise SpecError(
                f"got {option('level', 'node')}, but the graphs carry no y; expected a row of y for each node"
            )
        return GraphTargets(Level.GRAPH, task or Task.REGRESSION)
    level = level or _level(graphs)
    problems: Problems = {}
    tables = [_table(graph, level, index, problems) for index, graph in enumerate(graphs)]
    if level is Level.NODE and task is Task.MULTI_CLASS:  # negative: not known, as PyG's node tasks have it
        tables = [None if table is None else np.where(table < 0, np.nan, table) for table in tables]
    widths = Counter(table.shape[1] for table in tables if table is not None)
    width = widths.most_common(1)[0][0] if widths else 0
    for index, table in enumerate(tables):
        if table is not None and table.shape[1] != width:
            problems[index] = ("other targets than most", f"y has {table.shape[1]} numbers; expected {width}, as most")
    names = ("y",) if width == 1 else tuple(f"y{column}" for column in range(width))
    return _finished(level, task, names, tables, problems)


def _finished(
    level: Level, task: Task | None, names: tuple[str, ...], tables: list[Numbers | None], problems: Problems
) -> GraphTargets:
    notes: tuple[str, ...] = ()
    if task is None:
        sound = [table for index, table in enumerate(tables) if table is not None and index not in problems]
        values = np.concatenate([np.zeros((0, len(names))), *sound])
        task = infer_task(values)
        if task is Task.REGRESSION and len(names) == 1:
            notes = whole_numbers_note(values, names[0])
    if task in (Task.BINARY, Task.MULTI_CLASS) and len(names) > 1:
        raise SpecError(
            f"the graphs have {len(names)} targets y for {task.value}; expected one. Pass "
            f"{option('task', 'multi-label')}"
        )
    for index, table in enumerate(tables):
        if table is not None and index not in problems and (reason := _misfit(table, task, level)):
            problems[index] = ("targets that do not fit the task", reason)
    good = [table if index not in problems else None for index, table in enumerate(tables)]
    if task is not Task.MULTI_CLASS:
        dtype = np.float64 if task is Task.REGRESSION else np.float32
        y = [None if table is None else table.astype(dtype) for table in good]
        return GraphTargets(level, task, names, y, (), problems, notes)
    values = np.concatenate([table.ravel() for table in good if table is not None] or [np.zeros(0)])
    labels = np.unique(values[~np.isnan(values)])
    numbered = [
        None if table is None else np.where(np.isnan(table), -1, np.searchsorted(labels, table)) for table in good
    ]
    classes = tuple(repr(float(label)).removesuffix(".0") for label in labels)
    return GraphTargets(level, task, names, numbered, classes, problems)


def _level(graphs: Sequence[Graph]) -> Level:
    """By the shapes of y; where both would do, of the graph."""
    shapes = [(graph.features.y.shape, graph.num_nodes) for graph in graphs if graph.features.y is not None]
    of_graph = sum(len(shape) == 0 or shape[0] == 1 for shape, _ in shapes)
    of_nodes = sum(len(shape) > 0 and shape[0] == nodes for shape, nodes in shapes)
    return Level.NODE if of_nodes > of_graph else Level.GRAPH


def _table(graph: Graph, level: Level, index: int, problems: Problems) -> Numbers | None:
    y = graph.features.y
    if y is None:
        problems[index] = (NO_TARGET, "it carries no y, as other graphs do")
        return None
    if y.is_complex():
        problems[index] = ("targets that are not numbers", "y holds complex numbers; expected real ones")
        return None
    rows = graph.num_nodes if level is Level.NODE else 1
    if level is Level.NODE and (y.dim() == 0 or y.shape[0] != rows):
        reason = f"y has shape {tuple(y.shape)}; expected a row for each of {rows} nodes"
        problems[index] = ("y not on every node", reason)
        return None
    table: Numbers = y.detach().to("cpu").double().reshape(rows, y.numel() // max(rows, 1)).numpy()
    if np.isinf(table).any():
        reason = "y holds infinity; expected finite numbers, NaN where missing"
        problems[index] = ("targets that are not numbers", reason)
    elif np.isnan(table).all():
        problems[index] = (NO_TARGET, "all of y is missing (NaN), or y is empty")
    return table


def _misfit(table: Numbers, task: Task, level: Level) -> str | None:
    if task is Task.REGRESSION:
        return None
    if task is Task.MULTI_CLASS:
        fits, expected = table == np.round(table), "whole numbers"  # NaN is not a class either
        fits |= np.isnan(table) & (level is Level.NODE)  # but a node may be without one
    else:
        fits, expected = np.isnan(table) | (table == 0) | (table == 1), "0 or 1, NaN where missing"
    return None if fits.all() else f"y holds {table[~fits][0]:g}; expected {expected}"


@dataclass(frozen=True)
class TargetTable:
    """The table, with the row of each graph."""

    file: Table
    columns: list[int]  # of targets
    split: int | None  # the column of the split
    row_of: dict[int, Row]  # by the number of the graph
    rejected: list[Rejected] = field(default_factory=list)  # bad rows, and rows without a graph
    notes: tuple[str, ...] = ()  # what was guessed

    def targets(self, numbers: Sequence[int], task: Task | None) -> GraphTargets:
        """The targets of the graphs with these numbers."""
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
            problems[known[at]] = (kind, f"{self.file.path.name}, {self.file.unit} {rows[at].line}: {reason}")
        if values.y is None:
            return GraphTargets(Level.GRAPH, values.task, problems=problems)
        at_position = dict(zip(known, values.y.reshape(len(rows), math.prod(values.y.shape[1:])), strict=True))
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

    ``names`` are of all graphs, bad ones included, in their order; ``columns`` and ``split`` are the columns of targets
    (None for all columns of numbers) and of the split; ``numbered`` says whether graphs may be meant by number.
    """
    file = open_table(path)
    key = _graph_column(file)
    split_column = None if split is None else column_number(file, split, "split")
    others = {key: Role.OTHER} | ({} if split_column is None else {split_column: Role.SPLIT})
    bad: list[tuple[Row, str, str]] = []  # with the kind of problem and the reason
    rows: dict[str, Row] = {}
    for row in file.filled_rows():
        problem = row.problem
        if problem is None and not row.cells[key].strip():
            problem = f"{shown(file, key)!r} is empty; expected the name or number of a graph"
        if problem is None and split_column is not None:
            problem = split_problem(row.cells[split_column])
        if problem is not None:
            bad.append((row, "a bad row of targets", problem))
            continue
        name = row.cells[key].strip()
        if name in rows:
            raise FileFormatError(
                f"{file.path}: the graph {name!r} has a row in line {rows[name].line} and another in line {row.line}; "
                "expected one. Remove one of them"
            )
        rows[name] = row
    numbers = _numbers_of(file, list(rows), names, numbered=numbered)
    row_of = {numbers[name]: row for name, row in rows.items() if name in numbers}
    for name, row in rows.items():
        if name not in numbers:
            bad.append((row, "a row of targets without a graph", f"there is no graph {name[:80]!r}"))
    rejected = [
        rejected_row(row.line, kind, reason, file.delimiter.join(row.cells), f"{file.path.name}, {file.unit}")
        for row, kind, reason in bad
    ]
    target_numbers, notes = target_columns(file, columns, others, "columns")
    if not target_numbers and columns is None:
        told = [f"\n  {note}" for note in notes[1:]]
        raise SpecError(
            f"{file.path} has no column of numbers besides identifiers; {describe_columns(file)}. Name the targets, "
            f"which may be a column of words for classes, with {option('columns')}{''.join(told)}"
        )
    return TargetTable(file, target_numbers, split_column, row_of, rejected, notes)


def _graph_column(file: Table) -> int:
    lower = [name.lower() for name in file.header]
    for name in _GRAPH_COLUMNS:
        if lower.count(name) > 1:
            raise FileFormatError(f"the header of {file.path} names {name!r} more than once; expected once. Rename one")
        if name in lower:
            return lower.index(name)
    raise SpecError(
        f"{file.path} has the columns {', '.join(file.header)[:200]!r}; expected one named 'graph' with the name or "
        "number of each row's graph. Rename it, or add a column graph with 0, 1, 2, …, in the order of the graphs"
    )


def _numbers_of(file: Table, keys: list[str], names: Sequence[str], *, numbered: bool) -> dict[str, int]:
    """The number of the graph that each key means. One way of naming holds for the whole table: none are mixed."""
    stems = [Path(name).stem if Path(name).suffix.lower() in FORMATS else name for name in names]  # a.graphml → a
    for known in (_unique(names), _unique(stems)):
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
