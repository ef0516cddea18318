"""Many SMILES at once: on all cores or a cluster, in order, and never stopped by a bad one; as molecules or a table."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import current_process, get_context, parent_process
from typing import Any, TypeVar

import numpy as np

from pointset.cluster import current
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Unreadable, require_rdkit
from pointset.datasets.molecules.reader import OGB_READER, MoleculeReader
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, PointsetError
from pointset.machine import can_share_work, cores, main_left_alone
from pointset.progress import progress_bar

Result = TypeVar("Result")
Chunk = TypeVar("Chunk")
ChunkResult = TypeVar("ChunkResult")
DIED = "the process that read it ended (out of memory?); read it alone, with more memory"
_CHUNK = 200  # SMILES handed to a worker at a time: about 0.1 s of work, so Ctrl-C does not wait long
_WORTH_ANOTHER_PROCESS = 4_000  # SMILES for each worker, else starting one (1 s) is no gain


def read_many(
    smiles: Sequence[str], read: Callable[[str], Result], *, workers: int | None = None, progress: bool | None = None
) -> list[Result | Unreadable]:
    """``[read(s) for s in smiles]``, with an :class:`Unreadable` wherever ``read`` raises a :class:`MoleculeError`.

    Args:
        smiles: one text for each molecule.
        read: a :class:`MoleculeReader`, :func:`read_zinc_molecule`, :func:`penalized_logp` or another function that can
            be pickled.
        workers: processes to share the work; None takes one for each core, and one only where the work is small; or
            the workers of a cluster inside :func:`pointset.cluster.connected`. The result is the same for any number.
        progress: shows a bar; None shows it on a terminal.
    """
    require_rdkit()
    chunks = [smiles[start : start + _CHUNK] for start in range(0, len(smiles), _CHUNK)]
    results: list[Result | Unreadable] = []
    with progress_bar("molecules", len(smiles), show=progress) as advance:
        for chunk in _read_in_order(read, chunks, workers):
            results += chunk
            advance(len(chunk))
    return results


def _read_in_order(
    read: Callable[[str], Result], chunks: Sequence[Sequence[str]], workers: int | None
) -> Iterator[Sequence[Result | Unreadable]]:
    cluster = current() if workers is None else None
    if cluster is None:
        number = _choose_workers(sum(map(len, chunks)), workers)
        yield from _in_order(partial(read_chunk, read), chunks, number)
    else:
        given: Iterator[list[str | Unreadable]] = map(list, chunks)
        for _, results in cluster.in_order(partial(_read_sound, read), given, _given_up):
            yield results


def _given_up(_smiles: object) -> Unreadable:
    return Unreadable(DIED)


def _read_sound(read: Callable[[str], Result], smiles: Sequence[str | Unreadable]) -> list[Result | Unreadable]:
    """As :func:`read_chunk`; what was given up stays as it is."""
    results = iter(read_chunk(read, [one for one in smiles if isinstance(one, str)]))
    return [next(results) if isinstance(one, str) else one for one in smiles]


def _choose_workers(number: int, workers: int | None) -> int:
    if workers is not None:
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise PointsetError(
                f"got workers={workers!r}; expected a whole number of at least 1, or None for all cores"
            )
        return workers
    if current_process().daemon:  # inside a worker of somebody else's, which may have none of its own
        return 1
    return max(1, min(cores(), number // _WORTH_ANOTHER_PROCESS))


def read_chunk(read: Callable[[str], Result], smiles: Sequence[str]) -> list[Result | Unreadable]:
    """What :func:`read_many` does, in this process."""
    if isinstance(read, MoleculeReader):
        return read.read_all(smiles)  # type: ignore[return-value]
    results: list[Result | Unreadable] = []
    for one in smiles:
        try:
            results.append(read(one))
        except MoleculeError as error:
            results.append(Unreadable(str(error)))
    return results


def _in_order(function: Callable[[Chunk], ChunkResult], chunks: Sequence[Chunk], workers: int) -> Iterator[ChunkResult]:
    """``map(function, chunks)``, shared by ``workers`` processes."""
    if workers == 1 or len(chunks) <= 1 or not can_share_work():
        yield from map(function, chunks)
        return
    # Spawned, not forked: a forked process inherits the locks of torch's threads, but not the threads.
    pool = ProcessPoolExecutor(min(workers, len(chunks)), get_context("spawn"), initializer=begin_worker)
    try:
        with main_left_alone():
            results = pool.map(function, chunks)  # starts the processes
        yield from results
    except BrokenProcessPool:
        raise PointsetError("a worker process ended while it read molecules (out of memory?); try workers=1") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def begin_worker() -> None:
    """A terminal sends Ctrl-C to all processes: a worker ends at once and in silence, and the parent speaks. It also
    ends when the parent was killed, which cannot tell it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Wait for the process that started this one to end, and end as well."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def table_of_smiles(smiles: Sequence[str], place: object, *, show: bool | None) -> GraphTable:
    """The molecules as OGB reads them, in their order and with atoms in the order of the SMILES; no targets yet.

    ``place`` is the file in which they stand, for messages.
    """
    molecules = []
    for row, molecule in enumerate(read_many(smiles, OGB_READER, progress=show), start=1):
        if isinstance(molecule, Unreadable):
            raise FileFormatError(f"{place}, row {row}: {molecule.reason}")
        molecules.append(molecule)
    return table_of_molecules(molecules, smiles)


def table_of_molecules(molecules: Sequence[Molecule], smiles: Sequence[str]) -> GraphTable:
    """One molecule or more, with the SMILES (G,) that each was read from; no targets yet."""

    def together(name: str, axis: int = 0) -> Any:
        return np.concatenate([getattr(molecule, name) for molecule in molecules], axis=axis)

    return GraphTable(
        num_nodes=np.array([molecule.num_nodes for molecule in molecules]),
        num_edges=np.array([len(molecule.edge_attr) for molecule in molecules]),
        edges=together("edges", axis=1),
        x=together("x"),
        edge_attr=together("edge_attr"),
        pos=None if molecules[0].pos is None else together("pos").astype(np.float32),
        smiles=list(smiles),
    )
