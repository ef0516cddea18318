"""Features of graphs brought into the form that a model was made for, or refused with the reason (:class:`Needs`)."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import current_process, get_context
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pointset.datasets.molecules.many import Unreadable, end_at_ctrl_c, main_left_alone, read_chunk
from pointset.datasets.molecules.parsing import Molecule, MoleculeError
from pointset.datasets.molecules.reader import MoleculeReader, ReadMolecule, reader_of_kind
from pointset.encoders.coordinates import checked
from pointset.encoders.model import PointModel
from pointset.errors import GraphError, SpecError
from pointset.machine import cores
from pointset.points.graphs import Features, Graph, WeightKind
from pointset.points.point_set import PointSet
from pointset.registry import preset_named
from pointset.specs import Categories, Reals, Spec
from pointset.training.bundle import Bundle

_SPACE = 3


def uses_positions(model: PointModel) -> bool:
    """Whether the model needs pos."""
    return model.settings is not None and preset_named(model.settings.preset).uses_positions


class Needs(NamedTuple):
    """What a model takes of a graph; everything else is left away, so that graphs of any origin fit together."""

    node: Spec
    edge: Spec
    positions: bool
    weighted_edges: int | None  # the column of edge features that becomes the edge weights
    dtype: torch.dtype
    matrix: str

    @classmethod
    def of(cls, model: PointModel, weighted_edges: int | None) -> Needs:
        """The needs of a model from a preset."""
        if model.settings is None:
            raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
        dtype = next(model.parameters()).dtype
        node, edge = model.settings.node, model.settings.edge
        return cls(node, edge, uses_positions(model), weighted_edges, dtype, model.matrix)

    def fit(self, graph: Graph) -> Graph:
        """The graph with exactly the features that the model takes.

        Raises:
            GraphError: it has no nodes.
            SpecError: features are missing, of another width, out of range or not finite.
        """
        features, edges = graph.features, graph.edges.shape[1]
        weights = graph.weights
        if self.weighted_edges is not None:
            weights = _column(features.edge_attr, self.weighted_edges, edges).numpy()
        fitted = self._features(features.x, features.edge_attr, features.pos, graph.num_nodes, edges)
        return dataclasses.replace(graph, weights=weights, features=fitted)

    def fit_points(self, points: PointSet) -> PointSet:
        """The same for points, whose edge weights are in their eigenpairs already."""
        if points.matrix != self.matrix:
            raise SpecError(
                f"the points come from matrix={points.matrix!r}, but the model was made for {self.matrix!r}; convert "
                f"with pointset.to_points(graph, matrix={self.matrix!r})"
            )
        fitted = self._features(points.x, points.edge_attr, points.pos, points.num_nodes, points.num_edges)
        edge_index = points.edge_index
        if fitted.edge_attr is not None and edge_index is None:
            if points.num_edges:
                raise SpecError("the points have edge features but no edge_index; make them with pointset.to_points")
            edge_index = torch.empty(2, 0, dtype=torch.long)
        return dataclasses.replace(
            points.to(self.dtype), x=fitted.x, edge_attr=fitted.edge_attr, pos=fitted.pos, y=None, edge_index=edge_index
        )

    def _features(
        self, x: Tensor | None, edge_attr: Tensor | None, pos: Tensor | None, nodes: int, edges: int
    ) -> Features:
        if not nodes:
            raise GraphError("the graph has no nodes; expected at least one")
        return Features(
            x=self._columns(x, self.node, "node features x", nodes),
            edge_attr=self._columns(edge_attr, self.edge, "edge features edge_attr", edges),
            pos=self._positions(pos, nodes) if self.positions else None,
        )

    def _columns(self, values: Tensor | None, spec: Spec, name: str, rows: int) -> Tensor | None:
        """(rows, c): int64 categories or real numbers of the model's type; None where the model takes none."""
        if spec is None:
            return None
        if not rows:
            return torch.empty(0, spec.width, dtype=torch.long if isinstance(spec, Categories) else self.dtype)
        if values is None or values.is_complex():
            return checked(None, spec, name)
        columns = values.detach().cpu().reshape(rows, -1)
        if isinstance(spec, Categories) and not columns.is_floating_point() and columns.shape[1] == spec.width:
            whole = columns.long()
            if bool((whole >= 0).all() & (whole < torch.tensor(spec.sizes)).all()):
                return whole
        columns = checked(columns, spec, name)  # says what is wrong
        return _finite(columns.to(self.dtype), name) if isinstance(spec, Reals) else columns

    def _positions(self, pos: Tensor | None, nodes: int) -> Tensor:
        if pos is None or pos.is_complex():
            raise SpecError("the model uses positions in space, but the graph carries no pos; expected pos (n, 3)")
        if pos.shape != (nodes, _SPACE):
            raise SpecError(f"pos has shape {tuple(pos.shape)}; expected ({nodes}, {_SPACE})")
        return _finite(pos.detach().cpu().to(self.dtype), "pos")


def _finite(values: Tensor, name: str) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise SpecError(f"{name} hold numbers that are not finite; expected finite ones")
    return values


def _column(edge_attr: Tensor | None, column: int, edges: int) -> Tensor:
    """(m,) float64: the weights that edge features stand for, as in ``Dataset.with_weighted_edges``."""
    if not edges:
        return torch.empty(0, dtype=torch.float64)
    width = 0 if edge_attr is None else edge_attr.reshape(edges, -1).shape[1]
    if edge_attr is None or column >= width:
        raise SpecError(
            f"the graph has {width} columns of edge features edge_attr, and the model takes its edge weights from "
            f"column {column}, counted from 0"
        )
    weights = edge_attr.detach().cpu().reshape(edges, -1)[:, column].to(torch.float64)
    if bool((weights == 0).any()):
        raise SpecError(
            f"an edge has 0 in column {column} of its features, which is its weight to this model, and an edge of "
            "weight 0 is none; expected other numbers"
        )
    return weights


# SMILES → graphs of the kind that a model was trained on.


def molecule_reader_of(bundle: Bundle) -> ReadMolecule:
    """How this model's molecules are read: with OGB's features, or by the function of its kind of molecules.

    Raises:
        SpecError: the model was not trained on molecules, or needs positions that SMILES do not have.
    """
    kind = bundle.card.molecules
    if kind is None:
        raise SpecError(
            f"got SMILES, but the model was trained on {bundle.card.title or bundle.card.name}, whose graphs are not "
            "made from SMILES; expected graphs with the same features"
        )
    read = reader_of_kind(kind, bundle.molecule_reader)
    makes_positions = isinstance(read, MoleculeReader) and read.conformer_seed is not None
    if uses_positions(bundle.model) and not makes_positions:
        raise SpecError("got SMILES, but the model needs positions in space; expected graphs with pos")
    return read


def refusal(reason: Unreadable | MoleculeError) -> MoleculeError:
    """Why a SMILES was not read, without a remedy that is not there: how to read is part of the model."""
    text = reason.reason if isinstance(reason, Unreadable) else str(reason)
    return MoleculeError(text.replace(", or read with lenient=True", ""))


def graph_of(molecule: Molecule) -> Graph:
    """The molecule in the form in which graphs are read; its bonds need not be in order."""
    pos = None if molecule.pos is None else torch.from_numpy(molecule.pos).to(torch.float32)
    features = Features(torch.from_numpy(molecule.x), torch.from_numpy(molecule.edge_attr), pos)
    return Graph(molecule.num_nodes, molecule.edges, None, WeightKind.NONE, features)


# SMILES read ahead by other processes while the model computes (:func:`read_ahead`).
#
# One pool serves a whole stream. A process that dies over a molecule costs that molecule, not the stream.


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
