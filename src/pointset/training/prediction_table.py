"""predictions.csv: what was predicted for the test part beside what is true."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor

from pointset.datasets.card import Level, Task
from pointset.files import replacing
from pointset.points.graphs import Integers
from pointset.training.data import TrainingData
from pointset.training.prediction.answers import answers


def write_predictions(path: Path, data: TrainingData, graphs: Integers, outputs: Tensor) -> None:
    """A row for each graph, or for each node.

    Args:
        path: the file.
        data: the dataset, with targets and SMILES.
        graphs: (G,) indices of the graphs.
        outputs: (rows, k) numbers in the targets' own units, or logits.
    """
    card = data.card
    targets, predicted = data.targets(graphs), answers(outputs, card.task)
    names = card.target_names
    header = [*_places_header(data), *names, *(f"predicted_{name}" for name in names)]
    if card.task is Task.MULTI_CLASS:
        header += [f"probability_{name}" for name in card.classes]
        classes = [card.classes[number] for number in predicted.argmax(1).tolist()]
        true = [card.classes[number] if number >= 0 else "" for number in targets.tolist()]
        rows: Iterator[list[str]] = (
            [one, guess, *map(_number, probabilities)]
            for one, guess, probabilities in zip(true, classes, predicted.tolist(), strict=True)
        )
    else:
        rows = (
            [*map(_number, one), *map(_number, guess)]
            for one, guess in zip(targets.tolist(), predicted.tolist(), strict=True)
        )
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for place, row in zip(_places(data, graphs), rows, strict=True):
            writer.writerow([*place, *row])


def _places_header(data: TrainingData) -> list[str]:
    node = ["node"] if data.card.level is Level.NODE else []
    return ["graph", *node, *(["smiles"] if data.dataset.smiles is not None else [])]


def _places(data: TrainingData, graphs: Integers) -> Iterator[Sequence[str | int]]:
    smiles = data.dataset.smiles
    for graph in graphs.tolist():
        text = [] if smiles is None else [smiles[graph]]
        if data.card.level is Level.NODE:
            for node in range(int(data.dataset.arrays.num_nodes[graph])):
                yield [graph, node, *text]
        else:
            yield [graph, *text]


def _number(value: float) -> str:
    return "" if value != value else f"{value:.9g}"
