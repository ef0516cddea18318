"""What ``pointset predict`` and ``pointset embed`` accept alike."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pointset.cli.options import Device

RUN_HELP = "The folder of a run, or a bundle: a folder or a .zip."
INPUT_HELP = "A table of SMILES, a graph file or a folder of them, or the name of a dataset."


class LevelName(StrEnum):
    """What a representation is of."""

    GRAPH = "graph"
    NODE = "node"


Run = Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)]
Input = Annotated[str, typer.Argument(metavar="INPUT", help=INPUT_HELP)]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="OUT.csv", help="What to write: .csv or .tsv.")]
Smiles = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of SMILES: its name, or its number from 0.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line of the table is a row already.")]
Split = Annotated[str | None, typer.Option(metavar="PART", help="Of a dataset: train, val or test; all by default.")]
DataDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the dataset's files lie.")]
BatchSize = Annotated[int, typer.Option(min=1, metavar="N", help="Graphs that are computed together.")]
Workers = Annotated[int | None, typer.Option(min=0, metavar="N", help="Processes that read SMILES; by default enough.")]
DeviceName = Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT.csv where it is there already.")]
Restart = Annotated[bool, typer.Option("--restart", help="Forget what a broken call has done, and begin again.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only problems, no progress and no summary.")]
