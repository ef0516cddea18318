"""What the formats made of text share: tensors as numbered columns (x0, x1, …) of plain numbers, and names of nodes."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Floats
from pointset.errors import GraphError
from pointset.points.graphs import Features, Graph, GraphArrays

Number = int | float | bool
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip


class TensorType(NamedTuple):
    """What columns of numbers do not say of the tensor that they came from."""

    dtype: torch.dtype
    shape: tuple[int, ...]  # of one row


def rows_of(tensor: Tensor, name: str) -> list[list[Number]]:
    """A list of numbers for each row of a tensor (rows, …)."""
    if str(tensor.dtype).removeprefix("torch.") not in _DTYPES:
        raise GraphError(f"{name} is of type {tensor.dtype}; expected real numbers, as the format is made of text")
    wide = tensor.detach().to(torch.float64) if tensor.dtype.is_floating_point else tensor.detach()
    rows: list[list[Number]] = wide.reshape(tensor.shape[0], math.prod(tensor.shape[1:])).tolist()
    return rows


def tensor_of(rows: Sequence[Sequence[Any]], name: str, type_: TensorType | None = None) -> Tensor:
    """The tensor (rows, width) of a table of numbers.

    Without a type, truth values stay so, whole numbers become int64 and others float64, so that nothing is lost.
    """
    values = [value for row in rows for value in row]
    if not all(isinstance(value, (bool, int, float)) for value in values):
        strange = next(value for value in values if not isinstance(value, (bool, int, float)))
        raise GraphError(f"{name} has the value {strange!r}; expected numbers")
    dtype = type_.dtype if type_ else _narrowest(values)
    if not dtype.is_floating_point and any(isinstance(value, float) for value in values):
        raise GraphError(f"{name} is noted as {dtype}, but has fractions. Remove the graph's attribute 'pointset'")
    shape = (len(rows), *(type_.shape if type_ else (len(rows[0]) if rows else 0,)))
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


def types_to_json(types: dict[str, TensorType]) -> str:
    """A line of JSON that :func:`types_from_json` reads."""
    return json.dumps(
        {name: [str(dtype).removeprefix("torch."), list(shape)] for name, (dtype, shape) in types.items()}
    )


def types_from_json(text: str) -> dict[str, TensorType]:
    """Types and shapes as they were written."""
    try:
        return {
            str(name): TensorType(_DTYPES[dtype], _checked_shape(shape))
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


def ordered_names(names: Sequence[str]) -> list[str]:
    """Names of nodes, which give them their order and are then gone: whole numbers by size, others as they come.

    Numbering from 0 and from 1 give the same graph.
    """
    if not all(WHOLE_NUMBER.fullmatch(name) for name in names):
        return list(names)
    ordered = sorted(names, key=int)
    for one, other in itertools.pairwise(ordered):
        if int(one) == int(other):
            raise GraphError(f"the names {one!r} and {other!r} are the same number; write a node always the same way")
    return ordered


def lost_names(ordered: Sequence[str]) -> tuple[str, ...]:
    """What is ignored where the names are not 0…n−1 already, as points have no place for them."""
    plain = all(name == str(index) for index, name in enumerate(ordered))
    return () if plain else ("node names (nodes are numbered from 0)",)


def graph_of_names(
    names: Sequence[str], edges: Iterable[tuple[str, str]], weights: Floats | None, features: Features
) -> Graph:
    """The graph whose edges are pairs of names; features of edges come in their order."""
    number = {name: index for index, name in enumerate(names)}
    pairs = np.array([(number[u], number[v]) for u, v in edges], dtype=np.int64).reshape(-1, 2)
    return GraphArrays.from_flat(
        num_nodes=np.array([len(names)]),
        num_edges=np.array([len(pairs)]),
        edges=pairs.T,
        weights=weights,
        features=None if all(value is None for value in features) else [features],
    )[0]
