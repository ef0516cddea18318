"""``pointset recipes``: which there are, and what is in them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pointset.cli.messages import reported_errors
from pointset.cli.options import Verb, Verbs

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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
_LIST = "list"


class _RecipeVerbs(Verbs):
    """Takes what is no command for a word to look for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = [_LIST, *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_RecipeVerbs, rich_markup_mode="rich", subcommand_metavar="[WORD] | show NAME")


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
def recipes(context: typer.Context, as_json: AsJson = False) -> None:
    """List the recipes: what is trained, on what, and what the paper reports.

    With a WORD, those that have it in their name, dataset, model or title.
    """
    if context.invoked_subcommand is None:
        _print_list("", as_json)
    elif context.invoked_subcommand != _LIST and as_json:
        raise typer.BadParameter(f"put the options behind {context.invoked_subcommand!r}")
    else:
        context.obj = as_json


@app.command(_LIST, cls=Verb, hidden=True)
def list_recipes(
    context: typer.Context,
    word: Annotated[str, typer.Argument(metavar="[WORD]", help="In a name, dataset, model or title.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes that have a word in their name, dataset, model or title."""
    _print_list(word, as_json or bool(context.obj))


@app.command(cls=Verb, no_args_is_help=True, epilog=SHOW_EXAMPLES)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A recipe, a YAML file, or the folder of a run.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings to change: model.dim=96 seed=3.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print every setting of a recipe as YAML, and what the paper reports for it."""
    with reported_errors():
        from pointset.cli.console import print_json
        from pointset.cli.recipes_table import remarks
        from pointset.training.recipe_files import read_recipe

        recipe = read_recipe(name, changes or [])
        if as_json:
            print_json(recipe.as_dict())
            return
        for line in remarks(recipe):
            typer.echo(f"# {line}")
        typer.echo(recipe.as_yaml(), nl=False)


def _print_list(word: str, as_json: bool) -> None:
    with reported_errors():
        from pointset.cli.console import print_json
        from pointset.cli.recipes_table import listed, show_list, summary

        chosen = listed(word)
        if as_json:
            print_json([summary(recipe) for recipe in chosen])
        else:
            show_list(chosen)
