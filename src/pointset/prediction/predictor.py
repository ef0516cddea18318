"""A trained model in Python: ``pointset.load(path).predict([...])`` (:func:`load`, :class:`Predictor`)."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import partial
from itertools import compress
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Flags
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.molecules.parsing import is_mol, require_rdkit, smiles_of
from pointset.datasets.molecules.reader import MoleculeReader, ReadMolecule, reader_named
from pointset.datasets.own.descriptor_table import DescribedReader, DescriptorTable, read_descriptors
from pointset.encoders.attributions import Method
from pointset.encoders.batch import PointBatch
from pointset.encoders.layers import Level as LevelName
from pointset.encoders.model import PointModel
from pointset.errors import GraphError, SpecError
from pointset.native.build import status as native_status
from pointset.points.graphs import Graph
from pointset.points.inputs import ACCEPTED
from pointset.points.point_set import PointSet
from pointset.prediction.display import PredictionTable, prediction_table, predictor_card
from pointset.prediction.engine import Engine, ModelOutput, or_error
from pointset.prediction.features import uses_positions
from pointset.prediction.smiles import Window, in_chunks, threads_beside, with_points, workers_for
from pointset.progress import progress_bar
from pointset.training.bundle import Bundle, read_bundle
from pointset.training.calibration import CONFIDENCE, check_confidence
from pointset.training.outputs import as_predictions, mean_outputs
from pointset.training.uncertainty import Seen, Uncertainty

if TYPE_CHECKING:
    from distributed import Client

    from pointset.encoders.export import Kind
    from pointset.encoders.export_files import Exported
    from pointset.prediction.attributions import Attribution
    from pointset.prediction.journal import Progress

OnError = Literal["raise", "nan"]


def load(path: str | Path, *, descriptors: str | Path | None = None, public_key: str | Path | None = None) -> Predictor:
    """A trained model, ready to predict: from the folder of a run, from a bundle (a folder or a ``.zip``), or by name.

    A name is that of a model that comes with the package (:func:`pointset.models.names`); a path that exists comes
    first. ``descriptors`` is a table of them, for a model that was trained with one (``model.descriptors=FILE``).
    ``public_key`` is the file of the key that it must be signed with (``pointset bundle sign``); by default signatures
    are not looked at.

    Raises:
        MissingDataError: there is nothing at this path, and no model of this name.
        FileFormatError: it is not a bundle, is damaged, was changed, or was written by a newer pointset.
        SignatureError: it is not signed with this key.

    Example:
        >>> model = pointset.load("solubility")  # doctest: +SKIP
        >>> model.predict(["CCO", "c1ccccc1"])  # doctest: +SKIP
        tensor([[1.0834], [-1.6172]], dtype=torch.float64)
    """
    return Predictor(read_bundle(path, public_key=public_key), descriptors=descriptors)


class PredictedIntervals(NamedTuple):
    """Predictions of G graphs (or n nodes), and how far to trust them; NaN where nothing can be promised."""

    prediction: Tensor  # (G, k) numbers in the targets' own units, or probabilities
    lower: Tensor | None  # (G, k) of a regression
    upper: Tensor | None
    std: Tensor | None  # (G, targets) of the error of a number; of a probability, over the members of an ensemble
    sets: list[list[tuple[str, ...]]] | None  # for each graph and label the classes that are not ruled out
    confidence: float

    @classmethod
    def of(cls, rows: Tensor, found: Uncertainty, confidence: float) -> PredictedIntervals:
        """From rows of :meth:`Predictor.answers`."""
        at = found.card.outputs
        parts: dict[str, list[Tensor]] = {"lower": [], "upper": [], "std": [], "set": []}
        sets = []
        for column in found.columns():
            numbers, at = rows[:, at : at + column.width], at + column.width
            kind = column.name.partition("_")[0]
            if kind == "set":
                sets.append([tuple(compress(column.classes, row)) for row in numbers.tolist()])
            elif kind in parts and not column.flag:
                parts[kind].append(numbers)
        lower, upper, std = (torch.cat(parts[name], 1) if parts[name] else None for name in ("lower", "upper", "std"))
        by_graph = [list(row) for row in zip(*sets, strict=True)] if sets else None
        return cls(rows[:, : found.card.outputs], lower, upper, std, by_graph, confidence)


class PredictedDomain(NamedTuple):
    """How near G graphs are to the training part."""

    similarity: Tensor | None  # (G,) of molecules: Tanimoto to the nearest training molecule; NaN without fingerprint
    in_domain: Tensor  # (G,) whether the model knows graphs like this one


class Predictor:
    """Predicts for SMILES, RDKit molecules, point sets, and graphs: PyG ``Data``, networkx, whatever
    :func:`pointset.to_points` takes.

    Graphs must carry the features that the model was trained with: ``x``, ``edge_attr`` and ``pos`` as its ``card``
    says. What the model does not use is ignored. A prediction depends on its graph alone, not on the others.

    An ensemble has several ``models``, and predicts their mean: of numbers, or of probabilities.
    """

    def __init__(self, bundle: Bundle, *, descriptors: str | Path | None = None):
        native_status()  # a wrong POINTSET_NATIVE is the caller's mistake, not a fault of every row
        self.bundle = bundle
        self.card: Card = bundle.card
        self.models: tuple[PointModel, ...] = bundle.models
        self.model: PointModel = bundle.model  # the first member, which has the settings of all
        self.descriptors = None if descriptors is None else Path(descriptors)

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
        if len(self.models) > 1:
            made_of = f"{len(self.models)} members of {made_of}"
        of = f"{card.level}s" if card.level is not Level.GRAPH else "molecules" if card.molecules else "graphs"
        return (
            f"Predictor({card.task.value} of {of}: {what}; {made_of}, {self.num_parameters:,} parameters; "
            f"trained on {card.title or card.name})"
        )

    def _repr_html_(self) -> str:
        return predictor_card(self)

    @property
    def num_parameters(self) -> int:
        """Of all members together."""
        return sum(model.num_parameters for model in self.models)

    def summary(self) -> None:
        """Print :meth:`pointset.PointModel.summary`: a table of the model's parts; of an ensemble those of a member."""
        self.model.summary()
        if len(self.models) > 1:
            print(f"{len(self.models)} members, {self.num_parameters:,} parameters in all")

    def to(self, device: str | torch.device) -> Predictor:
        """Compute on this device; returns itself."""
        for model in self.models:
            model.to(device)
        return self

    def predict(
        self, items: Any, *, batch_size: int = 256, progress: bool | None = None, on_error: OnError = "raise"
    ) -> Any:
        """Predictions, float64.

        Args:
            items: SMILES, RDKit molecules, graphs or point sets, also mixed; or one of them alone. A molecule gives the
                same result as its SMILES. Graphs are what :func:`pointset.to_points` takes.
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
        self.check_needs_no_pairs()
        return self._run(items, self.predictions(), batch_size, progress, on_error)

    def predict_pairs(self, graph: Any, pairs: Any) -> Tensor:
        """How probable it is that two nodes of a graph are joined, (P, 1) float64, by a model of links.

        Args:
            graph: the graph with the edges that are known; what :func:`pointset.to_points` takes, or a point set.
            pairs: (P, 2) numbers of nodes.

        Raises:
            SpecError: the model is not one of links, or a pair names a node that is not there.
        """
        if self.card.level is not Level.EDGE:
            raise SpecError(f"the model predicts for {self.card.level}s; expected one of links. Use predict(…)")
        asked = torch.as_tensor(pairs).to(next(self.model.parameters()).device)
        return self.predictions().rows(dataclasses.replace(self.model.read([graph]), pairs=asked))

    def table(
        self,
        items: Any,
        confidence: float = CONFIDENCE,
        *,
        batch_size: int = 256,
        progress: bool | None = None,
    ) -> PredictionTable:
        """Predictions row by row, which a notebook shows with structures; ``items`` are as for :meth:`predict`.

        Where the model has them, intervals or sets of this confidence, similarity and domain stand beside them. A bad
        item has a row too, whose status says why. The table has ``rows`` (plain dictionaries) and ``to_csv``.

        Raises:
            SpecError: the model predicts for nodes or pairs, or the confidence is not between 0 and 1.
        """
        if self.card.level is not Level.GRAPH:
            raise SpecError(f"the model predicts for {self.card.level}s; expected one of whole graphs. Use predict(…)")
        given = list(_as_items(items))
        check_confidence(confidence)
        output = self.predictions() if self.bundle.uncertainty is None else self.answers(confidence)
        rows = self._run(given, output, batch_size, progress, "nan", fingerprint=True)
        return prediction_table(self, given, rows)

    def predict_table(
        self,
        table: str | Path,
        output: str | Path,
        *,
        client: str | Client | None = None,
        device: str = "cpu",
        overwrite: bool = False,
        restart: bool = False,
        progress: bool | None = None,
        **options: Any,
    ) -> Progress:
        """Predict for every row of a table or graph of a file, as ``pointset predict`` does, in constant memory.

        Args:
            table: a table of SMILES (also Parquet), graph files, or the name of a dataset.
            output: the file to write: ``.csv``, ``.tsv`` or ``.parquet``. A call that was interrupted is resumed by
                the same call.
            client: a ``distributed.Client``, or the address of a Dask scheduler, whose workers compute; the output is
                the same, byte for byte. ``"local:4"`` starts four processes for this call.
            device: of the workers: ``"cpu"``, ``"cuda"``, or ``"auto"`` for what each has.
            overwrite: replace an output that exists.
            restart: discard what an earlier call left instead of resuming.
            progress: whether to show a bar; by default where there is a terminal.
            options: further ones of :class:`pointset.prediction.PredictionOptions`, such as ``smiles="structure"``,
                ``confidence=0.8``, ``workers=2``, or ``embed=True`` for representations.

        Returns:
            How many rows were answered, and which were not.

        Raises:
            PointsetError: the input cannot be read, does not fit the model, or the output exists.
            ClusterError: the cluster cannot be reached, or was lost; what is done is kept for the next call.
        """
        from pointset.prediction.tables import PredictionOptions, predict_table

        if unknown := set(options) - {one.name for one in dataclasses.fields(PredictionOptions)}:
            raise SpecError(f"got the option {unknown.pop()!r}; expected one of PredictionOptions")
        chosen = PredictionOptions(str(table), **options)
        more: dict[str, Any] = {"overwrite": overwrite, "restart": restart, "progress": progress}
        return predict_table(self, chosen, Path(output), client=client, device=device, **more)

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
        Of an ensemble those of the members stand side by side: (G, members · d).
        """
        return self._run(items, self.representations(level), batch_size, progress, on_error)

    def predict_interval(
        self,
        items: Any,
        confidence: float = CONFIDENCE,
        *,
        batch_size: int = 256,
        progress: bool | None = None,
        on_error: OnError = "raise",
    ) -> Any:
        """Predictions with intervals (numbers) or sets (classes) that hold the truth with this probability.

        The probability is that of rows like those of the validation part, on which the intervals were calibrated.

        Returns:
            :class:`PredictedIntervals`, of all graphs. A model of nodes gives a list with one for each graph.

        Raises:
            SpecError: the model was written without a calibration, or the confidence is not between 0 and 1.
            PointsetError: as :meth:`predict`.
        """
        self.check_needs_no_pairs()
        found = self._uncertainty("intervals")
        if said := found.too_few(check_confidence(confidence)):
            warnings.warn(said, stacklevel=2)
        rows = self._run(items, self.answers(confidence), batch_size, progress, on_error, fingerprint=True)
        if self.card.level is Level.NODE:
            return [PredictedIntervals.of(one, found, confidence) for one in rows]
        return PredictedIntervals.of(rows, found, confidence)

    def domain(
        self, items: Any, *, batch_size: int = 256, progress: bool | None = None, on_error: OnError = "raise"
    ) -> PredictedDomain:
        """How near graphs are to the training part, and whether they are in the model's applicability domain.

        Raises:
            SpecError: the model has no domain: it is one of nodes, or was written without.
            PointsetError: as :meth:`predict`.
        """
        found = self._uncertainty("an applicability domain")
        if found.domain is None:
            raise SpecError("the model has no applicability domain; expected a model of graphs, with 20 to train on")
        rows = self._run(items, self.answers(CONFIDENCE), batch_size, progress, on_error, fingerprint=True)
        similarity = None if found.domain.fingerprints is None else rows[:, -2]
        return PredictedDomain(similarity, rows[:, -1] == 1)

    def _uncertainty(self, what: str) -> Uncertainty:
        found = self.bundle.uncertainty
        if found is None:
            raise SpecError(
                f"the model was written without {what}; expected one that `pointset train` wrote. Train it again"
            )
        return found

    def member_outputs(self, batch: PointBatch, first: list[Tensor] | None = None) -> Tensor:
        """(members, rows, k) float64 of a batch: numbers in the targets' own units, or logits.

        Their mean is the prediction, of logits that of the probabilities; their spread says how sure it is. The first
        member's representations (rows, d) are appended to ``first``, where it is given.
        """
        with torch.inference_mode():
            outputs: list[Tensor] = []
            for model in self.models:
                if first is None or outputs:
                    outputs.append(model(batch).to("cpu", torch.float64))
                else:  # in one pass
                    first.append(model.embed(batch))
                    outputs.append(model.head(first[0], batch).to("cpu", torch.float64))
        members = torch.stack(outputs)
        return members if self.bundle.scale is None else self.bundle.scale.restore(members)

    def explain(
        self,
        smiles: Any,
        target: str | None = None,
        *,
        method: Method = "gradients",
        progress: bool | None = None,
    ) -> list[Attribution]:
        """What each atom and bond of molecules adds to the prediction; each shows itself as a drawing in a notebook.

        Args:
            smiles: one molecule or several, as SMILES or as molecules of RDKit.
            target: the target, or the class, to explain; by default the only target, or the predicted class.
            method: ``"gradients"``, or ``"shapley"``, which is slower: :mod:`pointset.encoders.attributions`.
            progress: whether to show a bar; by default where there is a terminal.

        Raises:
            SpecError: not a model of molecules, a model of nodes, one that was trained before there were explanations,
                or a target that it does not have.
            MoleculeError: a SMILES cannot be read; the message names its position.
            MissingExtraError: RDKit is not installed.

        Example:
            >>> (one,) = pointset.load("runs/solubility").explain("CCO")  # doctest: +SKIP
            >>> one.prediction, one.baseline, one.atoms  # doctest: +SKIP
            (1.083, -0.212, array([-0.214, 0.096, 1.302]))
        """
        from pointset.prediction.attributions import explained

        return explained(self, list(_as_items(smiles)), target, method, progress)

    def export(self, path: str | Path, *, nodes: int | tuple[int, int] = (1, 64)) -> Exported:
        """Write the model as a ``.pt2`` (torch.export) or ``.onnx`` that runs without pointset, one graph a call.

        It gives what :meth:`predict` gives; :meth:`export_inputs` shows what it takes. The arguments and errors are
        those of :meth:`pointset.PointModel.export`.
        """
        from pointset.prediction.export import export_predictor

        return export_predictor(self, path, nodes)

    def export_inputs(self, item: Any, kind: Kind = "pt2") -> dict[str, Tensor]:
        """The tensors of one SMILES, molecule or graph, by name, as an exported file of this kind takes them.

        ``kind``: ``"pt2"`` or ``"onnx"``. The errors are those of :meth:`predict`.
        """
        from pointset.prediction.export import predictor_inputs

        return predictor_inputs(self, item, kind)

    def check_needs_no_pairs(self) -> None:
        """Refuse to predict for whole graphs with a model of links."""
        if self.card.level is Level.EDGE:
            raise SpecError(
                "the model scores pairs of nodes; expected to be asked for some, in Python: predict_pairs(graph, pairs)"
            )

    def predictions(self) -> ModelOutput:
        """(rows, k) float64: regression in the targets' own units, classification as probabilities."""
        found = self.bundle.uncertainty

        def rows(batch: PointBatch) -> Tensor:
            outputs = mean_outputs(self.member_outputs(batch), self.card.task)
            return as_predictions(outputs, self.card.task) if found is None else found.predictions(outputs)

        return ModelOutput(rows, self.card.outputs, self.model.readout.level != "graph", torch.float64)

    def _strange(self, batch: PointBatch) -> Flags | None:
        """(G,) which graphs have nodes of a category that the model was not trained on; None where it is not known."""
        found = self.bundle.uncertainty
        if found is None or found.domain is None:
            return None
        index = batch.index.cpu().numpy()  # nodes stand in the order of the batch
        graphs = np.repeat(index, batch.num_nodes.cpu().numpy()[index])
        return found.domain.strange(self.card.node, batch.x, graphs, batch.num_graphs)

    def answers(self, confidence: float) -> ModelOutput:
        """(rows, k + Σ widths) float64: predictions, then the numbers of :meth:`Uncertainty.columns`."""
        found, of_nodes = self._uncertainty("intervals"), self.model.readout.level != "graph"

        def rows(batch: PointBatch) -> Tensor:
            first: list[Tensor] = []
            members = self.member_outputs(batch, first)
            fingerprints = None if batch.fingerprint is None else batch.fingerprint.cpu().numpy()
            representations = None if of_nodes else first[0].cpu().numpy()
            seen = Seen(members, batch.num_nodes.cpu().numpy(), representations, fingerprints, self._strange(batch))
            answers = found(seen, confidence, threads=torch.get_num_threads())
            return torch.from_numpy(np.concatenate([answers.predictions, found.numbers(answers)], axis=1))

        width = self.card.outputs + sum(column.width for column in found.columns())
        return ModelOutput(rows, width, of_nodes, torch.float64, checked=self.card.outputs)

    def representations(self, level: LevelName | None) -> ModelOutput:
        """(rows, members · d) of the model's own type: what the last linear map sees, of each graph or each node.

        At the model's own level this is :meth:`pointset.PointModel.embed`. A model of graphs has scalars of nodes too,
        before they are pooled, and those of a model of nodes can be pooled.
        """
        if level not in (None, "graph", "node"):
            raise SpecError(f"got level={level!r}; expected 'graph' or 'node'")
        of_nodes = (level or self.model.readout.level) != "graph"

        def rows(batch: PointBatch) -> Tensor:
            with torch.inference_mode():
                embedded = [model.embed(batch, level="node" if of_nodes else "graph") for model in self.models]
            return torch.cat(embedded, 1).cpu()

        dtype = next(self.model.parameters()).dtype
        width = len(self.models) * self.model.readout.linear.in_features
        return ModelOutput(rows, width, of_nodes, dtype)

    def engine(self, batch_size: int, *, fingerprint: bool = False) -> Engine:
        """What runs the model on chunks of items; ``fingerprint``: molecules are compared with the training part."""
        for model in self.models:
            model.eval()
        wanted = fingerprint and self._compares_fingerprints
        weights = self.bundle.weighted_edges, self.bundle.edge_weight_offset
        return Engine(self.model, *weights, batch_size=batch_size, fingerprint=wanted)

    @property
    def _compares_fingerprints(self) -> bool:
        found = self.bundle.uncertainty
        return found is not None and found.domain is not None and found.domain.fingerprints is not None

    def molecule_reader(self, *, fingerprint: bool = False) -> ReadMolecule:
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
        if isinstance(read, MoleculeReader) and fingerprint and self._compares_fingerprints:
            read = dataclasses.replace(read, fingerprint=True)
        columns = self.about.get("descriptor_columns")
        return read if columns is None else DescribedReader(read, self._descriptor_table(columns))

    def _descriptor_table(self, columns: Sequence[str]) -> DescriptorTable:
        """Of the molecules to predict, with the columns of the table that the model was trained with."""
        if self.descriptors is None:
            raise SpecError(
                f"the model was trained with descriptors of a table ({', '.join(map(str, columns[:4]))}…) and needs "
                "them for every molecule; give such a table with --descriptors FILE, or "
                "pointset.load(path, descriptors=FILE)"
            )
        table = read_descriptors(self.descriptors)
        if list(table.names) != list(columns):
            raise SpecError(
                f"{self.descriptors} has the columns {', '.join(table.names[:6])}; expected those that the model was "
                f"trained with: {', '.join(map(str, columns[:6]))}"
            )
        return table

    def _run(
        self,
        items: Any,
        output: ModelOutput,
        batch_size: int,
        progress: bool | None,
        on_error: OnError,
        *,
        fingerprint: bool = False,
    ) -> Any:
        if on_error not in ("raise", "nan"):
            raise SpecError(f"got on_error={on_error!r}; expected 'raise' or 'nan'")
        engine, given = self.engine(batch_size, fingerprint=fingerprint), _as_items(items)
        total = len(given) if isinstance(given, Sized) else None
        smiles = sum(isinstance(item, str) or is_mol(item) for item in given) if isinstance(given, Sequence) else 0
        workers = workers_for(smiles) if self.card.molecules else 0
        prepare = (
            engine.smiles_to_points(self.molecule_reader(fingerprint=fingerprint))
            if workers
            else partial(self._read, engine, fingerprint)
        )
        chunks = ((None, chunk) for chunk in in_chunks(map(_with_smiles, given), engine.window))
        results: list[Tensor] = []
        done = 0
        with threads_beside(workers, total), progress_bar("Predicting", total, show=progress) as advance:
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

    def _read(self, engine: Engine, fingerprint: bool, smiles: Sequence[str]) -> Window:
        """SMILES, where there are any: whether the model reads them is asked only then."""
        read = or_error(lambda model: model.molecule_reader(fingerprint=fingerprint), self)
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


def _with_smiles(item: Any) -> Any:
    """A molecule of RDKit as its SMILES, or why it has none; anything else as it is."""
    if item is None:
        return GraphError("got None, as RDKit gives for a SMILES that it cannot read; expected a molecule or a graph")
    return or_error(smiles_of, item) if is_mol(item) else item


def _is_one(items: Any) -> bool:
    """Whether it is a SMILES, a molecule, a point set or a graph, and not several."""
    if isinstance(items, (str, PointSet, Graph, Tensor)) or is_mol(items):
        return True
    if hasattr(items, "is_directed") and hasattr(items, "adj"):
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
