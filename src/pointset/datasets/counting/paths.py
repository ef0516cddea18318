"""The 13 substructures from all paths with up to four edges: :func:`count_by_paths`.

Each substructure is a path r, v₁, …, v_k from its root, with or without edges that close it:

====================  =====================================================
k-path                nothing more
(k+1)-cycle           v_k is adjacent to r
tailed triangle       k = 3, v₃ is adjacent to v₁
chordal cycle         k = 3, v₃ is adjacent to r and v₁
triangle-rectangle    k = 4, v₄ is adjacent to r and v₁
====================  =====================================================

Paths are grown edge by edge, as arrays. The last two edges of the longest ones need no growing: with S = {r, …, v₄},
how many ways lead on from v₄ outside S follows by inclusion and exclusion from A², A³ and the edges inside S
(:func:`_tally_longer`). Whole numbers throughout. Paths are grown in pieces, so memory is bounded on dense graphs; the
time is that of all paths with four edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.counting.blocks import Block, Integers

SUBSTRUCTURES = (
    "2-path",
    "3-path",
    "4-path",
    "5-path",
    "6-path",
    "3-cycle",
    "4-cycle",
    "5-cycle",
    "6-cycle",
    "7-cycle",
    "tailed-triangle",
    "chordal-cycle",
    "triangle-rectangle",
)
_PIECE = 2**14  # paths looked at together: their arrays stay in the processor's cache


class _Tally:
    """The counts, (13, N), to which :meth:`add` adds what was found at each root."""

    def __init__(self, num_nodes: int) -> None:
        self.counts = np.zeros((len(SUBSTRUCTURES), num_nodes), dtype=np.int64)

    def add(self, roots: Integers, found: dict[str, NDArray[Any]]) -> None:
        """Numbers or flags (R,) for each name, found at ``roots`` (R,), R > 0, which ascend."""
        begins = np.flatnonzero(np.diff(roots, prepend=-1))
        for name, numbers in found.items():
            self.counts[SUBSTRUCTURES.index(name), roots[begins]] += np.add.reduceat(numbers, begins, dtype=np.int64)


def count_by_paths(block: Block) -> Integers:
    """(13, N): for each node, how many of each substructure it is the root of."""
    tally = _Tally(len(block.row))
    _grow(block, np.arange(len(block.row))[None], tally)
    both_ways = np.array([not name.endswith("-path") for name in SUBSTRUCTURES])
    tally.counts[both_ways] //= 2  # there the path closes, and was found once in each direction
    return tally.counts


def _grow(block: Block, paths: Integers, tally: _Tally) -> None:
    """Count what the paths (k + 1, R) make, and go one edge on."""
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


def _one_edge_on(block: Block, paths: Integers) -> Integers:
    """(k + 1, R) → (k + 2, R'): every way to go on to a node that is not on the path yet."""
    last = paths[-1]
    degree = block.degree[last]
    path = np.repeat(np.arange(len(last)), degree)
    offset = block.first[last] - (np.cumsum(degree) - degree)
    new = block.neighbours[np.arange(len(path)) + offset[path]]
    longer = np.concatenate([paths.take(path, axis=1), new[None]])
    return longer.compress((longer[:-1] != new).all(axis=0), axis=1)


def _tally_closed(block: Block, paths: Integers, tally: _Tally) -> None:
    """What paths with k = 2, 3 or 4 edges make, alone and with the edges that close them."""
    edges, root, last = len(paths) - 1, paths[0], paths[-1]
    to_root = block.table[block.row[root] + last]
    found: dict[str, NDArray[Any]] = {f"{edges}-path": np.ones_like(root), f"{edges + 1}-cycle": to_root}
    if edges > 2:
        to_first = block.table[block.row[paths[1]] + last]
        if edges == 3:
            found |= {"tailed-triangle": to_first, "chordal-cycle": to_root & to_first}
        else:
            found |= {"triangle-rectangle": to_root & to_first}
    tally.add(root, found)


def _tally_longer(block: Block, paths: Integers, tally: _Tally) -> None:
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


def _ones(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(…, R) → (R,): how many are set, of at most 25."""
    ones: NDArray[np.uint8] = flags.sum(axis=tuple(range(flags.ndim - 1)), dtype=np.uint8)
    return ones
