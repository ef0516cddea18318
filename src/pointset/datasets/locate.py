"""Finding the files of a dataset: the data folder, the cache, an installed package, then the official address."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pointset.datasets.download import fetch
from pointset.datasets.sources import Benchmark, Source
from pointset.errors import MissingDataError, SpecError
from pointset.files import cache_folder

DATA_VARIABLE = "POINTSET_DATA"


@dataclass(frozen=True)
class Found:
    """A source whose files are there."""

    source: Source
    files: tuple[Path, ...]
    origin: str  # for people: "data folder", "cache", "package qm9pack", "made here"


def data_folder(chosen: str | Path | None = None) -> Path | None:
    """The folder that was chosen, or ``$POINTSET_DATA``; None where neither is set.

    Raises:
        MissingDataError: the folder is not there.
    """
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


def find(benchmark: Benchmark, data_dir: str | Path | None = None) -> Found | None:
    """The first source whose files are on this machine; nothing is downloaded."""
    return next(_present(benchmark, data_folder(data_dir)), None)


def obtain(
    benchmark: Benchmark, data_dir: str | Path | None = None, *, download: bool = True, show: bool | None = None
) -> Found:
    """The first source whose files are on this machine, or can be downloaded.

    Raises:
        MissingDataError: no source can be had; the message says what to put where.
    """
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
            ways.append(f"put {_listed(source.places[0])} into {where} ({source.title})")
            where = "the same folder"
    where = f"{downloads_folder(benchmark)}"
    for source in fetched:
        ways.append(f"save {_listed([f'{one.url} as {one.file}' for one in source.downloads])} in {where}")
        where = "the same folder"
    ways += [f"pip install 'pointset[{source.extra}]'" for source in sources if source.package]
    tried = [f"Download failed: {failure}." for failure in failures]
    return "\n".join([head, *tried, "Any one of these helps:", *(f"- {way}" for way in ways)])


def _listed(texts: Sequence[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last
