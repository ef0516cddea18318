"""An output that survives being killed: :class:`ResumableOutput`.

Rows go to ``OUT.part``. Every second a journal beside it, ``OUT.part.json``, records how many bytes of it hold how many
rows of the input. A call that resumes cuts the file there; at the end it is renamed to OUT, and the journal removed.

A Parquet file cannot grow: its index stands at its end. Where OUT is one, the part is text all the same, without a
header, and is made a Parquet file at the end, a bounded piece at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Any

from pointset.errors import FileFormatError, MissingExtraError, PointsetError
from pointset.files import check_regular, csv_lines, naming, read_text, replacing, try_lock

_VERSION = 1
_TABS = (".tsv", ".tab")
_PARQUET = (".parquet", ".pq")
_SUFFIXES = (".csv", *_TABS, ".txt", *_PARQUET)
_BLOCK_BYTES = 2**25  # of text that is made columns at a time; no row is longer
_GROUP_ROWS = 2**17  # of a row group
_SHOWN = {"question": "command"}  # how a key of the identity is called in messages


@dataclass(frozen=True)
class Progress:
    """How far a prediction is."""

    entries: int = 0  # rows of the input
    bytes: int = 0  # of the part file, which hold them
    ok: int = 0
    not_ok: int = 0
    outside: int = 0  # of those that are ok, outside of the model's applicability domain
    bad: tuple[str, ...] = ()  # the first few that are not ok, with reasons


class ResumableOutput:
    """The growing output. One process at a time holds it, until it is closed or the process ends, however it ends.

    Args:
        output: the file to be written in the end.
        restart: discard what an earlier call left.
        overwrite: whether an existing output may be replaced.

    Raises:
        FileFormatError: the output exists, or its name is not that of a table.
        PointsetError: another process is writing it.
        OSError: nothing can be written there.
    """

    def __init__(self, output: Path, *, restart: bool = False, overwrite: bool = False):
        self.output = output
        self.path = output.with_name(f"{output.name}.part")
        self.journal = output.with_name(f"{output.name}.part.json")
        self.progress = Progress()
        self._identity: Mapping[str, Any] = {}
        self._header: Sequence[str] = ()
        self._kinds: Sequence[str] = ()
        self.delimiter = "\t" if output.suffix.lower() in _TABS else ","
        self._is_parquet = output.suffix.lower() in _PARQUET
        _check_output(output, overwrite)
        if self._is_parquet:
            _parquet(output)
        self._file = _open_locked(self.path, output)
        try:
            _check_output(output, overwrite)  # another process may have finished it just now
            if restart:
                self.journal.unlink(missing_ok=True)
        except BaseException:
            self.close()
            raise

    def begin(self, identity: Mapping[str, Any], header: Sequence[str], kinds: Sequence[str] = ()) -> None:
        """Find out where to resume (:attr:`progress`); where nothing was left, begin with the header.

        ``kinds`` are the types of the columns in a Parquet file, as Arrow calls them; by default all are text.

        Raises FileFormatError where what was left belongs to another model, input or setting, or is damaged.
        """
        self._header, self._kinds = header, kinds or ["string"] * len(header)
        whole = {**identity, "columns": list(header), "separator": self.delimiter}
        self._identity = json.loads(json.dumps(whole))
        if self.journal.exists() and self._size():  # a journal without a part: killed after the output was renamed
            self.progress = self._read_journal()
        self._file.truncate(self.progress.bytes)
        self._file.seek(self.progress.bytes)
        if not self.progress.bytes and not self._is_parquet:
            self.append("".join(csv_lines([header], self.delimiter)), self.progress)

    def _read_journal(self) -> Progress:
        remedy = f"Begin again with --restart, or choose another output than {self.output}"
        try:
            content = json.loads(read_text(self.journal))
            version, identity = content["version"], dict(content["identity"])
            progress = Progress(**content["progress"])
            entries, size = int(progress.entries), int(progress.bytes)
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"{self.journal} is damaged ({error}). {remedy}") from None
        differing = [_SHOWN.get(key, key) for key in self._identity if identity.get(key) != self._identity[key]]
        if version != _VERSION or differing:
            raise FileFormatError(
                f"{self.path} was left by another call: not the same {', '.join(differing) or 'version'}. {remedy}"
            )
        if not 0 < size <= self._size() or entries < 1:
            raise FileFormatError(f"{self.path} has {self._size():,} bytes; expected at least {size:,}. {remedy}")
        return dataclasses.replace(progress, bad=tuple(map(str, progress.bad)))

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def append(self, lines: str, progress: Progress) -> None:
        """Write rows after the others; ``progress`` is what holds then, except for the bytes."""
        with naming(self.output):
            self._file.write(lines.encode())
        # One assignment: Ctrl-C comes before or after it, and rows and bytes always belong together.
        self.progress = dataclasses.replace(progress, bytes=self._file.tell())

    def save(self) -> None:
        """Make the progress safe: rows on the disk, then the journal that counts them."""
        self._flush()
        content = {"version": _VERSION, "identity": self._identity, "progress": dataclasses.asdict(self.progress)}
        with replacing(self.journal) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")

    def finish(self) -> None:
        """Put the whole output in its place."""
        self._flush()
        for half_written in self.journal.parent.glob(f".{glob.escape(self.journal.name)}.*"):
            half_written.unlink(missing_ok=True)  # of a call that was killed while it saved; nobody else writes it now
        if self._is_parquet:
            with replacing(self.output) as temporary:
                self._write_parquet(temporary)
            self.path.unlink()
        else:
            self.path.replace(self.output)
        self.journal.unlink(missing_ok=True)

    def _write_parquet(self, path: Path) -> None:
        """The part as a Parquet file: an empty cell is a null, numbers are those that its text says."""
        pyarrow = _parquet(self.output)
        csv, names = pyarrow.csv, [f"c{column}" for column in range(len(self._header))]  # the header may repeat names
        kinds = {name: pyarrow.type_for_alias(kind) for name, kind in zip(names, self._kinds, strict=True)}
        schema = pyarrow.schema(list(zip(self._header, kinds.values(), strict=True)))
        reader = csv.open_csv(
            self.path,
            csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=names),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=kinds, null_values=[""], strings_can_be_null=True, true_values=["true"],
                false_values=["false"],
            ),
        )  # fmt: skip
        with reader, pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            held = schema.empty_table()
            for batch in reader:
                more = pyarrow.Table.from_arrays(batch.columns, schema=schema)
                held = pyarrow.concat_tables([held, more])
                whole = len(held) - len(held) % _GROUP_ROWS
                if whole:
                    writer.write_table(held.slice(0, whole), row_group_size=_GROUP_ROWS)
                    held = held.slice(whole)
            if len(held):
                writer.write_table(held, row_group_size=_GROUP_ROWS)

    def _flush(self) -> None:
        with naming(self.output):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Release the output; a part without a journal is of no use and is removed."""
        if not self.journal.exists():
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
                    self.path.unlink()
        with contextlib.suppress(OSError):  # a full disk, which was reported already
            self._file.close()


def _parquet(output: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            f"writing {output.name} needs pyarrow, which is not installed: pip install 'pointset[tables]'; or write "
            "a .csv"
        ) from None
    return pyarrow


def _check_output(output: Path, overwrite: bool) -> None:
    if output.suffix.lower() not in _SUFFIXES:
        raise FileFormatError(f"got the output {output}; expected a name that ends in {', '.join(_SUFFIXES)}")
    if output.is_dir():
        raise FileFormatError(f"the output {output} is a folder; expected the name of a file")
    if output.exists() and not overwrite:
        raise FileFormatError(f"{output} exists already; choose another name, or replace it with --overwrite")


def _open_locked(path: Path, output: Path) -> BufferedRandom:
    """The file, open for reading and writing, created if needed; nobody else can lock it until it is closed."""
    while True:
        check_regular(path)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            if not try_lock(file):
                raise PointsetError(f"another process is writing {output}; wait for it, or choose another output")
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()  # whoever held it has just renamed or removed it: this is not the file at the path
