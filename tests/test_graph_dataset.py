"""Graph files become a dataset, with targets of their own or from a table; bad graphs are named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from typer.testing import CliRunner

import pointset
from pointset.cli.datasets_check import check
from pointset.datasets.card import Level, Metric, Task
from pointset.datasets.graph_files import write_graph_file
from pointset.datasets.own import graph_files
from pointset.datasets.own.rejected import TooManyRejectedError
from pointset.errors import FileFormatError, MissingDataError, PointsetError, SpecError
from pointset.specs import Categories, Reals

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


def cycles(folder: Path, count: int = 10, name: str = "cycles.g6") -> Path:
    write_graph_file(folder / name, [nx.cycle_graph(3 + index) for index in range(count)])
    return folder / name


def ring(size: int, **fields: Any) -> Data:
    ends = torch.arange(size)
    other = (ends + 1) % size
    edge_index = torch.stack([torch.cat([ends, other]), torch.cat([other, ends])])
    return Data(edge_index=edge_index, num_nodes=size, **fields)


def saved(folder: Path, graphs: Sequence[Data], name: str = "own.pt") -> Path:
    torch.save(list(graphs), folder / name)
    return folder / name


def table(folder: Path, content: str, name: str = "targets.csv") -> Path:
    (folder / name).write_text(content)
    return folder / name


def values(dataset: Any) -> list[Any]:
    assert dataset.targets is not None
    assert dataset.targets.dim() == (1 if dataset.card.task is Task.MULTI_CLASS else 2)
    listed: list[Any] = dataset.targets.flatten().tolist()
    return listed


def test_graphs_without_targets(tmp_path: Path) -> None:
    dataset = graph_files(cycles(tmp_path))
    assert len(dataset) == 10 and dataset.targets is None and dataset.target_names == ()
    assert dataset.card.name == "cycles" and dataset.card.node is None and dataset.card.edge is None
    assert dataset.rows is not None and dataset.rows.tolist() == list(range(10))
    assert {part: len(indices) for part, indices in dataset.split.items()} == {"train": 8, "val": 1, "test": 1}
    assert dataset.graphs[2].edge_index.shape == (2, 10)
    assert len(dataset.points()) == 10
    assert any("no targets" in note and "--table" in note for note in dataset.card.notes)


@pytest.mark.parametrize("name", ["own.pt", "own.graphml", "own"])
def test_y_of_graphs_features_and_weights(tmp_path: Path, name: str) -> None:
    graphs = [
        ring(
            size,
            x=torch.arange(size)[:, None] % 3,
            edge_attr=torch.full((2 * size, 2), 0.5 * size, dtype=torch.float64),
            edge_weight=torch.full((2 * size,), 2.5, dtype=torch.float64),
            pos=torch.full((size, 3), 0.25, dtype=torch.float64),
            y=torch.tensor([[size / 4, float("nan") if size == 4 else 1.0]], dtype=torch.float64),
        )
        for size in (3, 4, 5)
    ]
    write_graph_file(tmp_path / name, graphs)
    dataset = graph_files(tmp_path / name)
    card = dataset.card
    assert (card.level, card.task, card.node, card.edge) == (Level.GRAPH, Task.REGRESSION, Categories(3), Reals(2))
    assert card.target_names == ("y0", "y1") and card.positions and card.metric is Metric.MAE
    np.testing.assert_array_equal(dataset.targets, [[0.75, 1], [1, np.nan], [1.25, 1]])
    one = dataset.graphs[1]
    assert one.edge_weight.tolist() == [2.5] * 8 and one.edge_attr.tolist() == [[2.0, 2.0]] * 8
    assert one.x.tolist() == [[0], [1], [2], [0]] and one.y.shape == (1, 2) and one.pos.shape == (4, 3)
    assert pointset.is_same_graph(dataset.graphs[2], graphs[2])


def test_y_of_nodes(tmp_path: Path) -> None:
    path = saved(tmp_path, [ring(size, y=torch.arange(size) % 3) for size in (3, 4, 5)])
    dataset = graph_files(path)
    assert (dataset.card.level, dataset.card.task) == (Level.NODE, Task.REGRESSION)
    assert values(dataset) == [0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0, 1] and dataset.graphs[1].y.shape == (4, 1)
    classes = graph_files(path, task="multi-class")
    assert classes.card.classes == ("0", "1", "2") and classes.card.outputs == 3
    assert classes.targets is not None and classes.targets.dtype == torch.int64
    with pytest.raises(SpecError, match="no targets of their own"):
        graph_files(path, split="stratified")


@pytest.mark.parametrize(
    ("y", "level", "task"),
    [
        ([torch.tensor([1.0]), torch.tensor([0.0])], Level.GRAPH, Task.BINARY),
        ([torch.tensor(1), torch.tensor(0)], Level.GRAPH, Task.BINARY),
        ([torch.tensor([[1, 0]]), torch.tensor([[0, 0]])], Level.GRAPH, Task.MULTI_LABEL),
        ([torch.tensor([1.5, 2.5]), torch.tensor([1.0, 2.0])], Level.GRAPH, Task.REGRESSION),
        ([torch.tensor([1, 0, 1]), torch.tensor([0, 0, 1, 1])], Level.NODE, Task.BINARY),
        ([torch.tensor([True]), torch.tensor([False])], Level.GRAPH, Task.BINARY),
    ],
    ids=["one", "scalar", "labels", "flat", "nodes", "truth"],
)
def test_level_and_task_are_seen_from_y(tmp_path: Path, y: list[Any], level: Level, task: Task) -> None:
    dataset = graph_files(saved(tmp_path, [ring(3, y=y[0]), ring(4, y=y[1])]))
    assert (dataset.card.level, dataset.card.task) == (level, task)


def test_bad_graphs_are_rejected_with_their_number_and_reason(tmp_path: Path) -> None:
    good = [ring(3 + index, x=torch.zeros(3 + index, 2), y=torch.tensor([0.5 * index])) for index in range(20)]
    bad = [
        ring(4, x=torch.zeros(4, 3), y=torch.tensor([0.5])),
        ring(4, y=torch.tensor([0.5])),
        ring(4, x=torch.full((4, 2), float("nan")), y=torch.tensor([0.5])),
        ring(4, x=torch.zeros(4, 2)),
        ring(4, x=torch.zeros(4, 2), y=torch.tensor([float("inf")])),
        ring(4, x=torch.zeros(4, 2), y=torch.tensor([float("nan")])),
        ring(4, x=torch.zeros(4, 2), y=torch.tensor([0.5, 0.5])),
        ring(4, x=torch.zeros(3, 2), y=torch.tensor([0.5])),
        Data(edge_index=torch.tensor([[0], [1]]), num_nodes=4, x=torch.zeros(4, 2), y=torch.tensor([0.5])),
        Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=0, x=torch.zeros(0, 2), y=torch.tensor([0.5])),
    ]
    path = saved(tmp_path, [*good[:10], *bad, *good[10:]])
    dataset = graph_files(path, max_rejected=0.5)
    assert [one.row for one in dataset.rejected] == list(range(10, 20))
    assert dataset.rows is not None and dataset.rows.tolist() == [*range(10), *range(20, 30)]
    assert values(dataset) == [0.5 * index for index in range(20)]
    reasons = [one.reason for one in dataset.rejected]
    for reason, told in zip(
        reasons,
        (
            r"x with 3 columns; expected x with 2 columns, as most graphs \(own.pt\[0\] first\)",
            "no features",
            "NaN",
            "no y",
            "infinity",
            "missing",
            "2 numbers; expected 1",
            "expected one row",
            "directed",
            "no nodes",
        ),
        strict=True,
    ):
        assert re.search(told, reason), reason
    with pytest.raises(TooManyRejectedError, match=r"8 of 28 graphs \(28\.6%\) cannot be used"):
        graph_files(path)


def test_a_graph_without_edges_needs_no_edge_features(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("graph,source,target,edge_attr0\na,0,1,2\nb,0,,\nc,1,2,0\n")
    dataset = graph_files(tmp_path / "own.csv")
    assert len(dataset) == 3 and dataset.card.edge == Categories(3)
    (tmp_path / "own.csv").write_text("graph,source,target,edge_attr0\na,0,1,2\nb,0,,\nc,1,,\nd,3,,\n")
    assert len(graph_files(tmp_path / "own.csv")) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"node": Categories(2)}, "column 0 holds 0 to 2; expected 0 to 1"),
        ({"node": Categories(3, 3)}, "expected 1 columns"),
        ({"edge": Reals(1)}, "carry no such features"),
        ({"level": "nodes"}, "expected 'graph' or 'node'"),
        ({"level": "node"}, "carry no y"),
        ({"task": "multi"}, "expected one of"),
        ({"columns": "y"}, "about a table"),
        ({"split": "column:fold"}, "about a table"),
        ({"split": "scaffold"}, "not molecules"),
        ({"split": "nothing"}, "expected random"),
        ({"max_rejected": -1}, "between 0 and 1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_impossible_settings_say_what_is_possible(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    path = saved(tmp_path, [ring(size, x=torch.arange(size) % 3) for size in (3, 4, 5)])
    with pytest.raises(PointsetError, match=re.escape(told)):
        graph_files(path, **given)


def test_specs_by_hand(tmp_path: Path) -> None:
    path = saved(tmp_path, [ring(size, x=torch.arange(size) % 3) for size in (3, 4, 5)])
    assert graph_files(path, node=28).card.node == Categories(28)
    reals = graph_files(path, node=Reals(1))
    assert reals.card.node == Reals(1) and reals.features.x is not None and reals.features.x.dtype == torch.float32
    negative = saved(tmp_path, [ring(4, x=torch.arange(4) - 2)], "negative.pt")
    assert graph_files(negative).card.node == Reals(1)


@pytest.mark.parametrize("key", ["graph", "Name", "file"])
def test_targets_from_a_table_by_name(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    for name in ("b", "a", "c"):
        cycles(folder, 1, f"{name}.graphml")
    rows = f"{key},y,fold\nc,3.5,test\na.graphml,1.5,train\n"
    with pytest.raises(TooManyRejectedError, match="no row of targets"):
        graph_files(folder, targets=table(tmp_path, rows))
    dataset = graph_files(folder, targets=table(folder, f"{key},y,fold\nc,3.5,test\na,1.5,train\nb,2.5,val\n"))
    assert values(dataset) == [1.5, 2.5, 3.5] and dataset.target_names == ("y",)
    by_column = graph_files(folder, targets=folder / "targets.csv", split="column:fold")
    assert {part: indices.tolist() for part, indices in by_column.split.items()} == {
        "train": [0],
        "val": [1],
        "test": [2],
    }


def test_provenance_names_the_files_that_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    (folder / "older.csv").mkdir(parents=True)
    read = [cycles(folder, 3, name) for name in ("a.graphml", "b.graphml")]
    cycles(folder, 1, ".hidden.g6")
    dataset = graph_files(folder)
    assert len(dataset) == 6 and dataset.provenance.files == tuple(read)


def test_targets_from_a_table_by_number_and_by_place(tmp_path: Path) -> None:
    path = cycles(tmp_path, 4)
    by_number = graph_files(path, targets=table(tmp_path, "graph,y\n3,0.3\n1,0.1\n0,0.5\n2,0.2\n"))
    assert values(by_number) == [0.5, 0.1, 0.2, 0.3]
    by_place = "".join(f"cycles.g6:{line},{line}.5\n" for line in (4, 2, 1, 3))
    assert values(graph_files(path, targets=table(tmp_path, "name,y\n" + by_place))) == [1.5, 2.5, 3.5, 4.5]


def test_labels_of_an_edge_list_go_before_numbers(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("graph,source,target\n1,0,1\n2,0,1\n0,0,1\n")
    dataset = graph_files(tmp_path / "own.csv", targets=table(tmp_path, "graph,y\n0,0.5\n1,1.5\n2,2.5\n"))
    assert values(dataset) == [1.5, 2.5, 0.5]


def test_words_in_the_table_are_classes(tmp_path: Path) -> None:
    path = cycles(tmp_path, 4)
    targets = table(tmp_path, "graph,kind,y\n0,odd,1\n1,even,2\n2,odd,3\n3,even,4\n")
    dataset = graph_files(path, targets=targets, columns="kind", split="stratified")
    assert dataset.card.classes == ("even", "odd") and values(dataset) == [1, 0, 1, 0]
    found = graph_files(path, targets=targets)
    assert found.target_names == ("y",) and any("the target is y" in note for note in found.card.notes)


def test_graphs_without_row_and_rows_without_graph_are_reported(tmp_path: Path) -> None:
    path = cycles(tmp_path, 20)
    rows = [f"{number},{number / 2}" for number in range(19)]
    dataset = graph_files(path, targets=table(tmp_path, "\n".join(["graph,y", *rows, "99,1"])))
    assert [(one.place, one.row) for one in dataset.rejected] == [("graph", 19), ("targets.csv, line", 21)]
    assert "no row for this graph" in dataset.rejected[0].reason and "no graph '99'" in dataset.rejected[1].reason
    rows[3] = "3,word"
    dataset = graph_files(path, targets=table(tmp_path, "\n".join(["graph,y", *rows, "19,"])))
    assert [(one.row, one.kind) for one in dataset.rejected] == [
        (3, "a target that is not a number"),
        (19, "no target"),
    ]
    assert "targets.csv, line 5" in dataset.rejected[0].reason
    empty = table(tmp_path, "\n".join(["graph,y", ",", ",", *(f"{number},{number}" for number in range(20)), ",", ","]))
    found = graph_files(path, targets=empty, columns="y").rejected
    assert [(one.row, "'graph' is empty" in one.reason) for one in found] == [(2, True), (3, True)]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("graph,y\n0,1\n0,2\n", "row in line 2 and another in line 3"),
        ("graph,y\n0,1\n00,2\n", "two rows"),
        ("graph,y\n1,1\n2,2\n3,1\n4,7\n", "run from 1 to 4; expected 0 to 3"),
        ("graph,y\n1,1\n2,2\n3,1\n", "run from 1 to 3; expected 0 to 3"),
        ("graph,y\na,1\nb,2\n", "no row names one of the 4 graphs"),
        ("y\n1\n2\n", "expected one named 'graph'.*add a column graph with 0, 1, 2, …, in the order"),
        ("graph,Graph,y\n1,1,1\n", "more than once"),
        ("graph,name\n0,x\n", "no column of numbers.*--target"),
        ("", "is empty"),
    ],
    ids=[
        "twice",
        "two writings",
        "from 1",
        "from 1, one short",
        "names",
        "no column",
        "two columns",
        "no numbers",
        "empty",
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(PointsetError, match=told):
        graph_files(cycles(tmp_path, 4), targets=table(tmp_path, content), max_rejected=1.0)


def test_a_table_has_no_targets_of_nodes(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="put y into the graph files"):
        graph_files(cycles(tmp_path), targets=table(tmp_path, "graph,y\n0,1\n"), level="node")


def test_files_that_are_not_there_or_not_graphs(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no file"):
        graph_files(tmp_path / "none.g6")
    with pytest.raises(MissingDataError, match="there is no file"):
        graph_files(cycles(tmp_path), targets=tmp_path / "none.csv")
    (tmp_path / "own.pt").write_bytes(b"not torch")
    with pytest.raises(FileFormatError, match=r"not a file of torch\.save"):
        graph_files(tmp_path / "own.pt")
    (tmp_path / "own.xyz").write_text("1")
    with pytest.raises(FileFormatError, match="unknown suffix"):
        graph_files(tmp_path / "own.xyz")


@settings(max_examples=60)
@given(lines=st.lists(st.one_of(st.sampled_from(["Bw", "A_", "@", "C~", "~~~", "B"]), st.text(max_size=3)), max_size=8))
def test_every_line_is_a_graph_or_a_rejected_one(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("t") / "own.g6"
    path.write_text("\n".join(line.encode("utf-8", "replace").decode() for line in lines), encoding="utf-8")
    kept: list[int] = []
    try:
        dataset = graph_files(path, max_rejected=1.0)
        kept = [] if dataset.rows is None else dataset.rows.tolist()
        rejected = dataset.rejected
    except TooManyRejectedError as error:
        rejected = error.rejected
    except PointsetError:
        return
    every = sorted([*kept, *(one.row for one in rejected)])
    assert every == list(range(len(every)))


def test_twice_the_same_bytes(tmp_path: Path) -> None:
    path = saved(tmp_path, [ring(3 + index, y=torch.tensor([0.5 * index])) for index in range(30)])
    one, other = graph_files(path), graph_files(path)
    assert all(np.array_equal(one.split[part], other.split[part]) for part in one.split)
    assert torch.equal(one.features.y, other.features.y)  # type: ignore[arg-type]
    assert one.provenance == other.provenance and len(one.provenance.sha256) == 1


def test_the_command_reads_graphs_with_a_table(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(check)
    targets = table(tmp_path, "graph,kind\n" + "".join(f"{number},{'ab'[number % 2]}\n" for number in range(10)))
    arguments = [str(cycles(tmp_path)), "--table", str(targets), "--target", "kind"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "2 classes" in result.output and "10 of 10 graphs can be used" in result.output
    refused = CliRunner().invoke(app, [*arguments, "--smiles", "x"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2 and "--smiles has no effect" in refused.output


def test_decimal_commas_in_the_table(tmp_path: Path) -> None:
    targets = table(tmp_path, "graph;y\n0;0,5\n1;1,5\n2;2\n")
    dataset = graph_files(cycles(tmp_path, 3), targets=targets, columns="y")
    assert values(dataset) == [0.5, 1.5, 2] and dataset.card.notes == ("decimal commas in 'y'",)


def test_few_whole_numbers_may_be_classes(tmp_path: Path) -> None:
    path = saved(tmp_path, [ring(3 + index, y=torch.tensor([index % 3])) for index in range(9)])
    dataset = graph_files(path)
    assert dataset.card.task is Task.REGRESSION
    assert any("whole numbers 0…2" in note and "--task multi-class" in note for note in dataset.card.notes)
    assert graph_files(path, task="multi-class").card.notes == ()


def test_attributes_that_are_not_kept_are_told(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(check)
    graph = nx.cycle_graph(4)
    nx.set_node_attributes(graph, {node: "abcd"[node] for node in graph}, "kind")
    nx.set_node_attributes(graph, {node: 0.5 * node for node in graph}, "size")
    nx.write_graphml(graph, tmp_path / "own.graphml")
    notes = graph_files(tmp_path / "own.graphml").card.notes
    assert any("not kept: kind, size" in note and "x0, x1, …" in note for note in notes)
    result = CliRunner().invoke(app, [str(tmp_path / "own.graphml")], env={"COLUMNS": "200"})
    assert result.exit_code == 0 and "not kept: kind, size" in result.output
    assert "none (no targets; pass --table)" in result.output and "MAE" not in result.output
    unknown = CliRunner().invoke(app, [str(tmp_path / "nope")])
    assert unknown.exit_code == 1 and "there is no file or folder" in unknown.output


def test_shares_of_a_random_split(tmp_path: Path) -> None:
    assert [len(part) for part in graph_files(cycles(tmp_path), split=(0.6, 0.2, 0.2)).split.values()] == [6, 2, 2]


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    guide = (REPOSITORY / "docs" / "own_data.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL):
        exec(block, names)
    assert "line 5" in capsys.readouterr().out
