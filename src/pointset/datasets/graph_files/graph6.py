"""graph6 (.g6) and sparse6 (.s6): each graph is a line of printable characters, '?' (63) to '~' (126), six bits each.

A graph6 line is the number of nodes, then the upper triangle of A column by column; it holds edges only. Decoded with
numpy, as networkx needs 0.4 ms for a molecule and seconds for 3,000 nodes. A sparse6 line starts with ':', holds edges
and self-loops, and grows with the edges; its coding is networkx's. Files of either suffix may hold lines of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.graph_files.formats import GraphRecord, shown_name
from pointset.errors import FileFormatError, GraphError, MemoryForecastError
from pointset.files import open_binary
from pointset.machine import check_fits
from pointset.points.graphs import Graph

_LOWEST, _HIGHEST = 63, 126
_CHARACTERS = bytes(range(_LOWEST, _HIGHEST + 1))
_HEADERS = (b">>graph6<<", b">>sparse6<<")
_UNSUPPORTED = {ord("&"): "digraph6, a directed graph", ord(";"): "incremental sparse6"}
_MOST_NODES_WRITTEN = 50_000  # 200 MB in a line; sparse6 is the format for such graphs
_LONGEST_LINE = 2**28  # bytes; what is longer is not read, so that a file without line ends cannot fill the memory
_BYTES_PER_EDGE = 64  # of memory while edges are decoded and checked
_BYTES_PER_CHARACTER = 24  # likewise, of the six bits of a character
# Isolated nodes take no space in sparse6, so ten bytes can claim 68 billion nodes. Real graphs have more characters
# than hundredths of their nodes.
_FREE_NODES = 100_000
_NODES_PER_CHARACTER = 100
_SMALLER = "Read it on a machine with more memory"


def read(path: Path) -> Iterator[GraphRecord]:
    """A record for each line that is not blank."""
    found = False
    with open_binary(path) as file:
        for number, line in enumerate(_lines(file), 1):
            content = line.strip()
            for header in _HEADERS:
                content = content.removeprefix(header)
            if not content:
                continue
            found = True
            name = f"{shown_name(path)}:{number}"
            try:
                yield GraphRecord(name, graph_of_line(content))
            except (GraphError, MemoryForecastError) as error:
                yield GraphRecord(name, problem=str(error))
    if not found:
        raise FileFormatError(f"{shown_name(path)} is empty; expected one graph6 or sparse6 line for each graph")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Every line; one that is too long comes cut to one byte more than may be."""
    while line := file.readline(_LONGEST_LINE + 1):
        yield line
        while len(line) > _LONGEST_LINE and not line.endswith(b"\n"):
            line = file.readline(_LONGEST_LINE + 1)  # the rest of a cut line


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """A line for each graph, of the format that the suffix says; neither has a place for names."""
    line_of = _sparse6_line if path.suffix.lower() == ".s6" else _graph6_line
    with path.open("wb") as file:
        for graph, name in zip(graphs, names, strict=True):
            file.write(line_of(graph, name) + b"\n")


def graph_of_line(line: bytes) -> tuple[int, Tensor]:
    """(num_nodes, edges (2, m)) of one graph6 or sparse6 line without header."""
    if len(line) > _LONGEST_LINE:
        raise GraphError(f"the line has more than {_LONGEST_LINE:,} characters; write it as an edge list (.csv)")
    check_fits(_BYTES_PER_CHARACTER * len(line), f"decoding {len(line):,} characters needs", _SMALLER)
    if line[0] in _UNSUPPORTED:
        raise GraphError(f"the line is {_UNSUPPORTED[line[0]]}; expected graph6 or sparse6")
    is_sparse = line[:1] == b":"
    body = line[1:] if is_sparse else line
    if strange := body.translate(None, delete=_CHARACTERS):
        column = line.index(strange[0], 1 if is_sparse else 0) + 1
        raise GraphError(
            f"character {column} is byte {strange[0]}; expected bytes {_LOWEST} ('?') to {_HIGHEST} ('~'), as graph6 "
            "and sparse6 use no others"
        )
    num_nodes, rest = _node_count(body)
    edges = _sparse6_edges(line, num_nodes) if is_sparse else _graph6_edges(num_nodes, rest)
    return num_nodes, torch.from_numpy(edges)


def _node_count(body: bytes) -> tuple[int, bytes]:
    """The number of nodes (one character up to 62, '~' and three beyond, '~~' and six over 258,047), and the rest."""
    prefix, digits = (2, 6) if body[:2] == b"~~" else (1, 3) if body[:1] == b"~" else (0, 1)
    if len(body) < prefix + digits:
        raise GraphError("the line ends inside the number of nodes; it was cut short")
    count = 0
    for byte in body[prefix : prefix + digits]:
        count = count << 6 | byte - _LOWEST
    return count, body[prefix + digits :]


def _graph6_edges(n: int, rest: bytes) -> Integers:
    bits = n * (n - 1) // 2
    expected = (bits + 5) // 6
    if len(rest) != expected:
        raise GraphError(
            f"the line claims {n} nodes, which take {expected} characters for the edges; got {len(rest)}. It was cut "
            "short or joined with another"
        )
    sixes = np.frombuffer(rest, dtype=np.uint8) - _LOWEST
    flags = np.unpackbits(sixes[:, None], axis=1)[:, 2:].reshape(-1)[:bits]
    m = int(np.count_nonzero(flags))
    check_fits(_BYTES_PER_EDGE * m, f"a graph of {n:,} nodes and {m:,} edges needs", _SMALLER)
    at = np.flatnonzero(flags)
    high = ((1 + np.sqrt(8.0 * at + 1)) // 2).astype(np.int64)  # column j begins at bit j(j−1)/2
    return np.stack([at - high * (high - 1) // 2, high])


def _sparse6_edges(line: bytes, num_nodes: int) -> Integers:
    if num_nodes > (limit := _sparse6_node_limit(line)):
        raise GraphError(
            f"the line claims {num_nodes} nodes in {len(line)} characters; expected at most {limit} for this length. "
            "It is damaged, or has next to no edges"
        )
    sixes = np.frombuffer(line, dtype=np.uint8, offset=_sparse6_begin(line)) - _LOWEST
    bits = np.unpackbits(sixes[:, None], axis=1)[:, 2:].reshape(-1)
    width = 1 + max(1, (num_nodes - 1).bit_length())  # of a unit: b, then x
    units = bits[: bits.size // width * width].reshape(-1, width)
    m = len(units)  # at most
    check_fits(_BYTES_PER_EDGE * m, f"a graph of {num_nodes:,} nodes and up to {m:,} edges needs", _SMALLER)
    x = np.zeros(m, dtype=np.int64)
    for column in units.T[1:]:
        x = 2 * x + column
    # The coding, unit by unit: v += b; if x > v, v = x, else {x, v} is an edge. So v = max(v before + b, x), and with
    # steps B = b₁ + … + b, v − B is the largest x − B so far, or 0.
    steps = np.cumsum(units[:, 0], dtype=np.int64)
    moved = np.concatenate([[0], np.maximum.accumulate(np.maximum(x - steps, 0))[:-1]]) + steps if m else steps
    beyond = np.flatnonzero((x >= num_nodes) | (moved >= num_nodes))  # only the padding at the end
    used = int(beyond[0]) if beyond.size else m
    x, moved = x[:used], moved[:used]
    edges: Integers = np.unique(np.stack([x, moved])[:, x <= moved], axis=1)
    return edges


def _sparse6_begin(line: bytes) -> int:
    """Where the edges begin: behind ``:`` and the number of nodes."""
    return len(line) - len(_node_count(line[1:])[1])


def _graph6_line(graph: Graph, name: str) -> bytes:
    if graph.num_nodes > _MOST_NODES_WRITTEN:
        raise FileFormatError(
            f"{name}: {graph.num_nodes} nodes take {graph.num_nodes**2 // 12_000_000} MB in graph6; expected "
            f"at most {_MOST_NODES_WRITTEN} nodes. Write sparse6 (.s6), which grows with the edges"
        )
    return line_of_graph(graph)


def line_of_graph(graph: Graph) -> bytes:
    """The graph6 line of a graph without self-loops."""
    n = graph.num_nodes
    low, high = graph.edges
    at = high * (high - 1) // 2 + low
    sixes = np.zeros((n * (n - 1) // 2 + 5) // 6, dtype=np.uint8)
    np.bitwise_or.at(sixes, at // 6, (32 >> at % 6).astype(np.uint8))
    prefix, digits = (0, 1) if n <= 62 else (1, 3) if n <= 258_047 else (2, 6)
    count = [_HIGHEST] * prefix + [_LOWEST + (n >> 6 * place & 63) for place in reversed(range(digits))]
    return bytes(count) + (sixes + _LOWEST).tobytes()


def _sparse6_line(graph: Graph, name: str) -> bytes:
    network: nx.Graph[int] = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    network.add_edges_from(graph.edges.T.tolist())
    line: bytes = nx.to_sparse6_bytes(network, header=False).rstrip()
    if graph.num_nodes > _sparse6_node_limit(line):
        raise FileFormatError(
            f"{name}: {graph.num_nodes} nodes with only {graph.edges.shape[1]} edges; sparse6 says nothing of "
            "isolated nodes, so a reader could not tell it from damage. Write GraphML (.graphml)"
        )
    return line


def _sparse6_node_limit(line: bytes) -> int:
    return _FREE_NODES + _NODES_PER_CHARACTER * len(line)
