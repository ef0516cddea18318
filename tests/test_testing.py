"""The invariance checker rejects models that see a graph's accidents, says which, and accepts those that do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

import pointset
from pointset import PointModel
from pointset.encoders.batch import PointBatch, PointGroup
from pointset.encoders.coordinates import Coordinates
from pointset.encoders.layers import PointState
from pointset.errors import SpecError
from pointset.points.inputs import read_graph
from pointset.testing import (
    InvarianceError,
    Symmetry,
    assert_invariant,
    measure_invariance,
    random_rotation,
    reordered_graph,
    reordered_nodes,
    rotated_in_eigenspaces,
)
from tests.graph_strategies import SYMMETRIC_GRAPHS, adjacency_matrices

REPEATED = [nx.cycle_graph(6), nx.hypercube_graph(3), nx.cycle_graph(6), nx.star_graph(4)]  # repeated eigenvalues
SIMPLE = [nx.path_graph(5), nx.path_graph(4), nx.path_graph(6)]  # every eigenvalue once


class Changed(nn.Module):
    """An encoder whose scalars are changed by a function of the state."""

    def __init__(self, encoder: Any, change: Callable[[PointState], Tensor]):
        super().__init__()
        self.encoder, self.change = encoder, change

    def forward(self, state: PointState) -> PointState:
        after: PointState = self.encoder(state)
        return PointState(after.s + self.change(state), after.v)


def broken(change: Callable[[PointState], Tensor], *, level: Any = "graph") -> PointModel:
    """A right model, with ``change`` added to its scalars (d, B, n)."""
    torch.manual_seed(0)
    model = PointModel.from_preset(dim=8, layers=1, level=level).double()
    model.encoder = Changed(model.encoder, change)
    return model


def raw_coordinate(state: PointState) -> Tensor:
    """As a scalar. Through an activation: the mean of a coordinate itself is 0 for every connected graph."""
    return torch.nn.functional.silu(state.v[..., 0])


def node_order(state: PointState) -> Tensor:
    return torch.arange(state.s.shape[-1]) * 0.1 + torch.zeros_like(state.s)


def batch_mean(state: PointState) -> Tensor:
    return state.v.square().sum(-1).mean(1, keepdim=True) + torch.zeros_like(state.s)


def position_in_batch(state: PointState) -> Tensor:
    return torch.arange(state.s.shape[1]).unsqueeze(-1) * 0.1 + torch.zeros_like(state.s)


class AbsoluteEntries(Coordinates):
    """|U| entry by entry: blind to signs, but not to rotations inside an eigenspace."""

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        values, vectors = self._eigenpairs(group, generator)
        v: Tensor = vectors.abs().unsqueeze(0) * self.function(values).unsqueeze(2)
        return v


class RawEntries(nn.Module):
    """Sums the entries of eigenvectors, cubed: not even blind to signs. A plain module, without coordinates."""

    def forward(self, batch: PointBatch) -> Tensor:
        rows = [group.eigenvectors.pow(3).sum((1, 2)) for group in batch.groups]
        return torch.cat(rows)[batch.graph_order].unsqueeze(-1)


class NumberOfNodes(nn.Module):
    """A plain module without parameters that is right."""

    def forward(self, batch: PointBatch) -> Tensor:
        return batch.num_nodes.double().unsqueeze(-1)


def with_absolute_entries() -> PointModel:
    torch.manual_seed(0)
    model = PointModel.from_preset(dim=8, layers=1).double()
    right: Any = model.coordinates
    model.coordinates = AbsoluteEntries(right.function)
    return model


class TestRejects:
    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_a_layer_that_reads_a_coordinate(self, level: str) -> None:
        with pytest.raises(InvarianceError, match="basis inside the eigenspaces"):
            assert_invariant(broken(raw_coordinate, level=level), REPEATED)

    def test_a_layer_that_reads_a_length_along_one_axis(self) -> None:
        """Blind to signs, so that on simple spectra only an orthogonal transformation of the points gives it away."""
        with pytest.raises(InvarianceError, match="an orthogonal transformation of the points"):
            assert_invariant(broken(lambda state: state.v[..., 0].square()), SIMPLE)

    def test_node_order(self) -> None:
        with pytest.raises(InvarianceError, match="another order of the nodes"):
            assert_invariant(broken(node_order, level="node"), REPEATED)

    def test_node_order_in_a_pooled_output(self) -> None:
        def first_node_counts_more(state: PointState) -> Tensor:
            weights = torch.zeros_like(state.s)
            weights[..., :1] = 1
            return weights * state.v.square().sum(-1)

        with pytest.raises(InvarianceError, match="another order of the nodes"):
            assert_invariant(broken(first_node_counts_more), [nx.star_graph(4), nx.path_graph(5)], repeats=4)

    def test_the_rest_of_the_batch(self) -> None:
        with pytest.raises(InvarianceError, match="each graph alone instead of in a batch"):
            assert_invariant(broken(batch_mean), [nx.star_graph(5), nx.cycle_graph(6), nx.complete_graph(6)])

    def test_the_place_in_the_batch(self) -> None:
        with pytest.raises(InvarianceError, match=r"each graph alone|another order of the batch"):
            assert_invariant(broken(position_in_batch), REPEATED)

    def test_absolute_entries_of_eigenvectors(self) -> None:
        """Sign invariance is not basis invariance."""
        with pytest.raises(InvarianceError, match="another basis inside the eigenspaces"):
            assert_invariant(with_absolute_entries(), REPEATED)

    def test_a_plain_module_that_reads_signs(self) -> None:
        with pytest.raises(InvarianceError, match="another basis inside the eigenspaces"):
            assert_invariant(RawEntries(), [nx.lollipop_graph(4, 3), nx.star_graph(4)])

    def test_not_a_number(self) -> None:
        with pytest.raises(InvarianceError, match="by nan of the largest output"):
            assert_invariant(broken(lambda state: torch.full_like(state.s, torch.nan)), SIMPLE)

    def test_outputs_that_are_rows_of_nothing(self) -> None:
        class TwoRows(nn.Module):
            def forward(self, batch: PointBatch) -> Tensor:
                return torch.zeros(2, 1)

        with pytest.raises(
            InvarianceError, match="gave 2 rows for 3 graphs with 15 nodes; expected a row for each graph"
        ):
            assert_invariant(TwoRows(), SIMPLE)


class TestAccepts:
    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_the_right_model(self, level: Any) -> None:
        """The control to all broken ones: the same model with nothing added."""
        assert_invariant(broken(lambda state: torch.zeros_like(state.s), level=level), REPEATED)
        assert_invariant(broken(lambda state: torch.zeros_like(state.s), level=level), SIMPLE)

    def test_invariants_that_are_added(self) -> None:
        assert_invariant(broken(lambda state: state.v.square().sum(-1)), REPEATED)

    def test_a_plain_module(self) -> None:
        assert_invariant(NumberOfNodes(), REPEATED)

    def test_a_model_that_is_all_zero(self) -> None:
        model = broken(lambda state: torch.zeros_like(state.s))
        nn.init.zeros_(model.readout.linear.weight)
        nn.init.zeros_(model.readout.linear.bias)
        assert_invariant(model, REPEATED)

    @pytest.mark.parametrize("level", ["graph", "node"])
    @pytest.mark.parametrize("sizes", [(0, 2), (1, 1), (0,), (1,), (2, 0, 1), (3, 0, 0)], ids=str)
    def test_as_many_nodes_as_graphs(self, sizes: tuple[int, ...], level: Any) -> None:
        """Rows of nodes and rows of graphs cannot be told apart by their number."""
        assert_invariant(
            broken(lambda state: torch.zeros_like(state.s), level=level), [nx.path_graph(size) for size in sizes]
        )

    def test_point_sets_and_other_matrices(self) -> None:
        torch.manual_seed(0)
        model = PointModel.from_preset("pst-adj", dim=8, layers=1).double()
        assert_invariant(model, SIMPLE)
        assert_invariant(model, [pointset.to_points(graph, matrix="adjacency") for graph in SIMPLE])

    def test_absolute_entries_where_every_eigenvalue_is_simple(self) -> None:
        """They are only rejected on repeated eigenvalues: why symmetric graphs belong into every check."""
        assert_invariant(with_absolute_entries(), SIMPLE)


class TestReport:
    def test_names_the_change_the_graph_and_the_amount(self) -> None:
        def only_large(state: PointState) -> Tensor:
            return node_order(state) * (state.s.shape[-1] == 6)

        with pytest.raises(InvarianceError) as caught:
            assert_invariant(broken(only_large, level="node"), [nx.path_graph(5), nx.path_graph(6)])
        message = str(caught.value)
        assert message.startswith("another order of the nodes changed the output for graph 1 by ")
        assert "of the largest output" in message and message.endswith("allowed is 1e-10")
        amount = float(message.split(" by ")[1].split(" of ")[0])
        assert 1e-3 < amount < 1

    def test_it_is_an_assertion(self) -> None:
        assert issubclass(InvarianceError, AssertionError)

    @pytest.mark.parametrize("training", [True, False])
    def test_training_mode_comes_back(self, training: bool) -> None:
        right, wrong = broken(lambda state: torch.zeros_like(state.s)), broken(raw_coordinate)
        assert_invariant(right.train(training), SIMPLE)
        with pytest.raises(InvarianceError):
            assert_invariant(wrong.train(training), REPEATED)
        for model in (right, wrong):
            assert all(part.training == training for part in model.modules())

    def test_no_hook_stays_behind(self) -> None:
        model = broken(lambda state: torch.zeros_like(state.s))
        before = model(REPEATED)
        assert_invariant(model, REPEATED)
        assert torch.equal(model(REPEATED), before)
        wrong = broken(lambda state: state.v[..., 0].square())
        before = wrong(SIMPLE)
        with pytest.raises(InvarianceError):
            assert_invariant(wrong, SIMPLE)
        assert torch.equal(wrong(SIMPLE), before)

    def test_noise_is_off_during_the_check(self) -> None:
        torch.manual_seed(0)
        model = PointModel.from_preset(dim=8, layers=1, noise=0.1).double()
        assert_invariant(model.train(), SIMPLE)

    @pytest.mark.parametrize("size", [1e-4, 1e-7])
    def test_tolerance(self, size: float) -> None:
        """Relative to the largest output: what is found and what is let pass."""
        model = broken(lambda state: size * node_order(state), level="node")
        with pytest.raises(InvarianceError):
            assert_invariant(model, REPEATED)
        assert_invariant(model, REPEATED, tolerance=10 * size)
        with pytest.raises(InvarianceError):
            assert_invariant(model, REPEATED, tolerance=size / 1000)

    def test_tolerance_of_each_type(self) -> None:
        """A change of 1e-7 is rounding in float32 and a fault in float64."""
        model = broken(lambda state: 1e-7 * node_order(state), level="node")
        assert_invariant(model.float(), REPEATED)
        with pytest.raises(InvarianceError, match="allowed is 1e-10"):
            assert_invariant(model.double(), REPEATED)

    def test_draws_are_reproducible(self) -> None:
        messages = []
        for seed in (0, 0, 1):
            with pytest.raises(InvarianceError) as caught:
                assert_invariant(broken(raw_coordinate), REPEATED, seed=seed)
            messages.append(str(caught.value))
        assert messages[0] == messages[1] != messages[2]

    def test_more_repeats_find_what_one_draw_misses(self) -> None:
        """Two nodes in another order: half of all draws are the same order."""

        def swapped(repeats: int, seed: int) -> bool:
            try:
                assert_invariant(broken(node_order, level="node"), [nx.path_graph(2)], repeats=repeats, seed=seed)
            except InvarianceError:
                return True
            return False

        assert not all(swapped(1, seed) for seed in range(10))
        assert all(swapped(20, seed) for seed in range(10))


class TestMeasuring:
    def test_every_symmetry_of_every_graph_is_measured(self) -> None:
        found = measure_invariance(broken(node_order), REPEATED)
        assert [one.symmetry for one in found] == list(Symmetry)
        assert all(len(one.differences) == len(REPEATED) and one.largest < 1e-10 for one in found)  # the mean is blind

    def test_the_worst_graph_and_what_changed(self) -> None:
        def only_large(state: PointState) -> Tensor:
            return node_order(state) * (state.s.shape[-1] == 6)

        graphs = [nx.path_graph(5), nx.path_graph(6), nx.path_graph(4)]
        model = broken(only_large, level="node")
        by_symmetry = {one.symmetry: one for one in measure_invariance(model, graphs, repeats=3)}
        for symmetry, one in by_symmetry.items():
            if symmetry not in (Symmetry.NODE_ORDER, Symmetry.GRAPH_ORDER):
                assert one.largest < 1e-10
                continue
            assert [difference > 1e-3 for difference in one.differences] == [False, True, False]
            assert one.worst is not None and one.worst.graph == 1
            change = float((one.worst.after - one.worst.before)[one.worst.column].abs())
            assert change / one.largest_output == pytest.approx(one.largest)

    def test_what_cannot_be_tried_is_not_claimed(self) -> None:
        points = [pointset.to_points(graph) for graph in SIMPLE]
        tried = {one.symmetry for one in measure_invariance(NumberOfNodes(), points)}
        assert tried == set(Symmetry) - {Symmetry.GRAPH_ORDER, Symmetry.ORTHOGONAL}

    def test_not_a_number_is_infinitely_wrong(self) -> None:
        found = measure_invariance(broken(lambda state: torch.full_like(state.s, torch.nan)), SIMPLE)
        assert all(one.largest == math.inf and one.worst is not None for one in found)


class TestChanges:
    """What the checker does to a graph leaves it the same graph."""

    @pytest.mark.parametrize("name", SYMMETRIC_GRAPHS)
    def test_another_basis_gives_the_same_matrix(self, name: str) -> None:
        points = pointset.to_points(SYMMETRIC_GRAPHS[name])
        turned = rotated_in_eigenspaces(points, torch.Generator().manual_seed(0))
        torch.testing.assert_close(turned.inner_products(), points.inner_products(), rtol=0, atol=1e-13)
        if points.rank:
            assert not torch.allclose(turned.eigenvectors, points.eigenvectors)

    @pytest.mark.parametrize("name", SYMMETRIC_GRAPHS)
    def test_another_order_is_the_same_graph(self, name: str) -> None:
        points = pointset.to_points(SYMMETRIC_GRAPHS[name])
        order = torch.randperm(points.num_nodes, generator=torch.Generator().manual_seed(0))
        moved = reordered_nodes(points, order)
        expected = points.inner_products()[order][:, order]
        torch.testing.assert_close(moved.inner_products(), expected, rtol=0, atol=1e-13)

    @given(adjacency_matrices(max_nodes=8), st.integers(0, 99))
    def test_another_order_before_the_decomposition(self, adjacency: NDArray[np.float64], seed: int) -> None:
        """Weights and features move with the nodes and edges that they belong to; the old graph stays as it was."""
        n = len(adjacency)
        edges = torch.from_numpy(adjacency).nonzero().mT
        weights = torch.from_numpy(adjacency)[edges[0], edges[1]]
        data = Data(edge_index=edges, edge_weight=weights, edge_attr=weights, x=torch.arange(n), num_nodes=n)
        graph = read_graph(data)[0]
        listed = graph.edges.copy()
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        moved = reordered_graph(graph, order)
        assert moved.features.x is not None and torch.equal(moved.features.x, order)
        if moved.weights is not None:
            assert moved.features.edge_attr is not None and moved.features.edge_attr.tolist() == moved.weights.tolist()
        wanted = pointset.to_points(data).inner_products()[order][:, order]
        torch.testing.assert_close(pointset.to_points(moved).inner_products(), wanted, rtol=0, atol=1e-12)
        assert np.array_equal(graph.edges, listed)

    @pytest.mark.parametrize("size", [0, 1, 2, 5])
    def test_rotations_are_orthogonal_and_some_are_reflections(self, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        signs = set()
        for _ in range(20):
            turn = random_rotation(size, generator)
            torch.testing.assert_close(turn @ turn.mT, torch.eye(size, dtype=torch.float64))
            signs.add(round(float(torch.linalg.det(turn))))
        assert signs == ({1} if size == 0 else {-1, 1})

    def test_rotations_are_uniform(self) -> None:
        """In the plane: every octant of angles as often as the others."""
        generator = torch.Generator().manual_seed(0)
        turns = [random_rotation(2, generator) for _ in range(4000)]
        angles = torch.tensor([math.atan2(float(turn[1, 0]), float(turn[0, 0])) for turn in turns])
        counts = torch.histc(angles, bins=8, min=-math.pi, max=math.pi)
        assert float((counts - 500).abs().max()) < 100  # about five standard deviations


def test_nothing_is_not_certified() -> None:
    with pytest.raises(SpecError, match="got no graphs"):
        assert_invariant(PointModel.from_preset("pst", dim=8, layers=1), [])
