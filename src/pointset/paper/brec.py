"""BREC: which of 400 hard pairs of graphs a model, or an exact invariant, distinguishes (:func:`run_pairs`).

Pairs are spread over several processes; each outcome is on disk as soon as it is there, so that a run that was stopped
resumes. :func:`summarised` and :func:`grouped` count outcomes by category, beside published numbers.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

import numpy as np
import torch

from pointset.datasets.benchmarks.brec import CATEGORIES, EdgeList, GraphPair
from pointset.errors import FileFormatError, MemoryForecastError, SpecError, did_you_mean
from pointset.files import check_regular, naming, try_lock
from pointset.machine import cores
from pointset.paper.point_refinement import PointRefinement, refine_points
from pointset.paper.processes import worker_processes
from pointset.paper.refinement import Refinement, refine_nodes, refine_pairs, same_when_marked
from pointset.paper.siamese import Outcome, Settings, compare, contestant_named, trained_names
from pointset.progress import progress_bar

Test = Callable[[Sequence[EdgeList]], list[bool]]  # whether each graph after the first is taken for it


def _by(refine: Callable[..., Refinement | PointRefinement], *layers: int, **settings: str) -> Test:
    """By a refinement of colours, run to its end."""

    def same_as_first(graphs: Sequence[EdgeList]) -> list[bool]:
        refinement = refine(graphs, *layers, **settings)
        return [refinement.same(0, other) for other in range(1, len(graphs))]

    return same_as_first


def _by_marked_pairs(graphs: Sequence[EdgeList]) -> list[bool]:
    """What is distinguished without a mark is distinguished with one, so these long computations are left out."""
    same = _by(refine_pairs)(graphs)
    return same_when_marked(graphs, rounds=4) if same[0] else same


INVARIANTS: Mapping[str, tuple[str, Test]] = MappingProxyType(
    {
        "1-wl": ("colours of nodes, the bound of message passing", _by(refine_nodes)),
        "inner-products": (
            "inner products of points, f(L)_ij: one layer of PST, any weights",
            _by(refine_points, 1, matrix="laplacian"),
        ),
        "points": ("what PST of any depth can see, any weights", _by(refine_points, matrix="laplacian")),
        "3-wl": ("colours of pairs (2-FWL)", _by(refine_pairs)),
        "marked-3-wl": ("four rounds of it with one node marked, each in turn", _by_marked_pairs),
    }
)


def compare_exactly(pair: GraphPair, name: str, seed: int = 0) -> Outcome:
    """Whether an invariant distinguishes a pair, and whether it takes the first graph for its relabelled copy."""
    start = time.perf_counter()
    nodes, edges = pair.first
    order = np.random.default_rng([seed, pair.number]).permutation(nodes)
    copy = (nodes, torch.from_numpy(order)[edges])
    same_second, same_copy = INVARIANTS[name][1]([pair.first, pair.second, copy])
    return Outcome(
        pair=pair.number,
        category=pair.category,
        nodes=nodes,
        separated=not same_second,
        unreliable=not same_copy,
        seconds=round(time.perf_counter() - start, 3),
    )


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


def run_pairs(
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
        folder: where outcomes go, into ``NAME.jsonl``; those of other settings are refused.
        settings: of the training.
        workers: processes of one thread each; by default as many as there are cores.
        show: a progress bar; by default on a terminal.
    """
    check_names([name])
    settings = settings or Settings()
    folder.mkdir(parents=True, exist_ok=True)
    depends_on = {"model": name, "seed": settings.seed} if name in INVARIANTS else {"model": name, **asdict(settings)}
    with OutcomeFile(folder / f"{name}.jsonl", depends_on) as file:
        missing = [pair for pair in pairs if pair.number not in file.outcomes]
        # in random order, so that the time left is judged by small and large graphs alike
        order = np.random.default_rng(settings.seed).permutation(len(missing))
        with progress_bar(f"{name} on pairs", len(pairs), show=show) as advance:
            advance(len(pairs) - len(missing))
            for outcome in _outcomes(name, [missing[position] for position in order], settings, workers or cores()):
                file.add(outcome)
                advance(1)
        return [file.outcomes[pair.number] for pair in pairs]


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
            f"one of {workers} processes on pairs ended before its time (out of memory?); what is finished is kept. "
            "Resume with the same command, with fewer --workers if it happens again"
        ) from None


class OutcomeFile:
    """The outcomes of one model: first a line of JSON with its settings, then a line for each pair as it is finished.

    Used in a ``with`` block, in which no other process can write to it. ``settings`` is what the outcomes depend on: a
    file that was made with others is refused.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]):
        self.path = path
        self.outcomes: dict[int, Outcome] = {}
        check_regular(path)
        self._file: IO[str] = path.open("a+", encoding="utf-8")
        try:
            if not try_lock(self._file):
                raise SpecError(f"{path} is being written by another process; wait for it, or choose another --out")
            self._read(json.loads(json.dumps(dict(settings))))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> OutcomeFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, outcome: Outcome) -> None:
        """After a return it is on disk."""
        self.outcomes[outcome.pair] = outcome
        self._append(outcome.as_dict())

    def _append(self, content: Mapping[str, Any]) -> None:
        with naming(self.path):
            self._file.write(json.dumps(content, allow_nan=False) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self, settings: Mapping[str, Any]) -> None:
        self._file.seek(0)
        try:
            text = self._file.read()
        except ValueError as error:  # not UTF-8
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
                f"{self.path} was made with {', '.join(changed) or 'other settings'}; give the same settings to resume "
                "it, or choose another --out"
            )

    def _damaged(self, error: Exception) -> FileFormatError:
        return FileFormatError(f"{self.path} is damaged ({error}); delete it, or choose another --out")


Summary = dict[str, dict[str, int]]  # category → pairs, separated, unreliable


class Published(NamedTuple):
    """Pairs separated, of 60, 140, 100, 100 and 400, in Wang and Zhang's table (2024)."""

    basic: int
    regular: int  # with strongly regular graphs, those of the 4-vertex condition, and distance-regular ones
    extension: int
    cfi: int

    @property
    def total(self) -> int:
        """Of 400."""
        return sum(self)


PUBLISHED: Mapping[str, Published] = {
    "3-WL": Published(60, 50, 100, 60),
    "I²-GNN": Published(60, 100, 100, 21),
    "KP-GNN": Published(60, 106, 98, 11),
    "GSN": Published(60, 99, 95, 0),
    "PPGN": Published(60, 50, 100, 23),
    "NGNN": Published(59, 48, 59, 0),
    "Graphormer": Published(16, 12, 41, 10),
}
_GROUPS = {
    "Basic": ("Basic",),
    "Regular": ("Regular", "Regular-SRG", "4-Vertex_Condition", "Distance_Regular"),
    "Extension": ("Extension",),
    "CFI": ("CFI",),
}


def summarised(outcomes: Iterable[Outcome]) -> Summary:
    """For each category, in the published order: pairs tried, separated, unreliable.

    A pair is separated only where the model is reliable on it.
    """
    summary: Summary = {}
    listed = list(outcomes)
    for category in CATEGORIES:
        found = [one for one in listed if one.category == category]
        if found:
            summary[category] = {
                "pairs": len(found),
                "separated": sum(one.separated and not one.unreliable for one in found),
                "unreliable": sum(one.unreliable for one in found),
            }
    return summary


def grouped(summary: Summary) -> dict[str, tuple[int, int]]:
    """The published groups: name → (separated, pairs)."""
    groups = {}
    for group, categories in _GROUPS.items():
        counts = [summary[category] for category in categories if category in summary]
        groups[group] = sum(one["separated"] for one in counts), sum(one["pairs"] for one in counts)
    return groups


def total(summary: Summary, key: str) -> int:
    """Over all categories."""
    return sum(counts[key] for counts in summary.values())
