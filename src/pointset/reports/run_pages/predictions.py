"""``predictions.csv``: what was true and what was predicted, target by target (:func:`read_predictions`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pointset.errors import FileFormatError
from pointset.reports.run_pages.tables import Floats, as_numbers, csv_rows

_PREFIX = "predicted_"


@dataclass(frozen=True)
class Predictions:
    """The test split, in the order of the file."""

    rows: int
    has_smiles: bool
    numbers: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)  # target → (rows,) true, predicted
    classes: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)  # the same for names of classes


def read_predictions(path: Path, *, of_classes: bool) -> Predictions:
    """Read the columns ``<target>`` and ``predicted_<target>``; others, such as probabilities of classes, are skipped.

    Args:
        path: the file.
        of_classes: whether the columns hold names of classes; otherwise numbers, NaN where the cell is empty.

    Raises:
        FileFormatError: there is no such pair of columns, or the file is damaged.
    """
    rows = csv_rows(path)
    header = next(rows)
    targets = [name for name in header if _PREFIX + name in header]
    if not targets:
        raise FileFormatError(f"{path} is damaged: expected columns such as 'y' and 'predicted_y', got {header[:6]}")
    wanted = [header.index(name) for target in targets for name in (target, _PREFIX + target)]
    cells: list[list[str]] = [[] for _ in wanted]
    for row in rows:
        for column, index in zip(cells, wanted, strict=True):
            column.append(row[index])
    pairs = dict(zip(targets, zip(cells[::2], cells[1::2], strict=True), strict=True))
    found = Predictions(len(cells[0]), "smiles" in header)
    for target, (true, predicted) in pairs.items():
        if of_classes:
            found.classes[target] = (true, predicted)
        else:
            found.numbers[target] = (as_numbers(true, path, target), as_numbers(predicted, path, _PREFIX + target))
    return found
