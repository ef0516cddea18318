"""Tables of text are read row by row, with the right line numbers, whatever is in them."""

from __future__ import annotations

import csv
import gzip
import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointset.datasets.own.csv_rows import LONGEST_CELL, LONGEST_LINE, MOST_LINES, CsvFile, Row
from pointset.errors import FileFormatError, MissingDataError, PointsetError


def table(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, *, header: bool = True) -> list[Row]:
    return list(CsvFile(path, header=header).rows())


def good(path: Path) -> list[tuple[int, list[str]]]:
    rows = read(path)
    assert all(row.problem is None for row in rows), rows
    return [(row.line, list(row.cells)) for row in rows]


def test_rows_have_the_line_where_they_begin(tmp_path: Path) -> None:
    content = 'smiles,note\nCCO,plain\nCC,"two\nlines"\n\nC,"a ""quoted"" word"\nN,last'
    assert good(table(tmp_path, content)) == [
        (2, ["CCO", "plain"]),
        (3, ["CC", "two\nlines"]),
        (6, ["C", 'a "quoted" word']),
        (7, ["N", "last"]),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
def test_every_kind_of_line_end(tmp_path: Path, end: str) -> None:
    path = table(tmp_path, end.join(["smiles,y", "C,1", "", "N,2", ""]))
    assert good(path) == [(2, ["C", "1"]), (4, ["N", "2"])]


@pytest.mark.parametrize(
    ("name", "content", "delimiter"),
    [
        ("t.csv", "a,b;c\n1,2\n", ","),
        ("t.csv", "a;b;c,d\n1;2;3\n", ";"),
        ("t.csv", "a\tb\n1\t2\n", "\t"),
        ("t.csv", '"a;;;;",b\n1,2\n', ","),
        ("t.csv", "a\n1\n", ","),
        ("t.tsv", "a,b\tc\n1\t2\n", "\t"),
        ("t.TAB", "a,b\tc\n1\t2\n", "\t"),
        ("t.txt", "a;b\n1;2\n", ";"),
    ],
)
def test_the_delimiter_is_found(tmp_path: Path, name: str, content: str, delimiter: str) -> None:
    file = CsvFile(table(tmp_path, content, name))
    assert file.delimiter == delimiter
    assert [len(row.cells) for row in file.rows()] == [file.width]


def test_byte_order_mark_and_blanks_around_names(tmp_path: Path) -> None:
    assert CsvFile(table(tmp_path, "\ufeffsmiles , y\nC,1\n".encode())).header == ("smiles", "y")


def test_gzip_is_seen_from_the_content(tmp_path: Path) -> None:
    packed = gzip.compress(b"smiles,y\nC,1\n")
    for name in ("t.csv.gz", "t.csv"):
        assert good(table(tmp_path, packed, name)) == [(2, ["C", "1"])]
    assert good(table(tmp_path, "smiles,y\nC,1\n", "plain.csv.gz")) == [(2, ["C", "1"])]
    assert CsvFile(table(tmp_path, gzip.compress(b"a\tb\n"), "t.tsv.gz")).delimiter == "\t"


def test_smi_files_have_a_smiles_and_a_name(tmp_path: Path) -> None:
    path = table(tmp_path, 'CCO ethyl alcohol\n\nC\tmethane\nc1ccccc1\nN "x\n', "t.smi")
    assert good(path) == [
        (1, ["CCO", "ethyl alcohol"]),
        (3, ["C", "methane"]),
        (4, ["c1ccccc1", ""]),
        (5, ["N", '"x']),
    ]


def test_smi_files_with_tabs_have_columns(tmp_path: Path) -> None:
    path = table(tmp_path, "CCO\tethyl alcohol\t1.5\n\nC\tmethane\nN ammonia\nO\n", "t.smi")
    assert good(path) == [
        (1, ["CCO", "ethyl alcohol", "1.5"]),
        (3, ["C", "methane", ""]),
        (4, ["N", "ammonia", ""]),
        (5, ["O", "", ""]),
    ]
    rows = read(table(tmp_path, "CCO\tethanol\nC\tmethane\t1\n", "t.smi"))
    assert rows[1].problem == "the row has 3 cells; expected 2, as in the first line"


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"'], ids=["plain", "upper", "quoted"])
def test_the_separator_that_excel_names(tmp_path: Path, first: str) -> None:
    path = table(tmp_path, f"{first}\r\nsmiles;y,z\r\nC;1,5\r\n")
    file = CsvFile(path)
    assert file.header == ("smiles", "y,z") and file.delimiter == ";"
    assert good(path) == [(3, ["C", "1,5"])]
    with pytest.raises(FileFormatError, match="is empty"):
        CsvFile(table(tmp_path, f"{first}\n"))


def test_without_a_header_the_first_line_is_a_row(tmp_path: Path) -> None:
    path = table(tmp_path, "C,1\nN,2\n")
    assert [row.line for row in read(path, header=False)] == [1, 2]


def test_rows_of_the_wrong_length_are_bad_and_stop_nothing(tmp_path: Path) -> None:
    rows = read(table(tmp_path, "a,b\n1\n1,2\n1,2,3\n,,,\n  \n3,4\n"))
    good = [(row.line, row.problem is None) for row in rows]
    assert good == [(2, False), (3, True), (4, False), (5, True), (7, True)]
    assert rows[0].problem == "the row has 1 cell; expected 2, as in the first line"
    assert rows[3].cells == ["", ""]  # only separators: an empty row, however many they are


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", 'smiles\nCCO\n""\nCCN\n""\n'),
        ("t.csv", 'smiles\nCCO\n\nCCN\n  \n\t\n""\n'),
        ("t.csv", "smiles,y\nCCO,1\n,\n\n \nCCN,2\n , \n,\n\n"),
        ("t.csv", 'smiles;y\nCCO;1\n"";""\nCCN;2\n;\n'),
        ("t.tsv", "smiles\ty\nCCO\t1\n\t\n  \nCCN\t2\n\t\n"),
    ],
    ids=["one column", "blank lines", "commas", "quotes", "tabs"],
)
def test_lines_without_values_are_rows_where_pandas_reads_them(tmp_path: Path, name: str, content: str) -> None:
    pandas = pytest.importorskip("pandas")
    path = table(tmp_path, content, name)
    frame = pandas.read_csv(path, sep=CsvFile(path).delimiter, dtype=str, keep_default_na=False)
    expected = [[cell.strip() for cell in row] for row in frame.to_numpy().tolist()]
    assert [[cell.strip() for cell in cells] for _, cells in good(path)] == expected
    filled = list(CsvFile(path).filled_rows())
    assert [cells[0] for _, cells, _ in filled if cells[0].strip()] == ["CCO", "CCN"]
    assert filled[-1].cells[0] == "CCN"  # for training, what follows is not there


def test_empty_lines_before_the_header_and_in_files_without_one(tmp_path: Path) -> None:
    assert good(table(tmp_path, ",\n\nsmiles,y\nC,1\n")) == [(4, ["C", "1"])]
    path = table(tmp_path, ",\nC,1\n\n,\n")
    assert [(row.line, list(row.cells)) for row in read(path, header=False)] == [
        (1, ["", ""]),
        (2, ["C", "1"]),
        (4, ["", ""]),
    ]


def test_smi_files_keep_a_name_without_a_smiles_in_its_place(tmp_path: Path) -> None:
    path = table(tmp_path, "CCO\tethanol\n\tno structure\n\n\t\nC\tmethane\t\n", "t.smi")
    assert good(path) == [(1, ["CCO", "ethanol"]), (2, ["", "no structure"]), (4, ["", ""]), (5, ["C", "methane"])]


def test_a_quote_that_is_never_closed_costs_one_row(tmp_path: Path) -> None:
    lines = ["smiles,y", *(f"C,{number}" for number in range(500)), '"N,1', *(f"O,{number}" for number in range(500))]
    rows = read(table(tmp_path, "\n".join(lines) + "\n"))
    bad = [row for row in rows if row.problem is not None]
    assert len(rows) == 1001 and [row.line for row in bad] == [502]
    assert "quote" in (bad[0].problem or "") and bad[0].cells == ('"N,1',)
    assert [row.line for row in rows] == list(range(2, 1003))


def test_quotes_in_every_line_cost_every_line_and_no_more(tmp_path: Path) -> None:
    rows = read(table(tmp_path, "a,b\n" + '"x,1\n' * 300 + "y,2\n"))
    assert len(rows) == 301 and sum(row.problem is None for row in rows) == 1


def test_text_behind_a_closing_quote(tmp_path: Path) -> None:
    rows = read(table(tmp_path, 'a,b\n"x"y,1\nz,2\n'))
    assert "written twice" in (rows[0].problem or "") and rows[1].problem is None


def test_long_cells_are_fine_up_to_the_limit_and_bad_rows_beyond(tmp_path: Path) -> None:
    content = f"smiles,y\n{'C' * 100_000},1\n{'C' * 10**6},2\nC,3\n"
    rows = read(table(tmp_path, content))
    assert [row.problem is None for row in rows] == [True, False, True]
    assert f"{LONGEST_CELL:,}" in (rows[1].problem or "")
    before = csv.field_size_limit(10**9)
    try:
        assert [row.problem is None for row in read(tmp_path / "table.csv")] == [True, False, True]
    finally:
        csv.field_size_limit(before)


def test_a_line_without_end_is_a_bad_row(tmp_path: Path) -> None:
    rows = read(table(tmp_path, f"a,b\n{'C,' * LONGEST_LINE}\n1,2\n"))
    assert [(row.line, row.problem is None) for row in rows] == [(2, False), (3, True)]
    assert max(len(cell) for cell in rows[0].cells) <= LONGEST_LINE + 1


def test_a_cell_may_have_many_lines_but_not_all_of_them(tmp_path: Path) -> None:
    fine, long = "x\n" * (MOST_LINES - 1), "x\n" * MOST_LINES
    assert good(table(tmp_path, f'a,b\n"{fine}",1\n2,3\n'))[1] == (MOST_LINES + 2, ["2", "3"])
    assert read(table(tmp_path, f'a,b\n"{long}",1\n2,3\n'))[0].problem is not None


def test_nul_characters_make_a_bad_row(tmp_path: Path) -> None:
    rows = read(table(tmp_path, b"a,b\n1\0,2\n3,4\n"))
    assert "NUL" in (rows[0].problem or "") and rows[1].problem is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"\n\n , \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        ("smiles,y\nC,1\n".encode("utf-16"), "UTF-16"),
        ("smiles,y\nC,1\n".encode("utf-16-le"), "NUL"),
        (b"PK\x03\x04sheet", "Excel"),
        (b"\xd0\xcf\x11\xe0sheet", "Excel"),
        (b"PAR1...", "Parquet"),
        (b'"smiles,y\nC,1\n', "quote"),
        (b"\x1f\x8b\x08\x00garbage that is not gzip", "gzip"),
    ],
    ids=["empty", "blank", "mark", "utf-16", "utf-16 bare", "xlsx", "xls", "parquet", "quote", "gzip"],
)
def test_files_of_other_kinds_are_refused_at_once(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(FileFormatError, match=told):
        CsvFile(table(tmp_path, content))


@pytest.mark.parametrize("before", [0, 10, 200_000], ids=["at once", "soon", "late"])
def test_other_encodings_are_named_with_the_byte(tmp_path: Path, before: int) -> None:
    start = b"smiles,note\n" + b"C,fine\n" * before
    path = table(tmp_path, start + "N,caf\u00e9\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match=rf"0xe9 at offset {len(start) + 5:,} \(line {before + 2:,}\).*LATIN1"):
        read(path)


def test_a_letter_cut_at_the_end_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="0xc3 at offset 6"):
        read(table(tmp_path, b"a,b\n1,\xc3"))


def test_the_offset_counts_unpacked_bytes_and_letters_across_chunks(tmp_path: Path) -> None:
    start = b"a,b\n" + ("\u00e9" * 2 + ",1\n").encode() * 200_000
    with pytest.raises(FileFormatError, match=f"offset {len(start):,} "):
        read(table(tmp_path, gzip.compress(start + b"\xff\n"), "t.csv.gz"))


def test_a_gzip_file_cut_short(tmp_path: Path) -> None:
    packed = gzip.compress(b"smiles,y\n" + b"".join(b"C,%d\n" % (number * 7919) for number in range(50_000)))
    for share in (0.05, 0.5, 0.99):
        path = table(tmp_path, packed[: int(len(packed) * share)], "t.csv.gz")
        with pytest.raises(FileFormatError, match="cut short"):
            read(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no file"):
        CsvFile(tmp_path / "nothing.csv")
    with pytest.raises(FileFormatError, match="cannot be read"):
        CsvFile(tmp_path)


def test_reading_takes_constant_memory(tmp_path: Path) -> None:
    path = table(tmp_path, "smiles,y\n" + "CC(C)c1ccccc1,0.25\n" * 100_000)
    file = CsvFile(path)
    tracemalloc.start()
    count = sum(1 for _ in file.rows())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 100_000 and peak < 500_000


@given(
    header=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), min_size=2),
    data=st.data(),
)
def test_what_csv_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, header: list[str], data: st.DataObject
) -> None:
    cell = st.text(st.sampled_from(list('aé,;\t"\n\r Ω')), max_size=6)
    rows = data.draw(st.lists(st.lists(cell, min_size=len(header), max_size=len(header)), max_size=5))
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(["name", *header[1:]])
    writer.writerows(rows)
    path = table(tmp_path_factory.mktemp("t"), text.getvalue().encode())
    assert [list(row.cells) for row in CsvFile(path).rows() if row.problem is None] == rows


@given(content=st.one_of(st.binary(max_size=60), st.text(st.sampled_from(list('ab,;\t"\n\r\0')), max_size=80)))
def test_whatever_the_bytes_only_our_own_errors(tmp_path_factory: pytest.TempPathFactory, content: bytes | str) -> None:
    path = table(tmp_path_factory.mktemp("t"), content)
    try:
        lines = [row.line for row in CsvFile(path).rows()]
    except PointsetError:
        return
    assert lines == sorted(set(lines))


def test_a_separator_inside_a_name_of_two_lines_is_not_taken_for_one(tmp_path: Path) -> None:
    assert CsvFile(table(tmp_path, b'"name",";;\r"\r\n"a","b"\r\n')).delimiter == ","
