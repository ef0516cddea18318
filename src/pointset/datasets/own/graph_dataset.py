"""The user's graph files as a dataset: :func:`graph_files`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.datasets.card import Level
from pointset.datasets.dataset import Dataset, Provenance
from pointset.datasets.graph_files import read_graph_file
from pointset.datasets.graph_files.screening import screen
from pointset.datasets.graph_formats import FOLDER, FORMATS, format_of
from pointset.datasets.own.cards import own_card
from pointset.datasets.own.column_choice import Column
from pointset.datasets.own.graph_features import feature_problems, fitted, with_flat_features
from pointset.datasets.own.graph_notes import graph_notes
from pointset.datasets.own.graph_targets import GraphTargets, targets_in_files
from pointset.datasets.own.rejected import MOST_REJECTED, Rejected, check_limit, check_share, rejected_row
from pointset.datasets.own.splitting import SplitChoice, make_split, split_column_of
from pointset.datasets.own.target_table import TargetTable, read_target_table
from pointset.datasets.own.target_values import task_named
from pointset.datasets.prepared import file_digest
from pointset.errors import FileFormatError, MissingDataError, SpecError
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graphs
from pointset.progress import track


class _Read(NamedTuple):
    """What was found in the files, bad graphs included."""

    names: list[str]  # of all graphs
    graphs: dict[int, Graph]  # the good ones by number
    problems: dict[int, tuple[str, str]]  # the others
    ignored: list[str]  # attributes that were not read


def graph_files(
    path: str | Path,
    *,
    targets: str | Path | None = None,
    columns: Column | Sequence[Column] | None = None,
    level: Level | str | None = None,
    task: str | None = None,
    node: Any = None,
    edge: Any = None,
    split: SplitChoice = "random",
    seed: int = 0,
    max_rejected: float = MOST_REJECTED,
    progress: bool | None = None,
) -> Dataset:
    """Graphs of a file, or of all files in a folder, as a dataset: all formats that ``pointset convert`` reads.

    Weights of edges are kept. A graph that cannot be used is in ``rejected`` with its number and the reason; ``rows``
    are the numbers of the others, counted from 0.

    Args:
        path: a graph file or a folder.
        targets: a CSV with a column ``graph`` (the graph's name, or its number counted from 0) and columns of targets.
            By default the targets are ``y`` of the graphs, or of their nodes, in the files themselves.
        columns: of targets in that CSV, by name or number; by default all that hold numbers.
        level: ``"graph"`` or ``"node"``; by default seen from the shape of ``y``.
        task: ``"regression"``, ``"binary"``, ``"multi-class"`` or ``"multi-label"``; by default values of only 0 and 1
            are labels, words are classes, and other numbers are numbers.
        node: the spec of node features, e.g. ``Categories(28)``; by default whole numbers are categories.
        edge: the spec of edge features.
        split: ``"random"``, ``"stratified"``, ``"column:NAME"`` of the CSV, a file with a split, or the shares of a
            random split such as ``(0.7, 0.2, 0.1)``.
        seed: of the split.
        max_rejected: the largest share of graphs that may be bad; 1.0 for any. Those that only lack a target do not
            count.
        progress: whether to show a bar; by default where there is a terminal.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: a file is not what its suffix promises, or too many graphs cannot be used.
        SpecError: impossible settings.
    """
    source, limit = Path(path), check_limit(max_rejected)
    wanted, chosen_task = _level(level, table=targets is not None), task_named(task)
    if targets is None and (columns is not None or split_column_of(split) is not None):
        raise SpecError(
            "columns= (--target) and split='column:NAME' are about a table of targets; pass it as targets='….csv' "
            "(--table ….csv)"
        )
    read = _read(source, None if targets is None else Path(targets), progress)
    table = None
    if targets is not None:
        numbered = format_of(source) not in (FOLDER, FORMATS[".csv"])  # elsewhere a bad entry still is one entry
        column = split_column_of(split)
        table = read_target_table(targets, read.names, columns=columns, split=column, numbered=numbered)
    found = _targets(read, table, wanted, chosen_task)
    numbers = [number for number in read.graphs if number not in read.problems]
    rejected = [
        rejected_row(number, kind, reason, read.names[number], "graph")
        for number, (kind, reason) in sorted(read.problems.items())
    ]
    rejected += [] if table is None else table.rejected
    check_share(rejected, len(numbers), limit, source, unit="graph")
    notes = graph_notes(source, read.ignored, found, None if columns is not None else table)
    return _dataset(source, read, numbers, found, table, rejected, (node, edge), split, seed, notes)


def _level(level: Level | str | None, *, table: bool) -> Level | None:
    try:
        wanted = None if level is None else Level(level)
    except ValueError:
        raise SpecError(f"got level={level!r} (--level); expected 'graph' or 'node'") from None
    if table and wanted is Level.NODE:
        raise SpecError("a table of targets has a row for each graph; for targets of nodes put y into the graph files")
    return wanted


def _read(path: Path, table: Path | None, progress: bool | None) -> _Read:
    if not path.exists():
        raise MissingDataError(f"there is no file or folder {path}; expected graphs. Check the name")
    names: list[str] = []
    numbered = []
    try:
        for record in track(read_graph_file(path), "Reading", None, show=progress):
            if path.is_dir() and table is not None and table.resolve() == (path / record.name).resolve():
                continue  # the table of targets lies among the graphs
            numbered.append(dataclasses.replace(record, name=str(len(names))))
            names.append(record.name)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror or error})") from None
    screened = screen(numbered)
    graphs = {int(name): graph for name, graph in zip(screened.names, screened.graphs, strict=True)}
    problems = {int(problem.name): ("not readable", problem.reason) for problem in screened.problems}
    listed = list(graphs)
    unfit = feature_problems([graphs[number] for number in listed], [names[number] for number in listed])
    problems |= {listed[at]: problem for at, problem in unfit.items()}
    good = {number: graph for number, graph in graphs.items() if number not in problems}
    return _Read(names, good, problems, screened.ignored)


def _targets(read: _Read, table: TargetTable | None, level: Level | None, task: Any) -> GraphTargets:
    """The targets of ``read.graphs``; graphs whose targets are bad join ``read.problems``."""
    numbers = list(read.graphs)
    graphs = list(read.graphs.values())
    found = targets_in_files(graphs, level, task) if table is None else table.targets(numbers, task)
    read.problems.update({numbers[at]: problem for at, problem in found.problems.items()})
    return found


def _dataset(
    path: Path,
    read: _Read,
    numbers: list[int],
    found: GraphTargets,
    table: TargetTable | None,
    rejected: list[Rejected],
    specs: tuple[Any, Any],
    split: SplitChoice,
    seed: int,
    notes: tuple[str, ...],
) -> Dataset:
    graphs = [read.graphs[number] for number in numbers]
    y, of_nodes = _joined(found), found.level is Level.NODE
    arrays = with_flat_features(read_graphs(graphs), graphs, y, y_of_nodes=of_nodes)
    flat: Any = arrays.features
    x, node = fitted(flat.x, specs[0], "node")
    edge_attr, edge = fitted(flat.edge_attr, specs[1], "edge")
    arrays = dataclasses.replace(arrays, features=dataclasses.replace(flat, x=x, edge_attr=edge_attr))
    made = make_split(
        split,
        count=len(graphs),
        seed=seed,
        labels=None if of_nodes or y is None else y.numpy(),
        cells=None if table is None else table.split_cells(numbers),
        rejected=len(rejected),
    )
    card = own_card(
        name=path.stem,
        title=path.name,
        description=f"Graphs of {path.name}.",
        level=found.level,
        task=found.task,
        target_names=found.names,
        split=made.words,
        node=node,
        edge=edge,
        positions=flat.pos is not None,
        classes=found.classes,
        notes=notes,
    )
    files = _files(path, table)
    provenance = Provenance(str(path), "own file", files, tuple(map(file_digest, files)))
    return Dataset(
        card, arrays, made.parts, provenance, rejected=tuple(rejected), rows=np.array(numbers, dtype=np.int64)
    )


def _joined(found: GraphTargets) -> Tensor | None:
    """(G,), (G, k), or with a row for each node."""
    if found.y is None:
        return None
    y = torch.from_numpy(np.concatenate([table for table in found.y if table is not None]))
    return y[:, 0] if y.shape[1] == 1 else y


def _files(path: Path, table: TargetTable | None) -> tuple[Path, ...]:
    inside = sorted(file for file in path.iterdir() if file.suffix.lower() in FORMATS) if path.is_dir() else [path]
    return (*inside, *(() if table is None else (table.file.path,)))
