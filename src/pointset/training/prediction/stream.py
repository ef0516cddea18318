"""From a source to a file of answers, in constant memory, to be gone on with whenever it stops (:func:`run_stream`)."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pointset.datasets.molecules.kinds import ReadMolecule
from pointset.errors import FileFormatError, GraphError, PointsetError
from pointset.progress import Advance
from pointset.training.prediction.columns import OutputColumns
from pointset.training.prediction.engine import Answer, Engine
from pointset.training.prediction.items import chunks_of
from pointset.training.prediction.part_file import PartFile, Progress
from pointset.training.prediction.smiles_pool import read_ahead
from pointset.training.prediction.sources import Entry, Source

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
