"""``pointset compare`` as a user types it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pointset.cli.compare import compare
from pointset.paper import comparison, cost
from pointset.paper.cost import Cost
from pointset.registry import preset_names
from pointset.runs.recipe import Recipe
from pointset.training.run import train
from tests import command_line

app = typer.Typer()
app.command()(compare)
runner = CliRunner()


invoke = partial(command_line.ended, "compare")


def test_a_comparison_from_the_shell(recipe_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def here(recipe: Recipe, folder: Path, data_dir: Any, device: str, watch: str) -> tuple[dict[str, Any] | None, str]:
        if recipe.model.preset == "pst-gc":
            return None, "it did not want to"
        return train(recipe, folder, resume=True, data_dir=data_dir, device=device, watch="quiet"), ""

    monkeypatch.setattr(comparison, "trained_alone", here)
    words = ("--run-dir", "runs", "--epochs", "1", "--device", "cpu", "--json", "out.json", "--picture", "out.png")
    code, said = invoke(recipe_file, "schedule.warmup=1", "--models", "pst,pst-gc,psds", *words)
    assert code == 1, said  # as one failed
    assert "3 models of 2 layers" in said and "1 epoch, on 1 thread" in said
    assert "test MAE validation best epoch time/epoch peak memory total time" in said
    assert "pst-gc failed: it did not want to" in said
    content = json.loads(Path("out.json").read_text())
    assert content == json.loads(Path("runs/comparison.json").read_text())
    assert [one["model"] for one in content["contenders"]] == ["pst", "pst-gc", "psds"]
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert "small-psds" in Path("runs/report.html").read_text()
    assert "warmup: 0.5" in Path("runs/pst/seed-0/recipe.yaml").read_text()  # 1 of 2 epochs became 0.5 of 1

    code, said = invoke(recipe_file, "schedule.warmup=1", "--models", "pst,psds", *words, "--resume")
    assert code == 0, said


def test_costs_from_the_shell(recipe_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(recipes: list[Recipe], **how: Any) -> list[Cost]:
        assert (how["batches"], how["repeats"], how["threads"]) == (None, 2, 1)
        first, second = recipes
        return [
            Cost(first.model.preset, first.model.dim, 2, 5000, 2.0, 1.5, 0.1, 16.0, 4 * 10**7, 1.0, 0.25),
            Cost(second.model.preset, second.model.dim, 2, failure="out of memory"),
        ]

    monkeypatch.setattr(cost, "measure_cost", measured)
    outputs = ("--json", "cost.json", "--picture", "cost.svg")
    code, said = invoke(
        recipe_file, "--models", "pst,psds", "--cost-only", "--batches", "0", "--repeats", "2", *outputs
    )
    assert code == 1 and "psds failed: out of memory" in said and "2 s ± 0.1 s 1.5 s 1.00 40 MB 1.00" in said
    assert "Median of 2 rounds of 25.0% of an epoch's graphs, the rest extrapolated" in said
    assert [one["failure"] for one in json.loads(Path("cost.json").read_text())] == ["", "out of memory"]
    assert "<svg" in Path("cost.svg").read_text() and not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["RECIPE", "--models", "pst,gsp", "--run-dir", "runs"], 1, "did you mean 'gps'?"),
        (["RECIPE", "--run-dir", "runs"], 2, "`pointset compare --list` shows them all"),
        (["RECIPE", "--models", " , ", "--run-dir", "runs"], 2, "`pointset compare --list` shows them all"),
        (["RECIPE", "--models", "pst"], 2, "say where the runs go with --run-dir"),
        (["--models", "pst", "--run-dir", "runs"], 2, "name a recipe"),
        (["RECIPE", "--models", "pst,gin", "--parameters", "5", "--cost-only"], 1, "gin failed: gin of 2 layers has"),
        (["RECIPE", "model.widht=3", "--models", "pst", "--run-dir", "runs"], 1, "model.widht"),
        (["RECIPE", "--models", "pst", "--run-dir", "runs", "--picture", "a.gif"], 2, "expected a name that ends"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(recipe_file: Path, words: list[str], code: int, expected: str) -> None:
    found, said = invoke(*(recipe_file if word == "RECIPE" else word for word in words))
    assert (found, expected in said) == (code, True), said
    assert not Path("runs").exists()


def test_the_models_are_listed() -> None:
    code, said = invoke("--list")
    assert code == 0 and all(name in said for name in preset_names())
