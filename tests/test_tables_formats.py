"""Tables as people read them: what is bold, what is marked, what is missing, and that no format is broken by a name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pointset.errors import FileFormatError
from pointset.paper.tables.formats import escaped, html_page, latex_table, markdown_page, read_table, write_table
from pointset.paper.tables.result import Cell, Column, Row, RunRecord, TableResult
from pointset.paper.tables.sheet import Footnotes, against_paper, describe_machine, progress_of, spans
from tests.table_results import NASTY, example, row, scores, timed


def lines_of(result: TableResult) -> dict[str, list[str]]:
    """Rows of the main Markdown table by their first cell, without what it repeats."""
    table = markdown_page(result).partition("\n\n|")[2].partition("\n\n")[0]
    rows = [re.split(r"(?<!\\)\|", line.strip("| ")) for line in f"|{table}".splitlines()[2:]]
    return {re.sub(r" <su.*", "", cells[0]).strip(): [cell.strip() for cell in cells[1:]] for cells in rows}


# --- what the table shows


def test_the_papers_rows_come_first_and_ours_stand_apart() -> None:
    page = markdown_page(example())
    places = [page.index(words) for words in ("The paper, Table 1", "Published elsewhere", "Measured here, budget cpu")]
    assert places == sorted(places)
    assert page.index("| chemnet") < places[2] < page.index("| PST <sub>repeats PST</sub> |")
    assert "GIN\\_e<sup>d</sup> <sub>repeats MPNN</sub>" in page


def test_the_best_is_bold_on_either_side_and_what_looks_equal_is_tied() -> None:
    shown = {title: cells for title, cells in lines_of(example()).items() if title in ("2-FWL<sup>a</sup>", "PSDS")}
    assert shown["PSDS"][1:5] == ["**0.7** ✓", "**1.3** ✓", "5.5 ✓", "**12.0**"]  # 0.74 and 0.71, 12.04 and 12.00
    page = markdown_page(example())
    assert "| PST |  | **0.7** ✓ | **1.1** ✓ | 0.8 ✓ | 1.9 ✓ | **3.0** ✓ |" in page
    assert "| 2-FWL<sup>a</sup> |  | **0.7** ✓ | 1.2 ✓ | **0.3** ✓ | **1.6** ✓ | – |" in page


@pytest.mark.parametrize(
    ("better", "bold"), [("high", ["93.1", "**95.0**"]), ("low", ["**93.1**", "95.0"]), ("neither", ["93.1", "95.0"])]
)
def test_the_direction_of_a_column_decides(better: str, bold: list[str]) -> None:
    shown = lines_of(scores(better, 93.1, 95.0))
    assert [shown["M0"][-1], shown["M1"][-1]] == bold
    assert shown["PST"][-1] == "94.4 ± 3.5"  # alone, so that nothing is best


def test_at_most_the_bound_counts_and_the_legend_says_so() -> None:
    page = markdown_page(example())
    assert "| 10.0 ± 0.2 ✓ |" in page and "**12.0 ± 0.2** |" in page
    assert "✓ it counts: at most 10.0." in page and "Values in 10⁻³; lower is better." in page
    assert "✓" not in markdown_page(scores("high", 93.0))


def test_a_missing_value_is_a_dash_with_its_reason_below() -> None:
    for page in (markdown_page(example()), html_page(example())):
        assert "–<sup>c</sup>" in page and "<sup>c</sup> the run ended in NaN" in page
    letters = Footnotes()
    notes = [letters.letter(f"note {index}") for index in range(28)]
    assert notes[:2] + notes[25:] == ["a", "b", "z", "aa", "ab"]
    assert letters.letter("note  0") == "a" and letters.letter("") == ""


def test_numbers_have_their_digits_and_no_negative_zero() -> None:
    column = Column(key="x", title="x", better="neither", digits=1)
    values = {"tiny": -0.01, "lots": 1234567.0, "below": -2.25, "wild": 3.2e12}
    rows = tuple(Row(title=title, source="ours", cells={"x": Cell(mean=value)}) for title, value in values.items())
    shown = {title: cells[0] for title, cells in lines_of(example(columns=(column,), rows=rows)).items() if cells}
    assert shown["tiny"] == "0.0" and shown["lots"] == "1,234,567.0" and shown["below"] == "−2.2"
    assert shown["wild"] == "3.2 × 10¹²"


def test_units_and_directions_stand_in_the_heads_where_columns_differ() -> None:
    columns = (Column(key="mae", title="MAE", unit="eV"), Column(key="acc", title="accuracy", better="high"))
    page = markdown_page(example(columns=columns))
    assert "| MAE (eV) ↓ | accuracy ↑ |" in page and "↓ lower is better, ↑ higher is better" in page


def test_it_says_how_it_was_measured() -> None:
    whole = example(complete=True)
    for page in (markdown_page(example()), latex_table(example()), html_page(example())):
        for words in (
            "One model for all targets",
            "The official split is used.",
            "2 h 3 min",
            "2026-11-20",
            "Some CPU",
        ):
            assert words in page
        assert "runs are missing" in page and "reproduce tally" in page
    assert "missing" not in markdown_page(whole) + html_page(whole) + latex_table(whole)
    assert "| PST | 3 | 30 | 28–30 | 1 h 32 min | 640 MB |" in markdown_page(whole)
    assert spans([0, 4, 7, None]) == "0, 4, 7" and spans([]) == "" and spans([5, 100, 2, 9, 70]) == "2–100"


def test_the_machine_in_words() -> None:
    about = {"pointset": "1", "packages": {"torch": "2", "rdkit": "3"}, "machine": {"cores": 1, "kind": "CPU"}}
    assert describe_machine(about) == "1 core, CPU; pointset 1, torch 2"
    assert describe_machine({}) == ""


def test_hours_show_the_best_validation_score_after_so_many_minutes() -> None:
    found = progress_of(timed())
    assert found is not None and found.score == "validation MAE"
    assert found.heads == ["5 min", "15 min", "30 min", "at the end"]
    curves = {row.title: [[score for _, score in run.curve] for run in row.runs] for row in timed().rows}
    pst = [f"{sum(curve[epoch - 1] for curve in curves['PST']) / 2:.3f}" for epoch in (3, 11, 22, 30)]
    gin = [f"{curves['GIN'][0][epoch - 1]:.3f}" for epoch in (7, 22, 30, 30)]  # it keeps what it had at its end
    assert found.lines == [("PST", pst), ("GIN", gin)]
    for page in (markdown_page(timed()), html_page(timed())):
        assert "validation MAE after" in page and "The best so far" in page
    late = timed(rows=tuple(row.model_copy(update={"runs": (late_run(row.runs[0]),)}) for row in timed().rows))
    assert progress_of(late) is not None and [cells[0] for _, cells in progress_of(late).lines] == ["–", "–"]  # type: ignore[union-attr]
    assert progress_of(timed(budget="cpu")) is None and progress_of(example(budget="hours")) is None


def late_run(run: RunRecord) -> RunRecord:
    """Validated once, at its end."""
    return run.model_copy(update={"curve": run.curve[-1:], "times": run.times[-1:]})


def test_a_time_for_each_score_or_none() -> None:
    with pytest.raises(ValueError, match="got 1 times for a curve of 2; expected one for each"):
        RunRecord(name="a", command="b", curve=((1, 0.5), (2, 0.4)), times=(1.0,))


# --- ours against the paper's


def test_errors_are_divided_and_scores_are_subtracted() -> None:
    found = against_paper(example())
    assert found is not None and [line.title for line in found.lines] == ["PST", "GIN_e"]  # PSDS is not in the paper's
    assert [cell.text for cell in found.lines[1].cells] == ["2.1 ×", "0.89 ×", "0.85 ×", "–", "–"]
    assert [cell.good for cell in found.lines[1].cells] == [False, True, True, None, None]
    high = against_paper(scores("high", 93.1, 94.4, 95.0))
    assert high is not None
    assert [line.cells[0] for line in high.lines] == [("−1.3", False), ("±0", True), ("+0.6", True)]
    assert "ours minus the paper's" in high.legend and "divided" not in high.legend
    alone = example(rows=(row("PST", "ours", 1.0, counterpart="PST"),))
    assert against_paper(alone) is None and "against" not in markdown_page(alone)


# --- LaTeX


def test_latex_reads_nothing_of_a_name_as_a_command() -> None:
    text = latex_table(example())
    assert "50\\% of A\\&B\\_c \\#1 $\\pm$ \\{x\\} \\$y\\$ \\textbackslash{}z" in text
    assert escaped("10⁻³ μ Δ×2 H₂ 5 Å") == "10$^{-3}$ $\\mu$ $\\Delta$$\\times$2 H$_{2}$ 5 \\AA{}"
    body = text.partition("\\toprule")[2].partition("\\bottomrule")[0]
    full = [line for line in body.splitlines() if line.endswith("\\\\") and "multicolumn" not in line]
    assert len(full) == 8 and {len(re.findall(r"(?<!\\)&", line)) for line in full} == {6}
    assert text.count("\\begin{") == text.count("\\end{") == 2
    assert re.sub(r"\\[{}]", "", text).count("{") == re.sub(r"\\[{}]", "", text).count("}")
    assert all(letter.isascii() for letter in text)  # pdflatex knows it all
    assert "\\textbf{\\boldmath 4.3 $\\pm$ 0.2}\\,$\\checkmark$" in text and text.count("\\midrule") == 3


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX on this machine")
def test_latex_compiles(tmp_path: Path) -> None:
    document = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}%s\\end{document}"
    (tmp_path / "page.tex").write_text(document % latex_table(example()), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]


# --- HTML


class Reader(HTMLParser):
    """Fails where tags are not closed in order; keeps what would be fetched."""

    VOID = ("meta", "link", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID and tag not in ("p", "li"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("p", "li"):
            assert self.open.pop() == tag


def test_the_page_is_one_file_with_curves_and_no_name_becomes_markup() -> None:
    page = html_page(example())
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    addresses = [value for _, found in reader.seen for name, value in found.items() if name in ("src", "href")]
    assert all(str(value).startswith("data:") for value in addresses)
    assert not any(tag in ("script", "b") for tag, _ in reader.seen) and "&lt;b&gt;" in page
    assert [tag for tag, _ in reader.seen].count("svg") == 1 and page.count('class="line c0 thin"') == 3
    assert "prefers-color-scheme: dark" in page and 'class="part ours"' in page
    assert "pointset train tiny seed=2 --run-dir runs/pst-2" in page


def test_runs_that_learn_different_things_share_no_chart() -> None:
    rows = example().rows
    mixed = rows[4].model_copy(update={"runs": rows[4].runs + rows[5].runs})  # two with the same seed
    assert "<svg" not in html_page(example(rows=(mixed,)))


def test_a_table_of_nothing_has_all_formats(tmp_path: Path) -> None:
    empty = example(columns=(), rows=(), machine={}, notes=())
    assert [path.suffix for path in write_table(empty, tmp_path)] == [".json", ".md", ".tex", ".html"]
    assert "runs are missing" in (tmp_path / "tally-cpu.md").read_text(encoding="utf-8")


# --- files


def test_what_was_written_is_read_back_and_is_the_same_each_time(tmp_path: Path) -> None:
    result = example()
    paths = write_table(result, tmp_path / "new")
    assert [path.name for path in paths] == [f"tally-cpu.{end}" for end in ("json", "md", "tex", "html")]
    assert read_table(paths[0]) == result
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_table(result, tmp_path / "new")] == before
    assert len(list((tmp_path / "new").iterdir())) == 4  # nothing temporary is left
    with pytest.raises(FileFormatError, match="without /"):
        write_table(example(table="../out"), tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is damaged"),
        ("[]", "expected an object"),
        ('{"rows": []}', 'has no "table"'),
        ('{"table": "x"}', "title: field required.*more"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "some.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=words):
        read_table(path)


def test_values_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    path = write_table(example(), tmp_path)[0]
    content = json.loads(path.read_text(encoding="utf-8"))
    content["rows"][0]["cells"]["2-path"]["mean"] = float("nan")
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"rows\.0\.cells\.2-path\.mean.*finite"):
        read_table(path)
    assert NASTY not in markdown_page(example())  # it was escaped there
