"""A formula for a structural encoding against its definition, on many graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from pointset.points.convert import to_points
from pointset.studies.theorems.small_graphs import Matrix, described, random_weighted, small_adjacencies

Array = NDArray[np.float64]
Encoding = Callable[[Matrix], Array]

ROUNDING = 1e-9


def trial_graphs(max_nodes: int, *, connected: bool = True, weighted: bool = False) -> list[Matrix]:
    """All graphs with 2 … ``max_nodes`` nodes (those in one piece), and random ones of 10 to 30 nodes."""
    generator = np.random.default_rng(4)
    drawn = [random_weighted(n, 5 / n, generator) for n in range(10, 31)]
    larger = [A if weighted else (A > 0).astype(np.float64) for A in drawn]
    graphs = [A for A in (*small_adjacencies(max_nodes), *larger) if len(A) > 1]
    return [A for A in graphs if not connected or nx.is_connected(nx.from_numpy_array(A))]


@dataclass(frozen=True)
class Comparison:
    """A formula against a definition."""

    graphs: int
    largest_error: float
    wrong: int  # graphs with an error above rounding
    smallest_wrong: Matrix | None  # the first of them, in order of size

    @property
    def right(self) -> bool:
        """Whether the formula gave the defined numbers on every graph."""
        return not self.wrong and self.largest_error < ROUNDING


def compare(form: Encoding, definition: Encoding, graphs: Sequence[Matrix]) -> Comparison:
    """Largest difference on each graph, relative to the definition's largest entry where that exceeds 1."""
    errors = []
    for A in graphs:
        expected = definition(A)
        difference = np.abs(form(A) - expected).max(initial=0.0)
        errors.append(float(difference / max(1.0, float(np.abs(expected).max(initial=0.0)))))
    wrong = [A for A, error in zip(graphs, errors, strict=True) if not error < ROUNDING]
    return Comparison(len(graphs), max(errors, default=0.0), len(wrong), min(wrong, key=len) if wrong else None)


def inner_products(A: Matrix, matrix: str, *functions: Callable[[torch.Tensor], torch.Tensor]) -> Array:
    """⟨U_i, diag(f(Λ)) U_j⟩ for all pairs and each f, (functions, n, n)."""
    points = to_points(np.array(A), matrix=matrix)
    return np.stack([points.inner_products(f).numpy() for f in functions])


def example(found: Comparison, form: Encoding, definition: Encoding, at: tuple[int, int]) -> str:
    """The smallest graph where it fails, at two of its nodes: what is printed, what is true."""
    A = found.smallest_wrong
    if A is None:
        return ""
    place = f"nodes {at[0]} and {at[1]}" if at[0] != at[1] else f"node {at[0]}"
    return f" (the smallest: {described(A)}; {place}: {form(A)[at]:.3g} in place of {definition(A)[at]:.3g})"
