"""By how much a model's output changes with a small change of the edge weights: :func:`measure_stability`.

A small change splits repeated eigenvalues. Below the tolerance of the decomposition they are averaged, above it each
goes through f alone; as f is continuous, the output must hardly notice. It does where the *rank* changes: eigenvalues
that are zero are left out, and a learned f is not zero near zero (docs/invariance.md).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from pointset.arrays import Floats, Integers
from pointset.encoders.model import evaluating
from pointset.errors import SpecError
from pointset.points.graphs import Graph, WeightKind
from pointset.points.inputs import read_graphs
from pointset.testing.symmetry import RowsOfGraphs, as_points

SIZES = tuple(10.0**power for power in range(-14, -7))


@dataclass(frozen=True, eq=False)
class Stability:
    """The largest changes of the output when weights change by factors 1 + size·z, z normal."""

    size: float
    differences: list[float]  # of each graph, relative to the largest output of all graphs, or to 1 if that is less
    ranks: list[Integers]  # (1 + draws,) of each graph: first its own rank, then those of the changed graphs

    @property
    def largest(self) -> float:
        """Over all graphs."""
        return max(self.differences)

    @property
    def rank_changed(self) -> list[bool]:
        """For each graph: whether a draw changed the number of its eigenvalues that are not zero."""
        return [bool((ranks != ranks[0]).any()) for ranks in self.ranks]


def measure_stability(
    model: nn.Module, graphs: Sequence[Any], *, sizes: Sequence[float] = SIZES, seed: int = 0, repeats: int = 2
) -> list[Stability]:
    """Measure what small changes of the edge weights do to the output; nothing is judged.

    Args:
        model: a :class:`pointset.PointModel`, or any module that takes a :class:`pointset.PointBatch` and gives a row
            for each graph or for each node.
        graphs: graphs of any accepted kind; without weights each edge has weight 1.
        sizes: each weight is multiplied by 1 + size·z with z from the normal distribution.
        seed: of the random draws.
        repeats: number of random draws for each size.

    Returns:
        A measurement for each size, in their order.

    Raises:
        SpecError: there are no graphs, or a size is not between 0 and 0.1.

    Example:
        >>> import networkx as nx, pointset
        >>> model = pointset.PointModel.from_preset("pst", dim=8, layers=2).double()
        >>> found = pointset.testing.measure_stability(model, [nx.complete_graph(8)], sizes=[1e-8])
        >>> found[0].largest < 1e-6
        True
    """
    read = list(read_graphs(graphs))
    if not read:
        raise SpecError("got no graphs; expected at least one, as nothing is measured without")
    for size in sizes:
        if not 0 < size <= 0.1:
            raise SpecError(f"got size {size!r}; expected one between 0 and 0.1, the relative change of a weight")
    generator = np.random.default_rng(seed)
    points, rows = as_points(model, read), RowsOfGraphs(model)
    found = []
    with evaluating(model):
        before = rows(points)
        scale = max([1.0, *(float(one.abs().max()) for one in before if one.numel())])
        for size in sizes:
            differences, ranks = [0.0] * len(read), [[one.rank] for one in points]
            for _ in range(repeats):
                changed = as_points(model, [_changed(graph, size, generator) for graph in read])
                for at, (old, new) in enumerate(zip(before, rows(changed), strict=True)):
                    ranks[at].append(changed[at].rank)
                    if old.numel():
                        change = float((new - old).abs().max()) / scale
                        differences[at] = max(differences[at], math.inf if math.isnan(change) else change)
            found.append(Stability(size, differences, [np.array(one) for one in ranks]))
    return found


def _changed(graph: Graph, size: float, generator: np.random.Generator) -> Graph:
    """The graph with other weights."""
    factors: Floats = np.asarray(1 + size * generator.standard_normal(graph.edges.shape[1]))
    weights = factors if graph.weights is None else graph.weights * factors
    return dataclasses.replace(graph, weights=weights, weight_kind=WeightKind.REAL)
