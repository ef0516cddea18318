"""``pointset datasets``: which there are, what is in them, and whether they are what was published."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli import datasets_check
from pointset.cli.console import (
    Verb,
    Verbs,
    check_picture,
    is_given,
    load_torch,
    output_console,
    plain_table,
    reported_errors,
    say,
    say_lines,
    show_error,
)
from pointset.cli.datasets_show import task_in_brief, task_in_words
from pointset.datasets.card import Card
from pointset.errors import MissingDataError, SpecError
from pointset.text import counted, printable

if TYPE_CHECKING:
    from rich.text import Text

    from pointset.datasets.dataset import Dataset
    from pointset.datasets.sources import Benchmark, Found
    from pointset.datasets.verification import Verification


# The list of ``pointset datasets``.


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
    from pointset.datasets import loading as catalogue
    from pointset.datasets.sources import find

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
    return [Text(card.name, style="bold"), task(card), *sizes, card.metric.with_arrow, here]


def _notes(entries: list[Entry]) -> list[str]:
    from pointset.datasets.sources import DATA_VARIABLE

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


# What ``pointset datasets verify`` does and prints.


_MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("·", "yellow")}


@dataclass
class Outcome:
    """What was compared, and what could not be."""

    verified: list[Verification] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # name → what to put where
    absent: list[str] = field(default_factory=list)  # left out of --all

    @property
    def holds(self) -> bool:
        """Whether all that was asked for is there and nothing differs."""
        return not self.missing and all(one.holds for one in self.verified)

    def as_dict(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        return {
            "holds": self.holds,
            "datasets": [one.as_dict() for one in self.verified],
            "missing": [{"name": name, "message": message} for name, message in self.missing.items()],
            "not_here": self.absent,
        }


def verify_all(chosen: Sequence[Benchmark], data_dir: Path | None, *, download: bool, quiet: bool) -> Outcome:
    """Verify these, or where none is chosen all that are on this machine; print each as it is done unless quiet."""
    from pointset.datasets import loading as catalogue
    from pointset.datasets.sources import find

    outcome = Outcome()
    for benchmark in chosen or catalogue.BENCHMARKS.values():
        fetched = download and any(source.downloads for source in benchmark.sources)
        if not chosen and not fetched and find(benchmark, data_dir) is None:
            outcome.absent.append(benchmark.card.name)
            continue
        _verify_one(benchmark, data_dir, download, outcome, quiet)
    if outcome.absent and not quiet:
        say(f"Not here, so not verified: {', '.join(outcome.absent)}", style="dim")
    return outcome


def _verify_one(benchmark: Benchmark, data_dir: Path | None, download: bool, outcome: Outcome, quiet: bool) -> None:
    load_torch()
    from pointset.datasets.verification import verify

    try:
        done = verify(benchmark.card.name, data_dir, download=download)
    except MissingDataError as error:
        outcome.missing[benchmark.card.name] = str(error)
        show_error(str(error))
        return
    outcome.verified.append(done)
    if not quiet:
        show_verification(done)


def show_verification(done: Verification) -> None:
    """Print what was compared, row by row."""
    from rich.text import Text

    console = output_console()
    where = f"from the {done.origin}" if done.from_files else done.origin
    console.print(Text.assemble((done.name, "bold"), printable(f": {done.title}, {where} ({done.source})")))
    table = plain_table(console)
    table.add_column("", no_wrap=True)
    for title in ("compared", "found", "expected"):
        table.add_column(title, overflow="fold")
    for check in done.checks:
        mark, style = _MARKS[check.holds]
        found = Text(printable(check.found), style=style if check.holds is False else "")
        table.add_row(Text(mark, style=style), Text(printable(check.what)), found, Text(printable(check.expected)))
    console.print(table)
    for check in done.checks:
        if check.note:
            note = Text(f"{check.what}: {printable(check.note)}", style="red" if check.holds is False else "yellow")
            console.print(note, soft_wrap=not console.is_terminal)
    console.print(_verdict(done))
    console.print()


def _verdict(done: Verification) -> Text:
    from rich.text import Text

    outcomes = [check.holds for check in done.checks]
    if differing := outcomes.count(False):
        return Text(f"✗ {done.name}: {differing} of {len(outcomes)} differ", style="bold red")
    open_questions = outcomes.count(None)
    rest = f"; {open_questions} for your information (·)" if open_questions else ""
    return Text(f"✓ {done.name}: nothing differs{rest}", style="green")


_MOST_DRAWN = 60  # graphs in a picture

EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets                            [dim]all, and which are here[/dim]
  pointset datasets show NAME                  [dim]words, numbers, drawings[/dim]
  pointset datasets show NAME --picture some.png --count 12
  pointset datasets verify NAME                [dim]complete and unchanged?[/dim]
  pointset datasets verify --all --data-dir data
  pointset datasets check my.csv               [dim]can I train on this?[/dim]
"""


class _DatasetVerbs(Verbs):
    """Says what to type where the name of a dataset stands in place of a verb."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from pointset.datasets import loading as catalogue

        if args and args[0] not in self.commands:
            from pointset.datasets import loading as catalogue

            if args[0] in catalogue.BENCHMARKS:
                ctx.fail(f"{args[0]!r} is a dataset, no command; did you mean: pointset datasets show {args[0]}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_DatasetVerbs, rich_markup_mode="rich")

DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="A folder with data; by default what POINTSET_DATA names.", exists=True, file_okay=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
def datasets(context: typer.Context, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the datasets of the paper, and which of them are on this machine.

    Looked into are the data folder, the cache and installed packages.
    """
    if context.invoked_subcommand is not None:
        if data_dir is not None or as_json:
            raise typer.BadParameter(f"put the options behind {context.invoked_subcommand!r}")
        return
    with reported_errors():
        from pointset.cli.console import print_json

        pass

        entries = listed(data_dir)
        if as_json:
            print_json([entry.as_dict() for entry in entries])
        else:
            show_list(entries)


SHOW_EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets show NAME
  pointset datasets show NAME --graphs 0,5,17 --picture three.svg
  pointset datasets show NAME --picture some.png --count 12 --seed 1
  pointset datasets show NAME --json            [dim]card and statistics[/dim]
"""


@app.command(cls=Verb, no_args_is_help=True, epilog=SHOW_EXAMPLES)
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset, as `pointset datasets` lists it.")],
    data_dir: DataDir = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw some of its graphs: .png, .svg, .pdf.")
    ] = None,
    graphs: Annotated[
        str | None, typer.Option(metavar="I,J,…", help="The graphs to draw, by number; by default small ones.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=_MOST_DRAWN, metavar="N", help="How many to draw.")] = 6,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Another seed draws other graphs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print what is known of a dataset, its statistics, and drawings of some graphs.

    Without its files, the card is printed and how to get them.
    """
    with reported_errors():
        from pointset.cli.console import print_json
        from pointset.cli.datasets_show import described, show_dataset

        benchmark = _benchmark(name)
        wanted = _numbers(context, graphs)
        if picture is not None:
            check_picture(picture)
        dataset, reason = _loaded(benchmark, data_dir)
        drawn = [] if dataset is None else _drawn(dataset, wanted, count, seed)
        if as_json:
            print_json(described(benchmark, dataset))
        else:
            show_dataset(benchmark, dataset, drawn)
        if dataset is not None and picture is not None:
            from pointset.cli.datasets_show import draw_picture

            draw_picture(dataset, drawn, picture)
            say(f"Picture of {counted(len(drawn), 'graph')} written to {picture}")
        elif reason and picture is not None:
            show_error(f"there is nothing to draw: {reason}")
            raise typer.Exit(1)
        elif reason:
            say_lines(f"No statistics and drawings: {reason}", style="yellow", below="yellow")


VERIFY_EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets verify NAME --data-dir data
  pointset datasets verify --all                [dim]all that are here[/dim]
  pointset datasets verify NAME --download      [dim]get it first, if need be[/dim]

[bold]What is compared[/bold]
  Checksums of the files with those that are published; numbers of graphs,
  nodes and edges with the paper's table, to the digits that it prints; sizes
  of the official split; features and targets with the dataset's card. Told
  is, too, how many graphs stand on two sides of the split.
  The exit code is 0 when nothing differs, and 1 otherwise.
"""


@app.command(cls=Verb, no_args_is_help=True, epilog=VERIFY_EXAMPLES)
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Datasets.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that are on this machine.")] = False,
    data_dir: DataDir = None,
    download: Annotated[bool, typer.Option("--download", help="Get what is not here from its publisher.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that the files of datasets are complete, unchanged, and what the paper's table says."""
    with reported_errors():
        if bool(names) == every:
            raise typer.BadParameter("name datasets, or give --all", param_hint="NAME")
        from pointset.cli.console import print_json

        pass

        chosen = [_benchmark(name) for name in dict.fromkeys(names or [])]
        outcome = verify_all(chosen, data_dir, download=download, quiet=as_json)
        if as_json:
            print_json(outcome.as_dict())
        if not outcome.holds:
            raise typer.Exit(1)


app.command(cls=Verb, no_args_is_help=True, epilog=datasets_check.EXAMPLES)(datasets_check.check)


def _benchmark(name: str) -> Benchmark:
    from pointset.datasets.loading import benchmark_named

    try:
        return benchmark_named(name)
    except SpecError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from None


def _numbers(context: typer.Context, text: str | None) -> list[int] | None:
    """``0,5,17`` as numbers."""
    if text is None:
        return None
    for option in ("count", "seed"):
        if is_given(context, option):
            raise typer.BadParameter(f"--{option} chooses graphs, and --graphs names them; leave one out")
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,9}", part) for part in parts) or len(parts) > _MOST_DRAWN:
        raise typer.BadParameter(
            f"got {text!r}; expected up to {_MOST_DRAWN} numbers of graphs like 0,5,17", param_hint="--graphs"
        )
    return [int(part) for part in parts]


def _loaded(benchmark: Benchmark, data_dir: Path | None) -> tuple[Dataset | None, str]:
    """The dataset, or how to get it."""
    from pointset.datasets.sources import obtain

    try:
        obtain(benchmark, data_dir, download=False)
    except MissingDataError as error:
        return None, str(error)
    load_torch()
    from pointset.datasets.loading import load

    return load(benchmark.card.name, data_dir, download=False), ""


def _drawn(dataset: Dataset, wanted: list[int] | None, count: int, seed: int) -> list[int]:
    """The numbers of the graphs that are drawn."""
    from pointset.cli.datasets_show import chosen_graphs

    if wanted is None:
        return chosen_graphs(dataset.arrays.num_nodes, count, seed)
    if beyond := [index for index in wanted if index >= len(dataset)]:
        raise typer.BadParameter(
            f"there is no graph {beyond[0]:,}; {dataset.card.name} has {len(dataset):,}, numbered from 0",
            param_hint="--graphs",
        )
    return wanted
