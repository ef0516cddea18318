"""The words of the bar and of the log: pieces of a line, each with shorter forms for narrow terminals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pointset.training.watcher import EpochRow, Plan

GAP = 2  # blanks between two pieces


class Piece(NamedTuple):
    """A piece of a line: its forms from the longest to the shortest, which may be empty."""

    name: str
    forms: tuple[str, ...]


# Which piece takes its next form where a line is too long; the first goes first.
_SHORTENED = ("batch", "best", "speed", "val", "batch", "best", "left", "epoch", "speed", "loss", "best", "val")


class Line:
    """Makes lines for a terminal. A form that was once too long does not come back, so that nothing jumps about."""

    def __init__(self) -> None:
        self._width = 0
        self._steps = 0

    def fitted(self, pieces: Sequence[Piece], width: int) -> dict[str, str]:
        """The pieces by name in the longest forms that fit into ``width`` columns together, without the empty ones."""
        if width > self._width:
            self._steps = 0
        self._width = width
        texts = _shortened(pieces, self._steps)
        while _length(list(texts.values())) > width and self._steps < len(_SHORTENED):
            self._steps += 1
            texts = _shortened(pieces, self._steps)
        return texts


def _shortened(pieces: Sequence[Piece], steps: int) -> dict[str, str]:
    done = _SHORTENED[:steps]
    texts = {piece.name: piece.forms[min(done.count(piece.name), len(piece.forms) - 1)] for piece in pieces}
    return {name: text for name, text in texts.items() if text}


def _length(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) + GAP * max(len(texts) - 1, 0)


def title(plan: Plan) -> str:
    """``training own: 300 epochs of 10,000 graphs, 472,312 parameters; best epoch by mae``."""
    epochs = f"{plan.epochs:,} epoch{'s' if plan.epochs != 1 else ''} of {plan.graphs:,} graphs"
    begun = f"; going on after epoch {plan.first_epoch:,}" if plan.first_epoch else ""
    chosen = f"; best epoch by {plan.metric.replace('_', ' ')}"
    return printable(f"training {plan.name}: {epochs}, {plan.parameters:,} parameters{chosen}{begun}")


def epoch_piece(epoch: int, plan: Plan) -> Piece:
    """``epoch 12/300``."""
    number = f"{epoch:>{len(str(plan.epochs))}}/{plan.epochs}"
    return Piece("epoch", (f"epoch {number}", number.strip()))


def score_pieces(row: EpochRow | None, plan: Plan) -> list[Piece]:
    """``val mae 0.2340``, ``best 0.2200 (epoch 10)``; those that there are."""
    if row is None:
        return []
    name = plan.metric.replace("_", " ")
    pieces = []
    if plan.metric in row.val:
        value = number(row.val[plan.metric])
        pieces.append(Piece("val", (f"val {name} {value}", f"val {value}", "")))
    if not math.isnan(row.best_value):
        best = f"best {number(row.best_value)}"
        pieces.append(Piece("best", (f"{best} (epoch {row.best_epoch})", f"{best} ({row.best_epoch})", best, "")))
    return pieces


def loss_piece(loss: float | None) -> Piece:
    """``loss 0.1234``."""
    return Piece("loss", ("",) if loss is None else (f"loss {number(loss)}", ""))


def speed_piece(graphs_per_second: float | None) -> Piece:
    """``4,532 graphs/s``."""
    if graphs_per_second is None or not math.isfinite(graphs_per_second):
        return Piece("speed", ("",))
    speed = f"{graphs_per_second:,.0f}" if graphs_per_second >= 10 else f"{graphs_per_second:.1f}"
    return Piece("speed", (f"{speed} graphs/s", f"{speed}/s", ""))


def time_piece(left: int | None, elapsed: float) -> Piece:
    """``3:12 left``; ``in 12:40`` where nothing is left to do; empty where it is not known."""
    if left is None:
        return Piece("left", ("",))
    return Piece(
        "left", (f"{duration(left)} left" if left else f"in {duration(elapsed)}", short_duration(left or elapsed))
    )


def number(value: float) -> str:
    """Four digits that count: ``0.2340``, ``12.34``, ``1.234e-05``."""
    if value and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.3e}"
    return f"{value:#.4g}".rstrip(".") if abs(value) < 1e3 else f"{value:.0f}"


def duration(seconds: float) -> str:
    """``0:07``, ``3:12``, ``26:04:59``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def short_duration(seconds: float) -> str:
    """``3:12``, but ``26h05``: nobody waits for those seconds."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h{minutes:02}" if hours else duration(seconds)


def printable(text: str) -> str:
    """Without control characters but line ends: names come from files, and must not steer the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)
