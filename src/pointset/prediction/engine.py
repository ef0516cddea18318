"""A chunk of items → an outcome for each: the model's rows, or the error that says why not (:class:`Engine`).

No item can spoil another: what fails together is tried again in halves, down to the item at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Unreadable
from pointset.encoders.batch import PointBatch
from pointset.encoders.loader import PointLoader
from pointset.encoders.model import PointModel
from pointset.errors import MemoryForecastError, MissingExtraError, PointsetError, SpecError
from pointset.machine import check_fits, training_bytes
from pointset.points.convert import to_points_many
from pointset.points.graphs import FlatFeatures, Graph, GraphArrays
from pointset.points.inputs import read_graph
from pointset.points.point_set import PointSet, PointSets
from pointset.prediction.features import Needs, molecule_graph, unread_error
from pointset.specs import check_whole_numbers

_BATCH_BYTES = 256 * 2**20  # of a batch's activations; beyond, a larger batch is not faster

Outcome = Tensor | PointsetError  # (k,) of a graph, (n, k) of its nodes; or why there is none
Item = TypeVar("Item")
Result = TypeVar("Result")


class ModelOutput(NamedTuple):
    """What is computed of a batch: predictions or representations."""

    rows: Callable[[PointBatch], Tensor]  # (G, k) or (N, k), in input order
    width: int  # k
    of_nodes: bool
    dtype: torch.dtype


class Engine:
    """Runs a model from a preset on chunks of items, at most ``batch_size`` graphs together.

    ``weighted_edges`` is the column of edge features that becomes the edge weights.
    """

    def __init__(self, model: PointModel, weighted_edges: int | None, *, batch_size: int):
        check_whole_numbers(batch_size=batch_size)
        self.needs = Needs.of(model, weighted_edges)
        self.dim = model.settings.dim if model.settings else 0
        self.batch_size = batch_size
        self.chunk_size = 4 * batch_size  # more graphs of one size come together

    def outcomes(self, items: Sequence[Any], output: ModelOutput) -> list[Outcome]:
        """An outcome for each item: a graph of any accepted kind, a point set, a molecule, or an error as it is.

        Raises MissingExtraError where a package is missing that all items need.
        """
        prepared = [or_error(self.prepare, item) for item in items]
        outcomes: list[Any] = list(prepared)
        for kind, run in ((Graph, self._run_graphs), (PointSet, self._run_points)):
            places = [place for place, item in enumerate(prepared) if isinstance(item, kind)]
            results = _each_or_error(partial(run, output), [prepared[place] for place in places])
            for place, outcome in zip(places, results, strict=True):
                outcomes[place] = outcome
        return outcomes

    def prepare(self, item: Any) -> Graph | PointSet:
        """An item with the features that the model takes; raises the error that says why not."""
        if isinstance(item, (Unreadable, MoleculeError)):
            raise unread_error(item)
        if isinstance(item, PointsetError):
            raise item
        if isinstance(item, PointSet):
            check_forward_fits(item.num_nodes, self.dim)
            return self.needs.fit_points(item)
        if isinstance(item, Molecule):
            item = molecule_graph(item)
        elif not isinstance(item, Graph):
            item = read_graph(item)[0]
        check_forward_fits(item.num_nodes, self.dim)
        return self.needs.fit(item)

    def _run_graphs(self, output: ModelOutput, graphs: list[Graph]) -> list[Outcome]:
        workers = torch.get_num_threads()
        points = to_points_many(_flat(graphs), matrix=self.needs.matrix, workers=workers, progress=False)
        return self._run_points(output, points)

    def _run_points(self, output: ModelOutput, points: Sequence[PointSet]) -> list[Outcome]:
        if isinstance(points, PointSets):
            num_nodes, ranks = points.num_nodes, points.ranks
        else:
            num_nodes, ranks = np.array([one.num_nodes for one in points]), np.array([one.rank for one in points])
        batches = batches_of(num_nodes, ranks, batch_size=self.batch_size, dim=self.dim)
        own = torch.Generator()  # a DataLoader draws a number, by default from the global one
        loader = PointLoader(points, batch_sampler=batches, dtype=self.needs.dtype, generator=own)
        outcomes: list[Any] = [None] * len(points)
        for batch, graphs in zip(loader, batches, strict=True):
            rows = output.rows(batch)
            counts = batch.num_nodes.tolist() if output.of_nodes else [1] * len(graphs)
            for graph, part in zip(graphs, torch.split(rows, counts), strict=True):
                outcomes[graph] = part if output.of_nodes else part[0]
                if not bool(torch.isfinite(part).all()):
                    outcomes[graph] = SpecError(
                        "the model's output is not a finite number; the graph is far from what it was trained on"
                    )
        return outcomes


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
        FlatFeatures(num_nodes, num_edges, x=joined("x"), edge_attr=joined("edge_attr"), pos=joined("pos")),
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
    function: Callable[[list[Item]], Sequence[Result]], items: list[Item]
) -> list[Result | PointsetError]:
    """``function(items)``; where it fails, the same for each half, so that only the items at fault are errors."""
    if not items:
        return []
    error: PointsetError
    try:
        return list(function(items))
    except MissingExtraError:
        raise
    except PointsetError as raised:
        error = type(raised)(str(raised).removeprefix("graph 0: "))
    except (MemoryError, RuntimeError) as raised:
        # PyTorch raises a RuntimeError where the system gives it no memory.
        if not (isinstance(raised, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(raised)):
            raise
        error = MemoryForecastError("this machine does not have enough memory for it; use a larger one")
    if len(items) == 1:
        return [error]
    half = len(items) // 2
    return [*_each_or_error(function, items[:half]), *_each_or_error(function, items[half:])]
