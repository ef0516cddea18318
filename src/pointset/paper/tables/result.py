"""What a table holds once it was run: plain data, written as JSON (:class:`TableResult`)."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Budget = Literal["small", "cpu", "hours", "full"]
Source = Literal["paper", "ours", "published"]  # published: of another paper or program, named in the row's note


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Column(_Plain):
    """One measured quantity. Values are kept in the metric's own unit; they are shown times ``factor``."""

    key: str
    title: str
    better: Literal["low", "high", "neither"] = "low"
    factor: float = 1.0
    digits: int = 3
    unit: str = ""  # of the values as shown
    counts_below: float | None = None  # a value below it, in the metric's own unit, "counts" (Table 1: 0.01)


class Cell(_Plain):
    """Mean over ``values`` (seeds or folds), and their standard deviation where there are several."""

    mean: float | None  # None: could not be measured; the note says why
    std: float | None = None
    values: tuple[float | None, ...] = ()
    note: str = ""


class RunRecord(_Plain):
    """One training (or measurement) behind a row."""

    name: str  # of its folder inside the table's folder
    command: str  # that does it alone
    seed: int | None = None
    fold: int | None = None
    epochs: int | None = None
    best_epoch: int | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    curve: tuple[tuple[int, float], ...] = ()  # (epoch, validation score)
    times: tuple[float, ...] = ()  # seconds of training until then, for each of the curve; none where not known

    @model_validator(mode="after")
    def _a_time_for_each(self) -> Self:
        if self.times and len(self.times) != len(self.curve):
            raise ValueError(f"got {len(self.times)} times for a curve of {len(self.curve)}; expected one for each")
        return self


class Row(_Plain):
    """A model: a line of the table."""

    title: str
    source: Source
    model: str | None = None  # the name it is trained by
    counterpart: str | None = None  # of a row of ours: the title of the paper's row that it repeats
    parameters: int | None = None
    cells: dict[str, Cell] = Field(default_factory=dict)  # by column
    runs: tuple[RunRecord, ...] = ()
    note: str = ""


class TableResult(_Plain):
    """A table of the paper with ours beside it."""

    version: Literal[1] = 1
    table: str  # the name that ``pointset reproduce`` takes
    title: str
    paper_table: str  # "Table 1"
    budget: Budget
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    command: str
    date: str  # ISO day
    machine: dict[str, Any]  # kind of machine, cores, memory, threads, versions; no names, no paths
    seconds: float  # of all runs together
    scope: str  # one or two sentences: what this budget leaves out against the paper, plainly
    notes: tuple[str, ...] = ()
    complete: bool = True  # whether every planned run is in it

    @property
    def name(self) -> str:
        """``TABLE-BUDGET``: of its files."""
        return f"{self.table}-{self.budget}"

    @property
    def ours(self) -> list[Row]:
        """The rows that were measured here."""
        return [row for row in self.rows if row.source == "ours"]

    @property
    def own_runs(self) -> list[RunRecord]:
        """All that is behind them."""
        return [run for row in self.ours for run in row.runs]
