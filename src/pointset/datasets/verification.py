"""Whether the files of a dataset are those that were published, and hold what its card says (:func:`verify`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pointset.datasets.catalogue import benchmark_named
from pointset.datasets.content_checks import Check, content_checks
from pointset.datasets.dataset import Dataset
from pointset.datasets.loading import assembled
from pointset.datasets.locate import Found, obtain
from pointset.datasets.prepared import file_digest
from pointset.datasets.sources import Benchmark, Source
from pointset.errors import FileFormatError, GraphError


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
        return {
            "name": self.name,
            "title": self.title,
            "origin": self.origin,
            "source": self.source,
            "holds": self.holds,
            "checks": [check._asdict() for check in self.checks],
        }


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

    Raises:
        SpecError: there is no such dataset.
        MissingDataError: the files are nowhere; the message says what to put where.
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
    algorithm, stated = _stated(source, file.name)
    try:
        got = file_digest(file) if algorithm == "SHA-256" else _md5(file)
    except OSError as error:
        return Check(what, "cannot be read", stated[:12] or "a readable file", False, str(error.strerror))
    found = f"{algorithm} {got[:12]}…"
    if not stated:
        return Check(what, found, "none is known", None)
    expected = f"{algorithm} {stated[:12].lower()}… (known release)"
    if got == stated.lower():
        return Check(what, found, expected, True)
    return Check(what, found, expected, False, "changed, cut short, or another release: get it again")


def _stated(source: Source, name: str) -> tuple[str, str]:
    """The algorithm and the checksum that is known of a file; SHA-256 and nothing where none is."""
    if known := source.sha256.get(name):
        return "SHA-256", known
    for download in source.downloads:
        if Path(download.file).name == name and (download.sha256 or download.md5):
            return ("SHA-256", download.sha256) if download.sha256 else ("MD5", download.md5)
    return "SHA-256", ""


def _md5(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _read(benchmark: Benchmark, found: Found, progress: bool | None) -> tuple[Dataset | None, Check]:
    what = "everything can be read" if found.files else "everything can be made"
    try:
        table = found.source.read(found.files, show=progress)
        dataset = assembled(benchmark, found, (), table)
    except (FileFormatError, GraphError, OSError) as error:
        return None, Check(what, "no", "yes", False, str(error))
    return dataset, Check(what, "yes", "yes", True)
