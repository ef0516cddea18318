"""ZINC: molecules and their penalised logP; the subset of 12,000 and the full 249,456."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pointset.datasets.benchmarks.npz import read_arrays
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.sources import Benchmark, Source
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError
from pointset.specs import Categories

_PARTS = ("train", "val", "test")


def read_npz(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """One ``.npz`` with num_nodes, num_edges, edges (M, 2), atom_type, bond_type, y and split (0, 1, 2)."""
    (path,) = files
    arrays = read_arrays(path, ("num_nodes", "num_edges", "edges", "atom_type", "bond_type", "y", "split"))
    part = arrays["split"]
    if not np.isin(part, range(len(_PARTS))).all():
        raise FileFormatError(f"{path}: split holds {np.unique(part).tolist()}; expected 0 (train), 1 (val), 2 (test)")
    return GraphTable(
        num_nodes=arrays["num_nodes"],
        num_edges=arrays["num_edges"],
        edges=arrays["edges"].T,
        x=arrays["atom_type"][:, None],
        edge_attr=arrays["bond_type"][:, None],
        y=arrays["y"],
        split={name: np.flatnonzero(part == number) for number, name in enumerate(_PARTS)},
    )


def _card(name: str, title: str, sizes: tuple[int, int, int], paper: PaperRow, *notes: str) -> Card:
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
        split_sizes=dict(zip(_PARTS, sizes, strict=True)),
        node=Categories(28),
        edge=Categories(4),
        node_columns=("atom type: element with its hydrogens and charge where they matter",),
        edge_columns=("Kekulé bond: 1 single, 2 double, 3 triple (0 does not occur)",),
        licence="MIT",
        source="Benchmarking GNNs (Dwivedi et al.), from ZINC by way of Grammar/Junction-tree VAE",
        reference="Irwin et al. 2012; Dwivedi et al. 2020, arXiv:2003.00982",
        paper=paper,
        molecules="zinc",
        notes=notes,
    )


ZINC = Benchmark(
    _card("zinc", "ZINC-12k", (10_000, 1_000, 1_000), PaperRow(12_000, 23.2, 24.9)),
    (
        Source(
            "flat arrays",
            read_npz,
            places=(("zinc/zinc12k.npz",),),
            sha256={"zinc12k.npz": "4e8532f89dc505fb7442356f5bc2a9e5c56aba5c422fb0607aa4cc8ddb9cd5e6"},
        ),
    ),
)
ZINC_FULL = Benchmark(
    _card("zinc-full", "ZINC-full", (220_011, 24_445, 5_000), PaperRow(249_456, 23.2, 24.9)),
    (
        Source(
            "flat arrays",
            read_npz,
            places=(("zinc/zinc_full.npz",),),
            sha256={"zinc_full.npz": "ba8d2f5b724abd49868a35b3307dc16c7446ed6a6703e029e069fa40ab2d27f1"},
        ),
    ),
)
