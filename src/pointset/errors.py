"""Every error that pointset raises on purpose.

A message says what was got, what was expected and what to do. All of them are :class:`PointsetError`; those about a
value the caller passed are also :class:`ValueError`, so that ordinary ``except ValueError`` keeps working.
"""

from __future__ import annotations


class PointsetError(Exception):
    """Base of all errors raised on purpose by this package."""


class GraphError(PointsetError, ValueError):
    """The graph given cannot be read as an undirected graph (directed, NaN weight, index out of range, …)."""


class MatrixError(PointsetError, ValueError):
    """The matrix asked for does not exist, or cannot represent this graph."""


class RankError(PointsetError, ValueError):
    """The rank asked for is impossible, or too few eigenpairs were kept for what was asked."""


class SpecError(PointsetError, ValueError):
    """A model's settings are impossible, or a graph's features are not those the model was made for."""


class NotSameGraphError(PointsetError, ValueError):
    """Two point sets were to be aligned, but they do not come from the same graph."""


class ConvergenceError(PointsetError, RuntimeError):
    """The sparse eigensolver did not converge."""


class MemoryForecastError(PointsetError, MemoryError):
    """The work asked for would not fit into this machine's memory."""


class TimeForecastError(PointsetError, RuntimeError):
    """The work asked for would take so long that it is not begun unasked."""


class DiskSpaceError(PointsetError, OSError):
    """The disk has too little space left for what is to be written."""


class FileFormatError(PointsetError, ValueError):
    """A file is not of the format that its name promises, or is damaged."""


class SignatureError(FileFormatError):
    """A bundle is not signed, not with the key that was expected, or was changed after it was signed."""


class MissingDataError(PointsetError, FileNotFoundError):
    """The files of a dataset are nowhere to be had; the message says what to put where."""


class MissingExtraError(PointsetError, ImportError):
    """An optional dependency is not installed."""


class TrainingStopped(PointsetError):  # noqa: N818 - it is not an error
    """Training was interrupted by Ctrl-C or SIGTERM; its state is saved, and the message says how far it came."""


class ClusterError(PointsetError, RuntimeError):
    """A cluster cannot be reached, has no workers or the wrong ones, or was lost in the middle of the work."""


class StoreWarning(UserWarning):
    """Something on disk was damaged and is computed again."""


def did_you_mean(got: str, known: list[str], cutoff: float = 0.5) -> str:
    """``"; did you mean 'laplacian'?"`` where a known name is near, otherwise an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(got, known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""
