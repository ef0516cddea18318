"""Files on disk: written whole or not at all, CSV and JSON that come back, locks that end with a process."""

from __future__ import annotations

import csv
import io
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pointset.errors import FileFormatError
from pointset.files import csv_lines, read_json, replacing, try_lock, write_json
from tests.command_line import invoke

cells = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@given(rows=st.lists(st.lists(cells, min_size=2, max_size=3), max_size=4), delimiter=st.sampled_from(",;\t"))
@example(rows=[["a\rb", "c\nd"], ['"', "\r\n"]], delimiter=",")
def test_rows_come_back(rows: list[list[str]], delimiter: str) -> None:
    text = "".join(csv_lines(rows, delimiter))
    assert list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) == rows


def test_lines_end_as_on_unix() -> None:
    assert list(csv_lines([["smiles", 1], ["C,C", 2.5]])) == ["smiles,1\n", '"C,C",2.5\n']


def test_a_block_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half of the n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_json_comes_back_without_numbers_that_it_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"scores": [1.5, math.nan, -math.inf], "name": "β"})
    assert read_json(path) == {"scores": [1.5, None, None], "name": "β"}


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_damaged_json_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(FileFormatError, match=r"a\.json is damaged"):
        read_json(tmp_path / "a.json")


def test_a_lock_is_held_until_the_file_is_closed(tmp_path: Path) -> None:
    with (tmp_path / "a").open("a") as first, (tmp_path / "a").open("a") as second:
        assert try_lock(first) and not try_lock(second)
        first.close()
        assert try_lock(second)


def test_a_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pointset.files import try_lock\n"
        "file = open(sys.argv[1], 'a')\n"
        "print(try_lock(file), flush=True)\n"
        "time.sleep(60)\n"
    )
    path = tmp_path / "a"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "True\n"
        with path.open("a") as file:
            assert not try_lock(file)
            holder.kill()
            holder.wait()
            assert try_lock(file)


def test_without_a_home_folder_the_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number which no user has."""

    def nobody(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("POINTSET_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    (tmp_path / "own.csv").write_text("smiles,y\n" + "CCO,1\nCC,2\n" * 6)
    for words in (("datasets",), ("datasets", "check", tmp_path / "own.csv", "--smiles", "smiles", "--target", "y")):
        _, warned = invoke(*words, code=1)
        assert warned == "Error: there is no home folder for a cache: name a folder in POINTSET_CACHE"
