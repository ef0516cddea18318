"""A process for each model, of which only one works at a time; what fails in one is a message, not the end of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from pointset.errors import MissingDataError, PointsetError
from pointset.studies.processes import Submit, worker_processes
from pointset.training.interruption import TrainingStopped

Result = TypeVar("Result")
_KILLED = "its process was ended from outside, most likely for lack of memory"


class OwnProcess:
    """Calls functions in one process that stays; after a failure it does nothing any more.

    Args:
        submit: of :func:`~pointset.studies.processes.worker_processes` with one worker.
    """

    def __init__(self, submit: Submit):
        self.submit = submit
        self.failure = ""  # why nothing is called any more

    def call(self, function: Callable[..., Result], *arguments: object) -> Result | None:
        """The function's result once it is there; None where this or an earlier call failed.

        Raises:
            MissingDataError: which is no fault of a model.
            TrainingStopped: somebody wants it to end.
        """
        if self.failure:
            return None
        try:
            result: Result = self.submit(function, *arguments).result()
        except (MissingDataError, TrainingStopped):
            raise
        except Exception as error:  # whatever a model does wrong must not sink the others
            self.failure = in_words(error)
            return None
        return result


@contextmanager
def own_processes(count: int) -> Iterator[Sequence[OwnProcess]]:
    """So many processes, side by side in memory."""
    with ExitStack() as stack:
        yield [OwnProcess(stack.enter_context(worker_processes(1))) for _ in range(count)]


def in_words(error: Exception) -> str:
    """One line on why a model failed."""
    if isinstance(error, BrokenProcessPool):
        return _KILLED
    text = " ".join(str(error).split())
    return text if isinstance(error, PointsetError) else f"{type(error).__name__}: {text}"
