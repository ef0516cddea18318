"""Which graphs go into which batch of an epoch (:class:`EpochBatches`), the same however often a run is interrupted.

Everything random in a run is drawn from a stream named by its purpose and its place (epoch, batch, device): see
:func:`stream`. So a resumed run draws what it would have drawn unbroken, and no state of a generator is ever stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler, Sampler

from pointset.arrays import Integers
from pointset.encoders.loader import Budget, BudgetBatchSampler, PointLoader
from pointset.machine import training_bytes
from pointset.points.point_set import PointSets

if TYPE_CHECKING:  # without pydantic
    from pointset.runs.recipe import Recipe

_EVALUATION_BYTES = 500_000_000  # of a batch whose activations are not kept
_EVALUATION_GRAPHS = 512
_WORK_OF_ANY_GRAPH = 8000  # besides n²·r: what many small operations cost however small the graph


class Purpose(IntEnum):
    """What a stream is for; the numbers are part of every run's result and never change."""

    WEIGHTS = 0
    ORDER = 1
    NOISE = 2
    PAIRS = 3


def stream_seed(seed: int, purpose: Purpose, *place: int) -> int:
    """A 63-bit seed for this purpose and place."""
    state = np.random.SeedSequence([seed, purpose, *place]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def stream(seed: int, purpose: Purpose, *place: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator at the beginning of a stream."""
    return torch.Generator(device).manual_seed(stream_seed(seed, purpose, *place))


class HandedOut(NamedTuple):
    """A batch of which this process got its share."""

    graphs: int  # of the whole batch
    idle: bool  # whether the share is only a stand-in that must not count


class EpochOrder(RandomSampler):
    """A permutation of the graphs that depends on seed and epoch only."""

    def __init__(self, graphs: int, seed: int):
        super().__init__(range(graphs))
        self.graphs, self.seed, self.epoch = graphs, seed, 0

    def __iter__(self) -> Iterator[int]:
        yield from self.drawn(stream(self.seed, Purpose.ORDER, self.epoch)).tolist()

    def drawn(self, generator: torch.Generator) -> Integers:
        """The order of an epoch."""
        order: Integers = torch.randperm(self.graphs, generator=generator).numpy()
        return order


class SortedInWindows(EpochOrder):
    """A permutation in which graphs of like size are neighbours, so that a batch has few groups and is faster.

    So many graphs as fill ``window`` batches are drawn, sorted by size and cut into batches, whose order is drawn, too.
    """

    def __init__(self, sizes: tuple[Integers, Integers], seed: int, *, batch: int, window: int):
        super().__init__(len(sizes[0]), seed)
        self.sizes, self.batch, self.window = sizes, batch, window

    def drawn(self, generator: torch.Generator) -> Integers:
        """The order of an epoch; a batch that is not full is its last."""
        order = super().drawn(generator)
        num_nodes, ranks = self.sizes
        batches: list[Integers] = []
        for window in np.split(order, range(self.batch * self.window, len(order), self.batch * self.window)):
            by_size = window[np.lexsort((ranks[window], num_nodes[window]))]
            cut = np.split(by_size, range(self.batch, len(by_size), self.batch))
            full = len(by_size) // self.batch
            batches += [cut[place] for place in torch.randperm(full, generator=generator).tolist()] + cut[full:]
        return np.concatenate(batches) if batches else order


BatchesOfOrder = BatchSampler | BudgetBatchSampler


class EpochBatches(Sampler[list[int]]):
    """The batches of an epoch, from ``first`` on; each of several processes takes its share of every batch.

    Shares are alike in work, not in number: graphs of one size stay together, so that a process has few groups. A batch
    with fewer graphs than there are processes leaves some without any: they get the batch's first graph, and their loss
    must not count. ``handed_out`` has a word on each batch, in order.
    """

    def __init__(
        self, order: EpochOrder, inner: BatchesOfOrder, sizes: tuple[Integers, Integers], rank: int, processes: int
    ):
        self.order, self.inner, self.rank, self.processes = order, inner, rank, processes
        self.num_nodes, self.ranks = sizes
        self.first = 0
        self.handed_out: deque[HandedOut] = deque()

    def start(self, epoch: int, first: int) -> None:
        """Before each epoch: which one it is, and how many batches are done already."""
        self.order.epoch, self.first = epoch, first
        self.handed_out.clear()

    def __iter__(self) -> Iterator[list[int]]:
        for batch in islice(self.inner, self.first, None):
            share = batch if self.processes == 1 else self._share(np.array(batch))
            self.handed_out.append(HandedOut(len(batch), not share))
            yield share or batch[:1]

    def _share(self, batch: Integers) -> list[int]:
        """Consecutive graphs of the batch in order of size, up to an equal part of all work."""
        n, r = self.num_nodes[batch], self.ranks[batch]
        order = np.lexsort((r, n))
        work = np.cumsum((n * n * r + _WORK_OF_ANY_GRAPH)[order])
        shares = (self.processes * (work - 1) // work[-1]).astype(int)
        if len(batch) >= self.processes:  # nobody is idle where there is enough for all
            shares = np.maximum.accumulate(np.minimum(shares, np.arange(len(batch))))
            from_behind = self.processes - 1 - np.arange(len(batch))[::-1]
            shares = np.maximum(shares, from_behind)
        chosen: list[int] = batch[order][shares == self.rank].tolist()
        return chosen

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return len(self.inner)


def training_batches(
    num_nodes: Integers, ranks: Integers, recipe: Recipe, *, rank: int = 0, processes: int = 1
) -> EpochBatches:
    """Batches of graphs with these sizes, as the recipe wants them."""
    trainer, model = recipe.trainer, recipe.model
    graphs = min(trainer.batch_size, max(len(num_nodes), 1))
    order = EpochOrder(len(num_nodes), recipe.seed)
    if trainer.size_window > 1:
        order = SortedInWindows((num_nodes, ranks), recipe.seed, batch=graphs, window=trainer.size_window)
    inner: BatchesOfOrder = BatchSampler(order, graphs, drop_last=False)
    if trainer.memory_budget is not None:
        most = trainer.memory_budget, trainer.batch_size
        inner = BudgetBatchSampler(order, Budget.of(num_nodes, ranks, *most, dim=model.dim, layers=model.layers))
    return EpochBatches(order, inner, (num_nodes, ranks), rank, processes)


def evaluation_loader(points: PointSets, indices: Integers, *, dim: int, dtype: torch.dtype) -> PointLoader:
    """The graphs in their order, in batches as large as memory without gradients allows in comfort."""
    chosen = points.num_nodes[indices], points.ranks[indices]
    largest = int(training_bytes(*chosen, dim=dim, layers=1).max())
    options: dict[str, Any] = {"memory_budget": max(_EVALUATION_BYTES, largest), "dim": dim, "layers": 1}
    unused = torch.Generator()  # without one, torch draws from the global one
    return PointLoader(points, _EVALUATION_GRAPHS, indices=indices, dtype=dtype, generator=unused, **options)
