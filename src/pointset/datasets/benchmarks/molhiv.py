"""ogbg-molhiv: molecules, and whether they hinder the replication of HIV."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pointset.arrays import Array
from pointset.datasets.benchmarks.reading import DataFile, find_files, read_columns, read_features, read_numbers
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.molecules.features import EDGE, NODE, OGB_FEATURES
from pointset.datasets.molecules.parallel import table_of_smiles
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits import Split, check_split, split_by_column
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, SpecError
from pointset.specs import Categories

_PARTS = {"train": "train", "val": "valid", "test": "test"}  # ours → the names of OGB's files
FILES = (
    "raw/num-node-list.csv.gz",
    "raw/num-edge-list.csv.gz",
    "raw/edge.csv.gz",
    "raw/node-feat.csv.gz",
    "raw/edge-feat.csv.gz",
    "raw/graph-label.csv.gz",
    "mapping/mol.csv.gz",
    *(f"split/scaffold/{part}.csv.gz" for part in _PARTS.values()),
)
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


def read_official(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """OGB's zip, or the files in it (:data:`FILES`): flat CSV without headers, each gzipped; no RDKit is needed.

    ``edge.csv`` lists every bond once: OGB adds the other direction when it loads (``add_inverse_edge``).
    """
    nodes, edges, pairs, node_rows, edge_rows, labels, molecules, *parts = find_files(files, FILES)
    num_nodes = _counts(nodes, None)
    num_edges = _counts(edges, len(num_nodes))
    (smiles,) = read_columns(molecules, ["smiles"])
    return GraphTable(
        num_nodes=num_nodes,
        num_edges=num_edges,
        edges=read_numbers(pairs, 2, rows=int(num_edges.sum())).T,
        x=read_features(node_rows, NODE, int(num_nodes.sum())),
        edge_attr=read_features(edge_rows, EDGE, int(num_edges.sum())),
        y=read_features(labels, Categories(2), len(num_nodes))[:, 0].astype(np.float32),
        split=_split(parts, len(num_nodes)),
        smiles=smiles,
    )


def _counts(file: DataFile, rows: int | None) -> Array:
    counts: Array = read_numbers(file, 1, rows=rows)[:, 0]
    if (counts < 0).any():
        raise FileFormatError(f"{file}, line {int(np.argmax(counts < 0)) + 1}: got a count below 0")
    return counts


def _split(parts: Sequence[DataFile], graphs: int) -> Split:
    indices = {name: read_numbers(file, 1)[:, 0] for name, file in zip(_PARTS, parts, strict=True)}
    try:
        return check_split(indices, graphs)
    except SpecError as error:
        raise FileFormatError(f"{parts[0]} and the others: {error}") from None


def read_csv(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """One CSV with the columns smiles, HIV_active (0 or 1) and split (train, val, test)."""
    (path,) = files
    smiles, labels, parts = read_columns(DataFile(path), ("smiles", "HIV_active", "split"))
    for row, label in enumerate(labels, start=1):
        if label not in ("0", "1"):
            raise FileFormatError(f"{path}, row {row}: HIV_active is {label[:40]!r}; expected 0 or 1")
    try:
        split = split_by_column(parts)
    except SpecError as error:
        raise FileFormatError(f"{path}: {error}") from None
    y = np.array(labels, dtype=np.float32)
    return dataclasses.replace(table_of_smiles(smiles, path, show=show), y=y, split=split)


MOLHIV = Benchmark(
    _CARD,
    (
        Source(
            "OGB's own files",
            read_official,
            places=(("hiv.zip",), *(tuple(f"{folder}/{file}" for file in FILES) for folder in ("ogbg_molhiv", "hiv"))),
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
