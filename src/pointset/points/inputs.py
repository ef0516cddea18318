"""Whatever a user calls a graph → :class:`~pointset.points.graphs.GraphArrays`.

Accepted: PyG ``Data``, networkx graphs, scipy sparse and dense adjacency matrices (numpy, torch), ``(num_nodes,
edges)``. Libraries are recognised without importing them, so that reading a matrix never loads PyG.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Floats, Integers
from pointset.errors import GraphError, PointsetError
from pointset.points.graphs import (
    MAX_NODES,
    NO_FEATURES,
    WHOLE_GRAPH,
    EdgeListing,
    Features,
    Graph,
    GraphArrays,
    tensor_fault,
)

ACCEPTED = (
    "a PyG Data, a networkx graph, a scipy sparse or dense (n, n) adjacency matrix, or (num_nodes, edges) with "
    "edges as a list of pairs or a (2, m) tensor"
)
_NO_INTEGERS: Integers = np.zeros(0, dtype=np.int64)


class RawGraph(NamedTuple):
    """One graph as it was given: listed edges, not yet checked or ordered."""

    num_nodes: int
    source: Integers
    target: Integers
    weights: Floats | None
    mirrored: bool  # the form lists both directions
    features: Features = NO_FEATURES


def read_graph(graph: Any) -> GraphArrays:
    """One graph of any accepted kind, as arrays of length one."""
    return _assemble([read_raw(graph)])


def read_graphs(graphs: Iterable[Any]) -> GraphArrays:
    """Many graphs; an error names the position of the graph at fault."""
    if isinstance(graphs, GraphArrays):
        return graphs
    if isinstance(graphs, (str, bytes)) or not isinstance(graphs, Iterable) or is_pyg(graphs):
        remedy = ". Use batch.to_data_list()" if hasattr(graphs, "to_data_list") else ""
        raise GraphError(f"got {type(graphs).__name__}; expected several graphs, each {ACCEPTED}{remedy}")
    raw: list[RawGraph] = []
    for index, graph in enumerate(graphs):
        try:
            raw.append(read_raw(graph))
        except PointsetError as error:
            raise type(error)(f"graph {index}: {error}") from None
    return _assemble(raw)


def _assemble(raw: list[RawGraph]) -> GraphArrays:
    counts = np.array([len(graph.source) for graph in raw], dtype=np.int64)
    weighted = np.array([graph.weights is not None for graph in raw], dtype=bool)
    weights = [np.ones(len(g.source)) if g.weights is None else g.weights for g in raw] if weighted.any() else None
    listing = EdgeListing(
        num_nodes=np.array([graph.num_nodes for graph in raw], dtype=np.int64),
        counts=counts,
        source=np.concatenate([_NO_INTEGERS, *(graph.source for graph in raw)]),
        target=np.concatenate([_NO_INTEGERS, *(graph.target for graph in raw)]),
        weights=None if weights is None else np.concatenate(weights),
        weighted=weighted,
        mirrored=np.array([graph.mirrored for graph in raw], dtype=bool),
    )
    plain = all(graph.features is NO_FEATURES for graph in raw)
    return listing.canonical(None if plain else [graph.features for graph in raw])


def read_raw(graph: Any, *, directed: bool = False) -> RawGraph:
    """One graph of any accepted kind as it is listed; with ``directed``, where each row is one direction.

    Then directed networkx graphs are accepted, and undirected graphs list both directions.
    """
    if isinstance(graph, Graph):
        raw = RawGraph(graph.num_nodes, graph.edges[0], graph.edges[1], graph.weights, False, graph.features)
        return _both_directions(raw) if directed else raw
    if is_pyg(graph):
        return _from_pyg(graph)
    if hasattr(graph, "is_directed") and hasattr(graph, "adj"):
        if not directed:
            return _from_networkx(graph)
        return _listed_networkx(graph) if graph.is_directed() else _both_directions(_listed_networkx(graph))
    if isinstance(graph, tuple) and len(graph) == 2:
        return _from_edges(*graph)
    if hasattr(graph, "tocoo") and hasattr(graph, "shape"):
        return _from_sparse(graph)
    if isinstance(graph, (np.ndarray, Tensor)):
        return _from_dense(graph)
    raise GraphError(f"got {_kind(graph)}; expected {ACCEPTED}")


def is_pyg(value: Any) -> bool:
    """A PyG Data or Batch; not a dataset, which also answers to ``edge_index``."""
    data = sys.modules.get("torch_geometric.data")  # what was never imported cannot have been passed
    return data is not None and isinstance(value, data.Data)


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    size = f" of shape {tuple(shape)}" if shape is not None else ""
    return f"{type(value).__module__}.{type(value).__qualname__}{size}".removeprefix("builtins.")


def _from_pyg(data: Any) -> RawGraph:
    if getattr(data, "num_graphs", 1) != 1 and hasattr(data, "to_data_list"):
        raise GraphError(
            f"got a PyG Batch of {data.num_graphs} graphs; expected one graph. Use "
            "pointset.to_points_many(batch.to_data_list())"
        )
    fields = data.to_dict()
    edge_index = fields.get("edge_index")
    if edge_index is None:
        raise GraphError(
            "the PyG Data has no edge_index; expected a (2, m) tensor. For a graph without edges pass "
            "edge_index=torch.empty(2, 0, dtype=torch.long); an adj_t comes back as edge_index by "
            "torch.stack(data.adj_t.t().coo()[:2])"
        )
    edges = _integer_array(edge_index, "edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"edge_index has shape {tuple(edges.shape)}; expected (2, m)")
    features = Features(
        x=_tensor(fields.get("x")),
        edge_attr=_tensor(fields.get("edge_attr")),
        pos=_tensor(fields.get("pos")),
        y=_tensor(fields.get("y")),
        **{name: _tensor(fields.get(name)) for name in WHOLE_GRAPH},
    )
    num_nodes = _number_of_nodes(data, fields, features)
    features.check(num_nodes, edges.shape[1])
    weight = fields.get("edge_weight")
    weights = None if weight is None else _weights(weight, edges.shape[1])
    return RawGraph(num_nodes, edges[0], edges[1], weights, True, features)


def _number_of_nodes(data: Any, fields: dict[str, Any], features: Features) -> int:
    """As PyG says it, which falls back on the largest node number where nothing else tells."""
    given = fields.get("num_nodes")
    if given is None:
        if features.x is not None and features.x.dim():
            return features.x.shape[0]  # what PyG would find, found faster
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it had to fall back
            given = data.num_nodes
    return _whole_number(given, "num_nodes")


def _whole_number(value: Any, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise GraphError(f"got {name}={value!r}; expected a whole number") from None
    if isinstance(value, bool):
        raise GraphError(f"got {name}={value!r}; expected a whole number")
    if not 0 <= number <= MAX_NODES:
        raise GraphError(
            f"the graph has {name}={value!r}; expected 0 to {MAX_NODES}. If it was read off the largest node number, "
            "renumber the nodes 0…n−1"
        )
    return number


def _from_networkx(graph: Any) -> RawGraph:
    if graph.is_directed():
        raise GraphError(
            "got a directed networkx graph; expected an undirected one. Call graph.to_undirected() first; or "
            "pointset.points.magnetic_points(graph), which turns a directed graph into points"
        )
    return _listed_networkx(graph)


def _both_directions(raw: RawGraph) -> RawGraph:
    """Rows that stand for an undirected edge, listed both ways; self-loops once."""
    rows = np.r_[np.arange(len(raw.source)), np.flatnonzero(raw.source != raw.target)]
    again = rows[len(raw.source) :]
    source, target = np.r_[raw.source, raw.target[again]], np.r_[raw.target, raw.source[again]]
    attributes = raw.features.edge_attr
    features = raw.features._replace(edge_attr=None if attributes is None else attributes[torch.from_numpy(rows)])
    return RawGraph(raw.num_nodes, source, target, None if raw.weights is None else raw.weights[rows], True, features)


def _listed_networkx(graph: Any) -> RawGraph:
    number = {node: index for index, node in enumerate(graph.nodes)}
    listed = [(number[u], number[v], fields) for u, v, fields in graph.edges(data=True)]
    pairs = np.array([(u, v) for u, v, _ in listed], dtype=np.int64).reshape(-1, 2)
    weighted = any("weight" in fields for _, _, fields in listed)
    weights = _weights([fields.get("weight", 1) for _, _, fields in listed], len(listed)) if weighted else None
    features = Features(
        x=_stacked([fields.get("x") for _, fields in graph.nodes(data=True)], "node attribute 'x'"),
        edge_attr=_stacked([fields.get("edge_attr") for _, _, fields in listed], "edge attribute 'edge_attr'"),
        pos=_stacked([fields.get("pos") for _, fields in graph.nodes(data=True)], "node attribute 'pos'"),
        y=_tensor(graph.graph.get("y"))
        if "y" in graph.graph
        else _stacked([fields.get("y") for _, fields in graph.nodes(data=True)], "node attribute 'y'"),
    )
    plain = NO_FEATURES if all(value is None for value in features) else features
    return RawGraph(len(number), pairs[:, 0], pairs[:, 1], weights, False, plain)


def _stacked(values: list[Any], name: str) -> Tensor | None:
    missing = sum(value is None for value in values)
    if missing == len(values):
        return None
    if missing:
        raise GraphError(f"{name} is missing on {missing} of {len(values)}; expected it on all or on none")
    try:
        return torch.stack([torch.as_tensor(value) for value in values])
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(f"{name} cannot be stacked into one tensor: {error}") from None


def _from_edges(num_nodes: Any, edges: Any) -> RawGraph:
    """``(num_nodes, edges)``: a sequence of pairs; or a tensor or array, (2, m) or (m, 2).

    Of the 2 × 2 ones a tensor is PyG's (2, m), and an array is refused: numpy has no custom to go by.
    """
    count = _whole_number(num_nodes, "num_nodes")
    is_array = isinstance(edges, (np.ndarray, Tensor))
    if not is_array and not isinstance(edges, (list, tuple)):
        edges = list(edges) if isinstance(edges, Iterable) and not isinstance(edges, (str, bytes)) else edges
    pairs = _integer_array(edges, "edges")
    if pairs.size == 0:
        return RawGraph(count, _NO_INTEGERS, _NO_INTEGERS, None, False)
    if pairs.ndim != 2 or 2 not in (pairs.shape if is_array else pairs.shape[1:]):
        raise GraphError(
            f"edges has shape {pairs.shape}; expected pairs (m, 2){', or a (2, m) array' if is_array else ''}"
        )
    if isinstance(edges, np.ndarray) and pairs.shape == (2, 2) and not np.array_equal(pairs, pairs.T):
        raise GraphError(
            f"a 2 × 2 array of edges is ambiguous: {pairs.tolist()} can be read by rows or by columns. Pass a list of "
            "pairs (edges.tolist()), or a (2, m) tensor"
        )
    source, target = pairs if pairs.shape[0] == 2 and is_array else pairs.T
    return RawGraph(count, source, target, None, False)


def _from_sparse(matrix: Any) -> RawGraph:
    _check_square(matrix.shape)
    entries = matrix.tocoo(copy=True)
    entries.data = _weights(entries.data, len(entries.data))  # before small integers overflow in a sum
    entries.sum_duplicates()  # scipy's own meaning of repeated coordinates
    weights = entries.data
    return _from_entries(matrix.shape[0], entries.row.astype(np.int64), entries.col.astype(np.int64), weights)


def _from_dense(matrix: NDArray[Any] | Tensor) -> RawGraph:
    _check_square(matrix.shape)
    if isinstance(matrix, Tensor) and matrix.layout is not torch.strided:
        entries = matrix.detach().to_sparse(layout=torch.sparse_coo).coalesce()
        source, target = entries.indices().numpy()
        return _from_entries(matrix.shape[0], source, target, _real_array(entries.values(), "the adjacency matrix"))
    array = _real_array(matrix, "the adjacency matrix")
    source, target = np.nonzero(array)  # NaN is not zero, and is refused with its place later
    return _from_entries(array.shape[0], source, target, array[source, target])


def _check_square(shape: Any) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(f"got a matrix of shape {tuple(shape)}; expected a square adjacency matrix (n, n)")


def _from_entries(num_nodes: int, source: Integers, target: Integers, weights: Floats) -> RawGraph:
    kept = weights != 0
    source, target, weights = source[kept], target[kept], weights[kept]
    return RawGraph(num_nodes, source, target, None if np.all(weights == 1) else weights, True)


def _integer_array(value: Any, name: str) -> Integers:
    if isinstance(value, Tensor) and (fault := tensor_fault(value)):
        raise GraphError(f"{name} is {fault}")
    try:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    except (OverflowError, ValueError, TypeError) as error:
        raise GraphError(f"{name} cannot be read as whole numbers: {error}") from None
    if array.size == 0:
        return array.astype(np.int64) if array.ndim == 2 else np.zeros((2, 0), dtype=np.int64)
    if array.dtype == object:
        raise GraphError(f"{name} holds {array.flat[0]!r} …; expected whole numbers 0…n−1 within 64 bits")
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        largest = f", largest {array.max()}" if array.dtype.kind in "fu" else ""
        raise GraphError(
            f"{name} is of type {array.dtype}{largest}; expected 64-bit whole numbers 0…n−1. Convert with .long()"
        )
    return array.astype(np.int64, copy=False)


def _real_array(value: Any, name: str) -> Floats:
    if isinstance(value, Tensor) and (fault := tensor_fault(value)):
        raise GraphError(f"{name} is {fault}")
    try:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        return array.astype(np.float64)
    except (OverflowError, ValueError, TypeError) as error:
        raise GraphError(f"{name} cannot be read as real numbers: {error}") from None


def _weights(value: Any, count: int) -> Floats:
    array = _real_array(value, "the edge weights")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (count,):
        raise GraphError(f"the edge weights have shape {array.shape}; expected one number for each of {count} edges")
    return array


def _tensor(value: Any) -> Tensor | None:
    if value is None or isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(np.array(value) if isinstance(value, np.ndarray) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(f"a feature of type {_kind(value)} cannot be read as a tensor: {error}") from None
