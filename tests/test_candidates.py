"""Which columns of a table are taken for targets and for the split; every guess is said, and doubt is a question."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pointset.cli.main import app
from pointset.datasets.own import graph_files, smiles_csv
from pointset.datasets.own.candidates import Judgement, Role, UnclearTargetsError, judge_columns
from pointset.datasets.own.columns import settled_roles
from pointset.datasets.own.csv_rows import CsvFile
from pointset.datasets.own.part_files import smiles_files
from pointset.errors import FileFormatError, SpecError
from pointset.runs.recipe_files import read_recipe
from pointset.training.data import load_data

pytest.importorskip("rdkit.Chem")

ROWS = 60


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


def table(folder: Path, columns: dict[str, Any], name: str = "own.csv") -> Path:
    """A table of alkanes with these columns beside their SMILES."""
    count = len(next(iter(columns.values())))
    lines = [",".join(f'"{name}"' for name in ("smiles", *columns))]
    for row in range(count):
        lines.append(",".join(["C" * (row + 1), *(str(cells[row]) for cells in columns.values())]))
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def judged(folder: Path, columns: dict[str, Any]) -> Judgement:
    file = CsvFile(table(folder, columns))
    return judge_columns(file, settled_roles(file, None, "auto")[0])


def roles(judgement: Judgement) -> dict[str, str]:
    return {one.name: one.role.value for one in judgement.columns[1:]}


def numbers(seed: int = 0, count: int = ROWS) -> list[Any]:
    return list(np.random.default_rng(seed).normal(size=count).round(3).tolist())


def test_the_only_candidate_is_taken_and_said(tmp_path: Path) -> None:
    dataset = smiles_csv(table(tmp_path, {"y": numbers(), "no": list(range(1, ROWS + 1))}))
    assert dataset.target_names == ("y",)
    assert dataset.card.notes[0].startswith("the target is y, the only candidate")
    assert dataset.card.notes[1] == "not targets: 'no' (named like an identifier)"


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("key", list(range(7, 7 + ROWS)), "running numbers"),
        ("registry", [10_000 + (37 * row) % 9973 for row in range(ROWS)], "like an identifier"),
        ("CID", [row % 5 for row in range(ROWS)], "named like an identifier"),
        ("fold", [row % 5 for row in range(ROWS)], "looks like a split by number"),
        ("cv_fold", [row % 5 for row in range(ROWS)], "looks like a split by number"),
        ("temperature", [298] * ROWS, "the same value in every row"),
    ],
)
def test_what_is_certainly_no_target_is_left_out(tmp_path: Path, name: str, cells: list[object], reason: str) -> None:
    found = judged(tmp_path, {name: cells, "y": numbers()})
    assert not found.asks and roles(found) == {name: Role.OTHER, "y": Role.TARGET}
    assert reason in found.columns[1].reason and f"{name!r} (" in found.notes[1]


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("y_sd", numbers(1), "standard deviation"),
        ("Solubility SD", numbers(1), "standard deviation"),
        ("Occurrences", [row % 3 for row in range(ROWS)], "number of measurements"),
        ("weight", numbers(1), "weight"),
        ("ESOL predicted log solubility", numbers(1), "computed value"),
        ("MolWt", numbers(1), "descriptor"),
        ("TPSA", numbers(1), "descriptor"),
        ("Molecular Weight", numbers(1), "descriptor"),
        ("Number of H-Bond Donors", [row % 4 for row in range(ROWS)], "descriptor"),
        ("cliff_mol", [row % 2 for row in range(ROWS)], "a flag of 0 and 1"),
        ("in kcal", [f"{value * -4.184:.4f}" for value in numbers()], "a transform of 'y'"),
        ("nM", [f"{10 ** (3 - value):.6g}" for value in numbers()], "10 to the power of 'y'"),
    ],
)
def test_doubtful_columns_are_named_with_the_reason(
    tmp_path: Path, name: str, cells: list[object], reason: str
) -> None:
    found = judged(tmp_path, {"y": numbers(), name: cells})
    assert found.asks and roles(found) == {"y": Role.TARGET, name: Role.DOUBTFUL}
    assert reason in found.columns[2].reason
    with pytest.raises(UnclearTargetsError) as caught:
        smiles_csv(table(tmp_path, {"y": numbers(), name: cells}))
    message = str(caught.value)
    assert "2 columns could be targets" in message and f"{name}: " in message and reason in message
    assert "e.g. 0.126" in message and "60 values" in message and "add 'dataset.targets=[y]'" in message
    assert smiles_csv(table(tmp_path, {"y": numbers(), name: cells}), targets="y").target_names == ("y",)


@pytest.mark.parametrize(
    ("concentration", "logarithm"), [("IC50 [nM]", "pIC50"), ("Ki_nM", "log_Ki"), ("EC50", "pEC50")]
)
def test_a_concentration_beside_its_logarithm(tmp_path: Path, concentration: str, logarithm: str) -> None:
    found = judged(tmp_path, {concentration: numbers(1), logarithm: numbers(2)})  # also where they were measured apart
    assert roles(found) == {concentration: Role.DOUBTFUL, logarithm: Role.TARGET}
    assert f"a concentration beside its logarithm {logarithm!r}" in found.question()


def test_columns_that_are_not_related_are_all_candidates(tmp_path: Path) -> None:
    found = judged(tmp_path, {"a": numbers(1), "skin (x)": numbers(2)})
    assert found.asks and set(roles(found).values()) == {Role.TARGET}
    assert "for all together" in found.question()
    setting = found.question().rpartition("together, ")[2]
    (word,) = shlex.split(setting)
    assert read_recipe("molecules", [word]).dataset.targets == ["a", "skin (x)"]


def test_labels_of_0_and_1_are_taken_together(tmp_path: Path) -> None:
    columns: dict[str, Any] = {f"NR-{at}": [(row * at) % 2 for row in range(ROWS)] for at in range(3)}
    columns["NR-9"] = ["" if row % 2 else "1" for row in range(ROWS)]  # one value only, and others are missing
    dataset = smiles_csv(table(tmp_path, columns))
    assert dataset.target_names == ("NR-0", "NR-1", "NR-2", "NR-9")
    assert "targets are all 4 columns of 0 and 1: NR-0, NR-1, NR-2, NR-9" in dataset.card.notes[0]


def test_words_are_named_as_possible_classes(tmp_path: Path) -> None:
    dataset = smiles_csv(table(tmp_path, {"y": numbers(), "activity": ["high", "low"] * (ROWS // 2)}))
    assert dataset.target_names == ("y",)
    assert any("'activity': words, which can be predicted as classes" in note for note in dataset.card.notes)


@pytest.mark.parametrize("name", ["split", "Split", "SET", "fold", "subset", "Partition"])
def test_a_column_of_train_val_test_splits_by_default(tmp_path: Path, name: str) -> None:
    words = ["train", "Training", "dev", "test", "train"] * (ROWS // 5)
    path = table(tmp_path, {"y": numbers(), name: words})
    dataset = smiles_csv(path)
    assert dataset.target_names == ("y",)
    assert dataset.split["val"].tolist() == list(range(2, ROWS, 5))
    assert dataset.split["test"].tolist() == list(range(3, ROWS, 5))
    assert any(f"split by the column {name!r}" in note for note in dataset.card.notes)
    chosen = smiles_csv(path, split="random")
    assert chosen.split["test"].tolist() != dataset.split["test"].tolist()
    assert not any("split by the column" in note for note in chosen.card.notes)


def test_a_column_that_only_looks_like_a_split_is_named_and_not_used(tmp_path: Path) -> None:
    columns = {"y": numbers(), "fold": [row % 5 for row in range(ROWS)], "scaffold_split": ["train", "test"] * 30}
    dataset = smiles_csv(table(tmp_path, columns))
    assert dataset.target_names == ("y",) and len(dataset.split["test"]) == 6
    notes = "\n".join(dataset.card.notes)
    assert "'fold' looks like a split by number ('0', '1', '2', …), which is not used" in notes
    assert "dataset.options.split=column:NAME" in notes and "--folds" in notes and "identifier" not in notes
    assert "'scaffold_split' holds words of a split; it is not used" in notes and "column:scaffold_split" in notes
    strange = {"y": numbers(), "split": ["train", "holdout"] * 30}
    assert any("'holdout'" in note for note in smiles_csv(table(tmp_path, strange)).card.notes)


def test_a_split_without_validation_gets_one_and_says_it(tmp_path: Path) -> None:
    path = table(tmp_path, {"y": numbers(), "split": ["train"] * 50 + ["test"] * 10})
    dataset = smiles_csv(path)
    assert [len(dataset.split[part]) for part in ("train", "val", "test")] == [45, 5, 10]
    assert dataset.split["test"].tolist() == list(range(50, 60))
    assert any("5 of the 50 for training were taken for it (random, seed 0)" in note for note in dataset.card.notes)
    assert dataset.split["val"].tolist() != smiles_csv(path, seed=1).split["val"].tolist()
    rare = [int(row in (3, 13, 23, 33, 43, 5, 15, 25, 35, 45)) for row in range(50)] + [0, 1] * 5
    labels = smiles_csv(table(tmp_path, {"y": list(rare), "split": ["train"] * 50 + ["test"] * 10}, "labels.csv"))
    assert labels.targets is not None and labels.targets[labels.split["val"]].sum() == 1  # a fifth, as in the whole
    alone = smiles_csv(table(tmp_path, {"y": numbers(), "split": ["train"] * ROWS}, "alone.csv"))
    assert [len(alone.split[part]) for part in ("train", "val", "test")] == [54, 6, 0]
    assert any("there is no test part" in note for note in alone.card.notes)


def test_a_table_of_graphs_is_judged_alike(tmp_path: Path) -> None:
    import networkx as nx

    from pointset.datasets.graph_files import write_graph_file

    write_graph_file(tmp_path / "g.g6", [nx.cycle_graph(size) for size in range(3, 23)])
    lines = [f"{row},{row * row % 7 / 2},{row % 2},{('train', 'test')[row % 2]}" for row in range(20)]
    targets = tmp_path / "t.csv"
    targets.write_text("\n".join(["graph,y,flag,split", *lines]))
    with pytest.raises(UnclearTargetsError, match="2 columns could be targets"):
        graph_files(tmp_path / "g.g6", targets=targets)
    dataset = graph_files(tmp_path / "g.g6", targets=targets, columns="y")
    assert dataset.split["test"].tolist() == list(range(1, 20, 2)) and len(dataset.split["val"]) == 1


def test_the_check_shows_what_each_column_is_taken_for(tmp_path: Path) -> None:
    path = table(tmp_path, {"pIC50": numbers(1), "IC50 [nM]": numbers(2), "split": ["train", "test"] * 30})
    result = CliRunner().invoke(app, ["datasets", "check", str(path)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "pIC50 60 numbers 0.346 target" in lines and "split 60 words train split" in lines
    assert any(line.startswith("IC50 [nM] 60 numbers") and "perhaps a target" in line for line in lines)
    assert "pIC50: numbers, 60 values, e.g. 0.346" in lines and "add 'dataset.targets=[pIC50]'" in result.output
    answer = json.loads(CliRunner().invoke(app, ["datasets", "check", str(path), "--json"]).stdout)
    assert answer["asks"] and [one["role"] for one in answer["columns"]][1:] == ["target", "perhaps a target", "split"]


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("delaney.csv", 1),
        ("freesolv.csv", 1),
        ("lipo.csv", 1),
        ("bbbp.csv", 1),
        ("bace.csv", 1),
        ("clintox.csv", 2),
        ("tox21.csv", 12),
        ("sider.csv", 27),
        ("aqsoldb.csv.gz", None),
    ],
)
def test_moleculenet_is_understood(shared_data: Path, name: str, targets: int | None) -> None:
    file = CsvFile(shared_data / "molecules" / name)
    found = judge_columns(file, settled_roles(file, None, "auto")[0])
    assert found.asks == (targets is None)
    assert len(found.targets) == (targets or 1)
    if found.asks:
        assert [found.columns[column].name for column in found.targets] == ["Solubility"]
        assert "dataset.targets=[Solubility]" in found.question() and "SD: " in found.question()


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (["train", "train", "val", "tets"], "'tets' (15 rows)"),
        (["train", "valid", "test", "external"], "'external' (15 rows)"),
        (["train", "test", "NA", "old"], "'NA' (15 rows), 'old' (15 rows)"),
    ],
    ids=["typing error", "external", "two"],
)
def test_unknown_words_in_a_split_stop_instead_of_a_random_split(
    tmp_path: Path, words: list[str], unknown: str
) -> None:
    path = table(tmp_path, {"y": numbers(), "Split": words * (ROWS // 4)})
    with pytest.raises(SpecError) as caught:
        smiles_csv(path)
    message = str(caught.value)
    assert f"the column 'Split' is a split, but holds {unknown}; expected train, val" in message
    for remedy in ("Correct", "clear", "dataset.options.split=random", "--split random"):
        assert remedy in message
    assert len(smiles_csv(path, split="random", targets="y")) == ROWS
    test_file = table(tmp_path, {"y": numbers(9, 9)}, "test.csv")
    assert len(smiles_files(path, test_file=test_file, targets="y").split["test"]) == 9  # other files are the split


def test_the_word_behind_the_sample_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.datasets.own.candidates._SAMPLE", 10)
    path = table(tmp_path, {"y": numbers(), "split": ["train", "test", "train", "x"] * (ROWS // 4)})
    with pytest.raises(SpecError, match=r"'x' \(15 rows\)"):
        smiles_csv(path)


@pytest.mark.parametrize("cells", [[298.5] * ROWS, [1] * ROWS], ids=["numbers", "labels"])
def test_the_same_value_in_every_row_is_no_target_also_alone(tmp_path: Path, cells: list[Any]) -> None:
    path = table(tmp_path, {"y": cells})
    found = judged(tmp_path, {"y": cells})
    assert not found.asks and not found.targets and roles(found) == {"y": Role.OTHER}
    assert "not targets: 'y' (the same value in every row)" in found.notes
    with pytest.raises(SpecError, match=r"has no targets.*\n.*\n.*the same value in every row"):
        load_data(read_recipe("molecules", [f"dataset.file={path}"]))


def test_columns_without_a_name_of_their_own_are_suggested_by_number(tmp_path: Path) -> None:
    lines = [f"{'C' * (row + 1)},{a},{b}" for row, (a, b) in enumerate(zip(numbers(1), numbers(2), strict=True))]
    path = tmp_path / "plain.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UnclearTargetsError) as caught:
        smiles_csv(path, smiles=0, header=False)
    assert "add 'dataset.targets=[1]'" in str(caught.value) and "--target 1" in str(caught.value)
    assert "together, 'dataset.targets=[1,2]'" in str(caught.value)
    (word,) = shlex.split(str(caught.value).rpartition("together, ")[2])
    targets = read_recipe("molecules", [word]).dataset.targets
    assert smiles_csv(path, smiles=0, header=False, targets=targets).target_names == ("column 1", "column 2")
    assert smiles_csv(path, smiles=0, header=False, targets=["column 2"]).target_names == ("column 2",)
    path.write_text("\n".join(["smiles,y,y", *lines]) + "\n")
    for named in (None, ["y"]):
        with pytest.raises(FileFormatError, match=r"names 'y' more than once .*1 and 2.*dataset.targets=\[1\]"):
            smiles_csv(path, targets=named)
    second = smiles_csv(path, targets=["2"])
    assert second.targets is not None and second.targets.flatten().tolist() == numbers(2)


def test_digits_are_a_name_before_they_are_a_number(tmp_path: Path) -> None:
    path = table(tmp_path, {"2": numbers(1), "y": numbers(2)})
    for chosen, seed in (("2", 1), (2, 2), ("1", 1)):
        dataset = smiles_csv(path, targets=[chosen])
        assert dataset.targets is not None and dataset.targets.flatten().tolist() == numbers(seed)
    with pytest.raises(SpecError, match=r"got 7 for targets= .*expected 0 to 2"):
        smiles_csv(path, targets=["7"])


def test_counts_in_the_check_agree_with_their_nouns(tmp_path: Path) -> None:
    path = table(tmp_path, {"y": [1.5], "z": [2.5], "word": ["a"]})
    result = CliRunner().invoke(app, ["datasets", "check", str(path)], env={"COLUMNS": "200"})
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert any(line.startswith("y 1 number 1.5") for line in lines), result.output
    assert any(line.startswith("word 1 word a") for line in lines)
    assert "y: numbers, 1 value, e.g. 1.5" in lines
