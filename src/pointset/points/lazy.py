"""A sequence whose items are made when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")


class LazySequence(Sequence[Item]):
    """Indices, negative ones, slices and iteration from two methods: how many, and the item at a position."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def item(self, position: int) -> Item:
        """The item at 0 ≤ position < len(self)."""

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self.item(position) for position in range(*index.indices(len(self)))]
        return self.item(range(len(self))[index])

    def __iter__(self) -> Iterator[Item]:
        return map(self.item, range(len(self)))
