"""Whether Optuna is there, and what it would say by itself kept quiet. Light to import."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from pointset.errors import MissingExtraError


def check_tune_extra() -> None:
    """Refuse before any work is done.

    Raises:
        MissingExtraError: optuna is not installed.
    """
    if find_spec("optuna") is None:
        raise MissingExtraError(
            "tuning needs optuna, which is not installed. Install it with: pip install 'pointset[tune]'"
        )


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Inside, Optuna logs errors only: what happens to a trial is told by us, once."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def experiments_allowed() -> Iterator[None]:
    """Inside, parts that Optuna calls experimental (heartbeats) are used without a warning to the user."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield
