"""The user's table of molecules as a dataset: :func:`smiles_csv`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pointset.datasets.cache import FileContent, Notes, prepared, prepared_file
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import OWN_FILE, Dataset, Provenance
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.datasets.molecules.parallel import read_many, table_of_molecules
from pointset.datasets.molecules.parsing import Molecule, Unreadable, require_rdkit
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.own.candidates import Role
from pointset.datasets.own.columns import (
    Column,
    is_named,
    refuse_other_formats,
    settled_roles,
    shown,
    target_columns,
)
from pointset.datasets.own.csv_rows import Row, Table
from pointset.datasets.own.duplicates import CONTRADICTING, check_choice, kept_note, merge_duplicates, same_molecules
from pointset.datasets.own.learnable import part_notes, target_notes
from pointset.datasets.own.options import option
from pointset.datasets.own.rejected import (
    MOST_REJECTED,
    Rejected,
    check_limit,
    check_max_nodes,
    check_share,
    rejected_row,
    size_problem,
)
from pointset.datasets.own.table_files import open_table
from pointset.datasets.own.targets import is_missing, number_of, own_card, read_targets, task_named, weight_of
from pointset.datasets.splits.files import AUTOMATIC, SplitChoice, make_split, names_file, split_in_file, split_problem
from pointset.datasets.splits.parts import PARTS, Split, codes_of, part_of
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError

_VERSION = 6  # raise it when the same file would be read differently


class _Columns(NamedTuple):
    """Which columns are read, by number."""

    smiles: int
    targets: tuple[int, ...]
    split: int | None
    weights: int | None
    how_split: SplitChoice
    notes: tuple[str, ...]  # what was guessed


class _Plan(NamedTuple):
    """All that decides which graphs come out of a file."""

    file: Table
    columns: _Columns
    names: tuple[str, ...]  # of the targets
    task: Task | None
    reader: MoleculeReader
    digest: str
    max_nodes: int | None

    @property
    def cached(self) -> Path:
        import rdkit

        chosen = self.columns
        columns = (chosen.smiles, chosen.targets, chosen.split, chosen.weights, self.file.has_header, self.file.header)
        reader = dataclasses.asdict(self.reader)
        return prepared_file(
            "own",
            _VERSION,
            rdkit.__version__,
            self.digest,
            self.file.delimiter,
            columns,
            self.task,
            reader,
            self.max_nodes,
        )


def smiles_csv(
    path: str | Path | FileContent,
    *,
    smiles: Column | None = None,
    targets: Column | Sequence[Column] | None = None,
    task: str | None = None,
    split: SplitChoice = AUTOMATIC,
    seed: int = 0,
    weights: Column | None = None,
    duplicates: str = "merge",
    header: bool = True,
    sheet: str | int | None = None,
    hydrogens: bool = False,
    conformer_seed: int | None = None,
    lenient: bool = False,
    max_rejected: float = MOST_REJECTED,
    max_nodes: int | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Dataset:
    """Molecules of a table as a dataset; each row is a molecule: CSV, TSV, .smi, SDF (also .gz), .xlsx or Parquet.

    Graphs stand in the order of the rows, and the same molecule written differently gives the same graph. A row that
    cannot be used is in ``rejected`` with its line and the reason; ``rows`` are the lines of the others. What was read
    is kept in the cache, so that the next use starts in seconds.

    Args:
        path: the table, text in UTF-8; it is opened once.
        smiles: the column of SMILES, by name or number (from 0); by default the one that is named so.
        targets: the columns of targets, by name or number; by default the only column that can be one, or all columns
            of 0 and 1 (:mod:`pointset.datasets.own.candidates`); ``[]`` for none. Missing values (empty, NA, NaN, null,
            -, …) become NaN; a row without any value is left out.
        task: ``"regression"``, ``"binary"``, ``"multi-class"`` or ``"multi-label"``; by default values of only 0 and 1
            are labels, words in a single target are classes, and other numbers are numbers.
        split: ``"random"``, ``"stratified"``, ``"scaffold"``, ``"column:NAME"``, a file with a split, or the shares of
            a random split such as ``(0.7, 0.2, 0.1)``; by default by a column named split, set, subset, partition or
            fold with the words train, val and test, where there is one, else at random.
        seed: of the random and the stratified split.
        weights: a column of numbers from 0 that say how much each row counts in training; by default all the same.
        duplicates: ``"merge"`` makes one graph of rows with the same molecule, which is noted on the card
            (:mod:`pointset.datasets.own.duplicates` states the rule); ``"keep"`` takes every row as it is.
        header: whether the first line names the columns.
        sheet: of a workbook, by name or number; by default the first.
        hydrogens: whether hydrogens are nodes too.
        conformer_seed: makes 3D positions from this seed.
        lenient: takes molecules with impossible chemistry (a valence too high) as they are written.
        max_rejected: the largest share of rows that may be bad; 1.0 for any. Rows that only lack a target do not count.
        max_nodes: molecules of more atoms are left out, and do not count as bad; by default none.
        workers: processes that read SMILES; the result does not depend on it.
        progress: whether to show a bar; by default where there is a terminal.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: the file is damaged or not a table, or too many rows cannot be used.
        UnclearTargetsError: no targets are chosen, and more than one column could be meant.
        SpecError: there is no such column, or the settings are impossible.
        MissingExtraError: RDKit is not installed, or the package that reads a workbook or Parquet.
    """
    require_rdkit()
    limit, duplicates = check_limit(max_rejected), check_choice(duplicates)
    check_max_nodes(max_nodes)
    source = path if isinstance(path, FileContent) else FileContent(path)
    refuse_other_formats(source.path)
    file = open_table(source, header=header, sheet=sheet)
    columns = _choose_columns(file, smiles, targets, split, weights)
    names = tuple(shown(file, column) for column in columns.targets)
    reader = MoleculeReader(hydrogens=hydrogens, conformer_seed=conformer_seed, lenient=lenient)
    plan = _Plan(file, columns, names, task_named(task), reader, source.sha256, max_nodes)
    table, details = _prepared(plan, limit, workers, progress)
    check_share(details.rejected, len(table), limit, file.path)
    if duplicates == "keep":
        once = _Once(table, details, None, kept_note(details.duplicates, details.rows))
    else:
        once = _merged(plan, table, details)
    return _dataset(plan, once, seed)


class _Once(NamedTuple):
    """The table and its details with each molecule once, if they are merged."""

    table: GraphTable
    details: _Details
    given: Split | None  # the split of these graphs in a file, where it is of the rows before
    notes: tuple[str, ...]
    merged: int = 0  # rows


def _merged(plan: _Plan, table: GraphTable, details: _Details) -> _Once:
    """Rows of the same molecule in the place of the first; those in different parts of a given split stay apart."""
    if not details.duplicates:
        return _Once(table, details, None, ())
    how, given, parts = plan.columns.how_split, None, None
    if plan.columns.split is not None:
        words = [part_of(cell) for cell in details.split]
        parts = np.array([-1 if word is None else PARTS.index(word) for word in words])
    elif names_file(how):
        with contextlib.suppress(FileFormatError):  # else it may be of the molecules, as a run writes it
            given = split_in_file(how, len(table), len(details.rejected))
            parts = codes_of(given, len(table))
    merged = merge_duplicates(
        table, details.duplicates, task=details.task, names=plan.names, lines=details.rows, parts=parts
    )
    if not len(merged.kept):
        raise FileFormatError(
            f"the rows of {plan.file.path} contradict each other, and no molecule is left; expected one value for "
            "each. Correct them, or pass " + option("duplicates", "keep")
        )
    place = np.full(len(table), -1)
    place[merged.kept] = np.arange(len(merged.kept))
    if given is not None:
        given = {part: there[there >= 0] for part, there in ((part, place[one]) for part, one in given.items())}
    smiles = table.smiles or [""] * len(table)
    rejected = [
        rejected_row(details.rows[graph], CONTRADICTING, reason, smiles[graph], plan.file.unit)
        for graph, reason in merged.contradicting.items()
    ]
    left = dataclasses.replace(
        details,
        rows=[details.rows[graph] for graph in merged.kept],
        split=[details.split[graph] for graph in merged.kept] if details.split else [],
        rejected=tuple(sorted((*details.rejected, *rejected), key=lambda one: one.row)),
    )
    gone = len(table) - len(merged.kept) - len(merged.contradicting)
    return _Once(merged.table, left, given, merged.notes, gone)


def _dataset(plan: _Plan, once: _Once, seed: int) -> Dataset:
    path, table, details = plan.file.path, once.table, once.details
    parts, split_text, split_notes = make_split(
        plan.columns.how_split,
        count=len(table),
        seed=seed,
        labels=table.y,
        smiles=table.smiles,
        cells=details.split if plan.columns.split is not None else None,
        rejected=len(details.rejected),
        given=once.given,
    )
    split_notes += part_notes(plan.columns.how_split, parts, "molecule")
    learned = target_notes(table.y, plan.names, details.task, details.classes, table.limits)
    card = own_card(
        name=path.name.removesuffix(".gz").rpartition(".")[0] or path.name,
        title=path.name,
        description=f"Molecules of {path.name}.",
        level=Level.GRAPH,
        task=details.task,
        target_names=plan.names,
        split=split_text,
        **OGB_FEATURES,
        positions=plan.reader.conformer_seed is not None,
        classes=details.classes,
        notes=(*plan.columns.notes, *details.targets, *learned, *once.notes, *split_notes),
    )
    provenance = Provenance(str(path), OWN_FILE, (path,), (plan.digest,))
    rows = np.array(details.rows, dtype=np.int64)
    return Dataset(
        card,
        table.arrays(),
        parts,
        provenance,
        table.smiles,
        rejected=details.rejected,
        rows=rows,
        row_unit=plan.file.unit,
        limits=table.limits,
        weights=table.weights,
        merged=once.merged,
    )


def _choose_columns(
    file: Table,
    smiles: Column | None,
    targets: Column | Sequence[Column] | None,
    split: SplitChoice,
    weights: Column | None,
) -> _Columns:
    named = [] if targets is None else target_columns(file, targets, {})[0]
    roles, how_split, split_notes = settled_roles(file, smiles, split, named, weights)
    at = {role: column for column, role in roles.items()}
    smiles_at, split_at, weights_at = at[Role.STRUCTURE], at.get(Role.SPLIT), at.get(Role.WEIGHT)
    columns, notes = target_columns(file, targets, roles)
    by_number = smiles is not None and not is_named(file, smiles)
    if by_number and file.header and _looks_like_data(file, smiles_at, columns):
        raise FileFormatError(
            f"the first line of {file.path} is {','.join(file.header)[:80]!r}, which seems to be a row already; "
            f"expected the names of the columns. Pass {option('header', False)}, or put a header above it"
        )
    return _Columns(smiles_at, tuple(columns), split_at, weights_at, how_split, (*file.notes, *notes, *split_notes))


def _looks_like_data(file: Table, smiles: int, targets: Sequence[int]) -> bool:
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
    duplicates: list[list[int]]  # graphs that are the same molecule

    @classmethod
    def from_json(cls, content: Notes) -> _Details:
        return cls(
            rows=content["rows"],
            task=Task(content["task"]),
            classes=tuple(content["classes"]),
            targets=tuple(content["targets"]),
            split=content["split"],
            rejected=tuple(Rejected(**one) for one in content["rejected"]),
            duplicates=content["duplicates"],
        )


def _read_rows(plan: _Plan) -> tuple[list[Row], list[Rejected]]:
    """All rows with a SMILES, reduced to its cell, those of the targets, the weight and the split; and all others."""
    file, rows, rejected = plan.file, [], []
    smiles, split, weights = plan.columns.smiles, plan.columns.split, plan.columns.weights
    chosen = [smiles, *plan.columns.targets, *(column for column in (weights, split) if column is not None)]
    for row in file.filled_rows():
        kind, problem = "a row that cannot be read", row.problem
        if problem is None and is_missing(row.cells[smiles]):
            kind, problem = "no SMILES", f"{shown(file, smiles)!r} is empty; expected a SMILES"
        if problem is None and len(row.cells[smiles].splitlines()) > 1:
            problem = 'the SMILES runs over several lines; a quote (") before it is probably not closed'
        if problem is None and split is not None and (problem := split_problem(row.cells[split])):
            kind = "an unknown split"
        if (
            problem is None
            and weights is not None
            and weight_of(row.cells[weights], commas=file.decimal_commas) is None
        ):
            told = f"{shown(file, weights)!r} is {row.cells[weights].strip()[:40]!r}"
            kind, problem = "a weight that cannot be used", f"the weight {told}; expected a number, 0 or more"
        if problem is None:
            rows.append(Row(row.line, [row.cells[column] for column in chosen]))
        else:
            rejected.append(rejected_row(row.line, kind, problem, file.delimiter.join(row.cells), file.unit))
    if not rows and not rejected:
        raise FileFormatError(f"{file.path} has a header, but no rows; expected a row for each molecule")
    return rows, rejected


def _make_table(plan: _Plan, workers: int | None, progress: bool | None) -> tuple[GraphTable | None, _Details]:
    """The graphs of all rows with a molecule and a target, in the order of the rows; None where there are none."""
    rows, rejected = _read_rows(plan)
    smiles = [row.cells[0].strip() for row in rows]
    cells = [[row.cells[column] for row in rows] for column in range(1, 1 + len(plan.names))]
    values = read_targets(cells, plan.names, plan.task, commas=plan.file.decimal_commas, limits=True)

    def reject(at: int, kind: str, reason: str) -> None:
        content = ", ".join(map(str.strip, rows[at].cells[: 1 + len(plan.names)]))
        rejected.append(rejected_row(rows[at].line, kind, reason, content, plan.file.unit))

    for at, problem in values.problems.items():
        reject(at, *problem)
    wanted = [at for at in range(len(rows)) if at not in values.problems]
    readable: list[int] = []
    molecules: list[Molecule] = []
    results = read_many([smiles[at] for at in wanted], plan.reader, workers=workers, progress=progress)
    for at, result in zip(wanted, results, strict=True):
        if isinstance(result, Unreadable):
            reason = result.reason.replace("lenient=True", option("lenient", True))
            reject(at, "a SMILES that cannot be read", reason)
        elif too_large := size_problem(result.num_nodes, plan.max_nodes):
            reject(at, *too_large)
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
        split=[] if plan.columns.split is None else [rows[at].cells[-1] for at in readable],
        rejected=tuple(sorted(rejected, key=lambda one: one.row)),
        duplicates=same_molecules([molecule.smiles for molecule in molecules]),
    )
    if not readable:
        return None, details
    table = table_of_molecules(molecules, [smiles[at] for at in readable])
    lower, upper = (None, None) if values.limits is None else (limit[readable] for limit in values.limits)
    weights = None
    if plan.columns.weights is not None:
        cells_of_weights = [rows[at].cells[1 + len(plan.names)] for at in readable]
        weights = np.array([weight_of(cell, commas=plan.file.decimal_commas) for cell in cells_of_weights], np.float64)
    return dataclasses.replace(table, y=y, lower=lower, upper=upper, weights=weights), details
