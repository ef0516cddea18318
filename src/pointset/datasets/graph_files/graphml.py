"""GraphML (.graphml): XML that most graph tools read. Holds everything.

Parsing and writing are networkx's, graph by graph, so that a bad ``<graph>`` does not stop the others. Features are
numbers on nodes, ``x0, x1, …``, ``pos0, …``, ``y0, …``; on edges, ``weight`` and ``edge_attr0, …``; a target of the
whole graph is ``y0, …`` on the graph. The graph's attribute ``pointset`` notes types and shapes. Files without it,
from other tools, get whole numbers as int64, others as float64, and y as PyG has it: flat where it is one number.
"""

from __future__ import annotations

import warnings
import xml.parsers.expat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
from networkx.readwrite.graphml import GraphMLReader, GraphMLWriter
from torch import Tensor

from pointset.arrays import Floats
from pointset.datasets.graph_files.formats import GraphRecord, shown_name
from pointset.datasets.graph_files.text_formats import (
    TensorType,
    graph_of_names,
    lost_names,
    numbered_columns,
    ordered_names,
    rows_of,
    tensor_of,
    types_from_json,
    types_to_json,
)
from pointset.errors import FileFormatError, GraphError, PointsetError
from pointset.files import read_bytes
from pointset.points.graphs import Features, Graph

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_TYPES = "pointset"  # the attribute that notes types and shapes
_GRAPH_Y = "graph_y"  # the name of a y of the whole graph in it
_SILENTLY_IGNORED = {"id", "key", _TYPES}  # networkx's own, and ours

Attributes = dict[str, Any]


def read(path: Path) -> Iterator[GraphRecord]:
    """A record for each ``<graph>`` of the file."""
    root = _parsed(path)
    elements = root.findall(f"{{{_NAMESPACE}}}graph")
    if not elements:
        raise FileFormatError(
            f"{shown_name(path)} holds no <graph> in the GraphML namespace; expected <graphml xmlns='{_NAMESPACE}'> "
            "with a <graph> inside"
        )
    with _networkx_errors(f"{shown_name(path)}: "):
        keys = GraphMLReader().find_graphml_keys(root)  # type: ignore[no-untyped-call]
    for index, element in enumerate(elements):
        name = shown_name(path) if len(elements) == 1 else f"{shown_name(path)}[{index}]"
        try:
            yield _record(name, element, keys)
        except PointsetError as error:
            yield GraphRecord(name, problem=str(error))


def _parsed(path: Path) -> ElementTree.Element:
    content = read_bytes(path)
    try:
        _refuse_entities(content)
        if b"xmlns" not in content:  # some tools forget it
            content = content.replace(b"<graphml>", f'<graphml xmlns="{_NAMESPACE}">'.encode(), 1)
        return ElementTree.fromstring(content)  # noqa: S314 - document types, the way in for attacks, are refused
    except (ElementTree.ParseError, xml.parsers.expat.ExpatError, ValueError, LookupError) as error:
        raise FileFormatError(
            f"{shown_name(path)} is not readable as XML ({error}); expected GraphML. It is damaged, cut short or of "
            "another kind"
        ) from None


def _refuse_entities(content: bytes) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type, which GraphML does not need and attacks use")

    parser = xml.parsers.expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)


@contextmanager
def _networkx_errors(where: str = "") -> Iterator[None]:
    try:
        with warnings.catch_warnings():  # of ports, and of keys without type, which make no difference here
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # networkx raises KeyError, TypeError, AttributeError, … at malformed content
        raise FileFormatError(f"{where}not valid GraphML ({type(error).__name__}: {error})") from None


def _record(name: str, element: ElementTree.Element, keys: tuple[Any, Any]) -> GraphRecord:
    with _networkx_errors():
        network = GraphMLReader().make_graph(element, *keys)  # type: ignore[no-untyped-call]
    if network.is_directed():
        raise GraphError(
            "the graph is directed; expected an undirected one. If direction does not matter, write "
            'edgedefault="undirected"'
        )
    on_nodes, on_edges = network.graph.pop("node_default"), network.graph.pop("edge_default")
    names = ordered_names(list(network.nodes))
    nodes = [{**on_nodes, **network.nodes[name]} for name in names]
    edges = [{**on_edges, **attributes} for _, _, attributes in network.edges(data=True)]
    features = _features_of(nodes, edges, network.graph)
    graph = graph_of_names(names, network.edges(), _weights_of(edges), features)
    ignored = _ignored_attributes(nodes, edges, network.graph)
    return GraphRecord(name, graph, ignored=(*ignored, *lost_names(names)))


def _features_of(nodes: list[Attributes], edges: list[Attributes], whole: Attributes) -> Features:
    """The features that the attributes hold; numbers on all nodes or edges, or on none."""
    types = types_from_json(str(whole[_TYPES])) if _TYPES in whole else {}
    return Features(
        x=_feature(nodes, "x", types.get("x"), "nodes"),
        edge_attr=_feature(edges, "edge_attr", types.get("edge_attr"), "edges"),
        pos=_feature(nodes, "pos", types.get("pos"), "nodes"),
        y=_target(nodes, whole, types),
    )


def _feature(items: list[Attributes], stem: str, type_: TensorType | None, where: str) -> Tensor | None:
    columns = numbered_columns({name for item in items for name in item}, stem)
    if not columns and type_ is None:
        return None
    for column in columns:
        if missing := sum(column not in item for item in items):
            raise GraphError(f"{column} is missing on {missing} of {len(items)} {where}; expected on all or on none")
    return tensor_of([[item[column] for column in columns] for item in items], stem, type_)


def _target(nodes: list[Attributes], whole: Attributes, types: dict[str, TensorType]) -> Tensor | None:
    on_graph = _feature([whole], "y", types.get(_GRAPH_Y), "graph")
    on_nodes = _feature(nodes, "y", types.get("y"), "nodes")
    if on_graph is not None and on_nodes is not None:
        raise GraphError("y0 stands on the graph and on its nodes; expected one of the two")
    if on_graph is not None:
        return on_graph[0] if _GRAPH_Y in types else _flat_if_single(on_graph)
    return on_nodes if on_nodes is None or "y" in types else _flat_if_single(on_nodes)


def _flat_if_single(y: Tensor) -> Tensor:
    return y[:, 0] if y.shape[1] == 1 else y


def _weights_of(edges: list[Attributes]) -> Floats | None:
    """The attribute ``weight`` of all edges, None where no edge has it."""
    missing = sum("weight" not in edge for edge in edges)
    if missing == len(edges):
        return None
    if missing:
        raise GraphError(f"weight is missing on {missing} of {len(edges)} edges; expected on all or on none")
    weights: Floats = np.asarray(tensor_of([[edge["weight"]] for edge in edges], "weight"), dtype=np.float64)[:, 0]
    return weights


def _ignored_attributes(nodes: list[Attributes], edges: list[Attributes], whole: Attributes) -> tuple[str, ...]:
    """Attributes that no feature is read from."""
    on_nodes, on_edges = ({name for item in items for name in item} for items in (nodes, edges))
    for stem in ("x", "pos", "y"):
        on_nodes -= set(numbered_columns(on_nodes, stem))
    on_edges -= {"weight", *numbered_columns(on_edges, "edge_attr")}
    on_graph = set(whole) - set(numbered_columns(whole, "y"))
    return tuple(sorted((on_nodes | on_edges | on_graph) - _SILENTLY_IGNORED))


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """All graphs into one file; nodes are numbered, names have no place."""
    writer = GraphMLWriter(prettyprint=True)
    for graph, name in zip(graphs, names, strict=True):
        try:
            writer.add_graph_element(_network(graph))
        except GraphError as error:
            raise FileFormatError(f"{name}: {error}") from None
    with path.open("wb") as file:
        writer.dump(file)


def _network(graph: Graph) -> nx.Graph[int]:
    nodes, edges, whole = _attributes_of(graph)
    network: nx.Graph[int] = nx.Graph(**whole)
    network.add_nodes_from(enumerate(nodes))
    network.add_edges_from((u, v, attributes) for (u, v), attributes in zip(graph.edges.T.tolist(), edges, strict=True))
    return network


def _attributes_of(graph: Graph) -> tuple[list[Attributes], list[Attributes], Attributes]:
    """The attributes of each node, of each edge, and of the graph."""
    nodes: list[Attributes] = [{} for _ in range(graph.num_nodes)]
    edges: list[Attributes] = [{} for _ in range(graph.edges.shape[1])]
    whole: Attributes = {}
    types: dict[str, TensorType] = {}
    x, edge_attr, pos, y, *_ = graph.features
    y_on_nodes = y is not None and y.dim() > 0 and y.shape[0] == graph.num_nodes != 1
    for name, tensor, items in (
        ("x", x, nodes),
        ("edge_attr", edge_attr, edges),
        ("pos", pos, nodes),
        ("y", y if y_on_nodes else None, nodes),
    ):
        if tensor is not None:
            types[name] = TensorType(tensor.dtype, tuple(tensor.shape[1:]))
            for item, row in zip(items, rows_of(tensor, name), strict=True):
                item.update({f"{name}{column}": value for column, value in enumerate(row)})
    if y is not None and not y_on_nodes:
        types[_GRAPH_Y] = TensorType(y.dtype, tuple(y.shape))
        whole.update({f"y{column}": value for column, value in enumerate(rows_of(y.reshape(1, -1), "y")[0])})
    if graph.weights is not None:
        for item, weight in zip(edges, graph.weights.tolist(), strict=True):
            item["weight"] = weight
    if types:
        whole[_TYPES] = types_to_json(types)
    return nodes, edges, whole
