"""ogbg-molhiv: molecules, and whether they hinder the replication of HIV."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pointset.datasets.benchmarks.csv_columns import read_columns
from pointset.datasets.benchmarks.members import Member
from pointset.datasets.benchmarks.ogb_files import FILES, read_ogb
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.molecules.smiles_table import EDGE, NODE, OGB_FEATURES, table_of_smiles
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits import split_by_column
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, SpecError


def read_csv(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """One CSV with the columns smiles, HIV_active (0 or 1) and split (train, val, test).

    Raises:
        FileFormatError: with the file, and the row where it can be said.
        MissingExtraError: RDKit is not installed.
    """
    (path,) = files
    smiles, labels, parts = read_columns(Member(path), ("smiles", "HIV_active", "split"))
    for row, label in enumerate(labels, start=1):
        if label not in ("0", "1"):
            raise FileFormatError(f"{path}, row {row}: HIV_active is {label[:40]!r}; expected 0 or 1")
    try:
        split = split_by_column(parts)
    except SpecError as error:
        raise FileFormatError(f"{path}: {error}") from None
    y = np.array(labels, dtype=np.float32)
    return dataclasses.replace(table_of_smiles(smiles, path, show=show), y=y, split=split)


def read_official(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """OGB's zip, or the files in it; no RDKit is needed.

    Raises:
        FileFormatError: with the file, and the line where it can be said.
    """
    return read_ogb(files, NODE, EDGE)


_CARD = Card(
    name="ogbg-molhiv",
    title="ogbg-molhiv",
    description="Molecules of the antiviral screen of the NIH; predict whether they hinder the replication of HIV.",
    level=Level.GRAPH,
    task=Task.BINARY,
    targets=(Target("HIV_active", meaning="1 where replication is hindered"),),
    metric=Metric.ROC_AUC,
    split="official: by scaffold, so that the molecules of test have other ring systems than those of train",
    split_sizes={"train": 32_901, "val": 4_113, "test": 4_113},
    **OGB_FEATURES,
    licence="MIT",
    source="Open Graph Benchmark, https://ogb.stanford.edu/docs/graphprop, from MoleculeNet",
    reference="Hu et al. 2020, arXiv:2005.00687; Wu et al. 2018",
    paper=PaperRow(41_127, 25.5, 27.5),
    notes=("1,443 molecules are active.",),
)
MOLHIV = Benchmark(
    _CARD,
    (
        Source(
            "OGB's own files",
            read_official,
            places=(
                ("hiv.zip",),
                *(tuple(f"{folder}/{file}" for file in FILES) for folder in ("ogbg_molhiv", "hiv")),
            ),
            downloads=(
                Download("https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip", "hiv.zip"),
            ),
        ),
        Source(
            "CSV of SMILES",
            read_csv,
            tools=("rdkit",),
            places=(("molhiv/molhiv.csv.gz",),),
            sha256={"molhiv.csv.gz": "74b4fa7ef816cc0338e6f063180fa5faca22311b992690e2e1f260a55f7152d1"},
            note="SMILES become graphs with RDKit (extra chem).",
        ),
    ),
)
