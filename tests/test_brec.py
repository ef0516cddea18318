"""BREC's protocol: the paired test, training on a pair, exact invariants, many pairs with kill and resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import scipy.stats
import torch
from torch import Tensor, nn

from pointset.datasets.benchmarks.brec import EdgeList, GraphPair, load_pairs
from pointset.errors import FileFormatError, MemoryForecastError, SpecError
from pointset.paper import brec, families
from pointset.paper.brec import INVARIANTS, PUBLISHED, compare_exactly, grouped, run_pairs, summarised, total
from pointset.paper.siamese import (
    COPIES,
    ROW,
    THRESHOLD,
    Contestant,
    Outcome,
    Settings,
    compare,
    contestant_named,
    t_squared,
)

QUICK = Settings(channels=8, layers=2, beginnings=2)


def edge_list(graph: nx.Graph[Any]) -> EdgeList:
    return len(graph), torch.tensor(sorted(graph.edges()), dtype=torch.long).mT.contiguous()


def pair_of(first: nx.Graph[Any], second: nx.Graph[Any], number: int = 0, category: str = "Basic") -> GraphPair:
    return GraphPair(number, category, edge_list(first), edge_list(second))


CYCLES = pair_of(families.cycle(8), families.two_cycles(4))
STRONGLY_REGULAR = pair_of(families.rook(4), families.shrikhande(), 110, "Regular-SRG")


class TestPairedTest:
    def rows(self, seed: int, noise: float) -> Tensor:
        return noise * torch.randn(COPIES, ROW, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def test_the_threshold_is_the_95_percent_quantile(self) -> None:
        quantile = float(scipy.stats.f.ppf(0.95, ROW, COPIES - ROW))
        assert (COPIES - 1) * ROW / (COPIES - ROW) * quantile == pytest.approx(THRESHOLD, abs=0.05)

    def test_the_statistic_is_hotellings(self) -> None:
        first, second = self.rows(0, 1.0) + 0.3, self.rows(1, 1.0)
        difference = (first - second).numpy()
        mean, covariance = difference.mean(0), torch.cov((first - second).mT).numpy()
        expected = COPIES * mean @ torch.linalg.inv(torch.from_numpy(covariance)).numpy() @ mean
        assert t_squared(first, second) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("seed", range(5))
    def test_rounding_is_no_difference(self, seed: int) -> None:
        """Without ε, a test of noise finds a mean in one of twenty cases, whatever its size."""
        assert t_squared(self.rows(seed, 1e-6), self.rows(seed + 100, 1e-6)) < 1

    def test_a_small_difference_that_all_copies_show_is_one(self) -> None:
        assert t_squared(self.rows(0, 1e-8) + 1e-3, self.rows(1, 1e-8)) > THRESHOLD

    def test_noise_as_large_as_the_difference_hides_it(self) -> None:
        assert t_squared(self.rows(0, 1.0) + 0.1, self.rows(1, 1.0)) < THRESHOLD

    def test_rows_that_are_not_finite_count_as_unreliable(self) -> None:
        assert t_squared(torch.full((COPIES, ROW), torch.nan), self.rows(0, 1.0)) > THRESHOLD


class TestOnePair:
    @pytest.mark.parametrize("model", ["pst", "pst-released", "psds"])
    def test_models_on_points_tell_one_cycle_from_two(self, model: str) -> None:
        outcome = compare(CYCLES, contestant_named(model), QUICK)
        assert outcome.separated
        assert not outcome.unreliable

    def test_message_passing_does_not(self) -> None:
        outcome = compare(CYCLES, contestant_named("gin"), QUICK)
        assert not outcome.separated
        assert not outcome.unreliable
        assert outcome.steps == COPIES // QUICK.batch  # it tried

    def test_message_passing_sees_what_1_wl_sees(self) -> None:
        pair = pair_of(nx.path_graph(5), nx.star_graph(4))
        assert compare(pair, contestant_named("gin"), QUICK).separated

    def test_strongly_regular_graphs_of_one_kind_stay_together(self) -> None:
        outcome = compare(STRONGLY_REGULAR, contestant_named("pst"), QUICK)
        assert not outcome.separated
        assert not outcome.unreliable

    @pytest.mark.parametrize("precision", ["float64", "float32"])
    def test_a_graph_and_its_copy_are_never_separated(self, precision: str) -> None:
        copy = nx.relabel_nodes(families.cycle(9), {node: (4 * node + 1) % 9 for node in range(9)})
        outcome = compare(
            pair_of(families.cycle(9), copy), contestant_named("pst"), replace(QUICK, precision=precision)
        )
        assert not outcome.separated
        assert not outcome.unreliable

    def test_the_same_seed_gives_the_same_outcome(self) -> None:
        state = torch.random.get_rng_state()
        one, two = (compare(CYCLES, contestant_named("pst"), QUICK) for _ in range(2))
        assert replace(one, seconds=0.0) == replace(two, seconds=0.0)
        assert torch.random.get_rng_state().equal(state)

    def test_a_model_that_sees_the_order_of_nodes_is_unreliable(self) -> None:
        """It gives the first node of a graph a role, and copies of one graph rows with different means."""

        class FirstNode(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(2, 16)
                self.calls = 0

            def embed(self, batch: Tensor) -> Tensor:
                self.calls += 1
                rows: Tensor = self.linear(batch + 10.0 * self.calls)
                return rows

        def prepare(graphs: Any) -> Tensor:
            return torch.tensor([[float((edges == 0).sum()), float(nodes)] for nodes, edges in graphs]).double()

        outcome = compare(STRONGLY_REGULAR, Contestant(lambda *_: FirstNode(), prepare), QUICK)
        assert outcome.unreliable

    def test_a_model_that_overflows_on_one_graph_only_is_unreliable(self) -> None:
        class Overflow(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(1, 16)

            def embed(self, batch: Tensor) -> Tensor:
                rows: Tensor = self.linear(batch)
                return rows

        def prepare(graphs: Any) -> Tensor:
            ends = [edges.flatten().bincount(minlength=nodes).max() for nodes, edges in graphs]
            return torch.tensor([[1.0 if end < 3 else torch.nan] for end in ends]).double()

        outcome = compare(
            pair_of(nx.cycle_graph(5), nx.star_graph(4)), Contestant(lambda *_: Overflow(), prepare), QUICK
        )
        assert outcome.unreliable
        assert not outcome.separated


class TestInvariants:
    @pytest.mark.parametrize(
        ("pair", "seen_by"),
        [
            (CYCLES, {"inner-products", "points", "3-wl", "marked-3-wl"}),
            (STRONGLY_REGULAR, {"marked-3-wl"}),
            (pair_of(nx.path_graph(5), nx.star_graph(4)), set(INVARIANTS)),
            (pair_of(families.cfi(nx.complete_bipartite_graph(2, 3), False),
                     families.cfi(nx.complete_bipartite_graph(2, 3), True)), set(INVARIANTS) - {"1-wl"}),
        ],
        ids=["cycles", "strongly regular", "path and star", "CFI of K(2,3)"],
    )  # fmt: skip
    def test_who_sees_what(self, pair: GraphPair, seen_by: set[str]) -> None:
        outcomes = {name: compare_exactly(pair, name) for name in INVARIANTS}
        assert {name for name, outcome in outcomes.items() if outcome.separated} == seen_by
        assert not any(outcome.unreliable for outcome in outcomes.values())

    def test_counts_on_every_seventh_real_pair(self, shared_data: Path) -> None:
        pairs = [pair for pair in load_pairs(shared_data)[::7] if pair.num_nodes <= 100]
        found = {name: [compare_exactly(pair, name) for pair in pairs] for name in ("1-wl", "inner-products", "3-wl")}
        seen = {name: {one.pair for one in outcomes if one.separated} for name, outcomes in found.items()}
        assert seen["1-wl"] == set()
        easy = {pair.number for pair in pairs if pair.category in ("Basic", "Regular", "Extension")}
        assert easy <= seen["inner-products"] <= seen["3-wl"]
        assert not {pair.number for pair in pairs if pair.category == "Regular-SRG"} & seen["3-wl"]

    @pytest.mark.slow
    def test_3_wl_tells_270_pairs_apart(self, shared_data: Path) -> None:
        """As published."""
        outcomes = [compare_exactly(pair, "3-wl") for pair in load_pairs(shared_data)]
        assert [count for count, _ in grouped(summarised(outcomes)).values()] == list(PUBLISHED["3-WL"])


PAIRS = [pair_of(families.cycle(2 * length), families.two_cycles(length), length - 3) for length in range(3, 9)]


class DiesWhenSent:
    """Ends the process that unpickles it, as the system does with one that takes too much memory."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


class TestManyPairs:
    def test_processes_give_what_one_gives(self, tmp_path: Path) -> None:
        one = run_pairs("3-wl", PAIRS, tmp_path / "one", workers=1)
        two = run_pairs("3-wl", PAIRS, tmp_path / "two", workers=2)
        assert [replace(a, seconds=0.0) for a in one] == [replace(b, seconds=0.0) for b in two]
        assert [outcome.separated for outcome in one] == [True] * len(PAIRS)

    def test_what_is_finished_is_not_done_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = run_pairs("1-wl", PAIRS[:4], tmp_path, workers=1)
        done = []

        def listed(pair: GraphPair, name: str, seed: int) -> Outcome:
            done.append(pair.number)
            return compare_exactly(pair, name, seed)

        monkeypatch.setattr(brec, "compare_exactly", listed)
        again = run_pairs("1-wl", PAIRS, tmp_path, workers=1)
        assert again[:4] == first
        assert sorted(done) == [4, 5]

    def test_half_a_line_is_forgotten(self, tmp_path: Path) -> None:
        whole = run_pairs("1-wl", PAIRS, tmp_path, workers=1)
        file = tmp_path / "1-wl.jsonl"
        text = file.read_text()
        file.write_text(text[:-30])
        again = run_pairs("1-wl", PAIRS, tmp_path, workers=1)
        assert [replace(a, seconds=0.0) for a in again] == [replace(b, seconds=0.0) for b in whole]
        assert len(file.read_text().splitlines()) == len(text.splitlines())

    def test_other_settings_are_refused(self, tmp_path: Path) -> None:
        run_pairs("gin", PAIRS[:1], tmp_path, QUICK, workers=1)
        with pytest.raises(SpecError, match=r"made with channels=8; give the same settings .* another --out"):
            run_pairs("gin", PAIRS[:1], tmp_path, replace(QUICK, channels=4), workers=1)

    @pytest.mark.parametrize(
        "content",
        [
            b'{"model": "gin"}\n{"pair": 1}\n',
            b"\xff\xfe\n",
            b"[1]\n",
            b'{"model": "gin"}\n{"pair": 0, "category": "Basic", "nodes": 6, "separated": "no", "unreliable": null, '
            b'"seconds": 1.0}\n',
        ],
        ids=["entries", "encoding", "settings", "kinds"],
    )
    def test_a_damaged_file_is_named(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "gin.jsonl").write_bytes(content)
        with pytest.raises(FileFormatError, match=r"gin\.jsonl is damaged"):
            run_pairs("gin", PAIRS[:1], tmp_path, QUICK, workers=1)

    def test_an_unknown_model_is_named_before_the_work(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match=r"'3wl'.*did you mean '3-wl'"):
            run_pairs("3wl", PAIRS, tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_process_that_dies_is_told_and_nothing_is_lost(self, tmp_path: Path) -> None:
        deadly = GraphPair(9, "Basic", (3, DiesWhenSent()), (3, DiesWhenSent()))  # type: ignore[arg-type]
        run_pairs("1-wl", PAIRS[:1], tmp_path, workers=1)
        with pytest.raises(MemoryForecastError, match=r"ended before its time .* what is finished is kept"):
            run_pairs("1-wl", [*PAIRS[:1], deadly, deadly._replace(number=10)], tmp_path, workers=2)
        assert [one.pair for one in run_pairs("1-wl", PAIRS[:1], tmp_path, workers=1)] == [0]

    def test_killed_and_taken_up_again(self, tmp_path: Path) -> None:
        code = (
            "from tests.test_brec import PAIRS, QUICK\nfrom pathlib import Path\n"
            "from pointset.paper.brec import run_pairs\n"
            f"run_pairs('pst', PAIRS, Path({str(tmp_path)!r}), QUICK, workers=1)"
        )
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[1])
        file = tmp_path / "pst.jsonl"
        deadline = time.monotonic() + 120
        while (not file.exists() or len(file.read_text().splitlines()) < 3) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept = len(file.read_text().splitlines()) - 1
        assert kept >= 2
        resumed = run_pairs("pst", PAIRS, tmp_path, QUICK, workers=1)
        unbroken = run_pairs("pst", PAIRS, tmp_path / "unbroken", QUICK, workers=1)
        assert [one.t_squared for one in resumed] == [one.t_squared for one in unbroken]


class TestSummary:
    def outcome(self, pair: int, category: str, *, separated: bool, unreliable: bool = False) -> Outcome:
        return Outcome(pair, category, 10, separated, unreliable, 0.0)

    def test_an_unreliable_pair_is_not_separated(self) -> None:
        summary = summarised(
            [
                self.outcome(0, "Basic", separated=True),
                self.outcome(1, "Basic", separated=True, unreliable=True),
                self.outcome(110, "Regular-SRG", separated=False),
                self.outcome(380, "Distance_Regular", separated=True),
            ]
        )
        assert summary["Basic"] == {"pairs": 2, "separated": 1, "unreliable": 1}
        assert grouped(summary) == {"Basic": (1, 2), "Regular": (1, 2), "Extension": (0, 0), "CFI": (0, 0)}
        assert total(summary, "separated") == 2

    def test_published_rows_fit_into_the_benchmark(self) -> None:
        for row in PUBLISHED.values():
            assert all(count <= most for count, most in zip(row, (60, 140, 100, 100), strict=True))


class TestCommand:
    def call(self, *arguments: str) -> Any:
        from typer.testing import CliRunner

        from pointset.cli.main import app

        return CliRunner().invoke(app, ["express", "brec", *arguments])

    def test_a_table_and_a_file(self, shared_data: Path, tmp_path: Path) -> None:
        file = tmp_path / "brec.json"
        result = self.call(
            "--models", "1-wl,3-wl", "--category", "basic", "--data-dir", str(shared_data), "--workers", "1",
            "--out", str(tmp_path / "kept"), "--json", str(file),
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        expected = {"pairs": 60, "separated": 60, "unreliable": 0}
        assert json.loads(file.read_text()) == {
            "1-wl": {"Basic": expected | {"separated": 0}},
            "3-wl": {"Basic": expected},
        }
        assert "60 of 60" in result.output
        assert "1-wl misses 60 pairs that 3-wl distinguishes" in result.output

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            (["--models", "pts"], 1, "did you mean 'pst'"),
            (["--models", " ,"], 1, "got no model; expected some of 1-wl"),
            (["--category", "CFG", "--data-dir", "."], 2, "did you mean 'CFI'"),
            (["--json", "nowhere/brec.json"], 2, "no folder nowhere"),
            (["--models", "1-wl", "--data-dir", "."], 1, "brec_v3.npy"),
        ],
        ids=["model", "no model", "category", "json", "data"],
    )
    def test_bad_input(self, arguments: list[str], code: int, said: str, tmp_path: Path) -> None:
        result = self.call(*arguments, "--out", str(tmp_path))
        assert result.exit_code == code
        assert said in " ".join(result.output.replace("│", " ").split())
