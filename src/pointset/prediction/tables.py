"""One prediction from an input to a table of predictions, in constant memory (:class:`TablePrediction`).

Rows come from a :class:`~pointset.prediction.sources.Source`, a window at a time. An
:class:`~pointset.prediction.answers.Answering` makes the lines of the output: here, where other processes may make
points of the SMILES (:mod:`pointset.prediction.smiles`), or on the workers of a cluster. A
:class:`~pointset.prediction.journal.ResumableOutput` keeps them. Light to import (no torch).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pointset.cluster import Cluster, connected
from pointset.datasets.molecules.reader import MoleculeReader, ReadMolecule
from pointset.errors import ClusterError, FileFormatError
from pointset.prediction.answers import (
    Answer,
    Answering,
    AnsweringElsewhere,
    Question,
    given_up,
    with_uncertainty,
)
from pointset.prediction.journal import Progress, ResumableOutput
from pointset.prediction.sources import (
    DatasetSource,
    GraphFileSource,
    InputKind,
    Source,
    TableSource,
    input_kind,
)
from pointset.progress import Advance, progress_bar
from pointset.specs import check_whole_numbers
from pointset.text import counted
from pointset.training.calibration import CONFIDENCE, check_confidence

if TYPE_CHECKING:
    from distributed import Client

    from pointset.prediction.features import Needs
    from pointset.prediction.predictor import Predictor

_SECONDS_BETWEEN_SAVES = 1.0
_MOST_NAMED = 5  # bad rows that the summary names
_BYTES_OF_A_ROW = 20  # of a compressed table, whose lines are not counted: enough to recognise a long one
_ROWS_OF_A_CONFORMER = 50  # SMILES that are read in the time that one conformer takes


@dataclass(frozen=True)
class PredictionOptions:
    """An input, and what to compute for each of its rows."""

    input: str  # a table, graph files, or the name of a dataset
    embed: bool = False  # representations instead of predictions
    level: Literal["graph", "node"] | None = None  # of representations; by default the model's own
    smiles: str | None = None  # the column, by name or number
    header: bool = True  # whether the first line of a table names its columns
    sheet: str | None = None  # of a workbook
    part: str | None = None  # of a dataset's split
    data_dir: Path | None = None
    batch_size: int = 256
    descriptors: Path | None = None  # a table of them, for a model that was trained with one
    workers: int | None = None  # processes that read SMILES
    confidence: float | None = CONFIDENCE  # of intervals and sets; None: predictions alone
    spreadsheet_safe: bool = False  # whether cells that a spreadsheet would take for formulas get an apostrophe


class TablePrediction:
    """A model, an input and what is to be written; everything is checked before any work starts.

    ``show`` says whether to show progress bars while a dataset is read; by default where there is a terminal. Raises
    PointsetError where the input cannot be read, or does not fit the model.
    """

    def __init__(self, predictor: Predictor, options: PredictionOptions, *, show: bool | None = None):
        if not options.embed:
            predictor.check_needs_no_pairs()
        question = Question(
            options.embed, options.level, options.confidence, options.batch_size, options.spreadsheet_safe
        )
        uncertain = with_uncertainty(predictor.bundle, question)
        found = predictor.bundle.uncertainty if uncertain else None
        self.warning = None if found is None else found.too_few(check_confidence(options.confidence or CONFIDENCE))
        self.source = _open_source(options, predictor.engine(options.batch_size).needs, show)
        self.unit = self.source.unit  # what is counted: "row" or "graph"
        self._predictor = predictor
        self._question = replace(question, columns=tuple(self.source.columns), has_smiles=self.source.has_smiles)
        self._read = predictor.molecule_reader(fingerprint=uncertain) if self.source.has_smiles else None
        self.answering = Answering(predictor, self._question, self._read)
        self._workers = _worker_count(self.source, self._read, options.workers)
        self._identity: dict[str, Any] = {
            "model": predictor.bundle.sha256,
            "input": self.source.identity,
            "question": "representations" if options.embed else "predictions",
            "batch size": options.batch_size,
            "confidence": None if found is None else options.confidence,
            "spreadsheet-safe": options.spreadsheet_safe or None,
        }

    @property
    def renamed(self) -> list[str]:
        """Columns of the output that have another name than usual, which a column of the input has already."""
        columns = self.answering.columns
        return [name for name in columns.added if name not in columns.usual]

    def begin(self, output: ResumableOutput) -> int:
        """Open the output; returns how many rows an earlier call has finished."""
        kinds = [*self.source.kinds, *self.answering.columns.kinds]
        output.begin(self._identity, self.answering.header, kinds)
        return output.progress.entries

    def run(
        self, output: ResumableOutput, advance: Advance, cluster: Cluster | None = None, device: str = "cpu"
    ) -> None:
        """Compute and write all rows that are left, then put the output in its place.

        Windows begin at the same rows whether or not a run was interrupted, as only whole windows are saved: the output
        is the same, byte for byte, here and on a ``cluster``, whose workers compute on this ``device``. Raises
        FileFormatError where there are no rows, or the input changed.
        """
        saved = time.monotonic()
        try:
            answered = self._here(output) if cluster is None else self._there(output, cluster, device)
            with contextlib.closing(answered):
                for answers in answered:
                    self._write_window(answers, output)
                    advance(len(answers))
                    if time.monotonic() - saved >= _SECONDS_BETWEEN_SAVES:
                        output.save()
                        saved = time.monotonic()
        except BaseException:
            if output.progress.entries:  # whatever stopped it, the rows so far stay
                with contextlib.suppress(OSError):
                    output.save()
            raise
        if not output.progress.entries:
            raise FileFormatError(f"the input has no {self.unit}s; expected at least one")
        self.source.check_unchanged()
        output.finish()

    def _here(self, output: ResumableOutput) -> Generator[Sequence[Answer]]:
        from pointset.prediction.smiles import in_chunks, threads_beside, with_points

        answering = Answering(self._predictor, self._question, self._read, output.delimiter)
        chunks = in_chunks(self.source.rows(output.progress.entries), answering.engine.window)
        labelled = ((chunk, [row.item for row in chunk]) for chunk in chunks)
        with threads_beside(self._workers, None):
            for chunk, window in with_points(labelled, answering.prepare, self._workers):
                yield answering.of_window(chunk, window)

    def _there(self, output: ResumableOutput, cluster: Cluster, device: str) -> Generator[Sequence[Answer]]:
        from pointset.prediction.smiles import in_chunks

        rows_in, done = self.source.rows_of_file, output.progress.entries
        if rows_in is not None and not cluster.holds(rows_in.is_here):
            rows_in = None
        work = AnsweringElsewhere.of(self._predictor, self._question, self._read, output.delimiter, rows_in, device)
        rows: Iterable[Any] = self.source.rows(done) if rows_in is None else range(done, rows_in.count)
        try:
            for _, answers in cluster.in_order(work, in_chunks(rows, self.answering.engine.window), given_up):
                yield answers
        except ClusterError as error:
            done = output.progress.entries
            kept = f"The first {counted(done, self.unit)} are kept: repeat" if done else "Repeat"
            raise ClusterError(f"{error}\n{kept} the same call to resume, with or without a cluster") from error

    def _write_window(self, answers: Sequence[Answer], output: ResumableOutput) -> None:
        bad = [f"{one.place}: {one.problem}" for one in answers if one.problem]
        before = output.progress
        after = Progress(
            entries=before.entries + len(answers),
            ok=before.ok + len(answers) - len(bad),
            not_ok=before.not_ok + len(bad),
            outside=before.outside + sum(one.outside for one in answers),
            bad=(*before.bad, *bad)[:_MOST_NAMED],
        )
        output.append("".join(one.text for one in answers), after)


def predict_table(
    predictor: Predictor,
    options: PredictionOptions,
    output: Path,
    *,
    client: str | Client | None = None,
    device: str = "cpu",
    overwrite: bool = False,
    restart: bool = False,
    progress: bool | None = None,
) -> Progress:
    """All rows of the input into the output; see :meth:`pointset.Predictor.predict_table`."""
    part = ResumableOutput(output, restart=restart, overwrite=overwrite)
    try:
        with connected(client) as cluster:
            job = TablePrediction(predictor, options, show=progress)
            done, total = job.begin(part), job.source.count()
            rest = None if total is None else max(total - done, 0)
            with progress_bar(f"{job.unit.capitalize()}s", rest, show=progress) as advance:
                job.run(part, advance, cluster, device)
    finally:
        part.close()
    return part.progress


def _open_source(options: PredictionOptions, needs: Needs, show: bool | None) -> Source:
    kind, path = input_kind(options.input), Path(options.input)
    if kind is InputKind.TABLE:
        return TableSource(path, options.smiles, header=options.header, sheet=options.sheet)
    if kind is InputKind.GRAPHS:
        return GraphFileSource(path)
    from pointset.datasets.loading import load

    return DatasetSource(load(options.input, options.data_dir, progress=show), options.part, needs)


def _worker_count(source: Source, read: ReadMolecule | None, wanted: int | None) -> int:
    if wanted is not None:
        check_whole_numbers(0, workers=wanted)
        return wanted
    if not isinstance(source, TableSource):
        return 0
    lines = source.count()
    count = source.file.path.stat().st_size // _BYTES_OF_A_ROW if lines is None else lines
    from pointset.prediction.smiles import workers_for

    slow = isinstance(read, MoleculeReader) and read.conformer_seed is not None
    return workers_for(count * _ROWS_OF_A_CONFORMER if slow else count)
