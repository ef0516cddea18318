"""A table of its own, and runs of it that are finished without having been trained, for the tests of reproduction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pointset.files import write_json
from pointset.paper.tables.collect import TableFolder
from pointset.paper.tables.plan import PlannedRun
from tests.small_training import edge_counts, write_graphs

TABLE = """
name: tiny
title: Edges of small graphs
paper_table: Table 99
columns:
  - {{key: edges, title: edges, factor: 10.0, digits: 2}}
paper:
  - {{title: PST, values: 0.50±0.10}}
  - {{title: other, values: "0.70"}}
tasks:
  - {{name: own, recipe: "{recipe}", metric: mae, columns: [edges]}}
ours:
  - {{name: pst, title: PST, counterpart: PST}}
  - {{name: gin, title: GIN, model: gin, as_large_as: pst}}
  - {{name: broken, title: broken, only: [full], set: {{optimizer.lr: 1e30, optimizer.clip: null}}}}
budgets:
  small: {{scope: Two epochs., seeds: 2}}
  full: {{scope: Two epochs and a row that cannot learn.}}
"""


def write_table(folder: Path) -> Path:
    """The table's YAML, beside its data and recipe."""
    recipe = folder / "small.yaml"
    recipe.write_text(write_graphs(folder / "data", edge_counts()).as_yaml(), encoding="utf-8")
    path = folder / "tiny.yaml"
    path.write_text(TABLE.format(recipe=recipe), encoding="utf-8")
    return path


def finish(folder: TableFolder, run: PlannedRun, score: float = 0.25, **environment: Any) -> None:
    """What a finished training leaves that a table is made of."""
    there = folder.run(run)
    there.path.mkdir(parents=True)
    there.recipe.write_text(run.recipe.as_yaml(), encoding="utf-8")
    there.metrics.write_text(f"epoch,val_mae\n1,0.5\n2,{score}\n", encoding="utf-8")
    write_json(there.environment, environment)
    result = {
        "task": "regression",
        "metric": "mae",
        "higher_is_better": False,
        "test": {"mae": score},
        "per_target": {},
        "model": run.recipe.model.model_dump(mode="json"),
        "expected": None,
        "best_epoch": 2,
        "epochs": 2,
        "parameters": 100,
        "seconds": 1.5,
        "test_scored": "once",
    }
    write_json(there.result, result)
