"""Which graphs of own data are for training, validation and test (:func:`make_split`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pointset.datasets.card import Card, Metric, Target, Task
from pointset.datasets.splits import random_split, scaffold_split, split_by_column, split_from_file, stratified_split
from pointset.datasets.splits.parts import EXPECTED_PARTS, Split, part_of
from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean

SplitChoice = str | Path | Sequence[float]  # a way by name, a file, or shares

_COLUMN = "column:"
_WAYS = ("random", "stratified", "scaffold", "column:NAME")


class MadeSplit(NamedTuple):
    """A split, and how the card calls it."""

    parts: Split
    words: str


def split_column_of(how: SplitChoice) -> str | None:
    """The column that ``column:NAME`` names."""
    return how.removeprefix(_COLUMN).strip() if isinstance(how, str) and how.startswith(_COLUMN) else None


def split_problem(cell: str) -> str | None:
    """What is wrong with a cell of a split column; an empty cell leaves its row out of all parts."""
    if not cell.strip() or part_of(cell) is not None:
        return None
    return f"the split is {cell.strip()[:40]!r}; expected {EXPECTED_PARTS}, or nothing for a row that is not used"


def make_split(
    how: SplitChoice,
    *,
    count: int,
    seed: int,
    labels: Any = None,
    smiles: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    rejected: int = 0,
) -> MadeSplit:
    """Split ``count`` graphs.

    Args:
        how: ``"random"``, ``"stratified"`` (by the targets), ``"scaffold"`` (molecules; deterministic),
            ``"column:NAME"``, a file of :func:`pointset.datasets.splits.split_from_file`, or the shares of train, val
            and test in a random split.
        count: number of graphs.
        seed: of the random and the stratified split.
        labels: (count, …) the targets of graphs.
        smiles: (count,) of molecules.
        cells: (count,) of the split column.
        rejected: how many rows were left out before these graphs were counted.

    Raises:
        SpecError: no such way, or one that these graphs do not have.
        FileFormatError: the file is not a split of so many graphs.
    """
    if cells is not None:
        return MadeSplit(split_by_column(cells), f"the table's column {split_column_of(how)!r}")
    if isinstance(how, Sequence) and not isinstance(how, str):
        shares = "/".join(f"{share:g}" if isinstance(share, (int, float)) else str(share) for share in how)
        return MadeSplit(random_split(count, how, seed=seed), f"random {shares}, seed {seed}")
    if not isinstance(how, (str, Path)):
        raise SpecError(f"got split={how!r}; expected {', '.join(_WAYS)}, a file, or shares such as (0.8, 0.1, 0.1)")
    if how == "random":
        return MadeSplit(random_split(count, seed=seed), f"random 0.8/0.1/0.1, seed {seed}")
    if how == "stratified":
        if labels is None:
            raise SpecError(
                "got split='stratified' (--split), but the graphs have no targets of their own; use split='random'"
            )
        return MadeSplit(stratified_split(labels, seed=seed), f"stratified 0.8/0.1/0.1, seed {seed}")
    if how == "scaffold":
        if smiles is None:
            raise SpecError("got split='scaffold' (--split), but the graphs are no molecules; use split='random'")
        return MadeSplit(scaffold_split(smiles), "by scaffold 0.8/0.1/0.1, the largest scaffolds in train")
    return MadeSplit(_from_file(how, count, rejected), f"from the file {Path(how).name}")


def _from_file(how: str | Path, count: int, rejected: int) -> Split:
    path = Path(how)
    if isinstance(how, str) and not path.suffix:
        hint = did_you_mean(how, list(_WAYS))
        raise SpecError(
            f"got split={how!r} (--split); expected {', '.join(_WAYS)}, or a file (.json, .npz, .csv){hint}"
        )
    try:
        split = split_from_file(path, count)
    except FileNotFoundError:
        raise MissingDataError(
            f"there is no file {path}, which split= (--split) names; expected {', '.join(_WAYS)}"
        ) from None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror or error}); expected a split") from None
    if rejected and len(np.unique(np.concatenate(list(split.values())))) < count:
        raise SpecError(
            f"{rejected:,} rows were left out, so the numbers in {path.name} may count other rows than the {count:,} "
            "graphs that are left; expected every graph in the split. Correct the rows, or use split='column:NAME'"
        )
    return split


# The card of own data (:func:`own_card`).


_METRICS = {
    Task.REGRESSION: Metric.MAE,
    Task.BINARY: Metric.ROC_AUC,
    Task.MULTI_CLASS: Metric.ACCURACY,
    Task.MULTI_LABEL: Metric.ROC_AUC,  # the mean over labels, as for MoleculeNet's tables with missing labels
}
# What stands in brackets at the end of a header and can be a unit: logS [mol/L], dG (kcal/mol), T (K), not y (measured)
_UNIT = re.compile(r".*[^\s]\s*[(\[]\s*(%|[^\W\d_]{1,4}|hartree|bohr|debye|[^\s()\[\]]*[/^·°%][^\s()\[\]]*)\s*[)\]]")


def own_card(*, task: Task, target_names: Sequence[str], **about: Any) -> Card:
    """A card with the usual metric of the task; targets of the same name are told apart by their number.

    A unit at the end of a name becomes the unit of a number, and stays in the name, which is the column's.
    """
    names = list(target_names)
    targets = tuple(
        Target(name if names.count(name) == 1 else f"{name} ({at})", unit_in(name) if task is Task.REGRESSION else "")
        for at, name in enumerate(names)
    )
    return Card(task=task, targets=targets, metric=_METRICS[task], licence="", source="own data", **about)


def unit_in(name: str) -> str:
    """``mol/L`` of ``logS [mol/L]``; empty where there is none."""
    found = _UNIT.fullmatch(name.strip())
    return found[1] if found else ""
