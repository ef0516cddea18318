"""All pairs for one model, over several processes, each outcome kept as soon as it is there (:func:`run`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path

import numpy as np

from pointset.datasets.graph_pairs import GraphPair
from pointset.errors import MemoryForecastError, SpecError, did_you_mean
from pointset.machine import cores
from pointset.progress import progress_bar
from pointset.studies.brec.contestants import contestant_named, trained_names
from pointset.studies.brec.invariants import INVARIANTS, compare_exactly
from pointset.studies.brec.outcome import Outcome
from pointset.studies.brec.records import Records
from pointset.studies.brec.siamese import Settings, compare
from pointset.studies.processes import worker_processes


def model_names() -> list[str]:
    """All that can be run: invariants, then models."""
    return [*INVARIANTS, *trained_names()]


def check_names(names: Sequence[str]) -> None:
    """Refuse an unknown name, or none, before any work is done."""
    known = model_names()
    if not names:
        raise SpecError(f"got no model; expected some of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise SpecError(f"got the model {name!r}; expected one of {', '.join(known)}{did_you_mean(name, known)}")


def run(
    name: str,
    pairs: Sequence[GraphPair],
    folder: Path,
    settings: Settings | None = None,
    *,
    workers: int | None = None,
    show: bool | None = None,
) -> list[Outcome]:
    """Outcomes of a model, or an invariant, on these pairs; those in ``folder`` from before are not made again.

    Args:
        name: one of :func:`model_names`.
        pairs: of graphs.
        folder: where outcomes are kept, in ``NAME.jsonl``.
        settings: of the training.
        workers: processes of one thread each; by default as many as there are cores.
        show: a progress bar; by default on a terminal.

    Raises:
        SpecError: no such model, or ``folder`` holds outcomes of other settings.
        FileFormatError: the outcomes in ``folder`` are damaged.
        MemoryForecastError: a process was ended from outside, most likely for its memory.
    """
    check_names([name])
    settings = settings or Settings()
    folder.mkdir(parents=True, exist_ok=True)
    depends_on = {"model": name, "seed": settings.seed} if name in INVARIANTS else {"model": name, **asdict(settings)}
    with Records(folder / f"{name}.jsonl", depends_on) as records:
        missing = [pair for pair in pairs if pair.number not in records.outcomes]
        # in random order, so that the time left is judged by small and large graphs alike
        order = np.random.default_rng(settings.seed).permutation(len(missing))
        with progress_bar(f"{name} on pairs", len(pairs), show=show) as advance:
            advance(len(pairs) - len(missing))
            for outcome in _outcomes(name, [missing[position] for position in order], settings, workers or cores()):
                records.add(outcome)
                advance(1)
        return [records.outcomes[pair.number] for pair in pairs]


def compare_pair(name: str, pair: GraphPair, settings: Settings) -> Outcome:
    """One model, one pair."""
    if name in INVARIANTS:
        return compare_exactly(pair, name, settings.seed)
    return compare(pair, contestant_named(name), settings)


def _outcomes(name: str, pairs: Sequence[GraphPair], settings: Settings, workers: int) -> Iterator[Outcome]:
    """As they are finished."""
    if workers == 1 or len(pairs) < 2:
        for pair in pairs:
            yield compare_pair(name, pair, settings)
        return
    try:
        with worker_processes(workers) as submit:
            for future in as_completed([submit(compare_pair, name, pair, settings) for pair in pairs]):
                yield future.result()
    except BrokenProcessPool:
        raise MemoryForecastError(
            f"one of {workers} processes on pairs ended before its time (out of memory?); what is finished is kept. Go "
            "on by the same command, with fewer --workers if it happens again"
        ) from None
