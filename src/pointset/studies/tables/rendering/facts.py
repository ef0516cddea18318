"""How a table came about, in words: seeds, folds, epochs, time, machine (:func:`facts_of`, :func:`costs_of`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pointset.reports.run_pages.words import count, duration, memory
from pointset.studies.tables.result import RunRecord, TableResult

_NOUNS = {"cores": "core", "threads": "thread", "processes": "process", "gpus": "GPU"}
_MEMORY = ("memory", "memory_bytes")
_TOLD = ("pointset", "python", "torch", "torch_geometric")  # versions; the file has them all
_PLAIN = ("kind", "processor", "system", "memory", "device_name")  # values that need no name

COSTS = ("runs", "epochs", "best epoch", "time", "peak memory")
BUDGETS = {
    "full": "the paper's own settings",
    "cpu": "sized for a machine without GPU: less training, fewer runs or smaller models than the paper's",
    "small": "a trial of minutes, which shows that everything runs; not a result",
}


def facts_of(result: TableResult) -> list[tuple[str, str]]:
    """Names and texts, in the order of reading; without what is not known."""
    runs = [run for row in result.rows if row.source == "ours" for run in row.runs]
    facts = [
        ("runs", str(len(runs)) if runs else ""),
        ("seeds", spans(run.seed for run in runs)),
        ("folds", spans(run.fold for run in runs)),
        ("epochs", spans(run.epochs for run in runs)),
        ("total time", total_time(result)),
        ("machine", machine_words(result.machine)),
        ("date", result.date),
    ]
    return [(name, text) for name, text in facts if text]


def costs_of(result: TableResult) -> list[tuple[str, list[str]]]:
    """For each row of ours: runs, epochs, best epoch, time of all its runs, peak memory."""
    return [(row.title, _costs(row.runs)) for row in result.rows if row.source == "ours" and row.runs]


def _costs(runs: tuple[RunRecord, ...]) -> list[str]:
    peaks = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]
    return [
        str(len(runs)),
        spans(run.epochs for run in runs) or "–",
        spans((run.best_epoch for run in runs), most=1) or "–",
        duration(seconds_of(runs)),
        memory(max(peaks)) if peaks else "–",
    ]


def total_time(result: TableResult) -> str:
    """Of all runs; a dash where none was trained."""
    return duration(result.seconds or None)


def seconds_of(runs: Iterable[RunRecord]) -> float | None:
    """Of all together; None where no time is known."""
    known = [run.seconds for run in runs if run.seconds is not None]
    return sum(known) if known else None


def spans(numbers: Iterable[int | None], most: int = 4) -> str:
    """``0, 1, 2``; ``0–9`` where there are no gaps, or too many numbers to list."""
    known = sorted({number for number in numbers if number is not None})
    without_gaps = len(known) > 2 and known[-1] - known[0] == len(known) - 1
    if known and (without_gaps or len(known) > most):
        return f"{known[0]:,}–{known[-1]:,}"
    return ", ".join(f"{number:,}" for number in known)


def machine_words(machine: Mapping[str, Any]) -> str:
    """``AMD EPYC, 2 cores, 8.2 GB memory, 1 thread; pointset 0.1.0, python 3.11, torch 2.13``: the machine first."""
    inner = machine.get("machine")
    about = {**(inner if isinstance(inner, Mapping) else {}), **machine}
    made_of: list[str] = []
    versions: list[str] = []
    for key, value in about.items():
        if isinstance(value, Mapping):
            versions += [f"{name} {one}" for name, one in value.items() if key != "machine" and name in _TOLD]
        elif value not in (None, ""):
            (versions if key in _TOLD else made_of).append(_machine_word(key, value))
    return "; ".join(", ".join(part) for part in (made_of, versions) if part)


def _machine_word(key: str, value: Any) -> str:
    if key in _NOUNS and isinstance(value, int):
        return count(value, _NOUNS[key])
    if key in _MEMORY and isinstance(value, (int, float)):
        return f"{memory(value)} memory"
    return str(value) if key in _PLAIN else f"{key.replace('_', ' ')} {value}"
