"""numpy files (.npz) of one graph, as node tasks are published: edges, features, labels, and which nodes are for what.

:func:`read_graph_arrays` takes the usual names, so that the files of Planetoid, of the heterophilous benchmarks and of
gnn-benchmark are read as they are:

* nodes: ``num_nodes``, or as many as features or labels have rows;
* edges: ``edges`` (m, 2), each once or in both directions; ``edge_index`` (2, m), as PyG has it; or a sparse matrix
  ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape``; with ``edge_weight`` (m,) and ``edge_attr`` (m, …);
* features: ``x``, ``node_features`` or ``features`` (n, c), or a sparse matrix ``feat_…`` or ``attr_…``; ``pos``;
* labels: ``y``, ``node_labels`` or ``labels`` (n,) or (n, k), negative or NaN where unknown;
* parts: ``train``, ``val``, ``test`` (also ``…_idx``) with numbers of nodes; or ``…_mask``, ``…_masks`` with a truth
  value for each node, (n,), or of several splits (F, n) or (n, F).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from pointset.arrays import Array, Flags, read_arrays
from pointset.datasets.graph_files.formats import GraphRecord, shown_name
from pointset.datasets.splits.parts import PARTS, part_of
from pointset.errors import FileFormatError
from pointset.points.graphs import MAX_NODES, Graph

_NAMES = {
    "x": ("x", "node_features", "features", "feat", "attr"),
    "y": ("y", "node_labels", "labels"),
    "pos": ("pos",),
    "edge_weight": ("edge_weight", "weights"),
    "edge_attr": ("edge_attr",),
}
_SPARSE = ("data", "indices", "indptr", "shape")  # of a matrix in CSR form: adj_data, adj_indices, …
_ENDINGS = ("_masks", "_mask", "_indices", "_idx", "")
_LARGEST_DENSE = 1 << 31  # numbers of a sparse feature matrix that is written out


class GraphArraysOfFile(NamedTuple):
    """One graph as a file holds it."""

    num_nodes: int
    edges: Array  # (2, m) as listed
    mirrored: bool  # whether the form promises both directions of each edge
    x: Array | None  # (n, c)
    y: Array | None  # (n, …)
    pos: Array | None
    edge_weight: Array | None  # (m,)
    edge_attr: Array | None  # (m, …)
    masks: dict[str, Flags]  # part → (n, F) which nodes are in it, in each of F splits; empty where there are none
    ignored: tuple[str, ...]  # arrays that were not read


def read_graph_arrays(path: Path) -> GraphArraysOfFile:
    """The graph of an ``.npz`` file.

    Raises:
        FileFormatError: it is damaged, or arrays do not fit together.
    """
    arrays = read_arrays(path)
    left = _Left(shown_name(path), arrays)
    edges, mirrored, weights = _edges(left)
    sparse = left.sparse("feat", "attr")
    x = left.take("x", _NAMES["x"]) if sparse is None else _dense(left.name, sparse)
    y, pos, edge_attr = (left.take(name, _NAMES[name]) for name in ("y", "pos", "edge_attr"))
    weights = left.take("edge_weight", _NAMES["edge_weight"]) if weights is None else weights
    num_nodes = _num_nodes(left, edges, x, y)
    for name, value, rows in (
        ("features", x, num_nodes), ("labels", y, num_nodes), ("pos", pos, num_nodes),
        ("edge_weight", weights, edges.shape[1]), ("edge_attr", edge_attr, edges.shape[1]),
    ):  # fmt: skip
        if value is not None and (value.ndim == 0 or len(value) != rows):
            raise FileFormatError(f"{left.name}: {name} has shape {value.shape}; expected {rows:,} rows")
    masks = _masks(left, num_nodes)
    return GraphArraysOfFile(num_nodes, edges, mirrored, x, y, pos, weights, edge_attr, masks, left.names())


class _Left:
    """The arrays of a file that were not read yet."""

    def __init__(self, name: str, arrays: dict[str, Array]):
        self.name = name
        self._arrays = arrays

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._arrays))

    def get(self, name: str) -> Array | None:
        """The array of this name, of numbers or truth values."""
        value = self._arrays.pop(name, None)
        if value is not None and value.dtype.kind not in "iufb":
            raise FileFormatError(f"{self.name}: {name} is of type {value.dtype}; expected numbers")
        return value

    def take(self, what: str, names: Sequence[str]) -> Array | None:
        """The array that has one of these names."""
        found = [name for name in names if name in self._arrays]
        if len(found) > 1:
            raise FileFormatError(f"{self.name} has {' and '.join(found)}, both for {what}; expected one of them")
        return self.get(found[0]) if found else None

    def sparse(self, *prefixes: str) -> Any:
        """A matrix in CSR form, of SciPy; None where there is none."""
        prefix = next((prefix for prefix in prefixes if f"{prefix}_indptr" in self._arrays), None)
        if prefix is None:
            return None
        data, indices, indptr, shape = (self.get(f"{prefix}_{part}") for part in _SPARSE)
        if data is None or indices is None or indptr is None or shape is None:
            raise FileFormatError(f"{self.name} has {prefix}_indptr; expected {', '.join(_SPARSE)} of it, too")
        try:
            matrix = scipy.sparse.csr_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
            matrix.check_format(full_check=True)
        except (ValueError, TypeError, OverflowError, IndexError) as error:
            raise FileFormatError(f"{self.name}: {prefix}_… is not a sparse matrix ({error})") from None
        return matrix


def _edges(left: _Left) -> tuple[Array, bool, Array | None]:
    """(2, m), whether both directions are promised, and the weights of a sparse matrix that are not all 1."""
    adjacency, pairs, both = left.sparse("adj"), left.get("edges"), left.get("edge_index")
    if [adjacency is None, pairs is None, both is None].count(False) != 1:
        raise FileFormatError(
            f"{left.name} holds {', '.join(left.names()) or 'nothing else'}; expected the edges of one graph as one of "
            "edges (m, 2), edge_index (2, m) or a sparse matrix adj_data, adj_indices, adj_indptr, adj_shape"
        )
    if adjacency is not None:
        if adjacency.shape[0] != adjacency.shape[1]:
            raise FileFormatError(f"{left.name}: adj_… has shape {adjacency.shape}; expected a square matrix")
        listed = adjacency.tocoo()
        weights = np.asarray(listed.data)
        return np.stack(listed.coords).astype(np.int64), False, None if (weights == 1).all() else weights
    edges = pairs.T if pairs is not None and pairs.ndim == 2 else both
    if edges is None or edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        shape = None if edges is None else edges.shape
        raise FileFormatError(
            f"{left.name}: the edges are of shape {shape}; expected whole numbers, edges (m, 2) or edge_index (2, m)"
        )
    return edges.astype(np.int64), both is not None, None


def _dense(name: str, matrix: Any) -> Array:
    rows, columns = matrix.shape
    if rows * columns > _LARGEST_DENSE:
        raise FileFormatError(
            f"{name}: features of shape {matrix.shape} are {rows * columns:,} numbers; expected at most "
            f"{_LARGEST_DENSE:,}"
        )
    dense: Array = matrix.toarray()
    return dense


def _num_nodes(left: _Left, edges: Array, x: Array | None, y: Array | None) -> int:
    stated = left.get("num_nodes")
    if stated is not None and (stated.size != 1 or stated.dtype.kind not in "iu"):
        raise FileFormatError(f"{left.name}: num_nodes is of shape {stated.shape}; expected one whole number")
    named = int(edges.max()) + 1 if edges.size else 0
    counts = [len(table) for table in (x, y) if table is not None and table.ndim]
    found = int(stated.reshape(())) if stated is not None else (counts or [named])[0]
    if not named <= found <= MAX_NODES or (edges.size and edges.min() < 0):
        raise FileFormatError(f"{left.name}: the edges name nodes up to {named - 1:,}; expected 0 to {found - 1:,}")
    return found


def _masks(left: _Left, num_nodes: int) -> dict[str, Flags]:
    """Part → (n, F); every part is there, or none."""
    found: dict[str, Flags] = {}
    for name in left.names():
        ending = next(ending for ending in _ENDINGS if name.endswith(ending))
        part = part_of(name.removesuffix(ending) if ending else name)
        value = left.get(name) if part is not None else None
        if part is None or value is None:
            continue
        if part in found:
            raise FileFormatError(f"{left.name} names the nodes for {part} twice, the second time as {name}")
        found[part] = _as_mask(f"{left.name}: {name}", value, num_nodes)
    splits = {mask.shape[1] for mask in found.values()}
    if len(splits) > 1:
        raise FileFormatError(
            f"{left.name}: masks of {' and '.join(map(str, sorted(splits)))} splits; expected as many"
        )
    empty = np.zeros((num_nodes, *splits), dtype=np.bool_)
    return {part: found.get(part, empty) for part in PARTS} if found else {}


def _as_mask(place: str, value: Array, num_nodes: int) -> Flags:
    """(n, F) from numbers of nodes (k,), or truth values (n,), (n, F) or (F, n)."""
    if value.dtype.kind == "b" or (value.ndim == 2 and value.dtype.kind in "iu" and set(np.unique(value)) <= {0, 1}):
        mask = value[:, None] if value.ndim == 1 else value
        mask = mask if mask.ndim == 2 and len(mask) == num_nodes else mask.T
        if mask.ndim != 2 or len(mask) != num_nodes:
            raise FileFormatError(
                f"{place} has shape {value.shape}; expected a truth value for each of {num_nodes:,} nodes"
            )
        return mask.astype(np.bool_)
    if (
        value.ndim != 1
        or value.dtype.kind not in "iu"
        or (value.size and not 0 <= value.min() <= value.max() < num_nodes)
    ):
        raise FileFormatError(
            f"{place} is of type {value.dtype} and shape {value.shape}; expected numbers of nodes from 0 to "
            f"{num_nodes - 1:,}, or a truth value for each"
        )
    one = np.zeros((num_nodes, 1), dtype=np.bool_)
    one[value.astype(np.int64), 0] = True
    return one


def read(path: Path) -> Iterator[GraphRecord]:
    """One record."""
    import torch
    from torch_geometric.data import Data

    found = read_graph_arrays(path)
    edges, rows = found.edges, np.arange(found.edges.shape[1])
    if not found.mirrored:
        edges, rows = _both_directions(edges)
    data = Data(edge_index=torch.from_numpy(edges), num_nodes=found.num_nodes)
    for name in ("x", "y", "pos"):
        if (value := getattr(found, name)) is not None:
            data[name] = torch.from_numpy(np.ascontiguousarray(value))
    for name in ("edge_weight", "edge_attr"):
        if (value := getattr(found, name)) is not None:
            data[name] = torch.from_numpy(np.ascontiguousarray(value[rows]))
    yield GraphRecord(shown_name(path), data, ignored=found.ignored, masks=found.masks or None)


def _both_directions(edges: Array) -> tuple[Array, Array]:
    """Both directions of each edge, each once, (2, M), and the row of ``edges`` (2, m) that each comes from, (M,)."""
    source, target = edges
    off = np.flatnonzero(source != target)
    both = np.concatenate([edges, edges[::-1, off]], axis=1)
    rows = np.concatenate([np.arange(len(source)), off])
    _, first = np.unique(both[0] * (both.max(initial=0) + 1) + both[1], return_index=True)
    return both[:, first], rows[first]


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """The arrays of one graph; its name has no place."""
    if len(graphs) != 1:
        raise FileFormatError(f"got {len(graphs):,} graphs; expected one, as an .npz of arrays holds one graph")
    (graph,) = graphs
    arrays: Mapping[str, Any] = {
        "num_nodes": np.int64(graph.num_nodes),
        "edges": graph.edges.T,
        "edge_weight": graph.weights,
        **{name: None if value is None else value.numpy() for name, value in graph.features._asdict().items()},
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **{name: value for name, value in arrays.items() if value is not None})
