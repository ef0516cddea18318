"""A statement of the paper as an experiment: a claim, a way to check it, a verdict with evidence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from pointset.errors import SpecError, did_you_mean


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


def named(statements: tuple[Statement, ...], names: list[str]) -> tuple[Statement, ...]:
    """Those whose name contains one of ``names`` ("3.1", "theorem 5"); all where no name is given."""
    if not names:
        return statements
    chosen = []
    for name in names:
        pattern = re.compile(re.escape(name.strip()) + r"(?!\d)", re.IGNORECASE)  # "A.1" is no part of "A.10"
        found = [one for one in statements if name.strip() and pattern.search(one.name)]
        if not found:
            known = [one.name for one in statements]
            raise SpecError(
                f"got {name!r}; expected a part of a statement's name: {'; '.join(known)}{did_you_mean(name, known)}"
            )
        chosen += [one for one in found if one not in chosen]
    return tuple(sorted(chosen, key=statements.index))
