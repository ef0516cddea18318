"""The Weisfeiler–Leman tests against what is known of them, and against plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g
from numpy.typing import NDArray
from torch_geometric.data import Data

from pointset.errors import GraphError, MemoryForecastError, SpecError
from pointset.paper import families
from pointset.paper.families import cfi, marked, random_regular, rook, shrikhande
from pointset.paper.refinement import Refinement, product, refine_nodes, refine_pairs, refine_tuples, same_when_marked
from tests.graph_strategies import adjacency_matrices, relabelled, with_features

Refine = Callable[..., Refinement]


def oblivious(k: int) -> Refine:
    return lambda graphs, rounds=None: refine_tuples(graphs, k, rounds)


def folklore(k: int) -> Refine:
    return lambda graphs, rounds=None: refine_tuples(graphs, k, rounds, folklore=True)


ALL: dict[str, Refine] = {
    "1-WL": refine_nodes,
    "2-FWL": refine_pairs,
    "2-WL by tuples": oblivious(2),
    "2-FWL by tuples": folklore(2),
    "3-WL by tuples": oblivious(3),
}


def kinds(refinement: Refinement) -> list[int]:
    """For each graph the first that the refinement takes for the same."""
    seen: dict[tuple[tuple[int, int], ...], int] = {}
    every = range(len(refinement.colours))
    return [seen.setdefault(tuple(sorted(refinement.histogram(i).items())), i) for i in every]


def partition(colours: Sequence[NDArray[np.int64]]) -> list[int]:
    """The colours of all graphs, renumbered by first appearance: equal for equal partitions."""
    first: dict[int, int] = {}
    return [first.setdefault(colour, len(first)) for one in colours for colour in one.ravel().tolist()]


def same(refine: Refine, *pair: Any) -> bool:
    return refine(pair).same(0, 1)


def hard_graphs() -> list[Any]:
    """Pairs of every strength, with features and without, few nodes."""
    plain = [families.cycle(8), families.two_cycles(4), nx.path_graph(7), nx.star_graph(6), nx.empty_graph(4)]
    plain += [nx.circular_ladder_graph(4), nx.moebius_kantor_graph(), families.petersen(), nx.circular_ladder_graph(5)]
    plain += [random_regular(8, 3, seed) for seed in range(8)]
    plain += [nx.gnp_random_graph(7, 0.5, seed=seed) for seed in range(6)]
    return plain + [cfi(nx.complete_bipartite_graph(2, 3), twisted) for twisted in (False, True)]


def featured(graph: nx.Graph[Any], seed: int) -> Data:
    """With two kinds of nodes and of edges, so that classes have several members."""
    data = with_features(graph, seed)
    data.x, data.edge_attr = data.x[:, :1] // 3, data.edge_attr // 2
    return data


def featured_graphs() -> list[Data]:
    return [featured(graph, seed) for graph in (nx.cycle_graph(4), nx.star_graph(3)) for seed in range(20)]


class TestNodes:
    def test_regular_graphs_of_one_degree_are_one(self) -> None:
        graphs = [families.cycle(10), families.two_cycles(5), *(random_regular(10, 3, seed) for seed in range(5))]
        assert kinds(refine_nodes(graphs)) == [0, 0, 2, 2, 2, 2, 2]

    def test_trees_are_separated(self) -> None:
        trees = list(nx.nonisomorphic_trees(9))
        assert kinds(refine_nodes(trees)) == list(range(47))

    def test_random_graphs_are_separated_down_to_single_nodes(self) -> None:
        refinement = refine_nodes([nx.gnp_random_graph(60, 0.5, seed=seed) for seed in range(10)])
        assert kinds(refinement) == list(range(10))
        assert all(len(np.unique(colours)) == 60 for colours in refinement.colours)

    def test_a_path_takes_as_many_rounds_as_its_ends_need_to_be_heard_in_the_middle(self) -> None:
        refinement = refine_nodes([nx.path_graph(9)])
        assert refinement.rounds == 4
        assert partition(refinement.colours) == [0, 1, 2, 3, 4, 3, 2, 1, 0]


class TestPairs:
    def test_one_cycle_and_two_are_separated(self) -> None:
        for length in range(3, 12):
            assert not same(refine_pairs, families.cycle(2 * length), families.two_cycles(length))

    def test_all_graphs_of_up_to_seven_nodes_are_separated(self) -> None:
        """And 1-WL joins some: the first pairs have six nodes."""
        atlas = graph_atlas_g()
        assert kinds(refine_pairs(atlas)) == list(range(1253))
        small = [graph for graph in atlas if len(graph) <= 6]
        assert len({*kinds(refine_nodes([graph for graph in small if len(graph) <= 5]))}) == 53
        assert len({*kinds(refine_nodes(small))}) < len(small) == 209

    def test_ten_classes_of_skip_links_are_separated(self) -> None:
        assert kinds(refine_pairs(families.csl_classes())) == list(range(10))

    @pytest.mark.parametrize("wanted", [(16, 6, 2, 2), (28, 12, 6, 4), (36, 15, 6, 6)], ids=str)
    def test_strongly_regular_graphs_of_the_same_parameters_are_one(self, wanted: tuple[int, int, int, int]) -> None:
        graphs = families.strongly_regular(*wanted)
        refinement = refine_pairs(graphs)
        assert len(graphs) > 1 and kinds(refinement) == [0] * len(graphs)
        assert refinement.rounds == 0 and [*refinement.histogram(0).values()].count(wanted[0]) == 1

    def test_a_mark_separates_them(self) -> None:
        """Shrikhande's neighbourhood is a hexagon, the rook's two triangles; 1-WL does not see that."""
        pair = [marked(rook(4), 0), marked(shrikhande(), 0)]
        assert not same(refine_pairs, *pair)
        assert same(refine_nodes, *pair)
        assert kinds(refine_pairs([marked(graph, 0) for graph in families.strongly_regular(28, 12, 6, 4)])) == [
            0,
            1,
            2,
            3,
        ]

    def test_a_sum_of_more_than_512_terms_is_exact(self) -> None:
        generator = np.random.default_rng(0)
        left, right = generator.integers(2**22 - 3, size=(2, 1100, 1100))
        left[0] = right[:, 0] = 2**22 - 4  # the largest there are
        rows, columns = [0, 1, 500], [0, 7]
        exact = left.astype(object)[rows] @ right.astype(object)[:, columns] % (2**22 - 3)
        got = product(left.astype(float), right.astype(float))
        assert np.array_equal(got[np.ix_(rows, columns)], exact.astype(np.int64))


class TestTuples:
    def test_three_fwl_separates_rook_and_shrikhande(self) -> None:
        assert not same(folklore(3), rook(4), shrikhande())

    @pytest.mark.parametrize("graphs", [hard_graphs(), featured_graphs()], ids=["plain", "with features"])
    def test_oblivious_k_plus_1_is_folklore_k(self, graphs: list[Any]) -> None:
        node, pair, two, two_folklore, three = (kinds(refine(graphs)) for refine in ALL.values())
        assert pair == two_folklore == three
        assert two == node
        assert 1 < len({*node}) <= len({*pair}) < len(graphs)  # and the sample has equal ones and different ones
        assert partition(refine_pairs(graphs).colours) == partition(folklore(2)(graphs).colours)

    def test_the_plain_sample_has_graphs_that_only_pairs_tell_apart(self) -> None:
        assert len({*kinds(refine_nodes(hard_graphs()))}) < len({*kinds(refine_pairs(hard_graphs()))})

    def test_more_than_memory_holds_is_refused(self) -> None:
        with pytest.raises(MemoryForecastError, match=r"5-WL on 1 graphs of up to 1000 nodes needs.*GiB.*smaller k"):
            refine_tuples([nx.empty_graph(1000)], 5)
        with pytest.raises(MemoryForecastError, match=r"2-FWL on 1 graphs of up to 1000000 nodes.*refine_nodes"):
            refine_pairs([(10**6, [(0, 1)])])

    @pytest.mark.parametrize("k", [0, 1, 2.5, "3"])
    def test_length_is_checked(self, k: Any) -> None:
        with pytest.raises(SpecError, match="expected a whole number, 2 or more"):
            refine_tuples([nx.path_graph(2)], k)


class TestCaiFuererImmerman:
    """k-FWL separates the pair over a base exactly where the base's treewidth is at most k."""

    @pytest.mark.parametrize(
        ("base", "treewidth"),
        [
            (nx.balanced_tree(2, 2), 1),
            (nx.cycle_graph(5), 2),
            (nx.complete_bipartite_graph(2, 3), 2),
            (nx.complete_graph(4), 3),
            (nx.complete_bipartite_graph(3, 3), 3),
            (nx.grid_2d_graph(3, 3), 3),
            (nx.complete_graph(5), 4),
        ],
        ids=["tree", "cycle", "K2,3", "K4", "K3,3", "grid", "K5"],
    )
    def test_treewidth_decides(self, base: nx.Graph[Any], treewidth: int) -> None:
        pair = [cfi(base, twisted) for twisted in (False, True)]
        assert same(refine_nodes, *pair) == (treewidth > 1)
        assert same(refine_pairs, *pair) == (treewidth > 2)

    @pytest.mark.parametrize(
        ("base", "separated"),
        [
            pytest.param(nx.complete_graph(4), True, id="K4"),
            pytest.param(nx.complete_graph(5), False, id="K5", marks=pytest.mark.slow),
        ],
    )
    def test_three_fwl(self, base: nx.Graph[int], separated: bool) -> None:
        assert same(folklore(3), *(cfi(base, twisted) for twisted in (False, True))) != separated


def pairs_by_loops(graphs: list[Data], rounds: int) -> list[list[Any]]:
    """2-FWL in dictionaries: colours are numbered in the order in which they are met."""

    def numbered(keys: list[dict[tuple[int, int], Any]]) -> list[dict[tuple[int, int], int]]:
        number: dict[Any, int] = {}
        return [{pair: number.setdefault(key, len(number)) for pair, key in of_graph.items()} for of_graph in keys]

    keys: list[dict[tuple[int, int], Any]] = []
    for graph in graphs:
        edges = dict(zip(map(tuple, graph.edge_index.mT.tolist()), graph.edge_attr.tolist(), strict=True))
        x = graph.x.tolist()
        every = itertools.product(range(graph.num_nodes), repeat=2)
        keys.append({(i, j): (i == j, str(edges.get((i, j))), *x[i], *x[j]) for i, j in every})
    colours = numbered(keys)
    for _ in range(rounds):
        keys = [
            {(i, j): (one[i, j], tuple(sorted((one[i, k], one[k, j]) for k in range(graph.num_nodes)))) for i, j in one}
            for one, graph in zip(colours, graphs, strict=True)
        ]
        colours = numbered(keys)
    return [list(one.values()) for one in colours]


@given(
    adjacency=adjacency_matrices(max_nodes=6, weighted=False),
    other=adjacency_matrices(max_nodes=6, weighted=False),
    seed=st.integers(0, 99),
    rounds=st.integers(0, 3),
)
@settings(max_examples=60)
def test_pairs_as_by_loops(adjacency: NDArray[np.float64], other: NDArray[np.float64], seed: int, rounds: int) -> None:
    graphs = [featured(nx.from_numpy_array(one), seed) for one in (adjacency, other)]
    expected = [colour for one in pairs_by_loops(graphs, rounds) for colour in one]
    for refine in (refine_pairs, folklore(2)):
        refinement = refine(graphs, rounds=rounds)
        assert partition(refinement.colours) == partition([np.array(expected, dtype=np.int64)])
        assert refinement.rounds == rounds


@pytest.mark.parametrize("name", ALL)
@given(adjacency=adjacency_matrices(max_nodes=8), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_relabelling_moves_the_colours_along(name: str, adjacency: NDArray[np.float64], seed: int) -> None:
    other, permutation = relabelled(adjacency, seed)
    refinement = ALL[name]([adjacency, other])
    colours, moved = refinement.colours
    assert refinement.same(0, 1)
    assert np.array_equal(moved[np.ix_(*[permutation] * colours.ndim)], colours)


class TestRounds:
    @pytest.mark.parametrize("name", ALL)
    def test_rounds_are_counted_and_stability_is_told(self, name: str) -> None:
        graphs = [nx.path_graph(12), families.cycle(7)]
        whole = ALL[name](graphs)
        counts = [len(np.unique(np.concatenate([c.ravel() for c in ALL[name](graphs, t).colours]))) for t in range(9)]
        assert whole.stable and whole.rounds >= 2
        for rounds in range(9):
            some = ALL[name](graphs, rounds)
            assert some.rounds == rounds and some.stable == (rounds >= whole.rounds)
        assert all((a < b) == (t < whole.rounds) for t, (a, b) in enumerate(itertools.pairwise(counts)))
        assert partition(ALL[name](graphs, 8).colours) == partition(whole.colours)

    def test_no_round_is_the_start(self) -> None:
        path = nx.path_graph(3)
        assert refine_nodes([path], 0).histogram(0) == {0: 3}
        assert refine_pairs([path], 0).histogram(0) == {0: 2, 1: 4, 2: 3}  # no edge, edge, equal
        assert sorted(refine_tuples([path], 2, 0).histogram(0).values()) == [2, 3, 4]

    @pytest.mark.parametrize("rounds", [-1, 1.5, "2", True])
    def test_rounds_are_checked(self, rounds: Any) -> None:
        with pytest.raises(SpecError, match="expected a whole number, 0 or more"):
            refine_pairs([nx.path_graph(2)], rounds)


@pytest.mark.parametrize("name", ALL)
class TestWhatGraphsCarry:
    def test_features_weights_and_loops_separate(self, name: str) -> None:
        edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
        x, bonds = torch.tensor([[0], [0], [1]]), torch.tensor([0, 0, 1, 1, 1, 1])
        plain, weighted = np.ones((3, 3)) - np.eye(3), np.array([[0, 1, 1], [1, 0, 2], [1, 2, 0]])
        refine = ALL[name]
        assert same(refine, Data(x=x, edge_index=edges), Data(x=x.flip(0), edge_index=edges))
        assert not same(refine, Data(x=x, edge_index=edges), Data(x=1 - x, edge_index=edges))
        first, second = (Data(edge_attr=some, edge_index=edges, num_nodes=3) for some in (bonds, 1 - bonds))
        assert not same(refine, first, second)
        assert not same(refine, plain, weighted) and same(refine, weighted, weighted[::-1, ::-1].copy())
        assert not same(refine, plain, plain + np.diag([1, 0, 0]))
        assert not same(refine, plain + np.diag([1, 0, 0]), plain + np.diag([2, 0, 0]))

    def test_no_graphs_no_nodes_and_graphs_of_many_sizes(self, name: str) -> None:
        refine = ALL[name]
        assert refine([]).colours == []
        refinement = refine([nx.empty_graph(0), nx.empty_graph(1), nx.empty_graph(0), nx.empty_graph(2)])
        assert kinds(refinement) == [0, 1, 0, 3] and refinement.histogram(0) == {}
        assert refine([nx.empty_graph(0)]).stable

    def test_features_of_different_shape_are_refused(self, name: str) -> None:
        with pytest.raises(GraphError, match=r"x of shapes \(1,\) and None .*one shape for all"):
            ALL[name]([marked(nx.path_graph(2), 0), nx.path_graph(2)])
        with pytest.raises(GraphError, match="graph 1: "):
            ALL[name]([nx.path_graph(2), "graph"])


class TestMarkedNodes:
    def test_one_mark_tells_strongly_regular_graphs_apart_and_copies_not(self) -> None:
        copy = nx.relabel_nodes(rook(4), {node: (5 * node + 3) % 16 for node in range(16)})
        assert same_when_marked([rook(4), shrikhande(), copy]) == [False, True]

    def test_without_rounds_only_edges_at_the_mark_are_seen(self) -> None:
        assert same_when_marked([rook(4), shrikhande()], rounds=0) == [True]

    def test_graphs_that_one_mark_does_not_tell_apart(self) -> None:
        """CFI graphs over a base of treewidth 4: one mark is not worth two."""
        pair = [cfi(nx.complete_graph(5), twisted) for twisted in (False, True)]
        assert same_when_marked(pair) == [True]
