"""ZINC's target: how well a molecule dissolves in fat, less how hard it is to make and its largest ring."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx

from pointset.datasets.molecules.parsing import parse, screen
from pointset.datasets.molecules.rdkit_guard import rdkit_at_work, require_rdkit
from pointset.errors import MissingExtraError

if TYPE_CHECKING:
    from rdkit.Chem import Mol


def penalized_logp(smiles: str) -> float:
    """The target y = 0.6976318·logP − 1.1981676·SA − 3.47513914·max(L − 6, 0) + 2.11182998.

    logP is Crippen's octanol–water coefficient, SA the synthetic accessibility of Ertl and Schuffenhauer (1 easy … 10
    hard) and L the longest cycle of networkx' ``cycle_basis``, started at the first atom of the SMILES. A bridged ring
    system has several cycle bases, so there L can depend on how the molecule is written: that is how ZINC defines it.

    Raises:
        MoleculeError: the SMILES cannot be read.
        MissingExtraError: RDKit, or its Contrib folder, is not installed.
    """
    require_rdkit()
    from rdkit.Chem import rdMolDescriptors

    accessibility = _accessibility_score()
    text = screen(smiles)
    with rdkit_at_work(text):
        mol = parse(text)
        logp = rdMolDescriptors.CalcCrippenDescriptors(mol)[0]
        ring = max(_longest_cycle(mol) - 6, 0)
        return float(0.6976318 * logp - 1.1981676 * accessibility(mol) - 3.47513914 * ring + 2.11182998)


def _longest_cycle(mol: Mol) -> int:
    """Atoms in the longest cycle of the basis, 0 without cycles; neighbours are visited in the order of the atoms."""
    from rdkit import Chem

    graph = nx.from_numpy_array(Chem.GetAdjacencyMatrix(mol))
    return max(map(len, nx.cycle_basis(graph, root=0)), default=0)


@cache
def _accessibility_score() -> Callable[[object], float]:
    """RDKit's own script, which is shipped beside the package and not inside it.

    It unpickles its table of fragment scores: a file of the installed RDKit, never one of the user's.
    """
    from rdkit import RDConfig

    script = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    spec = importlib.util.spec_from_file_location("_rdkit_sascorer", script)
    if spec is None or spec.loader is None or not script.is_file():
        raise MissingExtraError(
            f"RDKit's script SA_Score is not there ({script}); install the RDKit that carries it: "
            "pip install 'pointset[chem]'"
        )
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves the file open
        spec.loader.exec_module(module)
        module.readFragmentScores()
    score: Callable[[object], float] = module.calculateScore
    return score
