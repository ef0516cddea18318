"""Arrays of the shape and kind that a file promises, or a message that names the file and the array."""

from __future__ import annotations

import numpy as np

from pointset.datasets.table import Array
from pointset.errors import FileFormatError


def expect_whole(place: object, name: str, array: Array, *shape: int | None) -> Array:
    """The array, if it holds whole numbers from 0 on and has this shape; None leaves a size open.

    Raises:
        FileFormatError: it is not so.
    """
    _expect_shape(place, name, array, shape)
    if array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise FileFormatError(f"{place}: {name} is not of whole numbers from 0 on (it is of type {array.dtype})")
    return array


def expect_real(place: object, name: str, array: Array, *shape: int | None) -> Array:
    """The array, if it holds finite real numbers and has this shape; None leaves a size open.

    Raises:
        FileFormatError: it is not so.
    """
    _expect_shape(place, name, array, shape)
    if array.dtype.kind != "f":
        raise FileFormatError(f"{place}: {name} is of type {array.dtype}; expected real numbers")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise FileFormatError(f"{place}: {name} holds NaN or infinity in row {row}; expected finite numbers")
    return array


def _expect_shape(place: object, name: str, array: Array, shape: tuple[int | None, ...]) -> None:
    fits = [size in (None, got) for size, got in zip(shape, array.shape, strict=False)]
    if array.ndim != len(shape) or not all(fits):
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise FileFormatError(f"{place}: {name} has shape {array.shape}; expected ({expected})")
