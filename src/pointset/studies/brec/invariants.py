"""Pairs told apart without training: by refinement of colours, run to its end (:data:`INVARIANTS`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from pointset.datasets.graph_pairs import EdgeList, GraphPair
from pointset.studies.brec.outcome import Outcome
from pointset.studies.refinement import refine_nodes, refine_pairs, refine_points, same_when_marked

Test = Callable[[Sequence[EdgeList]], list[bool]]  # whether each graph after the first is taken for it


def _nodes(graphs: Sequence[EdgeList]) -> list[bool]:
    return _same_as_first(refine_nodes(graphs), len(graphs))


def _pairs(graphs: Sequence[EdgeList]) -> list[bool]:
    return _same_as_first(refine_pairs(graphs), len(graphs))


def _inner_products(graphs: Sequence[EdgeList]) -> list[bool]:
    return _same_as_first(refine_points(graphs, 1, matrix="laplacian"), len(graphs))


def _points(graphs: Sequence[EdgeList]) -> list[bool]:
    return _same_as_first(refine_points(graphs, matrix="laplacian"), len(graphs))


def _marked(graphs: Sequence[EdgeList]) -> list[bool]:
    """What is told apart without a mark is told apart with one, so these long computations are left out."""
    same = _pairs(graphs)
    return same_when_marked(graphs, rounds=4) if same[0] else same


def _same_as_first(refinement: Any, count: int) -> list[bool]:
    return [refinement.same(0, other) for other in range(1, count)]


INVARIANTS: Mapping[str, tuple[str, Test]] = MappingProxyType(
    {
        "1-wl": ("colours of nodes, the bound of message passing", _nodes),
        "inner-products": (
            "inner products of points, f(L)_ij: one layer of PST, any weights",
            _inner_products,
        ),
        "points": ("what PST of any depth can see, any weights", _points),
        "3-wl": ("colours of pairs (2-FWL)", _pairs),
        "marked-3-wl": ("four rounds of it with one node marked, each in turn", _marked),
    }
)


def compare_exactly(pair: GraphPair, name: str, seed: int = 0) -> Outcome:
    """Whether an invariant tells a pair apart, and whether it takes the first graph for its relabelled copy."""
    start = time.perf_counter()
    nodes, edges = pair.first
    order = np.random.default_rng([seed, pair.number]).permutation(nodes)
    copy = (nodes, torch.from_numpy(order)[edges])
    same_second, same_copy = INVARIANTS[name][1]([pair.first, pair.second, copy])
    return Outcome(
        pair=pair.number,
        category=pair.category,
        nodes=nodes,
        separated=not same_second,
        unreliable=not same_copy,
        seconds=round(time.perf_counter() - start, 3),
    )
