"""The list of ``pointset datasets``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pointset.cli.console import output_console, plain_table
from pointset.cli.dataset_words import metric_in_words, task_in_brief, task_in_words
from pointset.datasets import catalogue
from pointset.datasets.card import Card
from pointset.datasets.locate import DATA_VARIABLE, Found, find

_MISSING = "not here"
_DOWNLOADABLE = "downloadable"
_ROOMY = 105  # columns from which the whole words for tasks fit


@dataclass(frozen=True)
class Entry:
    """A dataset, and where its files were found."""

    card: Card
    found: Found | None
    downloadable: bool

    def as_dict(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        card, paper = self.card, self.card.paper
        return {
            "name": card.name,
            "title": card.title,
            "level": card.level.value,
            "task": card.task.value,
            "targets": len(card.targets),
            "graphs": None if paper is None else paper.graphs,
            "nodes": None if paper is None else paper.nodes,
            "edges": None if paper is None else paper.edges,
            "both_directions": None if paper is None else paper.both_directions,
            "metric": card.metric.value,
            "higher_is_better": card.metric.higher_is_better,
            "present": self.found is not None,
            "origin": None if self.found is None else self.found.origin,
            "files": [] if self.found is None else [str(file) for file in self.found.files],
            "downloadable": self.downloadable,
        }


def listed(data_dir: Path | None) -> list[Entry]:
    """All datasets of the catalogue; nothing is read."""
    return [
        Entry(
            benchmark.card,
            find(benchmark, data_dir),
            any(source.downloads for source in benchmark.sources),
        )
        for benchmark in catalogue.BENCHMARKS.values()
    ]


def show_list(entries: list[Entry]) -> None:
    """Print all in a table, and how to get those that are missing."""
    console = output_console()
    table = plain_table(console)
    table.add_column("dataset", no_wrap=True)
    table.add_column("task")
    for title in ("graphs", "nodes", "edges"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("here")
    for entry in entries:
        table.add_row(*_cells(entry, task_in_words if console.width >= _ROOMY else task_in_brief))
    console.print(table)
    console.print()
    for line in _notes(entries):
        console.print(line, style="dim", markup=False, soft_wrap=not console.is_terminal)


def _cells(entry: Entry, task: Callable[[Card], str]) -> list[Any]:
    from rich.text import Text

    card, paper = entry.card, entry.card.paper
    sizes = ["–"] * 3
    if paper is not None:
        sizes = [f"{paper.graphs:,}", f"{paper.nodes:,}", f"{paper.edges:,}{'*' if paper.both_directions else ' '}"]
    if entry.found is not None:
        here = Text(entry.found.origin, style="green")
    else:
        here = Text(_DOWNLOADABLE if entry.downloadable else _MISSING, style="yellow" if entry.downloadable else "dim")
    return [Text(card.name, style="bold"), task(card), *sizes, metric_in_words(card.metric), here]


def _notes(entries: list[Entry]) -> list[str]:
    notes = ["nodes, edges: means per graph, from the paper's table. metric: ↓ lower is better, ↑ higher."]
    if any(entry.card.paper is not None and entry.card.paper.both_directions for entry in entries):
        notes[0] += " * counts every edge in both directions."
    missing = [entry for entry in entries if entry.found is None]
    if missing:
        fetch = " pointset datasets verify NAME --download gets what can be downloaded."
        notes.append(
            f"Not here: {len(missing)} of {len(entries)}. Put files into the folder that --data-dir or {DATA_VARIABLE} "
            "names; pointset datasets show NAME says which."
            + (fetch if any(entry.downloadable for entry in missing) else "")
        )
    return notes
