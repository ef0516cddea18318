"""The statements on refinement and graph transformers: their verdicts, and checks that come out the other way."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from pointset.errors import SpecError
from pointset.paper.families import cycle, rook, shrikhande, two_cycles
from pointset.paper.refinement import refine_nodes
from pointset.paper.theorems import folklore, graph_transformers, message_passing
from pointset.paper.theorems.graph_transformers import search, twelve_nodes
from pointset.paper.theorems.random_models import (
    difference,
    gin,
    gps,
    gps_same,
    graphormer_same,
    point_set_transformer,
    refine_by_relation,
    resistance_same,
)
from pointset.paper.theorems.small_graphs import (
    distances,
    edge_index,
    return_probabilities,
    shuffled,
    whole_adjacency,
)
from pointset.paper.theorems.statement import Finding, Verdict


def holds(finding: Finding) -> bool:
    assert finding.evidence and finding.numbers
    return finding.verdict is Verdict.HOLDS


class TestFolklore:
    """Theorem 5.2, Lemma A.4."""

    def test_distances_up_to_two_to_the_rounds_and_no_further(self) -> None:
        assert holds(folklore.theorem_5_2_first(max_nodes=5, longest=18, most_rounds=2))
        assert not holds(folklore.theorem_5_2_first(max_nodes=5, longest=18, most_rounds=1, reach=2))
        assert holds(folklore.theorem_5_2_second(most_rounds=3))

    def test_powers_of_the_adjacency_up_to_two_to_the_rounds_and_no_further(self) -> None:
        finding = folklore.lemma_a_4(max_nodes=5, longest=18, most_rounds=2)
        assert holds(finding)
        assert int(finding.numbers["colours_mixed_beyond"]) > 0
        assert not holds(folklore.lemma_a_4(max_nodes=5, longest=18, most_rounds=1, reach=1))


class TestCycles:
    """Lemma A.5, Theorem B.3."""

    def test_the_printed_lengths_are_two_nodes_short(self) -> None:
        finding = folklore.lemma_a_5(most_rounds=3)
        assert not holds(finding)
        assert finding.numbers["taken_for_one_as_printed"] == 0
        assert [finding.numbers[f"smallest_nodes_{K}_rounds"] for K in (1, 2, 3)] == [10, 18, 34]
        assert finding.numbers["with_these_the_one_cycle_has_the_distance"] is True
        assert folklore.lemma_a_5(most_rounds=2, extra_nodes=2).numbers["taken_for_one_as_printed"] == 2

    def test_one_layer_sees_what_rounds_do_not(self) -> None:
        assert holds(folklore.theorem_b_3(most_rounds=2))
        assert not holds(folklore.theorem_b_3(most_rounds=2, preset="pst-gc"))  # SRD: edges only in one layer


class TestMessagePassing:
    """Theorem 5.3, Lemma A.3, Theorem C.2."""

    def test_one_cycle_or_two(self) -> None:
        assert holds(message_passing.theorem_5_3(range(6, 9)))
        assert holds(message_passing.lemma_a_3(range(6, 9)))

    def test_a_pair_that_message_passing_separates_is_none(self) -> None:
        assert not holds(message_passing.theorem_5_3(range(6, 9), second=nx.path_graph))
        assert not holds(message_passing.lemma_a_3(range(6, 9), second=nx.path_graph))
        assert difference(gin(3), cycle(6), nx.path_graph(6)).separated

    def test_a_graph_transformer_needs_the_same_depth(self) -> None:
        assert holds(message_passing.lemma_c_3(most_layers=4))
        assert not holds(message_passing.lemma_c_3(most_layers=4, fewer_layers=1))


class TestGraphTransformers:
    """Theorem B.2."""

    def test_the_pair_of_twelve_nodes(self) -> None:
        assert holds(graph_transformers.theorem_b_2())

    @pytest.mark.parametrize(
        "pair",
        [
            (graph_transformers.with_centre(cycle(8)), graph_transformers.with_centre(two_cycles(4))),  # RWSE tells
            (rook(4), shrikhande()),  # nothing tells, PST neither
        ],
        ids=["wheels", "strongly regular"],
    )
    def test_other_pairs_do_not_show_it(self, pair: tuple[nx.Graph[int], nx.Graph[int]]) -> None:
        assert not holds(graph_transformers.theorem_b_2(pair))

    def test_the_search_finds_that_pair_and_no_smaller_one(self) -> None:
        assert not [pair for half in (3, 4, 5) for pair in search(half)]
        ((one, other),) = search(6)
        first, second = twelve_nodes()
        assert nx.is_isomorphic(second, nx.circulant_graph(12, [1, 3, 6])) and not nx.is_isomorphic(first, second)
        assert {nx.is_isomorphic(one, first), nx.is_isomorphic(one, second)} == {True, False}
        assert {nx.is_isomorphic(other, first), nx.is_isomorphic(other, second)} == {True, False}

    def test_no_pair_with_nine_nodes_is_as_the_proof_says(self) -> None:
        finding = graph_transformers.proof_of_b_2()
        assert not holds(finding)
        assert (finding.numbers["rims"], finding.numbers["pairs"]) == (22, 36)
        assert holds(graph_transformers.proof_of_b_2(twelve_nodes()))

    def test_degree_and_return_probabilities_come_from_different_matrices(self) -> None:
        finding = graph_transformers.start_of_b_2()
        assert holds(finding)
        assert finding.numbers["matrices_that_give_both"] == 0
        assert not holds(graph_transformers.start_of_b_2(matrices=("laplacian",)))


class TestSymmetricNodes:
    """Figure 2, Theorem C.1."""

    def test_the_smallest_graphs(self) -> None:
        assert {len(one.graph) for one in graph_transformers.smallest_examples(edges_alike=False)} == {4}
        found = graph_transformers.smallest_examples(edges_alike=True)
        assert any(nx.is_isomorphic(one.graph, nx.path_graph(6)) for one in found)
        for graph, v1, v2, v3 in found:
            assert distances(graph)[v1, [v2, v3]].tolist() == [2, 3]

    def test_equivariant_representations_do_not_tell_and_others_do(self) -> None:
        few = (gin(2), point_set_transformer(1))
        assert holds(graph_transformers.figure_2(few)) and holds(graph_transformers.theorem_c_1(few))
        by_number = lambda graphs, seed: [torch.eye(len(graph), 4, dtype=torch.float64) + 1 for graph in graphs]
        assert not holds(graph_transformers.theorem_c_1([by_number]))


class TestRelations:
    def test_with_edges_for_relation_it_is_message_passing(self) -> None:
        graphs = [nx.path_graph(7), nx.star_graph(6), cycle(7), nx.gnp_random_graph(7, 0.4, seed=1)]
        ours, theirs = refine_by_relation([whole_adjacency(graph) for graph in graphs]), refine_nodes(graphs)
        for one, other in zip(ours.colours, theirs.colours, strict=True):
            assert len(np.unique(one)) == len(np.unique(other)) == len(np.unique(np.stack([one, other]), axis=1)[0])

    def test_distances_and_resistances_tell_components(self) -> None:
        assert refine_nodes([cycle(8), two_cycles(4)]).same(0, 1)
        assert not graphormer_same(cycle(8), two_cycles(4)) and not resistance_same(cycle(8), two_cycles(4))

    def test_relabelled_graphs_are_one_graph(self) -> None:
        graph = nx.gnp_random_graph(9, 0.4, seed=3)
        again = shuffled(graph, 5)
        assert graphormer_same(graph, again) and gps_same(graph, again) and resistance_same(graph, again)
        assert difference(gps(2), graph, again).same
        assert not gps_same(graph, cycle(8))

    def test_return_probabilities_are_those_of_pyg(self) -> None:
        from torch_geometric.data import Data
        from torch_geometric.transforms import AddRandomWalkPE

        graph = nx.gnp_random_graph(9, 0.5, seed=2)
        data = AddRandomWalkPE(walk_length=9)(Data(edge_index=edge_index(graph), num_nodes=9))
        np.testing.assert_allclose(data.random_walk_pe.numpy(), return_probabilities(graph), atol=1e-6)

    def test_shapes_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(SpecError, match=r"expected \(n, n\) and \(n, c\)"):
            refine_by_relation([np.zeros((3, 3))], [np.zeros((2, 1))])
