"""Peptides-func and Peptides-struct: the same 15,535 peptides as molecules, with their functions or their 3D shape."""

from __future__ import annotations

from functools import partial
from typing import Any

from pointset.datasets.benchmarks.lrgb_files import LrgbFiles
from pointset.datasets.benchmarks.peptide_files import FUNCTIONS, SHAPES, read_functions, read_shapes
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.molecules.smiles_table import EDGE, NODE, OGB_FEATURES
from pointset.datasets.sources import Benchmark, Download, Reader, Source
from pointset.datasets.splits.parts import PARTS
from pointset.specs import Reals

_AXIS = {"a": "first", "b": "second", "c": "third"}
_MEANINGS = {
    "Inertia_mass": "moment of inertia of the masses",
    "Inertia_valence": "moment of inertia of the hydrogens",
    "length": "length",
    "Spherocity": "RDKit's SpherocityIndex",
    "Plane_best_fit": "RDKit's PBF: mean distance of the atoms from their best plane",
}
_DROPBOX = "https://www.dropbox.com/s"
_SPLIT_MD5 = "5a0114bdadc80b94fc7ae974f13ef061"  # of both pickles: they are the same file


def _card(name: str, title: str, **about: Any) -> Card:
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


def _pyg_sources(folder: str, zipped: str, address: str, targets: int) -> tuple[Source, Source]:
    """The graphs as PyG's LRGBDataset has them: no RDKit is needed."""
    files = LrgbFiles(NODE, EDGE, Reals(targets))
    raw, unzipped, processed = (
        tuple(f"{place}/{part}.pt" for part in PARTS) for place in (f"{folder}/raw", zipped, f"{folder}/processed")
    )
    note = "The official files are pickles; nothing but tensors is read of them."
    download = Download(f"{_DROPBOX}/{address}/{zipped}.zip?dl=1", f"{zipped}.zip")
    return (
        Source(
            "PyG's LRGBDataset, raw",
            files.raw,
            places=((f"{zipped}.zip",), raw, unzipped),
            downloads=(download,),
            note=note,
        ),
        Source("PyG's LRGBDataset, processed", files.processed, places=(processed,), note=note),
    )


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
        note="SMILES become graphs with RDKit (extra chem). The split is a pickle; nothing but arrays is read of it.",
    )


PEPTIDES_FUNC = Benchmark(
    _card(
        "peptides-func",
        "Peptides-func",
        description="Peptides as molecules of about 150 atoms; predict which of ten functions they have.",
        task=Task.MULTI_LABEL,
        targets=tuple(Target(name) for name in FUNCTIONS),
        metric=Metric.AVERAGE_PRECISION,
    ),
    (
        *_pyg_sources("peptides-func", "peptidesfunc", "ycsq37q8sxs1ou8", len(FUNCTIONS)),
        _csv_source(
            "LRGB's CSV",
            read_functions,
            Download(
                f"{_DROPBOX}/ol2v01usvaxbsr8/peptide_multi_class_dataset.csv.gz?dl=1",
                "peptide_multi_class_dataset.csv.gz",
                md5="701eb743e899f4d793f0e13c8fa5a1b4",
            ),
            Download(
                f"{_DROPBOX}/j4zcnx2eipuo0xz/splits_random_stratified_peptide.pickle?dl=1",
                "splits_random_stratified_peptide.pickle",
                md5=_SPLIT_MD5,
            ),
            "peptides-functional",
            sha256="e314f7dfb1ac46ef83fe5f5aa4fe502ad4527da633b64e6b997cb0c452511de3",
        ),
    ),
)
_SHAPE_SPLIT = Download(
    f"{_DROPBOX}/9dfifzft1hqgow6/splits_random_stratified_peptide_structure.pickle?dl=1",
    "splits_random_stratified_peptide_structure.pickle",
    md5=_SPLIT_MD5,
)
PEPTIDES_STRUCT = Benchmark(
    _card(
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
        *_pyg_sources("peptides-struct", "peptidesstruct", "zgv4z8fcpmknhs8", len(SHAPES)),
        _csv_source(
            "LRGB's CSV, normalised",
            partial(read_shapes, normalised=True),
            Download(
                f"{_DROPBOX}/0d4aalmq4b4e2nh/peptide_structure_normalized_dataset.csv.gz?dl=1",
                "peptide_structure_normalized_dataset.csv.gz",
                md5="c240c1c15466b5c907c63e180fa8aa89",
            ),
            _SHAPE_SPLIT,
            "peptides-structural",
        ),
        _csv_source(
            "LRGB's CSV, raw values",
            partial(read_shapes, normalised=False),
            Download(
                f"{_DROPBOX}/464u3303eu2u4zp/peptide_structure_dataset.csv.gz?dl=1",
                "peptide_structure_dataset.csv.gz",
                md5="9786061a34298a0684150f2e4ff13f47",
            ),
            _SHAPE_SPLIT,
            "peptides-structural",
        ),
    ),
)
