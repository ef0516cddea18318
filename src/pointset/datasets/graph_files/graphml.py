"""GraphML (.graphml): XML that most graph tools read. Holds everything; see graphml_features.py for how.

Parsing and writing are networkx's, graph by graph, so that a bad ``<graph>`` does not stop the others.
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

from pointset.datasets.graph_files.graphml_features import attributes_of, features_of, ignored_attributes, weights_of
from pointset.datasets.graph_files.node_names import lost_names, ordered_names
from pointset.datasets.graph_files.records import GraphRecord, shown_name
from pointset.errors import FileFormatError, GraphError, PointsetError
from pointset.points.graphs import Graph, GraphArrays

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"


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


def _parsed(path: Path) -> ElementTree.Element:
    content = path.read_bytes()
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
    number = {name: index for index, name in enumerate(names)}
    pairs = [(number[u], number[v]) for u, v in network.edges()]
    features = features_of(nodes, edges, network.graph)
    arrays = GraphArrays.from_flat(
        num_nodes=np.array([len(nodes)]),
        num_edges=np.array([len(edges)]),
        edges=np.array(pairs, dtype=np.int64).reshape(-1, 2).T,
        weights=weights_of(edges),
        features=None if all(value is None for value in features) else [features],
    )
    ignored = ignored_attributes(nodes, edges, network.graph)
    return GraphRecord(name, arrays[0], ignored=(*ignored, *lost_names(names)))


def _network(graph: Graph) -> nx.Graph[int]:
    nodes, edges, whole = attributes_of(graph)
    network: nx.Graph[int] = nx.Graph(**whole)
    network.add_nodes_from(enumerate(nodes))
    network.add_edges_from((u, v, attributes) for (u, v), attributes in zip(graph.edges.T.tolist(), edges, strict=True))
    return network
