"""The user's table of molecules as a dataset: :func:`smiles_csv`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import Dataset, Provenance
from pointset.datasets.molecules.rdkit_guard import require_rdkit
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.molecules.smiles_table import OGB_FEATURES
from pointset.datasets.own.cards import own_card
from pointset.datasets.own.column_choice import Column
from pointset.datasets.own.csv_rows import CsvFile
from pointset.datasets.own.kept import Notes, kept
from pointset.datasets.own.kinds import check_kind
from pointset.datasets.own.molecule_rows import MoleculeColumns, read_molecule_rows
from pointset.datasets.own.molecule_table import MoleculeNotes, make_table
from pointset.datasets.own.rejected import MOST_REJECTED, check_limit, check_share
from pointset.datasets.own.splitting import SplitChoice, make_split, split_column_of
from pointset.datasets.own.target_values import read_targets, task_named
from pointset.datasets.prepared import file_digest, prepared_file
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError

_VERSION = 2  # raise it when the same file would be read differently


class _Plan(NamedTuple):
    """All that decides which graphs come out of a file."""

    file: CsvFile
    columns: MoleculeColumns
    task: Task | None
    reader: MoleculeReader
    digest: str

    @property
    def cached(self) -> Path:
        import rdkit

        columns = (self.columns.smiles, self.columns.targets, self.columns.split, self.file.has_header)
        task = None if self.task is None else self.task.value
        reader = dataclasses.asdict(self.reader)
        return prepared_file(
            "own", _VERSION, rdkit.__version__, self.digest, self.file.delimiter, columns, task, reader
        )


def smiles_csv(
    path: str | Path,
    *,
    smiles: Column | None = None,
    targets: Column | Sequence[Column] | None = None,
    task: str | None = None,
    split: SplitChoice = "random",
    seed: int = 0,
    header: bool = True,
    hydrogens: bool = False,
    conformer_seed: int | None = None,
    lenient: bool = False,
    max_rejected: float = MOST_REJECTED,
    workers: int | None = None,
    progress: bool | None = None,
) -> Dataset:
    """Molecules of a table (CSV, TSV, .smi, also packed with gzip) as a dataset; each row is a molecule.

    Graphs stand in the order of the rows, and the same molecule written differently gives the same graph. A row that
    cannot be used is in ``rejected`` with its line and the reason; ``rows`` are the lines of the others. What was read
    is kept in the cache, so that the next use starts in seconds.

    Args:
        path: the table, in UTF-8.
        smiles: the column of SMILES, by name or number (from 0); by default the one that is named so.
        targets: the columns of targets, by name or number; by default all columns of numbers that are not named like
            identifiers (id, index, …), or none where there are no such columns; ``[]`` for none. Missing values
            (empty, NA, NaN, null, -, …) become NaN; a row without any value is left out.
        task: ``"regression"``, ``"binary"``, ``"multi-class"`` or ``"multi-label"``; by default values of only 0 and 1
            are labels, words in a single target are classes, and other numbers are numbers.
        split: ``"random"``, ``"stratified"``, ``"scaffold"``, ``"column:NAME"``, a file with a split, or the shares of
            a random split such as ``(0.7, 0.2, 0.1)``.
        seed: of the random and the stratified split.
        header: whether the first line names the columns.
        hydrogens: whether hydrogens are nodes too.
        conformer_seed: makes 3D positions from this seed.
        lenient: takes molecules with impossible chemistry (a valence too high) as they are written.
        max_rejected: the largest share of rows that may be bad; 1.0 for any. Rows that only lack a target do not count.
        workers: processes that read SMILES; the result does not depend on it.
        progress: whether to show a bar; by default where there is a terminal.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: the file is damaged or no table, or too many rows cannot be used.
        SpecError: there is no such column, or the settings are impossible.
        MissingExtraError: RDKit is not installed.
    """
    require_rdkit()
    limit = check_limit(max_rejected)
    check_kind(path)
    file = CsvFile(path, header=header)
    columns = MoleculeColumns.chosen(file, smiles, targets, split_column_of(split))
    reader = MoleculeReader(hydrogens=hydrogens, conformer_seed=conformer_seed, lenient=lenient)
    plan = _Plan(file, columns, task_named(task), reader, file_digest(file.path))
    table, notes = _prepared(plan, limit, workers, progress)
    check_share(notes.rejected, len(table), limit, file.path)
    made = make_split(
        split,
        count=len(table),
        seed=seed,
        labels=table.y,
        smiles=table.smiles,
        cells=notes.split if columns.split is not None else None,
        rejected=len(notes.rejected),
    )
    card = _card(plan, notes, made.words, automatic=targets is None)
    provenance = Provenance(str(file.path), "own file", (file.path,), (plan.digest,))
    return Dataset(
        card,
        table.arrays(),
        made.parts,
        provenance,
        table.smiles,
        rejected=notes.rejected,
        rows=np.array(notes.rows, dtype=np.int64),
    )


def _prepared(
    plan: _Plan, limit: float, workers: int | None, progress: bool | None
) -> tuple[GraphTable, MoleculeNotes]:
    """From the cache, or read; a file with too many bad rows leaves nothing behind."""

    def make() -> tuple[GraphTable, Notes]:
        rows = read_molecule_rows(plan.file, plan.columns)
        values = read_targets(rows.targets, plan.columns.names, plan.task, commas=plan.file.decimal_commas)
        table, notes = make_table(rows, values, plan.reader, workers=workers, progress=progress)
        check_share(notes.rejected, len(notes.rows), limit, plan.file.path)
        if file_digest(plan.file.path) != plan.digest:  # it must not be kept under the name of another
            raise FileFormatError(f"{plan.file.path} changed while being read; try again")
        if table is None:
            raise FileFormatError(f"{plan.file.path} has no rows; expected a row for each molecule")
        return table, notes.as_plain()

    table, notes = kept(plan.cached, make)
    return table, MoleculeNotes.from_plain(notes)


def _card(plan: _Plan, notes: MoleculeNotes, split: str, *, automatic: bool) -> Card:
    path, names = plan.file.path, plan.columns.names
    if names:
        chosen = f"targets are all columns of numbers: {', '.join(names)}. Choose others with targets= (--target)"
    else:
        chosen = "no targets: nothing to learn from; name a column with targets= (--target)"
    return own_card(
        name=path.name.removesuffix(".gz").rpartition(".")[0] or path.name,
        title=path.name,
        description=f"Molecules of {path.name}.",
        level=Level.GRAPH,
        task=notes.task,
        target_names=names,
        split=split,
        **OGB_FEATURES,
        positions=plan.reader.conformer_seed is not None,
        classes=notes.classes,
        notes=(*((chosen,) if automatic else ()), *notes.targets),
    )
