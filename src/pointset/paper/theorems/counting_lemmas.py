"""Lemmas A.6 to A.11: what the attention 𝕐ᵏ of layer k can express, by explicit layers and by what none can see; and
how many layers counting needs at least (:func:`layers_needed`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pointset.arrays import Array, Floats, Integers
from pointset.datasets.counting_formulas import cycle_counts, path_matrix
from pointset.paper.families import rook, shrikhande
from pointset.paper.point_refinement import refine_points
from pointset.paper.theorems.constructions import CHANNELS, COUNT, PATHS, WALKS, Construction, Groups, counted_graphs
from pointset.paper.theorems.exact_layers import LayerPlan
from pointset.paper.theorems.small_graphs import LARGEST, small_adjacencies, whole_adjacency
from pointset.paper.theorems.statement import Finding, Statement, holds_if

LAYERS = (1, 2)  # the numbers that are tried


@dataclass(frozen=True)
class Place:
    """A pair of nodes, or a node, of a graph, and what is counted there."""

    graph: int
    nodes: tuple[int, ...]
    count: int


def conflict(colours: Sequence[Integers], counts: Sequence[Integers]) -> tuple[Place, Place] | None:
    """Two places with one colour and different counts; of pairs (n, n) only those of different nodes."""
    where = [np.argwhere(~np.eye(len(one), dtype=bool) if one.ndim == 2 else np.ones(one.shape)) for one in colours]
    graph = np.repeat(np.arange(len(where)), [len(one) for one in where])
    places = [tuple(one.T) for one in where]
    colour = np.concatenate([one[at] for one, at in zip(colours, places, strict=True)])
    count = np.concatenate([one[at] for one, at in zip(counts, places, strict=True)])
    order = np.lexsort((count, colour))
    differs = (np.diff(colour[order]) == 0) & (np.diff(count[order]) != 0)
    if not differs.any():
        return None
    nodes = np.concatenate(where)
    first, second = (
        Place(int(graph[at]), tuple(nodes[at].tolist()), int(count[at]))
        for at in order[np.argmax(differs) : np.argmax(differs) + 2]
    )
    return first, second


class Searched(NamedTuple):
    """The graphs in which conflicts are looked for, with their numbers of paths and cycles: all small ones, and the
    4 × 4 rook's graph and Shrikhande's, which 2-FWL takes for one, without a node or two that are not neighbours.
    """

    graphs: list[Integers]
    paths: dict[int, list[Integers]]
    cycles: dict[int, list[Integers]]


@functools.cache
def searched_graphs(max_nodes: int = LARGEST) -> Searched:
    """By size, so that each formula is worked out once for all graphs of a size."""
    graphs = [A.astype(np.int64) for A in small_adjacencies(max_nodes) if len(A)]
    for graph in (rook(4), shrikhande()):
        A = whole_adjacency(graph)
        apart = [j for j in range(1, len(A)) if not A[0, j]]
        graphs += [np.delete(np.delete(A, nodes, 0), nodes, 1) for nodes in ([0], *([0, j] for j in apart))]
    graphs.sort(key=len)
    stacks = [np.stack(list(some)) for _, some in itertools.groupby(graphs, len)]
    paths = {k: [P for stack in stacks for P in (stack if k == 1 else path_matrix(stack, k))] for k in range(1, 7)}
    cycles = {k: [C for stack in stacks for C in cycle_counts(stack, k)] for k in range(3, 8)}
    return Searched(graphs, paths, cycles)


@functools.cache
def layers_needed(
    max_nodes: int = LARGEST, *, matrix: str = "adjacency", gate_after: bool = True, attend_after: bool = False
) -> Mapping[str, int]:
    """At least so many layers for P_k in the attention, C_k in the points' scalars, "diagonal C_k" in the attention.

    1 + the largest number L tried for which there is a conflict: :func:`refine_points` gives the finest colours that L
    layers with any weights can give; if two places have one colour and different counts, no such layers count.
    """
    graphs, paths, cycles = searched_graphs(max_nodes)
    needed = {f"P_{k}": 1 for k in paths} | {f"{where}C_{k}": 1 for where in ("", "diagonal ") for k in cycles}
    for layers in LAYERS:
        colours = refine_points(graphs, layers, matrix=matrix, gate_after=gate_after, attend_after=attend_after)
        pairs, nodes = colours.pairs.colours, colours.nodes.colours
        diagonals = [np.diagonal(one) for one in pairs]
        tried = [(f"P_{k}", pairs, counts) for k, counts in paths.items()]
        tried += [(f"C_{k}", nodes, counts) for k, counts in cycles.items()]
        tried += [(f"diagonal C_{k}", diagonals, counts) for k, counts in cycles.items()]
        needed |= {name: layers + 1 for name, some, counts in tried if conflict(some, counts)}
    return needed


_NODES = 6  # of the largest graphs; the lemmas are about terms, of which few are enough
_ROUNDING = 1e-10  # relative to the largest entry of a matrix
# y = A⊙A² ∈ 𝕐¹ becomes the vectors T U and T A U of the second layer.
_FIRST = LayerPlan(
    WALKS, scalars={"d2": "A2", "d3": "A3"}, kept=tuple(CHANNELS), vectors={"TU": ("A*A2", "U"), "TAU": ("A*A2", "AU")}
)
_SECOND = {**WALKS, "TA": ("TU", "AU"), "A2T": ("A2U", "TU"), "TAT": ("TU", "TAU")}

# Terms of the attention, their formulas, and what they should be.
ONE_LAYER = {"A⊙A²": "A*A2", "A⊙A²⊙A³": "A*A2*A3", "A²⊙A²⊙A⁵": "A2*A2*A5", "2A⊙A² − 3A⁴": "2 A*A2 - 3 A4"}
OF_DIAGONALS = {"d(A²)A": "i.d2*A", "A d(A²)": "j.d2*A", "d(A²)A d(A³)": "i.d2*A*j.d3", "A³d(A²⊙A³)": "A3*j.d2*j.d3"}
OF_PRODUCTS = {"(A⊙A²)A": "TA", "A²(A⊙A²)": "A2T", "(A⊙A²)A(A⊙A²)": "TAT"}


def expected(A: Integers) -> dict[str, Integers]:
    """The terms above, in whole numbers."""
    power = {s: np.linalg.matrix_power(A, s) for s in range(7)}
    A2, A3, A4, A5 = (power[s] for s in (2, 3, 4, 5))
    T, d2, d3 = A * A2, np.diagonal(A2), np.diagonal(A3)
    terms = {f"A^{s}": some for s, some in power.items()}
    terms |= {"A⊙A²": T, "A⊙A²⊙A³": T * A3, "A²⊙A²⊙A⁵": A2 * A2 * A5, "2A⊙A² − 3A⁴": 2 * T - 3 * A4}
    terms |= {
        "d(A²)A": d2[:, None] * A,
        "A d(A²)": A * d2,
        "d(A²)A d(A³)": d2[:, None] * A * d3,
        "A³d(A²⊙A³)": A3 * d2 * d3,
    }
    return terms | {"(A⊙A²)A": T @ A, "A²(A⊙A²)": A2 @ T, "(A⊙A²)A(A⊙A²)": T @ A @ T}


def lemma_a_6(max_nodes: int = _NODES) -> Finding:
    """𝕐ᵏ ⊆ 𝕐ᵏ⁺¹, by a layer that keeps what it gets."""
    graphs = counted_graphs(max_nodes)
    apart = max(
        _relative(one, two)
        for layers in PATHS.values()
        for one, two in zip(
            layers.counts(graphs.coordinates), layers.counts(graphs.coordinates, layers.layers + 1), strict=True
        )
    )
    evidence = (
        f"On all {graphs.description}, the last attention of the layers for P_1 … P_6 changes by {apart:.0e} at most "
        "(relative) when one more layer, which keeps scalars and vectors, is put before them. It needs the residual "
        "connection of the appendix's layer; equation (4) to the letter has none."
    )
    return holds_if(apart < _ROUNDING, evidence, largest_difference=apart)


def lemmas_a_7_and_8(max_nodes: int = _NODES) -> Finding:
    """𝕐ᵏ is closed under products of entries and linear combinations."""
    error = _largest_error({**ONE_LAYER}, max_nodes, layers=1)
    both = {"d(A²)A": "i.d2*A", "d(A²)A d(A³)": "i.d2*A*j.d3", "A³d(A²⊙A³)": "A3*j.d2*j.d3"}
    later = _largest_error(both, max_nodes, layers=2)
    evidence = (
        f"Products and combinations of entries as one more step of MLP₃ (here polynomials, which an MLP approximates): "
        f"{', '.join(ONE_LAYER)} from one layer to {error:.0e}, {', '.join(both)} from two to {later:.0e} (relative)."
    )
    return holds_if(max(error, later) < _ROUNDING, evidence, largest_error=max(error, later))


def lemma_a_9(max_nodes: int = _NODES) -> Finding:
    """Aˢ ∈ 𝕐¹ for all s > 0."""
    powers = {f"A^{s}": "A" if s == 1 else f"A{s}" for s in range(1, 7)}
    error = _largest_error(powers, max_nodes, layers=1)
    identity = _unseen(["A^0"], max_nodes)
    evidence = f"One layer gives A¹ … A⁶ to {error:.0e} (relative). "
    if identity:
        evidence += (
            "s > 0 matters: I = A⁰ is not in 𝕐¹, as zero eigenvalues have no coordinates (Definition 3.2): some i, j "
            "and i, i agree in all powers, as do two leaves of a star."
        )
    return holds_if(error < _ROUNDING, evidence, largest_error=error, identity_is_seen=not identity)


def lemma_a_10(max_nodes: int = _NODES, *, layer: int = 1) -> Finding:
    """d(y₁)y₂, y₂d(y₁), d(y₁)y₂d(y₃), y₁Aˢ, Aˢy₁, y₁Aˢy₂ ∈ 𝕐ᵏ for y ∈ 𝕐ᵏ; tried in 𝕐¹, or in 𝕐² with ``layer=2``."""
    claimed = {**OF_DIAGONALS, **OF_PRODUCTS}
    unseen = _unseen(list(claimed), max_nodes, layer)
    error = _largest_error(claimed, max_nodes, layers=2)
    evidence = f"For y among powers of A and A⊙A², all in 𝕐¹: {', '.join(claimed)} are in 𝕐² (to {error:.0e}, relative)"
    if unseen:
        which = "none of them is" if unseen == list(claimed) else f"{', '.join(unseen)} are not"
        evidence += (
            f", but {which} in 𝕐¹: some two pairs of nodes with different entries look the same to one layer whatever "
            "its weights. The lemma should say 𝕐ᵏ⁺¹, as its proof and its uses do."
        )
    return holds_if(not unseen and error < _ROUNDING, evidence, largest_error=error, terms_not_in_the_layer=len(unseen))


def lemma_a_11(max_nodes: int = _NODES) -> Finding:
    """⊙Aᵃ ∈ 𝕐¹; Aˢd(⊙Aᵃ), d(⊙Aᵃ)Aˢ, d(⊙Aᵃ)Aˢd(⊙Aᵇ) ∈ 𝕐²."""
    first, second = (_largest_error(some, max_nodes, layers) for some, layers in ((ONE_LAYER, 1), (OF_DIAGONALS, 2)))
    evidence = (
        f"{', '.join(ONE_LAYER)} from one layer to {first:.0e}, {', '.join(OF_DIAGONALS)} from two to {second:.0e} "
        "(relative). The third item breaks off in print, so there is nothing to check in it."
    )
    return holds_if(max(first, second) < _ROUNDING, evidence, largest_error=max(first, second))


def _largest_error(formulas: Mapping[str, str], max_nodes: int, layers: int) -> float:
    """Relative, over all terms {name: formula}."""
    graphs = counted_graphs(max_nodes)
    wanted = [expected(A) for A in graphs.adjacencies]
    largest = 0.0
    for name, formula in formulas.items():
        found = _attention(formula, layers, graphs.coordinates)
        largest = max(largest, *(_relative(one, terms[name]) for one, terms in zip(found, wanted, strict=True)))
    return largest


def _attention(formula: str, layers: int, graphs: Groups) -> list[Floats]:
    last = LayerPlan(WALKS if layers == 1 else _SECOND, sums={COUNT: (formula, "")})
    return Construction((last,) if layers == 1 else (_FIRST, last), pairs=True).counts(graphs)


def _relative(found: Array, wanted: Array) -> float:
    return float(np.abs(found - wanted).max(initial=0.0) / np.abs(wanted).max(initial=1.0))


def _unseen(names: list[str], max_nodes: int, layers: int = 1) -> list[str]:
    """Those terms for which two pairs of nodes have one colour after ``layers`` layers and different entries."""
    adjacencies = counted_graphs(max_nodes).adjacencies
    wanted = [expected(A) for A in adjacencies]
    colours = [one.ravel() for one in refine_points(adjacencies, layers).pairs.colours]
    return [name for name in names if conflict(colours, [terms[name].ravel() for terms in wanted])]


STATEMENTS: tuple[Statement, ...] = (
    Statement("Lemma A.6", "What the attention of layer k expresses, that of layer k + 1 does.", lemma_a_6),
    Statement(
        "Lemmas A.7 and A.8",
        "Products of entries and linear combinations of what the attention of a layer expresses, it expresses too.",
        lemmas_a_7_and_8,
    ),
    Statement("Lemma A.9", "The attention of the first layer expresses all powers Aˢ, s > 0.", lemma_a_9),
    Statement(
        "Lemma A.10",
        "For y in 𝕐ᵏ also d(y₁)y₂, y₂d(y₁), d(y₁)y₂d(y₃), y₁Aˢ, Aˢy₁ and y₁Aˢy₂ are in 𝕐ᵏ, the same layer.",
        lemma_a_10,
    ),
    Statement("Lemma A.11", "⊙Aᵃ is in 𝕐¹, and Aˢd(⊙Aᵃ), d(⊙Aᵃ)Aˢ, d(⊙Aᵃ)Aˢd(⊙Aᵇ) are in 𝕐².", lemma_a_11),
)
