"""SDF, Excel and Parquet are read as CSV is: the same molecules, the same targets, a row for each row."""

from __future__ import annotations

import csv
import gzip
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pointset.cli.main import app
from pointset.datasets.own import holds_molecules, smiles_csv, table_files, write_rejected
from pointset.datasets.own.candidates import judge_columns
from pointset.datasets.own.csv_rows import Table
from pointset.datasets.own.table_files import open_table
from pointset.errors import FileFormatError, MissingDataError, MissingExtraError, SpecError
from pointset.prediction.sources import TableSource

Chem = pytest.importorskip("rdkit.Chem")

SMILES = ("OCC", "c1ccccc1O", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "F/C=C/F", "CC(=O)[O-]", "N#C", "CCN(C)C", "C1CC1", "O")
LOGS = (1.1, -0.04, 0.79, 1e-05, -2.25, 3.0, 0.3333333333333333, 123456.789, -7.5, 0.5)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))


def as_csv(folder: Path) -> Path:
    path = folder / "own.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("smiles", "logS", "origin"), *((*row, "book") for row in zip(SMILES, LOGS, strict=True))]
        )
    return path


def as_sdf(folder: Path) -> Path:
    path = folder / "own.sdf"
    with Chem.SDWriter(str(path)) as writer:
        for number, (smiles, value) in enumerate(zip(SMILES, LOGS, strict=True)):
            mol = Chem.MolFromSmiles(smiles)
            mol.SetProp("_Name", f"molecule {number}")
            mol.SetProp("logS", repr(value))
            mol.SetProp("origin", "book")
            writer.write(mol)
    return path


def as_packed_sdf(folder: Path) -> Path:
    path = folder / "own.sdf.gz"
    path.write_bytes(gzip.compress(as_sdf(folder).read_bytes()))
    return path


def as_excel(folder: Path) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    workbook.active.append(["smiles", "logS", "origin"])
    for row in zip(SMILES, LOGS, strict=True):
        workbook.active.append([*row, "book"])
    workbook.create_sheet("other").append(["smiles", "y"])
    workbook["other"].append(["CC", 2.5])
    path = folder / "own.xlsx"
    workbook.save(path)
    return path


def as_parquet(folder: Path) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"smiles": list(SMILES), "logS": list(LOGS), "origin": ["book"] * len(SMILES)}
    path = folder / "own.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    return path


FORMATS = pytest.mark.parametrize("made", [as_sdf, as_packed_sdf, as_excel, as_parquet])


@FORMATS
def test_the_same_molecules_and_numbers_as_from_csv(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    path = made(tmp_path)
    assert holds_molecules(path)
    plain, other = smiles_csv(as_csv(tmp_path)), smiles_csv(path)
    assert other.target_names == ("logS",) and other.card.name == "own"
    assert other.targets is not None and other.targets.flatten().tolist() == list(LOGS)
    for name in ("x", "edge_attr"):
        assert np.array_equal(getattr(plain.features, name), getattr(other.features, name))
    assert np.array_equal(plain.arrays.edges, other.arrays.edges)
    assert {part: rows.tolist() for part, rows in plain.split.items()} == {
        part: rows.tolist() for part, rows in other.split.items()
    }


@FORMATS
def test_prediction_reads_every_row_in_order(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    source = TableSource(made(tmp_path))
    rows = list(source.rows())
    assert source.count() in (len(SMILES), None) and len(rows) == len(SMILES)
    canonical = [Chem.CanonSmiles(smiles) for smiles in SMILES]
    assert [Chem.CanonSmiles(row.item) for row in rows] == canonical
    assert [float(row.cells[list(source.columns).index("logS")]) for row in rows] == list(LOGS)


@FORMATS
def test_the_command_line_checks_them(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    result = CliRunner().invoke(app, ["datasets", "check", str(made(tmp_path))])
    assert result.exit_code == 0, result.output
    assert "10 of 10 rows can be used" in result.output and "the target is logS" in result.output


def test_rows_are_numbered_as_the_format_has_it(tmp_path: Path) -> None:
    def places(table: Table) -> tuple[str, list[int]]:
        return table.unit, [row.line for row in table.rows()][:2]

    assert places(open_table(as_csv(tmp_path))) == ("line", [2, 3])
    assert places(open_table(as_sdf(tmp_path))) == ("record", [1, 2])
    assert places(open_table(as_excel(tmp_path))) == ("row", [2, 3])
    assert places(open_table(as_parquet(tmp_path))) == ("row", [1, 2])


def test_a_bad_record_keeps_its_place_and_the_others(tmp_path: Path) -> None:
    records = as_sdf(tmp_path).read_text().split("$$$$\n")
    records[2] = "broken\n  nothing\n\n 99 99\nM  END\n>  <logS>\n7.5\n\n"
    carbon = Chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)
    records[4] = Chem.MolToMolBlock(carbon, kekulize=False) + ">  <logS>\n8.5\n\n"
    records[6] = "empty\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n"
    path = tmp_path / "bad.sdf"
    path.write_text("$$$$\n".join(records))
    dataset = smiles_csv(path, max_rejected=0.5)
    assert dataset.rows is not None and dataset.rows.tolist() == [1, 2, 4, 6, 8, 9, 10]
    told = {one.row: (one.place, one.reason) for one in dataset.rejected}
    assert told[3][0] == "record" and "mol block" in told[3][1]
    assert "not a possible molecule" in told[5][1] and "no atoms" in told[7][1]
    assert [one.row for one in smiles_csv(path, lenient=True, max_rejected=0.5).rejected] == [3, 7]
    write_rejected(tmp_path / "bad.csv", dataset.rejected, path)
    with (tmp_path / "bad.csv").open(newline="") as file:
        assert [(row["record"], row["logS"]) for row in csv.DictReader(file)] == [("3", "7.5"), ("5", "8.5"), ("7", "")]


def test_properties_of_records(tmp_path: Path) -> None:
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CC"))
    first = block + ">  <SMILES> (1)\nOO\n\n> 25 <two lines>\na\nb\n\n"
    second = "\n" + block.split("\n", 1)[1] + "> <Å>\n\xe5\n\n"
    path = tmp_path / "own.sdf"
    path.write_bytes(first.encode() + b"$$$$\r\n" + second.encode("latin-1", "replace"))
    table = open_table(path)
    assert table.header == ("structure", "SMILES", "two lines", "Å".encode("latin-1").decode("latin-1"))
    cells = [list(row.cells) for row in table.rows()]
    assert cells == [["CC", "OO", "a\nb", ""], ["CC", "", "", "å"]]
    assert TableSource(path).smiles == 0  # the structure, not what a property says of it


def test_sheets_of_a_workbook(tmp_path: Path) -> None:
    path = as_excel(tmp_path)
    assert any("the first of 2 sheets, 'Sheet', is read" in note for note in smiles_csv(path).card.notes)
    for sheet in ("other", 1):
        other = smiles_csv(path, sheet=sheet)
        assert other.target_names == ("y",) and len(other) == 1
    with pytest.raises(SpecError, match=r"no sheet 'othr'; expected one of 'Sheet', 'other'.*did you mean 'other'"):
        smiles_csv(path, sheet="othr")
    with pytest.raises(SpecError, match="not a workbook"):
        smiles_csv(as_csv(tmp_path), sheet="other")
    result = CliRunner().invoke(app, ["datasets", "check", str(path), "--sheet", "other"])
    assert result.exit_code == 0 and "1 of 1 row can be used" in result.output, result.output


def test_cells_of_a_workbook_as_text(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (["", None], ["smiles", "y", None], ["CC", 3.0, None], [], ["C", True], ["O", None], ["N", 1, "more"]):
        workbook.active.append(row)
    workbook.save(tmp_path / "own.xlsx")
    table = open_table(tmp_path / "own.xlsx")
    rows = [(row.line, list(row.cells), row.problem is None) for row in table.rows()]
    assert table.header == ("smiles", "y")
    assert rows == [
        (3, ["CC", "3"], True),
        (4, ["", ""], True),
        (5, ["C", "true"], True),
        (6, ["O", ""], True),
        (7, ["N", "1", "more"], False),
    ]


@pytest.mark.parametrize("name", ["own.xlsx", "own.parquet", "own.sdf"])
def test_damaged_and_missing_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingDataError, match="there is no file"):
        smiles_csv(tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(FileFormatError):
        smiles_csv(tmp_path / name)
    if name != "own.sdf":
        (tmp_path / name).write_bytes(b"PK\x03\x04 not really")
        with pytest.raises(FileFormatError):
            smiles_csv(tmp_path / name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"<row", b"<roww"),
        (b'r="A2"', b'r="A"'),
        (b'<row r="2"', b'<row r="900000000"'),
        (b"</sheetData>", b""),
    ],
    ids=["not XML", "no cell", "a row at the end of the world", "cut short"],
)
@pytest.mark.timeout(60)
def test_a_damaged_sheet_in_a_whole_workbook(tmp_path: Path, before: bytes, after: bytes) -> None:
    good, bad = as_excel(tmp_path), tmp_path / "damaged.xlsx"
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for entry in source.namelist():
            content = source.read(entry)
            assert before in content or not entry.endswith("sheet1.xml")
            target.writestr(entry, content.replace(before, after, 1) if entry.endswith("sheet1.xml") else content)
    with pytest.raises(FileFormatError, match="not a workbook that can be read; save it again"):
        list(open_table(bad).rows())


@pytest.mark.parametrize(("name", "package"), [("own.xlsx", "openpyxl"), ("own.parquet", "pyarrow")])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    path: Any = {"own.xlsx": as_excel, "own.parquet": as_parquet}[name](tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}.*pip install 'pointset\[tables\]'"):
        smiles_csv(path)


def workbook(folder: Path, sheets: dict[str, Any], name: str = "book.xlsx") -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    path = folder / name
    book.save(path)
    return path


def test_empty_rows_of_a_sheet_are_rows_between_others_and_none_at_its_end(tmp_path: Path) -> None:
    rows = [[], ["smiles", "y"], ["CCO", 1.5], [], [None, "  "], ["CCN", 2.5], [], [" ", None]]
    path = workbook(tmp_path, {"Data": rows})
    table = open_table(path)
    assert [(row.line, list(row.cells)) for row in table.rows()] == [
        (3, ["CCO", "1.5"]),
        (4, ["", ""]),
        (5, ["", ""]),
        (6, ["CCN", "2.5"]),
    ]
    items = [row.item for row in TableSource(path).rows()]
    assert items[::3] == ["CCO", "CCN"] and all("no SMILES" in str(item) for item in items[1:3])
    dataset = smiles_csv(path, max_rejected=0.5)
    assert [(one.row, one.kind) for one in dataset.rejected] == [(4, "no SMILES"), (5, "no SMILES")]
    plain = open_table(workbook(tmp_path, {"Data": rows[2:]}, "plain.xlsx"), header=False)
    assert [row.line for row in plain.rows()] == [1, 2, 3, 4]


def test_a_workbook_whose_first_sheet_is_not_the_data(tmp_path: Path) -> None:
    data = [["smiles", "logS"], *([smiles, value] for smiles, value in zip(SMILES, LOGS, strict=True))]
    path = workbook(tmp_path, {"Read me": [["made by"], ["us"]], "Data": data, "More": [[]]})
    told = r"The sheet 'Read me' was read; the others are 'Data' and 'More': .*\(--sheet, dataset.options.sheet\)"
    with pytest.raises(SpecError, match=f"no column that is named smiles.*{told}"):
        smiles_csv(path)
    with pytest.raises(SpecError, match=f"no column 'logS' for targets.*{told}"):
        smiles_csv(path, targets="logS", smiles=0)
    with pytest.raises(
        FileFormatError, match=r"the sheet 'More' of .* is empty; .*the others are 'Read me' and 'Data'"
    ):
        smiles_csv(path, sheet="More")
    for sheet in ("Data", 1, "1"):
        assert smiles_csv(path, sheet=sheet).target_names == ("logS",)
    with pytest.raises(SpecError, match=r"has no sheet 'data'; expected one of .*did you mean 'Data'"):
        smiles_csv(path, sheet="data")
    alone = workbook(tmp_path, {"Read me": [["made by"], ["us"]]}, "alone.xlsx")
    with pytest.raises(SpecError) as caught:
        smiles_csv(alone)
    assert "--sheet" not in str(caught.value)


def test_more_columns_than_a_table_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_MOST_COLUMNS", 50)
    wide = {name: [1.0, 2.0] for name in (f"c{number}" for number in range(60))}
    (tmp_path / "wide.csv").write_text(",".join(wide) + "\n" + ",".join("1" for _ in wide) + "\n")
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CC"))
    (tmp_path / "wide.sdf").write_text(block + "".join(f">  <{name}>\n1\n\n" for name in wide) + "$$$$\n")
    for name in ("wide.csv", "wide.sdf"):
        with pytest.raises(FileFormatError, match=r"has 6\d columns; expected at most 50\. Keep those"):
            open_table(tmp_path / name)


def test_many_columns_are_judged_in_linear_time(tmp_path: Path) -> None:
    """Measured against itself, on a processor of any speed: four times as many may take eight times as long."""
    seconds = []
    for count in (4_000, 16_000):
        path = tmp_path / f"{count}.csv"
        names = ",".join(f"c{number}" for number in range(count))
        path.write_text(f"smiles,{names}\n" + "".join(f"CC{'O' * row}" + ",1.5" * count + "\n" for row in range(3)))
        table = open_table(path)
        started = time.process_time()
        assert len(judge_columns(table, {}).columns) == count + 1
        seconds.append(time.process_time() - started)
    assert seconds[1] < 8 * seconds[0]
