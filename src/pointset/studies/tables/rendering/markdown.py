"""A table as Markdown (:func:`markdown_section`), and its parts for other pages (:func:`markdown_table`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pointset.studies.tables.rendering.against import Comparison, against
from pointset.studies.tables.rendering.facts import COSTS, costs_of, facts_of
from pointset.studies.tables.rendering.sheet import Line, Sheet, SheetCell, sheet_of
from pointset.studies.tables.result import TableResult

INCOMPLETE = "Not complete: runs are missing. What is shown is what has been measured so far."


def markdown_page(result: TableResult) -> str:
    """A whole file."""
    return f"# {plain(result.title)}\n\n{markdown_section(result)}"


def markdown_section(result: TableResult, pictures: Sequence[str] = ()) -> str:
    """Everything but the heading: scope, table, legend, comparison, costs, facts; ``pictures`` are Markdown lines."""
    sheet = sheet_of(result)
    blocks = [] if result.complete else [f"> **{INCOMPLETE}**"]
    blocks += [plain(result.scope), _table(sheet), *_explained(sheet)]
    found = against(result)
    if found is not None:
        heads = ["ours / the paper's", *(column.title for column in result.columns)]
        rows = [[_title(Line(one.title, [], repeats=one.repeats)), *map(_compared, one.cells)] for one in found.lines]
        legend = plain(found.legend) + (" Bold: at least as good as printed." if any_good(rows) else "")
        blocks += ["**Ours against the paper's**", _grid(heads, rows), legend]
    blocks += pictures
    if costs := costs_of(result):
        rows = [[plain(title), *map(plain, texts)] for title, texts in costs]
        blocks += ["**What it took**", _grid(["", *COSTS], rows)]
    blocks.append(f"```sh\n{' '.join(result.command.split())}\n```")
    blocks.append("; ".join(f"{name}: {plain(text)}" for name, text in facts_of(result)) + ".")
    if result.notes:
        blocks.append("\n".join(f"- {plain(note)}" for note in result.notes))
    return "\n\n".join(block for block in blocks if block) + "\n"


def markdown_table(result: TableResult) -> str:
    """The table and the sentences that explain its marks, to stand on another page."""
    sheet = sheet_of(result)
    warning = [] if result.complete else [f"**{INCOMPLETE}**"]
    return "\n\n".join([*warning, _table(sheet), *_explained(sheet)])


def plain(text: str) -> str:
    """On one line, with nothing in it that Markdown would read as markup."""
    text = re.sub(r"([\\`*_\[\]|$~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"&(?=#?\w+;)", "&amp;", text).replace("<", "&lt;")


def any_good(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a comparison is bold."""
    return any(cell.startswith("**") for row in rows for cell in row[1:])


def _table(sheet: Sheet) -> str:
    heads = ["", *(["parameters"] if sheet.with_parameters else []), *map(plain, sheet.heads)]
    rows: list[list[str]] = []
    for part in sheet.parts:
        rows.append([f"**{plain(part.heading)}**", *[""] * (len(heads) - 1)])
        for line in part.lines:
            parameters = [line.parameters] if sheet.with_parameters else []
            rows.append([_title(line), *parameters, *map(_cell, line.cells)])
    return _grid(heads, rows)


def _explained(sheet: Sheet) -> list[str]:
    """The legend, and the footnotes under it."""
    notes = [f"<sup>{letter}</sup> {plain(note)}" for letter, note in sheet.footnotes]
    return [block for block in (" ".join(map(plain, sheet.legend)), "<br>\n".join(notes)) if block]


def _title(line: Line) -> str:
    repeats = f" <sub>repeats {plain(line.repeats)}</sub>" if line.repeats else ""
    return plain(line.title) + _raised(line.letter) + repeats


def _cell(cell: SheetCell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    return text + (" ✓" if cell.counts else "") + _raised(cell.letter)


def _compared(cell: Comparison) -> str:
    return f"**{cell.text}**" if cell.good else cell.text


def _raised(letter: str) -> str:
    return f"<sup>{letter}</sup>" if letter else ""


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Names to the left, numbers to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
