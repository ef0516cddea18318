"""The page of all results, its pictures, and the places in other files that its numbers fill (:func:`outputs_of`)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pointset.errors import FileFormatError, MissingDataError
from pointset.files import replacing
from pointset.studies.tables.rendering.facts import BUDGETS, total_time
from pointset.studies.tables.rendering.markdown import markdown_section, plain
from pointset.studies.tables.rendering.markers import filled
from pointset.studies.tables.rendering.pictures import Picture, pictures_of
from pointset.studies.tables.rendering.writing import read_table
from pointset.studies.tables.result import TableResult

_PICTURES = "images"  # a folder beside the page
_LAST = 10**6  # where a table stands that has no number in the paper


class Output(NamedTuple):
    """A file of the page. ``is_current`` says of its text, as it is on disk, whether it is still right."""

    path: Path
    is_current: Callable[[str], bool]
    make: Callable[[], str]


class Found(NamedTuple):
    """Tables by the names of their files, in the paper's order; and what the other JSON files hold."""

    tables: dict[str, TableResult]
    figures: dict[str, Any]


def tables_in(folder: Path) -> Found:
    """Every result in a folder.

    Raises:
        FileFormatError: a result is damaged.
        MissingDataError: there is none.
    """
    files = sorted(folder.glob("*.json"))
    contents = {file.stem: _json(file) for file in files}
    figures = {name: one for name, one in contents.items() if not (isinstance(one, dict) and "table" in one)}
    tables = {file.stem: read_table(file) for file in files if file.stem not in figures}
    if not tables:
        raise MissingDataError(f"there is no result in {folder}; expected *.json. Make some: pointset reproduce TABLE")
    return Found(dict(sorted(tables.items(), key=_place_in_paper)), figures)


def outputs_of(found: Found, folder: Path, page: Path, others: Sequence[Path]) -> list[Output]:
    """The page, its pictures, and of ``others`` those Markdown files that have marked places.

    Raises:
        FileFormatError: a marked place names nothing that there is.
    """
    pictures = {name: pictures_of(name, result) for name, result in found.tables.items()}
    text = page_text(found.tables, pictures, Path(os.path.relpath(folder, page.parent)).as_posix())
    outputs = [_text_output(page, text)]
    for picture in (picture for several in pictures.values() for picture in several):
        holds = partial(_holds, picture.digest)
        outputs.append(Output(page.parent / _PICTURES / picture.file, holds, picture.draw))
    for path in others:
        before = _read(path)
        after = filled(before, found.tables, str(path), found.figures)
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


def page_text(tables: Mapping[str, TableResult], pictures: Mapping[str, Sequence[Picture]], folder: str) -> str:
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
        blocks.append(f'<a id="{name}"></a>\n\n## {_heading(result)}')
        blocks.append(markdown_section(result, lines).rstrip())
        words = "Every run, with the command that does it alone" if any(row.runs for row in result.rows) else "As data"
        blocks.append(f"{words}: [{name}.json]({folder}/{name}.json).")
    return "\n\n".join(blocks) + "\n"


def _overview(tables: Mapping[str, TableResult]) -> str:
    lines = ["| table | in the paper | budget | runs | time | measured | |", "|---|---|---|---:|---:|---|---|"]
    for name, result in tables.items():
        runs = sum(len(row.runs) for row in result.rows if row.source == "ours")
        cells = [
            f"[{plain(result.title)}](#{name})",
            plain(result.paper_table),
            result.budget,
            str(runs),
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


def _heading(result: TableResult) -> str:
    return f"{plain(result.paper_table)}: {plain(result.title)} ({result.budget})"


def _place_in_paper(item: tuple[str, TableResult]) -> tuple[int, str, int]:
    _, result = item
    number = re.search(r"\d+", result.paper_table)
    return int(number[0]) if number else _LAST, result.table, list(BUDGETS).index(result.budget)


def _text_output(path: Path, text: str) -> Output:
    return Output(path, lambda there: there == text, lambda: text)


def _holds(digest: str, text: str) -> bool:
    return digest in text


def _json(path: Path) -> Any:
    try:
        return json.loads(_read(path))
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged ({error})") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is not text in UTF-8; expected Markdown or SVG") from None
