"""Statements of the paper as experiments: a claim, a way to check it, a verdict with evidence.

:func:`all_statements` lists them in the order of the paper, :func:`check_statements` runs them side by side in
processes. Nothing that computes is loaded before a statement is asked for.
"""

from __future__ import annotations

import math
import re
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pointset.errors import SpecError, did_you_mean
from pointset.machine import cores
from pointset.paper.processes import worker_processes
from pointset.progress import Advance

ERROR = "error"  # the verdict of a check that did not come to its end
_DIED = "the process that ran this check ended before its time (out of memory?)"


class Verdict(StrEnum):
    """What an experiment says of a statement."""

    HOLDS = "holds"
    FAILS = "fails as printed"


@dataclass(frozen=True)
class Finding:
    """The outcome of one experiment."""

    verdict: Verdict
    evidence: str  # what was tried and seen, with numbers, in one to four sentences; what holds instead where it fails
    numbers: dict[str, float | int | str | bool] = field(default_factory=dict)  # the same for programs


@dataclass(frozen=True)
class Statement:
    """A statement and the experiment that checks it."""

    name: str  # as the paper numbers it: "Theorem 3.1"
    claim: str  # in one sentence
    check: Callable[[], Finding]


def holds_if(condition: bool, evidence: str, **numbers: float | int | str | bool) -> Finding:
    """Holds or fails, with the same evidence."""
    return Finding(Verdict.HOLDS if condition else Verdict.FAILS, evidence, numbers)


def all_statements() -> tuple[Statement, ...]:
    """In the order of the paper. Loads torch and networkx."""
    from pointset.paper.theorems import (
        counting,
        decomposition,
        distances,
        folklore,
        graph_transformers,
        isomorphism,
        message_passing,
        structural_encodings,
    )

    appendices = (message_passing, counting, graph_transformers, structural_encodings)
    sections = (decomposition, isomorphism, distances, folklore, *appendices)
    return tuple(sorted((statement for section in sections for statement in section.STATEMENTS), key=_place))


def _place(statement: Statement) -> tuple[str, int]:
    """Sections as above, each proof (Appendix A) beside its theorem; then the other appendices, and tables."""
    if statement.name.startswith("Table"):
        return "~", 0  # after all letters
    if statement.name.startswith("Figure"):
        return "C", 0  # the one figure that states something opens Appendix C
    appendix = re.search(r"\b([B-Z])\.(\d+)", statement.name)
    return (appendix[1], int(appendix[2])) if appendix else ("", 0)


def statements_named(statements: tuple[Statement, ...], names: list[str]) -> tuple[Statement, ...]:
    """Those whose name contains one of ``names`` ("3.1", "theorem 5"); all where no name is given."""
    if not names:
        return statements
    chosen = []
    for name in names:
        pattern = re.compile(re.escape(name.strip()) + r"(?!\d)", re.IGNORECASE)  # "A.1" is not a part of "A.10"
        found = [one for one in statements if name.strip() and pattern.search(one.name)]
        if not found:
            known = [one.name for one in statements]
            raise SpecError(
                f"got {name!r}; expected a part of a statement's name: {'; '.join(known)}{did_you_mean(name, known)}"
            )
        chosen += [one for one in found if one not in chosen]
    return tuple(sorted(chosen, key=statements.index))


def check_statements(
    statements: Sequence[Statement], *, workers: int | None = None, progress: Advance | None = None
) -> list[dict[str, Any]]:
    """Run every experiment; the results are in the order of ``statements``, whichever ends first.

    Several ``workers`` are processes, by default as many as there are cores, to which each ``check`` can be sent; 1
    checks in this process. ``progress`` is called with 1 after each statement.

    Returns:
        For each statement {"statement", "verdict", "evidence", "claim", "numbers", "seconds"}. A check that raises
        has the verdict "error" and what went wrong as evidence; the others are still checked.
    """
    if workers is not None and workers < 1:
        raise SpecError(f"got workers={workers}; expected a whole number of at least 1, or None for all cores")
    advance: Advance = progress or (lambda steps, /: None)
    processes = min(cores() if workers is None else workers, len(statements))
    if processes <= 1:
        from pointset.training.devices import thread_count  # here, as it loads torch

        results = []
        with thread_count(1):  # as in a worker: the last bits of a sum depend on the number of threads
            for statement in statements:
                results.append(_checked(statement))
                advance(1)
        return results
    found = _side_by_side(statements, range(len(statements)), processes, advance)
    for index in range(len(statements)):  # those that shared the fate of another's process: each in its own
        if index not in found:
            found |= _side_by_side(statements, [index], 1, advance)
            if index not in found:
                found[index] = _result(statements[index], ERROR, _DIED, {}, 0.0)
                advance(1)
    return [found[index] for index in range(len(statements))]


def _side_by_side(
    statements: Sequence[Statement], which: Sequence[int], workers: int, advance: Advance
) -> dict[int, dict[str, Any]]:
    """Results by index; those whose process died are missing."""
    found = {}
    with worker_processes(workers) as submit:
        running: dict[Future[dict[str, Any]], int] = {submit(_checked, statements[index]): index for index in which}
        for future in as_completed(running):
            index = running[future]
            try:
                found[index] = future.result()
            except BrokenProcessPool:
                continue
            except Exception as error:  # it could not be sent to a process
                found[index] = _result(statements[index], ERROR, _told(error), {}, 0.0)
            advance(1)
    return found


def _checked(statement: Statement) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        finding = statement.check()
        verdict, evidence, numbers = str(finding.verdict), finding.evidence, finding.numbers
    except Exception as error:
        verdict, evidence, numbers = ERROR, _told(error), {}
    return _result(statement, verdict, evidence, numbers, time.perf_counter() - start)


def _result(statement: Statement, verdict: str, evidence: str, numbers: Any, seconds: float) -> dict[str, Any]:
    return {
        "statement": statement.name,
        "verdict": verdict,
        "evidence": evidence,
        "claim": statement.claim,
        "numbers": {name: _plain(value) for name, value in numbers.items()},
        "seconds": round(seconds, 3),
    }


def _plain(number: Any) -> Any:
    """What JSON has: no numpy, no infinity."""
    number = number.item() if hasattr(number, "item") else number
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _told(error: Exception) -> str:
    """``ZeroDivisionError: division by zero (distances.py, line 41)``."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
