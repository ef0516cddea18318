"""``pointset express distances``: which distances a trained model knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from pointset.cli.express_output import JsonFile, Picture, check_outputs, write_outputs
from pointset.cli.messages import counted, load_torch, reported_errors
from pointset.cli.prediction_options import DataDir, Run

EXAMPLES = """
[bold]Examples[/bold]
  pointset express distances runs/one
  pointset express distances runs/one --graphs 400 --seed 3
  pointset express distances runs/one --json out.json --picture out.png

[bold]What is printed[/bold]
  What a small model, a probe, reads off pairs of nodes: off the coordinates
  (points) and off the attention of each layer. It is fitted on half of the
  graphs and scored on the other half.
  spd         of shortest-path distances, the share that is right: of all
              pairs, and of those 0, 1, 2, … edges apart; none: no path
  resistance  R² of resistance distance; commute: of commute times; return:
              of the chance that a walk is back after four steps
  fresh       the same model with random weights: what training added
  degrees     a probe that sees degrees and adjacency of the two nodes only
  PSDS has no attention: there its vectors' inner products are read.

[bold]Graphs[/bold]
  Generated: random ones, thinned regular ones, trees, cycles. A model that
  reads features or positions gets graphs of its run's own test part.
"""
_MEASURES = {"resistance": "resistance_r2", "commute": "commute_r2", "return": "return_r2"}


def distances(
    run: Run,
    graphs: Annotated[int, typer.Option(metavar="N", min=2, help="Fresh graphs; half to fit the probes.")] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the graphs, and of the fresh weights.")] = 0,
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    picture: Picture = None,
) -> None:
    """Which distances between nodes can be read off a trained model, layer by layer, beside fresh weights."""
    with reported_errors():
        check_outputs(json_file, picture)
        load_torch()
        from pointset.reports.express_pictures import draw_distances
        from pointset.studies.trained.distances import measure_distances

        found = measure_distances(run, graphs=graphs, seed=seed, data_dir=data_dir)
        _print(found)
        write_outputs(found, json_file, picture, draw_distances)


def _print(found: Mapping[str, Any]) -> None:
    from pointset.cli.console import output_console, plain_table

    console = output_console()
    table = plain_table(console)
    occurring = [name for name in found["distances"] if found["degrees"]["per_distance"][name]["pairs"]]
    table.add_column("read off")
    for title in ("spd", *occurring, *_MEASURES):
        table.add_column(title, justify="right")
    for name, probe, style in _rows(found):
        shares = [probe["accuracy"], *(probe["per_distance"][distance]["accuracy"] for distance in occurring)]
        measures = [probe[key] for key in _MEASURES.values()]
        table.add_row(name, *map(_percent, shares), *map(_r2, measures), style=style)
    console.print(table)
    graphs = found["graphs"]
    console.print(
        f"spd in %, the rest R²; {graphs['kind']}: fitted on {counted(graphs['fit'], 'graph')}, scored on "
        f"{graphs['test']:,} others with {counted(graphs['test_pairs'], 'pair')}; always naming the most common "
        f"distance is right for {found['majority']:.0%}"
    )


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    yield "degrees", found["degrees"], "dim"
    for layer in found["layers"]:
        yield layer["name"], layer["trained"], "bold"
        yield "  fresh weights", layer["random"], ""


def _percent(share: float | None) -> str:
    """Rounded down: 100 is all of them."""
    return "–" if share is None else str(int(100 * share))


def _r2(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if value > -10 else "< −10"
