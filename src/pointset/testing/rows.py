"""A model's output for each graph, computed in batches of consecutive graphs (:class:`RowsOfGraphs`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pointset.encoders.batch import collate
from pointset.points.memory import training_bytes
from pointset.points.point_set import PointSet
from pointset.progress import Advance


class InvarianceError(AssertionError):
    """A model's output changed where it must not."""


class RowsOfGraphs:
    """The output of each graph in its own tensor: (1, out), or (n, out) where the model gives a row for each node.

    Args:
        model: takes a :class:`pointset.PointBatch`.
        batch_size: most graphs that are computed together; by default all of them.
        batch_bytes: most memory that the activations of a batch of more than one graph may take, about.
        advance: called with the number of graphs that were computed.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        batch_size: int | None = None,
        batch_bytes: float = math.inf,
        advance: Advance = lambda steps, /: None,
    ):
        self.model, self.advance = model, advance
        self._size, self._bytes = math.inf if batch_size is None else batch_size, batch_bytes
        self._dim: int = getattr(getattr(model, "settings", None), "dim", 1)

    def __call__(self, point_sets: Sequence[PointSet]) -> list[Tensor]:
        """One tensor for each point set.

        Raises:
            InvarianceError: the model gives rows that belong neither to graphs nor to nodes.
        """
        return [part for batch in self._batches(point_sets) for part in self._of_batch(batch)]

    def _batches(self, point_sets: Sequence[PointSet]) -> Iterator[list[PointSet]]:
        batch: list[PointSet] = []
        held = 0
        for points in point_sets:
            needed = training_bytes(points.num_nodes, points.rank, dim=self._dim, layers=1)
            if batch and (len(batch) >= self._size or held + needed > self._bytes):
                yield batch
                batch, held = [], 0
            batch.append(points)
            held += needed
        if batch:
            yield batch

    def _of_batch(self, batch: list[PointSet]) -> list[Tensor]:
        output: Tensor = self.model(collate(batch))
        self.advance(len(batch))
        counts = [points.num_nodes for points in batch]
        # Where there are as many nodes as graphs, the number of rows does not tell: the model does.
        by_node = getattr(getattr(self.model, "readout", None), "level", None) == "node"
        if output.shape[0] == sum(counts) and (by_node or output.shape[0] != len(counts)):
            return list(torch.split(output, counts))
        if output.shape[0] == len(counts):
            return list(torch.split(output, 1))
        raise InvarianceError(
            f"the model gave {output.shape[0]} rows for {len(counts)} graphs with {sum(counts)} nodes; expected a row "
            "for each graph or for each node"
        )


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode and nothing is noted for gradients."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
