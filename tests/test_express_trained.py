"""``pointset express counting`` and ``distances``: what a trained model counts and measures."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from pointset import Categories, PointModel
from pointset.cli.main import app
from pointset.datasets.benchmarks.counting import counting_graphs
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.counting import SUBSTRUCTURES, count_many
from pointset.datasets.dataset import Dataset, Provenance
from pointset.datasets.loading import benchmark_named
from pointset.datasets.random_graphs import mixed_graphs
from pointset.datasets.table import GraphTable
from pointset.errors import MissingDataError, SpecError
from pointset.paper.trained_counting import bare, count_errors, count_fresh, fresh_families
from pointset.paper.trained_distances import CLASSES, concatenated, measure_distances, pair_features, probe, truths_of
from pointset.points.inputs import read_graph, read_graphs
from pointset.prediction.evaluation import evaluate
from pointset.prediction.predictor import Predictor, load
from pointset.registry import preset_names
from pointset.runs.recipe import Recipe
from pointset.training.bundle import write_bundle
from pointset.training.run import train
from tests.card_data import dataset_like

SEED = 3  # of the tiny run's own graphs
TRAIN, VAL, GRAPHS = 10, 2, 24
FAMILIES = [
    *("training kind", "40 nodes", "60 nodes", "random", "hubs", "trees", "small worlds", "communities", "geometric"),
    "cycles",
]


def counting_data() -> Dataset:
    """24 graphs of the benchmark's generator, with its card."""
    num_nodes, num_edges, edges = counting_graphs(SEED, GRAPHS)
    y = count_many(num_nodes, num_edges, edges, progress=False).astype(np.float32)
    parts = np.split(np.arange(GRAPHS), [TRAIN, TRAIN + VAL])
    split = dict(zip(("train", "val", "test"), parts, strict=True))
    table = GraphTable(num_nodes, num_edges, edges, y=y, y_of_nodes=True, split=split)
    return Dataset.from_table(table, benchmark_named("counting").card, Provenance("made for a test", "made here"))


def card_of(target: str = "edges", level: Level = Level.GRAPH, **more: Any) -> Card:
    return Card(
        name="small",
        title="Small",
        description="",
        level=level,
        task=Task.REGRESSION,
        targets=(Target(target),),
        metric=Metric.MAE,
        split="random",
        **more,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two tiny trained runs, ``counts`` and ``features``, whose data can be read again."""
    folder = tmp_path_factory.mktemp("runs")
    card = card_of(node=Categories(4), edge=Categories(3))
    data = {"counts": counting_data(), "features": dataset_like(card, sizes=(4, 5, 6, 7, 8, 9) * 5)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pointset.training.data._read", lambda choice, *_: data[str(choice.file)])
        for name in data:
            plain: dict[str, Any] = {"name": name, "dataset": {"file": name}, "model": {"dim": 8, "layers": 2}}
            recipe = Recipe.from_dict(plain | {"trainer": {"epochs": 1, "batch_size": 8, "threads": 1}})
            train(recipe, folder / name, device="cpu", watch="quiet")
        yield folder


@pytest.fixture(scope="module")
def counted(runs: Path) -> dict[str, Any]:
    """Of the tiny run."""
    return count_fresh(runs / "counts", graphs=6, progress=False)


def model_of(preset: str, card: Card, layers: int = 2) -> PointModel:
    """An untrained model."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return PointModel.from_preset(
            preset, node=card.node, edge=card.edge, level=card.level.value, dim=8, layers=layers
        )


def bundle(folder: Path, preset: str, card: Card | None = None, layers: int = 2) -> Path:
    """One in a bundle."""
    card = card or card_of()
    write_bundle(folder / "model.zip", model_of(preset, card, layers), card)
    return folder / "model.zip"


def rooted(graph: nx.Graph[int], node: int) -> dict[str, int]:
    """Two counts, by definition."""
    triangles: Any = nx.triangles(graph, node)
    return {"2-path": sum(graph.degree[other] - 1 for other in graph[node]), "3-cycle": int(triangles)}


class TestCounting:
    def test_scores_are_those_of_a_loop_over_nodes(self, runs: Path, counted: dict[str, Any]) -> None:
        predictor = load(runs / "counts")
        scale = predictor.bundle.scale
        assert scale is not None
        own: dict[str, list[tuple[float, int]]] = {"2-path": [], "3-cycle": []}
        for one in fresh_families(6, counted["seed"])["random"].graphs:
            graph: nx.Graph[int] = nx.empty_graph(one.num_nodes)
            graph.add_edges_from(one.edges.T.tolist())
            (predicted,) = predictor.predict([graph], progress=False)
            for node in range(one.num_nodes):
                exact = rooted(graph, node)
                for name, pairs in own.items():
                    pairs.append((float(predicted[node, SUBSTRUCTURES.index(name)]), exact[name]))
        for name, pairs in own.items():
            errors = [abs(given - exact) for given, exact in pairs]
            found = counted["families"]["random"][name]
            std = float(scale.std[SUBSTRUCTURES.index(name)])
            assert found["mae"] == pytest.approx(sum(errors) / len(errors) / std)
            assert found["exact_share"] == sum(round(given) == exact for given, exact in pairs) / len(pairs)
            assert found["largest_error"] == pytest.approx(max(errors))
            where = found["where"]
            assert abs(where["predicted"] - where["count"]) == pytest.approx(max(errors))
            assert where["count"] == rooted(nx.from_graph6_bytes(where["graph6"].encode()), where["node"])[name]

    def test_the_runs_own_test_graphs_give_its_own_test_score(self, runs: Path) -> None:
        predictor, data = load(runs / "counts"), counting_data()
        assert predictor.bundle.scale is not None
        found = count_errors(predictor, bare(data.arrays, data.split["test"]), predictor.bundle.scale)
        recorded = evaluate(runs / "counts", progress=False)["per_target"]
        assert list(found) == list(SUBSTRUCTURES)
        for name in SUBSTRUCTURES:
            assert found[name]["mae"] == pytest.approx(recorded[name]["normalised_mae"], rel=1e-5)

    @pytest.mark.parametrize("error", [0.0, 1000.0])
    def test_who_is_right_counts_and_who_is_wrong_does_not(
        self, error: float, runs: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def predict(_self: Predictor, graphs: Any, **_: Any) -> list[torch.Tensor]:
            arrays = read_graphs(graphs)
            counts = count_many(arrays.num_nodes, arrays.num_edges, arrays.edges, progress=False)
            return list(torch.split(torch.from_numpy(counts).double() + error, arrays.num_nodes.tolist()))

        monkeypatch.setattr(Predictor, "predict", predict)
        found = count_fresh(runs / "counts", graphs=3, progress=False)
        assert list(found["families"]) == FAMILIES
        for scores in found["families"].values():
            for one in scores.values():
                assert one["counts"] is (error == 0) and one["exact_share"] == (error == 0)
                assert one["largest_error"] == error

    def test_graphs_seen_in_training_are_left_out(self, runs: Path) -> None:
        count = TRAIN + VAL + 3  # from the run's own seed: graph i does not depend on how many there are
        found = count_fresh(runs / "counts", graphs=count, seed=SEED, progress=False)["graphs"]
        assert found["training kind"]["seen"] == TRAIN + VAL and found["training kind"]["graphs"] == 3
        assert found["60 nodes"]["seen"] == 0 and found["60 nodes"]["nodes"] == 60 * count
        with pytest.raises(SpecError, match="another --seed"):
            count_fresh(runs / "counts", graphs=4, seed=SEED, progress=False)

    def test_a_bundle_alone_says_what_was_not_checked(self, runs: Path, counted: dict[str, Any]) -> None:
        found = count_fresh(runs / "counts" / "bundle", graphs=6, progress=False)
        assert "recipe" in found["not_checked"] and found["graphs"]["trees"]["seen"] is None
        assert counted["not_checked"] is None and found["families"]["trees"] == counted["families"]["trees"]

    @pytest.mark.parametrize("card", [card_of(), card_of("3-cycle")], ids=["other target", "of graphs"])
    def test_other_targets_are_refused(self, card: Card, tmp_path: Path) -> None:
        with pytest.raises(
            SpecError, match=rf"targets {card.target_names[0]}.*expected counts at nodes.*2-path.*Train"
        ):
            count_fresh(bundle(tmp_path, "pst", card))

    def test_models_that_need_features_are_refused(self, tmp_path: Path) -> None:
        card = card_of("3-cycle", Level.NODE, node=Categories(4))
        with pytest.raises(SpecError, match="reads node features; expected one of bare graphs"):
            count_fresh(bundle(tmp_path, "pst", card))

    def test_some_targets_suffice_and_unscaled_ones_are_scaled_here(self, tmp_path: Path) -> None:
        found = count_fresh(bundle(tmp_path, "pst", card_of("4-cycle", Level.NODE)), graphs=4, progress=False)
        assert found["substructures"] == ["4-cycle"] and found["scale"] == "fresh graphs"
        families = fresh_families(4, found["seed"])
        exact = {}
        for name in ("training kind", "trees"):
            graphs = families[name].graphs
            exact[name] = count_many(graphs.num_nodes, graphs.num_edges, graphs.edges, progress=False)[:, 6]
        predicted = torch.cat(load(tmp_path / "model.zip").predict(list(families["trees"].graphs), progress=False))
        error = np.abs(predicted[:, 0].numpy() - exact["trees"]).mean() / exact["training kind"].std()
        assert found["families"]["trees"]["4-cycle"]["mae"] == pytest.approx(error)


class TestDistances:
    def test_truths_of_a_path_with_an_isolated_node(self) -> None:
        graph = nx.path_graph(3)
        graph.add_node(3)
        truths = truths_of(read_graph(graph)[0], np.random.default_rng(0))
        rows = {
            (i, j): row for row, (i, j) in enumerate(zip(truths.first.tolist(), truths.second.tolist(), strict=True))
        }
        assert len(rows) == 10
        assert CLASSES[truths.path[rows[0, 2]]] == "2" and CLASSES[truths.path[rows[1, 3]]] == "none"
        assert float(truths.resistance[rows[0, 2]]) == pytest.approx(2.0)
        assert float(truths.commute[rows[0, 2]]) == pytest.approx(8.0)  # 2m · resistance
        assert truths.resistance[[rows[0, 0], rows[1, 3]]].isnan().all()
        assert float(truths.returning[rows[1, 1]]) == pytest.approx(1.0)  # from the middle it is back after four steps
        assert float(truths.returning[rows[0, 0]]) == pytest.approx(0.5)

    def test_srd_coordinates_show_adjacency(self, tmp_path: Path) -> None:
        """⟨v_i, v_j⟩ = L_ij for the coordinates of ``pst-gc``, so edges are there to be read, exactly."""
        found = measure_distances(bundle(tmp_path, "pst-gc"), graphs=8, progress=False)
        points = found["layers"][0]
        assert points["name"] == "points" and found["graphs"]["kind"] == "generated"
        for weights in ("trained", "random"):
            row = points[weights]["per_distance"]["1"]
            assert row["pairs"] > 50 and row["accuracy"] == row["precision"] == 1.0
        assert [layer["name"] for layer in found["layers"]] == ["points", "layer 1", "layer 2"]
        assert found["degrees"]["accuracy"] > found["majority"]
        assert sum(row["pairs"] for row in found["degrees"]["per_distance"].values()) == found["graphs"]["test_pairs"]
        json.dumps(found, allow_nan=False)

    def test_a_probe_finds_what_is_there_and_nothing_else(self) -> None:
        graphs = [read_graph(graph)[0] for graph in mixed_graphs(16, 1)]
        generator = np.random.default_rng(0)
        each = [truths_of(graph, generator) for graph in graphs]
        fit, test = concatenated(each[:8]), concatenated(each[8:])
        told, noise = [], []
        for part in (fit, test):
            known = torch.stack([part.path.double(), part.resistance.nan_to_num(0.0)], dim=1)
            told.append((known, part))
            noise.append((torch.from_numpy(generator.normal(size=known.shape)), part))
        knowing, guessing = probe(*told), probe(*noise)
        assert knowing["resistance_r2"] > 0.999 and knowing["accuracy"] > 0.9
        assert guessing["resistance_r2"] < 0.05
        assert guessing["accuracy"] < 0.05 + float((test.path == fit.path.mode().values).double().mean())

    @pytest.mark.parametrize("preset", sorted(preset_names("paper")))
    def test_every_preset_can_be_read_and_a_pair_has_no_order(self, preset: str) -> None:
        graph = nx.barbell_graph(4, 2)
        edges = torch.tensor([[u, v] for a, b in graph.edges for u, v in ((a, b), (b, a))]).T
        positions = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
        model = model_of(preset, card_of()).double()
        first, second = torch.triu_indices(10, 10)
        given = Data(edge_index=edges, num_nodes=10, pos=positions)
        stages, swapped = pair_features(model, given, first, second), pair_features(model, given, second, first)
        assert list(stages)[:2] == ["points", "layer 1"]
        for name, features in stages.items():
            assert len(features) == 55 and features.isfinite().all()
            assert (features.std(0) > 0).any()
            torch.testing.assert_close(features, swapped[name])

    def test_models_without_attention_are_read_by_their_vectors(self, tmp_path: Path) -> None:
        found = measure_distances(bundle(tmp_path, "psds", layers=3), graphs=4, progress=False)
        assert [layer["name"] for layer in found["layers"]] == ["points", "layer 1", "layer 2"]
        assert found["layers"][1]["trained"]["accuracy"] > found["majority"]

    def test_models_with_features_are_asked_about_their_test_part(self, runs: Path) -> None:
        found = measure_distances(runs / "features", graphs=100, progress=False)
        assert found["graphs"]["kind"] == "test part"
        assert found["graphs"]["fit"] == 2 and 1 <= found["graphs"]["test"] <= 3  # 30 graphs, a sixth for the test
        json.dumps(found, allow_nan=False)
        with pytest.raises(MissingDataError, match=r"no recipe\.yaml.*folder of a run"):
            measure_distances(runs / "features" / "bundle")

    def test_impossible_numbers_are_refused(self, runs: Path) -> None:
        with pytest.raises(SpecError, match="at least 2"):
            measure_distances(runs / "counts", graphs=1)
        with pytest.raises(SpecError, match="seed=-1"):
            measure_distances(runs / "counts", seed=-1)


class TestCommands:
    @pytest.mark.parametrize("verb", ["counting", "distances"])
    def test_end_to_end(self, verb: str, runs: Path, tmp_path: Path) -> None:
        file, picture = tmp_path / "found.json", tmp_path / "found.png"
        words = ["express", verb, str(runs / "counts"), "--graphs", "2", "--json", str(file), "--picture", str(picture)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        found = json.loads(file.read_text())
        study = {"counting": count_fresh, "distances": measure_distances}[verb]
        assert found == study(runs / "counts", graphs=2, progress=False)  # the same again, and the defaults agree
        assert picture.stat().st_size > 10_000
        for name in found["substructures"] if verb == "counting" else ["degrees", "layer 2", "fresh weights"]:
            assert name in done.output

    def test_errors_are_one_message(self, tmp_path: Path) -> None:
        done = CliRunner().invoke(app, ["express", "counting", str(bundle(tmp_path, "pst"))])
        assert done.exit_code == 1 and "expected counts at nodes" in " ".join(done.output.split())
        missing = CliRunner().invoke(app, ["express", "distances", str(tmp_path / "nothing")])
        assert missing.exit_code == 1 and "Traceback" not in missing.output


def test_fresh_graphs_depend_on_their_seed_and_place_only() -> None:
    few, many, other = fresh_families(2, 1), fresh_families(5, 1), fresh_families(2, 2)
    assert list(few) == FAMILIES
    for name in FAMILIES:
        for first, again in zip(few[name].graphs, many[name].graphs, strict=False):
            assert first.num_nodes == again.num_nodes and (first.edges == again.edges).all()
    assert dataclasses.astuple(few["trees"].graphs[0])[1].tolist() != other["trees"].graphs[0].edges.tolist()
    assert all(nx.is_tree(graph) for graph in mixed_graphs(8, 0)[2::4])
