"""Features as GraphML attributes, and back.

Numbers on nodes, ``x0, x1, …``, ``pos0, …``, ``y0, …``; on edges, ``weight`` and ``edge_attr0, …``; a target of the
whole graph is ``y0, …`` on the graph. The graph's attribute ``pointset`` notes types and shapes. Files without it,
from other tools, get whole numbers as int64, others as float64, and y as PyG has it: flat where it is one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from pointset.datasets.graph_files.columns import (
    TensorKind,
    kinds_as_text,
    kinds_from_text,
    numbered_columns,
    rows_of,
    tensor_of,
)
from pointset.errors import GraphError
from pointset.points.graphs import Features, Floats, Graph

_KINDS = "pointset"
_GRAPH_Y = "graph_y"  # how the note calls a y of the whole graph
_SILENTLY_IGNORED = {"id", "key", _KINDS}  # networkx's own, and ours

Attributes = dict[str, Any]


def attributes_of(graph: Graph) -> tuple[list[Attributes], list[Attributes], Attributes]:
    """The attributes of each node, of each edge, and of the graph."""
    nodes: list[Attributes] = [{} for _ in range(graph.num_nodes)]
    edges: list[Attributes] = [{} for _ in range(graph.edges.shape[1])]
    whole: Attributes = {}
    kinds: dict[str, TensorKind] = {}
    x, edge_attr, pos, y = graph.features
    y_on_nodes = y is not None and y.dim() > 0 and y.shape[0] == graph.num_nodes != 1
    for name, tensor, items in (
        ("x", x, nodes),
        ("edge_attr", edge_attr, edges),
        ("pos", pos, nodes),
        ("y", y if y_on_nodes else None, nodes),
    ):
        if tensor is not None:
            kinds[name] = TensorKind(tensor.dtype, tuple(tensor.shape[1:]))
            for item, row in zip(items, rows_of(tensor, name), strict=True):
                item.update({f"{name}{column}": value for column, value in enumerate(row)})
    if y is not None and not y_on_nodes:
        kinds[_GRAPH_Y] = TensorKind(y.dtype, tuple(y.shape))
        whole.update({f"y{column}": value for column, value in enumerate(rows_of(y.reshape(1, -1), "y")[0])})
    if graph.weights is not None:
        for item, weight in zip(edges, graph.weights.tolist(), strict=True):
            item["weight"] = weight
    if kinds:
        whole[_KINDS] = kinds_as_text(kinds)
    return nodes, edges, whole


def features_of(nodes: list[Attributes], edges: list[Attributes], whole: Attributes) -> Features:
    """The features that the attributes hold.

    Raises:
        GraphError: an attribute is missing somewhere, or is not a number.
    """
    kinds = kinds_from_text(str(whole[_KINDS])) if _KINDS in whole else {}
    return Features(
        x=_feature(nodes, "x", kinds.get("x"), "nodes"),
        edge_attr=_feature(edges, "edge_attr", kinds.get("edge_attr"), "edges"),
        pos=_feature(nodes, "pos", kinds.get("pos"), "nodes"),
        y=_target(nodes, whole, kinds),
    )


def _feature(items: list[Attributes], stem: str, kind: TensorKind | None, where: str) -> Tensor | None:
    columns = numbered_columns({name for item in items for name in item}, stem)
    if not columns and kind is None:
        return None
    for column in columns:
        if missing := sum(column not in item for item in items):
            raise GraphError(f"{column} is missing on {missing} of {len(items)} {where}; expected on all or on none")
    return tensor_of([[item[column] for column in columns] for item in items], stem, kind)


def _target(nodes: list[Attributes], whole: Attributes, kinds: dict[str, TensorKind]) -> Tensor | None:
    on_graph = _feature([whole], "y", kinds.get(_GRAPH_Y), "graph")
    on_nodes = _feature(nodes, "y", kinds.get("y"), "nodes")
    if on_graph is not None and on_nodes is not None:
        raise GraphError("y0 stands on the graph and on its nodes; expected one of the two")
    if on_graph is not None:
        return on_graph[0] if _GRAPH_Y in kinds else _flat_if_single(on_graph)
    return on_nodes if on_nodes is None or "y" in kinds else _flat_if_single(on_nodes)


def _flat_if_single(y: Tensor) -> Tensor:
    return y[:, 0] if y.shape[1] == 1 else y


def weights_of(edges: list[Attributes]) -> Floats | None:
    """The attribute ``weight`` of all edges, None where no edge has it."""
    missing = sum("weight" not in edge for edge in edges)
    if missing == len(edges):
        return None
    if missing:
        raise GraphError(f"weight is missing on {missing} of {len(edges)} edges; expected on all or on none")
    weights: Floats = np.asarray(tensor_of([[edge["weight"]] for edge in edges], "weight"), dtype=np.float64)[:, 0]
    return weights


def ignored_attributes(nodes: list[Attributes], edges: list[Attributes], whole: Attributes) -> tuple[str, ...]:
    """Attributes that no feature is read from."""
    on_nodes, on_edges = ({name for item in items for name in item} for items in (nodes, edges))
    for stem in ("x", "pos", "y"):
        on_nodes -= set(numbered_columns(on_nodes, stem))
    on_edges -= {"weight", *numbered_columns(on_edges, "edge_attr")}
    on_graph = set(whole) - set(numbered_columns(whole, "y"))
    return tuple(sorted((on_nodes | on_edges | on_graph) - _SILENTLY_IGNORED))
