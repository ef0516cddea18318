"""Ctrl-C and SIGTERM between two steps, never inside one, so that the weights that are saved are whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pointset.errors import PointsetError


class TrainingStopped(PointsetError):  # noqa: N818 - it is no error
    """Training was interrupted; its state is saved, and the message says how to go on."""


class StopRequest:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __bool__(self) -> bool:
        return self.asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take signals as requests inside. A second Ctrl-C does not wait for the step to end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(_number: int, _frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def ignore_interrupts(_worker: int) -> None:
    """In a worker of the loader: Ctrl-C reaches all processes of a terminal, and only the main one decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
