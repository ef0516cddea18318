"""A prediction from files to a file, as the command line asks for it (:class:`Job`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pointset.datasets.molecules.kinds import ReadMolecule
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.errors import SpecError
from pointset.progress import Advance
from pointset.training.prediction.columns import OutputColumns
from pointset.training.prediction.engine import Engine
from pointset.training.prediction.graph_source import DatasetSource, FileSource
from pointset.training.prediction.part_file import PartFile
from pointset.training.prediction.question import Question
from pointset.training.prediction.smiles_pool import threads_beside, workers_for
from pointset.training.prediction.sources import Kind, Source, kind_of
from pointset.training.prediction.stream import Stream, run_stream
from pointset.training.prediction.table_source import TableSource
from pointset.training.predictor import Predictor

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
