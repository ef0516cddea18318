"""The same molecule in several rows: what is merged, by which rule, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pointset.cli.main import app
from pointset.datasets.card import Task
from pointset.datasets.own import smiles_csv
from pointset.datasets.own.duplicates import Merged, merge_duplicates, same_molecules
from pointset.datasets.splits import save_split
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, SpecError

NAN = np.nan


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


def paths(molecules: str, **targets: Any) -> GraphTable:
    """A path of n nodes for each digit n."""
    sizes = np.array([int(size) for size in molecules])
    edges = [np.stack([np.arange(size - 1), np.arange(1, size)]) for size in sizes]
    return GraphTable(
        num_nodes=sizes.astype(np.uint8),
        num_edges=(sizes - 1).astype(np.uint8),
        edges=np.concatenate(edges, axis=1),
        x=np.concatenate([np.full((size, 1), size) for size in sizes]),
        edge_attr=np.concatenate([np.full((size - 1, 2), size) for size in sizes]),
        smiles=["C" * size for size in sizes],
        **targets,
    )


def merged(molecules: str, task: Task = Task.REGRESSION, parts: Any = None, **targets: Any) -> Merged:
    table = paths(molecules, **{name: np.array(values) for name, values in targets.items()})
    width = table.y.shape[1] if table.y is not None and table.y.ndim == 2 else 1
    return merge_duplicates(
        table,
        same_molecules(list(molecules)),
        task=task,
        names=[f"t{number}" for number in range(width)],
        lines=range(2, 2 + len(molecules)),
        parts=None if parts is None else np.array(parts),
    )


class TestRules:
    def test_numbers_have_their_median_in_the_place_of_the_first(self) -> None:
        found = merged("2323432", y=[1.0, 5.0, 9.0, 7.0, 0.0, 6.5, 2.0])
        assert found.kept.tolist() == [0, 1, 4] and found.table.y is not None
        assert found.table.y.tolist() == [2.0, 6.5, 0.0] and not found.contradicting
        assert found.table.smiles == ["CC", "CCC", "CCCC"]
        (note,) = found.notes
        assert note.startswith(
            "2 molecules stand in 6 rows (such as lines 2, 4 and 8), merged into one each: the median"
        )
        assert "'t0' differs in 2, by 5 at the median and 8 at most (lines 2, 4 and 8)" in note

    def test_graphs_stay_with_their_molecule(self) -> None:
        table = merged("3523", y=[1.0, 2.0, 3.0, 4.0]).table
        assert table.num_nodes.tolist() == [3, 5, 2] and table.num_edges.tolist() == [2, 4, 1]
        assert table.x is not None and table.x[:, 0].tolist() == [3] * 3 + [5] * 5 + [2] * 2
        assert table.edge_attr is not None and table.edge_attr[:, 0].tolist() == [3] * 2 + [5] * 4 + [2]
        assert table.edges.tolist() == [[0, 1, 0, 1, 2, 3, 0], [1, 2, 1, 2, 3, 4, 1]]

    def test_missing_values_are_filled_from_other_rows(self) -> None:
        table = merged("22", y=[[1.0, NAN], [NAN, 4.0]]).table
        assert table.y is not None and table.y.tolist() == [[1.0, 4.0]]

    def test_exact_values_go_before_limits_and_limits_become_tighter(self) -> None:
        y = [NAN, 2.0, NAN, NAN, NAN, NAN]
        lower, upper = [[3.0], [NAN], [3.0], [5.0], [NAN], [10.0]], [[NAN], [NAN], [NAN], [9.0], [3.0], [NAN]]
        found = merged("223344", y=y, lower=lower, upper=upper)
        assert found.table.limits is not None and found.kept.tolist() == [0, 2]
        assert np.array_equal(found.table.y, [2.0, NAN], equal_nan=True)  # type: ignore[arg-type]
        assert np.array_equal(found.table.limits.lower, [[NAN], [5.0]], equal_nan=True)
        assert np.array_equal(found.table.limits.upper, [[NAN], [9.0]], equal_nan=True)
        assert list(found.contradicting) == [4, 5]  # below 3 and above 10

    def test_labels_by_majority_and_ties_are_left_out(self) -> None:
        y = np.array([[1, 0], [1, NAN], [0, 1], [0, NAN], [1, NAN]], dtype=np.float32)
        found = merged("22233", Task.MULTI_LABEL, y=y)
        assert found.kept.tolist() == [0] and found.table.y is not None and found.table.y.dtype == np.float32
        assert np.array_equal(found.table.y, [[1, NAN]], equal_nan=True)
        assert list(found.contradicting) == [3, 4]
        assert "lines 5 and 6 has values that contradict each other" in found.contradicting[3]
        assert "'t0' differs in 2, undecided and left out in 1" in found.notes[0]
        assert "'t1' differs in 1, undecided and left out in 1" in found.notes[0]

    def test_classes_by_majority(self) -> None:
        found = merged("222332", Task.MULTI_CLASS, y=np.array([2, 1, 1, 0, 1, 2], dtype=np.uint8))
        assert not len(found.table) and sorted(found.contradicting) == [0, 1, 2, 3, 4, 5]
        found = merged("222", Task.MULTI_CLASS, y=np.array([2, 1, 1], dtype=np.uint8))
        assert found.table.y is not None and found.table.y.tolist() == [1]

    def test_weights_have_their_mean_and_rows_without_weight_no_say(self) -> None:
        found = merged("2223", y=[1.0, 3.0, 99.0, 5.0], weights=[1.0, 2.0, 0.0, 0.0])
        assert found.table.y is not None and found.table.y.tolist() == [2.0, 5.0]
        assert found.table.weights is not None and found.table.weights.tolist() == [1.5, 0.0]

    def test_without_targets_the_first_stays(self) -> None:
        assert merged("2332").kept.tolist() == [0, 1]

    def test_nothing_to_merge(self) -> None:
        found = merged("234", y=[1.0, 2.0, 3.0])
        assert found.kept.tolist() == [0, 1, 2] and found.notes == ()

    @given(st.text("23456", min_size=1, max_size=10), st.integers(0, 2**32 - 1))
    def test_each_molecule_once_with_values_in_the_range_of_its_rows(self, molecules: str, seed: int) -> None:
        y = np.random.default_rng(seed).normal(size=len(molecules))
        found = merged(molecules, y=y)
        assert found.table.y is not None
        assert [molecules[graph] for graph in found.kept] == list(dict.fromkeys(molecules))
        for graph, value in zip(found.kept, found.table.y, strict=True):
            own = y[[at for at, size in enumerate(molecules) if size == molecules[graph]]]
            assert value == np.median(own)


class TestSplits:
    def test_rows_in_different_parts_stay_apart_and_the_leak_is_named(self) -> None:
        found = merged("22233", parts=[0, 2, 0, 1, -1], y=[1.0, 5.0, 3.0, 7.0, 9.0])
        assert found.kept.tolist() == [0, 1, 3, 4] and found.table.y is not None
        assert found.table.y.tolist() == [2.0, 5.0, 7.0, 9.0]
        assert found.notes[1].startswith(
            "the split leaks: 1 molecule is in more than one of its parts (such as lines 2, 3"
        )


def table(folder: Path, *rows: str, header: str = "smiles,y") -> Path:
    path = folder / "own.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


class TestTables:
    """Ethanol in three writings, one of them with atom maps."""

    ROWS = ("CCO,1.5", "CC,2.5", "OCC,3.5", "C,0.5", "[CH3:1][CH2:2][OH:3],4")

    @pytest.fixture(autouse=True)
    def _rdkit(self) -> None:
        pytest.importorskip("rdkit")

    def test_any_writing_is_the_same_molecule_also_from_the_cache(self, tmp_path: Path) -> None:
        path = table(tmp_path, *self.ROWS)
        for _ in range(2):
            dataset = smiles_csv(path)
            assert dataset.rows is not None and dataset.rows.tolist() == [2, 3, 5] and dataset.merged == 2
            assert dataset.targets is not None and dataset.targets.tolist() == [[3.5], [2.5], [0.5]]
            assert list(dataset.smiles or ()) == ["CCO", "CC", "C"] and not dataset.rejected
            assert any("1 molecule stands in 3 rows (such as lines 2, 4 and 6)" in note for note in dataset.card.notes)
            assert sum(map(len, dataset.split.values())) == 3

    def test_kept_apart_on_demand_and_said(self, tmp_path: Path) -> None:
        dataset = smiles_csv(table(tmp_path, *self.ROWS), duplicates="keep")
        assert len(dataset) == 5 and dataset.merged == 0
        assert any("1 molecule stands in 3 rows" in note and "kept apart" in note for note in dataset.card.notes)
        assert torch.equal(dataset.graphs[0].x, dataset.graphs[2].x)
        with pytest.raises(SpecError, match="duplicates='merg'; expected merge or keep; did you mean 'merge'"):
            smiles_csv(tmp_path / "own.csv", duplicates="merg")

    def test_a_split_column_holds_copies_apart(self, tmp_path: Path) -> None:
        words = ("train", "train", "test", "val", "train")
        rows = [f"{row},{word}" for row, word in zip(self.ROWS, words, strict=True)]
        dataset = smiles_csv(table(tmp_path, *rows, header="smiles,y,split"), targets="y")
        assert dataset.rows is not None and dataset.targets is not None
        assert dataset.rows.tolist() == [2, 3, 4, 5] and dataset.targets[:, 0].tolist() == [2.75, 2.5, 3.5, 0.5]
        assert {part: graphs.tolist() for part, graphs in dataset.split.items()} == {
            "train": [0, 1],
            "val": [3],
            "test": [2],
        }
        assert any("the split leaks: 1 molecule is in more than one" in note for note in dataset.card.notes)
        assert dataset.find_leaks().found

    def test_a_file_of_a_split_counts_the_rows(self, tmp_path: Path) -> None:
        path, split = table(tmp_path, *self.ROWS), tmp_path / "split.json"
        save_split(split, {"train": [4, 0, 1], "val": [3], "test": [2]}, count=5)
        dataset = smiles_csv(path, split=str(split))
        assert dataset.rows is not None
        assert {part: dataset.rows[graphs].tolist() for part, graphs in dataset.split.items()} == {
            "train": [2, 3],
            "val": [5],
            "test": [4],
        }

    def test_or_the_molecules_as_a_run_writes_it(self, tmp_path: Path) -> None:
        path, split = table(tmp_path, *self.ROWS), tmp_path / "split.json"
        save_split(split, {"train": [1], "val": [0], "test": [2]}, count=3)
        assert smiles_csv(path, split=str(split)).split["val"].tolist() == [0]
        save_split(split, {"train": [1], "val": [0], "test": [2]}, count=4)
        with pytest.raises(FileFormatError, match="the split is of 4 graphs; expected 3"):
            smiles_csv(path, split=str(split))

    def test_contradicting_rows_are_rejected_with_the_reason(self, tmp_path: Path) -> None:
        dataset = smiles_csv(table(tmp_path, "CCO,1", "CC,0", "C,1", "OCC,0"))
        assert dataset.rows is not None and dataset.rows.tolist() == [3, 4]
        assert [one.row for one in dataset.rejected] == [2, 5]
        assert "lines 2 and 5" in dataset.rejected[0].reason
        with pytest.raises(FileFormatError, match="no molecule is left"):
            smiles_csv(table(tmp_path, "CCO,1", "OCC,0"))

    def test_the_check_says_it(self, tmp_path: Path) -> None:
        result = CliRunner().invoke(app, ["datasets", "check", str(table(tmp_path, *self.ROWS))])
        said = " ".join(result.output.split())
        assert result.exit_code == 0, result.output
        assert "1 molecule stands in 3 rows (such as lines 2, 4 and 6), merged into one each" in said
        assert "5 of 5 rows can be used; 2 of them are merged" in said
