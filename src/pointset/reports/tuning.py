"""A search of hyperparameters as a page with pictures (:func:`write_tuning_report`), from its ``tuning.json``.

Everything here raises ``MissingExtraError`` where matplotlib or jinja2 is not installed.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pointset.files import read_bytes
from pointset.metrics import metric_label
from pointset.reports.charts import Axis, Cell, Chart, Figure, Table, Tile
from pointset.reports.pages import check_page_extra, rendered, write_page
from pointset.reports.palette import BLUE, HAIRLINE, QUIET
from pointset.reports.pictures import check_picture_file, save_picture
from pointset.text import clipped, counted, duration, fixed, number

_STATES = ("complete", "pruned", "failed", "running", "waiting", "retried")
_MOST_ROWS = 200
_LONGEST_ERROR = 90
_PICTURE = (6.0, 3.2)  # inches of the history between its axes
_WIDE, _ROW, _NUMBER = 7.6, 0.44, 0.65  # inches of the importance: the page, a row, the number behind a bar
TOO_FEW = "With so few complete trials it cannot be said how much each mattered: it needs at least 4."

Content = Mapping[str, Any]  # of ``tuning.json``


def write_tuning_report(content: Content, folder: str | Path) -> Path:
    """Write ``history.svg``, ``importance.svg`` and ``report.html``, which holds both, into a folder.

    Returns the path of the page. ``content`` is that of ``tuning.json``.
    """
    check_page_extra()
    history, importance, page = (Path(folder) / name for name in ("history.svg", "importance.svg", "report.html"))
    draw_history(content, history)
    draw_importance(content, importance)
    pictures = {history: "Scores of all trials", importance: "How much each hyperparameter mattered"}
    write_page(rendered("tuning.html.j2", tuning_page(content, pictures)), page)
    return page


def tuning_page(content: Content, pictures: Mapping[Path, str]) -> dict[str, Any]:
    """The values of ``tuning.html.j2``; ``pictures`` are SVG files with what they show, which the page takes in."""
    name = metric_label(content["metric"])
    best = _best(content)
    return {
        "title": content["title"] or content["recipe"],
        "eyebrow": "pointset · hyperparameter search",
        "lead": _lead(content, best, name),
        "tiles": _tiles(content, best, name),
        "verdict": None,
        "test_scored": "",
        "pictures": [
            (f"data:image/svg+xml;base64,{base64.b64encode(read_bytes(path)).decode('ascii')}", label)
            for path, label in pictures.items()
        ],
        "charts": [chart for key in content["ranges"] if (chart := _chart(content, key, name)) is not None],
        "best": _table(content, best, name),
        "trials": _table(content, content["trials"][-_MOST_ROWS:], name, states=True),
        "ranges": _ranges(content),
    }


def _best(content: Content) -> list[Content]:
    by_number = {trial["number"]: trial for trial in content["trials"]}
    return [by_number[one] for one in content["best"]]


def _lead(content: Content, best: Sequence[Content], name: str) -> str:
    counts = [(state, sum(trial["state"] == state for trial in content["trials"])) for state in _STATES]
    states = ", ".join(f"{often} {state}" for state, often in counts if often)
    keys = counted(len(content["ranges"]), "hyperparameter")
    lead = f"{counted(len(content['trials']), 'trial')} over {keys} ({states}). "
    if best:
        lead += f"The best validation {name} is {number(best[0]['value'])}, of trial {best[0]['number']}. "
    return lead + "The test split was never used: train best.yaml, and test it once."


def _tiles(content: Content, best: Sequence[Content], name: str) -> list[Tile]:
    tiles = []
    if best:
        tiles.append(Tile(f"best validation {name}", number(best[0]["value"]), f"trial {best[0]['number']}", "main"))
        first = next((trial for trial in content["trials"] if trial["number"] == 0), None)
        if first is not None and first["state"] == "complete":
            tiles.append(Tile("the recipe's own values", number(first["value"]), "trial 0"))
    tiles.append(Tile("trials", f"{len(content['trials']):,}", f"{counted(content['epochs'], 'epoch')} at most"))
    seconds = [trial["seconds"] for trial in content["trials"] if trial["seconds"] is not None]
    if seconds:
        tiles.append(Tile("training time", duration(sum(seconds)), "all trials together"))
    return tiles


def _chart(content: Content, key: str, name: str) -> Figure | None:
    """The values of a hyperparameter against the scores."""
    log, low, high = (content["ranges"][key][part] for part in ("log", "low", "high"))
    found = {state: _values(content, key, state) for state in ("pruned", "complete")}
    points = [point for state in found.values() for point in state]
    if not points:
        return None
    y = Axis.around([[value for _, value in points]], f"validation {name}", may_be_log=not content["higher_is_better"])
    room = (high / low) ** 0.04 if log else 0.04 * (high - low)
    ends = (low / room, high * room) if log else (low - room, high + room)
    x = Axis(*ends, log=log, whole=content["ranges"][key]["whole"])
    chart = Chart(x, y, f"Validation {name} against {key} of {counted(len(points), 'trial')}")
    for state, style in (("pruned", "c7 large faint"), ("complete", "c0 large")):
        chart.dots([value for value, _ in found[state]], [score for _, score in found[state]], style)
    for best in _best(content)[:1]:
        chart.ring(float(best["values"][key]), float(best["value"]))
    return chart.figure(key)


def _values(content: Content, key: str, state: str) -> list[tuple[float, float]]:
    chosen = [one for one in content["trials"] if one["state"] == state and one["value"] is not None]
    return [(one["values"][key], one["value"]) for one in chosen if key in one["values"]]


def _table(content: Content, trials: Sequence[Content], name: str, *, states: bool = False) -> Table | None:
    if not trials:
        return None
    keys = list(content["ranges"])
    head = ["trial", *(["state"] if states else []), f"validation {name}", "best epoch", "parameters", "time"]
    rows = []
    for one in trials:
        best = bool(content["best"]) and one["number"] == content["best"][0]
        row = [Cell(str(one["number"])), *([Cell(_state(one))] if states else [])]
        row += [Cell(number(one["value"]), "good" if best else ""), Cell(fixed(one["best_epoch"], 0))]
        row += [Cell(fixed(one["parameters"], 0)), Cell(duration(one["seconds"]))]
        rows.append([*row, *(Cell(number(one["values"].get(key), 3)) for key in keys)])
    more = len(content["trials"]) - _MOST_ROWS
    caption = f"The last {_MOST_ROWS}; trials.csv has all." if states and more > 0 else ""
    return Table([*head, *short_names(keys)], rows, caption)


def short_names(keys: Sequence[str]) -> list[str]:
    """``lr`` for ``optimizer.lr``, unless two keys would be called the same."""
    last = [key.rpartition(".")[2] for key in keys]
    return last if len(set(last)) == len(last) else list(keys)


def _state(trial: Content) -> str:
    if trial["state"] == "pruned" and trial["epochs"] is not None:
        return f"pruned at epoch {trial['epochs']:,}"
    return clipped(f"failed: {trial['error']}", _LONGEST_ERROR) if trial["error"] else str(trial["state"])


def _ranges(content: Content) -> Table:
    rows = []
    for key, one in content["ranges"].items():
        linear = "linear" if one["step"] in (None, 1) else f"steps of {one['step']:g}"
        scale = "logarithmic" if one["log"] else linear
        rows.append([Cell(key), Cell(number(one["low"])), Cell(number(one["high"])), Cell(scale)])
    return Table(["key", "from", "to", "scale"], rows)


def draw_history(content: Content, path: str | Path) -> None:
    """The score of every trial, and the best so far, as ``.png``, ``.svg`` or ``.pdf``."""
    check_picture_file(path)
    from pointset.reports.canvas import HEAD, MARGIN, Page, draw_chart, draw_legend

    trials, name = content["trials"], metric_label(content["metric"])
    page = Page(_WIDE, HEAD + 0.35 + _PICTURE[1] + 1.0 + MARGIN)
    below = f"Best validation {name} of each trial; {'higher' if content['higher_is_better'] else 'lower'} is better."
    best = [f"Trial {one['number']} is the best: {number(one['value'])}" for one in _best(content)[:1]]
    page.head(
        f"{content['recipe']}: {counted(len(trials), 'trial')}",
        f"{below} {best[0] if best else 'No trial came to its end.'}",
    )
    chart = _history_chart(content, name)
    draw_chart(page, chart, (_WIDE - MARGIN - _PICTURE[0], HEAD + 0.35, *_PICTURE))
    draw_legend(page, chart, MARGIN, page.high - MARGIN - 0.2, in_a_row=True)
    save_picture(page.figure, path)


def _history_chart(content: Content, name: str) -> Chart:
    """A dot for each trial; a line that steps wherever a trial was better than all before."""
    trials, up = content["trials"], content["higher_is_better"]
    done, pruned = (
        [(one["number"], one["value"]) for one in trials if one["state"] == state and one["value"] is not None]
        for state in ("complete", "pruned")
    )
    failed = [one["number"] for one in trials if one["state"] == "failed"]
    values = [value for _, value in (*done, *pruned)]
    y = Axis.around([values], f"validation {name}", may_be_log=not up, margin=0.08)
    last = max(len(trials), 2) - 0.4
    chart = Chart(Axis(-0.6, last, "trial", whole=True), y, f"Validation {name} of {counted(len(trials), 'trial')}")
    best, steps = math.nan, list[tuple[float, float]]()
    for at, value in done:
        if not steps or (value > best if up else value < best):
            steps += [(at, best), (at, value)] if steps else [(at, value)]
            best = value
    chart.line([at for at, _ in steps] + [last], [value for _, value in steps] + [best], "c0 pale", "the best so far")
    for points, style, label in ((pruned, "c7 large hollow", "ended early"), (done, "c0 large", "trained to the end")):
        if points:
            chart.dots([at for at, _ in points], [value for _, value in points], style, label)
    if failed:
        chart.dots(failed, [y.low] * len(failed), "c1 large cross", "failed")
    if steps:
        chart.ring(steps[-1][0], best)
    return chart


def draw_importance(content: Content, path: str | Path) -> None:
    """How much each hyperparameter mattered, as ``.png``, ``.svg`` or ``.pdf``; with too few trials it says so."""
    check_picture_file(path)
    from pointset.reports.canvas import HEAD, MARGIN, TEXT, Page, draw_bar, width_of

    shares: Mapping[str, float] = content["importance"] or {}
    done = sum(trial["state"] == "complete" for trial in content["trials"])
    page = Page(_WIDE, HEAD + max(len(shares), 1) * _ROW + MARGIN)
    below = f"How unlike all values those of the best quarter are (PED-ANOVA), of {counted(done, 'complete trial')}"
    page.head(f"{content['recipe']}: what mattered", below)
    if not shares:
        page.write(MARGIN, HEAD + 0.1, TOO_FEW, color=QUIET)
    name = max((width_of(key, TEXT) for key in shares), default=0.0) + 0.25
    page.names(list(shares), MARGIN, HEAD, name, _ROW)
    left, track = MARGIN + name, _WIDE - 2 * MARGIN - name - _NUMBER
    for row, share in enumerate(shares.values()):
        middle = HEAD + (row + 0.5) * _ROW
        draw_bar(page, left, middle, _ROW, track, HAIRLINE, zorder=-2)
        draw_bar(page, left, middle, _ROW, track * share / max([*shares.values(), 1e-9]), BLUE)
        page.write(left + track + 0.12, middle, f"{share:.0%}", weight="bold", va="center_baseline")
    save_picture(page.figure, path)
