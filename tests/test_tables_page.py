"""``pointset results``: every number on the pages is that of results/*.json, or the check says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pointset.cli.results import results
from pointset.errors import FileFormatError, MissingDataError
from pointset.paper.tables.formats import write_table
from pointset.paper.tables.page import fill_marks, outdated, page_outputs, read_results
from pointset.paper.tables.pictures import curve_chart, pictures_of
from tests.table_results import example, scores, timed

REPOSITORY = Path(__file__).parents[1]
TABLES = {"tally-cpu": example(), "tested-cpu": scores("high", 93.1)}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for result in TABLES.values():
        write_table(result, tmp_path / "results")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("Triangles: <!-- result: tally-cpu/PST/3-cycle -->?<!-- /result -->.\n")
    (tmp_path / "docs" / "other.md").write_text("Nothing is marked here.\n")
    return tmp_path


def invoke(*arguments: str, code: int = 0) -> str:
    app = typer.Typer()
    app.command()(results)
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- the page


def test_the_page_the_pictures_and_the_readme_are_made_and_then_current(project: Path) -> None:
    said = invoke()
    assert "wrote: docs/results.md" in said and "wrote: README.md" in said and "other.md" not in said
    page = (project / "docs" / "results.md").read_text(encoding="utf-8")
    assert (
        page.index("# Results") < page.index("## What was run") < page.index("## Table 1:") < page.index("## Table 12:")
    )
    assert "[Tally of substructures](#tally-cpu)" in page and '<a id="tally-cpu"></a>' in page
    assert (
        "**full**, the paper's own settings: none yet" in page and "[tally-cpu.json](../results/tally-cpu.json)" in page
    )
    for picture in ("results_tally-cpu.svg", "results_tally-cpu_learning.svg"):
        assert f"](images/{picture})" in page and (project / "docs" / "images" / picture).exists()
    assert "3-cycle -->4.3 ± 0.2<!--" in (project / "README.md").read_text(encoding="utf-8")
    before = everything(project)
    assert "up to date" in invoke("--check") and "up to date" in invoke()
    assert everything(project) == before


def test_the_check_names_what_is_out_of_date_and_writes_nothing(project: Path) -> None:
    assert "missing: docs/results.md" in invoke("--check", code=1)
    invoke()
    changed = example(date="2026-12-01", rows=example().rows[:5])
    write_table(changed, project / "results")
    before = everything(project)
    said = invoke("--check", code=1)
    assert "out of date: docs/results.md" in said and "out of date: docs/images/results_tally-cpu.svg" in said
    assert "README.md" not in said  # its number is the same
    assert everything(project) == before
    (project / "README.md").write_text((project / "README.md").read_text(encoding="utf-8").replace("4.3", "4.2"))
    invoke()
    assert invoke("--check") and "-->4.3 ± 0.2<!--" in (project / "README.md").read_text(encoding="utf-8")


def test_what_is_no_result_is_left_out_aloud_and_a_damaged_one_refused(project: Path) -> None:
    (project / "results" / "choices.json").write_text('{"what": "else"}')
    assert "not on the page: results/choices.json" in invoke("--check", code=1)
    (project / "results" / "broken.json").write_text('{"table": ')
    assert "broken.json is damaged" in invoke(code=1)
    (project / "none").mkdir()
    with pytest.raises(MissingDataError, match="pointset reproduce"):
        read_results(project / "none")
    assert "expected a file that ends in .md" in invoke("--output", "docs/page.html", code=2)


def test_a_mark_that_names_nothing_stops_before_anything_is_written(project: Path) -> None:
    (project / "notes.md").write_text("One.\nTwo <!-- result: tally-cpu/PTS/3-cycle -->1<!-- /result -->\n")
    before = everything(project)
    said = invoke("--readme", "notes.md", code=1)
    assert "notes.md:2: 'tally-cpu/PTS/3-cycle'" in said and "did you mean 'PST'" in said
    assert everything(project) == before


def test_pictures_depend_on_their_content_alone() -> None:
    first, again = pictures_of("tally-cpu", example()), pictures_of("tally-cpu", example(date="2030-01-01"))
    assert [one.file for one in first] == ["results_tally-cpu_learning.svg", "results_tally-cpu.svg"]
    assert [one.digest for one in first] == [one.digest for one in again]
    drawn = first[1].draw()
    assert drawn == again[1].draw() and first[1].digest in drawn and "<dc:date>" not in drawn
    assert pictures_of("tested-cpu", scores("high", 93.1)) == []


def test_curves_are_drawn_over_minutes_where_all_times_are_known() -> None:
    chart = curve_chart(timed())
    assert (
        chart is not None
        and chart.x.label == "minutes of training"
        and "over the minutes of training" in chart.description
    )
    assert [part.x.max() for part in chart.parts if part.kind == "line"] == pytest.approx([40.0, 40.0, 20.0])
    without = timed(rows=(timed().rows[0], *example().rows))  # those of an older file have none
    over_epochs = curve_chart(without)
    assert over_epochs is not None and over_epochs.x.label == "epoch"
    assert pictures_of("timed", timed())[0].draw()


# --- marked places


@pytest.mark.parametrize(
    ("address", "value"),
    [
        ("tally-cpu/PST/3-cycle", "4.3 ± 0.2"),
        ("tally-cpu/PST/3-cycle/mean", "4.3"),
        ("tally-cpu/PST/3-cycle/std", "0.2"),
        ("tally-cpu/PST/3-cycle/against", "5.4 ×"),
        ("tally-cpu/paper:PST/3-cycle", "0.8"),
        ("tally-cpu/published:chemnet/2-path", "0.9"),
        ("tally-cpu/PSDS/TT", "–"),
        ("tally-cpu/PST/parameters", "221,345"),
        ("tally-cpu/PST/seconds", "1 h 32 min"),
        ("tally-cpu/GIN_e/seconds", "–"),
        ("tally-cpu/seconds", "2 h 3 min"),
        ("tally-cpu/date", "2026-11-20"),
        ("tally-cpu/runs", "4"),
        ("tested-cpu/M0/accuracy", "93.1"),
        ("tally-cpu/PSDS/*", "0.7 | 1.3 | 5.5 | 12.0 | –"),
        ("tally-cpu/paper:2-FWL/*", "0.7 | 1.2 | 0.3 | 1.6 | –"),
    ],
)
def test_a_marked_place_is_filled_with_the_number_as_shown(address: str, value: str) -> None:
    text = f"a <!-- result: {address} -->old<!-- /result --> b <!--result:{address}--><!--/result-->"
    new = fill_marks(text, TABLES, "x.md")
    assert new == f"a <!-- result: {address} -->{value}<!-- /result --> b <!--result:{address}-->{value}<!--/result-->"
    assert fill_marks(new, TABLES, "x.md") == new


FIGURES = {
    "speed": {"seconds": 12.2, "graphs": 249456, "1 thread: ours / theirs": 7.75, "share": "24%"},
    "list": [1, 2],
    "layers": {
        "layers": [{"name": "layer 1", "accuracy": 0.7436, "by": {"2": 0.99}}, {"name": "points", "accuracy": 1}]
    },
    "pairs": {"pst": {"Basic": {"separated": 60}, "CFI": {"separated": 3}}},
}


@pytest.mark.parametrize(
    ("address", "value"),
    [
        ("speed/seconds", "12.2"),
        ("speed/graphs", "249,456"),
        ("speed/1 thread: ours / theirs", "7.75"),
        ("speed/share", "24%"),
        ("pairs/pst/CFI/separated", "3"),
        ("pairs/pst/*/separated", "63"),
        ("speed/seconds as .3f", "12.200"),
        ("speed/graphs as .3g", "2.49e+05"),
        ("layers/layers/layer 1/accuracy as .0%", "74%"),
        ("layers/layers/layer 1/by/2", "0.99"),
    ],
)
def test_figures_of_other_files_fill_marks_too(address: str, value: str) -> None:
    text = f"<!-- result: {address} -->old<!-- /result -->"
    assert fill_marks(text, TABLES, "x.md", FIGURES) == text.replace("old", value)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("speed/second", "no figure 'second'; did you mean 'seconds'"),
        ("speed/seconds/mean", "no figure 'mean'"),
        ("pairs/pst/Basic", "not one figure; expected one of its keys after it: separated"),
        ("pairs/pst/*", "adds up numbers; expected a number at each of: Basic, CFI"),
        ("list", "not one figure; expected one of its keys after it: it has none"),
        ("list/0", "no figure '0'"),
        ("layers/layers/layer 2/accuracy", "no figure 'layer 2/accuracy'"),
        ("speed/seconds as .3q", "no format '.3q'; expected one such as .4f"),
        ("sped/seconds", "no result 'sped'; did you mean 'speed'"),
    ],
)
def test_a_figure_that_there_is_not_is_named(address: str, words: str) -> None:
    with pytest.raises(FileFormatError, match=words):
        fill_marks(f"<!-- result: {address} -->1<!-- /result -->", TABLES, "x.md", FIGURES)


def test_a_whole_table_and_marks_in_code() -> None:
    text = "<!-- result: tested-cpu -->\nbefore\n<!-- /result -->"
    new = fill_marks(text, TABLES, "x.md")
    assert "| M0 <sub>repeats PST</sub> | 93.1 |" in new and "before" not in new
    assert fill_marks(new, TABLES, "x.md") == new
    code = "`<!-- result: no/such/place -->1<!-- /result -->`\n```\n<!-- result: nor/this -->\n```\n"
    assert fill_marks(code, TABLES, "x.md") == code


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!-- result: taly-cpu/PST/TT --><!-- /result -->", "no result 'taly-cpu'; did you mean 'tally-cpu'"),
        ("<!-- result: tally-cpu/PST/5-path --><!-- /result -->", "no column '5-path'"),
        ("<!-- result: tally-cpu/paper:PSDS/TT --><!-- /result -->", "no row of paper 'PSDS'"),
        ("<!-- result: tally-cpu/speed --><!-- /result -->", "has no 'speed'"),
        ("<!-- result: tally-cpu/PST/TT -->1 <!-- result: tally-cpu/PST/TT -->1<!-- /result -->", "has no end"),
        ("<!-- result: tally-cpu/PST/TT -->1", "has no end"),
        ("1<!-- /result -->", "did not begin"),
    ],
)
def test_a_mark_that_is_wrong_is_named_with_its_line(text: str, words: str) -> None:
    with pytest.raises(FileFormatError, match=rf"x\.md:3: .*{words}"):
        fill_marks(f"\n\n{text}", TABLES, "x.md")


# --- this repository


def test_the_pages_of_this_repository_are_those_of_its_results() -> None:
    folder = REPOSITORY / "results"
    if not any(folder.glob("*.json")):
        pytest.skip("nothing was measured yet")
    page = REPOSITORY / "docs" / "results.md"
    others = [REPOSITORY / "README.md", *sorted(path for path in page.parent.glob("*.md") if path != page)]
    outputs = page_outputs(read_results(folder), folder, page, others)
    assert [str(one.path.relative_to(REPOSITORY)) for one in outdated(outputs)] == [], "run: pointset results"
