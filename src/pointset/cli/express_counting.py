"""``pointset express counting``: what a trained model counts, on fresh graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli.express_output import JsonFile, Picture, check_outputs, write_outputs
from pointset.cli.messages import counted, load_torch, printable, reported_errors, say
from pointset.cli.prediction_options import DataDir, Run

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
[bold]Examples[/bold]
  pointset express counting runs/one
  pointset express counting runs/one --graphs 2000 --seed 7
  pointset express counting runs/one --json out.json --picture out.png

[bold]What is printed[/bold]
  The mean error of each substructure in each family of graphs, divided as in
  training by the deviation of the counts there. A model [green]counts[/green] where it is at
  most 0.01. Then: how many nodes get the exact number once the prediction is
  rounded, and the largest error. --json names the graph and node of each.

[bold]Fresh[/bold]
  Graphs isomorphic to one that the run has trained on, or chosen its best
  epoch by, are left out. For that give the run's folder, not only a bundle.
"""


def counting(
    run: Run,
    graphs: Annotated[int, typer.Option(metavar="N", min=1, help="Fresh graphs of each family.")] = 500,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the fresh graphs.")] = 2024,
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    picture: Picture = None,
) -> None:
    """What a trained model counts: substructures at each node of graphs that it has not seen, also of other kinds."""
    with reported_errors():
        check_outputs(json_file, picture)
        load_torch()
        from pointset.reports.express_pictures import draw_counting
        from pointset.studies.trained.counting import count_fresh

        found = count_fresh(run, graphs=graphs, seed=seed, data_dir=data_dir)
        _print(found)
        write_outputs(found, json_file, picture, draw_counting)


def _print(found: Mapping[str, Any]) -> None:
    from pointset.cli.console import output_console

    console = output_console()
    _print_errors(console, found)
    console.print()
    _print_families(console, found)
    if found["not_checked"]:
        say(
            f"note: not compared with the graphs that the run has learned from: {printable(found['not_checked'])}",
            style="yellow",
        )
    if found["scale"] != "run":
        say("note: the run did not scale its targets; errors are divided by the deviations on fresh graphs")


def _print_errors(console: Console, found: Mapping[str, Any]) -> None:
    """Substructures by families: normalised MAE, green where the model counts."""
    from pointset.cli.console import plain_table

    table = plain_table(console)
    table.add_column("normalised MAE", overflow="fold")
    for family in found["families"]:
        table.add_column(family, justify="right")
    for name in found["substructures"]:
        table.add_row(name, *(_error(scores[name]) for scores in found["families"].values()))
    console.print(table)


def _error(scores: Mapping[str, Any]) -> str:
    if scores["mae"] is None:
        return "[red]no number[/red]"
    text = f"{scores['mae']:.4f}" if scores["mae"] < 1000 else f"{scores['mae']:.3g}"
    return f"[green]{text} ✓[/green]" if scores["counts"] else f"{text}  "


def _print_families(console: Console, found: Mapping[str, Any]) -> None:
    """A row for each family: what was asked, how much is counted, and the largest error."""
    from pointset.cli.console import plain_table

    table = plain_table(console)
    for title in ("family", "graphs", "counts", "exact nodes", "largest error", "at", "what it is"):
        table.add_column(
            title, justify="right" if title in ("graphs", "counts", "exact nodes", "largest error") else "left"
        )
    for family, scores in found["families"].items():
        about = found["graphs"][family]
        exact = sum(one["exact_share"] for one in scores.values()) / len(scores)
        worst = max(scores, key=lambda name: _size(scores[name]["largest_error"]))
        largest = scores[worst]["largest_error"]
        table.add_row(
            family,
            f"{about['graphs']:,}",
            f"{sum(one['counts'] for one in scores.values())} of {len(scores)}",
            f"{exact:.1%}",
            "no number" if largest is None else f"{largest:,.1f}",
            worst,
            about["description"] + (f"; {counted(about['seen'], 'seen one')} left out" if about["seen"] else ""),
        )
    console.print(table)


def _size(error: float | None) -> float:
    return float("inf") if error is None else error
