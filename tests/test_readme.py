"""What the README shows works as it is printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

import pointset
from pointset.encoders.native import native_rows
from pointset.native.build import library

RINGS = list(enumerate(["c1ccccc1", "C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "c1ccncc1", "c1ccoc1", "c1cnoc1"] * 3))
REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_graph_to_points_and_back_is_shown_by_line_20(capsys: pytest.CaptureFixture[str]) -> None:
    first = "\n".join(README.splitlines()[:20])
    assert "pointset.to_points(graph)" in first and "pointset.to_graph(points)" in first
    names: dict[str, object] = {}
    exec(blocks("python")[0], names)
    printed = capsys.readouterr().out
    assert printed.startswith("PointSet(num_nodes=34, num_edges=78, rank=33, matrix='laplacian')")
    same, graph = names["same"], names["graph"]
    assert pointset.is_same_graph(same, graph)
    assert same.reconstruction_error < 1e-12  # type: ignore[attr-defined]


def test_the_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = nx.karate_club_graph()

    def dataset(root: str, name: str, transform: object) -> object:
        return transform(from_networkx(graph))  # type: ignore[operator]

    names = {
        "pointset": pointset,
        "graph": graph,
        "graphs": [nx.path_graph(5), graph],
        "data": from_networkx(graph),
        "a": pointset.to_points(graph),
        "b": pointset.to_points(graph),
        "TUDataset": dataset,
        "root": "data",
    }
    exec(blocks("python")[1], names)
    assert (tmp_path / "cache").is_dir()


def test_the_model_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    graphs = []
    for size in (4, 5, 5):
        data = from_networkx(nx.cycle_graph(size))
        data.x = torch.arange(size) % 28
        data.edge_attr = torch.ones(data.num_edges, dtype=torch.long)
        graphs.append(data)
    names: dict[str, object] = {"pointset": pointset, "graphs": graphs}
    exec(blocks("python")[2], names)
    assert names["predictions"].shape == (3, 1)  # type: ignore[attr-defined]
    assert "total" in capsys.readouterr().out


def test_the_dataset_example_runs(shared_data: Path, empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_DATA", str(shared_data))
    Path("molecules.csv").write_text("smiles,logS\n" + "".join(f"{ring}{'C' * n},{n / 4}\n" for n, ring in RINGS))
    names: dict[str, Any] = {"pointset": pointset}
    exec(blocks("python")[3], names)
    assert len(names["points"]) == 12_000 and names["mine"].target_names == ("logS",)


def run_guide(name: str) -> dict[str, Any]:
    """Run the python blocks of a page one after the other; gives the names that they leave."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / name).read_text(), flags=re.DOTALL):
        exec(block, names)
    return names


def test_the_guide_to_encoders_runs() -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    names = run_guide("encoders.md")
    assert len(names["seen"].attention) == 4
    data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), x=names["x"], num_nodes=3)
    data.edge_attr = torch.tensor([2, 2, 0, 0])
    for exported in (names["exported"], torch.from_numpy(names["in_onnx"])):
        assert torch.allclose(exported, names["trained"]([data]), rtol=1e-4, atol=1e-5)


def test_the_guide_to_invariance_runs() -> None:
    assert run_guide("invariance.md")["found"].largest < 1e-7


def test_the_guide_to_native_kernels_runs() -> None:
    names = run_guide("native.md")
    assert torch.allclose(names["native"], names["same"], rtol=1e-4, atol=1e-4)
    if library() is not None:  # a layer written with functions that the kernels know
        points = names["mine"].read(names["graphs"])
        assert native_rows(names["mine"], points, "graph", None, recompute=False) is not None


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_guide_to_datasets_runs(empty_folder: Path) -> None:
    names = run_guide("datasets.md")
    assert len(names["tenfold"]) == 10
    assert names["same"]["train"].tolist() == names["data"].split["train"].tolist()


def test_the_guide_to_own_data_runs(empty_folder: Path) -> None:
    names = run_guide("own_data.md")
    assert names["predictions"].shape[1] == 1
    assert names["shapes"].card.classes == ("cycle", "path")


def test_the_guide_to_training_runs(empty_folder: Path) -> None:
    names = run_guide("training.md")
    assert names["result"]["epochs"] == 1 and names["model"].target_names[0] == "2-path"


def test_the_guide_to_scikit_learn_runs(empty_folder: Path) -> None:
    pytest.importorskip("sklearn")
    assert run_guide("scikit_learn.md")["search"].best_params_["dim"] in (8, 16)


def test_the_guide_to_recipes_runs() -> None:
    assert run_guide("recipes.md")["recipe"].model.dim == 96


def test_the_guide_to_models_runs() -> None:
    pytest.importorskip("rdkit")
    names = run_guide("models.md")
    assert names["known"].tolist() == [True, False] and names["trust"].confidence == 0.8


def test_the_guide_to_expressivity_runs() -> None:
    names = run_guide("expressivity.md")
    assert names["together"] and names["marked"] == [False] and not names["one_layer"]
    assert len(names["chang"]) == 4
    assert names["outcome"].separated and not names["outcome"].unreliable


def test_the_guide_to_datasets_names_all_of_them() -> None:
    guide = (REPOSITORY / "docs" / "datasets.md").read_text()
    assert [name for name in pointset.datasets.names() if f"`{name}`" not in guide] == []


def test_the_shell_examples_run(tmp_path: Path) -> None:
    nx.write_graph6(nx.petersen_graph(), tmp_path / "molecules.g6", header=False)
    (tmp_path / "molecules.csv").write_text(
        "smiles,logS\n" + "".join(f"{ring}{'C' * n},{n / 4}\n" for n, ring in RINGS)
    )
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("pointset ")]
    assert len(commands) >= 3
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # the other core has tests of its own
    for command in commands:
        run = [
            sys.executable,
            "-c",
            "from pointset.cli.main import run; run()",
            *shlex.split(command, comments=True)[1:],
        ]
        done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    answers = (tmp_path / "answers.csv").read_text().splitlines()
    assert answers[0].startswith("smiles,logS,predicted_logS,lower_logS,upper_logS,std_logS,")
    assert answers[0].endswith(",status") and len(answers) == 1 + len(RINGS)
    assert (tmp_path / "runs" / "mine" / "report.html").exists() and (tmp_path / "why.svg").exists()


def test_every_linked_file_exists_and_the_page_is_short() -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", README):
        assert (REPOSITORY / link).exists(), link
    assert len(README.splitlines()) < 150
