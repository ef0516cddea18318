"""A table's result with everything that can occur in one, for the tests of its rendering."""

from __future__ import annotations

import math
from typing import Any

from pointset.paper.tables.result import Cell, Column, Row, RunRecord, TableResult

SUBSTRUCTURES = ("2-path", "3-path", "3-cycle", "4-cycle", "TT")
NASTY = "50% of A&B_c #1 ± {x} $y$ \\z ~ ^ <b>|"


def columns() -> tuple[Column, ...]:
    return tuple(
        Column(key=name, title=name, factor=1000, digits=1, unit="10⁻³", counts_below=0.01) for name in SUBSTRUCTURES
    )


def row(title: str, source: Any, *values: float | None, std: float | None = None, **more: Any) -> Row:
    """``values`` as shown, × 10⁻³."""
    cells = {
        key: Cell(mean=None if value is None else value / 1000, std=std)
        for key, value in zip(SUBSTRUCTURES, values, strict=False)
    }
    return Row(title=title, source=source, cells=cells | more.pop("cells", {}), **more)


def run(name: str, seed: int, start: float, epochs: int = 30) -> RunRecord:
    curve = tuple((epoch, start * math.exp(-epoch / 12) + 0.004 * (seed + 1)) for epoch in range(1, epochs + 1))
    return RunRecord(
        name=name, command=f"pointset train tiny seed={seed} --run-dir runs/{name}", seed=seed, epochs=epochs,
        best_epoch=epochs - seed, seconds=1850.0, peak_memory_bytes=640_000_000, curve=curve,
    )  # fmt: skip


def example(**changes: Any) -> TableResult:
    """Ties, missing cells, notes, a published row, marks, a nasty note, curves; not complete."""
    runs = tuple(run(f"pst-{seed}", seed, 0.4) for seed in range(3))
    not_run = {"TT": Cell(mean=None, note="the run ended in NaN")}
    rows = (
        row("MPNN", "paper", 1.0, 67.3, 351.5, 274.2, 363.1),
        row("PST", "paper", 0.7, 1.1, 0.8, 1.9, 3.0),
        row("2-FWL", "paper", 0.7, 1.2, 0.3, 1.6, None, note="also called PPGN"),
        row("chemnet", "published", 0.9, note="Doe 2024, Table 3"),
        row("PST", "ours", 0.71, 1.4, 4.26, 12.0, 10.0, std=0.0002, counterpart="PST", parameters=221_345, runs=runs),
        row("PSDS", "ours", 0.74, 1.3, 5.5, 12.04, cells=not_run, counterpart="PSDS", parameters=180_001,
            runs=(run("psds-0", 0, 0.9),)),
        row("GIN_e", "ours", 2.1, 60.2, 300.0, counterpart="MPNN", note=NASTY),
    )  # fmt: skip
    values = dict[str, Any](
        table="tally", title="Tally of substructures", paper_table="Table 1", budget="cpu", columns=columns(),
        rows=rows, command="pointset reproduce tally --budget cpu", date="2026-11-20", seconds=7404.0, complete=False,
        machine={"processor": "Some CPU", "cores": 2, "memory_bytes": 8_200_000_000, "threads": 1,
                 "packages": {"torch": "2.13.0", "numpy": "2.3"}},
        scope="One model for all targets, 30 epochs where the paper has 300.", notes=("The official split is used.",),
    )  # fmt: skip
    return TableResult(**(values | changes))


def timed(**changes: Any) -> TableResult:
    """One column at the budget ``hours``, PST with two seeds of 40 minutes each, GIN with one of 20."""
    column = Column(key="mae", title="MAE")
    rows = []
    for title, seconds, seeds in (("PST", 80.0, 2), ("GIN", 40.0, 1)):
        runs = [run(f"{title}-{seed}", seed, 0.4) for seed in range(seeds)]
        times = tuple(seconds * epoch for epoch, _ in runs[0].curve)
        timed = tuple(one.model_copy(update={"times": times}) for one in runs)
        rows.append(Row(title=title, source="ours", cells={"mae": Cell(mean=0.03)}, runs=timed))
    return example(**({"columns": (column,), "rows": tuple(rows), "budget": "hours", "complete": True} | changes))


def scores(better: Any = "high", *values: float) -> TableResult:
    """One column, a row of ours for each value, beside the paper's 94.4."""
    column = Column(key="accuracy", title="accuracy", better=better, factor=100, digits=1, unit="%")
    ours = [
        Row(title=f"M{index}", source="ours", counterpart="PST", cells={"accuracy": Cell(mean=value / 100)})
        for index, value in enumerate(values)
    ]
    printed = Row(title="PST", source="paper", cells={"accuracy": Cell(mean=0.944, std=0.035)})
    return example(table="tested", columns=(column,), rows=(printed, *ours), complete=True, paper_table="Table 12")
