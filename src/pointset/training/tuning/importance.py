"""How much each hyperparameter mattered (:func:`importance_of`). Needs optuna."""

from __future__ import annotations

from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.study import Study
from optuna.trial import TrialState

from pointset.training.tuning.extra import experiments_allowed

LEAST_TRIALS = 4  # complete ones
_BEST_SHARE = 0.25  # of the trials: their values are compared with those of all


def importance_of(study: Study) -> dict[str, float] | None:
    """By key, together 1, the most important first: how unlike all values those of the best quarter of trials are.

    It is PED-ANOVA (Watanabe et al. 2023), which needs no forest of scikit-learn. None with fewer than four complete
    trials, or where all have the same score.
    """
    scores = [trial.value for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
    if len(scores) < LEAST_TRIALS or len(set(scores)) < 2:
        return None
    with experiments_allowed():
        evaluator = PedAnovaImportanceEvaluator(target_quantile=_BEST_SHARE)
        found = get_param_importances(study, evaluator=evaluator)
    return {key: float(value) for key, value in found.items()}
