"""The training loop (:class:`TrainingLoop`), its steps (:class:`Learner`), and how it is interrupted.

An epoch: all batches in an order that depends on seed and epoch only, then validation. All that the next step depends
on is in the checkpoint, so that a resumed run ends at the same weights, bit for bit. The model is a plain module;
Fabric wraps it for the device, the precision and the exchange of gradients.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from pointset.arrays import Integers
from pointset.encoders.batch import PointBatch
from pointset.encoders.loader import PointLoader
from pointset.encoders.model import PointModel
from pointset.errors import PointsetError, SpecError, TrainingStopped
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe, snapshot_epochs
from pointset.runs.recipe_files import with_enough_epochs
from pointset.runs.result import EpochRow, write_metrics
from pointset.stopping import SIGNALS, saving
from pointset.training.batches import Purpose, stream, training_batches
from pointset.training.checkpoint import (
    Checkpoint,
    ProgressRecord,
    State,
    load_optimizer_state,
    optimizer_state,
    run_digest,
    save_checkpoint,
    weights_of,
)
from pointset.training.data import TrainingData
from pointset.training.devices import DTYPES
from pointset.training.losses import Loss, geometric_mean_weights, recipe_loss
from pointset.training.optim import learning_rate_factor, make_optimizer
from pointset.training.outputs import outputs_for
from pointset.training.progress import Plan, Watcher
from pointset.training.scoring import Scores, check_metric, score

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_METRICS_SECONDS = 5.0  # between two writings of metrics.csv
_PATIENCE_SECONDS = 1.0  # for weights that are being changed, or are being saved already


class TrainingLoop:
    """One run's training; :meth:`run` trains from where ``progress`` stands to the last epoch.

    ``fabric`` is launched; the weights of a ``checkpoint`` to resume from are loaded over those of ``model``.
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
        self.fabric, self.data, self.folder, self.watcher = fabric, data, folder, watcher
        self.metric = check_metric(recipe.metric, data.card)
        self.graphs = data.part("train")
        sizes = data.points.num_nodes[self.graphs], data.points.ranks[self.graphs]
        self.batches = training_batches(*sizes, recipe, rank=fabric.global_rank, processes=fabric.world_size)
        self._run = run_digest(recipe, data.given.split)
        self.recipe = recipe = with_enough_epochs(recipe, len(self.batches))
        self.dtype = DTYPES[recipe.trainer.precision]
        self.loader = PointLoader(
            data.points,
            indices=self.graphs,
            dtype=self.dtype,
            batch_sampler=self.batches,
            generator=stream(recipe.seed, Purpose.ORDER),  # not used, but without one torch draws from the global one
            num_workers=recipe.trainer.workers,
            pin_memory=fabric.device.type == "cuda",
            worker_init_fn=_ignore_interrupts,
        )
        self.progress = ProgressRecord() if checkpoint is None else checkpoint.progress
        groups = {} if checkpoint is None else checkpoint.groups
        self.best: State = groups.get("best", {})
        self.snapshot_epochs = snapshot_epochs(recipe)
        # by epoch: the weights at the end of each cycle of the schedule so far
        self.snapshots: dict[int, State] = {
            epoch: groups[f"snapshot-{epoch}"] for epoch in self.snapshot_epochs if f"snapshot-{epoch}" in groups
        }
        self.learner = Learner(
            fabric,
            model,
            recipe,
            recipe_loss(recipe, data.card.task),
            learning_rate_factor(recipe.schedule, recipe.trainer.epochs, len(self.batches), self.snapshot_epochs),
            None if checkpoint is None else checkpoint.groups,
        )
        self.stop = StopRequest()
        self._stopping = False  # whether all devices know of a request to stop
        self._changing = threading.RLock()  # held while weights and progress do not belong together
        self._settled: State = {}  # within a step: what its forward pass changes, as it was before
        self._clock = self._saved_at = time.monotonic()
        self._metrics_at = -math.inf

    def run(self) -> None:
        """Train to the end.

        Raises:
            TrainingStopped: Ctrl-C or SIGTERM; all is saved.
            PointsetError: the loss is not a number any more.
        """
        self._clock = self._saved_at = time.monotonic()
        if self.progress.batch:
            done = f"{self.progress.batch:,} of {len(self.batches):,} batches"
            self.watcher.say(f"resuming within epoch {self.progress.epoch + 1:,}, after {done}")
        self.watcher.begin(self._plan())
        try:
            with self.stop.listening(), saving(self._save_from_outside):
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
            higher_is_better=metric_named(self.metric).higher_is_better,
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
            if self.data.links is not None:
                batch = self.data.links.training_batch(batch, stream(self.recipe.seed, Purpose.PAIRS, *place))
            self._settled = self.learner.buffers()
            done = self.learner.gradients(batch, place, first + progress.batch, idle=idle, stop=self.stop.asked)
            if not math.isfinite(done.loss_sum):
                raise PointsetError(
                    f"the loss became {done.loss_sum} in epoch {place[0] + 1}, batch {place[1] + 1}; expected a "
                    "number. Lower optimizer.lr, set optimizer.clip, or use trainer.precision=32"
                )
            with self._changing:
                self.learner.apply()
                self._settled = {}
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
        progress, data, trainer = self.progress, self.data, self.recipe.trainer
        epoch, graphs, scores = progress.epoch + 1, data.part("val"), Scores({}, {})
        self.watcher.validating()
        if len(graphs) and (epoch % trainer.validate_every == 0 or epoch == trainer.epochs):
            scores = score(self.predictions(graphs, self._stop_if_asked), data.targets(graphs), data.card, data.scale)
        self._take_time()
        with self._changing:
            row = self._note_epoch(epoch, scores)
        self.watcher.epoch(row)
        self._write_metrics()
        if self._stopping and not self._is_done():
            self._stop_here()
        if self._is_due():
            self.save()

    def _note_epoch(self, epoch: int, scores: Scores) -> EpochRow:
        """The epoch in the run's progress, and its weights where they are the best so far."""
        progress = self.progress
        value = scores.overall.get(self.metric, math.nan)
        is_best = self._is_better(value)
        if is_best or not len(self.data.part("val")):
            progress.best_epoch, progress.best_value = epoch, value
            self.best = weights_of(self.learner.evaluated)
        if epoch in self.snapshot_epochs:
            self.snapshots[epoch] = weights_of(self.learner.evaluated)
        row = EpochRow(
            epoch=epoch,
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
        progress.stopped_early = patience is not None and epoch - progress.best_epoch >= patience
        return row

    def predictions(self, graphs: Integers, each_batch: Callable[[], None] = lambda: None) -> Tensor:
        """(rows, k) float64 of the model that counts: numbers in the targets' own units, or logits.

        ``each_batch`` is called before each; whatever it raises is raised here.
        """
        share = {"rank": self.fabric.global_rank, "processes": self.fabric.world_size}
        outputs = outputs_for(
            self.learner.evaluated, self.data, graphs, dtype=self.dtype, each_batch=each_batch, **share
        )
        return self.data.restored(outputs)

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        best = self.progress.best_value
        return math.isnan(best) or (value > best if metric_named(self.metric).higher_is_better else value < best)

    def _take_time(self, *, training: bool = False) -> None:
        now, progress = time.monotonic(), self.progress
        seconds, self._clock = now - self._clock, now
        progress.seconds += seconds
        progress.epoch_seconds += seconds
        progress.training_seconds += seconds if training else 0.0

    def _is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= 60 * self.recipe.trainer.checkpoint_minutes

    def _stop_here(self) -> None:
        self.save()
        raise TrainingStopped(self._stopped())

    def _stop_if_asked(self) -> None:
        """Within validation, which is done again when the run is resumed. Several devices finish it together."""
        if self.stop.asked and self.fabric.world_size == 1:
            self._stop_here()

    def _stopped(self) -> str:
        progress, epochs = self.progress, self.recipe.trainer.epochs
        within = f" and {progress.batch} of {len(self.batches)} batches" if progress.batch else ""
        return f"Stopped after {progress.epoch} of {epochs} epochs{within}; all is saved."

    def _save_from_outside(self) -> str:
        """Called by another thread where a step takes too long: until it ends, the weights are those before it."""
        if not self._changing.acquire(timeout=_PATIENCE_SECONDS):
            return ""
        self.save()
        return self._stopped()  # the lock is kept: nothing may change any more

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
            with self._changing:
                groups = self.learner.groups()
                groups["model"] |= self._settled
                if self.best:
                    save_checkpoint(self.folder.best_checkpoint, {"model": self.best}, self.progress, self._run)
                    groups["best"] = self.best
                groups |= {f"snapshot-{epoch}": weights for epoch, weights in self.snapshots.items()}
                save_checkpoint(self.folder.last_checkpoint, groups, self.progress, self._run)
        self._saved_at = time.monotonic()

    def members(self) -> dict[str, PointModel]:
        """What the training was for, by name: the model with the weights of the best epoch, of the last one where
        validation never had a number; or one with the weights of each snapshot.
        """
        model, weights = self.learner.evaluated, self.snapshots
        if not weights and not self.best:
            self.progress.best_epoch = self.progress.epoch
        weights = weights or {self.progress.best_epoch: self.best or weights_of(model)}
        return {f"epoch {epoch}": _with_weights(model, state) for epoch, state in weights.items()}


def _with_weights(model: PointModel, weights: State) -> PointModel:
    other = copy.deepcopy(model)
    other.load_state_dict(weights)
    return other.eval()


class StepResult(NamedTuple):
    """Over all devices."""

    loss_sum: float
    terms: float  # of the loss: known targets
    stop: bool  # whether any device was asked to stop


class _Handed:
    """A batch on its way through Fabric, which would otherwise take it apart tensor by tensor."""

    def __init__(self, batch: PointBatch, generator: torch.Generator | None):
        self.batch, self.generator = batch, generator


def _with_fewer_features(batch: PointBatch, share: float, generator: torch.Generator | None) -> PointBatch:
    """Entries of real features x zero at random, the others larger by as much; categories stay."""
    if batch.x is None or not batch.x.is_floating_point():
        return batch
    kept = torch.empty_like(batch.x).bernoulli_(1 - share, generator=generator)
    return dataclasses.replace(batch, x=batch.x * kept.div_(1 - share))


class _Network(nn.Module):
    """The model as Fabric and DDP call it."""

    def __init__(self, model: PointModel):
        super().__init__()
        self.model = model

    def forward(self, handed: _Handed) -> Tensor:
        """(rows, out)."""
        outputs: Tensor = self.model(handed.batch, generator=handed.generator)
        return outputs


class Learner:
    """A model and what changes it.

    ``loss`` gives the sum and the number of its terms, ``factor`` that of the learning rate at a step; ``groups`` are
    the tensors of a checkpoint to resume from.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: PointModel,
        recipe: Recipe,
        loss: Loss,
        factor: Callable[[int], float],
        groups: dict[str, State] | None = None,
    ):
        self.fabric, self.model, self.recipe, self.loss, self.factor = fabric, model, recipe, loss, factor
        if groups is not None:
            try:
                model.load_state_dict(groups.get("model", {}))
            except RuntimeError:  # torch lists every weight
                raise SpecError(
                    "the checkpoint holds the weights of another model than recipe.yaml describes; expected the same. "
                    "Undo the change of model, or start another run in another folder"
                ) from None
        settings, decay = recipe.optimizer, recipe.trainer.ema
        self.network, self.optimizer = fabric.setup(_Network(model), make_optimizer(model.parameters(), settings))
        self.average = None
        if decay is not None:
            self.average = AveragedModel(model, multi_avg_fn=partial(_moving_average, decay))
        if groups is not None:
            load_optimizer_state(self.optimizer.optimizer, groups.get("optimizer", {}))
            if self.average is not None:
                self.average.load_state_dict(groups["average"])
        self.learning_rate = settings.lr

    @property
    def evaluated(self) -> PointModel:
        """The model whose predictions count: the moving average where there is one."""
        if self.average is None:
            return self.model
        return cast(PointModel, self.average.module)

    def groups(self) -> dict[str, State]:
        """All tensors that the next step depends on."""
        groups = {"model": dict(self.model.state_dict()), "optimizer": optimizer_state(self.optimizer)}
        return groups if self.average is None else groups | {"average": dict(self.average.state_dict())}

    def buffers(self) -> State:
        """A copy of what a forward pass in training changes: running means of a normalisation."""
        kept = self.model.state_dict().keys()
        return {name: tensor.clone() for name, tensor in self.model.named_buffers() if name in kept}

    def gradients(
        self, batch: PointBatch, place: tuple[int, int], number: int, *, idle: bool, stop: bool
    ) -> StepResult:
        """The first half of a step: the gradient on this device's share of a batch; no weight changes yet.

        ``place`` is epoch and batch, ``number`` counts the steps before this one; ``idle`` says that the share is only
        a stand-in that must not count, ``stop`` that this device was asked to stop.
        """
        self.learning_rate = self.recipe.optimizer.lr * self.factor(number)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        noise = None
        if self.recipe.model.noise or self.recipe.model.dropout or self.recipe.trainer.feature_dropout:
            noise = stream(self.recipe.seed, Purpose.NOISE, *place, self.fabric.global_rank, device=self.fabric.device)
        if self.recipe.trainer.feature_dropout:
            batch = _with_fewer_features(batch, self.recipe.trainer.feature_dropout, noise)
        outputs = self.network(_Handed(batch, noise))
        if batch.y is None:
            raise TypeError("a training batch has no targets")
        sums, terms = (part.reshape(-1) for part in self.loss(outputs, batch.y.to(outputs.device)))  # (1,) or (k,)
        if idle:
            sums, terms = sums * 0, terms * 0
        all_sums, all_terms, stops = self._over_all_devices(sums, terms, stop)
        means = sums / all_terms.clamp(min=1)
        if self.recipe.balance_targets:
            means = means * geometric_mean_weights(all_sums / all_terms.clamp(min=1))
        # DDP takes the mean of the devices' gradients; with this factor that is their sum, the gradient of the mean.
        self.fabric.backward(means.sum() * self.fabric.world_size)
        try:
            if self.recipe.optimizer.clip is not None:
                self.fabric.clip_gradients(self.network, self.optimizer, max_norm=self.recipe.optimizer.clip)
        except RuntimeError as error:
            if "non-finite" not in str(error):
                raise
            raise PointsetError(
                f"the gradient is not a number in epoch {place[0] + 1}, batch {place[1] + 1}; expected finite ones. "
                "Lower optimizer.lr or model.noise, or use trainer.precision=32"
            ) from None
        return StepResult(float(all_sums.sum()), float(all_terms.sum()), stops)

    def apply(self) -> None:
        """The second half: change the weights by their gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.model)

    def _over_all_devices(self, sums: Tensor, terms: Tensor, stop: bool) -> tuple[Tensor, Tensor, bool]:
        """The sums and numbers of all devices together, and whether any was asked to stop."""
        if self.fabric.world_size == 1:
            return sums.detach(), terms, stop
        mine = torch.cat([sums.detach().double(), terms.double(), terms.new_tensor([stop]).double()])
        everywhere = cast(Tensor, self.fabric.all_reduce(mine, reduce_op="sum"))
        all_sums, all_terms = everywhere[: len(sums)], everywhere[len(sums) : -1]
        return all_sums.to(sums.dtype), all_terms, bool(everywhere[-1] > 0)


@torch.no_grad()
def _moving_average(decay: float, average: list[Tensor], weights: list[Tensor], steps: Tensor | int) -> None:
    """w̄ ← δ w̄ + (1 − δ) w with δ = min(decay, (1 + t) / (10 + t)) after t steps, beginning with w after the first.

    With ``decay`` from the start, the first weights, which know nothing yet, would count for 1 / (1 − decay) steps.
    """
    share = min(decay, (1 + int(steps)) / (10 + int(steps)))
    torch._foreach_lerp_(average, weights, 1 - share)


class StopRequest:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take signals as requests inside. A second Ctrl-C does not wait for the step to end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        by_hand = False

        def ask(number: int, _frame: FrameType | None) -> None:
            nonlocal by_hand
            if by_hand and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked, by_hand = True, by_hand or number == signal.SIGINT

        before = {number: signal.signal(number, ask) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore_interrupts(_worker: int) -> None:
    """In a worker of the loader: Ctrl-C and SIGTERM may reach all processes at once, and only the main one decides."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
