"""One prediction from an input to a table of predictions, in constant memory (:class:`TablePrediction`).

Rows come from a :class:`~pointset.prediction.sources.Source`, a window at a time; other processes make points of their
SMILES (:mod:`pointset.prediction.smiles`), an :class:`~pointset.prediction.engine.Engine` runs the model on batches of
like size, :class:`OutputColumns` formats what comes out in the order of the rows, and a
:class:`~pointset.prediction.journal.ResumableOutput` keeps it. Light to import (no torch).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pointset.datasets.card import Card, Task
from pointset.datasets.molecules.reader import MoleculeReader, ReadMolecule
from pointset.errors import FileFormatError, PointsetError
from pointset.files import not_a_formula
from pointset.prediction.journal import Progress, ResumableOutput
from pointset.prediction.sources import (
    DatasetSource,
    GraphFileSource,
    InputKind,
    InputRow,
    Source,
    TableSource,
    input_kind,
)
from pointset.progress import Advance
from pointset.specs import check_whole_numbers
from pointset.training.calibration import CONFIDENCE, check_confidence

if TYPE_CHECKING:
    from pointset.prediction.engine import ModelOutput, Outcomes
    from pointset.prediction.features import Needs
    from pointset.prediction.predictor import Predictor
    from pointset.prediction.smiles import Window
    from pointset.training.outputs import Column

_SECONDS_BETWEEN_SAVES = 1.0
_MOST_NAMED = 5  # bad rows that the summary names
_BYTES_OF_A_ROW = 20  # of a compressed table, whose lines are not counted: enough to recognise a long one
_ROWS_OF_A_CONFORMER = 50  # SMILES that are read in the time that one conformer takes
_OK = "ok"


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
        found = None if options.embed or options.confidence is None else predictor.bundle.uncertainty
        self.warning = None if found is None else found.too_few(check_confidence(options.confidence or CONFIDENCE))
        self._engine = predictor.engine(options.batch_size, fingerprint=found is not None)
        self.source = _open_source(options, self._engine.needs, show)
        self.unit = self.source.unit  # what is counted: "row" or "graph"
        self._read = predictor.molecule_reader(fingerprint=found is not None) if self.source.has_smiles else None
        if options.embed:
            self._output = predictor.representations(options.level)
        elif found is None:
            self._output = predictor.predictions()
        else:
            self._output = predictor.answers(options.confidence or CONFIDENCE)
        more = () if found is None else found.columns()
        self._columns = OutputColumns.of(self._output, None if options.embed else predictor.card, self.source, more)
        self._workers = _worker_count(self.source, self._read, options.workers)
        self._identity: dict[str, Any] = {
            "model": predictor.bundle.sha256,
            "input": self.source.identity,
            "question": "representations" if options.embed else "predictions",
            "batch size": options.batch_size,
            "confidence": None if found is None else options.confidence,
            "spreadsheet-safe": options.spreadsheet_safe or None,
        }
        self._written: Callable[[str], str] = not_a_formula if options.spreadsheet_safe else str

    @property
    def renamed(self) -> list[str]:
        """Columns of the output that have another name than usual, which a column of the input has already."""
        return [name for name in self._columns.added if name not in self._columns.usual]

    def begin(self, output: ResumableOutput) -> int:
        """Open the output; returns how many rows an earlier call has finished."""
        output.begin(self._identity, [*map(self._written, self._columns.header)])
        return output.progress.entries

    def run(self, output: ResumableOutput, advance: Advance) -> None:
        """Compute and write all rows that are left, then put the output in its place.

        Windows begin at the same rows whether or not a run was interrupted, as only whole windows are saved: the output
        is the same, byte for byte. Raises FileFormatError where there are no rows, or the input changed.
        """
        from pointset.prediction.smiles import in_chunks, threads_beside, with_points

        rows = itertools.islice(self.source.rows(), output.progress.entries, None)
        chunks = ((chunk, [row.item for row in chunk]) for chunk in in_chunks(rows, self._engine.window))
        prepare = None if self._read is None else self._engine.smiles_to_points(self._read)
        saved = time.monotonic()
        try:
            with threads_beside(self._workers, None):
                for chunk, window in with_points(chunks, prepare, self._workers):
                    self._write_window(chunk, window, output)
                    advance(len(chunk))
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

    def _write_window(self, chunk: Sequence[InputRow], window: Window, output: ResumableOutput) -> None:
        outcomes = self._engine.outcomes(window, self._output)
        lines = self._columns.lines(chunk, window.items, outcomes)
        written = [[*map(self._written, line)] for line in lines]
        bad = [f"{chunk[place].place}: {_reason(outcomes.errors[place])}" for place in sorted(outcomes.errors)]
        before = output.progress
        after = Progress(
            entries=before.entries + len(chunk),
            ok=before.ok + len(chunk) - len(bad),
            not_ok=before.not_ok + len(bad),
            outside=before.outside + self._columns.outside(outcomes),
            bad=(*before.bad, *bad)[:_MOST_NAMED],
        )
        output.append(written, after)


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


@dataclass(frozen=True)
class OutputColumns:
    """The input's columns, then where it applies the node, what was computed, and the status."""

    input: Sequence[str]
    computed: Sequence[str]
    classes: Sequence[str]  # a multi-class prediction begins with the name of the class
    of_nodes: bool
    of_atoms: bool  # nodes are atoms of a SMILES: say in which writing they are counted
    more: Sequence[Column] = ()  # intervals, sets and domain, after what is computed

    @classmethod
    def of(cls, output: ModelOutput, card: Card | None, source: Source, more: Sequence[Column] = ()) -> OutputColumns:
        """``predicted_<target>``, and ``probability_<class>`` of classes; of representations (no card) ``e0``, …"""
        classes = card.classes if card is not None and card.task is Task.MULTI_CLASS else ()
        if card is None:
            computed = [f"e{channel}" for channel in range(output.width)]
        else:
            computed = [f"predicted_{name}" for name in card.target_names[: 1 if classes else None]]
        computed += [f"probability_{name}" for name in classes]
        of_atoms = source.has_smiles and output.of_nodes
        return cls(source.columns, computed, classes, output.of_nodes, of_atoms, more)

    @property
    def usual(self) -> list[str]:
        """Names of the columns that are added."""
        before = [*["read_as"] * self.of_atoms, *["node"] * self.of_nodes, *self.computed]
        return [*before, *(column.name for column in self.more), "status"]

    @property
    def added(self) -> list[str]:
        """The same; a name that the input has too gets a number."""
        return [self._free(name) for name in self.usual]

    @property
    def header(self) -> list[str]:
        """All names."""
        return [*self.input, *self.added]

    def outside(self, outcomes: Outcomes) -> int:
        """How many are outside of the model's domain, which the last of the numbers says where there is one."""
        judged = bool(self.more) and self.more[-1].flag and len(outcomes.rows) > 0
        return int((outcomes.rows[:, -1] == 0).sum()) if judged else 0

    def _free(self, name: str) -> str:
        taken = {*self.input} | ({*self.usual} - {name} if name in self.input else set())
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        return next(candidate for candidate in candidates if candidate not in taken)

    def lines(self, rows: Sequence[InputRow], items: Sequence[Any], outcomes: Outcomes) -> Iterator[list[str]]:
        """The output of rows: one line each, or one for each node; one with only its status where there is an error.

        ``items`` are what the rows were read as, ``outcomes`` what was computed.
        """
        from pointset.training.outputs import cells

        computed = iter(outcomes.rows.tolist())
        width = len(self.computed) - bool(self.classes)  # numbers of a prediction; the name of a class is none
        counts = outcomes.counts.tolist()
        for place, (row, item) in enumerate(zip(rows, items, strict=True)):
            atoms = [str(getattr(item, "smiles", ""))] if self.of_atoms else []
            if not counts[place]:
                empty = [""] * (self.of_nodes + len(self.computed) + len(self.more))
                yield [*row.cells, *atoms, *empty, _reason(outcomes.errors[place])]
            for node, every in enumerate(itertools.islice(computed, counts[place])):
                numbers, added = (every[:width], every[width:]) if self.more else (every, [])
                chosen = [self.classes[max(range(len(numbers)), key=numbers.__getitem__)]] if self.classes else []
                values = [f"{number:.9g}" for number in numbers]
                before = [*row.cells, *atoms, *[str(node)] * self.of_nodes]
                yield [*before, *chosen, *values, *cells(self.more, added), _OK]


def _reason(error: PointsetError) -> str:
    return " ".join(str(error).split())
