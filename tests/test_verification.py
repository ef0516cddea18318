"""What is compared when a dataset is verified, and that every kind of damage is found."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pointset.datasets import loading as catalogue
from pointset.datasets import verification as content_checks
from pointset.datasets.card import Level, PaperRow
from pointset.datasets.sources import Benchmark, Download, find
from pointset.datasets.splits.leaks import LeakReport
from pointset.datasets.verification import Check, Verification, verify
from pointset.errors import MissingDataError, SpecError
from pointset.specs import Categories, Reals
from tests.small_benchmarks import CONTENT, KINDS, NAN, NODES, PAPER, SPLIT, small_benchmark, with_data, with_source

QUICK = ("zinc", "mutag", "ptc-mr", "proteins", "imdb-binary")  # read in under two seconds together


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POINTSET_DATA", raising=False)


def verified(
    benchmark: Benchmark, folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT
) -> Verification:
    monkeypatch.setattr(catalogue, "BENCHMARKS", {benchmark.card.name: benchmark})
    return verify(benchmark.card.name, with_data(folder, content), progress=False)


def wrong(found: Verification) -> list[str]:
    return [check.what for check in found.checks if check.holds is False]


def named(found: Verification, what: str) -> Check:
    return next(check for check in found.checks if check.what == what)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_holds(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verified(KINDS[kind], tmp_path, monkeypatch)
    assert wrong(found) == []
    assert found.holds
    assert (found.origin, found.source) == ("data folder", "text")


DAMAGE: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "another number of graphs": ({}, {"paper": PaperRow(5, 2.8, 2.0)}, ["graphs"]),
    "other nodes": ({}, {"paper": PaperRow(4, 2.9, 2.0)}, ["mean nodes"]),
    "other edges": ({}, {"paper": PaperRow(4, 2.8, 2.1)}, ["mean edges"]),
    "edges once for twice": (
        {},
        {"paper": PaperRow(4, 2.8, 2.0, both_directions=True)},
        ["mean edges, both directions"],
    ),
    "a part of another size": ({}, {"split_sizes": {"train": 1, "val": 1, "test": 1}}, ["split: train"]),
    "a missing part": (
        {"split": {"train": np.array([0, 1]), "val": np.array([2])}},
        {},
        ["split: test"],
    ),
    "a graph in two parts": (
        {"split": SPLIT | {"val": np.array([0])}},
        {},
        ["split: every graph in at most one part"],
    ),
    "a graph that is not there": (
        {"split": SPLIT | {"val": np.array([4])}},
        {},
        ["split: every graph in at most one part"],
    ),
    "a category too high": (
        {"x": np.arange(NODES)[:, None]},
        {"node": Categories(NODES - 1)},
        ["node feature column 0"],
    ),
    "a negative category": (
        {"x": np.arange(NODES)[:, None] - 1},
        {"node": Categories(NODES)},
        ["node feature column 0"],
    ),
    "half a category": (
        {"x": np.arange(NODES)[:, None] / 2},
        {"node": Categories(NODES)},
        ["node feature column 0"],
    ),
    "a column too many": ({"x": np.zeros((NODES, 2), dtype=int)}, {"node": Categories(2)}, ["node features"]),
    "features that no card names": ({"x": np.zeros((NODES, 2))}, {}, ["node features"]),
    "no features": ({}, {"edge": Categories(2)}, ["edge features"]),
    "a real feature that is NaN": ({"x": np.full((NODES, 2), NAN)}, {"node": Reals(2)}, ["values of node features"]),
    "no positions": ({}, {"positions": True}, ["positions"]),
    "an infinite position": ({"pos": np.full((NODES, 3), np.inf)}, {"positions": True}, ["values of positions"]),
    "a missing target": ({"y": np.array([0, 1, NAN, 2])}, {}, ["values of targets"]),
    "an infinite target": ({"y": np.array([0, 1, np.inf, 2])}, {}, ["values of targets"]),
    "no targets": ({"y": None}, {}, ["targets"]),
    "targets of nodes": ({"y": np.zeros(NODES), "y_of_nodes": True}, {}, ["targets"]),
    "targets of graphs": ({}, {"level": Level.NODE}, ["targets"]),
    "a target too many": ({"y": np.zeros((4, 2))}, {}, ["targets"]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_damage_is_found_and_nothing_else(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, about, expected = DAMAGE[damage]
    found = verified(small_benchmark(table=table, **about), tmp_path, monkeypatch)
    assert wrong(found) == expected
    assert not found.holds


@pytest.mark.parametrize(("kind", "y"), [("yes-or-no", [0, 2, 0, 0]), ("yes-or-no", [0, NAN, 0, 1]),
                                         ("labels", [[0, 1], [1, 0.5], [0, 0], [1, 1]])])  # fmt: skip
def test_a_class_that_is_none(kind: str, y: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = KINDS[kind].card
    about = {name: getattr(card, name) for name in ("task", "targets", "metric")}
    assert wrong(verified(small_benchmark(table={"y": np.array(y)}, **about), tmp_path, monkeypatch)) == ["classes"]


@pytest.mark.parametrize(("printed", "holds"), [(2.7, True), (2.8, True), (2.75, True), (3, True), (2.6, False),
                                                (2.74, False), (2.752, False), (2, False)])  # fmt: skip
def test_numbers_are_compared_to_the_digits_that_are_printed(
    printed: float, holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.75 nodes on average: a half may have been rounded up or down."""
    found = verified(small_benchmark(paper=PaperRow(4, printed, 2.0)), tmp_path, monkeypatch)
    assert named(found, "mean nodes").holds is holds


def test_a_known_slip_of_the_paper_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slip = PaperRow(4, 2.8, 9.9, slip="the paper counts something else")
    found = verified(small_benchmark(paper=slip), tmp_path, monkeypatch)
    check = named(found, "mean edges")
    assert (check.holds, check.note) == (None, "the paper counts something else")
    assert found.holds
    cut_short = PaperRow(5, 2.8, 2.0, slip="the paper counts something else")
    assert wrong(verified(small_benchmark(paper=cut_short), tmp_path, monkeypatch)) == ["graphs"]


def test_what_nobody_states_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = with_source(small_benchmark(paper=None, split_sizes={}), sha256={})
    found = verified(benchmark, tmp_path, monkeypatch)
    assert found.holds
    assert [check.what for check in found.checks if check.holds is None] == [
        "checksum of graphs.txt", "graphs", "mean nodes", "mean edges", "split: train", "split: val", "split: test"
    ]  # fmt: skip


def test_a_file_that_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verified(small_benchmark(), tmp_path, monkeypatch, b"four other graphs\n")
    assert wrong(found) == ["checksum of graphs.txt"]
    assert "get it again" in named(found, "checksum of graphs.txt").note


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_the_checksum_of_the_publisher(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content, holds in ((CONTENT, True), (b"other", False)):
        stated = hashlib.new(algorithm, CONTENT).hexdigest().upper()
        download = Download("https://example.org/graphs.txt", "graphs.txt", **{algorithm: stated})
        benchmark = with_source(small_benchmark(), sha256={}, downloads=(download,))
        found = verified(benchmark, tmp_path, monkeypatch, content)
        assert named(found, "checksum of graphs.txt").holds is holds


def test_a_file_that_cannot_be_read_is_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verified(small_benchmark(), tmp_path, monkeypatch, b"")
    assert wrong(found) == ["checksum of graphs.txt", "everything can be read"]
    assert "is empty; expected four graphs" in found.checks[-1].note


def test_the_files_are_read_and_not_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified(small_benchmark(), tmp_path, monkeypatch).holds
    assert not (tmp_path / "cache").exists()


def test_missing_files_and_unknown_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "BENCHMARKS", {"small": small_benchmark()})
    with pytest.raises(MissingDataError, match=r"put small/graphs\.txt into"):
        verify("small", tmp_path)
    with pytest.raises(SpecError, match="did you mean 'small'"):
        verify("smal", tmp_path)


def test_a_leak_is_never_0_percent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = np.arange(2)
    report = LeakReport({"train": 20_000, "test": 13_083}, ({"train": one, "test": one},), {}, np.zeros(0, dtype=int))
    monkeypatch.setattr(content_checks, "find_leaks", lambda *_, **__: report)
    found = verified(small_benchmark(), tmp_path, monkeypatch)
    assert named(found, "graphs of test that are also in train").found == "2 of 13,083 (< 0.1 %)"


def test_it_can_be_printed_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = verified(small_benchmark(), tmp_path, monkeypatch).as_dict()
    assert (content["name"], content["holds"], content["origin"]) == ("small", True, "data folder")
    assert content["checks"][2] == {
        "what": "graphs", "found": "4", "expected": f"{PAPER.graphs} (paper)", "holds": True, "note": ""
    }  # fmt: skip


# --- real data


def check_real(name: str, shared_data: Path) -> None:
    benchmark = catalogue.BENCHMARKS.get(name)
    if benchmark is None or find(benchmark, shared_data) is None:
        pytest.skip(f"{name} is not in {shared_data}")
    found = verify(name, shared_data, progress=False)
    assert [check for check in found.checks if check.holds is False] == []


@pytest.mark.parametrize("name", QUICK)
def test_real_data_is_as_published_and_as_the_paper_says(name: str, shared_data: Path) -> None:
    check_real(name, shared_data)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in catalogue.names() if name not in QUICK])
def test_the_rest_of_the_real_data_too(name: str, shared_data: Path) -> None:
    check_real(name, shared_data)
