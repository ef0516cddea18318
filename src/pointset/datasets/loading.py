"""The datasets of the paper by their names (:data:`BENCHMARKS`), those that users register (:func:`register_dataset`),
and loading one (:func:`load`).

Light to import: readers load what they need when they read.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from pointset import extensions
from pointset.datasets.benchmarks import counting, far_nodes, long_range, molhiv, nodes, qm9, tu, zinc
from pointset.datasets.cache import file_digest, prepared, prepared_file
from pointset.datasets.sources import Benchmark, Found, obtain
from pointset.datasets.splits import check_split
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, MissingExtraError, PointsetError, SpecError, did_you_mean

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset

Made = TypeVar("Made", bound=Callable[..., Any])

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
        nodes.CORA,
        nodes.CITESEER,
        nodes.PUBMED,
        nodes.TOLOKERS,
        nodes.MINESWEEPER,
        nodes.ACTOR,
        nodes.SQUIRREL,
        far_nodes.MINESWEEPER_GRID,
        far_nodes.LUXEMBOURG,
    )
}


class OwnDataset(NamedTuple):
    """A dataset that a user has registered."""

    load: Callable[..., Dataset]
    summary: str


OWN: dict[str, OwnDataset] = {}


def names() -> tuple[str, ...]:
    """The names of all datasets, in the order of the paper's table; those that users have registered come last."""
    return (*BENCHMARKS, *OWN)


def is_dataset(name: str) -> bool:
    """Whether there is one of this name; looks at what was registered, too."""
    return name in BENCHMARKS or extensions.look_up("dataset", OWN, name) is not None


def benchmark_named(name: str) -> Benchmark:
    """The dataset of the paper with this name."""
    if isinstance(name, str) and extensions.look_up("dataset", OWN, name) is not None:
        raise SpecError(
            f"the dataset {name!r} was registered by a module of your own, so no more is known of it than what "
            f"pointset.datasets.load({name!r}) gives; expected one of {', '.join(BENCHMARKS)}"
        )
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
    """A dataset of the paper, or one that was registered, by its name.

    Its files are looked for in ``data_dir`` (or ``$POINTSET_DATA``), in the cache (``$POINTSET_CACHE``), in an
    installed package that carries them, and at their official address, in this order. What was read is kept in the
    cache, so that the next use starts in seconds. Pickles are only ever rebuilt as plain data.

    Args:
        name: ``"zinc"``, ``"qm9"``, …; ``pointset datasets`` lists them.
        data_dir: a folder with the data.
        download: whether the official address may be asked.
        progress: whether to show bars; by default where there is a terminal.
        **options: of this dataset; its card names them. One that was registered takes those of its function.

    Raises:
        SpecError: there is no such dataset or option.
        MissingDataError: the files are nowhere; the message says what to put where.
        MissingExtraError: these files need a package that is not installed, such as RDKit for SMILES.
        FileFormatError: a file is damaged or not what its name promises.
    """
    if isinstance(name, str) and name not in BENCHMARKS and (own := extensions.look_up("dataset", OWN, name)):
        return _load_own(name, own, data_dir, options)
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


def _load_own(name: str, own: OwnDataset, data_dir: str | Path | None, options: dict[str, Any]) -> Dataset:
    """What the function of a user gives, under the name that it was registered by."""
    from pointset.datasets.dataset import Dataset

    if "data_dir" in inspect.signature(own.load).parameters:
        options = {"data_dir": data_dir, **options}
    try:
        inspect.signature(own.load).bind(**options)
    except TypeError as error:
        raise SpecError(f"the dataset {name!r} got the options {list(options)}: {error}") from None
    found = own.load(**options)
    if not isinstance(found, Dataset):
        raise SpecError(
            f"the function of the dataset {name!r} gave a {type(found).__name__}; expected a Dataset, such as "
            "pointset.datasets.from_graphs makes of PyG graphs"
        )
    return dataclasses.replace(found, card=dataclasses.replace(found.card, name=name))


@overload
def register_dataset(name: str, load: None = None, *, replace: bool = ...) -> Callable[[Made], Made]: ...
@overload
def register_dataset(name: str, load: Made, *, replace: bool = ...) -> Made: ...
def register_dataset(name: str, load: Any = None, *, replace: bool = False) -> Any:
    """Give a dataset of your own a name, for recipes (``dataset.name=name``) and :func:`load`; also as a decorator.

    Args:
        name: the new name.
        load: a function that gives a :class:`~pointset.datasets.Dataset`, such as what
            :func:`pointset.datasets.from_graphs` makes. It is called when the dataset is asked for; what
            ``dataset.options`` of a recipe holds are its arguments, and ``data_dir`` where it has such an argument.
        replace: take the place of another function that you have registered under this name.

    Raises:
        SpecError: the name is taken, or it is not a function.

    Example:
        >>> import networkx as nx, pointset
        >>> @pointset.register_dataset("cycles")
        ... def cycles(count=20):
        ...     graphs = [nx.cycle_graph(3 + number) for number in range(count)]
        ...     return pointset.datasets.from_graphs(graphs, targets=[[float(len(one))] for one in graphs])
        >>> len(pointset.datasets.load("cycles", count=30))
        30
    """
    module = extensions.calling_module()

    def register(made: Made) -> Made:
        earlier = OWN.get(name)
        same = earlier is not None and extensions.same_thing(earlier.load, made)
        extensions.check_name("dataset", name, name in BENCHMARKS, same, replace)
        if not callable(made):
            raise SpecError(
                f"got {type(made).__name__} as the dataset {name!r}; expected a function that gives a Dataset"
            )
        OWN[name] = OwnDataset(made, (inspect.getdoc(made) or "").strip().partition("\n")[0].rstrip("."))
        extensions.note_registration("dataset", name, module)
        return made

    return register if load is None else register(load)


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
    return dataclasses.replace(table, split=check_split(table.split, table.split_count)) if table.split else table


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
