"""What ``pointset datasets verify`` does and prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.cli.console import output_console, plain_table
from pointset.cli.messages import load_torch, printable, say, show_error
from pointset.datasets import catalogue
from pointset.datasets.locate import find
from pointset.datasets.sources import Benchmark
from pointset.errors import MissingDataError

if TYPE_CHECKING:
    from rich.text import Text

    from pointset.datasets.verification import Verification

_MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("·", "yellow")}


@dataclass
class Outcome:
    """What was compared, and what could not be."""

    verified: list[Verification] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # name → what to put where
    absent: list[str] = field(default_factory=list)  # left out of --all

    @property
    def holds(self) -> bool:
        """Whether all that was asked for is there and nothing differs."""
        return not self.missing and all(one.holds for one in self.verified)

    def as_dict(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        return {
            "holds": self.holds,
            "datasets": [one.as_dict() for one in self.verified],
            "missing": [{"name": name, "message": message} for name, message in self.missing.items()],
            "not_here": self.absent,
        }


def verify_all(chosen: Sequence[Benchmark], data_dir: Path | None, *, download: bool, quiet: bool) -> Outcome:
    """Verify these, or where none is chosen all that are on this machine; print each as it is done unless quiet."""
    outcome = Outcome()
    for benchmark in chosen or catalogue.BENCHMARKS.values():
        fetched = download and any(source.downloads for source in benchmark.sources)
        if not chosen and not fetched and find(benchmark, data_dir) is None:
            outcome.absent.append(benchmark.card.name)
            continue
        _verify_one(benchmark, data_dir, download, outcome, quiet)
    if outcome.absent and not quiet:
        say(f"Not here, so not verified: {', '.join(outcome.absent)}", style="dim")
    return outcome


def _verify_one(benchmark: Benchmark, data_dir: Path | None, download: bool, outcome: Outcome, quiet: bool) -> None:
    load_torch()
    from pointset.datasets.verification import verify

    try:
        done = verify(benchmark.card.name, data_dir, download=download)
    except MissingDataError as error:
        outcome.missing[benchmark.card.name] = str(error)
        show_error(str(error))
        return
    outcome.verified.append(done)
    if not quiet:
        show_verification(done)


def show_verification(done: Verification) -> None:
    """Print what was compared, row by row."""
    from rich.text import Text

    console = output_console()
    where = f"from the {done.origin}" if done.from_files else done.origin
    console.print(Text.assemble((done.name, "bold"), printable(f": {done.title}, {where} ({done.source})")))
    table = plain_table(console)
    table.add_column("", no_wrap=True)
    for title in ("compared", "found", "expected"):
        table.add_column(title, overflow="fold")
    for check in done.checks:
        mark, style = _MARKS[check.holds]
        found = Text(printable(check.found), style=style if check.holds is False else "")
        table.add_row(Text(mark, style=style), Text(printable(check.what)), found, Text(printable(check.expected)))
    console.print(table)
    for check in done.checks:
        if check.note:
            note = Text(f"{check.what}: {printable(check.note)}", style="red" if check.holds is False else "yellow")
            console.print(note, soft_wrap=not console.is_terminal)
    console.print(_verdict(done))
    console.print()


def _verdict(done: Verification) -> Text:
    from rich.text import Text

    outcomes = [check.holds for check in done.checks]
    if differing := outcomes.count(False):
        return Text(f"✗ {done.name}: {differing} of {len(outcomes)} differ", style="bold red")
    open_questions = outcomes.count(None)
    rest = f"; {open_questions} for your information (·)" if open_questions else ""
    return Text(f"✓ {done.name}: nothing differs{rest}", style="green")
