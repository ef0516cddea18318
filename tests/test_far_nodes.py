"""Grids of mines and eccentricities: counts by hand, and searches from every node."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointset
from pointset.datasets.benchmarks.far_nodes import eccentricities, minesweeper_grid
from pointset.datasets.card import Level
from pointset.errors import SpecError


def test_numbers_on_a_grid_are_the_mines_around_each_cell() -> None:
    table = minesweeper_grid(7, seed=3)
    graph: nx.Graph[int] = nx.Graph(table.edges.T.tolist())
    assert graph.number_of_edges() == 2 * 7 * 6 + 2 * 6 * 6
    assert max(dict(graph.degree).values()) == 8
    assert table.x is not None
    assert table.y is not None
    for cell, row in enumerate(table.x):
        (column,) = np.flatnonzero(row)
        around = int(table.y[list(graph[cell])].sum())
        assert column in (around, 9)
    assert sum(len(part) for part in table.split.values()) == 49


def test_a_grid_is_the_same_for_the_same_seed_and_hides_about_half() -> None:
    grid = pointset.datasets.load("minesweeper-grid", side=40, seed=1)
    again = pointset.datasets.load("minesweeper-grid", side=40, seed=1)
    assert grid.split_of is Level.NODE
    assert grid.features.x is not None
    assert again.features.x is not None
    assert grid.features.x.equal(again.features.x)
    assert 0.4 < float(grid.features.x[:, 9].mean()) < 0.6
    with pytest.raises(SpecError, match=r"side=2; expected a whole number from 4"):
        pointset.datasets.load("minesweeper-grid", side=2)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 25), st.floats(0.05, 0.5), st.integers(0, 1000))
def test_eccentricities_are_those_of_every_search(nodes: int, density: float, seed: int) -> None:
    graph = nx.gnp_random_graph(nodes, density, seed=seed)
    found = eccentricities(nodes, np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2).T)
    for component in nx.connected_components(graph):
        expected = nx.eccentricity(graph.subgraph(component))
        assert {node: int(found[node]) for node in component} == expected
