from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

SCRIPT = Path(__file__).parents[1] / "examples" / "graphs_and_points.py"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:matplotlib", SCRIPT, "--output", folder],
        capture_output=True, text=True, encoding="utf-8", timeout=200, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout, folder


def test_no_escape_codes_reach_a_file(demo: tuple[str, Path]) -> None:
    assert "\x1b" not in demo[0]
    assert max(map(len, demo[0].splitlines())) <= 110


@pytest.mark.parametrize(
    ("graph", "nodes", "edges", "rank", "spectrum"),
    [
        ("karate club", 34, 78, 33, "1.19 2.39 2.93 2.97 …"),
        ("Petersen", 10, 15, 9, "2×5 5×4"),
        ("8-cycle", 8, 8, 7, "0.586×2 2×2 3.41×2 4"),
        ("4-cube", 16, 32, 15, "2×4 4×6 6×4 8"),
        ("rook 4×4", 16, 48, 15, "4×6 8×9"),
        ("Shrikhande", 16, 48, 15, "4×6 8×9"),
        ("three components", 8, 6, 5, "0.586 2 3×2 3.41"),
        ("5 nodes, no edge", 5, 0, 0, "none"),
    ],
)
def test_the_table_has_the_graph(
    demo: tuple[str, Path], graph: str, nodes: int, edges: int, rank: int, spectrum: str
) -> None:
    cells = rf"{re.escape(graph)}\s+{nodes}\s+{edges}\s+{rank}\s+{re.escape(spectrum)}\s+\de[+-]\d\d\s+✓"
    assert re.search(cells, demo[0])


def test_every_graph_of_the_table_and_the_atlas_comes_back(demo: tuple[str, Path]) -> None:
    assert demo[0].count("✓") == 12
    assert "✗" not in demo[0]
    for matrix in ("laplacian", "adjacency", "normalized_adjacency", "augmented"):
        assert re.search(rf"\b{matrix}\s+1253 of 1253 come back exactly", demo[0])


def test_the_twins_are_told_apart(demo: tuple[str, Path]) -> None:
    assert "equal: 4×6 8×9  |  4×6 8×9" in demo[0]
    assert "is_same_graph False" in demo[0]


def test_the_pictures_are_saved_and_named(demo: tuple[str, Path]) -> None:
    output, folder = demo
    assert sorted(path.name for path in folder.iterdir()) == ["karate_club.png", "shrikhande.png"]
    for path in folder.iterdir():
        assert str(path) in output
        with Image.open(path) as image:
            assert image.size == (1600, 1000)
