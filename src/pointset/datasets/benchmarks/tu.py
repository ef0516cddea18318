"""MUTAG, PTC-MR, PROTEINS and IMDB-BINARY: small graphs in two classes, scored by ten-fold cross-validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pointset.arrays import Array
from pointset.datasets.benchmarks.reading import DataFile, find_files, read_features, read_numbers
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits import folds
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, SpecError
from pointset.specs import Categories


@dataclass(frozen=True)
class TuFiles:
    """Reads one TU dataset: from its zip, or from the text files in it (``NAME_A.txt``, ``NAME_graph_labels.txt``, …).

    Nodes are numbered from 1 through all graphs, graphs from 1; every edge stands in both directions. Labels of nodes
    and edges are kept as they are; the label of a graph becomes its position in ``classes``.
    """

    name: str  # the stem of all file names
    classes: tuple[int, ...]  # the labels of graphs, in order
    node: Categories | None = None  # the labels of nodes; None where the dataset has none
    edge: Categories | None = None  # the labels of edges

    @property
    def names(self) -> tuple[str, ...]:
        """The files that are read."""
        parts = ["A", "graph_indicator", "graph_labels"]
        parts += ["node_labels"] if self.node is not None else []
        parts += ["edge_labels"] if self.edge is not None else []
        return tuple(f"{self.name}_{part}.txt" for part in parts)

    def __call__(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        """The graphs, in the order of the files; y (G,) is the class, 0, 1, …."""
        edge_file, owner_file, class_file, *label_files = find_files(files, self.names)
        y = self._classes(class_file)
        num_nodes = _nodes_of_graphs(owner_file, len(y))
        pairs = read_numbers(edge_file, 2)
        graph = _graphs_of_edges(edge_file, pairs, num_nodes)
        x = edge_attr = None
        if self.node is not None:
            x = read_features(label_files[0], self.node, int(num_nodes.sum()))
        if self.edge is not None:
            edge_attr = read_features(label_files[-1], self.edge, len(pairs))
        order = np.argsort(graph, kind="stable")
        start = np.cumsum(num_nodes) - num_nodes
        return GraphTable(
            num_nodes=num_nodes,
            num_edges=np.bincount(graph, minlength=len(y)),
            edges=(pairs - 1 - start[graph][:, None])[order].T,
            x=x,
            edge_attr=None if edge_attr is None else edge_attr[order],
            y=y,
        )

    def _classes(self, file: DataFile) -> Array:
        """(G,) positions in ``classes``."""
        labels = read_numbers(file, 1)[:, 0]
        known = np.isin(labels, self.classes)
        if not known.all():
            line = int(np.argmin(known))
            expected = " or ".join(map(str, self.classes))
            raise FileFormatError(f"{file}, line {line + 1}: got the class {labels[line]}; expected {expected}")
        return np.searchsorted(self.classes, labels)


def _nodes_of_graphs(file: DataFile, graphs: int) -> Array:
    """(G,) how many nodes each graph has, from the number of the graph of each node."""
    owner = read_numbers(file, 1)[:, 0]
    outside = (owner < 1) | (owner > graphs)
    falling = np.r_[False, owner[1:] < owner[:-1]]
    if (outside | falling).any():
        line = int(np.argmax(outside | falling))
        why = f"expected 1 to {graphs}, the graphs that have a label" if outside[line] else "expected rising numbers"
        raise FileFormatError(f"{file}, line {line + 1}: got graph {owner[line]}; {why}")
    num_nodes = np.bincount(owner - 1, minlength=graphs)
    if not num_nodes.all():
        raise FileFormatError(
            f"{file} names no node of graph {int(np.argmin(num_nodes)) + 1} of {graphs}; it is cut short, or the "
            "labels are of another dataset"
        )
    return num_nodes


def _graphs_of_edges(file: DataFile, pairs: Array, num_nodes: Array) -> Array:
    """(M,) the graph of each edge; refuses edges that leave their graph, or that stand in one direction only."""
    total = int(num_nodes.sum())
    owner = np.repeat(np.arange(len(num_nodes)), num_nodes)
    outside: Array = np.any((pairs < 1) | (pairs > total), axis=1)
    _refuse_line(file, pairs, outside, f"expected node numbers from 1 to {total}")
    graphs: Array = owner[pairs - 1]  # (M, 2)
    _refuse_line(file, pairs, graphs[:, 0] != graphs[:, 1], "expected both nodes in the same graph")
    forward, backward = pairs[:, 0] * (total + 1) + pairs[:, 1], pairs[:, 1] * (total + 1) + pairs[:, 0]
    one_way = ~np.isin(forward, backward)
    _refuse_line(file, pairs, one_way, "expected the other direction on another line; the file is cut short")
    of_edge: Array = graphs[:, 0]
    return of_edge


def _refuse_line(file: DataFile, pairs: Array, wrong: Array, expected: str) -> None:
    if wrong.any():
        line = int(np.argmax(wrong))
        raise FileFormatError(f"{file}, line {line + 1}: got the edge {pairs[line, 0]}, {pairs[line, 1]}; {expected}")


FOLDS = 10
_SEED = 0  # of the folds; part of what the datasets are here, so that results of different runs can be compared
_ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets"
_MIXED = "The paper's table counts each edge of this dataset in both directions, but those of PTC-MR and others once."


def one_fold(table: GraphTable, card: Card, /, **options: Any) -> tuple[GraphTable, Card]:
    """The split of one fold of ten (``fold``, ``validation``), stratified by class; the same on every machine."""
    fold, validation = options.get("fold", 0), options.get("validation", "inner")
    if isinstance(fold, bool) or not isinstance(fold, int) or not 0 <= fold < FOLDS:
        raise SpecError(f"got fold={fold!r}; expected a whole number from 0 to {FOLDS - 1}")
    split = folds(len(table), FOLDS, seed=_SEED, labels=table.y, validation=validation)[fold]
    rest = "the next for validation, eight for training" if validation == "inner" else "nine for training, none apart"
    described = f"{card.split}; here fold {fold} for test, {rest}"
    return dataclasses.replace(table, split=split), dataclasses.replace(card, split=described)


def _benchmark(reader: TuFiles, sha256: str, **about: Any) -> Benchmark:
    name = reader.name
    card = Card(
        level=Level.GRAPH,
        task=Task.MULTI_CLASS,
        targets=(Target("class", meaning=f"{reader.classes} in the files, renumbered 0, 1"),),
        metric=Metric.ACCURACY,
        split=f"{FOLDS} folds, stratified by class",
        node=reader.node,
        edge=reader.edge,
        licence="none stated; do not redistribute",
        source=f"TU datasets (Morris et al. 2020, arXiv:2007.08663), {_ADDRESS}",
        **about,
    )
    folders = (f"{name}/raw", f"TUDataset/{name}/raw", name)  # PyG's, and the zip unpacked
    official = Source(
        "TU text files",
        reader,
        places=((f"{name}.zip",), *(tuple(f"{folder}/{file}" for file in reader.names) for folder in folders)),
        downloads=(Download(f"{_ADDRESS}/{name}.zip", f"{name}.zip"),),
    )
    packed = Source(  # the same text in a zip that was packed anew, and so has another checksum
        "TU text files, packed anew", reader, places=((f"tu/{name}.zip",),), sha256={f"{name}.zip": sha256}
    )
    options = {
        "fold": f"which of the {FOLDS} folds is for test, from 0",
        "validation": "'inner' (default) takes a fold for validation out of the training part; 'test' has val equal to "
        "test, the custom that the paper follows: its scores are too good by the choice of the best epoch",
    }
    return Benchmark(card, (official, packed), adjust=one_fold, options=options)


MUTAG = _benchmark(
    TuFiles("MUTAG", classes=(-1, 1), node=Categories(7), edge=Categories(4)),
    "5986c7a6e26e0b88a5c102307094a84a9a3f5663111d854fe0cab9126dd65fbb",
    name="mutag",
    title="MUTAG",
    description="Nitro compounds without their hydrogens; predict whether they are mutagenic for a bacterium.",
    classes=("not mutagenic", "mutagenic"),
    node_columns=("element: 0 C, 1 N, 2 O, 3 F, 4 I, 5 Cl, 6 Br",),
    edge_columns=("bond: 0 aromatic, 1 single, 2 double, 3 triple",),
    reference="Debnath et al. 1991",
    paper=PaperRow(188, 17.9, 39.6, both_directions=True),
    notes=(_MIXED,),
)
PTC_MR = _benchmark(
    TuFiles("PTC_MR", classes=(-1, 1), node=Categories(18), edge=Categories(4)),
    "525fb4957ffc43100e8083b9503226ad35c87aff02bb146343c514b149aa94e4",
    name="ptc-mr",
    title="PTC-MR",
    description="Compounds without their hydrogens; predict whether they give cancer to male rats.",
    classes=("not carcinogenic", "carcinogenic"),
    node_columns=(
        "element: 0 In, 1 P, 2 O, 3 N, 4 Na, 5 C, 6 Cl, 7 S, 8 Br, 9 F, 10 K, 11 Cu, 12 Zn, 13 I, 14 Ba, 15 Sn, 16 Pb, "
        "17 Ca",
    ),
    edge_columns=("bond: 0 triple, 1 double, 2 single, 3 aromatic",),
    reference="Helma et al. 2001; Kriege and Mutzel 2012",
    paper=PaperRow(344, 14.3, 14.7),
    notes=("The paper speaks of 19 node labels; the official files hold 18.",),
)
PROTEINS = _benchmark(
    TuFiles("PROTEINS", classes=(1, 2), node=Categories(3)),
    "c86e2838389213a1b2b22d62d65d7b861524c0caf5a191586c6ce60534f2d011",
    name="proteins",
    title="PROTEINS",
    description="Secondary structure elements, joined where neighbours in sequence or space; predict whether the "
    "protein is an enzyme.",
    classes=("enzyme", "not an enzyme"),
    node_columns=("structure: helix, sheet or turn; the files do not say which is which",),
    reference="Borgwardt et al. 2005; Dobson and Doig 2003",
    paper=PaperRow(1_113, 39.1, 145.6, both_directions=True),
    notes=(
        _MIXED,
        "The files also hold a real attribute of each node (a length). It is left out, as in GIN, KP-GNN and PyG's "
        "default, whose protocol the paper follows.",
    ),
)
IMDB_BINARY = _benchmark(
    TuFiles("IMDB-BINARY", classes=(0, 1)),
    "9b6b8cf08abbd5f0fb8eced9bd3711f5699bf3f7e9883aef80b5c5030719e2c5",
    name="imdb-binary",
    title="IMDB-BINARY",
    description="Actors who played in the same films, around one of them; predict whether the films are of the genre "
    "action or romance.",
    classes=("genre 0", "genre 1"),
    reference="Yanardag and Vishwanathan 2015",
    paper=PaperRow(1_000, 19.8, 193.1, both_directions=True),
    notes=(_MIXED, "Nodes and edges have no features.", "The files do not say which genre is 0 and which 1."),
)
