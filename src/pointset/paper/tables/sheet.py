"""What every format shows of a table, before it is Markdown, LaTeX or HTML.

The table (:func:`make_sheet`), ours against the paper's (:func:`against_paper`), how it was measured (:func:`facts_of`)
and what it took (:func:`costs_of`), and how good our rows were after so many minutes (:func:`progress_of`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import Any, NamedTuple

from pointset.paper.tables.result import Cell, Column, Row, RunRecord, TableResult
from pointset.text import byte_size, capitalised, counted, duration, fixed, number

MISSING = "–"
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


def make_sheet(result: TableResult) -> Sheet:
    """The paper's rows, then published ones, then ours; the best of the printed rows and the best of ours are bold."""
    printed = [row for row in result.rows if row.source != "ours"]
    footnotes = Footnotes()
    headings = {
        "paper": f"The paper, {result.paper_table}",
        "published": "Published elsewhere",
        "ours": f"Measured here, budget {result.budget}" + ("" if result.complete else ", runs are missing"),
    }
    parts = []
    for source, heading in headings.items():
        rivals = result.ours if source == "ours" else printed
        best = {column.key: _best_shown(rivals, column) for column in result.columns}
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
    if cell is None:
        return SheetCell(MISSING)
    bold = cell.mean is not None and best is not None and rounded(cell.mean, column) == best
    return SheetCell(format_cell(cell, column), bold, counts(cell, column), footnotes.letter(cell.note))


def _best_shown(rows: Iterable[Row], column: Column) -> float | None:
    """The best mean as shown; None where nothing is better than another: no direction, or not two to compare."""
    means = [cell.mean for row in rows if (cell := row.cells.get(column.key)) is not None and cell.mean is not None]
    if column.better == "neither" or len(means) < 2:
        return None
    values = [rounded(mean, column) for mean in means]
    return min(values) if column.better == "low" else max(values)


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
    bounds = {format_value(column.counts_below, column) for column in result.columns if column.counts_below is not None}
    if bounds:
        sentences.append(f"✓ it counts: at most {' or '.join(sorted(bounds))}")
    return [f"{capitalised(text)}." for text in sentences]


def rounded(value: float, column: Column) -> float:
    """The number that is shown, so that what looks equal is equal; never a negative zero."""
    return float(f"{value * column.factor:.{column.digits}f}") + 0.0


def format_value(value: float | None, column: Column) -> str:
    """``0.063``: times the column's factor, with its digits; a dash where there is none."""
    return fixed(None if value is None else value * column.factor, column.digits)


def format_cell(cell: Cell | None, column: Column) -> str:
    """``0.063 ± 0.003``."""
    if cell is None or cell.mean is None:
        return MISSING
    spread = "" if cell.std is None else f" ± {format_value(cell.std, column)}"
    return format_value(cell.mean, column) + spread


def counts(cell: Cell | None, column: Column) -> bool:
    """Whether a model counts the substructure: its error is at most the bound (the caption of the paper's Table 1)."""
    bound = column.counts_below
    return bound is not None and cell is not None and cell.mean is not None and cell.mean <= bound


def shared(values: Sequence[str]) -> str | None:
    """The one value that all have; None where they differ."""
    return values[0] if values and len(set(values)) == 1 else None


class Footnotes:
    """Letters for notes in the order in which they occur: a, b, …, z, aa, ab, …; equal notes share a letter."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def letter(self, note: str) -> str:
        """Of this note; empty where there is none."""
        note = " ".join(note.split())
        if note and note not in self._letters:
            self._letters[note] = _letters(len(self._letters))
        return self._letters.get(note, "")

    def listed(self) -> list[tuple[str, str]]:
        """Letters and notes, in order."""
        return [(letter, note) for note, letter in self._letters.items()]


def _letters(index: int) -> str:
    """0: ``a``, 25: ``z``, 26: ``aa``."""
    more, last = divmod(index, len(ascii_lowercase))
    return (_letters(more - 1) if more else "") + ascii_lowercase[last]


class AgainstCell(NamedTuple):
    """``1.4 ×`` or ``−1.2``; ``good`` where ours is at least as good, None where neither is better."""

    text: str
    good: bool | None = None


class AgainstLine(NamedTuple):
    """A row of ours and the row that it repeats."""

    title: str
    repeats: str
    cells: list[AgainstCell]


class AgainstPaper(NamedTuple):
    """Ours against the paper's, with the sentence that explains its numbers."""

    lines: list[AgainstLine]
    legend: str


def against_paper(result: TableResult) -> AgainstPaper | None:
    """All rows of ours that have a counterpart; None where there is nothing to compare."""
    lines = []
    for row in result.rows:
        other = counterpart_of(row, result)
        if other is None:
            continue
        cells = [against_row(row, other, column) for column in result.columns]
        if any(cell.text != MISSING for cell in cells):
            lines.append(AgainstLine(row.title, other.title, cells))
    return AgainstPaper(lines, _against_legend(result.columns)) if lines else None


def counterpart_of(row: Row, result: TableResult) -> Row | None:
    """The printed row that a row of ours repeats: the paper's, or else a published one."""
    if row.source != "ours" or row.counterpart is None:
        return None
    printed = [one for one in result.rows if one.source != "ours" and one.title == row.counterpart]
    return min(printed, key=lambda one: one.source != "paper", default=None)


def against_row(ours: Row, other: Row, column: Column) -> AgainstCell:
    """A ratio where low is good, a difference where high is; of the values as shown, so that readers find the same."""
    cells = (ours.cells.get(column.key), other.cells.get(column.key))
    means = [cell.mean for cell in cells if cell is not None and cell.mean is not None]
    if len(means) < 2:
        return AgainstCell(MISSING)
    mine, theirs = (rounded(mean, column) for mean in means)
    if column.better == "high":
        text = f"{mine - theirs:+,.{column.digits}f}".replace("-", "−")
        return AgainstCell("±0" if mine == theirs else text, mine >= theirs)
    if mine < 0 or theirs <= 0:
        return AgainstCell(MISSING)
    return AgainstCell(_ratio(mine / theirs), mine <= theirs if column.better == "low" else None)


def _ratio(value: float) -> str:
    """Two digits that count, and whole numbers from ten on: ``0.94 ×``, ``1.4 ×``, ``37 ×``."""
    return f"{value:,.0f} ×" if value >= 9.95 else f"{value:.1f} ×" if value >= 0.995 else f"{value:.2g} ×"


def _against_legend(columns: tuple[Column, ...]) -> str:
    directions = {column.better for column in columns}
    sentences = []
    if directions & {"low", "neither"}:
        better = ", below 1 is better" if "neither" not in directions else ""
        sentences.append(f"× is ours divided by the paper's{better}")
    if "high" in directions:
        sentences.append("differences are ours minus the paper's, above 0 is better")
    return f"{capitalised('; '.join(sentences))}."


_NOUNS = {"cores": "core", "threads": "thread", "processes": "process", "gpus": "GPU"}
_MEMORY = ("memory", "memory_bytes")
_PACKAGES = ("pointset", "python", "torch", "torch_geometric")  # whose versions are told; the file has them all
_SELF_EXPLAINING = ("kind", "processor", "system", "memory", "device_name")  # values that need no name

COSTS = ("runs", "epochs", "best epoch", "time", "peak memory")
BUDGETS = {
    "full": "the paper's own settings",
    "hours": "real trainings on two cores, up to about two and a half hours for a run: results that mean something",
    "cpu": "sized for a machine without GPU: less training, fewer runs or smaller models than the paper's",
    "small": "a trial of minutes, which shows that everything runs; not a result",
}


def facts_of(result: TableResult) -> list[tuple[str, str]]:
    """How it was measured: names and texts, in the order of reading, without what is not known."""
    runs = result.own_runs
    facts = [
        ("runs", str(len(runs)) if runs else ""),
        ("seeds", spans(run.seed for run in runs)),
        ("folds", spans(run.fold for run in runs)),
        ("epochs", spans(run.epochs for run in runs)),
        ("total time", total_time(result)),
        ("machine", describe_machine(result.machine)),
        ("date", result.date),
    ]
    return [(name, text) for name, text in facts if text]


def costs_of(result: TableResult) -> list[tuple[str, list[str]]]:
    """For each row of ours: runs, epochs, best epoch, time of all its runs, peak memory."""
    costs = []
    for title, runs in ((row.title, row.runs) for row in result.ours if row.runs):
        peaks = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]
        epochs = spans(run.epochs for run in runs), spans((run.best_epoch for run in runs), most=1)
        texts = [str(len(runs)), *(some or MISSING for some in epochs)]
        costs.append((title, [*texts, duration(seconds_of(runs)), byte_size(max(peaks, default=None))]))
    return costs


_MINUTES = (5, 15, 30, 60, 90, 120, 180)  # after which the validation score is shown
PROGRESS_LEGEND = (
    "The best so far, of several runs the mean; a run that ended before keeps its own. The time is that of training "
    "and validation together."
)


class Progress(NamedTuple):
    """Validation scores after so many minutes: what is scored, heads of the columns, and titles with their cells."""

    score: str
    heads: list[str]
    lines: list[tuple[str, list[str]]]


def progress_of(result: TableResult) -> Progress | None:
    """For each row of ours whose times are known, at the budget ``hours``; None where there is nothing to show."""
    rows = [(row.title, runs) for row, runs in comparable_curves(result) if all(run.times for run in runs)]
    if result.budget != "hours" or not rows:
        return None
    longest = max(run.times[-1] for _, runs in rows for run in runs)
    ends = [60.0 * minutes for minutes in _MINUTES if 60 * minutes < longest]
    lines = [(title, [_score_after(runs, end, result) for end in [*ends, longest]]) for title, runs in rows]
    return Progress(validation_score(result), [*(f"{end / 60:.0f} min" for end in ends), "at the end"], lines)


def _score_after(runs: Sequence[RunRecord], seconds: float, result: TableResult) -> str:
    """A dash where some run has not been validated until then."""
    until = [[score for (_, score), at in zip(run.curve, run.times, strict=True) if at <= seconds] for run in runs]
    if not all(until):
        return MISSING
    mean = statistics.fmean((min if lower_is_better(result) else max)(scores) for scores in until)
    return format_value(mean, result.columns[0]) if len(result.columns) == 1 else number(mean)


def comparable_curves(result: TableResult) -> list[tuple[Row, list[RunRecord]]]:
    """Rows of ours with their runs that have a validation curve.

    None at all where the runs of a row differ in more than seed and fold: they learn different things.
    """
    rows = [(row, known) for row in result.ours if (known := [run for run in row.runs if run.curve])]
    alike = all(max(Counter((run.seed, run.fold) for run in runs).values()) == 1 for _, runs in rows)
    return rows if alike else []


def validation_score(result: TableResult) -> str:
    """``validation MAE``."""
    scores = [column for column in result.columns if column.better != "neither"]
    return f"validation {scores[0].title}" if len(scores) == 1 else "validation score"


def lower_is_better(result: TableResult) -> bool:
    """Whether it is of validation scores, too."""
    return result.columns[0].better != "high"


def total_time(result: TableResult) -> str:
    """Of all runs; a dash where none was trained."""
    return duration(result.seconds or None)


def seconds_of(runs: Iterable[RunRecord]) -> float | None:
    """Of all together; None where no time is known."""
    known = [run.seconds for run in runs if run.seconds is not None]
    return sum(known) if known else None


def spans(numbers: Iterable[int | None], most: int = 4) -> str:
    """``0, 1, 2``; ``0–9`` where there are no gaps, or too many numbers to list."""
    known = sorted({number for number in numbers if number is not None})
    without_gaps = len(known) > 2 and known[-1] - known[0] == len(known) - 1
    if known and (without_gaps or len(known) > most):
        return f"{known[0]:,}–{known[-1]:,}"
    return ", ".join(f"{number:,}" for number in known)


def describe_machine(machine: Mapping[str, Any]) -> str:
    """``AMD EPYC, 2 cores, 8.2 GB memory, 1 thread; pointset 0.1.0, python 3.11, torch 2.13``: the machine first."""
    inner = machine.get("machine")
    about = {**(inner if isinstance(inner, Mapping) else {}), **machine}
    hardware: list[str] = []
    versions: list[str] = []
    for key, value in about.items():
        if isinstance(value, Mapping):
            versions += [f"{name} {one}" for name, one in value.items() if key != "machine" and name in _PACKAGES]
        elif value not in (None, ""):
            (versions if key in _PACKAGES else hardware).append(_machine_entry(key, value))
    return "; ".join(", ".join(part) for part in (hardware, versions) if part)


def _machine_entry(key: str, value: Any) -> str:
    if key in _NOUNS and isinstance(value, int):
        return counted(value, _NOUNS[key])
    if key in _MEMORY and isinstance(value, (int, float)):
        return f"{byte_size(value)} memory"
    return str(value) if key in _SELF_EXPLAINING else f"{key.replace('_', ' ')} {value}"
