"""Normalising targets, and undoing it (:class:`TargetScale`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pointset.errors import SpecError

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class TargetScale:
    """y ↦ (y − mean) / std for each target, and back. Both are float64; a target that never varies is not divided."""

    mean: Tensor  # (k,)
    std: Tensor  # (k,)

    @classmethod
    def of(cls, targets: Tensor) -> TargetScale:
        """The scale of targets (rows,) or (rows, k); missing values (NaN) do not count.

        The standard deviation is that of the rows at hand (division by their number), not an estimate.
        """
        rows = targets.detach().to(torch.float64)
        rows = rows.flatten(1) if rows.dim() > 1 else rows.unsqueeze(1)
        known = ~torch.isnan(rows)
        count = known.sum(0).clamp(min=1)
        mean = torch.where(known, rows, 0.0).sum(0) / count
        std = (torch.where(known, rows - mean, 0.0).square().sum(0) / count).sqrt()
        varies = std > _ROUNDING * mean.abs()  # a constant 0.1 has a deviation of 1e-17
        return cls(mean, torch.where(varies, std, torch.ones_like(std)))

    def normalise(self, targets: Tensor) -> Tensor:
        """(…, k) or, with one target, (…,): computed in float64, given in the type that came."""
        return self._applied(targets, lambda y, mean, std: (y - mean) / std)

    def restore(self, values: Tensor) -> Tensor:
        """The inverse of :meth:`normalise`, in float64: an energy of −11,000 eV has errors of 1e-3 in float32."""
        return self._applied(values.to(torch.float64), lambda y, mean, std: y * std + mean)

    def _applied(self, y: Tensor, formula: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        if len(self.mean) > 1 and (y.dim() == 0 or y.shape[-1] != len(self.mean)):
            raise SpecError(
                f"got values of shape {tuple(y.shape)}; expected (…, {len(self.mean)}), a column for each target"
            )
        mean, std = (part.to(y.device) for part in (self.mean, self.std))
        if y.dim() == 0 or (y.shape[-1] != len(mean)) or (len(mean) == 1 and y.dim() == 1):
            mean, std = mean.squeeze(0), std.squeeze(0)
        dtype = y.dtype if y.is_floating_point() else torch.float64
        return formula(y.to(torch.float64), mean, std).to(dtype)
