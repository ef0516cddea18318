"""``pointset express brec``: which of 400 hard pairs of graphs a model tells apart."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.express_output import JsonFile, Picture, check_outputs, write_outputs
from pointset.cli.messages import counted, load_torch, reported_errors, say

if TYPE_CHECKING:
    from pointset.datasets.graph_pairs import GraphPair
    from pointset.studies.brec.outcome import Outcome
    from pointset.studies.brec.summary import Summary

_ALL = "1-wl,inner-products,points,3-wl,gin,psds,pst"
EXAMPLES = """
[bold]Examples[/bold]
  pointset express brec --models 1-wl,3-wl,inner-products  [dim]exact, a minute[/dim]
  pointset express brec --models pst                       [dim]400 trainings[/dim]
  pointset express brec --models pst --category Basic --json basic.json
  pointset express brec --picture brec.png                 [dim]all of them[/dim]

[bold]Protocol[/bold]
  For each pair a fresh model learns to give 32 relabelled copies of both
  graphs different rows of 16 numbers; then a paired T² test (threshold 72.34)
  decides, and the same test on copies of one graph must find nothing.
  1-wl, 3-wl, marked-3-wl, inner-products (one layer of PST, any weights) and
  points (any depth) are exact and need no training.

[bold]Going on[/bold]
  Every outcome is kept in the folder --out as soon as it is there. The same
  command goes on where it was stopped.
"""


class Precision(StrEnum):
    """Of weights and points."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"


def brec(
    models: Annotated[
        str, typer.Option(metavar="NAMES", help="Comma-separated: presets, gin, exact ones (see below).")
    ] = _ALL,
    category: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these pairs (Basic, CFI, …); may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where outcomes are kept.")] = Path("out/brec"),
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of copies and weights.")] = 0,
    channels: Annotated[int, typer.Option(metavar="N", min=1, help="Channels of the trained models.")] = 16,
    layers: Annotated[int, typer.Option(metavar="N", min=1, help="Layers of the trained models.")] = 5,
    epochs: Annotated[int, typer.Option(metavar="N", min=0, help="Epochs of training, over the 32 copies.")] = 1,
    precision: Annotated[
        Precision, typer.Option(metavar="NAME", help="Of weights and points: float64 or float32.")
    ] = Precision.FLOAT64,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes, by default as many as cores.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the data lies.")] = None,
    json_file: JsonFile = None,
    picture: Picture = None,
) -> None:
    """Try models on BREC: 400 pairs of graphs that message passing cannot tell apart."""
    with reported_errors("Stopped. What is finished is kept; the same command goes on."):
        check_outputs(json_file, picture)
        load_torch()
        from pointset.studies.brec.running import check_names, run
        from pointset.studies.brec.siamese import Settings
        from pointset.studies.brec.summary import summarised

        names = list(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
        check_names(names)
        pairs = _chosen(category or [], data_dir)
        settings = Settings(seed=seed, channels=channels, layers=layers, epochs=epochs, precision=precision.value)
        outcomes = {}
        for name in names:
            say(f"{name} on {counted(len(pairs), 'pair')}; outcomes go to {out / name}.jsonl", style="dim")
            outcomes[name] = run(name, pairs, out, settings, workers=workers)
        summaries = {name: summarised(found) for name, found in outcomes.items()}
        _print(outcomes, summaries)
        from pointset.reports.express_pictures import draw_brec

        write_outputs(summaries, json_file, picture, draw_brec)


def _chosen(categories: list[str], data_dir: Path | None) -> list[GraphPair]:
    from pointset.datasets.graph_pairs import CATEGORIES, load_pairs
    from pointset.errors import did_you_mean

    known = {name.lower(): name for name in CATEGORIES}
    for name in categories:
        if name.lower() not in known:
            raise typer.BadParameter(
                f"got {name!r}; expected one of {', '.join(CATEGORIES)}{did_you_mean(name, list(CATEGORIES))}",
                param_hint="--category",
            )
    wanted = {known[name.lower()] for name in categories} or set(CATEGORIES)
    return [pair for pair in load_pairs(data_dir) if pair.category in wanted]


def _print(outcomes: dict[str, list[Outcome]], summaries: dict[str, Summary]) -> None:
    from pointset.cli.console import output_console, plain_table
    from pointset.studies.brec.summary import PUBLISHED, grouped, total

    console = output_console()
    table = plain_table(console)
    for heading in ("", "Basic", "Regular", "Extension", "CFI", "all", "unreliable"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, summary in summaries.items():
        cells = [f"{separated} of {pairs}" if pairs else "–" for separated, pairs in grouped(summary).values()]
        both = f"{total(summary, 'separated')} of {total(summary, 'pairs')}"
        table.add_row(name, *cells, both, f"{total(summary, 'unreliable')}")
    table.add_section()
    for name, row in PUBLISHED.items():
        table.add_row(f"{name}, published", *(f"{count}" for count in row), f"{row.total}", "", style="dim")
    console.print(table)
    console.print("Regular: with strongly regular graphs, 4-vertex condition and distance-regular ones", style="dim")
    exact = {one.pair: one.separated for one in outcomes.get("3-wl", [])}
    for name, found in outcomes.items():
        _say_missed(name, [one.pair for one in found if exact.get(one.pair) and not one.separated])


def _say_missed(name: str, missed: list[int]) -> None:
    if missed and name != "3-wl":
        listed = ", ".join(map(str, missed[:20])) + (" …" if len(missed) > 20 else "")
        say(f"{name} misses {counted(len(missed), 'pair')} that 3-wl tells apart: {listed}")
