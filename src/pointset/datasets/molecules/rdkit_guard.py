"""RDKit kept at arm's length: missing, chatty or throwing, the caller sees only this package's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pointset.datasets.molecules.molecule import MoleculeError
from pointset.errors import MissingExtraError

_SHOWN_CHARACTERS = 60  # of a SMILES in a message
_REASON_CHARACTERS = 200


def require_rdkit() -> None:
    """Raise :class:`MissingExtraError` where RDKit is not installed."""
    try:
        import rdkit  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "reading SMILES needs RDKit, which is not installed: pip install 'pointset[chem]'"
        ) from None


@contextmanager
def rdkit_at_work(smiles: str) -> Iterator[None]:
    """Silence RDKit's log, and turn its exceptions into :class:`MoleculeError`."""
    from rdkit import rdBase

    try:
        with rdBase.BlockLogs():
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
