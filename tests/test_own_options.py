"""Messages about options say their names in Python, on the shell and in a recipe, and these exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import pointset.datasets.own
from pointset.datasets.own import graph_files, smiles_csv
from pointset.datasets.own.options import option, recipe_keys
from pointset.errors import PointsetError
from pointset.runs.recipe import known_keys

pytest.importorskip("rdkit.Chem")


def test_every_option_of_a_reader_has_a_key_in_a_recipe() -> None:
    readers = {name for read in (smiles_csv, graph_files) for name in inspect.signature(read).parameters}
    keys = recipe_keys()
    assert set(keys) == readers - {"path", "progress"}
    for name, key in keys.items():
        assert key == f"dataset.options.{name}" or key in known_keys()


def test_an_option_is_said_in_all_its_names() -> None:
    assert option("weights") == "weights= (--weights, dataset.weight_column)"
    assert option("targets", "y") == "targets='y' (--target y, 'dataset.targets=[y]')"
    assert option("targets", 1) == "targets=1 (--target 1, 'dataset.targets=[1]')"
    assert option("max_rejected", 1.0) == "max_rejected=1.0 (--max-rejected 1, dataset.options.max_rejected=1)"
    assert option("header", False) == "header=False (--no-header, dataset.options.header=false)"
    assert option("lenient", True) == "lenient=True (--lenient, dataset.options.lenient=true)"
    assert option("task", "multi-class") == (
        "task='multi-class' (--task multi-class, dataset.options.task=multi-class)"
    )


def test_no_message_of_the_readers_names_the_shell_alone() -> None:
    folder = Path(pointset.datasets.own.__file__).parent
    alone = {
        f"{file.name}: {found}"
        for file in folder.glob("*.py")
        if file.name != "options.py"
        for found in re.findall(r"\(--[a-z-]+[^,()]*\)", file.read_text())
    }
    assert not alone


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("a,b\nC,1\n", {}, "smiles= (--smiles, dataset.options.smiles)"),
        ("smiles,y\nC(,1\nC,2\n", {}, "max_rejected=1.0 (--max-rejected 1, dataset.options.max_rejected=1)"),
        ("smiles,y,z\nC,1,0\n", {"targets": ["y", "z"], "task": "binary"}, "targets= (--target, dataset.targets)"),
        ("smiles,y\nC,1\n", {"targets": "z"}, "targets= (--target, dataset.targets)"),
        ("smiles,y\nC,1 uM\nCC,2 uM\n", {"targets": "y"}, "dataset.options.task=multi-class"),
        ("CCO,1.5\nCC,2.5\n", {"smiles": 0, "targets": 1}, "dataset.options.header=false"),
    ],
    ids=["smiles", "rejected", "several", "no such target", "task", "header"],
)
def test_advice_names_the_key_of_the_recipe(
    tmp_path: Path, content: str, options: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "own.csv"
    path.write_text(content)
    with pytest.raises(PointsetError) as caught:
        smiles_csv(path, **options)  # type: ignore[arg-type]
    assert told in str(caught.value)
