"""Values that several verbs accept, known without importing torch."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pointset.datasets.graph_formats import format_of
from pointset.errors import FileFormatError

_PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
MATRIX_HELP = "The matrix to decompose: laplacian, adjacency, normalized_adjacency or augmented."


class MatrixName(StrEnum):
    """The names of ``pointset.points.matrices.MATRICES`` (a test compares the two)."""

    LAPLACIAN = "laplacian"
    ADJACENCY = "adjacency"
    NORMALIZED_ADJACENCY = "normalized_adjacency"
    AUGMENTED = "augmented"


class FloatType(StrEnum):
    """Types of eigenpairs."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"


class Device(StrEnum):
    """Where a model is computed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class PlainFlags:
    """Mixed into a command: its help shows ``--json`` alone, where typer would write ``--json <bool>``."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Verb(PlainFlags, TyperCommand):
    """A command of ours."""


class Verbs(PlainFlags, TyperGroup):
    """A group of them."""


def is_given(context: typer.Context, option: str) -> bool:
    """Whether the user named this option, so that one without effect can be refused."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def is_points_file(path: Path) -> bool:
    """By its name; everything else is a graph file."""
    return path.suffix.lower() == ".safetensors" and not path.is_dir()


def check_folder_of(path: Path, hint: str) -> None:
    """Refuse an output whose folder is missing before any work is done."""
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}; create it first", param_hint=hint)


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written before any work is done."""
    check_folder_of(path, "--picture")
    if path.suffix.lower() not in _PICTURE_SUFFIXES:
        raise typer.BadParameter(
            f"got {path.name!r}; expected a name that ends in {', '.join(_PICTURE_SUFFIXES)}", param_hint="--picture"
        )


def check_graph_suffix(path: Path, hint: str) -> None:
    """Refuse a file of unknown kind as a usage error."""
    try:
        format_of(path)
    except FileFormatError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None
