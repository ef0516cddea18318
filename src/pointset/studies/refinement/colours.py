"""What every refinement has in common: reading graphs, numbering colours, going round until no class splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pointset.datasets.splits.labelled_graphs import LabelledGraph, labelled_graphs
from pointset.errors import GraphError
from pointset.points.inputs import read_graphs
from pointset.studies.families.checks import whole_number

Colours = list[NDArray[np.int64]]  # an array for each graph
Step = Callable[[Colours], Colours]  # one round; it may split classes, never join them


@dataclass(frozen=True, eq=False)
class Refinement:
    """Colours of graphs that were refined together. Numbers of different calls cannot be compared."""

    colours: Colours  # (n,) of nodes, (n, n) of pairs, (n,)*k of tuples; equal numbers are equal colours in all graphs
    rounds: int  # rounds made
    stable: bool  # whether one more round would split no class

    def histogram(self, graph: int) -> dict[int, int]:
        """How often each colour occurs in a graph."""
        numbers, counts = np.unique(self.colours[graph], return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def same(self, graph: int, other: int) -> bool:
        """Whether the refinement cannot tell two graphs apart: their histograms are equal."""
        return self.histogram(graph) == self.histogram(other)


def coloured_graphs(graphs: Sequence[Any]) -> list[LabelledGraph]:
    """Graphs of any kind, with numbers that are equal where features (of edges: and weights) are equal."""
    read = read_graphs(graphs)
    if not len(read):
        return []
    every = list(read)
    _check_alike([graph.features.x for graph in every if graph.num_nodes], "x")
    _check_alike([graph.features.edge_attr for graph in every if graph.edges.shape[1]], "edge_attr")
    return labelled_graphs(every)


def _check_alike(tensors: list[Tensor | None], name: str) -> None:
    """Features of different shape would have no common numbers."""
    shapes = [None if tensor is None else tuple(tensor.shape[1:]) for tensor in tensors]
    if different := [shape for shape in shapes if shape != shapes[0]]:
        raise GraphError(
            f"graphs to be refined together have {name} of shapes {shapes[0]} and {different[0]} for each row; "
            "expected one shape for all. Drop the features, or give them to all graphs"
        )


def refine(start: Colours, step: Step, rounds: int | None) -> Refinement:
    """Exactly ``rounds`` rounds; with None, until no class splits."""
    rounds = None if rounds is None else whole_number(rounds, "rounds", 0)
    colours, made = start, 0
    while True:
        after = step(colours)
        if num_classes(after) == num_classes(colours):  # further rounds would only rename
            return Refinement(colours, made if rounds is None else rounds, stable=True)
        if made == rounds:
            return Refinement(colours, made, stable=False)
        colours, made = after, made + 1


def num_classes(colours: Colours) -> int:
    """Number of different colours in all graphs, which are numbered from 0 without gaps."""
    return int(flat(colours).max(initial=-1)) + 1


def flat(colours: Colours) -> NDArray[np.int64]:
    """All colours of all graphs in a row."""
    return np.concatenate([one.ravel() for one in colours]) if colours else np.zeros(0, dtype=np.int64)


def like(numbers: NDArray[np.int64], colours: Colours) -> Colours:
    """The inverse of :func:`flat`: cut and shaped as ``colours``."""
    parts = np.split(numbers, np.cumsum([one.size for one in colours])[:-1]) if colours else []
    return [part.reshape(one.shape) for part, one in zip(parts, colours, strict=True)]


def split(colours: Colours, by: Colours) -> Colours:
    """New numbers 0…C−1 for the pairs (colour, by), ordered first by colour; ``by`` holds numbers from 0."""
    second = flat(by)
    keys = flat(colours) * (int(second.max(initial=0)) + 1) + second
    return like(np.unique(keys, return_inverse=True)[1].astype(np.int64), colours)


def of_first(nodes: Colours) -> Colours:
    """Colours (…, n) of nodes as colours (…, n, n) of pairs i, j: that of i."""
    return [np.broadcast_to(one[..., :, None], (*one.shape, one.shape[-1])) for one in nodes]


def of_second(nodes: Colours) -> Colours:
    """The same for that of j."""
    return [np.broadcast_to(one[..., None, :], (*one.shape, one.shape[-1])) for one in nodes]
