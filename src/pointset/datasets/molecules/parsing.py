"""Text → RDKit molecule, or a :class:`MoleculeError` that gives RDKit's reason in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pointset.datasets.molecules.molecule import MoleculeError
from pointset.datasets.molecules.rdkit_guard import one_line, shown

if TYPE_CHECKING:
    from rdkit.Chem import Mol

MAX_CHARACTERS = 10_000
"""Longest SMILES that is read. RDKit's canonical order costs the square of the atoms: 10,000 atoms take 3 s, 100,000
more than 5 min. The longest SMILES of the paper's datasets has 1,043 characters."""

_REACTION_ARROW = re.compile(r"(?<!-)>")  # `->` is a dative bond
_LOG_STAMP = re.compile(r"^\[\d\d:\d\d:\d\d\] ?(SMILES Parse Error: )?")
_ECHO = re.compile(r" (while parsing|for input):.*", re.DOTALL)  # RDKit repeats the whole SMILES here
_POSITION = re.compile(r"check for mistakes around position (\d+)")


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
        raise MoleculeError(
            f"the SMILES {shown(rest[0])} is followed by {shown(rest[1])}; expected the SMILES alone: "
            "put a name into a column of its own"
        )
    if not (text.isascii() and text.isprintable()):
        strange = next(character for character in text if not (character.isascii() and character.isprintable()))
        raise MoleculeError(f"the SMILES {shown(text)} contains {strange!r}, which no SMILES may contain")
    if ">" in text and _REACTION_ARROW.search(text):
        raise MoleculeError(f"the SMILES {shown(text)} is a reaction; expected one molecule: split it at '>'")
    return text


def parse(text: str, *, lenient: bool = False) -> Mol:
    """The molecule as RDKit sanitises it; ``lenient`` also takes one with impossible chemistry, as it is written."""
    from rdkit import Chem

    mol = Chem.MolFromSmiles(text)
    if mol is None and lenient:
        mol = _as_written(text)
    if mol is None:
        raise MoleculeError(_why_not(text))
    if ":" in text:
        for atom in mol.GetAtoms():
            atom.SetAtomMapNum(0)  # a label as in [CH3:1], not chemistry, but it would change the canonical order
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
