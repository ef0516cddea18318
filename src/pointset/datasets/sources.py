"""Where the files of a benchmark come from (:class:`Source`): found on this machine, or downloaded (:func:`obtain`)."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple, Protocol

from pointset.datasets.card import Card
from pointset.datasets.splits.parts import Split
from pointset.datasets.table import GraphTable
from pointset.errors import MissingDataError, SpecError
from pointset.files import cache_folder, open_binary, replacing
from pointset.progress import progress_bar
from pointset.text import listed

DATA_VARIABLE = "POINTSET_DATA"
_BLOCK = 1 << 20  # bytes
_ALL = 100  # files that a message lists
_TIMEOUT_SECONDS = 30


class Reader(Protocol):
    """Files → graphs. ``show`` says whether to show a progress bar; None decides by the terminal.

    A file that is damaged, or not of this dataset, is a :class:`FileFormatError` that names it, and the line, row or
    graph where it can be said. Readers of SMILES raise :class:`MissingExtraError` where RDKit is not installed.
    """

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
    """One way to get a dataset: files in a data folder, a pip package, a download, or made on the spot."""

    title: str  # what it is, for people
    read: Reader  # makes graphs of the files
    places: tuple[tuple[str, ...], ...] = ()  # alternatives: groups of files under a data folder, all to be there
    downloads: tuple[Download, ...] = ()  # official files; kept in the cache, they are read as one group
    package: tuple[str, ...] = ()  # a pip package that carries the data, then the files in it
    extra: str = ""  # the extra of pointset that installs the package
    made_here: bool = False  # no file is needed
    tools: tuple[str, ...] = ()  # packages whose version changes what is read, such as RDKit; another reads anew
    sha256: Mapping[str, str] = field(default_factory=dict)  # known checksums, by file name
    note: str = ""  # what a user should know, e.g. that the official file is a pickle


@dataclass(frozen=True)
class Benchmark:
    """A dataset of the catalogue: its card, its sources in the order in which they are tried, its options."""

    card: Card
    sources: tuple[Source, ...]
    choose: Callable[..., tuple[Source, ...]] | None = None  # other sources where there are options
    default_split: Callable[[GraphTable], Split] | None = None  # where the files have none
    adjust: Callable[..., tuple[GraphTable, Card]] | None = None  # (table, card, **options): applies the options
    options: Mapping[str, str] = field(default_factory=dict)  # name → what it does


def fetch(download: Download, folder: Path, *, show: bool | None = None) -> Path:
    """Download a file unless it is there already: checked, and whole or not at all."""
    target = folder / download.file
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            _transfer(download, temporary, show)
    except MissingDataError:
        raise
    except urllib.error.HTTPError as error:
        raise MissingDataError(f"{download.url} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise MissingDataError(f"no connection to {download.url} ({error.reason})") from None
    except (OSError, HTTPException, ValueError) as error:  # time-outs, broken connections and answers among them
        raise MissingDataError(f"cannot save {download.url} as {target} ({error})") from None
    return target


def _transfer(download: Download, path: Path, show: bool | None) -> None:
    request = urllib.request.Request(download.url, headers={"User-Agent": "pointset"})  # noqa: S310 - from the catalogue
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer, path.open("wb") as file:  # noqa: S310
        length = answer.headers.get("Content-Length") or ""
        expected, received = int(length) if length.isdecimal() else 0, 0
        with progress_bar(f"Downloading {download.file}", expected or None, show=show) as advance:
            while block := answer.read(_BLOCK):
                for target in (sha256, md5):
                    target.update(block)
                file.write(block)
                received += len(block)
                advance(len(block))
    _check_kind(download, path)
    if expected and received != expected:
        raise MissingDataError(f"{download.url} was cut short: {received:,} of {expected:,} bytes came. Try again")
    for name, stated, got in (("SHA-256", download.sha256, sha256.hexdigest()), ("MD5", download.md5, md5.hexdigest())):
        if stated and stated != got:
            raise MissingDataError(
                f"{download.url} is not the file that was published: its {name} is {got}, expected {stated}. It was "
                "not kept"
            )


def _check_kind(download: Download, path: Path) -> None:
    """A page that says "log in" or "moved" is not an archive."""
    with open_binary(path) as file:
        start = file.read(2)
    expected = {".zip": b"PK", ".gz": b"\x1f\x8b"}.get(Path(download.file).suffix, start)
    if not start or start != expected:
        raise MissingDataError(
            f"{download.url} did not give a {Path(download.file).suffix or 'file'}, but {start!r}…; it was not kept"
        )


@dataclass(frozen=True)
class Found:
    """A source whose files are there."""

    source: Source
    files: tuple[Path, ...]
    origin: str  # for people: "data folder", "cache", "package qm9pack", "made here"


def data_folder(chosen: str | Path | None = None) -> Path | None:
    """The folder that was chosen, or ``$POINTSET_DATA``, which must be there; None where neither is set."""
    named = chosen if chosen is not None else os.environ.get(DATA_VARIABLE) or None
    if named is None:
        return None
    try:
        folder = Path(named)
        found = folder.is_dir()
    except TypeError:
        raise SpecError(f"got data_dir={named!r:.60}; expected the path of a folder") from None
    except OSError:  # a name that is too long
        found = False
    if not found:
        how = "data_dir (--data-dir)" if chosen is not None else f"the environment variable {DATA_VARIABLE}"
        raise MissingDataError(f"{how} names {str(folder)!r:.200}, which is not a folder. Create it, or name another")
    return folder


def find_file(name: str, data_dir: str | Path | None = None) -> Path:
    """Own data by its path, or, where there is no such file or folder, by its path below the data folder.

    Raises:
        MissingDataError: it is in neither place.
    """
    path = Path(name)
    if path.is_absolute() or path.exists():
        return path
    folder = data_folder(data_dir)
    if folder is None:
        raise MissingDataError(
            f"there is no file or folder {name}; expected a path, or one below the data folder, which is not set. "
            f"Check the name, or name the folder with --data-dir (data_dir=…) or {DATA_VARIABLE}"
        )
    if not (folder / path).exists():
        raise MissingDataError(f"there is no file or folder {name}, neither here nor in {folder}; check the name")
    return folder / path


def find(benchmark: Benchmark, data_dir: str | Path | None = None) -> Found | None:
    """The first source whose files are on this machine; nothing is downloaded."""
    return next(_present(benchmark, data_folder(data_dir)), None)


def obtain(
    benchmark: Benchmark, data_dir: str | Path | None = None, *, download: bool = True, show: bool | None = None
) -> Found:
    """The first source whose files are on this machine, or can be downloaded; otherwise an error that says the ways."""
    folder = data_folder(data_dir)
    if found := next(_present(benchmark, folder), None):
        return found
    failures = []
    for source in benchmark.sources:
        if source.downloads and download:
            try:
                target = downloads_folder(benchmark)
                return Found(source, tuple(fetch(one, target, show=show) for one in source.downloads), "cache")
            except MissingDataError as error:
                failures.append(str(error))
    raise MissingDataError(_what_to_do(benchmark, folder, failures, download))


def downloads_folder(benchmark: Benchmark) -> Path:
    """Where the downloads of a dataset are kept."""
    return cache_folder() / "downloads" / benchmark.card.name


def _present(benchmark: Benchmark, folder: Path | None) -> Iterator[Found]:
    if folder is not None:
        for source in benchmark.sources:
            for place in source.places:
                files = tuple(folder / file for file in place)
                if all(file.is_file() for file in files):
                    yield Found(source, files, "data folder")
    for source in benchmark.sources:
        files = tuple(downloads_folder(benchmark) / download.file for download in source.downloads)
        if files and all(file.is_file() for file in files):
            yield Found(source, files, "cache")
    for source in benchmark.sources:
        if source.made_here:
            yield Found(source, (), "made here")
        if files := _in_package(source):
            yield Found(source, files, f"package {source.package[0]}")


def _in_package(source: Source) -> tuple[Path, ...]:
    if not source.package:
        return ()
    name, *members = source.package
    spec = importlib.util.find_spec(name)  # finds the folder; no code of the package runs
    if spec is None or not spec.submodule_search_locations:
        return ()
    files = tuple(Path(spec.submodule_search_locations[0]) / member for member in members)
    return files if all(file.is_file() for file in files) else ()


def _what_to_do(benchmark: Benchmark, folder: Path | None, failures: list[str], download: bool) -> str:
    """What was tried, then a line for each way out."""
    name, sources = benchmark.card.name, benchmark.sources
    looked = "the data folder" if folder is not None else f"no data folder, as {DATA_VARIABLE} is not set,"
    head = f"{name} is not on this machine (looked in {looked} and in the cache)."
    fetched = [source for source in sources if source.downloads]
    ways = []
    if fetched and not download:
        head += " Downloading was not allowed."
        ways.append(f"pointset datasets verify {name} --download")
        fetched = fetched[:1]  # that command tries the others too
    where = f"{folder}" if folder is not None else "a folder that --data-dir (data_dir=…) names"
    for source in sources:
        if source.places:
            ways.append(f"put {listed(source.places[0], _ALL)} into {where} ({source.title})")
            where = "the same folder"
    where = f"{downloads_folder(benchmark)}"
    for source in fetched:
        ways.append(f"save {listed([f'{one.url} as {one.file}' for one in source.downloads], _ALL)} in {where}")
        where = "the same folder"
    ways += [f"pip install 'pointset[{source.extra}]'" for source in sources if source.package]
    tried = [f"Download failed: {failure}." for failure in failures]
    return "\n".join([head, *tried, "Any one of these helps:", *(f"- {way}" for way in ways)])


class KnownFile(NamedTuple):
    """A file that a source reads, with the checksums that its publisher or this project states; empty where none."""

    source: str  # for people
    file: str
    url: str
    sha256: str
    md5: str

    @property
    def description(self) -> str:
        """``hiv.csv (SHA-256 74b4faf2a1c5…)``."""
        sums = [f"{name} {known[:12]}…" for name, known in (("SHA-256", self.sha256), ("MD5", self.md5)) if known]
        return f"{self.file} ({', '.join(sums) or 'no checksum known'})"


def known_files(source: Source) -> list[KnownFile]:
    """Those that are downloaded, and those whose checksum is known."""
    downloads = {download.file: download for download in source.downloads}
    files = []
    for name in dict.fromkeys([*downloads, *source.sha256]):
        download = downloads.get(name, Download("", name))
        sha256 = source.sha256.get(name, download.sha256)
        files.append(KnownFile(source.title, name, download.url, sha256, download.md5))
    return files
