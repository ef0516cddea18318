"""ZINC: molecules and their penalised logP; the subset of 12,000 and the full 249,456.

The official files are pickles, as their authors publish them (``raw``) and as PyG keeps them (``processed``). Only
plain containers, arrays and tensors are rebuilt of them (:mod:`pointset.datasets.safe_pickle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.arrays import Array, read_arrays
from pointset.datasets.benchmarks.pyg_files import Collated, arrays_of, collate, read_collated, read_list
from pointset.datasets.benchmarks.reading import DataFile, as_features, expect_real, expect_whole, find_files
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.molecules.zinc import ZINC_ATOM_COLUMNS
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits.parts import PARTS, parts_from_codes
from pointset.datasets.table import GraphTable, joined_parts
from pointset.errors import FileFormatError
from pointset.files import read_text
from pointset.progress import progress_bar
from pointset.specs import Categories, Reals

ATOMS, BONDS = Categories(28), Categories(4)
_TARGET = "logP_SA_cycle_normalized"  # the name of the target in the raw files
_INDEX_FILES = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"


def _card(name: str, title: str, sizes: tuple[int, int, int], paper: PaperRow) -> Card:
    return Card(
        name=name,
        title=title,
        description="Drug-like molecules; predict the penalised logP (constrained solubility), from the graph alone.",
        level=Level.GRAPH,
        task=Task.REGRESSION,
        targets=(
            Target(
                "penalized-logp",
                meaning="normalised logP − synthetic-accessibility score − penalty for cycles longer than 6",
            ),
        ),
        metric=Metric.MAE,
        split="official: train, val and test as published",
        split_sizes=dict(zip(PARTS, sizes, strict=True)),
        node=ATOMS,
        edge=BONDS,
        node_columns=(
            f"atom type: {', '.join(f'{number} {label}' for number, label in enumerate(ZINC_ATOM_COLUMNS[0].labels))} "
            "(a hydrogen marks a stereocentre or a charge)",
        ),
        edge_columns=("Kekulé bond: 1 single, 2 double, 3 triple (0 does not occur)",),
        licence="MIT",
        source="Benchmarking GNNs (Dwivedi et al.), from ZINC by way of Grammar/Junction-tree VAE",
        reference="Irwin et al. 2012; Dwivedi et al. 2020, arXiv:2003.00982",
        paper=paper,
        molecules="zinc",
    )


def read_npz(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """One ``.npz`` with num_nodes, num_edges, edges (M, 2), atom_type, bond_type, y and split (0, 1, 2)."""
    (path,) = files
    arrays = read_arrays(path, ("num_nodes", "num_edges", "edges", "atom_type", "bond_type", "y", "split"))
    graphs, bonds = len(np.atleast_1d(arrays["num_nodes"])), len(np.atleast_1d(arrays["bond_type"]))
    part = expect_whole(path, "split", arrays["split"], graphs)
    if not np.isin(part, range(len(PARTS))).all():
        raise FileFormatError(f"{path}: split holds {np.unique(part).tolist()}; expected 0 (train), 1 (val), 2 (test)")
    return GraphTable(
        num_nodes=expect_whole(path, "num_nodes", arrays["num_nodes"], graphs),
        num_edges=expect_whole(path, "num_edges", arrays["num_edges"], graphs),
        edges=expect_whole(path, "edges", arrays["edges"], bonds, 2).T,
        x=as_features(f"{path}, atom_type", arrays["atom_type"].reshape(-1, 1), ATOMS),
        edge_attr=as_features(f"{path}, bond_type", arrays["bond_type"].reshape(-1, 1), BONDS),
        y=expect_real(path, "y", arrays["y"], graphs),
        split=parts_from_codes(part),
    )


def read_raw(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """From ``molecules.zip`` or its ``.pickle`` files; with the three ``.index`` files only the molecules they name.

    Each part is a list of dicts: ``atom_type`` (n,), ``bond_type`` (n, n), 0 where there is no bond, and the target.
    """
    chosen = {path.stem: path for path in files if path.suffix == ".index"}
    pickles = find_files([path for path in files if path.suffix != ".index"], [f"{part}.pickle" for part in PARTS])
    tables = []
    with progress_bar("Reading ZINC (bytes)", sum(map(DataFile.size, pickles)), show=show) as advance:
        for part, file in zip(PARTS, pickles, strict=True):
            molecules = read_list(file, "molecules, each a dict", advance=advance)
            if part in chosen:
                molecules = [molecules[number] for number in _read_index(chosen[part], len(molecules))]
            flat = collate((_fields(f"{file}, molecule {at}", one) for at, one in enumerate(molecules)), "atom_type")
            tables.append(_checked(file, flat, "atom_type", "bond_type", _TARGET))
    return joined_parts(tables)


def read_processed(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """From PyG's ``train.pt``, ``val.pt`` and ``test.pt``: each is (data, slices), all graphs in flat tensors."""
    flat = [read_collated(path, nodes=("x",), edges=("edge_attr",), graphs=("y",)) for path in files]
    return joined_parts([_checked(path, part, "x", "edge_attr", "y") for path, part in zip(files, flat, strict=True)])


def _checked(place: object, flat: Collated, atoms: str, bonds: str, target: str) -> GraphTable:
    """All molecules of a part, from the fields with these names."""
    x, edge_attr, y = (
        as_features(f"{place}, {name}", flat[name].reshape(-1, 1), spec)
        for name, spec in ((atoms, ATOMS), (bonds, BONDS), (target, Reals(1)))
    )
    return GraphTable(flat.num_nodes, flat.num_edges, flat["edge_index"], y=y[:, 0], x=x, edge_attr=edge_attr)


def _fields(place: str, molecule: Any) -> dict[str, Array]:
    """The flat fields of a molecule; each edge is listed in both directions, as the matrix has it."""
    atom_type, matrix, target = arrays_of(place, molecule, ("atom_type", "bond_type", _TARGET)).values()
    if atom_type.ndim != 1 or matrix.shape != (len(atom_type),) * 2 or target.size != 1:
        raise FileFormatError(
            f"{place}: atom_type has shape {atom_type.shape}, bond_type {matrix.shape}, the target {target.shape}; "
            "expected (n,), (n, n) and one number"
        )
    matrix = _whole(f"{place}, bond_type", matrix)
    ends = np.nonzero(matrix)
    return {
        "atom_type": _whole(f"{place}, atom_type", atom_type),
        "bond_type": matrix[ends],
        "edge_index": np.stack(ends),
        _TARGET: target.reshape(1),
    }


def _whole(place: str, array: Array) -> Array:
    """Whole numbers, also where they are stored as real ones: PyG converts them too."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise FileFormatError(f"{place}: got numbers with fractions; expected whole ones")
    return whole


def _read_index(path: Path, count: int) -> list[int]:
    text = read_text(path, errors="replace").strip().strip(",")
    try:
        numbers = [int(cell) for cell in text.split(",")]
    except ValueError:
        raise FileFormatError(f"{path} holds {text[:60]!r}; expected whole numbers, separated by commas") from None
    if wrong := [number for number in numbers if not 0 <= number < count]:
        raise FileFormatError(f"{path} names molecule {wrong[0]}; there are {count:,}, counted from 0")
    return numbers


def _official(*, subset: bool) -> tuple[Source, ...]:
    """PyG's two forms of the official files, each in the folders where it is found."""
    processed = "subset/processed" if subset else "full/processed"
    index = tuple(f"{part}.index" for part in PARTS) if subset else ()
    pickles = tuple(f"{part}.pickle" for part in PARTS)
    return (
        Source(
            "PyG's processed files",
            read_processed,
            places=tuple(
                tuple(f"{folder}{processed}/{part}.pt" for part in PARTS) for folder in ("ZINC/", "zinc/", "")
            ),
            note="these files are pickles; only tensors are read from them",
        ),
        Source(
            "official files",
            read_raw,
            places=(
                *(
                    tuple(f"{folder}/{file}" for file in (*pickles, *index))
                    for folder in ("ZINC/raw", "zinc/raw", "raw", "molecules")
                ),
                *(tuple(f"{folder}{file}" for file in ("molecules.zip", *index)) for folder in ("ZINC/", "zinc/", "")),
            ),
            downloads=(
                Download("https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1", "molecules.zip"),
                *(Download(f"{_INDEX_FILES}/{file}", file) for file in index),
            ),
            note="the official files are pickles, and there is no other form; only plain data and tensors are read",
        ),
    )


def _flat_arrays(file: str, sha256: str) -> Source:
    return Source("flat arrays", read_npz, places=((f"zinc/{file}",),), sha256={file: sha256})


ZINC = Benchmark(
    _card("zinc", "ZINC-12k", (10_000, 1_000, 1_000), PaperRow(12_000, 23.2, 24.9)),
    (
        _flat_arrays("zinc12k.npz", "4e8532f89dc505fb7442356f5bc2a9e5c56aba5c422fb0607aa4cc8ddb9cd5e6"),
        *_official(subset=True),
    ),
)
ZINC_FULL = Benchmark(
    _card("zinc-full", "ZINC-full", (220_011, 24_445, 5_000), PaperRow(249_456, 23.2, 24.9)),
    (
        _flat_arrays("zinc_full.npz", "ba8d2f5b724abd49868a35b3307dc16c7446ed6a6703e029e069fa40ab2d27f1"),
        *_official(subset=False),
    ),
)
