"""The Long Range Graph Benchmark: PascalVOC-SP (images as superpixels), Peptides-func and Peptides-struct.

All three come in the files of PyG's ``LRGBDataset`` (:class:`LrgbFiles`), as downloaded (``raw``) and as PyG keeps them
(``processed``), the peptides also as LRGB's own CSV of SMILES with a split. PyG's files and that split are pickles,
of which only plain containers, arrays and tensors are rebuilt (:mod:`pointset.datasets.safe_pickle`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pointset.arrays import Array
from pointset.datasets.benchmarks.pyg_files import Collated, collate, read_collated, read_list
from pointset.datasets.benchmarks.reading import (
    DataFile,
    as_array,
    as_features,
    expect_shape,
    find_files,
    kind_of,
    read_columns,
)
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.molecules.features import EDGE, NODE, OGB_FEATURES
from pointset.datasets.molecules.parallel import table_of_smiles
from pointset.datasets.sources import Benchmark, Download, Reader, Source
from pointset.datasets.splits import Split, check_split, split_from_file
from pointset.datasets.splits.parts import PARTS
from pointset.datasets.table import GraphTable, joined_parts
from pointset.errors import FileFormatError, SpecError
from pointset.specs import Categories, Reals

_LARGEST = 1 << 32  # bytes; PascalVOC-SP has 0.7 GB for training
_FIELDS = ("x", "edge_attr", "edge_index", "y")  # the order of a raw tuple


@dataclass(frozen=True)
class LrgbFiles:
    """Reads a dataset of the Long Range Graph Benchmark; graphs stand in the order train, val, test."""

    node: Categories | Reals  # columns of x
    edge: Categories | Reals  # of edge_attr
    y: Categories | Reals  # of y: for each node its class, or for each graph real numbers
    y_of_nodes: bool = False  # which of the two
    suffix: str = "pt"  # how the raw files end

    def raw(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        """From a zip or its files: each part is a list of (x, edge_attr, edge_index, y), one for each graph."""
        return self._table(files, self.suffix, self._from_tuples)

    def processed(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        """From what PyG made of it: each part is (data, slices), all graphs in flat tensors."""
        return self._table(files, "pt", self._from_slices)

    def _table(self, files: Sequence[Path], suffix: str, part: Callable[[DataFile], Collated]) -> GraphTable:
        parts = find_files(files, [f"{name}.{suffix}" for name in PARTS])
        return joined_parts([self._checked(file, part(file)) for file in parts])

    def _from_tuples(self, file: DataFile) -> Collated:
        graphs = read_list(file, f"({', '.join(_FIELDS)})", largest=_LARGEST)
        return collate((self._fields(f"{file}, graph {number}", graph) for number, graph in enumerate(graphs)), "x")

    def _fields(self, place: str, graph: Any) -> dict[str, Array]:
        if not isinstance(graph, tuple | list) or len(graph) != len(_FIELDS):
            raise FileFormatError(f"{place}: got {kind_of(graph)}; expected ({', '.join(_FIELDS)})")
        fields = {name: as_array(f"{place}, {name}", value) for name, value in zip(_FIELDS, graph, strict=True)}
        self._check_shapes(place, fields, graphs=1)
        return fields

    def _from_slices(self, file: DataFile) -> Collated:
        of_nodes, of_graphs = (("x", "y"), ()) if self.y_of_nodes else (("x",), ("y",))
        flat = read_collated(file.path, nodes=of_nodes, edges=("edge_attr",), graphs=of_graphs)
        self._check_shapes(file, flat.fields, graphs=len(flat.num_nodes))
        return flat

    def _check_shapes(self, place: object, fields: Mapping[str, Array], *, graphs: int) -> None:
        x, edges = fields["x"], fields["edge_index"]
        nodes, listed = (len(x) if x.ndim else 0), (edges.shape[-1] if edges.ndim else 0)
        expect_shape(place, "x", x, nodes, self.node.width)
        expect_shape(place, "edge_index", edges, 2, listed)
        expect_shape(place, "edge_attr", fields["edge_attr"], listed, self.edge.width)
        expect_shape(place, "y", fields["y"], *((nodes,) if self.y_of_nodes else (graphs, self.y.width)))

    def _checked(self, file: DataFile, flat: Collated) -> GraphTable:
        edges, num_nodes, y = flat["edge_index"], flat.num_nodes, flat["y"]
        if edges.dtype.kind not in "iu":
            raise FileFormatError(f"{file}: edge_index is of type {edges.dtype}; expected whole numbers")
        # An image of one superpixel has a loop for want of edges; the Laplacian would refuse it.
        real = (edges[0] != 0) | (edges[1] != 0) | np.repeat(num_nodes != 1, flat.num_edges)
        owner = np.repeat(np.arange(len(num_nodes)), flat.num_edges)
        return GraphTable(
            num_nodes=num_nodes,
            num_edges=np.bincount(owner[real], minlength=len(num_nodes)),
            edges=edges[:, real],
            x=as_features(f"{file}, x", flat["x"], self.node),
            edge_attr=as_features(f"{file}, edge_attr", flat["edge_attr"], self.edge)[real],
            y=as_features(f"{file}, y", y.reshape(len(y), self.y.width), self.y).reshape(y.shape),
            y_of_nodes=self.y_of_nodes,
        )


def _dropbox(key: str, file: str, md5: str = "") -> Download:
    return Download(f"https://www.dropbox.com/s/{key}/{file}?dl=1", file, md5=md5)


def _pyg_sources(files: LrgbFiles, folder: str, key: str, unpacked: str = "") -> tuple[Source, Source]:
    """``key`` is that of the zip at Dropbox; ``unpacked`` the folder in it, by default named as the zip."""
    archive = folder.replace("-", "")
    note = "The official files are pickles; only arrays and tensors are read from them."
    raw, unzipped = (
        tuple(f"{place}/{part}.{files.suffix}" for part in PARTS) for place in (f"{folder}/raw", unpacked or archive)
    )
    return (
        Source(
            "PyG's LRGBDataset, raw",
            files.raw,
            places=((f"{archive}.zip",), raw, unzipped),
            downloads=(_dropbox(key, f"{archive}.zip"),),
            note=note,
        ),
        Source(
            "PyG's LRGBDataset, processed",
            files.processed,
            places=(tuple(f"{folder}/processed/{part}.pt" for part in PARTS),),
            note=note,
        ),
    )


# PascalVOC-SP: images as graphs of superpixels, each with the class of the object that it belongs to

_CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa", "train", "tv/monitor",
)  # fmt: skip
_STATISTICS = ("mean", "standard deviation", "maximum", "minimum")
_CHANNELS = ("red", "green", "blue")
_VOC_FILES = LrgbFiles(Reals(14), Reals(2), Categories(len(_CLASSES)), y_of_nodes=True, suffix="pickle")
_VOC_CARD = Card(
    name="pascalvoc-sp",
    title="PascalVOC-SP",
    description="Images of PASCAL VOC 2011, cut into up to 500 superpixels by SLIC (compactness 30), joined where they "
    "touch; predict the class of the pixel in the middle of each.",
    level=Level.NODE,
    task=Task.MULTI_CLASS,
    targets=(Target("class", meaning="what the superpixel shows"),),
    classes=_CLASSES,
    metric=Metric.MACRO_F1,
    split="official: the training images of PASCAL VOC, and their validation images in two halves",
    split_sizes={"train": 8_498, "val": 1_428, "test": 1_429},
    node=_VOC_FILES.node,
    edge=_VOC_FILES.edge,
    node_columns=(
        *(f"{statistic} {channel}: of its pixels, from 0 to 1" for statistic in _STATISTICS for channel in _CHANNELS),
        "row: of its middle, in pixels",
        "column: of its middle, in pixels",
    ),
    edge_columns=("boundary strength: mean of the Sobel filter along it", "boundary length: in pixels"),
    licence="that of PASCAL VOC 2011, which follows the terms of Flickr; do not redistribute",
    source="Long Range Graph Benchmark, https://github.com/vijaydwivedi75/lrgb, in the files of PyG's LRGBDataset",
    reference="Dwivedi et al. 2022, arXiv:2206.08164; Everingham et al. 2010",
    paper=PaperRow(11_355, 479.4, 2_710.5, both_directions=True),
    notes=(
        "The paper's table counts each edge in both directions.",
        "Edges have the same features in both directions: they are those of an undirected graph.",
        "Five images are one superpixel; the official files give it an edge to itself, which is left out.",
        "Columns are as published: colours below 1, coordinates in hundreds. LRGB's baselines take them so too.",
    ),
)
PASCALVOC_SP = Benchmark(
    _VOC_CARD,
    _pyg_sources(_VOC_FILES, "pascalvoc-sp", "8x722ai272wqwl4", "voc_superpixels_edge_wt_region_boundary"),
)


# Peptides: the same 15,535 as molecules, with their functions or their 3D shape

FUNCTIONS = (
    "antifungal", "cell_cell_communication", "anticancer", "drug_delivery_vehicle", "antimicrobial", "antiviral",
    "antihypertensive", "antibacterial", "antiparasitic", "toxic",
)  # fmt: skip
SHAPES = (
    "Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c", "Inertia_valence_a", "Inertia_valence_b",
    "Inertia_valence_c", "length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit",
)  # fmt: skip
_AXIS = {"a": "first", "b": "second", "c": "third"}
_MEANINGS = {
    "Inertia_mass": "moment of inertia of the masses",
    "Inertia_valence": "moment of inertia of the hydrogens",
    "length": "length",
    "Spherocity": "RDKit's SpherocityIndex",
    "Plane_best_fit": "RDKit's PBF: mean distance of the atoms from their best plane",
}
_SPLIT_MD5 = "5a0114bdadc80b94fc7ae974f13ef061"  # of both pickles: they are the same file


def read_functions(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """LRGB's CSV and split; y (G, 10) of 0 and 1, graphs in the order of the rows."""
    smiles, labels = read_columns(DataFile(files[0]), ("smiles", "labels"))
    y = np.array([_labels(f"{files[0]}, row {row}", text) for row, text in enumerate(labels, 1)])
    return _peptides(files, smiles, y, show)


def read_shapes(files: Sequence[Path], /, *, show: bool | None, normalised: bool) -> GraphTable:
    """LRGB's CSV and split; y (G, 11) with mean 0 and standard deviation 1 over all peptides.

    A CSV that is not ``normalised`` holds raw values; LRGB normalises them over all rows, with G − 1 below the sum.
    """
    smiles, *columns = read_columns(DataFile(files[0]), ("smiles", *SHAPES))
    y = np.stack([_numbers(f"{files[0]}, {name}", cells) for name, cells in zip(SHAPES, columns, strict=True)], axis=1)
    if not normalised:
        for name, column in zip(SHAPES, y.T, strict=True):
            if (column == column[0]).all():
                raise FileFormatError(
                    f"{files[0]}: {name} is {column[0]:g} in all rows; expected different values to normalise"
                )
        y = (y - y.mean(axis=0)) / y.std(axis=0, ddof=1)
    return _peptides(files, smiles, y, show)


def _peptides(files: Sequence[Path], smiles: list[str], y: Array, show: bool | None) -> GraphTable:
    table_file, split_file = files
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


def _split(path: Path, count: int) -> Split:
    """The official pickle, or the same indices as .npz."""
    if path.suffix != ".pickle":
        return split_from_file(path, count)
    from pointset.datasets.safe_pickle import read_pickle  # imports torch

    content = read_pickle(path)
    try:
        return check_split(content, count)
    except (SpecError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path}: {error}") from None


def _peptides_card(name: str, title: str, **about: Any) -> Card:
    return Card(
        name=name,
        title=title,
        level=Level.GRAPH,
        split="official: at random, stratified by the functions; the same for both sets of peptides",
        split_sizes={"train": 10_873, "val": 2_331, "test": 2_331},
        **OGB_FEATURES,
        licence="CC BY-NC 4.0",
        source="Long Range Graph Benchmark, https://github.com/vijaydwivedi75/lrgb, from SATPdb",
        reference="Dwivedi et al. 2022, arXiv:2206.08164; Singh et al. 2016",
        paper=PaperRow(15_535, 150.9, 307.3, both_directions=True),
        notes=(
            "The paper's table counts each edge in both directions.",
            "Graphs stand in the order of the CSV where they are read from it, otherwise train, val, test.",
            *about.pop("notes", ()),
        ),
        **about,
    )


def _shape_target(name: str) -> Target:
    stem, _, axis = name.rpartition("_")
    if axis in _AXIS:
        return Target(name, "σ", f"{_MEANINGS[stem]} along the {_AXIS[axis]} main axis, sorted")
    return Target(name, "σ", _MEANINGS[name])


def _csv_source(title: str, read: Reader, table: Download, split: Download, folder: str, sha256: str = "") -> Source:
    """LRGB's CSV with its split: as downloaded, with the same split as ``.npz``, and as LRGB keeps them."""
    return Source(
        title,
        read,
        tools=("rdkit",),
        places=(
            (f"peptides/{table.file}", f"peptides/{split.file}"),
            (f"peptides/{table.file}", "peptides/split.npz"),
            (f"{folder}/raw/{table.file}", f"{folder}/{split.file}"),
        ),
        downloads=(table, split),
        sha256={"split.npz": "edfe12252fe456a0675a5475c373b0f537e9cd814ce90dd782c784bafe87c127"}
        | ({table.file: sha256} if sha256 else {}),
        note="SMILES become graphs with RDKit (extra chem). The split is a pickle; only arrays are read from it.",
    )


PEPTIDES_FUNC = Benchmark(
    _peptides_card(
        "peptides-func",
        "Peptides-func",
        description="Peptides as molecules of about 150 atoms; predict which of ten functions they have.",
        task=Task.MULTI_LABEL,
        targets=tuple(Target(name) for name in FUNCTIONS),
        metric=Metric.AVERAGE_PRECISION,
    ),
    (
        *_pyg_sources(LrgbFiles(NODE, EDGE, Reals(len(FUNCTIONS))), "peptides-func", "ycsq37q8sxs1ou8"),
        _csv_source(
            "LRGB's CSV",
            read_functions,
            _dropbox("ol2v01usvaxbsr8", "peptide_multi_class_dataset.csv.gz", "701eb743e899f4d793f0e13c8fa5a1b4"),
            _dropbox("j4zcnx2eipuo0xz", "splits_random_stratified_peptide.pickle", _SPLIT_MD5),
            "peptides-functional",
            sha256="e314f7dfb1ac46ef83fe5f5aa4fe502ad4527da633b64e6b997cb0c452511de3",
        ),
    ),
)
_SHAPE_SPLIT = _dropbox("9dfifzft1hqgow6", "splits_random_stratified_peptide_structure.pickle", _SPLIT_MD5)
PEPTIDES_STRUCT = Benchmark(
    _peptides_card(
        "peptides-struct",
        "Peptides-struct",
        description="Peptides as molecules of about 150 atoms; predict eleven numbers of their shape in space, from "
        "the graph alone.",
        task=Task.REGRESSION,
        targets=tuple(_shape_target(name) for name in SHAPES),
        metric=Metric.MAE,
        notes=(
            "Targets have no unit: they are in standard deviations (σ) from the mean, over all peptides, as LRGB has "
            "them; its results are mean absolute errors in σ.",
        ),
    ),
    (
        *_pyg_sources(LrgbFiles(NODE, EDGE, Reals(len(SHAPES))), "peptides-struct", "zgv4z8fcpmknhs8"),
        _csv_source(
            "LRGB's CSV, normalised",
            partial(read_shapes, normalised=True),
            _dropbox(
                "0d4aalmq4b4e2nh", "peptide_structure_normalized_dataset.csv.gz", "c240c1c15466b5c907c63e180fa8aa89"
            ),
            _SHAPE_SPLIT,
            "peptides-structural",
        ),
        _csv_source(
            "LRGB's CSV, raw values",
            partial(read_shapes, normalised=False),
            _dropbox("464u3303eu2u4zp", "peptide_structure_dataset.csv.gz", "9786061a34298a0684150f2e4ff13f47"),
            _SHAPE_SPLIT,
            "peptides-structural",
        ),
    ),
)
