"""A bundle whose parts contradict each other is refused, also when somebody has put its checksums right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from pointset import models
from pointset.datasets.card import Task
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.errors import FileFormatError, SpecError
from pointset.runs.recipe import Recipe
from pointset.training import bundle
from pointset.training.bundle import read_bundle, write_bundle
from tests.small_models import card_of, model_of, molecule_card
from tests.test_bundle import plain
from tests.test_uncertainty import small

COUNT = 2048
RECIPE = {
    "name": "mine",
    "dataset": {"file": "mine.csv", "targets": ["logS"]},
    "model": {"preset": "pst-fast", "dim": 8, "layers": 2, "descriptors": "morgan"},
    "trainer": {"epochs": 1, "batch_size": 8},
    "scale_targets": False,
}
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a bundle that says of itself whatever a bundle can say."""
    path = tmp_path_factory.mktemp("whole") / "model"
    card = molecule_card()
    model = model_of(card, "pst-fast", dim=8, descriptors=COUNT)
    about: dict[str, Any] = {"recipe": "mine", "seed": 0, "metric": "mae", "test": {"mae": 0.5, "rmse": 0.75}}
    about |= {"descriptors": "morgan", "descriptor_columns": None, "settings": Recipe.from_dict(RECIPE).as_dict()}
    about["card"] = {
        "name": "mine",
        "title": "Mine",
        "task": "regression",
        "level": "graph",
        "noun": "molecule",
        "targets": [{"name": "logS", "unit": "eV", "meaning": "a meaning"}],
        "data": {"title": "Small data"},
        "metric": "mae",
        "test": {"mae": 0.5, "rmse": 0.75},
        "test_interval": {"value": 0.5, "lower": 0.25, "upper": 1.0},
        "per_target": {"metric": "mae", "test": {"logS": 0.5}},
        "recipe": "mine",
        "command": "pointset train mine --data-dir DATA",
        "model": "pst-fast, 2 layers of 8",
        "parameters": model.num_parameters,
    }
    write_bundle(path, model, card, molecule_reader={"descriptors": "morgan"}, about=about)
    return {file.name: file.read_bytes() for file in path.iterdir()}


def put(path: Path, files: dict[str, bytes], change: Change = lambda content: None) -> Path:
    """These files with another description, whose checksum is right."""
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / name).write_bytes(text)
    content = json.loads(files["bundle.json"])
    change(content)
    content["sha256"] = bundle._digest(content)
    (path / "bundle.json").write_text(json.dumps(content))
    return path


def setting(key: str, value: Any) -> Change:
    def change(content: dict[str, Any]) -> None:
        *outer, last = key.split(".")
        for name in outer:
            content = content[int(name)] if isinstance(content, list) else content[name]
        content[last] = value

    return change


def test_what_agrees_is_read(tmp_path: Path, whole: dict[str, bytes]) -> None:
    assert read_bundle(put(tmp_path / "model", whole)).about["recipe"] == "mine"


OTHER = {"categories": [119, 5, 12, 12, 10, 6, 6, 2, 3]}
CONTRADICTIONS: list[tuple[str, Any, str]] = [
    ("model.pooling", "sum", r"about.settings.model.pooling is 'mean', but model.pooling is 'sum'"),
    ("model.rank", 5, "about.settings.model.rank is None, but model.rank is 5"),
    ("model.dim", 16, "about.settings.model.dim"),
    ("model.layers", 1, "about.settings.model.layers"),
    ("model.preset", "pst", "about.settings.model.preset"),
    ("model.references", True, "about.settings.model.atom_references is 'never', but model.references is True"),
    ("model.descriptors", 87, r"the number of descriptors called morgan is 2048, but model.descriptors is 87"),
    ("model.node", OTHER, r"model.node is Categories\(.*3\), but card.node is Categories\(.*2\)"),
    ("model.edge", {"reals": 3}, r"model.edge is Reals\(3\), but card.edge is"),
    ("card.node", OTHER, "model.node is"),
    ("card.edge", None, "model.edge is .*, but card.edge is None"),
    ("card.molecules", None, "molecule_reader says how SMILES are read"),
    ("card.metric", "roc_auc", "metric roc_auc for a regression; expected one of mae, rmse"),
    ("card.classes", ["a"], "1 classes for a regression"),
    ("card.task", "multi-class classification", "the card of small names no targets"),
    ("card.title", "Other data", "about.card.data.title is 'Small data', but card.title is 'Other data'"),
    ("card.targets.0.name", "logP", r"about.settings.dataset.targets\[0\] is 'logS'"),
    (
        "card.targets.0.unit",
        "eV/atom",
        r"about.card.targets\[0\].unit is 'eV', but card.targets\[0\].unit is 'eV/atom'",
    ),
    ("scale", {"mean": [0.0], "std": [1.0]}, "about.settings.scale_targets is False"),
    ("weighted_edges", 3, "weighted_edges is 3, and the card of small has 3 columns of edge features"),
    ("weighted_edges", 1, "about.settings.dataset.weighted_edges is None"),
    ("molecule_reader", None, "about.descriptors is 'morgan', but molecule_reader.descriptors is None"),
    ("molecule_reader.descriptors", "rdkit", "called rdkit is 87, but model.descriptors is 2048"),
    ("molecule_reader.descriptors", 1, "got descriptors=1; expected a name"),
    ("version", 2, "version is 2, and other_members is missing"),
    ("other_members", [], "version is 1, and other_members is there"),
    ("model.matrix", "adjacency", "version > 3 is False, but whether model.matrix is there is True"),
    ("version", 4, "version > 3 is True, but whether model.matrix is there is False"),
    ("calibration", None, "domain, uncertainty is missing"),
    ("extensions", {"encoder": {"gin": "mine"}}, "extensions names the encoder 'gin'"),
    ("about", [], "about is .*; expected an object"),
    ("about.recipe", "other", "about.settings.name is 'mine', but about.recipe is 'other'"),
    ("about.seed", 1, "about.settings.seed is 0, but about.seed is 1"),
    ("about.metric", "accuracy", "about.metric is accuracy"),
    ("about.descriptors", "rdkit", "about.descriptors is 'rdkit'"),
    ("about.descriptor_columns", ["a"], "the number of about.descriptor_columns is 1"),
    ("about.descriptor_columns", 1, "descriptor_columns is 1; expected a list of names"),
    ("about.settings.model.dim", 16, "about.settings.model.dim is 16, but model.dim is 8"),
    ("about.settings.dataset.targets", ["logS", "logP"], "about.settings.dataset.targets"),
    ("about.settings.dataset.name", "zinc", "about.settings.dataset.name is 'zinc', but card.name is 'small'"),
    ("about.settings.scale_targets", True, "about.settings.scale_targets is True"),
    ("about.settings.ensemble", 3, "about.settings.ensemble is 3, but the number of members is 1"),
    ("about.settings.metric", "rmse", "about.settings.metric is 'rmse', but about.metric is 'mae'"),
    ("about.settings.trainer.precision", "64", "precision == 64 is True"),
    ("about.test.mae", 0.25, "about.card.test.mae is 0.5, but about.test.mae is 0.25"),
    ("about.card.parameters", 7, "about.card.parameters is 7, but the number of weights is"),
    ("about.card.model", "pst, 1 layer", "about.card.model is"),
    ("about.card.recipe", "other", "about.card.recipe is"),
    ("about.card.targets", [], "about.card.targets is"),
    ("about.card.test_interval.value", 0.25, "about.card.test_interval.value is 0.25, but about.test.mae is 0.5"),
    ("about.card.per_target.test", {"logP": 0.5}, r"about.card.per_target.test\[0\] is 'logP'"),
    ("about.card.noun", "graph", "about.card.noun is 'graph'"),
]


@pytest.mark.parametrize(
    ("key", "value", "message"), CONTRADICTIONS, ids=[f"{key}={value!s:.20}" for key, value, _ in CONTRADICTIONS]
)
def test_a_contradiction_is_refused(
    tmp_path: Path, whole: dict[str, bytes], key: str, value: Any, message: str
) -> None:
    path = put(tmp_path / "model", whole, setting(key, value))
    with pytest.raises(FileFormatError, match=message) as caught:
        read_bundle(path)
    assert str(caught.value).startswith(f"{path}: ")


@settings(max_examples=200)
@given(key=st.sampled_from(sorted({key for key, _, _ in CONTRADICTIONS})), value=plain)
def test_no_value_gives_a_foreign_error(
    tmp_path_factory: pytest.TempPathFactory, whole: dict[str, bytes], key: str, value: Any
) -> None:
    path = put(tmp_path_factory.getbasetemp() / "any-agreement", whole, setting(key, value))
    try:
        read_bundle(path)
    except FileFormatError as error:
        assert str(path) in str(error)  # noqa: PT017 - what is read is no error


@pytest.mark.parametrize("key", ["settings", "card", "descriptors", "test"])
def test_older_bundles_that_say_less_are_read(tmp_path: Path, whole: dict[str, bytes], key: str) -> None:
    def change(content: dict[str, Any]) -> None:
        del content["about"][key]
        if key == "test":
            del content["about"]["card"]

    assert read_bundle(put(tmp_path / "model", whole, change)).model.num_parameters > 0


def test_columns_given_by_number_are_no_contradiction(tmp_path: Path, whole: dict[str, bytes]) -> None:
    read_bundle(put(tmp_path / "model", whole, setting("about.settings.dataset.targets", ["3"])))


def test_what_would_be_refused_is_not_written(tmp_path: Path) -> None:
    card, positions = card_of(Task.BINARY), model_of(card_of(positions=True), "pst-star")
    for model, wrong, message in (
        (model_of(card, node=3), card, r"model.node is Categories\(3\), but card.node is None"),
        (positions, card_of(), "the model pst-star needs positions in space"),
        (model_of(card), card_of(Task.BINARY, molecules="ogb"), "card.node is None, but that of OGB's molecules is"),
    ):
        with pytest.raises(SpecError, match=message):
            write_bundle(tmp_path / "model", model, wrong)
    with pytest.raises(SpecError, match=r"about\.metric is mae"):
        write_bundle(tmp_path / "model", model_of(card), card, about={"metric": "mae"})
    assert not any(tmp_path.iterdir())


# --- calibration and domain against their arrays


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a bundle with intervals and a domain."""
    path = tmp_path_factory.mktemp("calibrated") / "model"
    model, uncertainty = small()
    write_bundle(path, model, uncertainty.card, uncertainty=uncertainty)
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("domain.least_similarity", None, "holds the array domain.fingerprints"),
        ("domain.nodes", [9, 3], "the least and the largest number of nodes"),
        ("domain", None, "the residuals do not fit the domain"),
        ("calibration.targets", [None, None], r"holds the array calibration\.0\.scores"),
        ("uncertainty.file", "model.safetensors", "checksum"),
    ],
)
def test_calibration_and_arrays_agree(
    tmp_path: Path, calibrated: dict[str, bytes], key: str, value: Any, message: str
) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_bundle(put(tmp_path / "model", calibrated, setting(key, value)))


def test_a_part_of_the_calibration_is_not_left_out_in_silence(tmp_path: Path, calibrated: dict[str, bytes]) -> None:
    for key in ("uncertainty", "calibration", "domain"):
        path = put(tmp_path / "model", calibrated, lambda content, key=key: content.pop(key))  # type: ignore[misc]
        with pytest.raises(FileFormatError, match=f"{key} is missing"):
            read_bundle(path)


def test_categories_of_the_domain_are_those_of_the_nodes(tmp_path: Path, calibrated: dict[str, bytes]) -> None:
    arrays = load(calibrated["uncertainty.safetensors"])
    forged = save({**arrays, "domain.categories": arrays["domain.fingerprints"][0]})
    path = put(
        tmp_path / "model",
        {**calibrated, "uncertainty.safetensors": forged},
        setting("uncertainty.sha256", hashlib.sha256(forged).hexdigest()),
    )
    with pytest.raises(FileFormatError, match="an array categories of 0 zeros and ones"):
        read_bundle(path)


# --- shipped models


@pytest.mark.parametrize("name", models.names())
def test_a_shipped_model_and_its_card_agree(name: str) -> None:
    card, found = models.card(name), read_bundle(models.path(name))  # which compares what is told twice
    assert card["name"] == name
    assert card["parameters"] == sum(model.num_parameters for model in found.models)
    settings = found.model.settings
    assert settings is not None
    assert card["model"].startswith(f"{settings.preset}, {settings.layers} layers of {settings.dim}")
    assert [target["unit"] for target in card["targets"]] == [target.unit for target in found.card.targets]
    assert card["data"]["graphs"] == sum(size for size in card["split"].values() if isinstance(size, int))
    is_of_molecules = found.card.molecules is not None
    assert (card["noun"] == "molecule") == ("SMILES" in card["input"]) == is_of_molecules
    assert card["calibration"] is None or found.uncertainty is not None
    if card["domain"] is not None and found.uncertainty is not None and found.uncertainty.domain is not None:
        assert card["domain"]["references"] == found.uncertainty.domain.references
    if found.card.molecules == "ogb":
        assert found.card.node == OGB_FEATURES["node"]
