"""Large inputs, minutes in all: `make test-slow`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pointset
from tests.graph_strategies import MATRIX_NAMES

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_a_million_nodes_within_ten_minutes_and_twelve_gigabytes(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    subprocess.run([sys.executable, BENCHMARKS / "large_graph.py", "--json", output], check=True)
    figures = json.loads(output.read_text())
    assert figures["seconds"] < 600
    assert figures["peak memory of the process, GB"] < 12
    assert float(figures["largest residual ‖Zu − λu‖"]) < 1e-6


def test_the_low_end_of_the_laplacian_benchmark(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    chosen = ["--graphs", "cycle of 10,000", "--solvers", "pointset", "shift-invert", "--json", str(output)]
    subprocess.run([sys.executable, BENCHMARKS / "low_end.py", *chosen], check=True)
    figures = json.loads(output.read_text())
    for solver in ("pointset", "shift-invert"):
        assert " s, residual " in figures[f"cycle of 10,000: {solver}"]
        assert "off by" not in figures[f"cycle of 10,000: {solver}"]


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
def test_every_molecule_of_zinc_12k_survives(shared_data: Path, matrix: str) -> None:
    with np.load(shared_data / "zinc" / "zinc12k.npz") as zinc:
        graphs = pointset.GraphArrays.from_flat(
            zinc["num_nodes"], zinc["num_edges"], zinc["edges"].T, zinc["bond_type"]
        )
    for graph, points in zip(graphs, pointset.to_points_many(graphs, matrix=matrix), strict=True):
        back = pointset.to_graph(points)
        once = back.edge_index[0] < back.edge_index[1]
        assert np.array_equal(back.edge_index[:, once].numpy(), graph.edges)
        assert graph.weights is not None
        assert np.array_equal(back.edge_weight[once].numpy(), graph.weights)
