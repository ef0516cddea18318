"""The table and the closing lines of ``pointset inspect``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pointset.cli.console import output_console
from pointset.cli.messages import counted, printable, size_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pointset.cli.inspection import Inspection
    from pointset.datasets.graph_facts import GraphFacts

_SPACIOUS = 100  # columns from which two blanks fit between those of the table
_SHOWN_MULTIPLICITIES = 4


def show(inspection: Inspection, limit: int) -> None:
    """Print the first graphs in a table, and all in a few lines."""
    console = output_console()
    if limit:
        console.print(_table(inspection, limit, spacious=console.width >= _SPACIOUS))
    if limit and len(inspection.facts) > limit:
        rest = len(inspection.facts) - limit
        console.print(f"… and {rest:,} more; --limit shows more, --json all", style="dim")
    _print_summary(console, inspection)


def _table(inspection: Inspection, limit: int, *, spacious: bool) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1 if spacious else 0, 0, 0), header_style="bold")
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("graph", overflow="fold", max_width=32)
    for title in ("nodes", "edges", "comp.", "rank"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("multiplicities", overflow="fold")
    for title in ("gap", "round trip", "memory"):
        table.add_column(title, justify="right", no_wrap=True)
    for index, facts in enumerate(inspection.facts[:limit]):
        table.add_row(*_cells(index, facts))
    return table


def _cells(index: int, facts: GraphFacts) -> list[Any]:
    from rich.text import Text

    gap = "–" if facts.smallest_relative_gap is None else f"{facts.smallest_relative_gap:.1e}"
    way_back = f"{facts.round_trip_error or 0.0:.1e}" if facts.round_trip == "ok" else facts.round_trip
    colour = {"ok": "green", "truncated": "yellow", "failed": "red"}[facts.round_trip]
    return [
        str(index),
        Text(printable(facts.name)),
        f"{facts.nodes:,}",
        f"{facts.edges:,}",
        "–" if facts.components is None else f"{facts.components:,}",
        f"{facts.rank:,}",
        multiplicities_text(facts.multiplicities),
        gap,
        Text(way_back, style=colour),
        size_text(facts.training_bytes),
    ]


def multiplicities_text(multiplicities: list[int]) -> str:
    """``2×3, 1×4``: three eigenvalues that occur twice, four that occur once; the largest first."""
    counts = sorted(Counter(multiplicities).items(), reverse=True)
    shown = ", ".join(f"{multiplicity}×{count}" for multiplicity, count in counts[:_SHOWN_MULTIPLICITIES])
    return f"{shown}, …" if len(counts) > _SHOWN_MULTIPLICITIES else shown or "–"


def _print_summary(console: Console, inspection: Inspection) -> None:
    summary, encoder = inspection.summary(), inspection.encoder
    ranges = ", ".join(f"{what} {_range(summary[what])}" for what in ("nodes", "edges", "components", "rank"))
    training = summary["training_bytes"]
    lines = [
        f"[bold]{counted(summary['graphs'], 'graph')}[/bold] under the {inspection.matrix} matrix: {ranges}",
        f"[bold]Round trip[/bold]: {_round_trip(summary)}",
        f"[bold]Memory for training[/bold], forecast for {encoder.layers} layers of width {encoder.width}: "
        f"{size_text(training['max'])} for the largest graph, {size_text(training['batch'])} for a batch of "
        f"{encoder.batch} average graphs",
        "[dim]2×3: three eigenvalues that occur twice. gap: smallest distance between distinct eigenvalues, relative "
        "to the largest. round trip: largest error in the matrix after going to points and back.[/dim]",
    ]
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)


def _range(spread: dict[str, float | None]) -> str:
    lowest, highest, mean = spread["min"], spread["max"], spread["mean"]
    if lowest is None or mean is None:
        return "unknown"
    return f"{lowest:,}" if lowest == highest else f"{lowest:,}–{highest:,} (mean {mean:,.1f})"


def _round_trip(summary: dict[str, Any]) -> str:
    outcome = ", ".join(f"{count:,} {name}" for name, count in summary["round_trip"].items())
    error, gap = summary["largest_round_trip_error"], summary["smallest_relative_gap"]
    largest = "" if error is None else f"; largest error {error:.1e}"
    return f"{outcome}{largest}" + ("" if gap is None else f"; smallest gap {gap:.1e}")
