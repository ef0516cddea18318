"""The finest colours that transformers of some layers can give: against brute force, 2-FWL and known facts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.typing import NDArray
from torch_geometric.data import Data

from pointset.errors import PointsetError
from pointset.paper.families import cycle, marked, rook, shrikhande, two_cycles
from pointset.paper.point_refinement import refine_points
from pointset.paper.refinement import refine_pairs
from tests.graph_strategies import ATLAS_UP_TO_6, adjacency_matrices, binary_adjacency, relabelled

Matrix = NDArray[np.int64]
SMALL = [binary_adjacency(graph).astype(np.int64) for graph in ATLAS_UP_TO_6 if 1 <= len(graph) <= 4]
SMALL += [binary_adjacency(graph).astype(np.int64) for graph in ATLAS_UP_TO_6 if len(graph) == 5][::3]


def partition(colours: list[Any]) -> list[int]:
    """Classes in the order in which they first occur."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(colour, len(numbers)) for colour in colours]


def laplacian(A: Matrix) -> Matrix:
    return np.diag(A.sum(0)) - A


def brute_force(Z: Matrix, layers: int, *, gate_after: bool) -> tuple[list[str], list[str]]:
    """Colours of the pairs and points of a graph after one or two layers, as whole values with every power of Z."""
    n = len(Z)
    powers = [np.linalg.matrix_power(Z, s) for s in range(1, n + 1)]
    spectrum = [int(np.trace(power)) for power in powers]
    entries = {(i, j): [int(power[i, j]) for power in powers] for i, j in itertools.product(range(n), repeat=2)}
    pairs = {place: repr((some, spectrum)) if any(some) else "zero" for place, some in entries.items()}
    mixed = [pairs[i, i] for i in range(n)]
    nodes = scalars(pairs, mixed)
    if layers == 2:
        gate = mixed if gate_after else ["one"] * n
        inner = {place: inner_products(*place, pairs, gate, powers) for place in pairs}
        pairs = {(i, j): repr((nodes[i], nodes[j], pairs[i, j], inner[i, j])) for i, j in pairs}
        mixed = [repr((nodes[i], inner[i, i])) for i in range(n)]
        nodes = scalars(pairs, mixed)
    return [pairs[place] for place in sorted(pairs)], nodes


def scalars(pairs: dict[tuple[int, int], str], mixed: list[str]) -> list[str]:
    """s'_i and the multiset of (colour of i, j; s'_j)."""
    around = [sorted((pairs[i, j], other) for j, other in enumerate(mixed)) for i in range(len(mixed))]
    return [repr((own, others)) for own, others in zip(mixed, around, strict=True)]


def inner_products(i: int, j: int, pairs: dict[tuple[int, int], str], gate: list[str], powers: list[Matrix]) -> str:
    """Σ_kl [colour of i, k is a][gate of k is c] (Zˢ)_kl [gate of l is e][colour of j, l is b] for all a, b, c, e, s.

    Instead of the colour, also [i is k] and [j is l]: the vector that is kept.
    """
    sums: Counter[Any] = Counter()
    for k, m in itertools.product(range(len(gate)), repeat=2):
        left = [(pairs[i, k], gate[k])] + [("own", gate[k])] * (i == k)
        right = [(pairs[j, m], gate[m])] + [("own", gate[m])] * (j == m)
        for ends in itertools.product(left, right):
            for s, power in enumerate(powers):
                sums[ends, s] += int(power[k, m])
    return repr(sorted((key, total) for key, total in sums.items() if total))


@pytest.mark.parametrize("gate_after", [True, False], ids=["gates by s'", "gates by s"])
@pytest.mark.parametrize("matrix", ["adjacency", "laplacian"])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_colours_are_those_of_brute_force(layers: int, matrix: str, gate_after: bool) -> None:
    matrices = SMALL if matrix == "adjacency" else [laplacian(A) for A in SMALL]
    colours = [brute_force(Z, layers, gate_after=gate_after) for Z in matrices]
    pairs, nodes = ([colour for graph in colours for colour in graph[which]] for which in (0, 1))
    found = refine_points(SMALL, layers, matrix=matrix, gate_after=gate_after)
    assert partition(np.concatenate([one.ravel() for one in found.pairs.colours]).tolist()) == partition(pairs)
    assert partition(np.concatenate(found.nodes.colours).tolist()) == partition(nodes)


@settings(max_examples=15)
@given(adjacency_matrices(min_nodes=1, max_nodes=12, weighted=False))
def test_colours_do_not_depend_on_the_order_of_nodes(adjacency: NDArray[np.float64]) -> None:
    other, permutation = relabelled(adjacency, 3)
    for layers in (1, 2, None):
        refinement = refine_points([adjacency, other], layers)
        first, second = refinement.pairs.colours
        np.testing.assert_array_equal(second[np.ix_(permutation, permutation)], first)
        np.testing.assert_array_equal(refinement.nodes.colours[1][permutation], refinement.nodes.colours[0])
        assert refinement.same(0, 1)


@pytest.mark.parametrize(
    ("matrix", "attend_after"), [("adjacency", False), ("laplacian", False), ("augmented", False), ("adjacency", True)]
)
def test_never_finer_than_2_fwl_and_finer_layer_by_layer(matrix: str, attend_after: bool) -> None:
    graphs = [*ATLAS_UP_TO_6[1:], rook(4), shrikhande(), cycle(12), two_cycles(6), nx.balanced_tree(2, 3)]
    bound = flat(refine_pairs(graphs).colours)
    stable = refine_points(graphs, matrix=matrix, attend_after=attend_after)
    colours = [flat(refine_points(graphs, k, matrix=matrix, attend_after=attend_after).pairs.colours) for k in (1, 2)]
    assert stable.pairs.stable
    for coarse, fine in itertools.pairwise([*colours, flat(stable.pairs.colours), bound]):
        assert len(set(zip(fine, coarse, strict=True))) == len(set(fine))  # a class of fine lies in one of coarse
    later = refine_points(graphs, stable.pairs.rounds + 2, matrix=matrix, attend_after=attend_after)
    assert flat(later.pairs.colours) == flat(stable.pairs.colours)  # stable it stays


def flat(colours: list[Matrix]) -> list[int]:
    return partition(np.concatenate([one.ravel() for one in colours]).tolist())


@pytest.mark.parametrize("length", [3, 4, 7, 40])
def test_one_layer_tells_one_cycle_from_two(length: int) -> None:
    """At any length (Theorem B.3): the spectra differ."""
    assert not refine_points([cycle(2 * length), two_cycles(length)], 1).same(0, 1)


def test_strongly_regular_graphs_need_a_mark_and_three_layers() -> None:
    """As the encoders with random weights (tests/test_expressivity.py)."""
    pair = [rook(4), shrikhande()]
    assert refine_points(pair).same(0, 1)
    with_mark = [marked(graph, 0) for graph in pair]
    assert [refine_points(with_mark, layers).same(0, 1) for layers in (1, 2, 3)] == [True, True, False]


def test_the_identity_is_not_among_functions_of_a_singular_matrix() -> None:
    """Two leaves of a star agree with each of them itself in all powers of A, not in those of D − A."""
    star = nx.star_graph(3)
    pairs = refine_points([star], 1).pairs.colours[0]
    assert pairs[1, 2] == pairs[1, 1]
    pairs = refine_points([star], 1, matrix="laplacian").pairs.colours[0]
    assert pairs[1, 2] != pairs[1, 1]


def test_features_of_nodes_and_edges_and_weights_are_seen() -> None:
    def path(weight: int, edge: int, node: int) -> Data:
        edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        return Data(
            edge_index=edges,
            num_nodes=3,
            x=torch.tensor([0, 0, node]).view(-1, 1),
            edge_attr=torch.tensor([0, 0, edge, edge]).view(-1, 1),
            edge_weight=torch.tensor([1.0, 1.0, weight, weight]),
        )

    graphs = [path(1, 0, 0), path(2, 0, 0), path(1, 1, 0), path(1, 0, 1), path(1, 0, 0)]
    refinement = refine_points(graphs, 1)
    assert [refinement.same(0, other) for other in range(1, 5)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("graphs", "options", "expected"),
    [
        ([cycle(4)], {"layers": 0}, "a whole number, 1 or more"),
        ([cycle(4)], {"layers": True}, "a whole number, 1 or more"),
        ([cycle(4)], {"matrix": "normalized_adjacency"}, "adjacency, laplacian, augmented"),
        ([cycle(4)], {"matrix": "laplace"}, "laplacian"),
        ([np.array([[0, 0.5], [0.5, 0]])], {}, "graph 0 has weights"),
        ([np.eye(2)], {"matrix": "laplacian"}, "self-loop"),
        (["C6"], {}, "expected"),
    ],
    ids=["no layers", "a flag", "not whole numbers", "misspelt", "real weights", "loop", "text"],
)
def test_what_cannot_be_refined_is_refused(graphs: list[Any], options: dict[str, Any], expected: str) -> None:
    with pytest.raises(PointsetError, match=expected):
        refine_points(graphs, **options)


def test_nothing_and_next_to_nothing() -> None:
    assert refine_points([]).pairs.colours == []
    refinement = refine_points([nx.empty_graph(0), nx.empty_graph(1), nx.empty_graph(2)])
    assert [one.shape for one in refinement.pairs.colours] == [(0, 0), (1, 1), (2, 2)]
    assert not refinement.same(1, 2)
