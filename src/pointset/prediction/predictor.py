"""A trained model in Python: ``pointset.load(path).predict([...])`` (:func:`load`, :class:`Predictor`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pointset.datasets.card import Card, Level, Task
from pointset.datasets.molecules.parsing import require_rdkit
from pointset.datasets.molecules.reader import MoleculeReader, ReadMolecule, reader_named
from pointset.encoders.batch import PointBatch
from pointset.encoders.layers import Level as LevelName
from pointset.encoders.model import PointModel
from pointset.errors import GraphError, SpecError
from pointset.native.build import status as native_status
from pointset.points.graphs import Graph
from pointset.points.inputs import ACCEPTED
from pointset.points.point_set import PointSet
from pointset.prediction.engine import Engine, ModelOutput, or_error
from pointset.prediction.features import uses_positions
from pointset.prediction.smiles import Window, in_chunks, threads_beside, with_points, workers_for
from pointset.progress import progress_bar
from pointset.training.bundle import Bundle, read_bundle
from pointset.training.outputs import as_predictions

OnError = Literal["raise", "nan"]


def load(path: str | Path) -> Predictor:
    """A trained model, ready to predict: from the folder of a run, or from a bundle (a folder or a ``.zip``).

    Raises:
        MissingDataError: there is nothing at this path.
        FileFormatError: it is not a bundle, is damaged, was changed, or was written by a newer pointset.

    Example:
        >>> model = pointset.load("runs/solubility")  # doctest: +SKIP
        >>> model.predict(["CCO", "c1ccccc1"])  # doctest: +SKIP
        tensor([[1.0834], [-1.6172]], dtype=torch.float64)
    """
    return Predictor(read_bundle(path))


class Predictor:
    """Predicts for SMILES, PyG ``Data``, networkx graphs, whatever :func:`pointset.to_points` takes, and point sets.

    Graphs must carry the features that the model was trained with: ``x``, ``edge_attr`` and ``pos`` as its ``card``
    says. What the model does not use is ignored. A prediction depends on its graph alone, not on the others.
    """

    def __init__(self, bundle: Bundle):
        native_status()  # a wrong POINTSET_NATIVE is the caller's mistake, not a fault of every row
        self.bundle = bundle
        self.card: Card = bundle.card
        self.model: PointModel = bundle.model

    @property
    def target_names(self) -> tuple[str, ...]:
        """What is predicted; the columns of a regression and of labels."""
        return self.card.target_names

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of a multi-class task, which are its columns; empty otherwise."""
        return self.card.classes

    @property
    def about(self) -> Mapping[str, Any]:
        """What was recorded about the training."""
        return self.bundle.about

    def __repr__(self) -> str:
        card, settings = self.card, self.model.settings
        units = ", ".join(target.label for target in card.targets[:4]) + (", …" if len(card.targets) > 4 else "")
        what = f"{len(card.classes)} classes of {units}" if card.classes else units
        made_of = f"{settings.preset}, {settings.layers} × {settings.dim}" if settings else "its own parts"
        of = "nodes" if card.level is Level.NODE else "molecules" if card.molecules else "graphs"
        return (
            f"Predictor({card.task.value} of {of}: {what}; {made_of}, {self.model.num_parameters:,} parameters; "
            f"trained on {card.title or card.name})"
        )

    def predict(
        self, items: Any, *, batch_size: int = 256, progress: bool | None = None, on_error: OnError = "raise"
    ) -> Any:
        """Predictions, float64.

        Args:
            items: SMILES, graphs or point sets, also mixed; or one of them alone. Graphs are what
                :func:`pointset.to_points` takes.
            batch_size: most graphs that are computed together; the results do not depend on it.
            progress: whether to show a bar; by default where there is a terminal.
            on_error: ``"raise"`` stops at the first bad item; with ``"nan"`` its row is NaN.

        Returns:
            (G, k): numbers in the targets' own units, probabilities of labels, or probabilities (G, classes). A model
            of nodes gives a list with (n, k) for each graph.

        Raises:
            PointsetError: an item cannot be read, or does not fit the model; the message names its position.
            MissingExtraError: SMILES need RDKit.
        """
        return self._run(items, self.predictions(), batch_size, progress, on_error)

    def predict_classes(self, items: Any, *, batch_size: int = 256, progress: bool | None = None) -> list[Any]:
        """The name of the most probable class of each graph; a model of nodes gives a list of names for each graph.

        Raises:
            SpecError: the model does not choose among classes.
            PointsetError: as :meth:`predict`.
        """
        if self.card.task is not Task.MULTI_CLASS:
            raise SpecError(
                f"the model is for {self.card.task.value}; expected classes to choose from. Use predict(…), and for "
                "labels compare the probabilities with a bound"
            )
        predicted = self.predict(items, batch_size=batch_size, progress=progress)
        if self.card.level is Level.NODE:
            return [self.class_names(one) for one in predicted]
        return self.class_names(predicted)

    def class_names(self, probabilities: Tensor) -> list[str]:
        """(rows, classes) → the most probable class of each row."""
        return [self.classes[number] for number in probabilities.argmax(-1).tolist()]

    def embed(
        self,
        items: Any,
        *,
        level: LevelName | None = None,
        batch_size: int = 256,
        progress: bool | None = None,
        on_error: OnError = "raise",
    ) -> Any:
        """Representations before the last linear map: (G, d), or at level ``"node"`` a list with (n, d) for each graph.

        ``level`` is ``"graph"`` or ``"node"``, by default that of the model; the others are as for :meth:`predict`.
        """
        return self._run(items, self.representations(level), batch_size, progress, on_error)

    def predictions(self) -> ModelOutput:
        """(rows, k) float64: regression in the targets' own units, classification as probabilities."""

        def rows(batch: PointBatch) -> Tensor:
            with torch.inference_mode():
                outputs = self.model(batch).to("cpu", torch.float64)
            return as_predictions(outputs, self.card.task, self.bundle.scale)

        return ModelOutput(rows, self.card.outputs, self.model.readout.level == "node", torch.float64)

    def representations(self, level: LevelName | None) -> ModelOutput:
        """(rows, d) of the model's own type: what the last linear map sees, of each graph or each node.

        At the model's own level this is :meth:`pointset.PointModel.embed`. A model of graphs has scalars of nodes too,
        before they are pooled, and those of a model of nodes can be pooled.
        """
        if level not in (None, "graph", "node"):
            raise SpecError(f"got level={level!r}; expected 'graph' or 'node'")
        of_nodes = (level or self.model.readout.level) == "node"

        def rows(batch: PointBatch) -> Tensor:
            with torch.inference_mode():
                return self.model.embed(batch, level="node" if of_nodes else "graph").cpu()

        dtype = next(self.model.parameters()).dtype
        return ModelOutput(rows, self.model.readout.linear.in_features, of_nodes, dtype)

    def engine(self, batch_size: int) -> Engine:
        """What runs the model on chunks of items."""
        self.model.eval()
        return Engine(self.model, self.bundle.weighted_edges, batch_size=batch_size)

    def molecule_reader(self) -> ReadMolecule:
        """How this model's SMILES are read: with OGB's features, or by the function of its kind of molecules.

        Raises SpecError where the model was not trained on molecules, or needs positions that SMILES do not have.
        """
        if self.card.molecules is None:
            raise SpecError(
                f"got SMILES, but the model was trained on {self.card.title or self.card.name}, whose graphs are not "
                "made from SMILES; expected graphs with the same features"
            )
        read = reader_named(self.card.molecules, self.bundle.molecule_reader)
        makes_positions = isinstance(read, MoleculeReader) and read.conformer_seed is not None
        if uses_positions(self.model) and not makes_positions:
            raise SpecError("got SMILES, but the model needs positions in space; expected graphs with pos")
        require_rdkit()
        return read

    def _run(self, items: Any, output: ModelOutput, batch_size: int, progress: bool | None, on_error: OnError) -> Any:
        if on_error not in ("raise", "nan"):
            raise SpecError(f"got on_error={on_error!r}; expected 'raise' or 'nan'")
        engine, given = self.engine(batch_size), _as_items(items)
        total = len(given) if isinstance(given, Sized) else None
        smiles = sum(isinstance(item, str) for item in given) if isinstance(given, Sequence) else 0
        workers = workers_for(smiles) if self.card.molecules else 0
        prepare = engine.smiles_to_points(self.molecule_reader()) if workers else partial(self._read, engine)
        chunks = ((None, chunk) for chunk in in_chunks(given, engine.window))
        results: list[Tensor] = []
        done = 0
        with threads_beside(workers), progress_bar("Predicting", total, show=progress) as advance:
            for _, window in with_points(chunks, prepare, workers):
                outcomes = engine.outcomes(window, output)
                if outcomes.errors and on_error == "raise":
                    place = min(outcomes.errors)
                    error = outcomes.errors[place]
                    raise type(error)(f"item {done + place}: {error}") from None
                rows = outcomes.with_nan(output)
                results += rows if output.of_nodes else [torch.cat(rows)]
                done += len(window.items)
                advance(len(window.items))
        if output.of_nodes:
            return results
        return torch.cat(results) if results else torch.empty(0, output.width, dtype=output.dtype)

    def _read(self, engine: Engine, smiles: Sequence[str]) -> Window:
        """SMILES, where there are any: whether the model reads them is asked only then."""
        read = or_error(lambda model: model.molecule_reader(), self)
        return engine.smiles_to_points(read)(smiles)


def _as_items(items: Any) -> Iterable[Any]:
    """The items; one alone stands for a list of one, and a PyG batch for its graphs."""
    if _is_pyg(items) and hasattr(items, "to_data_list"):  # a Batch
        several: list[Any] = items.to_data_list()
        return several
    if _is_one(items):
        return [items]
    if isinstance(items, (bytes, dict)) or not (isinstance(items, Iterable) or hasattr(items, "__getitem__")):
        raise GraphError(f"got {type(items).__name__}; expected SMILES, point sets or graphs, each {ACCEPTED}")
    return items  # type: ignore[no-any-return]


def _is_one(items: Any) -> bool:
    """Whether it is a SMILES, a point set or a graph, and not several."""
    if isinstance(items, (str, PointSet, Graph, Tensor)) or (hasattr(items, "is_directed") and hasattr(items, "adj")):
        return True
    if isinstance(items, np.ndarray):
        return items.dtype.kind not in "OUT"  # an array of SMILES is several
    if isinstance(items, tuple) and len(items) == 2 and isinstance(items[0], Integral):
        return True  # (num_nodes, edges)
    return hasattr(items, "tocoo") or _is_pyg(items)


def _is_pyg(items: Any) -> bool:
    """A Data or Batch; what was never imported cannot have been passed."""
    data = sys.modules.get("torch_geometric.data")
    return data is not None and isinstance(items, data.Data)
