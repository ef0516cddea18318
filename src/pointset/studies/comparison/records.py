"""What a comparison found: plain data, kept as ``comparison.json`` (:class:`Comparison`)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from pointset.errors import FileFormatError
from pointset.training.json_files import finite, read_json

Scores = dict[str, float | None]  # by metric
Part = Literal["test", "val"]


@dataclass(frozen=True)
class Training:
    """One run of a model, from its result and its epochs."""

    run: str  # its folder inside the comparison's
    seed: int
    test: Scores  # of the weights of the best epoch by validation; scored once
    val: Scores  # of the same weights
    per_target: dict[str, Scores]  # of the test part
    best_epoch: int
    epochs: int
    seconds: float
    seconds_per_epoch: float | None  # median, with validation
    graphs_per_second: float | None
    peak_memory_bytes: int  # of the whole process, with libraries and data
    curve: tuple[tuple[int, float], ...]  # (epoch, validation score)


@dataclass(frozen=True)
class Contender:
    """A model and its runs; where one of them failed, ``failure`` says why."""

    model: str
    width: int | None
    layers: int
    parameters: int | None
    runs: tuple[Training, ...] = ()
    failure: str = ""

    def score(self, part: Part, metric: str) -> tuple[float | None, float | None]:
        """Mean over the runs and standard deviation (division by their number minus one)."""
        known = [value for run in self.runs if (value := getattr(run, part).get(metric)) is not None]
        return (statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None) if known else (None, None)

    def median(self, quantity: str) -> float | None:
        """Of a field of the runs: ``seconds_per_epoch``, ``best_epoch``, …; None where no run has it."""
        known = [value for run in self.runs if (value := getattr(run, quantity)) is not None]
        return statistics.median(known) if known else None

    @property
    def peak_memory_bytes(self) -> int | None:
        """The largest of the runs."""
        return max((run.peak_memory_bytes for run in self.runs), default=None)

    @property
    def seconds(self) -> float:
        """Of all runs."""
        return sum(run.seconds for run in self.runs)

    def median_curve(self) -> list[tuple[int, float]]:
        """(epoch, median of the runs that came so far)."""
        by_epoch: dict[int, list[float]] = {}
        for run in self.runs:
            for epoch, value in run.curve:
                by_epoch.setdefault(epoch, []).append(value)
        return [(epoch, statistics.median(values)) for epoch, values in sorted(by_epoch.items())]


@dataclass(frozen=True)
class Comparison:
    """Models on the same data, split, loop and metric."""

    recipe: str
    title: str  # of the data
    metric: str
    higher_is_better: bool
    parameters: int  # that every model was to have
    tolerance: float
    epochs: int
    seeds: int
    contenders: tuple[Contender, ...]

    @property
    def best(self) -> Contender | None:
        """By the mean test score, among those with a score for every seed; None where none has."""
        sign = -1 if self.higher_is_better else 1
        whole = [one for one in self.contenders if len(one.runs) == self.seeds]
        scored = [(mean, one) for one in whole if (mean := one.score("test", self.metric)[0]) is not None]
        return min(scored, key=lambda pair: sign * pair[0])[1] if scored else None

    @property
    def failed(self) -> list[Contender]:
        """Those that could not be trained to the end."""
        return [one for one in self.contenders if one.failure]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; with means, deviations and the curve of each model for those who only read."""
        plain: dict[str, Any] = finite(asdict(self))
        best = self.best
        for contender, values in zip(self.contenders, plain["contenders"], strict=True):
            for part in ("test", "val"):
                mean, std = contender.score(part, self.metric)
                values[f"{part}_mean"], values[f"{part}_std"] = finite([mean, std])
            values["curve"] = contender.median_curve()
            values["is_best"] = contender is best
        return plain

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Comparison:
        """What :meth:`as_dict` gave.

        Raises:
            FileFormatError: it is something else.
        """
        try:
            return TypeAdapter(cls).validate_python(dict(values))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise FileFormatError(f"this is no comparison: {where}: {first['msg']}") from None


def read_comparison(path: str | Path) -> Comparison:
    """A ``comparison.json``.

    Raises:
        FileFormatError: it is damaged.
    """
    try:
        return Comparison.from_dict(read_json(Path(path)))
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
