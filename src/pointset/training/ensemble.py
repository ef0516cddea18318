"""The members of an ensemble, trained side by side in processes of their own (:func:`train_members`).

A member is a run like any other, with a seed and a folder of its own, and without the test part, which the ensemble
scores. Members that are finished stay, the others are resumed. This process only watches: each member has a pipe, on
which it tells what happens, and gets SIGTERM when all are to stop.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from pointset.datasets.molecules.parallel import end_with_parent
from pointset.errors import PointsetError, TrainingStopped
from pointset.extensions import import_named, passed_on
from pointset.machine import cores, cores_used_by_others, main_left_alone
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed
from pointset.runs.result import EpochRow
from pointset.stopping import deaf_to_ctrl_c, end_in_time, saving
from pointset.training.checkpoint import ProgressRecord
from pointset.training.loop import StopRequest
from pointset.training.progress import MemberDisplay, Plan, Watcher

_LOOK_SECONDS = 0.5  # in which the work of others is measured
_POLL_SECONDS = 0.2
_BATCH_SECONDS = 0.2  # between two batches that a member tells of
_ENDED = (
    "its process was ended from outside (exit code {}), most likely for lack of memory. The others are saved; resume "
    "with --resume"
)
_EARLIER_SECONDS, _END_SECONDS = 1.0, 2.0  # by which members are ended before this process, and its patience
_LAST_SECONDS = 10.0  # for a member that does not end by itself

TrainMember = Callable[[str, Watcher], object]  # (name, what is told) → trains it, in the process that calls


def member_recipes(recipe: Recipe) -> dict[str, Recipe]:
    """``member-1``, …: the recipe with seeds counted from its own, on one thread each unless it says otherwise."""
    threads = recipe.trainer.threads or 1
    return {
        f"member-{number + 1}": changed(
            recipe, {"ensemble": None, "seed": recipe.seed + number, "trainer.threads": threads}
        )
        for number in range(recipe.ensemble or 1)
    }


def members_at_once(recipe: Recipe, members: int, *, on_cpu: bool) -> int:
    """How many train side by side: as many as cores are free; one where a GPU computes."""
    if not on_cpu:
        return 1
    free = cores() - round(cores_used_by_others(_LOOK_SECONDS) or 0.0)
    return max(1, min(members, free // (recipe.trainer.threads or 1)))


def train_members(
    train: TrainMember, names: Mapping[str, bool], display: MemberDisplay, *, at_once: int, watcher: Watcher | None
) -> None:
    """Train all that are left.

    Args:
        train: trains or resumes one of them; it must be picklable where several are trained at once.
        names: of the members, and whether each is finished already.
        display: shows a line for each.
        at_once: how many at a time; one is trained in this process.
        watcher: is told of every batch and epoch too; only of members that are trained in this process.

    Raises:
        TrainingStopped: Ctrl-C or SIGTERM; all is saved.
        PointsetError: a member failed; the others are stopped and saved.
    """
    finished = [name for name, is_finished in names.items() if is_finished]
    left = [name for name in names if name not in finished]
    with display:
        for name in finished:
            display.finished(name)
        if at_once > 1:
            _Processes(train, left, display, finished, len(names)).run(at_once)
            return
        for number, name in enumerate(left, len(finished)):
            try:
                train(name, display.watcher(name, watcher))
            except TrainingStopped as stopped:
                raise TrainingStopped(f"{name}: {stopped} {number} of {len(names)} members are finished.") from None
            except PointsetError as error:
                raise type(error)(f"{name}: {error}") from None
            display.finished(name)


@dataclass
class _Processes:
    """Members in processes of their own."""

    train: TrainMember
    left: list[str]  # names of members that are not yet started
    display: MemberDisplay
    finished: list[str]
    members: int  # in all
    running: dict[Connection, tuple[str, BaseProcess]] = field(default_factory=dict)
    failures: list[PointsetError] = field(default_factory=list)
    stop: StopRequest = field(default_factory=StopRequest)

    def run(self, at_once: int) -> None:
        """Start members until all are done; a failure or a request to stop ends them all."""
        told = False
        try:
            with self.stop.listening(), saving(self._last_words):
                while self.running or (self.left and not self._is_over):
                    if self._is_over and not told:
                        self._terminate()
                        told = True
                    while self.left and len(self.running) < at_once and not self._is_over:
                        self._start(self.left.pop(0))
                    for pipe in wait(list(self.running), _POLL_SECONDS):
                        self._receive(pipe)  # type: ignore[arg-type]
        finally:
            self._end_all()
        if self.failures:
            raise self.failures[0]
        if len(self.finished) < self.members:
            raise TrainingStopped(self._stopped())

    def _stopped(self) -> str:
        return f"Stopped; {len(self.finished)} of {self.members} members are finished, all is saved."

    def _last_words(self) -> str:
        """From another thread, where this process must end: the members, which were told so too, end first."""
        deadline, text = time.monotonic() + _END_SECONDS, self._stopped()
        ends = [process.sentinel for _, process in list(self.running.values())]
        while ends and time.monotonic() < deadline:
            ends = [end for end in ends if end not in wait(ends, deadline - time.monotonic())]
        return text

    @property
    def _is_over(self) -> bool:
        return self.stop.asked or bool(self.failures)

    def _start(self, name: str) -> None:
        ours, theirs = get_context("spawn").Pipe(duplex=False)
        # Spawned, not forked: a forked process inherits the locks of torch's threads, but not the threads.
        process = get_context("spawn").Process(target=_member, args=(self.train, name, theirs), name=name)
        with main_left_alone(), deaf_to_ctrl_c(), passed_on():
            process.start()
        theirs.close()
        self.running[ours] = (name, process)

    def _receive(self, pipe: Connection) -> None:
        """What a member tells; its pipe ends when it does."""
        name, process = self.running[pipe]
        try:
            event, *about = pipe.recv()
        except (EOFError, OSError):
            del self.running[pipe]
            process.join()
            if process.exitcode == -signal.SIGTERM:  # while it was starting
                self.stop.asked = True
            elif process.exitcode:
                self.failures.append(PointsetError(f"{name}: {_ENDED.format(process.exitcode)}"))
            return
        if event == "finished":
            self.finished.append(name)
            self.display.finished(name)
        elif event == "failed":
            self.failures.append(PointsetError(f"{name}: {about[0]}"))
        elif event == "stopped":
            self.stop.asked = True  # somebody asked one of them: that is meant for all
        else:
            getattr(self.display.watcher(name), event)(*about)

    def _terminate(self) -> None:
        for _, process in self.running.values():
            process.terminate()

    def _end_all(self) -> None:
        """None outlives this process, whatever ended it."""
        self._terminate()
        deadline = time.monotonic() + _LAST_SECONDS
        for _, process in self.running.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _member(train: TrainMember, name: str, pipe: Connection) -> None:
    """The process of a member."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # a terminal's Ctrl-C goes to the process that watches, which then stops all
    threading.Thread(target=end_with_parent, daemon=True).start()
    end_in_time(lambda _said: pipe.send(("stopped",)), code=0, earlier=_EARLIER_SECONDS)
    try:
        import_named()
        train(name, _Teller(pipe))
        pipe.send(("finished",))
    except TrainingStopped:
        pipe.send(("stopped",))
        os._exit(0)  # all is saved, and somebody waits
    except KeyboardInterrupt:  # before there was anything to save
        pipe.send(("stopped",))
        os._exit(0)
    except PointsetError as error:
        pipe.send(("failed", str(error)))
    except Exception as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
        raise


class _Teller(Watcher):
    """Tells another process, of batches only now and then."""

    def __init__(self, pipe: Connection):
        self.pipe = pipe
        self._graphs, self._told = 0, 0.0

    def begin(self, plan: Plan) -> None:
        self.pipe.send(("begin", plan))

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        self._graphs += graphs
        if time.monotonic() - self._told >= _BATCH_SECONDS:
            self.pipe.send(("batch", epoch, batch, self._graphs, loss))
            self._graphs, self._told = 0, time.monotonic()

    def validating(self) -> None:
        self.pipe.send(("validating",))

    def epoch(self, row: EpochRow) -> None:
        self._graphs = 0
        self.pipe.send(("epoch", row))

    def say(self, message: str) -> None:
        self.pipe.send(("say", message))

    def end(self) -> None:
        with suppress(OSError):
            self.pipe.send(("end",))


def mean_progress(records: Sequence[ProgressRecord]) -> ProgressRecord:
    """Of all members: the mean of each epoch that all of them have, and the seconds of all together."""
    history = [_mean_row(rows) for rows in zip(*(record.history for record in records), strict=False)]
    return ProgressRecord(
        epoch=max(record.epoch for record in records),
        seconds=sum(record.seconds for record in records),
        stopped_early=any(record.stopped_early for record in records),
        history=history,
    )


def _mean_row(rows: tuple[EpochRow, ...]) -> EpochRow:
    def mean(values: list[Any]) -> float:
        return float(np.mean(values))

    return EpochRow(
        epoch=rows[0].epoch,
        lr=rows[0].lr,
        train_loss=mean([row.train_loss for row in rows]),
        val={metric: mean([row.val[metric] for row in rows]) for metric in rows[0].val},
        is_best=False,
        best_epoch=0,
        best_value=float("nan"),
        seconds=mean([row.seconds for row in rows]),
        graphs_per_second=mean([row.graphs_per_second for row in rows]),
    )
