"""QM9: every form of its files gives the same molecules; the shared file has the published numbers."""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.datasets import QM9 as PygQM9  # noqa: N811
from torch_geometric.datasets.qm9 import atomrefs

from pointset.arrays import read_arrays
from pointset.datasets import Dataset, load
from pointset.datasets.benchmarks.qm9 import atom_reference_energies
from pointset.datasets.benchmarks.qm9_package import bonds_of
from pointset.datasets.molecules import MoleculeError, read_qm9_molecule
from pointset.datasets.molecules.reader import reader_named
from pointset.errors import FileFormatError, MissingDataError, SpecError

NAMES = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u298", "h298", "g298", "cv")
UNITS = ("D", "a0^3", "eV", "eV", "eV", "a0^2", "eV", "eV", "eV", "eV", "eV", "cal/(mol K)")
HARTREE = 27.211386246


@pytest.fixture(scope="module")
def qm9(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    """All of QM9, from the shared file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POINTSET_CACHE", str(tmp_path_factory.mktemp("qm9-cache")))
        yield load("qm9", shared_data)


@pytest.fixture
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POINTSET_DATA", raising=False)


own_cache = pytest.mark.usefixtures("_own_cache")


# the whole dataset


def test_statistics_are_those_of_the_paper(qm9: Dataset) -> None:
    assert len(qm9) == 130_831
    assert qm9.arrays.num_nodes.mean() == pytest.approx(18.03, abs=0.005)
    assert qm9.arrays.num_edges.mean() == pytest.approx(18.65, abs=0.005)
    assert qm9.target_names == NAMES
    assert tuple(target.unit for target in qm9.card.targets) == UNITS
    features = qm9.features
    assert features.x is not None and set(features.x[:, 0].tolist()) == {0, 1, 2, 3, 4}
    assert features.edge_attr is not None and set(features.edge_attr[:, 0].tolist()) == {1, 2, 3, 4}
    assert features.pos is not None and features.pos.shape == (len(features.x), 3)
    assert features.y is not None and features.y.dtype == torch.float64 and features.y.shape == (130_831, 12)


def test_methane(qm9: Dataset) -> None:
    graph = qm9.graphs[0]
    assert qm9.smiles is not None and qm9.smiles[0] == "C"
    assert graph.x[:, 0].tolist() == [1, 0, 0, 0, 0]  # C, then four H
    assert graph.edge_index[:, :4].tolist() == [[0, 0, 0, 0], [1, 2, 3, 4]]
    assert graph.edge_attr.unique().tolist() == [1]
    lengths = (graph.pos[1:] - graph.pos[0]).norm(dim=1)
    assert torch.allclose(lengths, torch.tensor(1.092), atol=1e-3)
    values = dict(zip(NAMES, graph.y[0].tolist(), strict=True))
    assert values["mu"] == 0 and values["alpha"] == 13.21 and values["cv"] == 6.469
    assert values["homo"] == pytest.approx(-0.3877 * HARTREE, abs=1e-9) == pytest.approx(-10.55, abs=0.005)
    assert values["u0"] == pytest.approx(-40.47893 * HARTREE, abs=1e-9)


def test_the_gap_is_lumo_minus_homo(qm9: Dataset) -> None:
    y = qm9.with_targets(["homo", "lumo", "gap"]).targets
    assert y is not None
    assert (y[:, 1] - y[:, 0] - y[:, 2]).abs().max() < 1.01e-4 * HARTREE  # published with four digits


def test_the_split_is_random_fixed_and_whole(qm9: Dataset) -> None:
    assert {part: len(indices) for part, indices in qm9.split.items()} == {
        "train": 104_665,
        "val": 13_083,
        "test": 13_083,
    }
    assert np.array_equal(np.sort(np.concatenate(list(qm9.split.values()))), np.arange(len(qm9)))
    assert abs(np.mean(qm9.split["test"]) / len(qm9) - 0.5) < 0.01


def test_loading_twice_gives_identical_bytes(qm9: Dataset, shared_data: Path) -> None:
    again = load("qm9", shared_data)  # the first was read, this one is kept
    for name in ("x", "edge_attr", "pos", "y"):
        assert getattr(qm9.features, name).numpy().tobytes() == getattr(again.features, name).numpy().tobytes()
    assert qm9.arrays.edges.tobytes() == again.arrays.edges.tobytes()
    assert qm9.smiles == again.smiles
    assert all(np.array_equal(qm9.split[part], again.split[part]) for part in qm9.split)


def test_atom_references_leave_the_energy_of_the_bonds(qm9: Dataset, shared_data: Path) -> None:
    bonds = load("qm9", shared_data, atom_reference=True)
    assert bonds.targets is not None and qm9.targets is not None
    methane = dict(zip(NAMES, bonds.targets[0].tolist(), strict=True))
    assert methane["u0"] == pytest.approx((-40.47893 + 37.846772 + 4 * 0.500273) * HARTREE, abs=1e-9)
    assert methane["u0"] == pytest.approx(-17.17, abs=0.005)
    kept = [index for index, name in enumerate(NAMES) if name not in ("u0", "u298", "h298", "g298")]
    assert torch.equal(bonds.targets[:, kept], qm9.targets[:, kept])
    assert bonds.targets[:, 7].max() < 0  # every molecule is bound
    meanings = [target.meaning for target in bonds.card.targets]
    assert [name for name, meaning in zip(NAMES, meanings, strict=True) if "minus" in meaning] == [*NAMES[7:11]]
    assert not any("minus" in target.meaning for target in qm9.card.targets)
    restored = bonds.targets.numpy() + atom_reference_energies(bonds.features.x, bonds.arrays.num_nodes)
    assert np.abs(restored - qm9.targets.numpy()).max() < 1e-11


def test_bonds_from_smiles_and_positions_are_those_of_the_shared_file(shared_data: Path) -> None:
    pytest.importorskip("rdkit")
    names = ("num_atoms", "Z", "pos", "num_bonds", "bonds", "bond_type", "smiles")
    arrays = read_arrays(shared_data / "qm9" / "qm9.npz", names)
    smiles = str(arrays["smiles"]).split("\n")
    odd = [3, 22, 23, 476, 50765, 51297, 58239, 130473, 130807, 130808]  # not in the order of their SMILES
    charged = [index for index, text in enumerate(smiles) if "+" in text]
    atoms, bonds = (np.cumsum(arrays[name].astype(int)) for name in ("num_atoms", "num_bonds"))
    chosen = sorted({*range(0, len(smiles), 250), *charged[::5], *odd})

    def rows(stops: Any, counts: Any) -> Any:
        return np.concatenate([np.arange(stops[index] - counts[index], stops[index]) for index in chosen])

    nodes, edges = rows(atoms, arrays["num_atoms"]), rows(bonds, arrays["num_bonds"])
    got = bonds_of(
        [smiles[index] for index in chosen], arrays["num_atoms"][chosen], arrays["Z"][nodes], arrays["pos"][nodes]
    )
    assert np.array_equal(got.num_bonds, arrays["num_bonds"][chosen])
    graph = np.repeat(np.arange(len(chosen)), got.num_bonds)

    def ordered(ends: Any, kind: Any) -> Any:
        table = np.column_stack([graph, np.sort(ends.astype(int), axis=1), kind])
        return table[np.lexsort(table.T[::-1])]

    assert np.array_equal(
        ordered(got.bonds.T, got.bond_type), ordered(arrays["bonds"][edges], arrays["bond_type"][edges])
    )


# atom references


def test_atom_references_are_those_of_pyg() -> None:
    energies = atom_reference_energies(np.arange(5), np.ones(5, dtype=int))  # one atom each: H, C, N, O, F
    assert energies.shape == (5, 12)
    for column in range(12):
        assert energies[:, column] == pytest.approx(np.array(atomrefs.get(column, [0.0] * 5)), abs=3e-5)


def test_atom_references_add_up() -> None:
    hydrogen, carbon = atom_reference_energies([[0], [1]], [1, 1])
    methane, nothing = atom_reference_energies(torch.tensor([[1], [0], [0], [0], [0]]), torch.tensor([5, 0]))
    assert methane == pytest.approx(carbon + 4 * hydrogen)
    assert not nothing.any()


@own_cache
@pytest.mark.parametrize("value", ["yes", 1, None])
def test_atom_reference_is_true_or_false(value: Any, tmp_path: Path) -> None:
    write_npz(tmp_path)
    with pytest.raises(SpecError, match="atom_reference"):
        load("qm9", tmp_path, atom_reference=value)


# small files of every form: water, and hydrogen cyanide

SMILES = ("O", "C#N")
ATOMS = ((8, 1, 1), (6, 7, 1))
POSITIONS = (
    ((0.0, 0.0, 0.12), (0.0, 0.76, -0.48), (0.0, -0.76, -0.48)),
    ((0.0, 0.0, 0.0), (1.16, 0, 0), (-1.07, 0, 0)),
)
BONDS = (((0, 1, 1), (0, 2, 1)), ((0, 1, 3), (0, 2, 1)))
RAW = np.random.default_rng(0).normal(size=(2, 15))  # 12 targets and the rotational constants, in the files' units


def flat(**changes: Any) -> dict[str, Any]:
    """The arrays of ``qm9.npz``; None leaves one out."""
    bonds = np.array([bond for molecule in BONDS for bond in molecule])
    arrays = {
        "index": np.array([3, 5]),
        "num_atoms": np.array([3, 3], dtype=np.uint8),
        "Z": np.array(ATOMS).ravel(),
        "pos": np.array(POSITIONS, dtype=np.float32).reshape(-1, 3),
        "targets": RAW,
        "target_names": np.array([f"target {column}" for column in range(15)]),
        "num_bonds": np.array([2, 2]),
        "bonds": bonds[:, :2],
        "bond_type": bonds[:, 2],
        "smiles": np.array("\n".join(SMILES)),
    }
    return {name: array for name, array in (arrays | changes).items() if array is not None}


def write_npz(folder: Path, **changes: Any) -> Path:
    (folder / "qm9").mkdir(exist_ok=True)
    np.savez(folder / "qm9" / "qm9.npz", **flat(**changes))
    return folder / "qm9" / "qm9.npz"


def assert_small(dataset: Dataset, source: str, *, tolerance: float = 0.0) -> None:
    """Water and hydrogen cyanide as above."""
    assert dataset.provenance.source == source
    assert dataset.smiles is not None and len(dataset) == 2
    elements = {1: 0, 6: 1, 7: 2, 8: 3}
    for graph, atoms, positions, bonds in zip(dataset.graphs, ATOMS, POSITIONS, BONDS, strict=True):
        assert graph.x[:, 0].tolist() == [elements[atom] for atom in atoms]
        assert torch.equal(graph.pos, torch.tensor(positions))
        once = graph.edge_index[0] < graph.edge_index[1]
        assert torch.cat([graph.edge_index[:, once], graph.edge_attr[once].T]).T.tolist() == [*map(list, bonds)]
    expected = RAW[:, :12] * np.array([HARTREE if unit == "eV" else 1.0 for unit in UNITS])
    assert dataset.targets is not None and dataset.targets.numpy() == pytest.approx(expected, rel=tolerance, abs=0)


@own_cache
def test_flat_arrays(tmp_path: Path) -> None:
    write_npz(tmp_path)
    dataset = load("qm9", tmp_path)
    assert_small(dataset, "flat arrays", tolerance=1e-15)
    assert dataset.smiles == [*SMILES]


def write_pyg_root(root: Path) -> None:
    """The raw files from which PyG makes its own: an SDF, a CSV of properties and the list of what is left out."""
    raw = root / "raw"
    raw.mkdir(parents=True)
    blocks = []
    for number, (atoms, positions, bonds) in enumerate(zip(ATOMS, POSITIONS, BONDS, strict=True)):
        symbols = {1: "H", 6: "C", 7: "N", 8: "O"}
        lines = [f"gdb_{number + 1}", "", "", f"{len(atoms):3}{len(bonds):3}  0  0  0  0  0  0  0  0999 V2000"]
        for atom, (x, y, z) in zip(atoms, positions, strict=True):
            lines.append(f"{x:10.4f}{y:10.4f}{z:10.4f} {symbols[atom]:<3}" + " 0" + "  0" * 11)
        lines += [f"{one + 1:3}{other + 1:3}{kind:3}  0" for one, other, kind in bonds]
        blocks.append("\n".join([*lines, "M  END", "$$$$", ""]))
    (raw / "gdb9.sdf").write_text("".join(blocks))
    columns = np.concatenate([RAW[:, 12:], RAW[:, :12], np.zeros((2, 4))], axis=1)
    table = ["mol_id," + ",".join(f"c{column}" for column in range(19))]
    table += [f"gdb_{row + 1}," + ",".join(map(repr, values.tolist())) for row, values in enumerate(columns)]
    (raw / "gdb9.sdf.csv").write_text("\n".join([*table, ""]))
    (raw / "uncharacterized.txt").write_text("\n".join(["header"] * 9 + ["99 left out"] + ["", ""]))


@own_cache
def test_what_pyg_makes_is_read_straight_from_its_tensors(tmp_path: Path) -> None:
    logs = pytest.importorskip("rdkit.RDLogger")
    write_pyg_root(tmp_path / "QM9")
    try:
        made = PygQM9(str(tmp_path / "QM9"))
    finally:  # PyG silences RDKit for the rest of the process
        logs.EnableLog("rdApp.error")
        logs.EnableLog("rdApp.warning")
    assert_small(load("qm9", tmp_path, download=False), "PyG's processed file", tolerance=1e-6)
    assert_small(load("qm9", tmp_path / "QM9", download=False), "PyG's processed file", tolerance=1e-6)
    dataset = load("qm9", tmp_path, download=False)
    for graph, data in zip(dataset.graphs, made, strict=True):
        assert torch.equal(graph.edge_index, data.edge_index)
        assert torch.equal(graph.edge_attr[:, 0] - 1, data.edge_attr.argmax(1))
        assert torch.equal(graph.y.float(), data.y[:, :12])


def downloaded() -> list[dict[str, Any]]:
    """What PyG's ``qm9_v3.pt`` holds."""
    units = np.array([HARTREE if unit == "eV" else 1.0 for unit in UNITS])
    content = []
    for atoms, positions, bonds, raw, smiles in zip(ATOMS, POSITIONS, BONDS, RAW, SMILES, strict=True):
        both = torch.tensor([bond for one, other, kind in bonds for bond in ((one, other, kind), (other, one, kind))])
        y = torch.tensor(np.concatenate([raw[:12] * units, np.zeros(7)]), dtype=torch.float32)[None]
        content.append(
            {
                "x": torch.zeros(len(atoms), 11),
                "z": torch.tensor(atoms),
                "pos": torch.tensor(positions),
                "edge_index": both[:, :2].T.contiguous(),
                "edge_attr": torch.nn.functional.one_hot(both[:, 2] - 1, 4).float(),
                "y": y,
                "smiles": smiles,
                "name": "gdb",
                "idx": 0,
            }
        )
    return content


@own_cache
@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_what_pyg_downloads(new: bool, tmp_path: Path) -> None:
    content = io.BytesIO()
    torch.save(downloaded(), content, _use_new_zipfile_serialization=new)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "qm9_v3.pt").write_bytes(content.getvalue())
    assert_small(load("qm9", tmp_path), "PyG's download", tolerance=1e-6)
    (tmp_path / "other").mkdir()
    with zipfile.ZipFile(tmp_path / "other" / "qm9_v3.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("qm9_v3.pt", content.getvalue())
    dataset = load("qm9", tmp_path / "other")
    assert_small(dataset, "PyG's download", tolerance=1e-6)
    assert dataset.smiles == [*SMILES]


COLUMNS = [
    *("XYZ_file", "Index", "SMILES", "InChi", "N_atoms", "Stoichiometry", "Elements", "XYZ_Ang", "Mulliken_pop"),
    *("Harmonic_Freq_cmi", "RotA_GHz", "RotB_GHz", "RotC_GHz", "Dipole_debye", "Polarizability_bohr3", "HOMO_au"),
    *("LUMO_au", "HOMO_LUMO_gap_au", "R2_bohr2", "ZPVE_au", "InternalEnergy_0K_au", "InternalEnergy_298K_au"),
    *("Enthalphy_298K_au", "GibbsFreeEnergy_298K_au", "Heatcapacity_Cv_cal_mol_K"),
]


def row(molecule: int, **changes: str) -> list[str]:
    """A row of the CSV files of qm9pack."""
    symbols = {1: "H", 6: "C", 7: "N", 8: "O"}
    numbers = {name: number_text(value) for name, value in zip(COLUMNS[13:], RAW[molecule, :12].tolist(), strict=True)}
    places = ",".join("[" + ",".join(map(number_text, place)) + "]" for place in POSITIONS[molecule])
    cells = {
        "XYZ_file": f"dsgdb9nsd_{molecule:06}.xyz",
        "Index": str(molecule),
        "SMILES": SMILES[molecule],
        "N_atoms": str(len(ATOMS[molecule])),
        "Elements": "[" + ",".join(f"'{symbols[atom]}'" for atom in ATOMS[molecule]) + "]",
        "XYZ_Ang": f"[{places}]",
    }
    return [(cells | numbers | changes).get(name, "") for name in COLUMNS]


def number_text(value: float) -> str:
    """As the package writes numbers: 1.2e-06 as 1.2*^-6."""
    return repr(float(value)).replace("e", "*^")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of a package of that name; importing it is an error."""
    folder = tmp_path / "site" / "qm9pack"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('the package was imported')")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder / "data"


def write_parts(data: Path, *parts: list[list[str]]) -> None:
    for number, rows in enumerate(parts, start=1):
        with (data / f"qm9_part{number}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


@own_cache
def test_the_package_is_read_without_importing_it(package: Path) -> None:
    pytest.importorskip("rdkit")
    small = "1.2*^-6"
    write_parts(package, [row(0)], [row(1)], [row(0, Dipole_debye=small)])
    dataset = load("qm9", download=False)
    assert "qm9pack" not in sys.modules
    assert dataset.provenance.origin == "package qm9pack"
    assert dataset.targets is not None and float(dataset.targets[2, 0]) == 1.2e-6
    write_parts(package, [row(0)], [row(1)], [row(1)])
    dataset = load("qm9", download=False)
    assert dataset.graphs[1].edge_attr.tolist() == dataset.graphs[2].edge_attr.tolist()
    expected = RAW[:, :12] * np.array([HARTREE if unit == "eV" else 1.0 for unit in UNITS])
    assert dataset.targets is not None and dataset.targets[:2].numpy() == pytest.approx(expected, rel=1e-15)


def test_hydrogens_in_brackets_follow_their_atom() -> None:
    pytest.importorskip("rdkit")
    from pointset.datasets.benchmarks.qm9_package import written

    glycine = written("[NH3+]CC([O-])=O")
    assert glycine.atomic_numbers == [7, 1, 1, 1, 6, 6, 8, 8, 1, 1]
    assert {(0, 1, 1), (0, 2, 1), (0, 3, 1), (4, 8, 1), (4, 9, 1), (5, 7, 2)} <= set(glycine.bonds)
    assert {kind for *_, kind in written("c1ccccc1").bonds} == {1, 4}


def test_atoms_in_another_order_get_their_bonds_from_space() -> None:
    pytest.importorskip("rdkit")
    line = np.array([[0.6, 0, 0], [-0.6, 0, 0], [-1.66, 0, 0], [1.66, 0, 0]])  # the first H belongs to the second C
    numbers = np.array([6, 6, 1, 1])
    got = bonds_of(["C#C"], np.array([4]), numbers, line)
    assert sorted(zip(*np.sort(got.bonds, axis=0).tolist(), got.bond_type.tolist(), strict=True)) == [
        (0, 1, 3),
        (0, 3, 1),
        (1, 2, 1),
    ]
    with pytest.raises(FileFormatError, match="'C#C'"):
        bonds_of(["C#C"], np.array([4]), numbers, line * 100)
    for wrong in ("C1", "C" * 10**6, "C~C"):
        with pytest.raises(FileFormatError, match=r"not the SMILES|a bond that is not"):
            bonds_of([wrong], np.array([4]), numbers, line)


# what is wrong is named, and nothing is kept of it


def assert_refused(tmp_path: Path, *words: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        load("qm9", tmp_path, download=False)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


WRONG_ARRAYS: dict[str, tuple[str, Any]] = {
    **{f"no {name}": (name, None) for name in ("Z", "pos", "targets", "bonds", "smiles", "num_atoms", "num_bonds")},
    "NaN in targets": ("targets", np.where(np.arange(30).reshape(2, 15) == 18, np.nan, RAW)),
    "targets as text": ("targets", RAW.astype(str)),
    "few targets": ("targets", RAW[:, :5]),
    "one row of targets": ("targets", RAW[:1]),
    "flat targets": ("targets", RAW[0]),
    "flat positions": ("pos", np.zeros(18)),
    "infinite position": ("pos", np.full((6, 3), np.inf)),
    "bonds the other way": ("bonds", np.zeros((2, 4), dtype=int)),
    "negative atoms": ("num_atoms", np.array([-3, 9])),
    "too many atoms": ("num_atoms", np.array([3, 4])),
    "silicon": ("Z", np.array([14, 1, 1, 6, 7, 1])),
    "fifth kind of bond": ("bond_type", np.array([1, 1, 5, 1])),
    "bond to nowhere": ("bonds", np.array([[0, 1], [0, 2], [0, 1], [0, 3]])),
    "one SMILES": ("smiles", np.array("O")),
    "an array of SMILES": ("smiles", np.array(SMILES)),
}


@own_cache
@pytest.mark.parametrize("case", WRONG_ARRAYS)
def test_arrays_that_are_wrong_are_named(case: str, tmp_path: Path) -> None:
    name, array = WRONG_ARRAYS[case]
    write_npz(tmp_path, **{name: array})
    words = {"silicon": "14", "too many atoms": "expected 7", "bond to nowhere": "node", "fifth kind of bond": "5"}
    assert_refused(tmp_path, "qm9.npz", words.get(case, name))


@own_cache
@pytest.mark.parametrize("keep", [0, 1, 50, 99])  # percent
def test_files_cut_short_are_named(keep: int, tmp_path: Path) -> None:
    path = write_npz(tmp_path)
    (tmp_path / "raw").mkdir()
    torch.save(downloaded(), tmp_path / "raw" / "qm9_v3.pt")
    with zipfile.ZipFile(tmp_path / "qm9_v3.zip", "w") as archive:
        archive.write(tmp_path / "raw" / "qm9_v3.pt", "qm9_v3.pt")
    for file in (path, tmp_path / "raw" / "qm9_v3.pt", tmp_path / "qm9_v3.zip"):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) * keep // 100])
        assert_refused(tmp_path, file.name)
        file.unlink()


@own_cache
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": None}, ("molecule 1", "y")),
        ({"y": torch.zeros(1, 12)}, ("molecule 1", "(1, 19)")),
        ({"y": torch.full((1, 19), torch.nan)}, ("y", "NaN")),
        ({"z": torch.tensor([6, 7, 14])}, ("14",)),
        ({"z": torch.tensor([6, 7])}, ("molecule 1", "pos")),
        ({"edge_attr": torch.zeros(4, 4)}, ("edge_attr",)),
        ({"edge_attr": torch.zeros(4, 3)}, ("molecule 1", "edge_attr")),
        ({"edge_index": torch.tensor([[0, 1, 0, 2], [1, 0, 2, 9]])}, ("qm9_v3.pt",)),
        ({"pos": "text"}, ("molecule 1", "pos")),
    ],
    ids=["no y", "y short", "NaN", "silicon", "z short", "no bond", "three bonds", "bond to nowhere", "text"],
)
def test_downloads_that_are_wrong_are_named(change: dict[str, Any], words: tuple[str, ...], tmp_path: Path) -> None:
    content = downloaded()
    content[1] = {name: value for name, value in (content[1] | change).items() if value is not None}
    (tmp_path / "raw").mkdir()
    torch.save(content, tmp_path / "raw" / "qm9_v3.pt")
    assert_refused(tmp_path, "qm9_v3.pt", *words)


@own_cache
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"SMILES": "C1"}, ("'C1'",)),
        ({"HOMO_au": "much"}, ("HOMO_au", "row 1")),
        ({"HOMO_au": "nan"}, ("HOMO_au", "row 1")),
        ({"HOMO_au": ""}, ("HOMO_au", "row 1")),
        ({"Elements": "['Si','H','H']"}, ("'Si'",)),
        ({"XYZ_Ang": "[[0,0,0]]"}, ("row 1", "three coordinates")),
        ({"XYZ_Ang": "[[0,0,0],[0,0,a],[0,0,0]]"}, ("XYZ_Ang", "row 1")),
    ],
    ids=["SMILES", "text", "NaN", "empty", "silicon", "positions", "position"],
)
def test_rows_of_the_package_that_are_wrong_are_named(
    change: dict[str, str], words: tuple[str, ...], package: Path, tmp_path: Path
) -> None:
    pytest.importorskip("rdkit")
    write_parts(package, [row(1)], [row(0, **change)], [row(1)])
    assert_refused(tmp_path, "qm9_part2.csv", *words)
    (package / "qm9_part2.csv").write_text(",".join(COLUMNS[:10]) + "\n")
    assert_refused(tmp_path, "qm9_part2.csv", "columns")


@own_cache
def test_where_there_is_nothing_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"(?s)qm9_v3\.zip.*pip install 'pointset\[qm9\]'"):
        load("qm9", tmp_path, download=False)


# --- molecules that are not in it


def kinds_of(x: Any, edges: Any, types: Any) -> list[tuple[Any, ...]]:
    """Bonds as (element, element, type), which do not depend on the order of the atoms."""
    x, types = np.asarray(x).reshape(-1), np.asarray(types).reshape(-1)
    return sorted((*sorted((int(x[a]), int(x[b]))), int(kind)) for (a, b), kind in zip(edges.T, types, strict=True))


def test_smiles_become_graphs_like_those_of_the_data(shared_data: Path) -> None:
    pytest.importorskip("rdkit")
    qm9, read = load("qm9", shared_data, progress=False), reader_named(str(load("qm9", shared_data).card.molecules))
    assert qm9.smiles is not None
    for graph in np.random.default_rng(0).choice(len(qm9), 200, replace=False):
        given, molecule = qm9.arrays[int(graph)], read(qm9.smiles[graph])
        assert molecule.num_nodes == given.num_nodes
        expected = kinds_of(given.features.x, given.edges, given.features.edge_attr)
        assert kinds_of(molecule.x, molecule.edges, molecule.edge_attr) == expected


def test_hydrogens_are_atoms_and_stand_last() -> None:
    pytest.importorskip("rdkit")
    methanol = read_qm9_molecule("OC")
    assert (methanol.smiles, methanol.x[:, 0].tolist()) == ("CO", [1, 3, 0, 0, 0, 0])
    assert methanol.edges.shape == (2, 5) and set(methanol.edge_attr[:, 0].tolist()) == {1}
    assert sorted(read_qm9_molecule("c1ccccc1").edge_attr[:, 0].tolist()) == [1] * 6 + [4] * 6
    assert read_qm9_molecule("OC", in_canonical_order=False).x[:2, 0].tolist() == [3, 1]
    for smiles, message in (("CS", "the element S"), ("C1", "not a SMILES"), ("C$C", "a bond of type QUADRUPLE")):
        with pytest.raises(MoleculeError, match=message):
            read_qm9_molecule(smiles)
