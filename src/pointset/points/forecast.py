"""What decomposing a graph will take, from its size alone, before any work is done."""

from __future__ import annotations

from pointset.errors import TimeForecastError
from pointset.machine import Count, check_fits
from pointset.text import duration

SPARSE_FROM_NODES = 1500  # with rank=k, larger graphs go to the sparse solver
LONGEST_MINUTES = 10.0  # of decomposing one graph, where nobody has asked for more
_DENSE_COPIES = 5  # matrix, eigenvectors, workspace of the solver, and what Python still holds
_SECONDS = 4e-10  # for each of n³, about: a processor that is busy takes twice as long


def is_sparse(num_nodes: int, rank: int | None) -> bool:
    """Whether so large a graph goes to the sparse solver."""
    return rank is not None and num_nodes > SPARSE_FROM_NODES and rank < num_nodes // 4


def decomposition_bytes(num_nodes: Count) -> Count:
    """Memory for all eigenpairs of a graph, or of each of many."""
    return num_nodes * num_nodes * (8 * _DENSE_COPIES)


def decomposition_seconds(num_nodes: int, rank: int | None = None) -> float:
    """Time for the eigenpairs of a graph on one core, about; that of the sparse solver is not known, and taken as 0."""
    return 0.0 if is_sparse(num_nodes, rank) else _SECONDS * float(num_nodes) ** 3


def decomposition_text(num_nodes: int) -> str:
    """``about 54 min and 15 GiB of memory``."""
    gibibytes = decomposition_bytes(num_nodes) / 2**30
    return f"about {duration(decomposition_seconds(num_nodes))} and {gibibytes:.1f} GiB of memory"


def check_dense_fits(num_nodes: int, rank: int | None) -> None:
    """Refuse a graph whose dense matrix and eigenvectors would not fit into memory."""
    remedy = "Pass rank=k (for example rank=64) to keep k extremal eigenpairs with a sparse solver"
    if rank is not None:
        remedy = f"Choose a rank below {num_nodes // 4}: then the sparse solver is used"
    check_fits(decomposition_bytes(num_nodes), f"decomposing a graph of {num_nodes:,} nodes needs", remedy)


def check_not_too_long(num_nodes: int, rank: int | None, remedy: str) -> None:
    """Refuse a graph whose decomposition would hold everything else up."""
    if decomposition_seconds(num_nodes, rank) > 60 * LONGEST_MINUTES:
        raise TimeForecastError(
            f"decomposing a graph of {num_nodes:,} nodes takes {decomposition_text(num_nodes)}; expected at most "
            f"{LONGEST_MINUTES:g} minutes. {remedy}"
        )
