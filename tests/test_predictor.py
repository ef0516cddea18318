"""``pointset.load(path).predict([...])``: every kind of graph, the same answer whatever stands beside it."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

from pointset import Categories, PointSet, Reals, collate, machine, to_points, to_points_many
from pointset.cli import explain as explain_command
from pointset.cli import options
from pointset.cli import predict as predict_command
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import Dataset, Provenance, TargetScale
from pointset.datasets.molecules import Molecule, MoleculeReader, Unreadable, read_zinc_molecule
from pointset.datasets.table import GraphTable
from pointset.errors import GraphError, MissingExtraError, PointsetError, SpecError
from pointset.prediction import Predictor, engine, load
from pointset.prediction.smiles import PointsElsewhere, with_points, workers_for
from pointset.training.bundle import Bundle, write_bundle
from tests.dying_reader import read_or_die
from tests.small_models import CLASSES, TERMS, card_of, model_of, molecule_card
from tests.tolerances import near

SMILES = ["CCO", "c1ccccc1", "C", "CC(=O)Oc1ccccc1C(=O)O", "[Na+].[Cl-]", "OCC", "C1CCCCC1"]


def predictor_of(card: Card, preset: str = "pst", **options: Any) -> Predictor:
    return Predictor(Bundle((model_of(card, preset),), card, **options))


def molecule(smiles: str, reader: Callable[[str], Molecule] = MoleculeReader()) -> Data:  # noqa: B008 - frozen
    read = reader(smiles)
    edges, types = torch.from_numpy(read.edges), torch.from_numpy(read.edge_attr)
    return Data(
        x=torch.from_numpy(read.x), edge_index=torch.cat([edges, edges.flip(0)], 1), edge_attr=torch.cat([types, types])
    )


def as_networkx(data: Data) -> Any:
    graph: Any = nx.Graph()
    graph.add_nodes_from((node, {"x": row}) for node, row in enumerate(data.x))
    for (u, v), row in zip(data.edge_index.T.tolist(), data.edge_attr, strict=True):
        graph.add_edge(u, v, edge_attr=row)
    return graph


def close(one: Tensor, other: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    return near(one, other, terms=TERMS, dtype=dtype)


def rings(*sizes: int) -> list[Any]:
    return [nx.cycle_graph(n) for n in sizes]


# --- what may be asked


def test_molecules_of_rdkit_give_the_same_bits_as_their_smiles() -> None:
    chem = pytest.importorskip("rdkit.Chem")
    model = predictor_of(molecule_card())
    smiles = [*SMILES, "C[C@H](N)C(=O)O", "F/C=C/F"]
    wanted = model.predict(smiles)
    mols = [chem.MolFromSmiles(one) for one in smiles]
    for mol in mols[::2]:
        mol.SetProp("_Name", "untouched")
    assert torch.equal(model.predict(mols), wanted)
    assert torch.equal(model.predict(iter(mols)), wanted) and torch.equal(
        model.predict(mols[3]), model.predict(smiles[3])
    )
    mixed = [mol if at % 2 else one for at, (mol, one) in enumerate(zip(mols, smiles, strict=True))]
    assert torch.equal(model.predict(mixed), wanted)
    assert torch.equal(model.predict([chem.AddHs(mol) for mol in mols]), wanted)  # plain hydrogens are not nodes
    assert [chem.MolToSmiles(mol) for mol in mols] == [chem.CanonSmiles(one) for one in smiles]
    assert torch.equal(model.embed(mols), model.embed(smiles))
    impossible = chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)
    with pytest.raises(GraphError, match=r"item 1: .*not a possible molecule"):
        model.predict([mols[0], impossible])
    rows = model.predict([impossible, None, mols[0]], on_error="nan")
    assert rows[:2].isnan().all() and close(rows[2:], wanted[:1])


def test_every_kind_of_molecule_gives_the_same() -> None:
    model = predictor_of(molecule_card())
    data = [molecule(smiles) for smiles in SMILES]
    wanted = model.predict(SMILES)
    assert wanted.shape == (7, 1) and wanted.dtype == torch.float64 and wanted.isfinite().all()
    assert [pair for pair in itertools.combinations(range(7), 2) if close(*wanted[list(pair)])] == [(0, 5)]
    for items in (
        data,
        Batch.from_data_list(data),
        [as_networkx(one) for one in data],
        [to_points(one) for one in data],
        to_points_many(data),
        (smiles for smiles in SMILES),
        np.array(SMILES),
        np.array(SMILES, dtype=object),
        tuple(SMILES),
        [SMILES[0], data[1], as_networkx(data[2]), to_points(data[3]), SMILES[4], *data[5:]],
    ):
        assert close(model.predict(items), wanted)


def test_atom_maps_change_no_bit_of_a_prediction() -> None:
    model = predictor_of(molecule_card())
    mapped = ["[CH3:1][CH2:2][OH:3]", "[OH:1][CH2:5][CH3:9]", "[cH:6]1[cH:5][cH:4][cH:3][cH:2][cH:1]1"]
    assert torch.equal(model.predict(mapped), model.predict(["CCO", "CCO", "c1ccccc1"]))


@pytest.mark.parametrize(
    "one",
    [
        nx.path_graph(3),
        Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3),
        scipy.sparse.csr_array(nx.to_numpy_array(nx.path_graph(3))),
        nx.to_numpy_array(nx.path_graph(3)),
        torch.from_numpy(nx.to_numpy_array(nx.path_graph(3))),
        (3, [(0, 1), (1, 2)]),
        to_points(nx.path_graph(3)),
    ],
    ids=["networkx", "Data", "sparse", "array", "tensor", "edges", "points"],
)
def test_one_graph_alone_is_a_list_of_one(one: Any) -> None:
    model = predictor_of(card_of(names=("a", "b")))
    wanted = model.predict([nx.path_graph(3), nx.star_graph(5)])
    assert wanted.shape == (2, 2)
    assert close(model.predict(one), wanted[:1])


def test_one_smiles_alone_and_nothing() -> None:
    model = predictor_of(molecule_card())
    assert torch.equal(model.predict("CCO"), model.predict(["CCO"]))
    assert model.predict([]).shape == (0, 1) and model.embed([]).shape == (0, 6)


@pytest.mark.parametrize("items", [None, 3, b"CCO", {"smiles": "CCO"}], ids=["None", "int", "bytes", "dict"])
def test_what_is_no_item_is_refused(items: Any) -> None:
    with pytest.raises(GraphError, match="expected SMILES, point sets or graphs"):
        predictor_of(molecule_card()).predict(items)


@settings(max_examples=15)
@given(order=st.permutations(range(len(SMILES))), batch_size=st.integers(1, 9), double=st.booleans(), data=st.data())
def test_an_answer_does_not_depend_on_the_others(
    order: list[int], batch_size: int, double: bool, data: st.DataObject
) -> None:
    model = predictor_of(molecule_card())
    dtype = torch.float64 if double else torch.float32
    model.model.to(dtype)
    alone = torch.cat([model.predict(smiles) for smiles in SMILES])
    chosen = order[: data.draw(st.integers(1, len(order)))]
    together = model.predict([SMILES[at] for at in chosen], batch_size=batch_size)
    assert close(together, alone[chosen], dtype)


def test_small_batches_are_planned_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = predictor_of(card_of())
    graphs = rings(4, 30, 4, 9, 30)
    wanted = model.predict(graphs)
    monkeypatch.setattr(engine, "_BATCH_BYTES", 1)
    assert close(model.predict(graphs), wanted)
    sizes = np.array([4, 30, 4])
    assert engine.batches_of(sizes, sizes, batch_size=9, dim=4) == [[0], [2], [1]]


def test_inputs_are_not_modified_nor_is_the_generator() -> None:
    data = molecule("CCO")
    before, state = data.to_dict(), torch.get_rng_state()
    copies = {key: value.clone() for key, value in before.items()}
    predictor_of(molecule_card()).predict([data, data])
    assert all(torch.equal(data[key], value) for key, value in copies.items())
    assert torch.equal(torch.get_rng_state(), state)


# --- what comes out


def logits(model: Predictor, graphs: list[Any]) -> Tensor:
    with torch.no_grad():
        outputs: Tensor = model.model(collate([to_points(graph) for graph in graphs])).double()
    return outputs


def test_a_regression_answers_in_the_targets_units() -> None:
    scale = TargetScale(torch.tensor([-11_000.0, 5.0]).double(), torch.tensor([1e-3, 7.0]).double())
    model = predictor_of(card_of(names=("energy", "gap")), scale=scale)
    graphs = rings(4, 6, 9)
    assert close(model.predict(graphs), scale.restore(logits(model, graphs)))
    assert model.predict(graphs)[:, 0].unique().numel() == 3  # in float32 all would be −11,000


def test_labels_are_probabilities() -> None:
    model = predictor_of(card_of(Task.MULTI_LABEL, names=("a", "b", "c")))
    assert close(model.predict(rings(4, 6)), torch.sigmoid(logits(model, rings(4, 6))))


def test_classes_are_probabilities_and_have_names() -> None:
    model = predictor_of(card_of(Task.MULTI_CLASS, names=("colour",)))
    predicted = model.predict(rings(4, 6, 30))
    assert close(predicted, torch.softmax(logits(model, rings(4, 6, 30)), 1)) and predicted.shape == (3, 3)
    assert model.predict_classes(rings(4, 6, 30)) == [CLASSES[at] for at in predicted.argmax(1)]
    with pytest.raises(SpecError, match="expected classes"):
        predictor_of(card_of()).predict_classes(rings(4))


def test_nodes_have_answers_of_their_own() -> None:
    model = predictor_of(card_of(Task.MULTI_CLASS, level=Level.NODE, names=("colour",)))
    graphs = [nx.path_graph(5), nx.star_graph(2), nx.path_graph(5)]
    predicted = model.predict(graphs)
    assert [one.shape for one in predicted] == [(5, 3), (3, 3), (5, 3)]
    assert close(predicted[0], predicted[2]) and close(predicted[0][:1], predicted[0][4:])
    assert [len(one) for one in model.predict_classes(graphs)] == [5, 3, 5]
    left_out = model.predict([nx.path_graph(2), nx.DiGraph([(0, 1)])], on_error="nan")
    assert left_out[0].shape == (2, 3) and left_out[1].shape == (1, 3) and left_out[1].isnan().all()


@pytest.mark.parametrize("level", ["graph", "node"])
def test_representations_are_those_of_the_model(level: str) -> None:
    model = predictor_of(card_of(level=Level(level)))
    graphs = [nx.path_graph(5), nx.star_graph(2), nx.path_graph(4)]
    with torch.no_grad():
        wanted = model.model.embed(graphs)
    rows = model.embed(graphs)
    assert close(rows if level == "graph" else torch.cat(rows), wanted)
    nodes, pooled = model.embed(graphs, level="node"), model.embed(graphs, level="graph")
    assert [one.shape for one in nodes] == [(5, 6), (3, 6), (4, 6)]
    assert close(torch.stack([one.mean(0) for one in nodes]), pooled)
    with pytest.raises(SpecError, match="'graph' or 'node'"):
        model.embed(graphs, level="edge")


def test_it_says_what_it_is(tmp_path: Path) -> None:
    card = molecule_card()
    write_bundle(tmp_path / "model", model_of(card), card, about={"recipe": "mine"})
    model = load(tmp_path / "model")
    assert repr(model).startswith("Predictor(regression of molecules: logS (eV); pst, 2 × 6, ")
    assert repr(model).endswith("trained on Small data)")
    assert model.target_names == ("logS",) and model.classes == () and model.about == {"recipe": "mine"}
    assert "3 classes of colour" in repr(predictor_of(card_of(Task.MULTI_CLASS, names=("colour",))))


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).parents[1] / "docs" / "prediction.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL):
        exec(block, names)
    assert names["predictions"].shape == (3, 1)
    for flag in re.findall(r"`(--[a-z-]+)", guide):
        assert any(flag in inspect.getsource(one) for one in (predict_command, explain_command, options))


# --- features


def test_edge_weights_come_from_the_features_as_in_training() -> None:
    card = card_of(node=Categories(3), edge=Categories(5))
    kinds = np.array([1, 2, 4, 3, 1])
    table = GraphTable(
        num_nodes=np.array([4, 3]),
        num_edges=np.array([3, 2]),
        edges=np.array([[0, 1, 2, 0, 1], [1, 2, 3, 1, 2]]),
        x=np.array([[0], [1], [2], [0], [1], [1], [2]]),
        edge_attr=kinds[:, None],
        y=np.zeros((2, 1)),
    )
    dataset = Dataset.from_table(table, card, Provenance("here", "made here")).with_split({"train": np.arange(2)})
    model = predictor_of(card, weighted_edges=0)
    with torch.no_grad():
        wanted = model.model(collate(list(to_points_many(dataset.with_weighted_edges().arrays)))).double()
        plain = model.model(collate(list(to_points_many(dataset.arrays)))).double()
    assert close(model.predict(dataset.graphs), wanted) and not close(plain, wanted)
    assert close(model.predict(dataset.arrays), wanted)
    with_offset = predictor_of(card, weighted_edges=0, edge_weight_offset=1)
    with torch.no_grad():
        more = list(to_points_many(dataset.with_weighted_edges(offset=1).arrays))
        wanted_more = with_offset.model(collate(more)).double()
    assert close(with_offset.predict(dataset.graphs), wanted_more) and not close(wanted_more, wanted)
    graph = dataset.graphs[0]
    graph.edge_attr[:] = 0
    assert bool(with_offset.predict([graph]).isfinite().all())
    with pytest.raises(SpecError, match="item 1: an edge has 0 in column 0"):
        model.predict([dataset.graphs[0], graph])
    with pytest.raises(SpecError, match="item 0: the graph has 0 columns of edge features"):
        model.predict(nx.path_graph(3))


def test_molecules_of_a_kind_of_their_own_are_read_so() -> None:
    card = card_of(node=Categories(28), edge=Categories(4), molecules="zinc")
    model = predictor_of(card)
    smiles = ["CCO", "c1ccccc1", "C[NH3+]"]
    assert close(model.predict(smiles), model.predict([molecule(one, read_zinc_molecule) for one in smiles]))
    with pytest.raises(PointsetError, match=r"item 1: .*atom of type 'U'"):
        model.predict(["CCO", "[U]"])


def test_how_smiles_are_read_is_part_of_the_model() -> None:
    plain, explicit = predictor_of(molecule_card()), predictor_of(molecule_card(), molecule_reader={"hydrogens": True})
    assert close(explicit.predict("CCO"), plain.predict(molecule("CCO", MoleculeReader(hydrogens=True))))
    assert not close(explicit.predict("CCO"), plain.predict("CCO"))
    with pytest.raises(PointsetError, match=r"greater than permitted; correct it$"):
        plain.predict("C(C)(C)(C)(C)C")
    assert predictor_of(molecule_card(), molecule_reader={"lenient": True}).predict("C(C)(C)(C)(C)C").isfinite().all()


def test_positions_are_made_or_asked_for() -> None:
    card = molecule_card(positions=True)
    made = predictor_of(card, "pst-star", molecule_reader={"conformer_seed": 1})
    assert torch.equal(made.predict("CCO"), made.predict("OCC")) and made.predict("CCO").isfinite().all()
    with pytest.raises(SpecError, match="item 0: got SMILES, but the model needs positions"):
        predictor_of(card, "pst-star").predict("CCO")


def changed(**fields: Any) -> Data:
    data = molecule("CCO")
    for name, value in fields.items():
        data[name] = value
    return data


REALS = card_of(node=Reals(2), edge=None, positions=True)
MISFITS = [
    (lambda: changed(x=None), "no such features"),
    (lambda: changed(x=molecule("CCO").x + 200), "column 0 of node features x holds"),
    (lambda: changed(x=molecule("CCO").x - 9), "column 0 of node features x holds"),
    (lambda: changed(x=molecule("CCO").x[:, :4]), "has 4 columns; expected 9"),
    (lambda: changed(x=molecule("CCO").x + 0.5), "fractions"),
    (lambda: changed(x=molecule("CCO").x.to(torch.complex64)), "no such features"),
    (lambda: changed(edge_attr=None), "no such features"),
    (lambda: changed(edge_attr=torch.full((4, 3), 77)), "column 0 of edge features"),
    (lambda: Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0), "no nodes"),
    (lambda: nx.DiGraph([(0, 1)]), "directed"),
    (lambda: to_points(molecule("CCO"), matrix="adjacency"), "matrix='adjacency'"),
    (lambda: "C1CC", "unclosed ring"),
    (lambda: "", "empty SMILES"),
    (lambda: 17, "got int"),
    (lambda: None, "got None"),
]


@pytest.mark.parametrize(("bad", "message"), MISFITS, ids=[str(at) for at in range(len(MISFITS))])
def test_a_bad_item_is_named_by_its_position_or_is_nan(bad: Callable[[], Any], message: str) -> None:
    model = predictor_of(molecule_card())
    items = ["CCO", molecule("CC"), bad(), "CCN"]
    with pytest.raises(PointsetError, match=rf"^item 2: .*{message}"):
        model.predict(items)
    predicted = model.predict(items, on_error="nan")
    assert predicted.isnan().flatten().tolist() == [False, False, True, False]
    assert close(predicted[[0, 1, 3]], model.predict([items[at] for at in (0, 1, 3)]))
    assert model.embed(items, on_error="nan").isnan().all(1).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pos": None}, "carries no pos"),
        ({"pos": torch.zeros(3, 2)}, r"pos has shape \(3, 2\); expected \(3, 3\)"),
        ({"pos": torch.full((3, 3), torch.inf)}, "pos hold numbers that are not finite"),
        ({"x": torch.full((3, 2), torch.nan)}, "not finite"),
        ({"x": torch.zeros(3, 3)}, "3 columns; expected 2"),
    ],
    ids=["no pos", "flat pos", "infinite pos", "NaN", "width"],
)
def test_numbers_must_be_finite_and_enough(fields: dict[str, Any], message: str) -> None:
    model = predictor_of(REALS, "pst-star")
    good = {"x": torch.ones(3, 2), "pos": torch.eye(3), "edge_index": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])}
    assert model.predict(Data(**good)).isfinite().all()
    assert model.predict(Data(**(good | {"x": torch.ones(3, 2, dtype=torch.long)}))).isfinite().all()
    with pytest.raises(SpecError, match=message):
        model.predict(Data(**(good | fields)))


def test_what_the_model_does_not_use_is_left_away() -> None:
    model = predictor_of(card_of())
    plain = molecule("CCO")
    del plain.x, plain.edge_attr
    plain.num_nodes = 3
    odd = changed(y=torch.zeros(3, 7), pos=torch.zeros(3, 5))
    assert close(model.predict([plain, odd, to_points(odd)]), model.predict(plain).expand(3, 1))


def test_graphs_without_edges_need_no_edge_features() -> None:
    model = predictor_of(molecule_card())
    alone = Data(x=molecule("C").x, edge_index=torch.empty(2, 0, dtype=torch.long))
    assert close(model.predict(alone), model.predict("C"))
    assert close(model.predict(to_points(alone)), model.predict("C"))


def test_smiles_are_refused_by_a_model_of_graphs() -> None:
    with pytest.raises(SpecError, match="item 1: got SMILES, but the model was trained on Small data"):
        predictor_of(card_of()).predict([nx.path_graph(3), "CCO"])
    with pytest.raises(SpecError, match="'selfies', which this pointset cannot read"):
        predictor_of(card_of(molecules="selfies")).predict("CCO")


def test_without_rdkit_graphs_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = molecule("CCO")
    monkeypatch.setitem(sys.modules, "rdkit", None)
    model = predictor_of(molecule_card())
    assert model.predict(graph).isfinite().all()
    with pytest.raises(MissingExtraError, match=r"pointset\[chem\]"):
        model.predict(["CCO"], on_error="nan")


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"batch_size": True}, {"batch_size": "all"}, {"on_error": "skip"}], ids=str
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=f"got {next(iter(options))}="):
        predictor_of(card_of()).predict(rings(3), **options)


# --- memory, and processes


def test_a_graph_too_large_for_the_memory_is_its_own_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    model = predictor_of(card_of())
    graphs = rings(4, 700, 5)
    monkeypatch.setattr(machine, "_available_bytes", lambda: 100 * 2**20)
    assert model.predict(graphs, on_error="nan").isnan().flatten().tolist() == [False, True, False]
    with pytest.raises(PointsetError, match="item 1: a graph of 700 nodes needs about"):
        model.predict(graphs)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")], ids=str)
def test_memory_that_runs_out_costs_one_graph(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def failing(graphs: Any, **options: Any) -> Any:
        if 9 in graphs.num_nodes:
            raise error
        return to_points_many(graphs, **options)

    monkeypatch.setattr("pointset.prediction.engine.to_points_many", failing)
    predicted = predictor_of(card_of()).predict(rings(4, 5, 9, 6, 7, 8), on_error="nan")
    assert predicted.isnan().flatten().tolist() == [False, False, True, False, False, False]
    with pytest.raises(PointsetError, match="item 0: this machine does not have enough memory"):
        predictor_of(card_of()).predict(rings(9))


def test_memory_that_runs_out_costs_one_molecule(monkeypatch: pytest.MonkeyPatch) -> None:
    model = predictor_of(molecule_card())
    wanted = model.predict(SMILES)
    forward = model.model.forward

    def failing(batch: Any) -> Any:
        if 13 in batch.num_nodes:  # aspirin
            raise MemoryError
        return forward(batch)

    monkeypatch.setattr(model.model, "forward", failing)
    predicted = model.predict(SMILES, on_error="nan")
    assert predicted.isnan().flatten().tolist() == [smiles.startswith("CC(=O)") for smiles in SMILES]
    answered = ~predicted.isnan()
    assert close(predicted[answered], wanted[answered])


def test_points_of_smiles_depend_on_their_molecule_alone() -> None:
    prepare = predictor_of(molecule_card()).engine(8).smiles_to_points(MoleculeReader())
    (together,) = prepare([*SMILES, "bad", "C" * 700]).points
    assert together.places.tolist() == list(range(len(SMILES)))  # neither the bad one nor the very large one
    for at, smiles in enumerate(SMILES):
        (alone,) = prepare([smiles]).points
        pairs, n, r = together.pairs, alone.num_nodes[0], alone.pairs.ranks[0]
        value, vector = pairs.value_start[at], pairs.vector_start[at]
        assert np.array_equal(pairs.values[value : value + r], alone.pairs.values)
        assert np.array_equal(pairs.vectors[vector : vector + n * r], alone.pairs.vectors)


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("pointset.prediction.engine.to_points_many", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        predictor_of(card_of()).predict(rings(3), on_error="nan")


def test_an_answer_that_is_no_number_is_an_error() -> None:
    model = predictor_of(card_of(node=Reals(1)))
    graphs = [Data(x=torch.full((3, 1), value), edge_index=torch.tensor([[0], [1]])) for value in (1.0, 3e38)]
    graphs = [Data(x=graph.x, edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3) for graph in graphs]
    assert model.predict(graphs, on_error="nan").isnan().flatten().tolist() == [False, True]
    with pytest.raises(SpecError, match="item 1: the model's output is not a finite number"):
        model.predict(graphs)


def test_a_process_that_dies_costs_one_molecule() -> None:
    chunks = [("a", ["C", "CC"]), ("b", ["CCC", "die", "bad"]), ("c", []), ("d", ["CCCC"])]
    prepare = predictor_of(molecule_card()).engine(8).smiles_to_points(read_or_die)
    read = list(with_points(chunks, prepare, workers=1))
    assert [label for label, _ in read] == ["a", "b", "c", "d"]
    found = {
        text: item
        for (_, texts), (_, window) in zip(chunks, read, strict=True)
        for text, item in zip(texts, window.items, strict=True)
    }
    assert {text: isinstance(item, PointsElsewhere) for text, item in found.items()} == {
        "C": True, "CC": True, "CCC": True, "die": False, "bad": False, "CCCC": True,
    }  # fmt: skip
    assert [part.num_nodes.tolist() for _, window in read for part in window.points] == [[1, 2], [3], [4]]
    died = found["die"]
    assert isinstance(died, Unreadable) and "the process that read it ended" in died.reason


def test_other_processes_read_where_there_is_enough_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from pointset.prediction import predictor

    asked: list[int] = []

    def here(chunks: Any, prepare: Any, workers: int) -> Any:
        asked.append(workers)
        return with_points(chunks, prepare, 0)

    assert workers_for(100) == 0 and workers_for(10**9) >= 1
    monkeypatch.setattr(predictor, "workers_for", lambda count: count // 3)
    monkeypatch.setattr(predictor, "with_points", here)
    model = predictor_of(molecule_card())
    mixed = ["CCO", to_points(molecule("CC")), "bad", "C"]
    assert model.predict(mixed, on_error="nan").isnan().flatten().tolist() == [False, False, True, False]
    assert asked == [1]
    assert close(model.predict(["CCO", mixed[1]]), model.predict(mixed, on_error="nan")[:2])
    assert asked == [1, 0, 1] and isinstance(mixed[1], PointSet)


def test_a_wrong_choice_of_kernels_is_refused_before_any_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointset.native.build._loaded", None)  # as in a fresh process
    monkeypatch.setenv("POINTSET_NATIVE", "perhaps")
    with pytest.raises(SpecError, match="POINTSET_NATIVE is 'perhaps'; expected 0"):
        predictor_of(molecule_card(names=("logS",)))


def test_none_is_what_rdkit_could_not_read() -> None:
    predictor = predictor_of(molecule_card())
    with pytest.raises(GraphError, match="item 1: got None, as RDKit gives for a SMILES that it cannot read"):
        predictor.predict(["CCO", None])
    assert predictor.predict(["CCO", None], on_error="nan").isnan().tolist() == [[False], [True]]


def test_a_cxsmiles_extension_is_named() -> None:
    with pytest.raises(PointsetError, match="leave out the CXSMILES extension"):
        predictor_of(molecule_card()).predict(["CCO |$;;$|"])
