"""Where data comes from, in order; what is kept; and what a user reads when it is nowhere."""

from __future__ import annotations

import hashlib
import importlib
import threading
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from pointset import datasets
from pointset.arrays import read_arrays
from pointset.datasets import loading as catalogue
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.sources import Benchmark, Download, Source, find
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, GraphError, MissingDataError, PointsetError, SpecError, StoreWarning

CARD = Card(
    name="tiny",
    title="Tiny",
    description="For tests.",
    level=Level.GRAPH,
    task=Task.REGRESSION,
    targets=(Target("first", "eV"), Target("second")),
    metric=Metric.MAE,
    split="all train",
)


def read_count(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """Paths of 2 nodes, as many as the file says."""
    try:
        count = int(files[0].read_text()) if files else 7
    except ValueError as error:
        raise FileFormatError(f"{files[0]} holds no number ({error})") from None
    return GraphTable(
        num_nodes=np.full(count, 2),
        num_edges=np.full(count, 2),
        edges=np.tile([[0, 1], [1, 0]], count),
        y=np.arange(2.0 * count).reshape(count, 2),
        split={"train": np.arange(count)},
        smiles=["CC"] * count,
    )


class Files(BaseHTTPRequestHandler):
    """Serves a good file, and bad ones of several kinds."""

    def do_GET(self) -> None:
        if self.path == "/good":
            self.answer(b"4", 1)
        elif self.path == "/short":
            self.answer(b"4", 10)
        elif self.path == "/page.zip":
            self.answer(b"<html>log in</html>", 19)
        elif self.path == "/nothing":
            self.answer(b"", 0)
        elif self.path == "/odd":
            self.answer(b"4", "odd")
        else:
            self.send_error(404)

    def answer(self, body: bytes, length: int | str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Files) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> partial[None]:
    """Put a dataset ``tiny`` with these sources into the catalogue."""

    def put(*sources: Source) -> None:
        monkeypatch.setitem(catalogue.BENCHMARKS, "tiny", Benchmark(CARD, sources))

    return partial(put)


FOLDER = Source("plain files", read_count, places=(("tiny/count.txt",), ("count.txt",)))


def folder_with(path: Path, text: str, name: str = "tiny/count.txt") -> Path:
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_text(text)
    return path


def test_the_data_folder_comes_first_then_the_cache_then_the_download(
    cache: Path, offer: partial[None], server: str, tmp_path: Path
) -> None:
    offer(FOLDER, Source("official", read_count, downloads=(Download(f"{server}/good", "good.txt"),)))
    data = folder_with(tmp_path / "data", "3")
    assert len(datasets.load("tiny", data)) == 3
    assert not (cache / "downloads").exists()
    downloaded = datasets.load("tiny")
    assert len(downloaded) == 4
    assert downloaded.provenance.sha256 == (hashlib.sha256(b"4").hexdigest(),)
    (cache / "downloads" / "tiny" / "good.txt").write_text("5")
    assert len(datasets.load("tiny")) == 5  # the cache is not asked again
    assert len(datasets.load("tiny", data)) == 3


def test_the_environment_variable_names_the_data_folder(
    cache: Path, offer: partial[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(FOLDER)
    monkeypatch.setenv("POINTSET_DATA", str(folder_with(tmp_path / "mine", "3", "count.txt")))
    assert len(datasets.load("tiny")) == 3
    assert len(datasets.load("tiny", folder_with(tmp_path / "other", "2"))) == 2


def test_a_dataset_made_here_needs_no_file(cache: Path, offer: partial[None]) -> None:
    offer(Source("made", read_count, made_here=True))
    made = datasets.load("tiny")
    assert len(made) == 7
    assert made.provenance.origin == "made here"


def test_a_package_is_read_without_running_it(
    cache: Path, offer: partial[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = folder_with(tmp_path / "site", "6", "carrier/count.txt") / "carrier"
    (package / "__init__.py").write_text("raise RuntimeError('it ran')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    importlib.invalidate_caches()
    offer(FOLDER, Source("pip", read_count, package=("carrier", "count.txt"), extra="carrier"))
    loaded = datasets.load("tiny")
    assert len(loaded) == 6
    assert loaded.provenance.origin == "package carrier"


def test_nowhere_to_be_had_says_what_to_put_where(
    cache: Path, offer: partial[None], server: str, tmp_path: Path
) -> None:
    official = Source("official", read_count, downloads=(Download(f"{server}/none", "none.txt"),))
    offer(FOLDER, official, Source("pip", read_count, package=("no_such_package", "x"), extra="qm9"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingDataError) as caught:
        datasets.load("tiny", tmp_path / "empty")
    message = str(caught.value)
    for part in (
        "answered 404",
        f"put tiny/count.txt into {tmp_path / 'empty'}",
        f"save {server}/none as none.txt in {cache / 'downloads' / 'tiny'}",
        "pip install 'pointset[qm9]'",
    ):
        assert part in message
    with pytest.raises(MissingDataError, match="Downloading was not allowed"):
        datasets.load("tiny", download=False)


def test_without_a_connection_the_address_is_named(cache: Path, offer: partial[None]) -> None:
    offer(Source("official", read_count, downloads=(Download("http://127.0.0.1:9/file", "file.txt"),)))
    with pytest.raises(MissingDataError, match=r"no connection to http://127.0.0.1:9/file"):
        datasets.load("tiny")


@pytest.mark.parametrize(
    ("path", "stated", "message"),
    [
        ("short", {}, "was cut short: 1 of 10 bytes"),
        ("page.zip", {}, r"did not give a .zip, but b'<h'"),
        ("nothing", {}, "it was not kept"),
        ("good", {"sha256": "0" * 64}, "is not the file that was published: its SHA-256"),
        ("good", {"md5": "0" * 32}, "is not the file that was published: its MD5"),
    ],
    ids=["short", "page", "nothing", "sha256", "md5"],
)
def test_a_bad_download_is_not_kept(
    cache: Path, offer: partial[None], server: str, path: str, stated: dict[str, str], message: str
) -> None:
    name = "file.zip" if path.endswith("zip") else "file.txt"
    offer(Source("official", read_count, downloads=(Download(f"{server}/{path}", name, **stated),)))
    with pytest.raises(MissingDataError, match=message) as caught:
        datasets.load("tiny")
    assert "cannot save" not in str(caught.value)
    assert not [file for file in (cache / "downloads").rglob("*") if file.is_file()]


def test_a_strange_answer_does_no_harm(cache: Path, offer: partial[None], server: str) -> None:
    offer(Source("official", read_count, downloads=(Download(f"{server}/odd", "file.txt"),)))
    assert len(datasets.load("tiny")) == 4


def test_a_bad_file_among_the_downloads_says_what_to_remove(cache: Path, offer: partial[None]) -> None:
    offer(Source("official", read_count, downloads=(Download("http://127.0.0.1:9/file", "file.txt"),)))
    folder_with(cache / "downloads", "three", "tiny/file.txt")
    with pytest.raises(FileFormatError, match=r"Remove it from .*tiny to have it downloaded again"):
        datasets.load("tiny")


def test_a_file_that_changes_while_it_is_read_is_not_kept(cache: Path, offer: partial[None], tmp_path: Path) -> None:
    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        files[0].write_text("2")
        return read_count(files, show=show)

    offer(Source("changing", read, places=(("tiny/count.txt",),)))
    with pytest.raises(FileFormatError, match="changed while being read; try again"):
        datasets.load("tiny", folder_with(tmp_path / "data", "3"))
    assert not (cache / "prepared").exists()


def test_a_stated_checksum_that_matches_is_accepted(cache: Path, offer: partial[None], server: str) -> None:
    download = Download(f"{server}/good", "f", hashlib.sha256(b"4").hexdigest(), hashlib.md5(b"4").hexdigest())
    offer(Source("official", read_count, downloads=(download,)))
    assert len(datasets.load("tiny")) == 4


def test_a_data_folder_that_is_not_there_is_an_error(
    cache: Path, offer: partial[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(FOLDER)
    with pytest.raises(MissingDataError, match=r"data_dir \(--data-dir\) names '.*nothing', which is not a folder"):
        datasets.load("tiny", tmp_path / "nothing")
    monkeypatch.setenv("POINTSET_DATA", str(tmp_path / "nothing"))
    with pytest.raises(MissingDataError, match="POINTSET_DATA names"):
        datasets.load("tiny")


def test_unknown_names_and_options_name_the_nearest(cache: Path, offer: partial[None]) -> None:
    offer(FOLDER)
    with pytest.raises(SpecError, match=r"there is no dataset 'Tinny'.*did you mean 'tiny'"):
        datasets.load("Tinny")
    with pytest.raises(SpecError, match="tiny has no option 'fold'; expected: none"):
        datasets.load("tiny", fold=3)


def test_what_was_read_is_kept_and_equal(cache: Path, offer: partial[None], tmp_path: Path) -> None:
    reads = []

    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        reads.append(files)
        return read_count(files, show=show)

    offer(Source("counted", read, places=(("tiny/count.txt",),)))
    data = folder_with(tmp_path / "data", "3")
    first, second = datasets.load("tiny", data), datasets.load("tiny", data)
    assert len(reads) == 1
    assert first.smiles == second.smiles == ["CC"] * 3
    assert first.targets is not None and second.targets is not None
    assert first.targets.dtype == second.targets.dtype == torch.float64
    assert torch.equal(first.targets, second.targets)
    assert np.array_equal(first.arrays.edges, second.arrays.edges)
    assert first.split.keys() == second.split.keys()
    (kept,) = (cache / "prepared").iterdir()
    before = kept.read_bytes()
    kept.unlink()
    datasets.load("tiny", data)
    assert kept.read_bytes() == before
    folder_with(data, "2")
    assert len(datasets.load("tiny", data)) == 2  # another content is another entry


@pytest.mark.parametrize("damage", [b"", b"text", None], ids=["empty", "text", "flipped"])
def test_a_damaged_cache_is_made_again_with_a_warning(
    cache: Path, offer: partial[None], tmp_path: Path, damage: bytes | None
) -> None:
    offer(FOLDER)
    data = folder_with(tmp_path / "data", "3")
    datasets.load("tiny", data)
    (kept,) = (cache / "prepared").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if damage is None else damage)
    with pytest.warns(StoreWarning, match="it is made again"):
        assert len(datasets.load("tiny", data)) == 3
    assert kept.read_bytes() == whole


def test_a_cache_that_cannot_be_written_only_warns(
    offer: partial[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "file"))
    offer(FOLDER)
    with pytest.warns(StoreWarning, match="cannot keep the dataset"):
        assert len(datasets.load("tiny", folder_with(tmp_path / "data", "3"))) == 3


def test_a_full_disk_only_warns(
    cache: Path, offer: partial[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")  # as it is

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    offer(FOLDER)
    with pytest.warns(StoreWarning, match="No space left"):
        assert len(datasets.load("tiny", folder_with(tmp_path / "data", "3"))) == 3
    assert not list((cache / "prepared").iterdir())


def test_a_folder_in_the_place_of_the_kept_file_only_warns(cache: Path, offer: partial[None], tmp_path: Path) -> None:
    offer(FOLDER)
    data = folder_with(tmp_path / "data", "3")
    datasets.load("tiny", data)
    (kept,) = (cache / "prepared").iterdir()
    kept.unlink()
    kept.mkdir()
    with pytest.warns(StoreWarning):
        assert len(datasets.load("tiny", data)) == 3


def test_a_bad_file_leaves_nothing_in_the_cache(cache: Path, offer: partial[None], tmp_path: Path) -> None:
    offer(FOLDER)
    with pytest.raises(FileFormatError, match="holds no number"):
        datasets.load("tiny", folder_with(tmp_path / "data", "three"))
    assert not (cache / "prepared").exists() or not list((cache / "prepared").iterdir())


def test_graphs_that_make_no_sense_name_the_dataset_and_the_file(
    cache: Path, offer: partial[None], tmp_path: Path
) -> None:
    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        return GraphTable(num_nodes=np.array([2]), num_edges=np.array([1]), edges=np.array([[0], [5]]))

    offer(Source("bad", read, places=(("tiny/count.txt",),)))
    with pytest.raises(FileFormatError, match=r"tiny cannot be read: .*names a node outside.*count.txt"):
        datasets.load("tiny", folder_with(tmp_path / "data", "3"))


def test_a_split_that_makes_no_sense_is_a_damaged_file(cache: Path, offer: partial[None], tmp_path: Path) -> None:
    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        return replace(read_count(files, show=show), split={"train": np.array([0, 1, 7])})

    offer(Source("bad", read, places=(("tiny/count.txt",),)))
    with pytest.raises(FileFormatError, match=r"tiny cannot be read: .*7.*count.txt"):
        datasets.load("tiny", folder_with(tmp_path / "data", "3"))


def test_another_version_of_a_tool_reads_anew(
    cache: Path, offer: partial[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(replace(FOLDER, tools=("rdkit", "no-such-package")))
    data = folder_with(tmp_path / "data", "3")
    datasets.load("tiny", data)
    monkeypatch.setattr("pointset.datasets.loading.version", lambda package: "another")
    datasets.load("tiny", data)
    assert len(list((cache / "prepared").iterdir())) == 2


def test_rows_that_do_not_add_up_are_a_damaged_file() -> None:
    with pytest.raises(FileFormatError, match="x has 3 rows; expected 2"):
        GraphTable(
            num_nodes=np.array([2]), num_edges=np.array([0]), edges=np.zeros((2, 0), int), x=np.zeros((3, 1), int)
        )


def test_find_tells_what_is_present_without_reading(cache: Path, offer: partial[None], tmp_path: Path) -> None:
    offer(FOLDER)
    assert find(catalogue.BENCHMARKS["tiny"]) is None
    found = find(catalogue.BENCHMARKS["tiny"], folder_with(tmp_path / "data", "not read"))
    assert found is not None and found.origin == "data folder"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"text"], ids=["empty", "cut", "text"])
def test_a_damaged_npz_is_a_clear_error(cache: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "zinc").mkdir()
    (tmp_path / "zinc" / "zinc12k.npz").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"zinc12k.npz cannot be read as .npz .*Get it again"):
        datasets.load("zinc", tmp_path, download=False)


def test_odd_members_and_types_of_an_npz(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.npz"
    np.savez(path, big=np.arange(3, dtype=">i4"), wide=np.ones(2, dtype=np.longdouble))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("text", b"hello")
    arrays = read_arrays(path, ("big", "wide"))
    assert arrays["big"].dtype.isnative and arrays["big"].tolist() == [0, 1, 2]
    assert arrays["wide"].dtype == np.float64
    with pytest.raises(FileFormatError, match="text is not an array"):
        read_arrays(path, ("text",))


def test_an_npz_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.arrays._LARGEST", 1000)
    np.savez_compressed(tmp_path / "bomb.npz", zeros=np.zeros(1000))
    with pytest.raises(FileFormatError, match="unpacks to more than 1,000 bytes"):
        read_arrays(tmp_path / "bomb.npz", ("zeros",))


@pytest.mark.parametrize("smiles", [["C\nC"], ["\ud800"], ["é"]], ids=["two lines", "surrogate", "accent"])
def test_smiles_that_cannot_be_kept_are_refused(smiles: list[str]) -> None:
    with pytest.raises(FileFormatError, match="expected printable ASCII"):
        GraphTable(num_nodes=np.array([1]), num_edges=np.array([0]), edges=np.zeros((2, 0), int), smiles=smiles)


@pytest.mark.parametrize("data_dir", [5, "a" * 5000], ids=["number", "long"])
def test_odd_data_folders(cache: Path, offer: partial[None], data_dir: Any) -> None:
    offer(FOLDER)
    with pytest.raises(PointsetError, match=r"data_dir"):
        datasets.load("tiny", data_dir)


def test_a_name_that_is_no_text(cache: Path) -> None:
    with pytest.raises(SpecError, match="there is no dataset"):
        datasets.load(["zinc"])  # type: ignore[arg-type]


def test_an_npz_of_python_objects_is_not_unpickled(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "zinc").mkdir()
    objects = np.array([{"code": "runs"}], dtype=object)
    names = ("num_nodes", "num_edges", "edges", "atom_type", "bond_type", "y", "split")
    np.savez(tmp_path / "zinc" / "zinc12k.npz", **dict.fromkeys(names, objects))  # type: ignore[arg-type]
    with pytest.raises(FileFormatError, match=r"cannot be read as .npz"):
        datasets.load("zinc", tmp_path, download=False)


def test_errors_are_pointset_errors() -> None:
    assert issubclass(MissingDataError, PointsetError) and issubclass(MissingDataError, FileNotFoundError)
    assert issubclass(GraphError, PointsetError)
