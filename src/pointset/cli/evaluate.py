"""``pointset evaluate``: score a trained model again, on its own data or on other data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pointset.cli.console import load_torch, output_console, print_json, reported_errors, say
from pointset.cli.options import DataDirOption, JsonFlag, RequireSignatureOption, RunArgument
from pointset.cli.train import print_coverage, print_parts, print_scores
from pointset.text import counted, printable

EXAMPLES = """
[bold]Examples[/bold]
  pointset evaluate runs/zinc                   [dim]the test part once more[/dim]
  pointset evaluate runs/zinc --part val
  pointset evaluate runs/mine --file newer.csv  [dim]other data, the same targets[/dim]
  pointset evaluate solubility --file my.csv --target logS
  pointset evaluate runs/zinc --json

[bold]Note[/bold]
  The test part was scored once, at the end of training. If you choose a model
  by scoring it again and again, it is no longer a test.
"""


Part = StrEnum("Part", ["TRAIN", "VAL", "TEST", "ALL"])


def evaluate(
    run: RunArgument,
    part: Annotated[Part, typer.Option(metavar="NAME", help="train, val, test or all, of its own split.")] = Part.TEST,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other data: a table of molecules, or graph files.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column of --file with the true values; one for each target, in order."),
    ] = None,
    data_dir: DataDirOption = None,
    require_signature: RequireSignatureOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Score a trained model: all metrics of its task, over the targets and for each."""
    with reported_errors("Interrupted."):
        load_torch()
        from pointset.files import finite
        from pointset.prediction.evaluation import evaluate as evaluate_run

        more: dict[str, Any] = {"file": file, "targets": target, "public_key": require_signature}
        found = evaluate_run(run, part=part.value, data_dir=data_dir, **more)
        if as_json:
            print_json(finite(found))
        else:
            _print(found)


def _print(found: dict[str, Any]) -> None:
    console = output_console()
    left_out = f"; {counted(found['left_out'], 'row')} left out (pointset datasets check)" if found["left_out"] else ""
    limits = f"; {counted(found['limits'], 'limit')} such as >3 not scored" if found["limits"] else ""
    console.print(f"{printable(found['data'])}, {found['part']}: {counted(found['graphs'], 'graph')}{limits}{left_out}")
    if len(found["per_target"]) > 1:
        print_scores(console, found["scores"], found["per_target"])
    print_parts(console, {found["part"]: found["intervals"]}, {}, {})
    print_coverage(console, found, found["part"])
    recorded = found["recorded"]
    if recorded is None:
        return
    different = [name for name, value in recorded.items() if not _close(value, found["scores"].get(name))]
    if different:
        say(
            f"note: the run itself has recorded other values of {', '.join(different)}: the data, the versions or the "
            "machine are not the same",
            style="yellow",
        )
    else:
        console.print("the same as the run itself has recorded")


def _close(recorded: float | None, found: float | None) -> bool:
    if recorded is None or found is None or found != found:
        return recorded is None and (found is None or found != found)
    return abs(recorded - found) <= 1e-5 * max(1.0, abs(recorded))
