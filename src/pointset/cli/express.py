"""``pointset express``: the paper's theory as experiments, and what models can distinguish, count and measure."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pointset.cli.console import load_torch, output_console, plain_table, reported_errors, say, write_outputs
from pointset.cli.options import (
    Command,
    Commands,
    DataDirOption,
    FloatType,
    JsonFileOption,
    PictureOption,
    RunArgument,
    check_outputs,
    split_names,
)
from pointset.text import counted, duration, printable

if TYPE_CHECKING:
    from pointset.datasets.benchmarks.brec import GraphPair
    from pointset.paper.brec import Summary
    from pointset.paper.siamese import Outcome
    from pointset.paper.theorems.statement import Statement

EXAMPLES = """
[bold]Examples[/bold]
  pointset express theorems            [dim]each statement, with a verdict[/dim]
  pointset express brec --models 3-wl  [dim]400 pairs that are hard to distinguish[/dim]
  pointset express counting runs/one   [dim]what a model counts, on new graphs[/dim]
  pointset express distances runs/one  [dim]which distances its attention knows[/dim]
"""
_WorkersOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes; by default as many as cores.")]
app = typer.Typer(cls=Commands, rich_markup_mode="rich", no_args_is_help=True, epilog=EXAMPLES)


@app.callback()
def express() -> None:
    """Check the paper's theory, statement by statement, and what models can distinguish, count and measure."""


# --- theorems


_THEOREM_EXAMPLES = """
[bold]Examples[/bold]
  pointset express theorems              [dim]all, in a few minutes[/dim]
  pointset express theorems 3.1 5.2      [dim]those with this in their name[/dim]
  pointset express theorems "theorem 5"
  pointset express theorems --list       [dim]what they claim; nothing is run[/dim]
  pointset express theorems --json theorems.json --picture theorems.png

[bold]Verdicts[/bold]
  [green]holds[/green]             the experiment found what the paper states
  [yellow]fails as printed[/yellow]  it found otherwise; the evidence says what, and what
                    holds instead
  [red]error[/red]             the experiment did not come to its end (exit code 1)
"""
_VERDICTS = {  # with colour, and what is said of one and of several
    "holds": ("green", "holds", "hold"),
    "fails as printed": ("yellow", "fails as printed", "fail as printed"),
    "error": ("red", "ended in an error", "ended in an error"),
}
_THREE_COLUMNS = 100  # columns of a terminal from which the verdict has one of its own
_LONGEST_NAME = 24  # columns; longer ones take several lines, so that the evidence has room


@app.command(cls=Command, epilog=_THEOREM_EXAMPLES)
def theorems(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help='Names or parts of them: 3.1, "Theorem 5". By default all.'),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Print what is claimed, and run nothing.")] = False,
    workers: _WorkersOption = None,
    json_file: JsonFileOption = None,
    picture: PictureOption = None,
) -> None:
    """Run the paper's statements as experiments: for each a verdict and the evidence.

    A statement that fails as printed is a result, not an error of this command.
    """
    if only_list and (json_file is not None or picture is not None):
        raise typer.BadParameter("nothing is run, so there is nothing to write; leave out --json and --picture")
    with reported_errors():
        check_outputs(json_file, picture)
        load_torch()
        from pointset.paper.theorems import statement

        chosen = statement.statements_named(statement.all_statements(), names or [])
        if only_list:
            _print_claims(chosen)
            return
        from pointset.progress import progress_bar
        from pointset.reports.pictures import draw_theorems

        start = time.monotonic()
        with progress_bar("Checking", len(chosen)) as advance:
            results = statement.check_statements(chosen, workers=workers, progress=advance)
        _print_results(results, time.monotonic() - start)
        write_outputs(results, json_file, picture, draw_theorems)
    if any(result["verdict"] == statement.ERROR for result in results):
        raise typer.Exit(1)


def _print_claims(statements: Sequence[Statement]) -> None:
    console = output_console()
    table = plain_table(console, "statement", "claim")
    table.columns[0].max_width = None if console.width >= _THREE_COLUMNS else _LONGEST_NAME
    for statement in statements:
        table.add_row(_text(statement.name, "bold"), _text(statement.claim))
    console.print(table)


def _print_results(results: Sequence[dict[str, Any]], seconds: float) -> None:
    console = output_console()
    narrow = console.width < _THREE_COLUMNS
    table = plain_table(console, *(["statement"] if narrow else ["statement", "verdict"]), "claim, and evidence")
    table.columns[0].max_width = _LONGEST_NAME
    table.columns[1].no_wrap = not narrow
    for result in results:
        name, verdict = _text(result["statement"], "bold"), _text(result["verdict"], _VERDICTS[result["verdict"]][0])
        found = _text(result["claim"], "dim").append("\n").append_text(_text(result["evidence"]))
        table.add_row(*([name.append("\n").append_text(verdict)] if narrow else [name, verdict]), found)
        table.add_row()
    console.print(table)
    counts = Counter(result["verdict"] for result in results)
    said = {verdict: one if counts[verdict] == 1 else many for verdict, (_, one, many) in _VERDICTS.items()}
    parts = [f"{counts[verdict]} {text}" for verdict, text in said.items() if counts[verdict]]
    console.print(f"{counted(len(results), 'statement')}: {', '.join(parts)}; {duration(seconds)}")


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


# --- brec


_BREC_EXAMPLES = """
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

[bold]Resuming[/bold]
  Every outcome is kept in the folder --out as soon as it is there. After an
  interruption, repeat the command.
"""
_ALL = "1-wl,inner-products,points,3-wl,gin,psds,pst"


@app.command(cls=Command, epilog=_BREC_EXAMPLES)
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
        FloatType, typer.Option(metavar="NAME", help="Of weights and points: float64 or float32.")
    ] = FloatType.FLOAT64,
    workers: _WorkersOption = None,
    data_dir: DataDirOption = None,
    json_file: JsonFileOption = None,
    picture: PictureOption = None,
) -> None:
    """Test models on BREC: 400 pairs of graphs that message passing cannot distinguish."""
    with reported_errors("Interrupted; what is finished is kept.", resume="Repeat the command to resume."):
        check_outputs(json_file, picture)
        load_torch()
        from pointset.paper.brec import check_names, run_pairs, summarised
        from pointset.paper.siamese import Settings
        from pointset.reports.pictures import draw_brec

        names = split_names(models)
        check_names(names)
        pairs = _chosen_pairs(category or [], data_dir)
        settings = Settings(seed=seed, channels=channels, layers=layers, epochs=epochs, precision=precision.value)
        outcomes = {}
        for name in names:
            say(f"{name} on {counted(len(pairs), 'pair')}; outcomes go to {out / name}.jsonl", style="dim")
            outcomes[name] = run_pairs(name, pairs, out, settings, workers=workers)
        summaries = {name: summarised(found) for name, found in outcomes.items()}
        _print_pairs(outcomes, summaries)
        write_outputs(summaries, json_file, picture, draw_brec)


def _chosen_pairs(categories: list[str], data_dir: Path | None) -> list[GraphPair]:
    from pointset.datasets.benchmarks.brec import CATEGORIES, load_pairs
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


def _print_pairs(outcomes: dict[str, list[Outcome]], summaries: dict[str, Summary]) -> None:
    from pointset.paper.brec import PUBLISHED, grouped, total

    console = output_console()
    headings = ("Basic", "Regular", "Extension", "CFI", "all", "unreliable")
    table = plain_table(console, "", *headings, numbers=headings)
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
        missed = [one.pair for one in found if exact.get(one.pair) and not one.separated]
        if missed:
            listed = ", ".join(map(str, missed[:20])) + (" …" if len(missed) > 20 else "")
            say(f"{name} misses {counted(len(missed), 'pair')} that 3-wl distinguishes: {listed}")


# --- counting


_COUNTING_EXAMPLES = """
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


@app.command(cls=Command, no_args_is_help=True, epilog=_COUNTING_EXAMPLES)
def counting(
    run: RunArgument,
    graphs: Annotated[int, typer.Option(metavar="N", min=1, help="Fresh graphs of each family.")] = 500,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the fresh graphs.")] = 2024,
    data_dir: DataDirOption = None,
    json_file: JsonFileOption = None,
    picture: PictureOption = None,
) -> None:
    """Test which substructures a trained model counts, at each node of graphs that it has not seen."""

    def measure() -> dict[str, Any]:
        from pointset.paper.trained_counting import count_fresh

        return count_fresh(run, graphs=graphs, seed=seed, data_dir=data_dir)

    _test_model(measure, _print_counting, "draw_counting", json_file, picture)


def _test_model(
    measure: Callable[[], dict[str, Any]],
    show: Callable[[Mapping[str, Any]], None],
    draw: str,
    json_file: Path | None,
    picture: Path | None,
) -> None:
    """What ``counting`` and ``distances`` do: measure, print, write; ``draw`` is a function of reports.pictures."""
    with reported_errors():
        check_outputs(json_file, picture)
        load_torch()
        from pointset.reports import pictures

        found = measure()
        show(found)
        write_outputs(found, json_file, picture, getattr(pictures, draw))


_FAMILIES_BESIDE_EACH_OTHER = 5  # in a terminal of 80 columns


def _print_counting(found: Mapping[str, Any]) -> None:
    console = output_console()
    names = list(found["families"])
    for first in range(0, len(names), _FAMILIES_BESIDE_EACH_OTHER):
        families = names[first : first + _FAMILIES_BESIDE_EACH_OTHER]
        table = plain_table(console, "normalised MAE", *families, numbers=families)
        table.columns[0].overflow = "fold"
        for name in found["substructures"]:
            table.add_row(name, *(_error(found["families"][family][name]) for family in families))
        console.print(table)
        console.print()
    _print_families(console, found)
    if found["not_checked"]:
        say(
            f"note: not compared with the graphs that the run has learned from: {printable(found['not_checked'])}",
            style="yellow",
        )
    if found["scale"] != "run":
        say("note: the run did not scale its targets; errors are divided by the deviations on fresh graphs")


def _error(scores: Mapping[str, Any]) -> Text:
    """Green where the model counts."""
    if scores["mae"] is None:
        return Text("no number", style="red")
    text = f"{scores['mae']:.4f}" if scores["mae"] < 1000 else f"{scores['mae']:.3g}"
    return Text(f"{text} ✓", style="green") if scores["counts"] else Text(f"{text}  ")


def _print_families(console: Console, found: Mapping[str, Any]) -> None:
    """A row for each family: what was asked, how much is counted, and the largest error."""
    numbers = ("graphs", "counts", "exact nodes", "largest error")
    table = plain_table(console, "family", *numbers, "at", "what it is", numbers=numbers)
    for family, scores in found["families"].items():
        about = found["graphs"][family]
        exact = sum(one["exact_share"] for one in scores.values()) / len(scores)
        errors = {name: one["largest_error"] for name, one in scores.items()}
        worst = max(errors, key=lambda name: math.inf if errors[name] is None else errors[name])
        largest = errors[worst]
        seen = f"; {counted(about['seen'], 'graph')} left out that the run has seen" if about["seen"] else ""
        table.add_row(
            family,
            f"{about['graphs']:,}",
            f"{sum(one['counts'] for one in scores.values())} of {len(scores)}",
            f"{exact:.1%}",
            "no number" if largest is None else f"{largest:,.1f}",
            worst,
            about["description"] + seen,
        )
    console.print(table)


# --- distances


_DISTANCE_EXAMPLES = """
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
  Generated: random graphs, thinned regular ones, trees, cycles. A model that
  reads features or positions gets graphs of its run's own test part.
"""
_MEASURES = {"resistance": "resistance_r2", "commute": "commute_r2", "return": "return_r2"}


@app.command(cls=Command, no_args_is_help=True, epilog=_DISTANCE_EXAMPLES)
def distances(
    run: RunArgument,
    graphs: Annotated[int, typer.Option(metavar="N", min=2, help="Fresh graphs; half to fit the probes.")] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the graphs and of the fresh weights.")] = 0,
    data_dir: DataDirOption = None,
    json_file: JsonFileOption = None,
    picture: PictureOption = None,
) -> None:
    """Test which distances between nodes can be read off a trained model, layer by layer, beside fresh weights."""

    def measure() -> dict[str, Any]:
        from pointset.paper.trained_distances import measure_distances

        return measure_distances(run, graphs=graphs, seed=seed, data_dir=data_dir)

    _test_model(measure, _print_distances, "draw_distances", json_file, picture)


def _print_distances(found: Mapping[str, Any]) -> None:
    console = output_console()
    occurring = [name for name in found["distances"] if found["degrees"]["per_distance"][name]["pairs"]]
    headings = ("spd", *occurring, *_MEASURES)
    table = plain_table(console, "read off", *headings, numbers=headings)
    probes = [("degrees", found["degrees"], "dim")]
    for layer in found["layers"]:
        probes += [(layer["name"], layer["trained"], "bold"), ("  fresh weights", layer["random"], "")]
    for name, probe, style in probes:
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


def _percent(share: float | None) -> str:
    """Rounded down: 100 is all of them."""
    return "–" if share is None else str(int(100 * share))


def _r2(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if value > -10 else "< −10"
