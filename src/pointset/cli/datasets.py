"""``pointset datasets``: the datasets there are, and whether they are what was published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pointset.cli import datasets_check, datasets_show
from pointset.cli.console import load_torch, output_console, plain_table, print_json, reported_errors, say, show_error
from pointset.cli.datasets_show import DataFolderOption, describe_task, named_benchmark
from pointset.cli.options import Command, Commands, JsonFlag
from pointset.datasets.card import Card
from pointset.errors import MissingDataError
from pointset.text import printable

if TYPE_CHECKING:
    from pointset.datasets.sources import Found
    from pointset.datasets.verification import Verification

EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets                            [dim]all, and which are here[/dim]
  pointset datasets show NAME                  [dim]description, numbers, drawings[/dim]
  pointset datasets show NAME --picture some.png --count 12
  pointset datasets verify NAME                [dim]complete and unchanged?[/dim]
  pointset datasets verify --all --data-dir data
  pointset datasets check my.csv               [dim]can I train on this?[/dim]
"""
VERIFY_EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets verify NAME --data-dir data
  pointset datasets verify --all                [dim]all that are here[/dim]
  pointset datasets verify NAME --download      [dim]get it first, if need be[/dim]

[bold]What is compared[/bold]
  Checksums of the files with those that are published; numbers of graphs,
  nodes and edges with the paper's table, to the digits that it prints; sizes
  of the official split; features and targets with the dataset's card. How
  many graphs stand on two sides of the split is reported, too.
  The exit code is 0 when nothing differs, and 1 otherwise.
"""
_ROOMY = 105  # columns from which whole descriptions of tasks fit
_MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("·", "yellow")}


class _DatasetCommands(Commands):
    """Says what to type where the name of a dataset stands in place of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            from pointset.datasets import loading

            if args[0] in loading.BENCHMARKS:
                ctx.fail(f"{args[0]!r} is a dataset, not a command; did you mean: pointset datasets show {args[0]}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_DatasetCommands, rich_markup_mode="rich")


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
def datasets(context: typer.Context, data_dir: DataFolderOption = None, as_json: JsonFlag = False) -> None:
    """List the datasets of the paper, and which of them are on this machine.

    They are looked for in the data folder, the cache and installed packages.
    """
    if context.invoked_subcommand is not None:
        if data_dir is not None or as_json:
            raise typer.BadParameter(f"put the options after {context.invoked_subcommand!r}")
        return
    with reported_errors():
        from pointset.datasets import loading
        from pointset.datasets.sources import find
        from pointset.extensions import load_extensions

        entries = [
            _Entry(one.card, find(one, data_dir), any(source.downloads for source in one.sources))
            for one in loading.BENCHMARKS.values()
        ]
        load_extensions()
        own = {name: one.summary for name, one in loading.OWN.items()}
        if as_json:
            registered = [{"name": name, "title": summary, "registered": True} for name, summary in own.items()]
            print_json([*(entry.as_dict() for entry in entries), *registered])
        else:
            _show_list(entries)
            for name, summary in own.items():
                say(f"Registered: {name}{f', {summary}' if summary else ''}")


app.command(cls=Command, no_args_is_help=True, epilog=datasets_show.EXAMPLES)(datasets_show.show)


@app.command(cls=Command, no_args_is_help=True, epilog=VERIFY_EXAMPLES)
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Datasets.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that are on this machine.")] = False,
    data_dir: DataFolderOption = None,
    download: Annotated[bool, typer.Option("--download", help="Get what is not here from its publisher.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check that the files of datasets are complete, unchanged, and what the paper's table says."""
    with reported_errors():
        if bool(names) == every:
            raise typer.BadParameter("name datasets, or give --all", param_hint="NAME")
        from pointset.datasets import loading
        from pointset.datasets.sources import find

        chosen = [named_benchmark(name) for name in dict.fromkeys(names or [])]
        load_torch()
        from pointset.datasets.verification import verify as verify_dataset

        verified: list[Verification] = []
        missing: list[dict[str, str]] = []  # named, but not here, and what to put where
        absent: list[str] = []  # left out of --all
        for benchmark in chosen or loading.BENCHMARKS.values():
            name = benchmark.card.name
            fetched = download and any(source.downloads for source in benchmark.sources)
            if every and not fetched and find(benchmark, data_dir) is None:
                absent.append(name)
                continue
            try:
                verified.append(verify_dataset(name, data_dir, download=download))
            except MissingDataError as error:
                missing.append({"name": name, "message": str(error)})
                show_error(str(error))
            else:
                if not as_json:
                    _show_verification(verified[-1])
        holds = not missing and all(one.holds for one in verified)
        if as_json:
            done = [one.as_dict() for one in verified]
            print_json({"holds": holds, "datasets": done, "missing": missing, "not_here": absent})
        elif absent:
            say(f"Not here, so not verified: {', '.join(absent)}", style="dim")
        if not holds:
            raise typer.Exit(1)


app.command(cls=Command, no_args_is_help=True, epilog=datasets_check.EXAMPLES)(datasets_check.check)


# --- the list


@dataclass(frozen=True)
class _Entry:
    """A dataset, and where its files were found."""

    card: Card
    found: Found | None
    downloadable: bool

    def as_dict(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        card, paper = self.card, self.card.paper
        sizes = ("graphs", "nodes", "edges", "both_directions")
        return {
            "name": card.name,
            "title": card.title,
            "level": card.level.value,
            "task": card.task.value,
            "targets": len(card.targets),
            **{name: None if paper is None else getattr(paper, name) for name in sizes},
            "metric": card.metric.value,
            "higher_is_better": card.metric.higher_is_better,
            "present": self.found is not None,
            "origin": None if self.found is None else self.found.origin,
            "files": [] if self.found is None else [str(file) for file in self.found.files],
            "downloadable": self.downloadable,
        }


def _show_list(entries: list[_Entry]) -> None:
    """Print all in a table, and how to get those that are missing."""
    console = output_console()
    numbers = ("graphs", "nodes", "edges")
    table = plain_table(console, "dataset", "task", *numbers, "metric", "here", numbers=numbers)
    for column in table.columns:
        column.no_wrap = column.header not in ("task", "here")
    for entry in entries:
        card, paper = entry.card, entry.card.paper
        sizes = ["–"] * 3
        if paper is not None:
            sizes = [f"{paper.graphs:,}", f"{paper.nodes:,}", f"{paper.edges:,}{'*' if paper.both_directions else ' '}"]
        if entry.found is not None:
            here = Text(entry.found.origin, style="green")
        else:
            here = Text("downloadable", style="yellow") if entry.downloadable else Text("not here", style="dim")
        task = describe_task(card, brief=console.width < _ROOMY)
        table.add_row(Text(card.name, style="bold"), task, *sizes, card.metric.with_arrow, here)
    console.print(table)
    console.print()
    for line in _notes(entries):
        console.print(line, style="dim", markup=False, soft_wrap=not console.is_terminal)


def _notes(entries: list[_Entry]) -> list[str]:
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


# --- verification


def _show_verification(done: Verification) -> None:
    """Print what was compared, row by row."""
    console = output_console()
    where = f"from the {done.origin}" if done.from_files else done.origin
    console.print(Text.assemble((done.name, "bold"), printable(f": {done.title}, {where} ({done.source})")))
    table = plain_table(console, "", "compared", "found", "expected")
    for column in table.columns[1:]:
        column.overflow = "fold"
    for check in done.checks:
        mark, style = _MARKS[check.holds]
        found = Text(printable(check.found), style=style if check.holds is False else "")
        table.add_row(Text(mark, style=style), Text(printable(check.what)), found, Text(printable(check.expected)))
    console.print(table)
    for check in done.checks:
        if check.note:
            note = Text(f"{check.what}: {printable(check.note)}", style="red" if check.holds is False else "yellow")
            console.print(note, soft_wrap=not console.is_terminal)
    outcomes = [check.holds for check in done.checks]
    if differing := outcomes.count(False):
        console.print(Text(f"✗ {done.name}: {differing} of {len(outcomes)} differ", style="bold red"))
    else:
        unknown = outcomes.count(None)
        rest = f"; {unknown} for your information (·)" if unknown else ""
        console.print(Text(f"✓ {done.name}: nothing differs{rest}", style="green"))
    console.print()
