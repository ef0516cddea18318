"""A table of molecules becomes a dataset; every row that does not is named with its line and the reason."""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pointset import files
from pointset.cli.datasets_check import check
from pointset.datasets.cache import FileContent
from pointset.datasets.card import Level, Metric, Task
from pointset.datasets.dataset import Dataset
from pointset.datasets.molecules import read_many
from pointset.datasets.own import Rejected, smiles_csv, write_rejected
from pointset.datasets.own.columns import holds_molecules
from pointset.datasets.own.rejected import TooManyRejectedError
from pointset.datasets.splits import save_split
from pointset.errors import FileFormatError, MissingDataError, PointsetError, SpecError, StoreWarning
from pointset.specs import Categories

Chem = pytest.importorskip("rdkit.Chem")

MOLECULES = (
    "CCO",
    "c1ccccc1O",
    "[Na+].[Cl-]",
    "CC(=O)[O-]",
    "C[C@H](N)C(=O)O",
    "F/C=C/F",
    "C#N",
    "CC(C)Cc1ccccc1",
    "O",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("POINTSET_CACHE", str(folder))
    return folder


def table(folder: Path, rows: Sequence[Sequence[object]], header: str = "smiles,y", name: str = "own.csv") -> Path:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(header + "\n")
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


def text(folder: Path, content: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def flat(dataset: Dataset) -> list[bytes]:
    features = dataset.features
    tensors = [features.x, features.edge_attr, features.pos, features.y]
    arrays = [dataset.arrays.num_nodes, dataset.arrays.edges, dataset.rows, *dataset.split.values()]
    return [np.asarray(array).tobytes() for array in (*tensors, *arrays) if array is not None]


def lines(dataset: Dataset) -> list[int]:
    return [one.row for one in dataset.rejected]


def test_a_table_becomes_a_dataset(tmp_path: Path) -> None:
    rows = [(smiles, 0.5 * index) for index, smiles in enumerate(MOLECULES)]
    dataset = smiles_csv(table(tmp_path, rows, name="solubility.csv"))
    card = dataset.card
    assert (card.name, card.level, card.task, card.metric) == (
        "solubility",
        Level.GRAPH,
        Task.REGRESSION,
        Metric.MAE,
    )
    assert dataset.target_names == ("y",) and card.outputs == 1 and card.molecules == "ogb"
    assert isinstance(card.node, Categories) and len(card.node.sizes) == 9
    assert isinstance(card.edge, Categories) and len(card.edge.sizes) == 3
    assert list(dataset.smiles or ()) == list(MOLECULES) and not dataset.rejected
    assert dataset.targets is not None and dataset.targets.tolist() == [[0.5 * index] for index in range(9)]
    assert dataset.rows is not None and dataset.rows.tolist() == list(range(2, 11))
    assert {part: len(indices) for part, indices in dataset.split.items()} == {"train": 7, "val": 1, "test": 1}
    salt = dataset.graphs[2]
    assert salt.num_nodes == 2 and salt.edge_index.shape == (2, 0) and sorted(salt.x[:, 3].tolist()) == [4, 6]
    ethanol = dataset.graphs[0]
    assert ethanol.x.shape == (3, 9) and ethanol.edge_attr.shape == (4, 3) and ethanol.y.tolist() == [[0.0]]


def test_the_dataset_feeds_a_model(tmp_path: Path) -> None:
    import pointset

    dataset = smiles_csv(table(tmp_path, [(smiles, len(smiles)) for smiles in MOLECULES]))
    model = pointset.PointModel.from_preset(
        "pst", node=dataset.card.node, edge=dataset.card.edge, out=dataset.card.outputs, dim=8, layers=1
    )
    batch = next(iter(pointset.PointLoader(dataset.points(), 4, indices=dataset.split["train"])))
    assert model(batch).shape == (4, 1)


@pytest.mark.parametrize(
    ("smiles", "targets"), [("mol", "p"), (1, 2), (1, ["p"]), ("mol", [2]), (1, np.int64(2)), (1, np.array([2]))]
)
def test_columns_by_name_and_by_number(tmp_path: Path, smiles: Any, targets: Any) -> None:
    path = table(tmp_path, [("a", "CCO", 1.5, "x"), ("b", "CC", 2.5, "y")], header="key,mol,p,note")
    dataset = smiles_csv(path, smiles=smiles, targets=targets)
    assert dataset.target_names == ("p",) and dataset.targets is not None and dataset.targets.tolist() == [[1.5], [2.5]]


@pytest.mark.parametrize("name", ["smiles", "SMILES", "Smiles", "canonical_smiles", "Canonical SMILES", "mol"])
def test_the_column_of_smiles_is_found(tmp_path: Path, name: str) -> None:
    assert len(smiles_csv(table(tmp_path, [(1.5, "CCO")], header=f"y,{name}"))) == 1


def test_identifiers_and_words_are_not_targets(tmp_path: Path) -> None:
    header = ",id,smiles,logP,note,split,chembl_id"
    rows = [(n, n, smiles, n / 7, "ok", "train", n) for n, smiles in enumerate(MOLECULES)]
    dataset = smiles_csv(table(tmp_path, rows, header=header))
    assert dataset.target_names == ("logP",)
    assert "the target is logP" in dataset.card.notes[0] and "'chembl_id'" in dataset.card.notes[1]


def test_classes_with_many_digits_stay_apart(tmp_path: Path) -> None:
    rows = [[smiles, f"{20230101 + index % 2}"] for index, smiles in enumerate(MOLECULES)]
    dates = smiles_csv(table(tmp_path, rows), task="multi-class")
    assert dates.card.classes == ("20230101", "20230102")
    rows = [[smiles, ("1", "1.0", "2.5")[index % 3]] for index, smiles in enumerate(MOLECULES)]
    assert smiles_csv(table(tmp_path, rows), task="multi-class").card.classes == ("1", "2.5")


def test_an_index_of_something_is_a_target(tmp_path: Path) -> None:
    path = table(tmp_path, [[smiles, 1, len(smiles)] for smiles in MOLECULES], header="smiles,index,refractive_index")
    assert smiles_csv(path).target_names == ("refractive_index",)


def test_a_table_that_changes_while_it_is_read_is_kept_as_it_was_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path, [[smiles, 1.5] for smiles in MOLECULES])
    before = hashlib.sha256(path.read_bytes()).hexdigest()

    def change_then_read(*args: Any, **options: Any) -> Any:
        table(tmp_path, [[smiles, 2.5] for smiles in MOLECULES])
        return read_many(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr("pointset.datasets.own.molecules.read_many", change_then_read)
        first = smiles_csv(path, targets="y")
    assert first.targets is not None and set(first.targets.flatten().tolist()) == {1.5}
    assert first.provenance.sha256 == (before,)
    second = smiles_csv(path, targets="y")
    assert second.targets is not None and set(second.targets.flatten().tolist()) == {2.5}
    assert second.provenance.sha256 != first.provenance.sha256


def test_a_table_is_opened_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, [[smiles, 1.5] for smiles in MOLECULES])
    opened = []
    original = files._open_regular

    def counted(path: str, flags: int) -> int:
        opened.append(Path(path))
        return original(path, flags)

    monkeypatch.setattr(files, "_open_regular", counted)
    content = FileContent(path)
    assert holds_molecules(content)
    smiles_csv(content)
    assert opened.count(path) == 1


@pytest.mark.parametrize("targets", [1.0, True, [None]])
def test_columns_that_are_none(tmp_path: Path, targets: Any) -> None:
    with pytest.raises(SpecError, match=r"expected the name of a column, or its number"):
        smiles_csv(table(tmp_path, [["CC", 1.5]]), targets=targets)


def test_yes_and_no_are_no_truth_values(tmp_path: Path) -> None:
    with pytest.raises(PointsetError, match="got hydrogens='no'; expected True or False"):
        smiles_csv(table(tmp_path, [["CC", 1.5]]), hydrogens="no")  # type: ignore[arg-type]


def test_few_real_targets_are_stratified_in_few_bins(tmp_path: Path) -> None:
    rows = [["C" * (index + 1), index + 0.5] for index in range(12)]
    assert len(smiles_csv(table(tmp_path, rows), split="stratified").split["train"]) >= 9


def test_a_table_without_header(tmp_path: Path) -> None:
    path = text(tmp_path, "CCO,1.5\nCC,2.5\n")
    dataset = smiles_csv(path, smiles=0, targets=1, header=False)
    assert dataset.rows is not None and dataset.rows.tolist() == [1, 2] and dataset.target_names == ("column 1",)
    with pytest.raises(FileFormatError, match="header=False"):
        smiles_csv(path, smiles=0, targets=1)
    with pytest.raises(SpecError, match="header=False"):
        smiles_csv(path)


def test_smi_files_have_no_targets(tmp_path: Path) -> None:
    path = text(tmp_path, "CCO ethanol\nC methane\n", "own.smi")
    for automatic in (False, True):
        dataset = smiles_csv(path, targets=None if automatic else [])
        assert len(dataset) == 2 and dataset.targets is None and dataset.target_names == ()
        assert any("no targets" in note and "--target" in note for note in dataset.card.notes) == automatic
    numbers_as_names = text(tmp_path, "CCO 17\nC 18\n", "numbers.smi")
    assert smiles_csv(numbers_as_names).targets is None
    assert smiles_csv(numbers_as_names, targets=1).target_names == ("column 1",)


def test_a_smi_file_with_tabs_can_have_targets(tmp_path: Path) -> None:
    path = text(tmp_path, 'CCO\tethyl alcohol\t1.5\nC\t"methane\t2.5\n', "own.smi")
    for targets in (2, None):
        dataset = smiles_csv(path, targets=targets)
        assert dataset.targets is not None and dataset.targets.tolist() == [[1.5], [2.5]]


def test_names_alone_are_molecules_without_targets(tmp_path: Path) -> None:
    path = table(tmp_path, [("C", "methane"), ("CC", "ethane")], header="smiles,name")
    assert smiles_csv(path).targets is None
    result = CliRunner().invoke(app, [str(path)])
    assert result.exit_code == 0 and "no targets: nothing to learn from" in result.output, result.output
    assert "none (no targets" in result.output and "MAE" not in result.output


def test_gzip_tabs_and_semicolons(tmp_path: Path) -> None:
    content = "smiles\ty\nCCO\t1\nCC\t2.5\n"
    plain = smiles_csv(text(tmp_path, content, "a.tsv"))
    packed = smiles_csv(text(tmp_path, gzip.compress(content.encode()), "a.tsv.gz"))
    semicolons = smiles_csv(text(tmp_path, content.replace("\t", ";")))
    assert flat(plain) == flat(packed) == flat(semicolons)
    assert packed.card.name == "a"


def test_missing_values_are_nan_and_rows_without_any_are_rejected(tmp_path: Path) -> None:
    rows = [("CCO", 1.5, ""), ("CC", "NA", 2), ("C", "nan", "null"), ("O", "-", " "), ("N", "3e-1", "n/a")]
    dataset = smiles_csv(table(tmp_path, rows, header="smiles,a,b"), targets=["a", "b"], max_rejected=0)
    assert dataset.targets is not None
    np.testing.assert_array_equal(dataset.targets.numpy(), [[1.5, np.nan], [np.nan, 2], [0.3, np.nan]])
    assert [(one.row, one.kind) for one in dataset.rejected] == [(4, "no target"), (5, "no target")]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("abc", "'abc'; expected a number"),
        ("inf", "finite"),
        ("-Infinity", "finite"),
        ("1e999", "finite"),
        ("1_000", "expected a number"),
        ("1,5", "decimal point, not a comma"),
        ("true", "expected a number"),
        (">>100", "is '>>100', a limit; expected a number"),
        ("> n.d.", "a limit; expected a number"),
        ("~3", "a limit; expected a number"),
        ("12 uM", "expected a number alone"),
        ("5±1", "expected a number alone"),
        ("0x10", "expected a number"),
        ("1.2*^-6", "expected a number"),
    ],
)
def test_what_is_no_number_is_rejected_with_column_and_value(tmp_path: Path, cell: str, told: str) -> None:
    rows = [*((smiles, 0.5) for smiles in MOLECULES), ("CCC", cell)]
    (one,) = smiles_csv(table(tmp_path, rows, header="smiles,gap"), targets="gap").rejected
    assert one.row == 11 and "'gap'" in one.reason and told in one.reason


def test_every_bad_row_is_kept_for_the_record(tmp_path: Path) -> None:
    content = "\n".join(
        [
            "smiles,y,note",  # line 1
            "CCO,1.5,fine",
            "C(C,1.5,not a SMILES",
            "CCO,word,not a number",
            "CCO,1.5",  # line 5
            'CC,2.5,"two',
            'lines"',
            ",3.5,no SMILES",
            "",
            "CC C,4.5,two words",  # line 10
            "C\0C,5.5,NUL",
            f"{'C' * 10**6},6.5,long",
            f"{'C' * 20_000},6.5,long as well",
            "C(C)(C)(C)(C)C,7.5,five bonds",
            "O,8.5,fine",  # line 15
            '"O,9.5,quote',
            "N,10.5,fine",
            "[Xx],1.5,no element",
            "CCO>>CC,1.5,reaction",
        ]
    )
    dataset = smiles_csv(text(tmp_path, content), max_rejected=1.0)
    assert dataset.rows is not None and dataset.rows.tolist() == [2, 6, 15, 17]
    assert lines(dataset) == [3, 4, 5, 8, 10, 11, 12, 13, 14, 16, 18, 19]
    reasons = {one.row: one.reason for one in dataset.rejected}
    assert "parenthes" in reasons[3] and "2 cells; expected 3" in reasons[5] and "NUL" in reasons[11]
    assert "131,072 characters" in reasons[12] and "quote" in reasons[16] and "reaction" in reasons[19]
    assert all(one.reason and len(one.content) <= 80 and len(one.reason) < 400 for one in dataset.rejected)

    record = tmp_path / "bad.csv"
    write_rejected(record, dataset.rejected)
    with record.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [int(row["row"]) for row in read] == lines(dataset)
    assert [row["reason"] for row in read] == [one.reason for one in dataset.rejected]

    write_rejected(record, dataset.rejected, tmp_path / "own.csv")
    with record.open(newline="") as file:
        whole = list(csv.DictReader(file))
    assert [int(row["line"]) for row in whole] == lines(dataset)
    assert (whole[1]["smiles"], whole[1]["y"], whole[1]["note"]) == ("CCO", "word", "not a number")
    assert (whole[2]["y"], whole[2]["note"], whole[7]["smiles"]) == ("1.5", "", "C" * 20_000)


def test_a_quote_that_swallows_rows_is_named(tmp_path: Path) -> None:
    good = "".join(f"{smiles},0.5\n" for smiles in MOLECULES * 2)
    path = text(tmp_path, f'smiles,y\n{good}"CC,1.5\nCCC,2.5\n",3.5\nO,4.5\n')
    (one,) = smiles_csv(path).rejected
    assert one.row == 20 and "several lines" in one.reason and "quote" in one.reason


def test_more_than_a_tenth_bad_stops_with_a_summary(tmp_path: Path, cache: Path) -> None:
    good = [("CCO", 0.5)] * 89
    path = table(tmp_path, [("C(C", 1), ("CC", "x"), *good, *[("C1CC", 2)] * 9])
    with pytest.raises(TooManyRejectedError) as caught:
        smiles_csv(path)
    message = str(caught.value)
    assert "11 of 100 rows (11%)" in message and "expected at most 10%" in message
    assert "10 × a SMILES that cannot be read, 1 × a target that is not a number" in message
    assert "line 2: 'C(C'" in message and "line 3:" in message and "… and 6 more" in message
    assert "max_rejected=1.0" in message and len(caught.value.rejected) == 11
    assert not list(cache.rglob("*"))
    assert len(smiles_csv(path, max_rejected=0.11, duplicates="keep")) == 89
    with pytest.raises(TooManyRejectedError):  # also when it is in the cache by now
        smiles_csv(path)
    exactly = table(tmp_path, [("C(C", 1), *[("CCO", 0.5)] * 9], name="exactly.csv")
    assert len(smiles_csv(exactly, duplicates="keep")) == 9


def test_when_no_row_is_left_nothing_helps(tmp_path: Path) -> None:
    with pytest.raises(TooManyRejectedError, match="no row is left"):
        smiles_csv(table(tmp_path, [("C(C", 1), ("CC(", 2)]), max_rejected=1.0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ("smiles,y\n", "no rows"),
        ("a,b\n1,2\n", "no column that is named smiles; its columns are 0 'a', 1 'b'"),
        ("smiles,y,y\nC,1,2\n", "names 'y' more than once"),
        ("smiles,smiles,y\nC,C,1\n", "names 'smiles' more than once"),
        ("SMILES,smiles,y\nC,C,1\n", "names 'SMILES', 'smiles' more than once"),
    ],
    ids=["empty", "header only", "other columns", "targets twice", "smiles twice", "two smiles"],
)
def test_tables_that_cannot_be_read(tmp_path: Path, content: str, told: str, cache: Path) -> None:
    with pytest.raises(PointsetError, match=told):
        smiles_csv(text(tmp_path, content))
    assert not cache.exists()


def test_header_only_with_the_columns_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="has a header, but no rows"):
        smiles_csv(text(tmp_path, "smiles,y\n"), targets="y")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"smiles": "mol"}, "no column 'mol' for smiles"),
        ({"targets": ["Y"]}, "did you mean|its columns are"),
        ({"targets": [7]}, "expected 0 to 1"),
        ({"targets": [-1]}, "expected 0 to 1"),
        ({"targets": [True]}, "expected the name of a column"),
        ({"targets": ["y", 1]}, "each column once"),
        ({"targets": ["smiles"]}, "cannot be a target"),
        ({"task": "regresion"}, "did you mean 'regression'"),
        ({"split": "randon"}, "did you mean 'random'"),
        ({"split": "column:fold"}, "no column 'fold' for split"),
        ({"split": "missing.json"}, "there is no file missing.json"),
        ({"max_rejected": 10}, "between 0 and 1"),
        ({"max_rejected": float("nan")}, "between 0 and 1"),
        ({"seed": -1}, "seed"),
        ({"conformer_seed": -1}, "conformer_seed"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_impossible_settings_say_what_is_possible(tmp_path: Path, arguments: dict[str, Any], told: str) -> None:
    path = table(tmp_path, [(smiles, len(smiles)) for smiles in MOLECULES])
    with pytest.raises(PointsetError, match=told):
        smiles_csv(path, **arguments)


def test_missing_file_and_gzip_cut_short_leave_nothing_behind(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no file"):
        smiles_csv(tmp_path / "none.csv")
    packed = gzip.compress("\n".join(["smiles,y", *(f"{'C' * (n % 30 + 1)},{n}" for n in range(3000))]).encode())
    with pytest.raises(FileFormatError, match="cut short"):
        smiles_csv(text(tmp_path, packed[:-500], "own.csv.gz"))
    with pytest.raises(FileFormatError, match="LATIN1"):
        smiles_csv(text(tmp_path, "smiles,y,note\nC,1,caf\u00e9\n".encode("latin-1")))
    assert not cache.exists()


@pytest.mark.parametrize(
    ("cells", "task", "metric", "targets"),
    [
        ([0, 1, 1], Task.BINARY, Metric.ROC_AUC, [0.0, 1.0, 1.0]),
        (["1.0", "0.0", "1"], Task.BINARY, Metric.ROC_AUC, [1.0, 0.0, 1.0]),
        (["True", "FALSE", "true"], Task.BINARY, Metric.ROC_AUC, [1.0, 0.0, 1.0]),
        ([0, 1, 2], Task.REGRESSION, Metric.MAE, [0.0, 1.0, 2.0]),
        (["b", "a", "b"], Task.MULTI_CLASS, Metric.ACCURACY, [1, 0, 1]),
    ],
    ids=["0 1", "1.0 0.0", "true", "numbers", "words"],
)
def test_the_task_is_inferred(
    tmp_path: Path, cells: list[Any], task: Task, metric: Metric, targets: list[float]
) -> None:
    dataset = smiles_csv(table(tmp_path, list(zip(("C", "CC", "CCC"), cells, strict=True))), targets="y")
    assert (dataset.card.task, dataset.card.metric) == (task, metric)
    assert dataset.targets is not None and dataset.targets.flatten().tolist() == targets
    assert dataset.targets.shape == ((3,) if task is Task.MULTI_CLASS else (3, 1))


def test_classes_are_numbered_in_order_and_only_those_in_use(tmp_path: Path) -> None:
    path = table(tmp_path, [("C", "10"), ("CC", "9"), ("C(", "11"), ("CCC", "10.0"), ("O", "")])
    dataset = smiles_csv(path, task="multi-class", max_rejected=0.5)
    assert dataset.card.classes == ("9", "10") and dataset.card.outputs == 2
    assert dataset.targets is not None and dataset.targets.tolist() == [1, 0, 1]
    assert dataset.targets.dtype == torch.int64
    with pytest.raises(SpecError, match="different words"):
        smiles_csv(table(tmp_path, [("C" * n, f"name {n}") for n in range(1, 30)], name="n.csv"), targets="y")


def test_many_labels_with_missing_ones(tmp_path: Path) -> None:
    dataset = smiles_csv(table(tmp_path, [("C", 0, 1), ("CC", "", 0), ("O", 1, "NA")], header="smiles,a,b"))
    assert dataset.card.task is Task.MULTI_LABEL and dataset.card.metric is Metric.ROC_AUC
    assert dataset.targets is not None and dataset.targets.dtype == torch.float32
    np.testing.assert_array_equal(dataset.targets.numpy(), [[0, 1], [np.nan, 0], [1, np.nan]])


def test_labels_that_are_none_are_rejected_when_the_task_is_given(tmp_path: Path) -> None:
    path = table(tmp_path, [("C", 0), ("CC", 2), ("O", 1)])
    dataset = smiles_csv(path, task="binary", max_rejected=0.5)
    assert [(one.row, "expected 0 or 1" in one.reason) for one in dataset.rejected] == [(3, True)]
    with pytest.raises(SpecError, match="expected one"):
        smiles_csv(table(tmp_path, [("C", 0, 1)], header="smiles,a,b", name="n.csv"), task="binary")
    with pytest.raises(SpecError, match="holds words"):
        smiles_csv(table(tmp_path, [("C", 0, "x")], header="smiles,a,b", name="w.csv"), targets=["a", "b"])


def test_splits_by_column_scaffold_class_and_file(tmp_path: Path) -> None:
    parts = ["train", "Train", "valid", "test", "", "train", "train", "train", "foo"]
    rows = [(smiles, index % 2, part) for index, (smiles, part) in enumerate(zip(MOLECULES, parts, strict=True))]
    path = table(tmp_path, rows, header="smiles,y,fold")
    by_column = smiles_csv(path, split="column:fold", max_rejected=0.2)
    assert {part: indices.tolist() for part, indices in by_column.split.items()} == {
        "train": [0, 1, 5, 6, 7],
        "val": [2],
        "test": [3],
    }
    assert lines(by_column) == [10] and "'foo'" in by_column.rejected[0].reason
    assert by_column.target_names == ("y",) and "fold" in by_column.card.split
    for how in ("stratified", "random"):
        one, same, other = (smiles_csv(path, targets="y", split=how, seed=seed) for seed in (0, 0, 1))
        assert flat(one) == flat(same) and flat(one) != flat(other)
    rings = [*(f"{'C' * n}c1ccccc1" for n in range(16)), "C1CC1", "CC1CC1", "C1CCC1", "CC1CCC1"]
    scaffolds = smiles_csv(table(tmp_path, [(ring, 0.5) for ring in rings], name="r.csv"), split="scaffold").split
    assert scaffolds["train"].tolist() == list(range(16)) and len(scaffolds["val"]) == len(scaffolds["test"]) == 2
    save_split(tmp_path / "s.json", {"train": [0, 1], "val": [2], "test": [3]}, count=9)
    assert smiles_csv(path, targets="y", split=tmp_path / "s.json").split["train"].tolist() == [0, 1]
    save_split(tmp_path / "s.json", {"train": [0, 1], "val": [2], "test": [3]}, count=8)
    with pytest.raises(FileFormatError, match="8"):
        smiles_csv(path, targets="y", split=str(tmp_path / "s.json"))


def test_a_split_file_is_refused_where_rows_were_left_out_and_it_may_count_them(tmp_path: Path) -> None:
    path = table(tmp_path, [("C(", 1.5), *((smiles, 2.5) for smiles in MOLECULES)])
    (tmp_path / "s.json").write_text('{"train": [0, 1, 2], "val": [3], "test": [4]}')
    with pytest.raises(SpecError, match="may count other rows"):
        smiles_csv(path, split=tmp_path / "s.json")


def test_hydrogens_and_positions(tmp_path: Path) -> None:
    path = table(tmp_path, [("CO", 1.5), ("C", 2.5)])
    plain, explicit = smiles_csv(path), smiles_csv(path, hydrogens=True, conformer_seed=7)
    assert plain.arrays.num_nodes.tolist() == [2, 1] and explicit.arrays.num_nodes.tolist() == [6, 5]
    assert not plain.card.positions and explicit.card.positions
    methane = explicit.graphs[1]
    assert methane.pos.shape == (5, 3)
    lengths = (methane.pos[1:] - methane.pos[0]).norm(dim=1)
    assert torch.allclose(lengths, torch.full((4,), 1.09), atol=0.03)


def test_impossible_chemistry_only_on_request(tmp_path: Path) -> None:
    path = table(tmp_path, [("C(C)(C)(C)(C)C", 1.5), ("C", 2.5)])
    with pytest.raises(TooManyRejectedError, match="lenient=True"):
        smiles_csv(path)
    assert len(smiles_csv(path, lenient=True)) == 2


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), smiles=st.sampled_from([*MOLECULES, "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C1CC2CCC1C2"]))
def test_the_same_molecule_written_differently_is_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory, seed: int, smiles: str
) -> None:
    generator = random.Random(seed)
    molecule = Chem.MolFromSmiles(smiles)
    order = list(range(molecule.GetNumAtoms()))
    generator.shuffle(order)
    again = Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)
    dataset = smiles_csv(table(tmp_path_factory.mktemp("t"), [(smiles, 1.5), (again, 1.5)]), duplicates="keep")
    one, other = (dataset.graphs[index].to_dict() for index in (0, 1))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in ("x", "edge_index", "edge_attr"))


def test_the_second_use_reads_the_cache_and_gives_the_same_bytes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(smiles, number / 3, "") for number, smiles in enumerate(MOLECULES * 2)]
    path = table(tmp_path, [*rows, ("C(", 1, "bad")], header="smiles,y,note")
    first = smiles_csv(path)
    files = {file.name: file.read_bytes() for file in cache.rglob("*") if file.is_file()}
    assert len(files) == 1

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("molecules are read again")

    with monkeypatch.context() as patched:
        patched.setattr("pointset.datasets.own.molecules.read_many", forbidden)
        second = smiles_csv(path)
        moved = smiles_csv(shutil.copy(path, tmp_path / "copy.csv"))
    assert flat(first) == flat(second) == flat(moved)
    assert first.rejected == second.rejected and all(isinstance(one, Rejected) for one in second.rejected)
    assert (first.card, first.smiles) == (second.card, second.smiles)

    for damaged in sorted(files):
        (file,) = cache.rglob(damaged)
        file.write_bytes(files[damaged][:-3])
        with pytest.warns(StoreWarning):
            again = smiles_csv(path)
        assert flat(again) == flat(first)
        assert {file.name: file.read_bytes() for file in cache.rglob("*") if file.is_file()} == files


def test_other_settings_are_another_entry_of_the_cache(tmp_path: Path) -> None:
    path = table(tmp_path, [("CO", 1.5, 7), ("C", 2.5, 8)], header="smiles,y,z")
    seen = [
        smiles_csv(path, **settings)
        for settings in (
            {"targets": ["y", "z"]},
            {"targets": "y"},
            {"targets": ["z", "y"]},
            {"targets": "y", "hydrogens": True},
        )
    ]
    assert len({tuple(flat(dataset)) for dataset in seen}) == 4
    table(tmp_path, [("CO", 1.5, 7), ("C", 3.5, 8)], header="smiles,y,z")
    assert flat(smiles_csv(path, targets=["y", "z"])) != flat(seen[0])


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("POINTSET_CACHE", str(blocked))
    with pytest.warns(StoreWarning, match="POINTSET_CACHE"):
        assert len(smiles_csv(table(tmp_path, [("CO", 1.5)]))) == 1


@pytest.mark.slow
def test_the_order_does_not_depend_on_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("C" * (number % 23 + 1) + "O" * (number % 2), number) for number in range(3000)]
    path = table(tmp_path, [*rows, ("C(", 1)])
    found = []
    for workers in (1, 2):
        monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / f"cache {workers}"))
        found.append(flat(smiles_csv(path, workers=workers)))
    assert found[0] == found[1]


CELLS = st.one_of(
    st.sampled_from([*MOLECULES, "", "NA", "C(", "1.5", "0", "1", "-", "inf", "x", "train", '"', "a\nb", "\0", "é"]),
    st.text(st.sampled_from(list('CcN1()[]=#.,;"\n\t 0é')), max_size=8),
)


@settings(max_examples=150)
@given(
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=6),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    targets=st.sampled_from([None, "y", ["y", "z"], []]),
)
def test_every_row_is_kept_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], quoting: Any, targets: Any
) -> None:
    path = tmp_path_factory.mktemp("t") / "own.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=quoting)
        writer.writerow(["smiles", "y", "z"])
        writer.writerows(rows)
    filled = [at for at, row in enumerate(rows) if any(cell.strip() for cell in row)]
    written = rows[: filled[-1] + 1 if filled else 0]  # without empty rows at the end; and blank lines are not rows
    blank = [len(row) == 1 and row[0] != "" and not row[0].strip(" \t") for row in written]
    expected = len(written) - (sum(blank) if quoting == csv.QUOTE_MINIMAL else 0)
    kept: list[int] = []
    merged = 0
    try:
        dataset = smiles_csv(path, targets=targets, max_rejected=1.0, seed=1)
        merged = dataset.merged
        rejected: Sequence[Rejected] = dataset.rejected
        kept = [] if dataset.rows is None else dataset.rows.tolist()
        assert len(kept) == len(dataset)
    except TooManyRejectedError as error:
        rejected = error.rejected
    except PointsetError:
        return
    every = [*kept, *(one.row for one in rejected)]
    assert len(every) == len(set(every)) == expected - merged and min(every) > 1


@settings(max_examples=60)
@given(content=st.one_of(st.binary(max_size=80), st.text(st.sampled_from(list('smiley,CO1\n";\t\0é')), max_size=80)))
def test_any_bytes_give_a_dataset_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | str
) -> None:
    path = text(tmp_path_factory.mktemp("t"), content)
    with contextlib.suppress(PointsetError):
        dataset = smiles_csv(path, smiles=0, targets=[], max_rejected=1.0)
        assert len(dataset) > 0 and dataset.smiles is not None and all(dataset.smiles)


app = typer.Typer()
app.command()(check)


def test_the_command_prints_card_numbers_and_bad_rows(tmp_path: Path) -> None:
    path = table(tmp_path, [*((smiles, 0.25 * len(smiles)) for smiles in MOLECULES), ("C(", 1)])
    result = CliRunner().invoke(app, [str(path), "--smiles", "0", "--target", "y"])
    assert result.exit_code == 0, result.output
    assert "regression" in result.output and "left out line 11" in result.output
    assert "9 of 10 rows can be used" in result.output
    as_json = CliRunner().invoke(app, [str(path), "--json"])
    content = json.loads(as_json.stdout)
    assert content["statistics"]["graphs"] == 9 and content["rejected"][0]["row"] == 11


def test_the_command_fails_with_the_summary_and_keeps_the_rows(tmp_path: Path) -> None:
    path = table(tmp_path, [("C(", 1), ("C", 2.5)])
    record = tmp_path / "bad.csv"
    result = CliRunner().invoke(app, [str(path), "--rejected", str(record)])
    assert result.exit_code == 1 and "1 of 2 rows (50%)" in result.output and "--max-rejected 1" in result.output
    assert record.read_text().count("\n") == 2
    for arguments, told in (
        ([str(path), "--rejected", str(path)], "replace the data"),
        ([str(path), "--table", "x.csv"], "--table has no effect"),
        ([str(tmp_path / "none.csv")], "there is no file"),
        ([str(tmp_path / "none.xyz")], "there is no file"),
        ([str(text(tmp_path, "x", "a.xyz"))], "not a known kind of data"),
        ([str(text(tmp_path, "x", "a.xls"))], "Save it as .xlsx, or the sheet as CSV (UTF-8)"),
        ([str(text(tmp_path, "x", "a.xlsx"))], "is not a workbook that can be read"),
        ([str(text(tmp_path, "x", "a.pdb"))], "Export an SDF"),
        ([str(path), "--target", "z"], "(--target, dataset.targets)"),
        ([str(text(tmp_path, "a,b\nC,1\n", "n.csv"))], "(--smiles, dataset.options.smiles)"),
        (
            [str(text(tmp_path, "C,1\n", "h.csv")), "--smiles", "0", "--target", "1"],
            "(--no-header, dataset.options.header=false)",
        ),
        ([str(path), "--split", "x", "--max-rejected", "1"], "(--split)"),
        ([str(path), "--task", "x"], "(--task, dataset.options.task)"),
    ):
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        assert result.exit_code != 0 and told in result.output and "Traceback" not in result.output


def test_molecules_and_graphs_are_told_apart(tmp_path: Path) -> None:
    assert holds_molecules(text(tmp_path, "smiles,y\n"))
    assert not holds_molecules(text(tmp_path, "Source,target,weight\n"))
    assert holds_molecules(tmp_path / "a.smi.gz") and holds_molecules(tmp_path / "a.tsv")
    assert not holds_molecules(tmp_path) and not holds_molecules(tmp_path / "a.g6")


def test_a_corrected_record_of_bad_rows_can_be_read_again(tmp_path: Path) -> None:
    rows = [f"{'C' * n};{n},5" for n in range(1, 10)]
    path = text(tmp_path, "\n".join(["smiles;logP", *rows, "C(;10,5"]))
    record = tmp_path / "bad.csv"
    assert CliRunner().invoke(app, [str(path), "--rejected", str(record)]).exit_code == 0
    corrected = smiles_csv(text(tmp_path, record.read_text().replace("C(;", "CO;"), "good.csv"))
    assert corrected.target_names == ("logP",) and corrected.targets is not None
    assert corrected.targets.tolist() == [[10.5]] and list(corrected.smiles or ()) == ["CO"]

    names = text(tmp_path, "C( methyl alcohol\n" + "C methane\n" * 9, "own.smi")
    record = tmp_path / "bad.smi"
    assert CliRunner().invoke(app, [str(names), "--rejected", str(record)]).exit_code == 0
    again = smiles_csv(text(tmp_path, record.read_text().replace("C(\t", "CO\t"), "good.smi"))
    assert list(again.smiles or ()) == ["CO"] and again.targets is None


def test_the_command_says_how_to_keep_all_rows_and_names_lines_of_leaks(tmp_path: Path) -> None:
    bad = [("C(", 1)] * 30
    parts = ["train"] * 8 + ["test"]
    good = [(smiles, 0.25 * n, part) for n, (smiles, part) in enumerate(zip(MOLECULES, parts, strict=True))]
    rows = [*good, ("OCC", 7.5, "test"), ("N", "", "train"), *((*row, "train") for row in bad)]
    path = table(tmp_path, rows, header="smiles,y,fold")
    result = CliRunner().invoke(app, [str(path), "--max-rejected", "1", "--split", "column:fold"])
    assert result.exit_code == 0, result.output
    assert "left out 10 more; --rejected OUT.csv keeps all 31" in result.output
    assert (
        "left out 1 with no target, which is not a mistake: line 12" in result.output
        and "10 of 41 rows" in result.output
    )
    assert "1 of 2 test molecules is also in train (line 11 'OCC' = line 2 'CCO')" in result.output


def test_the_command_takes_impossible_chemistry_on_request(tmp_path: Path) -> None:
    path = table(tmp_path, [("C(C)(C)(C)(C)C", 1.5), ("C", 2.5)])
    refused = CliRunner().invoke(app, [str(path)])
    assert refused.exit_code == 1 and "(--lenient, dataset.options.lenient=true)" in refused.output
    assert CliRunner().invoke(app, [str(path), "--lenient"]).exit_code == 0


@pytest.mark.parametrize("separator", [";", "\t"], ids=["semicolon", "tab"])
@pytest.mark.parametrize("targets", [None, "logP"], ids=["found", "named"])
def test_decimal_commas_are_numbers(tmp_path: Path, separator: str, targets: str | None) -> None:
    cells = ["-0,31", "1,5", "2", "", "3,0e-1", "1.234,5", "1.5"]
    rows = [separator.join(row) for row in zip(MOLECULES, cells, strict=False)]
    path = text(tmp_path, "\n".join([f"smiles{separator}logP", *rows]))
    dataset = smiles_csv(path, targets=targets, max_rejected=0.5)
    assert dataset.card.task is Task.REGRESSION and "decimal commas in 'logP'" in dataset.card.notes
    assert dataset.targets is not None and dataset.targets.flatten().tolist() == [-0.31, 1.5, 2, 0.3]
    assert lines(dataset) == [5, 7, 8] and "no point" in dataset.rejected[1].reason


def test_a_stray_decimal_comma_among_points_is_a_bad_row(tmp_path: Path) -> None:
    path = text(tmp_path, "smiles;y\n" + "C;0.5\n" * 9 + "C;1,5\n")
    dataset = smiles_csv(path, targets="y")
    assert dataset.merged == 8 and dataset.card.notes[0].startswith("1 molecule stands in 9 rows")
    assert lines(dataset) == [11] and "not a comma" in dataset.rejected[0].reason
    assert not any("decimal" in note for note in dataset.card.notes)


def test_limits_are_never_classes(tmp_path: Path) -> None:
    path = table(tmp_path, [("C", ">100"), ("CC", "<5"), ("O", "12 uM"), ("N", "7.5"), ("CO", "8.5"), ("CN", "weak")])
    dataset = smiles_csv(path, targets="y", max_rejected=1.0)
    assert dataset.card.task is Task.REGRESSION and lines(dataset) == [4, 7]
    classes = [("C", "1a"), ("CC", "2b"), ("O", "1a")]
    with pytest.raises(SpecError, match=r"'1a'.*--task multi-class"):
        smiles_csv(table(tmp_path, classes, name="c.csv"), targets="y")
    assert smiles_csv(tmp_path / "c.csv", targets="y", task="multi-class").card.classes == ("1a", "2b")


def test_rows_without_a_target_do_not_count_as_bad(tmp_path: Path) -> None:
    path = table(tmp_path, [*((smiles, "") for smiles in MOLECULES * 5), ("C", 0), ("CC", 1)])
    dataset = smiles_csv(path, max_rejected=0)
    assert len(dataset) == 2 and {one.kind for one in dataset.rejected} == {"no target"}
    with pytest.raises(TooManyRejectedError, match=r"1 of 3 rows \(33\.3%\)"):
        smiles_csv(table(tmp_path, [*((smiles, "?") for smiles in MOLECULES), ("C", 0), ("CC", 1), ("C(", 1)]))
    with pytest.raises(TooManyRejectedError, match="no row is left"):
        smiles_csv(table(tmp_path, [("C", "n.d."), ("CC", "N.T.")]), targets="y")


def test_few_whole_numbers_may_be_classes(tmp_path: Path) -> None:
    path = table(tmp_path, [(smiles, index % 3) for index, smiles in enumerate(MOLECULES)])
    (note,) = smiles_csv(path, targets="y").card.notes
    assert "whole numbers 0…2" in note and "--task multi-class" in note
    assert smiles_csv(path, targets="y", task="regression").card.notes == ()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("expt (kcal/mol)", "kcal/mol"),
        ("logS [mol/L]", "mol/L"),
        ("T (K)", "K"),
        ("yield (%)", "%"),
        ("y (measured)", ""),
        ("y", ""),
        ("(K)", ""),
    ],
)
def test_a_unit_in_the_header(tmp_path: Path, name: str, unit: str) -> None:
    (target,) = smiles_csv(table(tmp_path, [("C", 1.5), ("CC", 2.5)], header=f"smiles,{name}")).card.targets
    assert (target.name, target.unit) == (name, unit)


def test_shares_of_a_random_split(tmp_path: Path) -> None:
    path = table(tmp_path, [("C" * n, n / 2) for n in range(1, 11)])
    dataset = smiles_csv(path, split=(0.7, 0.2, 0.1))
    assert [len(part) for part in dataset.split.values()] == [7, 2, 1] and "0.7/0.2/0.1" in dataset.card.split
    wrong: Any
    for wrong in ((0.7, 0.7, 0.1), (0.5, 0.5), ("a", "b", "c"), 5, None):
        with pytest.raises(SpecError):
            smiles_csv(path, split=wrong)


def test_real_molecules(shared_data: Path, tmp_path: Path) -> None:
    whole = gzip.decompress((shared_data / "molhiv" / "molhiv.csv.gz").read_bytes()).decode().splitlines()
    dataset = smiles_csv(text(tmp_path, "\n".join(whole[:301]) + "\n"), split="column:split")
    assert dataset.card.task is Task.BINARY and dataset.target_names == ("HIV_active",)
    assert len(dataset) + len(dataset.rejected) == 300 and lines(dataset) == [139]
    assert sum(len(part) for part in dataset.split.values()) == len(dataset)


def test_rows_without_anything_are_bad_between_others_and_absent_at_the_end(tmp_path: Path) -> None:
    rows = "".join(f"{smiles},{number}.5\n" for number, smiles in enumerate(MOLECULES))
    path = text(tmp_path, f"smiles,y\n{rows},\n\nCCC,7.5\n" + ",,,\n" * 500 + ",\n\n")
    dataset = smiles_csv(path)
    assert [(one.row, one.kind) for one in dataset.rejected] == [(11, "no SMILES")]
    assert len(dataset) == 10 and dataset.rows is not None and dataset.rows[-1] == 13
    write_rejected(tmp_path / "bad.csv", dataset.rejected, path)
    assert (tmp_path / "bad.csv").read_text().splitlines()[1].startswith(",,11,")
    with pytest.raises(FileFormatError, match="no rows"):
        smiles_csv(text(tmp_path, "smiles,y\n,\n,\n", "none.csv"), targets="y")


def notes_of(path: Path, **options: Any) -> str:
    return "\n".join(smiles_csv(path, **options).card.notes)


def test_what_cannot_be_learned_is_said(tmp_path: Path) -> None:
    same = table(tmp_path, [(smiles, 2.5, number % 2) for number, smiles in enumerate(MOLECULES)], "smiles,y,z")
    assert "'y' has the same value in every row (2.5)" in notes_of(same, targets="y")
    assert "'y' has the same value in every row (2.5)" in notes_of(same, targets=["y", "z"])
    assert "same value" not in notes_of(same, targets="z")
    ones = table(tmp_path, [(smiles, 1) for smiles in MOLECULES], name="ones.csv")
    assert "'y' has the same value in every row (1)" in notes_of(ones, targets="y")
    word = table(tmp_path, [(smiles, "high") for smiles in MOLECULES], name="word.csv")
    assert "'y' has a single class, 'high'" in notes_of(word, targets="y")
    limited = table(tmp_path, [("C", 1), ("CC", 1), ("CCC", ">3")], name="limited.csv")
    assert "same value" not in notes_of(limited, targets="y")


def test_classes_with_a_single_row_are_said(tmp_path: Path) -> None:
    words = table(tmp_path, [(smiles, f"word {number // 2}") for number, smiles in enumerate(MOLECULES)])
    assert "1 of 5 classes of 'y' has a single row: 'word 4'" in notes_of(words, targets="y")
    names = table(tmp_path, [(smiles, f"name {number}") for number, smiles in enumerate(MOLECULES)], name="names.csv")
    told = notes_of(names, targets="y")
    assert "9 of 9 classes of 'y' have a single row: 'name 0', 'name 1', 'name 2', …" in told and "names rather" in told
    rare = table(tmp_path, [(smiles, int(smiles == "O")) for smiles in MOLECULES], name="rare.csv")
    assert "'y' is 1 in a single row" in notes_of(rare, targets="y")


@pytest.mark.parametrize("split", ["auto", "random", (0.8, 0.1, 0.1)], ids=str)
def test_missing_parts_are_said(tmp_path: Path, split: Any) -> None:
    one = table(tmp_path, [("CCO", 1.5)])
    told = notes_of(one, targets="y", split=split)
    assert "there is no validation part and no test part: 1 molecule is too few for a split" in told
    many = table(tmp_path, [(smiles, len(smiles)) for smiles in MOLECULES], name="many.csv")
    assert "too few" not in notes_of(many, targets="y", split=split)
    assert "too few" not in notes_of(one, targets="y", split=(1.0, 0.0, 0.0))
