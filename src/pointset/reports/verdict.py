"""A result beside the paper's: in a sentence, with what makes the comparison unfair, and as a strip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pointset.metrics import higher_is_better, metric_label
from pointset.reports.charts import Axis, Tile
from pointset.reports.svg import add, drawing, finished
from pointset.runs.recipe import Expected
from pointset.text import number, percent, with_spread

_FAR = 20  # standard deviations from which their number says nothing more
_PARAMETERS_ALIKE = 0.15  # relative difference of the numbers of parameters that is not worth a note
_WIDTH, _HEIGHT, _MARGIN = 380.0, 88.0, 16.0


class Verdict(NamedTuple):
    """What is said of a result."""

    word: str  # better, worse, level
    paper: str  # its value and spread
    sentence: str
    notes: list[str]
    strip: str  # markup

    @property
    def tile(self) -> Tile:
        """The paper's number, with the verdict under it."""
        return Tile("the paper", self.paper, self.word if self.word == "level" else f"{self.word} here", self.word)


def verdict_on(
    ours: float, std: float | None, runs: int, expected: Expected, *, one_fold: bool = False
) -> Verdict | None:
    """Compare a test score, the mean of ``runs`` runs, with the paper's; None where there is no number to compare.

    ``one_fold`` says that the run is one fold of a cross-validation.
    """
    if not (math.isfinite(ours) and math.isfinite(expected.value)):
        return None
    difference = abs(ours - expected.value)
    paper = with_spread(expected.value, expected.std)
    if difference == 0:
        word, sentence = "level", f"The same as the paper's {paper}."
    elif expected.std is not None and difference <= expected.std:
        word = "level"
        sentence = f"Level with the paper's {paper}: the difference of {number(difference, 2)} is within its spread."
    else:
        word = "better" if (ours > expected.value) == higher_is_better(expected.metric) else "worse"
        relative = _relative(ours, expected.value)
        sentence = f"{word.capitalize()} than the paper's {paper} by {number(difference, 2)}{relative}."
        if expected.std and difference < _FAR * expected.std:
            sentence += f" That is {number(difference / expected.std, 2)} times its standard deviation."
    return Verdict(word, paper, sentence, _notes(expected, runs, one_fold), _strip(ours, std, expected))


def recipe_notes(changes: Sequence[str], parameters: int | None, expected: Expected) -> list[str]:
    """What makes the comparison with the paper less than fair: changed settings, another size."""
    notes = []
    if changes:
        notes.append(f"Settings of the recipe were changed on the command line: {', '.join(changes)}.")
    if parameters and expected.parameters:
        ratio = parameters / expected.parameters
        if abs(ratio - 1) > _PARAMETERS_ALIKE:
            size = f"{parameters:,} parameters; the paper's has {expected.parameters:,}"
            notes.append(f"The model is {'larger' if ratio > 1 else 'smaller'} than the paper's: {size}.")
    return notes


def _relative(ours: float, paper: float) -> str:
    """`` (12.0 %)``, or `` (3.2 times as large)``."""
    if not paper:
        return ""
    ratio = ours / paper
    return f" ({number(ratio, 2)} times as large)" if ratio >= 2 else f" ({percent(abs(ratio - 1))})"


def _notes(expected: Expected, runs: int, one_fold: bool) -> list[str]:
    notes = []
    if one_fold:
        notes.append("This is one fold of a cross-validation; the paper's value is the mean over all folds.")
    elif runs == 1:
        rest = f"; the paper's value is the mean of {expected.seeds} seeds" if (expected.seeds or 0) > 1 else ""
        notes.append(f"This is one run with one seed{rest}: another seed would give a somewhat different number.")
    elif expected.seeds and expected.seeds != runs:
        notes.append(f"Mean of {runs} runs here, of {expected.seeds} in the paper.")
    return [*notes, expected.note] if expected.note else notes


def _strip(ours: float, std: float | None, expected: Expected) -> str:
    """A line with both values; a band is the standard deviation. Better is always to the right."""
    both = ((expected.value, expected.std, "c7", "paper"), (ours, std, "c1", "this run"))
    axis = Axis.around([[value - (spread or 0), value + (spread or 0)] for value, spread, _, _ in both], margin=0.25)
    up = higher_is_better(expected.metric)

    def across(value: float) -> float:
        share = float(axis.shares(value))
        return _MARGIN + (share if up else 1 - share) * (_WIDTH - 2 * _MARGIN)

    name = metric_label(expected.metric)
    described = f"{name}: {number(ours)} here, {number(expected.value)} in the paper; right is better"
    root = drawing(_WIDTH, _HEIGHT, described, "strip")
    line = 34.0
    add(root, "path", d=f"M{_MARGIN:.0f} {line:.0f}H{_WIDTH - _MARGIN:.0f}", class_="axis")
    for value, spread, style, _ in both:
        if spread:
            left, right = sorted((across(value - spread), across(value + spread)))
            add(root, "rect", x=left, y=line - 9, width=right - left, height=18.0, rx=9.0, class_=f"band {style}")
    for (value, _, style, text), below in zip(both, (42, 24), strict=True):
        x = across(value)
        anchor = "start" if x < 70 else "end" if x > _WIDTH - 70 else "middle"
        shift = {"start": -6.0, "end": 6.0, "middle": 0.0}[anchor]
        add(root, "circle", cx=x, cy=line, r=7.0, class_=f"dot {style}")
        place: dict[str, Any] = {"x": x + shift, "y": line + below, "text_anchor": anchor}
        add(root, "text", f"{text} {number(value)}", class_="note", **place)
    add(root, "text", "better →", x=_WIDTH - _MARGIN, y=line - 14, text_anchor="end", class_="tick")
    return finished(root)
