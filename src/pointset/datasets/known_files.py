"""The files of a dataset that have a name and mostly a checksum (:func:`known_files`)."""

from __future__ import annotations

from typing import NamedTuple

from pointset.datasets.sources import Benchmark


class KnownFile(NamedTuple):
    """A file that a source reads, with the checksums that its publisher or this project states; empty where none."""

    source: str  # for people
    file: str
    url: str
    sha256: str
    md5: str

    @property
    def in_words(self) -> str:
        """``hiv.csv (SHA-256 74b4faf2a1c5…)``."""
        sums = [f"{name} {known[:12]}…" for name, known in (("SHA-256", self.sha256), ("MD5", self.md5)) if known]
        return f"{self.file} ({', '.join(sums) or 'no checksum known'})"


def known_files(benchmark: Benchmark) -> list[KnownFile]:
    """Those that are downloaded, and those whose checksum is known, source by source."""
    found = []
    for source in benchmark.sources:
        downloads = {download.file: download for download in source.downloads}
        for file in dict.fromkeys([*downloads, *source.sha256]):
            one = downloads.get(file)
            url, sha256, md5 = (one.url, one.sha256, one.md5) if one else ("", "", "")
            found.append(KnownFile(source.title, file, url, source.sha256.get(file, sha256), md5))
    return found
