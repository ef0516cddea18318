"""``pointset express``: the paper's theory as experiments, and what a trained model can tell apart."""

from __future__ import annotations

import typer

from pointset.cli import express_brec, express_counting, express_distances, express_theorems
from pointset.cli.options import Verb, Verbs

EXAMPLES = """
[bold]Examples[/bold]
  pointset express theorems            [dim]each statement, with a verdict[/dim]
  pointset express brec --models 3-wl  [dim]400 pairs that are hard to tell apart[/dim]
  pointset express counting runs/one   [dim]what a model counts, on new graphs[/dim]
  pointset express distances runs/one  [dim]which distances its attention knows[/dim]
"""

app = typer.Typer(cls=Verbs, rich_markup_mode="rich", no_args_is_help=True, epilog=EXAMPLES)
app.command(cls=Verb, epilog=express_theorems.EXAMPLES)(express_theorems.theorems)
app.command(cls=Verb, epilog=express_brec.EXAMPLES)(express_brec.brec)
app.command(cls=Verb, no_args_is_help=True, epilog=express_counting.EXAMPLES)(express_counting.counting)
app.command(cls=Verb, no_args_is_help=True, epilog=express_distances.EXAMPLES)(express_distances.distances)


@app.callback()
def express() -> None:
    """Check the paper's theory, statement by statement, and what models can tell apart, count and measure."""
