"""BREC's pairs from both forms of its file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pointset.datasets.benchmarks.brec import CATEGORIES, NUM_PAIRS, load_pairs
from pointset.errors import FileFormatError, MissingDataError

HEXAGON, TRIANGLES = b"EhEG", b"EwCW"  # graph6


def table(rows: int = NUM_PAIRS, second: bytes = TRIANGLES) -> str:
    """A table of the right form; every pair is the hexagon and two triangles."""
    category = {number: name for name, numbers in CATEGORIES.items() for number in numbers}
    lines = [f"{number},{category[number]},{HEXAGON.decode()},{second.decode()}" for number in range(rows)]
    return "\n".join(["pair,category,g6_a,g6_b", *lines]) + "\n"


def folder_with(tmp_path: Path, content: bytes, name: str = "brec_pairs.csv.gz") -> Path:
    (tmp_path / "brec").mkdir()
    (tmp_path / "brec" / name).write_bytes(content)
    return tmp_path


def test_the_real_file(shared_data: Path) -> None:
    pairs = load_pairs(shared_data)
    assert [pair.number for pair in pairs] == list(range(400))
    assert sum(pair.category == "CFI" for pair in pairs) == 100
    assert max(pair.num_nodes for pair in pairs) == 198
    assert all(pair.first[1].shape == pair.second[1].shape for pair in pairs)  # 1-WL takes them for one


def test_a_table_and_the_published_array_hold_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    from_table = load_pairs(folder_with(tmp_path / "a", gzip.compress(table().encode())))
    folder = folder_with(tmp_path / "b", b"", "brec_v3.npy")
    np.save(folder / "brec" / "brec_v3.npy", np.array([HEXAGON, TRIANGLES] * 32 * NUM_PAIRS))
    from_array = load_pairs(folder)
    for one, two in zip(from_table, from_array, strict=True):
        assert (one.number, one.category, one.num_nodes) == (two.number, two.category, 6)
        assert one.first[1].equal(two.first[1])
        assert one.second[1].equal(two.second[1])


def test_what_to_do_without_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDataError, match=r"brec/brec_v3\.npy.*--data-dir"):
        load_pairs(tmp_path)
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    with pytest.raises(MissingDataError, match="POINTSET_DATA is not set"):
        load_pairs()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no gzip", "cannot be read"),
        (gzip.compress(b"pair,category\n0,Basic\n"), "columns pair, category, g6_a, g6_b"),
        (gzip.compress(table(399).encode()), "399 pairs; expected 400"),
        (gzip.compress(table(second=b"Dhc").encode()), "two graphs of one size"),
        (gzip.compress(table(second=b"E").encode()), "pair 0: .*cut short"),
        (gzip.compress(table().replace("CFI", "Basic").encode()), "in the category that the number belongs to"),
    ],
    ids=["no gzip", "columns", "too few", "sizes", "half a line", "category"],
)
def test_a_damaged_table(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        load_pairs(folder_with(tmp_path, content))


def test_an_array_that_would_run_code_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, b"", "brec_v3.npy")
    np.save(folder / "brec" / "brec_v3.npy", np.array([HEXAGON, None], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match=r"without running code.*astype\('S'\)"):
        load_pairs(folder)
    np.save(folder / "brec" / "brec_v3.npy", np.array([HEXAGON, TRIANGLES]))
    with pytest.raises(FileFormatError, match="holds 2 graphs"):
        load_pairs(folder)
