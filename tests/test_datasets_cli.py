"""``pointset datasets`` as people use it: the list, one dataset, verifying."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from pointset.cli.datasets_show import category_names, choose_graphs, describe_task, short_name
from pointset.cli.main import app
from pointset.datasets import loading as catalogue
from pointset.datasets.card import Metric, PaperRow, Target, Task
from pointset.datasets.molecules.features import ATOM_COLUMNS, BOND_COLUMNS, EDGE_LABELS, NODE_LABELS
from pointset.datasets.sources import Benchmark, Download
from pointset.specs import Categories
from tests import command_line
from tests.small_benchmarks import KINDS, NODES, SHA256, small_benchmark, with_data, with_source

REAL = dict(catalogue.BENCHMARKS)
DOWNLOAD = Download("http://127.0.0.1:9/graphs.txt", "graphs.txt")  # nobody listens there


@pytest.fixture(autouse=True)
def only_small_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    with_data(tmp_path / "data")
    (tmp_path / "empty").mkdir()
    put(monkeypatch, *KINDS.values())


def put(monkeypatch: pytest.MonkeyPatch, *benchmarks: Benchmark) -> None:
    monkeypatch.setattr(catalogue, "BENCHMARKS", {benchmark.card.name: benchmark for benchmark in benchmarks})


invoke = partial(command_line.invoke, "datasets")


def printed_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(invoke(*arguments, "--json", code=code)[0])


# --- the list


def test_the_list_says_what_there_is_and_what_is_here() -> None:
    said, warned = invoke("--data-dir", "data")
    rows = {line.split()[0]: line for line in said.splitlines() if line.split()}
    assert rows["one-number"].split()[1:] == ["regression", "4", "2.8", "2.0", "MAE", "↓", "data", "folder"]
    assert "regression, 3 targets" in rows["many-numbers"]
    assert "node regression, 2 targets" in rows["numbers-of-nodes"]
    assert "node classification, 3 classes" in rows["classes-of-nodes"] and "macro F1 ↑" in rows["classes-of-nodes"]
    assert "binary classification" in rows["yes-or-no"] and "ROC-AUC ↑" in rows["yes-or-no"]
    assert "classification, 2 labels" in rows["labels"] and "AP ↑" in rows["labels"]
    assert "Not here" not in said and warned == ""


def test_what_is_missing_can_be_had_somehow(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = with_source(small_benchmark("fetched"), downloads=(DOWNLOAD,))
    made = with_source(small_benchmark("made", paper=None), places=(), made_here=True)
    put(monkeypatch, small_benchmark("nowhere", paper=PaperRow(4, 2.8, 4.0, both_directions=True)), fetched, made)
    said, _ = invoke()
    rows = {line.split()[0]: line for line in said.splitlines() if line.split()}
    assert rows["nowhere"].rstrip().endswith("not here") and "4.0*" in rows["nowhere"]
    assert rows["fetched"].rstrip().endswith("downloadable")
    assert rows["made"].rstrip().endswith("made here") and "–" in rows["made"]
    assert "both directions" in said
    assert "Not here: 2 of 3." in said and "verify NAME --download" in said and "POINTSET_DATA" in said


def test_the_list_fits_80_columns_with_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal; a pipe has wider lines
    put(monkeypatch, *REAL.values())
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in invoke()[0].splitlines()]
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    assert [line.split()[0] for line in lines[2 : 2 + len(REAL)]] == list(REAL)
    tasks = {line.split()[0]: " ".join(line.split()[1:3]) for line in lines[2 : 2 + len(REAL)]}
    assert (tasks["qm9"], tasks["pascalvoc-sp"]) == ("12 targets", "21 classes/node")
    assert tasks["ogbg-molhiv"].startswith("binary") and tasks["zinc"].startswith("regression")


def test_the_list_as_json() -> None:
    here, missing = printed_json("--data-dir", "data"), printed_json("--data-dir", "empty")
    assert [entry["name"] for entry in here] == list(KINDS)
    assert here[0] == {
        "name": "one-number", "title": "Small", "level": "graph", "task": "regression", "targets": 1, "graphs": 4,
        "nodes": 2.8, "edges": 2.0, "both_directions": False, "metric": "mae", "higher_is_better": False,
        "present": True, "origin": "data folder", "files": [str(Path("data/small/graphs.txt"))], "downloadable": False,
    }  # fmt: skip
    assert (missing[0]["present"], missing[0]["origin"], missing[0]["files"]) == (False, None, [])


def test_the_environment_names_the_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_DATA", "data")
    assert all(entry["present"] for entry in printed_json())
    monkeypatch.setenv("POINTSET_DATA", "nowhere")
    _, warned = invoke(code=1)
    assert "the environment variable POINTSET_DATA names 'nowhere', which is not a folder" in warned


# --- showing one


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_shown_with_numbers_and_drawings(kind: str) -> None:
    said, warned = invoke("show", kind, "--data-dir", "data")
    assert f"Small ({kind})" in said
    assert "4 graphs, 11 nodes, 8 edges, 3 connected, 1 isolated node, 1 self-loop; split: train 2" in said
    assert "nodes per graph" in said and "2.75" in said
    assert "graph 0" in said and "●" in said
    assert warned == ""


def test_the_card_in_words() -> None:
    said, _ = invoke("show", "many-numbers", "--data-dir", "data")
    for expected in (
        "regression, 3 targets; scored by MAE ↓ (lower is better)",
        "mu (D), alpha, gap (eV)",
        "official (train 2, val 1, test 1)",
        "element: 0 C, 1 N, 2 O [3 categories]",
        "bond: 1 single, 2 double [3 categories]",
        "3D, of every node",
        "4 graphs; on average 2.8 nodes, 2.0 edges",
        "mu 0 D, alpha 1, …",
        "nodes: element  ● C",
    ):
        assert expected in said, expected
    assert "energy (eV): of the whole" in invoke("show", "one-number")[0]


def test_options_slips_and_notes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = PaperRow(4, 2.8, 9.9, both_directions=True, slip="should be 4.0")
    benchmark = small_benchmark("odd", paper=paper, notes=("A note.",), licence="CC0", reference="Who 2020")
    benchmark = with_source(benchmark, note="The official file is a pickle.")
    put(monkeypatch, dataclasses.replace(benchmark, options={"fold": "which fold"}))
    said, _ = invoke("show", "odd", "--data-dir", "data")
    for expected in ("slip: should be 4.0", "every edge in both directions", "A note.", "CC0", "Who 2020",
                     "text: The official file is a pickle.", "fold: which fold"):  # fmt: skip
        assert expected in said, expected


def test_classes_and_labels_are_counted() -> None:
    assert "sky" in (said := invoke("show", "classes-of-nodes", "--data-dir", "data")[0]) and "36.4 %" in said
    rows = [line.split() for line in invoke("show", "labels", "--data-dir", "data")[0].splitlines()]
    assert ["antiviral", "2", "1", "66.7", "%", "1"] in rows
    assert ["toxic", "2", "2", "50.0", "%", "0"] in rows


def test_of_very_many_columns_some_are_shown() -> None:
    ends = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.rand(3, 5_000), edge_index=ends, y=torch.rand(1)) for _ in range(20)]
    torch.save(graphs, "wide.pt")
    shown, _ = invoke("check", "wide.pt")
    assert "5000 real columns" in shown and "column 59 " in shown and "column 60 " not in shown
    assert "… and 4,940 more; --json has all" in shown
    assert len(printed_json("check", "wide.pt")["statistics"]["node_columns"]) == 5_000


def test_without_its_files_the_card_is_shown_and_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    said, warned = invoke("show", "one-number")
    assert "Small (one-number)" in said and "nodes per graph" not in said
    assert "put small/graphs.txt into a folder that --data-dir" in warned
    content = printed_json("show", "one-number")
    assert content["card"]["name"] == "one-number" and content["statistics"] is None
    _, warned = invoke("show", "one-number", "--picture", "a.png", code=1)
    assert "Error: there is nothing to draw: one-number is not on this machine" in warned
    put(monkeypatch, with_source(small_benchmark("fetched"), downloads=(DOWNLOAD,)))
    assert "- pointset datasets verify fetched --download" in invoke("show", "fetched")[1]


@pytest.mark.parametrize("command", ["show", "verify"])
def test_every_way_to_get_a_dataset_has_its_own_line(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = with_source(small_benchmark("fetched"), downloads=(DOWNLOAD,), places=(("a.txt", "b.txt", "c.txt"),))
    other = with_source(small_benchmark("fetched"), package=("no_such_package", "x"), extra="qm9")
    put(monkeypatch, dataclasses.replace(fetched, sources=(*fetched.sources, *other.sources)))
    result = CliRunner().invoke(app, ["datasets", command, "fetched", "--data-dir", "empty"])
    head, *lines = result.stderr.splitlines()
    assert "fetched is not on this machine (looked in the data folder and in the cache)." in head
    assert lines == [
        "Any one of these helps:",
        "- pointset datasets verify fetched --download",
        "- put a.txt, b.txt and c.txt into empty (text)",
        "- put small/graphs.txt into the same folder (text)",
        f"- save {DOWNLOAD.url} as graphs.txt in {Path('cache/downloads/fetched').absolute()}",
        "- pip install 'pointset[qm9]'",
    ]


def test_categories_of_molecules_have_the_names_that_chemists_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Category 5 of OGB's atomic_num is carbon, not boron."""
    elements, bonds = NODE_LABELS[0], EDGE_LABELS[0]
    assert (len(elements), elements[5], elements[16], elements[117:]) == (119, "C", "Cl", ("Og", "misc"))
    assert bonds == ("single", "double", "triple", "aromatic", "misc")
    for column, labels in zip((*ATOM_COLUMNS, *BOND_COLUMNS), (*NODE_LABELS, *EDGE_LABELS), strict=True):
        assert column.size == len(labels)
    put(monkeypatch, small_benchmark(
        "ogb", {"x": np.repeat([[5, 0], [6, 0]], [7, NODES - 7], axis=0)}, node=Categories(119, 5),
        node_columns=("atomic_num: of the element",), node_labels=NODE_LABELS[:2],
    ))  # fmt: skip
    assert "nodes: atomic_num  ● C  ● N" in invoke("show", "ogb", "--data-dir", "data")[0]


def test_known_files_are_told_with_their_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    official = Download("https://example.org/a", "official.zip", md5="0123456789abcdef" * 2)
    put(monkeypatch, with_source(small_benchmark("known"), downloads=(official, DOWNLOAD)))
    said = " ".join(invoke("show", "known")[0].split())
    assert "files text: official.zip (MD5 0123456789ab…), graphs.txt (SHA-256 " + SHA256[:12] in said
    assert printed_json("show", "known")["known_files"] == [
        {"source": "text", "file": "official.zip", "url": official.url, "sha256": "", "md5": official.md5},
        {"source": "text", "file": "graphs.txt", "url": DOWNLOAD.url, "sha256": SHA256, "md5": ""},
    ]
    put(monkeypatch, with_source(small_benchmark("unknown"), downloads=(DOWNLOAD,), sha256={}))
    assert "graphs.txt (no checksum known)" in invoke("show", "unknown")[0]


def test_one_dataset_as_json() -> None:
    content = printed_json("show", "many-numbers", "--data-dir", "data")
    assert set(content) == {"card", "options", "known_files", "origin", "files", "sha256", "statistics"}
    assert content["origin"] == "data folder" and len(content["sha256"][0]) == 64
    assert content["card"]["targets"][2] == {"name": "gap", "unit": "eV", "meaning": ""}
    assert content["statistics"]["nodes"]["mean"] == 2.75


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_drawn(kind: str) -> None:
    _, warned = invoke("show", kind, "--data-dir", "data", "--picture", "a.png", "--json")
    assert warned == "Picture of 4 graphs written to a.png"
    assert Path("a.png").stat().st_size > 1000


def test_graphs_are_chosen_by_number_or_with_a_seed() -> None:
    said, warned = invoke("show", "one-number", "--data-dir", "data", "--graphs", "2, 0", "--picture", "a.svg")
    assert said.index("graph 2") < said.index("graph 0") and "graph 1" not in said
    assert "Picture of 2 graphs written to a.svg" in warned
    said, _ = invoke("show", "one-number", "--data-dir", "data", "--count", "1")
    assert (
        len(re.findall(r"graph \d", said)) == 1
        and said == invoke("show", "one-number", "--data-dir", "data", "--count", "1")[0]
    )
    sizes = np.arange(1000, 0, -1)
    assert choose_graphs(sizes, 5, 0) == choose_graphs(sizes, 5, 0) != choose_graphs(sizes, 5, 1)
    assert min(choose_graphs(sizes, 5, 0)) >= 500  # the smaller half
    assert choose_graphs(np.array([4, 2]), 6, 0) == [0, 1]
    assert choose_graphs(np.zeros(0, dtype=np.int64), 6, 0) == []


def test_a_damaged_file_is_an_error_not_a_traceback() -> None:
    Path("data/small/graphs.txt").write_bytes(b"")
    _, warned = invoke("show", "one-number", "--data-dir", "data", code=1)
    assert warned.startswith("Error: ") and "is empty; expected four graphs" in warned


def test_names_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b[2J[red]evil\nname"
    put(monkeypatch, small_benchmark(
        "evil", {"y": np.array([0, 1, 0, 1])}, title=evil, task=Task.MULTI_CLASS, targets=(Target(evil),),
        classes=(evil, "other"), metric=Metric.ACCURACY, notes=(evil,),
    ))  # fmt: skip
    said = invoke("show", "evil", "--data-dir", "data")[0] + invoke("verify", "evil", "--data-dir", "data")[0]
    assert "\x1b" not in said and "�[2J[red]evil name" in said


# --- verifying


def test_what_is_right_ends_with_0() -> None:
    said, warned = invoke("verify", "one-number", "labels", "--data-dir", "data")
    assert "one-number: Small, from the data folder (text)" in said
    assert "✓ one-number: nothing differs" in said and "✓ labels: nothing differs" in said
    assert "✗" not in said and warned == ""
    rows = [line.split() for line in said.splitlines()]
    assert ["✓", "mean", "nodes", "2.75", "2.8", "(paper)"] in rows


def test_what_differs_ends_with_1_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, small_benchmark("off", paper=PaperRow(4, 2.8, 3.5)), KINDS["labels"])
    said, _ = invoke("verify", "off", "labels", "--data-dir", "data", code=1)
    assert ["✗", "mean", "edges", "2.00", "3.5", "(paper)"] in [line.split() for line in said.splitlines()]
    assert "✗ off: 1 of 1" in said and "✓ labels: nothing differs" in said
    content = printed_json("verify", "off", "--data-dir", "data", code=1)
    assert content["holds"] is content["datasets"][0]["holds"] is False


def test_a_damaged_file_does_not_stop_the_others() -> None:
    Path("data/small/graphs.txt").write_bytes(b"")
    said, _ = invoke("verify", "one-number", "labels", "--data-dir", "data", code=1)
    assert said.count("is empty; expected four graphs") == 2


def test_what_is_missing_ends_with_1_and_what_to_put_where() -> None:
    said, warned = invoke("verify", "one-number", code=1)
    assert said == "" and "Error: one-number is not on this machine" in warned
    content = printed_json("verify", "one-number", code=1)
    assert content["datasets"] == [] and content["missing"][0]["name"] == "one-number"


def test_all_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = with_source(small_benchmark("elsewhere"), places=(("other.txt",),))
    put(monkeypatch, KINDS["labels"], elsewhere)
    said, warned = invoke("verify", "--all", "--data-dir", "data")
    assert "✓ labels" in said and "elsewhere" not in said
    assert warned == "Not here, so not verified: elsewhere"
    content = printed_json("verify", "--all", "--data-dir", "data")
    assert content["not_here"] == ["elsewhere"] and len(content["datasets"]) == 1


def test_a_download_is_tried_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, with_source(small_benchmark("fetched"), downloads=(DOWNLOAD,)))
    _, warned = invoke("verify", "fetched", code=1)
    assert "- pointset datasets verify fetched --download" in warned and "failed" not in warned
    _, warned = invoke("verify", "fetched", "--download", code=1)
    assert "Download failed: no connection to http://127.0.0.1:9/graphs.txt" in warned
    assert "--download" not in warned


# --- usage errors end with 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "one-numbr"], "did you mean 'one-number'"),
        (["verify", "labels", "lables"], "did you mean 'labels'"),
        (["labels"], "did you mean: pointset datasets show labels?"),
        (["frob"], "No such command 'frob'"),
        (["--json", "show", "labels"], "put the options after 'show'"),
        (["--data-dir", "nowhere"], "does not exist"),
        (["show", "labels", "--data-dir", "nowhere"], "does not exist"),
        (["show", "labels", "--graphs", "1,x"], "got '1,x'; expected up to 60 numbers"),
        (["show", "labels", "--graphs", "-1"], "expected up to 60 numbers"),
        (["show", "labels", "--graphs", "9" * 5000], "expected up to 60 numbers"),
        (["show", "labels", "--graphs", "1", "--count", "2"], "--count chooses graphs, and --graphs names them"),
        (["show", "labels", "--graphs", "1", "--seed", "2"], "leave one out"),
        (["show", "labels", "--graphs", "0,4", "--data-dir", "data"], "there is no graph 4; labels has 4"),
        (["show", "labels", "--count", "0"], "--count"),
        (["show", "labels", "--picture", "a.gif"], ".png"),
        (["show", "labels", "--picture", "nowhere/a.png"], "there is no folder"),
        (["verify", "labels", "--all"], "name datasets, or give --all"),
        (["verify", "--data-dir", "data"], "name datasets, or give --all"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], message: str) -> None:
    said, warned = invoke(*arguments, code=2)
    assert message in warned and said == ""


@pytest.mark.parametrize("command", [[], ["show"], ["verify"]], ids=["list", "show", "verify"])
def test_help_teaches_with_examples_on_lines_of_their_own(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in invoke(*command, "--help")[0].splitlines()]
    assert "Examples" in lines and any("POINTSET_DATA" in line for line in lines)
    assert sum(line.startswith("pointset datasets") for line in lines) >= 3
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("command", ["", "convert", "inspect", "datasets", "datasets show", "datasets verify",
                                     "datasets check"])  # fmt: skip
def test_help_does_not_ask_for_values_of_flags(command: str) -> None:
    said = CliRunner().invoke(app, [*command.split(), "--help"]).stdout
    assert "--help" in said and "bool" not in said


@pytest.mark.parametrize("arguments", [["--help"], ["datasets"], ["datasets", "show", "labels"]],
                         ids=["help", "list", "card"])  # fmt: skip
def test_torch_is_not_waited_for(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom pointset.datasets import loading as catalogue\nfrom tests.small_benchmarks import KINDS\n"
        "from pointset.cli.main import app\ncatalogue.BENCHMARKS = KINDS\n"
        f"try:\n    app({arguments!r})\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'scipy', 'torch_geometric', 'rdkit', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    run = [sys.executable, "-c", program]
    where = {"cwd": Path(__file__).parents[1]}
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False, **where)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr


def test_no_benchmark_module_imports_anything_heavy() -> None:
    program = (
        "import sys, pkgutil, importlib\nfrom pointset.datasets import benchmarks\n"
        "for module in pkgutil.iter_modules(benchmarks.__path__, benchmarks.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
        "sys.exit(', '.join({'torch', 'scipy', 'networkx', 'torch_geometric', 'rdkit'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr.strip(), done.stderr


# --- words


def test_words_for_metrics_and_categories() -> None:
    assert [metric.with_arrow for metric in Metric] == [
        "MAE ↓", "RMSE ↓", "R² ↑", "normalised MAE ↓", "ROC-AUC ↑", "AP ↑", "accuracy ↑", "hits@20 ↑", "hits@50 ↑",
        "hits@100 ↑", "macro F1 ↑",
    ]  # fmt: skip
    assert describe_task(KINDS["yes-or-no"].card) == "binary classification"
    assert category_names(["bond: 1 single, 2 double (0 does not occur)"]) == {1: "single", 2: "double"}
    assert category_names(["element: with its charge"]) == category_names(["element"]) == category_names([]) == {}
    assert category_names(["element: 0 C"], [["N", "\x1bO"]]) == {0: "N", 1: "�O"}
    assert (short_name("kind (helix or sheet)"), short_name("bond: 1 single")) == ("kind", "bond")
