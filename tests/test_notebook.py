"""What a notebook shows of graphs, point sets, datasets, models and predictions; and the table of predictions."""

from __future__ import annotations

import copy
import csv
import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import pointset
from pointset import notebook
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.own import smiles_csv
from pointset.errors import SpecError
from pointset.points.inputs import read_graph
from pointset.prediction.display import PredictionTable
from pointset.prediction.predictor import Predictor
from pointset.runs.recipe_files import changed, read_recipe
from pointset.text import with_interval

HOSTILE = "<script>alert(1)</script>\"'&"
OLDER_RUN = Path(__file__).parent / "fixtures" / "run_before_reorganisation" / "run"
VOID = {"circle", "path", "br", "img", "rect", "ellipse", "line", "polygon"}


class Shown(HTMLParser):
    """Tags, attributes and text; refuses what is not closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.open: list[str] = []
        self.parts: list[str] = []
        self.feed(source)
        assert self.open == []
        self.text = " ".join(" ".join(self.parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def shown(item: Any) -> Shown:
    return Shown(item._repr_html_())


def test_a_point_set_shows_its_graph_and_its_eigenvalues() -> None:
    page = shown(pointset.to_points(nx.petersen_graph()))
    assert "10 in 9 dimensions" in page.text and "10 nodes, 15 edges" in page.text and "laplacian" in page.text
    assert page.tags.count("svg") == 2 and page.tags.count("circle") == 10  # rebuilt from the points
    large = shown(pointset.to_points(nx.cycle_graph(200)))
    assert "200 in 199 dimensions" in large.text and "circle" not in large.tags
    empty = shown(pointset.to_points(nx.empty_graph(3)))
    assert "3 in 0 dimensions" in empty.text and empty.tags.count("circle") == 3
    cut = shown(pointset.to_points(nx.path_graph(30), rank=4))
    assert "left out" in cut.text and "circle" not in cut.tags


def test_a_graph_shows_what_it_carries() -> None:
    graph = read_graph((3, [(0, 1), (1, 2)]))[0]
    page = shown(graph)
    assert "nodes 3" in page.text and "edges 2" in page.text and page.tags.count("circle") == 3
    weighted: nx.Graph[int] = nx.Graph()
    weighted.add_edge(0, 1, weight=2.5)
    assert "2.5 to 2.5" in shown(read_graph(weighted)[0]).text


def test_a_path_is_drawn_as_a_line_and_parts_side_by_side() -> None:
    places = notebook._side_by_side(notebook._steps(5, np.array([[0, 1, 3], [1, 2, 4]])))
    path, edge = places[:3], places[3:]
    assert np.allclose(path[:, 1], 0) and np.allclose(np.abs(np.diff(path[:, 0])), 1)
    assert edge[:, 0].min() == pytest.approx(path[:, 0].max() + 1)
    steps = notebook._steps(5, np.array([[0, 1, 3], [1, 2, 4]]))
    assert steps[0].tolist() == [0, 1, 2, np.inf, np.inf]
    assert notebook.graph_drawing(0, np.zeros((2, 0))) == ""


def test_a_dataset_shows_its_first_rows(tmp_path: Path) -> None:
    rows = [f"{'C' * (at + 1)}O,{at}.5" for at in range(20)]
    (tmp_path / "mine.csv").write_text("\n".join([f'smiles,"{HOSTILE.replace(chr(34), chr(34) * 2)}"', *rows, "C(C,1"]))
    data = smiles_csv(tmp_path / "mine.csv", max_rejected=0.2)
    page = shown(data)
    assert "20; train 16, val 2, test 2" in page.text and HOSTILE in page.text
    assert "CCCO 2.5" in page.text and "1 rows, for example line 22" in page.text
    assert "script" not in page.tags and page.tags.count("tr") == 4 + 1 + 6
    points = shown(data.points(progress=False))
    assert "graphs 20" in points.text and "2 to 21" in points.text


@pytest.fixture(scope="module")
def model() -> Predictor:
    pytest.importorskip("rdkit")
    return pointset.load(OLDER_RUN)


def test_a_model_shows_what_it_predicts(model: Predictor) -> None:
    page = shown(model)
    for words in ("predicts logp", "task regression", "2 layers of 8 channels", "parameters 4,657", "MAE 3.32"):
        assert words in page.text
    assert "script" not in page.tags


def test_predictions_stand_beside_their_structures(model: Predictor, tmp_path: Path) -> None:
    items = ["CCO", "C(C", "c1ccccc1", HOSTILE]
    table = model.table(items, progress=False)
    expected = model.predict(["CCO", "c1ccccc1"], progress=False)[:, 0].tolist()
    assert [row["smiles"] for row in table] == items and len(table) == 4
    assert [table[0]["predicted_logp"], table[2]["predicted_logp"]] == pytest.approx(expected)
    assert table[1]["predicted_logp"] is None and "not a SMILES" in table[1]["status"] and table[0]["status"] == "ok"
    page = shown(table)
    assert page.tags.count("svg") == 2 and "script" not in page.tags and HOSTILE in page.text
    assert "not a SMILES" in page.text and not any(name.startswith("on") for name in page.names)
    assert "CCO: logp" in repr(table) and "PredictionTable(4 rows)" in repr(table)
    table.to_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == table.columns == ["smiles", "predicted_logp", "status"]
    assert float(rows[0]["predicted_logp"]) == pytest.approx(expected[0]) and rows[1]["predicted_logp"] == ""


def test_a_single_molecule_and_other_graphs_have_tables_too(model: Predictor) -> None:
    assert [row["smiles"] for row in model.table("CCO", progress=False)] == ["CCO"]
    table = model.table([nx.path_graph(3)], progress=False)
    assert table[0]["graph"] == "Graph 0" and table[0]["status"] != "ok"  # it has no features
    assert "svg" not in shown(table).tags
    assert len(model.table([], progress=False)) == 0


def card(task: Task, classes: tuple[str, ...] = ()) -> Card:
    targets = (Target("logS", unit="log mol/L"),)
    return Card("made up", "Made up", "", Level.GRAPH, task, targets, Metric.MAE, "", classes=classes)


def test_intervals_and_similarity_are_shown() -> None:
    row = {"smiles": "CCO", "predicted_logS": -3.2, "lower_logS": -4.1, "upper_logS": -2.3, "similarity": 0.314}
    rows = [row | {"in_domain": "no", "status": "ok"}, row | {"in_domain": "yes", "status": "ok"}]
    text = shown(PredictionTable(rows, card(Task.REGRESSION))).text
    assert "logS (log mol/L)" in text and text.count("−3.2 (−4.1 to −2.3)") == 2
    assert text.count("0.31") == 2 and text.count("outside the domain") == 1


def test_classes_are_named_with_their_probability() -> None:
    rows = [
        {"smiles": "CCO", "predicted_logS": "low", "probability_low": 0.81, "probability_high": 0.19, "status": "ok"}
    ]
    assert "low (0.81)" in shown(PredictionTable(rows, card(Task.MULTI_CLASS, ("low", "high")))).text
    label = [{"smiles": "CCO", "predicted_logS": 2.5e-6, "status": "ok"}]
    assert "0.000" in shown(PredictionTable(label, card(Task.BINARY))).text


def test_many_rows_stay_small() -> None:
    rows = [{"smiles": "CCO" * 10, "predicted_logS": 1.0, "status": "ok"}] * 500
    source = PredictionTable(rows, card(Task.REGRESSION))._repr_html_()
    assert "475 more rows" in source and len(source) < 250_000 and len(re.findall("<svg", source)) == 25


def test_a_model_of_nodes_has_no_such_table(model: Predictor) -> None:
    nodes = copy.copy(model)
    nodes.card = dataclasses.replace(model.card, level=Level.NODE)
    with pytest.raises(SpecError, match=r"predicts for nodes; expected one of whole graphs\. Use predict"):
        nodes.table(["CCO"], progress=False)
    with pytest.raises(SpecError, match="confidence"):
        model.table(["CCO"], confidence=1.5, progress=False)


def test_a_calibrated_model_has_intervals_in_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    rows = [f"{'C' * length}{end},{length}" for end in ("O", "N", "F", "Cl", "Br") for length in range(1, 13)]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,size", *rows]))
    recipe = read_recipe("molecules")
    small = {
        "model.dim": 8,
        "model.layers": 1,
        "trainer.epochs": 1,
        "trainer.min_steps": 0,
        "trainer.baseline": False,
        "trainer.threads": 1,
        "schedule.warmup": 0,
        "dataset.file": str(tmp_path / "mine.csv"),
    }
    pointset.train(changed(recipe, small), tmp_path / "run", device="cpu", watch="quiet")
    model = pointset.load(tmp_path / "run")
    items = ["CCO", "C(C", "c1ccc2ccccc2c1"]
    table = model.table(items, 0.5, progress=False)
    expected = model.predict_interval(["CCO"], 0.5, progress=False)
    assert not isinstance(expected, list) and expected.lower is not None and expected.upper is not None
    row = table[0]
    assert row["lower_size"] == pytest.approx(float(expected.lower))
    assert row["lower_size"] < row["predicted_size"] < row["upper_size"]
    assert 1 >= row["similarity"] > table[2]["similarity"] and table[1]["lower_size"] is table[1]["similarity"] is None
    assert table[2]["in_domain"] == "no" and shown(table).text.count("outside the domain") >= 1
    assert with_interval(row["predicted_size"], row["lower_size"], row["upper_size"]) in shown(table).text
    table.to_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert float(written[0]["upper_size"]) == pytest.approx(row["upper_size"]) and written[1]["upper_size"] == ""


def test_shapes_in_words() -> None:
    assert notebook.shape(torch.zeros(3, 4)) == "3 × 4" and notebook.shape(torch.tensor(1.0)) == "1"
    assert notebook.cell(HOSTILE) == "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;"
