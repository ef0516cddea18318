"""A small change of the edge weights, which splits repeated eigenvalues, changes outputs of every preset as little."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

import pointset
from pointset.encoders.batch import PointBatch
from pointset.errors import GraphError, SpecError
from pointset.registry import PRESETS, preset_names
from pointset.testing import measure_stability

BOUND = 1e-5  # of outputs of size 1, for changes of the weights up to 1e-8
STEEPEST = 100.0  # in float64: the change of an output for each of the weights' changes; measured at most 31


def circular_skip_links(nodes: int, skip: int) -> Any:
    graph = nx.cycle_graph(nodes)
    graph.add_edges_from((node, (node + skip) % nodes) for node in range(nodes))
    return graph


REGULAR = [nx.complete_graph(8), nx.star_graph(7), circular_skip_links(11, 3), nx.petersen_graph()]
SINGULAR = circular_skip_links(8, 3)  # its adjacency matrix has eigenvalue 0 six times
# A learned f is not 0 near 0: these jump where an eigenvalue leaves 0, which only matrices other than D − A allow.
JUMPS_FROM_ZERO = {
    *("pst-adj", "pst-normadj", "pst-fast", "pst-fast-star", "pst-fast-k1", "pst-fast-k4", "pst-fast-stateless"),
    *("pst-linear", "pst-linear-edges"),
}


def with_positions(graph: Any) -> Any:
    generator = torch.Generator().manual_seed(0)
    placed = graph.copy()
    for node in placed:
        placed.nodes[node]["pos"] = torch.randn(3, generator=generator, dtype=torch.float64).tolist()
    return placed


def fresh(preset: str, dtype: torch.dtype = torch.float64) -> pointset.PointModel:
    """A row for each node: a sum over the nodes of a regular graph hides changes of the first order."""
    torch.manual_seed(0)
    return pointset.PointModel.from_preset(preset, out=2, dim=16, layers=3, level="node").to(dtype)


def graphs_for(preset: str, graphs: list[Any]) -> list[Any]:
    return [with_positions(graph) for graph in graphs] if PRESETS[preset].uses_positions else graphs


@pytest.mark.parametrize("preset", preset_names("paper"))
class TestRepeatedEigenvaluesMaySplit:
    def test_outputs_follow_the_weights(self, preset: str) -> None:
        """Weights change by 1e-14, which averages still hide, to 1e-8, which splits every eigenspace."""
        for found in measure_stability(fresh(preset), graphs_for(preset, REGULAR)):
            assert not any(found.rank_changed)
            assert found.largest <= min(BOUND, STEEPEST * found.size + 1e-12)

    def test_in_float32(self, preset: str) -> None:
        model = fresh(preset, torch.float32)
        for found in measure_stability(model, graphs_for(preset, REGULAR), sizes=[1e-14, 1e-11, 1e-8], repeats=1):
            assert found.largest <= BOUND

    def test_only_a_learned_f_of_an_adjacency_matrix_jumps_where_an_eigenvalue_leaves_0(self, preset: str) -> None:
        (found,) = measure_stability(fresh(preset), graphs_for(preset, [SINGULAR]), sizes=[1e-8])
        assert any(found.rank_changed) == (PRESETS[preset].matrix != "laplacian")
        if preset in JUMPS_FROM_ZERO:
            assert found.largest > 1e-3
        else:
            assert found.largest <= STEEPEST * found.size


class TestBridges:
    """A new edge of weight ε between two components of D − A makes an eigenvalue of size ε."""

    @staticmethod
    def change(preset: str, weight: float) -> float:
        model, apart = fresh(preset), nx.disjoint_union(nx.cycle_graph(4), nx.cycle_graph(5))
        for edge in apart.edges:
            apart.edges[edge]["weight"] = 1.0
        joined = apart.copy()
        joined.add_edge(0, 6, weight=weight)
        before, after = (model.eval()([graph]).detach() for graph in (apart, joined))
        return float((after - before).abs().max())

    @pytest.mark.parametrize("preset", ["pst-gc", "pst-sum"])
    def test_srd_follows(self, preset: str) -> None:
        """Inner products of √λ U are entries of D − A."""
        for weight in (1e-10, 1e-8, 1e-6):
            assert self.change(preset, weight) <= STEEPEST * weight

    @pytest.mark.parametrize("preset", ["pst", "pst-count", "pst-released", "psds"])
    def test_a_learned_f_jumps(self, preset: str) -> None:
        small, smaller = (self.change(preset, weight) for weight in (1e-8, 1e-10))
        assert small > 1e-4 and smaller == pytest.approx(small, rel=1e-3)


class NumberOfEigenspaces(nn.Module):
    """Invariant to all symmetries, and not stable."""

    def forward(self, batch: PointBatch) -> Tensor:
        rows = [(group.eigenvalues.diff(dim=-1) != 0).sum(-1) for group in batch.groups]
        return torch.cat(rows)[batch.graph_order].double().unsqueeze(-1)


class NotANumber(nn.Module):
    def forward(self, batch: PointBatch) -> Tensor:
        return batch.num_nodes.double().unsqueeze(-1) * float("nan")


def test_a_model_that_counts_eigenspaces_is_found_out() -> None:
    pointset.testing.assert_invariant(NumberOfEigenspaces(), REGULAR)
    averaged, split = measure_stability(NumberOfEigenspaces(), REGULAR, sizes=[1e-15, 1e-8])
    assert averaged.largest == 0 and split.largest >= 1 and split.size == 1e-8


def test_weights_are_changed_and_not_replaced_and_nan_counts_as_infinite() -> None:
    graph = nx.path_graph(3)
    graph.add_edge(0, 1, weight=5.0)
    (found,) = measure_stability(fresh("pst"), [graph], sizes=[1e-9])
    assert 0 < found.largest < 1e-6
    assert measure_stability(NotANumber(), [graph], sizes=[1e-9])[0].largest == float("inf")


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(SpecError, match="no graphs"):
        measure_stability(fresh("pst"), [])
    for size in (0.0, 1.0, float("nan")):
        with pytest.raises(SpecError, match=r"between 0 and 0\.1"):
            measure_stability(fresh("pst"), REGULAR, sizes=[size])
    with pytest.raises(GraphError, match=r"graph 0: got .*PointSet"):  # their weights are gone
        measure_stability(fresh("pst"), [pointset.to_points(nx.path_graph(3))])
