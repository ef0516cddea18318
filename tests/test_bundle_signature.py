"""Signed bundles: whoever has the public key knows that a model is the one that was signed, or gets one clear error."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import pointset
from pointset.errors import FileFormatError, MissingDataError, MissingExtraError, SignatureError
from pointset.training import bundle
from pointset.training.bundle import read_bundle, write_bundle
from pointset.training.run import train
from tests.command_line import ended, invoke
from tests.small_models import card_of, model_of
from tests.small_training import changed, edge_counts, write_graphs

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from pointset.training import bundle_signature
from pointset.training.bundle_signature import SIGNATURE, new_key, public_beside, sign_bundle, verify_bundle

NAMES = ("bundle.json", "model.safetensors")
PEM = serialization.Encoding.PEM
PKCS8, PUBLIC = serialization.PrivateFormat.PKCS8, serialization.PublicFormat.SubjectPublicKeyInfo


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key; its public key is beside it."""
    new_key(tmp_path / "lab.key")
    return tmp_path / "lab.key"


@pytest.fixture
def public(key: Path) -> Path:
    return public_beside(key)


@pytest.fixture(params=["model", "model.zip"])
def signed(request: pytest.FixtureRequest, tmp_path: Path, key: Path) -> Path:
    """A signed bundle, as a folder and as a zip."""
    path = tmp_path / str(request.param)
    write_bundle(path, model_of(card_of()), card_of())
    sign_bundle(path, key)
    return path


def contents(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, files: dict[str, bytes]) -> None:
    """As somebody does who packs a bundle again with whatever files."""
    if path.is_dir():
        shutil.rmtree(path)
        path.mkdir()
        for name, content in files.items():
            (path / name).write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)


def forged(files: dict[str, bytes]) -> dict[str, bytes]:
    """With another name of the target, and the checksum put right."""
    content = json.loads(files["bundle.json"])
    content["card"]["targets"][0]["name"] = "logP"
    content["sha256"] = bundle._digest(content)
    return files | {"bundle.json": json.dumps(content).encode()}


def refused(path: Path, public: Path) -> str:
    """What both ways to check say, which is the same."""
    with pytest.raises(SignatureError) as caught:
        verify_bundle(path, public)
    with pytest.raises(SignatureError) as loading:
        pointset.load(path, public_key=public)
    assert str(caught.value) == str(loading.value) and path.name in str(caught.value)
    return str(caught.value)


# --- good signatures


def test_a_signed_bundle_is_verified_and_loaded(signed: Path, public: Path) -> None:
    found = verify_bundle(signed, public)
    assert found.path == signed and found.files == NAMES and found.key.startswith("SHA256:")
    graphs = [nx.path_graph(4)]
    once, again = pointset.load(signed, public_key=public), pointset.load(signed)
    assert once.predict(graphs, progress=False).equal(again.predict(graphs, progress=False))


def test_a_signature_is_replaced_and_goes_with_its_bundle(signed: Path, public: Path, tmp_path: Path) -> None:
    before = contents(signed)
    new_key(tmp_path / "other.key")
    sign_bundle(signed, tmp_path / "other.key")
    assert {name: contents(signed)[name] for name in NAMES} == {name: before[name] for name in NAMES}
    assert verify_bundle(signed, tmp_path / "other.key.pub").files == NAMES
    assert "is signed with another key" in refused(signed, public)
    write_bundle(signed, model_of(card_of()), card_of())
    assert "is not signed" in refused(signed, public)


def test_members_of_an_ensemble_are_signed(tmp_path: Path, key: Path, public: Path) -> None:
    write_bundle(tmp_path / "two.zip", [model_of(card_of(), seed=seed) for seed in range(2)], card_of())
    assert sign_bundle(tmp_path / "two.zip", key).files == ("bundle.json", "member-2.safetensors", "model.safetensors")
    assert len(pointset.load(tmp_path / "two.zip", public_key=public).models) == 2
    files = contents(tmp_path / "two.zip")
    rewrite(tmp_path / "two.zip", files | {"member-2.safetensors": files["model.safetensors"]})
    assert "member-2.safetensors was changed" in refused(tmp_path / "two.zip", public)


def test_a_folder_that_was_zipped_by_hand_is_still_signed(tmp_path: Path, key: Path, public: Path) -> None:
    write_bundle(tmp_path / "model", model_of(card_of()), card_of())
    sign_bundle(tmp_path / "model", key)
    rewrite(tmp_path / "hand.zip", {f"model/{name}": text for name, text in contents(tmp_path / "model").items()})
    assert verify_bundle(tmp_path / "hand.zip", public).files == NAMES


# --- forgery


def test_what_was_changed_is_named(signed: Path, public: Path) -> None:
    files = contents(signed)
    rewrite(signed, forged(files))
    assert pointset.load(signed).target_names == ("logP",)  # checksums alone do not see it
    assert "bundle.json was changed after the bundle was signed" in refused(signed, public)
    rewrite(signed, files | {"model.safetensors": files["model.safetensors"][:-1] + b"\1"})
    assert "model.safetensors was changed" in refused(signed, public)
    rewrite(signed, files | {"readme.txt": b"trust me"})
    assert "readme.txt was added" in refused(signed, public)
    rewrite(signed, {name: text for name, text in files.items() if name != "model.safetensors"})
    assert "model.safetensors is missing" in refused(signed, public)
    rewrite(signed, {name: text for name, text in files.items() if name != SIGNATURE})
    assert "is not signed" in refused(signed, public)
    rewrite(signed, dict(reversed(files.items())))
    assert verify_bundle(signed, public).files == NAMES


def test_the_signature_of_another_bundle_is_refused(signed: Path, key: Path, public: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "other.zip", model_of(card_of(), seed=1), card_of())
    sign_bundle(tmp_path / "other.zip", key)
    rewrite(signed, contents(signed) | {SIGNATURE: contents(tmp_path / "other.zip")[SIGNATURE]})
    assert "bundle.json was changed" in refused(signed, public)


def test_a_list_that_fits_the_files_is_not_enough(signed: Path, public: Path) -> None:
    files = forged(contents(signed))
    stated = json.loads(files[SIGNATURE])
    stated["files"] = bundle_signature._digests(files)
    rewrite(signed, files | {SIGNATURE: json.dumps(stated).encode()})
    assert "signature.json was changed, or was not made with the key" in refused(signed, public)


CHANGES: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("another field", lambda stated: stated.update(signed_by="somebody famous")),
    ("a field less", lambda stated: stated.pop("key")),
    ("another format", lambda stated: stated.update(format="something")),
    ("a later version", lambda stated: stated.update(version=2)),
    ("no list", lambda stated: stated.update(files=[])),
    ("a digest that is none", lambda stated: stated["files"].update({"bundle.json": "abc"})),
    ("a digest that is a number", lambda stated: stated["files"].update({"bundle.json": 5})),
    ("a name with a line feed", lambda stated: stated["files"].update({"a\nb": "0" * 64})),
    ("a file more", lambda stated: stated["files"].update({"more.txt": "0" * 64})),
    ("itself", lambda stated: stated["files"].update({SIGNATURE: "0" * 64})),
    ("a signature that is no base64", lambda stated: stated.update(signature="!!")),
    ("a signature that is a list", lambda stated: stated.update(signature=[])),
    ("an empty signature", lambda stated: stated.update(signature="")),
    ("another signature", lambda stated: stated.update(signature=base64.b64encode(bytes(64)).decode())),
    ("another key", lambda stated: stated.update(key="SHA256:abc")),
    ("a key that is a number", lambda stated: stated.update(key=1)),
]


@pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES])
def test_a_changed_signature_file_is_refused(
    tmp_path: Path, key: Path, public: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path = tmp_path / "model"
    write_bundle(path, model_of(card_of()), card_of())
    sign_bundle(path, key)
    stated = json.loads((path / SIGNATURE).read_text())
    change(stated)
    (path / SIGNATURE).write_text(json.dumps(stated))
    assert len(refused(path, public)) < 500
    for garbage in (b"", b"[]", b"\xff", b"null", b"[" * 100_000):
        (path / SIGNATURE).write_bytes(garbage)
        assert "signature.json is damaged, or someone changed it" in refused(path, public)


def test_nothing_is_parsed_before_the_signature_is_good(signed: Path, public: Path) -> None:
    rewrite(signed, contents(signed) | {"bundle.json": b"[" * 100_000, "model.safetensors": b"\xff" * 16})
    assert "bundle.json was changed" in refused(signed, public)
    with pytest.raises(FileFormatError, match="is not JSON"):
        read_bundle(signed)


def test_what_was_verified_is_what_is_loaded(signed: Path, public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def then_exchanged(files: Any, public_key: Path) -> Any:
        found = bundle_signature.verify(files, public_key)
        write_bundle(signed, model_of(card_of(names=("forged",)), seed=1), card_of(names=("forged",)))
        return found

    monkeypatch.setattr(bundle, "verify", then_exchanged)
    assert read_bundle(signed, public_key=public).card.target_names == ("logS",)
    assert read_bundle(signed).card.target_names == ("forged",)


def test_files_that_are_there_twice_are_refused(tmp_path: Path, key: Path, public: Path) -> None:
    path = tmp_path / "model.zip"
    write_bundle(path, model_of(card_of()), card_of())
    sign_bundle(path, key)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("other/bundle.json", b"{}")
    with pytest.raises(FileFormatError, match=r"model\.zip holds 'bundle.json', which .* is there twice"):
        verify_bundle(path, public)
    folder = tmp_path / "model"
    write_bundle(folder, model_of(card_of()), card_of())
    (folder / "inner").mkdir()
    with pytest.raises(FileFormatError, match=r"model holds 'inner', which is a folder"):
        sign_bundle(folder, key)


# --- what is signed


def test_what_cannot_be_loaded_is_not_signed(tmp_path: Path, key: Path) -> None:
    path = tmp_path / "model"
    write_bundle(path, model_of(card_of()), card_of())
    (path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(FileFormatError, match="does not match its checksum"):
        sign_bundle(path, key)
    assert not (path / SIGNATURE).exists()
    with pytest.raises(MissingDataError, match="there is no hydration; expected the folder of a run, or a bundle"):
        sign_bundle("hydration", key)  # which belongs to the package


def test_a_full_disk_leaves_the_bundle_as_it_was(
    signed: Path, key: Path, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = contents(signed)
    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space"):
        sign_bundle(signed, key)
    monkeypatch.undo()
    assert contents(signed) == before and verify_bundle(signed, public).files == NAMES


# --- keys


def test_a_private_key_is_for_its_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    assert new_key(tmp_path / "a.key") != new_key(tmp_path / "b.key")
    if os.name == "posix":
        assert (tmp_path / "a.key").stat().st_mode & 0o777 == 0o600
    text = (tmp_path / "a.key").read_bytes()
    with pytest.raises(FileFormatError, match=r"a\.key exists already"):
        new_key(tmp_path / "a.key")
    (tmp_path / "c.key.pub").write_text("mine")
    with pytest.raises(FileFormatError, match=r"c\.key\.pub exists already"):
        new_key(tmp_path / "c.key")
    assert (tmp_path / "a.key").read_bytes() == text and not (tmp_path / "c.key").exists()
    with pytest.raises(OSError, match="nowhere"):
        new_key(tmp_path / "nowhere" / "d.key")


@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path, key: Path) -> None:
    write_bundle(tmp_path / "model", model_of(card_of()), card_of())
    for mode in (0o644, 0o640, 0o604, 0o620):
        key.chmod(mode)
        with pytest.raises(FileFormatError, match=rf"its mode is {mode:o}.*expected 600.*chmod 600"):
            sign_bundle(tmp_path / "model", key)
    key.chmod(0o400)
    assert sign_bundle(tmp_path / "model", key).files == NAMES


def test_wrong_key_files_say_what_was_expected(tmp_path: Path, key: Path, public: Path) -> None:
    path = tmp_path / "model.zip"
    write_bundle(path, model_of(card_of()), card_of())
    sign_bundle(path, key)
    rsa, own = generate_private_key(65537, 2048), Ed25519PrivateKey.generate()
    none, locked = serialization.NoEncryption(), serialization.BestAvailableEncryption(b"secret")
    files = {
        "garbage": b"\x00\xffgarbage",
        "empty": b"",
        "rsa": rsa.private_bytes(PEM, PKCS8, none),
        "rsa.pub": rsa.public_key().public_bytes(PEM, PUBLIC),
        "locked": own.private_bytes(PEM, PKCS8, locked),
        "cut": key.read_bytes()[:60],
        "cut.pub": public.read_bytes()[:60],
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text)
        (tmp_path / name).chmod(0o600)
    for name, message in (
        ("lab.key", "is a private key; expected the public one, which stands beside it"),
        ("garbage", "is not a key file; expected a public key"),
        ("empty", "is not a key file"),
        ("cut.pub", "is not a key file"),
        ("rsa.pub", "is a key of another kind; expected Ed25519"),
        ("rsa", "is a private key"),
        ("nothing.pub", "there is no file .*nothing.pub; expected a public key"),
    ):
        with pytest.raises((FileFormatError, MissingDataError), match=message):
            verify_bundle(path, tmp_path / name)
    (tmp_path / "lab.key.pub").chmod(0o600)
    for name, message in (
        ("lab.key.pub", "is a public key; expected the private key"),
        ("garbage", "is not a key file; expected the private key"),
        ("cut", "is a damaged key file"),
        ("rsa", "is a key of another kind; expected Ed25519"),
        ("locked", "is protected by a password"),
        ("nothing.key", "there is no file .*nothing.key; expected a private key"),
        ("", "there is no file"),
    ):
        with pytest.raises((FileFormatError, MissingDataError), match=message):
            sign_bundle(path, tmp_path / name)
    assert verify_bundle(path, public).files == NAMES


def test_without_the_package_the_message_says_how_to_install_it(
    tmp_path: Path, key: Path, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.zip"
    write_bundle(path, model_of(card_of()), card_of())
    sign_bundle(path, key)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for use in (
        lambda: new_key(tmp_path / "new.key"),
        lambda: sign_bundle(path, key),
        lambda: verify_bundle(path, public),
        lambda: pointset.load(path, public_key=public),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[sign\]'"):
            use()
    assert pointset.load(path).target_names == ("logS",)


# --- on the shell


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("trained")
    recipe = changed(write_graphs(folder, edge_counts()), trainer__epochs=1)
    train(recipe, folder / "run", watch="quiet")
    return folder / "run"


def test_keys_signatures_and_checks_on_the_shell(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, "run")
    assert "lab.key.pub: the public key, to hand on; SHA256:" in invoke("bundle", "keygen", "lab.key")[0]
    assert "lab.key exists already" in invoke("bundle", "keygen", "lab.key", code=1)[1]
    assert "is not signed" in invoke("bundle", "verify", "run", "--key", "lab.key.pub", code=1)[1]
    said = invoke("bundle", "sign", "run", "--key", "lab.key")[0]
    assert said.startswith(
        f"{Path('run/bundle')}: signed 3 files (bundle.json, model.safetensors, uncertainty.safetens"
    )
    assert "good signature of 3 files" in invoke("bundle", "verify", "run", "--key", "lab.key.pub")[0]
    with Path("run/bundle/model.safetensors").open("ab") as file:
        file.write(b"x")
    said = invoke("bundle", "verify", "run", "--key", "lab.key.pub", code=1)[1]
    assert "model.safetensors was changed after the bundle was signed" in said


def test_every_command_that_loads_a_model_can_require_a_signature(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, "run")
    graphs = run.parent / "graphs.g6"
    invoke("bundle", "keygen", "lab.key")
    require = ("--require-signature", "lab.key.pub")
    commands: list[tuple[Any, ...]] = [
        ("predict", "run", graphs, "-o", "out.csv", "--overwrite"),
        ("embed", "run", graphs, "-o", "vectors.csv", "--overwrite"),
        ("evaluate", "run"),
        ("check-invariance", "run", graphs, "--limit", "5"),
        ("explain", "run", "CCO"),
    ]
    for words in commands:
        code, said = ended(*words, *require)
        assert code in (1, 2) and "run/bundle is not signed" in said.replace("\\", "/"), words
    assert not list(tmp_path.glob("*.csv*"))
    invoke("bundle", "sign", "run", "--key", "lab.key")
    for words in commands[:-1]:
        assert ended(*words, *require)[0] == 0, words
    assert "not molecules" in ended(*commands[-1], *require)[1]  # its model was loaded
    monkeypatch.setenv("POINTSET_REQUIRE_SIGNATURE", "lab.key.pub")
    assert ended(*commands[0])[0] == 0
    shutil.rmtree("run/bundle")
    write_bundle("run/bundle", model_of(card_of()), card_of())
    for words in commands:
        assert "is not signed" in ended(*words)[1], words
