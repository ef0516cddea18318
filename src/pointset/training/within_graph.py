"""Nodes or edges of one graph in several parts (:func:`by_part`): trained, validated and tested on the same graph.

A step on such a task sees the whole graph and learns from the training part of its nodes, or of its edges. The graph
stands in the data once for each part, with the targets of that part alone, so that everything that trains, scores and
writes works on graphs as ever. The copies share their eigenpairs.

For links the graph has the edges of the training part only, in all copies, and pairs of nodes have targets: the edges
of a part, and as many pairs that no edge joins. A training step draws its other pairs anew.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Array, Integers
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import Dataset
from pointset.encoders.batch import PointBatch
from pointset.errors import SpecError
from pointset.points.graphs import FlatFeatures, GraphArrays

_SEED = 0  # of the pairs that are no links in the parts' scores, which are to be compared between runs
_TRIES = 100  # rounds of drawing pairs; in all but nearly complete graphs two or three are enough


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of nodes of one graph, whose copy p is asked for those of part p."""

    num_nodes: int
    pairs: tuple[Tensor, ...]  # of each part (P, 2): its edges, then as many other pairs
    y: tuple[Tensor, ...]  # (P, 1) 1 for edges, 0 for others

    @cached_property
    def _taken(self) -> Integers:
        """The edges of the training part, as numbers."""
        return _codes(self.pairs[0][: len(self.pairs[0]) // 2].numpy(), self.num_nodes)

    def asked(self, graphs: Integers) -> tuple[Tensor, Tensor]:
        """The pairs of these copies (P, 2), nodes counted through them, and their targets (P, 1), float64."""
        chosen = graphs.tolist()
        numbered = (self.pairs[at] + place * self.num_nodes for place, at in enumerate(chosen))
        pairs = [torch.empty(0, 2, dtype=torch.long), *numbered]
        y = [torch.empty(0, 1, dtype=torch.float64), *(self.y[at] for at in chosen)]
        return torch.cat(pairs), torch.cat(y)

    def training_batch(self, batch: PointBatch, generator: torch.Generator) -> PointBatch:
        """The training part's copy, with its edges and other pairs drawn anew."""
        links = self.pairs[0][: len(self.pairs[0]) // 2]
        others = _other_pairs(self.num_nodes, self._taken, len(links), generator)
        y = torch.cat([torch.ones(len(links), 1), torch.zeros(len(others), 1)])
        return dataclasses.replace(batch, pairs=torch.cat([links, others]), y=y)


class Parts(NamedTuple):
    """A dataset that is split by nodes or edges, made ready."""

    graphs: Dataset  # that every part sees: without the links to be predicted
    copies: Dataset  # the same, once for each part: graph g of part p is number p·G + g
    counted: Tensor | None = None  # (parts · N,) which nodes of the copies are in their part; of a split by nodes
    links: Links | None = None  # of a split by edges


def by_part(dataset: Dataset) -> Parts:
    """The graphs once for each part of a split by nodes or edges.

    Targets of nodes are missing (NaN, or class −1) outside of the part.

    Raises:
        SpecError: there are no targets; or too many edges for as many other pairs.
    """
    if dataset.split_of is Level.EDGE:
        seen = _of_training_edges(dataset)
        return Parts(seen, _copies(seen, None), links=_links(dataset))
    y = dataset.targets
    if y is None:
        raise SpecError(f"{dataset.card.name} has no targets; expected some for its nodes")
    counted = torch.zeros(len(dataset.split), dataset.split_count, dtype=torch.bool)
    for part, nodes in zip(counted, dataset.split.values(), strict=True):
        part[torch.from_numpy(nodes)] = True
    counted = counted.flatten()
    masked = _repeated(y, len(dataset.split))
    if masked is not None:
        masked[~counted] = -1 if dataset.card.task is Task.MULTI_CLASS else torch.nan
    return Parts(dataset, _copies(dataset, masked), counted)


def _copies(dataset: Dataset, y: Tensor | None) -> Dataset:
    """Each graph once for each part, and ``y`` as the targets of all nodes."""
    copies, graphs, arrays, features = len(dataset.split), len(dataset), dataset.arrays, dataset.features
    flat = FlatFeatures(
        np.tile(arrays.num_nodes, copies),
        np.tile(arrays.num_edges, copies),
        x=_repeated(features.x, copies),
        edge_attr=_repeated(features.edge_attr, copies),
        pos=_repeated(features.pos, copies),
        y=y,
        y_of_nodes=y is not None,
    )
    repeated = GraphArrays(
        flat.num_nodes,
        flat.num_edges,
        np.tile(arrays.edges, copies),
        _tiled(arrays.weights, copies),
        np.tile(arrays.weight_kind, copies),
        flat,
    )
    split = {part: np.arange(graphs) + at * graphs for at, part in enumerate(dataset.split)}
    rows = _tiled(dataset.rows, copies)
    return dataclasses.replace(dataset, arrays=repeated, split=split, rows=rows, split_of=Level.GRAPH)


def _of_training_edges(dataset: Dataset) -> Dataset:
    """The graph without the edges of the other parts."""
    arrays, features, kept = dataset.arrays, dataset.features, np.sort(dataset.split["train"])
    edge_attr = features.edge_attr
    count = np.array([len(kept)])
    chosen = dataclasses.replace(
        features, num_edges=count, edge_attr=None if edge_attr is None else edge_attr[torch.from_numpy(kept)]
    )
    weights = None if arrays.weights is None else arrays.weights[kept]
    edges = np.ascontiguousarray(arrays.edges[:, kept])
    left = GraphArrays(arrays.num_nodes, count, edges, weights, arrays.weight_kind, chosen)
    return dataclasses.replace(dataset, arrays=left)


def _links(dataset: Dataset) -> Links:
    """The edges of each part, and as many pairs without an edge, no pair twice."""
    num_nodes = int(dataset.arrays.num_nodes.sum())
    generator = torch.Generator().manual_seed(_SEED)
    taken = _codes(dataset.arrays.edges.T, num_nodes)
    pairs, y = [], []
    for part in dataset.split.values():
        links = torch.from_numpy(np.ascontiguousarray(dataset.arrays.edges[:, np.sort(part)].T))
        others = _other_pairs(num_nodes, taken, len(links), generator)
        taken = np.union1d(taken, _codes(others.numpy(), num_nodes))
        pairs.append(torch.cat([links, others]))
        y.append(torch.cat([torch.ones(len(links), 1), torch.zeros(len(others), 1)]).double())
    return Links(num_nodes, tuple(pairs), tuple(y))


def _codes(pairs: Array, num_nodes: int) -> Integers:
    """(P,) a number for each pair of nodes, whatever its direction; ascending, each once."""
    low, high = pairs.min(1), pairs.max(1)
    codes: Integers = np.unique(low.astype(np.int64) * num_nodes + high)
    return codes


def _other_pairs(num_nodes: int, taken: Integers, count: int, generator: torch.Generator) -> Tensor:
    """(count, 2) different pairs of two nodes, none of them taken, uniformly at random.

    Raises:
        SpecError: there are not as many.
    """
    free = num_nodes * (num_nodes - 1) // 2 - len(taken)
    if free < count:
        raise SpecError(
            f"the graph has {len(taken):,} edges and only {max(free, 0):,} pairs of nodes without one; expected at "
            f"least {count:,}, as many as links of a part. Predict links of a sparser graph"
        )
    found = np.empty(0, dtype=np.int64)
    for _ in range(_TRIES):
        drawn = torch.randint(num_nodes, (2 * (count - len(found)) + 8, 2), generator=generator).numpy()
        codes = _codes(drawn[drawn[:, 0] != drawn[:, 1]], num_nodes)
        fresh = np.setdiff1d(codes, np.concatenate([taken, found]), assume_unique=False)
        order = torch.randperm(len(fresh), generator=generator).numpy()
        found = np.concatenate([found, fresh[order]])[:count]
        if len(found) == count:
            return torch.from_numpy(np.stack([found // num_nodes, found % num_nodes], axis=1))
    everything = _codes(np.argwhere(np.triu(np.ones((num_nodes, num_nodes), dtype=bool), 1)), num_nodes)
    fresh = np.setdiff1d(everything, taken)
    found = fresh[torch.randperm(len(fresh), generator=generator).numpy()][:count]
    return torch.from_numpy(np.stack([found // num_nodes, found % num_nodes], axis=1))


def _repeated(values: Tensor | None, copies: int) -> Tensor | None:
    return None if values is None else values.repeat(copies, *[1] * (values.dim() - 1))


def _tiled(values: Array | None, copies: int) -> Array | None:
    return None if values is None else np.tile(values, copies)
