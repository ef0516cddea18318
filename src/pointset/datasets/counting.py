"""The 13 node targets of the counting benchmark, exact: :func:`count_substructures`, :func:`count_many`.

Subgraphs, not induced ones, each counted up to the automorphisms that fix its root r. Each is a path r, v₁, …, v_k from
its root, with or without edges that close it:

====================  =======================================================  =====================================
k-path, k = 2 … 6     paths with k edges that start at r                       nothing more
k-cycle, k = 3 … 7    cycles through r                                         v_{k−1} is adjacent to r
tailed-triangle       r at the end of the tail: r–a, a–b, a–c, b–c             k = 3, v₃ is adjacent to v₁
chordal-cycle         r at a corner with two edges: r–a, r–b, a–b, a–c, b–c    k = 3, v₃ is adjacent to r and v₁
triangle-rectangle    r at the apex of the triangle: r–a, r–b, a–b, b–c,       k = 4, v₄ is adjacent to r and v₁
                      c–d, a–d
====================  =======================================================  =====================================

Paths are grown edge by edge, as arrays. The last two edges of the longest ones need no growing: with S = {r, …, v₄},
how many ways lead on from v₄ outside S follows by inclusion and exclusion from A², A³ and the edges inside S
(:func:`_tally_longer`). Whole numbers throughout. Paths are grown in pieces, so memory is bounded on dense graphs; the
time is that of all paths with four edges.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pointset.arrays import Array, Flags, Integers
from pointset.errors import GraphError, MemoryForecastError
from pointset.progress import progress_bar

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["SUBSTRUCTURES", "count_many", "count_substructures"]

SUBSTRUCTURES = (
    "2-path", "3-path", "4-path", "5-path", "6-path", "3-cycle", "4-cycle", "5-cycle", "6-cycle", "7-cycle",
    "tailed-triangle", "chordal-cycle", "triangle-rectangle",
)  # fmt: skip
MAX_NODES = 10_000  # of one graph: its tables of A, A² and A³ take 9 n² bytes, here 0.9 GB
_TABLE_ENTRIES = 2**17  # Σ n² of the graphs counted together: their tables stay in the processor's cache
_PIECE = 2**14  # paths looked at together: their arrays stay in the processor's cache


def count_substructures(num_nodes: SupportsIndex, edges: ArrayLike) -> Integers:
    """(n, 13): for each node of one graph, how many of each of :data:`SUBSTRUCTURES` it is the root of.

    Args:
        num_nodes: n.
        edges: (2, m) whole numbers from 0 to n − 1. An edge listed twice, or both ways, is one edge.

    Raises:
        GraphError: the edges are not such an array, there is a self-loop, or a count might not fit into 64 bits.
        MemoryForecastError: more than 10,000 nodes.
    """
    edges = _whole_numbers(edges, "edges", 2)
    try:
        nodes = operator.index(num_nodes)
    except TypeError:
        raise GraphError(f"got num_nodes of type {type(num_nodes).__name__}; expected a whole number") from None
    return count_many([nodes], [edges.shape[1]], edges, progress=False)


def count_many(
    num_nodes: ArrayLike, num_edges: ArrayLike, edges: ArrayLike, *, progress: bool | None = None
) -> Integers:
    """(N, 13): :func:`count_substructures` for many graphs, one below the other. Time: all paths with four edges.

    Args:
        num_nodes: (G,) nodes of each graph.
        num_edges: (G,) edges of each graph.
        edges: (2, M), one graph after the other; each graph's nodes are numbered from 0.
        progress: show a bar; by default where stderr is a terminal.
    """
    nodes, counts, pairs = _checked(num_nodes, num_edges, edges)
    graph = np.repeat(np.arange(len(nodes)), counts)
    edge_ends = np.cumsum(counts)
    result = np.zeros((int(nodes.sum()), len(SUBSTRUCTURES)), dtype=np.int64)
    done = 0
    with progress_bar("counting substructures", len(nodes), show=progress) as advance:
        for part in _parts(nodes):
            columns = slice(int(edge_ends[part.start] - counts[part.start]), int(edge_ends[part.stop - 1]))
            block = _make_block(nodes[part], graph[columns] - part.start, pairs[:, columns])
            result[done : done + len(block.row)] = _count_by_paths(block).T
            done += len(block.row)
            advance(part.stop - part.start)
    return result


def _parts(nodes: Integers) -> Iterator[slice]:
    """Consecutive graphs that are counted together."""
    group = np.cumsum(nodes**2) // _TABLE_ENTRIES
    starts = np.flatnonzero(np.diff(group, prepend=-1)).tolist()
    return (slice(start, stop) for start, stop in pairwise([*starts, len(nodes)]))


def _checked(num_nodes: ArrayLike, num_edges: ArrayLike, edges: ArrayLike) -> tuple[Integers, Integers, Integers]:
    nodes, counts = _whole_numbers(num_nodes, "num_nodes", 1), _whole_numbers(num_edges, "num_edges", 1)
    pairs = _whole_numbers(edges, "edges", 2)
    if len(nodes) != len(counts) or (nodes < 0).any() or (counts < 0).any():
        raise GraphError(
            f"got num_nodes and num_edges of {len(nodes)} and {len(counts)} graphs, the least {nodes.min(initial=0)} "
            f"and {counts.min(initial=0)}; expected one number for each graph, none negative"
        )
    if nodes.max(initial=0) > MAX_NODES:
        raise MemoryForecastError(
            f"got a graph with {nodes.max()} nodes; counting takes 9 n² bytes, expected at most {MAX_NODES} nodes. "
            "Count its parts or a subgraph"
        )
    if counts.sum() != pairs.shape[1]:
        raise GraphError(f"got {pairs.shape[1]} edges; expected {counts.sum()}, the sum of num_edges")
    graph = np.repeat(np.arange(len(nodes)), counts)
    outside = ((pairs < 0) | (pairs >= nodes[graph])).any(axis=0)
    for wrong, problem in ((outside, "names a node that is not there"), (pairs[0] == pairs[1], "is a self-loop")):
        if wrong.any():
            column = int(np.argmax(wrong))
            u, v = pairs[:, column].tolist()
            raise GraphError(
                f"graph {graph[column]}: edge {u}–{v} {problem}; expected two different nodes from 0 to "
                f"{nodes[graph[column]] - 1}. Number the nodes of each graph from 0 and drop its self-loops"
            )
    return nodes, counts, pairs


def _whole_numbers(values: ArrayLike, name: str, dimensions: int) -> Integers:
    """An int64 array, checked; an empty one may be of any type, as ``[[], []]`` is."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise GraphError(f"got {name} with rows of unequal length; expected an array of whole numbers") from None
    shape = "(2, m)" if dimensions == 2 else "(G,)"
    if array.ndim != dimensions or (dimensions == 2 and len(array) != 2):
        raise GraphError(f"got {name} of shape {array.shape}; expected {shape}. Transpose it if it is (m, 2)")
    if array.size and array.dtype.kind not in "iu":
        raise GraphError(f"got {name} of type {array.dtype}; expected whole numbers, of shape {shape}")
    return array.astype(np.int64)


class _Block(NamedTuple):
    """Some graphs side by side, N nodes in all, numbered through. Tables hold one n × n matrix after the other."""

    degree: Integers  # (N,)
    two_steps: Integers  # (N,): walks with two edges, Σ_x A_vx deg x
    first: Integers  # (N,): where a node's neighbours begin
    neighbours: Integers  # (2M,)
    row: Integers  # (N,): the entry of a table for u and v of one graph is at row[u] + v
    table: Flags  # (Σ n²,): A
    squares: NDArray[np.int32]  # (Σ n²,): A²
    cubes: NDArray[np.int32]  # (Σ n²,): A³


def _make_block(num_nodes: Integers, graph: Integers, edges: Integers) -> _Block:
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
    walks = int(two_steps.max(initial=0))
    if walks**3 >= 2**63:  # no more than w³ walks have six edges, w the most walks with two
        raise GraphError(
            f"got a graph in which {walks} walks with two edges begin at one node, so that counts may not fit into 64 "
            f"bits; expected fewer than {2**21}. Count a sparser graph"
        )
    square = A @ A
    squares, cubes = _as_table(square, row, len(table)), _as_table(square @ A, row, len(table))
    return _Block(degree, two_steps, first, neighbours, row, table, squares, cubes)


def _as_table(matrix: csr_array[np.int32], row: Integers, entries: int) -> NDArray[np.int32]:
    table = np.zeros(entries, dtype=np.int32)
    table[np.repeat(row, np.diff(matrix.indptr)) + matrix.indices] = matrix.data
    return table


class _Tally:
    """The counts, (13, N), to which :meth:`add` adds what was found at each root."""

    def __init__(self, num_nodes: int) -> None:
        self.counts = np.zeros((len(SUBSTRUCTURES), num_nodes), dtype=np.int64)

    def add(self, roots: Integers, found: dict[str, Array]) -> None:
        """Numbers or flags (R,) for each name, found at ``roots`` (R,), R > 0, which ascend."""
        begins = np.flatnonzero(np.diff(roots, prepend=-1))
        for name, numbers in found.items():
            self.counts[SUBSTRUCTURES.index(name), roots[begins]] += np.add.reduceat(numbers, begins, dtype=np.int64)


def _count_by_paths(block: _Block) -> Integers:
    """(13, N): for each node, how many of each substructure it is the root of."""
    tally = _Tally(len(block.row))
    _grow(block, np.arange(len(block.row))[None], tally)
    both_ways = np.array([not name.endswith("-path") for name in SUBSTRUCTURES])
    tally.counts[both_ways] //= 2  # there the path closes, and was found once in each direction
    return tally.counts


def _grow(block: _Block, paths: Integers, tally: _Tally) -> None:
    """Count what the paths (k + 1, R) make, and extend them by one edge."""
    if not paths.size:
        return
    if len(paths) > 2:
        _tally_closed(block, paths, tally)
    if len(paths) == 5:
        _tally_longer(block, paths, tally)
        return
    for piece in _pieces(block.degree[paths[-1]]):
        _grow(block, _one_edge_on(block, paths[:, piece]), tally)


def _pieces(degrees: Integers) -> Iterator[slice]:
    """Slices of the paths, of about ``_PIECE`` continuations or a single path each."""
    ends = np.cumsum(degrees)
    begin = 0
    while begin < len(ends):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _PIECE, side="right")))
        yield slice(begin, end)
        begin = end


def _one_edge_on(block: _Block, paths: Integers) -> Integers:
    """(k + 1, R) → (k + 2, R'): every way to extend the paths to a node that is not on them yet."""
    last = paths[-1]
    degree = block.degree[last]
    path = np.repeat(np.arange(len(last)), degree)
    offset = block.first[last] - (np.cumsum(degree) - degree)
    new = block.neighbours[np.arange(len(path)) + offset[path]]
    longer = np.concatenate([paths.take(path, axis=1), new[None]])
    return longer.compress((longer[:-1] != new).all(axis=0), axis=1)


def _tally_closed(block: _Block, paths: Integers, tally: _Tally) -> None:
    """What paths with k = 2, 3 or 4 edges make, alone and with the edges that close them."""
    edges, root, last = len(paths) - 1, paths[0], paths[-1]
    to_root = block.table[block.row[root] + last]
    found: dict[str, Array] = {f"{edges}-path": np.ones_like(root), f"{edges + 1}-cycle": to_root}
    if edges > 2:
        to_first = block.table[block.row[paths[1]] + last]
        if edges == 3:
            found |= {"tailed-triangle": to_first, "chordal-cycle": to_root & to_first}
        else:
            found |= {"triangle-rectangle": to_root & to_first}
    tally.add(root, found)


def _tally_longer(block: _Block, paths: Integers, tally: _Tally) -> None:
    """What paths (5, R) with nodes S = {r, …, v₄} make with one or two nodes x, y outside S more.

    With e_s = A_{v₄s}, f_s = A_{sr} and sums over s, t in S,

    - 5-paths: #{x ∉ S: v₄ ~ x} = deg v₄ − Σ e_s
    - 6-cycles: #{x ∉ S: v₄ ~ x ~ r} = (A²)_{v₄r} − Σ e_s f_s
    - 6-paths: #{x, y ∉ S: v₄ ~ x ~ y} = Σ_x A_{v₄x} deg x − Σ e_s deg s − Σ (A²)_{v₄s} + Σ e_s A_st
    - 7-cycles: #{x, y ∉ S: v₄ ~ x ~ y ~ r} = (A³)_{v₄r} − Σ e_s (A²)_{sr} − Σ (A²)_{v₄s} f_s + Σ e_s A_st f_t
    """
    root, last = paths[0], paths[-1]
    rows = block.row[paths]
    inside = block.table[rows[:, None] + paths]  # (5, 5, R): A_st
    to_last, to_root = inside[-1], inside[0]  # e, f
    from_last = block.squares[rows[-1] + paths]  # (5, R): (A²)_{v₄s}
    from_root = block.squares[rows[0] + paths]  # (5, R): (A²)_{sr}
    bent = to_last[:, None] & inside  # (5, 5, R): e_s A_st

    six_paths = block.two_steps[last] - (to_last * block.degree[paths]).sum(0) - from_last.sum(0)
    seven_cycles = block.cubes[rows[0] + last] - (to_last * from_root).sum(0) - (to_root * from_last).sum(0)
    found = {
        "5-path": block.degree[last] - _ones(to_last),
        "6-cycle": from_root[-1] - _ones(to_last & to_root),
        "6-path": six_paths + _ones(bent),
        "7-cycle": seven_cycles + _ones(bent & to_root),
    }
    tally.add(root, found)


def _ones(flags: Flags) -> NDArray[np.uint8]:
    """(…, R) → (R,): how many are set, of at most 25."""
    ones: NDArray[np.uint8] = flags.sum(axis=tuple(range(flags.ndim - 1)), dtype=np.uint8)
    return ones
