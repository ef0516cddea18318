"""The nine sets of molecules of chemists.py: :func:`load`, their rows by part, and the tables the methods are given."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.files import write_csv

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Kind = Literal["regression", "classification"]
PARTS = ("train", "val", "test")
SHARES = (0.8, 0.1, 0.1)  # of a split made here
LEAST_PREDICTED = 2000  # rows, so that starting the program is not all of what is measured
SPLITS_FILE = "scaffold_splits.json"


class MoleculeSet(NamedTuple):
    """A file of the folder ``molecules``, from the smallest to the largest."""

    kind: Kind
    file: str
    smiles: str = "smiles"
    targets: tuple[str, ...] = ()  # empty: every other column
    splits: str | None = None  # its name in the file of splits; None: split here


SETS = {
    "freesolv": MoleculeSet("regression", "freesolv.csv", splits="freesolv"),
    "delaney": MoleculeSet("regression", "delaney.csv", splits="esol"),
    "bace": MoleculeSet("classification", "bace.csv", smiles="mol", splits="bace"),
    "bbbp": MoleculeSet("classification", "bbbp.csv", splits="bbbp"),
    "clintox": MoleculeSet("classification", "clintox.csv", splits="clintox"),
    "sider": MoleculeSet("classification", "sider.csv", splits="sider"),
    "lipo": MoleculeSet("regression", "lipo.csv", splits="lipo"),
    "tox21": MoleculeSet("classification", "tox21.csv", splits="tox21"),
    "aqsoldb": MoleculeSet("regression", "aqsoldb.csv.gz", smiles="SMILES", targets=("Solubility",)),
}


class Molecules(NamedTuple):
    """The n rows of a set that RDKit can read, in the order of the file, and a split of them."""

    kind: Kind
    rows: Integers  # (n,) numbers of the rows in the file, from 0
    smiles: list[str]  # n
    names: list[str]  # k targets
    truth: Reals  # (n, k), NaN where a label is missing
    part: NDArray[np.str_]  # (n,) train, val or test
    left_out: int  # rows that RDKit cannot read

    @property
    def digest(self) -> str:
        """Which molecules are in which part: equal for methods that were given the same rows."""
        content = [f"{row} {part}" for row, part in zip(self.rows.tolist(), self.part.tolist(), strict=True)]
        return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]

    def at(self, part: str) -> NDArray[np.bool_]:
        """(n,) whether a row is in the part."""
        return np.asarray(self.part == part)


def load(name: str, seed: int, folder: Path) -> Molecules:
    """Read a set and its split of this seed from the folder ``molecules``.

    Args:
        name: of :data:`SETS`.
        seed: of the scaffold split.
        folder: holds the tables and scaffold_splits.json.
    """
    from rdkit import Chem, rdBase
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    def can_read(smiles: str) -> bool:
        molecule = Chem.MolFromSmiles(smiles)
        return molecule is not None and molecule.GetNumAtoms() > 0

    rdBase.DisableLog("rdApp.*")
    source = SETS[name]
    path = folder / source.file
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    names = list(source.targets) or [column for column in table[0] if column != source.smiles]
    rows = np.array([row for row, cells in enumerate(table) if can_read(cells[source.smiles])], dtype=np.int64)
    smiles = [table[row][source.smiles] for row in rows]
    truth = np.array([[float(table[row][target] or "nan") for target in names] for row in rows])
    if source.splits is None:
        part = scaffold_parts([MurckoScaffoldSmiles(one) for one in smiles], seed)  # type: ignore[no-untyped-call]
    else:
        part = _published(folder / SPLITS_FILE, source.splits, seed, len(table))[rows]
    if (part == "").any():
        raise ValueError(f"{SPLITS_FILE} has no part for {int((part == '').sum())} rows of {name}, seed {seed}")
    return Molecules(source.kind, rows, smiles, names, truth, part, len(table) - len(rows))


def _published(path: Path, name: str, seed: int, count: int) -> NDArray[np.str_]:
    """(count,) the part of every row of the file."""
    splits = json.loads(path.read_text(encoding="utf-8"))[name][str(seed)]
    part = np.full(count, "", dtype="<U5")
    for word in PARTS:
        part[splits[word]] = word
    return part


def scaffold_parts(scaffolds: Sequence[str], seed: int) -> NDArray[np.str_]:
    """(n,) parts of molecules with these scaffolds, 80/10/10: a scaffold is in one part, at random by the seed.

    Scaffolds of more than half a validation part (molecules without rings are the largest) are always trained on, as
    they would fill a part alone; the others fill training, then validation, then test in random order.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for molecule, scaffold in enumerate(scaffolds):
        groups[scaffold].append(molecule)
    room = [round(share * len(scaffolds)) for share in SHARES]
    order = [list(groups)[index] for index in np.random.default_rng(seed).permutation(len(groups))]
    order.sort(key=lambda scaffold: len(groups[scaffold]) <= room[1] / 2)  # stable: large ones first
    part = np.full(len(scaffolds), PARTS[-1], dtype="<U5")
    for scaffold in order:
        size = len(groups[scaffold])
        place = next((place for place in (0, 1) if room[place] >= size), 2)
        room[place] -= size
        part[groups[scaffold]] = PARTS[place]
    return part


def write_training_table(path: Path, molecules: Molecules) -> None:
    """SMILES, targets and the column ``split``: what every method trains on."""
    rows = zip(molecules.smiles, molecules.truth, molecules.part.tolist(), strict=True)
    cells = ([smiles, *map(_cell, truth), part] for smiles, truth, part in rows)
    write_csv(path, [["smiles", *molecules.names, "split"], *cells])


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.10g}"


def write_prediction_tables(path: Path, one: Path, smiles: Sequence[str]) -> int:
    """Molecules to predict: all of the set, again as other SMILES until there are enough; and a table of only one.

    The repeated ones are written differently (RDKit's random SMILES), so that no method can look them up.

    Returns:
        How many rows ``path`` has.
    """
    lines = list(smiles)
    spellings = _spellings(smiles)
    while len(lines) < LEAST_PREDICTED:
        lines.append(next(spellings))
    write_csv(path, [["smiles"], *([line] for line in lines)])
    write_csv(one, [["smiles"], [smiles[0]]])
    return len(lines)


def _spellings(smiles: Sequence[str]) -> Iterator[str]:
    from rdkit import Chem

    molecules = [Chem.MolFromSmiles(one) for one in smiles]
    for seed in range(1, LEAST_PREDICTED):
        for molecule in molecules:
            yield Chem.MolToRandomSmilesVect(molecule, 1, randomSeed=seed)[0]
