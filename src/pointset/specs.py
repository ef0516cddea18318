"""What a graph's features are: the specs that a dataset hands to a model; and settings that are whole numbers.

``Categories(28)`` is one column of categories 0…27, ``Categories(119, 5, 12)`` three columns; ``Reals(3)`` three real
columns; None no features. Node features and edge features each have one.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from pointset.errors import SpecError


class Categories:
    """Columns of whole numbers; ``sizes[c]`` categories in column c, numbered from 0."""

    def __init__(self, *sizes: int):
        if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
            raise SpecError(f"got Categories{sizes}; expected the number of categories of each column, at least 1")
        self.sizes = tuple(sizes)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.sizes)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where the categories of each column begin, if those of all columns are numbered through."""
        return tuple(accumulate((0, *self.sizes[:-1])))

    def __repr__(self) -> str:
        return f"Categories({', '.join(map(str, self.sizes))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(("categories", self.sizes))


class Reals:
    """Columns of real numbers."""

    def __init__(self, width: int):
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise SpecError(f"got Reals({width!r}); expected the number of columns, at least 1")
        self.width = width

    def __repr__(self) -> str:
        return f"Reals({self.width})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reals) and self.width == other.width

    def __hash__(self) -> int:
        return hash(("reals", self.width))


Spec = Categories | Reals | None


def read_spec(value: Any, name: str) -> Spec:
    """A spec as it is, or the short forms: 28 and (119, 5) are categories."""
    if value is None or isinstance(value, (Categories, Reals)):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Categories(value)
    if isinstance(value, (list, tuple)):
        return Categories(*value)
    raise SpecError(f"got {name}={value!r}; expected Categories(…), Reals(width) or None")


def check_whole_numbers(least: int = 1, /, **settings: Any) -> None:
    """Refuse a setting that is not a whole number of at least ``least``."""
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SpecError(f"got {name}={value!r}; expected a whole number, at least {least}")
