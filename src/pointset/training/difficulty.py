"""How hard a row is to predict: the σ(x) by which errors are divided (:class:`Difficulty`), of one target.

σ(x)² = floor² + Σ_j (f_j(x) / s_j)², with terms f_j that grow with the expected error:

- the spread of the members of an ensemble, where there is one;
- the mean |error| of the model on the 10 training graphs whose representations are nearest;
- the distance to the training part: 1 − Tanimoto similarity of molecules, of other graphs that of the representations.

s_j is the root mean square of a term on the validation part, and the floor is chosen there by likelihood; where no term
helps, σ = 1, and all intervals are equally wide. ``benchmarks/intervals.py`` compares the terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pointset.arrays import Floats

if TYPE_CHECKING:
    from pointset.training.bundle import Place

_FLOORS = (0.3, 0.5, 1.0, 2.0, 4.0)  # in units of the root mean square of all terms together
_LEAST_ROWS = 20  # of the validation part


@dataclass(frozen=True, eq=False)
class Difficulty:
    """σ of one target, from terms (rows, J)."""

    floor: float
    scales: tuple[float, ...]  # s_j; none where no term helps

    @classmethod
    def fit(cls, terms: Floats, errors: Floats) -> Difficulty:
        """From the terms (n, J) and errors (n,) of the validation part, NaN where there is no target.

        Minimises mean ln σ + ln mean(|error| / σ), the cost of errors with a Laplace distribution of scale ∝ σ, which
        large errors do not rule. σ = 1 is given up for a gain of more than one in the likelihood of all rows.
        """
        known = np.isfinite(errors) & np.isfinite(terms).all(1)
        constant = cls(1.0, ())
        errors, terms = np.abs(errors[known]), terms[known]
        if len(errors) < _LEAST_ROWS or not terms.shape[1] or not errors.any():
            return constant
        scales = np.sqrt(np.mean(terms**2, axis=0))
        scales = np.where(scales > 0, scales, 1.0)
        best, least = constant, np.log(errors.mean()) - 1 / len(errors)
        for floor in _FLOORS:
            candidate = cls(floor * terms.shape[1] ** 0.5, tuple(scales.tolist()))
            sigma = candidate.sigma(terms)
            cost = np.mean(np.log(sigma)) + np.log(np.mean(errors / sigma))
            if cost < least:
                best, least = candidate, cost
        return best

    def sigma(self, terms: Floats) -> Floats:
        """(rows, J) → (rows,). A term that is not known counts as one of usual size."""
        if not self.scales:
            return np.full(len(terms), self.floor)
        relative = terms / np.array(self.scales)
        relative = np.where(np.isfinite(relative), relative, 1.0)
        return np.asarray(np.sqrt(self.floor**2 + (relative**2).sum(1)))

    def as_plain(self) -> Mapping[str, Any]:
        """Values for JSON."""
        return {"floor": self.floor, "scales": list(self.scales)}

    @classmethod
    def from_plain(cls, place: Place, terms: int) -> Difficulty:
        """The inverse of :meth:`as_plain`; raises FileFormatError where it is not what :meth:`as_plain` gave."""
        floor, scales = place.at("floor").number(), [scale.number() for scale in place.at("scales").items()]
        if floor <= 0 or len(scales) not in (0, terms) or min(scales, default=1) <= 0:
            raise place.wrong(f"a positive floor, and {terms} positive scales or none")
        return cls(floor, tuple(scales))
