"""Whether the files of a dataset are those that were published, and hold what its card says (:func:`verify`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pointset.arrays import Array
from pointset.datasets.card import Card, Level, PaperRow, Task
from pointset.datasets.dataset import Dataset
from pointset.datasets.loading import assembled, benchmark_named
from pointset.datasets.sources import Benchmark, Found, Source, known_files, obtain
from pointset.datasets.splits.leaks import find_leaks
from pointset.datasets.statistics import as_columns, column_names, missing_in
from pointset.errors import FileFormatError, GraphError
from pointset.files import open_binary
from pointset.points.graphs import GraphArrays
from pointset.specs import Categories, Spec
from pointset.text import counted, percent


class Check(NamedTuple):
    """One thing that was compared."""

    what: str
    found: str
    expected: str
    holds: bool | None  # None where there is nothing to compare with, or the paper is known to be wrong
    note: str = ""


@dataclass(frozen=True)
class Verification:
    """What was compared, in the order in which people ask."""

    name: str
    title: str
    origin: str
    source: str
    from_files: bool  # or made on the spot
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing differs. What cannot be compared does not count."""
        return all(check.holds is not False for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        fields = {name: getattr(self, name) for name in ("name", "title", "origin", "source", "holds")}
        return fields | {"checks": [check._asdict() for check in self.checks]}


def verify(
    name: str, data_dir: str | Path | None = None, *, download: bool = False, progress: bool | None = None
) -> Verification:
    """Compare a dataset with its checksums, its card and the paper's table.

    The files themselves are read from beginning to end, not what the cache keeps of them. Where they cannot be read,
    that is what was found.

    Args:
        name: of the dataset.
        data_dir: a folder with the data, as in :func:`pointset.datasets.load`.
        download: whether the official address may be asked where the files are not on this machine.
        progress: whether to show bars; by default where there is a terminal.
    """
    benchmark = benchmark_named(name)
    found = obtain(benchmark, data_dir, download=download, show=progress)
    checks = [check_file(found.source, file) for file in found.files]
    dataset, reading = _read(benchmark, found, progress)
    checks.append(reading)
    if dataset is not None:
        checks += content_checks(dataset, progress=progress)
    return Verification(name, benchmark.card.title, found.origin, found.source.title, bool(found.files), tuple(checks))


def check_file(source: Source, file: Path) -> Check:
    """Whether a file has the checksum that its publisher, or this project, states."""
    what = f"checksum of {file.name}"
    known = next((one for one in known_files(source) if Path(one.file).name == file.name), None)
    use_md5 = known is not None and not known.sha256 and bool(known.md5)
    algorithm, stated = ("MD5" if use_md5 else "SHA-256"), ("" if known is None else known.sha256 or known.md5)
    try:
        with open_binary(file) as opened:
            digest = partial(hashlib.md5, usedforsecurity=False) if use_md5 else hashlib.sha256
            got = hashlib.file_digest(opened, digest).hexdigest()
    except OSError as error:
        return Check(what, "cannot be read", stated[:12] or "a readable file", False, str(error.strerror))
    found = f"{algorithm} {got[:12]}…"
    if not stated:
        return Check(what, found, "none is known", None)
    expected = f"{algorithm} {stated[:12].lower()}… (known release)"
    if got == stated.lower():
        return Check(what, found, expected, True)
    return Check(what, found, expected, False, "changed, cut short, or another release: get it again")


def _read(benchmark: Benchmark, found: Found, progress: bool | None) -> tuple[Dataset | None, Check]:
    what = "everything can be read" if found.files else "everything can be made"
    try:
        table = found.source.read(found.files, show=progress)
        dataset = assembled(benchmark, found, (), table)
    except (FileFormatError, GraphError, OSError) as error:
        return None, Check(what, "no", "yes", False, str(error))
    return dataset, Check(what, "yes", "yes", True)


def content_checks(dataset: Dataset, *, progress: bool | None = None) -> list[Check]:
    """All that can be compared once the graphs are read; ``progress`` as in :func:`find_leaks`."""
    card, features = dataset.card, dataset.features
    return [
        *_counts(dataset.arrays, card.paper),
        *_split(dataset, progress),
        *_features("node", features.x, card.node, card.node_columns),
        *_features("edge", features.edge_attr, card.edge, card.edge_columns),
        *_positions(features.pos, card),
        *_targets(dataset),
    ]


def _counts(arrays: GraphArrays, paper: PaperRow | None) -> Iterator[Check]:
    """Equal after rounding to the digits that the paper prints."""
    graphs = len(arrays)
    nodes, edges = (float(counts.mean()) if graphs else 0.0 for counts in (arrays.num_nodes, arrays.num_edges))
    if paper is None:
        shown = {"graphs": f"{graphs:,}", "mean nodes": f"{nodes:,.2f}", "mean edges": f"{edges:,.2f}"}
        yield from (Check(what, found, "not in the paper's table", None) for what, found in shown.items())
        return
    yield _against_paper("graphs", graphs, paper.graphs, "")  # no slip excuses a dataset that is cut short
    yield _against_paper("mean nodes", nodes, paper.nodes, paper.slip)
    what = "mean edges, both directions" if paper.both_directions else "mean edges"
    yield _against_paper(what, edges * (2 if paper.both_directions else 1), paper.edges, paper.slip)


def _against_paper(what: str, found: float, printed: float, slip: str) -> Check:
    digits = len(repr(printed).partition(".")[2])  # 23.2 is printed with one
    equal = abs(found - printed) <= 0.5 * 10**-digits + 1e-9  # a half may be rounded up or down
    shown = f"{found:,.{digits + 1 if digits else 0}f}"
    expected = f"{printed:,.{digits}f} (paper)"
    return Check(what, shown, expected, True if equal else (None if slip else False), "" if equal else slip)


def _split(dataset: Dataset, progress: bool | None) -> Iterator[Check]:
    sizes = {name: len(indices) for name, indices in dataset.split.items()}
    official = dict(dataset.card.split_sizes)
    for part in dict.fromkeys([*official, *sizes]):
        found = f"{sizes[part]:,}" if part in sizes else "no such part"
        if not official:
            yield Check(f"split: {part}", found, "no official size", None)
        else:
            expected = f"{official[part]:,}" if part in official else "no such part"
            yield Check(f"split: {part}", found, expected, sizes.get(part) == official.get(part))
    if sizes:
        indices = np.concatenate(list(dataset.split.values()))
        outside = int(((indices < 0) | (indices >= dataset.split_count)).sum())
        twice = len(indices) - len(np.unique(indices))
        wrong = ", ".join(
            f"{count:,} {what}" for count, what in ((outside, "that are not there"), (twice, "twice")) if count
        )
        yield Check(f"split: every {dataset.split_of} in at most one part", wrong or "yes", "yes", not wrong)
        if not wrong and dataset.split_of is Level.GRAPH:
            yield from _leaks(dataset, progress)


def _leaks(dataset: Dataset, progress: bool | None) -> Iterator[Check]:
    """Published splits have leaks; that is worth knowing, but does not count as a difference."""
    report = find_leaks(dataset.arrays, dataset.split, progress=progress)
    for (seen, scored), count in report.counts.items():
        if size := report.sizes[scored]:
            found = f"{count:,} of {size:,} ({percent(count / size)})" if count else "none"
            yield Check(f"graphs of {scored} that are also in {seen}", found, "none", None if count else True)


def _features(owner: str, values: Any, spec: Spec, names: tuple[str, ...]) -> Iterator[Check]:
    columns = as_columns(values)
    width = 0 if spec is None else spec.width
    yield Check(f"{owner} features", _columns_text(len(columns)), _columns_text(width), len(columns) == width)
    if len(columns) != width:
        return
    titles = [f"{owner} feature {name.partition(':')[0]}" for name in column_names(names, width)]
    if isinstance(spec, Categories):
        for title, column, size in zip(titles, columns, spec.sizes, strict=True):
            yield _categories(title, column, size)
    elif columns:
        yield _finite(f"values of {owner} features", np.stack(columns, axis=1))


def _columns_text(width: int) -> str:
    return counted(width, "column") if width else "none"


def _categories(what: str, column: Array, size: int) -> Check:
    expected = f"0…{size - 1}"
    if not len(column):
        return Check(what, "no rows", expected, None)
    low, high = column.min(), column.max()
    whole = column.dtype.kind in "iu" or bool((column == np.floor(column)).all())  # NaN equals nothing
    found = f"{low:g}…{high:g}" + ("" if whole else ", not whole")
    return Check(what, found, expected, bool(whole and low >= 0 and high < size))


def _positions(values: Any, card: Card) -> Iterator[Check]:
    columns = as_columns(values)
    width = 3 if card.positions else 0
    if columns or width:
        yield Check("positions", _columns_text(len(columns)), _columns_text(width), len(columns) == width)
    if columns:
        yield _finite("values of positions", np.stack(columns, axis=1))


def _targets(dataset: Dataset) -> Iterator[Check]:
    card = dataset.card
    columns = as_columns(dataset.targets)
    expected = 1 if card.task is Task.MULTI_CLASS else len(card.targets)
    level = Level.NODE if dataset.features.y_of_nodes else Level.GRAPH
    found_text, expected_text = (
        f"{counted(width, 'column')} for each {of.value}" if width else "none"
        for width, of in ((len(columns), level), (expected, card.level))
    )
    yield Check("targets", found_text, expected_text, found_text == expected_text)
    if not columns:
        return
    values = np.stack(columns, axis=1)
    if card.task is Task.REGRESSION:
        yield _finite("values of targets", values)
    else:
        yield _classes(values, card)


def _finite(what: str, values: Array) -> Check:
    missing, infinite = missing_in(values), int(np.isinf(values).sum()) if values.dtype.kind == "f" else 0
    wrong = ", ".join(f"{count:,} {name}" for count, name in ((missing, "NaN"), (infinite, "infinite")) if count)
    return Check(what, wrong or "all finite", "all finite", not wrong)


def _classes(values: Array, card: Card) -> Check:
    count = len(card.classes) if card.task is Task.MULTI_CLASS else 2
    may_miss = card.task is Task.MULTI_LABEL  # a molecule is often measured for some labels only
    missing = missing_in(values)
    present = np.unique(values[~np.isnan(values)] if values.dtype.kind == "f" else values)
    fits = bool(np.isin(present, np.arange(count)).all()) and (may_miss or not missing)
    span = f"{present[0]:g}…{present[-1]:g}" if len(present) else "none"
    found = f"{span}, {missing:,} missing" if missing else span
    return Check("classes", found, f"0…{count - 1}" + (", some may be missing" if may_miss else ""), fits)
