"""What a model gives for graphs (:func:`outputs_for`), and what a run keeps of it: predictions.csv, examples.json.

Examples are graphs to look at: the worst predictions, the learned functions f, attention. The report reads these as
plain values; it never needs the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pointset.arrays import Floats, Integers
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import TargetScale
from pointset.datasets.molecules.descriptors import descriptors_by_atom
from pointset.datasets.molecules.reader import text_in_order
from pointset.encoders.attributions import Neutral, Score, contributions, mean_contributions
from pointset.encoders.model import PointModel, evaluating, has_coordinates
from pointset.files import write_csv
from pointset.specs import Categories
from pointset.training.batches import evaluation_loader

if TYPE_CHECKING:  # loading a model takes as_predictions from here, and does without pydantic
    from pointset.training.data import TrainingData

_WORST = 6
_TYPICAL = (0.25, 0.5, 0.75)  # quantiles of the error
_LARGEST_EXPLAINED = 150  # atoms
_AVERAGED_GRAPHS = 20_000  # of whose features the averages are taken
_FUNCTION_GRAPHS = 24  # whose eigenvalues the functions are shown at
_CHANNELS = 6
_LARGEST_ATTENTION = 60  # nodes of the example graph: a matrix of more is not to be read
_LARGEST_DRAWN = 400
_LARGEST_LOOKED_INTO = 1_000
_DIGITS = 6


def outputs_for(
    model: PointModel,
    data: TrainingData,
    graphs: Integers,
    *,
    dtype: torch.dtype,
    rank: int = 0,
    processes: int = 1,
    each_batch: Callable[[], None] = lambda: None,
) -> Tensor:
    """What the model gives for these graphs: (rows, out) float64 on the CPU, in their order, in the loss's units.

    Each process computes a block of consecutive graphs, and all processes get the whole. ``each_batch`` is called
    before each batch, and may raise.
    """
    block = np.array_split(graphs, processes)[rank]
    rows = torch.empty(0, data.card.outputs, dtype=torch.float64)
    if len(block):
        dim = 64 if model.settings is None else model.settings.dim
        loader = evaluation_loader(data.points, block, dim=dim, dtype=dtype)
        with evaluating(model):
            outputs, done = [], 0
            for batch in loader:
                each_batch()
                some = block[done : done + batch.num_graphs]
                pairs = None if data.links is None else data.links.asked(some)[0]
                outputs.append(model(batch, pairs=pairs).to("cpu", torch.float64))
                done += len(some)
            rows = torch.cat(outputs)
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


def mean_outputs(members: Tensor, task: Task) -> Tensor:
    """(members, rows, k) of an ensemble → (rows, k) outputs that stand for the mean of its predictions.

    Of numbers the mean; of logits those of the members' mean probability p̄: log p̄ of classes, log p̄ / (1 − p̄) of
    labels, computed from logarithms, so that no certain member gives an infinite number.
    """
    if len(members) == 1:
        return members[0]
    if task is Task.REGRESSION:
        return members.mean(0)
    if task is Task.MULTI_CLASS:
        return torch.log_softmax(members, 2).logsumexp(0) - math.log(len(members))
    return logsigmoid(members).logsumexp(0) - logsigmoid(-members).logsumexp(0)


class Column(NamedTuple):
    """A column of a table of predictions: of numbers, of yes or no, or of sets of these classes."""

    name: str
    classes: tuple[str, ...] = ()
    flag: bool = False

    @property
    def width(self) -> int:
        """How many numbers stand for it."""
        return max(len(self.classes), 1)

    def cell(self, numbers: Sequence[float]) -> str:
        """Its text, such as ``1.25``, ``yes`` or ``0|1``; empty where nothing is known."""
        if any(map(math.isnan, numbers)):
            return ""
        if self.classes:
            return "|".join(compress(self.classes, numbers))
        return ("yes" if numbers[0] else "no") if self.flag else f"{numbers[0]:.6g}"


def cells(columns: Sequence[Column], numbers: Sequence[float]) -> list[str]:
    """The texts of one row, from the numbers of all columns."""
    texts, start = [], 0
    for column in columns:
        texts.append(column.cell(numbers[start : start + column.width]))
        start += column.width
    return texts


def write_predictions(
    path: Path, data: TrainingData, graphs: Integers, predicted: Floats, more: tuple[Sequence[Column], Floats]
) -> None:
    """A row for each graph, or for each node: predictions (rows, k), numbers or probabilities, and further columns.

    ``more`` are those columns, and the numbers (rows, Σ widths) that stand for them. One that has the name of a target
    is left out.
    """
    card = data.card
    kept = data.rows_in_part(graphs)
    targets, names, (columns, numbers) = data.targets(graphs)[kept], card.target_names, more
    predicted, numbers = predicted[kept.numpy()], numbers[kept.numpy()]
    header = ["graph", *_PLACES[card.level]] + ["smiles"] * (data.dataset.smiles is not None)
    header += [*names, *(f"predicted_{name}" for name in names)]
    if card.task is Task.MULTI_CLASS:
        header += [f"probability_{name}" for name in card.classes]
        classes = [card.classes[number] for number in predicted.argmax(1).tolist()]
        true = [card.classes[number] if number >= 0 else "" for number in targets.tolist()]
        left = [list(pair) for pair in zip(true, classes, strict=True)]
    else:
        left = [[_number(value) for value in row] for row in targets.tolist()]
    free = [column.name not in header for column in columns]
    header += [column.name for column in compress(columns, free)]
    places = compress(_places(data, graphs), kept.tolist())
    rows = zip(places, left, predicted.tolist(), numbers.tolist(), strict=True)
    lines = (
        [*place, *start, *map(_number, values), *compress(cells(columns, added), free)]
        for place, start, values, added in rows
    )
    write_csv(path, chain([header], lines))


_PLACES: dict[Level, tuple[str, ...]] = {Level.GRAPH: (), Level.NODE: ("node",), Level.EDGE: ("source", "target")}


def _places(data: TrainingData, graphs: Integers) -> Iterator[Sequence[str | int]]:
    smiles = data.dataset.smiles
    if data.links is not None:
        yield from ([0, *pair] for pair in data.links.asked(graphs)[0].tolist())
        return
    for graph in graphs.tolist():
        text = [] if smiles is None else [smiles[graph]]
        if data.card.level is Level.NODE:
            number = graph % len(data.given)  # of the graph as it was read
            yield from ([number, node, *text] for node in range(int(data.dataset.arrays.num_nodes[graph])))
        else:
            yield [graph, *text]


def _number(value: float) -> str:
    return "" if value != value else f"{value:.9g}"


def neutral_of(model: PointModel, data: TrainingData) -> Neutral | None:
    """Averages of the training part's features, of as many as the model takes; None for a model by hand."""
    if model.settings is None:
        return None
    graphs = data.part("train")[:_AVERAGED_GRAPHS].tolist()
    features = [data.dataset.arrays.features_of(graph) for graph in graphs]

    def joined(name: str, width: int) -> Tensor | None:
        rows = [getattr(one, name) for one in features if getattr(one, name) is not None]
        return torch.cat([one.reshape(-1, width) for one in rows]) if rows else None

    node, edge = model.settings.node, model.settings.edge
    return Neutral.of(
        node,
        edge,
        None if node is None else joined("x", node.width),
        None if edge is None else joined("edge_attr", edge.width),
    )


def score_of(card: Card, scale: TargetScale | None, column: int, temperatures: Tensor | None = None) -> Score:
    """What is explained of a model's outputs (G, out): (G,) float64.

    Numbers in the target's own unit; the logit of a label; of a class c, its logit against all others,
    z_c − log Σ_{k≠c} exp z_k, whose sigmoid is the probability. ``temperatures``, by which logits are divided, make it
    the calibrated one.
    """

    def score(outputs: Tensor) -> Tensor:
        wide = outputs.to(torch.float64)
        if temperatures is not None and card.task is not Task.REGRESSION:
            wide = wide / temperatures.to(wide.device)
        own = wide[:, column]
        if card.task is Task.MULTI_CLASS:
            others = [at for at in range(wide.shape[1]) if at != column]
            return own - torch.logsumexp(wide[:, others], 1)
        return own if scale is None else own * float(scale.std[column]) + float(scale.mean[column])

    return score


def examples_of(
    models: Sequence[PointModel],
    data: TrainingData,
    graphs: Integers,
    predicted: Tensor,
    *,
    temperatures: Tensor | None = None,
    descriptors: str | None = None,
) -> dict[str, Any]:
    """The content of ``examples.json``.

    Args:
        models: the members of an ensemble, or one model. Explanations are means over them; functions and attention are
            the first one's.
        data: what they were trained on.
        graphs: (G,) of the test part, at least one.
        predicted: (rows, k) for them, in the targets' own units, or calibrated probabilities.
        temperatures: by which logits are divided, so that explanations add up to what is predicted.
        descriptors: ``model.descriptors`` of the recipe.
    """
    model = models[0]
    typical = graphs[np.argsort(data.points.num_nodes[graphs], kind="stable")]
    middle = typical[len(typical) // 2 :][:_FUNCTION_GRAPHS]
    small = data.points.num_nodes[middle].max() <= _LARGEST_LOOKED_INTO  # to look into a model takes n² numbers
    looked_into = has_coordinates(model) and small and data.links is None
    worst, ordinary = ([], []) if data.links is not None else _worst(data, graphs, predicted)
    if data.card.molecules is not None and data.card.level is Level.GRAPH:
        _explain(models, data, worst + ordinary, temperatures, descriptors)
    return {
        "functions": _functions(model, data, middle) if looked_into else None,
        "attention": _attention(model, data, int(middle[0])) if looked_into else None,
        "worst": [one.plain for one in worst],
        "typical": [one.plain for one in ordinary],
    }


class _Example(NamedTuple):
    """A graph to look at."""

    plain: dict[str, Any]  # as it is written
    column: int  # the output that is explained: the target that is worst predicted, or the predicted class


def _explain(
    models: Sequence[PointModel],
    data: TrainingData,
    examples: Sequence[_Example],
    temperatures: Tensor | None,
    descriptors: str | None,
) -> None:
    """Add what each atom contributes, with half of each of its bonds and its part of counted environments."""
    neutral, names = neutral_of(models[0], data), data.card.classes or data.card.target_names
    if neutral is None or neutral.node is None:
        return
    by_column: dict[int, list[dict[str, Any]]] = {}
    for plain, column in examples:
        if plain["graph"]["num_nodes"] <= _LARGEST_EXPLAINED:
            by_column.setdefault(column, []).append(plain)
    for column, some in by_column.items():
        points = [data.points[example["position"]] for example in some]
        score, of_models = score_of(data.card, data.scale, column, temperatures), []
        for model in models:
            with evaluating(model):
                of_models.append(contributions(model, points, neutral, score))
        for example, *of_members in zip(some, *of_models, strict=True):
            one = mean_contributions(of_members)
            text = _read_as(data, example["position"])
            if text is not None:
                atoms = one.nodes_with_edges
                if descriptors is not None:
                    heavy = torch.from_numpy(descriptors_by_atom(text, descriptors, one.descriptors.numpy())[0])
                    atoms[: len(heavy)] += heavy  # hydrogens come last
                example["contributions"] = {
                    "target": names[column],
                    "atoms": _rounded(atoms),
                    "read_as": text,
                    "output": one.output,
                    "baseline": one.baseline,
                }


def _read_as(data: TrainingData, graph: int) -> str | None:
    """The SMILES whose atoms are in the order of the graph's nodes."""
    smiles, kind, one = data.dataset.smiles, data.card.molecules, data.dataset.arrays[graph]
    if smiles is None or kind is None or one.features.x is None:
        return None
    return text_in_order(smiles[graph], kind, one.features.x.numpy(), one.edges)


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


def _worst(data: TrainingData, graphs: Integers, predicted: Tensor) -> tuple[list[_Example], list[_Example]]:
    """The graphs with the largest error, and some of ordinary error, of molecules.

    Of nodes, the mean over a graph counts, and its worst node is shown.
    """
    targets = data.targets(graphs)
    errors = _errors(data, targets, predicted)  # (rows,)
    nodes = data.points.num_nodes[graphs]
    counts = nodes if data.card.level is Level.NODE else np.ones_like(nodes)  # rows of each graph
    means = _means(errors, counts)
    order = np.argsort(-np.nan_to_num(means, nan=-1.0), kind="stable")
    order = np.array([at for at in order.tolist() if nodes[at] <= _LARGEST_DRAWN and means[at] >= 0], dtype=np.int64)
    starts = np.cumsum(counts) - counts

    def example(at: int) -> _Example:
        row = starts[at] + int(np.nan_to_num(errors[starts[at] :][: counts[at]], nan=-1.0).argmax())
        plain = {
            "graph": _drawn(data, int(graphs[at])),
            "position": int(graphs[at]),
            "error": float(means[at]),
            "values": _values(data.card, targets[row], predicted[row]),
        }
        return _Example(plain, _column(data, targets[row], predicted[row]))

    rest = order[_WORST:] if data.card.molecules is not None and data.card.level is Level.GRAPH else order[:0]
    ordinary = sorted({int(share * (len(rest) - 1)) for share in _TYPICAL}) if len(rest) else []
    return [example(at) for at in order[:_WORST].tolist()], [example(int(rest[at])) for at in ordinary]


def _column(data: TrainingData, targets: Tensor, predicted: Tensor) -> int:
    """The output of one row to explain: the predicted class, or the target with the largest error."""
    if data.card.task is Task.MULTI_CLASS:
        return int(predicted.argmax())
    error = (predicted - targets).abs()
    return int((error if data.scale is None else error / data.scale.std).nan_to_num(-1.0).argmax())


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
