"""Pictures of ``pointset express``: every label and number is on the page, inside it, and none over another."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from pointset.errors import FileFormatError
from pointset.reports.canvas import broken, width_of
from pointset.reports.express import compose_brec, compose_counting, compose_distances, compose_theorems
from pointset.reports.pictures import draw_brec, draw_counting, draw_distances, draw_theorems

LONG = "Every pair of the 1,253 graphs with at most seven nodes was compared, and $Q_i$ was no mathematics. " * 5
MODELS = ["pst", "psds", "gin", "1-wl", "3-wl", "inner products of the Laplacian's coordinates", "a", "b", "c", "d"]


def theorems(count: int) -> list[dict[str, Any]]:
    verdicts = ["holds", "fails as printed", "error"]
    return [
        {"statement": f"Theorem {index}.1", "verdict": verdicts[index % 3], "evidence": LONG[: 40 + 90 * index]}
        | {"claim": "Two graphs are isomorphic iff their points are equal.", "numbers": {}, "seconds": 0.1}
        for index in range(count)
    ]


def brec(models: int) -> dict[str, dict[str, dict[str, int]]]:
    sizes = {"basic": 60, "regular": 140, "extension": 100, "cfi": 100}
    return {
        model: {
            name: {"pairs": pairs, "separated": pairs - 10 - 4 * index, "unreliable": index % 3}
            for name, pairs in sizes.items()
        }
        for index, model in enumerate(MODELS[:models])
    }


def counting(substructures: int, families: int) -> dict[str, Any]:
    errors = [0.0031, 0.01, 0.0123, 0.25, 7.5, None]
    names = [f"{length}-cycle" for length in range(3, 3 + substructures)]
    kinds = ["training kind", "much larger random graphs", "trees", "cycles", "regular"][:families]
    scores = {
        name: {"mae": error, "counts": error is not None and error <= 0.01, "exact_share": 0.998}
        for name, error in zip(names, errors, strict=False)
    }
    about = {"description": "graphs of 10 to 30 nodes", "graphs": 499, "nodes": 9350, "seen": 1}
    return {"run": "runs/one", "preset": "pst", "bound": 0.01, "substructures": names, "not_checked": None} | {
        "families": dict.fromkeys(kinds, scores),
        "graphs": dict.fromkeys(kinds, about),
    }


def probe(accuracy: float, classes: list[str]) -> dict[str, Any]:
    at = {name: {"pairs": 1234, "accuracy": accuracy - 0.01 * place} for place, name in enumerate(classes)}
    r2 = {"resistance_r2": accuracy, "commute_r2": -0.37, "return_r2": None}
    return {"accuracy": accuracy, "per_distance": at | {"none": None}} | r2


def distances(layers: int, most: int) -> dict[str, Any]:
    classes = [str(distance) for distance in range(most + 1)]
    return {
        "run": "runs/one",
        "preset": "pst",
        "graphs": {"kind": "generated", "fit": 50, "test": 47, "fit_pairs": 9000, "test_pairs": 8800},
        "distances": [*classes, "none"],
        "majority": 0.31,
        "degrees": probe(0.42, classes),
        "layers": [
            {"name": f"layer {layer}", "trained": probe(0.99 - 0.01 * layer, classes), "random": probe(0.55, classes)}
            for layer in range(layers)
        ],
    }


PAGES: dict[str, Callable[[], Figure]] = {
    "theorems 1": lambda: compose_theorems(theorems(1)),
    "theorems 9": lambda: compose_theorems(theorems(9)),
    "brec 1": lambda: compose_brec(brec(1)),
    "brec 10": lambda: compose_brec(brec(10)),
    "counting 1": lambda: compose_counting(counting(1, 1)),
    "counting 6": lambda: compose_counting(counting(6, 5)),
    "distances 1": lambda: compose_distances(distances(1, 1)),
    "distances 7": lambda: compose_distances(distances(7, 9)),
}


@pytest.mark.parametrize("page", PAGES)
def test_no_text_leaves_the_page_or_covers_another(page: str) -> None:
    figure = PAGES[page]()
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    shown = [one for one in figure.findobj(Text) if isinstance(one, Text) and one.get_text().strip()]
    boxes = [(one.get_text(), one.get_window_extent(renderer)) for one in shown if one.get_visible()]
    assert len(boxes) >= 6
    for place, (text, box) in enumerate(boxes):
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= figure.bbox.width, text
        assert box.y1 <= figure.bbox.height, text
        covered = [other for other, at in boxes[:place] if _overlap(box, at)]
        assert not covered, f"{text!r} covers {covered}"


def _overlap(one: Any, other: Any) -> bool:
    """By more than two pixels in both directions: boxes have a little air around the letters."""
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    return bool(wide > 2 and min(one.y1, other.y1) - max(one.y0, other.y0) > 2)


def texts(path: Path) -> list[str]:
    """What an SVG says; matplotlib notes it beside the outlines of the letters."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


def test_theorems_show_verdict_and_evidence(tmp_path: Path) -> None:
    draw_theorems(theorems(3), tmp_path / "page.svg")
    said = texts(tmp_path / "page.svg")
    assert {"Theorem 0.1", "Theorem 2.1", "holds", "fails as printed", "error", "✓", "✗", "!"} <= set(said)
    assert "3 statements as experiments.   holds: 1,   fails as printed: 1,   error: 1" in said
    assert any("$Q_i$ was no mathematics" in line for line in said)


def test_brec_shows_numbers_totals_and_what_is_unreliable(tmp_path: Path) -> None:
    content = brec(2)
    draw_brec(content, tmp_path / "page.svg")
    said = texts(tmp_path / "page.svg")
    assert {"pst", "psds", "basic", "60 pairs", "total", "400 pairs", "50", "360", "46", "(1)", "344", "(4)"} <= set(
        said
    )
    del content["psds"]["cfi"]  # another selection: totals are of different numbers of pairs
    draw_brec(content, tmp_path / "page.svg")
    said = texts(tmp_path / "page.svg")
    assert {"360/400", "258/300", "–"} <= set(said)
    assert "400 pairs" not in said


def test_counting_marks_what_is_counted(tmp_path: Path) -> None:
    draw_counting(counting(6, 2), tmp_path / "page.svg")
    said = texts(tmp_path / "page.svg")
    assert said.count("0.0031 ✓") == said.count("0.0100 ✓") == said.count("0.0123") == said.count("no number") == 2
    assert {"What runs/one counts", "3-cycle", "training kind", "499 graphs", "99.8 % exact"} <= set(said)
    assert any("at most 0.01, in 4 of 12 cells" in line for line in said)


def test_distances_stand_beside_their_references(tmp_path: Path) -> None:
    draw_distances(distances(2, 3), tmp_path / "page.svg")
    said = texts(tmp_path / "page.svg")
    assert {"degrees only", "layer 0", "layer 1", "0", "3", "0.99", "0.98", "0.42", "0.55", "1,234", "−0.37"} <= set(
        said
    )
    assert "none" not in said  # no pairs without a path


@pytest.mark.parametrize(
    ("draw", "content"),
    [
        (draw_theorems, theorems(2)),
        (draw_brec, brec(1)),
        (draw_counting, counting(1, 1)),
        (draw_distances, distances(1, 1)),
    ],
    ids=["theorems", "brec", "counting", "distances"],
)
def test_files_are_written_whole_or_refused(draw: Callable[[Any, Path], None], content: Any, tmp_path: Path) -> None:
    draw(content, tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FileFormatError, match=r"got 'page.bmp'; expected a name that ends in .png, .svg, .pdf"):
        draw(content, tmp_path / "page.bmp")
    with pytest.raises(FileFormatError, match="there is no folder"):
        draw(content, tmp_path / "missing" / "page.png")
    assert [path.name for path in tmp_path.iterdir()] == ["page.png"]


def test_long_text_is_broken_and_cut_where_it_must() -> None:
    lines = broken(LONG, 3.0, 10.5, 4)
    assert len(lines) == 4
    assert lines[-1].endswith(" …")
    assert all(width_of(line, 10.5) <= 3.0 for line in lines)
    assert broken("m" * 200, 3.0, 10.5, 4)[0].endswith("m …")
    assert broken("short", 3.0, 10.5, 4) == ["short"]


def test_evidence_is_whole_since_it_says_at_its_end_what_holds_instead() -> None:
    evidence = f"{'The argmin from k = 0 is wrong for many ordered pairs. ' * 18}With A⁰ = I it holds."
    result = {"statement": "Theorem 5.1", "verdict": "fails as printed", "claim": "As printed.", "evidence": evidence}
    shown = [text.get_text() for text in compose_theorems([result]).findobj(Text) if isinstance(text, Text)]
    assert any(line.endswith("it holds.") for line in shown)
    assert not any("…" in line for line in shown)
