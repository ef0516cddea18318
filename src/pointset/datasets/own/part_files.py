"""Molecules for training, validation and test in separate tables, as one dataset (:func:`smiles_files`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.datasets.cache import FileContent
from pointset.datasets.card import Task
from pointset.datasets.dataset import OWN_FILE, Dataset, Provenance
from pointset.datasets.own.candidates import choose_split
from pointset.datasets.own.learnable import target_notes
from pointset.datasets.own.molecules import smiles_csv
from pointset.datasets.own.rejected import Rejected, TooManyRejectedError
from pointset.datasets.own.table_files import SPREADSHEETS, open_table
from pointset.datasets.splits.files import AUTOMATIC, split_column_of, with_validation
from pointset.datasets.splits.parts import PARTS, Split
from pointset.datasets.table import Limits
from pointset.errors import FileFormatError, SpecError
from pointset.points.graphs import FlatFeatures, GraphArrays

_ALL = (1.0, 0.0, 0.0)  # every row of a file is in one part
_WAYS = (AUTOMATIC, "random", "stratified", "scaffold")  # of taking a validation part from the training part


def smiles_files(
    path: str | Path | FileContent,
    *,
    val_file: str | Path | None = None,
    test_file: str | Path | None = None,
    split: Any = AUTOMATIC,
    seed: int = 0,
    **options: Any,
) -> Dataset:
    """Molecules of a table for training, and of others for validation and test, as one dataset with that split.

    Columns have the same names in all of them. Without ``val_file`` a tenth of the training part validates; without
    ``test_file`` there is no test part.

    Args:
        path: the table for training.
        val_file: for validation.
        test_file: for the test.
        split: how a validation part is taken: ``"random"`` (the default; labels and classes are stratified),
            ``"stratified"`` or ``"scaffold"``.
        seed: of that.
        **options: as of :func:`~pointset.datasets.own.smiles_csv`.

    Raises:
        SpecError: a target is missing in a file, or of another kind there; or the settings are impossible.
        PointsetError: as :func:`~pointset.datasets.own.smiles_csv`.
    """
    if split not in _WAYS:
        raise SpecError(
            f"got split={split!r} beside val_file or test_file, which are the split; expected one of "
            f"{', '.join(_WAYS)}, by which a validation part is taken where there is no val_file. Leave one of them out"
        )
    parts = {"train": smiles_csv(path, split=_ALL, seed=seed, **options)}
    train = parts["train"]
    for part, file in (("val", val_file), ("test", test_file)):
        if file is not None:
            parts[part] = _read_part(train, part, file, options)
    joined = _joined(list(parts.values()))
    stops = dict(zip(parts, np.cumsum([len(one) for one in parts.values()]).tolist(), strict=True))
    given: Split = {
        part: np.arange(stops[part] - len(parts[part]), stops[part]) if part in parts else np.zeros(0, dtype=np.int64)
        for part in PARTS
    }
    labels = None if joined.targets is None else joined.targets.squeeze(-1).numpy()
    completed, notes = with_validation(given, seed=seed, labels=labels, smiles=joined.smiles, how=str(split))
    text = "; ".join(f"{part} from {one.provenance.files[0].name}" for part, one in parts.items())
    notes = (*_unused_split(train, split, options), *notes)
    card = dataclasses.replace(joined.card, split=text, notes=(*joined.card.notes, *notes))
    return dataclasses.replace(joined, card=card, split=completed)


def _unused_split(train: Dataset, split: Any, options: Mapping[str, Any]) -> tuple[str, ...]:
    """What is to be said of a column that would have split the table for training."""
    table = open_table(train.provenance.files[0], header=options.get("header", True), sheet=options.get("sheet"))
    try:
        column = split_column_of(choose_split(table, split)[0])
    except SpecError:  # words that are no part, which do not matter then
        column = None
    return () if column is None else (f"the column {column!r} is not used, as other files are the split",)


def _read_part(train: Dataset, part: str, file: str | Path, options: Mapping[str, Any]) -> Dataset:
    """A file for validation or test, with the targets of the training part; what goes wrong is said of this file."""
    own = {key: value for key, value in options.items() if key != "weights"}  # which count in training only
    if Path(file).suffix.lower() not in SPREADSHEETS:
        own.pop("sheet", None)
    names = list(train.target_names)
    header = open_table(train.provenance.files[0], header=own.get("header", True), sheet=options.get("sheet")).header
    if all(header.count(name) == 1 for name in names):  # else as they were chosen, by number
        own["targets"] = names
    elif own.get("targets") is None:
        own["targets"] = [int(name.removeprefix("column ")) for name in names]
    if names:
        own["task"] = train.card.task.value
    try:
        found = smiles_csv(file, split=_ALL, **own)
    except (SpecError, FileFormatError) as error:
        about = f"{part}_file: {error}"
        if isinstance(error, TooManyRejectedError):
            raise TooManyRejectedError(about, error.rejected) from None
        raise type(error)(about) from None
    found = _without_advice(found)
    if train.card.task is Task.MULTI_CLASS and names:
        return _with_classes(found, train.card.classes, part)
    return found


def _without_advice(dataset: Dataset) -> Dataset:
    """The same without notes on what could not be learned from it, as it is not learned from."""
    y, card = dataset.targets, dataset.card
    said = target_notes(None if y is None else y.numpy(), card.target_names, card.task, card.classes, dataset.limits)
    notes = tuple(note for note in card.notes if note not in said)
    return dataclasses.replace(dataset, card=dataclasses.replace(card, notes=notes))


def _with_classes(dataset: Dataset, classes: Sequence[str], part: str) -> Dataset:
    """The same with the numbers that the classes have in the training part."""
    if new := [name for name in dataset.card.classes if name not in classes]:
        raise SpecError(
            f"{part}_file: {dataset.provenance.source} has the class {new[0]!r}, which no row for training has; "
            f"expected {', '.join(classes)}. Correct it, or leave such rows out"
        )
    number = torch.tensor([classes.index(name) for name in dataset.card.classes])
    y = None if dataset.targets is None else number[dataset.targets]
    features = dataclasses.replace(dataset.features, y=y)
    return dataclasses.replace(dataset, arrays=dataclasses.replace(dataset.arrays, features=features))


def _joined(datasets: Sequence[Dataset]) -> Dataset:
    """One dataset of all graphs, one file after the other; split and card are those of the first."""

    def arrays(name: str, axis: int = 0) -> Any:
        return np.concatenate([getattr(one.arrays, name) for one in datasets], axis=axis)

    def tensor(name: str) -> Tensor | None:
        given = [getattr(one.features, name) for one in datasets]
        return None if given[0] is None else torch.cat(given)

    first, names = datasets[0], [one.provenance.files[0].name for one in datasets]
    num_nodes, num_edges = arrays("num_nodes"), arrays("num_edges")
    x, edge_attr, pos, y = (tensor(name) for name in ("x", "edge_attr", "pos", "y"))
    features = FlatFeatures(num_nodes, num_edges, x, edge_attr, pos, y)
    graphs = GraphArrays(num_nodes, num_edges, arrays("edges", 1), None, arrays("weight_kind"), features)
    notes = [f"{name}: {note}" for name, one in zip(names[1:], datasets[1:], strict=True) for note in one.card.notes]
    files, digests = zip(*((one.provenance.files[0], one.provenance.sha256[0]) for one in datasets), strict=True)
    weights = [np.ones(len(one)) if one.weights is None else one.weights for one in datasets]
    rows = [np.zeros(len(one), dtype=np.int64) if one.rows is None else one.rows for one in datasets]
    return dataclasses.replace(
        first,
        card=dataclasses.replace(first.card, notes=(*first.card.notes, *notes)),
        arrays=graphs,
        split={"train": np.arange(len(graphs))},
        provenance=Provenance(first.provenance.source, OWN_FILE, files, digests),
        smiles=[smiles for one in datasets for smiles in one.smiles or ()],
        rejected=[_named(one, name) for name, data in zip(names, datasets, strict=True) for one in data.rejected],
        rows=np.concatenate(rows),
        file_of=np.repeat(np.arange(len(datasets)), [len(one) for one in datasets]),
        merged=sum(one.merged for one in datasets),
        limits=_limits(datasets),
        weights=None if all(one.weights is None for one in datasets) else np.concatenate(weights),
    )


def _named(rejected: Rejected, file: str) -> Rejected:
    return dataclasses.replace(rejected, place=f"{file}, {rejected.place}")


def _limits(datasets: Sequence[Dataset]) -> Limits | None:
    """(G, k) of all; NaN where a file has none."""
    width = len(datasets[0].target_names)
    if all(one.limits is None for one in datasets):
        return None
    none = [np.full((len(one), width), np.nan) for one in datasets]
    each = [Limits(rest, rest) if one.limits is None else one.limits for one, rest in zip(datasets, none, strict=True)]
    lower, upper = (np.concatenate([one[at].reshape(-1, width) for one in each]) for at in range(2))
    return Limits(lower, upper)
