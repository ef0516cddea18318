"""Names from files reach the terminal and the pages as they are: no markup, no commands to the terminal, no program."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from pointset.cli.console import output_console, show_warning
from pointset.reports.pages import write_page
from pointset.text import for_markup
from pointset.training.bundle import write_bundle
from tests.command_line import ended, invoke
from tests.small_models import model_of, molecule_card

MARKUP = "[bold red]hot[/bold red] [/] [link=http://x]l[/link] :smile:"
COMMAND = "\x1b[31mRED\x07\x9b2J"
NAME = f"{COMMAND}{MARKUP}<script>alert(1)</script>\"'"


def table(path: Path, column: str) -> Path:
    molecules = ["C", "CC", "CO", "CN", "CCO", "CCN", "CCC", "C#N", "CF", "CCl", COMMAND, MARKUP, "C\nC"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", column, "id"])
        writer.writerows([smiles, f"{at}.5", f"{NAME}{at}"] for at, smiles in enumerate(molecules))
    return path


def assert_harmless(said: str) -> None:
    assert "Traceback" not in said and not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", said)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


@pytest.mark.parametrize(
    "words",
    [
        "datasets check table.csv --smiles smiles --max-rejected 1",
        "datasets check table.csv --smiles smiles --target {name} --max-rejected 1",
        "datasets check table.csv --smiles {name}",
        "datasets check table.csv --target {name}?",
        "predict model table.csv -o out.csv --workers 0",
        "evaluate model --file table.csv --target {name}",
        "check-invariance model table.csv",
        "explain model CCO --target {name}",
        "explain model {name} CCO",
        "inspect {name}.g6",
        "recipes show {name}",
        "train {name}",
    ],
)
def test_commands_show_them_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: None, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "table.csv", NAME)
    card = molecule_card(names=(NAME,))
    write_bundle("model", model_of(card), card)
    code, said = ended(*(word.replace("{name}", NAME) for word in words.split()))
    assert code in (0, 1, 2)
    assert_harmless(said)


def test_a_table_of_columns_shows_brackets(tmp_path: Path, terminal: None) -> None:
    said, _ = invoke("datasets", "check", table(tmp_path / "t.csv", f"{MARKUP} y"), "--max-rejected", "1")
    assert "hot[/bold red] [/]" in said


def test_cells_and_lines_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    console = output_console()
    console.file = written
    console.print(NAME)
    console.print(Text("styled", style="bold"))
    assert MARKUP in written.getvalue() and "styled" in written.getvalue()
    assert_harmless(written.getvalue())
    assert Console(file=io.StringIO()).render_str("[bold]x[/bold]").plain == "x"  # which rich does by itself


def test_warnings_are_notes_without_the_line_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    show_warning(UserWarning("cannot keep the dataset [/]"), UserWarning, "molecules.py", 143)
    assert capsys.readouterr().err == "note: cannot keep the dataset [/]\n"


def test_pages_and_pictures_hold_no_control_characters(tmp_path: Path) -> None:
    write_page(f"<p>{COMMAND}\n\tdone</p>", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "<p>�[31mRED��2J\n\tdone</p>"
    picture = f"<svg xmlns='http://www.w3.org/2000/svg'><title>{COMMAND}</title></svg>"
    with pytest.raises(ET.ParseError):
        ET.fromstring(picture)
    assert ET.fromstring(for_markup(picture))[0].text == "�[31mRED��2J"
