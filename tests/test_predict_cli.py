"""``pointset predict`` and ``pointset embed`` as people use them, and kill them."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch

from pointset import Categories, machine
from pointset.datasets import loading
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import TargetScale
from pointset.datasets.graph_files import write_graph_file
from pointset.prediction import ResumableOutput, TablePrediction, load
from pointset.training.bundle import write_bundle
from tests.command_line import invoke
from tests.small_benchmarks import KINDS, with_data
from tests.small_models import CLASSES, TERMS, card_of, model_of, molecule_card
from tests.tolerances import near, rounding

MOLECULES = """\
id,smiles,note
1,CCO,"drink, carefully"
2,C1CC,not closed
3,,nothing
4,c1ccccc1
5,[Na+].[Cl-],salt
6,CC,"of ""two"" carbons"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder with a model of molecules and a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    write("model", molecule_card())
    Path("in.csv").write_text(MOLECULES)


def write(name: str, card: Card, **options: Any) -> None:
    write_bundle(name, model_of(card), card, **options)


def rows_of(name: str) -> list[dict[str, str]]:
    with Path(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t" if name.endswith(".tsv") else ","))


def predicted(rows: Sequence[dict[str, str]], column: str) -> torch.Tensor:
    return torch.tensor([float(row[column]) for row in rows if row["status"] == "ok"], dtype=torch.float64)


def files() -> set[str]:
    return {file.name for file in Path().iterdir()} - {"model", "in.csv", "cache"}


# --- tables of SMILES


def test_rows_stand_in_the_order_of_the_input_each_with_its_status() -> None:
    said, warned = invoke("predict", "model", "in.csv", "-o", "out.csv")
    rows = rows_of("out.csv")
    assert list(rows[0]) == ["id", "smiles", "note", "predicted_logS", "status"]
    assert [row["id"] for row in rows] == list("123456")
    assert [row["note"] for row in rows][::5] == ["drink, carefully", 'of "two" carbons']
    assert [row["status"] == "ok" for row in rows] == [True, False, False, False, True, True]
    assert "unclosed ring" in rows[1]["status"] and rows[2]["status"] == "there is no SMILES"
    assert rows[3]["status"] == "the row has 2 cells; expected 3, as in the first line"
    assert all(row["predicted_logS"] == "" for row in rows[1:4])
    wanted = load("model").predict(["CCO", "[Na+].[Cl-]", "CC"])[:, 0]
    assert near(predicted(rows, "predicted_logS"), wanted, terms=TERMS, dtype=torch.float32)
    assert said.startswith("3 of 6 rows → out.csv (") and " s\n" in said
    assert "not answered: line 3: 'C1CC' is not a SMILES" in warned and "line 5: the row has 2 cells" in warned
    assert files() == {"out.csv"}


@pytest.mark.parametrize(
    ("name", "content", "options", "header"),
    [
        ("in.tsv", "mol\tn\nCCO\t1\nCC\t2\n", ("--smiles", "mol"), ["mol", "n"]),
        ("in.smi", "CCO ethyl alcohol\nCC\n", (), ["smiles", "name"]),
        ("in.csv", "1;CCO\n2;CC\n", ("--no-header", "--smiles", "1"), ["column 0", "smiles"]),
        ("in.csv", "﻿SMILES\r\nCCO\r\nCC\r\n", (), ["SMILES"]),
    ],
    ids=["tsv", "smi", "no header", "Excel"],
)
def test_tables_of_every_kind(name: str, content: str, options: tuple[str, ...], header: list[str]) -> None:
    for packed in (False, True):
        path = Path(name + ".gz" * packed)
        path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
        invoke("predict", "model", str(path), "-o", "out.tsv", "--overwrite", *options)
        rows = rows_of("out.tsv")
        assert list(rows[0]) == [*header, "predicted_logS", "status"]
        assert near(
            predicted(rows, "predicted_logS"),
            load("model").predict(["CCO", "CC"])[:, 0],
            terms=TERMS,
            dtype=torch.float32,
        )


def test_columns_that_are_there_already_are_kept_apart() -> None:
    Path("in.csv").write_text("smiles,status,predicted_logS,status_2\nCCO,a,b,c\n")
    _, warned = invoke("predict", "model", "in.csv", "-o", "out.csv")
    assert Path("out.csv").read_text().splitlines()[0] == (
        "smiles,status,predicted_logS,status_2,predicted_logS_2,status_3"
    )
    assert "named predicted_logS_2, status_3" in warned


FORMULAS = ["=1+1", "+cmd", "-cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1", "-1.5", "+2e-3", "plain", "[=1]"]


def test_cells_that_spreadsheets_take_for_formulas() -> None:
    """They come as they are, unless the output is for a spreadsheet: then all but numbers get an apostrophe."""
    with Path("in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["=name", "smiles"], *([one, "CCO"] for one in FORMULAS), ["x", "=CCO"]])
    invoke("predict", "model", "in.csv", "-o", "exact.csv")
    assert [row["=name"] for row in rows_of("exact.csv")] == [*FORMULAS, "x"]
    invoke("predict", "model", "in.csv", "-o", "safe.csv", "--spreadsheet-safe")
    rows, exact = rows_of("safe.csv"), rows_of("exact.csv")
    assert [row["'=name"] for row in rows] == [*(f"'{one}" for one in FORMULAS[:6]), *FORMULAS[6:], "x"]
    assert rows[-1]["smiles"] == "'=CCO" and rows[-1]["status"] != "ok"
    assert [row["predicted_logS"] for row in rows] == [row["predicted_logS"] for row in exact]


def test_numbers_are_in_the_targets_units() -> None:
    scale = TargetScale(torch.tensor([-11_000.0]).double(), torch.tensor([0.5]).double())
    write("scaled.zip", molecule_card(), scale=scale)
    invoke("predict", "scaled.zip", "in.csv", "-o", "out.csv", "--quiet")
    values = predicted(rows_of("out.csv"), "predicted_logS")
    assert (values + 11_000).abs().max() < 5
    assert (values - load("scaled.zip").predict(["CCO", "[Na+].[Cl-]", "CC"])[:, 0]).abs().max() < 1e-4


def test_classes_have_a_name_and_probabilities() -> None:
    write("classes", molecule_card(Task.MULTI_CLASS, names=("colour",)))
    invoke("predict", "classes", "in.csv", "-o", "out.csv")
    rows = rows_of("out.csv")
    probabilities = [f"probability_{name}" for name in CLASSES]
    assert list(rows[0])[3:] == ["predicted_colour", *probabilities, "status"]
    wanted = load("classes").predict_classes(["CCO", "[Na+].[Cl-]", "CC"])
    assert [row["predicted_colour"] for row in rows if row["status"] == "ok"] == wanted
    assert sum(float(rows[0][name]) for name in probabilities) == pytest.approx(1)
    write("labels", molecule_card(Task.MULTI_LABEL, names=("toxic", "active")))
    invoke("predict", "labels", "in.csv", "-o", "labels.csv")
    assert 0 < float(rows_of("labels.csv")[0]["predicted_toxic"]) < 1


def test_other_processes_give_the_same_file(one_thread: None) -> None:
    Path("in.csv").write_text("smiles\n" + "CCO\nC1CC\nCC\n\nc1ccccc1\n" * 40)
    invoke("predict", "model", "in.csv", "-o", "here.csv", "--batch-size", "8", "--workers", "0")
    invoke("predict", "model", "in.csv", "-o", "there.csv", "--batch-size", "8", "--workers", "1")
    assert Path("here.csv").read_bytes() == Path("there.csv").read_bytes()
    assert len(rows_of("here.csv")) == 160


def test_a_molecule_too_large_for_the_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("in.csv").write_text(f"smiles\nCCO\n{'C' * 700}\nCC\n")
    monkeypatch.setattr(machine, "_available_bytes", lambda: 100 * 2**20)
    invoke("predict", "model", "in.csv", "-o", "out.csv")
    assert [row["status"][:28] for row in rows_of("out.csv")] == ["ok", "a graph of 700 nodes needs a", "ok"]


def test_where_no_row_can_be_answered_the_command_fails() -> None:
    Path("in.csv").write_text("smiles\nC1CC\n")
    _, warned = invoke("predict", "model", "in.csv", "-o", "out.csv", code=1)
    assert "none of 1 row could be answered" in warned and len(rows_of("out.csv")) == 1


# --- graphs


def test_graphs_of_files_and_folders() -> None:
    write("graphs", card_of())
    rings = [nx.cycle_graph(n) for n in (4, 6, 9)]
    write_graph_file("rings.g6", rings)
    with Path("rings.g6").open("a") as file:
        file.write("?bad~~\n")
    invoke("predict", "graphs", "rings.g6", "-o", "out.csv")
    rows = rows_of("out.csv")
    assert [row["graph"] for row in rows] == ["rings.g6:1", "rings.g6:2", "rings.g6:3", "rings.g6:4"]
    assert [row["status"] == "ok" for row in rows] == [True, True, True, False]
    wanted = load("graphs").predict(rings)[:, 0]
    assert near(predicted(rows, "predicted_logS"), wanted, terms=TERMS, dtype=torch.float32)
    write_graph_file("folder", rings, ["a", "b", "c"])
    invoke("predict", "graphs", "folder", "-o", "folder.csv")
    assert near(predicted(rows_of("folder.csv"), "predicted_logS"), wanted, terms=TERMS, dtype=torch.float32)
    write_graph_file("edges.csv", rings, ["a", "b", "c"])
    invoke("predict", "graphs", "edges.csv", "-o", "edges_out.csv")
    assert [row["graph"] for row in rows_of("edges_out.csv")] == ["a", "b", "c"]


def test_a_graph_that_does_not_fit_the_model_is_a_row() -> None:
    write("graphs", card_of(node=Categories(3)))
    fits, too_high = nx.path_graph(3), nx.path_graph(3)
    nx.set_node_attributes(fits, dict.fromkeys(range(3), torch.tensor([2])), "x")
    nx.set_node_attributes(too_high, dict.fromkeys(range(3), torch.tensor([3])), "x")
    write_graph_file("some.graphml", [fits, nx.path_graph(3), too_high])
    invoke("predict", "graphs", "some.graphml", "-o", "out.csv")
    first, second, third = (row["status"] for row in rows_of("out.csv"))
    assert first == "ok" and "no such features" in second and "holds 3 to 3; expected 0 to 2" in third


def small_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    with_data(Path("data"))
    monkeypatch.setattr(loading, "BENCHMARKS", KINDS)


def test_a_dataset_by_name_and_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    small_datasets(monkeypatch)
    card = KINDS["many-numbers"].card
    write("numbers", card, weighted_edges=0)
    invoke("predict", "numbers", "many-numbers", "-o", "out.csv", "--data-dir", "data")
    rows = rows_of("out.csv")
    assert list(rows[0]) == ["graph", "predicted_mu", "predicted_alpha", "predicted_gap", "status"]
    assert [row["graph"] for row in rows] == list("0123")
    assert [row["status"] for row in rows][:3] == ["ok"] * 3 and "self-loop" in rows[3]["status"]
    invoke("predict", "numbers", "many-numbers", "-o", "val.csv", "--data-dir", "data", "--split", "val")
    assert rows_of("val.csv")[0]["graph"] == "2"
    assert float(rows_of("val.csv")[0]["predicted_mu"]) == pytest.approx(
        float(rows[2]["predicted_mu"]), rel=rounding(torch.float32, TERMS)
    )
    _, warned = invoke(
        "predict", "numbers", "many-numbers", "-o", "x.csv", "--data-dir", "data", "--split", "tst", code=1
    )
    assert "no part 'tst' (--split); expected one of train, val, test" in warned
    _, warned = invoke("predict", "numbers", "one-number", "-o", "x.csv", "--data-dir", "data", code=1)
    assert "made for node features Categories(3, 3), and one-number has None" in warned
    _, warned = invoke("predict", "numbers", "many-numbers", "-o", "x.csv", "--data-dir", "nowhere", code=1)
    assert "x.csv" not in files() and "x.csv.part" not in files()


def test_nodes_have_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    small_datasets(monkeypatch)
    write("nodes", KINDS["classes-of-nodes"].card)
    invoke("predict", "nodes", "classes-of-nodes", "-o", "out.csv", "--data-dir", "data")
    rows = rows_of("out.csv")
    assert list(rows[0]) == [
        "graph", "node", "predicted_object", "probability_sky", "probability_cow", "probability_boat", "status"
    ]  # fmt: skip
    assert [(row["graph"], row["node"]) for row in rows] == [
        *((str(graph), str(node)) for graph, count in enumerate((3, 4, 3)) for node in range(count)),
        ("3", ""),  # a self-loop, which this model's matrix cannot hold
    ]


# --- representations


def test_representations_of_graphs_and_of_atoms() -> None:
    invoke("embed", "model", "in.csv", "-o", "out.csv")
    rows, names = rows_of("out.csv"), [f"e{channel}" for channel in range(6)]
    assert list(rows[0]) == ["id", "smiles", "note", *names, "status"]
    wanted = load("model").embed(["CCO"])[0].double()
    assert near(torch.tensor([float(rows[0][name]) for name in names]), wanted, terms=TERMS, dtype=torch.float32)
    Path("in.csv").write_text("smiles\nOCC\nbad\n")
    invoke("embed", "model", "in.csv", "-o", "atoms.csv", "--level", "node")
    rows = rows_of("atoms.csv")
    assert [(row["smiles"], row["read_as"], row["node"]) for row in rows] == [
        ("OCC", "CCO", "0"), ("OCC", "CCO", "1"), ("OCC", "CCO", "2"), ("bad", "", "")
    ]  # fmt: skip
    mean = sum(float(row["e0"]) for row in rows[:3]) / 3
    assert mean == pytest.approx(float(wanted[0]), abs=rounding(torch.float32, TERMS) * float(wanted.abs().max()))


# --- broken off, and gone on with


def long_table(rows: int = 120) -> None:
    smiles = ["CCO", "c1ccccc1", "C1CC", "CC(C)C", "CCN", '"broken', "CCCCCC"]
    Path("in.csv").write_text("id,smiles\n" + "".join(f"{at},{smiles[at % 7]}\n" for at in range(rows)))


ARGUMENTS = ("predict", "model", "in.csv", "-o", "out.csv", "--batch-size", "2", "--workers", "0")


def whole_file() -> bytes:
    invoke(*ARGUMENTS[:4], "whole.csv", *ARGUMENTS[5:])
    return Path("whole.csv").read_bytes()


def interrupt(monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int = 3) -> None:
    """Let the work stop at its fourth window of 16 rows."""
    write_window, calls = TablePrediction._write_window, iter(range(10_000))

    def stopping(*arguments: Any) -> None:
        if next(calls) == after:
            raise error
        write_window(*arguments)

    monkeypatch.setattr(TablePrediction, "_write_window", stopping)


def test_ctrl_c_says_how_to_resume_and_the_same_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    long_table()
    whole = whole_file()
    with monkeypatch.context() as patch:
        interrupt(patch, KeyboardInterrupt())
        _, warned = invoke(*ARGUMENTS, code=130)
    assert "Interrupted after 48 rows. Repeat the command to resume" in warned
    assert files() == {"whole.csv", "out.csv.part", "out.csv.part.json"}
    said, warned = invoke(*ARGUMENTS)
    assert "Resuming after the first 48 rows" in warned
    assert Path("out.csv").read_bytes() == whole and files() == {"whole.csv", "out.csv"}
    assert said.split(" → ")[0] == "86 of 120 rows"


def test_a_full_disk_keeps_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    long_table()
    whole = whole_file()
    with monkeypatch.context() as patch:
        interrupt(patch, OSError(28, "No space left on device", "out.csv.part"))
        _, warned = invoke(*ARGUMENTS, code=1)
    assert "No space left on device" in warned and "out.csv" not in files()
    invoke(*ARGUMENTS)
    assert Path("out.csv").read_bytes() == whole


def test_what_was_left_by_another_call_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    long_table()
    with monkeypatch.context() as patch:
        interrupt(patch, KeyboardInterrupt())
        invoke(*ARGUMENTS, code=130)
    _, warned = invoke(*ARGUMENTS[:-4], "--batch-size", "8", code=1)
    assert "was left by another call: not the same batch size" in warned and "--restart" in warned
    write("other", molecule_card(names=("logP",)))
    _, warned = invoke("predict", "other", *ARGUMENTS[2:], code=1)
    assert "not the same model, columns" in warned
    _, warned = invoke("embed", *ARGUMENTS[1:], code=1)
    assert "not the same command, columns" in warned
    table = Path("in.csv").read_text()
    Path("in.csv").write_text(table + "120,C\n")
    _, warned = invoke(*ARGUMENTS, code=1)
    assert "not the same input" in warned
    invoke(*ARGUMENTS, "--restart")
    assert len(rows_of("out.csv")) == 121 and not any(name.endswith((".part", ".json")) for name in files())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("out.csv.part.json", "{"),
        ("out.csv.part.json", "[]"),
        ("out.csv.part.json", '{"version": 1, "identity": {}, "progress": {"rows": 3}}'),
        ("out.csv.part", "id,smiles\n"),
    ],
    ids=["cut", "list", "other keys", "shorter"],
)
def test_damage_to_what_was_left_is_found(monkeypatch: pytest.MonkeyPatch, file: str, content: str) -> None:
    long_table()
    with monkeypatch.context() as patch:
        interrupt(patch, KeyboardInterrupt())
        invoke(*ARGUMENTS, code=130)
    Path(file).write_text(content)
    _, warned = invoke(*ARGUMENTS, code=1)
    assert "--restart" in warned and file in warned


def test_a_part_that_nobody_noted_begins_again() -> None:
    long_table()
    whole = whole_file()
    Path("out.csv.part").write_text("half a li")
    invoke(*ARGUMENTS)
    assert Path("out.csv").read_bytes() == whole


def test_a_journal_that_was_left_over_at_the_end_does_not_matter() -> None:
    Path("out.csv.part.json").write_text("{}")  # killed behind the last step but one
    Path("out.csv").write_text("finished")
    invoke("predict", "model", "in.csv", "-o", "out.csv", "--overwrite")
    assert len(rows_of("out.csv")) == 6 and files() == {"out.csv"}


def test_an_input_that_changes_meanwhile_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    long_table()
    write_window = TablePrediction._write_window

    def meddling(*arguments: Any) -> None:
        os.utime("in.csv", ns=(1, 1))
        write_window(*arguments)

    monkeypatch.setattr(TablePrediction, "_write_window", meddling)
    _, warned = invoke(*ARGUMENTS, code=1)
    assert "changed while it was read" in warned and "out.csv" not in files()


def test_two_processes_never_write_the_same_output() -> None:
    held = ResumableOutput(Path("out.csv"))
    _, warned = invoke(*ARGUMENTS, code=1)
    assert "another process is writing out.csv" in warned
    held.close()
    invoke(*ARGUMENTS)
    assert files() == {"out.csv"}


KILLING = """
import os, random, sys, time
import torch
torch.set_num_threads(1)
from pathlib import Path
from pointset.prediction import PredictionOptions, ResumableOutput, TablePrediction, load, tables

tables._SECONDS_BETWEEN_SAVES = 0.0
predictor, options = load("model"), PredictionOptions("in.csv", batch_size=2, workers=0)

def work(output, tell):
    job, part = TablePrediction(predictor, options), ResumableOutput(Path(output))
    print(output, "goes on at", job.begin(part), flush=True)
    job.run(part, tell)
    part.close()

random.seed(int(sys.argv[1]))
work("whole.csv", lambda steps: None)
while not Path("out.csv").exists():
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        work("out.csv", lambda steps: os.write(tells, b"."))
        os._exit(0)
    os.close(tells)
    for _ in range(random.randint(0, 3)):
        os.read(told, 1)  # a window was written, and is not yet noted
    time.sleep(random.uniform(0.0, 0.02))
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(told)
"""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(seed: int) -> None:
    long_table(160)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", KILLING, str(seed)], capture_output=True, text=True, check=True, env=environment
    )
    starts = [int(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("out.csv")]
    assert len(starts) > 1 and starts == sorted(starts) and starts[-1] > 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert files() - {"out.csv.part.json"} == {"whole.csv", "out.csv"} and len(rows_of("out.csv")) == 160


# --- refused before any work starts


def refused(*arguments: str, code: int = 1) -> str:
    _, warned = invoke(*arguments, code=code)
    assert not any(name.startswith("x.") for name in files())
    return warned


def test_what_is_wrong_is_said_at_once() -> None:
    Path("run").mkdir()
    assert "there is no nothing" in refused("predict", "nothing", "in.csv", "-o", "x.csv")
    assert "holds no bundle" in refused("predict", "run", "in.csv", "-o", "x.csv")
    (Path("run") / "recipe.yaml").touch()
    assert "pointset train --resume --run-dir run" in refused("predict", "run", "in.csv", "-o", "x.csv")
    message = refused("predict", "model", "zinck", "-o", "x.csv")
    assert "no file, folder or dataset 'zinck'" in message and "did you mean 'zinc'?" in message
    assert "has no column that is named smiles" not in refused("predict", "model", "model", "-o", "x.csv")
    assert "there is no folder nowhere" in refused("predict", "model", "in.csv", "-o", "nowhere/x.csv", code=2)
    assert "expected a name that ends in .csv" in refused("predict", "model", "in.csv", "-o", "x.xlsx")
    assert "the output is the input" in refused("predict", "model", "in.csv", "-o", "in.csv", code=2)
    assert "no column 'mol'" in refused("predict", "model", "in.csv", "-o", "x.csv", "--smiles", "mol")
    assert "--split is about the name of a dataset" in refused(
        "predict", "model", "in.csv", "-o", "x.csv", "--split", "test", code=2
    )
    write_graph_file("rings.g6", [nx.cycle_graph(4)])
    assert "--smiles is about a table of SMILES" in refused(
        "predict", "model", "rings.g6", "-o", "x.csv", "--smiles", "a", code=2
    )
    assert "missing" in refused("predict", "model", "in.csv", code=2).lower()


def test_an_output_that_is_there_is_not_replaced_unawares() -> None:
    Path("out.csv").write_text("precious")
    _, warned = invoke("predict", "model", "in.csv", "-o", "out.csv", code=1)
    assert "out.csv exists already" in warned and "--overwrite" in warned
    assert Path("out.csv").read_text() == "precious" and files() == {"out.csv"}
    invoke("predict", "model", "in.csv", "-o", "out.csv", "--overwrite")
    assert len(rows_of("out.csv")) == 6
    Path("folder.csv").mkdir()
    _, warned = invoke("predict", "model", "in.csv", "-o", "folder.csv", code=1)
    assert "is a folder" in warned


def test_an_output_that_cannot_be_written_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.open

    def read_only(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, flags, *rest)

    monkeypatch.setattr("pointset.prediction.journal.os.open", read_only)
    monkeypatch.setattr("pointset.prediction.predictor.read_bundle", None)  # must not be reached
    _, warned = invoke("predict", "model", "in.csv", "-o", "out.csv", code=1)
    assert "out.csv.part: Permission denied" in warned


@pytest.mark.parametrize("content", ["", "smiles\n", "smiles\n\n\n"], ids=["empty", "header", "blank lines"])
def test_an_empty_input_is_refused(content: str) -> None:
    Path("in.csv").write_text(content)
    message = refused("predict", "model", "in.csv", "-o", "x.csv")
    assert "is empty" in message or "has no rows" in message


def test_smiles_are_refused_where_they_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    write("graphs", card_of())
    assert "got SMILES, but the model was trained on Small data" in refused(
        "predict", "graphs", "in.csv", "-o", "x.csv"
    )
    monkeypatch.setitem(sys.modules, "rdkit", None)
    assert "pip install 'pointset[chem]'" in refused("predict", "model", "in.csv", "-o", "x.csv")


def test_a_damaged_model_is_refused() -> None:
    content = json.loads(Path("model/bundle.json").read_text()) | {"pointset": "0.0.1"}
    Path("model/bundle.json").write_text(json.dumps(content))
    assert "checksum" in refused("predict", "model", "in.csv", "-o", "x.csv")


def test_the_help_teaches_and_does_not_wait_for_torch() -> None:
    for command in ("predict", "embed"):
        said, _ = invoke(command, "--help")
        assert f"pointset {command} runs/mine molecules.csv -o out.csv" in said and "Interrupted?" in said
    program = "import sys, pointset.cli.predict; assert 'torch' not in sys.modules; print('light')"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"light\n"


def test_level_of_the_card_is_that_of_the_rows() -> None:
    write("atoms", molecule_card(level=Level.NODE))
    Path("in.csv").write_text("smiles\nCCO\nCC\n")
    invoke("predict", "atoms", "in.csv", "-o", "out.csv")
    assert [(row["read_as"], row["node"]) for row in rows_of("out.csv")] == [
        ("CCO", "0"), ("CCO", "1"), ("CCO", "2"), ("CC", "0"), ("CC", "1")
    ]  # fmt: skip
