"""Train the models that the package ships, and pack each with its card into src/pointset/models/NAME.zip.

What a card says beyond what the run records (title, units, licence) stands in shipped_models.yaml, with the recipe
that the run is trained by. Runs that are finished are packed as they are; others are trained, or resumed. At the end
the table in docs/models.md is written again.

python benchmarks/shipped_models.py [NAME…] [--runs runs/models] [--run-dir RUN] [--data-dir DATA]
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset import models
from pointset.arrays import Floats
from pointset.datasets.card import Card
from pointset.datasets.loading import BENCHMARKS
from pointset.errors import SpecError, did_you_mean
from pointset.files import read_json
from pointset.metrics import Metric, metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import flattened, from_yaml, read_recipe
from pointset.runs.result import read_result
from pointset.text import byte_size, number
from pointset.training.baselines import FOREST, MEAN
from pointset.training.bundle import Bundle, read_bundle, write_bundle
from pointset.training.data import load_data
from pointset.training.outputs import neutral_of
from pointset.training.run import train
from pointset.training.uncertainty import Uncertainty

MOST_BYTES = 2_000_000
PAGE = Path(__file__).parents[1] / "docs" / "models.md"
_ENTRIES = Path(__file__).with_suffix(".yaml")
_FOLDER = Path(models.__file__).parent
_MARKS = "<!-- table of the models -->", "<!-- end of the table -->"
_DIGITS = 16
_MOLECULES = "SMILES, molecules of RDKit, or graphs with the same features"
_NOT_SETTINGS = ("name", "title", "expected", "trainer.threads")  # of a recipe: how, not what, is learned


def entries() -> dict[str, dict[str, Any]]:
    """What stands in shipped_models.yaml, by model."""
    return from_yaml(_ENTRIES.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def make(name: str, entry: Mapping[str, Any], folder: RunFolder, data_dir: Path | None) -> Path:
    """Train by the recipe unless that is done, and pack."""
    if entry.get("recipe") is None:
        raise SpecError(
            f"{_ENTRIES.name} names no recipe for {name!r} yet; write one that trains it, and name it there"
        )
    recipe = read_recipe(entry["recipe"])
    if not folder.is_finished:
        train(recipe, folder.path, resume=True, data_dir=data_dir)
    check_same_settings(folder, recipe)
    bundle, result = read_bundle(folder.bundle), read_result(folder.result)
    card = dataset_card(entry, bundle.card, recipe)
    about = {**bundle.about, "recipe": recipe.name, "settings": recipe.as_dict()}
    about["card"] = model_card(name, entry, recipe, card, bundle, result, folder)
    target = _FOLDER / f"{name}.zip"
    carried = ("scale", "weighted_edges", "edge_weight_offset", "molecule_reader", "neutral")
    others = {key: getattr(bundle, key) for key in carried}
    others["uncertainty"] = None if bundle.uncertainty is None else with_short_scores(bundle.uncertainty)
    if card.molecules is not None and bundle.neutral is None:  # of a run from before its molecules could be read
        others["neutral"] = neutral_of(bundle.model, load_data(recipe, data_dir))
    write_bundle(target, bundle.models, card, **others, about=about)
    if (size := target.stat().st_size) > MOST_BYTES:
        target.unlink()
        raise SpecError(f"{name} would have {size:,} bytes; expected at most {MOST_BYTES:,}. Make the model smaller")
    return target


def with_short_scores(found: Uncertainty) -> Uncertainty:
    """The same with scores of 16 binary digits, whose zeros deflate: of twelve targets they took most of the file.

    They are rounded up, so that intervals hold the truth as often as before; they become wider by 0.003 % at most.
    """

    def shortened(target: Any) -> Any:
        if target is None:
            return None
        scores = tuple(dataclasses.replace(one, kept=_rounded_up(one.kept)) for one in target.scores)
        return dataclasses.replace(target, scores=scores)

    return dataclasses.replace(found, targets=tuple(map(shortened, found.targets)))


def _rounded_up(values: Floats) -> Floats:
    digits, exponents = np.frexp(values)
    return np.asarray(np.ldexp(np.ceil(digits * 2**_DIGITS) / 2**_DIGITS, exponents))


def check_same_settings(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse a run of other settings than those of the recipe that is to be named on the card."""
    if lines := different_settings(read_recipe(folder.recipe), recipe):
        raise SpecError(
            f"the run in {folder.path} was not trained by the recipe {recipe.name!r}:\n"
            + "\n".join(f"  {line}" for line in lines)
            + f"\nWrite its settings as a recipe into src/pointset/runs/recipes/, and name that in {_ENTRIES.name}"
        )


def different_settings(run: Recipe, recipe: Recipe) -> list[str]:
    """A line for each setting in which a run differs from a recipe: of what is learned, not of how it is described."""
    first, second = flattened(run.as_dict()), flattened(recipe.as_dict())
    return [
        f"{key}: {first.get(key)!r}, the recipe has {second.get(key)!r}"
        for key in {**first, **second}
        if first.get(key) != second.get(key) and not {key, key.partition(".")[0]} & set(_NOT_SETTINGS)
    ]


def dataset_card(entry: Mapping[str, Any], card: Card, recipe: Recipe) -> Card:
    """The card in the bundle with the data's title, units and meanings of targets, and how SMILES are read."""
    told = entry.get("targets") or {}
    if strange := set(told) - set(card.target_names):
        raise SpecError(f"{_ENTRIES.name} names the targets {strange}; expected some of {', '.join(card.target_names)}")
    targets = tuple(dataclasses.replace(target, **told.get(target.name, {})) for target in card.targets)
    name, title = recipe.dataset.name, data_facts(entry, recipe)["title"]
    molecules = card.molecules if name is None else BENCHMARKS[name].card.molecules
    return dataclasses.replace(card, targets=targets, title=title, molecules=molecules)


def data_facts(entry: Mapping[str, Any], recipe: Recipe) -> dict[str, str]:
    """Title, source, licence and reference: of the entry, or of the benchmark's card."""
    found: dict[str, str] = {}
    if recipe.dataset.name is not None:
        known = BENCHMARKS[recipe.dataset.name].card
        found = {key: getattr(known, key) for key in ("title", "source", "licence", "reference")}
    return {**found, **entry.get("data", {})}


def model_card(
    name: str,
    entry: Mapping[str, Any],
    recipe: Recipe,
    card: Card,
    bundle: Bundle,
    result: Mapping[str, Any],
    folder: RunFolder,
) -> dict[str, Any]:
    """What ``pointset models show`` prints besides what :func:`pointset.models.derived` says; None where there is
    nothing to say.
    """
    environment, recorded = read_json(folder.environment), result["metric"]
    baselines = result["baselines"]
    per_target = {target: scores[recorded] for target, scores in result["per_target"].items()}
    same_unit = len({target.unit for target in card.targets}) == 1
    metric = recorded if same_unit or not metric_named(recorded).has_unit else Metric.NORMALISED_MAE.value
    return {
        "name": name,
        "title": entry["title"],
        "description": entry["description"],
        "input": _MOLECULES if card.molecules else entry["input"],
        "data": {
            **data_facts(entry, recipe),
            "file": recipe.dataset.file,
            "graphs": sum(result["split_sizes"].values()),
            "left_out": result["left_out"],
            "sha256": environment["data"]["sha256"],
        },
        "split": {"how": read_json(folder.split)["made_by"], **result["split_sizes"]},
        "metric": metric,
        "test_interval": (result["parts"].get("test") or {}).get(metric),
        "per_target": {"metric": recorded, "test": per_target},
        "forest": (baselines.get(FOREST) or {}).get("test"),
        "mean": (baselines.get(MEAN) or {}).get("test"),
        "paper": _paper(entry, recipe, card),
        "limits": entry["limits"],
        "parameters": result["parameters"],
        "seconds": result["seconds"],
        "threads": environment["threads"],
        "date": environment["started"].partition("T")[0],
        "pointset": environment["pointset"],
        "calibration": _calibration(result.get("calibration")),
        "domain": result.get("domain"),
        "use": _commands(name, card),
    }


def _commands(name: str, card: Card) -> list[str]:
    """What to type first."""
    if card.molecules is None:
        return [f"pointset predict {name} graphs.g6 -o out.csv"]
    target = f" --target {card.target_names[0]}" if len(card.targets) > 1 else ""
    commands = [f"pointset predict {name} my.csv -o out.csv", f"pointset explain {name} CCO{target}"]
    if card.molecules == "ogb":  # tables are read with these features
        commands.append(f"pointset evaluate {name} --file measured.csv")
    return commands


def _paper(entry: Mapping[str, Any], recipe: Recipe, card: Card) -> dict[str, Any] | None:
    """The paper's score on this data: of the recipe, of another that the entry names, or of one for each target."""
    name = entry.get("paper")
    found = recipe.expected if name is None else read_recipe(name.format(target=card.target_names[0])).expected
    if found is None:
        return None
    plain = found.model_dump(include={"metric", "value", "std", "table", "note", "per_target"})
    if name is None or "{target}" not in name:
        return plain
    each = {target: read_recipe(name.format(target=target)).expected for target in card.target_names}
    values = {target: expected.value for target, expected in each.items() if expected is not None}
    return plain | {"value": None, "std": None, "per_target": values}


def _calibration(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """How often intervals or sets hold the truth on the test part, over all targets."""
    known = [one for one in (found or {}).get("per_target", {}).values() if one["rows"] and one["coverage"] is not None]
    if found is None or not known:
        return None
    rows = sum(one["rows"] for one in known)
    coverage = sum(one["coverage"] * one["rows"] for one in known) / rows
    return {"confidence": found["confidence"], "kind": found["kind"], "coverage": coverage, "rows": rows}


def table(cards: Sequence[Mapping[str, Any]]) -> str:
    """The table of docs/models.md."""
    lines = ["| name | predicts | data, licence | test | forest | paper | parameters | size |", "|---|" + "---|" * 7]
    for card in cards:
        metric, data = metric_named(card["metric"]), card["data"]
        units = {target["unit"] for target in card["targets"]}
        unit = f", {units.pop()}" if len(units) == 1 and units != {""} else ""
        forest, paper = card["forest"], card["paper"]
        cells = (
            f"`{card['name']}`",
            f"{card['title']}{unit}",
            f"{data['title']}, {data['graphs']:,} {card['noun']}s; {data['licence']}",
            f"{metric.short} {number(card['test'][metric], 3)}",
            number(forest[metric], 3) if forest else "–",
            number(paper["value"] if paper and paper["metric"] == metric else None, 3),
            f"{card['parameters']:,}",
            byte_size(card["bytes"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(page: str, cards: Sequence[Mapping[str, Any]]) -> str:
    """The page with the table between its marks."""
    before, _, rest = page.partition(_MARKS[0])
    return f"{before}{_MARKS[0]}\n{table(cards)}\n{_MARKS[1]}{rest.partition(_MARKS[1])[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; by default all")
    parser.add_argument("--runs", type=Path, default=Path("runs/models"), help="where their runs are, or are trained")
    parser.add_argument("--run-dir", type=Path, help="the run of the one model named")
    parser.add_argument("--data-dir", type=Path, help="the folder of the data; by default what POINTSET_DATA names")
    arguments = parser.parse_args()
    known = entries()
    names = arguments.names or [name for name, entry in known.items() if entry.get("recipe") is not None]
    if arguments.run_dir is not None and len(names) != 1:
        parser.error("--run-dir is about one model: name it")
    for name in names:
        if name not in known:
            parser.error(f"there is no model {name!r} in {_ENTRIES.name}{did_you_mean(name, list(known))}")
        folder = RunFolder(arguments.run_dir or arguments.runs / name)
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        file = make(name, known[name], folder, arguments.data_dir)
        print(f"{folder.path} → {file} ({byte_size(file.stat().st_size)})")
    cards = [models.card(name) for name in models.names()]
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), cards), encoding="utf-8")


if __name__ == "__main__":
    main()
