"""``pointset datasets check``: whether a table of molecules, or graph files, can be learned from, and what is wrong."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli.console import load_torch, print_json, reported_errors, say, show_error, show_left_out
from pointset.cli.datasets_show import choose_graphs, describe, show_dataset
from pointset.cli.options import JsonFlag, NoHeaderFlag, SmilesOption, check_folder_of, refuse_options
from pointset.text import clipped, counted, printable

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset
    from pointset.datasets.own.rejected import Rejected
    from pointset.datasets.splits.leaks import LeakReport

EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets check solubility.csv              [dim]SMILES and all numbers[/dim]
  pointset datasets check tox.csv --smiles mol --target NR-AR --target SR-p53
  pointset datasets check tox.csv --rejected bad.csv  [dim]keep the bad rows[/dim]
  pointset datasets check proteins/ --table classes.csv --task multi-class

[bold]Files[/bold]
  Tables of SMILES: .csv, .tsv, .smi, also .gz. Graphs: all that `pointset
  convert` reads; targets are y in the files, or columns of --table, whose
  column 'graph' holds the name of the graph or its number from 0.
"""

_MOST_NODES_DRAWN = 200
_ONLY_MOLECULES = ("smiles", "no_header", "hydrogens", "lenient")
_ONLY_GRAPHS = ("table", "level")
_SHOWN_EXAMPLES = 3
_LONGEST_SMILES = 40


def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table of SMILES, a graph file or a folder of them.")],
    smiles: SmilesOption = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to predict; may be repeated. By default all with numbers."),
    ] = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Targets of graphs, a row for each.")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="regression, binary, multi-class or multi-label.")
    ] = None,
    level: Annotated[str | None, typer.Option(metavar="LEVEL", help="What has the targets: graph or node.")] = None,
    split: Annotated[
        str, typer.Option(metavar="HOW", help="random, stratified, scaffold, column:NAME or a file.")
    ] = "random",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the split.")] = 0,
    no_header: NoHeaderFlag = False,
    hydrogens: Annotated[bool, typer.Option("--hydrogens", help="Make hydrogens nodes, too.")] = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Accept impossible valences.")] = False,
    max_rejected: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="The share of rows that may be bad; 1 for any.")
    ] = 0.1,
    rejected: Annotated[
        Path | None,
        typer.Option(metavar="OUT.csv", help="Write the rows left out with their reasons, to correct them."),
    ] = None,
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
            options |= {"smiles": smiles, "targets": target, "header": not no_header}
            options |= {"hydrogens": hydrogens, "lenient": lenient}
        else:
            options |= {"targets": table, "columns": target, "level": level}
        dataset = _read(file, options, molecules=molecules, rejected=rejected)
        _print(dataset, as_json=as_json, written=rejected is not None)


def _read(file: Path, options: dict[str, Any], *, molecules: bool, rejected: Path | None) -> Dataset:
    from pointset.datasets.own import graph_files, smiles_csv
    from pointset.datasets.own.rejected import TooManyRejectedError, write_rejected

    def write(rows: Sequence[Rejected]) -> None:
        if rejected is not None:  # of a table, the rows as they are
            write_rejected(rejected, rows, file if molecules else None, header=options.get("header", True))
            say(f"{counted(len(rows), 'row')} left out, written to {rejected}")

    try:
        dataset = smiles_csv(file, **_columns_by_number(file, options)) if molecules else graph_files(file, **options)
    except TooManyRejectedError as error:
        write(error.rejected)
        show_error(str(error))
        raise typer.Exit(1) from None
    write(dataset.rejected)
    return dataset


def _columns_by_number(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Columns that are not named like that, but are whole numbers, are meant by number."""
    from pointset.datasets.own.csv_rows import CsvFile

    header = CsvFile(file, header=options["header"]).header

    def column(text: str) -> str | int:
        return int(text) if text not in header and re.fullmatch("[0-9]{1,9}", text) else text

    smiles, targets = options["smiles"], options["targets"]
    return options | {
        "smiles": None if smiles is None else column(smiles),
        "targets": None if targets is None else [column(text) for text in targets],
    }


def _print(dataset: Dataset, *, as_json: bool, written: bool) -> None:
    from pointset.datasets.sources import Benchmark
    from pointset.datasets.splits import find_leaks

    itself = Benchmark(dataset.card, ())
    leaks = find_leaks(dataset.arrays, dataset.split)
    if as_json:
        content = describe(itself, dataset) | {
            "rejected": [dataclasses.asdict(one) for one in dataset.rejected],
            "leaks": [{"from": seen, "to": scored, "graphs": count} for (seen, scored), count in leaks.counts.items()],
        }
        print_json(content)
        return
    sizes = dataset.arrays.num_nodes
    drawn = [index for index in choose_graphs(sizes, 3, 0) if sizes[index] <= _MOST_NODES_DRAWN]
    show_dataset(itself, dataset, drawn)
    _show_left_out(dataset.rejected, written=written)
    if leaks.found:
        say(_leaks_text(leaks, dataset), style="yellow")
    unit = "row" if dataset.smiles is not None else "graph"
    total = len(dataset) + sum(one.place in ("line", "graph") for one in dataset.rejected)  # not rows of --table
    say(f"{len(dataset):,} of {counted(total, unit)} can be used", style="yellow" if dataset.rejected else "green")


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


def _leaks_text(leaks: LeakReport, dataset: Dataset) -> str:
    """How many graphs of each part were seen in an earlier one, with examples by line and SMILES."""
    clauses = []
    for (seen, scored), count in leaks.counts.items():
        if count:
            examples = [pair for pair in leaks.pairs if pair.parts == (seen, scored)][:_SHOWN_EXAMPLES]
            shown = "; ".join(f"{_named(dataset, pair.scored)} = {_named(dataset, pair.seen)}" for pair in examples)
            noun = "molecules" if dataset.smiles is not None else "graphs"
            verb = "is" if count == 1 else "are"
            clauses.append(f"{count:,} of {leaks.sizes[scored]:,} {scored} {noun} {verb} also in {seen} ({shown})")
    return (
        f"The split leaks: {'. '.join(clauses)}. Scores on them measure memory, not learning: remove the copies from "
        "the file, or put them into the same part with --split column:NAME"
    )


def _named(dataset: Dataset, graph: int) -> str:
    """``line 7 'CCO'`` of a molecule, ``graph 7`` of a graph, by its number in the file."""
    row = graph if dataset.rows is None else int(dataset.rows[graph])
    if dataset.smiles is None:
        return f"graph {row}"
    return f"line {row} {clipped(printable(dataset.smiles[graph]), _LONGEST_SMILES)!r}"
