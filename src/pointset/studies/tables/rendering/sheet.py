"""What every format shows of a table, before it is Markdown, LaTeX or HTML (:func:`sheet_of`)."""

from __future__ import annotations

from typing import NamedTuple

from pointset.studies.tables.rendering.footnotes import Footnotes
from pointset.studies.tables.rendering.numbers import best_shown, counts, rounded, shared, shown, shown_cell
from pointset.studies.tables.result import Cell, Column, Row, TableResult

_ARROWS = {"low": " ↓", "high": " ↑", "neither": ""}
_DIRECTIONS = {"low": "lower is better", "high": "higher is better"}


class SheetCell(NamedTuple):
    """``letter`` is that of its footnote."""

    text: str
    bold: bool = False
    counts: bool = False
    letter: str = ""


class Line(NamedTuple):
    """A row; ``repeats`` is the paper's row that one of ours repeats."""

    title: str
    cells: list[SheetCell]
    parameters: str = ""
    repeats: str = ""
    letter: str = ""


class Part(NamedTuple):
    """Rows of one source, under a heading of their own."""

    heading: str
    lines: list[Line]
    ours: bool = False


class Sheet(NamedTuple):
    """The table: heads of the columns, parts, and the sentences and footnotes that explain its marks."""

    heads: list[str]
    parts: list[Part]
    with_parameters: bool
    legend: list[str]
    footnotes: list[tuple[str, str]]


def name_of(result: TableResult) -> str:
    """``TABLE-BUDGET``: of the files."""
    return f"{result.table}-{result.budget}"


def sheet_of(result: TableResult) -> Sheet:
    """The paper's rows, then published ones, then ours; the best of the printed rows and the best of ours are bold."""
    ours = [row for row in result.rows if row.source == "ours"]
    printed = [row for row in result.rows if row.source != "ours"]
    footnotes = Footnotes()
    headings = {
        "paper": f"The paper, {result.paper_table}",
        "published": "Published elsewhere",
        "ours": f"Measured here, budget {result.budget}" + ("" if result.complete else ", runs are missing"),
    }
    parts = []
    for source, heading in headings.items():
        rivals = ours if source == "ours" else printed
        best = {column.key: best_shown(rivals, column) for column in result.columns}
        rows = [row for row in result.rows if row.source == source]
        lines = [_line(row, result.columns, best, footnotes) for row in rows]
        if lines:
            parts.append(Part(heading, lines, ours=source == "ours"))
    known = any(row.parameters is not None for row in result.rows)
    return Sheet(_heads(result.columns), parts, known, _legend(result, parts), footnotes.listed())


def _line(row: Row, columns: tuple[Column, ...], best: dict[str, float | None], footnotes: Footnotes) -> Line:
    letter = footnotes.letter(row.note)
    cells = [_cell(row.cells.get(column.key), column, best[column.key], footnotes) for column in columns]
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    return Line(row.title, cells, parameters, row.counterpart or "", letter)


def _cell(cell: Cell | None, column: Column, best: float | None, footnotes: Footnotes) -> SheetCell:
    letter = footnotes.letter(cell.note) if cell is not None else ""
    mean = cell.mean if cell is not None else None
    bold = mean is not None and best is not None and rounded(mean, column) == best
    return SheetCell(shown_cell(cell, column), bold, counts(cell, column), letter)


def _heads(columns: tuple[Column, ...]) -> list[str]:
    """Titles; unit and direction stand in the legend instead where all columns share them."""
    one_unit = shared([column.unit for column in columns]) is not None
    one_direction = shared([column.better for column in columns]) is not None
    return [
        column.title
        + ("" if one_unit or not column.unit else f" ({column.unit})")
        + ("" if one_direction else _ARROWS[column.better])
        for column in columns
    ]


def _legend(result: TableResult, parts: list[Part]) -> list[str]:
    cells = [cell for part in parts for line in part.lines for cell in line.cells]
    unit = shared([column.unit for column in result.columns])
    direction = shared([column.better for column in result.columns])
    first = [f"values in {unit}"] if unit else []
    first += [_DIRECTIONS[direction]] if direction in _DIRECTIONS else []
    if direction is None:
        first.append("↓ lower is better, ↑ higher is better")
    sentences = ["; ".join(first)] if first else []
    if any(" ± " in cell.text for cell in cells):
        sentences.append("mean ± standard deviation over seeds or folds")
    if any(cell.bold for cell in cells):
        sentences.append("bold: the best of the printed rows, and the best of ours")
    bounds = {shown(column.counts_below, column) for column in result.columns if column.counts_below is not None}
    if bounds:
        sentences.append(f"✓ it counts: at most {' or '.join(sorted(bounds))}")
    return [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in sentences]
