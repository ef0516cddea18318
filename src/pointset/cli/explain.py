"""``pointset explain``: what each atom and bond adds to a prediction."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.console import load_torch, output_console, plain_table, reported_errors
from pointset.cli.options import QuietFlag, RequireSignatureOption, RunArgument, check_output_file, usage_errors
from pointset.text import counted, number, signed

if TYPE_CHECKING:
    from rich.console import Console

    from pointset.encoders.attributions import Method
    from pointset.prediction.attributions import Attribution

EXAMPLES = """
[bold]Examples[/bold]
  pointset explain runs/mine 'CC(=O)Oc1ccccc1C(=O)O'       [dim]a table[/dim]
  pointset explain runs/mine CCO CCN CCCl -o three.svg     [dim]pictures[/dim]
  pointset explain solubility CCO                          [dim]a shipped model[/dim]
  pointset explain model.zip CCO -o page.html --target logS
  pointset explain runs/mine CCO -o numbers.csv --method shapley

[bold]How to read it[/bold]
  The baseline is the prediction for the same skeleton made of average atoms
  and bonds of the training data. Contributions add up from there to the
  prediction: + (red) raises it, − (blue) lowers it; each atom is shown with
  half of its bonds and its part of the counted environments. Labels and
  classes are explained by their logit. What the sum misses is the residual.
  Contributions say how the model came to its answer, not whether it is right.

[bold]OUT[/bold] ends in
  .svg   pictures        .html  a page with pictures and numbers
  .png   one molecule    .csv   all numbers: atom, element, contribution
"""
MethodName = StrEnum("MethodName", ["GRADIENTS", "SHAPLEY"])
_SHOWN_PARTS = 12


def explain(
    run: RunArgument,
    smiles: Annotated[list[str], typer.Argument(metavar="SMILES…", help="The molecules; quote them for the shell.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="A .svg, .png, .html or .csv to write.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="NAME", help="The target, or the class, where there are several.")
    ] = None,
    method: Annotated[
        MethodName,
        typer.Option(metavar="NAME", help="gradients (integrated), or shapley: masked atoms, ten times slower."),
    ] = MethodName.GRADIENTS,
    numbers: Annotated[bool, typer.Option("--numbers", help="Write the numbers of the atoms into pictures.")] = False,
    bonds: Annotated[
        bool, typer.Option("--bonds", help="Show bonds by themselves, not half of each in its atoms.")
    ] = False,
    require_signature: RequireSignatureOption = None,
    quiet: QuietFlag = False,
) -> None:
    """Explain predictions: what each atom and bond of a molecule adds to them.

    Integrated gradients from average atoms and bonds to those of the molecule,
    so that the contributions add up to prediction − baseline.
    """
    if output is not None:
        _check_output(output, len(smiles))
    with reported_errors():
        load_torch()
        from pointset.prediction.attributions import write_attributions
        from pointset.prediction.predictor import load

        predictor = load(run, public_key=require_signature)
        how: Method = "gradients" if method is MethodName.GRADIENTS else "shapley"
        found = predictor.explain(smiles, target, method=how, progress=False if quiet else None)
        if output is not None:
            write_attributions(output, found, numbered=numbers, bonds=bonds)
        if not quiet:
            console = output_console()
            for one in found:
                _show(console, one, bonds)
        if output is not None and not quiet:
            typer.echo(f"{counted(len(found), 'molecule')} → {output}")


def _check_output(output: Path, molecules: int) -> None:
    check_output_file(output, "--output")
    with usage_errors("--output"):
        from pointset.prediction.attributions import check_kind

        check_kind(output, molecules)


def _show(console: Console, one: Attribution, bonds: bool) -> None:
    """The prediction, then the strongest parts."""
    console.print(one.text, style="bold", markup=False)
    console.print(f"  {one.smiles}", style="dim", markup=False, soft_wrap=True)
    if one.doubt:
        console.print(f"  {one.doubt}", style="yellow", markup=False)
    spread = one.members > 1
    columns = ["part", "contribution", *(["over members"] if spread else [])]
    table = plain_table(console, *columns, numbers=columns[1:])
    parts = one.parts(bonds=bonds)
    table.add_row("baseline", number(one.baseline), *([""] if spread else []))
    for name, value, deviation in parts[:_SHOWN_PARTS]:
        table.add_row(name, signed(value, 3), *([f"± {number(deviation, 2)}"] if spread else []))
    rest = parts[_SHOWN_PARTS:]
    if rest:
        table.add_row(
            counted(len(rest), "other"), signed(sum(value for _, value, _ in rest), 3), *([""] if spread else [])
        )
    if one.descriptors:
        table.add_row("descriptors", signed(one.descriptors, 3), *([""] if spread else []))
    table.add_row("residual", signed(one.residual, 2), *([""] if spread else []))
    table.add_row("prediction", number(one.prediction), *([""] if spread else []))
    console.print(table)
    console.print()
