"""Some graphs side by side, in the arrays that counting reads: :class:`Block`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.errors import GraphError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Integers = NDArray[np.int64]


class Block(NamedTuple):
    """Graphs with N nodes in all, numbered through. Tables hold one n × n matrix after the other."""

    degree: Integers  # (N,)
    two_steps: Integers  # (N,): walks with two edges, Σ_x A_vx deg x
    first: Integers  # (N,): where a node's neighbours begin
    neighbours: Integers  # (2M,)
    row: Integers  # (N,): the entry of a table for u and v of one graph is at row[u] + v
    table: NDArray[np.bool_]  # (Σ n²,): A
    squares: NDArray[np.int32]  # (Σ n²,): A²
    cubes: NDArray[np.int32]  # (Σ n²,): A³


def make_block(num_nodes: Integers, graph: Integers, edges: Integers) -> Block:
    """The graphs with ``num_nodes`` (G,) nodes; ``edges`` (2, M), each in the ``graph`` (M,) that it belongs to.

    An edge may be listed more than once and in both directions: the table takes it once.
    """
    from scipy.sparse import csr_array  # only here: commands that count nothing should not wait for it

    node_start = np.cumsum(num_nodes) - num_nodes
    table_start = np.cumsum(num_nodes**2) - num_nodes**2
    begin = np.repeat(node_start, num_nodes)  # (N,): the first node of each node's graph
    nodes = np.arange(len(begin))
    table_row = np.repeat(table_start, num_nodes) + (nodes - begin) * np.repeat(num_nodes, num_nodes)
    row = table_row - begin

    table = np.zeros(int((num_nodes**2).sum()), dtype=np.bool_)
    source, target = edges + node_start[graph]
    table[row[source] + target] = True
    table[row[target] + source] = True

    entries = np.flatnonzero(table)
    first = np.searchsorted(entries, table_row)
    degree = np.diff(first, append=len(entries))
    neighbours = entries - np.repeat(row, degree)
    ones = np.ones(len(entries), dtype=np.int32)
    A = csr_array((ones, neighbours, np.append(first, len(entries))), shape=(len(row), len(row)))
    two_steps = A @ degree
    _check_counts_fit(two_steps)
    square = A @ A
    squares, cubes = _as_table(square, row, len(table)), _as_table(square @ A, row, len(table))
    return Block(degree, two_steps, first, neighbours, row, table, squares, cubes)


def _as_table(matrix: csr_array[np.int32], row: Integers, entries: int) -> NDArray[np.int32]:
    table = np.zeros(entries, dtype=np.int32)
    table[np.repeat(row, np.diff(matrix.indptr)) + matrix.indices] = matrix.data
    return table


def _check_counts_fit(two_steps: Integers) -> None:
    """No more than w³ walks have six edges, w the most walks with two: if w³ fits into 64 bits, every count does."""
    walks = int(two_steps.max(initial=0))
    if walks**3 >= 2**63:
        raise GraphError(
            f"got a graph in which {walks} walks with two edges begin at one node, so that counts may not fit into 64 "
            f"bits; expected fewer than {2**21}. Count a sparser graph"
        )
