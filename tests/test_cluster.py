"""Work on a Dask cluster: real schedulers and workers on loopback, some of which are killed in the middle."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import pointset
from pointset import cluster
from pointset.datasets.card import Task
from pointset.datasets.graph_files import checking, write_graph_file
from pointset.datasets.molecules.parallel import DIED, read_many
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Unreadable
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.own import smiles_csv
from pointset.errors import ClusterError, FileFormatError, MissingExtraError, SpecError
from pointset.prediction import PredictionOptions, Predictor, ResumableOutput, TablePrediction, load
from pointset.prediction.sources import TableSource
from pointset.training.bundle import write_bundle
from tests.command_line import invoke
from tests.dying_reader import read_or_die
from tests.small_models import model_of, molecule_card

pytest.importorskip("distributed", reason="dask and distributed are not installed (pip install 'pointset[cluster]')")

from tests.cluster_processes import Processes, running

SMILES = ["CCO", "c1ccccc1", "C1CC", "CC(C)C", "CCN", '"broken', "CCCCCC", "[Na+].[Cl-]"]
WINDOW = 16  # rows of a chunk, at the batch size below
ROWS = 20 * WINDOW


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with running(tmp_path_factory.mktemp("cluster"), 2) as processes:
        yield processes


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """An empty folder with a model of molecules; workers have one thread, and so has this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    write_bundle("model", model_of(molecule_card()), molecule_card())


def table(rows: int, smiles: list[str] = SMILES) -> None:
    Path("in.csv").write_text("id,smiles\n" + "".join(f"{at},{smiles[at % len(smiles)]}\n" for at in range(rows)))


def in_this_process(**options: Any) -> bytes:
    load("model").predict_table("in.csv", "here.csv", batch_size=2, **{"workers": 0, **options})
    return Path("here.csv").read_bytes()


# --- the same as in one process


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (molecule_card(), ("predict", "model", "in.csv")),
        (molecule_card(Task.MULTI_CLASS), ("predict", "model", "in.csv", "--spreadsheet-safe")),
        (molecule_card(), ("embed", "model", "in.csv", "--level", "node")),
    ],
    ids=["numbers", "classes", "atoms"],
)
def test_the_commands_write_the_same_bytes(two_workers: Processes, card: Any, words: tuple[str, ...]) -> None:
    write_bundle("model", model_of(card), card)
    table(100)
    said_here, warned_here = invoke(*words, "-o", "here.csv", "--batch-size", 2, "--workers", 0)
    said, warned = invoke(*words, "-o", "there.csv", "--batch-size", 2, "--cluster", two_workers.address)
    assert Path("there.csv").read_bytes() == Path("here.csv").read_bytes()
    assert said.split(" → ")[0] == said_here.split(" → ")[0] == "75 of 100 rows"
    assert warned == warned_here  # the first bad rows, with their reasons


def test_graphs_and_a_scheduler_file(two_workers: Processes) -> None:
    card = molecule_card(node=None, edge=None, molecules=None)
    write_bundle("graphs", model_of(card), card)
    write_graph_file("rings.g6", [nx.cycle_graph(3 + at % 30) for at in range(50)])
    with Path("rings.g6").open("a") as file:
        file.write("?bad~~\n")
    for output, words in ("here.csv", ()), ("there.csv", ("--cluster", two_workers.file)):
        invoke("predict", "graphs", "rings.g6", "-o", output, "--batch-size", 2, *words)
    assert Path("there.csv").read_bytes() == Path("here.csv").read_bytes()


def test_parquet_is_read_where_it_lies(two_workers: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In row groups that do not begin where chunks do; the machine that asks does not read the rows at all."""
    parquet = pytest.importorskip("pyarrow.parquet")
    smiles = [SMILES[at % len(SMILES)] for at in range(100)]
    content = pyarrow_table({"id": list(range(100)), "smiles": smiles, "x": [at / 7 for at in range(100)]})
    parquet.write_table(content, "in.parquet", row_group_size=27)
    model = load("model")
    model.predict_table("in.parquet", "here.parquet", batch_size=2, workers=0)
    with monkeypatch.context() as patch:
        patch.setattr(TableSource, "rows", None)
        model.predict_table("in.parquet", "there.parquet", batch_size=2, client=two_workers.address)
    assert Path("there.parquet").read_bytes() == Path("here.parquet").read_bytes()
    found = parquet.read_table("there.parquet")
    assert found["x"].equals(content["x"]) and found["id"].equals(content["id"]) and found.num_rows == 100


def pyarrow_table(columns: dict[str, list[Any]]) -> Any:
    import pyarrow

    return pyarrow.table(columns)


def test_a_client_in_python_and_a_journal_of_another_place(two_workers: Processes) -> None:
    """What one process began, a cluster finishes, and the client that was given stays open."""
    from distributed import Client

    table(100)
    whole = in_this_process()
    interrupted(None, KeyboardInterrupt, after=2)
    assert not Path("out.csv").exists()
    with Client(two_workers.address, set_as_default=False) as client:
        progress = load("model").predict_table("in.csv", "out.csv", client=client, batch_size=2)
        assert client.status == "running"
    assert Path("out.csv").read_bytes() == whole and progress.entries == 100 and progress.ok == 75


def test_own_tables_are_read_there(two_workers: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{'C' * (1 + at % 20)}{'O' * (at % 3)},{at / 7}\n" for at in range(60)] + ["C1CC,1\n"]
    Path("own.csv").write_text("smiles,y\n" + "".join(rows))
    datasets = []
    for cache, address in ("a", None), ("b", two_workers.address):
        monkeypatch.setenv("POINTSET_CACHE", str(Path(cache).resolve()))
        with cluster.connected(address):
            datasets.append(smiles_csv("own.csv", progress=False))
    here, there = datasets
    assert (here.arrays.edges == there.arrays.edges).all() and here.smiles == there.smiles
    assert here.rejected == there.rejected and len(there.rejected) == 1 and here.card == there.card
    said, _ = invoke("datasets", "check", "own.csv", "--cluster", two_workers.address)
    assert "own" in said


def test_convert_writes_the_same_bytes(two_workers: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "STACK_BYTES", 8_000)  # else all of them are one chunk
    graphs = [nx.gnp_random_graph(10 + at, 0.4, seed=at) for at in range(20)]
    write_graph_file("some.s6", graphs)
    with Path("some.s6").open("a") as file:
        file.write(":~\n")
    outputs = []
    for output, words in ("here.safetensors", ()), ("there.safetensors", ("--cluster", two_workers.address)):
        said, warned = invoke("convert", "some.s6", output, "--rank", 6, *words)
        content = Path(output).read_bytes()
        header = 8 + int.from_bytes(content[:8], "little")  # in which safetensors has its keys in any order
        outputs.append((content[header:], said.split(" → ")[0], warned))
    assert outputs[0] == outputs[1] and outputs[0][1].startswith("20 of 21 graphs")


# --- processes that die


def run_while(meddle: Callable[[int], None], address: Any, **options: Any) -> None:
    """Predict on the cluster, and meddle with it whenever a window is written."""
    job = TablePrediction(load("model"), PredictionOptions("in.csv", batch_size=2, **options))
    part = ResumableOutput(Path("out.csv"))
    written = 0

    def advance(steps: int) -> None:
        nonlocal written
        written += steps
        meddle(written)

    try:
        with cluster.connected(address) as helpers:
            job.begin(part)
            job.run(part, advance, helpers)
    finally:
        part.close()


def interrupted(address: Any, error: type[BaseException], after: int) -> None:
    def stop(written: int) -> None:
        if written >= after * WINDOW:
            raise error

    with pytest.raises(error):
        run_while(stop, address, workers=0)


def test_a_worker_that_is_killed_in_the_middle_costs_nothing(tmp_path: Path) -> None:
    table(ROWS)
    whole = in_this_process()
    with running(tmp_path / "c", 2) as processes:

        def kill(written: int) -> None:
            if written == 3 * WINDOW:
                processes.workers[0].kill()

        run_while(kill, processes.address)
        assert processes.workers[0].wait() == -9 and processes.workers[1].poll() is None
    assert Path("out.csv").read_bytes() == whole


def test_the_loss_of_the_scheduler_can_be_resumed(tmp_path: Path) -> None:
    table(ROWS)
    whole = in_this_process()
    with running(tmp_path / "c", 1) as processes:

        def kill(written: int) -> None:
            if written == 3 * WINDOW:
                assert processes.scheduler is not None
                processes.scheduler.kill()

        with pytest.raises(ClusterError, match=r"is gone, or cannot be reached(.|\n)*first \d+ rows are kept: repeat"):
            run_while(kill, processes.address)
    kept = json.loads(Path("out.csv.part.json").read_text())["progress"]["entries"]
    assert 3 * WINDOW <= kept < ROWS and not Path("out.csv").exists()
    _, warned = invoke("predict", "model", "in.csv", "-o", "out.csv", "--batch-size", 2, "--workers", 0)
    assert f"Resuming after the first {kept} rows" in warned
    assert Path("out.csv").read_bytes() == whole


def read_or_refuse(smiles: str) -> Molecule:
    if smiles == "die":
        raise MoleculeError(DIED)
    return MoleculeReader()(smiles)


def test_a_row_that_kills_its_worker_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the status that it has where it ends one of this machine's processes; all others are answered as before."""
    table(2 * WINDOW, [*SMILES, *["CC"] * 12, "die"])
    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "molecule_reader", lambda *_, **__: read_or_refuse)
        here = in_this_process()
    monkeypatch.setattr(Predictor, "molecule_reader", lambda *_, **__: read_or_die)
    with running(tmp_path / "c", 2, nanny=True, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as processes:
        progress = load("model").predict_table("in.csv", "out.csv", batch_size=2, client=processes.address)
    assert Path("out.csv").read_bytes() == here
    assert progress.not_ok == 4 + 1 and here.decode().count(DIED) == 1


@pytest.mark.slow
def test_molecules_of_a_dataset_that_kill_workers_are_left_out(tmp_path: Path) -> None:
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with running(tmp_path / "c", 2, nanny=True, **settings) as processes, cluster.connected(processes.address):
        read = read_many(["CCO", "C1CC", "die", "CC"], read_or_die, progress=False)
    assert [getattr(one, "smiles", None) for one in read] == ["CCO", None, None, "CC"]
    assert read[2] == Unreadable(DIED) and "unclosed ring" in str(read[1])


@pytest.mark.slow
def test_where_all_workers_are_gone_for_long_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_WORKERLESS_SECONDS", 2.0)
    table(ROWS)
    with running(tmp_path / "c", 1) as processes:

        def kill(written: int) -> None:
            if written == 2 * WINDOW:
                processes.workers[0].kill()

        with pytest.raises(ClusterError, match="has had no workers for 2 seconds"):
            run_while(kill, processes.address)
    assert Path("out.csv.part.json").exists()


# --- refused in one line


def refused(*words: Any) -> str:
    table(10)
    _, warned = invoke("predict", "model", "in.csv", "-o", "x.csv", "--cluster", *words, code=1)
    assert not list(Path().glob("x.csv*")), "nothing was begun"
    return warned


def test_a_wrong_address_is_said_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1)
    start = time.monotonic()
    message = refused("tcp://127.0.0.1:9")
    assert time.monotonic() - start < 15
    assert message.startswith("Error: no Dask scheduler answers at tcp://127.0.0.1:9 (waited up to 1 seconds")
    assert "as `dask scheduler` prints it, or local:4" in message and "Traceback" not in message
    assert "no Dask scheduler answers at nonsense://x" in refused("nonsense://x")
    assert "expected local:N with the number of processes" in refused("local:many")
    assert "there is no scheduler file none.json" in refused("none.json")
    with pytest.raises(SpecError, match="got int as the cluster"), cluster.connected(7):
        pass


def test_a_scheduler_without_workers_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_FIRST_WORKER_SECONDS", 1)
    with running(tmp_path / "c", 0) as processes:
        assert "has no workers (waited 1 seconds)" in refused(processes.address)


def test_other_versions_on_the_workers_are_refused(two_workers: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "VERSION", "0.0.9")
    message = refused(two_workers.address)
    assert f"has pointset {pointset.__version__}; expected pointset 0.0.9, as here" in message


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "a cluster needs dask and distributed" in refused("local:2")
    assert "pip install 'pointset[cluster]'" in refused("tcp://127.0.0.1:9")
    with pytest.raises(MissingExtraError):
        load("model").predict_table("in.csv", "x.csv", client="local:1")


def test_options_of_this_machine_are_refused() -> None:
    table(10)
    words = ("predict", "model", "in.csv", "-o", "x.csv", "--cluster", "local:2", "--workers", 1)
    assert "--workers is about processes of this machine" in invoke(*words, code=2)[1]


def test_a_model_changed_on_disk_is_refused(two_workers: Processes) -> None:
    table(10)
    model = load("model")
    write_bundle("model", model_of(molecule_card(), seed=1), molecule_card())
    with pytest.raises(FileFormatError, match="changed since it was loaded"):
        model.predict_table("in.csv", "x.csv", client=two_workers.address)


# --- what reaches a worker


def test_a_function_is_opened_once_and_only_whole() -> None:
    packed = pickle.dumps(("", cluster._versions(), pickle.dumps(len)))
    digest = hashlib.sha256(packed).hexdigest()
    with pytest.raises(ClusterError, match="does not match its checksum"):
        cluster._open(packed[:-1], digest)
    other = pickle.dumps(("", {**cluster._versions(), "torch": "1.0"}, pickle.dumps(len)))
    with pytest.raises(ClusterError, match=r"expected torch 1\.0, as here"):
        cluster._open(other, hashlib.sha256(other).hexdigest())


@pytest.mark.slow
def test_processes_of_this_machine() -> None:
    table(10 * WINDOW)
    whole = in_this_process()
    command = [
        sys.executable,
        "-m",
        "pointset.cli.main",
        "predict",
        "model",
        "in.csv",
        "-o",
        "out.csv",
        "--batch-size",
        "2",
    ]
    done = subprocess.run([*command, "--cluster", "local:2"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert Path("out.csv").read_bytes() == whole


def test_dask_is_imported_only_when_it_is_used() -> None:
    program = (
        "import sys, pointset.cli.main, pointset.cluster, pointset.prediction.tables\n"
        "print([name for name in ('dask', 'distributed', 'pyarrow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"
