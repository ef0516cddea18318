"""``Predictor.explain`` and ``pointset explain``: what each atom and bond adds, in numbers, pictures and messages."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import TargetScale
from pointset.datasets.molecules import MoleculeError, MoleculeReader
from pointset.datasets.molecules.descriptors import MORGAN_BITS, descriptor_names, morgan_by_atom, morgan_counts
from pointset.datasets.molecules.features import EDGE, NODE
from pointset.datasets.molecules.reader import text_in_order
from pointset.encoders.attributions import Neutral
from pointset.errors import FileFormatError, MissingExtraError, SpecError
from pointset.prediction import Predictor, load
from pointset.runs.records import read_run
from pointset.training.bundle import Bundle, read_bundle, write_bundle
from tests.command_line import invoke
from tests.small_models import card_of, model_of, molecule_card

Chem = pytest.importorskip("rdkit.Chem")

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
SCALE = TargetScale(torch.tensor([2.0], dtype=torch.float64), torch.tensor([3.0], dtype=torch.float64))


def neutral() -> Neutral:
    molecules = [MoleculeReader()(one) for one in (ASPIRIN, "CCO", "CCN", "CCl")]
    x, edge_attr = (
        torch.from_numpy(np.concatenate([getattr(one, name) for one in molecules])) for name in ("x", "edge_attr")
    )
    return Neutral.of(NODE, EDGE, x, edge_attr)


def predictor_of(task: Task = Task.REGRESSION, *, members: int = 1, **about: Any) -> Predictor:
    card = molecule_card(task, **about)
    models = tuple(model_of(card, "pst-fast", seed=seed) for seed in range(members))
    scale = SCALE if task is Task.REGRESSION and len(card.targets) == 1 else None
    return Predictor(Bundle(models, card, scale=scale, neutral=neutral()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the bundle ``model``."""
    monkeypatch.chdir(tmp_path)
    card = molecule_card()
    write_bundle("model", model_of(card, "pst-fast"), card, scale=SCALE, neutral=neutral())
    return tmp_path


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


# --- in Python


def test_contributions_add_up_to_the_prediction() -> None:
    model = predictor_of()
    found = model.explain([ASPIRIN, "CCO", "C", "[Na+].[Cl-]"])
    assert [one.prediction for one in found] == pytest.approx(
        model.predict([ASPIRIN, "CCO", "C", "[Na+].[Cl-]"])[:, 0].tolist(), rel=1e-4
    )
    for one in found:
        parts = float(one.atoms.sum()) + sum(one.bonds.values())
        assert one.baseline + parts + one.residual == pytest.approx(one.prediction)
        assert float(one.totals.sum()) == pytest.approx(parts)
        assert abs(one.residual) <= 0.011 * (np.abs(one.atoms).sum() + sum(map(abs, one.bonds.values())))
    assert found[0].elements == tuple("CCOOCCCCCCCOO")
    assert (found[0].unit, found[0].target, found[0].probability) == ("eV", "logS", None)
    assert len(found[0].bonds) == 13
    assert found[2].bonds == {}


def test_another_writing_of_a_molecule_gives_the_same() -> None:
    one, other = predictor_of().explain(["OCC", "C(O)C"])
    assert one.smiles == other.smiles == "CCO"
    assert one.atoms == pytest.approx(other.atoms)


def test_an_ensemble_gives_the_mean_and_the_spread() -> None:
    together = predictor_of(members=3)
    (found,) = together.explain("CCO")
    alone = []
    for model in together.models:
        alone += Predictor(Bundle((model,), together.card, scale=SCALE, neutral=neutral())).explain("CCO")
    atoms = np.stack([one.atoms for one in alone])
    assert found.members == 3
    assert found.atoms == pytest.approx(atoms.mean(0))
    assert found.atom_spread == pytest.approx(atoms.std(0, ddof=1))
    assert found.prediction == pytest.approx(float(together.predict("CCO")), rel=1e-4)


def test_a_label_is_explained_by_its_logit() -> None:
    model = predictor_of(Task.MULTI_LABEL, names=("active", "toxic"))
    (found,) = model.explain("CCO", "toxic")
    assert found.unit == "logit"
    assert found.probability == pytest.approx(float(model.predict("CCO")[0, 1]), rel=1e-4)


def test_the_predicted_class_is_explained_unless_one_is_named() -> None:
    model = predictor_of(Task.MULTI_CLASS)
    (found,) = model.explain(ASPIRIN)
    probabilities = model.predict(ASPIRIN)[0]
    assert found.target == model.classes[int(probabilities.argmax())]
    assert found.probability == pytest.approx(float(probabilities.max()), rel=1e-4)
    (green,) = model.explain(ASPIRIN, "green")
    assert green.probability == pytest.approx(float(probabilities[1]), rel=1e-4)


def test_a_notebook_shows_a_drawing() -> None:
    (found,) = predictor_of().explain("CCO")
    root = ElementTree.fromstring(found._repr_html_())
    assert "logS" in root.get("aria-label", "")
    circles = [one for one in root.iter() if one.tag.endswith("circle")]
    assert len(circles) == 3
    assert "line" not in {one.tag.rpartition("}")[2] for one in root.iter()}
    assert "line" in {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(found.svg(bonds=True)).iter()}


def test_parts_come_with_their_bonds_or_apart() -> None:
    (found,) = predictor_of().explain("CCO")
    whole, apart = found.parts(), found.parts(bonds=True)
    assert {name for name, _, _ in whole} == {"C 0", "C 1", "O 2"}
    assert {name for name, _, _ in apart} == {"C 0", "C 1", "O 2", "C 0 – C 1", "C 1 – O 2"}
    assert sum(value for _, value, _ in whole) == pytest.approx(sum(value for _, value, _ in apart))
    assert [abs(value) for _, value, _ in apart] == sorted((abs(value) for _, value, _ in apart), reverse=True)


def test_what_cannot_be_explained_is_said() -> None:
    with pytest.raises(SpecError, match="predicts for nodes"):
        Predictor(
            Bundle((model_of(molecule_card(level=Level.NODE)),), molecule_card(level=Level.NODE), neutral=neutral())
        ).explain("CCO")
    graphs = card_of()
    with pytest.raises(SpecError, match="not molecules"):
        Predictor(Bundle((model_of(graphs),), graphs)).explain("CCO")
    card = molecule_card()
    with pytest.raises(SpecError, match="older pointset"):
        Predictor(Bundle((model_of(card),), card)).explain("CCO")
    with pytest.raises(SpecError, match=r"2 targets; name the one to explain: a, b"):
        predictor_of(names=("a", "b")).explain("CCO")
    with pytest.raises(SpecError, match=r"got 'logs'; expected a target: logS.*logS"):
        predictor_of().explain("CCO", "logs")
    with pytest.raises(SpecError, match="'gradients' or 'shapley'"):
        predictor_of().explain("CCO", method="lime")  # type: ignore[arg-type]
    with pytest.raises(MoleculeError, match=r"item 1: .*C1CC"):
        predictor_of().explain(["CCO", "C1CC"])


def test_without_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = predictor_of()
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(MissingExtraError, match=r"pointset\[chem\]"):
        model.explain("CCO")


# --- in the bundle


def test_the_averages_survive_the_bundle(folder: Path) -> None:
    kept = read_bundle("model").neutral
    assert kept == neutral()
    assert load("model").explain("CCO")[0].baseline == pytest.approx(predictor_of().explain("CCO")[0].baseline)


def test_averages_of_other_features_are_refused(folder: Path) -> None:
    description = json.loads(Path("model/bundle.json").read_text())
    description["neutral"]["node"][0] = [1.0]
    from pointset.training.bundle import _digest

    description["sha256"] = _digest(description)
    Path("model/bundle.json").write_text(json.dumps(description))
    with pytest.raises(FileFormatError, match=r"neutral\.node is .*expected lists of"):
        read_bundle("model")


# --- the order of atoms


@pytest.mark.parametrize("smiles", ["OCC", "C(C)(=O)O", "c1cc(O)ccc1", "[Na+].[Cl-]"])
@pytest.mark.parametrize("options", [{}, {"canonical": False}, {"hydrogens": True}])
def test_the_writing_that_follows_the_nodes_is_found(smiles: str, options: dict[str, Any]) -> None:
    molecule = MoleculeReader(**options)(smiles)
    assert text_in_order(smiles, "ogb", molecule.x, molecule.edges) == molecule.smiles


def test_no_writing_follows_nodes_of_another_molecule() -> None:
    other = MoleculeReader()("CCN")
    assert text_in_order("CCO", "ogb", other.x, other.edges) is None
    assert text_in_order("C1CC", "ogb", other.x, other.edges) is None


# --- on the command line


def test_a_table_in_the_terminal(folder: Path) -> None:
    printed, _ = invoke("explain", "model", "OCC")
    assert "logS" in printed
    for word in ("CCO", "baseline", "C 0", "C 1", "O 2", "residual", "prediction"):
        assert word in printed
    apart, _ = invoke("explain", "model", "OCC", "--bonds")
    assert "C 1 – O 2" in apart


def test_numbers_as_csv(folder: Path) -> None:
    invoke("explain", "model", "OCC", "CN", "-o", "out.csv", "--quiet")
    found = rows("out.csv")
    for molecule, smiles, atoms in (("0", "CCO", 3), ("1", "CN", 2)):
        own = [row for row in found if row["molecule"] == molecule]
        assert {row["smiles"] for row in own} == {smiles}
        assert [row["part"] for row in own].count("atom") == atoms
        sums = sum(float(row["contribution"]) for row in own if row["part"] != "prediction")
        assert sums == pytest.approx(float(own[-1]["contribution"]))
        of_atoms = sum(float(row["total"]) for row in own if row["total"])
        assert of_atoms == pytest.approx(
            sum(float(row["contribution"]) for row in own if row["part"] in ("atom", "bond"))
        )
    assert [row["element"] for row in found if row["part"] == "atom"] == ["C", "C", "O", "C", "N"]


def test_atoms_are_found_in_what_was_given(folder: Path) -> None:
    model = load(folder / "model")
    for given in ("Oc1ccccc1N", "c1ccc(N)c(O)c1", "[OH:7]c1c([NH2:3])cccc1"):
        mol = Chem.MolFromSmiles(given)
        for what in (given, mol, Chem.AddHs(mol)):
            (found,) = model.explain([what])
            assert found.given_atoms is not None
            assert [mol.GetAtomWithIdx(at).GetSymbol() for at in found.given_atoms] == list(found.elements)
            oxygen = found.elements.index("O")
            assert mol.GetAtomWithIdx(found.given_atoms[oxygen]).GetSymbol() == "O"
    invoke("explain", str(folder / "model"), "OCC", "-o", "given.csv", "--quiet")
    assert [row["given_atom"] for row in rows("given.csv") if row["part"] == "atom"] == ["2", "1", "0"]


def test_pictures_and_a_page(folder: Path) -> None:
    invoke("explain", "model", ASPIRIN, "CCO", "C", "-o", "three.svg", "--numbers")
    root = ElementTree.parse("three.svg").getroot()
    assert len([one for one in root.iter() if one.get("class") == "molecule"]) == 3
    invoke("explain", "model", ASPIRIN, "-o", "one.png")
    assert Path("one.png").read_bytes().startswith(b"\x89PNG")
    invoke("explain", "model", ASPIRIN, "CCO", "-o", "two.html", "--method", "shapley")
    page = Path("two.html").read_text(encoding="utf-8")
    assert page.count('class="molecule"') == 2
    assert "CCO" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("C1CC",), 1, "is not a SMILES"),
        (("CCO", "-o", "out.pdf"), 2, "expected a name that ends in .svg, .png, .html, .csv"),
        (("CCO", "CC", "-o", "out.png"), 2, "a .png shows one"),
        (("CCO", "-o", "nowhere/out.svg"), 2, "there is no folder nowhere"),
        (("CCO", "--target", "logP"), 1, "expected a target: logS"),
        (("CCO", "--method", "lime"), 2, "lime"),
    ],
)
def test_errors_say_what_to_do(folder: Path, words: tuple[str, ...], code: int, message: str) -> None:
    _, errors = invoke("explain", "model", *words, code=code)
    assert message in errors
    assert sorted(path.name for path in folder.iterdir()) == ["model"]


# --- models with descriptors beside the points


def test_morgan_counts_are_shared_among_the_atoms_they_count() -> None:
    counts = morgan_counts(Chem.MolFromSmiles("CCO"))
    values = np.zeros(MORGAN_BITS)
    values[counts > 0] = 1.0
    atoms, rest = morgan_by_atom("CCO", values)
    assert rest == pytest.approx(0.0)
    assert atoms.sum() == pytest.approx((counts > 0).sum())
    absent = np.zeros(MORGAN_BITS)
    absent[np.flatnonzero(counts == 0)[:3]] = 2.0
    assert morgan_by_atom("CCO", absent)[1] == pytest.approx(6.0)
    methane = np.where(morgan_counts(Chem.MolFromSmiles("C")) > 0, 5.0, 0.0)
    assert morgan_by_atom("C", methane)[0] == pytest.approx([5.0])


@pytest.mark.parametrize("kinds", ["morgan", "rdkit", "morgan+rdkit"])
def test_descriptors_have_their_own_share(kinds: str) -> None:
    card = molecule_card()
    model = model_of(card, "pst-fast", descriptors=len(descriptor_names(kinds)))
    predictor = Predictor(
        Bundle((model,), card, scale=SCALE, neutral=neutral(), molecule_reader={"descriptors": kinds})
    )
    for method in ("gradients", "shapley"):
        (found,) = predictor.explain(ASPIRIN, method=method)
        rest = sum(found.bonds.values()) + found.environments.sum() + found.descriptors + found.residual
        assert found.baseline + found.atoms.sum() + rest == pytest.approx(found.prediction)
        assert found.prediction == pytest.approx(float(predictor.predict(ASPIRIN)), rel=1e-4)
        assert bool(found.environments.any()) == (method == "gradients" and "morgan" in kinds)
        assert (abs(found.descriptors) > 1e-9) == (method == "shapley" or "rdkit" in kinds)
        assert abs(found.residual) <= 0.02 * abs(found.atoms).sum() + 0.02 * abs(found.prediction - found.baseline)


# --- at the end of a training


def test_a_run_keeps_contributions_of_its_worst_and_of_typical_molecules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    smiles = [f"{'C' * (1 + at % 5)}{'O' * (at % 2)}{'N' * (at % 3 == 0)}C(=O){'C' * (at // 5)}O" for at in range(90)]
    rows_ = "\n".join(f"{one},{one.count('O')}" for one in smiles)
    Path("mine.csv").write_text(f"smiles,oxygens\n{rows_}\n")
    settings = ["model.dim=8", "model.layers=1", "trainer.epochs=1", "trainer.threads=1", "trainer.baseline=false"]
    settings += ["model.descriptors=morgan", "dataset.file=mine.csv"]
    invoke("train", "molecules", *settings, "--run-dir", "run", "--progress", "quiet")
    examples, model = read_run("run").examples, load("run")
    assert len(examples.worst) >= 5
    assert 1 <= len(examples.typical) <= 3
    for one in (*examples.worst, *examples.typical):
        given = one.contributions
        assert given is not None and given.read_as is not None
        molecule = MoleculeReader()(given.read_as)
        assert molecule.smiles == given.read_as
        assert sorted(map(tuple, np.sort(molecule.edges, 0).T.tolist())) == sorted(one.graph.edges)
        (found,) = model.explain(Chem.MolFromSmiles(given.read_as))
        assert found.totals == pytest.approx(given.atoms, abs=1e-4)
        assert (found.prediction, found.baseline) == pytest.approx((given.output, given.baseline), abs=1e-4)
        assert found.interval is None or found.interval[0] <= found.prediction <= found.interval[1]
    (strange,) = model.explain("Clc1ccc(cc1)S(=O)(=O)c1ccc(Br)cc1")
    assert "unlike the training molecules" in strange.doubt
