"""``pointset express theorems`` as people use it, with statements made up for the purpose."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pointset.cli import express
from pointset.errors import SpecError
from pointset.paper.theorems import statement
from pointset.paper.theorems.statement import Statement, all_statements, check_statements, statements_named
from tests import command_line
from tests.made_up_statements import DYING, ENDLESS, FALSE, RAISING, SLOW, THREADS, TRUE, UNSENDABLE

KEYS = ["statement", "verdict", "evidence", "claim", "numbers", "seconds"]


@pytest.fixture(autouse=True)
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    put(monkeypatch, SLOW, TRUE, FALSE)


def put(monkeypatch: pytest.MonkeyPatch, *statements: Statement) -> None:
    monkeypatch.setattr(statement, "all_statements", lambda: statements)


invoke = partial(command_line.invoke, "express", "theorems")


def without_seconds(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in result.items() if key != "seconds"} for result in results]


def test_a_table_a_summary_and_exit_code_0_also_where_a_statement_fails() -> None:
    printed, _ = invoke("--workers", "1")
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    for name_and_claim, evidence in (
        (f"Proposition 1.1 holds {SLOW.claim}", "it took its time"),
        (f"Theorem 2.1 fails as printed {FALSE.claim}", "7 is odd; 6 is even instead"),
    ):
        assert lines[lines.index(name_and_claim) + 1] == evidence
    assert "3 statements: 2 hold, 1 fails as printed; " in lines[-1]


def test_on_a_narrow_terminal_the_verdict_stands_under_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(express, "output_console", lambda: Console(width=80, highlight=False))
    lines = [" ".join(line.split()) for line in invoke("--workers", "1", "2.1")[0].splitlines()]
    row = lines.index(f"{FALSE.name} {FALSE.claim}")
    assert lines[row + 1] == "fails as printed 7 is odd; 6 is even instead"


def test_json_is_a_list_of_statements_that_every_reader_of_json_accepts(tmp_path: Path) -> None:
    _, said = invoke("--workers", "1", "--json", "found.json", "--picture", "found.svg")
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert [list(result) for result in found] == [KEYS] * 3
    assert [result["statement"] for result in found] == ["Proposition 1.1", "Theorem 1.2", "Theorem 2.1"]
    assert [result["verdict"] for result in found] == ["holds", "holds", "fails as printed"]
    assert found[1]["numbers"] == {"error": 4.4e-16, "tried": 1}
    assert found[2]["numbers"] == {"worst": None, "at": 7, "ok": False}  # JSON has no infinity
    assert found[0]["seconds"] >= 0.5
    assert "7 is odd; 6 is even instead" in (tmp_path / "found.svg").read_text(encoding="utf-8")
    assert "wrote found.json and found.svg" in said


def test_names_choose(tmp_path: Path) -> None:
    invoke("theorem", "2.1", "--json", "found.json", "--workers", "1")
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert [result["statement"] for result in found] == ["Theorem 1.2", "Theorem 2.1"]
    _, said = invoke("Theorem 1.3", code=1)
    assert "Error: got 'Theorem 1.3'" in said
    assert "Theorem 2.1" in said
    assert "did you mean 'Theorem 1.2'?" in said
    assert "got ' '; expected a part of a statement's name" in invoke(" ", code=1)[1]
    assert "Traceback" not in said


def test_the_list_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, RAISING, TRUE)
    printed, _ = invoke("--list")
    head, _, *claims = (" ".join(line.split()) for line in printed.splitlines())
    assert [head, *claims] == ["statement claim", "Lemma 3.1 Everything can be divided.", "Theorem 1.2 √2² = 2."]
    assert "leave out --json" in invoke("--list", "--json", "found.json", code=2)[1]


def test_an_error_is_told_and_sinks_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(monkeypatch, RAISING, TRUE)
    printed, said = invoke("--workers", "1", "--json", "found.json", code=1)
    assert "2 statements: 1 holds, 1 ended in an error; " in printed
    assert "Traceback" not in printed + said
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert [result["verdict"] for result in found] == ["error", "holds"]
    assert found[0]["evidence"].startswith("ZeroDivisionError: nothing to divide by (made_up_statements.py, line ")


def test_outputs_are_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, *ENDLESS)
    assert "no folder" in invoke("--json", "missing/found.json", code=2)[1]
    assert ".png, .svg, .pdf" in invoke("--picture", "found.bmp", code=2)[1]
    assert "--workers" in invoke("--workers", "0", code=2)[1]


def test_processes_find_what_one_finds_in_the_same_order_and_survive_a_death() -> None:
    statements, steps = (SLOW, TRUE, FALSE, THREADS, RAISING), list[int]()
    alone = check_statements(statements, workers=1)
    together = check_statements((*statements, UNSENDABLE, DYING), workers=2, progress=steps.append)
    assert without_seconds(together[:5]) == without_seconds(alone)
    assert [result["verdict"] for result in alone] == ["holds", "holds", "fails as printed", "holds", "error"]
    assert [result["verdict"] for result in together[5:]] == ["error", "error"]
    assert "lambda" in together[5]["evidence"]
    assert "ended before its time" in together[6]["evidence"]
    assert steps == [1] * 7


def test_workers_are_checked_and_nothing_gives_nothing() -> None:
    assert check_statements(()) == []
    with pytest.raises(SpecError, match="got workers=0; expected a whole number of at least 1"):
        check_statements((TRUE,), workers=0)


def test_ctrl_c_ends_all_processes_at_once_and_in_silence(tmp_path: Path) -> None:
    program = (
        "from pointset.paper.theorems import statement; from tests.made_up_statements import ENDLESS; "
        "statement.all_statements = lambda: ENDLESS; from pointset.cli.main import run; run()"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", program, "express", "theorems", "--workers", "2", "--json", "found.json"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("started-*"))) < 2 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        start = time.monotonic()
        _, said = process.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert process.returncode == 130
    assert said.strip() == "Interrupted; nothing was written."
    for worker in (int(path.name.split("-")[1]) for path in tmp_path.glob("started-*")):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_the_papers_statements_have_names_of_their_own_and_can_be_sent_to_processes() -> None:
    statements = all_statements()
    names = [one.name for one in statements]
    assert len(set(names)) == len(names) >= 20
    assert pickle.dumps(statements)  # a lambda would raise
    assert all(one.claim.strip() for one in statements)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (["A.1"], ["Lemma A.1"]),
        (["lemma a"], ["Lemma A.1", "Lemma A.10"]),
        (["A.10", "5"], ["Theorem 5.1", "Lemma A.10"]),
        ([], ["Theorem 5.1", "Lemma A.1", "Lemma A.10"]),
    ],
    ids=["number", "word", "two", "none"],
)
def test_statements_by_a_part_of_their_name(asked: list[str], found: list[str]) -> None:
    statements = tuple(Statement(name, "", TRUE.check) for name in ("Theorem 5.1", "Lemma A.1", "Lemma A.10"))
    assert [one.name for one in statements_named(statements, asked)] == found
