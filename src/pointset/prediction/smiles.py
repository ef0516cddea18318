"""SMILES → points in flat arrays, many at a time, in other processes while the model computes (:func:`with_points`).

A process reads a piece of SMILES, fits the features to the model and decomposes molecules of one size together
(:class:`SmilesToPoints`). What it sends back are a few flat arrays for all of them (:class:`MoleculePoints`), not an
object for each. What is not plain (unreadable, very large, or with features that the model does not take) comes back
by itself and goes the careful way of :class:`~pointset.prediction.engine.Engine`.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import active_children, current_process, get_context
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.molecules.parallel import DIED, begin_worker, read_chunk
from pointset.datasets.molecules.parsing import Molecule, Unreadable
from pointset.datasets.molecules.reader import ReadMolecule
from pointset.errors import MissingExtraError, PointsetError
from pointset.machine import (
    NEVER_A_PROBLEM,
    can_share_work,
    cores,
    cores_used_by_others,
    main_left_alone,
    training_bytes,
)
from pointset.points.convert import to_points_many
from pointset.points.graphs import WHOLE_GRAPH, Features, FlatFeatures, Graph, GraphArrays, WeightKind, starts
from pointset.points.point_set import Eigenpairs, PointSets
from pointset.prediction.features import Needs

Item = TypeVar("Item")
Label = TypeVar("Label")
_PIECE = 1024  # SMILES handed to a process at a time: enough of each size to be decomposed together
_AHEAD = 2  # pieces for each process, beyond the window that is being predicted
_WORTH_A_PROCESS = 8_000  # SMILES: both reading and the model take about 4 s; starting a process takes two
_WORTH_A_LOOK = 64  # items
_LOOK_SECONDS, _LOOK_AGAIN_SECONDS = 0.1, 10.0


class MoleculePoints(NamedTuple):
    """Points of G molecules, as they travel between processes: NumPy arrays only, of small types."""

    places: Integers  # (G,) which of the items they are
    num_nodes: Integers  # (G,)
    num_edges: Integers  # (G,)
    edges: NDArray[np.int32]  # (2, M)
    x: NDArray[Any] | None  # (N, c)
    edge_attr: NDArray[Any] | None  # (M, b)
    pos: NDArray[Any] | None  # (N, 3)
    pairs: Eigenpairs
    descriptors: NDArray[Any] | None = None  # (G, c)
    fingerprint: NDArray[Any] | None = None  # (G, bytes)

    @classmethod
    def of(cls, places: Integers, points: PointSets, dtype: torch.dtype) -> MoleculePoints:
        """The points with eigenpairs rounded to the model's type, and whole numbers in 16 bits where they fit."""
        arrays, pairs, features = points.graphs, points.eigenpairs, cast(FlatFeatures, points.graphs.features)
        real = np.float32 if dtype == torch.float32 else np.float64
        return cls(
            places=places,
            num_nodes=arrays.num_nodes,
            num_edges=arrays.num_edges,
            edges=arrays.edges.astype(np.int32),
            x=_packed(features.x),
            edge_attr=_packed(features.edge_attr),
            pos=_packed(features.pos),
            pairs=replace(pairs, values=pairs.values.astype(real), vectors=pairs.vectors.astype(real)),
            **{name: None if (rows := getattr(features, name)) is None else rows.numpy() for name in WHOLE_GRAPH},
        )

    @staticmethod
    def joined(parts: Sequence[MoleculePoints], needs: Needs) -> PointSets:
        """All of them in one :class:`~pointset.PointSets`, in order."""

        def together(name: str, axis: int = 0) -> Any:
            given = [getattr(part, name) for part in parts]
            return None if given[0] is None else np.concatenate(given, axis=axis)

        def tensor(name: str) -> Tensor | None:
            values = together(name)
            if values is None:
                return None
            return torch.from_numpy(values.astype(np.int64) if values.dtype.kind == "i" else values)

        num_nodes, num_edges = together("num_nodes"), together("num_edges")
        whole: dict[str, Any] = {name: tensor(name) for name in WHOLE_GRAPH}
        features = FlatFeatures(num_nodes, num_edges, tensor("x"), tensor("edge_attr"), tensor("pos"), **whole)
        kinds = np.full(len(num_nodes), WeightKind.NONE, dtype=np.int8)  # weights are in the eigenpairs already
        edges = together("edges", axis=1).astype(np.int64)
        arrays = GraphArrays(num_nodes, num_edges, edges, None, kinds, features)
        dtype = torch.float32 if needs.dtype == torch.float32 else torch.float64
        return PointSets(arrays, _joined([part.pairs for part in parts]), needs.matrix, dtype)


def _joined(parts: Sequence[Eigenpairs]) -> Eigenpairs:
    """Eigenpairs of all parts, one after the other."""
    values, vectors = ([getattr(part, name) for part in parts] for name in ("values", "vectors"))

    def together(name: str, before: Sequence[Integers] = ()) -> Any:
        shift = starts(np.array([len(one) for one in before])) if before else [0] * len(parts)
        return np.concatenate([getattr(part, name) + more for part, more in zip(parts, shift, strict=True)])

    return Eigenpairs(
        ranks=together("ranks"),
        value_start=together("value_start", values),
        vector_start=together("vector_start", vectors),
        spectral_error=together("spectral_error"),
        frobenius_error=together("frobenius_error"),
        residual=together("residual"),
        values=np.concatenate(values),
        vectors=np.concatenate(vectors),
    )


def _packed(values: Tensor | None) -> NDArray[Any] | None:
    if values is None:
        return None
    array = values.numpy()
    small = array.dtype.kind == "i" and array.size and array.min() >= -(2**15) and array.max() < 2**15
    return array.astype(np.int16) if small else array


class PointsElsewhere(NamedTuple):
    """Stands in the place of a molecule whose points are among the :class:`MoleculePoints`."""

    smiles: str  # the writing whose atom order the points follow


class Window(NamedTuple):
    """Consecutive items, with each SMILES read: its points where they are plain, else a molecule or an error."""

    items: list[Any]
    points: Sequence[MoleculePoints] = ()


@dataclass(frozen=True)
class SmilesToPoints:
    """Reads SMILES and makes the points that a model takes. It can be pickled, if ``read`` can.

    ``read`` may also be the error that says why this model reads no SMILES: it is then the error of each.
    """

    read: ReadMolecule | PointsetError
    needs: Needs
    dim: int  # channels of the model

    def __call__(self, smiles: Sequence[str]) -> Window:
        """All of the SMILES, in order. The points do not depend on which others stand beside a molecule."""
        if isinstance(self.read, PointsetError):
            return Window([self.read] * len(smiles))
        read = read_chunk(self.read, smiles)
        plain = {at: one for at, one in enumerate(read) if isinstance(one, Molecule) and self._is_plain(one)}
        if not plain:
            return Window(list(read))
        try:
            points = self._points(list(plain.values()))
        except MissingExtraError:
            raise
        except (PointsetError, MemoryError):  # one of them is at fault: the engine finds out which
            return Window(list(read))
        items: list[Any] = list(read)
        for place, molecule in plain.items():
            items[place] = PointsElsewhere(molecule.smiles)
        return Window(items, [MoleculePoints.of(np.array(list(plain)), points, self.needs.dtype)])

    def _is_plain(self, molecule: Molecule) -> bool:
        """Not so large that the memory must be asked first."""
        n = molecule.num_nodes
        return n > 0 and training_bytes(n, n, dim=self.dim, layers=1) < NEVER_A_PROBLEM

    def _points(self, molecules: Sequence[Molecule]) -> PointSets:
        def together(name: str, axis: int = 0) -> Any:
            return np.concatenate([getattr(molecule, name) for molecule in molecules], axis=axis)

        num_nodes = np.array([molecule.num_nodes for molecule in molecules])
        num_edges = np.array([len(molecule.edge_attr) for molecule in molecules])
        pos = None if molecules[0].pos is None else torch.from_numpy(together("pos")).to(torch.float32)
        given = Features(torch.from_numpy(together("x")), torch.from_numpy(together("edge_attr")), pos)
        # Features are checked row by row, so all molecules together can be fitted as one graph.
        edges = together("edges", axis=1)
        fitted = self.needs.of_nodes_and_edges().fit(Graph(int(num_nodes.sum()), edges, None, WeightKind.NONE, given))
        x, edge_attr, pos, *_ = fitted.features
        features = FlatFeatures(num_nodes, num_edges, x, edge_attr, pos, **_of_whole_molecules(molecules))
        arrays = GraphArrays.from_flat(num_nodes, num_edges, edges, fitted.weights, features)
        return to_points_many(arrays, matrix=self.needs.matrix, rank=self.needs.rank, workers=1, progress=False)


def _of_whole_molecules(molecules: Sequence[Molecule]) -> dict[str, Any]:
    """Descriptors and fingerprints, a row for each molecule, where they were asked for."""
    given = {name: [getattr(molecule, name) for molecule in molecules] for name in WHOLE_GRAPH}
    return {name: torch.from_numpy(np.stack(rows)) for name, rows in given.items() if rows[0] is not None}


# --- windows of items, read ahead


Prepare = Callable[[Sequence[str]], Window]  # SmilesToPoints, or what does its work


def workers_for(count: int) -> int:
    """Processes worth starting for so many SMILES; 0 where this process reads them as fast."""
    if current_process().daemon:  # a worker of another pool, which may not start processes of its own
        return 0
    # Reading a molecule takes about as long as the model. One more than half of the cores: the system's scheduler then
    # finds something to run whichever of both is the slower one.
    return min(cores() // 2 + 1, count // _WORTH_A_PROCESS)


@contextmanager
def threads_beside(workers: int, items: int | None) -> Iterator[None]:
    """Take no more threads than the workers and other work on this machine leave cores, but one at least.

    Threads without a core of their own wait for each other, and are many times slower than one thread. For a few of
    ``items`` (None: unknown, perhaps many) nobody looks at the machine, as looking takes time, too.
    """
    before = torch.get_num_threads()
    free: float = cores() - workers
    if min(before, free) > 1 and (items is None or items >= _WORTH_A_LOOK):
        free -= _recently_used_by_others()
    torch.set_num_threads(max(1, min(before, int(free + 0.5))))
    try:
        yield
    finally:
        torch.set_num_threads(before)


_looked: list[tuple[float, float]] = []  # when, and how many cores others used


def _recently_used_by_others() -> float:
    """Cores, now or some seconds ago: who predicts often in small portions does not wait each time."""
    now = time.monotonic()
    if not _looked or now - _looked[0][0] > _LOOK_AGAIN_SECONDS:
        _looked[:] = [(now, cores_used_by_others(_LOOK_SECONDS) or 0.0)]
    return _looked[0][1]


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of ``size`` items; the last may be shorter."""
    rest = iter(items)
    while chunk := list(itertools.islice(rest, size)):
        yield chunk


def with_points(
    chunks: Iterable[tuple[Label, Sequence[Any]]], prepare: Prepare | None, workers: int
) -> Iterator[tuple[Label, Window]]:
    """The (label, items) again, in order, each SMILES among the items with its points.

    Chunks are taken a few ahead only, so that memory does not grow with their number. ``prepare`` is None where no item
    is a SMILES, and can be pickled where there are workers. Without them, SMILES are read here, when a chunk is asked
    for. A process that dies costs one molecule, not the others.
    """
    if prepare is None:
        yield from ((label, Window(list(items))) for label, items in chunks)
        return
    workers = workers if workers and can_share_work() else 0
    pool = _Pool(prepare, workers) if workers else None
    waiting: deque[tuple[Label, Sequence[Any], list[_Piece]]] = deque()
    try:
        for label, items in chunks:
            smiles = [item for item in items if isinstance(item, str)]
            pieces = [(piece, pool.submit(piece) if pool else None) for piece in in_chunks(smiles, _PIECE)]
            waiting.append((label, items, pieces))
            while waiting and _ahead(waiting) >= _AHEAD * workers:
                yield _finished(*waiting.popleft(), pool, prepare)
        while waiting:
            yield _finished(*waiting.popleft(), pool, prepare)
    except BaseException:
        if pool:
            pool.end()
        raise
    finally:
        if pool:
            pool.close()


_Piece = tuple[list[str], "Future[Window] | None"]  # SMILES, and what comes of them if a process reads them


def _ahead(waiting: Sequence[tuple[Any, Any, list[_Piece]]]) -> int:
    """Pieces beyond the first window; a window without SMILES counts as one, as it takes memory, too."""
    return sum(max(len(pieces), 1) for *_, pieces in waiting) - max(len(waiting[0][-1]), 1)


def _finished(
    label: Label, items: Sequence[Any], pieces: list[_Piece], pool: _Pool | None, prepare: Prepare
) -> tuple[Label, Window]:
    """The pieces put together again with the items that are not SMILES."""
    found: list[Any] = list(items)
    places = np.array([place for place, item in enumerate(items) if isinstance(item, str)])
    points: list[MoleculePoints] = []
    done = 0
    for smiles, running in pieces:
        window = prepare(smiles) if pool is None or running is None else pool.result(smiles, running)
        own = places[done : done + len(smiles)]
        done += len(smiles)
        for place, item in zip(own.tolist(), window.items, strict=True):
            found[place] = item
        points += [part._replace(places=own[part.places]) for part in window.points]
    return label, Window(found, points)


class _Pool:
    """Processes that are started again when one of them died."""

    def __init__(self, prepare: Prepare, workers: int):
        self._prepare, self._workers = prepare, workers
        self._others = set(active_children())
        self._start()

    def _start(self) -> None:
        # Spawned, not forked: a forked process inherits the locks of torch's threads, but not the threads.
        self._processes = ProcessPoolExecutor(self._workers, get_context("spawn"), initializer=_begin_worker)

    def _restart(self) -> None:
        self._processes.shutdown(wait=False, cancel_futures=True)
        self._start()

    def submit(self, smiles: Sequence[str]) -> Future[Window]:
        with main_left_alone():  # a process is started when the first SMILES come
            try:
                return self._processes.submit(self._prepare, smiles)
            except BrokenProcessPool:
                self._restart()
                return self._processes.submit(self._prepare, smiles)

    def result(self, smiles: Sequence[str], running: Future[Window]) -> Window:
        """What comes of the SMILES; where a process died, they are tried once more together, and then one by one."""
        try:
            return running.result()
        except BrokenProcessPool:  # a molecule did it: perhaps one of these, perhaps one of another piece
            pass
        try:
            return self.submit(smiles).result()
        except BrokenProcessPool:
            pass
        items, points = [], []
        for place, text in enumerate(smiles):
            alone = self._alone(text)
            items += alone.items
            points += [part._replace(places=part.places + place) for part in alone.points]
        return Window(items, points)

    def _alone(self, text: str) -> Window:
        try:
            return self.submit([text]).result()
        except BrokenProcessPool:
            self._restart()
            return Window([Unreadable(DIED)])

    def end(self) -> None:
        """Without waiting for what the processes are at: nobody will read it."""
        for process in set(active_children()) - self._others:
            process.terminate()

    def close(self) -> None:
        self._processes.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    begin_worker()
    torch.set_num_threads(1)
    gc.freeze()  # modules stay: no collection need look at them again
