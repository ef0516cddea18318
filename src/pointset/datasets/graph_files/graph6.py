"""graph6: one graph in a line of printable characters (.g6). Holds edges only.

A line is the number of nodes, then the bits of the upper triangle of A column by column, six to a character from '?'
(63) to '~' (126). Decoded with numpy, as networkx needs 0.4 ms for a molecule and seconds for 3,000 nodes. Lines that
start with ':' are sparse6, in files of either suffix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.datasets.graph_files.formats import GraphRecord, shown_name
from pointset.errors import FileFormatError, GraphError
from pointset.points.graphs import Graph, Integers

_LOWEST, _HIGHEST = 63, 126
_CHARACTERS = bytes(range(_LOWEST, _HIGHEST + 1))
_HEADERS = (b">>graph6<<", b">>sparse6<<")
_OTHER_KINDS = {ord("&"): "digraph6, a directed graph", ord(";"): "incremental sparse6"}
_MOST_NODES_WRITTEN = 50_000  # 200 MB in a line; sparse6 is the format for such graphs


class _Counted(NamedTuple):
    num_nodes: int
    rest: bytes  # what follows the number of nodes


def read(path: Path) -> Iterator[GraphRecord]:
    """A record for each line that is not blank."""
    found = False
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            content = line.strip()
            for header in _HEADERS:
                content = content.removeprefix(header)
            if not content:
                continue
            found = True
            name = f"{shown_name(path)}:{number}"
            try:
                yield GraphRecord(name, graph_of_line(content))
            except GraphError as error:
                yield GraphRecord(name, problem=str(error))
    if not found:
        raise FileFormatError(f"{shown_name(path)} is empty; expected one graph6 or sparse6 line for each graph")


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """A line for each graph; the format has no place for names."""
    with path.open("wb") as file:
        for graph, name in zip(graphs, names, strict=True):
            if graph.num_nodes > _MOST_NODES_WRITTEN:
                raise FileFormatError(
                    f"{name}: {graph.num_nodes} nodes take {graph.num_nodes**2 // 12_000_000} MB in graph6; expected "
                    f"at most {_MOST_NODES_WRITTEN} nodes. Write sparse6 (.s6), which grows with the edges"
                )
            file.write(line_of_graph(graph) + b"\n")


def graph_of_line(line: bytes) -> tuple[int, Tensor]:
    """(num_nodes, edges (2, m)) of one graph6 or sparse6 line without header.

    Raises:
        GraphError: the line is not of the format.
    """
    if line[0] in _OTHER_KINDS:
        raise GraphError(f"the line is {_OTHER_KINDS[line[0]]}; expected graph6 or sparse6")
    is_sparse = line[:1] == b":"
    body = line[1:] if is_sparse else line
    if strange := body.translate(None, delete=_CHARACTERS):
        column = line.index(strange[0], 1 if is_sparse else 0) + 1
        raise GraphError(
            f"character {column} is byte {strange[0]}; expected bytes {_LOWEST} ('?') to {_HIGHEST} ('~'), as graph6 "
            "and sparse6 use no others"
        )
    counted = _node_count(body)
    if is_sparse:
        from pointset.datasets.graph_files.sparse6 import edges_of_line

        edges = edges_of_line(line, counted.num_nodes)
    else:
        edges = _edges(counted)
    return counted.num_nodes, torch.from_numpy(edges)


def _node_count(body: bytes) -> _Counted:
    """One character up to 62 nodes, '~' and three beyond, '~~' and six beyond 258,047."""
    prefix, digits = (2, 6) if body[:2] == b"~~" else (1, 3) if body[:1] == b"~" else (0, 1)
    if len(body) < prefix + digits:
        raise GraphError("the line ends inside the number of nodes; it was cut short")
    count = 0
    for byte in body[prefix : prefix + digits]:
        count = count << 6 | byte - _LOWEST
    return _Counted(count, body[prefix + digits :])


def _edges(counted: _Counted) -> Integers:
    n, rest = counted
    bits = n * (n - 1) // 2
    expected = (bits + 5) // 6
    if len(rest) != expected:
        raise GraphError(
            f"the line claims {n} nodes, which take {expected} characters for the edges; got {len(rest)}. It was cut "
            "short or joined with another"
        )
    sixes = np.frombuffer(rest, dtype=np.uint8) - _LOWEST
    flags = np.unpackbits(sixes[:, None], axis=1)[:, 2:].reshape(-1)[:bits]
    at = np.flatnonzero(flags)
    high = ((1 + np.sqrt(8.0 * at + 1)) // 2).astype(np.int64)  # column j begins at bit j(j−1)/2
    return np.stack([at - high * (high - 1) // 2, high])


def line_of_graph(graph: Graph) -> bytes:
    """The graph6 line of a graph without self-loops."""
    n = graph.num_nodes
    low, high = graph.edges
    at = high * (high - 1) // 2 + low
    sixes = np.zeros((n * (n - 1) // 2 + 5) // 6, dtype=np.uint8)
    np.bitwise_or.at(sixes, at // 6, (32 >> at % 6).astype(np.uint8))
    return bytes(_count_characters(n)) + (sixes + _LOWEST).tobytes()


def _count_characters(n: int) -> list[int]:
    prefix, digits = (0, 1) if n <= 62 else (1, 3) if n <= 258_047 else (2, 6)
    return [_HIGHEST] * prefix + [_LOWEST + (n >> 6 * place & 63) for place in reversed(range(digits))]
