"""``pointset export``: a trained model as a file that runs without pointset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.console import load_torch, output_console, plain_table, print_json, reported_errors, say
from pointset.cli.options import JsonFlag, QuietFlag, RequireSignatureOption, RunArgument, check_output_file

if TYPE_CHECKING:
    from pointset.encoders.export_files import Exported

EXAMPLES = """
[bold]Examples[/bold]
  pointset export runs/mine model.pt2             [dim]for torch.export.load[/dim]
  pointset export solubility solubility.onnx      [dim]a shipped model, as ONNX[/dim]
  pointset export runs/mine model.onnx --nodes 2:200
  pointset export model.zip fixed.onnx --nodes 24 [dim]all shapes fixed[/dim]

[bold]What the file takes and gives[/bold]
  One graph a call, as plain tensors: a .pt2 takes the matrix of edge weights,
  an .onnx the eigenvalues and eigenvectors of Z, as ONNX has no eigensolver.
  It gives what `pointset predict` gives: numbers in the targets' own units,
  or probabilities. Intervals and the domain are not in it. The description
  that --json prints is also in the file, as pointset.json.
"""


def export(
    run: RunArgument,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A .pt2 or .onnx to write.")],
    nodes: Annotated[
        str, typer.Option(metavar="LEAST:MOST", help="For graphs of so many nodes; one number fixes all shapes.")
    ] = "1:64",
    require_signature: RequireSignatureOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Export a trained model as a file that runs without pointset, for torch or ONNX."""
    check_output_file(output, "OUT")
    if not re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,9})?", nodes):
        message = f"got {nodes!r}; expected LEAST:MOST such as 1:64, or one number"
        raise typer.BadParameter(message, param_hint="--nodes")
    low, _, high = nodes.partition(":")
    with reported_errors():
        load_torch()
        from pointset.encoders.export_files import kind_of
        from pointset.prediction.predictor import load

        kind_of(output)
        written = load(run, public_key=require_signature).export(output, nodes=(int(low), int(high or low)))
        if as_json:
            print_json(written.description)
        elif not quiet:
            _show(written)


def _show(written: Exported) -> None:
    """Inputs and outputs, and how near the file is to the model."""
    console = output_console()
    table = plain_table(console, "tensor", "type", "shape", "meaning")
    for entry in (*written.description["inputs"], *written.description["outputs"]):
        shape = ", ".join(map(str, entry["shape"]))
        table.add_row(entry["name"], entry["dtype"], shape, entry["meaning"])
    console.print(table)
    low, high = written.description["nodes"]
    allowed = f"{low} to {high}" if high > low else f"exactly {low}"
    say(f"Z is {written.description['matrix']}; for graphs of {allowed} nodes", style="dim")
    if written.difference is None:
        say("note: not compared with the model, as onnxruntime is not installed", style="yellow")
    else:
        sizes = ", ".join(map(str, written.sizes))
        say(f"equal to the model within {written.difference:.1g} on random graphs of {sizes} nodes", style="dim")
    typer.echo(written.path)
