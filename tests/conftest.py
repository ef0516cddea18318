"""Shared by all tests: one thread in a worker, the shared data where it lies, reproducible hypothesis runs, Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from pointset.native import build
from tests.small_training import edge_counts, write_graphs

if "PYTEST_XDIST_WORKER" in os.environ:  # two workers with two threads each on two cores are many times slower
    torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell processes are born deaf to Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    """Compiled, or found in the cache, before a test chooses an empty cache and would compile them once more."""
    build.library()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For tests that compare bits: sums over several threads are added in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real benchmark data: ``POINTSET_DATA``, or ``shared/data`` beside the clone."""
    folder = Path(os.environ.get("POINTSET_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"the benchmark data is not there ({folder}); set POINTSET_DATA to its folder")
    return folder


@pytest.fixture
def recipe_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small recipe in a file; the working folder is an empty one."""
    path = tmp_path / "small.yaml"
    path.write_text(write_graphs(tmp_path / "data", edge_counts()).as_yaml())
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return path
