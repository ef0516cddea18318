"""``pointset models``: the trained models that come with the package, and their cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pointset import models as shipped
from pointset.cli.console import output_console, plain_table, print_json, reported_errors
from pointset.cli.options import Command, Commands, JsonFlag
from pointset.metrics import metric_label, metric_named, metric_unit
from pointset.text import byte_size, counted, duration, number, percent, printable, with_interval, with_spread

EXAMPLES = """
[bold]Examples[/bold]
  pointset models                              [dim]all[/dim]
  pointset models show solubility              [dim]data, licence, scores, domain[/dim]
  pointset predict solubility my.csv -o out.csv
  pointset explain solubility CCO -o why.svg
  pointset evaluate solubility --file my.csv   [dim]on measurements of your own[/dim]

[bold]Offline[/bold]
  The models lie in the package; nothing is downloaded. A name stands for a run
  wherever a command takes RUN, and in pointset.load("solubility"). A file or
  folder that is called so comes first.
"""
SHOW_EXAMPLES = """
[bold]Examples[/bold]
  pointset models show solubility
  pointset models show solubility --json
"""
_WIDEST = 110
_NOTES = (
    "test: on molecules or graphs that were held out; forest: a random forest on fingerprints, same rows.",
    "pointset models show NAME: the card. pointset predict NAME my.csv -o out.csv: use it.",
)


class _ModelCommands(Commands):
    """Says what to type where the name of a model stands in place of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and shipped.find(args[0]) is not None:
            ctx.fail(f"{args[0]!r} is a model, not a command; did you mean: pointset models show {args[0]}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_ModelCommands, rich_markup_mode="rich")


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
def models(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the trained models that come with the package: what they predict, and how well."""
    if context.invoked_subcommand is not None:
        if as_json:
            raise typer.BadParameter(f"put the options after {context.invoked_subcommand!r}")
        return
    with reported_errors():
        cards = [shipped.card(name) for name in shipped.names()]
        if as_json:
            print_json(cards)
        else:
            _show_list(cards)


@app.command(cls=Command, no_args_is_help=True, epilog=SHOW_EXAMPLES)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model, as `pointset models` lists it.")],
    as_json: JsonFlag = False,
) -> None:
    """Print a model's card: what it predicts, data, licence, split, scores, domain, how it was trained."""
    with reported_errors():
        card = shipped.card(name)
        if as_json:
            print_json(card)
        else:
            _show_card(card)


def _show_list(cards: list[dict[str, Any]]) -> None:
    console = output_console()
    numbers = ("test", "forest", "size")
    table = plain_table(console, "model", "predicts", "", *numbers, numbers=numbers)
    for column in table.columns:
        column.no_wrap = column.header != "predicts"
    for card in cards:
        metric = card["metric"]
        table.add_row(
            Text(card["name"], style="bold"),
            f"{card['title']}{_unit(card, ' ({})')}",
            metric_named(metric).with_arrow,
            number(card["test"][metric], 3),
            number((card["forest"] or {}).get(metric), 3),
            byte_size(card["bytes"]),
        )
    console.print(table)
    console.print()
    for line in _NOTES:
        console.print(line, style="dim", markup=False)


def _unit(card: Mapping[str, Any], form: str) -> str:
    """The unit that all targets share, written into ``form``; nothing where there is none."""
    units = {target["unit"] for target in card["targets"]}
    return form.format(unit) if len(units) == 1 and (unit := units.pop()) else ""


def _show_card(card: Mapping[str, Any]) -> None:
    console = output_console()
    width = min(console.width, _WIDEST)
    console.print(Text.assemble((card["title"], "bold"), f" ({card['name']})"))
    console.print(Text(card["description"]), width=width)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for title, text in _lines(card):
        grid.add_row(title, Text(printable(text)))
    console.print(Padding(grid, (1, 0, 0, 0)), width=width)
    for command in card["use"]:
        console.print(command, style="bold", markup=False)


def _lines(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Title and text of each line."""
    for at, target in enumerate(card["targets"]):
        yield "" if at else "predicts", _target_line(card, target)
    yield "from", card["input"]
    data, split = card["data"], card["split"]
    yield "data", f"{data['title']}: {counted(data['graphs'], card['noun'])}, {data['source']}; {data['reference']}"
    yield "licence", data["licence"]
    sizes = ", ".join(f"{split[part]:,} {what}" for part, what in _PARTS.items() if split.get(part))
    yield "split", f"{split['how']}: {sizes}"
    yield from _score_lines(card)
    yield from _trust_lines(card)
    yield "limits", card["limits"]
    trained = f"{card['date']}, pointset {card['pointset']}, {duration(card['seconds'])} on {card['threads']} thread"
    yield "model", f"{card['model']}, {card['parameters']:,} parameters; {byte_size(card['bytes'])}"
    yield "trained", f"{trained}{'s' if card['threads'] > 1 else ''}; {card['command']}"
    yield "file", card["file"]


def _target_line(card: Mapping[str, Any], target: Mapping[str, str]) -> str:
    """``mu (D): dipole moment; test MAE 0.319``; of a single target without the score, which stands below."""
    unit = f" ({target['unit']})" if target["unit"] else ""
    meaning = f": {target['meaning']}" if target["meaning"] else ""
    if len(card["targets"]) == 1:
        return f"{target['name']}{unit}{meaning}"
    name, scores, paper = target["name"], card["per_target"], card["paper"] or {}
    told = f"; test {metric_label(scores['metric'])} {number(scores['test'][name], 3)}"
    if paper.get("per_target") and paper["metric"] == scores["metric"] and name in paper["per_target"]:
        told += f", the paper's {number(paper['per_target'][name], 3)}"
    return f"{name}{unit}{meaning}{told}"


_PARTS = {"train": "to train", "val": "to validate", "test": "to test"}


def _score_lines(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    main, unit = card["metric"], _unit(card, "{}")
    interval = card["test_interval"]

    def text(scores: Mapping[str, float | None]) -> str:
        first = [f"{metric_label(main)} {number(scores[main], 3)}{_with_unit(main, unit)}"]
        return ", ".join(first + [f"{metric_label(name)} {number(scores[name], 3)}" for name in scores if name != main])

    yield "test", text(card["test"])
    if interval is not None:
        yield "", f"{metric_label(main)} {with_interval(**interval)}: 95 %, over resamples of the test part"
    for title, known in (("forest", card["forest"]), ("mean", card["mean"])):
        if known is not None:
            yield title, text(known)
    if (paper := card["paper"]) is not None:
        told = f"{metric_label(paper['metric'])} {with_spread(paper['value'], paper['std'])}"
        score = "of each target" if paper["value"] is None else f"{told}{_with_unit(paper['metric'], unit)}"
        yield "paper", f"{score} ({paper['table']}). {paper['note']}".strip()


def _with_unit(metric: str, unit: str) -> str:
    shown = metric_unit(metric, unit)
    return f" {shown}" if shown else ""


def _trust_lines(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Calibration and domain, as far as the model has them."""
    calibration, domain = card["calibration"], card["domain"]
    if calibration is not None:
        sure = f"{100 * calibration['confidence']:.3g} % {calibration['kind']}"
        yield "calibration", f"{sure} hold {percent(calibration['coverage'])} of {calibration['rows']:,} test values"
    if domain is not None:
        low, high = domain["nodes"]
        near = domain["threshold"]
        others = counted(domain["references"], f"training {card['noun']}")
        alike = "" if near is None else f", similarity of at least {near:.2f} to one of {others}"
        share = domain["test_in_domain"]
        held = "" if share is None else f"; {percent(share)} of the test part are in it"
        yield "domain", f"{low:,} to {high:,} nodes{alike}{held}"
