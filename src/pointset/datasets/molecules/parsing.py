"""SMILES → RDKit molecule, written in one way, or a :class:`MoleculeError` that gives the reason in one line."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats, Integers
from pointset.errors import GraphError, MissingExtraError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

Result = TypeVar("Result")
Steps = Generator[None, None, Result]  # work that pauses between its steps

MAX_CHARACTERS = 10_000
"""Longest SMILES that is read. RDKit's canonical order costs the square of the atoms: 10,000 atoms take 3 s, 100,000
more than 5 min. The longest SMILES of the paper's datasets has 1,043 characters."""

_ATOM_MAP = re.compile(r":[0-9]+\]")  # it stands last in its bracket
_ORDINARY = r"[^][@/\\<>$~*]*"  # no stereo, no unusual bonds, nothing in brackets
_PLAIN = re.compile(rf"{_ORDINARY}(?:\[nH\]{_ORDINARY})*")  # but for the brackets of pyrrole
_REACTION_ARROW = re.compile(r"(?<!-)>")  # `->` is a dative bond
_LOG_STAMP = re.compile(r"^\[\d\d:\d\d:\d\d\] ?(SMILES Parse Error: )?")
_ECHO = re.compile(r" (while parsing|for input):.*", re.DOTALL)  # RDKit repeats the whole SMILES here
_POSITION = re.compile(r"check for mistakes around position (\d+)")
_SHOWN_CHARACTERS = 60  # of a SMILES in a message
_REASON_CHARACTERS = 200


class MoleculeError(GraphError):
    """The text given is not a SMILES that can be made a graph."""


@dataclass(frozen=True, slots=True, eq=False)
class Molecule:
    """A molecule as a graph: n atoms are nodes, m bonds are undirected edges, each listed once."""

    x: Integers  # (n, c) atom features
    edges: Integers  # (2, m) first and second atom of each bond
    edge_attr: Integers  # (m, b) bond features
    pos: Floats | None  # (n, 3) coordinates in Å
    smiles: str  # the writing whose atom order the arrays follow
    descriptors: NDArray[np.float32] | None = None  # (c,) numbers of the molecule as a whole, where asked for
    fingerprint: NDArray[np.uint8] | None = None  # (256,) its packed Morgan bits, where asked for

    @property
    def num_nodes(self) -> int:
        """The n of the shapes above."""
        return len(self.x)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands in the place of a molecule that could not be read."""

    reason: str


def require_rdkit() -> None:
    """Raise :class:`MissingExtraError` where RDKit is not installed."""
    try:
        import rdkit  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "reading SMILES needs RDKit, which is not installed: pip install 'pointset[chem]'"
        ) from None


@contextmanager
def quiet_rdkit(smiles: str) -> Iterator[None]:
    """Silence RDKit's log, and turn its exceptions into :class:`MoleculeError`."""
    with silent_rdkit(), as_molecule_error(smiles):
        yield


@contextmanager
def silent_rdkit() -> Iterator[None]:
    """Silence RDKit's log."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        yield


@contextmanager
def as_molecule_error(smiles: str) -> Iterator[None]:
    """Turn RDKit's exceptions into :class:`MoleculeError`."""
    try:
        yield
    except MoleculeError:
        raise
    except (RuntimeError, ValueError) as error:  # RDKit's invariants, and its chemistry exceptions
        raise MoleculeError(f"RDKit cannot handle the SMILES {shown(smiles)}: {one_line(str(error))}") from None


def shown(smiles: str) -> str:
    """The SMILES in quotes, cut to a length that fits a message."""
    if len(smiles) <= _SHOWN_CHARACTERS:
        return repr(smiles)
    return f"{smiles[:_SHOWN_CHARACTERS]!r}… ({len(smiles):,} characters)"


def one_line(reason: str) -> str:
    """A reason of any length on one line of bounded length."""
    line = " ".join(reason.split())
    return line if len(line) <= _REASON_CHARACTERS else line[:_REASON_CHARACTERS] + "…"


def screen(smiles: object) -> str:
    """The text without white space around it, refused where RDKit would misread it, drop a part or take minutes."""
    if not isinstance(smiles, str):
        raise MoleculeError(f"got {one_line(repr(smiles))} of type {type(smiles).__name__}; expected a SMILES as text")
    text = smiles.strip()
    if not text:
        raise MoleculeError("got an empty SMILES; expected a molecule such as CCO")
    if len(text) > MAX_CHARACTERS:
        raise MoleculeError(
            f"the SMILES {shown(text)} is too long; expected at most {MAX_CHARACTERS:,} characters: leave it out, or "
            "raise pointset.datasets.molecules.parsing.MAX_CHARACTERS"
        )
    if (rest := text.split(maxsplit=1))[1:]:
        extended = rest[1].startswith("|") and rest[1].endswith("|")
        remedy = "leave out the CXSMILES extension" if extended else "put a name into a column of its own"
        raise MoleculeError(
            f"the SMILES {shown(rest[0])} is followed by {shown(rest[1])}; expected the SMILES alone: {remedy}"
        )
    if not (text.isascii() and text.isprintable()):
        strange = next(character for character in text if not (character.isascii() and character.isprintable()))
        raise MoleculeError(f"the SMILES {shown(text)} contains {strange!r}, which no SMILES may contain")
    if ">" in text and _REACTION_ARROW.search(text):
        raise MoleculeError(f"the SMILES {shown(text)} is a reaction; expected one molecule: split it at '>'")
    return text


def parse(text: str, *, lenient: bool = False) -> Mol:
    """The molecule as RDKit sanitises it; ``lenient`` also takes one with impossible chemistry, as it is written.

    Atom maps, as in [CH3:1], are labels and not chemistry. They are removed before anything is made of the text: RDKit
    would order the atoms by them, and take atoms that differ in nothing else for a reason for stereochemistry.
    """
    from rdkit import Chem

    unmapped = _ATOM_MAP.sub("]", text) if ":" in text else text
    mol = Chem.MolFromSmiles(unmapped)
    if mol is None and lenient:
        mol = _as_written(unmapped)
    if mol is None:
        raise MoleculeError(_why_not(text))
    return mol


def _as_written(text: str) -> Mol | None:
    """Sanitise all but what fails: valences first of all, which older RDKits let pass on Al, B and Ge."""
    from rdkit import Chem

    written = Chem.MolFromSmiles(text, sanitize=False)
    if written is None:
        return None
    written.UpdatePropertyCache(strict=False)
    operations = int(Chem.SANITIZE_ALL) & ~int(Chem.SANITIZE_PROPERTIES)
    mol = Chem.Mol(written)
    while failed := int(Chem.SanitizeMol(mol, operations, catchErrors=True)) & operations:
        operations &= ~failed
        mol = Chem.Mol(written)  # what fails leaves its work half done
    mol = Chem.RemoveHs(mol, sanitize=False)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def _why_not(text: str) -> str:
    from rdkit import Chem, rdBase

    with rdBase.CaptureErrorLog() as log:
        Chem.MolFromSmiles(text)
    messages = str(log.messages)
    first = _LOG_STAMP.sub("", messages.partition("\n")[0])
    reason = one_line(_ECHO.sub("", first)) or "no reason given by RDKit"
    if Chem.MolFromSmiles(text, sanitize=False) is None:
        place = f", near character {position[1]}" if (position := _POSITION.search(messages)) else ""
        return f"{shown(text)} is not a SMILES: {reason}{place}; correct the text"
    return f"the SMILES {shown(text)} is not a possible molecule: {reason}; correct it, or read with lenient=True"


def is_mol(item: object) -> bool:
    """Whether it is a molecule of RDKit; what was never imported cannot have been passed."""
    chemistry = sys.modules.get("rdkit.Chem.rdchem")
    return chemistry is not None and isinstance(item, chemistry.Mol)


def smiles_of(mol: Mol) -> str:
    """A SMILES of a molecule of RDKit, which is read as any other text is; the molecule stays as it is.

    Raises:
        MoleculeError: RDKit cannot write it.
    """
    from rdkit import Chem

    with silent_rdkit():
        try:
            return Chem.MolToSmiles(mol)
        except (RuntimeError, ValueError) as error:
            raise MoleculeError(f"RDKit cannot write the molecule as SMILES: {one_line(str(error))}") from None


def finished(steps: Steps[Result]) -> Result:
    """What comes out at the end of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def side_by_side(several: Sequence[Steps[Result]]) -> list[Result | Unreadable]:
    """What comes out of each, or why nothing does: the first step of all, then the second of all, and so on.

    Reading in this order takes a tenth less time than one molecule after the other, as RDKit's code for parsing and for
    writing is large, and each stays in the processor's cache meanwhile.
    """
    results: list[Any] = [None] * len(several)
    running = list(enumerate(several))
    while running:
        unfinished = []
        for place, steps in running:
            try:
                next(steps)
                unfinished.append((place, steps))
            except StopIteration as end:
                results[place] = end.value
            except MoleculeError as error:
                results[place] = Unreadable(str(error))
        running = unfinished
    return results


class Reading(NamedTuple):
    """A molecule of RDKit, and the SMILES whose order of atoms its arrays follow."""

    mol: Mol
    smiles: str
    order: list[int] | None = None  # the number in ``mol`` of each atom of the SMILES; None: they are equal


def canonical_reading(mol: Mol, text: str, *, lenient: bool = False) -> Steps[Reading]:
    """The molecule in the order of its canonical SMILES; ``text`` is what ``mol`` was parsed from.

    Most molecules are not read again, which would be half of the work: their atoms are put into the order in which
    RDKit wrote them. That gives the arrays of the second reading only where nothing in a molecule depends on the order
    in which it was first written. So these go the way of :func:`canonical_steps`: stereochemistry, whose tags refer to
    the order of the bonds; charges, which RDKit spreads over conjugated atoms from the first to the last; radicals,
    isotopes, metals; and ring systems of which RDKit lists more rings than are independent.
    """
    from rdkit import Chem

    smiles = Chem.MolToSmiles(mol)
    if not lenient and _PLAIN.fullmatch(smiles):
        independent = mol.GetNumBonds() - mol.GetNumAtoms() + 1 + smiles.count(".")
        if mol.GetRingInfo().NumRings() == independent:
            order = [int(at) for at in mol.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]
            return Reading(mol, smiles, order)
    yield
    return Reading(*(yield from canonical_steps(mol, text, lenient=lenient, written=smiles)))


def canonical(mol: Mol, text: str | None = None, *, lenient: bool = False) -> tuple[Mol, str]:
    """All of :func:`canonical_steps`."""
    return finished(canonical_steps(mol, text, lenient=lenient))


def canonical_steps(
    mol: Mol, text: str | None = None, *, lenient: bool = False, written: str | None = None
) -> Steps[tuple[Mol, str]]:
    """The molecule read again from its canonical SMILES, and that SMILES; ``text`` is what ``mol`` was parsed from.

    ``written`` is the canonical SMILES of ``mol``, where it is known.

    Reordering the atoms would not do: the chirality tags CW and CCW refer to the order of the bonds, so only molecules
    read from one and the same text have equal tags. The writing is repeated until it no longer changes; should two or
    more alternate, the first of them in alphabetical order is taken. A text that is canonical is not read again.
    """
    from rdkit import Chem

    seen = [] if text is None else [text]
    smiles = Chem.MolToSmiles(mol) if written is None else written
    while smiles not in seen:
        yield
        seen.append(smiles)
        mol = parse(smiles, lenient=lenient)
        yield
        smiles = Chem.MolToSmiles(mol)
    smiles = min(seen[seen.index(smiles) :])
    return (mol if smiles == seen[-1] else parse(smiles, lenient=lenient)), smiles


def elements_of(smiles: str, atoms: int) -> tuple[str, ...]:
    """The elements of so many atoms in the order of a SMILES that was read; hydrogens stand behind the others."""
    from rdkit import Chem

    with quiet_rdkit(smiles):
        mol = parse(smiles, lenient=True)
        mol = mol if mol.GetNumAtoms() == atoms else Chem.AddHs(mol)
        return tuple(mol.GetAtomWithIdx(at).GetSymbol() for at in range(mol.GetNumAtoms()))


def murcko_scaffold(smiles: str) -> str:
    """The Bemis–Murcko scaffold, ring systems with what links them, as canonical SMILES without stereochemistry.

    It is empty for a molecule without rings, and for one that cannot be read.
    """
    require_rdkit()
    from rdkit import Chem

    try:
        text = screen(smiles)
        with quiet_rdkit(text):
            mol, _ = canonical(parse(text), text)
            Chem.RemoveStereochemistry(mol)
            scaffold = Chem.MurckoDecompose(mol)
            # lenient: cutting a side chain off can leave an atom, such as [c-], that no molecule may have
            return canonical(scaffold, lenient=True)[1] if scaffold.GetNumAtoms() else ""
    except MoleculeError:
        return ""
