"""Graph files of every format: round trips, what is refused, and files that mean harm."""

from __future__ import annotations

import csv
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from pointset import PointSet, to_points
from pointset.datasets.graph_files import GraphRecord, checking, read_graph_file, write_graph_file
from pointset.datasets.graph_files.checking import check_graphs, solve_graphs
from pointset.datasets.graph_files.formats import FORMATS
from pointset.datasets.graph_files.graph6 import graph_of_line, line_of_graph
from pointset.errors import FileFormatError, RankError
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graph
from tests.graph_strategies import ATLAS_UP_TO_6

ALL_FORMATS = ["graphs.g6", "graphs.s6", "graphs.graphml", "graphs.csv", "graphs.pt", "folder"]
FULL_FORMATS = ["graphs.graphml", "graphs.pt", "folder"]


def as_graph(graph: Any) -> Graph:
    return read_graph(graph)[0]


def read_all(path: Path) -> list[GraphRecord]:
    return list(read_graph_file(path))


def graphs_of(path: Path) -> list[Graph]:
    records = read_all(path)
    assert [record.problem for record in records] == [None] * len(records)
    return [as_graph(record.graph) for record in records]


def problems_of(path: Path) -> list[str]:
    return [record.problem or "" for record in read_all(path)]


def assert_same_graph(one: Graph, other: Graph, *, types: bool = True) -> None:
    assert one.num_nodes == other.num_nodes
    assert np.array_equal(one.edges, other.edges)
    if one.weights is None or other.weights is None:
        assert one.weights is other.weights or one.edges.shape[1] == 0
    else:
        assert np.array_equal(one.weights, other.weights)
    for a, b in zip(one.features, other.features, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            if types:
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert torch.equal(a.double(), b.double().reshape(a.shape))


def featured(**features: Any) -> Data:
    edges = torch.tensor([[0, 1, 1, 3], [1, 0, 3, 1]])
    return Data(edge_index=edges, num_nodes=5, **features)  # nodes 2 and 4 are isolated


PLAIN = [
    nx.empty_graph(0),
    nx.empty_graph(1),
    nx.empty_graph(4),
    nx.path_graph(7),
    nx.petersen_graph(),
    nx.star_graph(70),
]

FEATURED = [
    featured(x=torch.randn(5, 12)),
    featured(x=torch.randn(5, dtype=torch.float64), pos=torch.randn(5, 3, dtype=torch.float64)),
    featured(x=torch.randint(-9, 9, (5, 2, 2)), y=torch.tensor([0.25])),
    featured(x=torch.tensor([True, False, True, True, False]), y=torch.tensor(7)),
    featured(x=torch.randn(5, 2).half(), y=torch.arange(5)),
    featured(x=torch.zeros(5, 0), y=torch.tensor([[1.5, float("nan"), -2.0]]).nan_to_num(9)),
    featured(edge_attr=torch.tensor([[0.1, 2.0], [0.1, 2.0], [0.3, 4.0], [0.3, 4.0]])),
    featured(edge_weight=torch.tensor([0.1, 0.1, 2.5, 2.5], dtype=torch.float64)),
    featured(edge_weight=torch.tensor([3, 3, -4, -4])),
    Data(edge_index=torch.tensor([[0, 0, 1], [0, 1, 0]]), num_nodes=2, edge_weight=torch.tensor([5.0, 0.5, 0.5])),
    Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=0, x=torch.zeros(0, 4)),
    Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=1, y=torch.tensor([[2]])),
]


# --- round trips


@pytest.mark.parametrize("name", ALL_FORMATS)
def test_plain_graphs_survive_every_format(tmp_path: Path, name: str) -> None:
    write_graph_file(tmp_path / name, PLAIN)
    back = graphs_of(tmp_path / name)
    for before, after in zip(PLAIN, back, strict=True):
        assert_same_graph(as_graph(before), after)


@pytest.mark.parametrize("name", FULL_FORMATS)
def test_everything_survives_the_formats_that_hold_it(tmp_path: Path, name: str) -> None:
    write_graph_file(tmp_path / name, FEATURED)
    for before, after in zip(FEATURED, graphs_of(tmp_path / name), strict=True):
        assert_same_graph(as_graph(before), after)


@pytest.mark.parametrize("data", [FEATURED[6], FEATURED[7], FEATURED[8], FEATURED[9]])
def test_an_edge_list_keeps_weights_loops_and_edge_features(tmp_path: Path, data: Data) -> None:
    write_graph_file(tmp_path / "graph.csv", [data])
    write_graph_file(tmp_path / "many.csv", [nx.empty_graph(0), data, nx.path_graph(3)], ["none", "it", "path"])
    assert_same_graph(as_graph(data), graphs_of(tmp_path / "graph.csv")[0], types=False)
    assert_same_graph(as_graph(data), graphs_of(tmp_path / "many.csv")[1], types=False)
    assert [record.name for record in read_all(tmp_path / "many.csv")] == ["none", "it", "path"]


@st.composite
def networks(draw: st.DrawFn, loops: bool = False, weights: bool = False) -> nx.Graph[int]:
    n = draw(st.integers(0, 20))
    graph: nx.Graph[int] = nx.empty_graph(n)
    node = st.integers(0, max(n - 1, 0))
    for u, v in draw(st.lists(st.tuples(node, node), max_size=40)) if n else []:
        if u != v or loops:
            graph.add_edge(u, v)
    if weights:
        for _, _, fields in graph.edges(data=True):
            fields["weight"] = draw(st.floats(-1e9, 1e9).filter(lambda weight: abs(weight) >= 1e-150))
    return graph


@settings(max_examples=40)
@given(graph=networks())
def test_any_graph_survives_graph6_as_networkx_has_it(graph: nx.Graph[int]) -> None:
    line = line_of_graph(as_graph(graph))
    assert line == nx.to_graph6_bytes(graph, header=False).strip()
    assert_same_graph(as_graph(graph_of_line(line)), as_graph(graph))


@settings(max_examples=40)
@given(graphs=st.lists(networks(loops=True), min_size=1, max_size=3))
def test_any_graph_survives_sparse6(tmp_path_factory: pytest.TempPathFactory, graphs: list[nx.Graph[int]]) -> None:
    path = tmp_path_factory.mktemp("files") / "graphs.s6"
    write_graph_file(path, graphs)
    for before, after in zip(graphs, graphs_of(path), strict=True):
        assert_same_graph(as_graph(before), after)


@settings(max_examples=40)
@example(graphs=[nx.path_graph(2), nx.path_graph(3)], names=["a\rb", "c\nd", ""])
@given(
    graphs=st.lists(networks(loops=True, weights=True), min_size=1, max_size=3),
    names=st.lists(st.text(max_size=8), min_size=3, max_size=3),
)
def test_any_graph_survives_an_edge_list(
    tmp_path_factory: pytest.TempPathFactory, graphs: list[nx.Graph[int]], names: list[str]
) -> None:
    path = tmp_path_factory.mktemp("files") / "graphs.csv"
    write_graph_file(path, graphs, names[: len(graphs)])
    for before, after in zip(graphs, graphs_of(path), strict=True):
        assert_same_graph(as_graph(before), after)


@pytest.mark.parametrize("n", [62, 63, 100])
def test_graph6_of_more_than_62_nodes(n: int) -> None:
    graph = nx.cycle_graph(n)
    line = nx.to_graph6_bytes(graph, header=False).strip()
    assert line_of_graph(as_graph(graph)) == line
    assert_same_graph(as_graph(graph_of_line(line)), as_graph(graph))


def test_the_atlas_goes_through_all_formats_in_a_row(tmp_path: Path) -> None:
    graphs: list[Any] = list(ATLAS_UP_TO_6)
    for name in ALL_FORMATS:
        write_graph_file(tmp_path / name, graphs)
        graphs = graphs_of(tmp_path / name)
    for before, after in zip(ATLAS_UP_TO_6, graphs, strict=True):
        assert_same_graph(as_graph(before), after)


# --- what a format holds


@pytest.mark.parametrize(
    ("name", "data", "lost"),
    [
        ("a.g6", FEATURED[7], "edge weights"),
        ("a.g6", FEATURED[9], "self-loops"),
        ("a.s6", FEATURED[7], "edge weights"),
        ("a.s6", FEATURED[0], "node features"),
        ("a.csv", FEATURED[0], "node features"),
        ("a.csv", FEATURED[1], "positions"),
        ("a.csv", FEATURED[2], "targets"),
    ],
)
def test_what_would_be_lost_is_refused_and_left_out_on_demand(tmp_path: Path, name: str, data: Data, lost: str) -> None:
    path = tmp_path / name
    with pytest.raises(FileFormatError, match=rf"{lost}.* of 1 of 1 graphs.*\.graphml.*--lossy"):
        write_graph_file(path, [data])
    assert not path.exists()
    write_graph_file(path, [data], lossy=True)
    back = graphs_of(path)[0]
    loops = int((as_graph(data).edges[0] == as_graph(data).edges[1]).sum()) if name.endswith(".g6") else 0
    assert back.num_nodes == data.num_nodes
    assert back.edges.shape[1] == as_graph(data).edges.shape[1] - loops


def test_weights_that_are_all_one_are_no_loss(tmp_path: Path) -> None:
    write_graph_file(tmp_path / "a.g6", [nx.Graph([(0, 1, {"weight": 1.0})])])
    assert graphs_of(tmp_path / "a.g6")[0].edges.tolist() == [[0], [1]]


def test_graph6_points_to_sparse6_for_large_graphs(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"sparse6 \(\.s6\)"):
        write_graph_file(tmp_path / "a.g6", [(60_000, [(0, 59_999)])])
    with pytest.raises(FileFormatError, match="GraphML"):
        write_graph_file(tmp_path / "a.s6", [(200_000, [(0, 59_999)])])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [("a.graphm", r"did you mean '\.graphml'"), ("a.cvs", r"did you mean '\.csv'"), ("a.xyz", r"\.g6 \(graph6\)")],
)
def test_an_unknown_suffix_names_the_known_ones(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(FileFormatError, match=hint) as caught:
        read_graph_file(tmp_path / name)
    assert all(suffix in str(caught.value) for suffix in FORMATS)
    with pytest.raises(FileFormatError, match="unknown suffix"):
        write_graph_file(tmp_path / name, [nx.path_graph(2)])


def test_points_and_files_without_suffix_are_no_graph_files(tmp_path: Path) -> None:
    (tmp_path / "graphs").touch()
    with pytest.raises(FileFormatError, match="no suffix"):
        read_graph_file(tmp_path / "graphs")
    with pytest.raises(FileFormatError, match="a file of points"):
        read_graph_file(tmp_path / "points.safetensors")


def test_writing_checks_names_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="got 1 names for 2 graphs"):
        write_graph_file(tmp_path / "a.g6", PLAIN[:2], ["one"])
    with pytest.raises(FileFormatError, match="there is no folder"):
        write_graph_file(tmp_path / "nowhere" / "a.g6", PLAIN[:2])


def test_a_failing_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.graphml"
    path.write_text("precious")
    with pytest.raises(FileFormatError, match="complex"):
        write_graph_file(path, [featured(x=torch.zeros(5, 1, dtype=torch.complex64))])
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


# --- graph6 and sparse6


def test_a_bad_line_does_not_stop_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "graphs.g6"
    path.write_bytes(b">>graph6<<D?{\r\n\nbad line\nD?\n:An\n&AO\n~~~~~~~~~~\n:~~~~~~~~~~\n~\n;x\nD?{")
    records = read_all(path)
    assert [record.name for record in records] == [f"graphs.g6:{line}" for line in (1, 3, 4, 5, 6, 7, 8, 9, 10, 11)]
    assert [record.name for record in records if record.problem is None] == [
        "graphs.g6:1",
        "graphs.g6:5",
        "graphs.g6:11",
    ]
    problems = [record.problem for record in records if record.problem is not None]
    for problem, expected in zip(
        problems,
        ["character 4 is byte 32", "claims 5 nodes", "directed", "claims 68719476735 nodes", "claims 68719476735 nodes",
         "cut short", "incremental"],
        strict=True,
    ):  # fmt: skip
        assert expected in problem


@pytest.mark.parametrize("content", [b"", b"\n\n", b">>graph6<<\n"])
def test_an_empty_line_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.g6").write_bytes(content)
    with pytest.raises(FileFormatError, match="is empty"):
        read_all(tmp_path / "a.g6")


@settings(max_examples=100)
@given(content=st.binary(min_size=1, max_size=80))
def test_no_bytes_at_all_make_the_line_reader_stumble(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("files") / "a.g6"
    path.write_bytes(content + b"\n:" + content)
    for record in read_graph_file(path):
        assert (record.graph is None) == (record.problem is not None)


# --- edge lists


def write_text(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_labels_are_names_so_counting_from_one_is_no_matter(tmp_path: Path) -> None:
    from_zero = graphs_of(write_text(tmp_path / "zero.csv", "source,target\n0,1\n1,2\n"))[0]
    from_one = graphs_of(write_text(tmp_path / "one.csv", "source,target\n1,2\n2,3\n"))[0]
    with_gaps = graphs_of(write_text(tmp_path / "gaps.csv", "source,target\n700,5\n-3,5\n"))[0]
    assert_same_graph(from_zero, from_one)
    assert_same_graph(from_zero, with_gaps)  # -3 – 5 – 700: numerical order
    words = graphs_of(write_text(tmp_path / "words.csv", "source,target\nzoe,bob\nbob,10\n9,\n"))[0]
    assert words.num_nodes == 4
    assert words.edges.tolist() == [[0, 1], [1, 2]]  # order of appearance


def test_columns_in_any_order_any_case_and_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "\ufeffWeight, Target ,SOURCE,Label\n2.5,b,a,hello\n", "utf-8")
    record = read_all(path)[0]
    assert record.ignored == ("label", "node names (nodes are numbered from 0)")
    assert record.graph.weights.tolist() == [2.5]


def test_isolated_nodes_empty_graphs_and_interleaved_graphs(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "graph,source,target\nA,1,2\nB,x,\nA,2,3\nC,,\nB,x,y\n\nA,9,\n")
    assert [(record.name, record.graph.num_nodes) for record in read_all(path)] == [("A", 4), ("B", 2), ("C", 0)]


def test_both_directions_are_one_edge_unless_they_differ(tmp_path: Path) -> None:
    path = write_text(
        tmp_path / "a.csv", "graph,source,target,weight\nsame,a,b,1\nsame,b,a,1.0\ndiffer,a,b,1\ndiffer,b,a,2\n"
    )
    same, differ = read_all(path)
    assert same.graph.edges.shape == (2, 1)
    assert differ.problem is not None
    assert "line 5: the edge b – a stands also in line 4" in differ.problem


def test_a_bad_row_spoils_its_graph_only(tmp_path: Path) -> None:
    rows = ["graph,source,target,weight,edge_attr0", "ok,1,2,0.5,1", "text,1,2,heavy,1", "short,1", "empty,1,2,,1",
            "empty,2,3,1,1", "nan,1,2,nan,1", "end,,2,1,1", "start,1,,1,", "attr,1,2,1,1", "attr,2,3,1,",
            ",1,2,1,1", '""']  # fmt: skip
    records = {record.name: record for record in read_all(write_text(tmp_path / "a.csv", "\n".join(rows)))}
    assert records.pop("ok").problem is None
    expected = {
        "text": "line 3: weight is 'heavy'",
        "short": "line 4: the row has 2 cells; expected 5",
        "empty": "line 5: weight is empty",
        "nan": "line 7: the weight is nan",
        "end": "line 8: an edge without source",
        "start": "line 9: an edge without target",
        "attr": "line 11: edge_attr0 is empty",
        "a.csv:12": "no graph is named",
    }
    assert set(records) == set(expected)
    for name, reason in expected.items():
        assert reason in str(records[name].problem)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"source,target,source\n1,2,3\n", "'source' stands there twice"),
        (b"from,to\n1,2\n", "Rename the columns"),
        (b"0,1\n1,2\n", "put a header line above it"),
        (b"source;target\n1;2\n", "semicolons"),
        (b"source target\n1 2\n", "spaces"),
        (b"source,target,edge_attr1\n1,2,3\n", "no edge_attr0"),
        (b"graph,source,target\n", "no rows"),
        ("source,target\nä,b\n".encode("latin-1"), "not UTF-8"),
        ("source,target\na,b\n".encode("utf-16"), "not UTF-8"),
        (b'source,target\n"a,b\n', "not readable as CSV"),
        (b"source,target\n" + b"a" * 200_000 + b",b\n", "not readable as CSV"),
        (os.urandom(2000), "not UTF-8"),
        (b"\x00" * 100, "expected the columns"),
    ],
)
def test_what_is_no_edge_list_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        read_all(tmp_path / "a.csv")


def test_names_that_would_collide_in_an_edge_list_are_kept_apart(tmp_path: Path) -> None:
    write_graph_file(tmp_path / "a.csv", [nx.path_graph(2), nx.path_graph(3), nx.path_graph(4)], ["same", " same", ""])
    assert [graph.num_nodes for graph in graphs_of(tmp_path / "a.csv")] == [2, 3, 4]
    with (tmp_path / "a.csv").open() as file:
        assert next(csv.reader(file)) == ["graph", "source", "target"]


# --- GraphML


def graphml(body: str, keys: str = "") -> str:
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}{body}</graphml>'


KEYS = (
    '<key id="a" for="node" attr.name="x0" attr.type="double"/><key id="b" for="node" attr.name="label" '
    'attr.type="string"/><key id="c" for="edge" attr.name="weight" attr.type="int"><default>3</default></key>'
)


def test_graphml_from_another_tool(tmp_path: Path) -> None:
    nodes = "".join(f'<node id="{n}"><data key="a">{n}.5</data><data key="b">{n}</data></node>' for n in "123")
    body = f'<graph edgedefault="undirected">{nodes}<edge source="1" target="3"/></graph>'
    record = read_all(write_text(tmp_path / "a.graphml", graphml(body, KEYS)))[0]
    assert record.graph.features.x.tolist() == [[1.5], [2.5], [3.5]]
    assert record.graph.weights.tolist() == [3.0]  # the key's default
    assert record.graph.edges.tolist() == [[0], [2]]
    assert record.ignored == ("label", "node names (nodes are numbered from 0)")
    bare = f"<graphml>{KEYS}{body}</graphml>"  # some tools forget the namespace
    assert graphs_of(write_text(tmp_path / "b.graphml", bare))[0].num_nodes == 3


def test_graphml_written_by_networkx_with_targets(tmp_path: Path) -> None:
    network = nx.path_graph(3)
    nx.set_node_attributes(network, {0: 1, 1: 0, 2: 1}, "y0")
    nx.write_graphml(network, tmp_path / "nodes.graphml")
    assert graphs_of(tmp_path / "nodes.graphml")[0].features.y.tolist() == [1, 0, 1]  # type: ignore[union-attr]
    whole = nx.path_graph(3)
    whole.graph["y0"] = 0.5
    nx.write_graphml(whole, tmp_path / "whole.graphml")
    assert graphs_of(tmp_path / "whole.graphml")[0].features.y.tolist() == [0.5]  # type: ignore[union-attr]


def test_a_bad_graph_in_graphml_does_not_stop_the_others(tmp_path: Path) -> None:
    good = '<graph edgedefault="undirected"><node id="1"/></graph>'
    bad = [
        '<graph edgedefault="directed"><node id="1"/></graph>',
        '<graph edgedefault="undirected"><node id="1"><data key="zz">1</data></node></graph>',
        '<graph edgedefault="undirected"><node id="1"><data key="a">one</data></node></graph>',
        '<graph edgedefault="undirected"><node id="1"><data key="a">1</data></node><node id="2"/></graph>',
        '<graph edgedefault="undirected"><hyperedge/></graph>',
    ]
    problems = problems_of(write_text(tmp_path / "a.graphml", graphml(good.join(["", *bad, ""]), KEYS)))
    assert [bool(problem) for problem in problems] == [False, True] * len(bad) + [False]
    reasons = ["directed", "no key zz", "'one'", "missing on 1 of 2", "hyperedge"]
    for problem, reason in zip(problems[1::2], reasons, strict=True):
        assert reason in problem


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ("nonsense", "cannot be read"),
        ('{"x": ["float32", [-1]]}', "cannot be read"),
        ('{"x": ["float32", [1000000, 1000000]]}', "cannot be read as torch.float32"),
        ('{"x": ["object", [1]]}', "cannot be read"),
        ('{"x": ["int64", [1]]}', "has fractions"),
        ('{"x": ["float32", [2]]}', "cannot be read as torch.float32"),
    ],
)
def test_a_forged_note_on_types_is_a_problem_of_that_graph(tmp_path: Path, note: str, reason: str) -> None:
    network = nx.path_graph(2)
    nx.set_node_attributes(network, {0: 0.5, 1: 0.5}, "x0")
    network.graph["pointset"] = note
    nx.write_graphml(network, tmp_path / "a.graphml")
    assert reason in problems_of(tmp_path / "a.graphml")[0]


ATTACK = '<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not readable as XML"),
        (os.urandom(500), "not readable as XML"),
        (graphml("<graph>").encode(), "not readable as XML"),
        (graphml('<graph edgedefault="undirected"/>').encode()[:-9], "not readable as XML"),
        ((ATTACK + graphml("&b;")).encode(), "document type"),
        ((ATTACK + graphml("&b;")).encode("utf-16"), "document type"),
        (b"<html><body/></html>", "no <graph>"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "not readable as XML"),
        (graphml("<graph/>", '<key id="a"/>').encode(), "not valid GraphML"),
    ],
)
def test_what_is_no_graphml_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.graphml").write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        read_all(tmp_path / "a.graphml")


# --- PyG


class Boom:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("boom",)


@pytest.mark.parametrize("content", [Boom(), [Boom()], {"model": nx.path_graph(2)}])
def test_nothing_in_a_pt_file_is_run(tmp_path: Path, content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, "a.pt")
    with pytest.raises(FileFormatError, match="Nothing was loaded"):
        read_all(tmp_path / "a.pt")
    assert not Path("boom").exists()


def test_a_single_data_and_a_list_with_a_stranger(tmp_path: Path) -> None:
    torch.save(featured(x=torch.ones(5, 1), smiles="CC"), tmp_path / "one.pt")
    record = read_all(tmp_path / "one.pt")[0]
    assert (record.name, record.ignored, record.problem) == ("one.pt", ("smiles",), None)
    torch.save([featured(), torch.ones(2), 5], tmp_path / "mixed.pt")
    assert [bool(problem) for problem in problems_of(tmp_path / "mixed.pt")] == [False, True, True]


def test_the_file_of_an_in_memory_dataset(tmp_path: Path) -> None:
    data = [featured(x=torch.full((5, 2), float(index)), y=torch.tensor([index])) for index in range(4)]
    InMemoryDataset.save(data, str(tmp_path / "new.pt"))
    torch.save(InMemoryDataset.collate(data), tmp_path / "old.pt")
    InMemoryDataset.save(data[:1], str(tmp_path / "single.pt"))
    for name, count in (("new.pt", 4), ("old.pt", 4), ("single.pt", 1)):
        back = graphs_of(tmp_path / name)
        assert len(back) == count
        for before, after in zip(data, back, strict=False):
            assert_same_graph(as_graph(before), after)


@pytest.mark.parametrize("content", [5, "text", {}, [], (1, 2), torch.ones(3), (featured(), {"x": 3}), HeteroData()])
def test_other_contents_of_a_pt_file_are_refused(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(FileFormatError, match=r"expected a torch_geometric\.data\.Data"):
        read_all(tmp_path / "a.pt")


def test_a_forged_data_is_a_problem_of_its_own(tmp_path: Path) -> None:
    broken = Data.__new__(Data)
    broken.__dict__["nothing"] = "inside"
    hollow = featured()
    hollow.__dict__["_store"].__dict__["_mapping"] = 5
    for content in (broken, hollow):
        torch.save([featured(), content], tmp_path / "a.pt")
        try:
            problems = problems_of(tmp_path / "a.pt")
        except FileFormatError:
            continue
        assert [bool(problem) for problem in problems] == [False, True]


@pytest.mark.parametrize("keep", [0, 10, 0.5, -1])
def test_a_pt_file_cut_short_is_refused(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "a.pt"
    write_graph_file(path, [featured(x=torch.ones(5, 3))])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep) if 0 < keep < 1 else int(keep)])
    with pytest.raises(FileFormatError, match="expected a torch_geometric"):
        read_all(path)


def test_plain_pickles_and_compressed_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(pickle.dumps(Boom()))
    with pytest.raises(FileFormatError, match=r"not a file of torch\.save"):
        read_all(tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"0" * 1_000_000)
    with pytest.raises(FileFormatError, match="compressed"):
        read_all(tmp_path / "b.pt")


def stretched(*shape: int) -> Tensor:
    return torch.zeros(1).expand(*shape)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (featured(x=stretched(5, 10**12)), "claims more numbers"),
        (featured(x=torch.eye(5).to_sparse()), "dense"),
        (Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes="many"), "num_nodes is str"),
        (Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=2**40), "num_nodes=1099511627776"),
        (Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), "directed"),
        (Data(x=torch.ones(2, 1)), "no edge_index"),
        (Data(edge_index=torch.tensor([[0, 9], [9, 0]]), num_nodes=2), "outside the graph"),
        (featured(x=torch.ones(4, 1)), "expected one row for each of the 5 nodes"),
    ],
)
def test_a_bad_data_is_left_out_and_the_rest_goes_on(tmp_path: Path, data: Data, reason: str) -> None:
    torch.save([featured(), data, featured()], tmp_path / "a.pt")
    checked = check_graphs(read_graph_file(tmp_path / "a.pt"))
    assert checked.names == ["a.pt[0]", "a.pt[2]"]
    assert [problem.name for problem in checked.problems] == ["a.pt[1]"]
    assert reason in checked.problems[0].reason


def test_forged_slices_of_a_dataset_are_problems(tmp_path: Path) -> None:
    data, slices = InMemoryDataset.collate([featured(x=torch.ones(5, 1)), featured(x=torch.ones(5, 1))])
    torch.save((data, {**slices, "x": torch.tensor([0, 3, 7])}), tmp_path / "wrong.pt")
    assert len(check_graphs(read_graph_file(tmp_path / "wrong.pt")).problems) == 2
    torch.save((data, {**slices, "x": stretched(10**12)}), tmp_path / "huge.pt")
    with pytest.raises(FileFormatError, match="claims more numbers"):
        read_all(tmp_path / "huge.pt")


# --- folders


def test_a_folder_is_read_in_order_and_survives_bad_files(tmp_path: Path) -> None:
    write_graph_file(tmp_path / "b.g6", PLAIN[1:3])
    write_graph_file(tmp_path / "a.csv", PLAIN[3:5], ["first", "second"])
    (tmp_path / "c.graphml").write_text("damaged")
    (tmp_path / "README.txt").write_text("not a graph")
    (tmp_path / ".hidden.g6").write_text("not read")
    (tmp_path / "inner.g6").mkdir()
    (tmp_path / "d.S6").write_bytes(b":An\n")
    records = read_all(tmp_path)
    assert [record.name for record in records] == [
        "a.csv:first", "a.csv:second", "b.g6:1", "b.g6:2", "c.graphml", "d.S6:1"
    ]  # fmt: skip
    assert [record.name for record in records if record.problem] == ["c.graphml"]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="holds no graph file"):
        read_all(tmp_path)


def test_files_in_a_written_folder_keep_the_order_and_cannot_escape(tmp_path: Path) -> None:
    names = ["../../evil", "b/c", "", "a" * 300, "B-c", ".."]
    write_graph_file(tmp_path / "out", [nx.path_graph(index + 1) for index in range(6)], names)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [graph.num_nodes for graph in graphs_of(tmp_path / "out")] == [1, 2, 3, 4, 5, 6]
    kept = ["a.graphml", "b.graphml"]
    (tmp_path / "empty").mkdir()
    write_graph_file(tmp_path / "empty", PLAIN[:2], kept)
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == kept


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("data")
    with pytest.raises(FileFormatError, match="not empty"):
        write_graph_file(tmp_path / "out", PLAIN)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious.txt"]


# --- from records to points


def records(*graphs: Any) -> list[GraphRecord]:
    return [GraphRecord(f"g{index}", graph) for index, graph in enumerate(graphs)]


def test_graphs_that_the_matrix_cannot_take_are_set_aside() -> None:
    loop = nx.Graph([(0, 0), (0, 1)])
    checked = check_graphs(records(nx.path_graph(3), loop, nx.path_graph(4)))
    laplacian = solve_graphs(checked, matrix="laplacian", rank=None, dtype=torch.float64)
    assert laplacian.names == ["g0", "g2"]
    assert "self-loop" in laplacian.problems[0].reason
    assert [points.num_nodes for points in laplacian.points] == [3, 4]
    assert solve_graphs(checked, matrix="augmented", rank=None, dtype=torch.float64).names == ["g0", "g1", "g2"]


def test_graphs_too_large_for_the_machine_are_set_aside() -> None:
    checked = check_graphs(records(nx.path_graph(3), (10**7, [(0, 1)]), (2 * 10**7, [(0, 1)]), nx.path_graph(4)))
    solved = solve_graphs(checked, matrix="laplacian", rank=None, dtype=torch.float64)
    assert solved.names == ["g0", "g3"]
    assert [problem.name for problem in solved.problems] == ["g2", "g1"]
    assert "GiB" in solved.problems[0].reason


def test_a_graph_that_the_solver_cannot_take_is_found_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the sparse solver does with a graph whose eigenspace at the boundary is too large; it does not say which."""

    def fail(*_: Any, **__: Any) -> PointSet:
        raise RankError("more than 64 times")

    def solve_all_but_the_path(graph: Graph, **options: Any) -> PointSet:
        return to_points(graph, **options) if graph.num_nodes != 3 else fail()

    monkeypatch.setattr(checking, "to_points_many", fail)
    monkeypatch.setattr(checking, "to_points", solve_all_but_the_path)
    checked = check_graphs(records(nx.path_graph(3), nx.path_graph(4)))
    solved = solve_graphs(checked, matrix="laplacian", rank=1, dtype=torch.float32)
    assert solved.names == ["g1"]
    assert solved.points[0].eigenvalues.dtype == torch.float32
    assert solved.problems == [("g0", "more than 64 times")]


def test_whole_number_names_are_ordered_and_must_not_collide(tmp_path: Path) -> None:
    nodes = "".join(f'<node id="{n}"/>' for n in (2, 0, 10))
    body = f'<graph edgedefault="undirected">{nodes}<edge source="10" target="0"/></graph>'
    record = read_all(write_text(tmp_path / "a.graphml", graphml(body, "")))[0]
    assert record.graph.edges.tolist() == [[0], [2]]
    record = read_all(write_text(tmp_path / "a.csv", "source,target\n01,2\n1,2\n"))[0]
    assert record.problem is not None and "'01' and '1' are the same number" in record.problem


def test_a_broken_link_in_a_folder_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    write_text(folder / "a.csv", "source,target\n0,1\n")
    (folder / "gone.g6").symlink_to(folder / "nowhere.g6")
    good, broken = read_all(folder)
    assert good.problem is None and broken.name == "gone.g6" and broken.problem is not None
