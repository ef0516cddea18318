"""A window of items → the model's rows for each, or the error that says why not (:class:`Engine`).

No item can spoil another: what fails together is tried again in halves, down to the item at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Unreadable
from pointset.datasets.molecules.reader import ReadMolecule
from pointset.encoders.batch import PointBatch
from pointset.encoders.loader import PointLoader
from pointset.encoders.model import PointModel
from pointset.errors import MemoryForecastError, MissingExtraError, PointsetError, SpecError
from pointset.machine import check_fits, training_bytes
from pointset.points.convert import to_points_many
from pointset.points.forecast import check_not_too_long
from pointset.points.graphs import FlatFeatures, Graph, GraphArrays, consecutive, starts
from pointset.points.inputs import read_graph
from pointset.points.point_set import PointSet, PointSets
from pointset.prediction.features import Needs, molecule_graph, unread_error
from pointset.prediction.smiles import MoleculePoints, PointsElsewhere, SmilesToPoints, Window
from pointset.specs import check_whole_numbers

_BATCH_BYTES = 256 * 2**20  # of a batch's activations; beyond, a larger batch is not faster

Outcome = Tensor | PointsetError  # (1, k) of a graph, (n, k) of its nodes; or why there is none
Item = TypeVar("Item")
Result = TypeVar("Result")
_NOT_FINITE = "the model's output is not a finite number; the graph is far from what it was trained on"


class Outcomes(NamedTuple):
    """What was computed for a window of items, in their order."""

    rows: Tensor  # (Σ counts, k)
    counts: Integers  # (items,) rows of each: 1 of a graph, n of its nodes, 0 where there is an error
    errors: Mapping[int, PointsetError]  # by the item's place

    @classmethod
    def assembled(
        cls,
        items: int,
        parts: Sequence[tuple[Integers, Tensor, Integers]],
        errors: dict[int, PointsetError],
        checked: int | None = None,
    ) -> Outcomes:
        """From (places (B,), rows, counts (B,)) in any order; rows that are not finite become errors.

        ``checked``: how many of the first columns must be finite, by default all.
        """
        places = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64)
        numbers = np.concatenate([part[2] for part in parts]) if parts else np.zeros(0, np.int64)
        rows = torch.cat([part[1] for part in parts]) if parts else torch.zeros(0, 0)
        finite = torch.isfinite(rows[:, :checked]).all(1).numpy()
        if not finite.all():
            bad = np.unique(np.repeat(places, numbers)[~finite])
            errors |= {place: SpecError(_NOT_FINITE) for place in bad.tolist()}
        start, counts = np.zeros((2, items), dtype=np.int64)
        start[places], counts[places] = starts(numbers), numbers
        counts[list(errors)] = 0
        return cls(rows[torch.from_numpy(consecutive(start, counts))], counts, errors)

    def with_nan(self, output: ModelOutput) -> list[Tensor]:
        """(counts, k) of each item; a row of NaN where there is an error."""
        counts = np.maximum(self.counts, 1)
        rows = torch.full((int(counts.sum()), output.width), torch.nan, dtype=output.dtype)
        kept = np.repeat(self.counts > 0, counts)
        if kept.any():
            rows[torch.from_numpy(kept)] = self.rows
        return list(torch.split(rows, counts.tolist()))


class ModelOutput(NamedTuple):
    """What is computed of a batch: predictions or representations."""

    rows: Callable[[PointBatch], Tensor]  # (G, k) or (N, k), in input order
    width: int  # k
    of_nodes: bool
    dtype: torch.dtype
    checked: int | None = None  # how many of the first columns must be finite; by default all


class Engine:
    """Runs a model from a preset on windows of items, at most ``batch_size`` graphs together.

    ``weighted_edges`` is the column of edge features that becomes the edge weights, plus ``edge_weight_offset``;
    ``fingerprint``: batches hold the fingerprints of molecules.
    """

    def __init__(
        self,
        model: PointModel,
        weighted_edges: int | None,
        edge_weight_offset: int = 0,
        *,
        batch_size: int,
        fingerprint: bool = False,
    ):
        check_whole_numbers(batch_size=batch_size)
        self.needs = Needs.of(model, weighted_edges, edge_weight_offset, fingerprint=fingerprint)
        self.dim = model.settings.dim if model.settings else 0
        self.forms_pairs: bool = getattr(model.encoder, "ALL_PAIRS", True)
        self.batch_size = batch_size
        self.window = 8 * batch_size  # items taken together, so that a batch finds graphs of like size

    def smiles_to_points(self, read: ReadMolecule | PointsetError) -> SmilesToPoints:
        """What makes of SMILES the points that the model takes."""
        return SmilesToPoints(read, self.needs, self.dim)

    def outcomes(self, window: Window, output: ModelOutput) -> Outcomes:
        """An outcome for each item: a graph of any accepted kind, a point set, a molecule, or an error as it is.

        Raises MissingExtraError where a package is missing that all items need.
        """
        found: dict[int, Any] = {
            place: or_error(self.prepare, item)
            for place, item in enumerate(window.items)
            if not isinstance(item, PointsElsewhere)
        }
        parts = []
        if window.points:
            places = np.concatenate([part.places for part in window.points])
            points = MoleculePoints.joined(window.points, self.needs)
            together = _or_none(partial(self._run_points, output), points)
            if together is None:  # they go the careful way of all others
                found |= dict(zip(places.tolist(), points, strict=True))
            else:
                parts.append((places, *together))
        for kind, run in ((Graph, self._run_graphs), (PointSet, self._run_points)):
            chosen = [place for place, item in found.items() if isinstance(item, kind)]
            results = _each_or_error(partial(run, output), [found[place] for place in chosen])
            found |= dict(zip(chosen, results, strict=True))
        errors = {place: one for place, one in found.items() if isinstance(one, PointsetError)}
        single = {place: one for place, one in found.items() if place not in errors}
        parts += [(np.array([place]), rows, np.array([len(rows)])) for place, rows in single.items()]
        return Outcomes.assembled(len(window.items), parts, errors, output.checked)

    def prepare(self, item: Any) -> Graph | PointSet:
        """An item with the features that the model takes; raises the error that says why not."""
        if isinstance(item, (Unreadable, MoleculeError)):
            raise unread_error(item)
        if isinstance(item, PointsetError):
            raise item
        if isinstance(item, PointSet):
            self._check_fits(item.num_nodes)
            return self.needs.fit_points(item)
        if isinstance(item, Molecule):
            item = molecule_graph(item)
        elif not isinstance(item, Graph):
            item = read_graph(item)[0]
        self._check_fits(item.num_nodes)
        remedy = "Predict it from points that you made yourself, or train a model with model.rank=64"
        check_not_too_long(item.num_nodes, self.needs.rank, remedy)
        return self.needs.fit(item)

    def _check_fits(self, num_nodes: int) -> None:
        if self.forms_pairs:
            check_forward_fits(num_nodes, self.dim)

    def points_of(self, graphs: list[Graph]) -> PointSets:
        """Points of prepared graphs."""
        workers = torch.get_num_threads()
        needs = self.needs
        return to_points_many(_flat(graphs), matrix=needs.matrix, rank=needs.rank, workers=workers, progress=False)

    def _run_graphs(self, output: ModelOutput, graphs: list[Graph]) -> tuple[Tensor, Integers]:
        return self._run_points(output, self.points_of(graphs))

    def _run_points(self, output: ModelOutput, points: Sequence[PointSet]) -> tuple[Tensor, Integers]:
        """Rows of all points, in their order, and how many each has."""
        if isinstance(points, PointSets):
            num_nodes, ranks = points.num_nodes, points.ranks
        else:
            num_nodes, ranks = np.array([one.num_nodes for one in points]), np.array([one.rank for one in points])
        batches = batches_of(num_nodes, ranks, batch_size=self.batch_size, dim=self.dim)
        own = torch.Generator()  # a DataLoader draws a number, by default from the global one
        loader = PointLoader(points, batch_sampler=batches, dtype=self.needs.dtype, generator=own)
        rows = torch.cat([output.rows(batch) for batch in loader])
        order = np.concatenate(batches)
        counts = num_nodes if output.of_nodes else np.ones_like(num_nodes)
        start = np.empty_like(counts)
        start[order] = starts(counts[order])
        return rows[torch.from_numpy(consecutive(start, counts))], counts


def batches_of(num_nodes: Integers, ranks: Integers, *, batch_size: int, dim: int) -> list[list[int]]:
    """Positions of graphs with these n and r, (G,), in batches of like size and bounded memory.

    Sorted by size, as graphs of one size are computed side by side. The batches depend on the sizes only.
    """
    needed = training_bytes(num_nodes, ranks, dim=dim, layers=1)  # without training, the activations of one layer
    batches: list[list[int]] = []
    held = 0
    for graph in np.lexsort((ranks, num_nodes)).tolist():
        if not batches or len(batches[-1]) == batch_size or held + needed[graph] > _BATCH_BYTES:
            batches.append([])
            held = 0
        batches[-1].append(graph)
        held += int(needed[graph])
    return batches


def check_forward_fits(num_nodes: int, dim: int) -> None:
    """Refuse a graph whose pairs of points would not fit into memory, before it is decomposed."""
    needed = training_bytes(num_nodes, num_nodes, dim=dim, layers=1)
    check_fits(needed, f"a graph of {num_nodes:,} nodes needs", "Predict it on a machine with more memory")


def _flat(graphs: list[Graph]) -> GraphArrays:
    """Graphs with the same kind of features in flat arrays, in canonical order."""
    num_nodes = np.array([graph.num_nodes for graph in graphs])
    num_edges = np.array([graph.edges.shape[1] for graph in graphs])

    def joined(name: str) -> Tensor | None:
        parts = [getattr(graph.features, name) for graph in graphs]
        return None if parts[0] is None else torch.cat(parts)

    weighted = any(graph.weights is not None for graph in graphs)
    weights = [np.ones(graph.edges.shape[1]) if graph.weights is None else graph.weights for graph in graphs]
    return GraphArrays.from_flat(
        num_nodes,
        num_edges,
        np.concatenate([graph.edges for graph in graphs], axis=1),
        np.concatenate(weights) if weighted else None,
        FlatFeatures(
            num_nodes,
            num_edges,
            x=joined("x"),
            edge_attr=joined("edge_attr"),
            pos=joined("pos"),
            descriptors=joined("descriptors"),
            fingerprint=joined("fingerprint"),
        ),
    )


def or_error(function: Callable[[Item], Result], item: Item) -> Result | PointsetError:
    """``function(item)``, or the error that it raises; a missing package is the error of all items."""
    try:
        return function(item)
    except MissingExtraError:
        raise
    except PointsetError as error:
        return error


def _each_or_error(
    function: Callable[[list[Item]], tuple[Tensor, Integers]], items: list[Item]
) -> list[Tensor | PointsetError]:
    """The rows of each item; where it fails, the same for each half, so that only the items at fault are errors."""
    if not items:
        return []
    try:
        rows, counts = function(items)
        return list(torch.split(rows, counts.tolist()))
    except Exception as raised:
        error = _at_fault(raised)
    if len(items) == 1:
        return [error]
    half = len(items) // 2
    return [*_each_or_error(function, items[:half]), *_each_or_error(function, items[half:])]


def _or_none(function: Callable[[Item], Result], items: Item) -> Result | None:
    """``function(items)``; None where one of the items is at fault."""
    try:
        return function(items)
    except Exception as raised:
        _at_fault(raised)
        return None


def _at_fault(raised: Exception) -> PointsetError:
    """The error that an item is to blame for; raises again what is nobody's fault but ours."""
    if isinstance(raised, MissingExtraError):
        raise raised
    if isinstance(raised, PointsetError):
        return type(raised)(str(raised).removeprefix("graph 0: "))
    # PyTorch raises a RuntimeError where the system gives it no memory.
    no_memory = isinstance(raised, RuntimeError) and "allocate memory" in str(raised)
    if no_memory or isinstance(raised, (MemoryError, torch.OutOfMemoryError)):
        return MemoryForecastError("this machine does not have enough memory for it; use a larger one")
    raise raised
