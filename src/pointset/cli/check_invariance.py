"""``pointset check-invariance``: does a trained model depend on the graph alone, or on how it is written down?"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pointset.cli.console import load_torch, output_console, plain_table, reported_errors, say, show_left_out
from pointset.cli.options import (
    DataDirOption,
    JsonFileOption,
    RequireSignatureOption,
    RunArgument,
    SmilesOption,
    check_outputs,
    refuse_options,
)
from pointset.cli.predict import INPUT_HELP, check_options
from pointset.text import counted, printable

EXAMPLES = """
[bold]Examples[/bold]
  pointset check-invariance runs/mine            [dim]its own test part[/dim]
  pointset check-invariance runs/mine molecules.csv
  pointset check-invariance solubility molecules.csv  [dim]a shipped model[/dim]
  pointset check-invariance model.zip graphs/ --json found.json

[bold]What is changed[/bold] and must not matter
  The order of the nodes, of the points and of the graph before it is
  decomposed; the basis of the points, by R in O(r) and inside eigenspaces;
  the rest of the batch. Each in float32, and with the same weights in
  float64, where rounding hides nothing.

[bold]Exit code[/bold]
  0  invariant
  1  a symmetry is violated
  2  nothing was checked: wrong usage, no such run, unreadable data
"""
_VIOLATED = 1
_NOT_CHECKED = 2
_DIGITS = {"float32": ".9g", "float64": ".17g"}  # as many digits as distinguish any two numbers
_MOST_SMILES = 60  # letters


def check_invariance(
    context: typer.Context,
    run: RunArgument,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help=f"{INPUT_HELP} By default the test part of the run's own data."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Check at most N graphs, drawn at random.")] = 200,
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Random draws of each change.")] = 3,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all random choices.")] = 0,
    tolerance: Annotated[
        float, typer.Option(metavar="X", help="Change allowed in float32, as a share of the largest output.")
    ] = 1e-4,
    tolerance_float64: Annotated[
        float, typer.Option("--tolerance-float64", metavar="X", help="The same in float64.")
    ] = 1e-8,
    smiles: SmilesOption = None,
    data_dir: DataDirOption = None,
    require_signature: RequireSignatureOption = None,
    json_file: JsonFileOption = None,
) -> None:
    """Certify that a trained model depends on the graph alone, or show a graph for which it does not."""
    try:
        with reported_errors("Interrupted; nothing is certified."):
            check_outputs(json_file)
            if data is not None:
                check_options(context, data)
            else:
                refuse_options(context, ["smiles"], "is about a table of SMILES, and none is given; leave it out")
            load_torch()
            from pointset.files import write_json
            from pointset.testing.certificate import check_run

            found = check_run(
                run,
                data,
                smiles=smiles,
                data_dir=data_dir,
                public_key=require_signature,
                limit=limit,
                seed=seed,
                repeats=repeats,
                tolerance=tolerance,
                tolerance_float64=tolerance_float64,
            )
            if json_file is not None:
                write_json(json_file, found)
    except typer.Exit as stopped:  # 1 is kept for a model that is not invariant
        raise typer.Exit(_NOT_CHECKED if stopped.exit_code == 1 else stopped.exit_code) from None
    _print(found)
    if json_file is not None:
        say(f"wrote {json_file}")
    if not found["invariant"]:
        raise typer.Exit(_VIOLATED)


def _print(found: dict[str, Any]) -> None:
    show_left_out([(one["row"], one["reason"]) for one in found["left_out"]])
    console = output_console()
    _print_table(console, found["checks"])
    violated = [check for check in found["checks"] if not check["passed"]]
    for check in violated or [found["checks"][found["worst_check"]]]:
        _print_worst(console, check)
    verdict = Text("yes", style="green") if found["invariant"] else Text("no", style="red")
    console.print(Text("invariant: ") + verdict, end="")
    of = f"{found['graphs']:,} of " if found["available"] > found["graphs"] else ""
    console.print(
        f" ({printable(found['data'])}: {of}{counted(found['available'], 'graph')}, {found['repeated_eigenvalues']:,} "
        f"with repeated eigenvalues; {counted(found['repeats'], 'draw')} of each change)",
        markup=False,
        soft_wrap=True,
    )


def _print_table(console: Console, checks: list[dict[str, Any]]) -> None:
    precisions = list(dict.fromkeys(check["precision"] for check in checks))
    table = plain_table(console, "what was changed", *precisions, "verdict", numbers=precisions)
    for change in dict.fromkeys(check["change"] for check in checks):
        same = [check for check in checks if check["change"] == change]
        by_precision = {}
        for check in same:
            amount = _amount(check["largest"])
            by_precision[check["precision"]] = Text(amount, style="" if check["passed"] else "red")
        holds = all(check["passed"] for check in same)
        verdict = Text("holds") if holds else Text("violated", style="red")
        table.add_row(change, *(by_precision[precision] for precision in precisions), verdict)
    allowed = {check["precision"]: f"{check['tolerance']:.0e}" for check in checks}
    table.add_section()
    table.add_row("allowed, of the largest output", *(allowed[precision] for precision in precisions), "", style="dim")
    console.print(table)


def _print_worst(console: Console, check: dict[str, Any]) -> None:
    worst = check["worst"]
    if worst is None:
        return
    smiles = "" if worst["smiles"] is None else f" {worst['smiles'][:_MOST_SMILES]}"
    node = "" if worst["node"] is None else f" of node {worst['node']}"
    before, after = (_amount(worst[when], _DIGITS[check["precision"]]) for when in ("before", "after"))
    console.print(
        printable(
            f"worst graph: {worst['graph']}{smiles}, n = {worst['nodes']}, m = {worst['edges']}: {check['change']} "
            f"({check['precision']}) changed {worst['target']}{node} from {before} to {after}: "
            f"{_amount(worst['difference'])} of the largest output"
        ),
        markup=False,
        soft_wrap=True,
    )


def _amount(value: float | None, digits: str = ".1e") -> str:
    return "not a number" if value is None else format(value, digits)
