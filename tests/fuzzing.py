"""Damaged and hostile files for every reader, and a search that goes on from those that reach new code.

A reader may read a file or refuse it with a :class:`~pointset.errors.PointsetError`. Anything else is a finding:
another exception, more than :data:`MOST_SECONDS`, more than :data:`MOST_MEGABYTES`. ``tests/test_fuzz.py`` tries the
same files each time; the search (``make fuzz MINUTES=30``) goes on as long as it is told, and keeps what it finds::

    python -m tests.fuzzing --minutes 30 --reader bundle --keep fuzz-findings
"""

from __future__ import annotations

import argparse
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

import pointset
from pointset.errors import PointsetError

MOST_SECONDS = 20.0  # for one file of a few kilobytes; a busy machine may stop for a while
MOST_MEGABYTES = 400  # that one such file may add to the process
_MOST_BYTES = 200_000
_OWN_CODE = str(Path(pointset.__file__).parent)


class Reader(NamedTuple):
    """Something that reads files.

    ``seeds`` are good contents; ``write`` puts a content where ``read`` expects it, by default as it is. A reader whose
    files are checksummed writes the checksum of what it was given: otherwise nothing behind it would ever be reached.
    """

    name: str
    suffix: str
    seeds: Sequence[bytes]
    read: Callable[[Path], object]
    write: Callable[[Path, bytes], object] = Path.write_bytes


class Finding(NamedTuple):
    """What a reader should not have done."""

    reader: str
    content: bytes
    what: str  # the exception and the place in pointset's code, which tell findings apart
    trace: str


# --- changes


_TOKENS = [
    *(b"NaN", b"-inf", b"1e400", b"-1", b"0", b"1e-320", b"9" * 25, b"0x10", b"1_000", b"1,5", b"true", b"null"),
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\t",
        b'"',
        b'""',
        b"'",
        b",",
        b";",
        b"|",
        b"\\",
    ),
    *(b"{", b"}", b"[", b"]", b"<", b">", b"&amp;", b"&x;", b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b"]]>", b"#", b"---\n"),
    *(
        b"&a [*a, *a]",
        b"!!python/object/apply:os.system [id]",
        b"<<: *a",
        b"? ",
        b"{{7*7}}",
        b"=1+1",
        b"@x",
        b"../../x",
    ),
    *(b"C1CC", b"[U+92]", b"c1ccccc1" * 40, b"C(" * 120, b"a" * 5000, b"9" * 400),
    *("\N{ARABIC-INDIC DIGIT THREE}".encode(), "e\u0301".encode(), "\u202e".encode(), "\U0001f4a9".encode()),
    *(struct.pack("<q", value) for value in (-1, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))),
    *(struct.pack("<d", value) for value in (float("nan"), float("inf"), 1e308, -0.0)),
]


def changed(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """``content`` with one to eight things changed."""
    for _ in range(random.choice((1, 1, 1, 2, 4, 8))):
        content = random.choice(_CHANGES)(content, others, random)[:_MOST_BYTES]
    return content


def _slice(content: bytes, random: Random, most: int = 64) -> tuple[int, int]:
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + random.randrange(1, most + 1))


def _flip_bit(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    if not content:
        return b"\x80"
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << random.randrange(8))]) + content[place + 1 :]


def _delete(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    start, end = _slice(content, random)
    return content[:start] + content[end:]


def _repeat(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    start, end = _slice(content, random)
    return content[:end] + content[start:end] * random.choice((1, 1, 2, 7, 300)) + content[end:]


def _cut(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _insert(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + random.choice(_TOKENS) + content[place:]


def _overwrite(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    token, place = random.choice(_TOKENS), random.randrange(len(content) + 1)
    return content[:place] + token + content[place + len(token) :]


def _join(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(others)
    return content[: random.randrange(len(content) + 1)] + other[random.randrange(len(other) + 1) :]


def _replace_word(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    """A number, word or string by a token: what stands in the place of a value."""
    words = content.replace(b'"', b" ").replace(b",", b" ").replace(b":", b" ").split()
    return content.replace(random.choice(words), random.choice(_TOKENS), 1) if words else _insert(content, (), random)


def _shuffle_lines(content: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        lines.insert(random.randrange(len(lines)), lines[random.randrange(len(lines))])
        random.choice((random.shuffle, lambda _: None))(lines)
    return b"".join(lines)


_CHANGES = [
    *(_flip_bit, _delete, _repeat, _cut, _insert, _overwrite, _join, _shuffle_lines),
    *(_replace_word, _replace_word),  # gets past parsers more often than the others
]


# --- one file


class _TooLong(BaseException):
    """Not an Exception, so that no reader takes it for damage of its file."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLong(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(reader: Reader, content: bytes, folder: Path) -> Finding | None:
    """Let the reader read these bytes; None where it read them, or refused them as it should."""
    path = folder / f"fuzzed{reader.suffix}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        reader.write(path, content)
        with _limited(MOST_SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(path)
    except PointsetError:
        pass
    except (Exception, _TooLong) as error:
        trace = traceback.extract_tb(error.__traceback__)
        own = next((frame for frame in reversed(trace) if frame.filename.startswith(_OWN_CODE)), trace[-1])
        what = f"{type(error).__name__} at {Path(own.filename).name}:{own.lineno} in {own.name}"
        return Finding(reader.name, content, what, "".join(traceback.format_exception(error)))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if grown > MOST_MEGABYTES:
        return Finding(reader.name, content, f"{grown:,.0f} MB for {len(content):,} bytes", "")
    return None


def sampled(reader: Reader, files: int, folder: Path, *, seed: int = 0) -> list[Finding]:
    """The findings among so many changed files, the same each time; good ones must be read."""
    for content in reader.seeds:
        path = folder / f"good{reader.suffix}"
        reader.write(path, content)
        reader.read(path)
    random = Random(zlib.crc32(reader.name.encode()) + seed)
    tried = (changed(random.choice(reader.seeds), reader.seeds, random) for _ in range(files))
    return [finding for content in tried if (finding := attempt(reader, content, folder))]


# --- the search


class Search:
    """Changes files of one reader, and goes on from those that reached lines of pointset that none had reached."""

    def __init__(self, reader: Reader, folder: Path, random: Random) -> None:
        self._reader, self._folder, self._random = reader, folder, random
        self.contents = list(reader.seeds)
        self.reached: set[tuple[str, int]] = set()
        self.tried = 0
        self.findings: dict[str, Finding] = {}
        for content in reader.seeds:
            self._try(content)

    def go_on(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            newest = self.contents[-8:] if self._random.random() < 0.5 else self.contents
            content = changed(self._random.choice(newest), self.contents, self._random)
            before = len(self.reached)
            self._try(content)
            if len(self.reached) > before:
                self.contents.append(content)

    def _try(self, content: bytes) -> None:
        self.tried += 1
        sys.settrace(self._enter)
        try:
            finding = attempt(self._reader, content, self._folder)
        finally:
            sys.settrace(None)
        if finding is not None:
            self.findings.setdefault(finding.what, finding)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(_OWN_CODE) else None

    def _line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self.reached.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def main() -> int:
    """Search, tell what was found, and exit with 1 if anything was."""
    from tests.fuzz_readers import readers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="of all readers together (default: 5)")
    parser.add_argument("--reader", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=None, help="of the changes; by default another one each time")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for the files that were found")
    chosen = parser.parse_args()
    seed = int(time.time()) if chosen.seed is None else chosen.seed
    with tempfile.TemporaryDirectory() as temporary:
        known = readers(Path(temporary))
        names = chosen.reader or [reader.name for reader in known]
        if unknown := set(names) - {reader.name for reader in known}:
            parser.error(
                f"no reader {', '.join(sorted(unknown))}; expected {', '.join(reader.name for reader in known)}"
            )
        searches = {
            reader.name: Search(reader, Path(temporary), Random(seed)) for reader in known if reader.name in names
        }
        end = time.monotonic() + 60 * chosen.minutes
        print(f"seed {seed}: {len(searches)} readers, {chosen.minutes:g} minutes", flush=True)
        while (left := end - time.monotonic()) > 0:
            for search in searches.values():
                search.go_on(min(10.0, left / len(searches)))
    for name, search in searches.items():
        print(
            f"{name:24} {search.tried:7,} files, {len(search.reached):5,} lines reached, "
            f"{len(search.contents):4} kept, {len(search.findings)} findings"
        )
    findings = [finding for search in searches.values() for finding in search.findings.values()]
    for number, finding in enumerate(findings):
        chosen.keep.mkdir(parents=True, exist_ok=True)
        place = chosen.keep / f"{finding.reader.replace(' ', '-')}-{number}"
        place.with_suffix(".bin").write_bytes(finding.content)
        place.with_suffix(".txt").write_text(f"{finding.what}\n\n{finding.trace}", encoding="utf-8")
        print(f"\n{finding.reader}: {finding.what}\n  {place}.bin, .txt")
    print(f"{sum(search.tried for search in searches.values()):,} files, {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
