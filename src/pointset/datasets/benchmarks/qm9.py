"""QM9: 130,831 small molecules with positions, and twelve properties from quantum chemistry."""

from __future__ import annotations

import dataclasses
from typing import Any

from pointset.datasets.benchmarks.qm9_files import (
    ATOMS,
    BONDS,
    ELEMENTS,
    PACKAGE,
    REFERENCED,
    TARGETS,
    atom_reference_energies,
    read_downloaded,
    read_npz,
    read_package,
    read_processed,
)
from pointset.datasets.card import Card, Level, Metric, PaperRow, Task
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits import Split, random_split
from pointset.datasets.table import GraphTable
from pointset.errors import SpecError

_SPLIT_SEED = 0
_PYG_NOTE = (
    "PyG's files are pickles; only plain data and tensors are read from them. They come from another list of bonds, "
    "without aromatic ones and with a few that are too long, and have targets in float32: total energies to 1e-3 eV"
)


def random_parts(table: GraphTable) -> Split:
    """0.8/0.1/0.1 at random, always the same."""
    return random_split(len(table), (0.8, 0.1, 0.1), seed=_SPLIT_SEED)


def with_atom_reference(table: GraphTable, card: Card, /, *, atom_reference: Any = False) -> tuple[GraphTable, Card]:
    """The option ``atom_reference``: u0, u298, h298 and g298 without what the atoms have by themselves.

    Raises:
        SpecError: it is neither True nor False.
    """
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
        notes=(
            "Hydrogens are nodes; positions are in Å.",
            "Energies are in eV (1 Hartree = 27.211386246 eV, as in PyG). The paper's tables print their units too "
            "small by 10^3: for meV read eV, for 10^-2 meV read 10^-2 eV.",
            "The paper's text speaks of 13 properties; its tables have these 12.",
            "What atom_reference subtracts: pointset.datasets.benchmarks.qm9_files.atom_reference_energies.",
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
