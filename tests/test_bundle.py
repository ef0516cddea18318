"""A trained model that is handed on: it comes back bit for bit, or with one clear error."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from pointset import Categories, PointModel, Reals, collate, to_points
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import TargetScale
from pointset.errors import FileFormatError, MissingDataError, PointsetError, SpecError
from pointset.registry import preset_names
from pointset.training import bundle, bundle_files
from pointset.training.bundle import Place, read_bundle, spec_as_plain, spec_from, write_bundle
from tests.small_models import card_of, model_of, molecule_card

SCALE = TargetScale(torch.tensor([0.1 + 0.2]), torch.tensor([1 / 3], dtype=torch.float64))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A bundle's folder."""
    path = tmp_path / "model"
    write_bundle(path, model_of(molecule_card()), molecule_card(), scale=TargetScale(SCALE.mean.double(), SCALE.std))
    return path


def description(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "bundle.json").read_text())
    return content


def forge(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the description and make its checksum right again, as an attacker would."""
    content = description(path)
    change(content)
    content["sha256"] = bundle._digest(content)
    (path / "bundle.json").write_text(json.dumps(content))


def forge_weights(path: Path, weights: bytes) -> None:
    (path / "model.safetensors").write_bytes(weights)
    forge(path, lambda content: content["weights"].update(sha256=hashlib.sha256(weights).hexdigest()))


def refused(path: Path) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_bundle(path)
    assert str(path.name) in str(caught.value)
    return str(caught.value)


def whether_read(path: Path) -> bool:
    try:
        return read_bundle(path).sha256 != ""
    except FileFormatError as error:
        if path.name not in str(error):
            raise
        return False


# --- there and back


specs = st.one_of(
    st.none(), st.lists(st.integers(1, 9), min_size=1, max_size=3).map(lambda s: Categories(*s)), st.just(Reals(2))
)


@settings(max_examples=20)
@given(
    preset=st.sampled_from([name for name in preset_names("paper") if not name.endswith("star")]),
    node=specs,
    edge=specs,
    task=st.sampled_from(list(Task)),
    level=st.sampled_from(list(Level)),
    pooling=st.sampled_from(["mean", "sum", "max", "scaled_sum"]),
    double=st.booleans(),
    name=st.sampled_from(["model", "model.zip"]),
    seed=st.integers(0, 99),
)
def test_a_model_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    preset: str,
    node: Any,
    edge: Any,
    task: Task,
    level: Level,
    pooling: str,
    double: bool,
    name: str,
    seed: int,
) -> None:
    card = card_of(task, level=level, names=("a", "b") if task is Task.MULTI_LABEL else ("a",), node=node, edge=edge,
                   molecules="zinc")  # fmt: skip
    model = model_of(card, preset, dim=8, pooling=pooling, seed=seed).to(torch.float64 if double else torch.float32)
    scale = TargetScale(torch.tensor([0.1 + 0.2]), torch.tensor([1e-17])) if task is Task.REGRESSION else None
    path = tmp_path_factory.mktemp("bundle") / name
    write_bundle(path, model, card, scale=scale, weighted_edges=0, molecule_reader={"lenient": True}, about={"x": "é"})
    back = read_bundle(path)
    assert back.model.settings == model.settings and not back.model.training
    assert back.card == card and back.weighted_edges == 0 and back.about == {"x": "é"}
    assert back.molecule_reader == {"lenient": True}
    for old, new in zip(model.state_dict().items(), back.model.state_dict().items(), strict=True):
        assert old[0] == new[0] and torch.equal(old[1], new[1]) and old[1].dtype == new[1].dtype
    if scale is not None:
        assert back.scale is not None
        assert torch.equal(back.scale.mean, scale.mean.double()) and torch.equal(back.scale.std, scale.std.double())


def test_its_answers_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    card = card_of()
    model = model_of(card)
    batch = collate([to_points(nx.path_graph(n)) for n in (4, 7, 7)])
    write_bundle(tmp_path / "model.zip", model, card)
    assert torch.equal(read_bundle(tmp_path / "model.zip").model(batch), model(batch))


def test_a_model_with_distances_keeps_what_is_not_a_weight(tmp_path: Path) -> None:
    card = card_of(positions=True)
    write_bundle(tmp_path / "model", model_of(card, "pst-star"), card)
    loaded: Any = read_bundle(tmp_path / "model").model
    assert loaded.coordinates.pairs.distances.centres.tolist()[-1] == 12.0


@given(spec=specs)
def test_specs_come_back(spec: Any) -> None:
    assert spec_from(Place(json.loads(json.dumps(spec_as_plain(spec))), "node")) == spec


def test_a_score_that_is_not_defined_does_not_spoil_the_training(tmp_path: Path) -> None:
    about = {"test": {"roc_auc": float("nan"), "mae": 0.5}, "list": [float("inf"), (1, "a")]}
    write_bundle(tmp_path / "model", model_of(card_of()), card_of(), about=about)
    assert read_bundle(tmp_path / "model").about == {"test": {"roc_auc": None, "mae": 0.5}, "list": [None, [1, "a"]]}


def test_equal_bundles_are_equal_files(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        write_bundle(tmp_path / name, model_of(card_of()), card_of())
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_a_folder_that_was_zipped_by_hand_is_read(written: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "hand.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in written.iterdir():
            archive.write(file, f"model/{file.name}")
    assert read_bundle(tmp_path / "hand.zip").sha256 == read_bundle(written).sha256


def test_the_run_folder_stands_for_its_bundle(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write_bundle(tmp_path / "run" / "bundle", model_of(card_of()), card_of())
    assert read_bundle(tmp_path / "run").card.name == "small"
    assert sorted(file.name for file in (tmp_path / "run" / "bundle").iterdir()) == ["bundle.json", "model.safetensors"]


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_members_of_an_ensemble_come_back_bit_for_bit(tmp_path: Path, name: str) -> None:
    card = card_of()
    members = [model_of(card, seed=seed) for seed in range(3)]
    write_bundle(tmp_path / name, members, card, scale=TargetScale(SCALE.mean.double(), SCALE.std))
    back = read_bundle(tmp_path / name)
    assert len(back.models) == 3 and back.model is back.models[0]
    for old, new in zip(members, back.models, strict=True):
        assert old.settings == new.settings and not new.training
        assert all(torch.equal(tensor, new.state_dict()[key]) for key, tensor in old.state_dict().items())
    write_bundle(tmp_path / name, members[1], card)  # files of an ensemble that is replaced do not stay
    assert len(read_bundle(tmp_path / name).models) == 1
    if name == "model":
        assert sorted(file.name for file in (tmp_path / name).iterdir()) == ["bundle.json", "model.safetensors"]


def test_one_model_is_a_bundle_that_older_versions_read(written: Path, tmp_path: Path) -> None:
    assert description(written)["version"] == 1 and "other_members" not in description(written)
    write_bundle(tmp_path / "two", [model_of(card_of(), seed=seed) for seed in range(2)], card_of())
    assert description(tmp_path / "two")["version"] == 2


@pytest.mark.parametrize("members", [1, 2])
def test_an_offset_of_edge_weights_comes_back_and_older_versions_refuse_it(tmp_path: Path, members: int) -> None:
    """They would predict with other weights."""
    card = card_of(edge=Categories(4))
    models = [model_of(card, seed=seed) for seed in range(members)]
    write_bundle(tmp_path / "model", models, card, weighted_edges=0, edge_weight_offset=1)
    assert description(tmp_path / "model")["version"] == 3
    back = read_bundle(tmp_path / "model")
    assert (back.weighted_edges, back.edge_weight_offset, len(back.models)) == (0, 1, members)
    write_bundle(tmp_path / "model", models, card, edge_weight_offset=1)  # of no weights
    assert description(tmp_path / "model")["version"] == members
    assert read_bundle(tmp_path / "model").edge_weight_offset == 0


def test_members_that_differ_are_refused(tmp_path: Path) -> None:
    one = model_of(card_of())
    for others in ([model_of(card_of(), dim=8)], [model_of(card_of(), "psds")], [model_of(card_of()).double()]):
        with pytest.raises(SpecError, match="differ in their settings or types"):
            write_bundle(tmp_path / "model", [one, *others], card_of())
    with pytest.raises(SpecError, match="got 0 models"):
        write_bundle(tmp_path / "model", [], card_of())
    assert list(tmp_path.iterdir()) == []


def test_damage_of_any_member_is_found(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write_bundle(path, [model_of(card_of(), seed=seed) for seed in range(3)], card_of())
    whole, content = (path / "member-3.safetensors").read_bytes(), description(path)
    (path / "member-3.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "member-3.safetensors does not match its checksum" in refused(path)
    (path / "member-3.safetensors").unlink()
    assert "member-3.safetensors is missing" in refused(path)
    double = save({name: tensor.double() for name, tensor in load(whole).items()})
    (path / "member-3.safetensors").write_bytes(double)
    forge(path, lambda content: content["other_members"][1].update(sha256=hashlib.sha256(double).hexdigest()))
    assert "different types" in refused(path)
    first = content["weights"]
    for forged, message in (
        ([first], "1 of them different"),  # the same file many times would take memory without taking space
        ([{"file": "../x", "sha256": ""}], "a file of the bundle itself"),
        ({}, "other_members is {}; expected a list"),
        ([1], r"other_members[0] is 1"),
        ([{"file": f"{number}", "sha256": ""} for number in range(2000)], "2,001 files"),
    ):
        forge(path, put("other_members", forged))
        assert message in refused(path)
    forge(path, without("other_members"))
    assert "other_members is missing" in refused(path)


def test_all_members_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"
    write_bundle(path, [model_of(card_of(), seed=seed) for seed in range(2)], card_of())
    size = (path / "model.safetensors").stat().st_size
    monkeypatch.setattr(bundle, "MOST_WEIGHTS_BYTES", 2 * size - 1)
    assert f"expected at most {size - 1:,}" in refused(path)


def test_loading_leaves_the_generator_alone(written: Path) -> None:
    state = torch.get_rng_state()
    read_bundle(written)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_fresh_process_loads_only_what_it_needs(written: Path) -> None:
    program = (
        "import sys, pointset\n"
        "from pointset.prediction.predictor import load\n"
        f"print(load({str(written)!r}).target_names)\n"
        "heavy = {'torch_geometric', 'lightning', 'lightning_fabric', 'pydantic', 'rdkit', 'networkx'}\n"
        "heavy |= {'torch._dynamo', 'pandas'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "('logS',)\n"


# --- writing


def test_a_bundle_is_replaced_and_nothing_else(written: Path, tmp_path: Path) -> None:
    before = read_bundle(written).sha256
    write_bundle(written, model_of(card_of(), seed=1), card_of())
    assert read_bundle(written).sha256 != before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1").touch()
    for name in ("thesis", "thesis/chapter1"):
        with pytest.raises(FileFormatError, match="something else is there"):
            write_bundle(tmp_path / name, model_of(card_of()), card_of())
    (tmp_path / "folder.zip").mkdir()
    with pytest.raises(FileFormatError, match="it is a folder"):
        write_bundle(tmp_path / "folder.zip", model_of(card_of()), card_of())
    with pytest.raises(FileFormatError, match="there is no folder"):
        write_bundle(tmp_path / "nowhere" / "model", model_of(card_of()), card_of())


@pytest.mark.parametrize("name", ["model", "other", "other.zip"])
def test_a_full_disk_leaves_what_was_there(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = read_bundle(written).sha256
    monkeypatch.setattr(bundle_files, "_write_file", full)
    monkeypatch.setattr(bundle_files, "_write_archive", full)
    with pytest.raises(OSError, match="No space"):
        write_bundle(tmp_path / name, model_of(card_of(), seed=1), card_of())
    monkeypatch.undo()
    assert read_bundle(written).sha256 == before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_an_old_bundle_returns_where_the_new_one_cannot_take_its_place(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refusing(self: Path, target: Any) -> Path:
        if self.name == "new":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    before = read_bundle(written).sha256
    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(PermissionError):
        write_bundle(written, model_of(card_of(), seed=1), card_of())
    assert read_bundle(written).sha256 == before


def by_hand() -> PointModel:
    model = model_of(card_of())
    return PointModel(model.scalars, model.coordinates, model.encoder, model.readout, matrix="laplacian")


def diverged() -> PointModel:
    model = model_of(card_of())
    with torch.no_grad():
        model.readout.linear.bias[0] = torch.nan
    return model


@pytest.mark.parametrize(
    ("model", "card", "options", "message"),
    [
        pytest.param(by_hand, card_of(), {}, "put together by hand", id="by hand"),
        pytest.param(diverged, card_of(), {}, "readout.linear.bias are not finite", id="diverged"),
        pytest.param(lambda: model_of(card_of()), card_of(names=("a", "b")), {}, "gives 1 numbers", id="outputs"),
        pytest.param(lambda: model_of(card_of()), card_of(level=Level.NODE), {}, "each graph", id="level"),
        pytest.param(lambda: model_of(card_of()), card_of(names=()), {}, "no targets", id="no targets"),
        pytest.param(lambda: model_of(card_of()), card_of(Task.BINARY), {"scale": SCALE}, "scale", id="scale"),
        pytest.param(lambda: model_of(card_of()), card_of(), {"about": {"a": Path()}}, "about=", id="no JSON"),
    ],
)
def test_what_could_not_predict_is_not_written(
    tmp_path: Path, model: Callable[[], PointModel], card: Card, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        write_bundle(tmp_path / "model", model(), card, **options)
    with pytest.raises(FileFormatError, match="molecule_reader"):
        write_bundle(tmp_path / "model", model_of(card_of()), card_of(), molecule_reader={"hydrogen": 1})
    assert list(tmp_path.iterdir()) == []


# --- reading what is damaged, forged or not there


def test_damaged_files_are_found(written: Path) -> None:
    weights = (written / "model.safetensors").read_bytes()
    for damaged in (
        weights[:-1],
        weights[: len(weights) // 2],
        b"",
        bytes([weights[0] ^ 1]) + weights[1:],
        weights + b"x",
    ):
        (written / "model.safetensors").write_bytes(damaged)
        assert "checksum" in refused(written)
    (written / "model.safetensors").unlink()
    assert "model.safetensors is missing" in refused(written)


def test_a_changed_description_is_found(written: Path) -> None:
    text = (written / "bundle.json").read_text()
    (written / "bundle.json").write_text(text.replace('"logS"', '"logP"'))
    assert "does not match its checksum" in refused(written)
    for damaged in (text[:-5], "", "[]", "{}", "null", "\0", "[" * 100_000, '{"a": 1e999}'):
        (written / "bundle.json").write_text(damaged)
        refused(written)
    (written / "bundle.json").write_bytes(b"\xff\xfe")
    refused(written)


def test_a_newer_bundle_says_to_upgrade(written: Path) -> None:
    forge(written, lambda content: content.update(version=5, pointset="9.9"))
    message = refused(written)
    assert "version 5" in message and "9.9" in message and "pip install -U pointset" in message


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for key in outer:
            content = content[key]
        content[last] = value

    return change


def without(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda content: content.pop(key)


FORGED: list[tuple[str, Any]] = [
    ("version", "1"),
    ("version", True),
    ("version", None),
    ("model", []),
    ("model.dim", "64"),
    ("model.dim", 0),
    ("model.dim", 7),
    ("model.dim", 10**12),
    ("model.layers", 10**12),
    ("model.layers", 1),
    ("model.layers", 3),
    ("model.preset", "gpt"),
    ("model.preset", "psds"),
    ("model.level", "edge"),
    ("model.level", "node"),
    ("model.pooling", None),
    ("model.out", 2),
    ("model.node", {"categories": [10**15]}),
    ("model.node", {"categories": []}),
    ("model.node", {"categories": [True]}),
    ("model.node", {"words": 3}),
    ("model.edge", {"reals": 10**12}),
    ("model.edge", 5),
    ("card", None),
    ("card.task", "guessing"),
    ("card.metric", ["mae"]),
    ("card.targets", {}),
    ("card.targets", [{"name": 3, "unit": "", "meaning": ""}]),
    ("card.targets", [{"name": "x"}]),
    ("card.classes", "abc"),
    ("card.positions", "no"),
    ("card.molecules", 3),
    ("scale", {"mean": [0.0], "std": [0.0]}),
    ("scale", {"mean": [0.0, 1.0], "std": [1.0, 1.0]}),
    ("scale", {"mean": ["0"], "std": [1.0]}),
    ("scale", {"mean": [1e400], "std": [1.0]}),
    ("weighted_edges", -1),
    ("weighted_edges", "0"),
    ("molecule_reader", {"conformer_seed": -5}),
    ("molecule_reader", [1]),
    ("molecule_reader", {"code": "import os"}),
    ("weights", {}),
    ("weights.file", "../model/model.safetensors"),
    ("weights.file", "/etc/passwd"),
    ("weights.file", ".."),
    ("weights.file", "bundle.json"),
    ("weights.sha256", 0),
]


@pytest.mark.parametrize(("path", "value"), FORGED, ids=[f"{path}={value}" for path, value in FORGED])
def test_forged_descriptions_are_refused(written: Path, path: str, value: Any) -> None:
    forge(written, put(path, value))
    assert refused(written)


def test_a_description_with_a_key_less_is_refused(written: Path) -> None:
    content = description(written)
    for key in ("model", "card", "scale", "weighted_edges", "molecule_reader", "about", "weights"):
        forge(written, without(key))
        assert f"{key} is missing" in refused(written)
        (written / "bundle.json").write_text(json.dumps(content))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150)
@given(path=st.sampled_from(sorted({path for path, _ in FORGED})), value=plain)
def test_no_value_gives_a_foreign_error(tmp_path_factory: pytest.TempPathFactory, path: str, value: Any) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    if not folder.exists():
        write_bundle(folder, model_of(card_of()), card_of())
    text = (folder / "bundle.json").read_text()
    try:
        forge(folder, put(path, value))
        assert whether_read(folder) in (True, False)
    finally:
        (folder / "bundle.json").write_text(text)


def test_weights_that_are_no_weights_are_refused(written: Path) -> None:
    tensors = load((written / "model.safetensors").read_bytes())
    name = "readout.linear.bias"
    for wrong, message in (
        (tensors | {name: torch.tensor([torch.nan])}, "not finite"),
        (tensors | {name: torch.zeros(2)}, r"readout.linear.bias has shape \(2,\); expected \(1,\)"),
        (tensors | {name: torch.zeros(1, dtype=torch.float64)}, "of types"),
        ({key: tensor.to(torch.int64) for key, tensor in tensors.items()}, "of types"),
        (tensors | {"extra": torch.zeros(1)}, "extra has shape"),
        ({key: tensor for key, tensor in tensors.items() if key != name}, "None; expected"),
        ({}, "types"),
    ):
        forge_weights(written, save(wrong))
        with pytest.raises(FileFormatError, match=message):
            read_bundle(written)
    forge_weights(written, b"\x08\0\0\0\0\0\0\0garbage!")
    assert "is not a safetensors file" in refused(written)


def test_archives_that_are_traps_are_refused(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = tmp_path / "trap.zip"
    with zipfile.ZipFile(trap, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(written / "bundle.json", "bundle.json")
        archive.writestr("model.safetensors", bytes(20_000_000))
    assert "would unpack to 20,000,000 bytes" in refused(trap)
    with zipfile.ZipFile(trap, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bundle.json", b" " * 17_000_000)
    assert "expected at most" in refused(trap)
    with warnings.catch_warnings(), zipfile.ZipFile(trap, "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.write(written / "bundle.json", "bundle.json")
    assert "2 times" in refused(trap)
    with zipfile.ZipFile(trap, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "0 times" in refused(trap)
    monkeypatch.setattr(bundle, "MOST_WEIGHTS_BYTES", 10)
    assert "expected at most 10" in refused(written)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    write_bundle(path, model_of(card_of()), card_of())
    whole = path.read_bytes()
    read: list[bool] = []
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        read.append(whether_read(path))  # also where the byte says nothing: a date, an attribute
    assert read.count(False) > len(read) / 2
    for size in (0, 1, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(path)


def test_what_is_no_bundle_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no"):
        read_bundle(tmp_path / "nothing")
    assert "holds no bundle" in refused(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    assert "is not a bundle" in refused(tmp_path / "notes.txt")
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").touch()
    assert "pointset train --resume --run-dir" in refused(run)
    many = tmp_path / "many"
    for seed in range(2):
        (many / f"seed-{seed}").mkdir(parents=True)
        write_bundle(many / f"seed-{seed}" / "bundle", model_of(card_of()), card_of())
    assert "several runs: seed-0, seed-1" in refused(many)


def test_a_folder_in_the_place_of_a_file_is_an_error(written: Path) -> None:
    (written / "model.safetensors").unlink()
    (written / "model.safetensors").mkdir()
    with pytest.raises(PointsetError, match="missing"):
        read_bundle(written)
