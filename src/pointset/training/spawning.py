"""Several processes on this machine (``devices=2``): what ``torchrun`` does for one machine, without its command.

Each process is started anew with torchrun's environment variables, so that there is one way from one process to many.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pointset.errors import PointsetError
from pointset.training.devices import make_fabric, threads_for
from pointset.training.interruption import TrainingStopped
from pointset.training.job import Job
from pointset.training.json_files import read_json
from pointset.training.work import work


def train_in_processes(job: Job) -> dict[str, Any]:
    """Run the job in ``job.devices`` processes.

    Raises:
        TrainingStopped: it was interrupted.
        PointsetError: a process failed.
    """
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

    messages = torch.multiprocessing.get_context("spawn").SimpleQueue()
    try:
        with _interrupts_left_to_the_others():
            start: Any = spawn  # torch has no types for it
            start(_process, args=(job, _free_port(), messages), nprocs=job.devices)
    except (ProcessExitedException, ProcessRaisedException) as error:
        if messages.empty():
            last = str(error).strip().splitlines()[-1]
            raise PointsetError(f"a training process ended: {last}. Go on with --resume") from error
        kind, message = messages.get()
        raise (TrainingStopped if kind == "stopped" else PointsetError)(message) from None
    return read_json(job.folder.result)


def _process(rank: int, job: Job, port: int, messages: Any) -> None:
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(job.devices),
        "LOCAL_WORLD_SIZE": str(job.devices),
        "TORCHELASTIC_RUN_ID": "pointset",
    }
    torch.set_num_threads(threads_for(job.recipe, job.devices))
    try:
        fabric = make_fabric(job.recipe, job.device)
        fabric.launch()
        work(fabric, job)
    except PointsetError as error:
        if rank == 0 or not isinstance(error, TrainingStopped):  # all of them stop, one says so
            messages.put(("stopped" if isinstance(error, TrainingStopped) else "failed", str(error)))
        sys.exit(1)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def _interrupts_left_to_the_others() -> Iterator[None]:
    """Ctrl-C reaches every process: those that train stop cleanly, and this one waits for them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
