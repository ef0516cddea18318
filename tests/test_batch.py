"""Batches: groups of equal (n, r), everything where it belongs, and mixtures refused."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import pointset
from pointset.encoders.batch import PointGroup
from pointset.errors import GraphError
from pointset.points.graphs import Features
from tests.graph_strategies import MATRIX_NAMES

FLOAT, INT = torch.float64, torch.int64
NODE_KINDS = [None, ((), INT), ((2,), INT), ((3,), FLOAT), ((1,), torch.float32), ((2, 2), FLOAT), ((), torch.bool)]
EDGE_KINDS = [None, ((), INT), ((3,), INT), ((2,), FLOAT), ((), torch.float32)]
TARGET_KINDS = [None, "scalar", "(1,)", "(1, 2)", "(n,)", "(n, 2)"]


def tensor(generator: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.as_tensor(generator.integers(-9, 9, shape) + generator.random(shape)).to(dtype)


def target(generator: np.random.Generator, kind: str | None, n: int, dtype: torch.dtype) -> Tensor | None:
    shapes: dict[str, tuple[int, ...]] = {"scalar": (), "(1,)": (1,), "(1, 2)": (1, 2), "(n,)": (n,), "(n, 2)": (n, 2)}
    return None if kind is None else tensor(generator, shapes[kind], dtype)


@st.composite
def points_with_features(draw: st.DrawFn, max_graphs: int = 8) -> pointset.PointSets:
    """Graphs of 0 to 7 nodes: all matrices, all kinds of features, no edges, self-loops, bounded rank."""
    matrix = draw(st.sampled_from(MATRIX_NAMES))
    x, pos = draw(st.sampled_from(NODE_KINDS)), draw(st.sampled_from([None, ((3,), FLOAT)]))
    edge_attr, y = draw(st.sampled_from(EDGE_KINDS)), draw(st.sampled_from(TARGET_KINDS))
    y_type = draw(st.sampled_from([FLOAT, torch.float32, INT]))
    num_nodes = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 7]), min_size=1, max_size=max_graphs))
    density = draw(st.sampled_from([0.0, 0.3, 1.0]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges, features = [], []
    for n in num_nodes:
        pairs = np.argwhere(np.triu(generator.random((n, n)) < density, 0 if matrix == "adjacency" else 1))
        edges.append(pairs)
        features.append(
            Features(
                x=None if x is None else tensor(generator, (n, *x[0]), x[1]),
                edge_attr=None if edge_attr is None else tensor(generator, (len(pairs), *edge_attr[0]), edge_attr[1]),
                pos=None if pos is None else tensor(generator, (n, *pos[0]), pos[1]),
                y=target(generator, y, n, y_type),
            )
        )
    arrays = pointset.GraphArrays.from_flat(
        np.array(num_nodes), np.array([len(pairs) for pairs in edges]), np.concatenate(edges).T, features=features
    )
    return pointset.to_points_many(
        arrays,
        matrix=matrix,
        rank=draw(st.sampled_from([None, 1, 2])),
        dtype=draw(st.sampled_from([FLOAT, torch.float32])),
        workers=1,
    )


def tensors_of(item: Any) -> dict[str, Tensor | None]:
    values = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    return {name: value for name, value in values.items() if value is None or isinstance(value, Tensor)}


def assert_same_batch(got: pointset.PointBatch, expected: pointset.PointBatch) -> None:
    """To the last bit, types and shapes included."""
    assert got.matrix == expected.matrix
    for a, b in [(got, expected), *zip(got.groups, expected.groups, strict=True)]:
        for (name, one), other in zip(tensors_of(a).items(), tensors_of(b).values(), strict=True):
            assert (one is None) == (other is None), name
            if one is not None and other is not None:
                assert one.dtype == other.dtype and one.shape == other.shape, name
                assert torch.equal(one, other), name


def with_columns(feature: Tensor) -> Tensor:
    return feature.unsqueeze(-1) if feature.dim() == 1 else feature


def assert_holds(group: PointGroup, row: int, points: pointset.PointSet) -> None:
    """The plainest comparison of one graph in a group with its point set."""
    assert torch.equal(group.eigenvalues[row], points.eigenvalues)
    assert torch.equal(group.eigenvectors[row], points.eigenvectors)
    for part, whole in ((points.x, group.x), (points.pos, group.pos)):
        assert (part is None) == (whole is None)
        if part is not None and whole is not None:
            assert whole.dtype == part.dtype and torch.equal(whole[row], with_columns(part))
    assert (group.edge_attr is None) == (points.edge_attr is None)
    assert (group.edges is None) == (group.edge_attr is None and group.edge_weight is None)
    if group.edges is not None and group.edge_attr is not None and points.edge_attr is not None:
        assert points.edge_index is not None
        listed = [(u, v, f) for (u, v), f in zip(points.edge_index.T.tolist(), points.edge_attr.tolist(), strict=True)]
        expected = listed + [(v, u, f) for u, v, f in listed if u != v]
        mine = group.edges[0] == row
        attr = group.edge_attr[mine]
        rows = (attr[:, 0] if points.edge_attr.dim() == 1 else attr).tolist()
        assert list(zip(*group.edges[1:, mine].tolist(), rows, strict=True)) == expected


@given(points_with_features())
def test_every_graph_is_in_its_group_with_all_that_belongs_to_it(points: pointset.PointSets) -> None:
    batch = pointset.collate(points)
    sizes = [group.shape[1:] for group in batch.groups]
    assert sizes == sorted(set(sizes))
    assert batch.num_nodes.tolist() == points.num_nodes.tolist() and batch.matrix == points.matrix
    seen = []
    for group in batch.groups:
        assert group.index.tolist() == sorted(group.index.tolist())
        for row, position in enumerate(group.index.tolist()):
            assert_holds(group, row, points[position])
            seen.append(position)
    assert torch.equal(torch.tensor(seen)[batch.graph_order], torch.arange(len(points)))


@given(points_with_features())
def test_the_way_back_to_the_order_of_the_input(points: pointset.PointSets) -> None:
    batch = pointset.collate(points)
    nodes = [(position, node) for position in range(len(points)) for node in range(int(points.num_nodes[position]))]
    listed = [
        (position, node)
        for group in batch.groups
        for position in group.index.tolist()
        for node in range(group.shape[1])
    ]
    assert [listed[row] for row in batch.node_order.tolist()] == nodes


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), (3,)), ((1,), (3,)), ((1, 1), (3, 1)), ((1, 4), (3, 4)), ("n", (9,)), ("n,2", (9, 2))],
)
@pytest.mark.parametrize("dtype", [FLOAT, INT])
def test_targets_come_in_input_order(shape: Any, expected: tuple[int, ...], dtype: torch.dtype) -> None:
    sizes = (4, 2, 3)
    shapes = [{"n": (n,), "n,2": (n, 2)}.get(shape, shape) for n in sizes]
    y = [
        torch.arange(int(np.prod(each))).reshape(each).to(dtype) + 10 * n for n, each in zip(sizes, shapes, strict=True)
    ]
    batch = pointset.collate([with_feature(n, y=value) for n, value in zip(sizes, y, strict=True)])
    assert batch.y is not None and batch.y.shape == expected and batch.y.dtype == dtype
    assert batch.y.flatten().tolist() == torch.cat([value.flatten() for value in y]).tolist()


def test_scalars_and_rows_of_one_are_the_same() -> None:
    batch = pointset.collate([with_feature(3, y=torch.tensor(1.0)), with_feature(4, y=torch.tensor([2.0]))])
    assert batch.y is not None and batch.y.tolist() == [1, 2]


def with_feature(n: int, **features: Any) -> pointset.PointSet:
    points = dataclasses.replace(pointset.to_points(nx.path_graph(n)), **features)
    if "edge_attr" not in features:
        return points
    edge_index = torch.tensor(list(nx.path_graph(n).edges)).T.reshape(2, -1)
    return dataclasses.replace(points, edge_index=edge_index)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"y": torch.zeros(3)}, {"y": torch.zeros(1)}, r"y has shape \(3,\) on 3 nodes; expected one row on every"),
        ({"y": torch.zeros(2)}, {"y": torch.zeros(2)}, r"y has shape \(2,\) on 3 nodes.*y.reshape\(1, k\)"),
        ({"y": torch.zeros(1, 2)}, {"y": torch.zeros(1, 3)}, "graph 1: y has shape.*same type and width"),
        ({"y": torch.zeros(1)}, {"y": torch.tensor(1)}, "graph 1: y has shape.*torch.int64"),
        ({"y": torch.zeros(1)}, {}, "y is there on some graphs and missing on others, such as graph 1"),
        ({"x": torch.zeros(3)}, {}, "x is there on some graphs and missing on others, such as graph 1"),
        ({}, {"x": torch.zeros(4)}, "x is there on some graphs and missing on others, such as graph 0"),
        ({"x": torch.zeros(3, 2)}, {"x": torch.zeros(4, 1)}, "graph 1: x has shape.*same type and width"),
        ({"x": torch.zeros(3)}, {"x": torch.zeros(4).long()}, "graph 1: x has .*torch.int64.*others.*torch.float32"),
        ({"x": torch.zeros(3)}, {"x": torch.zeros(5)}, r"graph 1: x has shape \(5,\); expected 4 rows"),
        ({"edge_attr": torch.zeros(2)}, {}, "edge_attr is there on some"),
        ({"edge_attr": torch.zeros(2)}, {"edge_attr": torch.zeros(3, 1)}, "graph 1: edge_attr"),
    ],
)
def test_mixtures_are_refused(first: dict[str, Tensor], second: dict[str, Tensor], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        pointset.collate([with_feature(3, **first), with_feature(4, **second)])


def test_other_errors() -> None:
    with pytest.raises(GraphError, match="no point sets"):
        pointset.collate([])
    with pytest.raises(GraphError, match="item 0 is a Graph; expected a PointSet"):
        pointset.collate([nx.path_graph(3)])
    with pytest.raises(GraphError, match="'adjacency' and point set 0 from 'laplacian'"):
        pointset.collate([pointset.to_points(nx.path_graph(3), matrix=matrix) for matrix in ("laplacian", "adjacency")])
    with pytest.raises(GraphError, match="edge_attr but no edge_index"):
        pointset.collate([dataclasses.replace(with_feature(3), edge_attr=torch.zeros(2))])


def test_a_graph_without_edges_or_nodes_needs_no_features_of_them() -> None:
    wide = with_feature(3, x=torch.ones(3, 2), edge_attr=torch.ones(2, 4, dtype=INT))
    lonely = dataclasses.replace(pointset.to_points((1, [])), x=torch.ones(1, 2))
    odd = dataclasses.replace(lonely, edge_attr=torch.zeros(0), edge_index=torch.zeros(2, 0, dtype=INT))
    batch = pointset.collate([wide, lonely, odd, pointset.to_points((0, []))])
    assert [group.shape[1] for group in batch.groups] == [0, 1, 3]
    for group, rows in zip(batch.groups, (0, 0, 4), strict=True):
        assert group.x is not None and group.x.shape == (*group.shape[:2], 2)
        assert group.edge_attr is not None and group.edge_attr.shape == (rows, 4) and group.edge_attr.dtype == INT
        assert group.edges is not None and group.edges.shape == (3, rows)


@given(points_with_features())
def test_a_batch_survives_pickling_and_a_change_of_type(points: pointset.PointSets) -> None:
    batch = pointset.collate(points)
    assert_same_batch(pickle.loads(pickle.dumps(batch)), batch)
    assert_same_batch(batch.to("cpu"), batch)
    for part in (cast := batch.to(torch.float16), *cast.groups):
        for value in tensors_of(part).values():
            assert value is None or not value.is_floating_point() or value.dtype == torch.float16
