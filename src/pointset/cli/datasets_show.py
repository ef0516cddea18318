"""What ``pointset datasets show`` prints: the card in words, then drawings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pointset.cli.console import output_console
from pointset.cli.dataset_words import metric_in_words, task_in_words
from pointset.cli.messages import printable
from pointset.datasets.card import Card, Task
from pointset.datasets.known_files import known_files
from pointset.datasets.sources import Benchmark
from pointset.specs import Categories, Spec

if TYPE_CHECKING:
    from rich.console import Console

    from pointset.datasets.dataset import Dataset

_WIDEST = 110  # columns of text, and of drawings side by side


def show_dataset(benchmark: Benchmark, dataset: Dataset | None, drawn: Sequence[int]) -> None:
    """Print the card, and where the dataset is at hand its numbers and some graphs."""
    console = output_console()
    card = benchmark.card if dataset is None else dataset.card
    _print_card(console, card, benchmark)
    if dataset is None:
        return
    from pointset.cli.datasets_statistics import print_statistics
    from pointset.datasets.statistics import statistics_of

    print_statistics(console, statistics_of(dataset), card)
    _print_drawings(console, dataset, drawn)


def described(benchmark: Benchmark, dataset: Dataset | None) -> dict[str, Any]:
    """The object that ``--json`` prints."""
    about: dict[str, Any] = {
        "card": benchmark.card.as_dict(),
        "options": dict(benchmark.options),
        "known_files": [file._asdict() for file in known_files(benchmark)],
    }
    if dataset is None:
        return about | {"origin": None, "files": [], "sha256": [], "statistics": None}
    from pointset.datasets.statistics import statistics_of

    return about | {
        "card": dataset.card.as_dict(),
        "origin": dataset.provenance.origin,
        "files": [str(file) for file in dataset.provenance.files],
        "sha256": list(dataset.provenance.sha256),
        "statistics": statistics_of(dataset).as_dict(),
    }


def _print_card(console: Console, card: Card, benchmark: Benchmark) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    width = min(console.width, _WIDEST)
    console.print(Text.assemble((printable(card.title), "bold"), f" ({printable(card.name)})"))
    console.print(Text(printable(card.description)), width=width)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    previous = ""
    for title, text in _lines(card, benchmark):
        grid.add_row(title if title != previous else "", Text(printable(text)))
        previous = title
    console.print(Padding(grid, (1, 0, 0, 0)), width=width)


def _lines(card: Card, benchmark: Benchmark) -> Iterator[tuple[str, str]]:
    better = "higher" if card.metric.higher_is_better else "lower"
    scored = f"{task_in_words(card)}; scored by {metric_in_words(card.metric)} ({better} is better)"
    yield "task", scored if card.targets else f"none (no targets; pass --{'target' if card.molecules else 'table'})"
    noun = ("label" if card.task is Task.MULTI_LABEL else "target") + ("s" if len(card.targets) > 1 else "")
    for meaning, same in groupby(card.targets, key=lambda target: target.meaning):
        labels = ", ".join(target.label for target in same)
        yield noun, f"{labels}: {meaning}" if meaning else labels
    if card.classes:
        yield "classes", ", ".join(card.classes)
    sizes = ", ".join(f"{part} {size:,}" for part, size in card.split_sizes.items())
    yield "split", f"{card.split} ({sizes})" if sizes else card.split
    yield from (("node features", text) for text in _feature_texts(card.node, card.node_columns))
    yield from (("edge features", text) for text in _feature_texts(card.edge, card.edge_columns))
    if card.positions:
        yield "positions", "3D, of every node"
    if card.paper is not None:
        twice = ", every edge in both directions" if card.paper.both_directions else ""
        yield (
            "in the paper",
            f"{card.paper.graphs:,} graphs; on average {card.paper.nodes:,} nodes, {card.paper.edges:,} edges{twice}",
        )
        if card.paper.slip:
            yield "in the paper", f"slip: {card.paper.slip}"
    for title, text in (("licence", card.licence), ("source", card.source), ("reference", card.reference)):
        if text:
            yield title, text
    for title, files in groupby(known_files(benchmark), key=lambda file: file.source):
        yield "files", f"{title}: {', '.join(file.in_words for file in files)}"
    yield from (("note", note) for note in card.notes)
    yield from (("note", f"{source.title}: {source.note}") for source in benchmark.sources if source.note)
    yield from (("option", f"{name}: {meaning}") for name, meaning in benchmark.options.items())


def _feature_texts(spec: Spec, names: Sequence[str]) -> Iterator[str]:
    """A line for each column, with the number of its categories."""
    if spec is None:
        yield "none"
    elif isinstance(spec, Categories):
        for column, size in enumerate(spec.sizes):
            name = names[column] if column < len(names) else f"column {column}"
            yield f"{name} [{size} categories]"
    elif not names:
        yield f"{spec.width} real columns"
    else:
        yield from (f"{name} [real]" for name in names)


def _print_drawings(console: Console, dataset: Dataset, drawn: Sequence[int]) -> None:
    from pointset.cli.dataset_portraits import legend_of, portraits_of
    from pointset.reports.terminal_drawing import drawn_side_by_side

    portraits = portraits_of(dataset, drawn)
    console.print()
    for line in drawn_side_by_side(portraits, min(console.width, _WIDEST), legend_of(dataset)):
        console.print(line)
