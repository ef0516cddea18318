"""PascalVOC-SP: images as graphs of superpixels; the class of the object that each superpixel belongs to."""

from __future__ import annotations

from pointset.datasets.benchmarks.lrgb_files import LrgbFiles
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits.parts import PARTS
from pointset.specs import Categories, Reals

_CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa", "train", "tv/monitor",
)  # fmt: skip
_STATISTICS = ("mean", "standard deviation", "maximum", "minimum")
_CHANNELS = ("red", "green", "blue")
_FILES = LrgbFiles(Reals(14), Reals(2), Categories(len(_CLASSES)), y_of_nodes=True, suffix="pickle")
_CARD = Card(
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
    node=_FILES.node,
    edge=_FILES.edge,
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
    _CARD,
    (
        Source(
            "PyG's LRGBDataset, raw",
            _FILES.raw,
            places=(
                ("pascalvocsp.zip",),
                *(
                    tuple(f"{folder}/{part}.pickle" for part in PARTS)
                    for folder in ("pascalvoc-sp/raw", "voc_superpixels_edge_wt_region_boundary")
                ),
            ),
            downloads=(Download("https://www.dropbox.com/s/8x722ai272wqwl4/pascalvocsp.zip?dl=1", "pascalvocsp.zip"),),
            note="The official files are pickles; nothing but arrays and tensors is read of them.",
        ),
        Source(
            "PyG's LRGBDataset, processed",
            _FILES.processed,
            places=(tuple(f"pascalvoc-sp/processed/{part}.pt" for part in PARTS),),
        ),
    ),
)
