"""Cells of text → targets: numbers with missing values, labels 0 and 1, or classes (:func:`read_targets`).

What is predicted is inferred where it is not said: 0 and 1 are labels, words are classes, other numbers are numbers.
Cells such as ``>100`` are limits of numbers (:func:`limit_of`), and never classes unless those are asked for.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.card import Card, Metric, Target, Task
from pointset.datasets.own.options import option
from pointset.datasets.own.rejected import NO_TARGET
from pointset.datasets.table import Limits
from pointset.errors import SpecError, did_you_mean

_MISSING = frozenset({"", "-", "?", "na", "n/a", "#n/a", "nan", "n.d.", "n.t.", "null", "none"})  # in lower case
_TRUTH = {"true": 1.0, "false": 0.0}
_LIKE_A_NUMBER = re.compile(r"[<>~≈≤≥±+−-]|[.,]?[0-9]")  # how numbers, limits (>100) and quantities (12 uM) begin
_LIMIT = re.compile(r"[<>~≈≤≥±]")
_LIMITED = re.compile(r"(?:(?P<above>>=?|=>|≥|⩾)|<=?|=<|≤|⩽)\s*(?P<number>.*)", re.DOTALL)
_TASKS = {task.value.removesuffix(" classification"): task for task in Task}
_MANY_CLASSES = 20  # more than this, and more than half of the rows: names rather than classes
_ASK_FOR_CLASSES = f"pass {option('task', 'multi-class')}"
_METRICS = {
    Task.REGRESSION: Metric.MAE,
    Task.BINARY: Metric.ROC_AUC,
    Task.MULTI_CLASS: Metric.ACCURACY,
    Task.MULTI_LABEL: Metric.ROC_AUC,  # the mean over labels, as for MoleculeNet's tables with missing labels
}
# What stands in brackets at the end of a header and can be a unit: logS [mol/L], dG (kcal/mol), T (K), not y (measured)
_UNIT = re.compile(r".*[^\s]\s*[(\[]\s*(%|[^\W\d_]{1,4}|hartree|bohr|debye|[^\s()\[\]]*[/^·°%][^\s()\[\]]*)\s*[)\]]")


@dataclass(frozen=True)
class TargetValues:
    """The targets of all rows. Rows with a problem have a value without meaning."""

    task: Task
    y: NDArray[Any] | None  # (rows,) or (rows, k): float64 numbers, float32 labels, int64 classes
    classes: tuple[str, ...] = ()
    problems: dict[int, tuple[str, str]] = field(default_factory=dict)  # row → kind and reason
    notes: tuple[str, ...] = ()  # for the card
    limits: Limits | None = None  # (rows, k) each, where there are any; y is NaN there


def task_named(task: Task | str | None) -> Task | None:
    """The task of ``"regression"``, ``"binary"``, ``"multi-class"`` or ``"multi-label"``."""
    if task is None or isinstance(task, Task):
        return task
    found = _TASKS.get(str(task).removesuffix(" classification"))
    if found is None:
        known = list(_TASKS)
        raise SpecError(
            f"got {task!r} for {option('task')}; expected one of {', '.join(known)}{did_you_mean(str(task), known)}"
        )
    return found


def read_targets(
    columns: Sequence[Sequence[str]],
    names: Sequence[str],
    task: Task | None,
    *,
    commas: bool = False,
    limits: bool = False,
) -> TargetValues:
    """The targets of all rows, from k columns of cells.

    The task is inferred where it is None. With ``commas`` a column may have decimal commas, as commas do not separate
    the columns. With ``limits`` cells such as ``>100`` are limits of numbers, otherwise bad rows.
    """
    if not columns:
        return TargetValues(task or Task.REGRESSION, None)
    if task in (Task.BINARY, Task.MULTI_CLASS) and len(columns) > 1:
        raise SpecError(
            f"got the targets {', '.join(names)} for {task.value}; expected one. Choose it with "
            f"{option('targets')}, or pass {option('task', 'multi-label')} for several labels of 0 and 1"
        )
    if task is Task.MULTI_CLASS or (task is None and len(columns) == 1 and _is_text(columns[0])):
        return _class_targets(columns[0], names[0])
    if task is None and (words := [name for name, cells in zip(names, columns, strict=True) if _is_text(cells)]):
        raise SpecError(
            f"the target {words[0]!r} holds words; expected numbers in each of the {len(columns)} targets. Leave it "
            f"out of {option('targets')}, or choose it alone to predict classes"
        )
    may_have_limits = limits and task in (None, Task.REGRESSION)
    return _number_targets(columns, names, task, commas=commas, limits=may_have_limits)


def _is_text(cells: Sequence[str]) -> bool:
    """Whether fewer than half of the cells with something in them hold a number, or begin like one (>100, 12 uM)."""
    known = [cell for cell in cells if not is_missing(cell)]
    like_numbers = [
        cell for cell in known if number_of(cell, truth=True) is not None or _LIKE_A_NUMBER.match(cell.strip())
    ]
    return 2 * len(like_numbers) < len(known)


def _number_targets(
    columns: Sequence[Sequence[str]], names: Sequence[str], task: Task | None, *, commas: bool, limits: bool
) -> TargetValues:
    problems: dict[int, tuple[str, str]] = {}
    y, lower, upper = (np.full((len(columns[0]), len(columns)), np.nan) for _ in range(3))
    with_commas = [name for name, cells in zip(names, columns, strict=True) if commas and _has_decimal_commas(cells)]
    notes: tuple[str, ...] = (f"decimal commas in {', '.join(map(repr, with_commas))}",) if with_commas else ()
    for at, (cells, name) in enumerate(zip(columns, names, strict=True)):
        comma = name in with_commas
        rows = _read_limits(cells, lower[:, at], upper[:, at], comma=comma) if limits else {}
        notes += _limits_note(cells, name, rows)
        exact = ["" if row in rows else cell for row, cell in enumerate(cells)] if rows else cells
        y[:, at] = _numbers(exact, name, problems, comma=comma)
        if task is None and len(names) == 1 and (problems or rows) and np.isnan(y).all():
            example = cells[min(problems or rows)].strip()[:40]
            if not problems:
                raise SpecError(
                    f"the target {name!r} has only limits such as {example!r}, and limits alone cannot be learned "
                    f"from; expected some exact values. Choose another column with {option('targets')}"
                )
            raise SpecError(
                f"the target {name!r} has no number, but cells such as {example!r}; expected numbers, or words for "
                f"classes. If these are classes, {_ASK_FOR_CLASSES}"
            )
    limited = ~(np.isnan(lower) & np.isnan(upper))
    good = np.ones(len(y), dtype=bool)
    good[list(problems)] = False
    strange = ~(np.isnan(y) | (y == 0) | (y == 1))  # not labels
    if task is None:
        task = Task.REGRESSION if limited.any() else infer_task(y[good])
        if task is Task.REGRESSION and len(names) == 1:
            notes += whole_numbers_note(y[good], names[0])
    elif task is not Task.REGRESSION:
        for row, at in zip(*np.nonzero(strange & good[:, None]), strict=True):
            reason = f"the target {names[at]!r} is {columns[at][row].strip()[:40]!r}; expected 0 or 1"
            problems.setdefault(int(row), ("a label that is not 0 or 1", reason))
    absent = "the target is missing" if len(names) == 1 else f"all {len(names)} targets are missing"
    for row in np.flatnonzero((np.isnan(y) & ~limited).all(axis=1)).tolist():
        problems.setdefault(row, (NO_TARGET, f"{absent} ({', '.join(names)[:80]})"))
    y = y if task is Task.REGRESSION else y.astype(np.float32)
    known_limits = Limits(lower, upper) if limited.any() else None
    return TargetValues(task, y[:, 0] if len(columns) == 1 else y, (), problems, notes, known_limits)


def _read_limits(
    cells: Sequence[str], lower: NDArray[np.float64], upper: NDArray[np.float64], *, comma: bool
) -> dict[int, float]:
    """Note the limits (rows,) of a column, and give them by row."""
    found = {}
    for row, cell in enumerate(cells):
        if limit := limit_of(cell, comma=comma):
            (lower if limit.is_lower else upper)[row] = found[row] = limit.value
    return found


def _limits_note(cells: Sequence[str], name: str, limits: Mapping[int, float]) -> tuple[str, ...]:
    if not limits:
        return ()
    example = cells[min(limits)].strip()[:40]
    are = "is a limit" if len(limits) == 1 else "are limits"
    return (
        f"{len(limits):,} of {len(cells):,} values of {name!r} {are} such as {example!r}: predictions on their "
        "right side have no loss; scores are of the exact values",
    )


def _numbers(
    cells: Sequence[str], name: str, problems: dict[int, tuple[str, str]], *, comma: bool
) -> NDArray[np.float64]:
    """(rows,) the numbers; ``true`` and ``false`` count only in a column that has nothing but them, 0 and 1."""
    values = [number_of(cell, truth=True, comma=comma) for cell in cells]
    if any(value not in (0, 1) for value in values if value is not None and value == value):
        values = [number_of(cell, comma=comma) for cell in cells]
    for row, value in enumerate(values):
        if value is None:
            reason = f"the target {name!r} {_why_no_number(cells[row], comma=comma)}"
            problems.setdefault(row, ("a target that is not a number", reason))
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _has_decimal_commas(cells: Sequence[str]) -> bool:
    """Whether more of these cells hold a number with a comma (0,5) than one with a point (0.5)."""
    numbers = [limited["number"] if (limited := _LIMITED.fullmatch(cell.strip())) else cell for cell in cells]
    commas = sum("," in cell and number_of(cell, comma=True) is not None for cell in numbers)
    return commas > sum("." in cell and not is_missing(cell) and number_of(cell) is not None for cell in numbers)


def _why_no_number(cell: str, *, comma: bool = False) -> str:
    """What is to be said of a cell that :func:`number_of` does not take."""
    text = cell.strip()
    shown = repr(text if len(text) <= 40 else text[:39] + "…")
    try:
        infinite = math.isinf(float(text))
    except ValueError:
        infinite = False
    if infinite:
        return f"is {shown}; expected a finite number"
    if comma and re.fullmatch(r"[+-]?[0-9.,]+", text):
        return f"is {shown}; expected a decimal comma and no point, as most of the column has it"
    if text.count(",") == 1 and number_of(text.replace(",", ".")) is not None:
        return f"is {shown}; expected a number with a decimal point, not a comma"
    if _LIMIT.match(text):
        return f"is {shown}, a limit; expected a number"
    if _LIKE_A_NUMBER.match(text):
        return f"is {shown}; expected a number alone, without unit, error or other signs"
    return f"is {shown}; expected a number, or nothing where it is missing"


def _class_targets(cells: Sequence[str], name: str) -> TargetValues:
    problems = {
        row: (NO_TARGET, f"the target is missing ({name})") for row, cell in enumerate(cells) if is_missing(cell)
    }
    labels = _labels(cells)
    known = {label for row, label in enumerate(labels) if row not in problems}
    if len(known) > _MANY_CLASSES and 2 * len(known) > len(cells):
        raise SpecError(
            f"the target {name!r} has {len(known):,} different words in {len(cells):,} rows; expected classes that "
            f"many rows share. Choose another column with {option('targets')}"
        )
    classes = sorted(known, key=_class_order)
    number = {label: index for index, label in enumerate(classes)}
    y = np.array([number.get(label, -1) for label in labels], dtype=np.int64)
    return TargetValues(Task.MULTI_CLASS, y, tuple(classes), problems)


def _labels(cells: Sequence[str]) -> list[str]:
    """Words as they are; where all are numbers, 1.0, 1 and 01 as ``1``, with all digits of 1234567."""
    if any(number_of(cell) is None for cell in cells):
        return [cell.strip() for cell in cells]
    labels = []
    for cell in cells:
        try:
            labels.append(str(int(cell)))
        except ValueError:
            labels.append(repr(number_of(cell)).removesuffix(".0"))
    return labels


def _class_order(label: str) -> tuple[float, str]:
    value = number_of(label)
    return (np.inf if value is None else value, label)


def infer_task(y: NDArray[np.float64]) -> Task:
    """What numbers (rows, k), NaN where missing, are: labels where all are 0 or 1, otherwise numbers."""
    known = y[~np.isnan(y)]
    if not len(known) or not np.isin(known, (0, 1)).all():
        return Task.REGRESSION
    return Task.BINARY if y.shape[1] == 1 else Task.MULTI_LABEL


def whole_numbers_note(values: NDArray[Any], name: str) -> tuple[str, ...]:
    """A hint where numbers, NaN among them, are so few and whole that they may be meant as classes."""
    known = values[~np.isnan(values)]
    different = np.unique(known)
    if not 1 < len(different) <= min(_MANY_CLASSES, len(known) - 1) or (different != np.round(different)).any():
        return ()
    span = f"{different[0]:g}…{different[-1]:g}"
    return (f"{name!r} has only whole numbers {span}: classes? Then {_ASK_FOR_CLASSES}",)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value: empty, or one of -, ?, NA, N/A, #N/A, NaN, n.d., n.t., null, None."""
    return cell.strip().lower() in _MISSING


def number_of(cell: str, *, truth: bool = False, comma: bool = False) -> float | None:
    """The finite number in a cell, NaN where the value is missing, None where the cell holds anything else.

    With ``truth``, ``true`` and ``false`` are 1 and 0. With ``comma``, the decimal sign is a comma, and a point is
    none, be it 1.5 or the thousands of 1.234,5.
    """
    text = cell.strip()
    try:
        number = float(text.replace(",", ".", 1) if comma else text)
    except ValueError:
        if text.lower() in _MISSING:
            return math.nan
        return _TRUTH.get(text.lower()) if truth else None
    if "_" in text or math.isinf(number):  # Python's own 1_000; inf, and what is too large for a float
        return None
    return None if comma and "." in text else number


def weight_of(cell: str, *, commas: bool = False) -> float | None:
    """The weight in a cell, a number from 0; None where it holds anything else, or nothing."""
    weight = number_of(cell)
    if weight is None and commas:
        weight = number_of(cell, comma=True)
    return weight if weight is not None and weight >= 0 else None


class Limit(NamedTuple):
    """What ``>3`` says: the truth is above 3."""

    value: float
    is_lower: bool


def limit_of(cell: str, *, comma: bool = False) -> Limit | None:
    """The limit in a cell such as ``>3``, ``>= 3``, ``<10`` or ``≤ 10``; None where it holds anything else."""
    limited = _LIMITED.fullmatch(cell.strip())
    number = None if limited is None else number_of(limited["number"], comma=comma)
    if limited is None or number is None or math.isnan(number):
        return None
    return Limit(number, limited["above"] is not None)


def own_card(*, task: Task, target_names: Sequence[str], **about: Any) -> Card:
    """A card with the usual metric of the task; targets of the same name get a number.

    A unit at the end of a name becomes the unit of a number, and stays in the name, which is the column's.
    """
    repeated, targets = Counter(target_names), []
    for at, name in enumerate(target_names):
        unit = _UNIT.fullmatch(name.strip()) if task is Task.REGRESSION else None
        targets.append(Target(name if repeated[name] == 1 else f"{name} ({at})", unit[1] if unit else ""))
    return Card(task=task, targets=tuple(targets), metric=_METRICS[task], licence="", source="own data", **about)
