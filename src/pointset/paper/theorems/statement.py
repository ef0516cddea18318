"""A statement of the paper as an experiment: a claim, a way to check it, a verdict with evidence."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pointset.errors import SpecError, did_you_mean
from pointset.paper.families import whole_number


class Verdict(StrEnum):
    """What an experiment says of a statement."""

    HOLDS = "holds"
    FAILS = "fails as printed"


@dataclass(frozen=True)
class Finding:
    """The outcome of one experiment."""

    verdict: Verdict
    evidence: str  # what was tried and seen, with numbers, in one to four sentences; what holds instead where it fails
    numbers: dict[str, float | int | str | bool] = field(default_factory=dict)  # the same for programs


@dataclass(frozen=True)
class Statement:
    """A statement and the experiment that checks it."""

    name: str  # as the paper numbers it: "Theorem 3.1"
    claim: str  # in one sentence
    check: Callable[[], Finding]


def holds_if(condition: bool, evidence: str, **numbers: float | int | str | bool) -> Finding:
    """Holds or fails, with the same evidence."""
    return Finding(Verdict.HOLDS if condition else Verdict.FAILS, evidence, numbers)


def named(statements: tuple[Statement, ...], names: list[str]) -> tuple[Statement, ...]:
    """Those whose name contains one of ``names`` ("3.1", "theorem 5"); all where no name is given."""
    if not names:
        return statements
    chosen = []
    for name in names:
        pattern = re.compile(re.escape(name.strip()) + r"(?!\d)", re.IGNORECASE)  # "A.1" is no part of "A.10"
        found = [one for one in statements if name.strip() and pattern.search(one.name)]
        if not found:
            known = [one.name for one in statements]
            raise SpecError(
                f"got {name!r}; expected a part of a statement's name: {'; '.join(known)}{did_you_mean(name, known)}"
            )
        chosen += [one for one in found if one not in chosen]
    return tuple(sorted(chosen, key=statements.index))


# All graphs with up to seven nodes, each once up to isomorphism: what the theorems are tried on.


LARGEST = 7  # the atlas that networkx ships ends here
NUMBER_OF_GRAPHS = (1, 1, 2, 4, 11, 34, 156, 1044)  # with 0, 1, … 7 nodes (Pólya; OEIS A000088)

Matrix = NDArray[np.float64]


@functools.cache
def small_graphs(max_nodes: int = LARGEST) -> tuple[nx.Graph[int], ...]:
    """Every graph with 0 … ``max_nodes`` nodes, numbered 0 … n−1, by size; 1,253 for seven. They are frozen."""
    if whole_number(max_nodes, "max_nodes", 0, LARGEST) < LARGEST:
        return tuple(graph for graph in small_graphs(LARGEST) if len(graph) <= max_nodes)
    return tuple(nx.freeze(graph) for graph in nx.graph_atlas_g())


@functools.cache
def small_adjacencies(max_nodes: int = LARGEST) -> tuple[Matrix, ...]:
    """Their adjacency matrices (n, n), in the same order; not to be written to."""
    matrices = tuple(adjacency_of(graph) for graph in small_graphs(max_nodes))
    for matrix in matrices:
        matrix.flags.writeable = False
    return matrices


def adjacency_of(graph: nx.Graph[int]) -> Matrix:
    """(n, n), also for the graph without nodes, which networkx refuses."""
    n = len(graph)
    return nx.to_numpy_array(graph, nodelist=range(n)) if n else np.zeros((0, 0))


def described(adjacency: Matrix | NDArray[np.int64]) -> str:
    """``3 nodes with the edges 0–1, 0–2``: a graph for the reader of the evidence."""
    edges = ", ".join(f"{u}–{v}" for u, v in np.argwhere(np.triu(adjacency)))
    which = f"the edge{'s' if ',' in edges else ''} {edges}" if edges else "no edge"
    return f"{len(adjacency)} nodes with {which}"


def relabelled(adjacency: Matrix, permutation: NDArray[np.int64]) -> Matrix:
    """π(A) with π(A)[π(u), π(v)] = A[u, v] (Section 2)."""
    result = np.zeros_like(adjacency)
    result[np.ix_(permutation, permutation)] = adjacency
    return result


def random_weighted(nodes: int, density: float, generator: np.random.Generator) -> Matrix:
    """(n, n) symmetric, weights uniform in (0, 2] on a random part of the pairs."""
    kept = np.triu(generator.random((nodes, nodes)) < density, 1)
    upper = np.where(kept, 2 - 2 * generator.random((nodes, nodes)), 0.0)
    return upper + upper.T
