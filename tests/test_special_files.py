"""Pipes, sockets and devices are refused at once, by every reader and command: nothing waits, nothing fills up."""

from __future__ import annotations

import ast
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pointset.arrays import read_arrays
from pointset.cli.main import app
from pointset.datasets.cache import FileContent, file_digest
from pointset.datasets.graph_files.formats import FORMATS, read_graph_file
from pointset.datasets.own.descriptor_table import read_descriptors
from pointset.datasets.own.table_files import open_table
from pointset.datasets.safe_pickle import read_pickle, read_torch
from pointset.datasets.splits.files import split_from_file
from pointset.errors import FileFormatError, PointsetError
from pointset.files import check_regular, open_binary, open_text, read_bytes, read_json, read_text
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.spec import table_named
from pointset.points.point_files import read_points
from pointset.runs.recipe_files import read_recipe
from pointset.runs.records import read_columns, read_run
from pointset.training.bundle import read_bundle
from pointset.training.checkpoint import read_checkpoint
from pointset.training.run import train
from tests.command_line import ended, invoke
from tests.small_training import changed, edge_counts, write_graphs

pytestmark = [
    pytest.mark.timeout(30),  # a reader that waits would wait for ever
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in the file system"),
]
SOURCE = Path(__file__).parents[1] / "src" / "pointset"
Place = Callable[[str], Path]


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.fixture(params=["pipe", "socket", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Makes one with a given name: a pipe, a Unix socket, or a link to a link to /dev/zero."""
    sockets = []

    def make(name: str) -> Path:
        path = tmp_path / name
        if request.param == "pipe":
            return pipe(path)
        if request.param == "device":
            (tmp_path / "zeros").symlink_to("/dev/zero")
            path.symlink_to(tmp_path / "zeros")
            return path
        sockets.append(socket.socket(socket.AF_UNIX))
        monkeypatch.chdir(tmp_path)  # a socket's path has at most 108 characters
        sockets[-1].bind(name)
        return path

    yield make
    for one in sockets:
        one.close()


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    **{f"graphs {suffix}": (f"a{suffix}", lambda path: list(read_graph_file(path))) for suffix in FORMATS},
    **{
        f"table {suffix}": (f"a{suffix}", lambda path: list(open_table(path).rows()))
        for suffix in (".csv", ".tsv", ".smi", ".csv.gz", ".sdf", ".sdf.gz", ".xlsx", ".parquet")
    },
    **{
        f"split {suffix}": (f"a{suffix}", lambda path: split_from_file(path, 3)) for suffix in (".json", ".npz", ".csv")
    },
    "descriptors": ("a.csv", read_descriptors),
    "points": ("a.safetensors", read_points),
    "arrays": ("a.npz", lambda path: read_arrays(path, ["x"])),
    "pickle": ("a.pkl", read_pickle),
    "torch": ("a.pt", read_torch),
    "recipe": ("a.yaml", read_recipe),
    "table of the paper": ("a.yaml", table_named),
    "results of a table": ("a.json", read_table),
    "json": ("a.json", read_json),
    "columns": ("metrics.csv", read_columns),
    "checkpoint": ("last.safetensors", read_checkpoint),
    "bundle": ("a.zip", read_bundle),
    "bundle without suffix": ("a", read_bundle),
    "digest": ("a", file_digest),
    "content": ("a", lambda path: FileContent(path).content),
    "open_binary": ("a", open_binary),
    "open_text": ("a", open_text),
    "read_bytes": ("a", read_bytes),
    "read_text": ("a", read_text),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_at_once(special: Place, reader: str) -> None:
    name, read = READERS[reader]
    with pytest.raises(PointsetError, match=r"is a (pipe \(FIFO\)|socket|device); expected a regular file"):
        read(special(name))


def test_a_pipe_that_takes_the_files_place_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pipe(tmp_path / "a.csv")
    monkeypatch.setattr("pointset.files.check_regular", lambda path: None)  # as if it came just after that look
    with pytest.raises(FileFormatError, match="is a pipe"):
        open_binary(path)


def test_regular_files_links_and_folders_are_as_before(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\n")
    (tmp_path / "b").symlink_to("a")
    assert read_bytes(tmp_path / "b") == b"one\r\ntwo\n"
    assert read_bytes(tmp_path / "b", 3) == b"one"
    assert read_text(tmp_path / "b") == "one\ntwo\n"
    with pytest.raises(FileNotFoundError):
        open_binary(tmp_path / "c")
    with pytest.raises(IsADirectoryError):
        open_binary(tmp_path)
    check_regular(tmp_path)
    check_regular(tmp_path / "c")


def test_in_a_folder_of_graphs_the_others_are_read(special: Place, tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "a.g6").write_bytes(b"C~\n")
    special("b.g6").rename(folder / "b.g6")
    good, bad = read_graph_file(folder)
    assert good.problem is None
    assert bad.problem is not None and "expected a regular file" in bad.problem
    stdout, stderr = invoke("inspect", folder)
    assert "b.g6" in stderr and "expected a regular file" in stderr and "a.g6" in stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    recipe = write_graphs(tmp_path_factory.mktemp("data"), edge_counts())
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(changed(recipe, trainer__epochs=1), folder, device="cpu", watch="quiet")
    return folder


@pytest.mark.parametrize("name", ["recipe.yaml", "result.json", "environment.json", "metrics.csv"])
def test_in_a_run_folder(trained: Path, tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / name).unlink()
    pipe(run / name)
    with pytest.raises(FileFormatError):
        read_run(run)
    assert ended("report", run, "-o", tmp_path / "page.html")[0] == 1


@pytest.mark.parametrize("name", ["bundle.json", "model.safetensors", "uncertainty.safetensors"])
def test_in_a_bundle(trained: Path, tmp_path: Path, name: str) -> None:
    bundle = Path(shutil.copytree(trained / "bundle", tmp_path / "bundle"))
    (bundle / name).unlink()
    pipe(bundle / name)
    with pytest.raises(FileFormatError, match=r"is a pipe|holds no bundle"):
        read_bundle(bundle)


# Commands. What a metavar promises to read is tried; a command or option that comes new fails in the second test.
# {special} is the special file with the suffix that stands before the command; {csv}, {g6} and {recipe} are good files.
COMMANDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("convert", "source"): tuple(f"{suffix} convert {{special}} {{out}}.s6" for suffix in (*FORMATS, ".safetensors")),
    ("inspect", "file"): tuple(f"{suffix} inspect {{special}}" for suffix in (*FORMATS, ".safetensors")),
    ("train", "recipe"): (".yaml train {special} --run-dir {out}",),
    ("train", "settings"): (
        ".csv train molecules dataset.file={special} --run-dir {out}",
        ".csv train molecules dataset.file={csv} dataset.val_file={special} --run-dir {out}",
        ".csv train molecules dataset.file={csv} dataset.test_file={special} --run-dir {out}",
        ".csv train molecules dataset.file={csv} model.descriptors={special} --run-dir {out}",
        ".json train molecules dataset.file={csv} dataset.options.split={special} --run-dir {out}",
        ".g6 train graphs dataset.file={special} dataset.options.targets={csv} --run-dir {out}",
        ".csv train graphs dataset.file={g6} dataset.options.targets={special} --run-dir {out}",
    ),
    ("evaluate", "run"): (".zip evaluate {special} --file {csv}",),
    ("evaluate", "file"): (".csv evaluate solubility --file {special}",),
    ("predict", "run"): (".zip predict {special} {csv} -o {out}.csv", " predict {special} {csv} -o {out}.csv"),
    ("predict", "given"): tuple(
        f"{suffix} predict solubility {{special}} -o {{out}}.csv"
        for suffix in (".csv", ".csv.gz", ".smi", ".sdf", ".xlsx", ".parquet", ".g6")
    ),
    ("predict", "descriptors"): (),  # read_descriptors, above: this needs a model that wants them
    ("embed", "run"): (".zip embed {special} {csv} -o {out}.csv",),
    ("embed", "given"): (
        ".csv embed solubility {special} -o {out}.csv",
        ".sdf embed solubility {special} -o {out}.csv",
    ),
    ("embed", "descriptors"): (),
    ("explain", "run"): (".zip explain {special} CCO -o {out}.svg",),
    ("export", "run"): (".zip export {special} {out}.pt2",),
    ("report", "runs"): (" report {special} -o {out}.html",),
    ("tune", "recipe"): (".yaml tune {special} --trials 1 --run-dir {out}",),
    ("tune", "settings"): (".csv tune molecules dataset.file={special} --trials 1 --run-dir {out}",),
    ("compare", "recipe"): (".yaml compare {special} --models pst,gin --run-dir {out}",),
    ("compare", "settings"): (".csv compare molecules dataset.file={special} --models pst,gin --run-dir {out}",),
    ("reproduce", "table"): (".yaml reproduce {special} --plan",),
    ("results", "keep"): (".json results {folder} --keep {special} -o {out}.md",),
    ("results", "readme"): (".md results {results} --readme {special} -o {out}.md",),
    ("check-invariance", "run"): (".zip check-invariance {special} {csv}",),
    ("check-invariance", "data"): (
        ".csv check-invariance solubility {special}",
        ".g6 check-invariance solubility {special}",
    ),
    ("datasets check", "file"): (
        ".csv datasets check {special}",
        ".sdf datasets check {special}",
        ".g6 datasets check {special}",
    ),
    ("datasets check", "table"): (".csv datasets check {g6} --table {special}",),
    ("recipes show", "name"): (".yaml recipes show {special}",),
    ("express counting", "run"): (".zip express counting {special}",),
    ("express distances", "run"): (".zip express distances {special}",),
}
READ = {
    *("IN", "FILE", "FILE.csv", "FILE.md", "TABLE.json", "RUN", "RUN…", "RECIPE", "INPUT", "DATA", "[TABLE]"),
    "[KEY=VALUE]…",
}
EXPRESS = ("theorems", "brec", "counting", "distances")
WRITING_JSON = ("tune", "compare", "check-invariance", *(f"express {name}" for name in EXPRESS))
NOT_READ = {("recipes show", "settings"), *((command, "json_file") for command in WRITING_JSON)}


@pytest.mark.parametrize("line", [line for lines in COMMANDS.values() for line in lines])
def test_every_command_refuses_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    suffix, _, command = line.partition(" ")
    write_graphs(tmp_path / "data", edge_counts())
    (tmp_path / "good.csv").write_text("smiles,y\n" + "".join(f"{'C' * n}O,{n * 7 % 5}.5\n" for n in range(1, 21)))
    places = {
        "special": pipe(tmp_path / f"special{suffix}"),
        "csv": tmp_path / "good.csv",
        "g6": tmp_path / "data" / "graphs.g6",
        "out": tmp_path / "out",
        "folder": tmp_path / "data",
        "results": Path(__file__).parents[1] / "results",
    }
    code, printed = ended(*(word.format(**places) for word in command.split()))
    assert code and "is a pipe (FIFO); expected a regular file" in printed, printed


def test_the_commands_above_are_all_that_read() -> None:
    def parameters(command: Any, name: str) -> Iterator[tuple[str, str]]:
        for child, inner in getattr(command, "commands", {}).items():
            yield from parameters(inner, f"{name} {child}".strip())
        yield from ((name, one.name) for one in command.params if getattr(one, "metavar", None) in READ)

    assert set(parameters(typer.main.get_command(app), "")) - NOT_READ == set(COMMANDS) - {("recipes show", "name")}


# The source itself: who opens a file without the functions of pointset.files, and why that is well.
OPENS_ITSELF = {
    "files.py": "is the home of the check",
    "points/store.py": "its own files, whose checksums it has just compared",
    "machine.py": "/proc",
    "runs/result.py": "/proc",
    "native/build.py": "/proc, and the compiled kernels, which it makes",
    "reports/pages.py": "a file of the package",
    "runs/folder.py": "a lock, looked at before it is opened",
    "paper/brec.py": "likewise",
    "paper/tables/collect.py": "likewise",
    "prediction/journal.py": "likewise",
    "training/bundle_signature.py": "a key, which it makes",
    "tuning/study.py": "a lock, known to be a file",
}
READING = {"read_bytes", "read_text", "open"}  # of a Path
LOADING = {"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "ZipFile", "safe_open", "load_file", "read_csv"}


def test_no_module_opens_files_by_itself() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _opens(node)
    }
    assert found == set(OPENS_ITSELF)


def _opens(call: ast.Call) -> bool:
    """Whether it reads a file that a path names; writing, and reading what is open, are others' concern."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    words = [ast.unparse(argument) for argument in call.args]
    if isinstance(function, ast.Attribute) and name in READING:
        opened = ast.unparse(function.value)
        if name == "open" and (words[:1] in (["'wb'"], ["'w'"], ["'xb'"]) or opened in ("archive", "gzip", "self")):
            return False
        return opened not in ("file", "source") or name != "open"  # members of archives, and content in memory
    if name == "open":
        return isinstance(function, ast.Name)
    is_path = any(
        "path" in word.lower() and "open_binary" not in word and "read_bytes" not in word for word in words[:1]
    )
    if name == "load" and ast.unparse(function) not in ("np.load", "torch.load"):
        return False
    return name in LOADING and is_path and "'w'" not in words


def test_the_search_finds_what_it_should() -> None:
    bad = ["open(p)", "p.read_text()", "p.open('rb')", "p.open()", "np.load(path)", "zipfile.ZipFile(self.path)"]
    good = [
        "read_text(p)",
        "open_binary(p)",
        "p.open('wb')",
        "archive.open(m)",
        "np.load(file)",
        "zipfile.ZipFile(path, 'w')",
    ]
    for line in (*bad, *good):
        (call,) = (node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call))
        assert _opens(call) == (line in bad), line


def test_dev_null_is_a_device_and_is_refused() -> None:
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(FileFormatError, match="is a device"):
        open_binary("/dev/null")
