"""Changed files for every reader, the same each time; ``make fuzz MINUTES=30`` searches on (see tests/fuzzing.py)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pointset.errors import PointsetError
from tests.fuzz_readers import readers
from tests.fuzzing import MOST_MEGABYTES, Reader, Search, attempt, changed, sampled

pytest.importorskip("rdkit")
FILES = 60  # for each reader, but of those that make a page for each file
FEWER = 15


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    return {reader.name: reader for reader in readers(tmp_path_factory.mktemp("readers"))}


NAMES = [
    *("graphs .g6", "graphs .s6", "graphs .graphml", "graphs .csv", "graphs .pt", "points", "pickle", "torch", "store"),
    *("table csv", "table tsv", "table smi", "table sdf", "table sdf.gz", "table sdf in gz", "table xlsx"),
    *("sheet of xlsx", "workbook of xlsx", "table parquet", "targets of graphs", "descriptors"),
    *("recipe", "table of results", "results"),
    *(f"run {name}" for name in ("environment.json", "examples.json", "metrics.csv", "predictions.csv")),
    *("run recipe.yaml", "run result.json", "checkpoint", "bundle", "bundle description"),
]


def test_no_reader_is_forgotten(known: dict[str, Reader]) -> None:
    assert list(known) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_changed_files_are_read_or_refused(name: str, known: dict[str, Reader], tmp_path: Path) -> None:
    findings = sampled(known[name], FEWER if name.startswith("run ") else FILES, tmp_path)
    assert not findings, "\n\n".join(f"{one.what}\n{one.content[:2000]!r}\n{one.trace}" for one in findings)


class TestTheSearch:
    """It would find what there is to find."""

    @staticmethod
    def reader(path: Path) -> None:
        content = path.read_bytes()
        if content.startswith(b"\xff"):
            raise PointsetError("refused as it should be")
        if b"NaN" in content:
            raise KeyError("nan")
        if b"null" in content:
            bytearray((MOST_MEGABYTES + 200) * 2**20)[:] = b"\x01" * ((MOST_MEGABYTES + 200) * 2**20)

    def test_exceptions_and_memory_are_findings_and_refusals_are_not(self, tmp_path: Path) -> None:
        made = Reader("made up", ".bin", [b"1,2"], self.reader)
        assert attempt(made, b"1,2", tmp_path) is None and attempt(made, b"\xff", tmp_path) is None
        found = attempt(made, b"NaN", tmp_path)
        assert found is not None and found.what.startswith("KeyError at test_fuzz.py:")

    def test_time_is_a_finding(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.fuzzing.MOST_SECONDS", 0.05)

        def hang(_path: Path) -> None:
            while True:
                try:
                    sum(range(1000))
                except Exception:
                    continue

        found = attempt(Reader("hangs", "", [b""], hang), b"", tmp_path)
        assert found is not None and found.what.startswith("_TooLong")

    def test_the_same_files_each_time(self) -> None:
        first, second = (
            [changed(b"a,1\nb,2\n", [b"c"], random) for _ in range(50)] for random in (Random(3), Random(3))
        )
        assert first == second and len(set(first)) > 40

    def test_contents_that_reach_new_code_are_kept(self, tmp_path: Path, known: dict[str, Reader]) -> None:
        search = Search(known["recipe"], tmp_path, Random(0))
        before, lines = len(search.contents), len(search.reached)
        search.go_on(2.0)
        assert search.tried > before and len(search.contents) > before and len(search.reached) > lines
