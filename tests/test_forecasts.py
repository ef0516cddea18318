"""Graphs that are too large are refused by their size alone: nothing here decomposes one."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import pointset
from pointset import machine
from pointset.datasets.graph_files import write_graph_file
from pointset.datasets.own import graph_files, smiles_csv
from pointset.errors import FileFormatError, MemoryForecastError, SpecError, TimeForecastError
from pointset.points import forecast
from pointset.prediction.engine import Engine
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.training.data import load_data
from tests.command_line import invoke

LARGE = 20_000
SMALL = 30


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One long path among small graphs, with targets; whatever decomposes the path fails the test."""
    graphs = [nx.gnm_random_graph(11 + seed % 2, 18, seed=seed) for seed in range(SMALL)] + [nx.path_graph(LARGE)]
    write_graph_file(tmp_path / "graphs.s6", graphs)
    rows = [("graph", "y"), *((number, number % 5) for number in range(SMALL + 1))]
    (tmp_path / "y.csv").write_text("".join(f"{graph},{y}\n" for graph, y in rows))
    solve = torch.linalg.eigh

    def guarded(matrices: torch.Tensor) -> Any:
        assert matrices.shape[-1] < LARGE, "the large graph was decomposed"
        return solve(matrices)

    monkeypatch.setattr(torch.linalg, "eigh", guarded)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recipe_for(folder: Path, *settings: str) -> Recipe:
    files = [f"dataset.file={folder / 'graphs.s6'}", f"dataset.options.targets={folder / 'y.csv'}"]
    return read_recipe("graphs", [*files, "model.dim=8", "model.layers=1", *settings])


def with_memory(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    monkeypatch.setattr(machine, "_available_bytes", lambda: available)


def test_the_formulas_grow_as_they_say() -> None:
    assert forecast.decomposition_seconds(2 * LARGE) == 8 * forecast.decomposition_seconds(LARGE)
    assert forecast.decomposition_seconds(LARGE, 64) == 0.0 < forecast.decomposition_seconds(LARGE, LARGE // 2)
    assert forecast.decomposition_bytes(np.array([LARGE]))[0] == forecast.decomposition_bytes(LARGE)
    assert forecast.decomposition_text(LARGE) == "about 53 min 20 s and 14.9 GiB of memory"


def test_training_refuses_it_for_its_memory_before_anything_is_decomposed(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(monkeypatch, 16 * 2**30)
    with pytest.raises(
        MemoryForecastError, match=r"graph 30 of graphs.s6 has 20,000 nodes, which take about 53 min"
    ) as e:
        load_data(recipe_for(mixed), progress=False)
    assert "max_nodes=12 (dataset.options.max_nodes=12)" in str(e.value)
    assert "model.rank" not in str(e.value)  # the pairs of points alone are too many


def test_training_refuses_it_for_its_time_where_memory_is_no_matter(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(monkeypatch, 2**50)
    with pytest.raises(TimeForecastError, match=r"model\.rank=64, or .* model\.decompose_minutes=54$"):
        load_data(recipe_for(mixed), progress=False)
    solved: list[int] = []
    monkeypatch.setattr("pointset.datasets.dataset.to_points_many", lambda graphs, **_: solved.append(len(graphs)))
    load_data(recipe_for(mixed, "model.decompose_minutes=54"), progress=False)
    load_data(recipe_for(mixed, "model.rank=64"), progress=False)
    assert solved == [SMALL + 1] * 2


def test_left_out_it_is_a_rejected_row_and_the_others_are_trained_on(mixed: Path) -> None:
    data = load_data(recipe_for(mixed, "dataset.options.max_nodes=12"), progress=False)
    assert len(data.points) == SMALL
    (rejected,) = data.dataset.rejected
    assert rejected.row == SMALL and "it has 20,000 nodes; expected at most 12" in rejected.reason
    few = graph_files(mixed / "graphs.s6", targets=mixed / "y.csv", max_nodes=11, max_rejected=0.0)
    assert (len(few), len(few.rejected)) == (SMALL // 2, SMALL // 2 + 1)  # what was asked for does not count as bad
    with pytest.raises(FileFormatError, match=r"no graph is left. By reason: 31 × too many nodes"):
        graph_files(mixed / "graphs.s6", targets=mixed / "y.csv", max_nodes=2)


def test_molecules_are_left_out_likewise(tmp_path: Path) -> None:
    pytest.importorskip("rdkit.Chem")
    table = tmp_path / "chains.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("smiles", "length"), *(("C" * n, n) for n in range(1, 21))])
    data = smiles_csv(table, max_nodes=8)
    assert len(data) == 8 and {one.row for one in data.rejected} == set(range(10, 22))
    assert len(smiles_csv(table)) == 20  # not what the cache holds for the other setting


@pytest.mark.parametrize("max_nodes", [0, -1, 2.5, True, "12"])
def test_a_number_of_nodes_that_is_none(mixed: Path, max_nodes: Any) -> None:
    with pytest.raises(SpecError, match="max_nodes"):
        graph_files(mixed / "graphs.s6", max_nodes=max_nodes)


def test_ordinary_graphs_are_not_refused_however_little_is_free(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 1)
    assert len(load_data(recipe_for(mixed, "dataset.options.max_nodes=12"), progress=False).points) == SMALL


def test_predicting_it_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(pointset.PointModel.from_preset("pst", dim=8, layers=1).eval(), None, batch_size=4)
    with_memory(monkeypatch, 16 * 2**30)
    with pytest.raises(MemoryForecastError, match="a graph of 20,000 nodes needs"):
        engine.prepare(nx.path_graph(LARGE))
    with_memory(monkeypatch, 2**50)
    with pytest.raises(TimeForecastError, match=r"20,000 nodes takes about 53 min .*model\.rank=64"):
        engine.prepare(nx.path_graph(LARGE))


def test_inspecting_leaves_it_out_and_says_how_to_look_at_it(mixed: Path) -> None:
    said, warned = invoke("inspect", "graphs.s6", "--limit", "1")
    assert f"{SMALL} graphs" in said
    assert "left out graphs.s6:31: decomposing a graph of 20,000 nodes takes about 53 min" in warned
    assert "--rank 16" in warned


def test_converting_says_how_long_it_will_take(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def solve(checked: Any, **_: Any) -> Any:
        raise MemoryForecastError("stop here")

    monkeypatch.setattr("pointset.datasets.graph_files.checking.solve_graphs", solve)
    _, warned = invoke("convert", "graphs.s6", "points.safetensors", code=1)
    assert "decomposing 31 graphs takes about 53 min 20 s" in warned and "--rank 64" in warned
    _, warned = invoke("convert", "graphs.s6", "points.safetensors", "--rank", "64", code=1)
    assert "takes about" not in warned
