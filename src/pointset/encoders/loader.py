"""Batches of points, one after the other: :class:`PointLoader`, by a number of graphs or by a budget of memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler, Subset
from torch.utils.data.distributed import DistributedSampler

from pointset.arrays import Integers
from pointset.encoders.batch import PointArrays, PointBatch, batch_of, collate
from pointset.errors import GraphError, MemoryForecastError, SpecError
from pointset.machine import training_bytes
from pointset.points.point_set import PointSet, PointSets, check_floating_point
from pointset.specs import check_whole_numbers

_UNITS = {"": 1, "B": 1, **{f"{p}B": 1000**k for k, p in enumerate("KMGT", 1)},
          **{f"{p}IB": 1024**k for k, p in enumerate("KMGT", 1)}}  # fmt: skip


class PointLoader(DataLoader[PointBatch]):
    """An ordinary ``DataLoader`` that yields :class:`~pointset.PointBatch`.

    It takes the same graphs in the same order as ``DataLoader(list(points), batch_size, shuffle, generator=generator,
    collate_fn=pointset.collate)``. From :class:`~pointset.PointSets` a batch comes by index arithmetic on the flat
    arrays, which may lie in a store on disk; any other sequence of point sets goes through :func:`pointset.collate`.

    Workers compute on one thread each, and the batches are those without workers (only with ``persistent_workers``
    torch draws other orders from the second epoch on). Where they are forked, the default on Linux, they share the
    arrays with this process. Under ``spawn`` (macOS, Windows) each gets a copy, even of a memory-mapped store: use
    ``num_workers=0`` with large ones.

    ``len(loader)`` is the number of batches of every epoch, also with ``memory_budget``. Without shuffling that is what
    the plan needs. With shuffling, each order of the graphs needs another number: it is then the largest that any order
    can need, and an order that needs fewer gets some of its batches halved. So progress bars, learning-rate schedules
    and Lightning, which asks for the length once, are right in every epoch. Only with a sampler of your own (except a
    list or torch's random and distributed ones) nothing is known beforehand, and ``len(loader)`` raises TypeError.

    Args:
        points: point sets, from :func:`pointset.to_points_many`; or a ``torch.utils.data.Subset`` of them.
        batch_size: graphs in a batch. With ``memory_budget``, at most so many, unless it is 1.
        shuffle: whether to draw a new order in each epoch.
        indices: which of the points to load: a train, validation or test split. By default all.
        memory_budget: instead of a number of graphs: bytes, or a string such as ``"2GB"`` or ``"512MiB"``. As many
            graphs make a batch as training can hold in this, by :func:`~pointset.machine.training_bytes`.
        dim: channels of the model, for ``memory_budget``.
        layers: layers of the model, for ``memory_budget``.
        dtype: floating-point type of eigenpairs, positions, real features and real targets.
        generator: for shuffling.
        sampler: an order of your own: numbers from 0 to the number of graphs loaded, minus one.
        drop_last: whether to leave out a last batch with fewer than ``batch_size`` graphs.
        num_workers: number of worker processes; 0 for none.
        pin_memory: whether to put batches in page-locked memory, for a GPU.
        **options: what else ``DataLoader`` takes: ``persistent_workers``, ``prefetch_factor``, ``batch_sampler``, …

    Raises:
        GraphError: there are no points, they are not point sets, or their features do not fit together.
        SpecError: a setting is impossible.
        MemoryForecastError: a graph exceeds ``memory_budget`` alone.

    Example:
        >>> import networkx as nx, pointset
        >>> points = pointset.to_points_many(nx.cycle_graph(n) for n in (5, 8, 5, 6))
        >>> for batch in pointset.PointLoader(points, batch_size=2):
        ...     print(batch.num_nodes)
        tensor([5, 8])
        tensor([5, 6])
    """

    def __init__(
        self,
        points: Sequence[PointSet] | Subset[PointSet],
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        indices: Sequence[int] | Integers | torch.Tensor | None = None,
        memory_budget: int | float | str | None = None,
        dim: int = 64,
        layers: int = 4,
        dtype: torch.dtype = torch.float32,
        generator: torch.Generator | None = None,
        sampler: Sampler[int] | Iterable[int] | None = None,
        drop_last: bool = False,
        num_workers: int = 0,
        pin_memory: bool = False,
        **options: Any,
    ):
        self.points, self.indices = points, indices
        source = options.pop("dataset", None)  # Lightning makes a loader again, and hands over what it found in the old
        if options.pop("collate_fn", _as_it_is) is not _as_it_is:
            raise SpecError("got a collate_fn; expected none: a PointLoader always yields PointBatch")
        if source is None:
            source = _source(points, indices, dtype)
        check_whole_numbers(batch_size=batch_size, dim=dim, layers=layers)
        if shuffle and sampler is not None:
            raise SpecError("got shuffle=True and a sampler; expected one of them, as a sampler decides on the order")
        if options.get("batch_sampler") is None and memory_budget is not None:
            if drop_last:
                raise SpecError("got memory_budget and drop_last=True; expected one of them: no batch is incomplete")
            budget = Budget.of(source.num_nodes, source.ranks, memory_budget, batch_size, dim=dim, layers=layers)
            if sampler is None:
                sampler = RandomSampler(source, generator=generator) if shuffle else SequentialSampler(source)
            options["batch_sampler"] = BudgetBatchSampler(sampler, budget)
        if options.get("batch_sampler") is None:  # otherwise it decides on all of these
            options |= {"batch_size": batch_size, "shuffle": shuffle, "sampler": sampler, "drop_last": drop_last}
        super().__init__(
            source, generator=generator, num_workers=num_workers, pin_memory=pin_memory, collate_fn=_as_it_is, **options
        )


class GatheredPoints(Dataset[PointBatch]):
    """Batches out of flat arrays. A ``DataLoader`` asks for a whole batch by ``__getitems__``."""

    def __init__(self, arrays: PointArrays):
        self.arrays = arrays
        self.num_nodes, self.ranks = arrays.num_nodes, arrays.ranks

    def __len__(self) -> int:
        return len(self.num_nodes)

    def __getitem__(self, position: int) -> PointBatch:
        return self.__getitems__([position])

    def __getitems__(self, positions: list[int]) -> PointBatch:
        """The graphs at these positions."""
        return batch_of(self.arrays.gather(np.array(positions)))


class CollatedPoints(Dataset[PointBatch]):
    """Batches out of any sequence of point sets."""

    def __init__(self, points: Sequence[PointSet], indices: Integers, dtype: torch.dtype):
        self.points, self.indices, self.dtype = points, indices.tolist(), dtype

    @property
    def num_nodes(self) -> Integers:
        """(G,) n of each graph."""
        return np.array([self.points[index].num_nodes for index in self.indices])

    @property
    def ranks(self) -> Integers:
        """(G,) r of each graph."""
        return np.array([self.points[index].rank for index in self.indices])

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> PointBatch:
        return self.__getitems__([position])

    def __getitems__(self, positions: list[int]) -> PointBatch:
        """The graphs at these positions."""
        return collate([self.points[self.indices[position]] for position in positions]).to(self.dtype)


def _source(points: Any, indices: Any, dtype: torch.dtype) -> GatheredPoints | CollatedPoints:
    check_floating_point(dtype)
    if isinstance(points, PointSet) or not hasattr(points, "__getitem__") or not hasattr(points, "__len__"):
        raise GraphError(f"got a {type(points).__name__}; expected PointSets from pointset.to_points_many")
    if not len(points):
        raise GraphError("got no point sets; expected at least one")
    chosen = _checked_indices(indices, len(points))
    while isinstance(points, Subset):
        chosen, points = _checked_indices(points.indices, len(points.dataset))[chosen], points.dataset  # type: ignore[arg-type]
    if isinstance(points, PointSets):
        return GatheredPoints(PointArrays(points, chosen, dtype))
    if not isinstance(points[0], PointSet):
        raise GraphError(
            f"the items are {type(points[0]).__name__}; expected point sets. Convert graphs with "
            "pointset.to_points_many(graphs)"
        )
    return CollatedPoints(points, chosen, dtype)


def _checked_indices(indices: Any, count: int) -> Integers:
    if indices is None:
        return np.arange(count)
    chosen = np.asarray(indices)
    if chosen.ndim != 1 or not chosen.size or chosen.dtype.kind not in "iu":
        raise SpecError(
            f"got indices of shape {chosen.shape} and type {chosen.dtype}; expected a row of whole numbers, at least "
            "one. A mask becomes indices by mask.nonzero()"
        )
    if chosen.min() < 0 or chosen.max() >= count:
        raise SpecError(
            f"the indices go from {chosen.min()} to {chosen.max()}; expected 0 to {count - 1}, as there are {count} "
            "graphs"
        )
    return chosen.astype(np.int64)


def _as_it_is(batch: PointBatch) -> PointBatch:
    """In the place of collate_fn: the source has put the batch together."""
    return batch


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
