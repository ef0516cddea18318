"""The one list of models, and what is derived from it."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from pointset.encoders.model import PointModel
from pointset.errors import SpecError
from pointset.points.matrices import MATRICES
from pointset.registry import PRESETS, Preset, is_baseline, load_part, preset_named, preset_names, preset_title

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", PRESETS)
def test_every_part_is_where_the_registry_says(name: str) -> None:
    preset = PRESETS[name]
    for field in fields(Preset):
        part = getattr(preset, field.name)
        if isinstance(part, str) and part.startswith("pointset."):
            assert load_part(part).__qualname__ == part.rpartition(".")[2]
    assert preset.matrix in MATRICES and preset.summary


@pytest.mark.parametrize(("page", "kind"), [("encoders.md", "paper"), ("baselines.md", "baseline")])
def test_the_documentation_describes_no_preset_that_does_not_exist(page: str, kind: str) -> None:
    pages = re.split(r"^\| (?=name|preset)", (DOCS / page).read_text(), flags=re.MULTILINE)
    tables = [text.split("\n\n")[0] for text in pages[1:]]  # from such a heading to the next blank line
    rows = [line.split("|")[1] for table in tables for line in table.splitlines() if line.startswith("| `")]
    described = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert "pst" in described or "gin" in described
    assert {PRESETS[name].kind for name in described} == {kind}


def test_the_documentation_lists_every_preset() -> None:
    fill_in = runpy.run_path(str(DOCS / "hooks.py"))["on_page_markdown"]
    page = fill_in((DOCS / "encoders.md").read_text(), page=None, config=None, files=None)
    assert all(f"| `{name}` | {preset.kind} | {preset.summary} |" in page for name, preset in PRESETS.items())


def test_kinds() -> None:
    assert preset_names() == [*preset_names("paper"), *preset_names("baseline")]
    assert not is_baseline("pst") and is_baseline("gin")
    with pytest.raises(SpecError, match=r"got preset 'gni'; expected one of pst, .*; did you mean 'gin'"):
        preset_named("gni")


def test_titles() -> None:
    assert preset_title("psds") == "the Point Set DeepSet (PSDS)"
    assert preset_title("pst-adj") == "the Point Set Transformer (variant pst-adj)"
    assert preset_title("of-a-later-version") == "the Point Set Transformer (variant of-a-later-version)"


def test_a_new_preset_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts may be classes too, as those that a user hands in."""
    from pointset.encoders.psds import PSDS

    monkeypatch.setitem(PRESETS, "mine", Preset("DeepSet on A", encoder=PSDS, matrix="adjacency"))
    model = PointModel.from_preset("mine", dim=8, layers=2)
    assert isinstance(model.encoder, PSDS) and model.matrix == "adjacency"


def test_the_list_needs_no_torch_and_encoders_need_no_baselines() -> None:
    code = (
        "import sys, pointset.registry\nassert 'torch' not in sys.modules\nimport pointset\n"
        "pointset.PointModel.from_preset('pst', dim=4, layers=1)\n"
        "assert not [name for name in sys.modules if name.startswith('pointset.baselines')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
