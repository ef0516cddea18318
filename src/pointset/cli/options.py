"""What several commands accept: kinds of options, and the checks made before any work is done."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pointset.datasets.graph_files.formats import format_of
from pointset.errors import FileFormatError, SpecError

if TYPE_CHECKING:
    from pointset.runs.recipe import Recipe


class _PlainFlags:
    """Mixed into a command: its help shows ``--json`` alone, where typer would write ``--json <bool>``."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(_PlainFlags, TyperCommand):
    """A command of ours."""


class Commands(_PlainFlags, TyperGroup):
    """A group of them."""


# values are the names in small letters
MatrixName = StrEnum("MatrixName", ["LAPLACIAN", "ADJACENCY", "NORMALIZED_ADJACENCY", "AUGMENTED"])
FloatType = StrEnum("FloatType", ["FLOAT64", "FLOAT32"])
WhichName = StrEnum("WhichName", ["BOTH", "LARGEST", "SMALLEST"])
Device = StrEnum("Device", ["AUTO", "CPU", "CUDA"])
Progress = StrEnum("Progress", ["AUTO", "BAR", "PLAIN", "QUIET"])

RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="The folder of a run, a bundle (a folder or a .zip), or the name of a shipped model (pointset models); a "
        "file or folder that is called so comes first.",
    ),
]
SettingsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Settings to change: model.dim=96 seed=3.")
]
MatrixOption = Annotated[
    MatrixName,
    typer.Option(
        metavar="NAME", help="The matrix to decompose: laplacian, adjacency, normalized_adjacency or augmented."
    ),
]
RankOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="K",
        help="Keep K eigenpairs, and those equal to the last; all by default, which loses nothing.",
    ),
]
WhichOption = Annotated[
    WhichName,
    typer.Option(
        metavar="END", help="What --rank keeps: the largest |λ| (both), or the largest or smallest non-zero λ."
    ),
]
SmilesOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of SMILES: its name, or its number from 0.")
]
DataDirOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder of the data; by default what POINTSET_DATA names.")
]
DeviceOption = Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")]
ProgressOption = Annotated[Progress, typer.Option(metavar="MODE", help="bar, plain (lines, for logs), quiet, or auto.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
JsonFileOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the results to this file, for programs.")
]
PictureOption = Annotated[Path | None, typer.Option(metavar="OUT.png", help="Draw the results: .png, .svg, .pdf.")]
NoHeaderFlag = Annotated[bool, typer.Option("--no-header", help="The table has no header line.")]
SheetOption = Annotated[str | None, typer.Option(metavar="NAME", help="The sheet of a workbook; by default the first.")]
RequireSignatureOption = Annotated[
    Path | None,
    typer.Option(
        "--require-signature",
        metavar="KEY.pub",
        envvar="POINTSET_REQUIRE_SIGNATURE",
        help="Load the model only if it is signed with the key of this file (pointset bundle sign).",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Share the work with the workers of a Dask scheduler: tcp://host:8786, its scheduler file (.json), or "
        "local:N for N processes here.",
    ),
]
QuietFlag = Annotated[bool, typer.Option("--quiet", help="Print only problems, no progress and no summary.")]


def refuse_options(context: typer.Context, options: Collection[str], reason: str) -> None:
    """Refuse those of these options that the user named, as they would have no effect."""
    for option in options:
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"--{option.replace('_', '-')} {reason}")


def check_which_usage(context: typer.Context, rank: int | None) -> None:
    """An end of the spectrum says which eigenpairs ``--rank`` keeps, and nothing without it."""
    if rank is None:
        refuse_options(context, ["which"], "says which eigenpairs --rank keeps; add --rank K")


def split_names(text: str) -> list[str]:
    """``pst, gin,pst`` → ``["pst", "gin"]``."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def named_recipe(name: str | None, settings: Sequence[str]) -> Recipe:
    """The recipe of this name, file or run folder, with the settings changed that were given."""
    from pointset.runs.recipe_files import read_recipe

    if name is None:
        raise typer.BadParameter("name a recipe; `pointset recipes` lists them", param_hint="RECIPE")
    if "=" in name:
        raise typer.BadParameter(f"got {name!r}; expected a recipe's name before settings", param_hint="RECIPE")
    return read_recipe(name, settings)


def folder_name(recipe_name: str, nameless: str) -> str:
    """A name that always lies inside of the folder it is put into, whatever the recipe is called."""
    return re.sub(r"[^\w-]+", "-", recipe_name).strip("-") or nameless


def is_points_file(path: Path) -> bool:
    """By its name; everything else is a graph file."""
    return path.suffix.lower() == ".safetensors" and not path.is_dir()


@contextmanager
def usage_errors(hint: str) -> Iterator[None]:
    """What is refused inside is a usage error of this option or argument."""
    try:
        yield
    except (FileFormatError, SpecError) as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def check_graph_suffix(path: Path, hint: str) -> None:
    """Refuse a file of unknown kind as a usage error."""
    with usage_errors(hint):
        format_of(path)


def check_folder_of(path: Path, hint: str) -> None:
    """Refuse an output whose folder is missing before any work is done."""
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}; create it first", param_hint=hint)


def check_output_file(path: Path, hint: str, suffixes: Sequence[str] = ()) -> None:
    """Refuse a file that could not be written, or is not named like its kind, before any work is done."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise typer.BadParameter(f"got {path.name!r}; expected a file that ends in {suffixes[0]}", param_hint=hint)
    check_folder_of(path, hint)
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; choose the name of a file in it", param_hint=hint)


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written, or not be drawn without matplotlib, before any work is done."""
    from pointset.reports.pictures import check_picture_file

    with usage_errors("--picture"):
        check_picture_file(path)


def check_outputs(json_file: Path | None, picture: Path | None = None) -> None:
    """Refuse what could not be written, before any work is done."""
    if json_file is not None:
        check_output_file(json_file, "--json")
    if picture is not None:
        check_picture(picture)
