"""``pointset datasets``: which there are, what is in them, and whether they are what was published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli import datasets_check
from pointset.cli.messages import counted, load_torch, reported_errors, say, say_lines, show_error
from pointset.cli.options import Verb, Verbs, check_picture, is_given
from pointset.errors import MissingDataError, SpecError

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset
    from pointset.datasets.sources import Benchmark

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
        if args and args[0] not in self.commands:
            from pointset.datasets import catalogue

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
        from pointset.cli.datasets_table import listed, show_list

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
            from pointset.cli.dataset_portraits import draw_picture

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
        from pointset.cli.datasets_verify import verify_all

        chosen = [_benchmark(name) for name in dict.fromkeys(names or [])]
        outcome = verify_all(chosen, data_dir, download=download, quiet=as_json)
        if as_json:
            print_json(outcome.as_dict())
        if not outcome.holds:
            raise typer.Exit(1)


app.command(cls=Verb, no_args_is_help=True, epilog=datasets_check.EXAMPLES)(datasets_check.check)


def _benchmark(name: str) -> Benchmark:
    from pointset.datasets.catalogue import benchmark_named

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
    from pointset.datasets.locate import obtain

    try:
        obtain(benchmark, data_dir, download=False)
    except MissingDataError as error:
        return None, str(error)
    load_torch()
    from pointset.datasets.loading import load

    return load(benchmark.card.name, data_dir, download=False), ""


def _drawn(dataset: Dataset, wanted: list[int] | None, count: int, seed: int) -> list[int]:
    """The numbers of the graphs that are drawn."""
    from pointset.cli.dataset_portraits import chosen_graphs

    if wanted is None:
        return chosen_graphs(dataset.arrays.num_nodes, count, seed)
    if beyond := [index for index in wanted if index >= len(dataset)]:
        raise typer.BadParameter(
            f"there is no graph {beyond[0]:,}; {dataset.card.name} has {len(dataset):,}, numbered from 0",
            param_hint="--graphs",
        )
    return wanted
