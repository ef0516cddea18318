"""Ending in time: Ctrl-C and SIGTERM act within seconds, whatever the process is doing (:func:`end_in_time`).

Python runs the handler of a signal between two of its own instructions, and the eigenvalues of a large graph, or a
batch of large graphs, are one instruction: a handler may wait for minutes. So a thread hears of the signal beside it.
If the process is still at work some seconds later, what can be saved is saved (:func:`saving`), and the process ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS = 3.0  # for the usual way out
_savers: list[Callable[[], str]] = []


@contextmanager
def saving(save: Callable[[], str]) -> Iterator[None]:
    """Inside, ``save`` is called from another thread before the process is ended in the middle of its work.

    It returns what it has to say to people, or nothing.
    """
    _savers.append(save)
    try:
        yield
    finally:
        _savers.remove(save)


def end_in_time(tell: Callable[[str], None], code: int, *, earlier: float = 0.0) -> None:
    """From here on SIGTERM is a Ctrl-C, and either ends the process after some seconds, however busy it is.

    Args:
        tell: is told what was saved, before the process ends in the middle of its work.
        code: the exit code then.
        earlier: seconds by which it ends before its parent, which waits for what it has to say; negative: after it.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.platform == "win32":  # signals wake sockets only
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    with held_back():  # the thread inherits it, so that signals go to the main thread, which may hold them back
        threading.Thread(target=_watch, args=(heard, tell, code, earlier), daemon=True).start()


@contextmanager
def held_back() -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM wait; afterwards they act."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(heard: int, tell: Callable[[str], None], code: int, earlier: float) -> None:
    while not set(os.read(heard, 64)) & set(SIGNALS):
        pass  # other signals, such as those of ended children
    time.sleep(max(0.0, GRACE_SECONDS - earlier))
    said = ""
    for save in reversed(_savers):
        with contextlib.suppress(Exception):  # whatever fails, the process must end
            said = save() or said
    with contextlib.suppress(Exception):
        tell(said)
    os._exit(code)


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Processes started inside do not hear Ctrl-C, which a terminal sends to all: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():  # which may not set it, and does not get it
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
