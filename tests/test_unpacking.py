"""Files that unfold to far more than they hold, endless lines and cells: refused early, whatever the format."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pointset.datasets.graph_files import edge_list, graph6
from pointset.datasets.graph_files.formats import read_graph_file
from pointset.datasets.own import smiles_csv, table_files, unpacking
from pointset.datasets.own.csv_rows import LONGEST_CELL, LONGEST_LINE, CsvFile
from pointset.datasets.own.table_files import open_table
from pointset.errors import FileFormatError

REFUSED = r"unfolds to .* MiB or more from .* bytes; expected at most 100 times its size.* pass that file"
MANY = 24 * 2**20


def packed(path: Path, *parts: bytes) -> None:
    with gzip.open(path, "wb", 6) as file:
        for part in parts:
            file.write(part)


def workbook(path: Path, member: str, padding: int) -> None:
    """A workbook one of whose parts ends in so many blanks."""
    openpyxl = pytest.importorskip("openpyxl")
    made, content = openpyxl.Workbook(), io.BytesIO()
    for row in (["smiles", "y"], ["CCO", 1], ["CCN", 2]):
        made.active.append(row)
    made.save(content)
    with zipfile.ZipFile(content) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) + b" " * (padding if name == member else 0))


def parquet(path: Path, columns: dict[str, Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    arrays = {
        name: pyarrow.array(np.frombuffer(values, np.uint8)) if isinstance(values, bytes) else values
        for name, values in columns.items()
    }
    write_table(pyarrow.table(arrays), path, compression="zstd")


BOMBS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "one line": ("a.csv.gz", lambda path: packed(path, b"smiles,y\nCCO,1\n", b"C" * MANY)),
    "zeros": ("a.csv.gz", lambda path: packed(path, b"smiles,y\nCCO,1\n", bytes(MANY))),
    "rows": ("a.csv.gz", lambda path: packed(path, b"smiles,y\n", (b"CCO" * 20_000 + b",1\n") * 500)),
    "SMILES": ("a.smi.gz", lambda path: packed(path, b"CCO a\n", b"C" * MANY)),
    "records": ("a.sdf.gz", lambda path: packed(path, b"\n\n\n", b"C" * MANY, b"\n$$$$\n")),
    "a name that lies": ("a.csv", lambda path: packed(path, b"smiles,y\nCCO,1\n", b"C" * MANY)),
    "gzip around a workbook": ("a.xlsx", lambda path: packed(path, b"PK\3\4", bytes(MANY))),
    "sheet": ("a.xlsx", lambda path: workbook(path, "xl/worksheets/sheet1.xml", MANY)),
    "styles": ("a.xlsx", lambda path: workbook(path, "xl/styles.xml", MANY)),
    "cells of Parquet": ("a.parquet", lambda path: parquet(path, {"smiles": ["C" * 100_000] * 2000})),
    "rows of Parquet": ("a.parquet", lambda path: parquet(path, {"y": bytes(30_000_000)})),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOMBS)
def test_what_unfolds_to_far_more_than_it_holds_is_refused(tmp_path: Path, kind: str) -> None:
    name, make = BOMBS[kind]
    make(tmp_path / name)
    with pytest.raises(FileFormatError, match=REFUSED):
        list(open_table(tmp_path / name).rows())


@pytest.mark.parametrize("name", ["a.csv.gz", "a.xlsx", "a.parquet"])
def test_what_shrinks_as_tables_do_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(unpacking, "UNPACKED_FREE", 2**12)
    random, path = Random(0), tmp_path / name
    numbers = [random.gauss(0, 1) for _ in range(3000)]
    if name == "a.parquet":
        parquet(path, {"smiles": ["C" * (1 + at % 30) for at in range(3000)], "y": numbers})
    elif name == "a.csv.gz":
        packed(path, b"smiles,y\n", *(b"%b,%r\n" % (b"C" * (1 + at % 30), y) for at, y in enumerate(numbers)))
    else:
        workbook(path, "", 0)
    assert len(list(open_table(path).rows())) == (2 if name == "a.xlsx" else 3000)


def test_a_workbook_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(unpacking, "check_fits", lambda needed, what, remedy: asked.append((needed, what, remedy)))
    workbook(tmp_path / "a.xlsx", "xl/styles.xml", 2**20)
    open_table(tmp_path / "a.xlsx")
    assert asked[0][0] > 2 * 2**20 and "a.xlsx" in asked[0][1] and "CSV" in asked[0][2]


def test_cells_of_parquet_are_those_that_were_written(tmp_path: Path) -> None:
    texts = ["CCO", None, "CCN", "CCO", "é"]
    pyarrow = pytest.importorskip("pyarrow")
    columns = {
        "smiles": texts,
        "kept": pyarrow.array(texts).dictionary_encode(),
        "whole": [1, None, 3, 4, 5],
        "y": [0.5, 2.0, None, 1e-7, 3.0],
        "listed": [[1, 2], [], None, [3], [4]],
    }
    parquet(tmp_path / "a.parquet", columns)
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    for name in ("a.parquet", "a.parquet.gz"):
        rows = [row.cells for row in open_table(tmp_path / name).rows()]
        assert [row[0] for row in rows] == [row[1] for row in rows] == ["CCO", "", "CCN", "CCO", "é"]
        assert [row[2:4] for row in rows] == [["1", "0.5"], ["", "2"], ["3", ""], ["4", "1e-07"], ["5", "3"]]
        assert [row[4] for row in rows] == ["[1, 2]", "[]", "", "[3]", "[4]"]


def test_a_cell_that_is_too_long_is_a_row_with_a_problem(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", {"smiles": ["CCO", "C" * (LONGEST_CELL + 5), "CCN"]})
    rows = list(open_table(tmp_path / "a.parquet").rows())
    assert [row.problem is None for row in rows] == [True, False, True]
    assert "more than 131,072 characters" in str(rows[1].problem) and len(rows[1].cells[0]) == LONGEST_CELL


@pytest.mark.parametrize("name", ["a.csv", "a.smi"])
def test_what_is_kept_of_an_endless_line_can_be_read_back(tmp_path: Path, name: str) -> None:
    """Outputs repeat the cells of their input, and a cell of millions of characters would make them unreadable."""
    (tmp_path / name).write_text("smiles,y\nCCO,1\n" + "C" * (LONGEST_LINE + 9) + ",2\nCCN,3\n")
    rows = list(CsvFile(tmp_path / name).rows())
    assert len([row for row in rows if row.problem is not None]) == 1 and rows[-1].problem is None
    out = io.StringIO()
    csv.writer(out).writerows(row.cells for row in rows)
    out.seek(0)
    assert len(list(csv.reader(out))) == len(rows)


def test_a_row_of_millions_of_cells_keeps_as_many_as_the_header_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles,y\nCCO,1\nCCN" + "," * 2_000_000 + "\n")
    row = list(CsvFile(tmp_path / "a.csv").rows())[1]
    assert row.cells == ["CCN", ""] and "2,000,001 cells" in str(row.problem)


class TestStructures:
    @pytest.fixture(autouse=True)
    def rdkit(self) -> None:
        pytest.importorskip("rdkit")

    @pytest.mark.parametrize("inside", ["C" * (2**22 + 5), "C\n" * (2**15)], ids=["line", "lines"])
    def test_an_endless_record_is_one_row(self, tmp_path: Path, inside: str) -> None:
        good = "ethanol\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0000    0.0000    0.0000 C   0  0\nM  END\n"
        (tmp_path / "a.sdf").write_text(f"{good}$$$$\nlong\n{inside}\n$$$$\n{good}$$$$\n")
        rows = list(open_table(tmp_path / "a.sdf").rows())
        assert [row.problem is None for row in rows] == [True, False, True]
        assert "more than 20,000 lines, or 4,194,304 characters" in str(rows[1].problem)

    def test_a_property_for_each_record_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(table_files, "_MOST_PROPERTIES", 20)
        (tmp_path / "a.sdf").write_text("".join(f"a\n\n\nM  END\n>  <p{at}>\n1\n\n$$$$\n" for at in range(40)))
        with pytest.raises(FileFormatError, match="more than 20 different properties"):
            open_table(tmp_path / "a.sdf")

    def test_a_smiles_of_120000_characters_is_set_aside_at_once(self, tmp_path: Path) -> None:
        hostile = ["C" * 120_000, "C(" * 60_000, "[" * 120_000, "C1" * 60_000]
        (tmp_path / "a.csv").write_text(
            "\n".join(["smiles,y", "CCO,1", *(f"{one},1" for one in hostile), "CCN,2", "CO,3"])
        )
        data = smiles_csv(tmp_path / "a.csv", targets="y", max_rejected=1.0, progress=False, workers=1)
        assert len(data) == 3
        reasons = [str(row.reason) for row in data.rejected]
        assert len(reasons) == 4 and all(
            "(120,000 characters) is too long; expected at most 10,000" in one for one in reasons
        )


class TestGraphs:
    def test_an_endless_line_is_one_bad_graph(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(graph6, "_LONGEST_LINE", 1000)
        (tmp_path / "a.g6").write_bytes(b"Bw\n" + b"w" * 5000 + b"\nBw\n:" + b"w" * 999 + b"\n")
        first, long, last, fits = read_graph_file(tmp_path / "a.g6")
        assert first.problem is last.problem is None and "more than 1,000 characters" in str(long.problem)
        assert fits.name == "a.g6:4"

    def test_edges_that_do_not_fit_the_memory_are_one_bad_graph(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph6, "_BYTES_PER_EDGE", 2**50)
        monkeypatch.setattr(graph6, "_BYTES_PER_CHARACTER", 0)
        (tmp_path / "a.g6").write_bytes(b"A?\n:Bc\nBw\n")
        empty, sparse, dense = read_graph_file(tmp_path / "a.g6")
        assert empty.problem is None
        for record in (sparse, dense):
            assert re.search(
                r"a graph of 3 nodes and (3|up to 2) edges needs about .* GiB of memory", str(record.problem)
            )

    def test_sparse6_is_decoded_as_networkx_does(self) -> None:
        random = Random(7)
        for number in range(400):
            graph: nx.Graph[int] = nx.gnp_random_graph(
                random.choice([0, 1, 2, 3, 4, 5, 8, 16, 17, 33, 64, 65]), random.random()
            )
            graph.add_edges_from((node, node) for node in list(graph)[: number % 3])
            line = bytearray(nx.to_sparse6_bytes(graph, header=False).strip())
            for _ in range(number % 4):  # damaged: any characters are edges, or the padding behind them
                if len(line) > 2:
                    line[random.randrange(2, len(line))] = random.randrange(63, 127)
            expected = nx.from_sparse6_bytes(bytes(line))  # type: ignore[call-overload]
            if len(expected) > 1000:
                continue
            nodes, edges = graph6.graph_of_line(bytes(line))
            assert nodes == len(expected)
            assert set(map(tuple, edges.T.tolist())) == {tuple(sorted(edge)) for edge in expected.edges()}

    @pytest.mark.parametrize("before", ["", "source,target\n0,1\n"], ids=["header", "row"])
    def test_an_edge_list_without_line_ends_is_refused(self, tmp_path: Path, before: str) -> None:
        (tmp_path / "a.csv").write_text(before + "1," * (edge_list._LONGEST_LINE // 2 + 1))
        with pytest.raises(FileFormatError, match="a line has more than 4,194,304 characters"):
            list(read_graph_file(tmp_path / "a.csv"))

    def test_a_header_of_very_many_columns_takes_seconds(self, tmp_path: Path) -> None:
        names = ",".join(f"edge_attr{at}" for at in range(200_000))
        (tmp_path / "a.csv").write_text(f"source,target,{names}\n0,1,{','.join('1' * 200_000)}\n")
        (record,) = read_graph_file(tmp_path / "a.csv")
        assert record.graph.features.edge_attr.shape == (1, 200_000)
