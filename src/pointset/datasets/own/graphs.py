"""The user's graph files as a dataset: :func:`graph_files`."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Flags
from pointset.datasets.cache import file_digest
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import OWN_FILE, Dataset, Provenance
from pointset.datasets.graph_files import read_graph_file
from pointset.datasets.graph_files.checking import check_graphs
from pointset.datasets.graph_files.formats import FOLDER, FORMATS, files_in, format_of
from pointset.datasets.own.candidates import choose_split
from pointset.datasets.own.columns import Column
from pointset.datasets.own.graph_targets import GraphTargets, TargetTable, read_target_table, targets_in_files
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
from pointset.datasets.own.targets import own_card, task_named
from pointset.datasets.splits.files import AUTOMATIC, SplitChoice, make_split, split_column_of
from pointset.datasets.splits.parts import PARTS, Split, check_split, whole_number
from pointset.errors import FileFormatError, MissingDataError, SpecError
from pointset.points.graphs import FlatFeatures, Graph, GraphArrays
from pointset.points.inputs import read_graphs
from pointset.progress import track
from pointset.specs import Categories, Reals, Spec, read_spec

_FEATURES = ("x", "edge_attr", "pos")
_MOST_CATEGORIES = 10_000  # whole numbers beyond are measured or counted, not categories
_MOST_FLAGS = 100  # columns of 0 and 1; more are a bag of words, for one linear map
_MOST_NAMES = 10  # of attributes that were not read
_NODE_NAMES = "node names"  # not read either, but not an attribute that could be named otherwise

Widths = tuple[int | None, ...]  # columns of x, edge_attr and pos; None where there are none


class _Contents(NamedTuple):
    """What was found in the files, bad graphs included."""

    names: list[str]  # of all graphs
    graphs: dict[int, Graph]  # the good ones by number
    problems: dict[int, tuple[str, str]]  # the others, with the kind of problem and the reason
    masks: dict[int, Mapping[str, Flags]]  # by number: part → (n, F), of graphs whose nodes are in several parts
    ignored: list[str]  # attributes that were not read


class _Usable(NamedTuple):
    """The graphs of the dataset, with their targets, and what was left out."""

    numbers: list[int]
    graphs: list[Graph]
    targets: GraphTargets
    rejected: list[Rejected]
    masks: list[Mapping[str, Flags] | None]  # of each graph


def graph_files(
    path: str | Path,
    *,
    targets: str | Path | None = None,
    columns: Column | Sequence[Column] | None = None,
    level: Level | str | None = None,
    task: str | None = None,
    node: Any = None,
    edge: Any = None,
    split: SplitChoice = AUTOMATIC,
    fold: int = 0,
    seed: int = 0,
    max_rejected: float = MOST_REJECTED,
    max_nodes: int | None = None,
    progress: bool | None = None,
) -> Dataset:
    """Graphs of a file, or of all files in a folder, as a dataset: all formats that ``pointset convert`` reads.

    Weights of edges are kept. A graph that cannot be used is in ``rejected`` with its number and the reason; ``rows``
    are the numbers of the others, counted from 0.

    A single graph with targets of its nodes is a node task: it is its nodes that are split, by the masks in the file
    (:mod:`pointset.datasets.graph_files.npz`; ``train_mask`` and so on of a PyG ``Data``), else at random.

    Args:
        path: a graph file or a folder.
        targets: a CSV with a column ``graph`` (the graph's name, or its number counted from 0) and columns of targets.
            By default the targets are ``y`` of the graphs, or of their nodes, in the files themselves.
        columns: of targets in that CSV, by name or number; by default the only one that can be meant, or all columns
            of 0 and 1 (:mod:`pointset.datasets.own.candidates`).
        level: ``"graph"`` or ``"node"``; by default seen from the shape of ``y``.
        task: ``"regression"``, ``"binary"``, ``"multi-class"`` or ``"multi-label"``; by default values of only 0 and 1
            are labels, words are classes, and other numbers are numbers.
        node: the spec of node features, e.g. ``Categories(28)``; by default whole numbers are categories.
        edge: the spec of edge features.
        split: ``"random"``, ``"stratified"``, ``"column:NAME"`` of the CSV, a file with a split, or the shares of a
            random split such as ``(0.7, 0.2, 0.1)``; by default by a column of the CSV with the words train, val and
            test that is named split, set, subset, partition or fold, where there is one, else by the masks of nodes
            in the files, else at random.
        fold: which split, from 0, where the files have masks of several.
        seed: of the split.
        max_rejected: the largest share of graphs that may be bad; 1.0 for any. Those that only lack a target do not
            count.
        max_nodes: graphs of more nodes are left out, and do not count as bad; by default none.
        progress: whether to show a bar; by default where there is a terminal.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: a file is not what its suffix promises, or too many graphs cannot be used.
        UnclearTargetsError: no columns are chosen, and more than one could be meant.
        SpecError: impossible settings.
    """
    source, limit = Path(path), check_limit(max_rejected)
    check_max_nodes(max_nodes)
    wanted, chosen_task = _level(level, table=targets is not None), task_named(task)
    split, split_notes = (split, ()) if targets is None else choose_split(open_table(targets), split)
    split_column = split_column_of(split)
    if targets is None and (columns is not None or split_column is not None):
        raise SpecError(
            f"{option('columns')} and {option('split', 'column:NAME')} are about a table of targets; pass it as "
            "targets='….csv' (--table ….csv, dataset.options.targets=….csv)"
        )
    read = _read(source, None if targets is None else Path(targets), max_nodes, progress)
    table = None
    if targets is not None:
        numbered = format_of(source) not in (FOLDER, FORMATS[".csv"])  # elsewhere a bad entry still is one entry
        table = read_target_table(targets, read.names, columns=columns, split=split_column, numbered=numbered)
    usable = _usable(read, table, wanted, chosen_task)
    check_share(usable.rejected, len(usable.numbers), limit, source, unit="graph")
    notes = (*_notes(source, read.ignored, usable.targets, () if table is None else table.notes), *split_notes)
    by_nodes = split == AUTOMATIC and usable.targets.level is Level.NODE
    official = split_by_masks(usable.masks, fold) if by_nodes else None
    return _dataset(source, usable, table, (node, edge), split, seed, notes, official)


def _dataset(
    path: Path,
    usable: _Usable,
    table: TargetTable | None,
    specs: tuple[Any, Any],
    split: SplitChoice,
    seed: int,
    notes: tuple[str, ...],
    official: tuple[Split, str] | None,
) -> Dataset:
    targets = usable.targets
    arrays, features = with_features(usable.graphs, targets, *specs)
    of_nodes = targets.level is Level.NODE and (official is not None or len(usable.graphs) == 1)
    if official is not None:
        parts, split_text = official
        split_notes: tuple[str, ...] = ()
    else:
        parts, split_text, split_notes = make_split(
            split,
            count=int(arrays.num_nodes.sum()) if of_nodes else len(usable.numbers),
            seed=seed,
            labels=targets.joined() if of_nodes or targets.level is Level.GRAPH else None,
            cells=None if table is None else table.split_cells(usable.numbers),
            rejected=len(usable.rejected),
        )
    split_notes += part_notes(split, parts, "node" if of_nodes else "graph")
    learned = target_notes(targets.joined(), targets.names, targets.task, targets.classes)
    card = own_card(
        name=path.stem,
        title=path.name,
        description=f"Graphs of {path.name}.",
        level=targets.level,
        task=targets.task,
        target_names=targets.names,
        split=split_text,
        classes=targets.classes,
        notes=(*notes, *learned, *split_notes),
        **features,
    )
    files = files_in(path) if path.is_dir() else [path]
    files += [] if table is None else [table.file.path]
    provenance = Provenance(str(path), OWN_FILE, tuple(files), tuple(map(file_digest, files)))
    rows = np.array(usable.numbers, dtype=np.int64)
    about: dict[str, Any] = {"rejected": tuple(usable.rejected), "rows": rows, "row_unit": "graph"}
    return Dataset(card, arrays, parts, provenance, split_of=Level.NODE if of_nodes else Level.GRAPH, **about)


def split_by_masks(masks: Sequence[Mapping[str, Flags] | None], fold: int) -> tuple[Split, str] | None:
    """The split of all nodes by the masks of each graph, part → (n, F), and its words; None where a graph has none."""
    known = [mask for mask in masks if mask is not None]
    if not known or len(known) < len(masks):
        return None
    most = min(mask["train"].shape[1] for mask in known)
    fold = whole_number(fold, option("fold"), most=most - 1)
    split = {part: np.flatnonzero(np.concatenate([mask[part][:, fold] for mask in known])) for part in PARTS}
    which = f", split {fold} of {most}" if most > 1 else ""
    return check_split(split, sum(len(mask["train"]) for mask in known)), f"by masks of the nodes{which}"


def _level(level: Level | str | None, *, table: bool) -> Level | None:
    if level not in (None, Level.GRAPH, Level.NODE):
        raise SpecError(f"got {level!r} for {option('level')}; expected 'graph' or 'node'")
    wanted = None if level is None else Level(level)
    if table and wanted is Level.NODE:
        raise SpecError("a table of targets has a row for each graph; for targets of nodes put y into the graph files")
    return wanted


def _read(path: Path, table: Path | None, max_nodes: int | None, progress: bool | None) -> _Contents:
    if not path.exists():
        raise MissingDataError(f"there is no file or folder {path}; expected graphs. Check the name")
    names: list[str] = []
    numbered = []
    masks: dict[int, Mapping[str, Flags]] = {}
    try:
        for record in track(read_graph_file(path), "Reading", None, show=progress):
            if path.is_dir() and table is not None and table.resolve() == (path / record.name).resolve():
                continue  # the table of targets lies among the graphs
            numbered.append(dataclasses.replace(record, name=str(len(names))))
            if record.masks is not None:
                masks[len(names)] = record.masks
            names.append(record.name)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror or error})") from None
    checked = check_graphs(numbered)
    graphs = {int(name): graph for name, graph in zip(checked.names, checked.graphs, strict=True)}
    problems = {int(problem.name): ("not readable", problem.reason) for problem in checked.problems}
    for number in list(graphs):
        if problem := size_problem(graphs[number].num_nodes, max_nodes):
            problems[number] = problem
            del graphs[number]
    listed = list(graphs)
    unfit = feature_problems([graphs[number] for number in listed], [names[number] for number in listed])
    problems |= {listed[at]: problem for at, problem in unfit.items()}
    good = {number: graph for number, graph in graphs.items() if number not in problems}
    return _Contents(names, good, problems, masks, checked.ignored)


def _usable(read: _Contents, table: TargetTable | None, level: Level | None, task: Task | None) -> _Usable:
    readable = list(read.graphs)
    if table is None:
        targets = targets_in_files(list(read.graphs.values()), level, task)
    else:
        targets = table.targets(readable, task)
    problems = read.problems | {readable[at]: problem for at, problem in targets.problems.items()}
    numbers = [number for number in readable if number not in problems]
    rejected = [rejected_row(at, *problem, read.names[at], "graph") for at, problem in sorted(problems.items())]
    rejected += [] if table is None else table.rejected
    graphs, masks = [read.graphs[number] for number in numbers], [read.masks.get(number) for number in numbers]
    return _Usable(numbers, graphs, targets, rejected, masks)


def feature_problems(graphs: Sequence[Graph], names: Sequence[str]) -> dict[int, tuple[str, str]]:
    """Graphs that cannot stand beside the others, each with the kind of problem and the reason.

    Expected are the columns that most graphs have; a graph without edges needs no edge features.
    """
    widths = [_widths(graph) for graph in graphs]
    usual = _common_widths(graphs)
    problems: dict[int, tuple[str, str]] = {}
    for index, graph in enumerate(graphs):
        if not graph.num_nodes:
            problems[index] = ("no nodes", "the graph has no nodes; expected at least one")
        elif reason := _values_problem(graph):
            problems[index] = ("features that are not finite numbers", reason)
        elif any(
            width != expected and (name != "edge_attr" or graph.edges.shape[1])
            for name, width, expected in zip(_FEATURES, widths[index], usual, strict=True)
        ):
            example = names[next(other for other, seen in enumerate(widths) if seen == usual)]
            reason = f"it has {_describe(widths[index])}; expected {_describe(usual)}, as most graphs ({example} first)"
            problems[index] = ("other features than most graphs", reason)
    return problems


def _common_widths(graphs: Sequence[Graph]) -> Widths:
    """The columns that most graphs have, the earlier where it is a tie; graphs without edges only count among such."""
    with_edges = [graph for graph in graphs if graph.edges.shape[1]]
    counts = Counter(_widths(graph) for graph in with_edges or graphs)
    return counts.most_common(1)[0][0] if counts else (None,) * len(_FEATURES)


def with_features(
    graphs: list[Graph], targets: GraphTargets, node: Any, edge: Any
) -> tuple[GraphArrays, dict[str, Any]]:
    """All graphs with features and targets in flat tensors, (N, c) and (M, c), and what the card says of features."""
    arrays = read_graphs(graphs)
    x, edge_attr, pos = (
        None if width is None else torch.cat([_columns(graph, name, width) for graph in graphs])
        for name, width in zip(_FEATURES, _common_widths(graphs), strict=True)
    )
    x, node_spec = _fitted(x, node, "node")
    edge_attr, edge_spec = _fitted(edge_attr, edge, "edge")
    y = targets.joined()
    flat = FlatFeatures(
        arrays.num_nodes,
        arrays.num_edges,
        x=x,
        edge_attr=edge_attr,
        pos=pos,
        y=None if y is None else torch.from_numpy(y),
        y_of_nodes=targets.level is Level.NODE,
    )
    specs = {"node": node_spec, "edge": edge_spec, "positions": pos is not None}
    return dataclasses.replace(arrays, features=flat), specs


def _fitted(features: Tensor | None, given: object, name: str) -> tuple[Tensor | None, Spec]:
    """Features (rows, c) and their spec; inferred where none is given: whole numbers are categories, others reals."""
    if features is None:
        if given is not None:
            raise SpecError(f"got {name}={given!r}, but the graphs carry no such features; leave {name} out")
        return None, None
    spec = _inferred(features) if given is None else read_spec(given, name)
    columns = 0 if spec is None else spec.width
    if features.shape[1] != columns:
        raise SpecError(f"got {name}={spec}; expected {features.shape[1]} columns, as the graphs have")
    if isinstance(spec, Reals):
        return (features if features.is_floating_point() else features.to(torch.float32)), spec
    whole = features.long()
    if features.is_floating_point() and not torch.equal(whole.to(features.dtype), features):
        raise SpecError(f"got {name}={spec}, but the graphs have fractions there; expected Reals({columns})")
    for column, size in enumerate(spec.sizes if isinstance(spec, Categories) else ()):
        low, high = (int(bound) for bound in whole[:, column].aminmax()) if len(whole) else (0, 0)
        if low < 0 or high >= size:
            raise SpecError(f"got {name}={spec}, but column {column} holds {low} to {high}; expected 0 to {size - 1}")
    return whole, spec


def _inferred(features: Tensor) -> Spec:
    if features.is_floating_point():
        return Reals(features.shape[1])
    if not len(features):
        return Categories(*[1] * features.shape[1])
    measured = int(features.min()) < 0 or int(features.max()) >= _MOST_CATEGORIES
    if measured or (features.shape[1] > _MOST_FLAGS and int(features.max()) <= 1):
        return Reals(features.shape[1])
    return Categories(*[int(size) + 1 for size in features.amax(dim=0)])


def _widths(graph: Graph) -> Widths:
    tensors = (getattr(graph.features, name) for name in _FEATURES)
    return tuple(None if tensor is None else math.prod(tensor.shape[1:]) or None for tensor in tensors)


def _values_problem(graph: Graph) -> str | None:
    for name in _FEATURES:
        tensor = getattr(graph.features, name)
        if tensor is not None and tensor.is_complex():
            return f"{name} holds complex numbers; expected real ones"
        if tensor is not None and not bool(torch.isfinite(tensor).all()):
            return f"{name} holds NaN or infinity; expected finite numbers"
    return None


def _columns(graph: Graph, name: str, width: int) -> Tensor:
    """(rows, width); truth values and narrow types as int64, as PyG has them."""
    tensor = getattr(graph.features, name)
    if tensor is None:  # edge features of a graph without edges
        return torch.zeros(0, width, dtype=torch.int64)
    columns: Tensor = tensor.detach().reshape(tensor.shape[0], width)
    return columns if columns.is_floating_point() else columns.to(torch.int64)


def _describe(widths: Widths) -> str:
    there = [f"{name} with {width} columns" for name, width in zip(_FEATURES, widths, strict=True) if width]
    return ", ".join(there) or "no features"


def _notes(path: Path, ignored: Sequence[str], found: GraphTargets, guessed: Sequence[str]) -> tuple[str, ...]:
    """For the card: what was ``guessed`` about the table of targets, and what is not kept."""
    notes = [*guessed, *found.notes]
    if found.y is None:
        notes.append(
            "no targets: nothing to learn from; put y into the files, or pass a table as targets= (--table, "
            "dataset.options.targets)"
        )
    if ignored:
        names = ", ".join(ignored[:_MOST_NAMES]) + (", …" if len(ignored) > _MOST_NAMES else "")
        if any(not name.startswith(_NODE_NAMES) for name in ignored):
            remedy = "name the attributes x0, x1, … on nodes, edge_attr0, … on edges, y0, … as targets"
            if path.suffix.lower() == ".pt":
                remedy = "put them into x, edge_attr, pos or y"
            names += f". To keep numbers, {remedy}"
        notes.append(f"not kept: {names}")
    return tuple(notes)
