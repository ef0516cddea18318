"""Where the files of a dataset come from, and what reads them (:class:`Source`, :class:`Benchmark`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pointset.datasets.card import Card
from pointset.datasets.splits.parts import Split
from pointset.datasets.table import GraphTable


class Reader(Protocol):
    """Files → graphs. ``show`` says whether to show a progress bar; None decides by the terminal."""

    def __call__(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable: ...


@dataclass(frozen=True)
class Download:
    """A file at its official address. Publishers that state a checksum have it here."""

    url: str
    file: str  # its name in the cache
    sha256: str = ""
    md5: str = ""


@dataclass(frozen=True)
class Source:
    """One way to get a dataset: files in a data folder, a pip package, a download, or made on the spot.

    Args:
        title: what it is, for people.
        read: makes graphs of the files.
        places: alternatives, each a group of files under a data folder that must all be there.
        downloads: official files; kept in the cache, they are read as one group.
        package: a pip package that carries the data, with the files in it.
        extra: the extra of pointset that installs the package.
        made_here: no file is needed.
        tools: packages whose version changes what is read, such as RDKit; another version reads anew.
        sha256: known checksums, by file name; ``pointset datasets verify`` compares.
        note: what a user should know, e.g. that the official file is a pickle.
    """

    title: str
    read: Reader
    places: tuple[tuple[str, ...], ...] = ()
    downloads: tuple[Download, ...] = ()
    package: tuple[str, ...] = ()  # the package's name, then files in it
    extra: str = ""
    made_here: bool = False
    tools: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


Adjust = Callable[..., tuple[GraphTable, Card]]
"""``adjust(table, card, **options)``: the options of one dataset, applied to what was read."""


@dataclass(frozen=True)
class Benchmark:
    """A dataset of the catalogue: its card, its sources in the order in which they are tried, its options."""

    card: Card
    sources: tuple[Source, ...]
    choose: Callable[..., tuple[Source, ...]] | None = None  # other sources where there are options
    default_split: Callable[[GraphTable], Split] | None = None  # where the files have none
    adjust: Adjust | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # name → what it does
