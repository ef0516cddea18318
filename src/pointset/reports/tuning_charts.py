"""The history of a study: the score of every trial, and the best so far (:func:`compose_history`). Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pointset.metrics import metric_label
from pointset.reports.page import HEAD, MARGIN, SMALL, TEXT, Page, width_of
from pointset.reports.style import FAINT, HAIRLINE, INK, NEGATIVE, PAPER, POSITIVE, QUIET
from pointset.text import counted, number

_WIDE, _HIGH, _LEFT, _BELOW = 7.6, 4.9, 0.75, 0.95  # inches: the page, room for the ticks, room for axis and key
_LOG_FROM = 20.0  # ratio of the largest to the smallest score from which the scale is logarithmic
_COMPLETE: dict[str, Any] = {"s": 46, "c": NEGATIVE, "edgecolors": PAPER, "linewidths": 0.8, "zorder": 3}
_PRUNED: dict[str, Any] = {"s": 34, "c": PAPER, "edgecolors": FAINT, "linewidths": 1.4, "zorder": 2}
_FAILED: dict[str, Any] = {"s": 40, "c": POSITIVE, "marker": "x", "linewidths": 1.6, "clip_on": False, "zorder": 3}
_BEST: dict[str, Any] = {"color": NEGATIVE, "linewidth": 1.6, "alpha": 0.7, "zorder": 1}

Trial = Mapping[str, Any]


def compose_history(content: Mapping[str, Any]) -> Figure:
    """The picture; ``content``: what ``pointset tune`` writes as tuning.json."""
    trials: Sequence[Trial] = content["trials"]
    up, name = bool(content["higher_is_better"]), metric_label(content["metric"])
    page = Page(_WIDE, _HIGH)
    page.head(f"{content['recipe']}: {counted(len(trials), 'trial')}", _subtitle(content, name))
    place = (MARGIN + _LEFT, HEAD + 0.1, _WIDE - 2 * MARGIN - _LEFT, _HIGH - HEAD - 0.1 - _BELOW - MARGIN)
    axes = page.axes(*place)
    done, pruned = _points(trials, "complete"), _points(trials, "pruned")
    failed = [trial["number"] for trial in trials if trial["state"] == "failed"]
    _style(axes, [value for _, value in (*done, *pruned)], max(len(trials), 2), name)
    for points, look in ((pruned, _PRUNED), (done, _COMPLETE)):
        if points:
            axes.scatter(*zip(*points, strict=True), **look)
    if failed:
        axes.scatter(failed, [0.0] * len(failed), transform=axes.get_xaxis_transform(), **_FAILED)
    _draw_best(axes, done, len(trials), up=up)
    _draw_key(page, _HIGH - MARGIN - 0.25, pruned=bool(pruned), failed=bool(failed))
    return page.figure


def _subtitle(content: Mapping[str, Any], name: str) -> str:
    direction = "higher is better" if content["higher_is_better"] else "lower is better"
    shown = f"Best validation {name} of each trial; {direction}."
    if not content["best"]:
        return f"{shown} No trial came to its end."
    best = next(trial for trial in content["trials"] if trial["number"] == content["best"][0])
    return f"{shown} Trial {best['number']} is the best: {number(best['value'])}"


def _points(trials: Sequence[Trial], state: str) -> list[tuple[int, float]]:
    return [(one["number"], one["value"]) for one in trials if one["state"] == state and one["value"] is not None]


def _style(axes: Axes, values: Sequence[float], trials: int, name: str) -> None:
    if values and min(values) > 0 and max(values) / min(values) > _LOG_FROM:
        axes.set_yscale("log")
    else:
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        room = 0.08 * ((high - low) or abs(high) or 1.0)
        axes.set_ylim(low - room, high + room)
    axes.set_xlim(-0.6, trials - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial", fontsize=TEXT, color=QUIET)
    axes.set_ylabel(f"validation {name}", fontsize=TEXT, color=QUIET)
    axes.grid(axis="y", color=HAIRLINE, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set(color=FAINT)
    axes.tick_params(which="both", length=0, pad=6, labelsize=SMALL, labelcolor=QUIET)


def _draw_best(axes: Axes, done: Sequence[tuple[int, float]], trials: int, *, up: bool) -> None:
    """A step down, or up, wherever a trial was better than all before; the best has a ring and its number."""
    best, steps = math.nan, list[tuple[int, float]]()
    for at, value in done:
        if math.isnan(best) or (value > best if up else value < best):
            best = value
            steps.append((at, value))
    if not steps:
        return
    x, y = [at for at, _ in steps], [value for _, value in steps]
    axes.step([*x, trials - 0.4], [*y, y[-1]], where="post", **_BEST)
    axes.scatter(x[-1], y[-1], s=130, facecolors="none", edgecolors=INK, linewidths=1.6, zorder=4)


def _draw_key(page: Page, top: float, *, pruned: bool, failed: bool) -> None:
    axes = page.axes(MARGIN, top, _WIDE - 2 * MARGIN, 0.25)
    axes.set(xlim=(0, _WIDE - 2 * MARGIN), ylim=(0, 1))
    axes.set_axis_off()
    left = 0.0
    axes.plot([left, left + 0.3], [0.5, 0.5], **_BEST)
    entries: list[tuple[str, dict[str, Any] | None]] = [("the best so far", None), ("trained to the end", _COMPLETE)]
    entries += [("ended early", _PRUNED)] * pruned + [("failed", _FAILED)] * failed
    for words, look in entries:
        if look is not None:
            axes.scatter(left + 0.15, 0.5, **look)
        axes.text(left + 0.4, 0.5, words, color=QUIET, fontsize=SMALL, va="center_baseline")
        left += 0.75 + width_of(words, SMALL)


# How much each hyperparameter mattered, as bars (:func:`compose_importance`). Needs matplotlib.


_WIDE_IMPORTANCE, _ROW, _BAR, _NUMBER = 7.6, 0.44, 0.24, 0.65  # inches: the page, a row, its bar, the number behind it
TOO_FEW = "With so few complete trials it cannot be said how much each mattered: it needs at least 4."


def compose_importance(content: Mapping[str, Any]) -> Figure:
    """The picture; ``content``: what ``pointset tune`` writes as tuning.json."""
    shares: Mapping[str, float] = content["importance"] or {}
    page = Page(_WIDE_IMPORTANCE, HEAD + max(len(shares), 1) * _ROW + MARGIN)
    page.head(f"{content['recipe']}: what mattered", _subtitle_importance(content))
    if not shares:
        page.write(MARGIN, HEAD + 0.1, TOO_FEW, color=QUIET)
    name = max((width_of(key, TEXT) for key in shares), default=0.0) + 0.25
    track = _WIDE_IMPORTANCE - 2 * MARGIN - name - _NUMBER
    most = max([*shares.values(), 1e-9])
    for row, (key, share) in enumerate(shares.items()):
        middle = HEAD + (row + 0.5) * _ROW
        left, top = MARGIN + name, middle - _BAR / 2
        page.write(MARGIN, middle, key, color=INK, va="center_baseline")
        page.box(left, top, track, _BAR, HAIRLINE, zorder=-2)
        page.box(left, top, track * share / most, _BAR, NEGATIVE)
        page.write(left + track + 0.12, middle, f"{share:.0%}", color=INK, weight="bold", va="center_baseline")
    return page.figure


def _subtitle_importance(content: Mapping[str, Any]) -> str:
    done = sum(trial["state"] == "complete" for trial in content["trials"])
    return f"How unlike all values those of the best quarter are (PED-ANOVA), of {counted(done, 'complete trial')}"
