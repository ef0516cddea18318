"""One training step: forward, loss, backward, clipping, optimiser, moving average (:class:`Learner`).

The model is a plain module; Fabric wraps it for the device, the precision and the exchange of gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pointset.datasets.card import Task
from pointset.encoders.batch import PointBatch
from pointset.encoders.model import PointModel
from pointset.errors import PointsetError, SpecError
from pointset.training.checkpoint import State, load_optimizer_state, optimizer_state
from pointset.training.losses import Loss, geometric_mean_weights, loss_for
from pointset.training.recipe import Optimizer, Recipe
from pointset.training.seeds import Purpose, stream
from pointset.training.soap import SOAP

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def recipe_loss(recipe: Recipe, task: Task) -> Loss:
    """What the recipe makes small.

    Raises:
        SpecError: it does not fit the task.
    """
    return loss_for(recipe.loss, task, recipe.smooth_l1_beta, by_target=recipe.balance_targets)


class StepResult(NamedTuple):
    """Over all devices."""

    loss_sum: float
    terms: float  # of the loss: known targets
    stop: bool  # whether any device was asked to stop


class Handed:
    """A batch on its way through Fabric, which would otherwise take it apart tensor by tensor."""

    def __init__(self, batch: PointBatch, generator: torch.Generator | None):
        self.batch, self.generator = batch, generator


class Network(nn.Module):
    """The model as Fabric and DDP call it."""

    def __init__(self, model: PointModel):
        super().__init__()
        self.model = model

    def forward(self, handed: Handed) -> Tensor:
        """(rows, out)."""
        outputs: Tensor = self.model(handed.batch, generator=handed.generator)
        return outputs


class Learner:
    """A model and what changes it.

    Args:
        fabric: launched.
        model: with the weights to begin with.
        recipe: optimiser, clipping, moving average, noise, seed.
        loss: (outputs, y) → sum and number of terms.
        factor: step → factor of the learning rate.
        groups: tensors of a checkpoint to go on from.
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
            _load_weights(model, groups)
        settings, decay = recipe.optimizer, recipe.trainer.ema
        self.network, self.optimizer = fabric.setup(Network(model), _optimizer(model, settings))
        self.average = None if decay is None else _moving_average(model, decay)
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

    def step(self, batch: PointBatch, place: tuple[int, int], number: int, *, idle: bool, stop: bool) -> StepResult:
        """Learn from a batch.

        Args:
            batch: this device's share.
            place: epoch and batch, for the noise.
            number: steps before this one, for the learning rate.
            idle: whether the share is only a stand-in that must not count.
            stop: whether this device was asked to stop.
        """
        self._set_learning_rate(number)
        outputs = self.network(Handed(batch, self._noise(place)))
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
        self._clip(place)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.model)
        return StepResult(float(all_sums.sum()), float(all_terms.sum()), stops)

    def _clip(self, place: tuple[int, int]) -> None:
        if self.recipe.optimizer.clip is None:
            return
        try:
            self.fabric.clip_gradients(self.network, self.optimizer, max_norm=self.recipe.optimizer.clip)
        except RuntimeError as error:
            if "non-finite" not in str(error):
                raise
            raise PointsetError(
                f"the gradient is no number any more in epoch {place[0] + 1}, batch {place[1] + 1}; expected one. "
                "Lower optimizer.lr or model.noise, or use trainer.precision=32"
            ) from None

    def _noise(self, place: tuple[int, int]) -> torch.Generator | None:
        if not self.recipe.model.noise:
            return None
        return stream(self.recipe.seed, Purpose.NOISE, *place, self.fabric.global_rank, device=self.fabric.device)

    def _set_learning_rate(self, step: int) -> None:
        self.learning_rate = self.recipe.optimizer.lr * self.factor(step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    def _over_all_devices(self, sums: Tensor, terms: Tensor, stop: bool) -> tuple[Tensor, Tensor, bool]:
        """The sums and numbers of all devices together, and whether any was asked to stop."""
        if self.fabric.world_size == 1:
            return sums.detach(), terms, stop
        mine = torch.cat([sums.detach().double(), terms.double(), terms.new_tensor([stop]).double()])
        everywhere = cast(Tensor, self.fabric.all_reduce(mine, reduce_op="sum"))
        all_sums, all_terms = everywhere[: len(sums)], everywhere[len(sums) : -1]
        return all_sums.to(sums.dtype), all_terms, bool(everywhere[-1] > 0)


def _load_weights(model: PointModel, groups: dict[str, State]) -> None:
    try:
        model.load_state_dict(groups.get("model", {}))
    except RuntimeError:  # torch lists every weight
        raise SpecError(
            "the checkpoint holds the weights of another model than recipe.yaml describes; expected the same. Undo the "
            "change of model, or begin another run in another folder"
        ) from None


def _optimizer(model: nn.Module, settings: Optimizer) -> torch.optim.Optimizer:
    if settings.method == "soap":
        return SOAP(model.parameters(), settings.lr, weight_decay=settings.weight_decay)
    return torch.optim.AdamW(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True)


def _moving_average(model: PointModel, decay: float) -> AveragedModel:
    """w̄ ← decay · w̄ + (1 − decay) · w, beginning with the weights after the first step."""
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]
