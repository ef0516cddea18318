"""How SMILES become graphs of a card's kind of molecules (:func:`reader_of_kind`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pointset.datasets.molecules.molecule import Molecule
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.molecules.zinc import read_zinc_molecule
from pointset.errors import SpecError

ReadMolecule = Callable[[str], Molecule]


def reader_of_kind(kind: str, settings: Mapping[str, Any] | None = None) -> ReadMolecule:
    """The reader for ``Card.molecules``.

    Args:
        kind: ``"ogb"`` or ``"zinc"``.
        settings: of :class:`MoleculeReader`, where the kind has any.

    Raises:
        SpecError: there is no such kind.
        MoleculeError: a setting is impossible.
    """
    if kind == "ogb":
        return MoleculeReader(**(settings or {}))
    if kind == "zinc":
        return read_zinc_molecule
    raise SpecError(f"the molecules are of the kind {kind!r:.40}, which this pointset cannot read. Upgrade pointset")
