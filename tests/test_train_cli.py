"""``pointset train`` and ``pointset evaluate`` as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointset.cli.main import app
from pointset.cli.train import print_result
from pointset.runs.recipe import Recipe
from pointset.text import with_interval
from tests.command_line import ended as invoke
from tests.run_records import make_run
from tests.small_training import changed

runner = CliRunner()


def test_a_run_from_the_shell(recipe_file: Path, tmp_path: Path) -> None:
    code, said = invoke("train", recipe_file, "trainer.epochs=1", "seed=4", "--run-dir", "run", "--device", "cpu")
    assert code == 0, said
    parts = json.loads(Path("run/result.json").read_text())["parts"]
    assert list(parts) == ["train", "val", "test"] and "95 % intervals" in said
    train, test = parts["train"]["mae"], parts["test"]["mae"]
    assert train["lower"] < train["value"] < train["upper"] and with_interval(**train) in said
    assert f"test: MAE {with_interval(**test)}" in said and "best epoch 1 of 1" in said and "scored once" in said
    assert f"report: {Path('run') / 'report.html'}" in said
    result = json.loads(Path("run/result.json").read_text())
    assert result["seed"] == 4 and result["epochs"] == 1
    assert "<html" in Path("run/report.html").read_text()


def test_without_run_dir_a_new_folder_is_taken(recipe_file: Path) -> None:
    for _ in range(2):
        code, said = invoke("train", recipe_file, "trainer.epochs=1", "--device", "cpu", "--progress", "quiet")
        assert code == 0, said
    assert sorted(path.name for path in Path("runs").iterdir()) == ["small", "small-2"]


def test_a_recipes_name_does_not_lead_out_of_runs(recipe_file: Path) -> None:
    from pointset.cli.train import _free_folder

    assert _free_folder("../../x") == Path("runs/x") and _free_folder("..") == Path("runs/run")


def test_several_seeds_are_averaged_and_resumed(recipe_file: Path) -> None:
    words: list[str | Path] = [
        "train",
        recipe_file,
        "trainer.epochs=1",
        "--seeds",
        "2",
        "--run-dir",
        "runs",
        "--device",
        "cpu",
    ]
    code, said = invoke(*words)
    assert code == 0, said
    summary = json.loads(Path("runs/result.json").read_text())
    assert summary["runs"] == ["seed-0", "seed-1"] and len(summary["test"]["mae"]["values"]) == 2
    assert "over 2 runs" in said and Path("runs/report.html").exists() and Path("runs/seed-1/report.html").exists()
    code, said = invoke(*words)
    assert code == 1 and "resume them with --resume" in said
    Path("runs/seed-1/result.json").unlink()
    code, said = invoke(*words, "--resume")
    assert code == 0 and json.loads(Path("runs/result.json").read_text())["test"] == summary["test"]


def test_cross_validation(recipe_file: Path) -> None:
    code, said = invoke("train", recipe_file, "trainer.epochs=1", "--folds", "3", "--run-dir", "cv", "--device", "cpu")
    assert code == 0, said
    assert json.loads(Path("cv/fold-1/result.json").read_text())["fold"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "smal.yaml", "--run-dir", "r"], "smal.yaml"),
        (["train", "zincc", "--run-dir", "r"], "did you mean 'zinc'"),
        (["train", "FILE", "model.dmi=9", "--run-dir", "r"], "did you mean 'model.dim'"),
        (["train", "FILE", "lr=0.1", "--run-dir", "r"], "optimizer.lr"),
        (["train", "FILE", "model.dim=-4", "--run-dir", "r"], "model.dim"),
        (["train", "FILE", "metric=aucc", "--run-dir", "r"], "metric"),
        (["train", "FILE", "trainer.epochs=many", "--run-dir", "r"], "trainer.epochs"),
        (["train", "molecules", "--run-dir", "r"], "dataset.file"),
        (["train", "model.dim=3", "--run-dir", "r"], "expected a recipe's name"),
        (["train", "--resume"], "--run-dir"),
        (["train", "--resume", "--run-dir", "nowhere"], "there is no run in nowhere"),
        (["evaluate", "nowhere"], "there is no nowhere"),
    ],
    ids=["file", "name", "key", "nearest key", "negative", "metric", "word", "no data", "no recipe", "no folder",
         "no run", "nothing to evaluate"],
)  # fmt: skip
def test_mistakes_get_one_clear_message(recipe_file: Path, words: list[str], message: str) -> None:
    code, said = invoke(*(recipe_file if word == "FILE" else word for word in words))
    assert code != 0
    assert message in said.replace("│", "").replace("  ", " ")
    assert "Traceback" not in said and not Path("r").exists()


def test_evaluate_gives_the_same_again(recipe_file: Path, tmp_path: Path) -> None:
    invoke("train", recipe_file, "--run-dir", "run", "--device", "cpu", "--progress", "quiet")
    code, said = invoke("evaluate", "run")
    assert code == 0 and "the same as the run itself has recorded" in said
    assert with_interval(**json.loads(Path("run/result.json").read_text())["parts"]["test"]["mae"]) in said
    code, said = invoke("evaluate", "run", "--part", "val", "--json")
    found, result = json.loads(said), json.loads(Path("run/result.json").read_text())
    assert found["scores"]["mae"] == pytest.approx(result["val"]["mae"], rel=1e-6)
    assert found["recorded"] is None
    code, said = invoke("evaluate", "run", "--file", tmp_path / "data" / "graphs.g6", "--json")
    assert json.loads(said)["graphs"] == 40
    code, said = invoke("evaluate", "run", "--part", "train", "--json")
    assert json.loads(said)["intervals"]["mae"] == pytest.approx(result["parts"]["train"]["mae"], rel=1e-6)


def test_evaluate_refuses_other_targets(recipe_file: Path, tmp_path: Path) -> None:
    invoke("train", recipe_file, "--run-dir", "run", "--device", "cpu", "--progress", "quiet")
    (tmp_path / "data" / "targets.csv").write_text("graph,mass\n" + "".join(f"{row},{row}.5\n" for row in range(40)))
    code, said = invoke("evaluate", "run")
    assert code == 1 and "expected edges" in said


def long_recipe(recipe_file: Path) -> Path:
    from pointset.runs.recipe_files import read_recipe

    recipe: Recipe = changed(read_recipe(recipe_file), trainer__epochs=5000, schedule__cosine=0.0)
    path = recipe_file.with_name("long.yaml")
    path.write_text(recipe.as_yaml())
    return path


def test_ctrl_c_says_how_to_go_on(recipe_file: Path) -> None:
    words = ["train", str(long_recipe(recipe_file)), "--run-dir", "run", "--device", "cpu"]
    child = subprocess.Popen(
        [sys.executable, "-m", "pointset.cli.main", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    waited = time.monotonic()
    while not Path("run/metrics.csv").exists() and child.poll() is None and time.monotonic() - waited < 100:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Stopped after" in said and f"pointset {' '.join(words)} --resume" in said
    assert "Traceback" not in said
    assert Path("run/checkpoints/last.safetensors").exists() and not Path("run/result.json").exists()


def test_the_report_of_half_a_run_is_replaced_at_its_end(recipe_file: Path) -> None:
    words: list[str | Path] = [
        "train",
        recipe_file,
        "trainer.epochs=1",
        "--run-dir",
        "run",
        "--device",
        "cpu",
        "--progress",
        "quiet",
    ]
    assert invoke(*words)[0] == 0
    finished = Path("run/report.html").read_text()
    Path("run/result.json").unlink()  # as if it had been stopped before its end
    assert invoke("report", "run")[0] == 0
    assert "not finished" in Path("run/report.html").read_text()
    assert invoke(*words, "--resume")[0] == 0
    assert "not finished" not in Path("run/report.html").read_text() and "not finished" not in finished


def test_what_was_read_and_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{'C' * n}O,{n}" for n in range(1, 21)]
    Path("mine.csv").write_text("\n".join(["smiles,size", *rows, "C1CC,3"]) + "\n")
    small = ["trainer.epochs=1", "model.dim=8", "model.layers=1", "--device", "cpu"]
    code, said = invoke("train", "molecules", "dataset.file=mine.csv", "--run-dir", "run", *small)
    assert code == 0, said
    assert "mine.csv: regression of size; 16 graphs to train, 2 to validate, 2 to test; 1 of 21 is left out" in said
    code, said = invoke("evaluate", "run", "--file", "mine.csv")
    assert code == 0 and "20 graphs; 1 row left out" in said


def test_errors_have_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper = {"metric": "mae", "value": 0.02, "std": 0.001}
    run = make_run(
        tmp_path / "run", result={"units": {"gap": "eV"}, "test": {"mae": 0.03, "r2": 0.9}, "expected": paper}
    )
    print_result(json.loads((run / "result.json").read_text()), run)
    said = capsys.readouterr().out
    assert "test: MAE 0.0300 eV, R² 0.9000\n" in said and "MAE 0.0200 ± 0.0010 eV" in said


@pytest.mark.parametrize("command", ["train", "evaluate", "predict"])
def test_examples_fit_into_80_columns(command: str) -> None:
    done = runner.invoke(app, [command, "--help"], env={"COLUMNS": "80"}, terminal_width=80)
    below = done.output.partition("Examples")[2].splitlines()
    assert below and not [line for line in below if line.startswith(" ") and line[1:2].islower()]


def test_help_teaches() -> None:
    code, said = invoke("train", "--help")
    assert code == 0
    for word in ("--resume", "--seeds", "--folds", "--devices", "report.html", "pointset recipes"):
        assert word in said
