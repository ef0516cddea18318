"""A run folder and its bundle made by an older version still predict, evaluate and report the same numbers.

``fixtures/run_before_reorganisation`` was made at commit eb49912 (before the package was reorganised) by::

    pointset train molecules dataset.file=molecules.csv model.dim=8 model.layers=2 trainer.epochs=3 --run-dir run
    pointset predict run molecules.csv -o predictions.csv
"""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import pointset
from pointset.text import number
from tests.command_line import invoke
from tests.tolerances import near, rounding, terms_of_model

pytest.importorskip("rdkit")

FIXTURE = Path(__file__).parent / "fixtures" / "run_before_reorganisation"
TERMS = terms_of_model(nodes=14, dim=8, layers=2)


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work on, beside its table, where the recipe expects it."""
    shutil.copytree(FIXTURE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Path("run")


def table(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_bundle_predicts_the_same(run: Path) -> None:
    invoke("predict", run / "bundle", "molecules.csv", "-o", "again.csv")
    before, after = table("predictions.csv"), table("again.csv")
    assert [list(row) for row in after] == [list(row) for row in before]
    assert [row["status"] for row in after] == ["ok"] * len(before)
    old, new = (torch.tensor([float(row["predicted_logp"]) for row in rows]) for rows in (before, after))
    assert near(new, old, terms=TERMS, dtype=torch.float32)
    model = pointset.load(run)
    assert near(model.predict([row["smiles"] for row in before])[:, 0], old, terms=TERMS, dtype=torch.float32)


def test_evaluating_gives_what_the_run_had_noted(run: Path) -> None:
    said, _ = invoke("evaluate", run, "--json")
    found: dict[str, Any] = json.loads(said)
    recorded = json.loads((run / "result.json").read_text())["test"]
    assert found["recorded"] == recorded and list(found["scores"]) == list(recorded)
    largest = 10  # of predictions and targets; the scores are made of their differences
    assert found["scores"] == pytest.approx(recorded, abs=largest * rounding(torch.float32, TERMS))


def numbers(page: str) -> Counter[str]:
    """Every number that the page shows outside of its drawings."""
    shown = html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<(style|svg)[\s\S]*?</\1>", "", page)))
    return Counter(re.findall(r"−?\d[\d.,]*\d|\d", shown))


def test_the_report_shows_the_same_numbers(run: Path) -> None:
    before = (run / "report.html").read_text()
    (run / "report.html").unlink()
    invoke("report", run)
    page = (run / "report.html").read_text()
    worst = json.loads((run / "examples.json").read_text())["worst"]
    once_shown = {number(one["error"], 3) for one in worst}  # in standard deviations; now it is the difference itself
    old = {text for text in numbers(before) if "." in text} - once_shown
    assert len(old) > 30 and old <= set(numbers(page))
    differences = [abs(one["values"][0]["true"] - one["values"][0]["predicted"]) for one in worst]
    assert all(f"error {number(difference, 3)}" in page for difference in differences)
    assert "How far to trust it" not in page and "forest" not in page  # it knows nothing of that


def test_resuming_finds_it_finished(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*.safetensors")}
    said, _ = invoke("train", "--run-dir", run, "--resume", "--device", "cpu")  # the recipe's own defaults have changed
    assert "MAE 3.3198" in said
    assert {path: path.read_bytes() for path in run.rglob("*.safetensors")} == before
