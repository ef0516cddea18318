"""Many molecules at once: in order, the same for any number of workers, bad ones in their place."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pointset import machine
from pointset.datasets.molecules import Molecule, MoleculeReader, Unreadable, murcko_scaffold, parallel, read_many
from pointset.datasets.own.descriptor_table import canonical_smiles
from pointset.errors import PointsetError, SpecError
from pointset.paper.processes import worker_processes
from pointset.prediction.features import Needs
from pointset.prediction.smiles import SmilesToPoints, with_points

pytest.importorskip("rdkit")

SMILES = ["CCO", "C1CC", "", "c1ccccc1", "C" * 20_000, "[Na+].[Cl-]", "CC(C)(C)(C)C"] * 6


def test_in_order_with_reasons() -> None:
    results = read_many(SMILES, MoleculeReader(), workers=1)
    assert len(results) == len(SMILES)
    for smiles, result in zip(SMILES, results, strict=True):
        if smiles in ("CCO", "c1ccccc1", "[Na+].[Cl-]"):
            assert isinstance(result, Molecule) and result.num_nodes == MoleculeReader()(smiles).num_nodes
        else:
            assert isinstance(result, Unreadable) and result.reason
    assert isinstance(results[1], Unreadable) and "unclosed ring" in results[1].reason


def test_side_by_side_each_is_read_as_alone() -> None:
    """More than are read at a time; canonical or not, so that they take different numbers of steps; some unreadable."""
    read = MoleculeReader()
    others = ("OCC", "CCO", "C1CCOC1", "c1cc(Cl)ccc1")
    smiles = [text for one in SMILES for text in (one, *others)]
    for text, found in zip(smiles, parallel.read_chunk(read, smiles), strict=True):
        if isinstance(found, Unreadable):
            with pytest.raises(PointsetError, match=re.escape(found.reason)):
                read(text)
        else:
            alone = read(text)
            assert alone.smiles == found.smiles and np.array_equal(alone.x, found.x)
            assert np.array_equal(alone.edges, found.edges) and np.array_equal(alone.edge_attr, found.edge_attr)


def test_workers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_CHUNK", 4)
    one, two = (read_many(SMILES, MoleculeReader(conformer_seed=0), workers=workers) for workers in (1, 2))
    for a, b in zip(one, two, strict=True):
        if isinstance(a, Unreadable) or isinstance(b, Unreadable):
            assert a == b
            continue
        assert a.smiles == b.smiles and a.pos is not None and b.pos is not None
        for x, y in ((a.x, b.x), (a.edges, b.edges), (a.edge_attr, b.edge_attr), (a.pos, b.pos)):
            assert np.array_equal(x, y)


def test_a_script_needs_no_guard_and_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('ran')\n"
        "from pointset.datasets.molecules import MoleculeReader, parallel, read_many\n"
        "parallel._CHUNK = 2\n"
        "print(len(read_many(['CCO', 'CC', 'C', 'N', 'O'], MoleculeReader(), workers=2)))\n"
        "import __main__; print(__main__.__file__.endswith('script.py'))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ran", "5", "True"], done.stderr


def test_any_function_of_a_smiles() -> None:
    assert read_many(["Cc1ccccc1", "CC"], murcko_scaffold) == ["c1ccccc1", ""]


def test_nothing_to_read() -> None:
    assert read_many([], MoleculeReader(), workers=2) == []


def test_small_work_starts_no_process() -> None:
    assert parallel._choose_workers(1_000, None) == 1
    assert parallel._choose_workers(10**6, None) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("workers", [0, -1, True, 1.5])
def test_bad_workers(workers: Any) -> None:
    with pytest.raises(PointsetError, match="workers"):
        read_many(["C"], MoleculeReader(), workers=workers)


def test_errors_that_are_not_the_molecules_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        read_many(["C"], _broken)


def _broken(smiles: str) -> float:
    return 1 / 0


def test_worker_that_dies_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_CHUNK", 1)
    with pytest.raises(PointsetError, match="try workers=1"):
        read_many(["C", "C"], _dies, workers=2)


def _dies(smiles: str) -> None:
    os._exit(1)


def _long_work(folder: Path) -> subprocess.Popen[str]:
    """A process of a group of its own that reads with workers for a long time."""
    script = folder / "script.py"
    script.write_text(
        "from pointset.datasets.molecules import MoleculeReader, read_many\n"
        "if __name__ == '__main__':\n"
        "    print('start', flush=True)\n"
        "    read_many(['CC(C)c1ccccc1' * 20] * 100_000, MoleculeReader(), workers=2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None and process.stdout.readline() == "start\n"
    time.sleep(5)
    return process


@pytest.mark.slow
def test_killed_it_leaves_no_worker_behind(tmp_path: Path) -> None:
    process = _long_work(tmp_path)
    process.kill()
    process.communicate(timeout=30)  # until the last process has closed its output
    time.sleep(2)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.slow
def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    process = _long_work(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0 and errors.count("KeyboardInterrupt") == 1
    time.sleep(2)  # Python's own helper of the pool ends a moment after it
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_where_no_processes_can_be_started_this_one_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without a writable /dev/shm, where the system gives no semaphores."""

    class WithoutSemaphores:
        def Lock(self) -> None:  # noqa: N802 - multiprocessing's name
            raise OSError(30, "Read-only file system")

    smiles = ["CCO", "C1CC", *["c1ccccc1"] * 700]
    usual = read_many(smiles, canonical_smiles, workers=1, progress=False)
    monkeypatch.setattr(machine, "get_context", lambda _: WithoutSemaphores())
    machine.can_share_work.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"this one does all the work.*Read-only file system.*/dev/shm"):
            assert read_many(smiles, canonical_smiles, workers=2, progress=False) == usual
        prepare = SmilesToPoints(SpecError("not asked"), cast(Needs, None), dim=4)
        windows = [window for _, window in with_points([("a", smiles[:3]), ("b", smiles[3:5])], prepare, 2)]
        assert [len(window.items) for window in windows] == [3, 2]
        with pytest.raises(PointsetError, match="which this system cannot start"), worker_processes(1):
            raise AssertionError("never reached")
    finally:
        machine.can_share_work.cache_clear()
