"""Outcomes on disk: one line of JSON for each pair, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pointset.errors import FileFormatError, SpecError
from pointset.files import try_lock
from pointset.studies.brec.outcome import Outcome


class Records:
    """The file of one model: first a line with its settings, then a line for each pair as it is finished.

    Used in a ``with`` block, in which no other process can write to it.

    Args:
        path: of the file; made where there is none.
        settings: what the outcomes depend on.

    Raises:
        SpecError: the file was made with other settings, or another process is writing to it.
        FileFormatError: it is damaged.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]):
        self.path = path
        self.outcomes: dict[int, Outcome] = {}
        self._file: IO[str] = path.open("a+", encoding="utf-8")
        try:
            if not try_lock(self._file):
                raise SpecError(f"{path} is being written by another process; wait for it, or choose another --out")
            self._read(json.loads(json.dumps(dict(settings))))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; after a return it is on disk."""
        self.outcomes[outcome.pair] = outcome
        self._append(outcome.as_dict())

    def _append(self, content: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(content, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self, settings: Mapping[str, Any]) -> None:
        self._file.seek(0)
        try:
            text = self._file.read()
        except ValueError as error:  # no UTF-8
            raise self._damaged(error) from None
        whole = text[: text.rfind("\n") + 1]  # a process that was killed may have left half a line
        if len(whole) < len(text):
            self._file.truncate(len(whole.encode()))
        lines = whole.splitlines()
        if not lines:
            self._append(settings)
            return
        try:
            known, *outcomes = (json.loads(line) for line in lines)
            known = dict(known)
            self.outcomes = {one["pair"]: Outcome.from_dict(one) for one in outcomes}
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(error) from None
        if known != settings:
            changed = [f"{key}={known.get(key)!r}" for key in settings if known.get(key) != settings[key]]
            raise SpecError(
                f"{self.path} was made with {', '.join(changed) or 'other settings'}; give the same settings to go on, "
                "or choose another --out"
            )

    def _damaged(self, error: Exception) -> FileFormatError:
        return FileFormatError(f"{self.path} is damaged ({error}); delete it, or choose another --out")
