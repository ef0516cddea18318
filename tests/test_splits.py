"""Splits: no graph lost or used twice, exact sizes, the same on every machine, files that come back as they were."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pointset.datasets.splits import (
    PARTS,
    Split,
    check_split,
    folds,
    random_split,
    save_split,
    scaffold_split,
    split_by_column,
    split_by_scaffold,
    split_from_file,
    stratified_split,
)
from pointset.datasets.splits.splitters import classes_of, part_sizes
from pointset.errors import FileFormatError, SpecError

FRACTIONS = st.sampled_from(
    [(0.8, 0.1, 0.1), (0.3, 0.2, 0.5), (1 / 3, 1 / 3, 1 / 3), (0.9, 0.0, 0.1), (1.0, 0.0, 0.0), (0.34, 0.33, 0.33)]
)
SEEDS = st.integers(0, 2**32)


def assert_every_graph_once(split: Split, count: int) -> None:
    assert tuple(split) == PARTS
    assert np.array_equal(np.sort(np.concatenate(list(split.values()))), np.arange(count))
    for indices in split.values():
        assert indices.dtype == np.int64
        assert (np.diff(indices) > 0).all()


def as_lists(split: Split) -> dict[str, list[int]]:
    return {part: indices.tolist() for part, indices in split.items()}


# --- sizes and random splits


@pytest.mark.parametrize(
    ("count", "fractions", "expected"),
    [
        (1000, (0.8, 0.1, 0.1), (800, 100, 100)),
        (130_831, (0.8, 0.1, 0.1), (104_665, 13_083, 13_083)),
        (5000, (0.3, 0.2, 0.5), (1500, 1000, 2500)),
        (10, (0.1, 0.2, 0.7), (1, 2, 7)),  # 0.7 · 10 is below 7 in binary
        (3, (1 / 3, 1 / 3, 1 / 3), (1, 1, 1)),
        (11, (0.5, 0.25, 0.25), (5, 3, 3)),
        (10, (0.5, 0.25, 0.25), (5, 3, 2)),  # equal remainders: the earlier part
        (3, (0.98, 0.01, 0.01), (1, 1, 1)),  # every part that was asked for has a graph
        (2, (0.8, 0.1, 0.1), (2, 0, 0)),  # too few for that
        (12_000, (10_000, 1000, 1000), (10_000, 1000, 1000)),
        (7, (7, 0, 0), (7, 0, 0)),
        (7, (np.float32(0.5), np.float64(0.5), np.int64(0)), (4, 3, 0)),
    ],
)
def test_sizes(count: int, fractions: tuple[float, float, float], expected: tuple[int, int, int]) -> None:
    assert part_sizes(count, fractions) == expected


@given(count=st.integers(1, 300), fractions=FRACTIONS, seed=SEEDS)
def test_a_random_split_loses_no_graph(count: int, fractions: tuple[float, float, float], seed: int) -> None:
    split = random_split(count, fractions, seed=seed)
    assert_every_graph_once(split, count)
    for part, fraction in zip(PARTS, fractions, strict=True):
        assert abs(len(split[part]) - fraction * count) < 2
        assert bool(len(split[part])) == (fraction > 0) or count < 3
    assert as_lists(split) == as_lists(random_split(count, fractions, seed=seed))


def test_a_random_split_is_the_same_on_every_machine() -> None:
    expected = {"train": [0, 1, 3, 4, 6, 10], "val": [2, 7, 8], "test": [5, 9, 11]}
    assert as_lists(random_split(12, (0.5, 0.25, 0.25), seed=7)) == expected
    assert as_lists(random_split(1000, seed=1)) != as_lists(random_split(1000, seed=2))


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ((0.8, 0.1), "three numbers"),
        ((0.8, 0.1, 0.2), "add up to 1.1"),
        ((0.333, 0.333, 0.333), "add up to 0.999"),
        ((8, 1, 2), "add up to 11"),
        ((1.1, -0.1, 0.0), "none below 0"),
        ((float("nan"), 0.5, 0.5), "three numbers"),
        ((float("inf"), 0.5, 0.5), "three numbers"),
        ((True, False, False), "three numbers"),
        (("0.8", "0.1", "0.1"), "three numbers"),
        ((0.0, 0.5, 0.5), "nothing to train on"),
        (0.8, "three numbers"),
        (None, "three numbers"),
    ],
)
def test_impossible_fractions_are_refused(fractions: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        random_split(10, fractions, seed=0)
    with pytest.raises(SpecError, match=message):
        stratified_split([0, 1] * 5, fractions, seed=0)


@pytest.mark.parametrize("seed", [None, -1, 0.5, "0", True])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(SpecError, match="seed="):
        random_split(10, seed=seed)


@pytest.mark.parametrize("count", [0, -1, 2.5, None])
def test_a_count_is_a_whole_number_of_graphs(count: Any) -> None:
    with pytest.raises(SpecError, match="count="):
        random_split(count, seed=0)


# --- stratified splits


@given(
    labels=st.lists(st.integers(0, 5), min_size=6, max_size=150).filter(lambda labels: len(set(labels)) <= 3),
    fractions=FRACTIONS,
    seed=SEEDS,
)
def test_classes_are_shared_out_to_within_one(
    labels: list[int], fractions: tuple[float, float, float], seed: int
) -> None:
    split = stratified_split(labels, fractions, seed=seed)
    assert_every_graph_once(split, len(labels))
    assert tuple(map(len, split.values())) == part_sizes(len(labels), fractions)
    for kind in set(labels):
        size = labels.count(kind)
        for part, fraction in zip(PARTS, fractions, strict=True):
            got = sum(labels[index] == kind for index in split[part])
            assert abs(got - fraction * size) < (1 if len(labels) > 30 else 2)
    assert as_lists(split) == as_lists(stratified_split(labels, fractions, seed=seed))


@given(sizes=st.lists(st.integers(2, 9), min_size=4, max_size=60), fractions=FRACTIONS, seed=SEEDS)
def test_many_small_classes_still_give_exact_sizes(
    sizes: list[int], fractions: tuple[float, float, float], seed: int
) -> None:
    """Each class rounded for itself would send nearly all of them to train."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    split = stratified_split(labels, fractions, seed=seed)
    assert tuple(map(len, split.values())) == part_sizes(len(labels), fractions)
    if all(fraction == 0 or fraction * len(labels) >= 1 for fraction in fractions):
        for part, fraction in zip(PARTS, fractions, strict=True):
            got = np.bincount(labels[split[part]], minlength=len(sizes))
            assert (np.abs(got - fraction * np.array(sizes)) < 1).all()


def test_stratified_exactly() -> None:
    labels = ["a"] * 50 + ["b"] * 30 + ["c"] * 20
    split = stratified_split(labels, seed=3)
    for part, expected in (("train", (40, 24, 16)), ("val", (5, 3, 2)), ("test", (5, 3, 2))):
        assert tuple(sum(labels[index] == kind for index in split[part]) for kind in "abc") == expected


def test_a_class_is_not_cut_by_its_order() -> None:
    in_test = [frozenset(stratified_split([0, 1] * 50, seed=seed)["test"].tolist()) for seed in range(20)]
    assert len(set(in_test)) == 20


def test_real_targets_are_stratified_by_quantiles() -> None:
    targets = np.random.default_rng(0).normal(size=1000)
    assert np.bincount(classes_of(targets)).tolist() == [100] * 10
    split = stratified_split(targets, (0.5, 0.25, 0.25), seed=0)
    for decile in range(10):
        own = np.argsort(targets)[100 * decile : 100 * (decile + 1)]
        assert len(np.intersect1d(split["train"], own)) == 50


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0.0, 1.0, np.nan, 1.0, 0.0, np.nan]),
        np.array([0, 1, None, 1, 0, None], dtype=object),
        [False, True, None, True, False, None],
        torch.tensor([[0], [1], [7], [1], [0], [7]]),
        np.array(["no", "yes", "", "yes", "no", ""]),
        np.array(["no", "yes", None, "yes", "no", None], dtype=object),
        np.array([[0, 0], [0, 1], [1, 0], [0, 1], [0, 0], [1, 0]]),
        np.array([[0, 0.5], [0, 1], [1, np.nan], [0, 1], [0, 0.5], [1, np.nan]]),
    ],
    ids=["real", "numbers", "truth values", "tensor", "text", "text with none", "two columns", "two real columns"],
)
def test_labels_of_every_kind(labels: Any) -> None:
    classes = classes_of(labels)
    assert classes[0] == classes[4] and classes[1] == classes[3] and classes[2] == classes[5]
    assert len(set(classes.tolist())) == 3


def test_text_that_looks_like_numbers_is_text() -> None:
    labels = np.array([str(number) for number in range(20)] * 3, dtype=object)
    assert len(np.unique(classes_of(labels))) == 20


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.random.default_rng(0).normal(size=(100, 12)), r"Stratify by one column"),
        (np.arange(100), "floating-point"),
        ([], r"shape \(0,\)"),
        (np.zeros((3, 2, 2)), r"shape \(3, 2, 2\)"),
        (np.zeros((5, 0)), r"shape \(5, 0\)"),
        ([[1, 2], [3]], "cannot be read"),
        (3, r"shape \(\)"),
        (np.zeros(5, dtype=complex), "type complex128"),
    ],
)
def test_labels_that_cannot_stratify_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        stratified_split(labels, seed=0)


# --- folds


@given(count=st.integers(3, 120), k=st.integers(3, 12), seed=SEEDS, stratified=st.booleans())
def test_every_graph_is_tested_once(count: int, k: int, seed: int, stratified: bool) -> None:
    k = min(k, count)
    labels = np.random.default_rng(seed).integers(0, 2, count) if stratified else None
    splits = folds(count, k, seed=seed, labels=None if labels is None or min(np.bincount(labels)) < 2 else labels)
    assert len(splits) == k
    assert np.array_equal(np.sort(np.concatenate([split["test"] for split in splits])), np.arange(count))
    assert np.array_equal(np.sort(np.concatenate([split["val"] for split in splits])), np.arange(count))
    sizes = {len(split[part]) for split in splits for part in ("val", "test")}
    assert max(sizes) - min(sizes) <= 1
    for split in splits:
        assert_every_graph_once(split, count)


@given(labels=st.lists(st.sampled_from("aab"), min_size=20, max_size=120), seed=SEEDS)
def test_folds_have_equal_shares_of_each_class(labels: list[str], seed: int) -> None:
    splits = folds(len(labels), 5, seed=seed, labels=labels)
    for kind in set(labels):
        for part in ("val", "test"):
            counts = [sum(labels[index] == kind for index in split[part]) for split in splits]
            assert max(counts) - min(counts) <= 1
    sizes = [len(split["test"]) for split in splits]
    assert max(sizes) - min(sizes) <= 1


def test_the_custom_of_the_tu_datasets_validates_on_the_test_fold() -> None:
    inner, custom = (folds(188, 10, seed=0, validation=validation) for validation in ("inner", "test"))
    for mine, theirs in zip(inner, custom, strict=True):
        assert np.array_equal(mine["test"], theirs["test"])
        assert np.array_equal(theirs["val"], theirs["test"])
        assert len(theirs["train"]) + len(theirs["test"]) == 188
        assert as_lists(check_split(theirs, 188)) == as_lists(theirs)
    assert len(folds(10, 2, seed=0, validation="test")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 5, "k": 6}, "k=6 folds for 5 graphs"),
        ({"count": 5, "k": 1}, "k=1"),
        ({"count": 5, "k": 2}, "validation='test'"),
        ({"count": 5, "k": 2.5}, "k=2.5"),
        ({"count": 5, "k": 5, "labels": [0, 1, 0]}, "labels of 3 graphs; expected one for each of 5"),
        ({"count": 5, "k": 5, "validation": "tset"}, "'inner' or 'test'"),
    ],
)
def test_impossible_folds_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        folds(**arguments, seed=0)


# --- scaffolds


def test_large_scaffolds_train_and_rare_ones_test() -> None:
    scaffolds = list("abacabadae")  # a: 0 2 4 6 8; b: 1 5; c: 3; d: 7; e: 9
    split = split_by_scaffold(scaffolds, (0.7, 0.2, 0.1))
    # equal groups come by the later first member: e (9), d (7), c (3)
    assert as_lists(split) == {"train": [0, 1, 2, 4, 5, 6, 8], "val": [7, 9], "test": [3]}


@given(st.lists(st.sampled_from(["", *"abcdefghijkl"]), min_size=20, max_size=200))
def test_a_scaffold_is_never_divided(scaffolds: list[str]) -> None:
    try:
        split = split_by_scaffold(scaffolds, (0.6, 0.2, 0.2))
    except SpecError:  # one scaffold has nearly everything
        assert max(map(scaffolds.count, scaffolds)) > 0.1 * len(scaffolds)
        return
    assert_every_graph_once(split, len(scaffolds))
    seen = [{scaffolds[index] for index in indices} for indices in split.values()]
    assert sum(map(len, seen)) == len(set(scaffolds))
    assert len(split["train"]) <= 0.6 * len(scaffolds)
    assert as_lists(split) == as_lists(split_by_scaffold(scaffolds, (0.6, 0.2, 0.2)))


def test_molecules_without_rings_are_one_group() -> None:
    with pytest.raises(SpecError, match="1 scaffolds for 30 molecules, the largest with 30"):
        split_by_scaffold([""] * 30)


def test_molecules_are_grouped_by_their_rings() -> None:
    pytest.importorskip("rdkit", reason="the scaffolds need the extra 'chem'")
    benzenes, pyridines = ["Cc1ccccc1", "OCc1ccccc1", "CC1=CC=CC=C1", "c1ccccc1"], ["Cc1ccncc1", "n1ccccc1"]
    without_rings = ["CCO", "not a molecule", "CC(C)C"]
    split = scaffold_split([*pyridines, *without_rings, *benzenes, "C1CC1"], (0.5, 0.3, 0.2))
    assert as_lists(split) == {"train": [5, 6, 7, 8, 9], "val": [2, 3, 4], "test": [0, 1]}
    with pytest.raises(SpecError, match="count=0"):
        scaffold_split([])


@pytest.mark.slow
def test_the_official_split_of_molhiv_comes_out(shared_data: Path) -> None:
    """All but a dozen molecules of 41,127, whose scaffolds RDKit writes differently today."""
    pytest.importorskip("rdkit", reason="the scaffolds need the extra 'chem'")
    with gzip.open(shared_data / "molhiv" / "molhiv.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    official = split_by_column(row["split"] for row in rows)
    split = scaffold_split([row["smiles"] for row in rows])
    for part in PARTS:
        assert len(split[part]) == len(official[part])
        assert len(np.setdiff1d(split[part], official[part])) <= 15


# --- columns


def test_a_column_names_the_split() -> None:
    column = ["train", " Valid", "TEST ", "", "validation", None, "val", float("nan"), "Train"]
    assert as_lists(split_by_column(column)) == {"train": [0, 8], "val": [1, 4, 6], "test": [2]}
    assert as_lists(split_by_column(np.array(["train", "test"]))) == {"train": [0], "val": [], "test": [1]}


def test_unknown_words_are_named_with_their_rows() -> None:
    with pytest.raises(SpecError, match=r"row 2 has 'tset', row 4 has '0'; expected train, val .*empty cell"):
        split_by_column(["train", "tset", "test", 0])
    with pytest.raises(SpecError, match="row 5 has 'x' and 95 more rows"):
        split_by_column(["x"] * 100)
    for nothing_to_train_on in (["test", "val"], ["", None], []):
        with pytest.raises(SpecError, match="'train' is empty"):
            split_by_column(nothing_to_train_on)


# --- the check


def test_a_checked_split_has_all_parts_in_order_and_is_new() -> None:
    given = {"test": [4], "validation": torch.tensor([1]), "train": np.array([3, 0], dtype=np.uint8)}
    split = check_split(given, 6)
    assert as_lists(split) == {"train": [3, 0], "val": [1], "test": [4]}
    assert all(indices.dtype == np.int64 for indices in split.values())
    again = check_split(split, 6)
    again["train"][0] = 5
    assert split["train"].tolist() == [3, 0]
    assert as_lists(check_split({"train": [0]}, 1)) == {"train": [0], "val": [], "test": []}


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"train": [0, 1], "trian": [2]}, "part 'trian'; expected train, .*did you mean 'train'"),
        ({"train": [0], "val": [1], "valid": [2]}, "'val' twice"),
        ({"train": [], "test": [0]}, "'train' is empty"),
        ({}, "'train' is empty"),
        ([0, 1], "type list"),
        ({"train": [0, 1, 0]}, "graph 0 more than once"),
        ({"train": [0, 1], "test": [2, 1]}, "graph 1 is in 'train' and in 'test' .1 such"),
        ({"train": [0], "val": [1, 2], "test": [2, 3]}, "graph 2 is in 'val' and in 'test'"),
        ({"train": [0], "val": [1, 1], "test": [1, 1]}, "graph 1 more than once"),
        ({"train": [0, 10]}, "holds 10 at position 1; expected 0 to 9"),
        ({"train": [0, -1]}, "holds -1 at position 1"),
        ({"train": [0, 2**63]}, r"holds"),
        ({"train": [0, 2**200]}, r"holds values such as '0' .object."),
        ({"train": [0.0, 1.0]}, "values such as '0.0'"),
        ({"train": [True, False]}, "numpy.flatnonzero"),
        ({"train": ["a"]}, "values such as 'a'"),
        ({"train": [[0], [1]]}, r"shape \(2, 1\)"),
        ({"train": [[0], [1, 2]]}, "cannot be read"),
        ({"train": None}, r"shape \(\)"),
        ({3: [0]}, "part '3'"),
    ],
)
def test_what_is_no_split_is_refused(split: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        check_split(split, 10)


# --- files


@given(count=st.integers(1, 60), seed=SEEDS, made_by=st.text())
def test_a_saved_split_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, count: int, seed: int, made_by: str
) -> None:
    path = tmp_path_factory.mktemp("split") / "split.json"
    split = random_split(count, seed=seed)
    save_split(path, split, count=count, made_by=made_by)
    assert as_lists(split_from_file(path, count)) == as_lists(split)
    assert json.loads(path.read_text())["made_by"] == made_by
    before = path.read_bytes()
    save_split(path, split_from_file(path, count), count=count, made_by=made_by)
    assert path.read_bytes() == before


def test_a_split_that_validates_on_test_comes_back(tmp_path: Path) -> None:
    split = folds(20, 4, seed=0, validation="test")[0]
    save_split(tmp_path / "fold.json", split, count=20)
    assert as_lists(split_from_file(tmp_path / "fold.json", 20)) == as_lists(split)


def test_the_other_formats_say_the_same(tmp_path: Path) -> None:
    split = random_split(30, seed=0)
    np.savez(tmp_path / "a.npz", train=split["train"].astype(np.int32), valid=split["val"], test=split["test"], seed=3)
    np.savez_compressed(tmp_path / "b.npz", **split)  # type: ignore[arg-type]
    rows = [f"{index},{part}" for part, indices in split.items() for index in indices]
    (tmp_path / "a.csv").write_text("index,split\n" + "\n".join(rows))
    quoted = [f'"note, {index}", {part.upper()} ,{index}' for part, indices in split.items() for index in indices]
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(["note, Split ,INDEX", *quoted, "", ""]).encode())
    (tmp_path / "a.json").write_text(json.dumps({"Train": split["train"].tolist(), "validation": split["val"].tolist(),
                                                 "test": split["test"].tolist(), "seed": 3, "by": "me"}))  # fmt: skip
    for name in ("a.npz", "b.npz", "a.csv", "b.csv", "a.json"):
        assert as_lists(split_from_file(tmp_path / name, 30)) == as_lists(split), name


def test_the_official_split_of_peptides_is_read(shared_data: Path) -> None:
    split = split_from_file(shared_data / "peptides" / "split.npz", 15_535)
    assert [len(split[part]) for part in PARTS] == [10_873, 2331, 2331]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b'{"train": [0, 1', "cut short"),
        (b"[0, 1]", "is a list"),
        (b"{}", "no part of a split"),
        (b'{"train": [0, 1.0]}', "holds '1.0'; expected whole numbers"),
        (b'{"train": [0, true]}', "holds 'True'"),
        (b'{"train": [0, "1"]}', "holds '1'"),
        (b'{"train": [0, null]}', "holds"),
        (b'{"train": [NaN]}', "holds 'nan'"),
        (b'{"train": [[0]]}', "holds"),
        (b'{"train": 3}', "'train' is a int; expected a list"),
        (b'{"train": {"0": 1}}', "'train' is a dict"),
        (b'{"train": null, "test": [1]}', "'train' is a NoneType"),
        (b'{"train": [0, -1]}', "holds -1"),
        (b'{"train": [0, 9]}', "holds 9 at position 1; expected 0 to 4"),
        (b'{"train": [0, 0]}', "more than once"),
        (b'{"train": [0], "test": [0, 1]}', "is in 'train' and in 'test'"),
        (b'{"test": [0]}', "'train' is empty"),
        (b'{"train": [0], "train": [1]}', "'train' stands there 2 times"),
        (b'{"train": [0], "tset": [1]}', "'tset'.*did you mean 'test'"),
        (b'{"train": [0], "val": [1], "valid": [2]}', "'val' twice"),
        (b'{"train": [0], "count": 12000}', "of 12000 graphs; expected 5"),
        (b'{"train": [' + b"9" * 30 + b"]}", "holds"),
        (b'{"train": [' + b"9" * 9999 + b"]}", "not valid JSON"),
        (b'{"train": ' + b"[" * 100_000, "nested too deeply"),
        ('{"train": [0]}'.encode("utf-16"), "not UTF-8"),
        (b'{"train\xff": [0]}', "not UTF-8"),
        (b"\x80\x04\x95", "not UTF-8"),
    ],
    ids=lambda value: None if isinstance(value, str) else f"{len(value)}-{value[:16].hex()}",
)
def test_bad_json_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "split.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"split\.json: .*{message}"):
        split_from_file(path, 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("0,train\n1,test\n", "header is '0,train'; expected one column index and one split"),
        ("index,split,split\n0,train,test\n", "header"),
        ("index,split\n", "'train' is empty"),
        ("index,split\n0,train\n1,tset\n", "line 3 has the split 'tset'; expected train, val"),
        ("index,split\n0,\n", "line 2 has the split ''"),
        ("index,split\n0,train,3\n", "line 2 has 3 columns; expected 2"),
        ("index,split\n0\n", "line 2 has 1 columns"),
        ("index,split\n1.0,train\n", "line 2 has the index '1.0'"),
        ("index,split\n-1,train\n", "holds -1"),
        ("index,split\n7,train\n", "holds 7"),
        ("index,split\n" + "9" * 40 + ",train\n", "has the index '9999"),
        ("index,split\n0,train\n0,train\n", "more than once"),
        ('index,split\n0,"train\n', "not valid CSV"),
        ("index,split\n0," + "x" * 200_000, "not valid CSV"),
        ("index,split\n٣,train\n", "has the index '٣'"),
    ],
    ids=range(16),
)
def test_bad_csv_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "split.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FileFormatError, match=rf"split\.csv: .*{message}"):
        split_from_file(path, 5)


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def huge_npz() -> bytes:
    """An array that claims 10¹⁸ entries and has none."""
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000000,), }"
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("train.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    return buffer.getvalue()


def single_npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a whole .npz"),
        (b"PK\x03\x04", "not a whole .npz"),
        (npz(train=np.arange(3))[:-40], "not a whole .npz"),
        (npz(train=np.array([{"a": 1}], dtype=object)), "not a whole .npz file of plain arrays"),
        (b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.", "not a whole .npz"),
        (huge_npz(), "not a whole .npz"),
        (single_npy(), "a single array"),
        (npz(), "no part of a split"),
        (npz(train=np.array([0.0, 1.0])), "values such as '0.0'"),
        (npz(train=np.array([True, False])), "flatnonzero"),
        (npz(train=np.array(3)), "shape"),
        (npz(train=np.array([0]), trian=np.array([1])), "'trian'"),
        (npz(train=np.array([2**64 - 1], dtype=np.uint64)), "holds 18446744073709551615"),
        (npz(train=np.array([0, 1]), test=np.array([1])), "is in 'train' and in 'test'"),
    ],
    ids=range(14),
)
def test_bad_npz_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "split.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"split\.npz: .*{message}"):
        split_from_file(path, 5)


@given(at=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.booleans(), compressed=st.booleans())
def test_a_damaged_npz_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int, cut: bool, compressed: bool
) -> None:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, train=np.arange(3), test=np.arange(3, 5))
    content = bytearray(buffer.getvalue())
    at %= len(content)
    content[at] = value
    path = tmp_path_factory.mktemp("damaged") / "split.npz"
    path.write_bytes(content[:at] if cut else content)
    try:
        split = split_from_file(path, 5)
    except FileFormatError:
        return
    assert not cut and set(split) == set(PARTS)


def test_a_name_must_tell_the_format(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"expected a name ending in \.json, \.npz, \.csv"):
        split_from_file(tmp_path / "split.pkl", 5)
    with pytest.raises(FileFormatError, match=r"ends in \.json"):
        save_split(tmp_path / "split.npz", {"train": [0]}, count=1)
    with pytest.raises(FileNotFoundError):
        split_from_file(tmp_path / "split.json", 5)


def test_nothing_is_written_for_a_bad_split(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        save_split(tmp_path / "split.json", {"train": [7]}, count=5)
    assert not list(tmp_path.iterdir())


def test_splits_are_imported_without_torch() -> None:
    code = "import sys, pointset.datasets.splits as s; assert 'torch' not in sys.modules; s.find_leaks"
    subprocess.run([sys.executable, "-c", code], check=True)
