"""Finding the files of a dataset: the data folder, the cache, an installed package, then the official address."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pointset.datasets.download import fetch
from pointset.datasets.sources import Benchmark, Source
from pointset.errors import MissingDataError
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
    folder = Path(named)
    if not folder.is_dir():
        how = "data_dir (--data-dir)" if chosen is not None else f"the environment variable {DATA_VARIABLE}"
        raise MissingDataError(f"{how} names {str(folder)!r}, which is not a folder. Create it, or name another")
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
    name = benchmark.card.name
    looked = f"the data folder {folder}" if folder is not None else f"no data folder ({DATA_VARIABLE} is not set)"
    lines = [f"the files of {name} are not on this machine (looked in {looked} and in the cache {cache_folder()})."]
    lines += [f"Download failed: {failure}." for failure in failures]
    if not download and any(source.downloads for source in benchmark.sources):
        lines.append("Downloading was not allowed.")
    ways = []
    for source in benchmark.sources:
        if source.places:
            where = f"{folder}" if folder is not None else "a folder that --data-dir (data_dir=…) names"
            ways.append(f"put {' and '.join(source.places[0])} into {where} ({source.title})")
        if source.downloads:
            addresses = " and ".join(f"{one.url} as {one.file}" for one in source.downloads)
            ways.append(f"save {addresses} in {downloads_folder(benchmark)}")
        if source.package:
            ways.append(f"install the package: pip install 'pointset[{source.extra}]'")
    return " ".join([*lines, "What to do, one of: " + "; or ".join(ways)])
