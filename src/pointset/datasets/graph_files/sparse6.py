"""sparse6: graph6's sister for sparse graphs (.s6). Holds edges and self-loops. The coding itself is networkx's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx as nx
import numpy as np

from pointset.datasets.graph_files import graph6
from pointset.datasets.graph_files.formats import GraphRecord
from pointset.errors import FileFormatError, GraphError
from pointset.points.graphs import Graph, Integers

# Isolated nodes take no space in sparse6, so ten bytes can claim 68 billion nodes. Real graphs have more characters
# than hundredths of their nodes.
_FREE_NODES = 100_000
_NODES_PER_CHARACTER = 100


def read(path: Path) -> Iterator[GraphRecord]:
    """The same reader as graph6's: every line says itself which of the two it is."""
    return graph6.read(path)


def edges_of_line(line: bytes, num_nodes: int) -> Integers:
    """The edges (2, m) of a line that starts with ':', whose characters and number of nodes were checked."""
    if num_nodes > (limit := _node_limit(line)):
        raise GraphError(
            f"the line claims {num_nodes} nodes in {len(line)} characters; expected at most {limit} for this length. "
            "It is damaged, or has next to no edges"
        )
    graph = nx.from_sparse6_bytes(line)  # type: ignore[call-overload]  # the stubs say str, the function wants bytes
    return np.array([(u, v) for u, v in graph.edges()], dtype=np.int64).reshape(-1, 2).T


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """A line for each graph; the format has no place for names."""
    with path.open("wb") as file:
        for graph, name in zip(graphs, names, strict=True):
            network: nx.Graph[int] = nx.Graph()
            network.add_nodes_from(range(graph.num_nodes))
            network.add_edges_from(graph.edges.T.tolist())
            line = nx.to_sparse6_bytes(network, header=False)
            if graph.num_nodes > _node_limit(line):
                raise FileFormatError(
                    f"{name}: {graph.num_nodes} nodes with only {graph.edges.shape[1]} edges; sparse6 says nothing of "
                    "isolated nodes, so a reader could not tell it from damage. Write GraphML (.graphml)"
                )
            file.write(line)


def _node_limit(line: bytes) -> int:
    return _FREE_NODES + _NODES_PER_CHARACTER * len(line.rstrip())
