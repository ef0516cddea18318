"""Which graphs a model with random weights distinguishes, which it cannot, and why.

Compared in float64, for several random models: one graph in two orders of its nodes differs by rounding, below 1e-10 of
the output; graphs count as separated above 1e-6. Weight matrices of the encoder are drawn three times larger than those
that training starts from: the question is what some weights can see, and with small ones the later terms of the same
functions drown in rounding.

Without features every matrix of pairs in a model is made of spectral functions of the graph's matrix by products and by
functions entry by entry. What is closed under both is a coherent algebra, so no model here sees more than 2-FWL run to
its end, though one layer can see more than many of its rounds. Graphs that 2-FWL takes for one another stay together at
any depth: for strongly regular graphs that algebra is spanned by I, A and J, and its table of products depends on the
parameters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx
import pytest
import torch
from networkx.generators.atlas import graph_atlas_g
from torch import Tensor
from torch_geometric.data import Data

import pointset
from pointset import PointModel
from pointset.paper.families import circular_skip_links, csl_classes, rook, shrikhande, two_cycles
from pointset.registry import PRESETS, preset_names
from tests.graph_strategies import binary_adjacency, relabelled, with_features

SEPARATED, SAME = 1e-6, 1e-10
SEEDS = range(3)
WITHOUT_POSITIONS = [name for name in preset_names("paper") if not PRESETS[name].uses_positions]
LEARNED = [name for name in WITHOUT_POSITIONS if name not in ("pst-gc", "pst-sum")]  # coordinates with f(Λ), not √Λ


def embeddings(preset: str, graphs: Sequence[Any], *, layers: int, seed: int, dim: int = 16, **specs: Any) -> Tensor:
    """(graphs, d), of a model whose encoder has weights three times their usual size."""
    torch.manual_seed(seed)
    model = PointModel.from_preset(preset, dim=dim, layers=layers, **specs).double()
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
        return model.embed(pointset.to_points_many(graphs, matrix=model.matrix, progress=False))


def smallest_difference(rows: Tensor, sizes: Sequence[int] | None = None) -> float:
    """Between any two graphs (of the same size, where sizes are given), relative to the largest number in ``rows``."""
    apart = torch.cdist(rows, rows, p=torch.inf)
    apart.fill_diagonal_(torch.inf)
    if sizes is not None:
        counts = torch.tensor(sizes)
        apart[counts.unsqueeze(0) != counts.unsqueeze(1)] = torch.inf
    return float(apart.min() / rows.abs().max())


def difference(preset: str, graphs: Sequence[Any], *, layers: int, **options: Any) -> tuple[float, float]:
    """Smallest and largest over several random models."""
    found = [smallest_difference(embeddings(preset, graphs, layers=layers, seed=seed, **options)) for seed in SEEDS]
    return min(found), max(found)


def separates(preset: str, graphs: Sequence[Any], *, layers: int, **options: Any) -> bool:
    """Whether every random model separates them; anything between separated and same is an error."""
    low, high = difference(preset, graphs, layers=layers, **options)
    assert low > SEPARATED or high < SAME, (low, high)
    return low > SEPARATED


def one_and_two_cycles(length: int) -> list[nx.Graph[int]]:
    """2-FWL needs about log₂(length) rounds for them, message passing never separates them."""
    return [nx.cycle_graph(2 * length), two_cycles(length)]


def marked(graph: nx.Graph[Any]) -> Data:
    """With one node marked by a feature; which one does not matter, as the graphs here are vertex-transitive."""
    data = with_features(graph, 0)
    data.x = torch.zeros(len(graph), dtype=torch.long)
    data.x[0] = 1
    return data


@pytest.mark.parametrize("preset", WITHOUT_POSITIONS)
@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(12), two_cycles(6), circular_skip_links(41, 5), rook(4), shrikhande()], ids=str
)
def test_one_graph_in_two_orders_is_one_graph(preset: str, graph: nx.Graph[Any]) -> None:
    """What "separated" below is measured against."""
    adjacency = binary_adjacency(graph)
    assert not separates(preset, [adjacency, *(relabelled(adjacency, seed)[0] for seed in range(2))], layers=3)


class TestCycles:
    @pytest.mark.parametrize("length", range(3, 9))
    @pytest.mark.parametrize("preset", LEARNED)
    def test_one_layer_tells_one_cycle_from_two(self, preset: str, length: int) -> None:
        """A function of all eigenvalues knows the number of components: one layer at any length (Theorem B.3)."""
        assert separates(preset, one_and_two_cycles(length), layers=1)

    @pytest.mark.parametrize("length", range(3, 11))
    @pytest.mark.parametrize("layers", [1, 2, 3])
    def test_with_srd_reach_grows_by_three_with_each_layer(self, layers: int, length: int) -> None:
        """The first inner products of SRD are the Laplacian's entries: layer by layer as 2-FWL.

        Layer k sees walks of 3^(k−1) steps (M L M with M from the layer before), so the ends of the longest walk meet
        on a cycle of up to twice that many nodes. One layer sees degrees and edges, of which both graphs have the same.
        """
        assert separates("pst-gc", one_and_two_cycles(length), layers=layers) == (length <= 2 * 3 ** (layers - 1))


class TestCircularSkipLinks:
    graphs = tuple(csl_classes())

    @pytest.mark.parametrize("preset", LEARNED)
    def test_one_layer_tells_the_ten_classes_apart(self, preset: str) -> None:
        """They are 4-regular, so message passing sees one graph; their spectra differ."""
        assert separates(preset, self.graphs, layers=1)

    def test_srd_needs_more_layers(self) -> None:
        assert not separates("pst-gc", self.graphs, layers=1)
        assert separates("pst-gc", self.graphs, layers=3)


class TestStronglyRegularGraphs:
    """Rook 4×4 and Shrikhande, both (16, 6, 2, 2): around a node the rook has two triangles, Shrikhande a hexagon."""

    pair = (rook(4), shrikhande())
    marked_pair = tuple(marked(graph) for graph in pair)

    @pytest.mark.parametrize("layers", [1, 2, 3, 6])
    @pytest.mark.parametrize("preset", WITHOUT_POSITIONS)
    def test_without_features_nothing_separates_them(self, preset: str, layers: int) -> None:
        if (preset, layers) == ("psds-released", 6):
            pytest.skip("nothing bounds what it multiplies: rounding grows to 1e-9")
        assert not pointset.is_same_graph(*self.pair)
        assert not separates(preset, self.pair, layers=layers)

    @pytest.mark.parametrize("preset", ["pst-released", "pst-gc"])
    def test_one_marked_node_and_three_layers_do(self, preset: str) -> None:
        """Layer 1: who is next to the mark. Layer 2: pairs of those. Layer 3: triangles of those, so K₄ at the mark.

        ``pst`` is the same encoder as ``pst-gc`` with another f, which differs little between 4 and 8, the only
        eigenvalues here, before it is trained: it separates them by 1e-8 (rounding is 1e-15).
        """
        assert not separates(preset, self.marked_pair, layers=2, dim=32, node=2)
        assert separates(preset, self.marked_pair, layers=3, dim=32, node=2)

    def test_three_layers_of_the_deep_set_do_too(self) -> None:
        """v_sq carries sums over all points to each of them; by how much depends on the weights."""
        assert difference("psds", self.marked_pair, layers=2, node=2)[1] < SAME
        assert difference("psds", self.marked_pair, layers=4, node=2)[1] > SEPARATED

    @pytest.mark.parametrize("layers", [2, 3, 6])
    def test_attention_that_is_computed_once_never_does(self, layers: int) -> None:
        """PST-onelayer is 1-WL over fixed pair weights, here I, A, J, and the marked node, its neighbours and the rest
        form an equitable partition of the same numbers in both graphs: what is lost where vectors are not updated."""
        assert not separates("pst-onelayer", self.marked_pair, layers=layers, dim=32, node=2)


class TestAllSmallGraphs:
    """Every graph with up to six nodes (2-FWL separates them all), or seven: 208 and 1252 graphs."""

    @pytest.mark.parametrize(
        ("preset", "layers", "nodes"),
        [
            *((preset, 1, 6) for preset in LEARNED if not preset.startswith("psds")),
            ("pst-gc", 2, 6),
            ("pst-sum", 2, 6),
            ("pst", 1, 7),
            ("pst-released", 1, 7),
        ],
    )
    def test_are_told_apart(self, preset: str, layers: int, nodes: int) -> None:
        graphs = [graph for graph in graph_atlas_g() if 1 <= len(graph) <= nodes]
        rows = embeddings(preset, graphs, layers=layers, seed=0)
        assert smallest_difference(rows, [len(graph) for graph in graphs]) > SEPARATED

    def test_one_layer_on_srd_sees_degrees_only(self) -> None:
        """K₃,₃ and the prism: both 3-regular."""
        pair = [nx.complete_bipartite_graph(3, 3), nx.circular_ladder_graph(3)]
        assert not separates("pst-gc", pair, layers=1)
        assert separates("pst-gc", pair, layers=2)

    def test_lengths_of_vectors_show_a_single_eigenvalue(self) -> None:
        """Two triangles and K₆ have one non-zero eigenvalue each, 3 and 6: all channels are then parallel. Were vectors
        given length 1, PSDS, which forms no pairs, would take the graphs for one with many weights."""
        pair = [two_cycles(3), nx.complete_graph(6)]
        assert separates("psds", pair, layers=2)
        low, _ = difference("psds-released", pair, layers=2)  # with length 1 only signs are left, often equal
        assert low < SAME
        assert separates("pst", pair, layers=1)
        assert separates("pst-released", pair, layers=1)
