"""A sequence whose items are made when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Item = TypeVar("Item")
Many = Sequence[int] | NDArray[Any] | Tensor  # positions, or a mask


class LazySequence(Sequence[Item]):
    """Indices, slices, lists of indices, masks and iteration from two methods: how many, and the item at a position."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def item(self, position: int) -> Item:
        """The item at 0 ≤ position < len(self)."""

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Item: ...
    @overload
    def __getitem__(self, index: slice | Many) -> list[Item]: ...
    def __getitem__(self, index: int | np.integer[Any] | slice | Many) -> Item | list[Item]:
        positions = range(len(self))
        if isinstance(index, slice):
            return [self.item(position) for position in positions[index]]
        if hasattr(index, "__index__") and not getattr(index, "ndim", 0):
            return self.item(positions[index])
        chosen = np.asarray(index)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise IndexError(f"got a mask of shape {chosen.shape}; expected ({len(self)},)")
            chosen = np.flatnonzero(chosen)
        return [self.item(positions[one]) for one in chosen.tolist()]

    def __iter__(self) -> Iterator[Item]:
        return map(self.item, range(len(self)))
