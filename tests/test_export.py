"""Exported models run without pointset and give what the model gives; what cannot be exported says why."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import pointset
from pointset import Categories, PointModel, Reals
from pointset.datasets.card import Card, Task
from pointset.datasets.dataset import TargetScale
from pointset.encoders import PSDS, Coordinates, LearnedDeepSet, NodeScalars, Readout
from pointset.encoders.export import Kind, export_inputs
from pointset.errors import MissingExtraError, PointsetError, SpecError
from pointset.prediction import Predictor
from pointset.registry import PRESETS, preset_names
from pointset.specs import Spec
from pointset.training.bundle import Bundle
from pointset.training.calibration import ClassCalibration
from pointset.training.uncertainty import Uncertainty
from tests.command_line import invoke
from tests.small_models import card_of, model_of, molecule_card

REPRESENTATIVE = ["pst-star", "pst-fast", "psds", "pst-released"]
HERE = str(Path(pointset.__file__).parent).encode()
TOLERANCE = 1e-5  # of the largest output, in float32
with_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")),
    reason="onnx, onnxscript or onnxruntime is not installed",
)
# Runs where pointset is not to be found: every file on its inputs, in one process.
ELSEWHERE = """
import sys, torch
cases, answers = torch.load(sys.argv[1]), {}
for path, graphs in cases.items():
    if path.endswith(".pt2"):
        run = torch.export.load(path).module()
        answers[path] = [run(**tensors).detach() for tensors in graphs]
    else:
        import onnxruntime
        session = onnxruntime.InferenceSession(path)
        given = [{name: tensor.numpy() for name, tensor in tensors.items()} for tensors in graphs]
        answers[path] = [torch.from_numpy(session.run(None, tensors)[0]) for tensors in given]
assert not any(name.startswith("pointset") for name in sys.modules)
torch.save(answers, sys.argv[2])
"""


def with_features(graph: nx.Graph[int], *, real_edges: bool = False, descriptors: int = 0) -> Data:
    n, draw = graph.number_of_nodes(), torch.Generator().manual_seed(graph.number_of_nodes())
    low = torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).T
    m = low.shape[1]
    edge_attr = torch.randn(m, 2, generator=draw) if real_edges else torch.randint(0, 3, (m, 1), generator=draw)
    more = {"descriptors": torch.randn(1, descriptors, generator=draw)} if descriptors else {}
    return Data(
        edge_index=torch.cat([low, low.flip(0)], 1),
        edge_attr=torch.cat([edge_attr, edge_attr]),
        x=torch.randint(0, 5, (n, 1), generator=draw),
        pos=2 * torch.randn(n, 3, generator=draw),
        num_nodes=n,
        **more,
    )


def several(**features: Any) -> list[Data]:
    """One node, two, isolated ones, none but isolated ones, repeated eigenvalues, 64 nodes."""
    hypercube = nx.convert_node_labels_to_integers(nx.hypercube_graph(6))
    graphs = [nx.empty_graph(1), nx.path_graph(2), nx.disjoint_union(nx.star_graph(4), nx.empty_graph(2))]
    graphs += [nx.empty_graph(5), nx.complete_graph(7), nx.gnp_random_graph(23, 0.2, seed=1), hypercube]
    return [with_features(graph, **features) for graph in graphs]


def small(preset: str, **settings: Any) -> PointModel:
    """With weights that differ from those at the beginning, large enough in the released models to see the graph."""
    settings = {"node": 5, "edge": 3, "out": 2, "dim": 8, "layers": 2, **settings}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = PointModel.from_preset(preset, **settings)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            for parameter in model.encoder.parameters() if "released" in preset else ():
                parameter.mul_(1.4 if parameter.dim() == 2 else 1)  # with 2, psds-released magnifies rounding to 1e-3
    return model


def elsewhere(folder: Path, cases: dict[str, list[dict[str, Tensor]]]) -> dict[str, list[Tensor]]:
    torch.save(cases, folder / "cases")
    command = [sys.executable, "-I", "-c", ELSEWHERE, str(folder / "cases"), str(folder / "answers")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert not ended.returncode, ended.stderr
    answers: dict[str, list[Tensor]] = torch.load(folder / "answers")
    return answers


def difference(model: Any, graphs: Sequence[Any], answers: Sequence[Tensor]) -> float:
    """Relative to the largest output."""
    model.eval()
    with torch.no_grad():
        expected = [model([graph]) for graph in graphs]
    assert [one.shape for one in answers] == [one.shape for one in expected]
    got, wanted = torch.cat(list(answers)), torch.cat(expected)
    return float((got - wanted).abs().max() / wanted.abs().max())


def loaded(path: Path) -> Callable[..., Tensor]:
    module: Callable[..., Tensor] = torch.export.load(path).module()
    return module


def edge_of(preset: str) -> Spec:
    """Categories of edges leave nothing of the graph in the released models."""
    return Reals(2) if "released" in preset else Categories(3)


def check_that_it_sees(model: Any, graph: Data) -> None:
    """A model whose outputs hardly depend on the edges would prove nothing."""
    fewer = graph.clone()
    kept = (graph.edge_index > 3).all(0)
    fewer.edge_index, fewer.edge_attr = graph.edge_index[:, kept], graph.edge_attr[kept]
    with torch.no_grad():
        whole, part = model.eval()([graph]), model([fewer])
    assert float((whole - part).abs().max()) > 100 * TOLERANCE * float(whole.abs().max())


def check_presets(folder: Path, edges: dict[str, Spec], kinds: Sequence[Kind]) -> None:
    """Of each preset with these edge features."""
    cases, models, graphs = {}, {}, {}
    for preset, edge in edges.items():
        model = small(preset, edge=edge)
        for kind in kinds:
            path = str(folder / f"{preset}.{kind}")
            assert model.export(path).difference is not None
            models[path], graphs[path] = model, several(real_edges=isinstance(edge, Reals))
            check_that_it_sees(model, graphs[path][5])
            cases[path] = [export_inputs(model, graph, kind) for graph in graphs[path]]
    for path, answers in elsewhere(folder, cases).items():
        assert difference(models[path], graphs[path], answers) <= TOLERANCE, path


def test_models_run_where_there_is_no_pointset(tmp_path: Path) -> None:
    check_presets(tmp_path, {preset: edge_of(preset) for preset in REPRESENTATIVE}, ["pt2"])


@with_onnx
def test_models_run_on_onnxruntime(tmp_path: Path) -> None:
    check_presets(tmp_path, {"pst": edge_of("pst")}, ["onnx"])


@pytest.mark.slow
@with_onnx
@pytest.mark.parametrize("preset", preset_names("paper"))
def test_every_preset_of_the_paper(tmp_path: Path, preset: str) -> None:
    check_presets(tmp_path, {preset: edge_of(preset)}, ["pt2", "onnx"])


@pytest.mark.slow
@with_onnx
@pytest.mark.parametrize(
    ("preset", "edge"),
    [
        *(("pst", edge) for edge in (Reals(2), None)),
        *(("pst-fast", edge) for edge in (Reals(2), None)),
        *((f"pst-released{more}", Categories(3)) for more in ("-qm9", "-star", "-qm9-star")),
        ("pst-released", None),
    ],
)
def test_other_edge_features(tmp_path: Path, preset: str, edge: Spec) -> None:
    check_presets(tmp_path, {preset: edge}, ["pt2", "onnx"])


def test_every_number_of_nodes_and_no_other(tmp_path: Path) -> None:
    model = small("pst", node=None, edge=None)
    model.export(tmp_path / "model.pt2", nodes=(1, 40))
    run = loaded(tmp_path / "model.pt2")
    graphs = [nx.gnp_random_graph(n, 0.3, seed=n) for n in range(1, 41)]
    assert difference(model, graphs, [run(**export_inputs(model, graph)) for graph in graphs]) <= TOLERANCE
    with pytest.raises((AssertionError, RuntimeError), match="40"):
        run(**export_inputs(model, nx.path_graph(41)))


def test_a_fixed_number_of_nodes(tmp_path: Path) -> None:
    model = small("pst-fast")
    written = model.export(tmp_path / "model.pt2", nodes=24)
    assert [entry["shape"] for entry in written.description["inputs"]] == [[24, 24], [24, 1], [24, 24, 1]]
    graph = with_features(nx.gnp_random_graph(24, 0.2, seed=3))
    answers = [loaded(tmp_path / "model.pt2")(**export_inputs(model, graph))]
    assert difference(model, [graph], answers) <= TOLERANCE


@pytest.mark.parametrize(
    ("settings", "weighted"),
    [
        ({"level": "node", "node": None, "edge": None}, True),
        ({"pooling": "max", "descriptors": 3, "references": True, "dropout": 0.2, "rank": 5}, False),
    ],
)
def test_other_ends_of_models(tmp_path: Path, settings: dict[str, Any], weighted: bool) -> None:
    model = small("pst", **settings)
    if model.references is not None:
        model.references.weight.normal_(generator=torch.Generator().manual_seed(0))
    graphs: list[Any] = several(descriptors=settings.get("descriptors", 0))
    if weighted:
        graphs = [nx.Graph([(0, 1, {"weight": 0.5}), (1, 2, {"weight": 3.0}), (2, 0, {"weight": 1.25})])]
    model.train()
    model.export(tmp_path / "model.pt2")
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    run = loaded(tmp_path / "model.pt2")
    assert difference(model, graphs, [run(**export_inputs(model, graph)) for graph in graphs]) <= TOLERANCE


def test_models_of_float64_agree_in_float64(tmp_path: Path) -> None:
    model, graph = small("psds").double(), several()[5]
    model.export(tmp_path / "model.pt2")
    assert difference(model, [graph], [loaded(tmp_path / "model.pt2")(**export_inputs(model, graph))]) < 1e-12


def test_inputs_of_points_are_those_of_their_graph() -> None:
    model = small("pst-normadj", descriptors=2)
    for graph in several(descriptors=2):
        points = pointset.to_points(graph, matrix="normalized_adjacency")
        for name, tensor in export_inputs(model, graph).items():
            assert torch.equal(tensor, export_inputs(model, points)[name]), name
    with pytest.raises(SpecError, match="points come from matrix='laplacian'"):
        export_inputs(model, pointset.to_points(several()[5]))


def test_eigenpairs_may_come_in_either_order(tmp_path: Path) -> None:
    """As numpy's and other solvers give them."""
    from pointset.points.spectra import spectra_of

    values, vectors = torch.linalg.eigh(torch.from_numpy(nx.laplacian_matrix(nx.star_graph(6)).toarray()).double())
    ascending = spectra_of(values.unsqueeze(0), vectors.unsqueeze(0))
    descending = spectra_of(values.flip(0).unsqueeze(0), vectors.flip(1).unsqueeze(0))
    assert torch.equal(ascending.kept.flip(1), descending.kept)
    assert torch.allclose(ascending.eigenvalues.flip(1), descending.eigenvalues, rtol=0, atol=1e-12)
    assert len(set(descending.eigenvalues[0].tolist())) == 3


def test_the_file_describes_itself_and_nothing_else(tmp_path: Path) -> None:
    model = small("pst")
    written = model.export(tmp_path / "model.pt2", nodes=(2, 30))
    found = {"pointset.json": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=found)
    description = json.loads(found["pointset.json"])
    assert description == written.description
    assert description["matrix"] == "laplacian" and description["nodes"] == [2, 30]
    assert [(entry["name"], entry["dtype"], entry["shape"]) for entry in description["inputs"]] == [
        ("adjacency", "float64", ["n", "n"]),
        ("x", "int64", ["n", 1]),
        ("edge_attr", "int64", ["n", "n", 1]),
    ]
    assert description["inputs"][1]["categories"] == [5]
    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:  # no paths of the machine that exported it
        assert not any(HERE in archive.read(name) for name in archive.namelist())


@with_onnx
def test_an_onnx_file_describes_itself_and_nothing_else(tmp_path: Path) -> None:
    import onnxruntime

    written = small("pst").export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    assert json.loads(session.get_modelmeta().custom_metadata_map["pointset.json"]) == written.description
    inputs = {entry.name: entry.shape for entry in session.get_inputs()}
    assert inputs == {entry["name"]: entry["shape"] for entry in written.description["inputs"]}
    assert [entry.name for entry in session.get_outputs()] == ["outputs"]
    assert HERE not in (tmp_path / "model.onnx").read_bytes()


# --- what is refused


class Unpadded(nn.Module):
    """Knows nothing of padding."""

    def __init__(self, channels: int, layers: int):
        super().__init__()

    def forward(self, state: Any) -> Any:
        return state


class Looking(Unpadded):
    """Looks at a number."""

    takes_padding = True

    def forward(self, state: Any) -> Any:
        return state if float(state.s.sum()) > 0 else state._replace(s=-state.s)


class Dishonest(Unpadded):
    """Does something else when it is exported."""

    takes_padding = True

    def forward(self, state: Any) -> Any:
        return state._replace(s=2 * state.s) if torch.compiler.is_exporting() else state


def own(encoder: type[nn.Module]) -> PointModel:
    pointset.register_encoder(f"{encoder.__name__.lower()}-export-test", encoder, replace=True)
    return PointModel.from_preset(f"{encoder.__name__.lower()}-export-test", dim=4, layers=1)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: small("gin"), "got gin, a baseline, .*expected one of the paper's variants: pst, pst-fast"),
        (lambda: own(Unpadded), "takes no padding.*expected takes_padding = True"),
        (lambda: own(Looking), "torch.export cannot follow looking-export-test"),
        (lambda: own(Dishonest), "differs from the model by .*Nothing was written"),
        (
            lambda: PointModel(
                NodeScalars(None, 4), Coordinates(LearnedDeepSet(4)), PSDS(4, 1), Readout(4, 1, "graph", "mean"),
                matrix="laplacian",
            ),
            "put together by hand",
        ),
    ],
)  # fmt: skip
def test_models_that_cannot_be_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Callable[[], PointModel], said: str
) -> None:
    monkeypatch.setattr("pointset.registry.PRESETS", dict(PRESETS))
    with pytest.raises(SpecError, match=f"(?s){said}"):
        model().export(tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "nodes", "said"),
    [
        ("model.pth", 8, "expected a file that ends in .pt2"),
        ("nowhere/model.pt2", 8, "there is no folder"),
        ("model.pt2", 0, "got nodes=0; expected a whole number of at least 1"),
        ("model.pt2", (8, 4), r"got nodes=\(8, 4\)"),
        ("model.pt2", True, "got nodes=True"),
        ("model.pt2", (1, 2), r"got nodes=\(1, 2\); .*such as \(1, 3\)"),
    ],
)
def test_files_and_numbers_that_cannot_be(tmp_path: Path, name: str, nodes: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        small("pst").export(tmp_path / name, nodes=nodes)


def test_onnx_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.encoders.export_files.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[export\]'"):
        small("pst").export(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": None}, "x=Categories\\(5\\), but the graphs carry no such features"),
        ({"x": torch.full((2, 1), 5)}, "column 0 of x holds 5 to 5"),
        ({"edge_attr": None}, "edge_attr=Categories\\(3\\), but the graphs carry no such features"),
        ({"pos": None}, r"takes pos of shape \(2, 3\), and the graph has none"),
    ],
)
def test_inputs_that_do_not_fit(change: dict[str, Any], said: str) -> None:
    data = with_features(nx.path_graph(2))
    for name, value in change.items():
        data[name] = value
    with pytest.raises(PointsetError, match=said):
        export_inputs(small("pst-star"), data)
    with pytest.raises(SpecError, match="got kind='pth'; expected 'pt2' or 'onnx'"):
        export_inputs(small("pst"), data, "pth")  # type: ignore[arg-type]


# --- trained models


def predictor_of(card: Card, members: int = 1, **more: Any) -> Predictor:
    return Predictor(Bundle(tuple(model_of(card, seed=seed) for seed in range(members)), card, **more))


def check_predictor(folder: Path, predictor: Predictor, items: list[Any]) -> dict[str, Any]:
    description = predictor.export(folder / "model.pt2").description
    run = loaded(folder / "model.pt2")
    answers = torch.cat([run(**predictor.export_inputs(item)) for item in items])
    expected = predictor.predict(items)
    assert answers.dtype == torch.float64
    assert float((answers - expected).abs().max()) <= TOLERANCE * float(expected.abs().max())
    return description


def test_predictions_are_in_the_targets_own_units(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    scale = TargetScale(torch.tensor([-300.0], dtype=torch.float64), torch.tensor([25.0], dtype=torch.float64))
    predictor = predictor_of(molecule_card(), members=2, scale=scale)
    description = check_predictor(tmp_path, predictor, ["C", "CCO", "c1ccccc1C(=O)O"])
    assert description["targets"] == [{"name": "logS", "unit": "eV", "meaning": "a meaning"}]
    assert description["members"] == 2
    assert description["outputs"][0]["meaning"] == "predictions in the targets' own units"


@pytest.mark.parametrize("task", [Task.MULTI_CLASS, Task.MULTI_LABEL])
def test_probabilities_are_calibrated(tmp_path: Path, task: Task) -> None:
    names = ("a", "b") if task is Task.MULTI_LABEL else ("kind",)
    card = card_of(task, names=names)
    found = Uncertainty(card, 1, (ClassCalibration(2.5, ()),) * len(names))
    graphs = [nx.path_graph(3), nx.complete_graph(5)]
    description = check_predictor(tmp_path, predictor_of(card, uncertainty=found), graphs)
    assert description["outputs"][0]["shape"] == [1, card.outputs]
    assert description["task"] == task.value


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "hydration.pt2"
    printed, said = invoke("export", "hydration", path, "--nodes", 12)
    assert "adjacency" in printed and "edges at [i, j] and [j, i]" in printed and str(path) in printed
    assert "graphs of exactly 12 nodes" in said and "equal to the model within" in said
    assert "--nodes" in invoke("export", "hydration", path, "--nodes", "5-8", code=2)[1]
    assert "expected a file that ends in .pt2" in invoke("export", "hydration", tmp_path / "model.pth", code=1)[1]
