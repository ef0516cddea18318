"""The page of all results with its pictures (:func:`page_outputs`), and their numbers in other Markdown files.

A marked place ``<!-- result: ADDRESS -->0.8<!-- /result -->`` is filled by :func:`fill_marks`; an address is one of::

    TABLE-BUDGET                      the whole table
    TABLE-BUDGET/seconds              of all runs, in words; also date, machine, runs
    TABLE-BUDGET/ROW/COLUMN           a cell as the table shows it; COLUMN is a key or a title
    TABLE-BUDGET/ROW/COLUMN/mean      without its deviation; also std, against (the counterpart)
    TABLE-BUDGET/ROW/*                all means of a row, as cells of a table: 0.5 | 0.7 | 0.9
    TABLE-BUDGET/ROW/parameters       also seconds, of all its runs, in words
    FILE/KEY                          a figure of another JSON file, as a benchmark wrote it; FILE/KEY/KEY inside it,
                                      ``*`` for the sum over all that stand there, an entry of a list by its "name"
    FILE/KEY as .4f                   such a figure by Python's format: 0.0030; also ,.0f or .0%

A row is one of ours; ``paper:ROW`` and ``published:ROW`` are printed ones. Marks in code are left alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pointset.errors import FileFormatError, MissingDataError, did_you_mean
from pointset.files import read_text, replacing
from pointset.paper.tables.formats import markdown_section, markdown_table, plain, table_from
from pointset.paper.tables.pictures import Picture, pictures_of
from pointset.paper.tables.result import Column, Row, TableResult
from pointset.paper.tables.sheet import (
    BUDGETS,
    MISSING,
    against_row,
    counterpart_of,
    describe_machine,
    format_cell,
    format_value,
    seconds_of,
    total_time,
)
from pointset.text import duration

_MARK = re.compile(
    r"(?P<code>```.*?```|`[^`\n]*`)"
    r"|(?P<begin><!--\s*result:\s*(?P<address>(?:(?!-->).)*?)\s*-->)"
    r"(?:(?P<old>(?:(?!<!--\s*/?result\b).)*)(?P<end><!--\s*/result\s*-->))?"
    r"|(?P<stray><!--\s*/result\s*-->)",
    flags=re.DOTALL,
)
_Value = TypeVar("_Value")
_SOURCES = ("ours", "paper", "published")
_CELL_VALUES = ("mean", "std", "against")
_ROW_VALUES = ("parameters", "seconds")


def fill_marks(
    text: str, tables: Mapping[str, TableResult], where: str, figures: Mapping[str, Any] | None = None
) -> str:
    """The Markdown text with every marked place filled anew; tables and figures are by the names of their files.

    ``where`` is the file, for messages. A FileFormatError says what is wrong with a mark.
    """

    def replaced(match: re.Match[str]) -> str:
        if match["code"] is not None:
            return match[0]
        line = text.count("\n", 0, match.start()) + 1
        if match["stray"] is not None:
            raise FileFormatError(f"{where}:{line}: a mark ends here that did not begin; expected <!-- result: … -->")
        if match["end"] is None:
            raise FileFormatError(f"{where}:{line}: {match['begin']} has no end; expected <!-- /result --> after it")
        try:
            value = _value_at(match["address"], tables, figures or {})
        except FileFormatError as error:
            raise FileFormatError(f"{where}:{line}: {error}") from None
        return f"{match['begin']}{value}{match['end']}"

    return _MARK.sub(replaced, text)


def _value_at(address: str, tables: Mapping[str, TableResult], figures: Mapping[str, Any]) -> str:
    """What is to stand at an address, as Markdown."""
    name, *parts = address.split("/")
    if name in figures:
        return plain(_figure(figures[name], "/".join(parts), address))
    result = _lookup(name, {**figures, **tables}, f"{address!r}: there is no result", "result")
    if not parts:
        return f"\n\n{markdown_table(result)}\n\n"
    if len(parts) == 1:
        return plain(_table_value(parts[0], result, address))
    if parts[-1] == "*":
        row = _row("/".join(parts[:-1]), result, address)
        return " | ".join(plain(_cell_value(row, column, "mean", result)) for column in result.columns)
    return plain(_row_value(parts, result, address))


def _figure(content: Any, keys: str, address: str) -> str:
    keys, _, form = keys.partition(" as ")
    value = _at(content, keys, address)
    if form and isinstance(value, (int, float)):
        try:
            return format(value, form)
        except ValueError:
            raise FileFormatError(f"{address!r}: no format {form!r}; expected one such as .4f, ,.0f or .0%") from None
    if not isinstance(value, (str, int, float)):
        keys = ", ".join(value) if isinstance(value, Mapping) else "it has none"
        raise FileFormatError(f"{address!r} is not one figure; expected one of its keys after it: {keys}")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _at(content: Any, keys: str, address: str) -> Any:
    """A key may itself have slashes, so the longest that there is is taken."""
    if not keys:
        return content
    known = _by_name(content)
    first, _, rest = keys.partition("/")
    if first == "*":
        values = [_at(each, rest, address) for each in known.values()]
        if not all(isinstance(value, (int, float)) for value in values):
            raise FileFormatError(f"{address!r}: * adds up numbers; expected a number at each of: {', '.join(known)}")
        return sum(values)
    there = [key for key in known if keys == key or keys.startswith(f"{key}/")]
    if not there:
        return _lookup(keys, known, f"{address!r}: there is no figure", "figure")
    key = max(there, key=len)
    return _at(known[key], keys[len(key) + 1 :], address)


def _by_name(content: Any) -> Mapping[str, Any]:
    """What stands inside: of an object, or of a list of objects that have names."""
    if isinstance(content, list):
        return {str(each["name"]): each for each in content if isinstance(each, Mapping) and "name" in each}
    return content if isinstance(content, Mapping) else {}


def _table_value(what: str, result: TableResult, address: str) -> str:
    values = {
        "seconds": total_time(result),
        "date": result.date,
        "machine": describe_machine(result.machine),
        "runs": str(len(result.own_runs)),
    }
    return _lookup(what, values, f"{address!r}: a table has no", "value")


def _row_value(parts: list[str], result: TableResult, address: str) -> str:
    """The row's title may itself have slashes, so the end of the address is read first."""
    columns = {key: column for column in result.columns for key in (column.title, column.key)}
    quantity = parts.pop() if len(parts) > 2 and parts[-1] in _CELL_VALUES and parts[-1] not in columns else ""
    row = _row("/".join(parts[:-1]), result, address)
    if not quantity and parts[-1] not in columns and parts[-1] in _ROW_VALUES:
        known = f"{row.parameters:,}" if row.parameters is not None else MISSING
        return known if parts[-1] == "parameters" else duration(seconds_of(row.runs))
    column = _lookup(parts[-1], columns, f"{address!r}: {result.title!r} has no column", "column")
    return _cell_value(row, column, quantity, result)


def _cell_value(row: Row, column: Column, quantity: str, result: TableResult) -> str:
    cell = row.cells.get(column.key)
    if quantity == "against":
        other = counterpart_of(row, result)
        return MISSING if other is None else against_row(row, other, column).text
    if not quantity or cell is None:
        return format_cell(cell, column)
    return format_value(cell.mean if quantity == "mean" else cell.std, column)


def _row(title: str, result: TableResult, address: str) -> Row:
    source, _, rest = title.partition(":")
    source, title = (source, rest) if source in _SOURCES else ("ours", title)
    found = [row for row in result.rows if row.source == source and row.title == title]
    if len(found) > 1:
        raise FileFormatError(f"{address!r}: {len(found)} rows are called {title!r}; expected one. Rename them")
    known = {row.title: row for row in result.rows if row.source == source}
    return _lookup(title, known, f"{address!r}: there is no row of {source}", "row")


def _lookup(name: str, known: Mapping[str, _Value], problem: str, noun: str) -> _Value:
    if name in known:
        return known[name]
    there = ", ".join(known) or "none"
    raise FileFormatError(f"{problem} {name!r}{did_you_mean(name, list(known))}. Expected a {noun}: {there}")


_PICTURES = "images"  # a folder beside the page
_LAST = 10**6  # where a table stands that has no number in the paper


class Output(NamedTuple):
    """A file of the page. ``is_current`` says of its text, as it is on disk, whether it is still right."""

    path: Path
    is_current: Callable[[str], bool]
    make: Callable[[], str]


class Results(NamedTuple):
    """Tables by the names of their files, in the paper's order; and what the other JSON files hold."""

    tables: dict[str, TableResult]
    figures: dict[str, Any]


def read_results(folder: Path) -> Results:
    """Every result in a folder, which has at least one."""
    tables: dict[str, TableResult] = {}
    figures: dict[str, Any] = {}
    for file in sorted(folder.glob("*.json")):
        try:
            content = json.loads(_read(file))
        except ValueError as error:
            raise FileFormatError(f"{file} is damaged ({error})") from None
        if isinstance(content, dict) and "table" in content:
            tables[file.stem] = table_from(content, file)
        else:
            figures[file.stem] = content
    if not tables:
        raise MissingDataError(f"there is no result in {folder}; expected *.json. Make some: pointset reproduce TABLE")
    return Results(dict(sorted(tables.items(), key=_place_in_paper)), figures)


def page_outputs(found: Results, folder: Path, page: Path, others: Sequence[Path]) -> list[Output]:
    """The page, its pictures, and of ``others`` those Markdown files that have marked places."""
    pictures = {name: pictures_of(name, result) for name, result in found.tables.items()}
    text = _page_text(found.tables, pictures, Path(os.path.relpath(folder, page.parent)).as_posix())
    outputs = [_text_output(page, text)]
    for picture in (picture for several in pictures.values() for picture in several):
        outputs.append(_picture_output(page.parent / _PICTURES / picture.file, picture))
    for path in others:
        before = _read(path)
        after = fill_marks(before, found.tables, str(path), found.figures)
        if "<!-- result:" in before or after != before:
            outputs.append(_text_output(path, after))
    return outputs


def outdated(outputs: Sequence[Output]) -> list[Output]:
    """Those whose file is missing, or says something else."""
    return [one for one in outputs if not one.path.exists() or not one.is_current(_read(one.path))]


def write_outputs(outputs: Sequence[Output]) -> None:
    """Each whole or not at all, after all were made."""
    made = [(output.path, output.make()) for output in outputs]
    for path, text in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _page_text(tables: Mapping[str, TableResult], pictures: Mapping[str, Sequence[Picture]], folder: str) -> str:
    """The page; ``folder`` is where the results lie, as seen from it."""
    blocks = [
        "# Results",
        "The paper's experiments, run and measured here, beside what the paper prints. `pointset results` makes this "
        f"page of the files in [results]({folder}); no number on it is typed by hand.",
        "## What was run",
        _overview(tables),
        _budgets(tables),
    ]
    for name, result in tables.items():
        lines = [f"![{plain(one.text)}]({_PICTURES}/{one.file})" for one in pictures[name]]
        heading = f"{plain(result.paper_table)}: {plain(result.title)}"
        blocks.append(f'<a id="{name}"></a>\n\n## {heading} ({result.budget})')
        blocks.append(markdown_section(result, lines).rstrip())
        content = "Every run, with the command that does it alone" if result.own_runs else "As data"
        blocks.append(f"{content}: [{name}.json]({folder}/{name}.json).")
    return "\n\n".join(blocks) + "\n"


def _overview(tables: Mapping[str, TableResult]) -> str:
    lines = ["| table | in the paper | budget | runs | time | measured | |", "|---|---|---|---:|---:|---|---|"]
    for name, result in tables.items():
        cells = [
            f"[{plain(result.title)}](#{name})",
            plain(result.paper_table),
            result.budget,
            str(len(result.own_runs)),
            total_time(result),
            plain(result.date),
            "" if result.complete else "runs are missing",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _budgets(tables: Mapping[str, TableResult]) -> str:
    """What each budget means, and plainly which tables have it; the paper's own settings also where none has."""
    lines = []
    for budget, meaning in BUDGETS.items():
        titles = [f"[{plain(one.title)}](#{name})" for name, one in tables.items() if one.budget == budget]
        if titles or budget == "full":
            lines.append(f"- **{budget}**, {meaning}: {', '.join(titles) or 'none yet'}.")
    return "\n".join(lines)


def _place_in_paper(item: tuple[str, TableResult]) -> tuple[int, str, int]:
    _, result = item
    number = re.search(r"\d+", result.paper_table)
    return int(number[0]) if number else _LAST, result.table, list(BUDGETS).index(result.budget)


def _picture_output(path: Path, picture: Picture) -> Output:
    return Output(path, lambda there: picture.digest in there, picture.draw)


def _text_output(path: Path, text: str) -> Output:
    return Output(path, lambda there: there == text, lambda: text)


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is not text in UTF-8; expected Markdown or SVG") from None
