"""A table's result as Markdown, LaTeX and HTML, and as files: :func:`write_table`, :func:`read_table`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pointset.errors import FileFormatError
from pointset.files import read_json, replacing, write_json
from pointset.paper.tables.pictures import curve_figure
from pointset.paper.tables.result import Row, TableResult
from pointset.paper.tables.sheet import (
    COSTS,
    PROGRESS_LEGEND,
    Line,
    Part,
    Sheet,
    SheetCell,
    against_paper,
    costs_of,
    counterpart_of,
    counts,
    facts_of,
    format_cell,
    make_sheet,
    progress_of,
    total_time,
)
from pointset.reports.charts import Tile
from pointset.reports.pages import rendered
from pointset.text import counted

_CROWDED = 8  # columns; with more of them LaTeX's move together, and HTML's deviations stand below their means
_SHOWN_PROBLEMS = 3
INCOMPLETE = "Not complete: runs are missing. What is shown is what has been measured so far."


def markdown_page(result: TableResult) -> str:
    """A whole file."""
    return f"# {plain(result.title)}\n\n{markdown_section(result)}"


def markdown_section(result: TableResult, pictures: Sequence[str] = ()) -> str:
    """Everything but the heading: scope, table, legend, comparison, costs, facts; ``pictures`` are Markdown lines."""
    sheet = make_sheet(result)
    blocks = [] if result.complete else [f"> **{INCOMPLETE}**"]
    blocks += [plain(result.scope), _markdown_table(sheet), *_markdown_explanations(sheet)]
    found = against_paper(result)
    if found is not None:
        heads = ["ours / the paper's", *(column.title for column in result.columns)]
        rows = [
            [
                _markdown_title(Line(one.title, [], repeats=one.repeats)),
                *(_markdown_cell(SheetCell(cell.text, bold=bool(cell.good))) for cell in one.cells),
            ]
            for one in found.lines
        ]
        any_good = any(cell.good for line in found.lines for cell in line.cells)
        legend = plain(found.legend) + (" Bold: at least as good as printed." if any_good else "")
        blocks += ["**Ours against the paper's**", _markdown_grid(heads, rows), legend]
    blocks += pictures
    if costs := costs_of(result):
        rows = [[plain(title), *map(plain, texts)] for title, texts in costs]
        blocks += ["**What it took**", _markdown_grid(["", *COSTS], rows)]
    if found_after := progress_of(result):
        rows = [[plain(title), *map(plain, texts)] for title, texts in found_after.lines]
        heads = [f"{plain(found_after.score)} after", *found_after.heads]
        blocks += ["**Error over minutes**", _markdown_grid(heads, rows), plain(PROGRESS_LEGEND)]
    blocks.append(f"```sh\n{' '.join(result.command.split())}\n```")
    blocks.append("; ".join(f"{name}: {plain(text)}" for name, text in facts_of(result)) + ".")
    if result.notes:
        blocks.append("\n".join(f"- {plain(note)}" for note in result.notes))
    return "\n\n".join(block for block in blocks if block) + "\n"


def markdown_table(result: TableResult) -> str:
    """The table and the sentences that explain its marks, to stand on another page."""
    sheet = make_sheet(result)
    warning = [] if result.complete else [f"**{INCOMPLETE}**"]
    return "\n\n".join([*warning, _markdown_table(sheet), *_markdown_explanations(sheet)])


def plain(text: str) -> str:
    """On one line, with nothing in it that Markdown would read as markup."""
    text = re.sub(r"([\\`*_\[\]|$~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"&(?=#?\w+;)", "&amp;", text).replace("<", "&lt;")


def _markdown_table(sheet: Sheet) -> str:
    heads = ["", *(["parameters"] if sheet.with_parameters else []), *map(plain, sheet.heads)]
    rows: list[list[str]] = []
    for part in sheet.parts:
        rows.append([f"**{plain(part.heading)}**", *[""] * (len(heads) - 1)])
        for line in part.lines:
            parameters = [line.parameters] if sheet.with_parameters else []
            rows.append([_markdown_title(line), *parameters, *map(_markdown_cell, line.cells)])
    return _markdown_grid(heads, rows)


def _markdown_explanations(sheet: Sheet) -> list[str]:
    """The legend, and the footnotes under it."""
    notes = [f"<sup>{letter}</sup> {plain(note)}" for letter, note in sheet.footnotes]
    return [block for block in (" ".join(map(plain, sheet.legend)), "<br>\n".join(notes)) if block]


def _markdown_title(line: Line) -> str:
    repeats = f" <sub>repeats {plain(line.repeats)}</sub>" if line.repeats else ""
    return plain(line.title) + _markdown_raised(line.letter) + repeats


def _markdown_cell(cell: SheetCell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    return text + (" ✓" if cell.counts else "") + _markdown_raised(cell.letter)


def _markdown_raised(letter: str) -> str:
    return f"<sup>{letter}</sup>" if letter else ""


def _markdown_grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Names to the left, numbers to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# what LaTeX would read as commands, and letters that pdflatex does not know
_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "–": "--", "—": "---", "…": r"\ldots{}", "Å": r"\AA{}",
}  # fmt: skip
_MATHEMATICS = {
    "±": r"\pm", "×": r"\times", "−": "-", "·": r"\cdot", "≤": r"\leq", "≥": r"\geq", "≈": r"\approx", "≠": r"\neq",
    "↓": r"\downarrow", "↑": r"\uparrow", "→": r"\rightarrow", "↔": r"\leftrightarrow", "∞": r"\infty", "√": r"\surd",
    "∈": r"\in", "°": r"^{\circ}", "½": r"\frac{1}{2}", "✓": r"\checkmark", "µ": r"\mu",
}  # fmt: skip
_RAISED_OR_LOWERED = {"<super>": "^", "<sub>": "_"}


def escaped(text: str) -> str:
    """On one line. Greek letters, raised and lowered ones and the usual signs become mathematics."""
    joined = "".join(_letter(letter) for letter in " ".join(text.split()))
    return joined.replace("}$$^{", "").replace("}$$_{", "")  # ⁻³ is one exponent, not two


def _letter(letter: str) -> str:
    if letter in _COMMANDS:
        return _COMMANDS[letter]
    if letter in _MATHEMATICS:
        return f"${_MATHEMATICS[letter]}$"
    if letter.isascii():
        return letter
    kind, _, code = unicodedata.decomposition(letter).partition(" ")
    if kind in _RAISED_OR_LOWERED and " " not in code:
        inner = chr(int(code, 16)).replace("−", "-")
        return f"${_RAISED_OR_LOWERED[kind]}{{{inner}}}$"
    return _greek(letter) or letter


def _greek(letter: str) -> str:
    """The command that is named as the letter; that of a capital begins with one."""
    words = unicodedata.name(letter, "").split(" ")
    if words[:1] != ["GREEK"] or len(words) != 4 or words[2] != "LETTER":
        return ""
    name = words[3].replace("LAMDA", "LAMBDA").lower()
    return f"$\\{name if words[1] == 'SMALL' else name.capitalize()}$"


def latex_table(result: TableResult) -> str:
    """A floating table with booktabs' rules; a note under it says how it came about."""
    sheet = make_sheet(result)
    heads = ["", *(["parameters"] if sheet.with_parameters else []), *map(escaped, sheet.heads)]
    caption = f"{result.title.rstrip('.')}. {result.paper_table} of the paper, and measured here."
    lines = [
        f"% {' '.join(result.command.split())}",
        r"% In the preamble: \usepackage{booktabs}",
        r"\providecommand{\checkmark}{\surd}",
        r"\begin{table}",
        r"\centering\footnotesize",
        *([r"\setlength{\tabcolsep}{3pt}"] if len(heads) > _CROWDED else []),
        rf"\caption{{{escaped(caption if result.complete else f'{caption} {INCOMPLETE}')}}}",
        rf"\label{{tab:{re.sub('[^A-Za-z0-9]', '-', result.name)}}}",  # all that a label may safely have
        rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        *(line for part in sheet.parts for line in _latex_part(part, len(heads), sheet)),
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\smallskip\parbox{\linewidth}{\scriptsize\raggedright",
        *_latex_below(result, sheet),
        "}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_part(part: Part, columns: int, sheet: Sheet) -> list[str]:
    rows = [r"\midrule", rf"\multicolumn{{{columns}}}{{l}}{{\emph{{{escaped(part.heading)}}}}} \\"]
    for line in part.lines:
        parameters = [line.parameters] if sheet.with_parameters else []
        rows.append(" & ".join([_latex_title(line), *parameters, *map(_latex_cell, line.cells)]) + r" \\")
    return rows


def _latex_title(line: Line) -> str:
    repeats = rf" {{\scriptsize repeats {escaped(line.repeats)}}}" if line.repeats else ""
    title = escaped(line.title)
    guard = "{}" if title.startswith(("[", "*")) else ""  # after \\ LaTeX would read them as an option
    return guard + title + _latex_raised(line.letter) + repeats


def _latex_cell(cell: SheetCell) -> str:
    text = escaped(cell.text)
    if cell.bold:
        weight = r"\boldmath " if "$" in text else ""  # it reaches the ± as well
        text = rf"\textbf{{{weight}{text}}}"
    return text + (r"\,$\checkmark$" if cell.counts else "") + _latex_raised(cell.letter)


def _latex_raised(letter: str) -> str:
    return rf"\textsuperscript{{{letter}}}" if letter else ""


def _latex_below(result: TableResult, sheet: Sheet) -> list[str]:
    facts = "; ".join(f"{name}: {text}" for name, text in facts_of(result)) + "."
    sentences = [*sheet.legend, result.scope, *result.notes, facts]
    notes = [rf"\textsuperscript{{{letter}}}~{escaped(note)}\par" for letter, note in sheet.footnotes]
    command = escaped(result.command).replace("--", "-{}-")  # some fonts would make a dash of two hyphens
    return [" ".join(map(escaped, sentences)) + r"\par", *notes, rf"\texttt{{{command}}}"]


def html_page(result: TableResult) -> str:
    """Readable on a phone and on paper, light or dark; it fetches nothing. It needs jinja2."""
    sheet = make_sheet(result)
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
        "dense": len(sheet.heads) > _CROWDED,
        "width": len(sheet.heads) + 1 + sheet.with_parameters,
        "against": against_paper(result),
        "columns": [column.title for column in result.columns],
        "curves": curve_figure(result),
        "progress": progress_of(result),
        "progress_legend": PROGRESS_LEGEND,
        "costs": costs_of(result),
        "cost_heads": COSTS,
        "facts": facts_of(result),
        "notes": result.notes,
        "command": result.command,
        "runs": [(row.title, run) for row in result.ours for run in row.runs],
    }
    return rendered("table.html.j2", values)


def _tiles(result: TableResult) -> list[Tile]:
    """The first row of ours beside the one that it repeats, how long all took, and when."""
    row = next((one for one in result.ours if one.cells), None)
    tiles = _score_tiles(row, result) if row is not None else []
    runs = len(result.own_runs)
    tiles.append(Tile("time", total_time(result), f"{counted(runs, 'run')} together" if runs else ""))
    return [*tiles, Tile("measured", result.date, "" if result.complete else "not complete")]


def _score_tiles(row: Row, result: TableResult) -> list[Tile]:
    bounded = [column for column in result.columns if column.counts_below is not None]
    first, other = result.columns[0], counterpart_of(row, result)
    note = f"of {len(bounded)} substructures" if bounded else first.title

    def score(one: Row) -> str:
        if bounded:
            return str(sum(counts(one.cells.get(column.key), column) for column in bounded))
        return format_cell(one.cells.get(first.key), first)

    tiles = [Tile(f"{row.title} counts" if bounded else row.title, score(row), note, "main")]
    return tiles if other is None else [*tiles, Tile(f"the paper's {other.title}", score(other), note)]


def write_table(result: TableResult, folder: Path) -> list[Path]:
    """Write ``TABLE-BUDGET`` as .json, .md, .tex and .html, each whole or not at all; older files are replaced.

    The JSON, which all else is made of, comes first. The page is left out where jinja2 is not installed: measurements
    of hours are not to fail at their end.
    """
    name = result.name
    if Path(name).name != name or "\x00" in name:
        raise FileFormatError(f"got a table called {result.table!r}; expected a name without / to call its files by")
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{name}.json"
    write_json(data, result.model_dump(mode="json"))
    makers = {".md": markdown_page, ".tex": latex_table}
    if find_spec("jinja2") is not None:
        makers[".html"] = html_page
    paths = [data]
    for suffix, make in makers.items():
        path = folder / f"{name}{suffix}"
        with replacing(path) as temporary:
            temporary.write_text(make(result), encoding="utf-8")
        paths.append(path)
    return paths


def read_table(path: str | Path) -> TableResult:
    """The result that :func:`write_table` wrote as JSON."""
    path = Path(path)
    return table_from(read_json(path), path)


def table_from(content: Mapping[str, Any], path: Path) -> TableResult:
    """The same from what stands in the file."""
    if "table" not in content:
        raise FileFormatError(f'{path} is not a table\'s result: it has no "table"; `pointset reproduce` writes them')
    try:
        return TableResult.model_validate(content)
    except ValidationError as error:
        raise FileFormatError(f"{path} is damaged: {_problems(error)}. Make it anew: pointset reproduce") from None


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    told = [f"{'.'.join(map(str, one['loc'])) or 'the table'}: {one['msg'].lower()}" for one in found]
    more = len(told) - _SHOWN_PROBLEMS
    return "; ".join(told[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
