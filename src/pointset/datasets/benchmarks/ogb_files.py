"""OGB's own files of a set of molecules: flat CSV without headers, each gzipped (:func:`read_ogb`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pointset.datasets.benchmarks.checked_arrays import as_features
from pointset.datasets.benchmarks.csv_columns import read_columns
from pointset.datasets.benchmarks.members import Member, members
from pointset.datasets.benchmarks.number_rows import read_numbers
from pointset.datasets.splits import Split, check_split
from pointset.datasets.table import Array, GraphTable
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


def read_ogb(files: Sequence[Path], node: Categories, edge: Categories) -> GraphTable:
    """The graphs of one zip or of its unpacked files (:data:`FILES`), with one label 0 or 1 each, in OGB's order.

    ``edge.csv`` lists every bond once: OGB adds the other direction when it loads (``add_inverse_edge``).

    Raises:
        FileFormatError: with the file, and the line where it can be said.
    """
    nodes, edges, pairs, node_rows, edge_rows, labels, molecules, *parts = members(files, FILES)
    num_nodes = _counts(nodes, None)
    num_edges = _counts(edges, len(num_nodes))
    (smiles,) = read_columns(molecules, ["smiles"])
    return GraphTable(
        num_nodes=num_nodes,
        num_edges=num_edges,
        edges=read_numbers(pairs, 2, rows=int(num_edges.sum())).T,
        x=_features(node_rows, node, int(num_nodes.sum())),
        edge_attr=_features(edge_rows, edge, int(num_edges.sum())),
        y=_features(labels, Categories(2), len(num_nodes))[:, 0].astype(np.float32),
        split=_split(parts, len(num_nodes)),
        smiles=smiles,
    )


def _counts(member: Member, rows: int | None) -> Array:
    counts: Array = read_numbers(member, 1, rows=rows)[:, 0]
    if (counts < 0).any():
        raise FileFormatError(f"{member}, line {int(np.argmax(counts < 0)) + 1}: got a count below 0")
    return counts


def _features(member: Member, spec: Categories, rows: int) -> Array:
    return as_features(member, read_numbers(member, spec.width, rows=rows), spec)


def _split(parts: Sequence[Member], graphs: int) -> Split:
    indices = {name: read_numbers(member, 1)[:, 0] for name, member in zip(_PARTS, parts, strict=True)}
    try:
        return check_split(indices, graphs)
    except SpecError as error:
        raise FileFormatError(f"{parts[0]} and the others: {error}") from None
