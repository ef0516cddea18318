"""Datasets of PyG graphs in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

import pointset
from pointset.datasets import from_graphs
from pointset.datasets.card import Level, Task
from pointset.errors import GraphError, SpecError
from pointset.specs import Categories, Reals

RING = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def graphs_with(count: int = 20, **features: Any) -> list[Data]:
    """Triangles; a feature is a value, or a function of the number of the graph."""
    return [
        Data(
            edge_index=RING.clone(),
            num_nodes=3,
            **{name: value(index) if callable(value) else value for name, value in features.items()},
        )
        for index in range(count)
    ]


def number(index: int) -> torch.Tensor:
    return torch.tensor([index / 7])


class TestTargets:
    def test_numbers(self) -> None:
        graphs = graphs_with(y=number, x=lambda index: torch.tensor([[index % 4], [1], [2]]))
        dataset = from_graphs(graphs, name="rings", names="energy (eV)")
        card = dataset.card
        assert (card.task, card.level, card.target_names) == (Task.REGRESSION, Level.GRAPH, ("energy (eV)",))
        assert card.node == Categories(4) and card.edge is None and not card.positions and card.name == "rings"
        assert {part: len(indices) for part, indices in dataset.split.items()} == {"train": 16, "val": 2, "test": 2}
        assert dataset.targets is not None
        torch.testing.assert_close(dataset.targets[:, 0], torch.arange(20, dtype=torch.float64) / 7, rtol=1e-6, atol=0)
        assert len(dataset.points()) == 20 and torch.equal(dataset.graphs[5].x, graphs[5].x)

    def test_the_graphs_are_not_changed_and_not_shared(self) -> None:
        graphs = graphs_with(y=number, x=torch.ones(3, 2))
        before = [graph.to_dict() for graph in graphs]
        dataset = from_graphs(graphs)
        graphs[0].x += 1
        assert float(dataset.graphs[0].x.max()) == 1 and list(before[0]) == list(graphs[0].to_dict())

    @pytest.mark.parametrize(
        ("y", "task", "expected"),
        [
            (lambda index: torch.tensor([index % 2]), None, Task.BINARY),
            (lambda index: torch.tensor([float(index % 2)]), None, Task.BINARY),
            (lambda index: torch.tensor([[0.0, index % 2, float("nan")]]), None, Task.MULTI_LABEL),
            (lambda index: torch.tensor([index % 3]), None, Task.MULTI_CLASS),  # int64, as PyG numbers classes
            (lambda index: torch.tensor(index % 3), None, Task.MULTI_CLASS),
            (lambda index: torch.tensor([index % 3]), "regression", Task.REGRESSION),
            (lambda index: torch.tensor([float(index % 3)]), None, Task.REGRESSION),
            (lambda index: torch.tensor([float(index % 3)]), "multi-class", Task.MULTI_CLASS),
            (lambda index: torch.tensor([2 + index % 3]), None, Task.REGRESSION),  # counts
        ],
    )
    def test_the_task_is_guessed_or_given(self, y: Any, task: str | None, expected: Task) -> None:
        card = from_graphs(graphs_with(y=y), task=task).card
        assert card.task is expected
        assert card.classes == (("0", "1", "2") if expected is Task.MULTI_CLASS else ())
        guessed_classes = task is None and expected is Task.MULTI_CLASS
        assert any("taken as classes; task='regression'" in note for note in card.notes) == guessed_classes

    def test_of_another_attribute_and_of_the_program(self) -> None:
        graphs = graphs_with(energy=number)
        for targets in ("energy", [index / 7 for index in range(20)], np.arange(20) / 7, torch.arange(20) / 7):
            dataset = from_graphs(graphs, targets=targets)
            assert dataset.targets is not None and float(dataset.targets[7]) == pytest.approx(1.0)
        three = from_graphs(graphs, targets=np.arange(60.0).reshape(20, 3))  # as many as there are nodes
        assert three.card.level is Level.GRAPH and three.target_names == ("y0", "y1", "y2")
        with pytest.raises(SpecError, match=r"got the names \['a'\]; expected 3, one for each target"):
            from_graphs(graphs, targets=np.zeros((20, 3)), names=["a"])

    def test_of_nodes(self) -> None:
        dataset = from_graphs(graphs_with(y=lambda index: torch.tensor([index, 0.5, 1.0])))
        assert dataset.card.level is Level.NODE and dataset.targets is not None and len(dataset.targets) == 60

    def test_none(self) -> None:
        dataset = from_graphs(graphs_with(), targets=None)
        assert dataset.targets is None and len(dataset.points()) == 20

    def test_networkx(self) -> None:
        graphs = [nx.cycle_graph(3 + index) for index in range(10)]
        for index, graph in enumerate(graphs):
            graph.graph["density"] = float(index) / 3
        dataset = from_graphs(graphs, targets="density")
        assert dataset.targets is not None and float(dataset.targets[6]) == 2.0


class TestSplits:
    def test_given_indices(self) -> None:
        split = {"train": range(10), "valid": [10, 11], "test": np.arange(12, 20)}
        assert from_graphs(graphs_with(y=number), split=split).split["val"].tolist() == [10, 11]
        with pytest.raises(SpecError, match="the part 'train' holds 20 at position 0; expected 0 to 19"):
            from_graphs(graphs_with(y=number), split={"train": [20]})

    def test_ways(self) -> None:
        graphs = graphs_with(y=lambda index: torch.tensor([index % 2]))
        stratified = from_graphs(graphs, split="stratified").split["train"]
        assert np.bincount(stratified % 2).tolist() == [8, 8]
        assert len(from_graphs(graphs, split=(0.5, 0.25, 0.25)).split["test"]) == 5
        different = [from_graphs(graphs, seed=seed).split["train"].tolist() for seed in (0, 1)]
        assert different[0] != different[1]
        with pytest.raises(SpecError, match=r"got split='scaffold' .* not molecules"):
            from_graphs(graphs, split="scaffold")


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"y": None}, "graph 3: it carries no y, as other graphs do. 1 graph of 20 cannot be used; leave such"),
            ({"y": torch.tensor([float("nan")])}, r"graph 3: all of y is missing \(NaN\)"),
            ({"y": torch.tensor([float("inf")])}, "graph 3: y holds infinity; expected finite numbers"),
            ({"y": torch.tensor([[1.0, 2.0]])}, "graph 3: y has 2 numbers; expected 1, as most"),
            ({"x": torch.ones(3, 5)}, "graph 3: it has x with 5 columns; expected x with 2 columns, as most graphs"),
            ({"x": None}, "graph 3: it has no features; expected x with 2 columns"),
            ({"x": torch.full((3, 2), torch.nan)}, "graph 3: x holds NaN or infinity"),
            ({"edge_index": torch.tensor([[0], [7]])}, "graph 3: .*7"),
        ],
    )
    def test_a_graph_that_does_not_fit_is_named(self, change: dict[str, Any], message: str) -> None:
        graphs = graphs_with(y=number, x=torch.ones(3, 2))
        for name, value in change.items():
            graphs[3][name] = value
        with pytest.raises((GraphError, SpecError), match=message):
            from_graphs(graphs)

    def test_other_mistakes(self) -> None:
        graphs = graphs_with(y=number)
        for one, message in (
            (graphs[0], "got Data; expected a list of graphs"),
            (Batch.from_data_list(graphs), r"use batch.to_data_list\(\)"),
            (nx.path_graph(3), "got Graph; expected a list of graphs"),
            (7, "got int; expected a list of graphs"),
        ):
            with pytest.raises(GraphError, match=message):
                from_graphs(one)  # type: ignore[arg-type]
        with pytest.raises(SpecError, match="got no graphs"):
            from_graphs([])
        with pytest.raises(SpecError, match=r"no graph has the attribute 'energy'; .* targets=None for graphs without"):
            from_graphs(graphs, targets="energy")
        with pytest.raises(SpecError, match="got targets of 3 graphs; expected one for each of 20 graphs"):
            from_graphs(graphs, targets=[1.0, 2.0, 3.0])
        with pytest.raises(SpecError, match="graph 1: its target is 'high'; expected numbers"):
            from_graphs(graphs[:2], targets=[1.0, "high"])
        with pytest.raises(SpecError, match="got level='edge'; expected 'graph' or 'node'"):
            from_graphs(graphs, level="edge")
        with pytest.raises(SpecError, match="got node=28, but the graphs carry no such features"):
            from_graphs(graphs, node=28)


class TestTraining:
    def test_a_dataset_takes_the_place_of_the_recipes_own(self, tmp_path: Path) -> None:
        graphs = graphs_with(y=number, x=lambda index: torch.full((3, 1), index / 20), edge_attr=torch.ones(6, 2))
        dataset = from_graphs(graphs, node=Reals(1))
        changes = ["trainer.epochs=2", "model.dim=8", "model.layers=1", "trainer.threads=1", "trainer.min_steps=0"]
        recipe = pointset.read_recipe("graphs", changes)
        result = pointset.train(recipe, tmp_path / "run", data=dataset, watch="quiet")
        assert result["dataset"]["name"] == "graphs" and result["epochs"] == 2
        predictor = pointset.load(tmp_path / "run")
        assert predictor.predict(graphs[:3]).shape == (3, 1)
        again = pointset.train(recipe, tmp_path / "run", data=dataset, watch="quiet", resume=True)
        assert again["test"] == result["test"]

    def test_a_pyg_dataset(self) -> None:
        class Rings(InMemoryDataset):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.data, self.slices = self.collate(graphs_with(y=number))

        assert len(from_graphs(Rings())) == 20


def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "own_data.md").read_text()
    names: dict[str, Any] = {}
    exec(page.split("## Graphs in memory")[1].split("```python\n")[1].split("```")[0], names)
    assert names["dataset"].card.node == Categories(4)
    assert (tmp_path / "runs" / "rings" / "result.json").is_file()
