"""Path and cycle counting by explicit layers, the lemmas and formulas behind it, and the simulation of GIN."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from pointset.datasets.counting_formulas import cycle_counts, path_matrix
from pointset.errors import PointsetError
from pointset.paper.theorems import constructions, counting, counting_lemmas, message_passing
from pointset.paper.theorems.constructions import (
    CYCLES,
    DIAGONAL_CYCLES,
    PATHS,
    PATHS_GATED_BEFORE,
    Construction,
    Groups,
    enumerated_cycles,
    enumerated_paths,
)
from pointset.paper.theorems.counting import PATHS_OF_APPENDIX, PATHS_OF_TEXT, WHOLE, largest_error
from pointset.paper.theorems.counting_lemmas import layers_needed
from pointset.paper.theorems.exact_layers import ExactLayer, Features, LayerPlan, Polynomials, compiled, terms
from pointset.paper.theorems.small_graphs import adjacency_of
from pointset.paper.theorems.statement import Finding, Verdict

FEW = 4  # nodes of the largest graphs here; the commands go to seven


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (counting.theorem_5_4, Verdict.HOLDS),
        (counting.theorem_a_12, Verdict.HOLDS),
        (counting.theorem_5_5, Verdict.HOLDS),
        (counting.theorem_a_13, Verdict.HOLDS),
        (counting_lemmas.lemma_a_6, Verdict.HOLDS),
        (counting_lemmas.lemmas_a_7_and_8, Verdict.HOLDS),
        (counting_lemmas.lemma_a_9, Verdict.HOLDS),
        (counting_lemmas.lemma_a_11, Verdict.HOLDS),
        (counting.path_formulas, Verdict.FAILS),
        (counting.cycle_formulas, Verdict.FAILS),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_verdicts(check: Callable[[int], Finding], verdict: Verdict) -> None:
    assert check(FEW).verdict is verdict


def test_lemma_a_10_holds_one_layer_later() -> None:
    assert counting_lemmas.lemma_a_10(5).verdict is Verdict.FAILS
    assert counting_lemmas.lemma_a_10(5, layer=2).verdict is Verdict.HOLDS


def test_the_explicit_layers_are_as_few_as_can_be() -> None:
    needed = layers_needed(7)
    assert {k: layers.layers for k, layers in PATHS.items()} == {1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 3}
    assert {k: layers.layers for k, layers in CYCLES.items()} == {3: 1, 4: 1, 5: 1, 6: 2, 7: 2}
    for prefix, several in (("P", PATHS), ("C", CYCLES), ("diagonal C", DIAGONAL_CYCLES)):
        for k, layers in several.items():
            assert needed[f"{prefix}_{k}"] == layers.layers


class TestChecksCanFail:
    def test_one_wrong_coefficient(self) -> None:
        """The printed P_4, with A² once."""
        first, last = PATHS[4].plans
        printed = {"count": (constructions.P4.replace("2 A2", "1 A2"), "0.5")}
        broken = PATHS | {4: Construction((first, replace(last, sums=printed)), pairs=True)}
        claim = replace(PATHS_OF_TEXT, layers={4: PATHS_OF_TEXT.layers[4]})
        finding = counting.check_claim(claim, PATHS_OF_APPENDIX, broken, PATHS_GATED_BEFORE, FEW)
        assert finding.verdict is Verdict.FAILS
        assert float(finding.numbers["largest_error"]) > 0.9

    def test_fewer_layers_claimed_than_there_are(self) -> None:
        claim = replace(PATHS_OF_TEXT, layers={6: 2})
        finding = counting.check_claim(claim, PATHS_OF_APPENDIX, PATHS, PATHS_GATED_BEFORE, FEW)
        assert finding.verdict is Verdict.FAILS

    def test_gates_that_see_too_little(self) -> None:
        """The two layers for P_4 gate by a diagonal that s does not hold yet."""
        with pytest.raises(PointsetError, match="A2"):
            PATHS[4].counts(Groups.of([adjacency_of(nx.cycle_graph(4))]), gate_after=False)

    def test_the_corrected_formulas_hold(self) -> None:
        assert counting.path_formulas(FEW, path_matrix).verdict is Verdict.HOLDS
        assert counting.cycle_formulas(FEW, cycle_counts).verdict is Verdict.HOLDS

    def test_the_simulation_of_gin_with_other_coordinates(self) -> None:
        finding = message_passing.theorem_b_1([torch.ones_like, torch.ones_like])
        assert finding.verdict is Verdict.FAILS
        assert message_passing.theorem_b_1(matrix="laplacian").verdict is Verdict.FAILS


def test_a_layer_simulates_gin() -> None:
    state = torch.random.get_rng_state()
    finding = message_passing.theorem_b_1()
    assert finding.verdict is Verdict.HOLDS
    assert float(finding.numbers["largest_relative_difference"]) < 1e-12
    printed, again = message_passing.printed_construction(), message_passing.printed_construction()
    assert printed.verdict is Verdict.FAILS
    assert printed == again and torch.random.get_rng_state().equal(state)  # no weight is drawn from a global state


@pytest.mark.parametrize("k", [5, 6])
def test_counts_on_a_graph_of_a_molecules_size(k: int) -> None:
    A = adjacency_of(nx.random_regular_graph(3, 30, seed=1))
    groups = Groups.of([A])
    assert largest_error(PATHS[k], [path_matrix(A, k)], groups) < WHOLE
    assert largest_error(CYCLES[k], [cycle_counts(A, k)], groups) < WHOLE
    with pytest.raises(PointsetError, match="at least"):
        PATHS[k].counts(groups, layers=1)


def test_enumeration_against_networkx() -> None:
    for seed in range(3):
        graph = nx.gnp_random_graph(7, 0.5, seed=seed)
        A = adjacency_of(graph)[None]
        paths = enumerated_paths(A, 6)
        for i, j in itertools.permutations(range(7), 2):
            lengths = [len(path) - 1 for path in nx.all_simple_paths(graph, i, j)]
            assert [paths[k][0, i, j] for k in range(1, 7)] == [lengths.count(k) for k in range(1, 7)]
        cycles = [len(one) for one in nx.simple_cycles(graph)]
        for k, counts in enumerated_cycles(A, paths).items():
            assert counts.sum() == k * cycles.count(k)


@pytest.mark.parametrize("gate_after", [True, False])
def test_the_layer_is_the_equations(gate_after: bool) -> None:
    """By loops over points and channels; three scalars, two channels of vectors, everything else random."""
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    M1, M2, M3, M4 = draw(5, 3), draw(3, 2), draw(6, 5), draw(6, 4)
    Q, K, W5 = draw(3, 4), draw(3, 4), draw(4, 2)
    W = {name: draw(2, 2) for name in ("W1", "W2", "W3", "W4", "Wqv", "Wkv")}
    layer = ExactLayer(
        **W, Wqs=Q, Wks=K, W5=W5, gate_after=gate_after,
        mlp1=lambda x: torch.tanh(x @ M1), mlp2=lambda x: torch.sin(x @ M2),
        mlp3=lambda x: torch.tanh(x @ M3), mlp4=lambda x: torch.sin(x @ M4),
    )  # fmt: skip
    s, v = draw(4, 3), draw(4, 3, 2)
    found = layer(Features(s, v))
    gram = [[v[i].T @ v[j] for j in range(4)] for i in range(4)]
    mixed_s = [torch.tanh(torch.cat([s[i], (W["W1"].T @ gram[i][i] @ W["W2"]).diagonal()]) @ M1) for i in range(4)]
    gates = [torch.sin((mixed_s[i] if gate_after else s[i]) @ M2) for i in range(4)]
    mixed_v = [v[i] @ torch.diag(gates[i]) @ W["W3"] + v[i] @ W["W4"] for i in range(4)]
    for i in range(4):
        sum_s, sum_v = torch.zeros(3, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64)
        for j in range(4):
            inner = (W["Wqv"].T @ gram[i][j] @ W["Wkv"]).diagonal()
            Y = torch.tanh(torch.cat([(s[i] @ Q) * (s[j] @ K), inner]) @ M3)
            torch.testing.assert_close(found.attention[i, j], Y)
            sum_s, sum_v = sum_s + Y[:3] * mixed_s[j], sum_v + Y[3:] * mixed_v[j]
        torch.testing.assert_close(found.features.scalars[i], torch.sin(torch.cat([mixed_s[i], sum_s]) @ M4))
        torch.testing.assert_close(found.features.vectors[i], torch.cat([mixed_v[i], sum_v], 1) @ W5)


def test_formulas_are_read_as_written() -> None:
    assert terms("2 A*B - 0.5 + i.d2") == ((2, ("A", "B")), (-0.5, ()), (1, ("i.d2",)))
    values = Polynomials.of(("x", "y"), ["x*x - 3 y", "", "2"])(torch.tensor([[2.0, 5.0]]))
    assert values.tolist() == [[-11, 0, 2]]
    assert constructions.times("A - 2 B", "C") == "1 C*A + -2 C*B"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: terms("A ** B"), "term"),
        (lambda: Polynomials.of(("x",), ["y"]), "expected one of x"),
        (lambda: compiled([LayerPlan({"A": ("U", "V")})], ["U"]), "expected one of U"),
        (lambda: enumerated_paths(np.zeros((1, 11, 11)), 2), "at most 10"),
    ],
    ids=["formula", "name", "channel", "size"],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], Any], expected: str) -> None:
    with pytest.raises(PointsetError, match=expected):
        call()
