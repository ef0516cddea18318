"""What a pickle or a file of torch.save held → arrays of the kind that a card promises."""

from __future__ import annotations

from typing import Any

import numpy as np

from pointset.datasets.benchmarks.number_rows import check_categories
from pointset.datasets.table import Array
from pointset.errors import FileFormatError
from pointset.specs import Categories, Reals


def as_array(place: str, value: Any) -> Array:
    """A tensor, an array or a list of numbers as an array.

    Raises:
        FileFormatError: it is none of these; ``place`` begins the message.
    """
    storage = getattr(value, "untyped_storage", None)
    if storage is not None and value.nbytes > storage().nbytes():  # a few bytes, repeated to fill the memory
        raise FileFormatError(f"{place}: {kind_of(value)} claims more numbers than the file holds")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, sparse tensors
        raise FileFormatError(f"{place}: got {kind_of(value)}; expected numbers ({error})") from None
    if array.dtype.kind not in "iufb":
        raise FileFormatError(f"{place}: got {kind_of(value)}; expected numbers")
    return array


def as_features(place: str, values: Array, spec: Categories | Reals) -> Array:
    """(rows, columns) int64 for categories, float32 for reals.

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
    check_categories(place, values, spec)
    return values.astype(np.int64)


def counts_of(place: str, slices: Any) -> Array:
    """(G,) rows of each graph, from where they begin and end: PyG's slices (G + 1,).

    Raises:
        FileFormatError: they do not rise from 0.
    """
    bounds = as_array(place, slices)
    whole = bounds.dtype.kind in "iu" and bounds.ndim == 1 and len(bounds) > 1
    if not whole or bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise FileFormatError(f"{place}: got {kind_of(slices)}; expected whole numbers that rise from 0")
    return np.diff(bounds)


def width_of(spec: Categories | Reals) -> int:
    """How many columns there are."""
    return spec.width if isinstance(spec, Reals) else len(spec.sizes)


def kind_of(value: Any) -> str:
    """``tuple of 3`` or ``Tensor (5, 14)``, for messages."""
    if isinstance(value, list | tuple | dict):
        return f"{type(value).__name__} of {len(value)}"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {tuple(shape)}"
