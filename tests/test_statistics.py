"""The numbers of a dataset, against counting by hand and against networkx."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointset.datasets.dataset import Dataset, Provenance
from pointset.datasets.sources import Benchmark
from pointset.datasets.statistics import Spread, Statistics, statistics_of
from pointset.datasets.table import GraphTable
from tests.small_benchmarks import KINDS, NAN, small_benchmark, with_data


def statistics(benchmark: Benchmark, folder: Path) -> Statistics:
    table = benchmark.sources[0].read([with_data(folder) / "small/graphs.txt"], show=False)
    return statistics_of(Dataset.from_table(table, benchmark.card, Provenance("text", "made here")))


def test_sizes_degrees_and_components_by_hand(tmp_path: Path) -> None:
    found = statistics(KINDS["one-number"], tmp_path)
    assert (found.graphs, found.total_nodes, found.total_edges) == (4, 11, 8)
    assert found.nodes == Spread(2.75, pytest.approx(1.0897247), 1, 4)  # type: ignore[arg-type]
    assert found.edges is not None and (found.edges.mean, found.edges.min, found.edges.max) == (2, 1, 3)
    assert found.degrees is not None and found.degrees.mean == pytest.approx(16 / 11)
    assert (found.degrees.min, found.degrees.max) == (0, 2)
    assert found.components is not None and (found.components.mean, found.components.max) == (1.25, 2)
    assert (found.connected, found.isolated_nodes, found.self_loops) == (3, 1, 1)
    assert found.parts == {"train": 2, "val": 1, "test": 1}
    (energy,) = found.targets
    assert (energy.name, energy.unit, energy.rows, energy.missing, energy.counts) == ("energy", "eV", 4, 0, None)
    assert energy.spread is not None and (energy.spread.mean, energy.spread.min, energy.spread.max) == (1.0, -1.5, 3.0)


def test_features_column_by_column(tmp_path: Path) -> None:
    found = statistics(KINDS["many-numbers"], tmp_path)
    assert [(one.categories, one.occurring, one.spread) for one in found.node_columns] == [(3, 3, None)] * 2
    assert [(one.categories, one.occurring) for one in found.edge_columns] == [(3, 2)]
    assert [target.unit for target in found.targets] == ["D", "", "eV"]
    real = statistics(KINDS["classes-of-nodes"], tmp_path)
    assert [one.name for one in real.node_columns] == ["column 0", "column 1"]
    assert all(one.categories is None and one.spread is not None for one in real.node_columns)
    assert real.edge_columns == ()


def test_classes_are_counted_by_name(tmp_path: Path) -> None:
    assert statistics(KINDS["classes-of-nodes"], tmp_path).targets[0].counts == {"sky": 4, "cow": 4, "boat": 3}
    assert statistics(KINDS["yes-or-no"], tmp_path).targets[0].counts == {"0": 3, "1": 1}
    toxic, antiviral = statistics(KINDS["labels"], tmp_path).targets
    assert (toxic.counts, toxic.missing) == ({"0": 2, "1": 2}, 0)
    assert (antiviral.counts, antiviral.missing) == ({"0": 1, "1": 2}, 1)


def test_missing_values_do_not_count(tmp_path: Path) -> None:
    (energy,) = statistics(small_benchmark(table={"y": np.array([NAN, 1.0, NAN, 3.0])}), tmp_path).targets
    assert energy.missing == 2 and energy.spread == Spread(2.0, 1.0, 1.0, 3.0)
    (nothing,) = statistics(small_benchmark(table={"y": np.full(4, NAN)}), tmp_path).targets
    assert nothing.missing == 4 and nothing.spread is None


def test_no_graph_at_all(tmp_path: Path) -> None:
    none = np.zeros(0, dtype=np.int64)
    table = {"num_nodes": none, "num_edges": none, "edges": np.zeros((2, 0), dtype=np.int64), "y": np.zeros(0)}
    found = statistics(small_benchmark(table=table | {"split": {}}), tmp_path)
    assert (found.graphs, found.nodes, found.degrees, found.connected) == (0, None, None, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_plain_json_without_nan(kind: str, tmp_path: Path) -> None:
    plain = statistics(KINDS[kind], tmp_path).as_dict()
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert again["graphs"] == 4 and again.keys() == plain.keys()


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2**28 - 1)), min_size=1, max_size=6))
def test_they_agree_with_networkx(graphs: list[tuple[int, int]]) -> None:
    networks: list[nx.Graph[Any]] = []
    for n, bits in graphs:
        pairs = [(u, v) for u in range(n) for v in range(u + 1, n)]
        networks.append(nx.empty_graph(n))
        networks[-1].add_edges_from(pair for place, pair in enumerate(pairs) if bits >> place & 1)
    edges = [edge for network in networks for edge in network.edges]
    table = GraphTable(
        num_nodes=np.array([len(network) for network in networks]),
        num_edges=np.array([network.number_of_edges() for network in networks]),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2).T,
    )
    card = small_benchmark().card
    found = statistics_of(Dataset.from_table(table, card, Provenance("made", "made here")))
    assert found.connected == sum(nx.is_connected(network) for network in networks)
    assert found.isolated_nodes == sum(nx.number_of_isolates(network) for network in networks)
    degrees = [degree for network in networks for _, degree in network.degree]
    assert found.degrees == Spread.of(np.array(degrees))
    assert found.components == Spread.of(np.array([nx.number_connected_components(one) for one in networks]))
    assert found.targets == ()
