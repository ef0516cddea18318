"""What decomposing a graph will take, from its size alone, before any work is done."""

from __future__ import annotations

from pointset.machine import check_fits

DENSE_COPIES = 5  # matrix, eigenvectors, workspace of the solver, and what Python still holds
SPARSE_FROM_NODES = 1500  # with rank=k, larger graphs go to the sparse solver


def is_sparse(num_nodes: int, rank: int | None) -> bool:
    """Whether so large a graph goes to the sparse solver."""
    return rank is not None and num_nodes > SPARSE_FROM_NODES and rank < num_nodes // 4


def check_dense_fits(num_nodes: int, rank: int | None) -> None:
    """Refuse a graph whose dense matrix and eigenvectors would not fit into memory."""
    remedy = "Pass rank=k (for example rank=64) to keep k extremal eigenpairs with a sparse solver"
    if rank is not None:
        remedy = f"Choose a rank below {num_nodes // 4}: then the sparse solver is used"
    check_fits(DENSE_COPIES * 8 * num_nodes**2, f"decomposing a graph of {num_nodes:,} nodes needs", remedy)
