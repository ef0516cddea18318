"""Ours against the paper's: a ratio where low is good, a difference where high is (:func:`against`)."""

from __future__ import annotations

from typing import NamedTuple

from pointset.studies.tables.rendering.numbers import MISSING, rounded
from pointset.studies.tables.result import Column, Row, TableResult


class Comparison(NamedTuple):
    """``1.4 ×`` or ``−1.2``; ``good`` where ours is at least as good, None where neither is better."""

    text: str
    good: bool | None = None


class AgainstLine(NamedTuple):
    """A row of ours and the row that it repeats."""

    title: str
    repeats: str
    cells: list[Comparison]


class Against(NamedTuple):
    """The whole comparison, with the sentence that explains its numbers."""

    lines: list[AgainstLine]
    legend: str


def against(result: TableResult) -> Against | None:
    """All rows of ours that have a counterpart; None where there is nothing to compare."""
    lines = []
    for row in result.rows:
        other = counterpart_of(row, result)
        if other is None:
            continue
        cells = [compared(row, other, column) for column in result.columns]
        if any(cell.text != MISSING for cell in cells):
            lines.append(AgainstLine(row.title, other.title, cells))
    return Against(lines, _legend(result.columns)) if lines else None


def counterpart_of(row: Row, result: TableResult) -> Row | None:
    """The printed row that a row of ours repeats: the paper's, or else a published one."""
    if row.source != "ours" or row.counterpart is None:
        return None
    printed = [one for one in result.rows if one.source != "ours" and one.title == row.counterpart]
    return min(printed, key=lambda one: one.source != "paper", default=None)


def compared(ours: Row, other: Row, column: Column) -> Comparison:
    """Of the values as they are shown, so that a reader who divides them finds the same."""
    cells = (ours.cells.get(column.key), other.cells.get(column.key))
    means = [cell.mean for cell in cells if cell is not None and cell.mean is not None]
    if len(means) < 2:
        return Comparison(MISSING)
    mine, theirs = (rounded(mean, column) for mean in means)
    if column.better == "high":
        text = f"{mine - theirs:+,.{column.digits}f}".replace("-", "−")
        return Comparison("±0" if mine == theirs else text, mine >= theirs)
    if mine < 0 or theirs <= 0:
        return Comparison(MISSING)
    return Comparison(_ratio(mine / theirs), mine <= theirs if column.better == "low" else None)


def _ratio(value: float) -> str:
    """Two digits that count, and whole numbers from ten on: ``0.94 ×``, ``1.4 ×``, ``37 ×``."""
    return f"{value:,.0f} ×" if value >= 9.95 else f"{value:.1f} ×" if value >= 0.995 else f"{value:.2g} ×"


def _legend(columns: tuple[Column, ...]) -> str:
    kinds = {column.better for column in columns}
    sentences = []
    if kinds & {"low", "neither"}:
        better = ", below 1 is better" if "neither" not in kinds else ""
        sentences.append(f"× is ours divided by the paper's{better}")
    if "high" in kinds:
        sentences.append("differences are ours minus the paper's, above 0 is better")
    text = "; ".join(sentences)
    return f"{text[:1].upper()}{text[1:]}."
