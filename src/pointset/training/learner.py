"""One training step: forward, loss, backward, clipping, AdamW, moving average (:class:`Learner`).

The model is a plain module; Fabric wraps it for the device, the precision and the exchange of gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pointset.encoders.batch import PointBatch
from pointset.encoders.model import PointModel
from pointset.training.checkpoint import State, load_optimizer_state, optimizer_state
from pointset.training.recipe import Recipe
from pointset.training.seeds import Purpose, stream

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Loss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


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
            model.load_state_dict(groups["model"])
        settings, decay = recipe.optimizer, recipe.trainer.ema
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        self.network, self.optimizer = fabric.setup(Network(model), optimizer)
        self.average = None if decay is None else _moving_average(model, decay)
        if groups is not None:
            load_optimizer_state(optimizer, groups.get("optimizer", {}))
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
        total, terms = self.loss(outputs, batch.y.to(outputs.device))
        if idle:
            total, terms = total * 0, terms * 0
        result = self._over_all_devices(total, terms, stop)
        # DDP takes the mean of the devices' gradients: sum_d / terms · devices, averaged, is the mean over all terms.
        self.fabric.backward(total * (self.fabric.world_size / max(result.terms, 1.0)))
        if self.recipe.optimizer.clip is not None:
            self.fabric.clip_gradients(self.network, self.optimizer, max_norm=self.recipe.optimizer.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.model)
        return result

    def _noise(self, place: tuple[int, int]) -> torch.Generator | None:
        if not self.recipe.model.noise:
            return None
        return stream(self.recipe.seed, Purpose.NOISE, *place, self.fabric.global_rank, device=self.fabric.device)

    def _set_learning_rate(self, step: int) -> None:
        self.learning_rate = self.recipe.optimizer.lr * self.factor(step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    def _over_all_devices(self, total: Tensor, terms: Tensor, stop: bool) -> StepResult:
        if self.fabric.world_size == 1:
            return StepResult(float(total.detach()), float(terms), stop)
        mine = torch.tensor([float(total.detach()), float(terms), float(stop)], dtype=torch.float64)
        everywhere = cast(Tensor, self.fabric.all_reduce(mine.to(self.fabric.device), reduce_op="sum"))
        loss_sum, count, stops = everywhere.tolist()
        return StepResult(loss_sum, count, stops > 0)


def _moving_average(model: PointModel, decay: float) -> AveragedModel:
    """w̄ ← decay · w̄ + (1 − decay) · w, beginning with the weights after the first step."""
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]
