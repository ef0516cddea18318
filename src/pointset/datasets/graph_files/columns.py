"""Tensors as numbered columns (x0, x1, …) of plain numbers, and back, for formats made of text."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pointset.errors import GraphError

Number = int | float | bool
_TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip


class TensorKind(NamedTuple):
    """What a column of numbers does not say of the tensor that it came from."""

    dtype: torch.dtype
    shape: tuple[int, ...]  # of one row


def rows_of(tensor: Tensor, name: str) -> list[list[Number]]:
    """A list of numbers for each row of a tensor (rows, …)."""
    if str(tensor.dtype).removeprefix("torch.") not in _TYPES:
        raise GraphError(f"{name} is of type {tensor.dtype}; expected real numbers, as the format is made of text")
    wide = tensor.detach().to(torch.float64) if tensor.dtype.is_floating_point else tensor.detach()
    rows: list[list[Number]] = wide.reshape(tensor.shape[0], math.prod(tensor.shape[1:])).tolist()
    return rows


def tensor_of(rows: Sequence[Sequence[Any]], name: str, kind: TensorKind | None = None) -> Tensor:
    """The tensor (rows, width) of a table of numbers.

    Without a ``kind``, truth values stay so, whole numbers become int64 and others float64, so that nothing is lost.
    """
    values = [value for row in rows for value in row]
    if not all(isinstance(value, (bool, int, float)) for value in values):
        strange = next(value for value in values if not isinstance(value, (bool, int, float)))
        raise GraphError(f"{name} has the value {strange!r}; expected numbers")
    dtype = kind.dtype if kind else _narrowest(values)
    if not dtype.is_floating_point and any(isinstance(value, float) for value in values):
        raise GraphError(f"{name} is noted as {dtype}, but has fractions. Remove the graph's attribute 'pointset'")
    shape = (len(rows), *(kind.shape if kind else (len(rows[0]) if rows else 0,)))
    try:
        return torch.tensor(values, dtype=dtype).reshape(shape)
    except (RuntimeError, OverflowError, ValueError, TypeError) as error:
        raise GraphError(f"{name} cannot be read as {dtype} of shape {shape}: {error}") from None


def _narrowest(values: list[Any]) -> torch.dtype:
    if values and all(isinstance(value, bool) for value in values):
        return torch.bool
    return torch.int64 if values and all(isinstance(value, int) for value in values) else torch.float64


def numbered_columns(names: Iterable[str], stem: str) -> list[str]:
    """Those of the names that are the stem and a number, in order; they must count 0, 1, 2, … without a gap."""
    numbers = sorted(int(found[1]) for name in names if (found := re.fullmatch(rf"{stem}(0|[1-9][0-9]{{0,5}})", name)))
    if numbers != list(range(len(numbers))):
        missing = next(index for index, number in enumerate(numbers) if index != number)
        raise GraphError(f"there is {stem}{numbers[-1]}, but no {stem}{missing}; expected {stem}0, {stem}1, … in a row")
    return [f"{stem}{number}" for number in numbers]


def kinds_as_text(kinds: dict[str, TensorKind]) -> str:
    """A line of JSON that :func:`kinds_from_text` reads."""
    return json.dumps(
        {name: [str(kind.dtype).removeprefix("torch."), list(kind.shape)] for name, kind in kinds.items()}
    )


def kinds_from_text(text: str) -> dict[str, TensorKind]:
    """Types and shapes as they were written.

    Raises:
        GraphError: the text is not of that form.
    """
    try:
        return {
            str(name): TensorKind(_TYPES[dtype], _checked_shape(shape))
            for name, (dtype, shape) in json.loads(text).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise GraphError(
            f"the types of the features, {text[:80]!r}, cannot be read. Remove the graph's attribute 'pointset' to "
            "have them guessed"
        ) from None


def _checked_shape(shape: Any) -> tuple[int, ...]:
    if len(shape) > 8 or not all(type(size) is int and 0 <= size <= 10**6 for size in shape):
        raise ValueError("not a shape")
    return tuple(shape)


# Names of nodes in files: they give the nodes their order, and are then gone.


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def ordered_names(names: Sequence[str]) -> list[str]:
    """Whole numbers in their order, other names as they come. 0- and 1-based numbering give the same graph."""
    if not all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        return list(names)
    ordered = sorted(names, key=int)
    for one, other in itertools.pairwise(ordered):
        if int(one) == int(other):
            raise GraphError(f"the names {one!r} and {other!r} are the same number; write a node always the same way")
    return ordered


def lost_names(ordered: Sequence[str]) -> tuple[str, ...]:
    """What is to be said of names that are not 0…n−1 already: points have no place for them."""
    plain = all(name == str(index) for index, name in enumerate(ordered))
    return () if plain else ("node names (nodes are numbered from 0)",)
