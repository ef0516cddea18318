"""The user's table of molecules as a dataset: :func:`smiles_csv`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pointset.datasets.cache import FileContent, Notes, prepared, prepared_file
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import Dataset, Provenance
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.datasets.molecules.parallel import read_many, table_of_molecules
from pointset.datasets.molecules.parsing import Molecule, Unreadable, require_rdkit
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.own.columns import (
    Column,
    column_number,
    refuse_other_formats,
    shown,
    smiles_column,
    target_columns,
)
from pointset.datasets.own.csv_rows import CsvFile, Row
from pointset.datasets.own.rejected import MOST_REJECTED, Rejected, check_limit, check_share, rejected_row
from pointset.datasets.own.targets import is_missing, number_of, own_card, read_targets, task_named
from pointset.datasets.splits.files import SplitChoice, make_split, split_column_of, split_problem
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError

_VERSION = 3  # raise it when the same file would be read differently


class _Plan(NamedTuple):
    """All that decides which graphs come out of a file; columns are numbers."""

    file: CsvFile
    smiles: int
    targets: tuple[int, ...]
    names: tuple[str, ...]  # of the targets
    split: int | None
    task: Task | None
    reader: MoleculeReader
    digest: str

    @property
    def cached(self) -> Path:
        import rdkit

        columns = (self.smiles, self.targets, self.split, self.file.has_header)
        reader = dataclasses.asdict(self.reader)
        return prepared_file(
            "own", _VERSION, rdkit.__version__, self.digest, self.file.delimiter, columns, self.task, reader
        )


def smiles_csv(
    path: str | Path | FileContent,
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
        path: the table, in UTF-8; it is opened once.
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
        FileFormatError: the file is damaged or not a table, or too many rows cannot be used.
        SpecError: there is no such column, or the settings are impossible.
        MissingExtraError: RDKit is not installed.
    """
    require_rdkit()
    limit = check_limit(max_rejected)
    source = path if isinstance(path, FileContent) else FileContent(path)
    refuse_other_formats(source.path)
    file = CsvFile(source, header=header)
    smiles_at, split_at, targets_at = _choose_columns(file, smiles, targets, split_column_of(split))
    names = tuple(shown(file, column) for column in targets_at)
    reader = MoleculeReader(hydrogens=hydrogens, conformer_seed=conformer_seed, lenient=lenient)
    plan = _Plan(file, smiles_at, targets_at, names, split_at, task_named(task), reader, source.sha256)
    table, details = _prepared(plan, limit, workers, progress)
    check_share(details.rejected, len(table), limit, file.path)
    return _dataset(plan, table, details, split, seed, automatic=targets is None)


def _dataset(
    plan: _Plan, table: GraphTable, details: _Details, split: SplitChoice, seed: int, *, automatic: bool
) -> Dataset:
    path, names = plan.file.path, plan.names
    parts, split_text = make_split(
        split,
        count=len(table),
        seed=seed,
        labels=table.y,
        smiles=table.smiles,
        cells=details.split if plan.split is not None else None,
        rejected=len(details.rejected),
    )
    if names:
        chosen = f"targets are all columns of numbers: {', '.join(names)}. Choose others with targets= (--target)"
    else:
        chosen = "no targets: nothing to learn from; name a column with targets= (--target)"
    card = own_card(
        name=path.name.removesuffix(".gz").rpartition(".")[0] or path.name,
        title=path.name,
        description=f"Molecules of {path.name}.",
        level=Level.GRAPH,
        task=details.task,
        target_names=names,
        split=split_text,
        **OGB_FEATURES,
        positions=plan.reader.conformer_seed is not None,
        classes=details.classes,
        notes=(*((chosen,) if automatic else ()), *details.targets),
    )
    provenance = Provenance(str(path), "own file", (path,), (plan.digest,))
    rows = np.array(details.rows, dtype=np.int64)
    return Dataset(card, table.arrays(), parts, provenance, table.smiles, rejected=details.rejected, rows=rows)


def _choose_columns(
    file: CsvFile, smiles: Column | None, targets: Column | Sequence[Column] | None, split: str | None
) -> tuple[int, int | None, tuple[int, ...]]:
    """The numbers of the columns of SMILES, of the split and of the targets."""
    smiles_at = smiles_column(file, smiles)
    split_at = None if split is None else column_number(file, split, "split")
    others = [smiles_at] if split_at is None else [smiles_at, split_at]
    columns = tuple(target_columns(file, targets, others))
    if isinstance(smiles, int) and file.header and _looks_like_data(file, smiles_at, columns):
        raise FileFormatError(
            f"the first line of {file.path} is {','.join(file.header)[:80]!r}, which seems to be a row already; "
            "expected the names of the columns. Pass header=False (--no-header), or put a header above it"
        )
    return smiles_at, split_at, columns


def _looks_like_data(file: CsvFile, smiles: int, targets: Sequence[int]) -> bool:
    """Whether numbers stand where the names of targets should, and the SMILES is not named as such."""
    words = "".join(letter for letter in file.header[smiles].lower() if letter.isalpha())
    numbers = [number_of(file.header[column]) is not None for column in targets]
    named = number_of(file.header[smiles]) is not None or any(part in words for part in ("smi", "mol", "struct"))
    return bool(numbers) and all(numbers) and not named


def _prepared(plan: _Plan, limit: float, workers: int | None, progress: bool | None) -> tuple[GraphTable, _Details]:
    """From the cache, or read; a file with too many bad rows leaves nothing behind."""

    def make() -> tuple[GraphTable, Notes]:
        table, details = _make_table(plan, workers, progress)
        check_share(details.rejected, len(details.rows), limit, plan.file.path)
        if table is None:
            raise FileFormatError(f"{plan.file.path} has no rows; expected a row for each molecule")
        return table, dataclasses.asdict(details)

    table, content = prepared(plan.cached, make)
    return table, _Details.from_json(content)


@dataclass(frozen=True)
class _Details:
    """What is known of a table of molecules besides its graphs; kept beside them in the cache."""

    rows: list[int]  # (G,) the line of each graph
    task: Task
    classes: tuple[str, ...]
    targets: tuple[str, ...]  # what is to be said of the targets on the card
    split: list[str]  # (G,) cells of the split column; empty where there is none
    rejected: tuple[Rejected, ...]

    @classmethod
    def from_json(cls, content: Notes) -> _Details:
        return cls(
            rows=content["rows"],
            task=Task(content["task"]),
            classes=tuple(content["classes"]),
            targets=tuple(content["targets"]),
            split=content["split"],
            rejected=tuple(Rejected(**one) for one in content["rejected"]),
        )


def _read_rows(plan: _Plan) -> tuple[list[Row], list[Rejected]]:
    """All rows with a SMILES, reduced to its cell, those of the targets and that of the split; and all others."""
    file, rows, rejected = plan.file, [], []
    chosen = [plan.smiles, *plan.targets, *([] if plan.split is None else [plan.split])]
    for row in file.rows():
        kind, problem = "a row that cannot be read", row.problem
        if problem is None and is_missing(row.cells[plan.smiles]):
            kind, problem = "no SMILES", f"{shown(file, plan.smiles)!r} is empty; expected a SMILES"
        if problem is None and len(row.cells[plan.smiles].splitlines()) > 1:
            problem = 'the SMILES runs over several lines; a quote (") before it is probably not closed'
        if problem is None and plan.split is not None and (problem := split_problem(row.cells[plan.split])):
            kind = "an unknown split"
        if problem is None:
            rows.append(Row(row.line, [row.cells[column] for column in chosen]))
        else:
            rejected.append(rejected_row(row.line, kind, problem, file.delimiter.join(row.cells)))
    if not rows and not rejected:
        raise FileFormatError(f"{file.path} has a header, but no rows; expected a row for each molecule")
    return rows, rejected


def _make_table(plan: _Plan, workers: int | None, progress: bool | None) -> tuple[GraphTable | None, _Details]:
    """The graphs of all rows with a molecule and a target, in the order of the rows; None where there are none."""
    rows, rejected = _read_rows(plan)
    smiles = [row.cells[0].strip() for row in rows]
    cells = [[row.cells[column] for row in rows] for column in range(1, 1 + len(plan.targets))]
    values = read_targets(cells, plan.names, plan.task, commas=plan.file.decimal_commas)

    def reject(at: int, kind: str, reason: str) -> None:
        content = ", ".join(map(str.strip, rows[at].cells[: 1 + len(plan.targets)]))
        rejected.append(rejected_row(rows[at].line, kind, reason, content))

    for at, problem in values.problems.items():
        reject(at, *problem)
    wanted = [at for at in range(len(rows)) if at not in values.problems]
    readable: list[int] = []
    molecules: list[Molecule] = []
    results = read_many([smiles[at] for at in wanted], plan.reader, workers=workers, progress=progress)
    for at, result in zip(wanted, results, strict=True):
        if isinstance(result, Unreadable):
            reason = result.reason.replace("lenient=True", "lenient=True (--lenient)")
            reject(at, "a SMILES that cannot be read", reason)
        else:
            readable.append(at)
            molecules.append(result)
    y, classes = None if values.y is None else values.y[readable], values.classes
    if y is not None and classes:  # those whose rows were all left out are dropped
        used, numbers = np.unique(y, return_inverse=True)
        y, classes = numbers.reshape(-1).astype(np.int64), tuple(classes[number] for number in used)
    details = _Details(
        rows=[rows[at].line for at in readable],
        task=values.task,
        classes=classes,
        targets=values.notes,
        split=[] if plan.split is None else [rows[at].cells[-1] for at in readable],
        rejected=tuple(sorted(rejected, key=lambda one: one.row)),
    )
    if not readable:
        return None, details
    table = table_of_molecules(molecules, [smiles[at] for at in readable])
    return dataclasses.replace(table, y=y), details
