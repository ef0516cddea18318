"""QM9: 130,831 small molecules with positions, and twelve properties from quantum chemistry.

It is read from flat arrays, from PyG's files, as downloaded (``qm9_v3.pt``) and as PyG keeps them (``data_v3.pt``), and
from the pip package qm9pack. PyG's files are pickles, of which only plain containers and tensors are rebuilt
(:mod:`pointset.datasets.safe_pickle`); their targets are float32 numbers in eV, so total energies are exact to 1e-3 eV
only. All other files give Hartree, converted here with PyG's constant so that numbers are comparable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.arrays import Array, Floats, read_arrays
from pointset.datasets.benchmarks.pyg_files import Collated, arrays_of, collate, read_collated, read_list
from pointset.datasets.benchmarks.qm9_package import PACKAGE, bonds_of, read_part
from pointset.datasets.benchmarks.reading import as_features, expect_real, expect_shape, expect_whole, find_files
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.molecules.qm9 import ELEMENTS
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits import Split, random_split
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, SpecError
from pointset.specs import Categories, Reals

HARTREE_IN_EV = 27.211386246
TARGETS = (
    Target("mu", "D", "dipole moment"),
    Target("alpha", "a0^3", "isotropic polarisability"),
    Target("homo", "eV", "energy of the highest occupied orbital"),
    Target("lumo", "eV", "energy of the lowest unoccupied orbital"),
    Target("gap", "eV", "lumo − homo"),
    Target("r2", "a0^2", "electronic spatial extent"),
    Target("zpve", "eV", "zero-point vibrational energy"),
    Target("u0", "eV", "internal energy at 0 K"),
    Target("u298", "eV", "internal energy at 298.15 K"),
    Target("h298", "eV", "enthalpy at 298.15 K"),
    Target("g298", "eV", "free energy at 298.15 K"),
    Target("cv", "cal/(mol K)", "heat capacity at 298.15 K"),
)
_IN_UNITS = np.array([HARTREE_IN_EV if target.unit == "eV" else 1.0 for target in TARGETS])

# The energies of single atoms by the same method, in Hartree: the file atomref.txt that is published with QM9. It gives
# a reference for cv too, 2.981 for every atom; like PyG, we leave cv as it is.
_ATOM_ENERGIES = {
    "u0": (-0.500273, -37.846772, -54.583861, -75.064579, -99.718730),
    "u298": (-0.498857, -37.845355, -54.582445, -75.063163, -99.717314),
    "h298": (-0.497912, -37.844411, -54.581501, -75.062219, -99.716370),
    "g298": (-0.510927, -37.861317, -54.598897, -75.079532, -99.733544),
}
REFERENCED = tuple(_ATOM_ENERGIES)  # the targets from which atom references are subtracted
ATOMS, BONDS = Categories(len(ELEMENTS)), Categories(5)
_ARRAYS = ("num_atoms", "Z", "pos", "targets", "num_bonds", "bonds", "bond_type", "smiles")
_DOWNLOADED = ("z", "pos", "edge_index", "edge_attr", "y")
_PYG_TARGETS, _PYG_BONDS = 19, 4  # columns of y, of which the first twelve are ours, and of one-hot edge_attr
_SPLIT_SEED = 0
_PYG_NOTE = (
    "PyG's files are pickles; only plain data and tensors are read from them. They come from another list of bonds, "
    "without aromatic ones and with a few that are too long, and have targets in float32: total energies to 1e-3 eV"
)


def in_units(targets: Array) -> Floats:
    """(G, 12) the targets in the units of :data:`TARGETS`, from Hartree, Debye and Bohr."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        converted: Floats = targets.astype(np.float64) * _IN_UNITS
    return converted


def atom_reference_energies(x: Any, num_nodes: Any) -> Floats:
    """(G, 12) what the atoms of each molecule have by themselves, Σ_atoms E_element, in eV; 0 but for four targets.

    ``load("qm9", atom_reference=True)`` subtracts it, so that it is what to add to predictions to have QM9's targets.

    Args:
        x: (N,) or (N, 1) elements as in ``x`` of the graphs: 0…4 for H, C, N, O, F.
        num_nodes: (G,) atoms of each molecule.
    """
    elements, sizes = np.asarray(x).reshape(-1), np.asarray(num_nodes).astype(np.int64)
    molecule = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(molecule * len(ELEMENTS) + elements, minlength=len(sizes) * len(ELEMENTS))
    nothing = (0.0,) * len(ELEMENTS)
    of_element = np.array([_ATOM_ENERGIES.get(target.name, nothing) for target in TARGETS]).T * HARTREE_IN_EV  # (5, 12)
    energies: Floats = counts.reshape(len(sizes), len(ELEMENTS)) @ of_element
    return energies


def molecules(
    place: object,
    *,
    num_atoms: Array,
    atomic_numbers: Array,
    pos: Array,
    num_bonds: Array,
    bonds: Array,
    bond_type: Array,
    y: Array,
    smiles: Sequence[str] | None,
) -> GraphTable:
    """The table of QM9's molecules, whatever they were read from; ``y`` (G, 12) is in the units of the card."""
    known = np.array(list(ELEMENTS.values()))
    x = np.searchsorted(known, atomic_numbers).clip(max=len(known) - 1)
    if (strange := atomic_numbers[known[x] != atomic_numbers]).size:
        raise FileFormatError(f"{place}: atomic number {strange[0]}; expected those of {', '.join(ELEMENTS)}")
    return GraphTable(
        num_nodes=num_atoms,
        num_edges=num_bonds,
        edges=bonds,
        x=x[:, None],
        edge_attr=as_features(f"{place}, bonds", bond_type.astype(np.int64)[:, None], BONDS),
        pos=as_features(f"{place}, pos", pos, Reals(3)),
        y=expect_real(place, "targets", y, len(num_atoms), len(TARGETS)),
        smiles=smiles,
    )


def read_npz(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """One ``.npz`` of flat arrays; the twelve targets stand first in ``targets``, in Hartree, Debye and Bohr."""
    (path,) = files
    arrays = read_arrays(path, _ARRAYS)
    graphs, atoms, bonds = (np.atleast_1d(arrays[name]).shape[0] for name in ("num_atoms", "Z", "bond_type"))
    text = arrays["smiles"]
    if text.shape != () or text.dtype.kind != "U":
        raise FileFormatError(f"{path}: smiles has shape {text.shape}; expected one text, a line for each molecule")
    targets = expect_real(path, "targets", arrays["targets"], graphs, None)
    if targets.shape[1] < len(TARGETS):
        raise FileFormatError(f"{path}: targets has {targets.shape[1]} columns; expected at least {len(TARGETS)}")
    return molecules(
        path,
        num_atoms=expect_whole(path, "num_atoms", arrays["num_atoms"], graphs),
        atomic_numbers=expect_whole(path, "Z", arrays["Z"], atoms),
        pos=expect_real(path, "pos", arrays["pos"], atoms, 3),
        num_bonds=expect_whole(path, "num_bonds", arrays["num_bonds"], graphs),
        bonds=expect_whole(path, "bonds", arrays["bonds"], bonds, 2).T,
        bond_type=expect_whole(path, "bond_type", arrays["bond_type"], bonds),
        y=in_units(targets[:, : len(TARGETS)]),
        smiles=str(text).split("\n"),
    )


def read_processed(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """PyG's ``processed/data_v3.pt``: (data, slices), all molecules in flat tensors."""
    (path,) = files
    return _from_pyg(
        path, read_collated(path, nodes=("z", "pos"), edges=("edge_attr",), graphs=("y",), texts=("smiles",))
    )


def read_downloaded(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """PyG's ``qm9_v3.pt``, or the zip with it: a list of dicts, one for each molecule."""
    (file,) = find_files(files, ["qm9_v3.pt"])
    listed = read_list(file, "molecules, each a dict")
    flat = collate((_fields(f"{file}, molecule {number}", one) for number, one in enumerate(listed)), "z")
    return _from_pyg(file, dataclasses.replace(flat, texts={"smiles": [str(one["smiles"]) for one in listed]}))


def _fields(place: str, molecule: Any) -> dict[str, Array]:
    if isinstance(molecule, dict) and "smiles" not in molecule:
        raise FileFormatError(f"{place}: got a dict without smiles; expected one with it and {', '.join(_DOWNLOADED)}")
    fields = arrays_of(place, molecule, _DOWNLOADED)
    atoms, bonds = (fields[name].shape[-1] if fields[name].ndim else 0 for name in ("z", "edge_index"))
    expect_shape(place, "z", fields["z"], atoms)
    expect_shape(place, "pos", fields["pos"], atoms, 3)
    expect_shape(place, "edge_index", fields["edge_index"], 2, bonds)
    expect_shape(place, "edge_attr", fields["edge_attr"], bonds, _PYG_BONDS)
    expect_shape(place, "y", fields["y"], 1, _PYG_TARGETS)
    return fields


def _from_pyg(place: object, flat: Collated) -> GraphTable:
    graphs, atoms, bonds = len(flat.num_nodes), int(flat.num_nodes.sum()), int(flat.num_edges.sum())
    one_hot = expect_real(place, "edge_attr", flat["edge_attr"].astype(np.float64), bonds, _PYG_BONDS)
    if not ((one_hot == 1).sum(axis=1) == 1).all():
        raise FileFormatError(f"{place}: edge_attr does not name one bond for each edge; expected one 1 in each row")
    targets = expect_real(place, "y", flat["y"].astype(np.float64), graphs, _PYG_TARGETS)
    return molecules(
        place,
        num_atoms=flat.num_nodes,
        atomic_numbers=expect_whole(place, "z", flat["z"], atoms),
        pos=expect_real(place, "pos", flat["pos"], atoms, 3),
        num_bonds=flat.num_edges,
        bonds=expect_whole(place, "edge_index", flat["edge_index"], 2, bonds),
        bond_type=one_hot.argmax(axis=1) + 1,
        y=targets[:, : len(TARGETS)],
        smiles=flat.texts["smiles"],
    )


def read_package(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """The three CSV files of the package; bonds come from the SMILES and the positions."""
    place = files[0].parent
    texts, *arrays = zip(*map(read_part, files), strict=True)
    smiles = [text for part in texts for text in part]
    num_atoms, atomic_numbers, pos, targets = map(np.concatenate, arrays)
    try:
        bonds = bonds_of(smiles, num_atoms, atomic_numbers, pos, show=show)
    except FileFormatError as error:
        raise FileFormatError(f"{place}: {error}") from None
    return molecules(
        place,
        num_atoms=num_atoms,
        atomic_numbers=atomic_numbers,
        pos=pos,
        **bonds._asdict(),
        y=in_units(targets),
        smiles=smiles,
    )


def random_parts(table: GraphTable) -> Split:
    """0.8/0.1/0.1 at random, always the same."""
    return random_split(len(table), (0.8, 0.1, 0.1), seed=_SPLIT_SEED)


def with_atom_reference(table: GraphTable, card: Card, /, *, atom_reference: Any = False) -> tuple[GraphTable, Card]:
    """The option ``atom_reference``: u0, u298, h298 and g298 without what the atoms have by themselves."""
    if not isinstance(atom_reference, bool):
        raise SpecError(f"got atom_reference={atom_reference!r}; expected True or False")
    if not atom_reference or table.y is None:
        return table, card
    targets = tuple(
        dataclasses.replace(target, meaning=f"{target.meaning}, minus that of its atoms")
        if target.name in REFERENCED
        else target
        for target in card.targets
    )
    y = table.y - atom_reference_energies(table.x, table.num_nodes)
    return dataclasses.replace(table, y=y), dataclasses.replace(card, targets=targets)


QM9 = Benchmark(
    Card(
        name="qm9",
        title="QM9",
        description="Molecules of up to nine heavy atoms in their lowest energy; predict properties that DFT computed.",
        level=Level.GRAPH,
        task=Task.REGRESSION,
        targets=TARGETS,
        metric=Metric.MAE,
        split=f"random 0.8/0.1/0.1 (seed {_SPLIT_SEED}); there is no official one",
        node=ATOMS,
        edge=BONDS,
        positions=True,
        node_columns=(f"element: {', '.join(f'{number} {name}' for number, name in enumerate(ELEMENTS))}",),
        edge_columns=("bond: 1 single, 2 double, 3 triple, 4 aromatic (0 does not occur)",),
        licence="MIT (as packaged in qm9pack)",
        source="QM9 without the 3,054 molecules that its authors call uncharacterised",
        reference="Ramakrishnan et al. 2014, doi:10.1038/sdata.2014.22",
        paper=PaperRow(130_831, 18.0, 18.7),
        molecules="qm9",
        notes=(
            "Hydrogens are nodes; positions are in Å.",
            "Energies are in eV (1 Hartree = 27.211386246 eV, as in PyG). The paper's tables print their units too "
            "small by 10^3: for meV read eV, for 10^-2 meV read 10^-2 eV.",
            "The paper's text speaks of 13 properties; its tables have these 12.",
            "What atom_reference subtracts: pointset.datasets.benchmarks.qm9.atom_reference_energies.",
        ),
    ),
    (
        Source(
            "flat arrays",
            read_npz,
            places=(("qm9/qm9.npz",),),
            sha256={"qm9.npz": "f3388fabce8c0c53344bd80b95e46b9a07491ecb90e14c24a07ca9882cc65ed6"},
        ),
        Source(
            "PyG's processed file",
            read_processed,
            places=tuple((f"{folder}processed/data_v3.pt",) for folder in ("QM9/", "qm9/", "")),
            note=_PYG_NOTE,
        ),
        Source(
            "PyG's download",
            read_downloaded,
            places=(
                *((f"{folder}raw/qm9_v3.pt",) for folder in ("QM9/", "qm9/", "")),
                *((f"{folder}qm9_v3.zip",) for folder in ("QM9/raw/", "qm9/raw/", "raw/", "QM9/", "qm9/", "")),
            ),
            downloads=(Download("https://data.pyg.org/datasets/qm9_v3.zip", "qm9_v3.zip"),),
            note=_PYG_NOTE,
        ),
        Source(
            "package qm9pack",
            read_package,
            tools=("rdkit",),
            package=PACKAGE,
            extra="qm9",
            sha256={  # of version 1.0.3
                "qm9_part1.csv": "19f0a5d595462d52cd82eef3370f3e9eb55a1f52cb14985657200349568deff3",
                "qm9_part2.csv": "2bca113fdc0b28a13563c80ed9b240e934f3da6c64c64fe74ddb4f0f36036e61",
                "qm9_part3.csv": "9c5efb5733d2af149db8d95d36ff198b4ffed12d9f7b344220a1e5877d5c6a43",
            },
            note="the bonds need RDKit: pip install 'pointset[chem]'",
        ),
    ),
    default_split=random_parts,
    adjust=with_atom_reference,
    options={
        "atom_reference": "True subtracts the energies of single atoms from u0, u298, h298 and g298: what is left is "
        "the energy of the bonds"
    },
)
