"""A Dask scheduler and workers as processes of their own on loopback, as people start them; they end with the block."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",  # two workers that die are enough, as for local:N
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "0",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__SCHEDULER__IDLE_TIMEOUT": "300s",  # should the tests be killed, which end them
    "OMP_NUM_THREADS": "1",
}


class Processes:
    """A scheduler and its workers."""

    def __init__(self, folder: Path, **environment: str):
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.environment = os.environ | _SETTINGS | environment
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), self.environment.get("PYTHONPATH", "")])
        self.environment["PYTHONPATH"] = path
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])

    def start_scheduler(self) -> None:
        self.file.unlink(missing_ok=True)
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file))
        self.scheduler = self._start("dask_scheduler", *options)
        until(self._is_up)

    def _is_up(self) -> bool:
        return self.file.exists() and self.file.read_text().endswith("}")

    def start_workers(self, count: int, *, nanny: bool = False) -> None:
        """With a nanny a worker that dies is started again."""
        options = ("--nthreads", "1", "--no-dashboard", "--death-timeout", "60", "--memory-limit", "0")
        how = "--nanny" if nanny else "--no-nanny"
        for _ in range(count):
            directory = self.folder / f"worker-{len(self.workers)}"
            self.workers.append(
                self._start("dask_worker", self.address, how, *options, "--local-directory", str(directory))
            )

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore", "-m", f"distributed.cli.{program}", *options]
        with (self.folder / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )

    def end(self) -> None:
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            kill_group(process)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """A process and those that it started, which are in a session of their own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this did not happen in time"
        time.sleep(0.02)


@contextmanager
def running(folder: Path, workers: int, *, nanny: bool = False, **environment: str) -> Iterator[Processes]:
    folder.mkdir(parents=True, exist_ok=True)
    processes = Processes(folder, **environment)
    try:
        processes.start_scheduler()
        processes.start_workers(workers, nanny=nanny)
        yield processes
    finally:
        processes.end()
