"""A value of a table as it is shown: times its factor, with its digits (:func:`shown`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pointset.reports.run_pages.words import number
from pointset.studies.tables.result import Cell, Column, Row

MISSING = "–"
_LARGE = 1e9  # from here on fixed digits would only be wide: a model that diverged


def rounded(value: float, column: Column) -> float:
    """The number that is shown, so that what looks equal is equal; never a negative zero."""
    return float(f"{value * column.factor:.{column.digits}f}") + 0.0


def shown(value: float | None, column: Column) -> str:
    """``0.063``; a dash where there is none."""
    if value is None:
        return MISSING
    kept = rounded(value, column)
    text = f"{kept:,.{column.digits}f}" if abs(kept) < _LARGE else number(kept, 3)
    return text.replace("-", "−")


def shown_cell(cell: Cell | None, column: Column) -> str:
    """``0.063 ± 0.003``."""
    if cell is None or cell.mean is None:
        return MISSING
    spread = "" if cell.std is None else f" ± {shown(cell.std, column)}"
    return shown(cell.mean, column) + spread


def best_shown(rows: Iterable[Row], column: Column) -> float | None:
    """The best mean as shown; None where nothing is better than another: no direction, or not two to compare."""
    means = [cell.mean for row in rows if (cell := row.cells.get(column.key)) is not None and cell.mean is not None]
    if column.better == "neither" or len(means) < 2:
        return None
    values = [rounded(mean, column) for mean in means]
    return min(values) if column.better == "low" else max(values)


def counts(cell: Cell | None, column: Column) -> bool:
    """Whether a model counts the substructure: its error is at most the bound (the caption of the paper's Table 1)."""
    bound = column.counts_below
    return bound is not None and cell is not None and cell.mean is not None and cell.mean <= bound


def shared(values: Sequence[str]) -> str | None:
    """The one value that all have; None where they differ."""
    return values[0] if values and len(set(values)) == 1 else None
