"""The training loop (:class:`Fitting`).

An epoch: all batches in an order that depends on seed and epoch only, then validation. All that the next step depends
on is in the checkpoint, so that a run taken up again ends at the same weights, bit for bit.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from torch import Tensor

from pointset.encoders.loader import PointLoader
from pointset.encoders.model import PointModel
from pointset.errors import PointsetError
from pointset.points.graphs import Integers
from pointset.training.batches import training_batches
from pointset.training.checkpoint import Checkpoint, State, save_checkpoint, weights_of
from pointset.training.data import TrainingData
from pointset.training.devices import DTYPES
from pointset.training.evaluation import outputs_for
from pointset.training.interruption import StopRequest, TrainingStopped, ignore_interrupts
from pointset.training.learner import Learner, recipe_loss
from pointset.training.metrics import Scores, check_metric, higher_is_better, score
from pointset.training.metrics_file import write_metrics
from pointset.training.progress_record import ProgressRecord
from pointset.training.recipe import Recipe
from pointset.training.run_folder import RunFolder
from pointset.training.schedule import learning_rate_factor
from pointset.training.seeds import Purpose, stream
from pointset.training.watcher import EpochRow, Plan, Watcher

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_METRICS_SECONDS = 5.0


class Fitting:
    """One run's training; :meth:`run` goes on from where ``progress`` stands until the last epoch.

    Args:
        fabric: launched.
        model: as built; a checkpoint's weights are loaded over it.
        data: what to learn from.
        recipe: how.
        folder: where checkpoints and metrics go.
        watcher: who is told.
        checkpoint: where to go on from.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: PointModel,
        data: TrainingData,
        recipe: Recipe,
        folder: RunFolder,
        watcher: Watcher,
        checkpoint: Checkpoint | None = None,
    ):
        self.fabric, self.data, self.recipe, self.folder, self.watcher = fabric, data, recipe, folder, watcher
        self.metric = check_metric(recipe.metric, data.card)
        self.graphs = data.part("train")
        sizes = data.points.num_nodes[self.graphs], data.points.ranks[self.graphs]
        self.batches = training_batches(*sizes, recipe, rank=fabric.global_rank, processes=fabric.world_size)
        self.dtype = DTYPES[recipe.trainer.precision]
        self.loader = PointLoader(
            data.points,
            indices=self.graphs,
            dtype=self.dtype,
            batch_sampler=self.batches,
            generator=stream(recipe.seed, Purpose.ORDER),  # not used, but without one torch draws from the global one
            num_workers=recipe.trainer.workers,
            pin_memory=fabric.device.type == "cuda",
            worker_init_fn=ignore_interrupts,
        )
        self.progress = ProgressRecord() if checkpoint is None else checkpoint.progress
        self.best: State = {} if checkpoint is None else checkpoint.groups.get("best", {})
        self.learner = Learner(
            fabric,
            model,
            recipe,
            recipe_loss(recipe, data.card.task),
            learning_rate_factor(recipe.schedule, recipe.trainer.epochs, len(self.batches)),
            None if checkpoint is None else checkpoint.groups,
        )
        self.stop = StopRequest()
        self._stopping = False  # whether all devices know of a request to stop
        self._clock = self._saved_at = time.monotonic()
        self._metrics_at = -math.inf

    def run(self) -> None:
        """Train to the end.

        Raises:
            TrainingStopped: Ctrl-C or SIGTERM; all is saved.
            PointsetError: the loss is no number any more.
        """
        self._clock = self._saved_at = time.monotonic()
        self.watcher.begin(self._plan())
        try:
            with self.stop.listening():
                while not self._is_done():
                    self._train_epoch()
                    self._end_epoch()
        finally:
            self.watcher.end()
        self.save()

    def _is_done(self) -> bool:
        return self.progress.epoch >= self.recipe.trainer.epochs or self.progress.stopped_early

    def _plan(self) -> Plan:
        return Plan(
            name=self.recipe.name,
            epochs=self.recipe.trainer.epochs,
            first_epoch=self.progress.epoch,
            batches=len(self.batches),
            graphs=len(self.graphs),
            metric=self.metric,
            higher_is_better=higher_is_better(self.metric),
            parameters=self.learner.model.num_parameters,
        )

    def _train_epoch(self) -> None:
        progress = self.progress
        self.batches.start(progress.epoch, progress.batch)
        self.learner.model.train()
        first = progress.epoch * len(self.batches)
        for batch in self.loader:
            place = (progress.epoch, progress.batch)
            graphs, idle = self.batches.handed_out.popleft()
            done = self.learner.step(batch, place, first + progress.batch, idle=idle, stop=bool(self.stop))
            self._check_finite(done.loss_sum)
            progress.batch += 1
            progress.loss_sum += done.loss_sum
            progress.loss_terms += done.terms
            self._take_time(training=True)
            self.watcher.batch(progress.epoch + 1, progress.batch, graphs, progress.mean_loss)
            self._stopping = self._stopping or done.stop
            if self._stopping and progress.batch < len(self.batches):
                self._stop_here()
            if self._is_due():
                self.save()

    def _end_epoch(self) -> None:
        """Validate, note the row, keep the best weights."""
        progress = self.progress
        self.watcher.validating()
        scores = self._validation_scores() if self._is_validated(progress.epoch + 1) else Scores({}, {})
        self._take_time()
        value = scores.overall.get(self.metric, math.nan)
        is_best = self._is_better(value)
        if is_best or not len(self.data.part("val")):
            progress.best_epoch, progress.best_value = progress.epoch + 1, value
            self.best = weights_of(self.learner.evaluated)
        row = EpochRow(
            epoch=progress.epoch + 1,
            lr=self.learner.learning_rate,
            train_loss=progress.mean_loss,
            val=scores.overall,
            is_best=is_best,
            best_epoch=progress.best_epoch,
            best_value=progress.best_value,
            seconds=progress.epoch_seconds,
            graphs_per_second=len(self.graphs) / max(progress.training_seconds, 1e-9),
        )
        progress.end_epoch(row)
        patience = self.recipe.trainer.patience
        progress.stopped_early = patience is not None and progress.epoch - progress.best_epoch >= patience
        self.watcher.epoch(row)
        self._write_metrics()
        if self._stopping and not self._is_done():
            self._stop_here()
        if self._is_due():
            self.save()

    def _is_validated(self, epoch: int) -> bool:
        trainer = self.recipe.trainer
        return epoch % trainer.validate_every == 0 or epoch == trainer.epochs

    def _validation_scores(self) -> Scores:
        graphs = self.data.part("val")
        if not len(graphs):
            return Scores({}, {})
        return score(self.predictions(graphs), self.data.targets(graphs), self.data.card, self.data.scale)

    def predictions(self, graphs: Integers) -> Tensor:
        """(rows, k) float64 of the model that counts: numbers in the targets' own units, or logits."""
        share = {"rank": self.fabric.global_rank, "processes": self.fabric.world_size}
        outputs = outputs_for(self.learner.evaluated, self.data, graphs, dtype=self.dtype, **share)
        return self.data.restored(outputs)

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        best = self.progress.best_value
        return math.isnan(best) or (value > best if higher_is_better(self.metric) else value < best)

    def _check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            progress = self.progress
            raise PointsetError(
                f"the loss became {loss} in epoch {progress.epoch + 1}, batch {progress.batch + 1}; expected a number. "
                "Lower optimizer.lr, set optimizer.clip, or use trainer.precision=32"
            )

    def _take_time(self, *, training: bool = False) -> None:
        now = time.monotonic()
        self.progress.spend(now - self._clock, training=training)
        self._clock = now

    def _is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= 60 * self.recipe.trainer.checkpoint_minutes

    def _stop_here(self) -> None:
        self.save()
        progress, epochs = self.progress, self.recipe.trainer.epochs
        within = f" and {progress.batch} of {len(self.batches)} batches" if progress.batch else ""
        raise TrainingStopped(f"Stopped after {progress.epoch} of {epochs} epochs{within}; all is saved.")

    def _write_metrics(self, *, at_once: bool = False) -> None:
        """The file is only for people: with epochs of a tenth of a second, once in a few seconds will do."""
        now = time.monotonic()
        if self.fabric.is_global_zero and (at_once or now - self._metrics_at >= _METRICS_SECONDS):
            write_metrics(self.folder.metrics, self.progress.history)
            self._metrics_at = now

    def save(self) -> None:
        """Write the checkpoint. The best weights go into a file of their own too."""
        self._write_metrics(at_once=True)
        if self.fabric.is_global_zero:
            groups = self.learner.groups()
            if self.best:
                save_checkpoint(self.folder.best_checkpoint, {"model": self.best}, self.progress)
                groups["best"] = self.best
            save_checkpoint(self.folder.last_checkpoint, groups, self.progress)
        self._saved_at = time.monotonic()

    def best_model(self) -> PointModel:
        """The model with the weights of the best epoch; of the last one where validation never had a number."""
        model = self.learner.evaluated
        if self.best:
            model.load_state_dict(self.best)
        else:
            self.progress.best_epoch = self.progress.epoch
        return model.eval()
