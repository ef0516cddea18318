"""A table as one self-contained HTML page (:func:`html_page`)."""

from __future__ import annotations

from pointset.reports.run_pages.headline import Tile
from pointset.reports.run_pages.pages import rendered
from pointset.reports.run_pages.words import count
from pointset.studies.tables.rendering.against import against, counterpart_of
from pointset.studies.tables.rendering.curves import curve_chart
from pointset.studies.tables.rendering.facts import COSTS, costs_of, facts_of, total_time
from pointset.studies.tables.rendering.markdown import INCOMPLETE
from pointset.studies.tables.rendering.numbers import counts, shown_cell
from pointset.studies.tables.rendering.sheet import sheet_of
from pointset.studies.tables.result import Row, TableResult

_DENSE = 8  # columns; with more of them deviations stand below their means


def html_page(result: TableResult) -> str:
    """Readable on a phone and on paper, light or dark; it fetches nothing.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    sheet = sheet_of(result)
    chart = curve_chart(result)
    values = {
        "title": result.title,
        "eyebrow": f"pointset · {result.paper_table} of the paper · budget {result.budget}",
        "lead": result.scope,
        "tiles": _tiles(result),
        "verdict": None,
        "test_scored": "",
        "incomplete": "" if result.complete else INCOMPLETE,
        "sheet": sheet,
        "marks": any(cell.counts for part in sheet.parts for line in part.lines for cell in line.cells),
        "dense": len(sheet.heads) > _DENSE,
        "width": len(sheet.heads) + 1 + sheet.with_parameters,
        "against": against(result),
        "columns": [column.title for column in result.columns],
        "curves": chart[0] if chart else None,
        "legend": chart[1] if chart else [],
        "costs": costs_of(result),
        "cost_heads": COSTS,
        "facts": facts_of(result),
        "notes": result.notes,
        "command": result.command,
        "runs": [(row.title, run) for row in result.rows if row.source == "ours" for run in row.runs],
    }
    return rendered("table.html.j2", values)


def _tiles(result: TableResult) -> list[Tile]:
    """The first row of ours beside the one that it repeats, how long all took, and when."""
    row = next((one for one in result.rows if one.source == "ours" and one.cells), None)
    tiles = _score_tiles(row, result) if row is not None else []
    runs = sum(len(one.runs) for one in result.rows if one.source == "ours")
    tiles.append(Tile("time", total_time(result), f"{count(runs, 'run')} together" if runs else ""))
    return [*tiles, Tile("measured", result.date, "" if result.complete else "not complete")]


def _score_tiles(row: Row, result: TableResult) -> list[Tile]:
    bounded = [column for column in result.columns if column.counts_below is not None]
    other = counterpart_of(row, result)
    if bounded:
        of = f"of {len(bounded)} substructures"
        counted = sum(counts(row.cells.get(column.key), column) for column in bounded)
        tiles = [Tile(f"{row.title} counts", str(counted), of, "main")]
        if other is not None:
            counted = sum(counts(other.cells.get(column.key), column) for column in bounded)
            tiles.append(Tile(f"the paper's {other.title}", str(counted), of))
        return tiles
    column = result.columns[0]
    tiles = [Tile(row.title, shown_cell(row.cells.get(column.key), column), column.title, "main")]
    if other is not None:
        shown = shown_cell(other.cells.get(column.key), column)
        tiles.append(Tile(f"the paper's {other.title}", shown, column.title))
    return tiles
