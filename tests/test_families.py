"""Graph families have the properties that their names promise."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pointset import is_same_graph
from pointset.errors import GraphError, SpecError
from pointset.paper import families
from pointset.paper.families import FAMILIES, cfi, marked, parameters, strongly_regular

STRONGLY_REGULAR = {
    "rook 2": (families.rook(2), (4, 2, 0, 2)),
    "rook 5": (families.rook(5), (25, 8, 3, 2)),
    "Shrikhande": (families.shrikhande(), (16, 6, 2, 2)),
    "T(4)": (families.triangular(4), (6, 4, 2, 4)),
    "T(8)": (families.triangular(8), (28, 12, 6, 4)),
    "Chang 1": (families.chang(1), (28, 12, 6, 4)),
    "Chang 2": (families.chang(2), (28, 12, 6, 4)),
    "Chang 3": (families.chang(3), (28, 12, 6, 4)),
    "Petersen": (families.petersen(), (10, 3, 0, 1)),
    "Clebsch": (families.clebsch(), (16, 5, 0, 2)),
    "Schläfli": (families.schlaefli(), (27, 16, 10, 8)),
    "Hoffman–Singleton": (families.hoffman_singleton(), (50, 7, 0, 1)),
    "Paley 13": (families.paley(13), (13, 6, 2, 3)),
    "Paley 9": (families.paley(9), (9, 4, 1, 2)),
    "Paley 25": (families.paley(25), (25, 12, 5, 6)),
    "Latin square": (families.latin_square([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]), (16, 9, 4, 6)),
}
CONNECTED_BASES = {
    "edge": nx.path_graph(2),
    "tree": nx.balanced_tree(2, 2),
    "triangle with a tail": nx.lollipop_graph(3, 2),
    "K4": nx.complete_graph(4),
    "cube": families.hypercube(3),
}


@pytest.mark.parametrize("name", STRONGLY_REGULAR)
def test_strongly_regular(name: str) -> None:
    graph, (v, k, lambda_, mu) = STRONGLY_REGULAR[name]
    adjacency = np.asarray(nx.to_numpy_array(graph, nodelist=range(v)))
    identity, ones = np.eye(v), np.ones((v, v))
    assert np.array_equal(
        adjacency @ adjacency, k * identity + lambda_ * adjacency + mu * (ones - identity - adjacency)
    )
    assert parameters(graph) == (v, k, lambda_, mu)


@pytest.mark.parametrize(
    "graph", [nx.path_graph(3), families.cycle(6), nx.complete_graph(4), nx.empty_graph(0)], ids=str
)
def test_other_graphs_have_no_parameters(graph: nx.Graph[int]) -> None:
    assert parameters(graph) is None


class TestCatalogue:
    @pytest.mark.parametrize(
        ("wanted", "known"),
        [
            ((5, 2, 0, 1), 1),  # the pentagon
            ((10, 3, 0, 1), 1),
            ((16, 5, 0, 2), 1),
            ((16, 6, 2, 2), 2),  # rook and Shrikhande: all there are
            ((16, 10, 6, 6), 1),
            ((25, 12, 5, 6), 1),  # Paley's is the Latin square graph of the cyclic group: listed once
            ((28, 12, 6, 4), 4),  # T(8) and Chang's: all there are
            ((36, 15, 6, 6), 2),  # of the two groups of order 6
            ((16, 3, 2, 0), 0),  # four K4: strongly regular, but not made here
        ],
        ids=str,
    )
    def test_lists_each_graph_once(self, wanted: tuple[int, int, int, int], known: int) -> None:
        graphs = strongly_regular(*wanted)
        assert len(graphs) == known
        assert all(parameters(graph) == wanted and sorted(graph) == list(range(wanted[0])) for graph in graphs)
        assert not any(is_same_graph(a, b) for a, b in itertools.combinations(graphs, 2))

    def test_gives_copies(self) -> None:
        strongly_regular(10, 3, 0, 1)[0].clear()
        assert len(strongly_regular(10, 3, 0, 1)[0]) == 10


def test_latin_square_graphs_of_the_two_groups_of_order_four_are_complements_of_rook_and_shrikhande() -> None:
    klein = [[a ^ b for b in range(4)] for a in range(4)]
    cyclic = [[(a + b) % 4 for b in range(4)] for a in range(4)]
    assert is_same_graph(nx.complement(families.latin_square(klein)), families.rook(4))
    assert is_same_graph(nx.complement(families.latin_square(cyclic)), families.shrikhande())


@pytest.mark.parametrize("q", [5, 9, 17, 25])
def test_paley_graphs_are_their_own_complements(q: int) -> None:
    graph = families.paley(q)
    assert is_same_graph(graph, nx.complement(graph))


class TestCaiFuererImmerman:
    def test_over_a_cycle_they_are_two_cycles_and_one(self) -> None:
        assert is_same_graph(cfi(families.cycle(5), twisted=False), families.two_cycles(5))
        assert is_same_graph(cfi(families.cycle(5), twisted=True), families.cycle(10))

    def test_over_k4_they_are_rook_and_shrikhande(self) -> None:
        assert is_same_graph(cfi(nx.complete_graph(4), twisted=False), families.rook(4))
        assert is_same_graph(cfi(nx.complete_graph(4), twisted=True), families.shrikhande())

    @pytest.mark.parametrize("name", CONNECTED_BASES)
    def test_twisted_is_another_graph_with_as_many_nodes_whichever_edge_is_twisted(self, name: str) -> None:
        base = CONNECTED_BASES[name]
        plain, twisted = cfi(base, twisted=False), cfi(base, twisted=True)
        assert len(plain) == len(twisted) == sum(2 ** (degree - 1) for _, degree in base.degree)
        assert not is_same_graph(plain, twisted)
        other: nx.Graph[int] = nx.Graph(list(base.edges)[::-1])  # its first edge is the last of the base
        assert is_same_graph(cfi(other, twisted=True), twisted)


def test_cycles_cubes_and_skip_links() -> None:
    assert is_same_graph(families.hypercube(4), nx.hypercube_graph(4))
    assert families.hypercube(0).number_of_nodes() == 1
    assert [len(part) for part in nx.connected_components(families.two_cycles(7))] == [7, 7]
    classes = families.csl_classes()
    assert len(classes) == 10 and {len(graph) for graph in classes} == {41}
    assert {degree for graph in classes for _, degree in graph.degree} == {4}
    assert not any(is_same_graph(a, b) for a, b in itertools.combinations(classes, 2))


@pytest.mark.parametrize(("nodes", "degree"), [(1, 0), (12, 3), (12, 9), (9, 8), (50, 25)])
def test_random_regular(nodes: int, degree: int) -> None:
    drawn = [families.random_regular(nodes, degree, seed) for seed in (0, 0, 1)]
    assert all(set(dict(graph.degree).values()) == {degree} and list(graph) == list(range(nodes)) for graph in drawn)
    edges = [sorted(graph.edges) for graph in drawn]
    assert edges[0] == edges[1]
    assert (edges[0] == edges[2]) == (degree in (0, nodes - 1))


def test_marked_keeps_edges_weights_and_features() -> None:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edge("a", "a", weight=2.0, edge_attr=[5])
    graph.add_edge("a", "b", weight=3.0, edge_attr=[7])
    data = marked(graph, 1)
    assert data.x.tolist() == [[0], [1]] and data.x.dtype.is_signed
    described = zip(data.edge_index.mT.tolist(), data.edge_weight.tolist(), data.edge_attr.tolist(), strict=True)
    assert sorted(described) == [([0, 0], 2.0, [5]), ([0, 1], 3.0, [7]), ([1, 0], 3.0, [7])]
    with pytest.raises(GraphError, match="expected none"):
        marked(data, 0)


def test_the_register_describes_every_family() -> None:
    assert {"cycle", "rook", "cfi", "paley", "strongly_regular", "marked"} <= set(FAMILIES)
    assert FAMILIES["rook"].name == "rook(side)" and len(FAMILIES["rook"].make(3)) == 9
    for name, family in FAMILIES.items():
        assert getattr(families, name) is family.make
        assert 10 < len(family.description) < 130 and family.description.endswith((".", ")."))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("cycle", (2,), "got n=2; expected a whole number, 3 or more"),
        ("two_cycles", (3.0,), "got length=3.0"),
        ("circular_skip_links", (41, 40), "skip=40; expected a whole number from 2 to 39"),
        ("hypercube", (-1,), "dimension=-1"),
        ("random_regular", (5, 3, 0), "expected an even product"),
        ("random_regular", (5, 5, 0), "degree=5; expected a whole number from 0 to 4"),
        ("random_regular", (6, 3, None), "seed=None"),
        ("rook", ("4",), "side='4'"),
        ("paley", (7,), "q=7; expected a prime with q = 1 mod 4"),
        ("paley", (81,), "q=81"),
        ("chang", (4,), "which=4; expected a whole number from 1 to 3"),
        ("latin_square", ([[0, 1, 2], [1, 2, 0], [2, 1, 0]],), "once each"),
        ("latin_square", ([[0, 1], [1]],), "once each"),
        ("latin_square", (7,), "once each"),
        ("strongly_regular", (16, 6, 2, 3), "every strongly regular graph satisfies"),
        ("strongly_regular", (10**9, 6, 2, 3), "expected 4 to 100 nodes"),
        ("cfi", (nx.empty_graph(3), True), "in 3 parts, with 0 edges"),
        ("cfi", (nx.empty_graph(0), True), "in 0 parts"),
        ("cfi", (nx.DiGraph([(0, 1)]), True), "got DiGraph"),
        ("cfi", (nx.Graph([(0, 0), (0, 1)]), False), "1 of them loops"),
        ("cfi", (nx.star_graph(30), False), "Use a base of smaller degree"),
        ("marked", (nx.path_graph(3), 3), "node=3; expected a whole number from 0 to 2"),
        ("marked", (nx.empty_graph(0), 0), "without nodes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_parameters_are_named(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((SpecError, GraphError), match=message):
        FAMILIES[name].make(*arguments)
