from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

import pointset
from pointset.errors import FileFormatError, GraphError, MissingExtraError
from pointset.reports.layout import place_nodes, smooth_values
from pointset.reports.pictures import draw_points
from pointset.reports.point_picture import compose_points, scene_of


def _weighted(*edges: tuple[int, int, float]) -> nx.Graph[Any]:
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_weighted_edges_from(edges)
    return graph


def _geometric(n: int) -> nx.Graph[Any]:
    places = np.random.default_rng(0).random((n, 2))
    near = np.linalg.norm(places[:, None] - places[None], axis=-1)
    weights = np.where((near < 2 / np.sqrt(n)) & (near > 0), np.exp(-near * np.sqrt(n)), 0.0)
    return nx.from_numpy_array(weights)


CASES: dict[str, Callable[[], pointset.PointSet]] = {
    "no node": lambda: pointset.to_points(nx.empty_graph(0)),
    "one node": lambda: pointset.to_points(nx.empty_graph(1)),
    "no edge": lambda: pointset.to_points(nx.empty_graph(12)),
    "rank 1": lambda: pointset.to_points(nx.complete_graph(2)),
    "rank 2": lambda: pointset.to_points(nx.path_graph(3)),
    "rank 3": lambda: pointset.to_points(nx.path_graph(4)),
    "adjacency of rank 2": lambda: pointset.to_points(nx.star_graph(5), matrix="adjacency"),
    "cycle": lambda: pointset.to_points(nx.cycle_graph(8)),
    "4-cube": lambda: pointset.to_points(nx.hypercube_graph(4)),
    "karate club": lambda: pointset.to_points(nx.karate_club_graph()),
    "not semi-definite": lambda: pointset.to_points(nx.karate_club_graph(), matrix="adjacency"),
    "normalised": lambda: pointset.to_points(nx.karate_club_graph(), matrix="normalized_adjacency"),
    "augmented": lambda: pointset.to_points(nx.balanced_tree(2, 4), matrix="augmented"),
    "float32": lambda: pointset.to_points(nx.petersen_graph(), dtype=torch.float32),
    "path": lambda: pointset.to_points(nx.path_graph(60)),
    "disconnected": lambda: pointset.to_points(
        nx.disjoint_union_all([nx.cycle_graph(6), nx.star_graph(5), nx.path_graph(4), nx.empty_graph(3)])
    ),
    "weights of both signs": lambda: pointset.to_points(_weighted((0, 1, -2), (1, 2, 1.5), (2, 3, -0.1), (0, 3, 1))),
    "self-loop": lambda: pointset.to_points((3, [(0, 0), (0, 1), (1, 2)]), matrix="adjacency"),
    "truncated": lambda: pointset.to_points(nx.karate_club_graph(), rank=6),
    "weighted, 120 nodes": lambda: pointset.to_points(_geometric(120)),
    "500 nodes": lambda: pointset.to_points(nx.barabasi_albert_graph(500, 2, seed=0)),
    "2100 nodes, truncated": lambda: pointset.to_points(nx.random_regular_graph(3, 2100, seed=0), rank=8),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """Other work on the same cores makes torch's threads wait for each other, for seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_points_gives_a_picture(case: str, tmp_path: Path) -> None:
    draw_points(CASES[case](), tmp_path / "picture.png", title=case)
    with Image.open(tmp_path / "picture.png") as image:
        assert image.size == (1600, 1000)
        inked = np.asarray(image.convert("L")) < 250
    assert 0.005 < inked.mean() < 0.6
    assert not inked[:, :20].any()
    assert not inked[:, -12:].any()
    assert not inked[:20].any()
    assert not inked[-20:].any()
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


@pytest.mark.parametrize("case", ["no node", "rank 2", "karate club", "not semi-definite", "normalised", "path",
                                  "disconnected", "weights of both signs", "self-loop", "truncated"])  # fmt: skip
def test_no_text_overlaps_another_or_leaves_the_page(case: str) -> None:
    boxes = _text_boxes(compose_points(CASES[case](), None))
    assert len(boxes) > 8
    for what, box in boxes:
        assert 20 < box.x0 < box.x1 < 1590, what
        assert 10 < box.y0 < box.y1 < 990, what
    for (what, box), (other, second) in itertools.combinations(boxes, 2):
        assert not box.overlaps(second), (what, other)


def _text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """All that is written, but for the numbers of nodes, which lie on nodes."""
    figure.canvas.draw()
    texts = list(figure.texts)
    for axes in figure.axes:
        texts += [text for text in axes.texts if not text.get_text().isdigit()]
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            low, high = sorted(axis.get_view_interval())
            places = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
            texts += [label for place, label in places if low - 1e-9 <= place <= high + 1e-9]
    return [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".PNG", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")]
)
def test_the_suffix_chooses_the_format(suffix: str, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"picture{suffix}"
    draw_points(pointset.to_points(nx.cycle_graph(5)), str(path))
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_the_same_points_give_the_same_file(suffix: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw_points(pointset.to_points(nx.karate_club_graph()), tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_the_points_are_not_modified(tmp_path: Path) -> None:
    points = pointset.to_points(nx.karate_club_graph())
    values, vectors = points.eigenvalues.clone(), points.eigenvectors.clone()
    draw_points(points, tmp_path / "picture.png")
    assert torch.equal(points.eigenvalues, values)
    assert torch.equal(points.eigenvectors, vectors)


def test_a_title_is_plain_text_of_any_length(tmp_path: Path) -> None:
    title = "cost: $5 per x_i^2 \\frac " * 8
    figure = compose_points(pointset.to_points(nx.cycle_graph(5)), title)
    heading = figure.texts[0]
    assert heading.get_text() == " ".join(title.split())
    assert heading.get_window_extent().x1 < 1600


def test_captions_say_what_is_seen() -> None:
    def written(points: pointset.PointSet) -> str:
        figure = compose_points(points, None)
        return "\n".join(text.get_text() for text in [*figure.texts, *figure.axes[0].texts])

    karate = nx.karate_club_graph()
    assert "34 points in 33 dimensions, projected to 3" in written(pointset.to_points(karate))
    assert "U√|Λ|, as some λ < 0" in written(pointset.to_points(karate, matrix="adjacency"))
    assert "too few to determine the graph" in written(pointset.to_points(karate, rank=6))
    assert "3 points in 2 dimensions\n" in written(pointset.to_points(nx.path_graph(3)))
    assert "all at the origin" in written(pointset.to_points(nx.empty_graph(4)))


@pytest.mark.parametrize("name", ["picture", "picture.jpg", "picture.png.txt"])
def test_an_unknown_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"\.png, \.svg, \.pdf"):
        draw_points(pointset.to_points(nx.cycle_graph(5)), tmp_path / name)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="there is no folder"):
        draw_points(pointset.to_points(nx.cycle_graph(5)), tmp_path / "nowhere" / "picture.png")


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "picture.png").mkdir()
    with pytest.raises(FileFormatError, match="it is a folder"):
        draw_points(pointset.to_points(nx.cycle_graph(5)), tmp_path / "picture.png")


def test_without_matplotlib_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[report\]'"):
        draw_points(pointset.to_points(nx.cycle_graph(5)), tmp_path / "picture.png")


def test_nan_is_refused_and_the_old_picture_stays(tmp_path: Path) -> None:
    points = pointset.to_points(nx.cycle_graph(5))
    path = tmp_path / "picture.png"
    draw_points(points, path)
    before = path.read_bytes()
    points.eigenvectors[0, 0] = torch.nan
    with pytest.raises(GraphError, match="NaN"):
        draw_points(points, path)
    assert path.read_bytes() == before


def test_a_cycle_is_drawn_as_a_circle_and_a_path_as_an_arc() -> None:
    for graph in (nx.cycle_graph(12), nx.path_graph(12)):
        positions = place_nodes(nx.to_numpy_array(graph))
        edges = np.array(graph.edges)
        lengths = np.linalg.norm(positions[edges[:, 0]] - positions[edges[:, 1]], axis=1)
        assert lengths.std() < 0.02 * lengths.mean()
    assert positions[0, 1] < positions[6, 1]  # the arc opens downwards


@pytest.mark.parametrize("graph", [nx.karate_club_graph(), nx.hypercube_graph(4), nx.complete_graph(30),
                                   nx.star_graph(30), nx.barabasi_albert_graph(300, 3, seed=1)])  # fmt: skip
def test_no_two_nodes_share_a_place(graph: nx.Graph[Any]) -> None:
    positions = place_nodes(nx.to_numpy_array(graph))
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=-1) + 9 * np.eye(len(positions))
    assert distances.min() > 0.02
    assert np.isfinite(positions).all()


def test_components_do_not_overlap() -> None:
    parts = [nx.cycle_graph(7), nx.complete_graph(5), nx.path_graph(6), nx.star_graph(4), nx.empty_graph(4)]
    positions = place_nodes(nx.to_numpy_array(nx.disjoint_union_all(parts)))
    at = np.cumsum([0, 7, 5, 6, 5, 1, 1, 1, 1])
    boxes = [(positions[a:b].min(0), positions[a:b].max(0)) for a, b in itertools.pairwise(at)]
    for (low, high), (other_low, other_high) in itertools.combinations(boxes, 2):
        assert (np.maximum(low, other_low) > np.minimum(high, other_high) + 0.5).any()


def test_neighbours_have_close_colours_and_components_their_own() -> None:
    path = nx.to_numpy_array(nx.path_graph(50))
    shade = smooth_values(path, place_nodes(path))
    assert np.allclose(np.abs(np.diff(shade)), 1 / 50)
    two = nx.to_numpy_array(nx.disjoint_union(nx.path_graph(10), nx.path_graph(8)))
    shade = smooth_values(two, place_nodes(two))
    assert (shade[:10].max() < shade[10:].min()) or (shade[10:].max() < shade[:10].min())
    assert ((shade > 0) & (shade < 1)).all()


def test_symmetric_nodes_share_a_colour() -> None:
    star = nx.to_numpy_array(nx.path_graph(5))
    star = np.pad(star, (0, 1))
    star[3, 5] = star[5, 3] = 1.0  # nodes 4 and 5 are twins
    shade = smooth_values(star, place_nodes(star))
    assert shade[4] == shade[5]


def test_the_projection_is_isometric_where_three_dimensions_suffice() -> None:
    for graph in (nx.path_graph(3), nx.path_graph(4), nx.complete_graph(4), nx.complete_graph(2)):
        points = pointset.to_points(graph)
        scene = scene_of(points)
        assert np.allclose(scene.projected @ scene.projected.T, points.inner_products().numpy())


@pytest.mark.parametrize(("matrix", "smoothest"), [("laplacian", [0, 1, 2]), ("adjacency", [-1, -2, -3])])
def test_the_projection_takes_the_smoothest_directions(matrix: str, smoothest: list[int]) -> None:
    points = pointset.to_points(nx.karate_club_graph(), matrix=matrix)
    scene = scene_of(points)
    assert np.allclose((scene.projected**2).sum(0), points.eigenvalues[smoothest].numpy())
