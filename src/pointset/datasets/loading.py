"""The datasets of the paper by their names (:data:`BENCHMARKS`), and loading one (:func:`load`).

Light to import: readers load what they need when they read.
"""

from __future__ import annotations

import dataclasses
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.datasets.benchmarks import counting, long_range, molhiv, qm9, tu, zinc
from pointset.datasets.cache import file_digest, prepared, prepared_file
from pointset.datasets.sources import Benchmark, Found, obtain
from pointset.datasets.splits import check_split
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, MissingExtraError, PointsetError, SpecError, did_you_mean

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset


BENCHMARKS: dict[str, Benchmark] = {
    benchmark.card.name: benchmark
    for benchmark in (
        counting.COUNTING,
        counting.COUNTING_ORIGINAL,
        counting.COUNTING_FAMILIES,
        qm9.QM9,
        zinc.ZINC,
        zinc.ZINC_FULL,
        molhiv.MOLHIV,
        tu.MUTAG,
        tu.PTC_MR,
        tu.PROTEINS,
        tu.IMDB_BINARY,
        long_range.PASCALVOC_SP,
        long_range.PEPTIDES_FUNC,
        long_range.PEPTIDES_STRUCT,
    )
}


def names() -> tuple[str, ...]:
    """The names of all datasets, in the order of the paper's table."""
    return tuple(BENCHMARKS)


def benchmark_named(name: str) -> Benchmark:
    """The dataset with this name."""
    if not isinstance(name, str) or name not in BENCHMARKS:
        hint = did_you_mean(str(name).lower(), list(BENCHMARKS))
        raise SpecError(f"there is no dataset {name!r}; expected one of {', '.join(BENCHMARKS)}{hint}")
    return BENCHMARKS[name]


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    download: bool = True,
    progress: bool | None = None,
    **options: Any,
) -> Dataset:
    """A dataset of the paper by its name.

    Its files are looked for in ``data_dir`` (or ``$POINTSET_DATA``), in the cache (``$POINTSET_CACHE``), in an
    installed package that carries them, and at their official address, in this order. What was read is kept in the
    cache, so that the next use starts in seconds. Pickles are only ever rebuilt as plain data.

    Args:
        name: ``"zinc"``, ``"qm9"``, …; ``pointset datasets`` lists them.
        data_dir: a folder with the data.
        download: whether the official address may be asked.
        progress: whether to show bars; by default where there is a terminal.
        **options: of this dataset; its card names them.

    Raises:
        SpecError: there is no such dataset or option.
        MissingDataError: the files are nowhere; the message says what to put where.
        MissingExtraError: these files need a package that is not installed, such as RDKit for SMILES.
        FileFormatError: a file is damaged or not what its name promises.
    """
    benchmark = benchmark_named(name)
    for option in options:
        if option not in benchmark.options:
            known, hint = ", ".join(benchmark.options) or "none", did_you_mean(option, list(benchmark.options))
            raise SpecError(f"{name} has no option {option!r}; expected: {known}{hint}")
    if benchmark.choose is not None and options:
        benchmark, options = dataclasses.replace(benchmark, sources=benchmark.choose(**options)), {}
    found = obtain(benchmark, data_dir, download=download, show=progress)
    digests = tuple(map(file_digest, found.files))
    return assembled(benchmark, found, digests, _read(benchmark, found, digests, progress), **options)


def assembled(
    benchmark: Benchmark, found: Found, digests: tuple[str, ...], table: GraphTable, **options: Any
) -> Dataset:
    """The dataset of what was read: with a split where the files have none, and with its options applied."""
    from pointset.datasets.dataset import Dataset, Provenance

    if benchmark.default_split is not None and not table.split:
        table = dataclasses.replace(table, split=benchmark.default_split(table))
    card = benchmark.card
    if benchmark.adjust is not None:
        table, card = benchmark.adjust(table, card, **options)
    provenance = Provenance(found.source.title, found.origin, found.files, digests)
    return Dataset.from_table(table, card, provenance)


def _read(benchmark: Benchmark, found: Found, digests: tuple[str, ...], show: bool | None) -> GraphTable:
    name = benchmark.card.name
    path = prepared_file(name, found.source.title, *digests, *map(_version, found.source.tools))
    try:
        return prepared(path, lambda: (_made(found, digests, show), {}))[0]
    except MissingExtraError:
        raise
    except PointsetError as error:
        if isinstance(error, FileFormatError) and any(file.name in str(error) for file in found.files):
            raise
        files = ", ".join(str(file) for file in found.files)
        raise FileFormatError(f"{name} cannot be read: {error} (from {files})") from error


def _made(found: Found, digests: tuple[str, ...], show: bool | None) -> GraphTable:
    try:
        table = found.source.read(found.files, show=show)
    except FileFormatError as error:
        if found.origin != "cache":
            raise
        folder = found.files[0].parent
        raise FileFormatError(f"{error}. Remove it from {folder} to have it downloaded again") from error
    if digests and tuple(map(file_digest, found.files)) != digests:  # it must not be kept under the name of another
        raise FileFormatError(f"{', '.join(map(str, found.files))} changed while being read; try again")
    return dataclasses.replace(table, split=check_split(table.split, len(table))) if table.split else table


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
