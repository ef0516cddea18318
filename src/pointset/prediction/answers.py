"""Rows of an input → the lines of the output: the one function of this process and of a cluster's workers.

:class:`Answering` reads the SMILES of a chunk of rows, runs the model and formats what comes out, in the order of the
rows (:class:`OutputColumns`). :class:`AnsweringElsewhere` is the same to be sent: the files of the bundle and the
question. Light to import (no torch).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pointset.datasets.card import Card, Task
from pointset.datasets.molecules.parallel import DIED
from pointset.datasets.molecules.parsing import Unreadable
from pointset.datasets.molecules.reader import ReadMolecule
from pointset.errors import FileFormatError, PointsetError, SpecError
from pointset.files import csv_lines, not_a_formula
from pointset.prediction.sources import InputRow, RowsOfFile
from pointset.training.calibration import CONFIDENCE

if TYPE_CHECKING:
    from pointset.prediction.engine import ModelOutput, Outcomes
    from pointset.prediction.predictor import Predictor
    from pointset.prediction.smiles import Window
    from pointset.training.bundle import Bundle
    from pointset.training.outputs import Column

_OK = "ok"


@dataclass(frozen=True)
class Question:
    """What is asked of a model about each row, and how the answer is written."""

    embed: bool = False  # representations instead of predictions
    level: Literal["graph", "node"] | None = None  # of representations; by default the model's own
    confidence: float | None = CONFIDENCE  # of intervals and sets; None: predictions alone
    batch_size: int = 256
    spreadsheet_safe: bool = False
    columns: Sequence[str] = ()  # of the input
    has_smiles: bool = False


class Answer(NamedTuple):
    """What is written for one row."""

    place: str  # for people: "line 7", "graph 3"
    text: str  # its lines
    problem: str | None = None  # why there is no prediction
    outside: bool = False  # of the model's applicability domain


class Answering:
    """Answers chunks of rows with a model. ``read`` reads SMILES, if there are any; ``delimiter`` is the output's."""

    def __init__(
        self, predictor: Predictor, question: Question, read: ReadMolecule | None = None, delimiter: str = ","
    ):
        uncertain = with_uncertainty(predictor.bundle, question)
        found = predictor.bundle.uncertainty if uncertain else None
        self.engine = predictor.engine(question.batch_size, fingerprint=uncertain)
        if question.embed:
            self.output = predictor.representations(question.level)
        elif found is None:
            self.output = predictor.predictions()
        else:
            self.output = predictor.answers(question.confidence or CONFIDENCE)
        more = () if found is None else found.columns()
        card = None if question.embed else predictor.card
        self.columns = OutputColumns.of(self.output, card, question.columns, question.has_smiles, more)
        self.prepare = None if read is None else self.engine.smiles_to_points(read)
        self._delimiter = delimiter
        self._written: Callable[[str], str] = not_a_formula if question.spreadsheet_safe else str

    @property
    def header(self) -> list[str]:
        """Names of the columns, as they are written."""
        return [*map(self._written, self.columns.header)]

    def __call__(self, rows: Sequence[InputRow]) -> list[Answer]:
        """An answer for each row; all of them are computed together."""
        from pointset.prediction.smiles import with_points

        ((_, window),) = with_points([(None, [row.item for row in rows])], self.prepare, 0)
        return self.of_window(rows, window)

    def of_window(self, rows: Sequence[InputRow], window: Window) -> list[Answer]:
        """The same where the SMILES are read already."""
        outcomes = self.engine.outcomes(window, self.output)
        outside = self.columns.outside(outcomes)
        answers = []
        for place, lines in enumerate(self.columns.lines(rows, window.items, outcomes)):
            text = "".join(csv_lines(([*map(self._written, line)] for line in lines), self._delimiter))
            error = outcomes.errors.get(place)
            answers.append(Answer(rows[place].place, text, None if error is None else _reason(error), outside[place]))
        return answers


def with_uncertainty(bundle: Bundle, question: Question) -> bool:
    """Whether intervals, sets and the domain stand beside the predictions."""
    return not question.embed and question.confidence is not None and bundle.uncertainty is not None


@dataclass(frozen=True)
class AnsweringElsewhere:
    """An :class:`Answering` for other machines: made from these files when the first rows come."""

    name: str  # of the bundle, for messages
    files: Mapping[str, bytes]
    sha256: str  # of the bundle
    question: Question
    read: ReadMolecule | None
    delimiter: str
    rows_in: RowsOfFile | None  # where rows are numbers of those in a file that all machines see
    device: str  # "cpu", "cuda", or "auto" for what each worker has
    _made: list[Answering] = field(default_factory=list, init=False, compare=False, repr=False)
    _lock: Any = field(default_factory=threading.Lock, init=False, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        question: Question,
        read: ReadMolecule | None,
        delimiter: str,
        rows_in: RowsOfFile | None,
        device: str,
    ) -> AnsweringElsewhere:
        """Raises SpecError where the predictor was not read from a file, FileFormatError where that changed since."""
        from pointset.training.bundle_files import DESCRIPTION, BundleFiles

        bundle = predictor.bundle
        if bundle.path is None:
            raise SpecError("the model was not read from a bundle; expected one of pointset.load(path) for a cluster")
        files = BundleFiles(bundle.path).hold()
        if bundle.sha256.encode() not in files.get(DESCRIPTION, b""):  # each worker checks all files
            raise FileFormatError(f"{bundle.path} changed since it was loaded; load it again")
        return cls(str(bundle.path), files, bundle.sha256, question, read, delimiter, rows_in, device)

    def __reduce__(self) -> Any:
        model = self.name, self.files, self.sha256
        return AnsweringElsewhere, (*model, self.question, self.read, self.delimiter, self.rows_in, self.device)

    def __call__(self, given: Sequence[Any]) -> list[Answer]:
        """An answer for each row. One that is given up stands as its number from the end, −1 − number."""
        rows = [row for row in given if isinstance(row, InputRow)]
        if self.rows_in is not None:
            numbers = [number for number in given if isinstance(number, int)]
            found = self.rows_in([max(number, -1 - number) for number in numbers])
            rows = [given_up(row) if number < 0 else row for row, number in zip(found, numbers, strict=True)]
        with self._lock:
            if not self._made:
                self._made.append(self._answering())
        return self._made[0](rows)

    def _answering(self) -> Answering:
        """Every file is checked against its SHA-256, as in any bundle that is read."""
        from pointset.prediction.predictor import Predictor
        from pointset.training.bundle import bundle_of
        from pointset.training.bundle_files import BundleFiles
        from pointset.training.devices import check_device

        bundle = bundle_of(BundleFiles(self.name, self.files))
        if bundle.sha256 != self.sha256:
            raise FileFormatError(
                f"{self.name} reached a worker with another checksum than it was sent with; try again"
            )
        predictor = Predictor(bundle).to(check_device(self.device, precision="32"))
        return Answering(predictor, self.question, self.read, self.delimiter)


def given_up(row: Any) -> Any:
    """What stands in the place of a row, or of its number, that ended the process that read it."""
    return row._replace(item=Unreadable(DIED)) if isinstance(row, InputRow) else -1 - row


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
    def of(
        cls,
        output: ModelOutput,
        card: Card | None,
        columns: Sequence[str],
        has_smiles: bool,
        more: Sequence[Column] = (),
    ) -> OutputColumns:
        """``predicted_<target>``, and ``probability_<class>`` of classes; of representations (no card) ``e0``, …"""
        classes = card.classes if card is not None and card.task is Task.MULTI_CLASS else ()
        if card is None:
            computed = [f"e{channel}" for channel in range(output.width)]
        else:
            computed = [f"predicted_{name}" for name in card.target_names[: 1 if classes else None]]
        computed += [f"probability_{name}" for name in classes]
        return cls(columns, computed, classes, output.of_nodes, has_smiles and output.of_nodes, more)

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

    @property
    def kinds(self) -> list[str]:
        """What the cells of the added columns are, as Arrow calls it."""
        numbers = len(self.computed) - len(self.classes) if self.classes else len(self.computed)
        computed = ["string"] * numbers if self.classes else ["double"] * numbers
        computed += ["double"] * len(self.classes)
        more = ["string" if column.classes or column.flag else "double" for column in self.more]
        return [*["string"] * self.of_atoms, *["int64"] * self.of_nodes, *computed, *more, "string"]

    def outside(self, outcomes: Outcomes) -> list[bool]:
        """Of each item whether it is outside of the model's domain, which the last of its numbers says, if any do."""
        judged = bool(self.more) and self.more[-1].flag and len(outcomes.rows) > 0
        flags = iter((outcomes.rows[:, -1] == 0).tolist() if judged else itertools.repeat(False))
        return [sum(next(flags) for _ in range(count)) > 0 for count in outcomes.counts.tolist()]

    def _free(self, name: str) -> str:
        taken = {*self.input} | ({*self.usual} - {name} if name in self.input else set())
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        return next(candidate for candidate in candidates if candidate not in taken)

    def lines(self, rows: Sequence[InputRow], items: Sequence[Any], outcomes: Outcomes) -> Iterator[list[list[str]]]:
        """The output of each row: one line, or one for each node; one with only its status where there is an error.

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
                yield [[*row.cells, *atoms, *empty, _reason(outcomes.errors[place])]]
                continue
            lines = []
            for node, every in enumerate(itertools.islice(computed, counts[place])):
                numbers, added = (every[:width], every[width:]) if self.more else (every, [])
                chosen = [self.classes[max(range(len(numbers)), key=numbers.__getitem__)]] if self.classes else []
                values = [f"{number:.9g}" for number in numbers]
                before = [*row.cells, *atoms, *[str(node)] * self.of_nodes]
                lines.append([*before, *chosen, *values, *cells(self.more, added), _OK])
            yield lines


def _reason(error: PointsetError) -> str:
    return " ".join(str(error).split())
