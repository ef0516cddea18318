"""Molecules and graphs that a program has in memory, as a dataset: :func:`molecules_in_memory`,
:func:`graphs_in_memory`.

Nothing is guessed and nothing is left out: the caller says what the targets are, and an item that cannot be used is an
error that names its position.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from pointset.arrays import Floats
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import OWN_FILE, Dataset, Provenance
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.datasets.molecules.parallel import read_many, table_of_molecules
from pointset.datasets.molecules.parsing import Unreadable
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.own.graph_targets import GraphTargets
from pointset.datasets.own.graphs import feature_problems, with_features
from pointset.datasets.own.targets import own_card
from pointset.datasets.splits.parts import Split
from pointset.errors import GraphError, PointsetError, SpecError
from pointset.points.inputs import read_graph

_NAME = "memory"


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
    table = dataclasses.replace(table_of_molecules(molecules, smiles), y=targets.y)
    card = _card(targets, **OGB_FEATURES, positions=reader.conformer_seed is not None)
    return Dataset(card, table.arrays(), split, _provenance(), table.smiles, weights=targets.weights)


def graphs_in_memory(graphs: Sequence[Any], targets: MemoryTargets, split: Split) -> Dataset:
    """A dataset of graphs (G,) of any kind that :func:`pointset.to_points` takes, all with the same features.

    Raises:
        GraphError: a graph cannot be read, or has other features than most.
    """
    read = []
    for place, graph in enumerate(graphs):
        try:
            read.append(read_graph(graph)[0])
        except PointsetError as error:
            raise type(error)(f"item {place}: {error}") from None
    for place, (_, reason) in feature_problems(read, [f"item {place}" for place in range(len(read))]).items():
        raise GraphError(f"item {place}: {reason}")
    rows = [row.reshape(1, -1) for row in targets.y]
    arrays, features = with_features(read, GraphTargets(Level.GRAPH, targets.task, targets.names, rows), None, None)
    return Dataset(_card(targets, **features), arrays, split, _provenance(), weights=targets.weights)


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
