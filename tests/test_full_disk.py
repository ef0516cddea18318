"""A full disk: one line that names the file and the remedy, the old file stays, nothing half written is left."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch

from pointset.files import naming, replacing, write_json
from pointset.points.store import PointStore
from pointset.prediction import ResumableOutput
from pointset.training.bundle import write_bundle
from pointset.training.checkpoint import ProgressRecord, save_checkpoint
from pointset.training.run import train
from tests.command_line import invoke
from tests.small_models import model_of, molecule_card
from tests.small_training import changed, edge_counts, write_graphs

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
SAID = "No space left on device. Free some space, or write to another disk"


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync reports it, as some file systems do: every whole file is synchronised before it takes its name."""
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(FULL))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Graphs, molecules, and a model."""
    monkeypatch.chdir(tmp_path)
    Path("graphs.g6").write_bytes(b"".join(nx.to_graph6_bytes(nx.path_graph(n), header=False) for n in range(3, 9)))
    Path("molecules.csv").write_text("smiles,y\nCCO,1\nCCN,2\nC,3\nbad,4\n" + "CC,5\nCO,6\n" * 9)
    write_bundle("model", model_of(molecule_card()), molecule_card())
    return tmp_path


WRITERS = {
    **{f"convert to {end}": f"convert graphs.g6 out.{end}" for end in ("safetensors", "graphml", "pt", "csv", "s6")},
    "predict": "predict model molecules.csv -o out.csv --workers 0",
    "embed": "embed model molecules.csv -o out.tsv --workers 0",
    **{f"explain to {end}": f"explain solubility CCO -o out.{end}" for end in ("svg", "html", "csv")},
    "picture": "inspect graphs.g6 --picture out.svg",
    "datasets check": "datasets check molecules.csv --smiles smiles --target y --max-rejected 1 --rejected out.csv",
    "invariance": "check-invariance model molecules.csv --json out.json",
}


@pytest.mark.filterwarnings("ignore:cannot keep the dataset")
@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_names_the_file(folder: Path, no_room: None, name: str) -> None:
    words = WRITERS[name].split()
    output = next(word for word in words if word.startswith("out."))
    before = {path.name for path in folder.iterdir()}
    _, warned = invoke(*words, code=2 if words[0] == "check-invariance" else 1)
    assert f"Error: {output}: {SAID}" in warned
    assert {path.name for path in folder.iterdir()} - before == set()


def test_a_folder_of_graphs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.datasets.graph_files.graphml.write", lambda *_: (_ for _ in ()).throw(FULL))
    assert f"Error: out: {SAID}" in invoke("convert", "graphs.g6", "out", code=1)[1] and not Path("out").exists()


def test_it_is_the_old_file_that_stays(tmp_path: Path, no_room: None) -> None:
    file = tmp_path / "old.json"
    file.write_text("old")
    with pytest.raises(OSError, match="No space left") as caught:
        write_json(file, {"new": 1})
    assert caught.value.filename == str(file) and caught.value.errno == errno.ENOSPC
    assert file.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["old.json"]


def test_other_errors_keep_what_they_say(tmp_path: Path) -> None:
    for error in (PermissionError(13, "Permission denied", "other"), BrokenPipeError(32, "Broken pipe"), ValueError()):
        with pytest.raises(type(error)) as caught, naming(tmp_path / "file"):
            raise error
        assert caught.value is error


def test_safetensors_own_error_becomes_the_systems(tmp_path: Path) -> None:
    """What it wraps is a text; here it comes from safetensors itself, which finds no folder to write to."""
    from safetensors.torch import save_file

    with pytest.raises(OSError, match="No such file") as caught, naming(tmp_path / "file"):
        save_file({"a": torch.zeros(1)}, tmp_path / "nowhere" / "file")
    assert caught.value.errno == errno.ENOENT and caught.value.filename == str(tmp_path / "file")


def test_training_resumes_once_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    recipe = write_graphs(tmp_path / "data", edge_counts())
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe.as_yaml())
    words = ["train", file, "--run-dir", tmp_path / "run", "--device", "cpu", "--progress", "quiet"]
    saved = []

    def failing(path: Path, *arguments: Any) -> None:
        saved.append(path)
        if len(saved) > 4:  # two epochs, each with the best and the last weights: this is the third time
            with replacing(path):
                raise FULL
        save_checkpoint(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr("pointset.training.loop.save_checkpoint", failing)
        _, warned = invoke(*words, "trainer.checkpoint_minutes=0", code=1)
    assert f"checkpoints/best.safetensors: {SAID}. Resume with --resume." in warned
    invoke("train", "--resume", *words[2:])
    train(changed(recipe, trainer__checkpoint_minutes=0.0), tmp_path / "unbroken", device="cpu", watch="quiet")
    weights = [(tmp_path / name / "bundle" / "model.safetensors").read_bytes() for name in ("run", "unbroken")]
    assert weights[0] == weights[1]


# --- a disk that is really full


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system in memory, of this size; skipped where this process may not mount one."""
    place.mkdir()
    mount = shutil.which("mount")
    if sys.platform != "linux" or os.geteuid() != 0 or mount is None:
        pytest.skip("only root may mount a small file system, under Linux")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(disk: Path) -> None:
    """To the last page."""
    if left := shutil.disk_usage(disk).free:
        (disk / "filler").write_bytes(bytes(left))
    assert shutil.disk_usage(disk).free == 0


def checkpoint(path: Path) -> None:
    save_checkpoint(path, {"model": {"weight": torch.zeros(50_000)}}, ProgressRecord())


def rows(path: Path) -> None:
    output = ResumableOutput(path)
    try:
        output.begin({}, ["id"])
        output.append("x" * 500_000 + "\n", output.progress)
        output.save()
    finally:
        output.close()


REAL: dict[str, Callable[[Path], object]] = {
    "file.safetensors": checkpoint,
    "bundle": lambda path: write_bundle(path, model_of(molecule_card()), molecule_card()),
    "bundle.zip": lambda path: write_bundle(path, model_of(molecule_card()), molecule_card()),
    "rows.csv": rows,
    "table.json": lambda path: write_json(path, ["x" * 500_000]),
}


def test_a_disk_that_is_really_full(folder: Path) -> None:
    with small_disk(folder / "disk", "256k") as disk:
        for name, write in REAL.items():
            fill(disk)
            with pytest.raises(OSError, match="No space left on device") as caught:
                write(disk / name)
            assert caught.value.filename == str(disk / name), name
            assert [path.name for path in disk.iterdir()] == ["filler"], name
        for end in ("safetensors", "pt", "graphml"):
            _, warned = invoke("convert", "graphs.g6", disk / f"out.{end}", code=1)
            assert f"disk/out.{end}: {SAID}" in warned
        with pytest.raises(Exception, match=r"cannot write eigenpairs to .*No space left.*POINTSET_CACHE"):
            pointset_of(disk)
        (disk / "filler").unlink()
        assert len(pointset_of(disk).ranks) == 1


def pointset_of(disk: Path) -> Any:
    from pointset.points.inputs import read_graphs

    return PointStore(disk / "store").eigenpairs(read_graphs([nx.path_graph(4)]), progress=False)
