"""Text that is no molecule: always a MoleculeError of one short line, never RDKit's chatter, never a crash."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointset.datasets.molecules import (
    Molecule,
    MoleculeError,
    MoleculeReader,
    murcko_scaffold,
    read_many,
    read_zinc_molecule,
)
from pointset.datasets.molecules.zinc import penalized_logp
from pointset.errors import GraphError, MissingExtraError

pytest.importorskip("rdkit")

READERS: list[Callable[[str], Any]] = [
    MoleculeReader(),
    MoleculeReader(canonical=False, lenient=True),
    read_zinc_molecule,
    penalized_logp,
]
READER_NAMES = ["canonical", "ogb", "zinc", "penalized_logp"]

BAD = {
    "empty": ("", "empty SMILES"),
    "blank": (" \t\n", "empty SMILES"),
    "text": ("hello", "not a SMILES: syntax error, near character 1"),
    "name": ("CCO ethanol", "'CCO' is followed by 'ethanol'"),
    "extension": ("CCO |$;;$|", "is followed by"),
    "nan": (float("nan"), "got nan of type float"),
    "none": (None, "of type NoneType"),
    "bytes": (b"CCO", "of type bytes"),
    "nul": ("C\0C", r"contains '\\x00'"),
    "accent": ("CÇ", "contains 'Ç'"),
    "surrogate": ("C\ud800", r"contains '\\ud800'"),
    "byte-order-mark": ("\ufeffCCO", r"contains '\\ufeff'"),
    "unclosed-ring": ("C1CC", "unclosed ring"),
    "unclosed-branch": ("CC(C", "extra open parentheses, near character 3"),
    "unopened-branch": ("CC)C", "extra close parentheses"),
    "unclosed-bracket": ("CC[N", "syntax error"),
    "element": ("[Xx]", "syntax error"),
    "reaction": ("CC>>CO", "is a reaction"),
    "reaction-with-agent": ("CC>O>CO", "is a reaction"),
    "million": ("C" * 10**6, "too long; expected at most 10,000 characters"),
    "parentheses": ("(" * 10_000, "syntax error"),
    "deep-open": ("C(" * 4_000, "not a SMILES"),
    "brackets": ("[" * 10_000, "syntax error"),
    "digits": ("C" + "1" * 9_000, "not a SMILES"),
}
BAD_CHEMISTRY = {
    "valence": ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5"),
    "kekule": ("c1cccc1", "Can't kekulize"),
    "aromatic-chain": ("cc", "marked aromatic"),
}


@pytest.mark.parametrize("read", READERS, ids=READER_NAMES)
@pytest.mark.parametrize(("smiles", "reason"), BAD.values(), ids=BAD)
def test_refused(smiles: str, reason: str, read: Callable[[str], Any], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MoleculeError, match=reason) as caught:
        read(smiles)
    message = str(caught.value)
    assert isinstance(caught.value, GraphError) and "\n" not in message and len(message) < 400
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("smiles", "reason"), BAD_CHEMISTRY.values(), ids=BAD_CHEMISTRY)
def test_impossible_chemistry(smiles: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MoleculeError, match=f"not a possible molecule: .*{reason}.*lenient=True"):
        MoleculeReader()(smiles)
    assert isinstance(MoleculeReader(lenient=True)(smiles), Molecule)
    assert capfd.readouterr() == ("", "")


def test_long_lists_of_atoms_are_cut() -> None:
    with pytest.raises(MoleculeError) as caught:
        MoleculeReader()("c1cccc1" * 1_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "smiles",
    ["C" * 5_000, "C(" * 3_000 + "C" + ")" * 3_000, ".".join("C" * 4_000), "c1ccccc1" * 500],
    ids=["chain", "nested", "fragments", "rings"],
)
def test_large_but_allowed(smiles: str) -> None:
    """In a process of its own, so that a crash of RDKit would be seen and not end the tests."""
    code = f"from pointset.datasets.molecules import MoleculeReader; MoleculeReader()({smiles!r})"
    start = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
    assert time.monotonic() - start < 20


@settings(max_examples=200)
@given(st.text(alphabet="CNOcn()[]123%@=#-+.*H:/\\>$ \t\0é", max_size=30))
def test_any_text_is_read_or_refused(smiles: str) -> None:
    for read in (MoleculeReader(), MoleculeReader(lenient=True), read_zinc_molecule):
        with suppress(MoleculeError):
            molecule = read(smiles)
            assert read(molecule.smiles).smiles == molecule.smiles
    assert isinstance(murcko_scaffold(smiles), str)


def test_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    for use in [*READERS, murcko_scaffold]:
        with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[chem\]'"):
            use("CCO")
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[chem\]'"):
        read_many(["CCO"], MoleculeReader())
