"""A dataset as its users see it: PyG graphs, targets, splits, scales, points."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pointset import PointLoader
from pointset.arrays import Array
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.dataset import Dataset, Provenance, TargetScale
from pointset.datasets.table import GraphTable, joined_parts
from pointset.errors import SpecError
from pointset.specs import Categories

CARD = Card(
    name="tiny",
    title="Tiny",
    description="For tests.",
    level=Level.GRAPH,
    task=Task.REGRESSION,
    targets=(Target("energy", "eV"), Target("size"), Target("charge", "e")),
    metric=Metric.MAE,
    split="by hand",
    node=Categories(5),
    edge=Categories(3),
)
NODE_CARD = replace(CARD, level=Level.NODE, scale_over=("train", "val"))


def table(y: Array, *, y_of_nodes: bool = False) -> GraphTable:
    """A triangle, an edge and a lonely node."""
    return GraphTable(
        num_nodes=np.array([3, 2, 1], dtype=np.uint8),
        num_edges=np.array([3, 1, 0], dtype=np.uint8),
        edges=np.array([[2, 0, 0, 1], [1, 1, 2, 0]], dtype=np.uint8),
        x=np.array([[0], [1], [2], [3], [4], [0]], dtype=np.uint8),
        edge_attr=np.array([[2], [0], [1], [2]], dtype=np.uint8),
        y=y,
        y_of_nodes=y_of_nodes,
        split={"train": np.array([0]), "val": np.array([1]), "test": np.array([2])},
    )


def graph_dataset() -> Dataset:
    y = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, np.nan]])
    return Dataset.from_table(table(y), CARD, Provenance("hand", "made here"))


def node_dataset() -> Dataset:
    y = np.arange(18.0).reshape(6, 3)
    return Dataset.from_table(table(y, y_of_nodes=True), NODE_CARD, Provenance("hand", "made here"))


def test_graphs_are_pyg_data_with_both_directions() -> None:
    data = graph_dataset().graphs[0]
    assert data.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert data.edge_attr.flatten().tolist() == [0, 1, 0, 2, 1, 2]
    assert data.x.dtype == data.edge_attr.dtype == torch.int64
    assert data.y.shape == (1, 3)
    assert data.validate()


def test_graphs_are_copies() -> None:
    dataset = graph_dataset()
    dataset.graphs[0].x.zero_()
    dataset.graphs[0].y.zero_()
    assert dataset.graphs[0].x.flatten().tolist() == [0, 1, 2]
    assert dataset.graphs[0].y.tolist() == [[1.0, 2.0, 3.0]]


def test_graphs_can_be_sliced_and_iterated() -> None:
    graphs = graph_dataset().graphs
    assert [data.num_nodes for data in graphs] == [3, 2, 1] == [data.num_nodes for data in graphs[:]]
    assert graphs[-1].edge_index.shape == (2, 0)
    with pytest.raises(IndexError):
        graphs[3]


def test_graphs_by_a_split_a_list_or_a_mask() -> None:
    graphs = graph_dataset().graphs
    for index in ([2, 0], np.array([2, 0]), torch.tensor([2, 0]), [-1, 0]):
        assert [data.num_nodes for data in graphs[index]] == [1, 3]
    assert [data.num_nodes for data in graphs[np.array([True, False, True])]] == [3, 1]
    assert [data.num_nodes for data in graphs[torch.tensor([1])]] == [2]
    assert graphs[np.int64(1)].num_nodes == 2
    assert graphs[torch.tensor(1)].num_nodes == 2  # type: ignore[attr-defined]
    with pytest.raises(IndexError):
        graphs[[0, 3]]
    with pytest.raises(IndexError, match="mask of shape"):
        graphs[np.array([True])]


def test_one_target_has_a_column_as_a_model_gives_it() -> None:
    card = replace(CARD, targets=CARD.targets[:1])
    single = Dataset.from_table(table(np.array([1.0, 2, 3])), card, Provenance("hand", "made here"))
    assert single.graphs[0].y.shape == (1, 1) and single.targets is not None and single.targets.shape == (3, 1)
    assert graph_dataset().with_targets("size").graphs[0].y.shape == (1, 1)
    classes = replace(card, task=Task.MULTI_CLASS, classes=("a", "b", "c", "d"))
    labelled = Dataset.from_table(table(np.array([1, 2, 3])), classes, Provenance("hand", "made here"))
    assert labelled.graphs[0].y.shape == (1,) and labelled.graphs[0].y.dtype == torch.int64
    with pytest.raises(SpecError, match="classes have no scale"):
        labelled.target_scale()


def test_a_dataset_finds_its_leaks() -> None:
    assert not graph_dataset().find_leaks().found


def test_node_targets_have_a_row_for_each_node() -> None:
    assert [data.y.shape for data in node_dataset().graphs] == [(3, 3), (2, 3), (1, 3)]


def test_some_of_the_targets() -> None:
    chosen = graph_dataset().with_targets(["charge", "energy"])
    assert chosen.target_names == ("charge", "energy")
    assert chosen.graphs[0].y.tolist() == [[3.0, 1.0]]
    assert chosen.card.outputs == 2
    with pytest.raises(SpecError, match=r"has no target 'energie'.*did you mean 'energy'"):
        graph_dataset().with_targets(["energie"])
    with pytest.raises(SpecError, match="has no target None"):
        graph_dataset().with_targets(None)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="at least one, and each once"):
        graph_dataset().with_targets(["size", "size"])


def test_another_split_is_checked() -> None:
    other = graph_dataset().with_split({"train": np.array([0, 2]), "test": np.array([1])})
    assert other.split["train"].tolist() == [0, 2]
    with pytest.raises(SpecError):
        graph_dataset().with_split({"train": np.array([0, 3])})


def test_the_scale_is_that_of_the_parts_the_card_names() -> None:
    scale = node_dataset().target_scale()  # train and val: the five nodes of the first two graphs
    rows = np.arange(15.0).reshape(5, 3)
    assert np.allclose(scale.mean, rows.mean(0)) and np.allclose(scale.std, rows.std(0))


def test_missing_targets_do_not_count_for_the_scale() -> None:
    scale = TargetScale.of(torch.tensor([[1.0, float("nan")], [3.0, 5.0], [float("nan"), float("nan")]]))
    assert scale.mean.tolist() == [2.0, 5.0]
    assert scale.std.tolist() == [1.0, 1.0]  # one value varies not at all: it is not divided by 0


def test_a_target_that_never_varies_is_not_divided() -> None:
    scale = TargetScale.of(torch.full((1000, 1), 0.1, dtype=torch.float64))
    assert scale.std.tolist() == [1.0]
    assert TargetScale.of(torch.zeros(0, 3)).std.tolist() == [1.0, 1.0, 1.0]


def test_values_of_another_width_are_refused() -> None:
    scale = TargetScale.of(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
    with pytest.raises(SpecError, match=r"got values of shape \(4, 3\); expected \(…, 2\)"):
        scale.restore(torch.zeros(4, 3))


def test_a_dataset_can_be_sent_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(graph_dataset()))
    assert repr(again) == repr(graph_dataset()) and again.card == CARD


def test_rows_come_in_the_order_of_the_graphs() -> None:
    dataset = node_dataset()
    for order in ([2, 0, 1], [1], [1, 2, 1], []):
        expected = [row for graph in order for row in dataset.graphs[graph].y.tolist()]
        assert dataset.targets is not None
        assert dataset.targets[dataset.target_rows(np.array(order, dtype=np.int64))].tolist() == expected


def test_rows_of_graphs_that_are_not_there() -> None:
    for graphs in ([3], [-1], [0.7]):
        with pytest.raises(SpecError, match="expected whole numbers from 0 to 2"):
            node_dataset().target_rows(graphs)


@given(st.integers(1, 4), st.integers(1, 20), st.integers(0, 10**6))
def test_normalising_and_back(width: int, rows: int, seed: int) -> None:
    y = torch.from_numpy(np.random.default_rng(seed).normal(-11_000, 300, (rows, width)))
    scale = TargetScale.of(y)
    assert torch.allclose(scale.restore(scale.normalise(y)), y, rtol=1e-12)
    if width == 1:
        assert torch.allclose(scale.restore(scale.normalise(y[:, 0])), y[:, 0], rtol=1e-12)


def test_restoring_is_exact_enough_for_total_energies() -> None:
    y = torch.tensor([[-11_178.966], [-11_200.5]], dtype=torch.float64)
    scale = TargetScale.of(y)
    normal = scale.normalise(y).to(torch.float32)
    assert (scale.restore(normal) - y).abs().max() < 1e-5


def test_points_and_batches_carry_features_and_targets(tmp_path: object) -> None:
    dataset = graph_dataset()
    points = dataset.points(store=str(tmp_path))
    (batch,) = PointLoader(points, batch_size=3)
    assert batch.y is not None and batch.y.shape == (3, 3)
    assert [point.num_nodes for point in dataset.points(store=str(tmp_path))] == [3, 2, 1]


def test_edge_features_as_weights() -> None:
    dataset = graph_dataset()
    assert dataset.features.edge_attr is not None
    dataset.features.edge_attr.add_(1)  # a weight of 0 would be no edge
    weighted = dataset.with_weighted_edges()
    assert weighted.graphs[0].edge_weight.tolist() == [1, 2, 1, 3, 2, 3]
    for column in (1, -1, "0"):
        with pytest.raises(SpecError, match=f"no column {column} of edge features"):
            dataset.with_weighted_edges(column)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="1 of 4 edges of tiny have 0 in column 0"):
        graph_dataset().with_weighted_edges()
    from_zero = graph_dataset().with_weighted_edges(offset=1)
    assert from_zero.graphs[0].edge_weight.tolist() == weighted.graphs[0].edge_weight.tolist()
    assert from_zero.features.edge_attr is not None and from_zero.features.edge_attr.min() == 0  # features stay


def test_joined_parts_stand_one_after_the_other() -> None:
    part = table(np.zeros((3, 3)))
    together = joined_parts([part, part, part])
    assert together.num_nodes.tolist() == [3, 2, 1] * 3
    assert together.edges.shape == (2, 12) and together.x is not None and len(together.x) == 18
    assert {name: indices.tolist() for name, indices in together.split.items()} == {
        "train": [0, 1, 2],
        "val": [3, 4, 5],
        "test": [6, 7, 8],
    }


def test_the_repr_says_what_it_is() -> None:
    assert repr(graph_dataset()) == "Dataset(tiny: 3 graphs; train 1, val 1, test 1)"


def test_the_card_is_plain_values_for_json() -> None:
    import json

    plain = json.loads(json.dumps(CARD.as_dict()))
    assert plain["node"] == "Categories(5)" and plain["targets"][0] == {"name": "energy", "unit": "eV", "meaning": ""}
    assert plain["higher_is_better"] is False


def test_arrays_that_are_not_to_be_written_to_are_copied() -> None:
    y = np.array([1.5, 2.5])
    y.flags.writeable = False  # as those of a pandas.Series; torch warns of them
    one = np.ones(2, dtype=np.int64)
    features: Any = GraphTable(one, 0 * one, np.zeros((2, 0), dtype=np.int64), y=y).arrays().features
    features.y.add_(1)
    assert y.tolist() == [1.5, 2.5]
