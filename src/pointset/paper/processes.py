"""Processes of one thread each: a pool that works side by side (:func:`worker_processes`), or one for each model, of
which only one works at a time and what fails in one is a message, not the end of all (:func:`own_processes`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

from pointset.datasets.molecules.parallel import end_with_parent
from pointset.errors import MissingDataError, PointsetError, TrainingStopped
from pointset.machine import can_share_work, main_left_alone
from pointset.stopping import deaf_to_ctrl_c

# torch and libraries of linear algebra read these when they are loaded; two processes of two threads each fight over
# two cores.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_KILLED = "its process was ended from outside, most likely for lack of memory"

Submit = Callable[..., Future[Any]]  # (function, *arguments) → its result to come
Result = TypeVar("Result")


@contextmanager
def worker_processes(workers: int) -> Iterator[Submit]:
    """Processes that end at once where this one is interrupted or killed, and that do not hear Ctrl-C themselves.

    Yields what submits work to them: a function of a module, and arguments that can be pickled.
    """
    if not can_share_work():
        raise PointsetError("models run in processes of their own, which this system cannot start")
    others = set(active_children())
    # Spawned, not forked: a forked process inherits the locks of torch's threads, but not the threads.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker)

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        with main_left_alone(), deaf_to_ctrl_c():  # a process starts when work comes
            return pool.submit(function, *arguments)

    try:
        yield submit
    except BaseException:
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """One thread of computation, as nothing that computes is loaded yet; and an end when the parent was killed."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    threading.Thread(target=end_with_parent, daemon=True).start()


class OwnProcess:
    """Calls functions in one process that stays; after a failure it does nothing any more."""

    def __init__(self, submit: Submit):
        self.submit = submit
        self.failure = ""  # why nothing is called any more

    def call(self, function: Callable[..., Result], *arguments: object) -> Result | None:
        """The function's result once it is there; None where this or an earlier call failed."""
        if self.failure:
            return None
        try:
            result: Result = self.submit(function, *arguments).result()
        except (MissingDataError, TrainingStopped):  # not a model's fault; somebody wants it to end
            raise
        except Exception as error:  # whatever a model does wrong must not sink the others
            self.failure = failure_message(error)
            return None
        return result


@contextmanager
def own_processes(count: int) -> Iterator[Sequence[OwnProcess]]:
    """So many processes, side by side in memory."""
    with ExitStack() as stack:
        yield [OwnProcess(stack.enter_context(worker_processes(1))) for _ in range(count)]


def failure_message(error: Exception) -> str:
    """One line on why a model failed."""
    if isinstance(error, BrokenProcessPool):
        return _KILLED
    text = " ".join(str(error).split())
    return text if isinstance(error, PointsetError) else f"{type(error).__name__}: {text}"
