"""Floating-point operations of a training step, only those that the mathematics needs: :func:`operations`.

Counted are the matrix products and sums of products, 2 for each multiplication with addition, once for every graph with
its own n and r, and 3 times the forward pass for forward and backward. Not counted: normalisation, SiLU, products of
single numbers, embedding tables, AdamW, and whatever an implementation does besides, padding included.
`tests/test_padded_reference.py` compares with what torch counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Size(NamedTuple):
    """A graph and a model's width."""

    n: int  # nodes
    r: int  # rank
    h: int  # vector and pair channels
    d: int  # scalar channels


def released_layer(size: Size, last: bool) -> float:
    """Of `pst-released`, where h = d.

    * W_q v, W_k v, W₁v, W₂v: 4·2d²nr; the pairs' MLP: 2·2d²n²; the pairs' products ⟨q_i, k_j⟩: 2dn²r;
    * the scalars: MLP(ŝ) and MLP(s'): 2·2d²n; ⟨W₁v_i, W₂v_i⟩: 2dnr; Σ_j a_ij s'_j: 2dn²;
    * not in the last layer, whose vectors nothing reads: W v' 2d²nr, Σ_j a_ij v'_j 2dn²r, MLP(ŝ) of the vectors 2d²n.
    """
    n, r, _, d = size
    every = 8 * d**2 * n * r + 4 * d**2 * n**2 + 2 * d * n**2 * r
    scalars = 4 * d**2 * n + 2 * d * n * r + 2 * d * n**2
    vectors = 2 * d**2 * n * r + 2 * d * n**2 * r + 2 * d**2 * n
    return every + scalars + (0 if last else vectors)


def pst_layer(size: Size, last: bool) -> float:
    """Of `pst`, where h = d.

    * W_q v, W_k v, W₁v, W₂v: 4·2d²nr; W_q s, W_k s: 2·2d²n; the pairs' MLP 2d → d → d: 6d²n²; ⟨q_i, k_j⟩: 2dn²r;
    * the scalars: MLP₁ 2d → d → d: 6d²n; ⟨W₁v_i, W₂v_i⟩: 2dnr; Σ_j a_ij s'_j: 2dn²;
    * not in the last layer: MLP₂(s) 2·2d²n, W₃ and W₄ 2·2d²nr, Σ_j a_ij v'_j 2dn²r.
    """
    n, r, _, d = size
    every = 8 * d**2 * n * r + 4 * d**2 * n + 6 * d**2 * n**2 + 2 * d * n**2 * r
    scalars = 6 * d**2 * n + 2 * d * n * r + 2 * d * n**2
    vectors = 4 * d**2 * n + 4 * d**2 * n * r + 2 * d * n**2 * r
    return every + scalars + (0 if last else vectors)


def fast_layer(size: Size, last: bool) -> float:
    """Of `pst-fast`, with h·k = d, for n(n + 1)/2 unordered pairs.

    * W v: 2h²nr; the pairs' products ⟨q_i, q_j⟩: hn(n + 1)r; their two maps: 2h²n(n + 1);
    * the scalars: A ŝ 2dhn, V ŝ and W_o 2·2d²n, Σ_j p_ij (V ŝ_j) 2dn², the MLP d + h → d → d 2(2d + h)dn;
    * not in the last layer: G ŝ 2dhn, Σ_j p_ij v_j 2hn²r.

    Backward, the products need hn²·2r for their one side: twice the forward pass, as everywhere.
    """
    n, r, h, d = size
    every = 2 * h**2 * n * r + h * n * (n + 1) * r + 2 * h**2 * n * (n + 1)
    scalars = 2 * d * h * n + 4 * d**2 * n + 2 * d * n**2 + 2 * (2 * d + h) * d * n
    vectors = 2 * d * h * n + 2 * h * n**2 * r
    return every + scalars + (0 if last else vectors)


def polynomials(size: Size) -> float:
    """Of the eigenvalues: two roots for half of the channels, seven polynomials for the rest; edges are not counted."""
    return 2 * size.r * (2 * size.h / 2 + 7 * size.h / 2)


def deep_set(size: Size) -> float:
    """Of the eigenvalues, MLP 1 → 2h → h and three layers of two MLPs of two: 2r(2h + 2h²) + 3·2·2·2h²r."""
    return 2 * size.r * (2 * size.h + 2 * size.h**2) + 24 * size.h**2 * size.r


class Counted(NamedTuple):
    """What a preset computes for a graph."""

    layer: Callable[[Size, bool], float]  # the flag: whether it is the last layer
    start: Callable[[Size], float] = deep_set  # before the layers
    heads: int = 1  # k = d / h


# A preset that is not here has no share of the machine's speed in the figures.
COUNTED = {
    "pst-released": Counted(released_layer),
    "pst": Counted(pst_layer),
    "pst-fast": Counted(fast_layer, polynomials, heads=2),
}


def operations(preset: str, sizes: Iterable[tuple[int, int]], dim: int, layers: int, out: int = 1) -> float:
    """Of a step, forward and backward, on graphs of the given (n, r); the readout of a graph takes 2d·out."""
    counted = COUNTED[preset]
    total = 0.0
    for n, r in sizes:
        size = Size(n, r, dim // counted.heads, dim)
        total += (layers - 1) * counted.layer(size, False) + counted.layer(size, True)
        total += counted.start(size) + 2 * dim * out
    return 3 * total
