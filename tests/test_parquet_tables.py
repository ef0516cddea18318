"""Parquet in and out of `pointset predict`: types, row groups, resuming, and what is said without pyarrow."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

from pointset.datasets.own.table_files import open_table
from pointset.prediction import PredictionOptions, Predictor, ResumableOutput, TablePrediction, journal, load
from pointset.training.bundle import write_bundle
from tests.command_line import invoke
from tests.small_models import model_of, molecule_card

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'pointset[tables]')")
pytest.importorskip("pyarrow.parquet")

SMILES = ["CCO", "C1CC", "", "c1ccccc1", "CC", "[Na+].[Cl-]", "CC(C)C"]


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Predictor:
    monkeypatch.chdir(tmp_path)
    write_bundle("model", model_of(molecule_card()), molecule_card())
    return load("model")


def written(rows: int, group: int) -> Any:
    columns = {
        "id": pyarrow.array(range(rows), pyarrow.int32()),
        "smiles": [SMILES[at % len(SMILES)] for at in range(rows)],
        "weight": pyarrow.array([None if at % 5 == 0 else at / 3 for at in range(rows)], pyarrow.float32()),
        "bought": [at % 2 == 0 for at in range(rows)],
        "note": ['two\nlines, "quoted"' if at % 3 == 0 else None for at in range(rows)],
    }
    content = pyarrow.table(columns)
    pyarrow.parquet.write_table(content, "in.parquet", row_group_size=group)
    return content


def test_columns_keep_their_types_and_numbers_are_numbers(model: Predictor) -> None:
    content = written(50, 20)
    progress = model.predict_table("in.parquet", "out.parquet", workers=0)
    found = pyarrow.parquet.read_table("out.parquet")
    assert found.select(["id", "weight", "bought", "note"]).equals(content.drop_columns("smiles"))
    assert [str(kind) for kind in found.schema.types[-2:]] == ["double", "string"]
    model.predict_table("in.parquet", "out.csv", workers=0)
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert found["status"].to_pylist() == [row["status"] for row in rows]
    predicted = [float(row["predicted_logS"]) if row["predicted_logS"] else None for row in rows]
    assert found["predicted_logS"].to_pylist() == predicted and predicted.count(None) == 14 == progress.not_ok
    assert {path.name for path in Path().iterdir()} == {"model", "in.parquet", "out.parquet", "out.csv"}


def test_representations_of_atoms_have_numbers_too() -> None:
    Path("in.csv").write_text("smiles,smiles\nCCO,a\nbad,b\n")
    invoke("embed", "model", "in.csv", "-o", "atoms.parquet", "--level", "node", "--smiles", "0")
    found = pyarrow.parquet.ParquetFile("atoms.parquet").read()
    assert found.column(3).to_pylist() == [0, 1, 2, None] and str(found.schema.types[4]) == "double"
    assert found.column_names[:4] == ["smiles", "smiles", "read_as", "node"]


@pytest.mark.parametrize("group", [7, 16, 33, 1000])
def test_reading_from_the_middle_skips_whole_row_groups(group: int) -> None:
    written(100, group)
    table = open_table("in.parquet")
    rows = list(table.rows())
    assert [row.line for row in rows] == list(range(1, 101))
    for start in (0, 1, 16, 33, 99, 100):
        assert list(table.rows_from(start)) == rows[start:]


def test_an_interrupted_output_is_resumed_to_the_same_bytes(model: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows so far are text beside the output; row groups are those of a whole run, however small the blocks."""
    monkeypatch.setattr(journal, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(journal, "_GROUP_ROWS", 40)
    written(200, 33)
    options = PredictionOptions("in.parquet", batch_size=2, workers=0)
    model.predict_table("in.parquet", "whole.parquet", batch_size=2, workers=0)
    job, part = TablePrediction(model, options), ResumableOutput(Path("out.parquet"))
    job.begin(part)

    def stop(steps: int) -> None:
        if part.progress.entries == 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.run(part, stop)
    part.close()
    assert Path("out.parquet.part").exists() and not Path("out.parquet").exists()
    _, warned = invoke("predict", "model", "in.parquet", "-o", "out.parquet", "--batch-size", 2, "--workers", 0)
    assert "Resuming after the first 64 rows" in warned
    assert Path("out.parquet").read_bytes() == Path("whole.parquet").read_bytes()
    assert not list(Path().glob("out.parquet.part*"))
    about = pyarrow.parquet.ParquetFile("out.parquet").metadata
    assert [about.row_group(at).num_rows for at in range(about.num_row_groups)] == [40] * 5


def test_without_pyarrow_it_is_said_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("in.csv").write_text("smiles\nCCO\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    _, warned = invoke("predict", "model", "in.csv", "-o", "out.parquet", code=1)
    assert "writing out.parquet needs pyarrow" in warned and "pip install 'pointset[tables]'" in warned
    assert not list(Path().glob("out.parquet*"))
