"""The command ``pointset``."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from pointset.cli import (
    bundle,
    check_invariance,
    compare,
    convert,
    datasets,
    evaluate,
    explain,
    export,
    express,
    inspect,
    models,
    predict,
    recipes,
    report,
    reproduce,
    results,
    train,
    tune,
)
from pointset.cli.console import load_torch, reported_errors, show_warning, tell_end
from pointset.cli.entry import INTERRUPTED
from pointset.cli.options import Command, Commands
from pointset.extensions import VARIABLE, add_imports, import_named
from pointset.stopping import end_in_time

_IMPORT = "--import"
_EXAMPLES = """
[bold]Examples[/bold]
  pointset convert graphs.g6 points.safetensors     [dim]graphs become points,[/dim]
  pointset convert points.safetensors same.graphml  [dim]points become graphs[/dim]
  pointset inspect graphs.g6 --picture graph.png    [dim]look at them[/dim]
  pointset datasets                                 [dim]what there is to learn from[/dim]
  pointset recipes                                  [dim]models and their settings[/dim]
  pointset train counting-small --run-dir runs/one  [dim]train a model[/dim]
  pointset models                                   [dim]models to take home[/dim]
  pointset predict solubility molecules.csv -o answers.csv
  pointset explain runs/mine CCO -o why.svg         [dim]which atoms matter[/dim]
  pointset bundle sign model.zip --key lab.key      [dim]before it is handed on[/dim]
  pointset export runs/mine model.onnx              [dim]for other programs[/dim]
  pointset express theorems                         [dim]check the theory[/dim]
  pointset compare zinc --models pst,gin,gps --run-dir runs/three
  pointset reproduce                                [dim]the paper's tables[/dim]
  pointset --import my_encoder.py train my.yaml     [dim]with a model of your own[/dim]
"""


class _AllCommands(Commands):
    """``--import MODULE`` stands before a command or behind it."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        end = args.index("--") if "--" in args else len(args)
        imports: list[str] = []
        others: list[str] = []
        words = iter(args[:end])
        for word in words:
            if word == _IMPORT:
                imports += [word, *([value] if (value := next(words, None)) is not None else [])]
            else:
                (imports if word.startswith(f"{_IMPORT}=") else others).append(word)
        return super().parse_args(ctx, [*imports, *others, *args[end:]])


app = typer.Typer(
    name="pointset",
    cls=_AllCommands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=_EXAMPLES,
)
app.command(cls=Command, no_args_is_help=True, epilog=convert.EXAMPLES)(convert.convert)
app.command(cls=Command, no_args_is_help=True, epilog=inspect.EXAMPLES)(inspect.inspect)
app.add_typer(datasets.app, name="datasets")
app.command(cls=Command, no_args_is_help=True, epilog=train.EXAMPLES)(train.train)
app.add_typer(recipes.app, name="recipes")
app.add_typer(models.app, name="models")
app.add_typer(bundle.app, name="bundle")
app.command(cls=Command, no_args_is_help=True, epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(cls=Command, no_args_is_help=True, epilog=predict.EXAMPLES)(predict.predict)
app.command(cls=Command, no_args_is_help=True, epilog=predict.EMBED_EXAMPLES)(predict.embed)
app.command(cls=Command, no_args_is_help=True, epilog=explain.EXAMPLES)(explain.explain)
app.command(cls=Command, no_args_is_help=True, epilog=export.EXAMPLES)(export.export)
app.command(cls=Command, no_args_is_help=True, epilog=report.EXAMPLES)(report.report)
app.command(cls=Command, no_args_is_help=True, epilog=tune.EXAMPLES)(tune.tune)
app.command(cls=Command, no_args_is_help=True, epilog=compare.EXAMPLES)(compare.compare)
app.command(cls=Command, epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.command(cls=Command, epilog=results.EXAMPLES)(results.results)
app.add_typer(express.app, name="express")
app.command("check-invariance", cls=Command, no_args_is_help=True, epilog=check_invariance.EXAMPLES)(
    check_invariance.check_invariance
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from pointset import __version__

        typer.echo(f"pointset {__version__}")
        raise typer.Exit


@app.callback()
def pointset(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            _IMPORT,
            metavar="MODULE",
            help="Import a module of yours, or a .py file, that registers encoders, metrics or datasets. Before or "
            "after the command, also several times; POINTSET_IMPORT does the same.",
        ),
    ] = None,
) -> None:
    """Turn graphs into sets of points, without loss, and learn from them."""
    if imports or os.environ.get(VARIABLE):
        with reported_errors():
            load_torch()  # which such a module imports
            add_imports(imports or [])
            import_named()


def run() -> None:
    """Where the console script begins."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ↓ gets a ?, not a traceback
    warnings.showwarning = show_warning
    end_in_time(tell_end, INTERRUPTED)
    app()


if __name__ == "__main__":
    run()
