"""What a file held → arrays of the kind that a card promises, or a message that names the file and the array."""

from __future__ import annotations

from typing import Any

import numpy as np

from pointset.datasets.table import Array
from pointset.errors import FileFormatError
from pointset.specs import Categories, Reals


def as_array(place: str, value: Any) -> Array:
    """A tensor, an array or a list of numbers, out of a pickle, as an array.

    Raises:
        FileFormatError: it is none of these; ``place`` begins the message.
    """
    storage = getattr(value, "untyped_storage", None)
    if storage is not None and value.nbytes > storage().nbytes():  # a few bytes, repeated to fill the memory
        raise FileFormatError(f"{place}: {kind_of(value)} claims more numbers than the file holds")
    if isinstance(value, list | tuple) and any(isinstance(one, list | tuple) for one in value):
        raise FileFormatError(
            f"{place}: got lists inside a {kind_of(value)}; expected numbers"
        )  # may be endlessly many
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, sparse tensors
        raise FileFormatError(f"{place}: got {kind_of(value)}; expected numbers ({error})") from None
    if array.dtype.kind not in "iufb":
        raise FileFormatError(f"{place}: got {kind_of(value)}; expected numbers")
    return array


def kind_of(value: Any) -> str:
    """``tuple of 3`` or ``Tensor (5, 14)``, for messages."""
    if isinstance(value, list | tuple | dict):
        return f"{type(value).__name__} of {len(value)}"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {tuple(shape)}"


def expect_shape(place: object, name: str, array: Array, *shape: int | None) -> None:
    """Refuse an array of another shape; None leaves a size open.

    Raises:
        FileFormatError: with both shapes.
    """
    if array.shape == shape:
        return
    if array.ndim != len(shape) or any(size not in (None, got) for size, got in zip(shape, array.shape, strict=True)):
        expected = str(shape).replace("None", "any")
        raise FileFormatError(f"{place}: {name} has shape {array.shape}; expected {expected}")


def expect_whole(place: object, name: str, array: Array, *shape: int | None) -> Array:
    """The array, if it holds whole numbers from 0 on and has this shape; None leaves a size open.

    Raises:
        FileFormatError: it is not so.
    """
    expect_shape(place, name, array, *shape)
    if array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise FileFormatError(f"{place}: {name} is not of whole numbers from 0 on (it is of type {array.dtype})")
    return array


def expect_real(place: object, name: str, array: Array, *shape: int | None) -> Array:
    """The array, if it holds finite real numbers and has this shape; None leaves a size open.

    Raises:
        FileFormatError: it is not so.
    """
    expect_shape(place, name, array, *shape)
    if array.dtype.kind != "f":
        raise FileFormatError(f"{place}: {name} is of type {array.dtype}; expected real numbers")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise FileFormatError(f"{place}: {name} holds NaN or infinity in row {row}; expected finite numbers")
    return array


def as_features(place: object, values: Array, spec: Categories | Reals) -> Array:
    """(rows, columns) int64 for categories, float32 for reals; rows are counted from 1 in messages.

    Raises:
        FileFormatError: a category that does not exist, a number that is not finite, or another type.
    """
    if isinstance(spec, Reals):
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            real = values.astype(np.float32)
        if not np.isfinite(real).all():
            row = int(np.argwhere(~np.isfinite(real))[0, 0])
            raise FileFormatError(f"{place}, row {row + 1} holds NaN or infinity; expected finite numbers")
        return real
    if values.dtype.kind not in "iu":
        raise FileFormatError(f"{place} is of type {values.dtype}; expected whole numbers")
    wrong = (values < 0) | (values >= np.array(spec.sizes))
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise FileFormatError(
            f"{place}, row {row + 1}: column {column + 1} holds {values[row, column]}; expected a category from 0 to "
            f"{spec.sizes[column] - 1}"
        )
    return values.astype(np.int64)
