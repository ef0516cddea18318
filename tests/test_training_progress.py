"""What people see of a training run: a line that fits the terminal, a log that stays short, silence, TensorBoard."""

from __future__ import annotations

import io
import itertools
import math
import os
import pty
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pointset.errors import MissingExtraError, SpecError
from pointset.runs.result import EpochRow
from pointset.text import clock
from pointset.training import progress
from pointset.training.progress import MODES, Bar, Plain, Plan, Quiet, Session, Watcher, Watchers, watcher_for

BATCHES, GRAPHS = 10, 100
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def plan(epochs: int, first_epoch: int = 0, metric: str = "mae", name: str = "small") -> Plan:
    return Plan(name, epochs, first_epoch, BATCHES, GRAPHS, metric, False, 12_345)


def row(epoch: int, value: float, best_epoch: int | None = None, best: float | None = None) -> EpochRow:
    best_epoch, best = best_epoch or epoch, value if best is None else best
    return EpochRow(epoch, 1e-3, 1 / epoch, {"mae": value}, best_epoch == epoch, best_epoch, best, 1.0, 4532.4)


def train(watcher: Watcher, clock: Clock, epochs: int, seconds: float = 1.0, last: int | None = None) -> None:
    """A run of epochs that take ``seconds`` each, a tenth of it for validation; stopped after ``last``."""
    watcher.begin(plan(epochs))
    for epoch in range(1, (last or epochs) + 1):
        for batch in range(1, BATCHES + 1):
            clock.now += seconds * 0.9 / BATCHES
            watcher.batch(epoch, batch, GRAPHS // BATCHES, 0.5)
        watcher.validating()
        clock.now += seconds * 0.1
        watcher.epoch(row(epoch, 1 / epoch))
    watcher.end()


def bar_page(width: int, **how: Any) -> tuple[str, Bar, Clock]:
    """What a bar leaves on a page that is no terminal: all but the frames that moved."""
    page, clock = io.StringIO(), Clock()
    bar = Bar(Console(file=page, width=width, force_terminal=False), clock)
    train(bar, clock, **how)
    return page.getvalue(), bar, clock


def moving_line(watcher: Bar, width: int) -> str:
    page = io.StringIO()
    Console(file=page, width=width).print(watcher)
    return page.getvalue().rstrip("\n")


# the log


def test_a_log_line_says_all(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    log = Plain(clock)
    log.begin(plan(300))
    for epoch in range(1, 13):
        clock.now += 16
        log.epoch(row(epoch, 0.234, 10, 0.22) if epoch >= 10 else row(epoch, 0.3))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training small: 300 epochs of 100 graphs, 12,345 parameters; best epoch by MAE"
    assert lines[-1] == (
        "epoch  12/300  loss 0.08333  val MAE 0.2340  best 0.2200 (epoch 10)  4,532 graphs/s  1:16:48 left"
    )


def test_a_log_of_short_epochs_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    """A line every ten seconds, and always one for the first and the last epoch."""
    clock = Clock()
    train(Plain(clock), clock, epochs=100, seconds=0.5)
    output = capsys.readouterr()
    numbers = [int(number) for number in re.findall(r"epoch +(\d+)/100", output.err)]
    assert numbers[0] == 1 and numbers[-1] == 100 and output.out == ""
    assert all(20 <= later - sooner <= 21 for sooner, later in itertools.pairwise(numbers[:-1]))
    assert output.err.splitlines()[-1].endswith("in 0:50") and "\x1b" not in output.err


def test_a_log_of_long_epochs_gives_signs_of_life(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    train(Plain(clock), clock, epochs=2, seconds=400)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "epoch 1/2  batch 2/10  loss 0.5000  0.3 graphs/s  10:48 left"
    assert [line for line in lines if "val MAE" in line] == [
        "epoch 1/2  loss 1.000  val MAE 1.000  best 1.000 (epoch 1)  4,532 graphs/s  6:40 left",
        "epoch 2/2  loss 0.5000  val MAE 0.5000  best 0.5000 (epoch 2)  4,532 graphs/s  in 13:20",
    ]


def test_a_run_that_stops_early_says_where_it_stood(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    train(Plain(clock), clock, epochs=100, seconds=1, last=15)
    assert capsys.readouterr().err.splitlines()[-1].startswith("epoch  15/100  loss")


def test_a_closed_terminal_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Closed())
    clock = Clock()
    log = Plain(clock)
    train(log, clock, epochs=3)
    assert log._session is None


# the time left


def test_the_time_left_is_that_of_the_epochs_of_this_session() -> None:
    clock = Clock()
    session = Session(plan(30, first_epoch=10), clock)
    assert session.left is None
    clock.now += 2
    session.batch(5, 50, 1.0)  # half of the first epoch after 2 s; batches 1 to 4 were of the session before
    assert session.left == pytest.approx(2 / 0.1 * 19.5, abs=1)
    clock.now += 8
    session.epoch(row(11, 0.5))
    assert session.left == pytest.approx(10 / 0.6 * 19, abs=1)
    clock.now += 5
    assert session.left == pytest.approx(10 / 0.6 * 19 - 5, abs=1)
    clock.now += 1e6  # a laptop that slept: no more than a whole epoch is taken off
    assert session.left == pytest.approx(10 / 0.6 * 18, abs=1)


def test_the_speed_is_that_of_training() -> None:
    clock = Clock()
    session = Session(plan(3), clock)
    clock.now += 4
    session.batch(1, 100, 0.5)
    clock.now += 100  # validation
    assert session.speed == 25 and session.loss == 0.5


# the bar


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
def test_the_bar_fits_one_line(width: int) -> None:
    clock = Clock()
    bar = Bar(Console(file=io.StringIO(), width=width), clock)
    bar.begin(plan(300))
    for epoch in range(1, 13):
        bar.batch(epoch, 1, 10, 0.123456)
        clock.now += 1000
        bar.epoch(row(epoch, 0.234))
    bar.batch(13, 7, 10, 0.123456)
    line = moving_line(bar, width)
    bar.end()
    assert "\n" not in line and len(line) <= width and "13/300" in line
    if width >= 60:
        assert all(text in line for text in ("loss 0.1235", "val", "best 0.2340", "80"))
    if width >= 100:
        assert line.rstrip().endswith("80:00:00 left")
    if width == 200:
        assert "batch  7/10  " in line and "val MAE 0.2340  best 0.2340 (epoch 12)" in line


def test_the_bar_says_when_it_validates() -> None:
    bar = Bar(Console(file=io.StringIO(), width=200), Clock())
    bar.begin(plan(3))
    bar.batch(1, 10, 10, 0.1)
    bar.validating()
    assert "validating" in moving_line(bar, 200)
    bar.epoch(row(1, 0.5))
    bar.batch(2, 1, 10, 0.1)
    assert "validating" not in moving_line(bar, 200)
    bar.end()


@pytest.mark.parametrize(("epochs", "marks"), [(1, 0), (5, 4), (10, 9), (300, 9)])
def test_lines_that_stay_are_few(epochs: int, marks: int) -> None:
    text, _, _ = bar_page(120, epochs=epochs)
    title, *lines = text.strip().splitlines()
    assert title.startswith(f"training small: {epochs} epoch")
    assert len(lines) == marks + 1 and all(f"/{epochs}  loss " in line for line in lines[:-1])
    last = f"epoch {epochs}/{epochs}"
    assert lines[-1].startswith(f"{last}  ━━━━") and lines[-1].endswith(f"in {clock(epochs)}")


def test_a_bar_can_begin_again_and_end_twice() -> None:
    text, bar, clock = bar_page(120, epochs=3)
    bar.end()
    train(bar, clock, epochs=2)
    assert text.count("training small") == 1


def test_messages_stand_above_the_bar() -> None:
    page = io.StringIO()
    bar = Bar(Console(file=page, width=60), Clock())
    bar.say("before")
    bar.begin(plan(3))
    bar.say("note: [3] graphs\x1b[31m were left out")
    bar.end()
    assert "before\n" in page.getvalue() and "note: [3] graphs�[31m were left out\n" in page.getvalue()


def test_a_real_terminal_sees_one_line_that_moves(tmp_path: Path) -> None:
    """Without any batch being drawn by itself: 2,000 of them in a second give at most nine frames."""
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            from pointset.runs.result import EpochRow
            from pointset.training.progress import Plan
            from pointset.training.progress import watcher_for
            watcher = watcher_for("auto", log_dir=None)
            watcher.begin(Plan("small", 2, 0, 1000, 1000, "mae", False, 1))
            for epoch in (1, 2):
                for batch in range(1, 1001):
                    time.sleep(0.0004)
                    watcher.batch(epoch, batch, 1, 0.25)
                watcher.epoch(EpochRow(epoch, 1e-3, 0.25, {"mae": 0.5}, True, epoch, 0.5, 1.0, 1000.0))
                print("printed", epoch)
            watcher.end()
            """
        )
    )
    parent, child = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, script], stdout=child, stderr=child, env=environment) as process:
        os.close(child)
        output = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:  # Linux: the terminal is closed
                break
            if not part:
                break
            output += part
    os.close(parent)
    assert process.returncode == 0
    text = output.decode()
    frames = [CONTROL.sub("", frame) for frame in re.split(r"\r\x1b\[2K|\r\n", text)]
    assert "printed 1" in frames and "printed 2" in frames  # whole lines, above the bar
    assert 3 <= len([frame for frame in frames if "━" in frame]) <= 20
    assert [frame for frame in frames if frame][-1].startswith("epoch 2/2  ━━━") and "best 0.5000 (2)" in text


# silence, several watchers, the choice


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = watcher_for("quiet", log_dir=None)
    watcher.say("a note")
    train(watcher, Clock(), epochs=2)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_auto_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(watcher_for("auto", log_dir=None), Plain)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(watcher_for("auto", log_dir=None), Bar)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(watcher_for("auto", log_dir=None), Plain)
    assert isinstance(watcher_for("bar", log_dir=None), Bar) and "quiet" in MODES


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(SpecError, match=r"'plane'; expected one of auto, bar, plain, quiet; did you mean 'plain'\?"):
        watcher_for("plane", log_dir=None)


def test_all_watchers_are_told_all() -> None:
    told: list[tuple[int, str]] = []

    class Listener(Quiet):
        def __init__(self, name: int):
            self.name = name

        def __getattribute__(self, event: str) -> Any:
            if event in ("begin", "batch", "validating", "epoch", "say", "end"):
                told.append((self.name, event))
            return super().__getattribute__(event)

    watchers = Watchers(Listener(1), Listener(2))
    watchers.say("a note")
    train(watchers, Clock(), epochs=1)
    events = ["say", "begin", *["batch"] * BATCHES, "validating", "epoch", "end"]
    assert told == [(name, event) for event in events for name in (1, 2)]


# TensorBoard


def test_tensorboard_gets_a_scalar_for_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Writer:
        def __init__(self, log_dir: str, purge_step: int | None):
            calls.append((log_dir, purge_step))

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            calls.append((tag, value, step))

        def close(self) -> None:
            calls.append("closed")

    fake = types.ModuleType("torch.utils.tensorboard")
    fake.__dict__["SummaryWriter"] = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    watcher = watcher_for("quiet", log_dir=tmp_path)
    watcher.begin(plan(9, first_epoch=4))
    watcher.batch(5, 1, 10, 0.1)
    watcher.epoch(row(5, 0.25))
    watcher.end()
    watcher.end()
    scalars = [("train_loss", 0.2, 5), ("lr", 1e-3, 5), ("val_mae", 0.25, 5)]
    assert calls == [(str(tmp_path), 5), *scalars, "closed"]


def test_without_tensorboard_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[tensorboard\]'"):
        watcher_for("quiet", log_dir=tmp_path)


# words


def test_no_score_so_far_shows_none() -> None:
    def scores(row: EpochRow, plan: Plan) -> dict[str, str]:
        pieces = progress.line_pieces(Session(plan), 1, row, ("",))
        return {name: forms[0] for name, forms in pieces.items() if name in ("val", "best")}

    assert scores(row(1, math.nan), plan(3)) == {"val": "val MAE nan"}
    assert list(scores(row(1, 0.5), plan(3, metric="roc_auc"))) == ["best"]


def test_a_shorter_form_stays_until_the_terminal_grows() -> None:
    line = progress.Line()

    def best(value: str, width: int) -> str:
        return line.fitted({"best": (f"best {value} (epoch 9)", f"best {value}")}, width)["best"]

    assert best("0.1", 18) == "best 0.1 (epoch 9)"
    assert best("0.12", 18) == "best 0.12"
    assert best("0.1", 18) == "best 0.1"
    assert best("0.1", 30) == "best 0.1 (epoch 9)"
