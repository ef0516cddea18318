"""Plain facts of a run: time and memory, the split, the machine, and the commands to run it again."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.words import duration, memory, number

_PARTS = {"train": "to learn from", "val": "to choose the epoch", "test": "to test"}
_HARMLESS = ("seed", "title", "dataset.fold", "trainer.workers", "trainer.threads", "trainer.checkpoint_minutes")


def timings(run: RunRecord) -> list[tuple[str, str]]:
    """(name, value) of what is known."""
    result = run.result
    facts: list[tuple[str, str]] = []
    seconds = run.epochs.get("seconds", np.zeros(0))
    speeds = run.epochs.get("graphs_per_second", np.zeros(0))
    if result is not None and result.seconds is not None:
        facts.append(("time in all", duration(result.seconds)))
    if np.isfinite(seconds).any():
        facts.append(("time of an epoch, median", duration(float(np.nanmedian(seconds)))))
    if result is not None and result.graphs_per_second is not None:
        facts.append(("graphs a second, training", number(result.graphs_per_second)))
    elif np.isfinite(speeds).any():
        facts.append(("graphs a second, training", number(float(np.nanmedian(speeds)))))
    if result is not None:
        if result.peak_memory_bytes is not None:
            facts.append(("most memory in use", memory(result.peak_memory_bytes)))
        if result.parameters is not None:
            facts.append(("parameters", f"{result.parameters:,}"))
        if result.epochs is not None:
            facts.append(("epochs", f"{result.epochs:,}"))
        for part, size in result.split_sizes.items():
            facts.append((f"graphs {_PARTS.get(part, part)}", f"{size:,}"))
    return facts


def environment(run: RunRecord) -> list[tuple[str, str]]:
    """(name, value) of versions and the machine, in the order of the file; groups are taken apart."""
    facts = []
    for key, value in run.environment.items():
        group = value if isinstance(value, dict) else {key: value}
        facts += [
            (name.removesuffix("_bytes").replace("_", " "), _plain(name, part))
            for name, part in group.items()
            if part is not None
        ]
    return facts


def commands(run: RunRecord) -> list[tuple[str, str]]:
    """(what it does, command line)."""
    folder = str(run.folder)
    quoted, again = shlex.quote(folder), shlex.quote(f"{folder}-again")
    recipe = shlex.quote(str(run.folder / "recipe.yaml"))
    if run.result is None:
        return [("Go on where it stopped", f"pointset train {recipe} --run-dir {quoted} --resume")]
    predictions = run.predictions
    source = "input.csv" if predictions is not None and predictions.has_smiles else "graphs.graphml"
    return [
        ("Train again, to the same weights on the same machine", f"pointset train {recipe} --run-dir {again}"),
        ("Predict for data of your own", f"pointset predict {quoted} {source} -o out.csv"),
        ("Write this report anew", f"pointset report {quoted}"),
        ("Use the model in Python", f"model = pointset.load({folder!r})"),
    ]


def changed_settings(run: RunRecord) -> list[str]:
    """``key=value`` as given to ``pointset train``, which the run remembers, except what does not change the result."""
    command = run.environment.get("command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    pairs = [word.partition("=") for word in words if "=" in word and not word.startswith("-")]
    return [f"{key}={value}" for key, _, value in pairs if _is_setting(key, run.recipe_values)]


def _is_setting(key: str, recipe: dict[str, Any]) -> bool:
    group, _, rest = key.partition(".")
    return group in recipe and (not rest or isinstance(recipe[group], dict)) and key not in _HARMLESS


def _plain(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " ".join(shlex.quote(str(part)) for part in value)
    if name.endswith("_bytes") and isinstance(value, int | float):
        return memory(value)
    return str(value)
