"""SMILES read ahead by other processes while the model computes (:func:`read_ahead`).

One pool serves a whole stream. A process that dies over a molecule costs that molecule, not the stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import current_process, get_context
from typing import Any

import torch

from pointset.datasets.molecules.kinds import ReadMolecule
from pointset.datasets.molecules.many import Unreadable, end_at_ctrl_c, main_left_alone, read_chunk
from pointset.machine import cores

Texts = Sequence[str]
Read = list[Any]  # Molecule or Unreadable for each text
_PIECE = 64  # SMILES handed to a process at a time
_AHEAD = 2  # chunks read beyond the one that is being predicted
_WORTH_A_PROCESS = 4_000  # SMILES; starting a process takes a second
_DIED = "the process that read it ended (out of memory?); read it alone, with more memory"


def workers_for(count: int) -> int:
    """Processes that are worth their start for so many SMILES; 0 where this process reads them as fast."""
    if current_process().daemon:  # inside a worker of somebody else's, which may have none of its own
        return 0
    return min(max(cores() // 2, 1), count // _WORTH_A_PROCESS)  # half of the cores are for the model


@contextmanager
def threads_beside(workers: int) -> Iterator[None]:
    """Threads of this process and other processes together must not exceed the cores, else they fight."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, min(before, cores() - workers)))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def read_ahead(chunks: Iterable[tuple[Any, Texts]], read: ReadMolecule, workers: int) -> Iterator[tuple[Any, Read]]:
    """For each (label, SMILES) the label and what was read, in order.

    Args:
        chunks: taken a few ahead only, so that memory does not grow with their number.
        read: a function that can be pickled.
        workers: processes; 0 reads here, when a chunk is asked for.
    """
    if workers == 0:
        yield from ((label, read_chunk(read, texts)) for label, texts in chunks)
        return
    pool = _Pool(read, workers)
    waiting: deque[tuple[Any, _Chunk]] = deque()
    try:
        for label, texts in chunks:
            waiting.append((label, _Chunk(pool, texts)))
            if len(waiting) > _AHEAD:
                first, chunk = waiting.popleft()
                yield first, chunk.result()
        while waiting:
            first, chunk = waiting.popleft()
            yield first, chunk.result()
    finally:
        pool.close()


class _Pool:
    """Processes that are started again when one of them died."""

    def __init__(self, read: ReadMolecule, workers: int):
        self._work, self._workers = partial(read_chunk, read), workers
        self._processes = self._started()

    def _started(self) -> ProcessPoolExecutor:
        # Spawned, not forked: a forked process inherits the locks of torch's threads, but not the threads.
        return ProcessPoolExecutor(self._workers, get_context("spawn"), initializer=end_at_ctrl_c)

    def submit(self, texts: Texts) -> Future[Read]:
        try:
            with main_left_alone():  # a process is started when the first work comes
                return self._processes.submit(self._work, texts)
        except BrokenProcessPool:
            self.restart()
            with main_left_alone():
                return self._processes.submit(self._work, texts)

    def restart(self) -> None:
        self._processes.shutdown(wait=False, cancel_futures=True)
        self._processes = self._started()

    def close(self) -> None:
        self._processes.shutdown(wait=True, cancel_futures=True)


class _Chunk:
    """SMILES on their way through the pool."""

    def __init__(self, pool: _Pool, texts: Texts):
        self._pool = pool
        self._pieces = [texts[at : at + _PIECE] for at in range(0, len(texts), _PIECE)]
        self._running = [pool.submit(piece) for piece in self._pieces]

    def result(self) -> Read:
        return [
            one for piece, running in zip(self._pieces, self._running, strict=True) for one in self._of(piece, running)
        ]

    def _of(self, piece: Texts, running: Future[Read]) -> Read:
        try:
            return running.result()
        except BrokenProcessPool:  # somebody's molecule did it: perhaps one of these, perhaps one of another piece
            return [one for text in piece for one in self._alone(text)]

    def _alone(self, text: str) -> Read:
        try:
            return self._pool.submit([text]).result()
        except BrokenProcessPool:
            self._pool.restart()
            return [Unreadable(_DIED)]
