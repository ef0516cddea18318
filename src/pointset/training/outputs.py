"""What a model gives for graphs (:func:`outputs_for`), and what a run keeps of it: predictions.csv, examples.json.

Examples are graphs to look at: the worst predictions, the learned functions f, attention. The report reads these as
plain values; it never needs the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Floats, Integers
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import TargetScale
from pointset.encoders.model import PointModel, evaluating, has_coordinates
from pointset.files import write_csv
from pointset.specs import Categories
from pointset.training.batches import evaluation_loader

if TYPE_CHECKING:  # loading a model takes as_predictions from here, and does without pydantic
    from pointset.training.data import TrainingData

_WORST = 6
_FUNCTION_GRAPHS = 24  # whose eigenvalues the functions are shown at
_CHANNELS = 6
_LARGEST_ATTENTION = 60  # nodes of the example graph: a matrix of more is not to be read
_LARGEST_DRAWN = 400
_DIGITS = 6


def outputs_for(
    model: PointModel, data: TrainingData, graphs: Integers, *, dtype: torch.dtype, rank: int = 0, processes: int = 1
) -> Tensor:
    """What the model gives for these graphs: (rows, out) float64 on the CPU, in their order, in the loss's units.

    Each process computes a block of consecutive graphs, and all processes get the whole.
    """
    block = np.array_split(graphs, processes)[rank]
    rows = torch.empty(0, data.card.outputs, dtype=torch.float64)
    if len(block):
        dim = 64 if model.settings is None else model.settings.dim
        loader = evaluation_loader(data.points, block, dim=dim, dtype=dtype)
        with evaluating(model):
            rows = torch.cat([model(batch).to("cpu", torch.float64) for batch in loader])
    if processes == 1:
        return rows
    gathered: list[Any] = [None] * processes
    torch.distributed.all_gather_object(gathered, rows)
    return torch.cat(gathered)


def as_predictions(outputs: Tensor, task: Task, scale: TargetScale | None = None) -> Tensor:
    """(rows, k) of a model → (rows, k): numbers, scaled back to the targets' units, or probabilities of logits."""
    if task is Task.REGRESSION:
        return outputs if scale is None else scale.restore(outputs)
    return torch.softmax(outputs, 1) if task is Task.MULTI_CLASS else torch.sigmoid(outputs)


def write_predictions(path: Path, data: TrainingData, graphs: Integers, outputs: Tensor) -> None:
    """A row for each graph, or for each node, from outputs (rows, k) in the targets' own units, or logits."""
    card = data.card
    targets, predicted = data.targets(graphs), as_predictions(outputs, card.task)
    names = card.target_names
    header = ["graph"] + ["node"] * (card.level is Level.NODE) + ["smiles"] * (data.dataset.smiles is not None)
    header += [*names, *(f"predicted_{name}" for name in names)]
    if card.task is Task.MULTI_CLASS:
        header += [f"probability_{name}" for name in card.classes]
        classes = [card.classes[number] for number in predicted.argmax(1).tolist()]
        true = [card.classes[number] if number >= 0 else "" for number in targets.tolist()]
        left = [list(pair) for pair in zip(true, classes, strict=True)]
    else:
        left = [[_number(value) for value in row] for row in targets.tolist()]
    rows = zip(_places(data, graphs), left, predicted.tolist(), strict=True)
    lines = ([*place, *start, *map(_number, numbers)] for place, start, numbers in rows)
    write_csv(path, chain([header], lines))


def _places(data: TrainingData, graphs: Integers) -> Iterator[Sequence[str | int]]:
    smiles = data.dataset.smiles
    for graph in graphs.tolist():
        text = [] if smiles is None else [smiles[graph]]
        if data.card.level is Level.NODE:
            yield from ([graph, node, *text] for node in range(int(data.dataset.arrays.num_nodes[graph])))
        else:
            yield [graph, *text]


def _number(value: float) -> str:
    return "" if value != value else f"{value:.9g}"


def examples_of(model: PointModel, data: TrainingData, graphs: Integers, outputs: Tensor) -> dict[str, Any]:
    """The content of ``examples.json``: of graphs (G,) of the test part, at least one, and the outputs (rows, k) of
    them in the targets' own units, or logits.
    """
    typical = graphs[np.argsort(data.points.num_nodes[graphs], kind="stable")]
    middle = typical[len(typical) // 2 :][:_FUNCTION_GRAPHS]
    looked_into = has_coordinates(model)
    return {
        "functions": _functions(model, data, middle) if looked_into else None,
        "attention": _attention(model, data, int(middle[0])) if looked_into else None,
        "worst": _worst(data, graphs, outputs),
    }


def _functions(model: PointModel, data: TrainingData, graphs: Integers) -> dict[str, Any]:
    """F at the eigenvalues of some graphs, for the channels that vary the most."""
    seen = [model.inspect(data.points[int(graph)]) for graph in graphs]
    eigenvalues = torch.cat([one.eigenvalues for one in seen])
    values = torch.cat([one.functions for one in seen])  # (Σ r, d)
    order = eigenvalues.argsort(stable=True)
    spread = values.std(0, correction=0) if len(values) else values.new_zeros(values.shape[1])
    channels = spread.argsort(descending=True, stable=True)[:_CHANNELS].sort().values
    return {
        "matrix": model.matrix,
        "channels": channels.tolist(),
        "eigenvalues": _rounded(eigenvalues[order]),
        "values": _rounded(values[order][:, channels]),
    }


def _attention(model: PointModel, data: TrainingData, graph: int) -> dict[str, Any] | None:
    if not 1 < data.points.num_nodes[graph] <= _LARGEST_ATTENTION:
        return None
    layers = model.inspect(data.points[graph]).attention
    if not layers:
        return None
    weights = [layer.abs().mean(0) for layer in layers]  # (n, n)
    busiest = int(weights[-1].clone().fill_diagonal_(0).sum(1).argmax())
    return {"graph": _drawn(data, graph), "layers": [_rounded(layer) for layer in weights], "node": busiest}


def _worst(data: TrainingData, graphs: Integers, outputs: Tensor) -> list[dict[str, Any]]:
    """The graphs with the largest error; of nodes, the mean over a graph counts, and its worst node is shown."""
    targets, predicted = data.targets(graphs), as_predictions(outputs, data.card.task)
    errors = _errors(data, targets, predicted)  # (rows,)
    nodes = data.points.num_nodes[graphs]
    counts = nodes if data.card.level is Level.NODE else np.ones_like(nodes)  # rows of each graph
    means = _means(errors, counts)
    order = np.argsort(-np.nan_to_num(means, nan=-1.0), kind="stable")
    chosen = [at for at in order.tolist() if nodes[at] <= _LARGEST_DRAWN and means[at] >= 0][:_WORST]
    starts = np.cumsum(counts) - counts
    shown = [starts[at] + np.nan_to_num(errors[starts[at] :][: counts[at]], nan=-1.0).argmax() for at in chosen]
    return [
        {
            "graph": _drawn(data, int(graphs[at])),
            "position": int(graphs[at]),
            "error": float(means[at]),
            "values": _values(data.card, targets[row], predicted[row]),
        }
        for at, row in zip(chosen, shown, strict=True)
    ]


def _errors(data: TrainingData, targets: Tensor, predicted: Tensor) -> Floats:
    """(rows,) |error| in standard deviations for numbers, 1 − p of the truth for classes; NaN: nothing is known."""
    if data.card.task is Task.MULTI_CLASS:
        of_truth = predicted.gather(1, targets.clamp(min=0)[:, None])[:, 0]
        return torch.where(targets < 0, torch.nan, 1 - of_truth).numpy()
    error = (predicted - targets).abs()
    return (error if data.scale is None else error / data.scale.std).nanmean(1).numpy()


def _means(errors: Floats, counts: Integers) -> Floats:
    """(rows,) → (G,) the mean over the known rows of each graph, which has ``counts`` of them; NaN without any."""
    graph = np.repeat(np.arange(len(counts)), counts)
    known = ~np.isnan(errors)
    sums = np.bincount(graph[known], weights=errors[known], minlength=len(counts))
    with np.errstate(invalid="ignore"):
        return sums / np.bincount(graph[known], minlength=len(counts))


def _values(card: Card, targets: Tensor, predicted: Tensor) -> list[dict[str, Any]]:
    """True and predicted values of one row: () and (classes,), otherwise (k,) each."""
    if card.task is Task.MULTI_CLASS:
        true, guess = card.classes[int(targets)], card.classes[int(predicted.argmax())]
        return [{"target": card.target_names[0], "true": true, "predicted": guess}]
    rows = zip(card.target_names, targets.tolist(), predicted.tolist(), strict=True)
    return [{"target": name, "true": true, "predicted": guess} for name, true, guess in rows]


def _drawn(data: TrainingData, graph: int) -> dict[str, Any]:
    """A graph as plain values."""
    one = data.dataset.arrays[graph]
    return {
        "name": f"graph {graph}",
        "num_nodes": one.num_nodes,
        "edges": one.edges.T.tolist(),
        "labels": _labels(data, graph),
        "smiles": None if data.dataset.smiles is None else data.dataset.smiles[graph],
    }


def _labels(data: TrainingData, graph: int) -> list[str] | None:
    """What the first column of node features says, by name."""
    card, x = data.card, data.dataset.arrays.features_of(graph).x
    if x is None or not isinstance(card.node, Categories) or not card.node_labels:
        return None
    names = card.node_labels[0]
    return [
        names[number] if 0 <= number < len(names) else str(number) for number in x.reshape(len(x), -1)[:, 0].tolist()
    ]


def _rounded(tensor: Tensor) -> Any:
    """Nested lists with few digits: the file is to be looked at, not computed with."""
    return tensor.to(torch.float64).numpy().round(_DIGITS).tolist()
