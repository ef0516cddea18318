"""Batches planned by the memory that training needs, instead of by a number of graphs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from numbers import Real
from typing import Any, NamedTuple

from torch.utils.data import RandomSampler, Sampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from pointset.errors import MemoryForecastError, SpecError
from pointset.points.graphs import Integers
from pointset.points.memory import training_bytes

_UNITS = {"": 1, "B": 1, **{f"{p}B": 1000**k for k, p in enumerate("KMGT", 1)},
          **{f"{p}IB": 1024**k for k, p in enumerate("KMGT", 1)}}  # fmt: skip


class Budget(NamedTuple):
    """What a batch may hold."""

    sizes: list[int]  # (G,) bytes of each graph
    limit: int  # bytes
    graphs: int  # at most so many

    @classmethod
    def of(
        cls,
        num_nodes: Integers,
        ranks: Integers,
        memory_budget: int | float | str,
        batch_size: int,
        *,
        dim: int,
        layers: int,
    ) -> Budget:
        """The budget for graphs of these sizes; ``batch_size`` 1 sets no bound on their number."""
        limit = read_bytes(memory_budget)
        sizes = training_bytes(num_nodes, ranks, dim=dim, layers=layers)
        worst = int(sizes.argmax())
        if sizes[worst] > limit:
            raise MemoryForecastError(
                f"graph {worst} of {len(sizes)} has {num_nodes[worst]} nodes and needs about "
                f"{sizes[worst] / 1e6:,.1f} MB alone; got memory_budget={memory_budget!r}, {limit / 1e6:,.1f} MB. "
                "Raise the budget, leave the graph out with indices=…, make the model smaller (dim, layers), or keep "
                "fewer eigenpairs (to_points_many(…, rank=k))"
            )
        return cls(sizes.tolist(), limit, len(sizes) if batch_size == 1 else batch_size)

    def batches(self, order: Iterable[int]) -> list[list[int]]:
        """Consecutive graphs of the order, each batch as full as it can be."""
        batches: list[list[int]] = []
        held = self.limit + 1  # the first graph opens a batch
        for graph in order:
            if held + self.sizes[graph] > self.limit or len(batches[-1]) == self.graphs:
                batches.append([])
                held = 0
            batches[-1].append(graph)
            held += self.sizes[graph]
        return batches

    def most_batches(self, drawn: int) -> int:
        """The largest number of batches that ``drawn`` different graphs need in any order.

        Count a graph as s = max(size, limit / graphs). A batch is closed when the first graph of the next one does not
        fit: the s of the batch and of that graph exceed the limit. Added up over all k batches but the last, this is
        (k − 1)·limit < Σ s + the s of k − 2 first graphs, which are at most the k − 2 largest.
        """
        scaled = sorted((max(size * self.graphs, self.limit) for size in self.sizes), reverse=True)[:drawn]
        limit, total = self.limit * self.graphs, sum(scaled)
        largest = [0, 0, *accumulate(scaled)]  # of the k − 2 largest at k − 1
        return next((k for k in range(1, drawn) if k * limit >= total + largest[k]), drawn)


class BudgetBatchSampler(Sampler[list[int]]):
    """Batches within a budget, equally many in every epoch where the sampler draws without replacement.

    Args:
        sampler: the order of the graphs.
        batch_size: takes the place of a number. It has the name by which Lightning makes a batch sampler again.
        drop_last: likewise; not used.
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: Budget, drop_last: bool = False):
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last
        self._length = self._known_length()

    def _known_length(self) -> int | None:
        sampler, budget = self.sampler, self.batch_size
        if isinstance(sampler, (SequentialSampler, Sequence)):
            return len(budget.batches(sampler))
        if isinstance(sampler, (RandomSampler, DistributedSampler)) and not getattr(sampler, "replacement", False):
            return budget.most_batches(len(sampler)) if len(sampler) <= len(budget.sizes) else None
        return None

    def __iter__(self) -> Iterator[list[int]]:
        batches = self.batch_size.batches(self.sampler)
        while self._length is not None and len(batches) < self._length:
            longest = max(range(len(batches)), key=lambda position: len(batches[position]))
            batch = batches[longest]
            batches[longest : longest + 1] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
        yield from batches

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError(
                "the number of batches within memory_budget is not known before the sampler has drawn its order; "
                "expected a list, or a sampler of torch without replacement"
            )
        return self._length


def read_bytes(budget: Any) -> int:
    """A number of bytes, also as "2GB" or "512MiB"."""
    number = float(budget) if isinstance(budget, Real) and not isinstance(budget, bool) else math.nan
    text = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", budget) if isinstance(budget, str) else None
    if text and text[2].upper() in _UNITS:
        number = float(text[1]) * _UNITS[text[2].upper()]
    if not 1 <= number < math.inf:
        raise SpecError(f"got memory_budget={budget!r}; expected a number of bytes, or such as '2GB' or '512MiB'")
    return int(number)
