"""Pictures of several graphs, on paper and in the terminal."""

from __future__ import annotations

import colorsys
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image
from rich.text import Text

from pointset.errors import FileFormatError, GraphError, MissingExtraError
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graph
from pointset.reports.gallery import compose_gallery
from pointset.reports.layout import Legend, Portrait, positions_of
from pointset.reports.palette import SCALE, as_hex, coloured, colours_on
from pointset.reports.pictures import draw_gallery
from pointset.reports.terminal_drawing import draw, drawn_side_by_side


def graph_of(network: nx.Graph[Any]) -> Graph:
    return read_graph(network)[0]


def portraits(*networks: nx.Graph[Any], values: Callable[[Graph], Any] | None = None) -> list[Portrait]:
    graphs = [graph_of(network) for network in networks]
    return [
        Portrait(graph, f"graph {number}", f"{graph.num_nodes} nodes", None if values is None else values(graph))
        for number, graph in enumerate(graphs)
    ]


def by_category(graph: Graph) -> Any:
    return np.arange(graph.num_nodes) % 4


def by_number(graph: Graph) -> Any:
    return np.linspace(-1, 1, graph.num_nodes)


TWO_PARTS = nx.disjoint_union(nx.cycle_graph(6), nx.path_graph(3))
LOOP = nx.Graph([(0, 0), (0, 1)])
LEGEND = Legend("nodes: element", "edges: bond", {0: "C", 1: "N"}, {1: "single"})
CASES: dict[str, Callable[[], list[Portrait]]] = {
    "one": lambda: portraits(nx.petersen_graph()),
    "one node": lambda: portraits(nx.empty_graph(1), values=by_category),
    "no node": lambda: portraits(nx.empty_graph(0), nx.cycle_graph(3), values=by_category),
    "no edge": lambda: portraits(nx.empty_graph(5)),
    "two parts, self-loop": lambda: portraits(TWO_PARTS, LOOP, values=by_category),
    "categories": lambda: portraits(*[nx.path_graph(n) for n in range(1, 6)], values=by_category),
    "numbers": lambda: portraits(nx.karate_club_graph(), nx.star_graph(6), values=by_number),
    "many categories": lambda: portraits(nx.path_graph(30), values=lambda graph: np.arange(graph.num_nodes)),
    "widths": lambda: [
        one._replace(edge_values=np.arange(one.graph.edges.shape[1]) % 3)
        for one in portraits(nx.cycle_graph(6), nx.ladder_graph(4), values=by_category)
    ],
    "13 graphs": lambda: portraits(*[nx.path_graph(2 + n % 2) for n in range(13)]),
    "too large": lambda: portraits(nx.path_graph(1001), nx.path_graph(3)),
    "120 nodes": lambda: portraits(nx.barabasi_albert_graph(120, 2, seed=0), values=by_number),
}


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_graphs_gives_a_picture(case: str, tmp_path: Path) -> None:
    draw_gallery(CASES[case](), tmp_path / "picture.png", heading=case, legend=LEGEND)
    with Image.open(tmp_path / "picture.png") as image:
        inked = np.asarray(image.convert("L")) < 250
    assert 0.002 < inked.mean() < 0.6
    for edge in (inked[:, :20], inked[:, -12:], inked[:20], inked[-20:]):
        assert not edge.any()
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


@pytest.mark.parametrize("case", ["one", "no node", "numbers", "many categories", "widths", "13 graphs", "too large"])
def test_no_text_overlaps_another_or_leaves_the_page(case: str) -> None:
    figure = compose_gallery(CASES[case](), case, LEGEND)
    wide, high = figure.get_size_inches() * figure.dpi
    boxes = _text_boxes(figure)
    assert len(boxes) >= 3
    for what, box in boxes:
        assert 20 < box.x0 < box.x1 < wide - 8, what
        assert 20 < box.y0 < box.y1 < high - 20, what
    for (what, box), (other, second) in itertools.combinations(boxes, 2):
        assert not box.overlaps(second), (what, other)


def _text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    figure.canvas.draw()
    texts = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    return [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]


def written(figure: Figure) -> list[str]:
    return [what for what, _ in _text_boxes(figure)]


def test_the_page_says_what_is_seen() -> None:
    texts = written(compose_gallery(CASES["widths"](), "Two graphs", LEGEND))
    for expected in ("Two graphs", "graph 1", "8 nodes", "nodes: element", "C", "N", "2", "edges: bond", "single"):
        assert expected in texts
    numbers = written(compose_gallery(CASES["numbers"](), "Numbers", LEGEND))
    assert "−1" in numbers and "1" in numbers and "edges: bond" not in numbers
    assert "1,001 nodes:\ntoo many to draw" in written(compose_gallery(CASES["too large"](), "", LEGEND))


def test_titles_are_plain_text_of_any_length(tmp_path: Path) -> None:
    long = "cost: $5 per x_i^2 \\frac " * 8
    (portrait,) = portraits(nx.cycle_graph(4))
    figure = compose_gallery([portrait._replace(title=long, caption=long)], long, LEGEND)
    width = figure.get_size_inches()[0] * figure.dpi
    assert all(box.x1 < width for _, box in _text_boxes(figure))


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".PDF", b"%PDF"), (".svg", b"<?xml")],
                         ids=["png", "pdf", "svg"])  # fmt: skip
def test_the_suffix_chooses_the_format_and_the_same_graphs_give_the_same_file(
    suffix: str, start: bytes, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        draw_gallery(CASES["categories"](), str(file), heading="Paths", legend=LEGEND)
    assert files[0].read_bytes().startswith(start)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_cannot_be_drawn_is_refused_and_the_old_picture_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old.png").write_text("precious")
    with pytest.raises(GraphError, match="no graph to draw"):
        draw_gallery([], tmp_path / "old.png", heading="")
    with pytest.raises(FileFormatError, match=r"\.png, \.svg, \.pdf"):
        draw_gallery(CASES["one"](), tmp_path / "old.gif", heading="")
    with pytest.raises(FileFormatError, match="there is no folder"):
        draw_gallery(CASES["one"](), tmp_path / "nowhere" / "a.png", heading="")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[report\]'"):
        draw_gallery(CASES["one"](), tmp_path / "old.png", heading="")
    assert (tmp_path / "old.png").read_text() == "precious"


def test_graphs_are_not_modified(tmp_path: Path) -> None:
    (portrait,) = portraits(nx.karate_club_graph(), values=by_category)
    edges = portrait.graph.edges.copy()
    draw_gallery([portrait], tmp_path / "a.png", heading="")
    drawn_side_by_side([portrait], 80)
    assert np.array_equal(portrait.graph.edges, edges)


# --- colours


def test_the_most_frequent_category_comes_first_and_has_one_colour_in_all_graphs() -> None:
    colouring = coloured([np.array([5, 7, 7]), np.array([7, 5, 2])], {7: "C"})
    assert [label for label, _ in colouring.legend] == ["C", "5", "2"]
    colours = dict(colouring.legend)
    assert tuple(colouring.colours[0][0]) == colours["5"] == tuple(colouring.colours[1][1])
    assert tuple(colouring.colours[1][0]) == colours["C"]
    assert colouring.span is None


def test_rare_categories_share_a_colour_where_there_are_too_many() -> None:
    values = np.repeat(np.arange(20), np.arange(20, 0, -1))
    colouring = coloured([values])
    assert len(colouring.legend) <= 9 and colouring.legend[-1][0] == "12 others"
    assert len(np.unique(colouring.colours[0], axis=0)) == len(colouring.legend)


def legend_colours(*names: str) -> dict[str, str]:
    """Of a graph in which the first category is the most frequent."""
    values = np.repeat(np.arange(len(names)), np.arange(len(names), 0, -1))
    return {label: as_hex(colour) for label, colour in coloured([values], dict(enumerate(names))).legend}


def test_elements_have_the_colours_that_chemists_know() -> None:
    found = legend_colours("O", "C", "N", "F", "Cl", "S", "Br", "P", "I")
    hue = {name: colorsys.rgb_to_hsv(*(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)))
           for name, colour in found.items()}  # fmt: skip
    assert hue["C"][1] < 0.3  # grey
    for name, low, high in (("O", 0, 10), ("Br", 10, 30), ("P", 25, 40), ("S", 40, 60), ("F", 80, 150),
                            ("Cl", 80, 150), ("N", 210, 240), ("I", 260, 290)):  # fmt: skip
        assert low <= 360 * hue[name][0] <= high and hue[name][1] > 0.4, name
    assert legend_colours("N", "C")["N"] == found["N"]  # whatever is most frequent


@pytest.mark.parametrize(
    "names",
    [
        ["C", "O", "N", "F", "Cl", "S", "Br", "P", "I", "H", "Si"],
        ["C", "Se", "Hg", "Fe", "Al", "Ge", "Pt", "Au", "misc"],
        ["N -", "N", "N +", "N H1 +", "N H2 +", "N H3 +", "N H1 -", "C H1", "C"],
        ["C", "apples"],
    ],
    ids=["usual", "unusual", "kinds of nitrogen", "no elements"],
)
def test_no_two_categories_have_the_same_colour(names: list[str]) -> None:
    found = legend_colours(*names)
    assert len(set(found.values())) == len(found) >= min(len(names), 9)
    if names[0] == "N -":
        assert found["N"] == legend_colours("N")["N"]
    if "apples" in names:
        assert found == dict(zip(names, legend_colours("pears", "plums").values(), strict=True))


def test_numbers_lie_on_a_scale_and_missing_ones_are_low() -> None:
    colouring = coloured([np.array([0.0, np.nan]), np.array([10.0, 5.0])])
    assert colouring.span == (0.0, 10.0) and colouring.legend == []
    assert as_hex(colouring.colours[1][0]) == SCALE[-1]
    assert as_hex(colouring.colours[0][0]) == as_hex(colouring.colours[0][1]) == SCALE[0]
    assert np.allclose(colouring.colours[1][1], colours_on(SCALE, np.array([0.5]))[0])
    assert coloured([np.array([np.nan, 1.0])]).span == (1.0, 1.0)
    assert coloured([np.zeros(0)]).span == (0.0, 0.0)


# --- the terminal


def plain(lines: Sequence[Text]) -> list[str]:
    return [line.plain for line in lines]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [20, 110])
def test_drawings_fit_the_terminal(case: str, width: int) -> None:
    given = CASES[case]()
    lines = [line for line in drawn_side_by_side(given, width, Legend("legend")) if "legend" not in line.plain]
    assert lines and all(line.cell_len <= width for line in lines)
    assert lines[0].plain.count("graph ") == min(len(given), {20: 1, 110: 4}[width])


def test_a_path_is_nodes_joined_by_dots() -> None:
    (portrait,) = portraits(nx.path_graph(2))
    lines = plain(draw(portrait, np.zeros((2, 3)), 12, 3))
    assert [len(line) for line in lines] == [12, 12, 12]
    assert lines[0].strip() == lines[2].strip() == ""
    first, *dots, last = list(lines[1].strip())
    assert first == last == "●"
    assert dots and all(0x2800 < ord(letter) <= 0x28FF for letter in dots)


@pytest.mark.parametrize("network", [nx.cycle_graph(8), nx.petersen_graph(), nx.empty_graph(5), TWO_PARTS],
                         ids=["cycle", "petersen", "no edge", "two parts"])  # fmt: skip
def test_every_node_is_seen(network: nx.Graph[Any]) -> None:
    (portrait,) = portraits(network)
    lines = plain(draw(portrait, np.zeros((len(network), 3)), 34, 13))
    assert sum(line.count("●") for line in lines) == len(network)


def test_without_edges_there_are_no_dots_and_crowds_are_dots_only() -> None:
    (alone,) = portraits(nx.empty_graph(4))
    assert set("".join(plain(draw(alone, np.zeros((4, 3)), 24, 10)))) == {" ", "●"}
    (crowd,) = portraits(nx.random_regular_graph(3, 200, seed=0))
    assert "●" not in "".join(plain(draw(crowd, np.zeros((200, 3)), 24, 10)))


def test_colours_are_explained_under_the_drawings() -> None:
    lines = plain(drawn_side_by_side(portraits(nx.cycle_graph(4), values=by_category), 80, LEGEND))
    assert lines[-1].split() == ["nodes:", "element", "●", "C", "●", "N", "●", "2", "●", "3"]
    lines = plain(drawn_side_by_side(portraits(nx.cycle_graph(4), values=by_number), 80, LEGEND))
    assert lines[-1] == "nodes: element  −1 ●●●●●● 1"
    assert drawn_side_by_side([], 80) == []


def test_the_same_graph_has_the_same_place_for_every_node() -> None:
    graph = graph_of(nx.karate_club_graph())
    assert np.array_equal(positions_of(graph), positions_of(graph))
