"""What a progress bar says of the time that is left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pointset import progress


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "left"),
    [(10, 400, 15_535, 379), (10, 15_534, 15_535, 1), (10, 15_535, 15_535, 0), (10, 0, 100, None), (10, 5, None, None)],
)
def test_the_time_left_follows_the_mean_speed(elapsed: float, done: int, total: int | None, left: int | None) -> None:
    assert progress.seconds_left(elapsed, done, total) == left


def test_two_steps_at_the_same_time_do_not_end_the_wait() -> None:
    """Two workers finish their first chunks together after 10 s; the rest takes minutes."""
    bar = progress._make_bar()
    task = bar.add_task("molecules", total=15_535)
    bar.tasks[0].start_time = bar.get_time() - 10
    bar.update(task, completed=200)
    bar.update(task, completed=400)
    page = io.StringIO()
    Console(file=page, width=120).print(bar.get_renderable())
    assert "400/15535 40/s" in page.getvalue() and "left 0:06:" in page.getvalue()


@pytest.mark.parametrize(
    ("elapsed", "done", "shown"), [(10, 21_500, "2,150/s"), (10, 35, "3.5/s"), (0, 5, ""), (3, 0, "")]
)
def test_the_speed_is_the_mean_so_far(elapsed: float, done: int, shown: str) -> None:
    assert progress.per_second(elapsed, done) == shown
