"""The sampler of a study (:class:`TrialSeededSampler`). Needs optuna."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from pointset.training.tuning.extra import experiments_allowed


class TrialSeededSampler(BaseSampler):
    """TPE, whose draws for a trial depend on the seed, the trial's number and the trials before it, nothing else.

    So a study that was interrupted proposes the same as one that was not, and processes that share a study never draw
    the same numbers, which they would with one seed for each process.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._sampler = self._sampler_for(0)

    def _sampler_for(self, number: int) -> TPESampler:
        seed = int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0])
        with experiments_allowed():
            return TPESampler(seed=seed, constant_liar=True)  # trials at work elsewhere count as bad ones so far

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._sampler = self._sampler_for(trial.number)
        self._sampler.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._sampler.after_trial(study, trial, state, values)
