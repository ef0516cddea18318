"""Units of chemists.py put together: :func:`summarise`, with intervals by resampling the test rows.

A sample draws the test rows of each seed with replacement; its score is the mean over the seeds. Intervals hold 95 %
of 1,000 samples. Two methods are compared on the same samples: they are level where the interval of their difference
holds 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chemists_data import SETS
from chemists_scores import METRICS, Reals, resampled_scores
from common import machine
from pointset.files import read_json, write_json

SAMPLES = 1000
PERCENTILES = (2.5, 97.5)
HIGHER_IS_BETTER = {"roc_auc"}
Record = dict[str, Any]


class Found(NamedTuple):
    """A unit that is done: its record, and the truth and predictions (n, k) of its n test rows."""

    record: Record
    truth: Reals
    predicted: Reals


Seeds = dict[int, Found]  # of a method on a set


class Difference(NamedTuple):
    """How much better one method is than another, in the metric's unit."""

    gain: float  # positive: the first is better
    lower: float
    upper: float
    seeds: int  # that both have

    @property
    def verdict(self) -> str:
        """Of the first method: win, level or loss."""
        return "win" if self.lower > 0 else "loss" if self.upper < 0 else "level"


def read_units(folder: Path) -> dict[str, dict[str, Seeds]]:
    """All units of an output folder: set, then method, then seed.

    Raises:
        ValueError: two methods were not given the same rows.
    """
    found: dict[str, dict[str, Seeds]] = defaultdict(lambda: defaultdict(dict))
    for path in sorted(folder.glob("*.json")):
        record = read_json(path)
        with np.load(path.with_suffix(".npz")) as arrays:
            test = arrays["is_test"]
            unit = Found(record, arrays["truth"][test], arrays["predicted"][test])
        found[record["set"]][record["method"]][record["seed"]] = unit
    for name, methods in found.items():
        digests: dict[int, set[str]] = defaultdict(set)
        for seeds in methods.values():
            for seed, unit in seeds.items():
                digests[seed].add(unit.record["rows_digest"])
        if different := [seed for seed, some in digests.items() if len(some) > 1]:
            raise ValueError(f"the methods were given different rows of {name}, seeds {different}: repeat those units")
    return {name: dict(found[name]) for name in SETS if name in found}


def samples_of(metric: str, seeds: Mapping[int, Found]) -> Reals:
    """(SAMPLES,) mean scores over the seeds; the same rows are drawn for every method."""
    each = []
    for seed, unit in sorted(seeds.items()):
        count = len(unit.truth)
        counts = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=SAMPLES)
        each.append(resampled_scores(metric, unit.truth, unit.predicted, counts.astype(np.float64)))
    return np.asarray(np.mean(each, axis=0))


def interval(samples: Reals) -> tuple[float, float]:
    """95 % of the samples lie in it; those where no label had both classes do not count."""
    lower, upper = np.percentile(samples[np.isfinite(samples)], PERCENTILES)
    return float(lower), float(upper)


def mean_score(metric: str, seeds: Mapping[int, Found], part: str = "test") -> float:
    """Over the seeds, of the rows as they are."""
    return float(np.mean([unit.record["scores"][part][metric] for unit in seeds.values()]))


def compare(metric: str, first: Seeds, second: Seeds) -> Difference:
    """On the seeds that both methods have."""
    shared = sorted(first.keys() & second.keys())
    one, other = ({seed: seeds[seed] for seed in shared} for seeds in (first, second))
    sign = 1.0 if metric in HIGHER_IS_BETTER else -1.0
    gain = sign * (mean_score(metric, one) - mean_score(metric, other))
    lower, upper = interval(sign * (samples_of(metric, one) - samples_of(metric, other)))
    return Difference(gain, lower, upper, len(shared))


def ratio(first: Seeds, second: Seeds, *keys: str) -> float:
    """Of a cost of the first method to that of the second, summed over the seeds that both have."""
    shared = first.keys() & second.keys()
    return sum(_at(first[seed], *keys) for seed in shared) / sum(_at(second[seed], *keys) for seed in shared)


def _at(unit: Found, *keys: str) -> float:
    content: Any = unit.record
    for key in keys:
        content = content[key]
    return float(content)


def _mean(seeds: Seeds, *keys: str) -> float:
    return float(np.mean([_at(unit, *keys) for unit in seeds.values()]))


def figures_of_set(methods: Mapping[str, Seeds], ours: str) -> dict[str, Any]:
    """The methods of a set, and the others beside ours."""
    kind = next(iter(next(iter(methods.values())).values())).record["kind"]
    metric = METRICS[kind][0]
    others = {name: seeds for name, seeds in methods.items() if name != ours and seeds.keys() & methods.get(ours, {})}
    return {
        "metric": metric,
        "methods": {name: _method_figures(metric, seeds, METRICS[kind][1:]) for name, seeds in methods.items()},
        f"{ours} against": {name: _against(metric, methods[ours], seeds) for name, seeds in others.items()},
    }


def _method_figures(metric: str, seeds: Seeds, also: Sequence[str]) -> dict[str, Any]:
    covered = [share for unit in seeds.values() if (share := _covered(unit)) is not None]
    return {
        "seeds": sorted(seeds),
        "test": _rounded(mean_score(metric, seeds)),
        "interval": [_rounded(bound) for bound in interval(samples_of(metric, seeds))],
        "by seed": [_rounded(unit.record["scores"]["test"][metric]) for _, unit in sorted(seeds.items())],
        "val": _rounded(mean_score(metric, seeds, "val")),
        **{name: _rounded(mean_score(name, seeds)) for name in also},
        "training CPU seconds": _rounded(_mean(seeds, "training", "cpu_seconds")),
        "training minutes": _rounded(_mean(seeds, "training", "wall_seconds") / 60),
        "training MB": _rounded(_mean(seeds, "training", "peak_mb")),
        "predicted rows per CPU second": _rounded(_mean(seeds, "prediction", "rows_per_cpu_second")),
        "after start-up": _rounded(_mean(seeds, "prediction", "rows_per_cpu_second_after_start")),
        "start-up CPU seconds": _rounded(_mean(seeds, "start_up", "cpu_seconds")),
        "prediction MB": _rounded(_mean(seeds, "prediction", "peak_mb")),
        **({"coverage": _rounded(float(np.mean(covered)))} if covered else {}),
        "settings": next(iter(seeds.values())).record["settings"],
        "version": next(iter(seeds.values())).record["version"],
    }


def _covered(unit: Found) -> float | None:
    """The share of the test rows whose interval, or set of labels, holds the truth; None without any."""
    for key in ("held", "coverage"):
        if (share := unit.record.get(key, {}).get("share")) is not None:
            return float(share)
    return None


def coverage_by_similarity(methods: Iterable[Seeds]) -> dict[str, list[dict[str, Any]]]:
    """Over all sets and seeds, of intervals and of sets of labels: rows and coverage in bins of similarity."""
    bins: dict[str, dict[tuple[float, float], list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for seeds in methods:
        for unit in seeds.values():
            held = unit.record.get("held", {"by_similarity": []})
            for one in held["by_similarity"]:
                if one["coverage"] is not None:
                    bins[held["kind"]][one["from"], one["to"]].append((one["rows"], one["coverage"]))
    return {
        kind: [
            {
                "from": low,
                "to": high,
                "rows": sum(rows for rows, _ in found),
                "coverage": _rounded(sum(rows * share for rows, share in found) / sum(rows for rows, _ in found)),
            }
            for (low, high), found in sorted(of_kind.items())
        ]
        for kind, of_kind in bins.items()
    }


def _against(metric: str, ours: Seeds, theirs: Seeds) -> dict[str, Any]:
    found = compare(metric, ours, theirs)
    return {
        "better by": _rounded(found.gain),
        "interval": [_rounded(found.lower), _rounded(found.upper)],
        "verdict": found.verdict,
        "seeds": found.seeds,
        "training CPU ratio": _rounded(ratio(ours, theirs, "training", "cpu_seconds")),
        "prediction CPU ratio": _rounded(ratio(ours, theirs, "prediction", "cpu_seconds")),
        "memory ratio": _rounded(ratio(ours, theirs, "training", "peak_mb")),
    }


def totals(sets: Mapping[str, Any], ours: str) -> dict[str, Any]:
    """Over the sets, for every other method: verdicts, and geometric means of the ratios."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for figures in sets.values():
        for name, comparison in figures[f"{ours} against"].items():
            found[name].append(comparison)
    return {name: _total(comparisons) for name, comparisons in found.items()}


def _total(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    verdicts = Counter(comparison["verdict"] for comparison in comparisons)
    cpu = [comparison["training CPU ratio"] for comparison in comparisons]
    speed = [1 / comparison["prediction CPU ratio"] for comparison in comparisons]
    return {
        "sets": len(comparisons),
        **{verdict: verdicts[verdict] for verdict in ("win", "level", "loss")},
        "training CPU ratio": _rounded(_geometric_mean(cpu)),
        "largest training CPU ratio": max(cpu),
        "prediction rows per CPU second, ratio": _rounded(_geometric_mean(speed)),
        "lowest ratio of rows": _rounded(min(speed)),
        "memory ratio": _rounded(_geometric_mean([comparison["memory ratio"] for comparison in comparisons])),
    }


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def markdown(sets: Mapping[str, Any], overall: Mapping[str, Any], ours: str) -> str:
    """All sets in one table, one for each set, and one of the totals."""
    lines = [*_overview(sets, ours), ""]
    for name, figures in sets.items():
        lines += [f"### {name}: {figures['metric']} of the test rows", ""]
        heads = ["method", "seeds", "test (95 %)", f"{ours} better by (95 %)", "", "val", "CPU s", "min", "MB"]
        lines += _row([*heads, "rows/CPU s", "after start", "coverage"]), _row(["---"] * 12)
        for method, cells in figures["methods"].items():
            beside = figures[f"{ours} against"].get(method)
            difference = [f"{beside['better by']} {beside['interval']}", beside["verdict"]] if beside else ["", ""]
            costs = [cells[f"training {unit}"] for unit in ("CPU seconds", "minutes", "MB")]
            speed = [cells["predicted rows per CPU second"], cells["after start-up"], cells.get("coverage", "")]
            score = f"{cells['test']} {cells['interval']}"
            lines.append(_row([method, len(cells["seeds"]), score, *difference, cells["val"], *costs, *speed]))
        lines.append("")
    if overall:
        columns = list(next(iter(overall.values())))
        lines += [f"### {ours} against", "", _row(["method", *columns]), _row(["---"] * (1 + len(columns)))]
        lines += [_row([method, *total.values()]) for method, total in overall.items()]
    return "\n".join(lines)


_MARKS = {"win": "−", "level": "=", "loss": "+"}  # how a method is beside ours


def _overview(sets: Mapping[str, Any], ours: str) -> list[str]:
    """A row for each set, a column for each method; + is better than ours, − worse, = level."""
    methods = list(dict.fromkeys(method for figures in sets.values() for method in figures["methods"]))
    methods.sort(key=lambda method: method != ours)
    lines = [_row(["set", "metric", *methods]), _row(["---"] * (2 + len(methods)))]
    for name, figures in sets.items():
        cells = []
        for method in methods:
            found, beside = figures["methods"].get(method), figures[f"{ours} against"].get(method)
            mark = f" {_MARKS[beside['verdict']]}" if beside else ""
            cells.append(
                f"{found['test']:.3f} ({'–'.join(f'{one:.3f}' for one in found['interval'])}){mark}" if found else ""
            )
        lines.append(_row([name, figures["metric"], *cells]))
    return lines


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def summarise(folder: Path, ours: str, json_file: Path | None) -> None:
    """Print the tables of all units that are done; write them as JSON.

    Args:
        folder: output folder of chemists.py.
        ours: the method that the others are compared with.
        json_file: to write.
    """
    units = read_units(folder)
    if not units:
        print(f"there are no finished units in {folder}; run some first (--help says how), or name a folder with --out")
        return
    sets = {name: figures_of_set(methods, ours) for name, methods in units.items()}
    overall = totals(sets, ours)
    print(markdown(sets, overall, ours))
    if json_file is not None:
        about = f"{SAMPLES} samples of the test rows within each seed; level: the interval of the difference holds 0"
        near = coverage_by_similarity(methods[ours] for methods in units.values() if ours in methods)
        content: dict[str, Any] = {"intervals": about, "sets": sets, f"{ours} against": overall}
        content |= {"coverage by similarity": near}
        content |= machine(version("torch"))
        write_json(json_file, content)
