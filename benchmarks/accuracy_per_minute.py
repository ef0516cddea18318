"""What a minute of training is worth: error per epoch and per minute of PST's presets and GPS at equal parameters.

    python benchmarks/accuracy_per_minute.py [--datasets zinc qm9 lipo] [--models pst-fast pst gps] [--optimisers soap]
        [--seeds 0 1 2] [--minutes 30] [--epochs N] [--parameters 60000] [--layers 4] [--data-dir DIR] [--out DIR]
    python benchmarks/accuracy_per_minute.py --summary [--out DIR] [--json FILE] [--plot FOLDER]

The first trains, the second only collects whatever is in the folder. ZINC-12k (MAE), the gap of 10,000 molecules of QM9
(8,000 to train; MAE, eV), lipo (4,200 molecules, split at random; RMSE). One thread, batches of 16, a cosine over all
epochs, no moving average. All models have the same number of layers and are as wide as it takes to have about so many
parameters.

* `--minutes`: a run has as many epochs as fit into them, by the speed of 20 steps before it begins, so that its
  learning rate ends where its time does; with `--epochs` at most so many. A model that learns faster is worth a run of
  fewer minutes too: every limit has folders of its own, and the summary takes the best of a model's.
* The time is the processor's, of the training steps only (one thread, so what a clock shows on an idle core);
  validation and test come after every epoch and are not counted. The clock's time is recorded as well.
* Every (dataset, model, optimiser, limit, seed) is the folder of a run of `pointset.train` with `curve.json` beside its
  files. A run that was interrupted is resumed, a finished one is skipped, and so is one that another command is at work
  on: several of these commands may run at once, one for each core, with the same or with different arguments.
* The test part is scored after each epoch to draw curves; nothing is chosen by it.

The summary says what each model reaches after so many epochs and minutes (the best epoch by validation so far, mean
over the seeds), and the minutes that each needs to reach GPS's best validation error within its first half hour.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import torch

import pointset
from accuracy_summary import CURVE_FILE, DATASETS, Epoch, read_curve, summarise
from pointset.errors import PointsetError, TrainingStopped
from pointset.files import write_json
from pointset.paper.comparison import matched
from pointset.registry import PRESETS
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, read_recipe
from pointset.training.batches import training_batches
from pointset.training.data import TrainingData, build_model, load_data
from pointset.training.loop import TrainingLoop
from pointset.training.scoring import score
from pointset.training.timing import Stopwatch, training_loader

MODELS = ("pst-fast", "pst", "gps")
OPTIMISERS: dict[str, dict[str, object]] = {
    "soap": {"method": "soap", "lr": 5e-3},
    "adamw": {"method": "adamw", "lr": 1e-3, "weight_decay": 1e-2},
}
SUBSET = {"train": 8000, "val": 1000, "test": 1000}  # of QM9
TIMED_STEPS = 20


class RecordingLoop(TrainingLoop):
    """Also scores the test part after each epoch, outside of the time, and notes the processor's time."""

    def _train_epoch(self) -> None:
        clock, processor = time.monotonic(), time.process_time()
        super()._train_epoch()
        self.share = (time.process_time() - processor) / (time.monotonic() - clock)  # of a second of this session

    def _end_epoch(self) -> None:
        start, seconds, place = time.monotonic(), self.progress.training_seconds, len(self.progress.history)
        graphs, data = self.data.part("test"), self.data
        test = score(self.predictions(graphs), data.targets(graphs), data.card, data.scale).overall[self.metric]
        self._clock += time.monotonic() - start
        try:
            super()._end_epoch()  # raises where the run is to stop
        finally:
            for row in self.progress.history[place:]:
                self._note(Epoch(row.epoch, seconds, seconds * self.share, row.val[self.metric], test))

    def _note(self, epoch: Epoch) -> None:
        path = self.folder.path / CURVE_FILE
        before = [one for one in read_curve(path) if one.epoch < epoch.epoch]  # a killed run repeats some
        write_json(path, [one._asdict() for one in (*before, epoch)])


def recipe_of(dataset: str, model: str, optimiser: str, arguments: argparse.Namespace, seed: int) -> Recipe:
    """Without the model's width, which depends on the data, and with one epoch where the minutes decide."""
    sources: dict[str, dict[str, object]] = {
        "zinc": {"name": "zinc"},
        "qm9": {"name": "qm9", "targets": ["gap"], "train_graphs": SUBSET["train"]},
        "lipo": {"file": str(arguments.data_dir / "molecules" / "lipo.csv")},
    }
    return Recipe.from_dict(
        {
            "name": f"{dataset}-{model}-{optimiser}",
            "dataset": sources[dataset],
            "model": {"preset": model, "layers": arguments.layers},
            "loss": "l1",
            "optimizer": OPTIMISERS[optimiser],
            "schedule": {"shape": "cosine"},
            "trainer": {"epochs": arguments.epochs or 1, "batch_size": 16, "threads": 1, "checkpoint_minutes": 2.0},
            "metric": DATASETS[dataset],
            "seed": seed,
        }
    )


def data_of(recipe: Recipe, folder: Path) -> TrainingData:
    """The recipe's; of QM9 only some of the graphs to validate and to test, the same for all."""
    data = load_data(recipe, folder, progress=False)
    if recipe.dataset.name != "qm9":
        return data
    split = dict(data.dataset.split)
    for part in ("val", "test"):
        split[part] = np.sort(np.random.default_rng(0).permutation(split[part])[: SUBSET[part]])
    return dataclasses.replace(data, dataset=data.dataset.with_split(split))


def epochs_within(minutes: float, recipe: Recipe, data: TrainingData) -> int:
    """How many epochs the processor trains in so many minutes, at least one."""
    graphs = data.part("train")
    planned = training_batches(data.points.num_nodes[graphs], data.points.ranks[graphs], recipe)
    planned.start(0, 0)
    batches = list(planned)
    stopwatch = Stopwatch(recipe, build_model(recipe, data.card), data.card.task, threads=1)
    stopwatch.time(training_loader(recipe, data, batches[:3]))  # what is done once and never again is not timed
    chosen = batches[3 : 3 + TIMED_STEPS]
    seconds = stopwatch.time(training_loader(recipe, data, chosen)).cpu_seconds * len(batches) / len(chosen)
    return max(1, int(60 * minutes / seconds))


def train(dataset: str, model: str, optimiser: str, seed: int, arguments: argparse.Namespace) -> None:
    """One run, from where it stands to its end."""
    limit = f"{arguments.minutes:g}min" if arguments.minutes else f"{arguments.epochs}epochs"
    folder = RunFolder(arguments.out / dataset / f"{model}_{optimiser}_{limit}_seed{seed}")
    if folder.is_finished:
        return print(f"{folder.path}: done before", flush=True)
    recipe = recipe_of(dataset, model, optimiser, arguments, seed)
    data = data_of(recipe, arguments.data_dir)
    if folder.has_run:
        recipe = read_recipe(folder.recipe)
    else:
        recipe = matched(recipe, model, arguments.parameters, data.card)
        if arguments.minutes:
            fitting = epochs_within(arguments.minutes, recipe, data)
            recipe = changed(recipe, {"trainer.epochs": min(fitting, arguments.epochs or fitting)})
    print(f"{folder.path}: {recipe.trainer.epochs} epochs, width {recipe.model.dim}", flush=True)
    try:
        with mock.patch("pointset.training.run.TrainingLoop", RecordingLoop):
            pointset.train(recipe, folder.path, resume=True, data=data, device="cpu", watch="plain")
    except TrainingStopped as stopped:
        raise SystemExit(f"{stopped} The same command resumes it.") from None
    except PointsetError as error:
        if "another process" not in str(error):
            raise
        print(f"{folder.path}: another command is at work on it", flush=True)


def known(models: Sequence[str]) -> list[str]:
    """Those that are registered."""
    for model in models:
        if model not in PRESETS:
            print(f"{model}: not registered, left out", flush=True)
    return [model for model in models if model in PRESETS]


def main() -> None:
    """Train what is not done yet, or collect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--optimisers", nargs="+", choices=list(OPTIMISERS), default=["soap"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, help="of training for each run; 30 where there is no --epochs")
    parser.add_argument("--epochs", type=int, help="of each run")
    parser.add_argument("--parameters", type=int, default=60_000)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("POINTSET_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=Path("out/accuracy_per_minute"), help="folder of the runs")
    parser.add_argument("--summary", action="store_true", help="do not train, collect what is there")
    parser.add_argument("--json", type=Path, help="with --summary: also write it here")
    parser.add_argument("--plot", type=Path, help="with --summary: also draw a chart for each dataset in this folder")
    arguments = parser.parse_args()
    if arguments.summary:
        return summarise(arguments.out, arguments.json, arguments.plot)
    if arguments.minutes is None and arguments.epochs is None:
        arguments.minutes = 30.0
    torch.set_num_threads(1)
    models = known(arguments.models)
    # Seeds go round last: whoever stops early has one seed of everything.
    for seed, dataset, optimiser, model in itertools.product(
        arguments.seeds, arguments.datasets, arguments.optimisers, models
    ):
        train(dataset, model, optimiser, seed, arguments)
    return None


if __name__ == "__main__":
    main()
