"""Rows of SMILES and targets → graphs in flat arrays, and the rows that were left out (:func:`make_table`)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from pointset.datasets.card import Task
from pointset.datasets.molecules.many import Unreadable, read_many
from pointset.datasets.molecules.molecule import Molecule
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.molecules.smiles_table import table_of_molecules
from pointset.datasets.own.kept import Notes
from pointset.datasets.own.molecule_rows import MoleculeRows
from pointset.datasets.own.rejected import Rejected, rejected_row
from pointset.datasets.own.target_values import TargetValues
from pointset.datasets.table import Array, GraphTable


@dataclass(frozen=True)
class MoleculeNotes:
    """What is known of a table of molecules besides its graphs."""

    rows: list[int]  # (G,) the line of each graph
    task: Task
    classes: tuple[str, ...]
    targets: tuple[str, ...]  # what is to be said of the targets on the card
    split: list[str]  # (G,) cells of the split column; empty where there is none
    rejected: tuple[Rejected, ...]

    def as_plain(self) -> Notes:
        """For JSON."""
        return dataclasses.asdict(self) | {"task": self.task.value}

    @classmethod
    def from_plain(cls, notes: Notes) -> MoleculeNotes:
        """From JSON."""
        return cls(
            rows=notes["rows"],
            task=Task(notes["task"]),
            classes=tuple(notes["classes"]),
            targets=tuple(notes["targets"]),
            split=notes["split"],
            rejected=tuple(Rejected(**one) for one in notes["rejected"]),
        )


def make_table(
    rows: MoleculeRows,
    values: TargetValues,
    reader: MoleculeReader,
    *,
    workers: int | None,
    progress: bool | None,
) -> tuple[GraphTable | None, MoleculeNotes]:
    """The graphs of all rows with a molecule and a target, in the order of the rows; None where there are none."""
    rejected = [
        *rows.rejected,
        *(rejected_row(rows.lines[at], *problem, rows.content(at)) for at, problem in values.problems.items()),
    ]
    wanted = [at for at in range(len(rows.lines)) if at not in values.problems]
    results = read_many([rows.smiles[at] for at in wanted], reader, workers=workers, progress=progress)
    kept: list[int] = []
    molecules: list[Molecule] = []
    for at, result in zip(wanted, results, strict=True):
        if isinstance(result, Unreadable):
            reason = result.reason.replace("lenient=True", "lenient=True (--lenient)")
            rejected.append(rejected_row(rows.lines[at], "a SMILES that cannot be read", reason, rows.content(at)))
        else:
            kept.append(at)
            molecules.append(result)
    y, classes = _classes_in_use(None if values.y is None else values.y[kept], values.classes)
    notes = MoleculeNotes(
        rows=[rows.lines[at] for at in kept],
        task=values.task,
        classes=classes,
        targets=values.notes,
        split=[rows.split[at] for at in kept] if rows.split else [],
        rejected=tuple(sorted(rejected, key=lambda one: one.row)),
    )
    if not kept:
        return None, notes
    table = table_of_molecules(molecules, [rows.smiles[at] for at in kept])
    return dataclasses.replace(table, y=y), notes


def _classes_in_use(y: Array | None, classes: tuple[str, ...]) -> tuple[Array | None, tuple[str, ...]]:
    """Classes whose rows were all left out are no classes."""
    if y is None or not classes:
        return y, classes
    used, numbers = np.unique(y, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), tuple(classes[number] for number in used)
