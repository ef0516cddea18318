"""k-WL and k-FWL on tuples of k nodes, with features of nodes and edges: a plain reference for small graphs.

Colours are numbers of whole rows: exact, no hash. Oblivious k-WL for k ≥ 3 is as strong as (k−1)-FWL, and 2-WL as 1-WL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.splits.labelled_graphs import LabelledGraph
from pointset.points.memory import check_fits
from pointset.studies.families.checks import whole_number
from pointset.studies.refinement.colours import Colours, Refinement, coloured_graphs, like, refine, split


def refine_tuples(graphs: Sequence[Any], k: int, rounds: int | None = None, *, folklore: bool = False) -> Refinement:
    """k-WL, or k-FWL with ``folklore``, started from the isomorphism type of the tuple with all features.

    With v[a→w] for the tuple v whose entry a is replaced by the node w:

        k-WL:   h_v ← (h_v, {{h_v[1→w] : w}}, …, {{h_v[k→w] : w}})
        k-FWL:  h_v ← (h_v, {{(h_v[1→w], …, h_v[k→w]) : w}})

    Memory and time of a round are n^k·k for each graph, with ``folklore`` n^(k+1)·k.

    Args:
        graphs: anything :func:`pointset.to_points` takes; features of all graphs must have one shape.
        k: length of the tuples, from 2.
        rounds: how many; None for as many as split a class.
        folklore: k-FWL in place of k-WL.

    Returns:
        colours (n,)*k of each graph.
    """
    k = whole_number(k, "k", 2)
    read = coloured_graphs(graphs)
    largest = max((graph.num_nodes for graph in read), default=0)
    cells = sum(graph.num_nodes ** (k + 1 if folklore else k) for graph in read)
    name = f"{k}-{'FWL' if folklore else 'WL'}"
    check_fits(
        64 * k * cells,
        f"{name} on {len(read)} graphs of up to {largest} nodes needs",
        "Use fewer or smaller graphs, a smaller k, or refine_pairs, which is 2-FWL and as strong as 3-WL",
    )
    multisets = _folklore_multisets if folklore else _oblivious_multisets

    def step(colours: Colours) -> Colours:
        after = colours
        for by in multisets(colours, k):
            after = split(after, by)
        return after

    return refine(_start(read, k), step, rounds)


def _start(graphs: list[LabelledGraph], k: int) -> Colours:
    """(n,)*k: features and loop of each entry, and of each two entries whether they are equal and their edge."""
    edges = [graph.edge_table() for graph in graphs]
    of_one = ([graph.node_class for graph in graphs], [np.diagonal(one) for one in edges])
    of_two = ([np.eye(graph.num_nodes, dtype=np.int64) for graph in graphs], edges)
    colours: Colours = [np.zeros((graph.num_nodes,) * k, dtype=np.int64) for graph in graphs]
    for length, tables in ((1, of_one), (2, of_two)):
        for places in itertools.combinations(range(k), length):
            for table in tables:
                colours = split(colours, [_placed(one, places, k) for one in table])
    return colours


def _placed(table: NDArray[np.int64], places: tuple[int, ...], k: int) -> NDArray[np.int64]:
    """(n,)*k whose entry at v is the table's at the entries ``places`` of v."""
    n = len(table)
    shape = [n if place in places else 1 for place in range(k)]
    return np.broadcast_to(table.reshape(shape), (n,) * k)


def _oblivious_multisets(colours: Colours, k: int) -> Iterator[Colours]:
    """For each entry a the number of {{h_v[a→w] : w}}, of shape (n,)*k; it does not depend on the entry replaced."""
    for entry in range(k):
        rows = _numbered_rows([np.sort(np.moveaxis(one, entry, -1), axis=-1) for one in colours])
        yield [
            np.broadcast_to(np.expand_dims(numbers, entry), one.shape)
            for numbers, one in zip(rows, colours, strict=True)
        ]


def _folklore_multisets(colours: Colours, k: int) -> Iterator[Colours]:
    """The number of {{(h_v[1→w], …, h_v[k→w]) : w}}, of shape (n,)*k."""
    vectors: Colours = [np.zeros((*one.shape, *one.shape[:1]), dtype=np.int64) for one in colours]  # (n,)*k + (w,)
    for entry in range(k):
        replaced = [np.expand_dims(np.moveaxis(one, entry, -1), entry) for one in colours]
        vectors = split(
            vectors, [np.broadcast_to(by, all_w.shape) for by, all_w in zip(replaced, vectors, strict=True)]
        )
    yield _numbered_rows([np.sort(one, axis=-1) for one in vectors])


def _numbered_rows(tables: Colours) -> Colours:
    """A number for each row (the last axis), equal for equal rows of all tables; shorter rows are filled with −1."""
    width = max((table.shape[-1] for table in tables), default=0)
    without_last: Colours = [np.zeros(table.shape[:-1], dtype=np.int64) for table in tables]
    if not width:
        return without_last
    rows = [table.reshape(-1, table.shape[-1]) for table in tables if table.size]
    filled = [np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=-1) for one in rows]
    numbers = np.unique(np.concatenate(filled), axis=0, return_inverse=True)[1]
    return like(numbers.reshape(-1).astype(np.int64), without_last)
