"""Models that the package ships: small, complete, made by recipes that are here, and as good as their cards say."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pointset import load, models
from pointset.cli import models as command
from pointset.datasets.card import Task
from pointset.errors import FileFormatError, MissingDataError, SpecError
from pointset.metrics import metric_named
from pointset.prediction import evaluate
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.training import bundle_files
from pointset.training.bundle import read_bundle, write_bundle
from tests.command_line import invoke
from tests.small_models import card_of, model_of, molecule_card

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # scripts, not a package

import shipped_models as packing

REPOSITORY = Path(__file__).parents[1]
NAMES = models.names()
SLOW = ("qm9", "solubility", "tox21")  # to score again: about 20 s and more
MOLECULES = ["CCO", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O"]
pytest.importorskip("rdkit")


def of_molecules() -> list[str]:
    return [name for name in NAMES if "SMILES" in models.card(name)["input"]]


# --- what is shipped


def test_the_models_for_chemists_are_there() -> None:
    assert {"bbb", "hydration", "lipophilicity", "solubility", "tox21"} <= set(NAMES)
    assert set(NAMES) <= set(packing.entries())


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_small_and_equal_files_come_of_equal_models(name: str) -> None:
    file = models.path(name)
    assert file.stat().st_size <= packing.MOST_BYTES
    with zipfile.ZipFile(file) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {Path(entry.filename).suffix for entry in archive.infolist()} == {".json", ".safetensors"}


@pytest.mark.parametrize("name", NAMES)
def test_its_card_is_complete(name: str) -> None:
    card, bundle = models.card(name), read_bundle(models.path(name))
    may_be_none = {"forest", "mean", "paper", "domain", "calibration", "test_interval"}
    assert [key for key, value in card.items() if value in (None, "") and key not in may_be_none] == []
    for key in ("title", "source", "licence", "reference"):
        assert card["data"][key] and card["data"][key] != "unknown"
    assert card["name"] == name and card["bytes"] == models.path(name).stat().st_size
    assert card["data"]["graphs"] == sum(card["split"][part] for part in ("train", "val", "test"))
    assert card["parameters"] == sum(model.num_parameters for model in bundle.models)
    assert [target["name"] for target in card["targets"]] == list(bundle.card.target_names)
    assert all(target["meaning"] for target in card["targets"])
    assert card["test"] == bundle.about["test"] and np.isfinite(card["test"][card["metric"]])
    assert set(card["per_target"]["test"]) == set(bundle.card.target_names)
    assert card["calibration"] is not None and 0 < card["calibration"]["coverage"] <= 1
    if bundle.card.molecules == "ogb":
        assert card["domain"]["references"] > 400 and 0 < card["domain"]["test_in_domain"] <= 1
        assert card["forest"][card["metric"]] != card["test"][card["metric"]]
    text = json.dumps(card | {"file": ""}) + bundle.about["recipe"]
    assert "/work" not in text and str(Path.home()) not in text  # nothing of the machine that it was made on


@pytest.mark.parametrize("name", NAMES)
def test_its_recipe_is_here_and_is_what_it_was_trained_by(name: str) -> None:
    card, about = models.card(name), read_bundle(models.path(name)).about
    recipe = read_recipe(card["recipe"])
    assert card["recipe"] == about["recipe"] == packing.entries()[name]["recipe"]
    assert packing.different_settings(Recipe.from_dict(about["settings"]), recipe) == []
    assert card["command"].startswith(f"pointset train {recipe.name} ")
    assert recipe.seed == 0 and recipe.ensemble is None


def test_the_page_has_the_table_of_the_cards() -> None:
    page = (REPOSITORY / "docs" / "models.md").read_text(encoding="utf-8")
    assert packing.with_table(page, [models.card(name) for name in NAMES]) == page
    assert all(f"| `{name}` |" in page for name in NAMES)


def test_wheel_and_source_hold_the_models() -> None:
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["packages"] == ["src/pointset"] and "src" in build["sdist"]["include"]  # with all files
    assert not {"exclude", "artifacts"} & {*build["wheel"], *build["sdist"]}
    files = [str(models.path(name).relative_to(REPOSITORY)) for name in NAMES]
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git repository: what is ignored is not known")
    ignored = subprocess.run(["git", "check-ignore", *files], cwd=REPOSITORY, capture_output=True, text=True)
    assert ignored.stdout == "" and ignored.returncode == 1  # hatch leaves out what git ignores


# --- as good as the card says


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES])
def test_scored_again_it_is_as_good_as_its_card_says(name: str, shared_data: Path) -> None:
    card = models.card(name)
    found = evaluate(name, data_dir=shared_data, progress=False)
    assert found["graphs"] == card["split"]["test"]
    for metric, value in card["test"].items():
        # a step function of the order of rows, where two of them are as good as equal
        tolerance = 2e-3 if not metric_named(metric).has_unit else 1e-4
        assert found["scores"][metric] == pytest.approx(value, rel=tolerance, abs=1e-4), metric
    coverage = [one["coverage"] for one in found["calibration"]["per_target"].values() if one["coverage"] is not None]
    assert np.mean(coverage) == pytest.approx(card["calibration"]["coverage"], abs=0.02)
    if card["domain"] is not None:
        assert found["domain"]["test_in_domain"] == pytest.approx(card["domain"]["test_in_domain"], abs=0.01)
        assert found["domain"]["threshold"] == card["domain"]["threshold"]


@pytest.mark.parametrize("name", of_molecules())
def test_molecules_are_predicted_as_in_the_run_and_explained(name: str) -> None:
    model = load(name)
    predicted = model.predict(MOLECULES, progress=False)
    assert predicted.shape == (3, model.card.outputs) and bool(predicted.isfinite().all())
    if model.card.task is not Task.REGRESSION:
        assert float(predicted.min()) >= 0 and float(predicted.max()) <= 1
    (one,) = model.explain("CCO", model.target_names[0], progress=False)
    assert one.smiles == "CCO"
    assert model.embed(MOLECULES, progress=False).shape[0] == 3


def test_they_know_some_chemistry() -> None:
    hydration = load("hydration").predict(["CCO", "c1ccccc1", "C"], progress=False)
    assert torch.equal(hydration[:, 0].argsort(), torch.tensor([0, 1, 2]))  # ethanol −5.0, benzene −0.9, methane 2.0
    log_d = load("lipophilicity").predict(["CCCCCCCCc1ccccc1", "OC[C@H](N)C(=O)O"], progress=False)
    assert log_d[0] > log_d[1]


# --- names stand for paths


def test_a_name_stands_for_the_bundle_in_python_and_on_the_shell() -> None:
    assert load("hydration").bundle.sha256 == read_bundle(models.path("hydration")).sha256
    assert bundle_files.find_bundle(Path("hydration")) == models.path("hydration")


def test_a_path_that_exists_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bundle("hydration", model_of(molecule_card()), molecule_card())
    assert load("hydration").target_names == ("logS",)
    Path("bbb").mkdir()
    Path("lipophilicity").touch()
    for name in ("bbb", "lipophilicity"):
        with pytest.raises(FileFormatError, match="comes before the shipped model of this name, which is") as caught:
            load(name)
        assert str(models.path(name)) in str(caught.value)


def test_a_name_that_is_neither_gets_the_nearest_and_the_remedy() -> None:
    with pytest.raises(
        MissingDataError, match=r"(?s)or the name of a shipped model; did you mean 'hydration'\?.*lists"
    ):
        load("hydratoin")
    with pytest.raises(MissingDataError, match=r"there is no runs/mine; expected the folder of a run"):
        load("runs/mine")
    for words in (("explain", "Lipophilicity", "CCO"), ("evaluate", "lipophilicty")):
        assert "did you mean 'lipophilicity'?" in invoke(*words, code=1)[1]
    with pytest.raises(SpecError, match=r"expected one of .*; did you mean 'tox21'\?"):
        models.card("tox2")


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_FOLDER", tmp_path)
    write_bundle(tmp_path / "bare.zip", model_of(card_of()), card_of())  # without a card
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04")
    for name in ("bare", "broken"):
        with pytest.raises(FileFormatError, match=rf"{name}\.zip is damaged \(.*install pointset again"):
            models.card(name)


# --- the commands


def test_the_list_and_the_card_on_the_shell() -> None:
    said, _ = invoke("models")
    for name in NAMES:
        assert any(line.startswith(f"{name} ") for line in said.splitlines())
    assert [one["name"] for one in json.loads(invoke("models", "--json")[0])] == list(NAMES)
    for name in NAMES:
        said, card = " ".join(invoke("models", "show", name)[0].split()), models.card(name)
        for part in (card["data"]["licence"], card["command"], f"{card['parameters']:,} parameters", card["date"]):
            assert part in said
        assert json.loads(invoke("models", "show", name, "--json")[0]) == card
    assert "did you mean: pointset models show hydration?" in invoke("models", "hydration", code=2)[1]
    assert "did you mean 'hydration'?" in invoke("models", "show", "hydra", code=1)[1]
    assert "put the options after 'show'" in invoke("models", "--json", "show", "bbb", code=2)[1]


def test_a_card_without_scores_of_others_is_printed() -> None:
    card = models.card("hydration") | {"forest": None, "mean": None, "calibration": None, "domain": None}
    card["paper"] = {"metric": "mae", "value": 0.5, "std": 0.1, "table": "Table 1", "note": "", "per_target": None}
    lines = dict(command._lines(card))
    assert lines["paper"] == "MAE 0.5 ± 0.1 kcal/mol (Table 1)." and "forest" not in lines
    two = card | {"targets": [{"name": one, "unit": "eV", "meaning": "energy"} for one in ("a", "b")]}
    two["per_target"] = {"metric": "mae", "test": {"a": 0.25, "b": 2.0}}
    two["paper"] = card["paper"] | {"per_target": {"a": 0.5}}
    assert dict(command._lines(two))["predicts"] == "a (eV): energy; test MAE 0.25, the paper's 0.5"


def test_the_list_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom pointset.cli.main import app\n"
        "try:\n    app(['models'])\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'numpy', 'yaml'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "hydration" in done.stdout


def test_a_fresh_machine_predicts_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: Any, **__: Any) -> None:
        raise OSError("no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    Path("my.csv").write_text("name,smiles\na,CCO\nb,nothing\nc,c1ccccc1\n")
    invoke("predict", "hydration", "my.csv", "-o", "out.csv", "--quiet")
    header, first, second, _ = Path("out.csv").read_text().splitlines()
    assert header.startswith("name,smiles,predicted_freesolv,lower_freesolv,upper_freesolv,std_freesolv,similarity")
    assert first.endswith(",yes,ok") and "is not a SMILES" in second
    invoke("embed", "hydration", "my.csv", "-o", "vectors.csv", "--quiet")
    said, _ = invoke("explain", "hydration", "CCO", "-o", "why.svg")
    assert "kcal/mol" in said and Path("why.svg").stat().st_size > 500
    assert "invariant: yes" in invoke("check-invariance", "hydration", "my.csv")[0]


def test_scored_on_a_file_whose_columns_are_called_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("smiles,dG,other\nCCO,-5.0,1\nc1ccccc1,-0.9,2\nCCN,-4.5,3\n")
    found = json.loads(invoke("evaluate", "hydration", "--file", "mine.csv", "--target", "dG", "--json")[0])
    assert found["graphs"] == 3 and found["scores"]["mae"] < 1  # of 3 molecules no part would be left for others
    assert list(found["per_target"]) == ["freesolv"] and found["recorded"] is None
    assert "has no column 'freesolv'" in invoke("evaluate", "hydration", "--file", "mine.csv", code=1)[1]
    both = ("--target", "dG", "--target", "other")
    said = invoke("evaluate", "hydration", "--file", "mine.csv", *both, code=1)[1]
    assert "got 2 columns of true values (dG, other); expected 1" in said
    assert "without a file" in invoke("evaluate", "hydration", "--target", "dG", code=1)[1]


def test_without_its_data_a_model_asks_for_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    said = invoke("evaluate", "hydration", code=1)[1]
    assert (
        "there is no file or folder molecules/freesolv.csv" in said and "--data-dir" in said and "--file my.csv" in said
    )
    assert "give other data to check on" in invoke("check-invariance", "hydration", code=2)[1]
    write_bundle("bare.zip", model_of(molecule_card()), molecule_card())
    assert "is a model without the recipe of its run" in invoke("evaluate", "bare.zip", code=1)[1]
    write_bundle("forged.zip", model_of(molecule_card()), molecule_card(), about={"settings": {"name": 3}})
    assert "the recipe in the bundle cannot be read" in invoke("evaluate", "forged.zip", code=1)[1]


# --- how they are made


@pytest.fixture
def small_recipe(tmp_path: Path) -> Path:
    """That of a shipped model, for a table of 30 molecules in tmp_path / "data"."""
    file = tmp_path / "small.yaml"
    file.write_text(
        "extends: hydration\nmodel: {dim: 8, layers: 1, descriptors: null}\n"
        "trainer: {epochs: 1, min_steps: 0, baseline: false}\nschedule: {warmup: 0.5}\n"
    )
    table = tmp_path / "data" / "molecules" / "freesolv.csv"
    table.parent.mkdir(parents=True)
    rows = [f"C1{'C' * size}1{'C' * length},{size - length}" for size in range(2, 12) for length in (1, 2, 3)]
    table.write_text("\n".join(["smiles,freesolv", *rows]))
    return file


def test_a_run_is_trained_and_packed(small_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (models, packing):
        monkeypatch.setattr(module, "_FOLDER", tmp_path)
    entry = packing.entries()["hydration"] | {"recipe": str(small_recipe)}
    packed = packing.make("hydration", entry, RunFolder(tmp_path / "run"), tmp_path / "data")
    once, card = packed.read_bytes(), models.card("hydration")
    assert packing.make("hydration", entry, RunFolder(tmp_path / "run"), None).read_bytes() == once  # it was finished
    assert (card["recipe"], card["forest"], card["data"]["graphs"]) == ("small", None, 30)
    assert card["targets"][0]["unit"] == load(packed).card.targets[0].unit == "kcal/mol"
    told = load(tmp_path / "run").predict(MOLECULES, progress=False)
    assert torch.equal(load(packed).predict(MOLECULES, progress=False), told)
    assert packing.table([card]).count("\n") == 2

    small_recipe.write_text(small_recipe.read_text().replace("dim: 8", "dim: 16"))
    with pytest.raises(SpecError, match=r"(?s)not trained by the recipe 'small'.*model\.dim: 8, the recipe has 16"):
        packing.make("hydration", entry, RunFolder(tmp_path / "run"), None)
    with pytest.raises(SpecError, match="names no recipe for 'zinc' yet"):
        packing.make("zinc", {"recipe": None}, RunFolder(tmp_path / "run"), None)
    small_recipe.write_text(small_recipe.read_text().replace("dim: 16", "dim: 8"))
    monkeypatch.setattr(packing, "MOST_BYTES", 10_000)
    with pytest.raises(SpecError, match="expected at most 10,000"):
        packing.make("hydration", entry, RunFolder(tmp_path / "run"), None)
    assert not packed.exists()


def test_units_that_differ_are_not_in_the_table() -> None:
    card = models.card("hydration")
    targets = [{"name": name, "unit": unit, "meaning": ""} for name, unit in (("a", "eV"), ("b", "D"))]
    card |= {"metric": "normalised_mae", "targets": targets}
    assert "| Hydration free energy |" in packing.table([card])
    assert "normalised MAE 0.425" in packing.table([card])


def test_what_is_large_is_stored_and_what_shrinks_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"bundle.json": b"{}", "zeros": bytes(1_000_000)}
    bundle_files.write_files(tmp_path / "deflated.zip", files)
    assert (tmp_path / "deflated.zip").stat().st_size < 2_000
    assert bundle_files.BundleFiles(tmp_path / "deflated.zip").read("zeros", 2**20) == files["zeros"]
    monkeypatch.setattr(bundle_files, "_MOST_UNBOUNDED", 1_000)
    with pytest.raises(FileFormatError, match="would unpack to 1,000,000 bytes; refused"):
        bundle_files.BundleFiles(tmp_path / "deflated.zip").read("zeros", 2**20)
    bundle_files.write_files(tmp_path / "stored.zip", files)  # nothing is written that is refused when it is read
    assert bundle_files.BundleFiles(tmp_path / "stored.zip").read("zeros", 2**20) == files["zeros"]
