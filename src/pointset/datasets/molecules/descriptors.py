"""Numbers of a molecule as a whole: Morgan counts, cheap RDKit descriptors (:func:`describe`), packed fingerprints.

They stand beside the points where a model is given them (``model.descriptors``), are what a random forest learns from,
and say how similar two molecules are. Chosen to be cheap: Morgan counts take about 45 µs for a drug-like molecule, the
RDKit descriptors 0.3 ms (half of it where many molecules are read together), where all of RDKit's 217 would take 6 ms,
ten times what the model takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats
from pointset.datasets.molecules.crippen import crippen_contributions, flat_molecules
from pointset.datasets.molecules.features import ATOM_COLUMNS
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Reading, quiet_rdkit, require_rdkit, screen
from pointset.datasets.molecules.parsing import parse as parse_smiles
from pointset.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from rdkit.Chem import Mol

MORGAN_RADIUS = 2
MORGAN_BITS = 2048
FINGERPRINT_BYTES = MORGAN_BITS // 8
KINDS = ("morgan", "rdkit")
_MOST_COUNT = 255
_CRIPPEN_BLOCKS, _OF_CRIPPEN = 3, 24  # the first of the RDKit descriptors, and how many numbers they are
_LOGP_BOUNDS = (-0.4, -0.2, 0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)  # RDKit's, of its surfaces by contribution
_REFRACTIVITY_BOUNDS = (1.29, 1.82, 2.24, 2.45, 2.75, 3.05, 3.63, 3.8, 4.0)
_SHORTER_BONDS = np.array([0.0, 0.2, 0.3, 0.1, 0.0])  # than single ones, Å: the types of the bond features
_REFUSED = (RuntimeError, ValueError, OverflowError, MoleculeError)  # what RDKit says where there is no such number

Counts = NDArray[np.uint8]
Numbers = NDArray[np.float32]


def descriptor_kinds(name: str) -> tuple[str, ...]:
    """``"morgan"``, ``"rdkit"`` or ``"morgan+rdkit"`` → its parts; refuses others."""
    kinds = tuple(name.split("+"))
    for kind in kinds:
        if kind not in KINDS:
            raise SpecError(
                f"got the descriptors {name!r:.60}; expected {', '.join(KINDS)} or {'+'.join(KINDS)}"
                f"{did_you_mean(kind, list(KINDS))}"
            )
    return kinds


def descriptor_names(name: str) -> list[str]:
    """A name for each number that :func:`describe` gives."""
    named = {"morgan": [f"morgan_{bit}" for bit in range(MORGAN_BITS)], "rdkit": list(_rdkit_functions())}
    return [one for kind in descriptor_kinds(name) for one in named[kind]]


def describe(mol: Mol, name: str, counts: Counts | None = None) -> Numbers:
    """(c,) the descriptors of one molecule; NaN where RDKit cannot compute one, as of impossible chemistry.

    ``counts`` are its :func:`morgan_counts`, where they are known.
    """
    parts = []
    for kind in descriptor_kinds(name):
        if kind == "morgan":
            parts.append((morgan_counts(mol) if counts is None else counts).astype(np.float32))
        else:
            parts.append(_rdkit_numbers(mol))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def describe_many(
    readings: Sequence[Reading], molecules: Sequence[Molecule], name: str, counts: Counts | None = None
) -> Numbers:
    """(G, c) :func:`describe` of molecules with these arrays, which have no added hydrogens; 40 % faster.

    ``counts`` (G, 2048) are their :func:`morgan_counts`, where they are known.
    """
    parts: list[NDArray[Any]] = []
    for kind in descriptor_kinds(name):
        if kind == "morgan":
            parts.append(np.stack([morgan_counts(reading.mol) for reading in readings]) if counts is None else counts)
        else:
            parts.append(_rdkit_matrix(readings, molecules))
    return np.concatenate(parts, axis=1, dtype=np.float32)


def morgan_counts(mol: Mol) -> Counts:
    """(2048,) how often each environment of radius 0, 1 and 2 occurs, hashed, at most 255 times.

    Zeros where RDKit cannot find them, as in a molecule whose rings it could not perceive.
    """
    try:
        counts: NDArray[Any] = _generator().GetCountFingerprintAsNumPy(mol)
    except RuntimeError:
        return np.zeros(MORGAN_BITS, dtype=np.uint8)
    small: Counts = np.minimum(counts, _MOST_COUNT).astype(np.uint8)
    return small


def packed(counts: Counts) -> Counts:
    """(…, 2048) counts → (…, 256): a bit for each environment that occurs, as similarities are computed with."""
    bits: Counts = np.packbits(counts > 0, axis=-1)
    return bits


def morgan_by_atom(smiles: str, values: Floats) -> tuple[Floats, float]:
    """Values of the Morgan counts (2048,), shared among the atoms whose environments are counted.

    The value of a count goes in equal parts to the environments that it counts, and from each in equal parts to its
    atoms. Returns (n,) of the atoms of the SMILES, in its order, and the sum of all that no environment stands for.
    """
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    with quiet_rdkit(smiles):
        mol = parse_smiles(smiles, lenient=True)
        output = rdFingerprintGenerator.AdditionalOutput()
        output.AllocateBitInfoMap()
        _generator().GetCountFingerprint(mol, additionalOutput=output)
        atoms = np.zeros(mol.GetNumAtoms())
        for bit, environments in output.GetBitInfoMap().items():
            for centre, radius in environments:
                bonds = Chem.FindAtomEnvironmentOfRadiusN(mol, radius, centre) if radius else []
                ends = [mol.GetBondWithIdx(bond) for bond in bonds]
                members = {centre, *(bond.GetBeginAtomIdx() for bond in ends), *(bond.GetEndAtomIdx() for bond in ends)}
                atoms[list(members)] += values[bit] / len(environments) / len(members)
    return atoms, float(values.sum() - atoms.sum())


def descriptors_by_atom(smiles: str, name: str, values: Floats) -> tuple[Floats, float]:
    """Values of the descriptors of this name (c,): those of Morgan counts by atom (n,), and the sum of the rest.

    Descriptors of a file are all among the rest.
    """
    computed = descriptor_names(name) if set(name.split("+")) <= set(KINDS) else [""] * len(values)
    morgan = np.array([one.startswith("morgan_") for one in computed])
    atoms, rest = morgan_by_atom(smiles, values[morgan] if morgan.any() else np.zeros(MORGAN_BITS))
    return atoms, rest + float(values[~morgan].sum())


def morgan_matrix(smiles: Sequence[str], *, workers: int | None = None, progress: bool | None = None) -> Counts:
    """(G, 2048) Morgan counts of many molecules; zeros where a SMILES cannot be read.

    The same for all writings of a molecule. ``workers`` and ``progress`` as for
    :func:`~pointset.datasets.molecules.parallel.read_many`.
    """
    counts: Counts = _matrix(smiles, _read_counts, np.zeros(MORGAN_BITS, dtype=np.uint8), workers, progress)
    return counts


def descriptor_matrix(
    smiles: Sequence[str], name: str, *, workers: int | None = None, progress: bool | None = None
) -> Numbers:
    """(G, c) :func:`describe` of many molecules; NaN where a SMILES cannot be read."""
    missing = np.full(len(descriptor_names(name)), np.nan, dtype=np.float32)
    numbers: Numbers = _matrix(smiles, partial(_read_numbers, name), missing, workers, progress)
    return numbers


def _matrix(
    smiles: Sequence[str], read: Callable[[str], Any], missing: NDArray[Any], workers: int | None, progress: bool | None
) -> Any:
    from pointset.datasets.molecules.parallel import read_many

    rows = read_many(smiles, read, workers=workers, progress=progress)
    return np.stack([row if isinstance(row, np.ndarray) else missing for row in rows]) if rows else missing[None][:0]


def _read_counts(smiles: str) -> Counts:
    counts: Counts = _read(smiles, morgan_counts)
    return counts


def _read_numbers(name: str, smiles: str) -> Numbers:
    numbers: Numbers = _read(smiles, partial(describe, name=name))
    return numbers


def _read(smiles: str, function: Callable[[Mol], NDArray[Any]]) -> Any:
    """Of the molecule in its canonical order, in which a sum is rounded the same for all writings."""
    from pointset.datasets.molecules.parsing import canonical

    require_rdkit()
    text = screen(smiles)
    with quiet_rdkit(text):
        return function(canonical(parse_smiles(text, lenient=True), text, lenient=True)[0])


@cache
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=MORGAN_RADIUS, fpSize=MORGAN_BITS)


def _rdkit_numbers(mol: Mol) -> Numbers:
    numbers = np.empty(len(_rdkit_functions()), dtype=np.float32)
    at = 0
    for width, function in _rdkit_blocks():
        try:
            numbers[at : at + width] = function(mol)
        except _REFUSED:
            numbers[at : at + width] = np.nan
        at += width
    numbers[~np.isfinite(numbers)] = np.nan  # partial charges of metals
    return numbers


def _rdkit_matrix(readings: Sequence[Reading], molecules: Sequence[Molecule]) -> Numbers:
    """(G, 87) :func:`_rdkit_numbers` of all molecules; Crippen's contributions are found for all of them together."""
    numbers = np.empty((len(readings), len(_rdkit_functions())), dtype=np.float32)
    together = []
    for at, reading in enumerate(readings):
        try:
            numbers[at, _OF_CRIPPEN:] = _without_crippen(reading.mol)
            together.append(at)
        except _REFUSED:
            numbers[at] = _rdkit_numbers(reading.mol)
    if together:
        some = [readings[at] for at in together], [molecules[at] for at in together]
        numbers[together, :_OF_CRIPPEN] = _of_crippen(*some)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def _without_crippen(mol: Mol) -> list[float]:
    """(63,) all numbers but those of Crippen's contributions."""
    values: list[float] = []
    for width, function in _rdkit_blocks()[_CRIPPEN_BLOCKS:]:
        if width == 1:
            values.append(function(mol))
        else:
            values += function(mol)
    return values


def _of_crippen(readings: Sequence[Reading], molecules: Sequence[Molecule]) -> Floats:
    """(G, 24) surfaces by contribution to logP and to refractivity, and the sums of both."""
    logp, refractivity = crippen_contributions(readings, molecules)
    graph = np.repeat(np.arange(len(molecules)), [molecule.num_nodes for molecule in molecules])
    surface = _surfaces(molecules)

    def by(contributions: Floats, bounds: Sequence[float]) -> Floats:
        width = len(bounds) + 1
        place = graph * width + np.searchsorted(bounds, contributions, side="right")
        sums = np.bincount(place, surface, len(molecules) * width)
        return np.asarray(sums, dtype=np.float64).reshape(-1, width)

    sums = [np.bincount(graph, one, len(molecules))[:, None] for one in (logp, refractivity)]
    return np.concatenate([by(logp, _LOGP_BOUNDS), by(refractivity, _REFRACTIVITY_BOUNDS), *sums], axis=1)


def _surfaces(molecules: Sequence[Molecule]) -> Floats:
    """(N,) Labute's approximate surface of each atom, as in RDKit, which hands them over one by one and slowly.

    The sphere of an atom, less the caps that its neighbours and one hydrogen cut off.
    """
    x, edges, types = flat_molecules(molecules)
    radius = _radii()[x[:, 0]]
    atom, other = np.concatenate([edges, edges[::-1]], axis=1)
    shorter = np.concatenate([_SHORTER_BONDS[types]] * 2)

    def cap(own: Floats, others: Floats | float, shorter: Floats | float) -> Floats:
        apart = np.maximum(np.abs(own - others), own + others - shorter)
        return np.asarray(others * others - (own - apart) ** 2 / apart)

    cut = np.bincount(atom, cap(radius[atom], radius[other], shorter), len(x)) + cap(radius, float(_radii()[0]), 0.0)
    return np.asarray(np.pi * radius * (4 * radius - cut))


@cache
def _radii() -> Floats:
    """(119,) of the elements in the order of the atom features, Å; the last is the wildcard."""
    from rdkit.Chem import GetPeriodicTable

    radius = GetPeriodicTable().GetRb0
    return np.array([*(radius(number) for number in range(1, ATOM_COLUMNS[0].size)), radius(0)])


@cache
def _rdkit_blocks() -> list[tuple[int, Callable[[Any], Any]]]:
    """How many numbers each function gives: those that RDKit computes in C++, about ten at a time."""
    from rdkit.Chem import rdMolDescriptors

    fast = cast(Any, rdMolDescriptors)  # its stubs lack some
    return [
        (12, fast.SlogP_VSA_),
        (10, fast.SMR_VSA_),
        # Of the heavy atoms alone, whose contributions are known by now: hydrogens would have to be added, in 0.25 ms.
        (2, partial(fast.CalcCrippenDescriptors, includeHs=False)),
        (1, _number_of_atoms),
        (1, fast.CalcTPSA),
        (1, fast.CalcLabuteASA),
        (1, fast._CalcMolWt),
        (1, fast.CalcFractionCSP3),
        (1, fast.CalcHallKierAlpha),
        (1, fast.CalcKappa1),
        (14, fast.PEOE_VSA_),
        (42, fast.MQNs_),
    ]


def _number_of_atoms(mol: Any) -> int:
    """With hydrogens."""
    return int(mol.GetNumAtoms(onlyExplicit=False))


@cache
def _rdkit_functions() -> tuple[str, ...]:
    """A name for each number, in the order of the blocks."""
    single = (
        "LogPHeavy",
        "MRHeavy",
        "NumAtoms",
        "TPSA",
        "LabuteASA",
        "MolWt",
        "FractionCSP3",
        "HallKierAlpha",
        "Kappa1",
    )

    def block(name: str, width: int) -> list[str]:
        return [f"{name}{number}" for number in range(1, 1 + width)]

    return (*block("SlogP_VSA", 12), *block("SMR_VSA", 10), *single, *block("PEOE_VSA", 14), *block("MQN", 42))
