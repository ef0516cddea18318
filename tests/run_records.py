"""Small run folders of every kind of task, as training writes them, made without training (:func:`make_run`)."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import yaml
from numpy.typing import NDArray

REGRESSION, BINARY = "regression", "binary classification"
MULTI_CLASS, MULTI_LABEL = "multi-class classification", "multi-label classification"
TASKS = {"regression": REGRESSION, "binary": BINARY, "classes": MULTI_CLASS, "labels": MULTI_LABEL}
METRICS = {REGRESSION: "mae", BINARY: "roc_auc", MULTI_CLASS: "macro_f1", MULTI_LABEL: "average_precision"}
Floats = NDArray[np.float64]
Row = list[Any]

LABELS = ["C", "C", "N", "O", "C", "C", "S", "C", "F", "C", "C", "O", "C", "N", "C", "C", "C", "O", "C", "Cl"]


def make_run(
    folder: Path,
    task: str = REGRESSION,
    *,
    targets: Sequence[str] = ("y",),
    classes: Sequence[str] = (),
    rows: int = 300,
    epochs: int = 40,
    level: str = "graph",
    seed: int = 0,
    smiles: bool = False,
    drawn: bool = False,
    recipe: Mapping[str, Any] | None = None,
    result: Mapping[str, Any] | None = None,
) -> Path:
    """Write the folder of a finished run.

    Args:
        folder: where; it is made.
        task: a value of ``pointset.datasets.card.Task``.
        targets: their names.
        classes: their names, of a multi-class task.
        rows: of predictions.csv.
        epochs: of metrics.csv.
        level: graph or node.
        seed: of everything random, and the recipe's.
        smiles: whether predictions have a column of them.
        drawn: whether there are example graphs; drawing them takes most of the time that a small report takes.
        recipe: keys that replace those of recipe.yaml.
        result: keys that replace those of result.json.
    """
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    metric = METRICS[task]
    settings: dict[str, Any] = {
        "name": "example", "title": "An example", "dataset": {"name": "something", "fold": None},
        "model": {"preset": "pst", "dim": 32, "layers": 4, "pooling": "mean"},
        "optimizer": {"lr": 0.001, "weight_decay": 0.1, "clip": 1.0},
        "schedule": {"shape": "anneal", "warmup": 5, "cosine": 10},
        "trainer": {"epochs": epochs, "batch_size": 64}, "seed": seed, "metric": metric,
    }  # fmt: skip
    (folder / "recipe.yaml").write_text(yaml.safe_dump(settings | dict(recipe or {}), sort_keys=False))
    best = write_metrics(folder / "metrics.csv", metric, epochs, random)
    score = write_predictions(folder / "predictions.csv", task, targets, classes, rows, level, smiles, random)
    if drawn:
        write_json(folder / "examples.json", examples(targets, random))
    write_json(
        folder / "environment.json",
        {
            "pointset": "0.1.0", "python": "3.11.2", "packages": {"torch": "2.13.0", "rdkit": None},
            "machine": {"processor": "a processor", "cores": 2, "memory_bytes": 16 * 10**9},
            "git_commit": "0123456789abcdef", "command": ["pointset", "train", "example"],
            "started": "2026-11-16T05:56:00+00:00",
        },
    )  # fmt: skip
    content = {
        "recipe": "example", "title": "An example", "dataset": {"name": "something", "title": "Some graphs"},
        "task": task, "level": level, "metric": metric, "higher_is_better": metric != "mae",
        "test": {metric: score}, "val": {metric: score * 0.97},
        "per_target": {name: {metric: score} for name in targets},
        "best_epoch": best, "epochs": epochs, "parameters": 123_456, "seconds": 754.3, "graphs_per_second": 812.4,
        "peak_memory_bytes": 1_234_000_000, "seed": seed, "fold": None, "expected": None,
        "units": dict.fromkeys(targets, ""), "classes": list(classes),
        "split_sizes": {"train": 8 * rows, "val": rows, "test": rows},
        "test_scored": "once, at the end, with the weights of the best epoch by validation",
    }  # fmt: skip
    write_json(folder / "result.json", content | dict(result or {}))
    return folder


MOLECULES = [
    "CCO",
    "c1ccccc1C(=O)O",
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C#N",
    "O=S(=O)(N)c1ccccc1",
]


def make_chemists_run(folder: Path, task: str = REGRESSION, *, rows: int = 120, **options: Any) -> Path:
    """The same of molecules in a table of one's own, with all that a run knows of how sure it is."""
    random = np.random.default_rng(7)
    recipe = {"dataset": {"file": "somewhere/delaney.csv"}} | dict(options.pop("recipe", None) or {})
    targets = options.setdefault("targets", ["logS"])
    make_run(folder, task, rows=rows, smiles=True, drawn=True, recipe=recipe, **options)
    with (folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
        header, *table = list(csv.reader(file))
    similarity = random.uniform(0.1, 1.0, rows).round(3)
    extra: dict[str, Any] = {}
    for target in targets if task == REGRESSION else ():
        predicted = np.array([float(row[header.index(f"predicted_{target}")]) for row in table])
        std = 0.4 + 0.5 * (1 - similarity)
        extra |= {f"lower_{target}": predicted - 1.645 * std, f"upper_{target}": predicted + 1.645 * std}
        extra[f"std_{target}"] = std
    extra |= {"similarity": similarity, "in_domain": ["no" if one < 0.25 else "yes" for one in similarity]}
    wider = [row + [column[at] for column in extra.values()] for at, row in enumerate(table)]
    write_csv(folder / "predictions.csv", [*header, *extra], wider)
    content = json.loads((folder / "result.json").read_text())
    metric, score = content["metric"], next(iter(content["test"].values()))
    parts = {
        part: {metric: {"value": value, "lower": 0.9 * value, "upper": 1.1 * value}}
        for part, value in (("train", 0.5 * score), ("val", 0.95 * score), ("test", score))
    }
    baselines = {"ecfp forest": {"val": {metric: 0.7 * score}, "test": {metric: 0.8 * score}, "seconds": 3.2}}
    baselines["mean"] = {"val": {metric: 2.0 * score}, "test": {metric: 2.1 * score}, "seconds": 0.0}
    covered = {target: {"coverage": 0.883, "width": 1.9, "rows": rows} for target in targets}
    content |= {
        "parts": parts, "part_graphs": {"train": 5 * rows, "val": rows, "test": rows}, "left_out": 3,
        "baselines": baselines, "calibration": {"confidence": 0.9, "per_target": covered},
        "domain": {"threshold": 0.25, "references": 8 * rows, "test_in_domain": 0.9},
        "warnings": ["2 molecules occur twice with different values: the mean was taken."],
        "units": dict.fromkeys(targets, "log mol/L"),
    }  # fmt: skip
    write_json(folder / "result.json", content)
    examples = json.loads((folder / "examples.json").read_text())
    worst = examples["worst"][:1] * len(MOLECULES)
    examples["worst"] = [
        one | {"graph": {**one["graph"], "smiles": smiles}, "position": at}
        for at, (one, smiles) in enumerate(zip(worst, MOLECULES, strict=True))
    ]
    examples["worst"][0]["contributions"] = {
        "target": targets[0], "atoms": [-0.4, 0.1, 0.8], "bonds": [[0, 1, 0.2], [1, 2, -0.1]],
        "output": 4.125, "baseline": 2.5,
    }  # fmt: skip
    examples["typical"] = [examples["worst"][2] | {"position": 17}]
    write_json(folder / "examples.json", examples)
    return folder


def make_several(folder: Path, seeds: Iterable[int], **options: Any) -> Path:
    """Write a folder of several seeds."""
    seeds = list(seeds)
    runs = [make_run(folder / f"seed-{seed}", seed=seed, **options) for seed in seeds]
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    metric = results[0]["metric"]
    values = [result["test"][metric] for result in results]
    spread = {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)), "values": values}
    summary = {"runs": [run.name for run in runs], "test": {metric: spread}, "per_target": {}}
    kept = ("metric", "higher_is_better", "expected", "recipe", "title")
    write_json(folder / "result.json", summary | {key: results[0][key] for key in kept})
    return folder


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_metrics(path: Path, metric: str, epochs: int, random: np.random.Generator) -> int:
    """Curves that fall, or rise, with noise; returns the best epoch."""
    progress = np.arange(1, epochs + 1)
    noise = np.exp(0.08 * random.standard_normal((2, epochs)))
    loss, error = (0.9 * np.exp(-progress / (0.3 * epochs)) + 0.02) * noise
    values = error if metric == "mae" else 1 - 0.6 * error
    rate = 1e-3 * np.minimum(progress / 5, 1) * (1 + np.cos(np.pi * np.maximum(progress / epochs - 0.75, 0) * 4)) / 2
    rows = [
        [number, rate[index], loss[index], values[index], 3.2, 812.4] for index, number in enumerate(progress.tolist())
    ]
    write_csv(path, ["epoch", "lr", "train_loss", f"val_{metric}", "seconds", "graphs_per_second"], rows)
    return int(np.argmin(values) if metric == "mae" else np.argmax(values)) + 1


def write_predictions(
    path: Path, task: str, targets: Sequence[str], classes: Sequence[str], rows: int, level: str, smiles: bool,
    random: np.random.Generator,
) -> float:  # fmt: skip
    """Predictions that are mostly right; returns a believable score."""
    places = [[row // 20, row % 20] if level == "node" else [row] for row in range(rows)]
    header = ["graph", *(["node"] if level == "node" else []), *(["smiles"] if smiles else [])]
    header += [*targets, *(f"predicted_{target}" for target in targets)]
    molecules = [["CCO" if row % 2 else "c1ccccc1"] if smiles else [] for row in range(rows)]
    if task == MULTI_CLASS:
        true = random.integers(len(classes), size=rows)
        guess = np.where(random.random(rows) < 0.75, true, random.integers(len(classes), size=rows))
        share = [f"{0.8 if i == 0 else 0.2 / max(len(classes) - 1, 1):.3f}" for i in range(len(classes))]
        values: list[Row] = [[classes[t], classes[g], *share] for t, g in zip(true, guess, strict=True)]
        header += [f"probability_{name}" for name in classes]
        score = float((true == guess).mean())
    elif task == REGRESSION:
        numbers = random.gamma(2.0, 3.0, (rows, len(targets)))
        guesses = numbers + 0.6 * random.standard_normal(numbers.shape)
        values = np.concatenate([numbers, guesses], axis=1).round(6).tolist()
        score = float(np.abs(numbers - guesses).mean())
    else:
        answers = (random.random((rows, len(targets))) < 0.3).astype(int)
        probability = 1 / (1 + np.exp(-(3.0 * answers - 1.5 + 1.4 * random.standard_normal(answers.shape))))
        values = [[*true, *guess] for true, guess in zip(answers.tolist(), probability.round(6).tolist(), strict=True)]
        score = 0.913
    rows_of_file = [place + text + row for place, text, row in zip(places, molecules, values, strict=True)]
    write_csv(path, header, rows_of_file)
    return score


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row] for row in rows)


def examples(targets: Sequence[str], random: np.random.Generator) -> dict[str, Any]:
    """examples.json: two graphs, f of five channels, attention of three layers."""
    graphs = [_graph(nx.random_labeled_tree(6 + 2 * i, seed=i), f"graph {17 * i}") for i in range(2)]
    values = [{"target": name, "true": 3.25, "predicted": 4.125 + i} for i, name in enumerate(targets)]
    worst = [
        {"graph": graph, "position": 17 * i, "error": 2.5 - i / 4, "values": values} for i, graph in enumerate(graphs)
    ]
    eigenvalues = np.sort(random.uniform(0.05, 8.0, 120))
    functions = np.stack([np.sin(eigenvalues / (c + 1)) + 0.1 * c * eigenvalues for c in range(5)], axis=1)
    example = nx.connected_caveman_graph(2, 4)
    hops = np.asarray(nx.floyd_warshall_numpy(example))
    layers = [np.exp(-hops / (layer + 1)).round(4).tolist() for layer in range(3)]
    attention = {"graph": _graph(example, "graph 5"), "layers": layers, "node": 3}
    shown = {"matrix": "laplacian", "channels": [1, 3, 8, 13, 21]}
    lines = {"eigenvalues": eigenvalues.round(6).tolist(), "values": functions.round(6).tolist()}
    return {"functions": shown | lines, "attention": attention, "worst": worst}


def _graph(graph: nx.Graph[int], name: str) -> dict[str, Any]:
    n = graph.number_of_nodes()
    labels = [LABELS[node % len(LABELS)] for node in range(n)]
    edges = [[int(a), int(b)] for a, b in graph.edges]
    return {"name": name, "num_nodes": n, "edges": edges, "labels": labels, "smiles": None}
