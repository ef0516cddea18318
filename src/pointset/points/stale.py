"""Whether the points that a PyG graph carries are still those of the graph.

:class:`~pointset.ToPoints` computes ``data.points`` once. What is changed in the graph afterwards (its edges, weights
or features; or a subgraph is taken) does not reach them, and a model would silently see the old graph.
:func:`check_points_are_current` notices: features are compared with those in the points, edges by a digest.

The digest is the sum over the listed edges of a 64-bit hash of (source, target, weight, features), so the order of the
listing does not matter. Numbers are hashed as float32, in which models compute: a change of type is no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Integers
from pointset.errors import GraphError
from pointset.points.graphs import WHOLE_GRAPH, starts
from pointset.points.point_set import PointSet

_Words = NDArray[np.uint64]

# Odd multipliers with bits all over (of splitmix64); sums and products of 64 bits wrap around.
_SOURCE, _TARGET, _WEIGHT, _COLUMN = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
)
_HALF = np.uint64(32)

COMPARED = ("x", "pos", *WHOLE_GRAPH)
"""What a point set holds just as the graph has it."""


def edges_digest(data: Any) -> int | None:
    """The digest of one PyG graph's edges with their weights and features; None without ``edge_index``."""
    if data.edge_index is None:
        return None
    return int(_edge_hashes(data, _array(data.edge_index)).sum(dtype=np.uint64))


def check_points_are_current(batch: Any, points: Sequence[PointSet]) -> None:
    """Refuse the points of a PyG batch whose graphs are no longer those that they were made of.

    A batch without ``edge_index``, of points alone, has nothing to compare them with.

    Raises:
        GraphError: it says what has changed, and the remedy.
    """
    if batch.edge_index is None:
        return
    nodes = np.array([one.num_nodes for one in points], dtype=np.int64)
    edges, owners = _array(batch.edge_index), _array(batch.batch)
    if batch.num_nodes != nodes.sum() or not np.array_equal(np.bincount(owners, minlength=len(nodes)), nodes):
        raise _stale("other nodes")
    for name in COMPARED:
        if not _same_rows(getattr(batch, name, None), [getattr(one, name) for one in points]):
            raise _stale(f"another {name}")
    expected = [one.edges_digest for one in points]
    if None in expected:  # points from elsewhere, or saved by an earlier version
        return
    what = "another edge_index, edge_weight or edge_attr"
    if not _fit_together(batch, edges, int(nodes.sum())):
        raise _stale(what)
    changed = np.flatnonzero(_digest_of_each(batch, edges, nodes) != np.array(expected, dtype=np.uint64))
    if len(changed):
        raise _stale(what, f" (graph {changed[0]})")


def _stale(what: str, where: str = "") -> GraphError:
    return GraphError(
        f"the graphs have {what} than when ToPoints made their points{where}; expected them unchanged, as a model "
        "takes the points. Change the single graphs (subgraph, too) before pointset.ToPoints(), the last of the "
        "transforms, or apply it again after the change; then batch them"
    )


def _fit_together(batch: Any, edges: Integers, nodes: int) -> bool:
    """Whether edges, weights and features are of one number, and the edges within the nodes."""
    if edges.ndim != 2 or len(edges) != 2 or (edges.size and not 0 <= edges.min() <= edges.max() < nodes):
        return False
    of_edges = (batch.edge_weight, batch.edge_attr)
    return all(len(rows) == edges.shape[1] for rows in of_edges if isinstance(rows, Tensor))


def _same_rows(now: Any, then: list[Tensor | None]) -> bool:
    """Whether a feature of the batch is what its graphs had, whatever its type now; a list is not looked into."""
    known = [rows for rows in then if rows is not None]
    if now is None or not known:
        return now is None and not known
    if not isinstance(now, Tensor):
        return True
    before = torch.cat([rows.unsqueeze(0) if rows.dim() == 0 else rows for rows in known]).to(now.device)
    if before.shape != now.shape:
        return False
    if before.dtype != now.dtype:
        kind = min(before.dtype, now.dtype, key=_precision)
        before, now = before.to(kind), now.to(kind)
    if torch.equal(before, now):
        return True
    return bool(((before == now) | ((before != before) & (now != now))).all())  # NaN is the same as NaN


def _precision(dtype: torch.dtype) -> tuple[bool, int]:
    """Floating-point types by size, then whole numbers: features rounded once are compared as rounded."""
    return not dtype.is_floating_point, dtype.itemsize


def _digest_of_each(batch: Any, edges: Integers, nodes: Integers) -> _Words:
    """(G,) the digest of each graph in a batch, whose nodes are numbered throughout."""
    graph = np.repeat(np.arange(len(nodes)), nodes)[edges[0]]
    hashes = _edge_hashes(batch, edges - starts(nodes)[graph])
    if len(graph) > 1 and not (graph[1:] >= graph[:-1]).all():
        order = np.argsort(graph, kind="stable")
        graph, hashes = graph[order], hashes[order]
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    last = np.searchsorted(graph, np.arange(len(nodes)), side="right")
    sums: _Words = np.diff(total[np.concatenate([[0], last])])
    return sums


def _edge_hashes(data: Any, edges: Integers) -> _Words:
    """(m,) a hash of each listed edge."""
    source, target = edges.astype(np.uint64)
    words = source * _SOURCE + target * _TARGET
    weight, features = data.edge_weight, data.edge_attr
    if isinstance(weight, Tensor):
        # A weight of 1 counts as no weight: the graph is the same.
        words += ((_bits(weight) - _bits(torch.ones(1))) * _WEIGHT).sum(1, dtype=np.uint64)
    if isinstance(features, Tensor):
        columns = _bits(features)
        factors = np.multiply.accumulate(np.full(columns.shape[1], _COLUMN))
        words += _mixed(columns * factors).sum(1, dtype=np.uint64)
    return _mixed(words)


def _mixed(words: _Words) -> _Words:
    """Each word with its bits mixed."""
    words = (words ^ (words >> _HALF)) * _COLUMN
    words = (words ^ (words >> _HALF)) * _COLUMN
    return words ^ (words >> _HALF)


def _bits(values: Tensor) -> _Words:
    """(m, …) numbers as float32 → (m, c) their bits."""
    rows = values.detach().to("cpu", torch.float32) + 0.0  # −0 is 0
    return rows.reshape(len(rows), -1 if len(rows) else 0).numpy().view(np.uint32).astype(np.uint64)


def _array(indices: Tensor) -> Integers:
    return indices.detach().cpu().numpy()
