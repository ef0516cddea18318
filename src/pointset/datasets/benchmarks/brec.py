"""BREC: 400 pairs of graphs that are not isomorphic and that 1-WL cannot distinguish (Wang and Zhang, 2024)."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pointset.datasets.sources import DATA_VARIABLE, data_folder
from pointset.errors import FileFormatError, GraphError, MissingDataError
from pointset.files import read_bytes

if TYPE_CHECKING:
    from torch import Tensor

NUM_PAIRS = 400
CATEGORIES = {  # of pair numbers, in the order of the published file
    "Basic": range(60),
    "Regular": range(60, 110),
    "Regular-SRG": range(110, 160),
    "Extension": range(160, 260),
    "CFI": range(260, 360),
    "4-Vertex_Condition": range(360, 380),
    "Distance_Regular": range(380, 400),
}
_TABLE, _PUBLISHED = "brec/brec_pairs.csv.gz", "brec/brec_v3.npy"
_COPIES = 32  # of each pair in the published file, one after the other


EdgeList: TypeAlias = "tuple[int, Tensor]"  # number of nodes, edges (2, m), each once


class GraphPair(NamedTuple):
    """Two graphs of one size."""

    number: int
    category: str
    first: EdgeList
    second: EdgeList

    @property
    def num_nodes(self) -> int:
        """Of each of the two."""
        return self.first[0]


def load_pairs(data_dir: str | Path | None = None) -> list[GraphPair]:
    """All pairs, from a table ``pair,category,g6_a,g6_b`` or from the published array of graph6 lines.

    Raises:
        MissingDataError: neither file is in the data folder.
        FileFormatError: the file is damaged.
    """
    folder = data_folder(data_dir)
    if folder is not None:
        for name, read in ((_TABLE, _from_table), (_PUBLISHED, _from_array)):
            path = folder / name
            if path.is_file():
                return _checked(list(read(path)), path)
    looked = f"{folder}" if folder is not None else f"no data folder, as {DATA_VARIABLE} is not set"
    raise MissingDataError(
        f"BREC's pairs are not on this machine (looked in {looked}). Put {_PUBLISHED}, which its authors publish, or "
        f"{_TABLE} into a folder and name that folder with --data-dir (data_dir=…)"
    )


def _from_table(path: Path) -> Iterator[GraphPair]:
    try:
        text = gzip.decompress(read_bytes(path)).decode("utf-8")
        rows = [
            (int(row["pair"]), row["category"], row["g6_a"].encode(), row["g6_b"].encode())
            for row in csv.DictReader(io.StringIO(text, newline=""), strict=True)
        ]
    except (OSError, EOFError, zlib.error, csv.Error, KeyError, ValueError, AttributeError) as error:
        raise FileFormatError(
            f"{path} cannot be read ({error}); expected gzipped CSV with the columns pair, category, g6_a, g6_b"
        ) from None
    for row in rows:
        yield _pair(*row, path)


def _from_array(path: Path) -> Iterator[GraphPair]:
    try:
        lines = np.load(io.BytesIO(read_bytes(path)), allow_pickle=False).ravel()
    except (OSError, EOFError, ValueError) as error:
        raise FileFormatError(
            f"{path} cannot be read without running code from it ({error}); expected an array of byte strings. "
            f"If you trust it: np.save(path, np.load(path, allow_pickle=True).astype('S'))"
        ) from None
    if len(lines) < 2 * _COPIES * NUM_PAIRS:
        raise FileFormatError(
            f"{path} holds {len(lines)} graphs; expected at least {2 * _COPIES * NUM_PAIRS}, {_COPIES} copies of "
            f"{NUM_PAIRS} pairs. Get it again"
        )
    for category, numbers in CATEGORIES.items():
        for number in numbers:
            first, second = lines[2 * _COPIES * number : 2 * _COPIES * number + 2]
            yield _pair(number, category, bytes(first), bytes(second), path)


def _pair(number: int, category: str, first: bytes, second: bytes, path: Path) -> GraphPair:
    from pointset.datasets.graph_files.graph6 import graph_of_line  # imports torch

    try:
        return GraphPair(number, category, graph_of_line(first), graph_of_line(second))
    except GraphError as error:
        raise FileFormatError(f"{path}, pair {number}: {error}") from None


def _checked(pairs: list[GraphPair], path: Path) -> list[GraphPair]:
    if sorted(pair.number for pair in pairs) != list(range(NUM_PAIRS)):
        raise FileFormatError(f"{path} holds {len(pairs)} pairs; expected {NUM_PAIRS}, numbered from 0. Get it again")
    for pair in pairs:
        if pair.first[0] != pair.second[0] or pair.number not in CATEGORIES.get(pair.category, ()):
            raise FileFormatError(
                f"{path}, pair {pair.number} ({pair.category}): expected two graphs of one size in the category "
                "that the number belongs to. Get it again"
            )
    return sorted(pairs, key=lambda pair: pair.number)
