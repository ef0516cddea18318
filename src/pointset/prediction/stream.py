"""A prediction from files to a file, as the command line asks for it (:class:`Job`)."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from pointset.datasets.card import Card, Level, Task
from pointset.datasets.molecules.reader import MoleculeReader, ReadMolecule
from pointset.errors import FileFormatError, GraphError, PointsetError, SpecError
from pointset.prediction.engine import Answer, Engine, Outcome
from pointset.prediction.features import read_ahead, threads_beside, workers_for
from pointset.prediction.journal import PartFile, Progress
from pointset.prediction.predictor import Predictor, chunks_of
from pointset.prediction.sources import DatasetSource, Entry, FileSource, Kind, Source, TableSource, kind_of
from pointset.progress import Advance

# The columns of the output, and its cells (:class:`OutputColumns`).


OK = "ok"


@dataclass(frozen=True)
class OutputColumns:
    """Behind the input's columns: perhaps the node, the answers, the status."""

    kept: Sequence[str]  # columns of the input
    answers: Sequence[str]
    classes: Sequence[str]  # a multi-class answer begins with the name of the class
    of_nodes: bool
    atoms: bool  # nodes are atoms of a SMILES: say in which writing they are counted

    @classmethod
    def of_predictions(cls, kept: Sequence[str], card: Card, *, smiles: bool) -> OutputColumns:
        """``predicted_<target>``; of classes also ``probability_<class>``."""
        answers = [f"predicted_{name}" for name in card.target_names]
        classes = card.classes if card.task is Task.MULTI_CLASS else ()
        if classes:
            answers = [*answers[:1], *(f"probability_{name}" for name in classes)]
        of_nodes = card.level is Level.NODE
        return cls(kept, answers, classes, of_nodes, smiles and of_nodes)

    @classmethod
    def of_representations(cls, kept: Sequence[str], dim: int, *, of_nodes: bool, smiles: bool) -> OutputColumns:
        """``e0``, ``e1``, …"""
        return cls(kept, [f"e{channel}" for channel in range(dim)], (), of_nodes, smiles and of_nodes)

    @property
    def usual(self) -> list[str]:
        """Names of the columns that are added."""
        nodes = [*(["read_as"] if self.atoms else []), *(["node"] if self.of_nodes else [])]
        return [*nodes, *self.answers, "status"]

    @property
    def own(self) -> list[str]:
        """The same; one that the input has too gets a number."""
        return [self._free(name) for name in self.usual]

    @property
    def header(self) -> list[str]:
        """All names."""
        return [*self.kept, *self.own]

    def _free(self, name: str) -> str:
        taken = {*self.kept} | ({*self.usual} - {name} if name in self.kept else set())
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        return next(candidate for candidate in candidates if candidate not in taken)

    def rows(self, entry: Entry, read: Any, outcome: Outcome) -> Iterator[list[str]]:
        """The rows of an entry: one, or one for each node; one with only its status where there is no answer.

        Args:
            entry: the row of the input.
            read: what its item was read as.
            outcome: the answer.
        """
        atoms = [str(getattr(read, "smiles", ""))] if self.atoms else []
        if not isinstance(outcome, Tensor):
            empty = [""] * (self.of_nodes + len(self.answers))
            yield [*entry.cells, *atoms, *empty, " ".join(str(outcome).split())]
            return
        numbers: list[list[float]] = (outcome if self.of_nodes else outcome.unsqueeze(0)).tolist()
        for node, row in enumerate(numbers):
            place = [str(node)] if self.of_nodes else []
            chosen = [self.classes[max(range(len(row)), key=row.__getitem__)]] if self.classes else []
            yield [*entry.cells, *atoms, *place, *chosen, *(f"{number:.9g}" for number in row), OK]


# From a source to a file of answers, in constant memory, to be gone on with whenever it stops (:func:`run_stream`).


_SECONDS_BETWEEN_NOTES = 1.0
_MOST_NAMED = 5  # bad rows that the summary names


@dataclass(frozen=True)
class Stream:
    """All that makes up a prediction."""

    source: Source
    engine: Engine
    answer: Answer
    columns: OutputColumns
    read: ReadMolecule | None  # where the source has SMILES
    workers: int  # processes that read them


def run_stream(stream: Stream, part: PartFile, advance: Advance) -> None:
    """Answer all rows behind the progress of ``part``, and put the output in its place.

    Chunks begin at the same rows whether or not a run was broken, as :class:`PartFile` notes whole chunks only: the
    output is the same, byte for byte.

    Raises:
        FileFormatError: there are no rows, or the input changed.
    """
    entries = itertools.islice(stream.source.entries(), part.progress.entries, None)
    noted = time.monotonic()
    try:
        for chunk, items in _read(stream, chunks_of(entries, stream.engine.chunk_size)):
            _answer(stream, chunk, items, part)
            advance(len(chunk))
            if time.monotonic() - noted >= _SECONDS_BETWEEN_NOTES:
                part.note()
                noted = time.monotonic()
    except BaseException:
        if part.progress.entries:  # whatever stopped it, the rows so far stay
            with contextlib.suppress(OSError):
                part.note()
        raise
    if not part.progress.entries:
        raise FileFormatError(f"the input has no {stream.source.unit}s; expected at least one")
    stream.source.check_unchanged()
    part.finish()


def _read(stream: Stream, chunks: Iterator[Sequence[Entry]]) -> Iterator[tuple[Sequence[Entry], list[Any]]]:
    """Each chunk with its items read, as far as they can be."""
    if stream.read is None:
        yield from ((chunk, [entry.item for entry in chunk]) for chunk in chunks)
        return
    labelled = ((chunk, [entry.item for entry in chunk if entry.problem is None]) for chunk in chunks)
    for chunk, molecules in read_ahead(labelled, stream.read, stream.workers):
        rest = iter(molecules)
        yield chunk, [next(rest) if entry.problem is None else None for entry in chunk]


def _answer(stream: Stream, chunk: Sequence[Entry], items: list[Any], part: PartFile) -> None:
    given = [
        item if entry.problem is None else GraphError(entry.problem) for entry, item in zip(chunk, items, strict=True)
    ]
    outcomes = stream.engine.outcomes(given, stream.answer)
    rows: list[list[str]] = []
    bad: list[str] = []
    for entry, item, outcome in zip(chunk, items, outcomes, strict=True):
        rows += stream.columns.rows(entry, item, outcome)
        if isinstance(outcome, PointsetError):
            bad.append(f"{entry.place}: {rows[-1][-1]}")
    before = part.progress
    after = Progress(
        entries=before.entries + len(chunk),
        ok=before.ok + len(chunk) - len(bad),
        not_ok=before.not_ok + len(bad),
        bad=(*before.bad, *bad)[:_MOST_NAMED],
    )
    part.append(rows, after)


# What is asked of a model (:class:`Question`), known without importing torch.


@dataclass(frozen=True)
class Question:
    """An input, and what is wanted for each of its rows."""

    given: str  # INPUT: a table, graph files, or the name of a dataset
    embed: bool = False  # representations instead of predictions
    level: Literal["graph", "node"] | None = None  # of representations; by default that of the model
    smiles: str | None = None  # the column, by name or number
    header: bool = True
    part: str | None = None  # of a dataset's split
    data_dir: Path | None = None
    batch_size: int = 256
    workers: int | None = None  # processes that read SMILES


_BYTES_OF_A_ROW = 20  # of a packed table, whose lines are not counted: enough to tell a long one
_ROWS_OF_A_CONFORMER = 50  # SMILES that are read in the time in which one gets positions in space


class Job:
    """A model, an input and what is to be written; everything is checked before any work starts.

    Args:
        predictor: the model.
        question: what is asked.
        show: whether bars are shown while a dataset is read; by default where there is a terminal.

    Raises:
        PointsetError: the input cannot be read, or does not fit the model.
    """

    def __init__(self, predictor: Predictor, question: Question, *, show: bool | None = None):
        engine = predictor.engine(question.batch_size)
        self.source = _source(question, engine, show)
        read = predictor.molecule_reader() if self.source.has_smiles else None
        smiles, kept = self.source.has_smiles, self.source.columns
        if question.embed:
            answer = predictor.representation(question.level)
            dim = predictor.model.readout.linear.in_features
            columns = OutputColumns.of_representations(kept, dim, of_nodes=answer.of_nodes, smiles=smiles)
        else:
            answer = predictor.answer()
            columns = OutputColumns.of_predictions(kept, predictor.card, smiles=smiles)
        workers = _workers(self.source, read, question.workers)
        self.stream = Stream(self.source, engine, answer, columns, read, workers)
        self.identity: dict[str, Any] = {
            "model": predictor.bundle.sha256,
            "input": self.source.identity,
            "question": "representations" if question.embed else "predictions",
            "batch size": question.batch_size,
        }

    @property
    def unit(self) -> str:
        """What is counted: rows or graphs."""
        return self.source.unit

    @property
    def renamed(self) -> list[str]:
        """Columns of the output that are not named as usual, as the input has such columns."""
        return [name for name in self.stream.columns.own if name not in self.stream.columns.usual]

    def begin(self, part: PartFile) -> int:
        """Open the output; the number of rows that an earlier call has answered."""
        part.begin(self.identity, self.stream.columns.header)
        return part.progress.entries

    def run(self, part: PartFile, advance: Advance) -> None:
        """Answer all rows that are left."""
        with threads_beside(self.stream.workers):
            run_stream(self.stream, part, advance)


def _source(question: Question, engine: Engine, show: bool | None) -> Source:
    kind, path = kind_of(question.given), Path(question.given)
    if kind is Kind.TABLE:
        return TableSource(path, question.smiles, header=question.header)
    if kind is Kind.GRAPHS:
        return FileSource(path)
    from pointset.datasets.loading import load

    dataset = load(question.given, question.data_dir, progress=show)
    return DatasetSource(dataset, question.part, engine.needs)


def _workers(source: Source, read: ReadMolecule | None, wanted: int | None) -> int:
    if wanted is not None:
        if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
            raise SpecError(f"got workers={wanted!r}; expected a whole number, 0 for none")
        return wanted
    if not isinstance(source, TableSource):
        return 0
    lines = source.count()
    count = source.file.path.stat().st_size // _BYTES_OF_A_ROW if lines is None else lines
    slow = isinstance(read, MoleculeReader) and read.conformer_seed is not None
    return workers_for(count * _ROWS_OF_A_CONFORMER if slow else count)
