"""``pointset check-invariance``: it certifies what is invariant, and names what is not, the graph and the amount."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pointset.encoders.model import PointModel
from pointset.points.matrices import Laplacian
from pointset.training.bundle import write_bundle
from pointset.training.run import train
from tests import command_line
from tests.small_models import CLASSES, model_of, molecule_card
from tests.small_training import changed, edge_counts, write_graphs

SYMMETRIES = {"alone", "node_order", "eigenspaces", "orthogonal", "batch", "graph_order"}
MOLECULES = "id,smiles\n1,CCO\n2,C1CC\n3,C\n4,\n5,c1ccccc1O\n6,[Na+].[Cl-]\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained on 40 graphs, of which a few are its test part."""
    folder = tmp_path_factory.mktemp("invariance")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POINTSET_CACHE", str(folder / "cache"))
        recipe = changed(write_graphs(folder / "data", edge_counts()), trainer__epochs=1)
        train(recipe, folder / "run", device="cpu", watch="quiet")
    return folder / "run"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one, where nothing was kept before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POINTSET_DATA", raising=False)


invoke = partial(command_line.invoke, "check-invariance")


def checked(*arguments: str | Path, code: int = 0) -> tuple[dict[str, Any], str]:
    """The JSON file, in which nothing is NaN, and stdout."""
    said, _ = invoke(*arguments, "--json", "found.json", code=code)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found: dict[str, Any] = json.loads(Path("found.json").read_text(encoding="utf-8"), parse_constant=refuse)
    return found, said


def violated(found: dict[str, Any], precision: str = "float64") -> set[str]:
    return {one["symmetry"] for one in found["checks"] if not one["passed"] and one["precision"] == precision}


class TestRight:
    def test_a_trained_model_on_its_own_test_part(self, run: Path) -> None:
        found, said = checked(run, "--repeats", "2")
        assert found["invariant"] is True and found["graphs"] == found["available"] > 1
        assert 0 <= found["repeated_eigenvalues"] <= found["graphs"]
        pairs = [(one["symmetry"], one["precision"]) for one in found["checks"]]
        assert sorted(pairs) == sorted((name, kind) for name in SYMMETRIES for kind in ("float32", "float64"))
        for one in found["checks"]:
            assert one["passed"] and 0 <= one["largest"] <= one["tolerance"] and one["largest_output"] > 0
            assert one["worst"]["difference"] == one["largest"] and one["worst"]["target"] == "edges"
            assert one["worst"]["before"] == pytest.approx(one["worst"]["after"], rel=1e-4)
        worst = found["checks"][found["worst_check"]]["worst"]
        assert f"worst graph: {worst['graph']}, n = {worst['nodes']}, m = {worst['edges']}: " in said
        assert "invariant: yes" in said and said.count("holds") == len(SYMMETRIES) and "violated" not in said

    def test_the_same_seed_draws_the_same_and_at_most_the_limit(self, run: Path) -> None:
        graphs = run.parent / "data" / "graphs.g6"
        twice = [checked(run, graphs, "--limit", "5", "--repeats", "1")[0] for _ in range(2)]
        other, said = checked(run, graphs, "--limit", "5", "--repeats", "1", "--seed", "1")
        assert twice[0] == twice[1] != other
        assert (
            twice[0]["repeated_eigenvalues"] <= twice[0]["graphs"] == 5
            and other["available"] == 40
            and "5 of 40 graphs, " in said
            and "; 1 draw of each" in said
        )

    def test_molecules_with_rows_that_cannot_be_read(self) -> None:
        card = molecule_card(names=("logS",))
        write_bundle("model.zip", model_of(card), card)
        Path("in.csv").write_text(MOLECULES)
        said, warned = invoke("model.zip", "in.csv", "--repeats", "1", "--json", "found.json")
        found = json.loads(Path("found.json").read_text(encoding="utf-8"))
        assert (found["invariant"], found["graphs"], found["available"]) == (True, 4, 6)
        assert [one["row"] for one in found["left_out"]] == ["line 3", "line 5"]
        worst = found["checks"][found["worst_check"]]["worst"]
        assert worst["smiles"] in MOLECULES and worst["smiles"] in said and worst["graph"].startswith("line ")
        assert "left out line 3: 'C1CC' is not a SMILES" in warned

    def test_a_model_in_float64_is_checked_in_its_own_precision(self) -> None:
        card = molecule_card(names=("logS",))
        write_bundle("model", model_of(card).double(), card)
        Path("in.csv").write_text(MOLECULES)
        found, _ = checked("model", "in.csv", "--repeats", "1")
        assert {one["precision"] for one in found["checks"]} == {"float64"} and found["invariant"]


def first_point(self: PointModel, group: Any, s: Tensor) -> Tensor:
    """Of node 0, in the basis that the solver happened to choose."""
    return s + torch.nn.functional.silu(5 * group.eigenvectors[:, :1, 0])


def batch_sum(self: PointModel, group: Any, s: Tensor) -> Tensor:
    total: Tensor = group.eigenvalues.sum()
    return s + 0.01 * total


def not_a_number(self: PointModel, group: Any, s: Tensor) -> Tensor:
    return s * torch.nan


class TestWrong:
    """Models broken on purpose: the very symmetries that they break are named, and no other."""

    @pytest.mark.parametrize(
        ("fault", "expected"),
        [
            (first_point, {"node_order", "graph_order", "eigenspaces"}),
            (batch_sum, {"alone", "batch"}),
            (not_a_number, SYMMETRIES),
        ],
        ids=["first point", "batch sum", "not a number"],
    )
    def test_faults_of_the_model(
        self,
        run: Path,
        monkeypatch: pytest.MonkeyPatch,
        fault: Callable[[PointModel, Any, Tensor], Tensor],
        expected: set[str],
    ) -> None:
        right = PointModel.encode
        monkeypatch.setattr(PointModel, "encode", lambda self, group, *rest: fault(self, group, right(self, group)))
        found, said = checked(run, run.parent / "data" / "graphs.g6", "--repeats", "1", "--limit", "12", code=1)
        assert found["invariant"] is False and violated(found) == violated(found, "float32") == expected
        assert "invariant: no" in said and said.count("violated") == len(expected)
        for one in found["checks"]:
            if one["passed"]:
                continue
            assert (one["largest"] is None) == (fault is not_a_number)
            assert f"worst graph: {one['worst']['graph']}, " in said and one["change"] in said
            assert one["worst"]["before"] is None or one["worst"]["before"] != one["worst"]["after"]
        assert ("not a number" in said) == (fault is not_a_number)

    def test_one_axis_is_given_away_by_orthogonal_transformations(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = PointModel._scalars
        monkeypatch.setattr(PointModel, "_scalars", lambda *state: right(*state) + state[2][..., 0].square())
        found, _ = checked(run, "--repeats", "1", code=1)
        assert "orthogonal" in violated(found) and not violated(found) & {"alone", "batch", "node_order"}

    def test_a_fault_of_the_decomposition(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A matrix that favours the first node: nothing that is done to its points can show it."""
        right = Laplacian.dense

        def favouring(self: Laplacian, adjacency: Tensor) -> Tensor:
            matrix = right(self, adjacency)
            matrix[..., 0, 0] += 0.5
            return matrix

        monkeypatch.setattr(Laplacian, "dense", favouring)
        found, said = checked(run, "--repeats", "1", code=1)
        assert violated(found) == {"graph_order"}
        assert "another order of the nodes, decomposed anew (float32) changed edges from" in said

    def test_what_float32_would_take_for_rounding(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A dependence on the batch of about 1e-7 passes in float32; float64 has no such rounding."""
        right = PointModel.encode

        def slightly(self: PointModel, group: Any, *rest: Any) -> Tensor:
            return right(self, group, *rest) + 1e-5 * batch_sum(self, group, torch.zeros(()))

        monkeypatch.setattr(PointModel, "encode", slightly)
        arguments = (run, run.parent / "data" / "graphs.g6", "--repeats", "1", "--limit", "12")
        found, _ = checked(*arguments, code=1)
        assert violated(found) == {"alone", "batch"} and violated(found, "float32") == set()
        strict, _ = checked(*arguments, "--tolerance-float64", "1e-4", "--tolerance", "1e-9", code=1)
        assert violated(strict) == set() and "alone" in violated(strict, "float32")

    def test_probabilities_of_classes_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pointset.datasets.card import Task

        card = molecule_card(Task.MULTI_CLASS, names=("colour",))
        write_bundle("model", model_of(card), card)
        Path("in.csv").write_text("smiles\nCCO\nCCN\nCCC\n")
        right = PointModel.encode
        monkeypatch.setattr(
            PointModel, "encode", lambda self, group, *rest: batch_sum(self, group, right(self, group)).exp()
        )
        worst = next(one["worst"] for one in checked("model", "in.csv", code=1)[0]["checks"] if not one["passed"])
        assert worst["target"] in CLASSES and 0 <= worst["before"] <= 1 and worst["smiles"] in ("CCO", "CCN", "CCC")


class TestNothingChecked:
    """Exit code 2 throughout: 1 says that a model was checked and found wrong."""

    def test_no_such_run_or_data(self, run: Path) -> None:
        assert "there is no nowhere; expected the folder of a run" in invoke("nowhere", code=2)[1]
        assert "there is no file, folder or dataset 'nothing.csv'" in invoke(run, "nothing.csv", code=2)[1]

    def test_a_bundle_has_no_data_of_its_own(self, run: Path) -> None:
        assert "is a model without the data of its run; give some" in invoke(run / "bundle", code=2)[1]

    def test_no_row_can_be_read(self) -> None:
        card = molecule_card(names=("logS",))
        write_bundle("model", model_of(card), card)
        Path("in.csv").write_text("smiles\nC1CC\n")
        said = invoke("model", "in.csv", "--json", "found.json", code=2)[1]
        assert "none of in.csv can be checked" in said and "unclosed ring" in said
        assert not Path("found.json").exists()

    @pytest.mark.parametrize(
        "options",
        [("--limit", "0"), ("--repeats", "0"), ("--tolerance", "nan"), ("--tolerance-float64", "-1"),
         ("--json", "no/such/folder.json"), ("--smiles", "smiles")],
        ids=lambda options: options[0],
    )  # fmt: skip
    def test_usage(self, run: Path, options: tuple[str, str]) -> None:
        said = invoke(run, *options, code=2)[1]
        assert "expected" in said or "Invalid value" in said
