"""Counts of the 13 substructures against enumeration, hand-computed answers and bad input; the random graphs."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
import tracemalloc
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g
from numpy.typing import NDArray

from pointset.datasets import counting
from pointset.datasets.benchmarks.counting import counting_graphs
from pointset.datasets.counting import SUBSTRUCTURES, count_many, count_substructures
from pointset.datasets.counting_formulas import cycle_counts, path_matrix
from pointset.errors import GraphError, MemoryForecastError
from tests.graph_strategies import adjacency_matrices, relabelled

Integers = NDArray[np.int64]


def path_pattern(edges: int) -> list[tuple[int, int]]:
    return [(node, node + 1) for node in range(edges)]


def cycle_pattern(nodes: int) -> list[tuple[int, int]]:
    return [*path_pattern(nodes - 1), (nodes - 1, 0)]


# Edges of each substructure; its root is node 0.
PATTERNS: dict[str, list[tuple[int, int]]] = {
    **{f"{k}-path": path_pattern(k) for k in range(2, 7)},
    **{f"{k}-cycle": cycle_pattern(k) for k in range(3, 8)},
    "tailed-triangle": [(0, 1), (1, 2), (1, 3), (2, 3)],
    "chordal-cycle": [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)],
    "triangle-rectangle": [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 4)],
}


def maps_to(nodes: int, host_nodes: int) -> Integers:
    """(K, nodes): all ways to place the nodes of a pattern on different nodes of a graph."""
    ways = list(itertools.permutations(range(host_nodes), nodes))
    return np.array(ways, dtype=np.int64).reshape(-1, nodes)


def embedded(pattern: list[tuple[int, int]], maps: Integers, adjacency: NDArray[Any]) -> NDArray[np.bool_]:
    """(…, K): whether the map puts every edge of the pattern on an edge of the graph (…, n, n)."""
    found = np.ones((*adjacency.shape[:-2], len(maps)), dtype=bool)
    for a, b in pattern:
        found &= adjacency[..., maps[:, a], maps[:, b]] != 0
    return found


def enumerated(adjacency: NDArray[Any]) -> Integers:
    """(…, n, n) → (…, n, 13): try every map with the root in its place; divide by the pattern's own symmetries."""
    n = adjacency.shape[-1]
    counts = np.zeros((*adjacency.shape[:-1], len(PATTERNS)), dtype=np.int64)
    for column, pattern in enumerate(PATTERNS.values()):
        nodes = max(map(max, pattern)) + 1
        itself = np.zeros((nodes, nodes))
        for a, b in pattern:
            itself[a, b] = itself[b, a] = 1
        own_maps = maps_to(nodes, nodes)
        symmetries = int(embedded(pattern, own_maps[own_maps[:, 0] == 0], itself).sum())
        maps = maps_to(nodes, n)
        found = embedded(pattern, maps, adjacency)
        for root in range(n):
            counts[..., root, column] = found[..., maps[:, 0] == root].sum(-1) // symmetries
    return counts


def edges_of(graph: nx.Graph[int]) -> Integers:
    return np.array(list(graph.edges()), dtype=np.int64).reshape(-1, 2).T


def counts_of(adjacency: NDArray[Any]) -> Integers:
    return count_substructures(len(adjacency), np.array(np.nonzero(np.triu(adjacency))))


def row(**counts: int) -> list[int]:
    """A row of 13 counts; those not named are zero. Names with _ for -, and k_path as p2 … p6, k-cycle as c3 … c7."""
    short = {f"{name[2]}{name[0]}": name for name in SUBSTRUCTURES if name[1] == "-"}
    named = {short.get(name, name.replace("_", "-")): count for name, count in counts.items()}
    assert set(named) <= set(SUBSTRUCTURES)
    return [named.get(name, 0) for name in SUBSTRUCTURES]


def test_names_and_order() -> None:
    assert tuple(PATTERNS) == SUBSTRUCTURES


HAND_COMPUTED: dict[str, tuple[nx.Graph[int], dict[int, list[int]]]] = {
    "K4": (nx.complete_graph(4), {0: row(p2=6, p3=6, c3=3, c4=3, tailed_triangle=3, chordal_cycle=3)}),
    "C5": (nx.cycle_graph(5), {3: row(p2=2, p3=2, p4=2, c5=1)}),
    "C7": (nx.cycle_graph(7), {0: row(p2=2, p3=2, p4=2, p5=2, p6=2, c7=1)}),
    "Petersen": (nx.petersen_graph(), {7: row(p2=6, p3=12, p4=24, p5=36, p6=48, c5=6, c6=6)}),
    "K33": (nx.complete_bipartite_graph(3, 3), {0: row(p2=6, p3=12, p4=12, p5=12, c4=6, c6=6)}),
    "path": (nx.path_graph(4), {0: row(p2=1, p3=1), 1: row(p2=1)}),
    "star": (nx.star_graph(4), {0: row(), 1: row(p2=3)}),
    "triangle with a tail": (
        nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)]),
        {3: row(p2=2, p3=2, tailed_triangle=1), 2: row(p2=2, c3=1), 0: row(p2=3, p3=1, c3=1)},
    ),
    "diamond": (
        nx.Graph([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]),
        {0: row(p2=4, p3=4, c3=1, c4=1, chordal_cycle=1, tailed_triangle=2), 1: row(p2=4, p3=2, c3=2, c4=1)},
    ),
    "house": (
        nx.house_graph(),  # roof 4 over 2 and 3, floor 0 and 1
        {4: row(p2=4, p3=4, p4=4, c3=1, c5=1, triangle_rectangle=1)},
    ),
}


@pytest.mark.parametrize("name", HAND_COMPUTED)
def test_hand_computed_answers(name: str) -> None:
    graph, expected = HAND_COMPUTED[name]
    counts = count_substructures(len(graph), edges_of(graph))
    assert {node: counts[node].tolist() for node in expected} == expected


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 9, 14])
def test_complete_graphs(n: int) -> None:
    """In K_n every choice of other nodes makes the substructure."""
    counts = count_substructures(n, np.array(np.triu_indices(n, 1)))
    paths_with = [math.perm(n - 1, k) for k in range(2, 7)]
    half = [number // 2 for number in paths_with]
    expected = [*paths_with, *half, half[1], half[1], half[2]]
    assert counts.tolist() == [expected] * n


def test_all_graphs_with_up_to_seven_nodes_against_enumeration() -> None:
    atlas = [nx.to_numpy_array(graph) for graph in graph_atlas_g() if len(graph)]
    assert len(atlas) == 1252  # and the one without nodes
    for n in range(1, 8):
        adjacency = np.array([matrix for matrix in atlas if len(matrix) == n])
        edges = [np.array(np.nonzero(np.triu(matrix))) for matrix in adjacency]
        counts = count_many([n] * len(edges), [e.shape[1] for e in edges], np.concatenate(edges, axis=1))
        np.testing.assert_array_equal(counts.reshape(len(edges), n, 13), enumerated(adjacency))


@settings(max_examples=25)
@given(adjacency_matrices(max_nodes=9, weighted=False))
def test_random_graphs_against_enumeration(adjacency: NDArray[np.float64]) -> None:
    np.testing.assert_array_equal(counts_of(adjacency), enumerated(adjacency))


@given(adjacency_matrices(max_nodes=14, weighted=False), st.integers(0, 2**32 - 1))
def test_relabelled_nodes_keep_their_counts(adjacency: NDArray[np.float64], seed: int) -> None:
    other, permutation = relabelled(adjacency, seed)
    np.testing.assert_array_equal(counts_of(other)[permutation], counts_of(adjacency))


@given(st.lists(adjacency_matrices(max_nodes=12, weighted=False), max_size=6))
def test_many_are_counted_as_each_alone(matrices: list[NDArray[np.float64]]) -> None:
    edges = [np.array(np.nonzero(np.triu(matrix))) for matrix in matrices]
    joined = np.concatenate([np.zeros((2, 0), dtype=np.int64), *edges], axis=1)
    counts = count_many([len(matrix) for matrix in matrices], [part.shape[1] for part in edges], joined)
    alone = np.concatenate([np.zeros((0, 13), dtype=np.int64), *map(counts_of, matrices)])
    np.testing.assert_array_equal(counts, alone)
    assert counts.dtype == np.int64


@pytest.mark.parametrize(("piece", "entries"), [(1, 1), (7, 250), (10**9, 10**9)])
def test_the_size_of_the_pieces_changes_nothing(piece: int, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = counting_graphs(seed=3, count=4)
    expected = count_many(*graphs)
    monkeypatch.setattr(counting, "_PIECE", piece)
    monkeypatch.setattr(counting, "_TABLE_ENTRIES", entries)
    np.testing.assert_array_equal(count_many(*graphs), expected)


def test_separate_components_are_counted_by_themselves() -> None:
    graph = nx.disjoint_union_all([nx.empty_graph(2), nx.petersen_graph(), nx.complete_graph(4), nx.empty_graph(1)])
    counts = count_substructures(len(graph), edges_of(graph))
    assert not counts[[0, 1, 16]].any()
    np.testing.assert_array_equal(counts[2:12], count_substructures(10, edges_of(nx.petersen_graph())))
    np.testing.assert_array_equal(counts[12:16], count_substructures(4, edges_of(nx.complete_graph(4))))


def test_an_edge_listed_twice_or_both_ways_is_one_edge() -> None:
    once = np.array([[0, 1, 2, 0], [1, 2, 3, 3]])
    again = np.concatenate([once, once[::-1], once[:, :2]], axis=1)
    np.testing.assert_array_equal(count_substructures(4, again), count_substructures(4, once))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_no_edges(n: int) -> None:
    assert count_substructures(n, [[], []]).tolist() == [[0] * 13] * n


def test_no_graphs() -> None:
    assert count_many([], [], [[], []]).shape == (0, 13)


def test_inputs_are_not_changed() -> None:
    graphs = counting_graphs(seed=0, count=5)
    copies = [array.copy() for array in graphs]
    count_many(*graphs)
    for array, copy in zip(graphs, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("num_nodes", "edges", "words"),
    [
        (3, [[0, 1], [1, 1]], "graph 0: edge 1–1 is a self-loop"),
        (3, [[0], [3]], "edge 0–3 names a node that is not there"),
        (3, [[-1], [2]], "edge -1–2"),
        (3, [[0, 1, 2]], r"shape \(1, 3\)"),
        (3, [[0, 1], [1, 2], [0, 2]], r"Transpose"),
        (3, [0, 1], "shape"),
        (3, [[0, 1], [1]], "unequal length"),
        (3, [[0.0], [1.5]], "float64"),
        (3, [["0"], ["1"]], "whole numbers"),
        (3, [[True], [False]], "bool"),
        (-1, [[], []], "negative"),
        (2.5, [[], []], "float"),
        (10**30, [[], []], "num_nodes"),
    ],
)
def test_bad_graphs_are_refused(num_nodes: Any, edges: Any, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        count_substructures(num_nodes, edges)


def test_the_graph_at_fault_is_named() -> None:
    with pytest.raises(GraphError, match="graph 2: edge 1–1"):
        count_many([2, 0, 2], [1, 0, 2], [[0, 0, 1], [1, 1, 1]])


@pytest.mark.parametrize(("num_nodes", "num_edges"), [([2], [1, 1]), ([2, 2], [1, 2]), ([2, 2], [3, -1])])
def test_numbers_that_do_not_fit_together_are_refused(num_nodes: list[int], num_edges: list[int]) -> None:
    with pytest.raises(GraphError, match="expected"):
        count_many(num_nodes, num_edges, [[0, 0], [1, 1]])


def test_graphs_too_large_to_count_are_refused_at_once() -> None:
    with pytest.raises(MemoryForecastError, match="10001 nodes"):
        count_substructures(10_001, [[], []])
    with pytest.raises(GraphError, match="64 bits"):
        count_substructures(1450, np.array(np.triu_indices(1450, 1)))


def test_a_node_with_many_neighbours_is_no_obstacle() -> None:
    counts = count_substructures(1001, [[0] * 1000, list(range(1, 1001))])
    assert counts[0].tolist() == row()
    assert counts[1:].tolist() == [row(p2=999)] * 1000


def test_memory_stays_bounded_on_a_dense_graph() -> None:
    """K₁₈ has a million paths with four edges: 41 MB as one array of five columns."""
    edges = np.array(np.triu_indices(18, 1))
    count_substructures(18, edges)  # whatever is imported on the way
    tracemalloc.start()
    try:
        count_substructures(18, edges)
        assert tracemalloc.get_traced_memory()[1] < 24e6
    finally:
        tracemalloc.stop()


# The generator


@pytest.fixture(scope="module")
def generated() -> tuple[Integers, Integers, Integers]:
    return counting_graphs(seed=0)


def graph_of_edge(num_edges: Integers) -> Integers:
    return np.repeat(np.arange(len(num_edges)), num_edges)


def degrees(num_nodes: Integers, num_edges: Integers, edges: Integers) -> Integers:
    """(N,)."""
    first = np.repeat(np.cumsum(num_nodes) - num_nodes, num_edges)
    return np.bincount((edges + first).ravel(), minlength=int(num_nodes.sum()))


def disconnected(num_nodes: Integers, num_edges: Integers, edges: Integers) -> int:
    from scipy.sparse import block_diag, coo_array
    from scipy.sparse.csgraph import connected_components

    cuts = np.cumsum(num_edges)[:-1]
    parts = [
        coo_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(n, n))
        for n, pairs in zip(num_nodes.tolist(), np.split(edges, cuts, axis=1), strict=True)
    ]
    labels = connected_components(block_diag(parts), directed=False)[1]
    of_node = np.repeat(np.arange(len(num_nodes)), num_nodes)
    components = np.bincount(np.unique(np.stack([of_node, labels]), axis=1)[0])
    return int((components > 1).sum())


def test_generated_graphs_follow_the_recipe(generated: tuple[Integers, Integers, Integers]) -> None:
    num_nodes, num_edges, edges = generated
    assert [array.dtype for array in generated] == [np.int64] * 3
    assert len(num_nodes) == len(num_edges) == 5000
    assert edges.shape == (2, num_edges.sum())
    regular_degree = np.select([num_nodes == 10, num_nodes == 15, num_nodes == 20, num_nodes == 30], [6, 6, 5, 5])
    np.testing.assert_array_equal(num_edges, num_nodes * regular_degree // 2 - num_nodes)
    np.testing.assert_array_less(degrees(*generated), np.repeat(regular_degree, num_nodes) + 1)
    assert np.bincount(num_nodes)[[10, 15, 20, 30]] == pytest.approx([1250] * 4, abs=100)
    assert num_nodes.mean() == pytest.approx(18.8, abs=0.3)
    assert num_edges.mean() == pytest.approx(31.3, abs=0.3)


def test_generated_edges_are_in_order(generated: tuple[Integers, Integers, Integers]) -> None:
    num_nodes, num_edges, edges = generated
    graph = graph_of_edge(num_edges)
    assert (edges[0] < edges[1]).all()
    assert (edges >= 0).all() and (edges[1] < num_nodes[graph]).all()
    key = (graph * 30 + edges[0]) * 30 + edges[1]
    assert (np.diff(key) > 0).all()


def test_generated_graphs_are_like_the_published(
    generated: tuple[Integers, Integers, Integers], shared_data: Path
) -> None:
    with np.load(shared_data / "counting" / "graphs.npz") as file:
        published = tuple(file[name].astype(np.int64) for name in ("num_nodes", "num_edges", "edges"))
    published = (published[0], published[1], published[2].T)
    assert disconnected(*published) == 520
    assert disconnected(*generated) == pytest.approx(520, abs=70)
    for n in (10, 15, 20, 30):
        shares = []
        for graphs in (generated, published):
            chosen = degrees(*graphs)[np.repeat(graphs[0] == n, graphs[0])]
            shares.append(np.bincount(chosen, minlength=7) / len(chosen))
        assert shares[0] == pytest.approx(shares[1], abs=0.015)


def test_the_same_seed_gives_the_same_graphs_on_every_machine() -> None:
    graphs = counting_graphs(seed=0, count=50)
    digest = hashlib.sha256(b"".join(array.astype("<i8").tobytes() for array in graphs)).hexdigest()
    assert digest[:16] == "406cf2caea3d3e41"


def test_graph_i_depends_on_the_seed_and_i_only(generated: tuple[Integers, Integers, Integers]) -> None:
    few = counting_graphs(seed=0, count=20)
    for array, longer in zip(few, generated, strict=True):
        np.testing.assert_array_equal(array, longer[..., : array.shape[-1]])
    other = counting_graphs(seed=1, count=20)
    assert other[2].shape != few[2].shape or (other[2] != few[2]).any()
    assert [array.shape for array in counting_graphs(seed=0, count=0)] == [(0,), (0,), (2, 0)]


@pytest.mark.parametrize(("seed", "count"), [(-1, 5), (0, -5), (0.5, 5), (0, "5"), (None, 5)])
def test_bad_seed_or_count(seed: Any, count: Any) -> None:
    with pytest.raises(GraphError, match="whole number"):
        counting_graphs(seed, count)


def test_the_published_graphs_are_counted_in_time_and_agree_with_the_formulas(shared_data: Path) -> None:
    with np.load(shared_data / "counting" / "graphs.npz") as file:
        num_nodes, num_edges, edges = (file[name].astype(np.int64) for name in ("num_nodes", "num_edges", "edges"))
    start = time.process_time()
    counts = count_many(num_nodes, num_edges, edges.T)
    assert time.process_time() - start < 60
    assert counts.shape == (94_000, 13)
    first_node, first_edge = np.cumsum(num_nodes) - num_nodes, np.cumsum(num_edges) - num_edges
    for n in (10, 15, 20, 30):
        chosen = np.flatnonzero(num_nodes == n)[:20]
        adjacency = np.zeros((len(chosen), n, n), dtype=np.int64)
        for position, graph in enumerate(chosen):
            u, v = edges[first_edge[graph] : first_edge[graph] + num_edges[graph]].T
            adjacency[position, u, v] = adjacency[position, v, u] = 1
        here = counts[first_node[chosen][:, None] + np.arange(n)]  # (20, n, 13)
        for k in range(2, 7):
            np.testing.assert_array_equal(here[..., k - 2], path_matrix(adjacency, k).sum(-1))
            np.testing.assert_array_equal(here[..., k + 3], cycle_counts(adjacency, k + 1))
