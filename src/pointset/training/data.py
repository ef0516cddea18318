"""From a recipe to graphs that can be trained on: :func:`load_data`."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.cache import FileContent
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import OWN_FILE, Dataset, TargetScale
from pointset.datasets.loading import BENCHMARKS, load
from pointset.datasets.molecules.descriptors import descriptor_matrix, descriptor_names
from pointset.datasets.own import graph_files, smiles_csv
from pointset.datasets.own.columns import holds_molecules
from pointset.datasets.own.descriptor_table import is_file, read_descriptors
from pointset.datasets.own.learnable import check_varies
from pointset.datasets.own.options import option
from pointset.datasets.own.part_files import smiles_files
from pointset.datasets.sources import find_file
from pointset.datasets.splits import folds
from pointset.datasets.splits.leaks import describe_leaks, find_leaks
from pointset.encoders.layers import BatchEncoder
from pointset.encoders.model import PointModel
from pointset.errors import MemoryForecastError, SpecError, TimeForecastError
from pointset.machine import check_fits, fitting, training_bytes
from pointset.native.build import status as native_status
from pointset.points.forecast import decomposition_bytes, decomposition_seconds, decomposition_text, is_sparse
from pointset.points.point_set import PointSets
from pointset.registry import load_part, model_matrix, preset_named
from pointset.runs.recipe import DatasetChoice, Recipe, Trainer, check_ready
from pointset.runs.recipe_files import changed
from pointset.text import byte_size, counted
from pointset.training.batches import Purpose, stream_seed
from pointset.training.devices import DTYPES
from pointset.training.losses import LossTargets, balanced_weights
from pointset.training.references import References, fit_references
from pointset.training.within_graph import Links, by_part

_SUBSET_SEED = 0
_FOLD_SEED = 0  # folds are the same for all seeds of the weights, so that their results can be averaged


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A dataset, the scale of its targets, and its points, which carry the targets as the loss takes them.

    Where nodes or edges of one graph are in several parts, ``dataset`` has the graph once for each part
    (:mod:`pointset.training.within_graph`), and ``given`` is what was read.
    """

    dataset: Dataset
    scale: TargetScale | None  # None: targets are as they are
    points: PointSets
    references: References | None = None  # what atoms contribute to the targets by themselves
    within: Dataset | None = None  # one that is split by nodes or edges, as it was read
    counted: Tensor | None = None  # (N,) where it is split by nodes: which nodes of ``dataset`` belong to their part
    links: Links | None = None  # where it is split by edges

    @property
    def given(self) -> Dataset:
        """The dataset as it was read."""
        return self.dataset if self.within is None else self.within

    def rows_in_part(self, graphs: Integers) -> Tensor:
        """(rows,) which rows of targets and outputs of these graphs are of their part: all, unless nodes are split."""
        if self.links is not None:
            return torch.ones(len(self.targets(graphs)), dtype=torch.bool)
        rows = self.dataset.target_rows(graphs)
        return torch.ones(len(rows), dtype=torch.bool) if self.counted is None else self.counted[rows]

    @property
    def card(self) -> Card:
        """What the dataset says of itself."""
        return self.dataset.card

    @property
    def warnings(self) -> list[str]:
        """What was guessed or left out while own data was read; none of a benchmark."""
        return list(self.card.notes) if self.dataset.provenance.origin == OWN_FILE else []

    def part(self, name: str) -> Integers:
        """Indices of the graphs in train, val or test; none where there is no such part."""
        return np.asarray(self.dataset.split.get(name, ()), dtype=np.int64)

    def targets(self, graphs: Integers) -> Tensor:
        """(rows, k) or (rows,) the targets of these graphs in their own units, float64 or classes."""
        if self.links is not None:
            return self.links.asked(graphs)[1]
        return self._targets[self.dataset.target_rows(graphs)]

    @cached_property
    def _targets(self) -> Tensor:
        y = self.dataset.targets
        if y is None:
            raise SpecError(f"{self.card.name} has no targets; expected some to learn from")
        return y if self.card.task is Task.MULTI_CLASS else y.to(torch.float64)

    def limits(self, graphs: Integers) -> int:
        """How many targets of these graphs are only known by a limit."""
        return 0 if self.dataset.limits is None else self.dataset.limits.of(graphs).number

    def restored(self, outputs: Tensor) -> Tensor:
        """A model's outputs (rows, k) in the targets' own units, in float64; logits stay logits."""
        wide = outputs.detach().to("cpu", torch.float64)
        return wide if self.scale is None else self.scale.restore(wide)


def load_data(recipe: Recipe, data_dir: str | Path | None = None, *, progress: bool | None = None) -> TrainingData:
    """The data of a recipe: read, with its fold, targets and weights, scaled, and as points of the model's matrix.

    Raises:
        SpecError: the recipe asks for what the dataset does not have.
        MissingDataError: the files are nowhere.
    """
    return training_data(read_dataset(recipe, data_dir, progress=progress), recipe, progress=progress)


def read_dataset(recipe: Recipe, data_dir: str | Path | None = None, *, progress: bool | None = None) -> Dataset:
    """The graphs of a recipe alone, with its fold, targets and weights of edges; raises what :func:`load_data` does."""
    check_ready(recipe)
    dataset = _read(recipe.dataset, data_dir, progress)
    dataset = with_choices(dataset, recipe.dataset)
    comparable = recipe.dataset.file is not None and dataset.split_of is Level.GRAPH
    return _with_leaks_said(dataset, progress) if comparable else dataset


def training_data(dataset: Dataset, recipe: Recipe, *, progress: bool | None = None) -> TrainingData:
    """A dataset as :func:`load_data` gives it: with the recipe's descriptors, scaled, as points of its model's matrix.

    Raises:
        SpecError: there is nothing to learn, or the recipe asks for what the dataset does not have.
        MemoryForecastError, TimeForecastError: a graph is too large, by its size alone.
    """
    card = dataset.card
    if not card.targets or (dataset.targets is None and dataset.split_of is not Level.EDGE):
        told = "".join(f"\n  {note}" for note in card.notes if recipe.dataset.file is not None)
        raise SpecError(
            f"{card.name} has no targets; expected at least one. Name columns with dataset.targets=[…]{told}"
        )
    if len(dataset.split.get("train", ())) == 0:
        raise SpecError(f"{card.name} has no graphs in its training part; expected some. Choose another split")
    within, parts = dataset, None
    if dataset.split_of is not Level.GRAPH:
        parts = by_part(dataset)
        dataset = parts.copies
    check_sizes(recipe, dataset)
    if recipe.model.descriptors is not None:
        dataset = with_descriptors(dataset, recipe.model.descriptors, progress=progress)
    scale = dataset.target_scale() if card.task is Task.REGRESSION and recipe.scale_targets else None
    if scale is not None and not bool((scale.mean.isfinite() & scale.std.isfinite()).all()):
        raise SpecError(
            f"{card.name} has targets so large that their standard deviation is not a number; expected less "
            "than 1e150. Give them in another unit, or their logarithm"
        )
    references = fit_references(dataset, scale, recipe.model.atom_references)
    if references is not None:
        scale = references.scale
        note = references.describe([target.name for target in card.targets])
        dataset = dataclasses.replace(
            dataset, card=dataclasses.replace(dataset.card, notes=(*dataset.card.notes, note))
        )
    matrix = model_matrix(recipe.model.preset, recipe.model.matrix)
    with_targets = _with_loss_targets(dataset, scale, recipe.class_weights)
    solved = with_targets if parts is None else parts.graphs
    points = solved.points(matrix, rank=recipe.model.rank, progress=progress)
    if parts is None:
        return TrainingData(dataset, scale, points, references)
    pairs = points.eigenpairs.of(np.arange(len(dataset)) % len(within))  # all copies of a graph have its own
    points = PointSets(with_targets.arrays, pairs, matrix, points.dtype)
    return TrainingData(dataset, scale, points, references, within, parts.counted, parts.links)


def build_model(recipe: Recipe, card: Card, *, references: bool = False) -> PointModel:
    """The recipe's model for such data, with weights that depend on the seed only; ``references`` of atoms are zero."""
    choice = recipe.model
    weighted = recipe.dataset.weighted_edges is not None  # then the features of edges are in the eigenpairs
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(recipe.seed, Purpose.WEIGHTS))
        model = PointModel.from_preset(
            choice.preset,
            node=card.node,
            edge=None if weighted else card.edge,
            out=card.outputs,
            level=card.level.value,
            dim=choice.dim,
            layers=choice.layers,
            pooling=choice.pooling,
            noise=choice.noise,
            dropout=choice.dropout,
            rank=choice.rank,
            matrix=choice.matrix,
            references=references,
            descriptors=card.descriptors if choice.descriptors is not None else 0,
        )
    model.checkpointing = recipe.trainer.checkpointing
    return model


def with_descriptors(dataset: Dataset, descriptors: str, *, progress: bool | None = None) -> Dataset:
    """The molecules with numbers of each as a whole, which a model joins to its points (``model.descriptors``)."""
    card = dataset.card
    if dataset.smiles is None or card.molecules != "ogb" or card.level is not Level.GRAPH:
        raise SpecError(
            f"got model.descriptors={descriptors!r}, and {card.title or card.name} has no molecules with targets of "
            "their own to compute them for; expected a table with SMILES. Set model.descriptors=null"
        )
    if is_file(descriptors):
        found = read_descriptors(descriptors).matrix(dataset.smiles, progress=progress)
    else:
        found = descriptor_matrix(dataset.smiles, descriptors, progress=progress)
    numbers = torch.from_numpy(found)
    features = dataclasses.replace(dataset.features, descriptors=numbers)
    card = dataclasses.replace(card, descriptors=numbers.shape[1])
    return dataclasses.replace(dataset, card=card, arrays=dataclasses.replace(dataset.arrays, features=features))


def first_model(recipe: Recipe, data: TrainingData) -> PointModel:
    """:func:`build_model`, with the scales of descriptors and the references of atoms of the training part."""
    model = build_model(recipe, data.card, references=data.references is not None)
    if model.references is not None and data.references is not None:
        model.references.weight.copy_(data.references.normalised)
    described, numbers = model.readout.descriptors, data.dataset.features.descriptors
    if described is not None and numbers is not None:
        counts = torch.tensor([name.startswith("morgan_") for name in names_of_descriptors(recipe)])
        described.fit(numbers[torch.from_numpy(data.part("train"))], counts)
    return model


def names_of_descriptors(recipe: Recipe) -> tuple[str, ...]:
    """Of ``model.descriptors``, in their order."""
    descriptors = recipe.model.descriptors
    if descriptors is None:
        return ()
    return read_descriptors(descriptors).names if is_file(descriptors) else tuple(descriptor_names(descriptors))


def own_folds(choice: DatasetChoice) -> bool:
    """Whether the dataset comes with folds of its own."""
    return choice.name in BENCHMARKS and "fold" in BENCHMARKS[choice.name].options


def _read(choice: DatasetChoice, data_dir: str | Path | None, progress: bool | None) -> Dataset:
    options = dict(choice.options)
    if choice.name is not None:
        _check_no_weights(choice, choice.name)
        if choice.fold is not None and own_folds(choice):
            options["fold"] = choice.fold
        return load(choice.name, data_dir, download=False, progress=progress, **options)
    # a table is opened once, both to see what it is and to read it
    file = FileContent(find_file(str(choice.file), data_dir))
    read: Any = smiles_csv if holds_molecules(file) else graph_files
    if choice.targets is not None and (read is smiles_csv or "targets" in options):  # else they are y of the files
        options.setdefault("targets" if read is smiles_csv else "columns", list(choice.targets))
    if read is smiles_csv and choice.weight_column is not None:
        options.setdefault("weights", choice.weight_column)
    elif read is not smiles_csv:
        _check_no_weights(choice, file.path.name)
    if choice.fold is not None:
        options.setdefault("split", "random")  # the folds are the split, whatever the table says
    named = {key: getattr(choice, key) for key in ("val_file", "test_file")}
    files: dict[str, Any] = {key: find_file(name, data_dir) for key, name in named.items() if name is not None}
    if files and read is not smiles_csv:
        raise SpecError(f"got dataset.{next(iter(files))} for {file.path.name}, which holds graphs; expected molecules")
    try:
        if files:
            read = smiles_files
            return smiles_files(file, progress=progress, **files, **options)
        dataset: Dataset = read(file if read is smiles_csv else file.path, progress=progress, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error) and "multiple values" not in str(error):
            raise
        unknown = str(error).rpartition("() ")[2]
        raise SpecError(
            f"dataset.options: {unknown}; expected those of pointset.datasets.own.{read.__name__}"
        ) from None
    return dataset


def _with_leaks_said(dataset: Dataset, progress: bool | None) -> Dataset:
    """The same, with a note on its card if the same graph stands in two parts of its split."""
    leaks = find_leaks(dataset.arrays, dataset.split, progress=progress)
    if not leaks.found:
        return dataset
    notes = (*dataset.card.notes, describe_leaks(dataset, leaks))
    return dataclasses.replace(dataset, card=dataclasses.replace(dataset.card, notes=notes))


def _check_no_weights(choice: DatasetChoice, where: str) -> None:
    if choice.weight_column is not None:
        raise SpecError(
            f"got dataset.weight_column={choice.weight_column!r} for {where}, which is not a table of molecules; "
            "expected one in dataset.file. Leave it out"
        )


def with_choices(dataset: Dataset, choice: DatasetChoice) -> Dataset:
    """With the targets, weights of edges, fold and number of training graphs that a recipe asks for."""
    if choice.targets is not None and not _chosen_by_reader(dataset, choice):
        dataset = dataset.with_targets(list(choice.targets))
    if choice.weighted_edges is not None:
        dataset = dataset.with_weighted_edges(choice.weighted_edges, offset=choice.edge_weight_offset)
    if choice.links is not None:
        dataset = dataset.with_links(choice.links)
    if choice.fold is not None and not own_folds(choice):
        of_graphs = dataset.card.level is not Level.NODE
        has_labels = dataset.card.task is not Task.REGRESSION and (of_graphs or dataset.split_of is not Level.GRAPH)
        labels = dataset.targets if has_labels else None
        dataset = dataset.with_split(
            folds(dataset.split_count, choice.folds, seed=_FOLD_SEED, labels=labels)[choice.fold]
        )
    return dataset if choice.train_graphs is None else _with_fewer(dataset, choice.train_graphs)


def _chosen_by_reader(dataset: Dataset, choice: DatasetChoice) -> bool:
    """Whether the reader of an own table was given the targets, which may be numbers of columns."""
    if choice.file is None or dataset.smiles is not None:
        return choice.file is not None and "targets" not in choice.options
    return "targets" in choice.options and "columns" not in choice.options  # a table beside graphs


def _with_fewer(dataset: Dataset, graphs: int) -> Dataset:
    """Only so many of the training graphs, the same for all seeds of the weights; fewer are among more."""
    train = dataset.split["train"]
    if graphs > len(train):
        raise SpecError(
            f"got dataset.train_graphs={graphs:,}; expected at most the {len(train):,} of {dataset.card.name}, or null "
            "for all"
        )
    chosen = np.random.default_rng(_SUBSET_SEED).permutation(len(train))[:graphs]
    return dataset.with_split({**dataset.split, "train": train[np.sort(chosen)]})


def _with_loss_targets(dataset: Dataset, scale: TargetScale | None, class_weights: str | None) -> Dataset:
    """Targets scaled in float64, then rounded to float32 once: an energy of −11,000 eV loses nothing."""
    y = dataset.targets
    if y is None:
        return dataset
    weights = _loss_weights(dataset, y, class_weights)
    if dataset.card.task is Task.MULTI_CLASS:
        packed = LossTargets(y, weights=weights).packed()
    else:

        def scaled(values: Tensor) -> Tensor:
            values = values.to(torch.float64)
            return (values if scale is None else scale.normalise(values)).to(torch.float32)

        limits = () if dataset.limits is None else dataset.limits
        loss_targets = LossTargets(scaled(y), *(scaled(torch.from_numpy(limit)) for limit in limits))
        packed = loss_targets._replace(weights=weights).packed()
    features = dataclasses.replace(dataset.features, y=packed)
    return dataclasses.replace(dataset, arrays=dataclasses.replace(dataset.arrays, features=features))


def _loss_weights(dataset: Dataset, y: Tensor, class_weights: str | None) -> Tensor | None:
    """(rows, k), or of classes (rows,): 1 on average over the training part; None where all count the same."""
    if class_weights is not None and dataset.card.task is Task.REGRESSION:
        raise SpecError(f"got class_weights={class_weights} for a regression; expected labels or classes. Leave it out")
    weights = torch.ones_like(y, dtype=torch.float64)
    train = dataset.target_rows(dataset.split["train"])
    if dataset.weights is not None:
        each = torch.from_numpy(dataset.weights)  # (G,); own tables, so rows are graphs
        if not float(each[train].sum()) > 0:
            raise SpecError(f"all weights of the training part of {dataset.card.name} are 0; expected some above 0")
        weights *= (each / each[train].mean()).reshape(-1, *[1] * (y.dim() - 1))
    if class_weights is None:
        return None if dataset.weights is None else weights
    return weights * balanced_weights(y, weights, train)


_MOST_NAMES = 6  # of targets in one line
_TASKS = {
    Task.REGRESSION: "regression",
    Task.BINARY: "binary classification",
    Task.MULTI_LABEL: "labels",
    Task.MULTI_CLASS: "classes",
    Task.LINK: "prediction",
}


def describe_data(data: TrainingData) -> str:
    """``my.csv: regression of logS; 80 graphs to train, 10 to validate, 10 to test; 2 of 102 are left out …``.

    Own data is read with guesses (which columns are targets, what the task is), so people must see them.
    """
    train, val, test = (len(data.given.split.get(name, ())) for name in ("train", "val", "test"))
    card = data.card
    is_multi_class = card.task is Task.MULTI_CLASS
    names = list(card.classes if is_multi_class else card.target_names)
    targets = ", ".join(names[:_MOST_NAMES]) + (f" and {more:,} more" if (more := len(names) - _MOST_NAMES) > 0 else "")
    task = f"{'node ' if card.level is Level.NODE else ''}{_TASKS[card.task]}{'' if is_multi_class else ' of'}"
    text = f"{card.title or card.name}: {task} {targets}; "
    unit = data.given.split_of.value
    if data.within is not None:
        text += f"{counted(data.within.split_count, unit)}, of these "
    unseen = [f"{size:,}" if size else "none" for size in (val, test)]
    text += f"{counted(train, unit)} to train, {unseen[0]} to validate, {unseen[1]} to test"
    if data.dataset.limits is not None and (limits := data.dataset.limits.number):
        are, count = ("is a limit", "counts") if limits == 1 else ("are limits", "count")
        text += f"; {counted(limits, 'value')} {are} such as >3, which {count} in the loss but not in scores"
    if merged := data.dataset.merged:
        into = "is merged into another" if merged == 1 else "are merged into others"
        text += f"; {counted(merged, 'row')} {into} of the same molecule"
    if left_out := len(data.dataset.rejected):
        rows = len(data.dataset) + left_out + merged
        are = "is" if left_out == 1 else "are"
        text += f"; {left_out:,} of {rows:,} {are} left out (pointset datasets check says which, and why)"
    return text


# --- what a run will need: memory of the largest batch and of the weights, space on the disk

_RECORDS_BYTES = 20_000_000  # of metrics, predictions, report
_LIVE_LAYERS = 2  # with checkpointing: one layer's activations, and the coordinates of the rest
_FEW_PAIRS = 64  # model.rank to propose, as own molecules have it
_NARROWER = 8  # by how much a model can be made smaller without being another one
_COUNTED_LAYERS = 64  # of a model without weights; the parameters of more are extrapolated

# On the native kernels pst-fast keeps 0.37 of what is forecast (graphs of 200 and 490 nodes): half is on the safe side.

# Numbers of four bytes that message passing and attention keep in each layer: of a node and channel, of an edge and
# channel, of a pair of nodes. Measured are up to 18 (Graphormer), 12 (GatedGCN, both directions), 8 (Graphormer).
_OF_NODE, _OF_EDGE, _OF_PAIR = 20, 16, 16
_OF_POINT = 4  # so many times the state of a layer of pst-linear, beside what is kept of each layer


def check_learnable(data: TrainingData) -> None:
    """Refuse a target with limits alone in the training part: it has no scale, and any extreme would fulfil them.

    Own targets of which none varies in it are refused, too.
    """
    y, train, card = data.dataset.targets, data.part("train"), data.card
    limits = None if data.dataset.limits is None else data.dataset.limits.of(train)
    if y is not None and data.dataset.provenance.origin == OWN_FILE:
        check_varies(data.targets(train).numpy(), card.target_names, card.task, card.name, card.classes, limits)
    if limits is None or y is None:
        return
    for column, name in enumerate(data.card.target_names):
        if bool(y[train, column].isnan().all()):
            raise SpecError(
                f"the target {name!r} of {data.card.name} has only limits such as >3 in the training part; expected "
                "some exact values. Leave it out of dataset.targets"
            )


def check_memory(recipe: Recipe, data: TrainingData) -> None:
    """Refuse a run whose largest possible batch, or whose weights, would not fit into this machine's memory."""
    if recipe.trainer.memory_budget is None:  # else batches are planned by it, and a graph beyond it is refused by name
        sizes = graph_bytes(recipe, data)
        batch = min(recipe.trainer.batch_size, len(sizes))
        largest = np.partition(sizes, len(sizes) - batch)[len(sizes) - batch :]
        check_fits(
            float(largest.sum()),
            f"training on the {batch} largest of {len(sizes):,} graphs in one batch needs",
            "Lower trainer.batch_size, set trainer.memory_budget=4GB (as many graphs as fit make a batch), or, where "
            "the model computes on pairs of nodes, trainer.checkpointing=true",
        )
    parameters = _count_parameters(recipe, data.card)
    check_fits(  # weights, gradients, two moments, the average and the best ones
        float(6 * DTYPES[recipe.trainer.precision].itemsize * parameters),
        f"a model of {recipe.model.layers:,} layers of width {recipe.model.dim:,}, {parameters:,} parameters, needs",
        "Lower model.dim or model.layers",
    )


def check_sizes(recipe: Recipe, dataset: Dataset) -> None:
    """Refuse graphs too large to decompose or to train on, by their sizes alone, before any is decomposed.

    One such graph among small ones would otherwise take hours, or all of the memory, before anything is said.
    """
    nodes, rank, minutes = dataset.arrays.num_nodes, recipe.model.rank, recipe.model.decompose_minutes
    held = _bytes_forecast(recipe, dataset, rank)
    sparse = np.array([is_sparse(n, rank) for n in nodes.tolist()], dtype=bool)
    smallest = held[dataset.split["train"]].min(keepdims=True)
    learned = fitting(held) | ~fitting(smallest)  # where none fits, the model is too large: check_memory says so
    fits = learned & (sparse | fitting(decomposition_bytes(nodes)))
    quick = np.array([decomposition_seconds(n, rank) <= 60 * minutes for n in nodes.tolist()], dtype=bool)
    bad = np.flatnonzero(~(fits & quick))
    if not len(bad):
        return
    at = int(bad[np.argmax(nodes[bad])])
    size, number = int(nodes[at]), at if dataset.rows is None else int(dataset.rows[at])
    costs = [] if sparse[at] else [f"{decomposition_text(size)} to decompose"]
    costs += [f"{byte_size(int(held[at]))} {'to train on' if at in dataset.split['train'] else 'to predict'}"]
    remedies = []
    if dataset.provenance.origin == OWN_FILE and len(bad) < len(nodes):
        remedies.append(f"leave it out with {option('max_nodes', int(np.delete(nodes, bad).max()))}")
    if rank is None and fitting(_bytes_forecast(recipe, dataset, _FEW_PAIRS)[bad]).all():
        remedies.append(f"keep fewer eigenpairs with model.rank={_FEW_PAIRS}")
    if not fits[at] and fitting(held[bad] // _NARROWER).all():
        remedies.append("take less memory with a smaller model.dim, model.layers or trainer.checkpointing=true")
    if fits[at]:
        longest = math.ceil(decomposition_seconds(size, rank) / 60)
        remedies.append(f"let it take so long with model.decompose_minutes={longest}")
    others = f" ({counted(len(bad) - 1, 'more graph')} too large like it)" if len(bad) > 1 else ""
    error = MemoryForecastError if not fits[at] else TimeForecastError
    raise error(
        f"{dataset.row_unit} {number} of {dataset.card.title or dataset.card.name} has {size:,} nodes{others}, which "
        f"take {' and '.join(costs)}; expected at most {minutes:g} minutes (model.decompose_minutes) and the memory "
        f"that is free here. Nothing was decomposed. What helps: {', or '.join(remedies) or 'a larger machine'}"
    )


def _bytes_forecast(recipe: Recipe, dataset: Dataset, rank: int | None) -> Integers:
    """Memory of each graph, (G,): in training, or of one layer where it is only predicted."""
    nodes, edges, train = dataset.arrays.num_nodes, dataset.arrays.num_edges, dataset.split["train"]
    ranks = np.minimum(nodes, nodes if rank is None else rank)
    held = _bytes_of(recipe, nodes, edges, ranks, layers=1)
    held[train] = _bytes_of(recipe, nodes[train], edges[train], ranks[train], layers=recipe.model.layers)
    return held


def graph_bytes(recipe: Recipe, data: TrainingData) -> Integers:
    """About how much memory each graph of the training part takes in training, (G,)."""
    graphs = data.part("train")
    points = data.points
    edges = points.graphs.num_edges[graphs]
    return _bytes_of(recipe, points.num_nodes[graphs], edges, points.ranks[graphs], layers=recipe.model.layers)


def _bytes_of(recipe: Recipe, nodes: Integers, edges: Integers, ranks: Integers, *, layers: int) -> Integers:
    dim = recipe.model.dim
    encoder = load_part(preset_named(recipe.model.preset).encoder)
    if isinstance(encoder, type) and issubclass(encoder, BatchEncoder):  # it has no numbers for each pair and channel
        pairs = _OF_PAIR * nodes**2 if encoder.ALL_PAIRS else 0
        return 4 * layers * (dim * (_OF_NODE * nodes + _OF_EDGE * edges) + pairs)
    if not getattr(encoder, "ALL_PAIRS", True):  # scalars and vectors of nodes: of each layer, and of one at work
        return 4 * (layers + _OF_POINT) * nodes * (dim + dim // 2 * ranks) + 4 * _OF_EDGE * edges
    layers = min(layers, _LIVE_LAYERS) if recipe.trainer.checkpointing else layers
    repeats = getattr(encoder, "REPEATS", 1)  # vectors and pairs have so many times fewer channels than scalars
    needed = training_bytes(nodes, ranks, dim=max(1, dim // repeats), layers=layers)
    return needed // 2 if repeats > 1 and recipe.trainer.precision == "32" and native_status().active else needed


def run_bytes(parameters: int, trainer: Trainer) -> int:
    """Space on the disk: weights, their average, two moments, the best ones and snapshots, in two checkpoints and a
    bundle.
    """
    copies = 14 + 3 * (trainer.snapshots or 0)
    return DTYPES[trainer.precision].itemsize * parameters * copies + _RECORDS_BYTES


def _count_parameters(recipe: Recipe, card: Card) -> int:
    """Of a model without weights (device meta), so that one that does not fit is never made."""
    layers = recipe.model.layers
    counted = min(layers, _COUNTED_LAYERS)
    with torch.device("meta"):
        parameters = build_model(changed(recipe, {"model.layers": counted}), card).num_parameters
    return parameters * layers // counted
