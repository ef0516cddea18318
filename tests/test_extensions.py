"""Encoders, metrics and datasets of a user's own: registering, recipes, the shell, bundles, other processes."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pointset
from pointset import extensions, metrics, registry
from pointset.datasets import loading
from pointset.datasets.card import Task
from pointset.encoders import PointState
from pointset.encoders.native import path_of
from pointset.encoders.pst import PST
from pointset.errors import FileFormatError, SpecError
from pointset.metrics import Metric, metric_named, metric_names
from pointset.runs.recipe import Recipe, choices
from pointset.training.bundle import read_bundle, write_bundle
from pointset.training.scoring import score, score_with_intervals
from tests.command_line import ended, invoke
from tests.small_models import card_of, model_of

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_encoder.py"


class MeanField(nn.Module):
    """Lengths of the vectors alone."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.linear = nn.Linear(channels, channels)

    def forward(self, state: PointState) -> PointState:
        lengths: Tensor = state.v.square().sum(-1)
        return state._replace(s=state.s + self.linear(lengths.movedim(0, -1)).movedim(-1, 0))


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers and imports is forgotten after it."""
    monkeypatch.setenv(extensions.VARIABLE, "")  # so that it is restored
    monkeypatch.delenv(extensions.VARIABLE)
    tables: list[dict[Any, Any]] = [
        registry.PRESETS, metrics._BY_NAME, metrics._OWN, loading.OWN, extensions._registered, extensions._imported
    ]  # fmt: skip
    before = [dict(table) for table in tables]
    modules, path = set(sys.modules), list(sys.path)
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
    sys.path[:] = path
    for name in {"own_encoder", "mine", "broken", "packaged"} & (set(sys.modules) - modules):
        del sys.modules[name]


def recipe_with(**values: Any) -> dict[str, Any]:
    return {"name": "own", "trainer": {"epochs": 1, "batch_size": 4}, **values}


class TestEncoders:
    def test_a_registered_name_is_a_preset_like_any_other(self) -> None:
        pointset.register_encoder("mean-field", MeanField, like="pst-fast", matrix="augmented")
        model = pointset.PointModel.from_preset("mean-field", dim=8, layers=2, out=3)
        assert isinstance(model.encoder, MeanField) and model.matrix == "augmented"
        assert model([nx.path_graph(4), nx.cycle_graph(5)]).shape == (2, 3)
        assert Recipe.from_dict(recipe_with(model={"preset": "mean-field"})).model.preset == "mean-field"
        assert "mean-field" in choices("model.preset") and not registry.is_baseline("mean-field")
        assert registry.PRESETS["mean-field"].summary == "Lengths of the vectors alone"
        assert registry.preset_title("mean-field") == "the user's own model (mean-field)"

    def test_names_that_are_taken(self) -> None:
        with pytest.raises(SpecError, match="'pst' is pointset's own and cannot be replaced; choose another name"):
            pointset.register_encoder("pst", MeanField, replace=True)
        pointset.register_encoder("mean-field", MeanField)
        pointset.register_encoder("mean-field", MeanField)  # a cell that is run again
        again = type("MeanField", (MeanField,), {"__module__": __name__, "__qualname__": "MeanField"})
        pointset.register_encoder("mean-field", again)  # and changed before
        assert registry.PRESETS["mean-field"].encoder is again
        with pytest.raises(SpecError, match=f"registered already by {__name__}; choose another name, or pass replace"):
            pointset.register_encoder("mean-field", PST)
        pointset.register_encoder("mean-field", PST, replace=True)
        assert registry.PRESETS["mean-field"].encoder is PST

    @pytest.mark.parametrize(
        ("encoder", "message"),
        [
            (MeanField(4, 1), "got an instance of MeanField .* expected the class itself"),
            (dict, "got dict .* not an nn.Module class; expected class MyEncoder"),
            (3, "got int .* not an nn.Module class"),
            (nn.Linear(2, 2).forward, r"cannot be called with \(channels, layers\): too many positional arguments"),
            (nn.Bilinear, r"cannot be called with \(channels, layers\): missing a required argument: 'out_features'"),
            (type("NoForward", (nn.Module,), {"__init__": lambda self, c, k: None}), "has no forward"),
            (
                type("Two", (nn.Module,), {"__init__": lambda self, c, k: None, "forward": lambda self, s, v: s}),
                r"forward of the encoder 'mine' cannot be called with \(self, state\)",
            ),
        ],
    )
    def test_what_is_no_encoder_is_refused_at_once(self, encoder: Any, message: str) -> None:
        with pytest.raises(SpecError, match=message):
            pointset.register_encoder("mine", encoder)
        assert "mine" not in registry.PRESETS

    @pytest.mark.parametrize("name", ["", "two words", "a,b", "a=b", "../up", 3])
    def test_names_that_would_not_survive_a_command_line(self, name: Any) -> None:
        with pytest.raises(SpecError, match="as the encoder's name; expected letters"):
            pointset.register_encoder(name, MeanField)

    def test_other_impossible_settings(self) -> None:
        with pytest.raises(SpecError, match="got like='gin', a baseline, whose encoder takes other inputs"):
            pointset.register_encoder("mine", MeanField, like="gin")
        with pytest.raises(pointset.errors.MatrixError, match="did you mean 'laplacian'"):
            pointset.register_encoder("mine", MeanField, matrix="laplacan")

    @pytest.mark.parametrize(
        ("result", "got"),
        [(lambda state: state.s, "a Tensor"), (lambda state: state._replace(s=state.s.mean(-1)), r"\(8, 1\)")],
    )
    def test_what_an_encoder_gives_is_checked(self, result: Callable[[PointState], Any], got: str) -> None:
        class Wrong(MeanField):
            def forward(self, state: PointState) -> PointState:
                returned: PointState = result(state)
                return returned

        pointset.register_encoder("wrong", Wrong)
        model = pointset.PointModel.from_preset("wrong", dim=8, layers=1)
        with pytest.raises(
            SpecError, match=rf"the encoder Wrong gave {got}; expected a PointState whose s has the sha"
        ):
            model([nx.path_graph(4)])

    @pytest.mark.parametrize("problem", [KeyError("s"), AssertionError(), ZeroDivisionError(), NotImplementedError()])
    def test_kernels_leave_to_torch_what_they_cannot_record(self, problem: Exception) -> None:
        class Picky(MeanField):
            def forward(self, state: PointState) -> PointState:
                if not isinstance(state.s, Tensor):
                    raise problem
                return super().forward(state)

        pointset.register_encoder("picky", Picky)
        model = pointset.PointModel.from_preset("picky", dim=8, layers=1)
        graphs = [nx.path_graph(4), nx.star_graph(3)]
        with pointset.torch_path():
            expected = model(graphs)
        assert torch.equal(model(graphs), expected) and path_of(model).startswith("torch")


class TestMetrics:
    def test_of_a_regression_each_target_by_itself_without_missing_ones(self) -> None:
        @pointset.register_metric("max_error", higher_is_better=False, has_unit=True)
        def max_error(predictions: Any, targets: Any) -> float:
            """The largest error."""
            predictions -= targets  # its own arrays: nothing of ours changes
            return float(abs(predictions).max())

        card = card_of(Task.REGRESSION, names=("a", "b"))
        predictions = torch.tensor([[1.0, 5.0], [2.0, 6.0], [9.0, 7.0]])
        targets = torch.tensor([[1.5, 5.0], [2.0, 9.0], [float("nan"), 7.0]])
        before = predictions.clone()
        found = score(predictions, targets, card, None)
        assert [found.per_target[name]["max_error"] for name in "ab"] == [0.5, 3.0]
        assert found.overall["max_error"] == 1.75 and torch.equal(predictions, before)
        assert metric_named("max_error").meaning == "The largest error"
        assert metrics.metric_unit("max_error", "eV") == "eV"
        assert metric_names(Task.REGRESSION)[-1] == "max_error" and "max_error" not in metric_names(Task.BINARY)
        assert not metrics.higher_is_better("max_error")

    def test_of_labels_and_classes_it_gets_probabilities(self) -> None:
        seen: dict[Task, Any] = {}

        def noted(task: Task) -> Callable[[Any, Any], float]:
            def metric(predictions: Any, targets: Any) -> float:
                seen[task] = predictions, targets
                return 0.0

            return metric

        for number, task in enumerate((Task.MULTI_LABEL, Task.MULTI_CLASS)):
            pointset.register_metric(f"noted-{number}", noted(task), task=task.value.split()[0], higher_is_better=True)
        score(torch.tensor([[0.0], [800.0]]), torch.tensor([[0.0], [1.0]]), card_of(Task.MULTI_LABEL), None)
        np.testing.assert_array_equal(seen[Task.MULTI_LABEL][0], [0.5, 1.0])
        logits = torch.tensor([[0.0, 0.0, 0.0], [0.0, np.log(2.0), 0.0], [1.0, 0.0, 0.0]])
        score(logits, torch.tensor([2, 1, -1]), card_of(Task.MULTI_CLASS), None)
        np.testing.assert_allclose(seen[Task.MULTI_CLASS][0], [[1 / 3] * 3, [0.25, 0.5, 0.25]])
        assert seen[Task.MULTI_CLASS][1].tolist() == [2, 1]  # a missing class is left out

    def test_intervals_are_those_of_a_built_in_metric(self) -> None:
        pointset.register_metric("own_mae", lambda p, y: abs(p - y).mean(), higher_is_better=False)
        pointset.register_metric("plain", lambda p, y: 1.0, higher_is_better=False, intervals=False)
        generator = torch.Generator().manual_seed(0)
        values = torch.randn(2, 30, 1, generator=generator)
        found = score_with_intervals(values[0], values[1], card_of(), None)
        assert found["own_mae"] == pytest.approx(found["mae"], rel=1e-9)
        assert found["plain"].value == 1.0 and np.isnan(found["plain"].lower)

    def test_it_is_tried_when_it_is_registered(self) -> None:
        with pytest.raises(SpecError, match=r"'mine' failed on predictions of shape \(8,\) .* NameError"):
            pointset.register_metric("mine", lambda p, y: no_such_name, higher_is_better=True)  # type: ignore[name-defined] # noqa: F821
        with pytest.raises(SpecError, match=r"'mine' gave a ndarray .* expected one number"):
            pointset.register_metric("mine", lambda p, y: p - y, higher_is_better=True)
        with pytest.raises(SpecError, match=r"got the task 'regresion'; .* did you mean 'regression'"):
            pointset.register_metric("mine", lambda p, y: 0.0, task="regresion", higher_is_better=True)
        for taken in ("mae", "loss"):
            with pytest.raises(SpecError, match="pointset's own"):
                pointset.register_metric(taken, lambda p, y: 0.0, higher_is_better=True)
        assert "mine" not in metric_names()

    def test_it_is_a_member_wherever_a_metric_is_expected(self) -> None:
        pointset.register_metric("mine", lambda p, y: 0.0, higher_is_better=True)
        metric = metric_named("mine")
        lookup: Callable[[str], Metric] = Metric  # type: ignore[assignment]
        assert lookup("mine") is metric and pickle.loads(pickle.dumps(metric)) is metric
        assert metric.with_arrow == "mine ↑" and metric != Metric.MAE and metric in {metric}
        with pytest.raises(ValueError, match="unknown"):
            lookup("unknown")


class TestDatasets:
    def test_options_are_arguments(self) -> None:
        @pointset.register_dataset("cycles")
        def cycles(count: int = 12, data_dir: object = None) -> Any:
            """Cycles of all sizes."""
            assert data_dir == "somewhere"
            graphs = [nx.cycle_graph(3 + number) for number in range(count)]
            return pointset.datasets.from_graphs(graphs, targets=[[float(len(one))] for one in graphs])

        dataset = pointset.datasets.load("cycles", "somewhere", count=15)
        assert len(dataset) == 15 and dataset.card.name == "cycles"
        assert "cycles" in pointset.datasets.names()
        with pytest.raises(
            SpecError, match=r"'cycles' got the options \[.*'counts'\]: got an unexpected keyword argument"
        ):
            pointset.datasets.load("cycles", counts=3)
        assert "Registered: cycles, Cycles of all sizes" in invoke("datasets")[1]
        with pytest.raises(SpecError, match="registered by a module of your own, so no more is known"):
            loading.benchmark_named("cycles")

    def test_what_is_no_dataset(self) -> None:
        pointset.register_dataset("wrong", lambda: [1, 2])
        with pytest.raises(
            SpecError, match=r"'wrong' gave a list; expected a Dataset, such as pointset.datasets.from_gr"
        ):
            pointset.datasets.load("wrong")
        with pytest.raises(SpecError, match="got int as the dataset 'five'; expected a function"):
            pointset.register_dataset("five", 5)  # type: ignore[call-overload]
        with pytest.raises(SpecError, match="the dataset 'zinc' is pointset's own"):
            pointset.register_dataset("zinc", lambda: None)


def written(folder: Path, text: str, name: str = "mine") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    return folder / f"{name}.py"


METRIC = "import pointset\npointset.register_metric('mine', lambda p, y: 0.0, higher_is_better=True)\n"


class TestImports:
    def test_a_module_of_the_current_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written(tmp_path, METRIC)
        monkeypatch.chdir(tmp_path)
        extensions.add_imports(["mine"])
        assert extensions.module_of("metric", "mine") == "mine" and os.environ[extensions.VARIABLE] == "mine"

    def test_a_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = written(tmp_path, METRIC)
        monkeypatch.chdir(tmp_path)
        extensions.add_imports(["mine.py"])
        extensions.add_imports([str(file)])  # the same once more
        assert metric_named("mine") == "mine" and os.environ[extensions.VARIABLE] == str(file)
        other = written(tmp_path / "other", METRIC)
        with pytest.raises(SpecError, match="another module is called 'mine' already; rename the file"):
            extensions.add_imports([str(other)])

    def test_the_variable_is_looked_at_when_a_name_is_not_known(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(extensions.VARIABLE, str(written(tmp_path, METRIC)))
        assert "mine" not in metric_names() and metric_named("mine").higher_is_better

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("x = 1\nname\n", r"NameError: name 'name' is not defined \(line 2 of broken.py\)"),
            ("import no_such_thing\n", "No module named 'no_such_thing'"),
            ("import pointset\npointset.register_encoder('pst', 3)\n", "got int as the encoder 'pst'"),
        ],
    )
    def test_modules_that_fail(self, tmp_path: Path, text: str, message: str) -> None:
        file = written(tmp_path, text, "broken")
        for _ in range(2):  # nothing is half imported
            with pytest.raises(SpecError, match=rf"{file} cannot be imported: .*{message}"):
                extensions.add_imports([str(file)])

    def test_modules_that_are_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        code, text = ended("--import", "no_such_module", "compare", "--list")
        assert code == 1 and "there is no module 'no_such_module', neither installed nor in" in text
        code, text = ended("compare", "--list", "--import=missing.py")
        assert code == 1 and "missing.py cannot be imported: there is no such file" in text

    def test_installed_packages(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written(tmp_path, METRIC, "packaged")
        about = tmp_path / "packaged-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            f"[{extensions.GROUP}]\nparts = packaged\nbad = pointset_no_such_module\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(extensions, "_installed_seen", False)
        assert metric_named("mae") is Metric.MAE and "packaged" not in sys.modules  # known: nobody looks
        with pytest.warns(UserWarning, match=r"the installed extension bad .* cannot be imported: ModuleNotFoundError"):
            assert metric_named("mine") == "mine"
        assert extensions.module_of("metric", "mine") == "packaged"

    def test_other_processes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What Python has imported is imported there, too, even without --import."""
        written(tmp_path, METRIC)
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.import_module("mine")
        with extensions.passed_on(), get_context("spawn").Pool(1) as pool:
            assert pool.apply(metrics.is_metric, ("mine",))
        assert extensions.VARIABLE not in os.environ


class TestFiles:
    def test_a_bundle_names_the_module_and_imports_nothing(self, tmp_path: Path) -> None:
        pointset.register_encoder("mean-field", MeanField)
        pointset.register_metric("mine", lambda p, y: 0.0, higher_is_better=True)
        card = dataclasses.replace(card_of(), metric=metric_named("mine"))
        model = model_of(card, "mean-field", layers=50)  # which shares its weights: fewer than d² for each layer
        write_bundle(tmp_path / "own.zip", model, card)
        write_bundle(tmp_path / "own", model, card)
        description = json.loads((tmp_path / "own" / "bundle.json").read_text())
        assert description["extensions"] == {"encoder": {"mean-field": __name__}, "metric": {"mine": __name__}}
        graphs = [nx.path_graph(5)]
        bundle = read_bundle(tmp_path / "own.zip")
        assert torch.equal(bundle.model(graphs), model(graphs)) and bundle.card.metric == "mine"
        encoder = registry.PRESETS.pop("mean-field")
        with pytest.raises(FileFormatError) as caught:
            read_bundle(tmp_path / "own.zip")
        for said in ("'mean-field'", __name__, f"`import {__name__}` before pointset.load", "pointset --import"):
            assert said in str(caught.value)
        registry.PRESETS["mean-field"] = encoder
        del metrics._BY_NAME["mine"]
        with pytest.raises(FileFormatError, match="needs the metric 'mine', which the module"):
            read_bundle(tmp_path / "own")

    def test_bundles_without_own_parts_are_as_before(self, tmp_path: Path) -> None:
        write_bundle(tmp_path / "plain", model_of(card_of()), card_of())
        assert "extensions" not in json.loads((tmp_path / "plain" / "bundle.json").read_text())

    def test_of_a_notebook(self) -> None:
        message = extensions.missing("the bundle", "encoder", "mine", "")
        assert "registered in a notebook" in message and "pointset.register_encoder('mine', …)" in message


_FRESH = """
import sys, numpy as np, pointset
bundle, folder = sys.argv[1:]
graphs = [(4, [(0, 1), (1, 2), (2, 3)]), (3, [(0, 1), (1, 2), (0, 2)])]
try:
    pointset.load(bundle)
except pointset.errors.FileFormatError as error:
    assert "own_encoder" not in sys.modules
    print(error)
sys.path.append(folder)
import own_encoder
print(*pointset.load(bundle).predict(graphs).reshape(-1).tolist())
"""


class TestExample:
    def test_the_encoder_is_invariant(self) -> None:
        extensions.add_imports([str(EXAMPLE)])
        model = pointset.PointModel.from_preset("linear-attention", dim=8, layers=2)
        pointset.testing.assert_invariant(model, [nx.karate_club_graph(), nx.cycle_graph(7), nx.empty_graph(2)])
        lines = EXAMPLE.read_text().split("class LinearAttention")[1].split("@pointset")[0].strip().splitlines()
        assert len(lines) <= 16  # as the documentation says

    def test_from_the_recipe_to_predictions_in_another_process(self, tmp_path: Path) -> None:
        run, recipe = tmp_path / "run", EXAMPLE.with_suffix(".yaml")
        small = ("dataset.options.count=40", "trainer.epochs=2", "model.dim=8", "model.layers=1")
        code, text = ended("train", recipe, *small, "--run-dir", run)
        assert code == 1 and "got model.preset='linear-attention'" in text and "pointset --import my_module" in text
        out, _ = invoke("train", recipe, *small, "--run-dir", run, "--import", EXAMPLE, "--progress", "quiet")
        assert "largest error" in out
        assert json.loads((run / "result.json").read_text())["metric"] == "max_error"
        assert "linear-attention" in invoke("compare", "--list")[0]
        graphs = [(4, [(0, 1), (1, 2), (2, 3)]), (3, [(0, 1), (1, 2), (0, 2)])]
        expected = pointset.load(run).predict(graphs).reshape(-1)
        environment = {name: value for name, value in os.environ.items() if name != extensions.VARIABLE}
        done = subprocess.run(
            [sys.executable, "-c", _FRESH, str(run / "bundle"), str(EXAMPLE.parent)],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        *error, numbers = done.stdout.splitlines()
        assert "the encoder 'linear-attention', which the module own_encoder registers" in " ".join(error)
        np.testing.assert_allclose([float(number) for number in numbers.split()], expected, rtol=1e-5)

    def test_a_run_names_the_module_to_those_who_have_it_not(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        small = ("dataset.options.count=40", "trainer.epochs=1", "model.dim=8", "model.layers=1")
        invoke(
            "--import", EXAMPLE, "train", EXAMPLE.with_suffix(".yaml"), *small, "--run-dir", run, "--progress", "quiet"
        )
        del os.environ[extensions.VARIABLE]
        extensions._imported.clear()
        del registry.PRESETS["linear-attention"], metrics._BY_NAME["max_error"], loading.OWN["triangles"]
        code, text = ended("evaluate", run)
        assert code == 1 and "needs the encoder 'linear-attention', which the module own_encoder registers" in text
        assert "report" in invoke("report", run)[0]  # which only reads what is written
        registry.PRESETS["linear-attention"] = registry.PRESETS["pst"]
        pointset.register_metric("max_error", lambda p, y: 0.0, higher_is_better=False, replace=True)
        code, text = ended("train", "--resume", "--run-dir", run)
        assert code == 1 and "needs the dataset 'triangles', which the module own_encoder registers" in text

    @pytest.mark.slow
    def test_training_in_two_processes(self, tmp_path: Path) -> None:
        small = ("dataset.options.count=40", "trainer.epochs=1", "model.dim=8", "model.layers=1", "--devices", "2")
        words = ["--import", str(EXAMPLE), "train", str(EXAMPLE.with_suffix(".yaml")), *small]
        subprocess.run(
            [sys.executable, "-m", "pointset.cli.main", *words, "--run-dir", str(tmp_path / "run")],
            check=True, capture_output=True,
        )  # fmt: skip
        assert "max_error" in json.loads((tmp_path / "run" / "result.json").read_text())["test"]


def test_the_page_of_the_documentation_runs() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "extending.md").read_text()
    names: dict[str, Any] = {"__name__": "extending"}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, names)
    assert metric_named("max_error").label == "largest error" and len(pointset.datasets.load("cycles")) == 20
