"""Points that a PyG graph carries: noticed when they are no longer the graph's, and never refused while they are."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.utils import coalesce, dropout_edge

import pointset
from pointset.errors import GraphError

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 3], [1, 0, 2, 1, 3, 2, 3, 0]])
TO_POINTS = pointset.ToPoints()
Change = Callable[[Any], Any]


def graph(seed: int = 0, nodes: int = 5) -> Data:
    """A cycle of four nodes with everything, and nodes without edges."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(4, generator=generator)[[0, 0, 1, 1, 2, 2, 3, 3]] + 0.5
    return Data(
        x=torch.randn(nodes, 3, generator=generator),
        edge_index=EDGES,
        edge_attr=torch.randn(4, 2, generator=generator)[[0, 0, 1, 1, 2, 2, 3, 3]],
        edge_weight=weight,
        pos=torch.randn(nodes, 3, generator=generator),
        descriptors=torch.randn(1, 2, generator=generator),
        y=torch.zeros(1),
    )


def model() -> pointset.PointModel:
    torch.manual_seed(0)
    return pointset.PointModel.from_preset(
        "pst-star", node=pointset.Reals(3), edge=pointset.Reals(2), dim=8, layers=1, descriptors=2
    )


MODEL = model()


def graphs() -> list[Data]:
    return [TO_POINTS(graph(seed, nodes)) for seed, nodes in enumerate((4, 5, 6))]


def rewired(data: Any) -> None:
    """Edge {0, 1} becomes {0, 2}, in the first graph."""
    edges = data.edge_index.clone()
    edges[:, :2] = torch.tensor([[0, 2], [2, 0]])
    data.edge_index = edges


def dropped(data: Any) -> None:
    data.edge_index = data.edge_index[:, 2:]


def deleted(name: str) -> Change:
    def change(data: Any) -> None:
        data[name] = None

    return change


def replaced(name: str, factor: float = 1.01) -> Change:
    def change(data: Any) -> None:
        data[name] = data[name] * factor

    return change


def in_place(name: str) -> Change:
    def change(data: Any) -> None:
        data[name][-1] += 0.5

    return change


CHANGES: dict[str, Change] = {
    "an edge elsewhere": rewired,
    "edges dropped, their features kept": dropped,
    "no edge weights": deleted("edge_weight"),
    "no x": deleted("x"),
    **{f"{name} replaced": replaced(name) for name in ("x", "edge_attr", "edge_weight", "pos", "descriptors")},
    "x transposed in size": lambda data: setattr(data, "x", data.x[:, :2]),
    "x of other nodes": lambda data: setattr(data, "x", data.x.flip(0)),
    "weights swapped": lambda data: setattr(data, "edge_weight", data.edge_weight.flip(0)),
    "features swapped": lambda data: setattr(data, "edge_attr", data.edge_attr.flip(1)),
    "an edge out of range": lambda data: setattr(data, "edge_index", data.edge_index + 100),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_graph_changed_before_it_is_batched(change: Change) -> None:
    data = graphs()
    change(data[0])
    if data[0].x is None or data[0].edge_weight is None:  # a batch has an attribute of all graphs or of none
        for other in data[1:]:
            change(other)
    elif data[0].x.shape[1] != 3:
        data = data[:1]
    with pytest.raises(GraphError, match=r"than when ToPoints made their points.*apply it again"):
        MODEL(Batch.from_data_list(data))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_batch_changed(change: Change) -> None:
    batch = Batch.from_data_list(graphs())
    change(batch)
    with pytest.raises(GraphError, match="than when ToPoints made their points"):
        MODEL(batch)


@pytest.mark.parametrize("name", ["x", "edge_attr", "edge_weight", "pos"])
def test_a_batch_changed_in_place(name: str) -> None:
    batch = Batch.from_data_list(graphs())
    in_place(name)(batch)
    with pytest.raises(GraphError, match="than when ToPoints made their points"):
        MODEL(batch)


def test_x_given_after_the_points() -> None:
    data = TO_POINTS(Data(edge_index=EDGES, num_nodes=4))
    data.x = torch.ones(4, 3)
    with pytest.raises(GraphError, match="another x than"):
        MODEL(Batch.from_data_list([data]))


def test_points_made_again_are_taken() -> None:
    data = graphs()
    for item in data:
        item.x = item.x + 1
    again = [TO_POINTS(item) for item in data]
    torch.testing.assert_close(MODEL(Batch.from_data_list(again)), MODEL([pointset.to_points(item) for item in data]))


def test_the_message_names_the_graph() -> None:
    data = graphs()
    rewired(data[2])
    with pytest.raises(GraphError, match=r"another edge_index, edge_weight or edge_attr.*\(graph 2\)"):
        MODEL(Batch.from_data_list(data))


@pytest.mark.parametrize("plain", [False, True], ids=["with features", "edges alone"])
@pytest.mark.parametrize("subset", [[0, 1, 2], [1, 0, 2, 3], [0, 1, 3, 2]], ids=str)
def test_a_subgraph(subset: list[int], plain: bool) -> None:
    """Of some nodes, or of all in another order."""
    whole = Data(edge_index=EDGES[:, :6], num_nodes=4) if plain else graph(nodes=4)
    part = TO_POINTS(whole).subgraph(torch.tensor(subset))
    with pytest.raises(GraphError, match="than when ToPoints made their points"):
        MODEL(Batch.from_data_list([part]))


def test_a_subgraph_of_a_batch() -> None:
    batch = Batch.from_data_list(graphs())
    part = batch.subgraph(torch.arange(1, batch.num_nodes))
    with pytest.raises(GraphError, match="other nodes than"):
        MODEL(part)


def test_edges_dropped_in_training() -> None:
    batch = Batch.from_data_list([TO_POINTS(Data(edge_index=EDGES, num_nodes=4)) for _ in range(8)])
    torch.manual_seed(0)
    batch.edge_index = dropout_edge(batch.edge_index, p=0.5, force_undirected=True)[0]
    plain = pointset.PointModel.from_preset(dim=8, layers=1)
    with pytest.raises(GraphError, match="another edge_index"):
        plain(batch)


class Stored(InMemoryDataset):  # type: ignore[misc]
    def __init__(self, data: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(data)


def saved_and_loaded(data: list[Data]) -> list[Data]:
    buffer = io.BytesIO()
    torch.save(data, buffer)
    buffer.seek(0)
    loaded: list[Data] = torch.load(buffer, weights_only=False)
    return loaded


def listed_otherwise(data: list[Data]) -> list[Data]:
    """Edges in another order are the same edges."""
    for item in data:
        order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
        item.edge_index, item.edge_attr = item.edge_index[:, order], item.edge_attr[order]
        item.edge_weight = item.edge_weight[order]
    return data


def in_double(data: list[Data]) -> list[Data]:
    for item in data:
        for name in ("x", "pos", "edge_attr", "edge_weight", "descriptors"):
            item[name] = item[name].double()
    return data


JOURNEYS: dict[str, Callable[[list[Data]], list[Data]]] = {
    "as it is": lambda data: data,
    "batched and separated": lambda data: Batch.from_data_list(data).to_data_list(),
    "cloned": lambda data: [item.clone() for item in data],
    "copied": copy.deepcopy,
    "to a device": lambda data: [item.to("cpu") for item in data],
    "pickled": lambda data: pickle.loads(pickle.dumps(data)),
    "saved": saved_and_loaded,
    "in a dataset in memory": lambda data: list(Stored(data)),
    "other targets": lambda data: [item.clone().update({"y": torch.ones(1)}) for item in data],
    "edges listed otherwise": listed_otherwise,
    "in float64": in_double,
    "without what the points have": lambda data: [Data(points=item.points, num_nodes=item.num_nodes) for item in data],
}


@pytest.mark.parametrize("journey", JOURNEYS.values(), ids=JOURNEYS)
def test_unchanged_graphs_are_taken(journey: Callable[[list[Data]], list[Data]]) -> None:
    expected = MODEL([item.points for item in graphs()])
    torch.testing.assert_close(MODEL(Batch.from_data_list(journey(graphs()))), expected)


def test_batches_of_worker_processes() -> None:
    loader = DataLoader(graphs(), batch_size=3, num_workers=1)
    torch.testing.assert_close(MODEL(next(iter(loader))), MODEL([item.points for item in graphs()]))


def test_batches_of_few_of_a_batch() -> None:
    batch = Batch.from_data_list(graphs())
    torch.testing.assert_close(MODEL(Batch.from_data_list(batch[[2, 0]])), MODEL(batch)[[2, 0]])


def test_graphs_without_edges_or_nodes() -> None:
    none = torch.empty(2, 0, dtype=torch.long)
    data = [TO_POINTS(Data(edge_index=none, num_nodes=n)) for n in (1, 0, 3)]
    data.append(TO_POINTS(Data(edge_index=EDGES, num_nodes=4)))
    plain = pointset.PointModel.from_preset(dim=8, layers=1)
    assert plain(Batch.from_data_list(data)).shape == (4, 1)


def test_points_without_a_digest_are_compared_by_their_features() -> None:
    """As a dataset processed by an earlier version has them."""
    data = graph()
    data.points = pointset.to_points(data)
    batch = Batch.from_data_list([data])
    MODEL(batch)
    batch.x = batch.x + 1
    with pytest.raises(GraphError, match="another x"):
        MODEL(batch)


def test_gradients_reach_the_positions_of_the_batch() -> None:
    batch, plain = Batch.from_data_list(graphs()), Batch.from_data_list([graph(seed, 4 + seed) for seed in range(3)])
    gradients = []
    for each in (batch, plain):
        each.pos.requires_grad_()
        each.x.requires_grad_()
        gradients.append(torch.autograd.grad(MODEL(each).sum(), [each.pos, each.x]))
    for got, expected in zip(*gradients, strict=True):
        assert expected.abs().max() > 0
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), graphs=st.integers(1, 4))
def test_any_single_change_of_an_edge_is_noticed(seed: int, graphs: int) -> None:
    generator = np.random.default_rng(seed)
    items, plain = [], pointset.PointModel.from_preset(dim=4, layers=1)
    for _ in range(graphs):
        n = int(generator.integers(2, 9))
        upper = np.triu(generator.random((n, n)) < 0.5, 1)
        edges = torch.from_numpy(np.stack(np.nonzero(upper | upper.T)))
        items.append(TO_POINTS(Data(edge_index=edges, num_nodes=n)))
    plain(Batch.from_data_list(items))
    at = int(generator.integers(graphs))
    n = items[at].num_nodes
    u, v = generator.choice(n, 2, replace=False)
    matrix = torch.zeros(n, n)
    matrix[tuple(items[at].edge_index)] = 1.0
    matrix[[u, v], [v, u]] = 1 - matrix[u, v]
    items[at].edge_index = coalesce(matrix.nonzero().mT.contiguous())
    with pytest.raises(GraphError, match=rf"another edge_index.*\(graph {at}\)"):
        plain(Batch.from_data_list(items))
