"""Features in flat tensors behave as the same features one by one, only faster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pointset import GraphArrays, PointLoader, to_points_many
from pointset.arrays import Integers
from pointset.errors import GraphError
from pointset.points.graphs import Features, FlatFeatures


def flat_example(
    seed: int, graphs: int, *, y_of_nodes: bool
) -> tuple[tuple[Integers, Integers, Integers], FlatFeatures]:
    """Random graphs whose edges stand in random order, some in both directions, and features of every kind."""
    rng = np.random.default_rng(seed)
    num_nodes = rng.integers(1, 7, graphs)
    listed = []
    for n in num_nodes:
        pairs = np.array([(u, v) for u in range(n) for v in range(u + 1, n)], dtype=np.int64).reshape(-1, 2)
        chosen = pairs[rng.random(len(pairs)) < 0.6]
        listed.append(rng.permutation(chosen).T)
    num_edges = np.array([edges.shape[1] for edges in listed])
    features = FlatFeatures(
        num_nodes,
        num_edges,
        x=torch.from_numpy(rng.integers(0, 5, (num_nodes.sum(), 2))),
        edge_attr=torch.from_numpy(rng.integers(0, 3, (num_edges.sum(), 1))),
        pos=torch.from_numpy(rng.normal(size=(num_nodes.sum(), 3))),
        y=torch.from_numpy(rng.normal(size=(num_nodes.sum() if y_of_nodes else graphs, 2))),
        y_of_nodes=y_of_nodes,
        descriptors=torch.from_numpy(rng.normal(size=(graphs, 4))),
        fingerprint=torch.from_numpy(rng.integers(0, 256, (graphs, 2), dtype=np.uint8)),
    )
    return (num_nodes, num_edges, np.concatenate(listed, axis=1)), features


@given(seed=st.integers(0, 10**6), graphs=st.integers(1, 6), y_of_nodes=st.booleans())
def test_flat_and_separate_features_make_the_same_graphs_and_batches(seed: int, graphs: int, y_of_nodes: bool) -> None:
    flat, features = flat_example(seed, graphs, y_of_nodes=y_of_nodes)
    together = GraphArrays.from_flat(*flat, features=features)
    apart = GraphArrays.from_flat(*flat, features=list(features))
    assert isinstance(together.features, FlatFeatures)
    for one, other in zip(together, apart, strict=True):
        assert np.array_equal(one.edges, other.edges)
        for mine, theirs in zip(one.features, other.features, strict=True):
            assert mine is not None and theirs is not None and torch.equal(mine, theirs)
    indices = np.random.default_rng(seed).permutation(graphs)
    (batch,) = PointLoader(to_points_many(together), batch_size=graphs, indices=indices)
    (expected,) = PointLoader(to_points_many(apart), batch_size=graphs, indices=indices)
    for name in ("y", "descriptors", "fingerprint"):
        mine, theirs = getattr(batch, name), getattr(expected, name)
        assert mine is not None and theirs is not None and torch.equal(mine, theirs), name
    for group, other_group in zip(batch.groups, expected.groups, strict=True):
        for name in ("x", "edge_attr", "pos", "eigenvectors"):
            assert torch.equal(getattr(group, name), getattr(other_group, name)), name


def test_an_edge_listed_in_both_directions_has_one_row_of_features() -> None:
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    rows = torch.tensor([[7], [7], [8], [8]])
    features = FlatFeatures(np.array([3]), np.array([4]), edge_attr=rows)
    arrays = GraphArrays.from_flat(np.array([3]), np.array([4]), edges, features=features)
    assert arrays.edges.tolist() == [[0, 1], [1, 2]]
    assert arrays[0].features.edge_attr is not None and arrays[0].features.edge_attr.tolist() == [[7], [8]]


def test_differing_features_of_one_edge_are_refused_with_the_graph_named() -> None:
    edges = np.array([[0, 0, 1], [1, 1, 0]])
    rows = torch.tensor([[7], [7], [9]])
    features = FlatFeatures(np.array([2, 2]), np.array([1, 2]), edge_attr=rows)
    with pytest.raises(GraphError, match="graph 1: the edge between nodes 1 and 0 is listed with different"):
        GraphArrays.from_flat(np.array([2, 2]), np.array([1, 2]), edges, features=features)


@pytest.mark.parametrize("name", ["x", "edge_attr", "pos", "y"])
def test_a_wrong_number_of_rows_is_refused(name: str) -> None:
    wrong: dict[str, Any] = {name: torch.zeros(5, 1)}
    with pytest.raises(GraphError, match=rf"{name} has shape \(5, 1\); expected one row for each of"):
        replace(FlatFeatures(np.array([2, 2]), np.array([1, 1])), **wrong)


def test_features_of_other_graphs_are_refused() -> None:
    features = FlatFeatures(np.array([2, 2]), np.array([1, 1]), x=torch.zeros(4, 1))
    with pytest.raises(GraphError, match="other numbers of nodes"):
        GraphArrays.from_flat(np.array([1, 3]), np.array([0, 2]), np.array([[0, 1], [1, 2]]), features=features)


def test_features_are_views() -> None:
    features = FlatFeatures(np.array([2, 3]), np.array([0, 0]), x=torch.arange(5).reshape(5, 1))
    x = features[1].x
    assert isinstance(features[1], Features) and x is not None and x.tolist() == [[2], [3], [4]]
    assert features.x is not None and x.data_ptr() == features.x[2:].data_ptr()
