"""A table as LaTeX, for a document to take in (:func:`latex_table`)."""

from __future__ import annotations

from pointset.studies.tables.rendering.facts import facts_of
from pointset.studies.tables.rendering.latex_text import escaped
from pointset.studies.tables.rendering.markdown import INCOMPLETE
from pointset.studies.tables.rendering.sheet import Line, Part, Sheet, SheetCell, name_of, sheet_of
from pointset.studies.tables.result import TableResult

_NARROW = 8  # columns from which they move together


def latex_table(result: TableResult) -> str:
    """A floating table with booktabs' rules; a note under it says how it came about."""
    sheet = sheet_of(result)
    heads = ["", *(["parameters"] if sheet.with_parameters else []), *map(escaped, sheet.heads)]
    lines = [
        f"% {' '.join(result.command.split())}",
        r"% In the preamble: \usepackage{booktabs}",
        r"\providecommand{\checkmark}{\surd}",
        r"\begin{table}",
        r"\centering\footnotesize",
        *([r"\setlength{\tabcolsep}{3pt}"] if len(heads) > _NARROW else []),
        rf"\caption{{{escaped(_caption(result))}}}",
        rf"\label{{tab:{_label(result)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        *(line for part in sheet.parts for line in _part(part, len(heads), sheet)),
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\smallskip\parbox{\linewidth}{\scriptsize\raggedright",
        *_below(result, sheet),
        "}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(result: TableResult) -> str:
    title = result.title.rstrip(".")
    missing = "" if result.complete else f" {INCOMPLETE}"
    return f"{title}. {result.paper_table} of the paper, and measured here.{missing}"


def _label(result: TableResult) -> str:
    """Letters, digits and hyphens: all that a label may safely have."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name_of(result))


def _part(part: Part, columns: int, sheet: Sheet) -> list[str]:
    rows = [r"\midrule", rf"\multicolumn{{{columns}}}{{l}}{{\emph{{{escaped(part.heading)}}}}} \\"]
    for line in part.lines:
        parameters = [line.parameters] if sheet.with_parameters else []
        rows.append(" & ".join([_title(line), *parameters, *map(_cell, line.cells)]) + r" \\")
    return rows


def _title(line: Line) -> str:
    repeats = rf" {{\scriptsize repeats {escaped(line.repeats)}}}" if line.repeats else ""
    title = escaped(line.title)
    guard = "{}" if title.startswith(("[", "*")) else ""  # after \\ LaTeX would read them as an option
    return guard + title + _raised(line.letter) + repeats


def _cell(cell: SheetCell) -> str:
    text = escaped(cell.text)
    if cell.bold:
        weight = r"\boldmath " if "$" in text else ""  # it reaches the ± as well
        text = rf"\textbf{{{weight}{text}}}"
    return text + (r"\,$\checkmark$" if cell.counts else "") + _raised(cell.letter)


def _raised(letter: str) -> str:
    return rf"\textsuperscript{{{letter}}}" if letter else ""


def _below(result: TableResult, sheet: Sheet) -> list[str]:
    facts = "; ".join(f"{name}: {text}" for name, text in facts_of(result)) + "."
    sentences = [*sheet.legend, result.scope, *result.notes, facts]
    notes = [rf"\textsuperscript{{{letter}}}~{escaped(note)}\par" for letter, note in sheet.footnotes]
    return [" ".join(map(escaped, sentences)) + r"\par", *notes, rf"\texttt{{{_command(result)}}}"]


def _command(result: TableResult) -> str:
    """Two hyphens stay two: some fonts would make a dash of them."""
    return escaped(result.command).replace("--", "-{}-")
