"""What every verb of ``pointset express`` leaves behind: a JSON file and a picture, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pointset.cli.messages import say
from pointset.cli.options import check_folder_of, check_picture

JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the results to this file, for programs.")
]
Picture = Annotated[Path | None, typer.Option(metavar="OUT.png", help="Draw the results: .png, .svg, .pdf.")]


def check_outputs(json_file: Path | None, picture: Path | None) -> None:
    """Refuse what could not be written, before any work is done."""
    if json_file is not None:
        check_folder_of(json_file, "--json")
        if json_file.is_dir():
            raise typer.BadParameter(f"{json_file} is a folder; name a file in it", param_hint="--json")
    if picture is not None:
        check_picture(picture)
        from pointset.reports.picture_files import check_picture_file

        check_picture_file(picture)  # matplotlib is there


def write_outputs(
    content: Any, json_file: Path | None, picture: Path | None, draw: Callable[[Any, Path], None]
) -> None:
    """Write ``content`` as JSON, and what ``draw`` makes of it."""
    from pointset.training.json_files import write_json

    if json_file is not None:
        write_json(json_file, content)
    if picture is not None:
        draw(content, picture)
    written = [str(path) for path in (json_file, picture) if path is not None]
    if written:
        say(f"wrote {' and '.join(written)}")
