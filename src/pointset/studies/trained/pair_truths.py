"""What is true of pairs of nodes: :func:`truths_of`. Weights of edges do not matter, only which edges there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pointset.encodings import random_walk, resistance_distance, shortest_path
from pointset.points.graphs import Graph
from pointset.points.sparse import adjacency_matrix

FARTHEST = 8  # longer distances are one class, "more"
CLASSES = (*map(str, range(FARTHEST + 1)), "more", "none")
_STEPS = 4  # of the walk that may return; fewer tell little but degrees
_MOST_PAIRS = 500  # of one graph, so that a few large ones do not decide


@dataclass(frozen=True, eq=False)
class Truths:
    """P pairs i ≤ j of one graph or of several."""

    first: Tensor  # (P,) i
    second: Tensor  # (P,) j
    path: Tensor  # (P,) the class of the shortest path, an index into CLASSES
    resistance: Tensor  # (P,) NaN where no path joins the two, and for a node with itself
    commute: Tensor  # (P,) likewise: steps of a random walk from i to j and back
    returning: Tensor  # (P,) the chance to be back after four steps, for a node with itself; NaN for other pairs
    ends: Tensor  # (P, 5) all that the weakest probe sees: degrees' sum, product and difference, adjacency, i = j


def adjacency_of(graph: Graph) -> Tensor:
    """(n, n) zeros and ones, zero on the diagonal."""
    return torch.from_numpy(adjacency_matrix(replace(graph, weights=None)).toarray()).fill_diagonal_(0.0)


def truths_of(graph: Graph, generator: np.random.Generator) -> Truths:
    """All pairs i ≤ j, or 500 of them drawn where there are more."""
    adjacency = adjacency_of(graph)
    first, second = _pairs(graph.num_nodes, generator)
    degree = adjacency.sum(1)
    path, resistance = shortest_path(adjacency), resistance_distance(adjacency)
    volume = (path.isfinite().double() @ degree).unsqueeze(1)  # (n, 1): degrees of i's component
    apart = torch.where(path.isfinite() & (path > 0), 1.0, torch.nan)
    resistance = torch.where(apart.isnan(), torch.nan, resistance)
    returning = torch.full_like(path, torch.nan)
    returning.diagonal().copy_(random_walk(adjacency, _STEPS).diagonal())
    ends = torch.stack(
        [
            degree[first] + degree[second],
            degree[first] * degree[second],
            (degree[first] - degree[second]).abs(),
            adjacency[first, second],
            (first == second).double(),
        ],
        dim=1,
    )
    return Truths(
        first,
        second,
        _classes(path[first, second]),
        resistance[first, second],
        (volume * resistance)[first, second],
        returning[first, second],
        ends,
    )


def joined(truths: list[Truths]) -> Truths:
    """The pairs of several graphs, one graph after the other."""
    columns = zip(*(vars(one).values() for one in truths), strict=True)
    return Truths(*(torch.cat(column) for column in columns))


def _pairs(nodes: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    first, second = torch.triu_indices(nodes, nodes)
    if len(first) <= _MOST_PAIRS:
        return first, second
    kept = torch.from_numpy(np.sort(generator.choice(len(first), _MOST_PAIRS, replace=False)))
    return first[kept], second[kept]


def _classes(path: Tensor) -> Tensor:
    """(P,) distances, infinite where there is no path → (P,) indices into CLASSES."""
    return torch.where(path.isinf(), len(CLASSES) - 1, path.clamp(max=FARTHEST + 1)).long()
