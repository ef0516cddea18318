"""``pointset datasets check``: whether a table of molecules, or graph files, can be learned from, and what is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pointset.cli.console import (
    load_torch,
    output_console,
    plain_table,
    print_json,
    reported_errors,
    say,
    show_error,
    show_left_out,
)
from pointset.cli.datasets_show import MOST_ROWS, choose_graphs, describe, show_dataset
from pointset.cli.options import (
    ClusterOption,
    JsonFlag,
    NoHeaderFlag,
    SheetOption,
    SmilesOption,
    check_folder_of,
    refuse_options,
)
from pointset.text import counted, printable

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset
    from pointset.datasets.own.candidates import Judgement
    from pointset.datasets.own.rejected import Rejected

EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets check solubility.csv              [dim]what would be learned[/dim]
  pointset datasets check tox.csv --smiles mol --target NR-AR --target SR-p53
  pointset datasets check tox.csv --rejected bad.csv  [dim]keep the bad rows[/dim]
  pointset datasets check proteins/ --table classes.csv --task multi-class
  pointset datasets check big.csv --cluster tcp://head:8786

[bold]Files[/bold]
  Tables of SMILES: .csv, .tsv, .smi, .sdf, also .gz; .xlsx, .parquet. Graphs: all that `pointset
  convert` reads; targets are y in the files, or columns of --table, whose
  column 'graph' holds the name of the graph or its number from 0.
"""

_MOST_NODES_DRAWN = 200
_ONLY_MOLECULES = ("cluster", "smiles", "weights", "duplicates", "no_header", "sheet", "hydrogens", "lenient")
_ONLY_GRAPHS = ("table", "level")
_SHOWN_EXAMPLES = 3


def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table of SMILES, a graph file or a folder of them.")],
    smiles: SmilesOption = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to predict; may be repeated. By default the only candidate."),
    ] = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Targets of graphs, a row for each.")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="regression, binary, multi-class or multi-label.")
    ] = None,
    level: Annotated[str | None, typer.Option(metavar="LEVEL", help="What has the targets: graph or node.")] = None,
    split: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="random, stratified, scaffold, column:NAME, a file, or auto (the table's own column).",
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the split.")] = 0,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="How much each row counts in training.")] = None,
    duplicates: Annotated[
        str, typer.Option(metavar="HOW", help="merge rows of the same molecule, or keep them.")
    ] = "merge",
    no_header: NoHeaderFlag = False,
    sheet: SheetOption = None,
    hydrogens: Annotated[bool, typer.Option("--hydrogens", help="Make hydrogens nodes, too.")] = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Accept impossible valences.")] = False,
    max_rejected: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="The share of rows that may be bad; 1 for any.")
    ] = 0.1,
    rejected: Annotated[
        Path | None,
        typer.Option(metavar="OUT.csv", help="Write the rows left out with their reasons, to correct them."),
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Read your own data, and say what is in it and what is wrong with it.

    Every bad row is reported with its line and the reason. The exit code is 1
    if more rows are bad than --max-rejected allows; rows that only lack a
    target do not count.
    """
    with reported_errors():
        if rejected is not None:
            check_folder_of(rejected, "--rejected")
            inputs = [path for path in (file, table) if path is not None and path.exists()]
            if rejected.exists() and any(rejected.samefile(path) for path in inputs):
                message = "the bad rows would replace the data; choose another name"
                raise typer.BadParameter(message, param_hint="--rejected")
        from pointset.datasets.own.columns import holds_molecules

        molecules = holds_molecules(file)
        kind = "a table of molecules" if molecules else "graphs"
        without_effect = _ONLY_GRAPHS if molecules else _ONLY_MOLECULES
        refuse_options(context, without_effect, f"has no effect, as the file holds {kind}; leave it out")
        load_torch()
        options: dict[str, Any] = {"task": task, "split": split, "seed": seed, "max_rejected": max_rejected}
        if molecules:
            options |= {"smiles": smiles, "targets": target, "header": not no_header, "sheet": sheet}
            options |= {"hydrogens": hydrogens, "lenient": lenient, "weights": weights, "duplicates": duplicates}
        else:
            options |= {"targets": table, "columns": target, "level": level}
        judgement = None
        if molecules:
            judgement = _judged(file, options)
            if judgement is not None and judgement.asks:  # all that could be meant is checked
                options["targets"] = list(judgement.targets) or [one.column for one in judgement.candidates]
        from pointset.cluster import connected

        with connected(cluster):
            dataset = _read(file, options, molecules=molecules, rejected=rejected)
        _print(dataset, judgement, as_json=as_json, written=rejected is not None)


def _judged(file: Path, options: dict[str, Any]) -> Judgement | None:
    """What each column of a table is taken for; None where the targets are named."""
    from pointset.datasets.own.candidates import judge_columns
    from pointset.datasets.own.columns import settled_roles
    from pointset.datasets.own.table_files import open_table

    if options["targets"] is not None:
        return None
    table = open_table(file, header=options["header"], sheet=options["sheet"])
    return judge_columns(table, settled_roles(table, options["smiles"], options["split"], (), options["weights"])[0])


def _read(file: Path, options: dict[str, Any], *, molecules: bool, rejected: Path | None) -> Dataset:
    from pointset.datasets.own import graph_files, smiles_csv
    from pointset.datasets.own.rejected import TooManyRejectedError, write_rejected

    def write(rows: Sequence[Rejected]) -> None:
        if rejected is not None:  # of a table, the rows as they are
            table = {"table": file, "header": options["header"], "sheet": options["sheet"]} if molecules else {}
            write_rejected(rejected, rows, **table)
            say(f"{counted(len(rows), 'row')} left out, written to {rejected}")

    try:
        dataset = smiles_csv(file, **options) if molecules else graph_files(file, **options)
    except TooManyRejectedError as error:
        write(error.rejected)
        show_error(str(error))
        raise typer.Exit(1) from None
    write(dataset.rejected)
    return dataset


def _print(dataset: Dataset, judgement: Judgement | None, *, as_json: bool, written: bool) -> None:
    from pointset.datasets.card import Level
    from pointset.datasets.sources import Benchmark
    from pointset.datasets.splits.leaks import describe_leaks, find_leaks

    itself = Benchmark(dataset.card, ())
    leaks = find_leaks(dataset.arrays, dataset.split) if dataset.split_of is Level.GRAPH else None
    counts = {} if leaks is None else leaks.counts
    if as_json:
        content = describe(itself, dataset) | {
            "rejected": [dataclasses.asdict(one) for one in dataset.rejected],
            "merged": dataset.merged,
            "leaks": [{"from": seen, "to": scored, "graphs": count} for (seen, scored), count in counts.items()],
        }
        if judgement is not None:
            content |= {"columns": [dataclasses.asdict(one) for one in judgement.columns], "asks": judgement.asks}
        print_json(content)
        return
    sizes = dataset.arrays.num_nodes
    drawn = [index for index in choose_graphs(sizes, 3, 0) if sizes[index] <= _MOST_NODES_DRAWN]
    show_dataset(itself, dataset, drawn)
    if judgement is not None:
        _show_columns(judgement)
    _show_left_out(dataset.rejected, written=written)
    if leaks is not None and leaks.found:
        say(f"{describe_leaks(dataset, leaks)}, with --split column:NAME", style="yellow")
    unit = "row" if dataset.smiles is not None else "graph"
    used = len(dataset) + dataset.merged
    counted_in = [one for one in dataset.rejected if unit == "row" or one.place == "graph"]  # not rows of --table
    total = used + len(counted_in)
    merged = f"; {dataset.merged:,} of them are merged into others of the same molecule" if dataset.merged else ""
    say(f"{used:,} of {counted(total, unit)} can be used{merged}", style="yellow" if dataset.rejected else "green")


def _show_columns(judgement: Judgement) -> None:
    """What each column is taken for; and the question that training will ask."""
    console = output_console()
    table = plain_table(console, "column", "values", "example", "taken for", "because", numbers=["values"])
    for one in judgement.columns[:MOST_ROWS]:
        values = counted(one.values, one.kind.removesuffix("s")) if one.values else one.kind
        cells = (one.name, values, one.example, one.role.value, one.reason)
        table.add_row(*(Text(printable(cell)) for cell in cells))  # a unit such as [nM] is no markup
    console.print(table)
    if (more := len(judgement.columns) - MOST_ROWS) > 0:
        console.print(f"… and {counted(more, 'more column')}")
    if judgement.asks:
        for line in f"Training will ask which columns are the targets. {judgement.question()}".split("\n"):
            say(line, style="yellow")


def _show_left_out(rejected: Sequence[Rejected], *, written: bool) -> None:
    """Bad rows with their reasons, the first 20 of them; then in one line those that only lack a target."""
    from pointset.datasets.own.rejected import NO_TARGET

    bad = [one for one in rejected if one.kind != NO_TARGET]
    without = [one for one in rejected if one.kind == NO_TARGET]
    remedy = "" if written else f"; --rejected OUT.csv keeps all {len(rejected):,}"
    show_left_out([(f"{one.place} {one.row}", one.reason) for one in bad], remedy)
    if without:
        shown = ", ".join(f"{one.place} {one.row}" for one in without[:_SHOWN_EXAMPLES])
        dots = ", …" if len(without) > _SHOWN_EXAMPLES else ""
        say(f"left out {len(without):,} with no target, which is not a mistake: {shown}{dots}", style="yellow")
