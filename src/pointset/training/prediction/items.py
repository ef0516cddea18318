"""One item or many, in chunks: what :meth:`Predictor.predict` may be handed (:func:`items_of`, :func:`chunks_of`)."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from pointset.errors import GraphError
from pointset.points.graphs import Graph
from pointset.points.inputs import ACCEPTED
from pointset.points.point_set import PointSet

Item = TypeVar("Item")


def items_of(items: Any) -> Iterable[Any]:
    """The items; one alone stands for a list of one, and a PyG batch for its graphs.

    Raises:
        GraphError: neither an item nor several.
    """
    if _is_pyg(items) and hasattr(items, "to_data_list"):  # a Batch
        several: list[Any] = items.to_data_list()
        return several
    if _is_one(items):
        return [items]
    if isinstance(items, (bytes, dict)) or not (isinstance(items, Iterable) or hasattr(items, "__getitem__")):
        raise GraphError(f"got {type(items).__name__}; expected SMILES, point sets or graphs, each {ACCEPTED}")
    return items  # type: ignore[no-any-return]


def _is_one(items: Any) -> bool:
    """Whether it is a SMILES, a point set or a graph, and not several."""
    if isinstance(items, (str, PointSet, Graph, Tensor)) or (hasattr(items, "is_directed") and hasattr(items, "adj")):
        return True
    if isinstance(items, np.ndarray):
        return items.dtype.kind not in "OUT"  # an array of SMILES is several
    if isinstance(items, tuple) and len(items) == 2 and isinstance(items[0], Integral):
        return True  # (num_nodes, edges)
    return hasattr(items, "tocoo") or _is_pyg(items)


def _is_pyg(items: Any) -> bool:
    """A Data or Batch; what was never imported cannot have been passed."""
    data = sys.modules.get("torch_geometric.data")
    return data is not None and isinstance(items, data.Data)


def chunks_of(items: Iterable[Item], size: int) -> Iterator[Sequence[Item]]:
    """Lists of so many items; the last may be shorter."""
    rest = iter(items)
    while chunk := list(itertools.islice(rest, size)):
        yield chunk
