"""One progress bar for all long work: shown on a terminal, silent in pipes, logs and notebooks' stdout."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, Task


Item = TypeVar("Item")
_SHOW_AFTER_SECONDS = 0.5  # a bar that flashes by is noise


class Advance(Protocol):
    """Called with how many units of work were finished."""

    def __call__(self, steps: int, /) -> None: ...


@contextmanager
def progress_bar(description: str, total: int | None, *, show: bool | None = None) -> Iterator[Advance]:
    """Yield a function that advances the bar; ``show=None`` decides by whether stderr is a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda steps, /: None
        return
    start = time.monotonic()
    done = 0
    bar: Progress | None = None
    task = None

    def advance(steps: int, /) -> None:
        nonlocal done, bar, task
        done += steps
        if bar is None and time.monotonic() - start > _SHOW_AFTER_SECONDS:
            bar = _make_bar()
            bar.start()
            task = bar.add_task(description, total=total)
            bar.tasks[0].start_time = bar.get_time() - (time.monotonic() - start)  # what was done unseen took time too
        if bar is not None and task is not None:
            bar.update(task, completed=done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def track(items: Iterable[Item], description: str, total: int | None, *, show: bool | None = None) -> Iterator[Item]:
    """Iterate while a bar is shown."""
    with progress_bar(description, total, show=show) as advance:
        for item in items:
            yield item
            advance(1)


def seconds_left(elapsed: float, done: float, total: float | None) -> int | None:
    """By the mean speed: elapsed · (total − done) / done, at least 1 until all is done; None where it is unknown."""
    if total is None or not done:
        return None
    return max(math.ceil(elapsed * (total - done) / done), 1) if done < total else 0


def per_second(elapsed: float, done: float) -> str:
    """``"2,150/s"``; below 10 with one decimal, and nothing where nothing is known."""
    if elapsed <= 0 or not done:
        return ""
    speed = done / elapsed
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s"


def _make_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """By the mean speed from the start: rich's own guess takes the time between the last steps, which is none
        where two workers finish together.
        """

        def render(self, task: Task) -> Text:
            left = seconds_left(task.elapsed or 0.0, task.completed, task.total)
            return Text("-:--:--" if left is None else f"{timedelta(seconds=left)}", style="progress.remaining")

    class Speed(ProgressColumn):
        """Units of work in a second, in the mean from the start."""

        def render(self, task: Task) -> Text:
            return Text(per_second(task.elapsed or 0.0, task.completed), style="progress.data.speed")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Speed(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeLeft(),
        console=Console(stderr=True),
        transient=True,
    )
