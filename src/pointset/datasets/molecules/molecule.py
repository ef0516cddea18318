"""What reading a molecule gives: a graph in plain arrays, or an error that says why not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pointset.errors import GraphError


class MoleculeError(GraphError):
    """The text given is not a SMILES that can be made a graph."""


@dataclass(frozen=True, slots=True, eq=False)
class Molecule:
    """A molecule as a graph: n atoms are nodes, m bonds are undirected edges, each listed once."""

    x: npt.NDArray[np.int64]  # (n, c) atom features
    edges: npt.NDArray[np.int64]  # (2, m) first and second atom of each bond
    edge_attr: npt.NDArray[np.int64]  # (m, b) bond features
    pos: npt.NDArray[np.float64] | None  # (n, 3) coordinates in Å
    smiles: str  # the writing whose atom order the arrays follow

    @property
    def num_nodes(self) -> int:
        """The n of the shapes above."""
        return len(self.x)
