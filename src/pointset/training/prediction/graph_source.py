"""Graphs of files, and of datasets by name (:class:`FileSource`, :class:`DatasetSource`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.dataset import Dataset
from pointset.datasets.graph_files import read_graph_file
from pointset.errors import FileFormatError, SpecError, did_you_mean
from pointset.points.graphs import Integers
from pointset.specs import Spec
from pointset.training.prediction.features import Needs
from pointset.training.prediction.file_identity import identity_of, stamp_of
from pointset.training.prediction.sources import Entry


class FileSource:
    """All graphs of a file or of a folder of files, of every format that ``pointset convert`` reads."""

    unit = "graph"
    has_smiles = False
    columns = ("graph",)

    def __init__(self, path: Path):
        self.path = path
        self._stamp = stamp_of(path)
        self.identity = identity_of(path)

    def entries(self) -> Iterator[Entry]:
        """All graphs with their names."""
        for record in read_graph_file(self.path):
            yield Entry(record.name, [record.name], record.graph, record.problem)

    def count(self) -> int | None:
        """Not known before they are read."""
        return None

    def check_unchanged(self) -> None:
        """Raise where a file was written to."""
        if stamp_of(self.path) != self._stamp:
            raise FileFormatError(f"{self.path} changed while it was read; begin again with --restart")


class DatasetSource:
    """The graphs of a dataset, or of one part of its split.

    Args:
        dataset: the dataset.
        part: ``"train"``, ``"val"`` or ``"test"``; by default all graphs.
        needs: of the model, which must be for such features.

    Raises:
        SpecError: there is no such part, or the features are of another kind.
    """

    unit = "graph"
    has_smiles = False

    def __init__(self, dataset: Dataset, part: str | None, needs: Needs):
        _check_specs(dataset, needs)
        self.dataset, self._graphs = dataset, _indices(dataset, part)
        self.columns = ("graph",) if dataset.smiles is None else ("graph", "smiles")
        about = dataset.provenance
        self.identity: dict[str, Any] = {
            "dataset": dataset.card.name,
            "part": part,
            "source": about.source,
            "sha256": list(about.sha256),
            "graphs": len(self._graphs),
        }

    def entries(self) -> Iterator[Entry]:
        """All graphs with their numbers in the dataset."""
        smiles = self.dataset.smiles
        for graph in self._graphs.tolist():
            cells = [str(graph)] if smiles is None else [str(graph), smiles[graph]]
            yield Entry(f"graph {graph}", cells, self.dataset.arrays[graph])

    def count(self) -> int | None:
        """The number of graphs."""
        return len(self._graphs)

    def check_unchanged(self) -> None:
        """A dataset is in memory."""


def _indices(dataset: Dataset, part: str | None) -> Integers:
    if part is None:
        return np.arange(len(dataset))
    if part not in dataset.split:
        known = list(dataset.split)
        raise SpecError(
            f"{dataset.card.name} has no part {part!r} (--split); expected one of {', '.join(known)}"
            f"{did_you_mean(part, known)}"
        )
    return np.asarray(dataset.split[part])


def _check_specs(dataset: Dataset, needs: Needs) -> None:
    """Before any work: features of another kind would fail on every graph."""
    card = dataset.card
    for name, has, wants in (("node", card.node, needs.node), ("edge", card.edge, needs.edge)):
        if wants is not None and _kind(has) != _kind(wants):
            raise SpecError(f"the model was made for {name} features {wants}, and {card.name} has {has}")
    if needs.positions and not card.positions:
        raise SpecError(f"the model needs positions in space, and {card.name} has none")


def _kind(spec: Spec) -> tuple[type, int]:
    return type(spec), 0 if spec is None else spec.width
