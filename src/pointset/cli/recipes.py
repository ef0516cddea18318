"""``pointset recipes``: the recipes there are, and their settings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pointset.cli.console import output_console, plain_table, print_json, reported_errors
from pointset.cli.options import Command, Commands, JsonFlag, SettingsArgument
from pointset.errors import SpecError, did_you_mean
from pointset.metrics import metric_named
from pointset.text import printable

if TYPE_CHECKING:
    from pointset.runs.recipe import Expected, Recipe

EXAMPLES = """
[bold]Examples[/bold]
  pointset recipes                             [dim]all[/dim]
  pointset recipes WORD                        [dim]those of a dataset, a model, …[/dim]
  pointset recipes show NAME                   [dim]every setting[/dim]
  pointset recipes show NAME > mine.yaml       [dim]a copy to change …[/dim]
  pointset train mine.yaml                     [dim]… and to train by[/dim]
"""
SHOW_EXAMPLES = """
[bold]Examples[/bold]
  pointset recipes show molecules
  pointset recipes show NAME model.dim=96 trainer.epochs=20
  pointset recipes show RUN                    [dim]what a run was trained by[/dim]
"""
_LIST = "list"
_WIDTH = 110  # of remarks
_ROOMY = 100  # columns from which the datasets' titles fit
_NOTES = (
    "size: layers×width. in the paper: mean ± std, in the units of the dataset's card.",
    "pointset recipes show NAME: every setting. pointset train NAME [KEY=VALUE]…: train by it.",
)


class _RecipeCommands(Commands):
    """Takes what is not a command for a word to look for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = [_LIST, *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_RecipeCommands, rich_markup_mode="rich", subcommand_metavar="[WORD] | show NAME")


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
def recipes(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the recipes: what is trained, on what, and what the paper reports.

    With a WORD, those that have it in their name, dataset, model or title.
    """
    if context.invoked_subcommand is None:
        _print_list("", as_json)
    elif context.invoked_subcommand != _LIST and as_json:
        raise typer.BadParameter(f"put the options after {context.invoked_subcommand!r}")
    else:
        context.obj = as_json


@app.command(_LIST, cls=Command, hidden=True)
def list_recipes(
    context: typer.Context,
    word: Annotated[str, typer.Argument(metavar="[WORD]", help="In a name, dataset, model or title.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """List the recipes that have a word in their name, dataset, model or title."""
    _print_list(word, as_json or bool(context.obj))


@app.command(cls=Command, no_args_is_help=True, epilog=SHOW_EXAMPLES)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A recipe, a YAML file, or the folder of a run.")],
    settings: SettingsArgument = None,
    as_json: JsonFlag = False,
) -> None:
    """Print every setting of a recipe as YAML, and what the paper reports for it."""
    with reported_errors():
        from pointset.runs.recipe_files import read_recipe

        recipe = read_recipe(name, settings or [])
        if as_json:
            print_json(recipe.as_dict())
            return
        for line in _remarks(recipe):
            typer.echo(f"# {line}")
        typer.echo(recipe.as_yaml(), nl=False)


def _print_list(word: str, as_json: bool) -> None:
    with reported_errors():
        recipes = find_recipes(word)
        if as_json:
            print_json([_summary(recipe) for recipe in recipes])
        else:
            _show_list(recipes)


def find_recipes(word: str = "") -> list[Recipe]:
    """The shipped recipes that have a word in their name, dataset, model or title.

    Raises:
        SpecError: there is none.
    """
    from pointset.runs.recipe_files import read_recipe, recipe_names

    recipes = [read_recipe(name) for name in recipe_names()]
    found = [recipe for recipe in recipes if word.lower() in _searched(recipe)]
    if not found:
        raise SpecError(
            f"no recipe has {word!r} in its name, dataset, model or title{did_you_mean(word.lower(), recipe_names())}\n"
            "`pointset recipes` lists them all"
        )
    return found


def _summary(recipe: Recipe) -> dict[str, Any]:
    """The object that ``--json`` prints for each."""
    return {
        "name": recipe.name,
        "title": recipe.title,
        "dataset": recipe.dataset.name or recipe.dataset.file,
        "preset": recipe.model.preset,
        "layers": recipe.model.layers,
        "dim": recipe.model.dim,
        "epochs": recipe.trainer.epochs,
        "expected": None if recipe.expected is None else recipe.expected.model_dump(mode="json"),
    }


def _show_list(recipes: list[Recipe]) -> None:
    """Print them in a table, and what to do with one."""
    console = output_console()
    roomy = console.width >= _ROOMY
    headings = ("recipe", *(["dataset"] if roomy else []), "model", "size", "epochs", "in the paper")
    table = plain_table(console, *headings, numbers=("size", "epochs"))
    for column in table.columns:
        column.no_wrap = column.header != ("dataset" if roomy else "in the paper")
    for recipe in recipes:
        table.add_row(
            Text(recipe.name, style="bold"),
            *([_dataset_title(recipe)] if roomy else []),
            recipe.model.preset,
            f"{recipe.model.layers}×{recipe.model.dim}",
            f"{recipe.trainer.epochs}",
            _paper_result(recipe.expected) if recipe.expected else "–",
        )
    console.print(table)
    console.print()
    for line in _NOTES:
        console.print(line, style="dim", markup=False)


def _paper_result(expected: Expected) -> str:
    """``MAE 0.063 ± 0.003``, with the digits that are printed."""
    if expected.std is None:
        return f"{metric_named(expected.metric).short} {expected.value:.2g}"
    digits = max(len(f"{number:.10f}".rstrip("0").partition(".")[2]) for number in (expected.value, expected.std))
    return f"{metric_named(expected.metric).short} {expected.value:.{digits}f} ± {expected.std:.{digits}f}"


def _remarks(recipe: Recipe) -> Iterator[str]:
    """The lines above a recipe: its title, the paper's result, and how to train it."""
    if recipe.title:
        yield printable(recipe.title)
    if (expected := recipe.expected) is not None:
        details = [f"over {expected.seeds} seeds"] if expected.seeds else []
        details += [f"{expected.parameters / 1000:,.0f}k parameters"] if expected.parameters else []
        where = f" ({expected.table})" if expected.table else ""
        yield printable(f"The paper{where}: {', '.join([_paper_result(expected), *details])}.")
        yield from textwrap.wrap(printable(expected.note), _WIDTH, break_on_hyphens=False)
    if recipe.dataset.name is None and recipe.dataset.file is None:
        yield f"Train it on your data: pointset train {printable(recipe.name)} dataset.file=FILE"


def _dataset_title(recipe: Recipe) -> str:
    from pointset.datasets.loading import OWN, benchmark_named

    if recipe.dataset.name in OWN:
        return recipe.dataset.name or ""
    if recipe.dataset.name is None:
        return "your own" if recipe.dataset.file is None else PurePath(recipe.dataset.file).name
    title = benchmark_named(recipe.dataset.name).card.title
    return f"{title}, {', '.join(recipe.dataset.targets)}" if recipe.dataset.targets else title


def _searched(recipe: Recipe) -> str:
    parts = (recipe.name, recipe.title, recipe.dataset.name or "", _dataset_title(recipe), recipe.model.preset)
    return " ".join(parts).lower()
