"""LRGB's own files of the peptides: a CSV of SMILES with their targets, and the split (:func:`read_functions`)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pointset.datasets.benchmarks.csv_columns import read_columns
from pointset.datasets.benchmarks.members import Member
from pointset.datasets.molecules.smiles_table import table_of_smiles
from pointset.datasets.splits import Split, check_split, split_from_file
from pointset.datasets.table import Array, GraphTable
from pointset.datasets.unpickling import read_pickle
from pointset.errors import FileFormatError, SpecError

FUNCTIONS = (
    "antifungal", "cell_cell_communication", "anticancer", "drug_delivery_vehicle", "antimicrobial", "antiviral",
    "antihypertensive", "antibacterial", "antiparasitic", "toxic",
)  # fmt: skip
SHAPES = (
    "Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c", "Inertia_valence_a", "Inertia_valence_b",
    "Inertia_valence_c", "length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit",
)  # fmt: skip


def read_functions(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """LRGB's CSV and split; y (G, 10) of 0 and 1, graphs in the order of the rows.

    Raises:
        FileFormatError: with the file, and the row where it can be said.
        MissingExtraError: RDKit is not installed.
    """
    table_file, split_file = files
    smiles, labels = read_columns(Member(table_file), ("smiles", "labels"))
    y = np.array([_labels(f"{table_file}, row {row}", text) for row, text in enumerate(labels, 1)], dtype=np.float32)
    split = _split(split_file, len(smiles))
    return dataclasses.replace(table_of_smiles(smiles, table_file, show=show), y=y, split=split)


def read_shapes(files: Sequence[Path], /, *, show: bool | None, normalised: bool) -> GraphTable:
    """LRGB's CSV and split; y (G, 11) with mean 0 and standard deviation 1 over all peptides.

    A CSV that is not ``normalised`` holds raw values; LRGB normalises them over all rows, with G − 1 below the sum.

    Raises:
        FileFormatError: with the file, and the row where it can be said.
        MissingExtraError: RDKit is not installed.
    """
    table_file, split_file = files
    smiles, *columns = read_columns(Member(table_file), ("smiles", *SHAPES))
    y = np.stack(
        [_numbers(f"{table_file}, {name}", cells) for name, cells in zip(SHAPES, columns, strict=True)], axis=1
    )
    if not normalised:
        y = _standardised(table_file, y)
    split = _split(split_file, len(smiles))
    return dataclasses.replace(table_of_smiles(smiles, table_file, show=show), y=y.astype(np.float32), split=split)


def _labels(place: str, text: str) -> list[int]:
    """``[0, 1, 0, …]``."""
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, list) or len(labels) != len(FUNCTIONS) or not all(label in (0, 1) for label in labels):
        raise FileFormatError(
            f"{place}: got the labels {text[:60]!r}; expected a list of {len(FUNCTIONS)} times 0 or 1"
        )
    return labels


def _numbers(place: str, cells: Sequence[str]) -> Array:
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            values[row] = float(cell)
        except ValueError:
            values[row] = np.nan
        if not np.isfinite(values[row]):
            raise FileFormatError(f"{place}, row {row + 1}: got {cell[:40]!r}; expected a finite number")
    return values


def _standardised(path: Path, y: Array) -> Array:
    for name, column in zip(SHAPES, y.T, strict=True):
        if (column == column[0]).all():
            raise FileFormatError(
                f"{path}: {name} is {column[0]:g} in all rows; expected different values to normalise"
            )
    standardised: Array = (y - y.mean(axis=0)) / y.std(axis=0, ddof=1)
    return standardised


def _split(path: Path, count: int) -> Split:
    """The official pickle, or the same indices as .npz."""
    if path.suffix != ".pickle":
        return split_from_file(path, count)
    content = read_pickle(path)
    try:
        return check_split(content, count)
    except (SpecError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path}: {error}") from None
