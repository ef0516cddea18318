"""Molecules and graphs that a program has in memory, as a dataset: :func:`from_graphs` for users,
:func:`molecules_in_memory` and :func:`graphs_in_memory` for estimators, which say what the targets are.

Nothing is left out: an item that cannot be used is an error that names its position.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Floats
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import OWN_FILE, Dataset, Provenance
from pointset.datasets.graph_files.pyg import masks_of
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.datasets.molecules.parallel import read_many, table_of_molecules
from pointset.datasets.molecules.parsing import Unreadable
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.own.graph_targets import GraphTargets, targets_in_files
from pointset.datasets.own.graphs import feature_problems, split_by_masks, with_features
from pointset.datasets.own.learnable import target_notes
from pointset.datasets.own.targets import own_card, task_named
from pointset.datasets.splits.files import AUTOMATIC, SplitChoice, make_split
from pointset.datasets.splits.parts import Split, check_split
from pointset.errors import GraphError, PointsetError, SpecError
from pointset.points.graphs import Graph
from pointset.points.inputs import is_pyg, read_graph
from pointset.text import counted

_NAME = "memory"
_MOST_CLASSES = 100  # more integers are counts or sizes


class MemoryTargets(NamedTuple):
    """What is to be learned of G graphs."""

    task: Task
    names: tuple[str, ...]
    y: NDArray[Any]  # (G, k) numbers or labels, NaN where unknown; (G,) numbers of classes, −1 where unknown
    classes: tuple[str, ...] = ()  # of a multi-class task
    weights: Floats | None = None  # (G,) how much each graph counts in training


def molecules_in_memory(
    smiles: Sequence[str],
    targets: MemoryTargets,
    split: Split,
    reader: MoleculeReader,
    *,
    progress: bool | None = None,
) -> Dataset:
    """A dataset of SMILES (G,), read as ``reader`` reads them.

    Raises:
        SpecError: a SMILES cannot be read.
        MissingExtraError: RDKit is not installed.
    """
    molecules = []
    for place, molecule in enumerate(read_many(smiles, reader, progress=progress)):
        if isinstance(molecule, Unreadable):
            raise SpecError(f"item {place}, {smiles[place]!r:.60}: {molecule.reason}")
        molecules.append(molecule)
    table = replace(table_of_molecules(molecules, smiles), y=targets.y)
    card = _card(targets, **OGB_FEATURES, positions=reader.conformer_seed is not None)
    return Dataset(card, table.arrays(), split, _provenance(), table.smiles, weights=targets.weights)


def graphs_in_memory(graphs: Sequence[Any], targets: MemoryTargets, split: Split) -> Dataset:
    """A dataset of graphs (G,) of any kind that :func:`pointset.to_points` takes, all with the same features.

    Raises:
        GraphError: a graph cannot be read, or has other features than most.
    """
    read = _read_all(graphs, "item")
    rows = [row.reshape(1, -1) for row in targets.y]
    arrays, features = with_features(read, GraphTargets(Level.GRAPH, targets.task, targets.names, rows), None, None)
    return Dataset(_card(targets, **features), arrays, split, _provenance(), weights=targets.weights)


def from_graphs(
    graphs: Iterable[Any],
    *,
    targets: Any = "y",
    names: Sequence[str] | None = None,
    task: str | None = None,
    level: Level | str | None = None,
    node: Any = None,
    edge: Any = None,
    split: SplitChoice | Mapping[str, Any] = AUTOMATIC,
    seed: int = 0,
    name: str = "graphs",
) -> Dataset:
    """PyG graphs in memory as a dataset: for :func:`pointset.train`, and for a loop of your own by ``points()``.

    Args:
        graphs: a list of PyG ``Data``, a PyG dataset, or graphs of any kind that :func:`pointset.to_points` takes. All
            have the same features: ``x`` (n, c), ``edge_attr`` (m, c), ``pos`` (n, 3), each where there is any.
        targets: the attribute that holds them, ``y`` of (1, k) numbers, or (n, k) for targets of nodes; or the targets
            themselves, (G,) or (G, k), NaN where one is missing. None: there are none.
        names: of the k targets; by default ``y``, or ``y0``, ``y1``, ….
        task: ``"regression"``, ``"binary"``, ``"multi-class"`` or ``"multi-label"``. By default values of only 0 and 1
            are labels, integers (``int64``) that count from 0 without a gap are classes, other numbers are numbers.
        level: ``"graph"`` or ``"node"``; by default seen from the shape of the targets.
        node: the spec of node features, such as ``Categories(28)``; by default whole numbers are categories. It is
            needed where other graphs will hold categories that these do not.
        edge: the spec of edge features.
        split: ``"random"``, ``"stratified"``, shares such as ``(0.7, 0.2, 0.1)``, a file with a split, or the indices
            themselves: ``{"train": […], "val": […], "test": […]}``. By default at random. The nodes of a single graph
            with targets of nodes are split, by default by its ``train_mask``, ``val_mask`` and ``test_mask``.
        seed: of the split.
        name: for reports and errors.

    Raises:
        GraphError: a graph cannot be read, or has other features than most; the message says which.
        SpecError: targets are missing or do not fit the task, or impossible settings.

    Example:
        >>> import torch, pointset
        >>> from torch_geometric.data import Data
        >>> ring = [[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]
        >>> graphs = [Data(edge_index=torch.tensor(ring), num_nodes=3, y=torch.tensor([0.5 * i])) for i in range(10)]
        >>> pointset.datasets.from_graphs(graphs)
        Dataset(graphs: 10 graphs; train 8, val 1, test 1)
    """
    given = list(_several(graphs))
    read = _read_all(given, "graph")
    if not read:
        raise SpecError("got no graphs; expected at least one")
    wanted, chosen = _level(level), task_named(task)
    labelled = _with_targets(given, read, targets, wanted)
    guessed: tuple[str, ...] = ()
    if chosen is None and _look_like_classes(labelled):
        chosen = Task.MULTI_CLASS
        guessed = ("the targets are integers from 0 without a gap, taken as classes; task='regression' keeps numbers",)
    found = targets_in_files(labelled, wanted, chosen)
    if found.problems:
        place, (_, reason) = min(found.problems.items())
        count = len(found.problems)
        raise SpecError(
            f"graph {place}: {reason}. {counted(count, 'graph')} of {len(read):,} cannot be used; leave such graphs out"
        )
    found = replace(found, names=_names(names, found))
    arrays, features = with_features(labelled, found, node, edge)
    by_nodes = found.level is Level.NODE and len(read) == 1
    count = read[0].num_nodes if by_nodes else len(read)
    labels = found.joined() if by_nodes or found.level is Level.GRAPH else None
    masks = masks_of(given[0]) if by_nodes and is_pyg(given[0]) and split == AUTOMATIC else None
    notes: tuple[str, ...] = ()
    if isinstance(split, Mapping):
        parts, text = check_split(split, count), "given by the program"
    elif (official := split_by_masks([masks], 0)) is not None:
        parts, text = official
    else:
        parts, text, notes = make_split(split, count=count, seed=seed, labels=labels)
    learned = target_notes(found.joined(), found.names, found.task, found.classes)
    card = own_card(
        name=name,
        title=name,
        description="Graphs of a program.",
        level=found.level,
        task=found.task,
        target_names=found.names,
        classes=found.classes,
        split=text,
        notes=(*guessed, *found.notes, *learned, *notes),
        **features,
    )
    split_of = Level.NODE if by_nodes else Level.GRAPH
    return Dataset(card, arrays, parts, Provenance(name, OWN_FILE), split_of=split_of)


def _several(graphs: Any) -> Iterable[Any]:
    """A list, or anything like it; one graph, and a batch of PyG, which are no lists, are refused."""
    is_one = is_pyg(graphs) or hasattr(graphs, "adj") or isinstance(graphs, (str, np.ndarray, Tensor))
    if is_one or not isinstance(graphs, Iterable):
        remedy = ": use batch.to_data_list()" if hasattr(graphs, "to_data_list") else ""
        raise GraphError(f"got {type(graphs).__name__}; expected a list of graphs, or a PyG dataset{remedy}")
    return graphs


def _read_all(graphs: Sequence[Any], word: str) -> list[Graph]:
    read = []
    for place, graph in enumerate(graphs):
        try:
            read.append(read_graph(graph)[0])
        except PointsetError as error:
            raise type(error)(f"{word} {place}: {error}") from None
    for place, (_, reason) in feature_problems(read, [f"{word} {place}" for place in range(len(read))]).items():
        raise GraphError(f"{word} {place}: {reason}")
    return read


def _level(level: Level | str | None) -> Level | None:
    if level not in (None, Level.GRAPH, Level.NODE):
        raise SpecError(f"got level={level!r}; expected 'graph' or 'node'")
    return None if level is None else Level(level)


def _with_targets(given: Sequence[Any], graphs: Sequence[Graph], targets: Any, level: Level | None) -> list[Graph]:
    """The graphs with these targets as their ``y``."""
    if targets is None:
        rows: list[Any] = [None] * len(graphs)
    elif isinstance(targets, str):
        rows = [_attribute(one, targets) for one in given]
        if all(row is None for row in rows):
            raise SpecError(
                f"no graph has the attribute {targets!r}; expected the targets there. Name another with targets=…, "
                "pass the targets themselves, or targets=None for graphs without any"
            )
    else:
        rows = list(targets) if isinstance(targets, Iterable) else [targets]
        if len(rows) != len(graphs):
            raise SpecError(f"got targets of {len(rows):,} graphs; expected one for each of {len(graphs):,} graphs")
        if level is not Level.NODE:  # (k,) numbers are those of the graph, also where it has k nodes
            rows = [None if row is None else _as_tensor(row, place) for place, row in enumerate(rows)]
            rows = [None if row is None else row.reshape(1, -1) for row in rows]
    return [
        replace(graph, features=graph.features._replace(y=_as_tensor(row, place)))
        for place, (graph, row) in enumerate(zip(graphs, rows, strict=True))
    ]


def _attribute(graph: Any, name: str) -> Any:
    """Of a PyG graph, or of a networkx graph as a whole."""
    if isinstance(of_graph := getattr(graph, "graph", None), dict):
        return of_graph.get(name)
    return getattr(graph, name, None)


def _as_tensor(row: Any, place: int) -> Tensor | None:
    """Integers stay integers: they may be classes."""
    if row is None:
        return None
    try:
        found = row.detach().cpu() if isinstance(row, Tensor) else torch.from_numpy(np.asarray(row))
    except (TypeError, ValueError, RuntimeError):
        raise SpecError(f"graph {place}: its target is {row!r:.60}; expected numbers, NaN where missing") from None
    return found.reshape(1) if found.dim() == 0 else found


def _look_like_classes(graphs: Sequence[Graph]) -> bool:
    """Whether all targets are one integer each, 0, 1, 2, … without a gap, as PyG's datasets number classes."""
    rows = [graph.features.y for graph in graphs]
    if any(row is None or row.is_floating_point() or row.is_complex() for row in rows):
        return False
    known = [row for row in rows if row is not None]
    if any(math.prod(row.shape[1:]) != 1 for row in known) or not any(row.numel() for row in known):
        return False
    values = np.unique(torch.cat([row.reshape(-1) for row in known]).numpy())
    return 2 < len(values) < _MOST_CLASSES and bool((values == np.arange(len(values))).all())


def _names(names: Sequence[str] | None, found: GraphTargets) -> tuple[str, ...]:
    if names is None:
        return found.names
    chosen = (names,) if isinstance(names, str) else tuple(map(str, names))
    if len(chosen) != len(found.names):
        raise SpecError(f"got the names {list(chosen)}; expected {len(found.names)}, one for each target")
    return chosen


def _card(targets: MemoryTargets, **about: Any) -> Any:
    return own_card(
        name=_NAME,
        title=_NAME,
        description="Graphs of a program.",
        level=Level.GRAPH,
        task=targets.task,
        target_names=targets.names,
        classes=targets.classes,
        split="made by the program",
        **about,
    )


def _provenance() -> Provenance:
    return Provenance(_NAME, OWN_FILE)
