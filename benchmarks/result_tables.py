"""Measurements that are not in the paper, written as the tables of ``pointset reproduce`` are (:func:`write_table`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from pointset.files import replacing
from pointset.paper.tables.result import Column, Row, TableResult
from pointset.runs.result import machine_kind


def write_table(
    path: Path,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    scope: str,
    seconds: float,
    notes: Sequence[str] = (),
    threads: int = 1,
    complete: bool = True,
    options: str = "",
) -> None:
    """A file for ``results/``, from which ``pointset results`` makes a section of its page.

    ``options``: those of the command that must be given.
    """
    result = TableResult(
        table=path.stem.removesuffix("-cpu"),
        title=title,
        paper_table="Beyond the paper",
        budget="cpu",
        columns=tuple(columns),
        rows=tuple(rows),
        command=" ".join(
            ("python", f"benchmarks/{Path(sys.argv[0]).name}", *options.split(), "--json", f"results/{path.name}")
        ),
        date=date.today().isoformat(),
        machine=machine_kind(device="cpu", threads=threads),
        seconds=round(seconds, 1),
        scope=scope,
        notes=tuple(notes),
        complete=complete,
    )
    with replacing(path) as temporary:
        temporary.write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
