"""Separate tables for training, validation and test; what was guessed is said at the start of a run and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pointset.datasets.card import Task
from pointset.datasets.own.part_files import smiles_files
from pointset.datasets.own.rejected import TooManyRejectedError
from pointset.errors import FileFormatError, MissingDataError, SpecError
from pointset.files import read_json
from pointset.prediction.evaluation import evaluate
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.training.data import describe_data, load_data
from pointset.training.progress import Watcher
from pointset.training.run import train

pytest.importorskip("rdkit.Chem")

TINY = ["model.dim=8", "model.layers=1", "trainer.epochs=1", "trainer.batch_size=16", "trainer.threads=1"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


def table(folder: Path, name: str, element: str, cells: list[Any], header: str = "smiles,y") -> Path:
    """Chains that begin with this element, so that tables of different elements share no molecule."""
    rows = [f"{element}{'C' * (row + 1)},{cell}" for row, cell in enumerate(cells)]
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def numbers(count: int) -> list[float]:
    return list(np.random.default_rng(count).normal(size=count).round(3).tolist())


def sizes(dataset: Any) -> list[int]:
    return [len(dataset.split[part]) for part in ("train", "val", "test")]


def test_three_files_are_one_dataset(tmp_path: Path) -> None:
    files = [table(tmp_path, f"{name}.csv", name, numbers(count)) for name, count in (("N", 9), ("O", 4), ("S", 5))]
    dataset = smiles_files(files[0], val_file=files[1], test_file=str(files[2]))
    assert sizes(dataset) == [9, 4, 5] and dataset.split["test"].tolist() == [13, 14, 15, 16, 17]
    assert dataset.target_names == ("y",) and dataset.targets is not None
    assert dataset.targets[9:13].flatten().tolist() == numbers(4)
    assert dataset.smiles is not None and [dataset.smiles[at][0] for at in (0, 8, 9, 12, 13, 17)] == list("NNOOSS")
    assert dataset.rows is not None and dataset.rows[13] == 2 and dataset.place_of(13) == "S.csv, line 2"
    assert dataset.arrays.num_nodes[17] == 6 and len(dataset.provenance.sha256) == 3
    assert "val from O.csv; test from S.csv" in dataset.card.split


def test_a_test_file_alone_leaves_validation_to_be_carved_out(tmp_path: Path) -> None:
    train_file, test_file = (table(tmp_path, f"{name}.csv", name, numbers(30)) for name in "NO")
    dataset = smiles_files(train_file, test_file=test_file)
    assert sizes(dataset) == [27, 3, 30]
    assert any("3 of the 30 for training were taken for it (random, seed 0)" in note for note in dataset.card.notes)
    assert set(dataset.split["val"]) < set(range(30))
    rings = table(tmp_path, "rings.csv", "", numbers(10))
    rings.write_text(rings.read_text() + "".join(f"C1{'C' * n}1,{n / 7}\n" for n in range(2, 12)))
    scaffolds = smiles_files(rings, test_file=test_file, split="scaffold")
    assert any("(by scaffold)" in note for note in scaffolds.card.notes)
    alone = smiles_files(train_file, val_file=test_file)
    assert sizes(alone) == [30, 30, 0] and any("there is no test part" in note for note in alone.card.notes)


def test_labels_and_classes_keep_their_meaning(tmp_path: Path) -> None:
    words = table(tmp_path, "train.csv", "N", ["low", "mid", "high"] * 10)
    some = table(tmp_path, "test.csv", "O", ["mid", "high"] * 3)
    dataset = smiles_files(words, test_file=some, targets="y")
    assert dataset.card.task is Task.MULTI_CLASS and dataset.card.classes == ("high", "low", "mid")
    assert dataset.targets is not None and dataset.targets[30:].tolist() == [2, 0] * 3
    with pytest.raises(SpecError, match=r"test_file: .*has the class 'other', which no row for training has"):
        smiles_files(words, test_file=table(tmp_path, "new.csv", "O", ["mid", "other"] * 3), targets="y")
    labels = table(tmp_path, "labels.csv", "N", [0, 1] * 10)
    ones = table(tmp_path, "ones.csv", "O", [1.0] * 5)  # which alone would be numbers that never vary
    assert smiles_files(labels, test_file=ones).card.task is Task.BINARY


def test_limits_and_weights_of_one_file_only(tmp_path: Path) -> None:
    weighted = table(tmp_path, "train.csv", "N", [f"{value},{at}" for at, value in enumerate(numbers(20))])
    weighted.write_text(weighted.read_text().replace("smiles,y", "smiles,y,weight"))
    limited = table(tmp_path, "test.csv", "O", [">3", *numbers(9)])
    dataset = smiles_files(weighted, test_file=limited, targets="y", weights="weight")
    assert dataset.weights is not None and dataset.weights.tolist() == [*range(20), *[1] * 10]
    assert dataset.limits is not None and dataset.limits.lower[20:, 0].tolist()[0] == 3
    assert np.isnan(dataset.limits.lower[:20]).all() and np.isnan(dataset.limits.upper).all()


def test_what_does_not_fit_is_said_of_its_file(tmp_path: Path) -> None:
    good = table(tmp_path, "train.csv", "N", numbers(20))
    with pytest.raises(SpecError, match=r"test_file: .*other.csv has no column 'y' for targets="):
        smiles_files(good, test_file=table(tmp_path, "other.csv", "O", numbers(5), "smiles,z"))
    with pytest.raises(TooManyRejectedError, match=r"val_file: .*5 × a target that is not a number") as caught:
        smiles_files(good, val_file=table(tmp_path, "words.csv", "O", ["a", "b", "c", "d", "e"]))
    assert len(caught.value.rejected) == 5
    with pytest.raises((FileFormatError, MissingDataError), match="there is no file"):
        smiles_files(good, test_file=tmp_path / "none.csv")
    with pytest.raises(SpecError, match="which are the split; expected one of auto, random"):
        smiles_files(good, test_file=good, split=(0.8, 0.1, 0.1))
    with_split = table(tmp_path, "split.csv", "N", [f"{value},train" for value in numbers(20)], "smiles,y,split")
    found = smiles_files(with_split, test_file=table(tmp_path, "test.csv", "O", numbers(5)))
    assert any("the column 'split' is not used" in note for note in found.card.notes)
    bad = table(tmp_path, "bad.csv", "O", [*numbers(19), "x"])
    assert [str(one).partition(":")[0] for one in smiles_files(good, test_file=bad).rejected] == ["bad.csv, line 21"]


def test_keys_of_the_recipe_that_exclude_each_other() -> None:
    for settings in (["dataset.test_file=t.csv"], ["dataset.file=a.csv", "dataset.val_file=b.csv", "dataset.fold=1"]):
        with pytest.raises(SpecError, match=r"expected tables beside the one for training"):
            read_recipe("molecules", settings)


class Said(Watcher):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def tiny(**files: Path) -> Recipe:
    return read_recipe("molecules", [*TINY, *(f"dataset.{key}={path}" for key, path in files.items())])


def test_a_run_says_what_was_guessed_and_keeps_it(tmp_path: Path) -> None:
    file = table(
        tmp_path, "train.csv", "N", [f"{row + 1},{value}" for row, value in enumerate(numbers(30))], "smiles,no,y"
    )
    test_file = table(
        tmp_path, "test.csv", "O", [f"{row},{value}" for row, value in enumerate(numbers(9))], "smiles,no,y"
    )
    test_file.write_text(test_file.read_text() + "CCN,9,0.5\n")  # NCC, which is in line 3 of the training part
    recipe, said = tiny(file=file, test_file=test_file), Said()
    result = train(recipe, tmp_path / "run", watch="quiet", watcher=said)
    warnings = result["warnings"]
    for words in ("the target is y", "'no' (named like an identifier)", "3 of the 30 for training", "The split leaks"):
        assert any(words in warning for warning in warnings), words
    assert any("test.csv, line 11 'CCN' = train.csv, line 3 'NCC'" in warning for warning in warnings)
    assert said.lines[0].startswith("train.csv: regression of y; 27 graphs to train, 3 to validate, 10 to test")
    assert [line[2:] for line in said.lines if line.startswith("- ")] == warnings
    assert read_json(tmp_path / "run" / "result.json")["warnings"] == warnings
    assert result["split_sizes"] == {"train": 27, "val": 3, "test": 10}
    assert evaluate(tmp_path / "run", file=test_file)["graphs"] == 10  # its targets are those of the model
    assert train(recipe, tmp_path / "run", resume=True) == result


def test_folds_are_the_split_whatever_the_table_says(tmp_path: Path) -> None:
    cells = [f"{value},{'test' if at % 3 else 'train'}" for at, value in enumerate(numbers(30))]
    file = table(tmp_path, "own.csv", "N", cells, "smiles,y,split")
    plain = load_data(tiny(file=file))
    assert sizes(plain.dataset) == [9, 1, 20] and any("split by the column" in text for text in plain.warnings)
    folded = load_data(read_recipe("molecules", [f"dataset.file={file}", "dataset.fold=0", "dataset.folds=3"]))
    assert len(folded.part("test")) == 10 and not any("split by the column" in text for text in folded.warnings)


def test_training_asks_which_target_is_meant(tmp_path: Path) -> None:
    cells = [f"{value},{10 ** (3 - value):.5g}" for value in numbers(30)]
    file = table(tmp_path, "own.csv", "N", cells, "smiles,pIC50,IC50 [nM]")
    with pytest.raises(SpecError) as caught:
        load_data(tiny(file=file))
    assert "2 columns could be targets" in str(caught.value) and "dataset.targets=[pIC50]" in str(caught.value)
    answered = load_data(read_recipe("molecules", [f"dataset.file={file}", "dataset.targets=[pIC50]"]))
    assert answered.card.target_names == ("pIC50",)


def test_counts_at_the_start_of_a_run_agree_with_their_nouns(tmp_path: Path) -> None:
    file = table(tmp_path, "own.csv", "N", [1.5])
    file.write_text(file.read_text() + "CN,1.5\nC(,2.5\n")
    recipe = read_recipe("molecules", [f"dataset.file={file}", "dataset.targets=y", "dataset.options.max_rejected=1"])
    data = load_data(recipe)
    assert describe_data(data) == (
        "own.csv: regression of y; 1 graph to train, none to validate, none to test; 1 row is merged into another of "
        "the same molecule; 1 of 3 is left out (pointset datasets check says which, and why)"
    )
    assert any("no validation part and no test part" in warning for warning in data.warnings)


def test_other_files_are_read_by_number_where_names_do_not_tell(tmp_path: Path) -> None:
    cells = [f"{a},{b}" for a, b in zip(numbers(9), numbers(9)[::-1], strict=True)]
    files = [table(tmp_path, f"{name}.csv", name, cells, "smiles,y,y") for name in ("N", "O")]
    dataset = smiles_files(files[0], test_file=files[1], targets=["2"])
    assert dataset.targets is not None and dataset.targets[9:].flatten().tolist() == numbers(9)[::-1]


def test_a_test_file_with_one_class_is_not_said_to_teach_nothing(tmp_path: Path) -> None:
    file = table(tmp_path, "train.csv", "N", [0, 1] * 10)
    dataset = smiles_files(file, test_file=table(tmp_path, "test.csv", "O", [1] * 5), targets="y")
    assert not any("nothing to learn" in note for note in dataset.card.notes)


def test_targets_by_number_in_a_recipe(tmp_path: Path) -> None:
    cells = [f"{a},{b}" for a, b in zip(numbers(20), numbers(20)[::-1], strict=True)]
    file = table(tmp_path, "own.csv", "N", cells, "smiles,a,b")
    for chosen, names in (("[2]", ("b",)), ("[2,a]", ("b", "a")), ("1", ("a",))):
        data = load_data(read_recipe("molecules", [f"dataset.file={file}", f"dataset.targets={chosen}"]))
        assert data.card.target_names == names
    file.write_text("\n".join(file.read_text().splitlines()[1:]) + "\n")
    plain = ["dataset.options.header=false", "dataset.options.smiles=0", "dataset.targets=[2]", f"dataset.file={file}"]
    train(read_recipe("molecules", [*TINY, *plain]), tmp_path / "run", watch="quiet")
    assert evaluate(tmp_path / "run", file=file)["graphs"] == 20


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([2.5] * 20, r"the target 'y' of own has the same value in every row of the training part \(2.5\)"),
        ([1] * 20, r"the same value in every row of the training part \(1\)"),
        (["high"] * 20, "has a single class in the training part, 'high'"),
    ],
    ids=["number", "label", "class"],
)
def test_what_never_varies_is_not_trained_on(tmp_path: Path, cells: list[Any], told: str) -> None:
    file = table(tmp_path, "own.csv", "N", cells)
    recipe = read_recipe("molecules", [*TINY, f"dataset.file={file}", "dataset.targets=[y]"])
    with pytest.raises(SpecError, match=told):
        train(recipe, tmp_path / "run", watch="quiet")


def test_a_target_that_never_varies_beside_others_is_said(tmp_path: Path) -> None:
    file = table(tmp_path, "own.csv", "N", [f"{value},2.5" for value in numbers(20)], "smiles,y,z")
    recipe = read_recipe("molecules", [*TINY, f"dataset.file={file}", "dataset.targets=[y,z]"])
    result = train(recipe, tmp_path / "run", watch="quiet")
    assert any("'z' has the same value in every row (2.5)" in warning for warning in result["warnings"])
    assert evaluate(tmp_path / "run", file=file)["graphs"] == 20
