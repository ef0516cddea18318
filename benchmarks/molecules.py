"""How faithfully SMILES become graphs: ZINC-12k against what was published, ogbg-molhiv written in other ways.

    python benchmarks/molecules.py [--data-dir DIR] [--sample 4000] [--json FILE]

Of ZINC-12k all graphs and targets are made from SMILES and compared with the published ones (wants zinc12k.csv.gz
beside the arrays). Of ogbg-molhiv a sample is written anew in four ways: twice at random, once in a Kekulé form, once
with explicit hydrogens; each must give the same arrays, bit for bit.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from rdkit import Chem, rdBase
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

import pointset
from common import machine, report
from pointset.datasets.molecules import Molecule, MoleculeReader, Unreadable, read_many, read_zinc_molecule
from pointset.datasets.molecules.zinc import penalized_logp


def smiles_in(path: Path) -> list[str]:
    with gzip.open(path, "rt") as file:
        return [row["smiles"] for row in csv.DictReader(file)]


def as_data(molecule: Molecule, *, bonds: bool) -> Data:
    ends, types = torch.from_numpy(molecule.edges), torch.from_numpy(molecule.edge_attr)
    ends, types = to_undirected(ends, types, num_nodes=molecule.num_nodes)
    return Data(x=torch.from_numpy(molecule.x), edge_index=ends, edge_attr=types if bonds else None)


def zinc(folder: Path) -> dict[str, object]:
    data = pointset.datasets.load("zinc", folder)
    smiles = smiles_in(folder / "zinc" / "zinc12k.csv.gz")
    same = skeleton = 0
    for molecule, published in zip(read_many(smiles, read_zinc_molecule), data.graphs, strict=True):
        if isinstance(molecule, Unreadable):
            continue
        if pointset.is_same_graph(as_data(molecule, bonds=True), published):
            same += 1
            continue
        published.edge_attr = None
        skeleton += bool(pointset.is_same_graph(as_data(molecule, bonds=False), published))
    values = np.array(read_many(smiles, penalized_logp), dtype=np.float64)
    return {
        "ZINC-12k: the published graph": f"{same:,} of {len(smiles):,}",
        "ZINC-12k: the published graph but for its Kekulé form": f"{skeleton:,}",
        "ZINC-12k: largest difference of a target": f"{np.abs(values - data.targets.flatten().numpy()).max():.1e}",  # type: ignore[union-attr]
    }


def writings(smiles: str, seed: int) -> list[str]:
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None:
        return []
    kekule = Chem.Mol(molecule)
    Chem.Kekulize(kekule, clearAromaticFlags=True)
    return [
        *Chem.MolToRandomSmilesVect(molecule, 2, randomSeed=seed + 1),
        *Chem.MolToRandomSmilesVect(kekule, 1, randomSeed=seed + 1, kekuleSmiles=True),
        *Chem.MolToRandomSmilesVect(Chem.AddHs(molecule), 1, randomSeed=seed + 1),
    ]


def written_anew(folder: Path, sample: int) -> dict[str, object]:
    smiles = smiles_in(folder / "molhiv" / "molhiv.csv.gz")
    read, compared, differing = MoleculeReader(), 0, 0
    for seed in np.random.default_rng(0).choice(len(smiles), min(sample, len(smiles)), replace=False).tolist():
        for writing in writings(smiles[seed], seed):
            one, other = read(smiles[seed]), read(writing)
            pairs = ((one.x, other.x), (one.edges, other.edges), (one.edge_attr, other.edge_attr))
            compared += 1
            differing += not all(np.array_equal(mine, theirs) for mine, theirs in pairs)
    return {"ogbg-molhiv: writings compared": f"{compared:,}", "ogbg-molhiv: with other arrays": differing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("POINTSET_DATA", "../shared/data")))
    parser.add_argument("--sample", type=int, default=4_000)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    with rdBase.BlockLogs():
        figures = zinc(arguments.data_dir) | written_anew(arguments.data_dir, arguments.sample)
    report("SMILES as graphs", {**figures, "RDKit": version("rdkit"), **machine(torch.__version__)}, arguments.json)


if __name__ == "__main__":
    main()
