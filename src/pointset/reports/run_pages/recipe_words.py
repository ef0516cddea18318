"""The recipe in plain sentences (:func:`recipe_sentences`)."""

from __future__ import annotations

from pointset.reports.run_pages.forms import REGRESSION, Result
from pointset.reports.run_pages.recipe_form import DatasetForm, ModelForm, RecipeForm, ScheduleForm
from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.words import capitalised, count, listed, metric_name, number

_PRESETS = {
    "pst": "the Point Set Transformer (PST)",
    "pst-released": "the Point Set Transformer (PST) as its authors released it",
    "pst-star": "the Point Set Transformer with distances in space (PST*)",
    "pst-released-star": "the Point Set Transformer with distances in space (PST*) as its authors released it",
    "psds": "the Point Set DeepSet (PSDS)",
    "gin": "GIN, or GINE where edges have features (message passing)",
    "gcn": "GCN (message passing)",
    "gatedgcn": "GatedGCN (message passing)",
    "gps": "GPS (message passing and attention)",
    "transformer": "a transformer with Laplacian encodings",
    "ppgn": "PPGN (products of pairs)",
    "nested-gin": "NGNN (a GIN in the neighbourhood of every node)",
    "id-gnn": "ID-GNN (message passing that knows its root)",
    "graphormer": "a transformer with distances along paths, after Graphormer",
}
_OPTIMISERS = {"adamw": "AdamW", "soap": "SOAP"}
_LOSSES = {
    "l1": "the mean absolute error (L1)",
    "smooth_l1": "the smooth L1 loss",
    "cross_entropy": "the cross-entropy",
    "bce": "the binary cross-entropy",
}
_DEFAULT_LOSSES = {REGRESSION: "l1", "multi-class classification": "cross_entropy"}  # otherwise bce


def recipe_sentences(run: RunRecord) -> list[tuple[str, str]]:
    """(heading, sentences) for data, model, loss, optimiser, schedule and the choice of the best epoch."""
    recipe, result = run.recipe, run.result
    return [
        ("Data", _data(recipe.dataset, result)),
        ("Model", _model(recipe.model, result)),
        ("Optimiser", _optimiser(recipe, result)),
        ("Schedule", _schedule(recipe.schedule, recipe.trainer.epochs)),
        ("Choice", _choice(recipe, result, run.metric)),
    ]


def model_words(preset: str) -> str:
    """``the Point Set Transformer (PST)``."""
    return _PRESETS.get(preset, f"the Point Set Transformer (variant {preset})")


def _data(dataset: DatasetForm, result: Result | None) -> str:
    title = result.dataset.title if result is not None and result.dataset.title else dataset.name or dataset.file
    text = [f"{title or 'Own data'}."]
    if dataset.targets:
        text.append(f"Targets: {listed(dataset.targets, 13)}.")
    if result is not None and result.split_sizes:
        sizes = [f"{result.split_sizes[part]:,} {part}" for part in result.split_sizes]
        text.append(f"Graphs: {listed(sizes)}.")
    if dataset.fold is not None:
        text.append(f"Fold {dataset.fold} of {dataset.folds} of a cross-validation, counted from 0.")
    if dataset.options:
        text.append(f"Options: {listed([f'{key} = {value}' for key, value in dataset.options.items()], 8)}.")
    if dataset.weighted_edges is not None:
        text.append(f"Column {dataset.weighted_edges} of the edge features is the weight of the edges.")
    return " ".join(text)


def _model(model: ModelForm, result: Result | None) -> str:
    name = model_words(model.preset)
    size = f"{count(model.layers, 'layer')} of {count(model.dim, 'channel')}"
    text = f"{capitalised(name)} with {size}"
    if result is not None and result.parameters:
        text += f", {result.parameters:,} parameters"
    if result is None or result.level == "graph":
        text += f"; the points of a graph are pooled by their {model.pooling}"
    noise = f" Gaussian noise of size {number(model.noise)} on the coordinates while training." if model.noise else ""
    return f"{text}.{noise}"


def _optimiser(recipe: RecipeForm, result: Result | None) -> str:
    loss = recipe.loss or _DEFAULT_LOSSES.get(result.task, "bce") if result is not None else recipe.loss
    optimizer, trainer = recipe.optimizer, recipe.trainer
    method = _OPTIMISERS.get(optimizer.method, optimizer.method)
    text = [f"{method} on {_LOSSES.get(loss or '', loss or 'the usual loss of the task')}"]
    if result is not None and result.task == REGRESSION and recipe.scale_targets:
        text[0] += " of normalised targets"
    text[0] += f", learning rate {number(optimizer.lr)}, weight decay {number(optimizer.weight_decay)}"
    if optimizer.clip is not None:
        text[0] += f", gradients clipped at norm {number(optimizer.clip)}"
    if trainer.batch_size:
        text.append(f"Batches of {count(trainer.batch_size, 'graph')}")
    if trainer.ema is not None:
        text.append(f"The weights are a moving average with decay {number(trainer.ema)}")
    if trainer.precision != "32":
        text.append(f"Precision {trainer.precision}")
    return ". ".join(text) + "."


def _schedule(schedule: ScheduleForm, epochs: int | None) -> str:
    steps = []
    if schedule.warmup:
        steps.append(f"rises in a line over {_epochs(schedule.warmup)}")
    shapes = {
        "constant": "stays as it is",
        "cosine": "then falls to the end along a cosine",
        "restarts": f"then falls along a cosine again and again, every {_epochs(schedule.cosine)}",
        "anneal": f"stays, and falls along a cosine over the last {_epochs(schedule.cosine)}"
        if schedule.cosine
        else "stays as it is",
    }
    steps.append(shapes.get(schedule.shape, f"follows the shape {schedule.shape}"))
    total = f"{count(epochs, 'epoch')}. " if epochs else ""
    return f"{total}The learning rate {', '.join(steps)}."


def _choice(recipe: RecipeForm, result: Result | None, metric: str | None) -> str:
    if result is not None and not result.val:
        return "The weights of the last epoch were kept, as there is no validation split."
    text = f"The weights of the epoch with the best validation {metric_name(metric or 'score')} were kept"
    if result is not None and result.best_epoch is not None:
        text += f": epoch {result.best_epoch}"
    if result is not None and result.stopped_early:
        text += f"; training stopped early, after epoch {result.epochs}"
    if recipe.trainer.patience is not None:
        text += f"; training stops after {count(recipe.trainer.patience, 'epoch')} without a better one"
    return f"{text}."


def _epochs(number_of: float) -> str:
    return f"{number(number_of)} epoch{'' if number_of == 1 else 's'}"
